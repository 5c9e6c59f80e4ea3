"""Reading operations, as generators of requests: get, pages of queries and scans, counts.

`chunk` reads one page of a query; the store loops over the pages.
"""

from collections.abc import Sequence
from typing import Any, Final, NamedTuple

from attrs import evolve, field, frozen

from odm.entities.query import Query
from odm.errors import BadValue, ItemNotFound
from odm.expressions.nodes import Condition, Item
from odm.planner.plan import Plan, make_plan
from odm.procedures.context import Context
from odm.procedures.shard_merge import NOTHING, Given, Stream, given_at, merged, streams_of, window
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.limits import SHORT_KEY, check_key
from odm.protocol.predicates import every, has_tag
from odm.schema.entity import EntitySchema, Key
from odm.schema.target import Target

MOST_SEGMENTS: Final = 1_000_000
"""The most segments of a scan (AWS: Scan, TotalSegments)."""

MOST_CONCURRENT: Final = 1000
"""The most segments of a scan that are read concurrently."""


@frozen
class Place:
    """Where a read continues: after a position in a partition, or at its start (None).

    Attributes:
        partition: the partition key, without shard.
        streams: its shards, with their items that were read but not returned; empty: computed from the position.
        waiting: the ranges of shards to read after ``streams``, see `odm.procedures.shard_merge.window`.
        given: the items returned last.
    """

    partition: str
    position: req.Position | None = None
    streams: tuple[Stream, ...] = field(default=(), repr=False)
    waiting: tuple[Stream, ...] = field(default=(), repr=False)
    given: Given = field(default=NOTHING, repr=False)


@frozen
class Reading:
    """A query in progress: its plan, the next place, how many more results to return, and the consistency."""

    plan: Plan
    place: Place
    left: int | None = None
    consistent: bool = True


@frozen
class Segment:
    """A part of a scan, by its number ``(number, of)`` or by its limits, and the position before its next page.

    Without number and limits, it is the whole table.
    """

    number: tuple[int, int] | None = None
    part: req.Part | None = None
    after: req.Position | None = None


@frozen
class Scanning:
    """A scan in progress: the entity (None: all), the filter, and the segments that are not finished.

    ``uncut``: the backend has not been asked yet for the limits of the segments.
    """

    entity: EntitySchema | None
    filter: Condition | None
    segments: tuple[Segment, ...]
    consistent: bool
    uncut: bool = False

    @property
    def pattern(self) -> str:
        """The name that stands for a pattern, since a scan does not use one."""
        return f"scan({'' if self.entity is None else self.entity.name})"


class Found(NamedTuple):
    """A stored item, and the position where it was found."""

    item: Item
    position: req.Position


@frozen
class _Read:
    """Stored items with their positions in a partition, and the place from which more may follow."""

    partition: str
    items: Sequence[Item] = ()
    positions: Sequence[req.Position] = ()
    next: Place | None = None


def get(context: Context, target: Target, *, consistent: bool = True) -> CoreGen[Any]:
    """The entity under a key, or None."""
    if len(target.key.partition) + len(target.key.sort) > SHORT_KEY:
        context.check_key(target)
    item = yield req.Get(target.key, consistent, pattern=target.entity.primary.full_name)
    if item is None:
        return None
    return context.schema.decode(item, target.key, skip_unknown=context.skip_unknown, living=context.living)


def one(context: Context, target: Target, *, consistent: bool = True) -> CoreGen[Any]:
    """The entity under a key; raises ItemNotFound if it does not exist."""
    found = yield from get(context, target, consistent=consistent)
    if found is None:
        raise ItemNotFound(f"{target}: there is no such item in table {context.schema.name!r}")
    return found


def exists(context: Context, target: Target) -> CoreGen[bool]:
    """Whether there is an item under a key; the item is not validated."""
    if len(target.key.partition) + len(target.key.sort) > SHORT_KEY:
        context.check_key(target)
    item = context.living((yield req.Get(target.key, pattern=target.entity.primary.full_name)))
    if item is None:
        return False
    context.check_known(item, target.key)
    return True


