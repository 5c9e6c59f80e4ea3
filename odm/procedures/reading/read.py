"""Reading operations, as generators of requests: get, pages of queries, counts.

`chunk` reads one page of a query; the store loops over the pages.
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from odm.codec import TAG
from odm.entities.query import Query
from odm.errors import ItemNotFound
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Condition, Item
from odm.immutable import Immutable, evolve, field
from odm.observe.events import LOG
from odm.planner.compile import make_plan
from odm.planner.key_checks import KeyCheck, key_check
from odm.planner.plan import Plan
from odm.procedures.blobs import check_many, with_values
from odm.procedures.concurrent import sent_together
from odm.procedures.context import Context, Fitting
from odm.procedures.pace import START, Pace
from odm.procedures.reading.partial import Selection, selection_of
from odm.procedures.reading.shards import (
    NOTHING,
    Given,
    Stream,
    blocking,
    given_at,
    merged,
    pace_of,
    settled,
    streams_of,
    window,
)
from odm.procedures.writing.upgrades import comparable, judged, passing_older, up_to_date
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.limits import SHORT_KEY, check_key
from odm.protocol.predicates import every
from odm.schema.entity import Key, Target, held_by

MOST_AHEAD: Final = 1000
"""A read of the next results takes at most so many items, when the items before were mostly dropped by the check."""


_WARNED: Final[set[tuple[str, str]]] = set()
"""The tables and patterns of which this process has logged that they are not backfilled."""


class Place(Immutable):
    """Where a read continues: after a position in a partition, or at its start (None).

    Attributes:
        partition: the partition key, without shard.
        position: every result up to it was returned; the item there need not be a result.
        streams: its shards, with their items that were read but not returned; empty: computed from the position.
        waiting: the ranges of shards to read after ``streams``, see `odm.procedures.reading.shards.window`.
        last_items: the items returned last.
        pace: how many items the next requests read, if the query has a filter.
    """

    partition: str
    position: req.Position | None = None
    streams: tuple[Stream, ...] = field(default=(), repr=False)
    waiting: tuple[Stream, ...] = field(default=(), repr=False)
    last_items: Given = field(default=NOTHING, repr=False)
    pace: Pace = field(default=START, repr=False)


class Reading(Immutable):
    """A query in progress: its plan, the next place, how many more results to return, and the consistency.

    ``bounded``: the number of requests is limited, so that each of them must be one of the service's. ``selection``:
    the fields to read; None: whole items. ``back``: it goes back from a page, against the order of the caller's query:
    the plan has the opposite order. ``binding``: that of its cursors, see `odm.procedures.reading.cursor`; "" if not
    computed yet. ``check``: the conditions of the key range, to check again on the items; None: it is not of an index.
    ``dropped``: the items that did not meet them so far.
    """

    plan: Plan
    place: Place
    remaining: int | None = None
    consistent: bool = True
    bounded: bool = False
    selection: Selection | None = None
    back: bool = False
    binding: str = ""
    check: KeyCheck | None = field(default=None, repr=False)
    dropped: int = 0

    @property
    def begins(self) -> bool:
        """Whether nothing comes before its place."""
        return self.place.position is None and self.place.partition == self.plan.reading_order[0]

    def turned(self, place: Place, remaining: int | None) -> "Reading":
        """The reading in the opposite order."""
        plan = evolve(self.plan, query=self.plan.query.reverse())
        return evolve(self, plan=plan, place=place, remaining=remaining, back=not self.back, dropped=0)


class Paged(NamedTuple):
    """The results of a page, the reading that continues, and the one that goes back to what comes before the page.

    Each is None if nothing is there. ``before`` is not read, so it may find nothing where items were deleted.
    """

    items: list[Any]
    further: Reading | None
    before: Reading | None


class Found(NamedTuple):
    """A stored item, and the position where it was found."""

    item: Item
    position: req.Position


_Decoder: TypeAlias = Callable[[Sequence[Item], Sequence[req.Position]], Fitting]


class _Read(Immutable):
    """Stored items with their positions in a partition, and the place from which more may follow.

    ``entities``: what they make, if they were decoded because the store skips those that do not fit.
    """

    partition: str
    items: Sequence[Item] = ()
    positions: Sequence[req.Position] = ()
    next: Place | None = None
    pace: Pace = START
    entities: list[Any] | None = None


def get(context: Context, target: Target, *, consistent: bool = True, only: object = None) -> CoreGen[Any]:
    """The entity under a key, or None; with ``only``, its fields."""
    if only is not None:
        return (yield from _get_part(context, target, consistent, only))
    if len(target.key.partition) + len(target.key.sort) > SHORT_KEY:
        context.check_key(target)
    item = yield req.Get(target.key, consistent, pattern=target.entity.primary.full_name)
    if item is None:
        return None
    if context.bind is not None:
        return (yield from _get_large(context, target, item))
    entity = context.schema.decode(item, target.key, skip_unknown=context.skip_unknown, living=context.living)
    # Entities of one key are distinguished by match=: then an item of the other is not one of this.
    return entity if type(entity) is target.entity.cls else None


def _get_large(context: Context, target: Target, item: Item | None) -> CoreGen[Any]:
    """The entity of an item, in a table with large values."""
    if item is not None and context.living(item) is not None:
        item = yield from with_values(context, target.key, item, target.entity.primary.full_name)
    item = context.living(item)
    entity = None if item is None else context.decode(item, target.key)
    return entity if type(entity) is target.entity.cls else None


def _get_part(context: Context, target: Target, consistent: bool, only: object) -> CoreGen[Any]:
    asked = selection_of(context, target.entity.cls, only, "get")
    assert asked is not None
    context.check_key(target)
    request = req.Get(target.key, consistent, pattern=target.entity.primary.full_name, only=asked.only)
    item = context.living((yield request))
    return None if item is None else asked.of(context, item, target.key)


def one(context: Context, target: Target, *, consistent: bool = True, only: object = None) -> CoreGen[Any]:
    """The entity under a key; raises ItemNotFound if it does not exist."""
    entity = yield from get(context, target, consistent=consistent, only=only)
    if entity is None:
        raise ItemNotFound(f"{target}: there is no such item in table {context.schema.name!r}")
    return entity


def exists(context: Context, target: Target) -> CoreGen[bool]:
    """Whether there is an item under a key; the item is not validated."""
    if len(target.key.partition) + len(target.key.sort) > SHORT_KEY:
        context.check_key(target)
    item = context.living((yield req.Get(target.key, pattern=target.entity.primary.full_name)))
    if item is None:
        return False
    context.check_known(item, target.key)
    return bool(item.get(TAG) == target.entity.tag)


def begin(
    context: Context, query: Query[Any], *, consistent: bool = True, only: object = None, call: str = "query"
) -> Reading | None:
    """Plan a query. Returns None if no key can match."""
    plan = make_plan(context.schema, query)
    asked = (
        None if only is None else selection_of(context, None if plan.entity is None else plan.entity.cls, only, call)
    )
    if plan.empty:
        return None
    for partition in plan.partitions:
        if len(partition) > SHORT_KEY:
            check_key(Key(partition), plan.pattern.index, plan.entity, context.limits)
    if plan.filter is not None:
        context.check_filter(plan.entity, plan.filter)
    pattern, check = plan.pattern, None
    if pattern.index is not None:
        consistent = consistent and pattern.kind != "global"
        check = key_check(context.schema, plan)
        if asked is not None and check is not None:
            asked = _with_check(asked, check)
    if context.unfilled and pattern.full_name in context.unfilled:
        _warn(context, plan)
    return Reading(plan, Place(plan.reading_order[0]), query.most, consistent, selection=asked, check=check)


def unfilled_note(context: Context, plan: Plan) -> str:
    """What a query of a pattern that is not backfilled does not return; "" for any other."""
    name = plan.pattern.full_name
    if not context.unfilled or name not in context.unfilled:
        return ""
    return (
        f"{name} is not backfilled ({context.unfilled[name]}), so stored items may be missing from the results: run "
        f"odm backfill, or db.backfill({name})"
    )


def _warn(context: Context, plan: Plan) -> None:
    """Log once a process that a pattern is not backfilled."""
    which = context.schema.name, plan.pattern.full_name
    if which not in _WARNED:
        _WARNED.add(which)
        LOG.warning("table %s: %s", context.schema.name, unfilled_note(context, plan))


def _with_check(asked: Selection, check: KeyCheck) -> Selection:
    """The fields to read, with those that are checked."""
    if asked.only is None or not check.fields:
        return asked
    if check.by_key:
        return evolve(asked, only=None, why="the key of the index has computed fields")
    return asked.with_fields(check.fields)


def chunk(context: Context, reading: Reading) -> CoreGen[tuple[list[Any], Reading | None]]:
    """One page of results as the backend returns it, and the reading that continues, or None at the end."""
    plan, remaining = reading.plan, reading.remaining
    if remaining is None and reading.selection is None and context.on_invalid is None and len(plan.shards) == 1:
        # The usual reading, in one step: all results as entities, from one shard.
        answer: req.Page = yield request_of(context, reading, reading.place, None)
        items, positions = answer.items, answer.positions
        if plan.filter is not None:
            items, positions = judged(context, plan.entity, plan.filter, items, positions)
        check_many(plan.entity, "query")
        results = context.decode_all(items, positions)
        if reading.check is not None and (failing := reading.check.failing(results)) is not None:
            results = [result for result, fails in zip(results, failing, strict=True) if not fails]
        if answer.next is None and len(plan.partitions) == 1:
            return results, None
        return results, _further(reading, _after(plan, reading.place, answer), 0)
    batch = yield from _read(context, reading, _most(reading, remaining), decode=_decoder(context, reading))
    items, _, reading = _results(context, reading, batch)
    further = _further(reading, batch.next, len(items))
    return (items if remaining is None else items[:remaining]), further


def first(context: Context, reading: Reading | None) -> CoreGen[Any]:
    """The first result, or None."""
    while reading is not None:
        items, reading = yield from chunk(context, reading)
        if items:
            return items[0]
    return None


def page(context: Context, reading: Reading, size: int, max_requests: int | None = None) -> CoreGen[Paged]:
    """Up to ``size`` results, and the readings of the pages around it.

    The one that continues is None exactly if no result follows. After ``max_requests`` requests, there are fewer
    results, and it may find none.
    """
    last = reading.remaining is not None and reading.remaining <= size
    want = size if not last else int(reading.remaining or 0)
    look = want + (not last)  # one more, to see whether a result follows
    entities: list[Any] = []
    sent = 0
    place: Place | None = reading.place
    start: Place | None = None
    going: Reading | None = reading if max_requests is None else evolve(reading, bounded=True)
    decode = _decoder(context, reading)
    while going is not None and len(entities) < look:
        if max_requests is not None and (sent := sent + _due(going)) > max_requests:
            break
        answer = yield from _read(context, going, _most(going, look - len(entities)), decode=decode)
        lacking = want - len(entities)
        items, positions, going = _results(context, going, answer)
        if start is None and positions:
            start = Place(answer.partition, positions[0], pace=answer.pace)
        entities += items
        if len(items) <= lacking:
            place = answer.next
        elif lacking:
            place = Place(answer.partition, positions[lacking - 1], pace=answer.pace)
        going = None if answer.next is None else evolve(going, place=answer.next)
    further = _further(reading, place, min(len(entities), want))
    return Paged(entities[:want], further, _before(reading, start, place))


def _before(reading: Reading, start: Place | None, place: Place | None) -> Reading | None:
    """The reading that goes back from a page; None if the page begins where the query does.

    Args:
        reading: that of the page.
        start: the place of its first result; None: it has none.
        place: where the reading continues; None: nothing follows.
    """
    most = reading.plan.query.most
    remaining = None if most is None else most - (reading.remaining or 0)
    if reading.begins or (remaining is not None and remaining < 1):
        return None
    order = reading.plan.reading_order
    if start is None and place is None:  # everything comes before this page
        start = Place(order[-1])
    elif start is None and place is not None:
        # No result is before the place, nor at it: its position is that of the item that was read last.
        at = order.index(place.partition)
        start = Place(place.partition, place.position) if place.position is not None else Place(order[at - 1])
    assert start is not None
    return reading.turned(start, remaining)


def _due(reading: Reading) -> int:
    """The number of requests that the next step of a reading sends."""
    return len(blocking(_streams(reading, reading.place), descending=reading.plan.query.descending))


def count(context: Context, reading: Reading) -> CoreGen[int]:
    """The number of results of the query.

    The conditions of an index's key range become a filter of the request, which costs no more units than without.
    """
    plan, check = reading.plan, reading.check
    passing = passing_older(context, plan.entity, plan.filter)
    if plan.leaving or passing is not plan.filter or context.on_invalid is not None or _judges_forms(context, plan):
        return (yield from _count_read(context, reading))
    if check is None or not (check.tests or check.by_key) or _trusts(context, check):
        total = yield from _count(context, reading)
    elif (stored := check.stored) is None:
        total = None
    elif context.filter(plan.entity, plan.filter) is not None:
        filtered = evolve(plan, filter=every(plan.filter, stored))
        return (yield from count(context, evolve(reading, plan=filtered, check=None)))
    else:
        total = yield from _count(context, reading, stored)
    return (yield from _count_read(context, reading)) if total is None else total


def _trusts(context: Context, check: KeyCheck) -> bool:
    """Whether a count takes the entries of an index as they are.

    That is so if the lock file has the pattern as backfilled, and a check would read each item by key, because the
    index does not project the fields.
    """
    plan = check.plan
    held = held_by(plan.pattern.projection)
    if held is None or context.unfilled is None or plan.pattern.full_name in context.unfilled or plan.entity is None:
        return False
    return not {plan.entity.codec.stored.get(name) for name in check.fields} <= {*held}


def _count(context: Context, reading: Reading, meeting: Condition | None = None) -> CoreGen[int | None]:
    """Count without reading the items.

    Args:
        context: of the store.
        reading: the query.
        meeting: a condition that all items are expected to meet: then a request needs no item to report those with an
            unknown tag.

    Returns:
        None if an item does not meet the condition.
    """
    total, place = 0, reading.place
    streams = _streams(reading, place)
    while streams:
        remaining = None if reading.remaining is None else reading.remaining - total
        requests = [request_of(context, reading, stream, remaining, len(streams), counting=True) for stream in streams]
        if meeting is not None:
            requests = [evolve(request, filter=meeting, limit=None, examine=remaining) for request in requests]
        answers = yield from sent_together(requests)
        if meeting is not None and any(answer.count < answer.examined for answer in answers):
            return None
        for stream, answer in zip(streams, answers, strict=True):
            if answer.strangers:
                yield from _refuse_strangers(context, reading, stream)
        total += sum(answer.count for answer in answers)
        if reading.remaining is not None and total >= reading.remaining:
            return reading.remaining
        read = [stream.fed(answer) for stream, answer in zip(streams, answers, strict=True)]
        streams = tuple(stream for stream in read if not stream.ended)
        if not streams and (following := _following(reading.plan, place, pace_of(read))) is not None:
            place = following
            streams = _streams(reading, place)
    return total


def _refuse_strangers(context: Context, reading: Reading, stream: Stream) -> CoreGen[None]:
    """Raise ItemInvalid after a count met an item of no entity, or one that no filter can judge: find it."""
    going: Stream | None = stream
    while going is not None:
        page: req.Page = yield request_of(context, reading, going, None)
        for item, position in zip(page.items, page.positions, strict=True):
            context.check_known(item, position.key)
        comparable(context, page.items, page.positions)
        going = None if page.next is None else evolve(going, after=page.next)


def _count_read(context: Context, reading: Reading) -> CoreGen[int]:
    """Count results by reading them.

    Some need upgrades, entries that move between shards can be found twice, or the store skips items that do not fit.
    """
    total = 0
    going: Reading | None = reading
    while going is not None:
        answer = yield from _read(context, going, going.remaining)
        _check_known(context, answer)
        answer = _checked(context, answer, reading.check)
        _check_forms(context, going, answer)
        total += len(answer.positions)
        going = _further(going, answer.next, len(answer.positions))
    return total


def stored_chunk(context: Context, reading: Reading) -> CoreGen[tuple[list[Found], Reading | None]]:
    """The stored items of one page with their positions, and the reading that continues, or None at the end."""
    answer = yield from _read(context, reading, reading.remaining)
    stored = [Found(*row) for row in zip(answer.items, answer.positions, strict=True)]
    return stored, _further(reading, answer.next, len(stored))


def keys_chunk(context: Context, reading: Reading) -> CoreGen[tuple[list[Key], Reading | None]]:
    """The item keys of one page, including expired items, and the reading that continues, or None at the end.

    Items that do not fit are not among them in a store that skips such items.

    Raises:
        ItemInvalid: an item on the page has an unknown tag.
    """
    answer = yield from _to_delete(context, reading)
    return [position.key for position in answer.positions], _further(reading, answer.next, len(answer.items))


def rows_chunk(context: Context, reading: Reading) -> CoreGen[tuple[list[tuple[Key, Item]], Reading | None]]:
    """As `keys_chunk`, with the stored items."""
    answer = yield from _to_delete(context, reading)
    rows = [(position.key, item) for position, item in zip(answer.positions, answer.items, strict=True)]
    return rows, _further(reading, answer.next, len(rows))


def _to_delete(context: Context, reading: Reading) -> CoreGen[_Read]:
    """The items of one page, including expired items. Those of the primary key are checked too: no read decodes them.

    Raises:
        ItemInvalid: an item on the page has an unknown tag.
    """
    answer = yield from _read(context, reading, reading.remaining, expired=True)
    _check_known(context, answer)
    answer = _checked(context, answer, key_check(context.schema, reading.plan))
    _check_forms(context, reading, answer)
    return answer


def _judges_forms(context: Context, plan: Plan) -> bool:
    """Whether a filter may hold for an item of which no entity can be read, as another program wrote another form."""
    of = plan.entity
    return of is not None and of.codec.exact and plan.filter is not None and not (context.schema.exclusive or of.blobs)


def _check_forms(context: Context, reading: Reading, answer: _Read) -> None:
    """Raise ItemInvalid for an item that a filter found, and that cannot be read, as each read of it would."""
    if _judges_forms(context, reading.plan) and context.on_invalid is None:
        for item, position in zip(answer.items, answer.positions, strict=True):
            context.schema.decode(item, position.key, skip_unknown=True)


def first_request(context: Context, reading: Reading) -> req.Query:
    """The first request of a reading; with several shards, that of the first shard."""
    return request_of(context, reading, _streams(reading, reading.place)[0], reading.remaining)


def request_of(
    context: Context,
    reading: Reading,
    shard: Stream | Place,
    most: int | None,
    shards: int = 1,
    *,
    counting: bool = False,
    expired: bool = False,
) -> req.Query:
    """The request for the next page of a shard, for at most ``most`` results, which ``shards`` shards have together.

    A place stands for the only shard of its partition.
    """
    plan = reading.plan
    filter_ = context.filter(plan.entity, passing_older(context, plan.entity, plan.filter), expired=expired)
    examine = None
    if most is not None and filter_ is not None and not plan.single:
        examine = shard.pace.items(most, shards)
    elif reading.bounded:
        examine = most
    if isinstance(shard, Place):
        partition, lo, hi, after = shard.partition + plan.shards[0], plan.lo, plan.hi, shard.position
    else:
        partition, lo, hi, after = shard.partition, shard.lo, shard.hi, shard.after
    return req.Query(
        partition,
        lo,
        hi,
        plan.pattern.index,
        filter_,
        plan.query.descending,
        most,
        after,
        reading.consistent,
        counting,
        examine,
        pattern=plan.name,
        only=None if reading.selection is None else reading.selection.only,
    )


def _read(
    context: Context, reading: Reading, most: int | None, *, expired: bool = False, decode: _Decoder | None = None
) -> CoreGen[_Read]:
    """The next results in order, maybe none, after reading a page of each shard that is needed to know the next one.

    Args:
        context: of the store.
        reading: the query.
        most: the most results; None: no limit.
        expired: include expired items.
        decode: makes results of items, in a store that skips items that do not fit; None: they are only checked.
    """
    place, plan, descending = reading.place, reading.plan, reading.plan.query.descending
    if len(plan.shards) == 1 and not place.streams:
        return (yield from _read_partition(context, reading, most, expired=expired, decode=decode))
    streams, waiting = list(_streams(reading, place)), place.waiting
    last_items = place.last_items if place.streams or place.waiting else given_at(plan, place.position)
    if plan.leaving and not place.streams:
        while lacking := [at for at, stream in enumerate(streams) if stream.leaving and stream.lacks_step]:
            yield from _feed(context, reading, streams, lacking, most, expired=expired)
        now, waiting = window(streams, descending=descending)
        streams = list(now)
    if lacking := blocking(streams, descending=descending):
        yield from _feed(context, reading, streams, lacking, most, expired=expired)
    items, positions, rest, last_items = merged(streams, most, last_items, descending=descending)
    pace, last = pace_of(streams), positions[-1] if positions else place.position
    items, positions = judged(context, plan.entity, plan.filter, items, positions)
    entities = None
    if context.on_invalid is not None:
        items, positions, entities = (decode or partial(context.fitting, decode=context.check_fit))(items, positions)
    if not rest and not waiting:
        return _Read(place.partition, items, positions, _following(plan, place, pace), pace, entities)
    reached = None if plan.leaving else settled(rest, descending=descending)
    if reached is None:
        reached = last
    place = Place(place.partition, reached, rest, waiting, last_items, pace)
    return _Read(place.partition, items, positions, place, pace, entities)


def _read_partition(
    context: Context, reading: Reading, most: int | None, *, expired: bool, decode: _Decoder | None
) -> CoreGen[_Read]:
    """As `_read`, for a query of one shard: a request answers it."""
    place, plan = reading.place, reading.plan
    page: req.Page = yield request_of(context, reading, place, most, expired=expired)
    items, positions, entities = page.items, page.positions, None
    if plan.filter is not None:
        items, positions = judged(context, plan.entity, plan.filter, items, positions)
    if context.on_invalid is not None:
        items, positions, entities = (decode or partial(context.fitting, decode=context.check_fit))(items, positions)
    return _Read(place.partition, items, positions, _after(plan, place, page), place.pace.after(page), entities)


def _after(plan: Plan, place: Place, page: req.Page) -> Place | None:
    """The place after a page of the only shard of a partition."""
    pace = place.pace.after(page)
    return _following(plan, place, pace) if page.next is None else Place(place.partition, page.next, pace=pace)


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
    shards = sum(not stream.ended for stream in streams)
    requests = [request_of(context, reading, streams[at], most, shards, expired=expired) for at in lacking]
    answers = yield from sent_together(requests)
    for at, answer in zip(lacking, answers, strict=True):
        streams[at] = streams[at].fed(answer)


def _streams(reading: Reading, place: Place) -> tuple[Stream, ...]:
    return place.streams or place.waiting or streams_of(reading.plan, place.partition, place.position, place.pace)


def _following(plan: Plan, place: Place, pace: Pace) -> Place | None:
    """The next partition."""
    if len(plan.partitions) == 1:
        return None
    order = plan.reading_order
    later = order[order.index(place.partition) + 1 :]
    return Place(later[0], pace=pace) if later else None


def _check_known(context: Context, answer: _Read) -> None:
    for item, position in zip(answer.items, answer.positions, strict=True):
        context.check_known(item, position.key)


def _decoder(context: Context, reading: Reading) -> _Decoder | None:
    """What makes the results of a page of items, in a store that skips items that do not fit; else None."""
    if context.on_invalid is None:
        return None
    if reading.selection is not None:
        return partial(context.fitting, decode=partial(reading.selection.of, context))
    check_many(reading.plan.entity, "query")
    return context.fitting


def _decoded(context: Context, reading: Reading, answer: _Read) -> list[Any]:
    if answer.entities is not None:
        return answer.entities
    if reading.selection is not None:
        return reading.selection.parts_of(context, answer.items, answer.positions)
    check_many(reading.plan.entity, "query")
    return context.decode_all(answer.items, answer.positions)


def _most(reading: Reading, most: int | None) -> int | None:
    """The number of results to read next; more if the check drops many, so that few requests get past these."""
    return most if most is None or not reading.dropped else max(most, min(2 * reading.dropped, MOST_AHEAD))


def _results(context: Context, reading: Reading, answer: _Read) -> tuple[list[Any], Sequence[req.Position], Reading]:
    """The results that were read, with their positions, and the reading, which counts those that were dropped."""
    check, positions, results = reading.check, answer.positions, _decoded(context, reading, answer)
    if check is None:
        return results, positions, reading
    failing = check.failing(results) if reading.selection is None else _failing(context, check, answer)
    if failing is None:
        return results, positions, reading
    kept = [at for at, fails in enumerate(failing) if not fails]
    reading = evolve(reading, dropped=reading.dropped + len(failing) - len(kept))
    return [results[at] for at in kept], [positions[at] for at in kept], reading


def _failing(context: Context, check: KeyCheck, answer: _Read) -> list[bool] | None:
    """As `KeyCheck.failing`, for stored items.

    Raises:
        ItemInvalid: an item must be decoded or upgraded to be judged, and cannot be.
    """
    stored, entity = check.stored, check.plan.entity
    failing = []
    for item, (key, _) in zip(answer.items, answer.positions, strict=True):
        if stored is None or entity is None:
            met = check.meets(context.decode(item, key))
        elif item.get(TAG) != entity.tag:
            met = False
        else:
            met = holds(stored, up_to_date(context, entity, item, key) if entity.version > 1 else item)
        failing.append(not met)
    return failing if any(failing) else None


def _checked(context: Context, answer: _Read, check: KeyCheck | None) -> _Read:
    """What was read, without the items that do not meet the conditions of the key range."""
    failing = None if check is None else _failing(context, check, answer)
    if failing is None:
        return answer
    kept = [at for at, fails in enumerate(failing) if not fails]
    return evolve(answer, items=[answer.items[at] for at in kept], positions=[answer.positions[at] for at in kept])


def _further(reading: Reading, place: Place | None, taken: int) -> Reading | None:
    remaining = None if reading.remaining is None else reading.remaining - taken
    if place is None or (remaining is not None and remaining <= 0):
        return None
    return evolve(reading, place=place, remaining=remaining)
