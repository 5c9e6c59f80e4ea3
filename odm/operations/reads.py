"""Reading operations, as generators of requests: get, get_many, pages of queries and scans, counts.

A query is one page an operation: `chunk` reads one, and the loop over pages is the store's.
"""

from collections.abc import Sequence
from typing import Any

from attrs import evolve, field, frozen

from odm.entities.query import Query
from odm.errors import BadValue, ItemNotFound
from odm.expressions.nodes import Condition, Item
from odm.operations import ir
from odm.operations.backend import Gen
from odm.operations.context import Context
from odm.operations.guards import every, has_tag
from odm.operations.plan import Plan, make_plan
from odm.schema.model import EntitySchema, Key


@frozen
class Place:
    """Where a reading goes on: behind a position of a partition, or (None) at its start."""

    partition: str
    position: ir.Position | None = None


@frozen
class Reading:
    """A query under way: its plan, the next place, how many more results are wanted, and how to read."""

    plan: Plan
    place: Place
    left: int | None = None
    consistent: bool = True


@frozen
class Scanning:
    """A scan under way: whose items (None: everybody's), the filter, and where to go on."""

    entity: EntitySchema | None
    filter: Condition | None
    after: ir.Position | None
    consistent: bool


@frozen
class _Found:
    """Stored items with the place behind each, and where more may follow."""

    items: Sequence[Item] = ()
    positions: Sequence[ir.Position] = ()
    places: Sequence[Place] = ()
    next: Place | None = None
    count: int = field(default=0)


def get(context: Context, query: Query[Any], *, consistent: bool = True) -> Gen[Any]:
    """The entity under a key, or None."""
    _, key, _ = context.key_of(query)
    item = context.living((yield ir.Get(key, consistent)))
    return None if item is None else context.decode(item, key)


def one(context: Context, query: Query[Any], *, consistent: bool = True) -> Gen[Any]:
    """The entity under a key; ItemNotFound if there is none."""
    found = yield from get(context, query, consistent=consistent)
    if found is None:
        raise ItemNotFound(f"{query}: there is no such item in table {context.schema.name!r}")
    return found


def exists(context: Context, query: Query[Any]) -> Gen[bool]:
    """Whether there is an item under a key; it is not validated."""
    _, key, _ = context.key_of(query)
    return context.living((yield ir.Get(key))) is not None


def get_many(context: Context, queries: Sequence[Query[Any]], *, consistent: bool = True) -> Gen[list[Any]]:
    """The entities under keys, in the keys' order, None where there is none."""
    keys = [context.key_of(query)[1] for query in queries]
    distinct = tuple(dict.fromkeys(keys))
    items = (yield ir.BatchGet(distinct, consistent)) if distinct else ()
    now = context.now()
    found = {
        key: context.decode(item, key)
        for key, item in zip(distinct, items, strict=True)
        if now.living(item) is not None
    }
    return [found.get(key) for key in keys]


def begin(context: Context, query: Query[Any], *, consistent: bool = True) -> Reading | None:
    """Plan a query; None when no key can match, so that there is nothing to read."""
    plan = make_plan(context.schema, query)
    if plan.empty:
        return None
    return Reading(plan, Place(plan.reading_order[0]), query.most, consistent and plan.pattern.index is None)


def chunk(context: Context, reading: Reading) -> Gen[tuple[list[Any], Reading | None]]:
    """One page of results as the backend cuts it, and the reading that goes on, or None at the end."""
    found = yield from _read(context, reading, reading.left)
    return _decoded(context, found), _further(reading, found.next, len(found.items))


def first(context: Context, reading: Reading | None) -> Gen[Any]:
    """The first result, or None."""
    while reading is not None:
        items, reading = yield from chunk(context, reading)
        if items:
            return items[0]
    return None