def begin(context: Context, query: Query[Any], *, consistent: bool = True) -> Reading | None:
    """Plan a query. Returns None if no key can match."""
    plan = make_plan(context.schema, query)
    if plan.empty:
        return None
    for partition in plan.partitions:
        if len(partition) > SHORT_KEY:
            check_key(Key(partition), plan.pattern.index, plan.entity, context.limits)
    return Reading(plan, Place(plan.reading_order[0]), query.most, consistent and plan.pattern.kind != "global")


def chunk(context: Context, reading: Reading) -> CoreGen[tuple[list[Any], Reading | None]]:
    """One page of results as the backend returns it, and the reading that continues, or None at the end."""
    found = yield from _read(context, reading, reading.left)
    return _decoded(context, found), _further(reading, found.next, len(found.items))


def first(context: Context, reading: Reading | None) -> CoreGen[Any]:
    """The first result, or None."""
    while reading is not None:
        items, reading = yield from chunk(context, reading)
        if items:
            return items[0]
    return None


def page(context: Context, reading: Reading, size: int) -> CoreGen[tuple[list[Any], Reading | None]]:
    """Up to ``size`` results, and the reading that continues: None exactly if no result follows."""
    last = reading.left is not None and reading.left <= size
    want = size if not last else int(reading.left or 0)
    look = want + (not last)  # one more, to see whether a result follows
    entities: list[Any] = []
    places: list[Place] = []
    going: Reading | None = reading
    while going is not None and len(entities) < look:
        found = yield from _read(context, going, look - len(entities))
        entities += _decoded(context, found)
        places += [Place(found.partition, position) for position in found.positions]
        going = None if found.next is None else evolve(going, place=found.next)
    more = len(entities) > want
    return entities[:want], _further(reading, places[want - 1], want) if more else None


def count(context: Context, reading: Reading) -> CoreGen[int]:
    """The number of results of the query."""
    if reading.plan.leaving:
        return (yield from _count_moving(context, reading))
    total, place = 0, reading.place
    streams = _streams(reading, place)
    while streams:
        left = None if reading.left is None else reading.left - total
        requests = [request_of(context, reading, stream, left, counting=True) for stream in streams]
        answers = yield from _concurrently(requests)
        for stream, answer in zip(streams, answers, strict=True):
            if answer.strangers:
                yield from _refuse_strangers(context, reading, stream)
        total += sum(answer.count for answer in answers)
        if reading.left is not None and total >= reading.left:
            return reading.left
        streams = tuple(stream.fed(answer) for stream, answer in zip(streams, answers, strict=True) if answer.next)
        if not streams and (following := _following(reading.plan, place)) is not None:
            place = following
            streams = _streams(reading, place)
    return total


def _refuse_strangers(context: Context, reading: Reading, stream: Stream) -> CoreGen[None]:
    """Raise ItemInvalid after a count met an item with an unknown tag: read the items until it is found."""
    going: Stream | None = stream
    while going is not None:
        page: req.Page = yield request_of(context, reading, going, None)
        for item, position in zip(page.items, page.positions, strict=True):
            context.check_known(item, position.key)
        going = None if page.next is None else evolve(going, after=page.next)


def _count_moving(context: Context, reading: Reading) -> CoreGen[int]:
    """Count results while entries move between shards: an entry can be found twice, so results are counted by key."""
    total = 0
    going: Reading | None = reading
    while going is not None:
        found = yield from _read(context, going, going.left)
        _check_known(context, found)
        total += len(found.positions)
        going = _further(going, found.next, len(found.positions))
    return total


def stored_chunk(context: Context, reading: Reading) -> CoreGen[tuple[list[Found], Reading | None]]:
    """The stored items of one page with their positions, and the reading that continues, or None at the end."""
    found = yield from _read(context, reading, reading.left)
    stored = [Found(*one) for one in zip(found.items, found.positions, strict=True)]
    return stored, _further(reading, found.next, len(stored))


def keys_chunk(context: Context, reading: Reading) -> CoreGen[tuple[list[Key], Reading | None]]:
    """The item keys of one page, including expired items, and the reading that continues, or None at the end.

    Raises:
        ItemInvalid: an item on the page has an unknown tag.
    """
    found = yield from _read(context, reading, reading.left, expired=True)
    _check_known(context, found)
    return [position.key for position in found.positions], _further(reading, found.next, len(found.items))


def rows_chunk(context: Context, reading: Reading) -> CoreGen[tuple[list[tuple[Key, Item]], Reading | None]]:
    """As `keys_chunk`, with the stored items."""
    found = yield from _read(context, reading, reading.left, expired=True)
    _check_known(context, found)
    rows = [(position.key, item) for position, item in zip(found.positions, found.items, strict=True)]
    return rows, _further(reading, found.next, len(rows))


def begin_scan(
    context: Context,
    cls: type | None,
    conditions: Sequence[Condition],
    *,
    consistent: bool,
    segments: int | None = None,
    segment: tuple[int, int] | None = None,
) -> Scanning:
    """Plan a scan.

    Raises:
        BadValue: conditions without an entity, or the segments are out of range.
    """
    parts = tuple(map(Segment, _segments(segments, segment)))
    entity = None if cls is None else context.schema.entity(cls)
    if entity is None:
        if conditions:
            raise BadValue("scan() with conditions needs their entity first: scan(Order, Order.total > 100)")
        return Scanning(None, None, parts, consistent, len(parts) > 1)
    lowered = [entity.codec.lower(condition) for condition in conditions]
    return Scanning(entity, every(*lowered, has_tag(entity.tag)), parts, consistent, len(parts) > 1)


def _segments(segments: int | None, segment: tuple[int, int] | None) -> tuple[tuple[int, int] | None, ...]:
    """The segments to scan: all of ``segments``, only ``segment``, or the whole table (None)."""
    if segments is not None and segment is not None:
        raise BadValue("scan() takes segments=4, to read all parts together, or segment=(0, 4), to read one: not both")
    if segment is not None:
        if not isinstance(segment, tuple) or len(segment) != 2 or not all(type(number) is int for number in segment):
            raise BadValue(f"scan(segment={segment!r}): give the number of the part and how many there are: (0, 4)")
        number, of = segment
        if not 0 <= number < of <= MOST_SEGMENTS:
            raise BadValue(
                f"scan(segment={segment!r}): parts are numbered from 0, and there are at most {MOST_SEGMENTS}: "
                "(0, 4) to (3, 4) are the four quarters"
            )
        return (segment if of > 1 else None,)
    if segments is None:
        return (None,)
    if type(segments) is not int or not 1 <= segments <= MOST_CONCURRENT:
        raise BadValue(f"scan(segments={segments!r}): give the number of parts to read, 1 to {MOST_CONCURRENT}")
    return tuple((number, segments) for number in range(segments)) if segments > 1 else (None,)


def scan_chunk(context: Context, scanning: Scanning) -> CoreGen[tuple[list[Any], Scanning | None]]:
    """One page of each segment of a scan, and the scan that continues, or None at the end."""
    if scanning.uncut:
        scanning = yield from _cut(scanning)
    filter_ = context.filter(scanning.entity, scanning.filter)
    scan = req.Scan(filter_, consistent=scanning.consistent, pattern=scanning.pattern)
    requests = [evolve(scan, after=s.after, segment=s.number, part=s.part) for s in scanning.segments]
    pages = yield from _concurrently(requests)
    items = [entity for answer in pages for entity in context.decode_all(answer.items, answer.positions)]
    left = [evolve(s, after=a.next) for s, a in zip(scanning.segments, pages, strict=True) if a.next is not None]
    return items, evolve(scanning, segments=tuple(left)) if left else None