def page(context: Context, reading: Reading, size: int) -> Gen[tuple[list[Any], Reading | None]]:
    """``size`` results while there are as many, and the reading that goes on: None exactly when nothing follows."""
    last = reading.left is not None and reading.left <= size
    want = size if not last else int(reading.left or 0)
    look = want + (not last)  # one more tells whether anything follows
    entities: list[Any] = []
    places: list[Place] = []
    going: Reading | None = reading
    while going is not None and len(entities) < look:
        found = yield from _read(context, going, look - len(entities))
        entities += _decoded(context, found)
        places += found.places
        going = None if found.next is None else evolve(going, place=found.next)
    more = len(entities) > want
    return entities[:want], _further(reading, places[want - 1], want) if more else None


def count(context: Context, reading: Reading) -> Gen[int]:
    """How many results the query has."""
    total = 0
    going: Reading | None = reading
    while going is not None:
        found = yield from _read(context, going, going.left, counting=True)
        total += found.count
        going = _further(going, found.next, found.count)
    return total


def keys_chunk(context: Context, reading: Reading) -> Gen[tuple[list[Key], Reading | None]]:
    """The item keys of one page, expired items' too, and the reading that goes on, or None at the end."""
    found = yield from _read(context, reading, reading.left, expired=True)
    return [position.key for position in found.positions], _further(reading, found.next, len(found.items))


def begin_scan(context: Context, cls: type | None, conditions: Sequence[Condition], *, consistent: bool) -> Scanning:
    """Understand a scan.

    Raises:
        BadValue: conditions without the entity that they are about.
    """
    entity = None if cls is None else context.schema.entity(cls)
    if entity is None:
        if conditions:
            raise BadValue("scan() with conditions needs their entity first: scan(Order, Order.total > 100)")
        return Scanning(None, None, None, consistent)
    lowered = [entity.codec.lower(condition) for condition in conditions]
    return Scanning(entity, every(*lowered, has_tag(entity.tag)), None, consistent)


def scan_chunk(context: Context, scanning: Scanning) -> Gen[tuple[list[Any], Scanning | None]]:
    """One page of a scan, and the scan that goes on, or None at the end."""
    filter_ = context.filter(scanning.entity, scanning.filter)
    page_: ir.Page = yield ir.Scan(filter_, after=scanning.after, consistent=scanning.consistent)
    items = [context.decode(item, p.key) for item, p in zip(page_.items, page_.positions, strict=True)]
    return items, None if page_.next is None else evolve(scanning, after=page_.next)


def request_of(
    context: Context, reading: Reading, most: int | None, *, counting: bool = False, expired: bool = False
) -> ir.Query:
    """The request for the reading's next page."""
    plan, place = reading.plan, reading.place
    filter_ = context.filter(plan.entity, plan.filter, expired=expired)
    return ir.Query(
        place.partition,
        plan.lo,
        plan.hi,
        index=plan.pattern.index,
        filter=filter_,
        reverse=plan.query.descending,
        limit=most,
        after=place.position,
        consistent=reading.consistent,
        count=counting,
    )


def _read(
    context: Context, reading: Reading, most: int | None, *, counting: bool = False, expired: bool = False
) -> Gen[_Found]:
    answer: ir.Page = yield request_of(context, reading, most, counting=counting, expired=expired)
    partition = reading.place.partition
    places = [Place(partition, position) for position in answer.positions]
    if answer.next is not None:
        following: Place | None = Place(partition, answer.next)
    else:
        order = reading.plan.reading_order
        later = order[order.index(partition) + 1 :]
        following = Place(later[0]) if later else None
    return _Found(answer.items, answer.positions, places, following, answer.count)


def _decoded(context: Context, found: _Found) -> list[Any]:
    return [context.decode(item, p.key) for item, p in zip(found.items, found.positions, strict=True)]


def _further(reading: Reading, place: Place | None, taken: int) -> Reading | None:
    left = None if reading.left is None else reading.left - taken
    if place is None or (left is not None and left <= 0):
        return None
    return evolve(reading, place=place, left=left)