def _cut(scanning: Scanning) -> CoreGen[Scanning]:
    """The scan, with the limits of its segments from the backend; they stay the same for all pages."""
    parts: tuple[req.Part, ...] | None = yield req.Split(len(scanning.segments), pattern=scanning.pattern)
    if parts is None:
        return evolve(scanning, uncut=False)
    return evolve(scanning, uncut=False, segments=tuple(Segment(part=part) for part in parts))


def first_request(context: Context, reading: Reading) -> req.Query:
    """The first request of a reading; with several shards, that of the first shard."""
    return request_of(context, reading, _streams(reading, reading.place)[0], reading.left)


def request_of(
    context: Context,
    reading: Reading,
    stream: Stream,
    most: int | None,
    *,
    counting: bool = False,
    expired: bool = False,
) -> req.Query:
    """The request for the next page of a shard."""
    plan = reading.plan
    filter_ = context.filter(plan.entity, plan.filter, expired=expired)
    return req.Query(
        stream.partition,
        stream.lo,
        stream.hi,
        index=plan.pattern.index,
        filter=filter_,
        reverse=plan.query.descending,
        limit=most,
        after=stream.after,
        consistent=reading.consistent,
        count=counting,
        pattern=plan.name,
    )


def _read(context: Context, reading: Reading, most: int | None, *, expired: bool = False) -> CoreGen[_Read]:
    """The next results in order, after reading a page of each shard that has no items waiting to be returned."""
    place, plan = reading.place, reading.plan
    streams, waiting = list(_streams(reading, place)), place.waiting
    given = given_at(plan, place.position) if place.given == NOTHING else place.given
    if plan.leaving and not place.streams:
        while lacking := [at for at, stream in enumerate(streams) if stream.leaving and stream.lacks_step]:
            yield from _feed(context, reading, streams, lacking, most, expired=expired)
        now, waiting = window(streams, descending=plan.query.descending)
        streams = list(now)
    while lacking := [at for at, stream in enumerate(streams) if stream.lacks]:
        yield from _feed(context, reading, streams, lacking, most, expired=expired)
        if len(streams) == 1:
            break  # no other shard to merge with, so even an empty page is returned
    items, positions, rest, given = merged(streams, most, given, descending=plan.query.descending)
    if rest or waiting:
        return _Read(place.partition, items, positions, Place(place.partition, None, rest, waiting, given))
    return _Read(place.partition, items, positions, _following(plan, place))


def _feed(
    context: Context,
    reading: Reading,
    streams: list[Stream],
    lacking: Sequence[int],
    most: int | None,
    *,
    expired: bool,
) -> CoreGen[None]:
    """Read a page of the shards at the indexes ``lacking``."""
    requests = [request_of(context, reading, streams[at], most, expired=expired) for at in lacking]
    answers = yield from _concurrently(requests)
    for at, answer in zip(lacking, answers, strict=True):
        streams[at] = streams[at].fed(answer)


def _concurrently(requests: Sequence[req.Request]) -> CoreGen[Sequence[Any]]:
    """The responses to requests that are sent concurrently."""
    if len(requests) == 1:
        return [(yield requests[0])]
    answers: tuple[Any, ...] = yield req.Gather(tuple(requests))
    return answers


def _streams(reading: Reading, place: Place) -> tuple[Stream, ...]:
    return place.streams or place.waiting or streams_of(reading.plan, place.partition, place.position)


def _following(plan: Plan, place: Place) -> Place | None:
    """The next partition."""
    order = plan.reading_order
    later = order[order.index(place.partition) + 1 :]
    return Place(later[0]) if later else None


def _check_known(context: Context, found: _Read) -> None:
    for item, position in zip(found.items, found.positions, strict=True):
        context.check_known(item, position.key)


def _decoded(context: Context, found: _Read) -> list[Any]:
    return context.decode_all(found.items, found.positions)


def _further(reading: Reading, place: Place | None, taken: int) -> Reading | None:
    left = None if reading.left is None else reading.left - taken
    if place is None or (left is not None and left <= 0):
        return None
    return evolve(reading, place=place, left=left)
