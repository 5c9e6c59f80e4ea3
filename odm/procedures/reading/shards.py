"""Merges the shards of a partition: what each still has to read, and which result is next; and how much to read.

No I/O: `odm.procedures.reading.read` fetches a page of each shard that is `blocking`. A merged reading is ordered by
(sort key, shard), then as the service orders. So from the position of one item, every shard can continue. A result is
known when every other shard was read up to it, whether or not an item there passed the filter.

While entries move to another number of shards, a query could miss an entry: it reads the new shard before the entry
arrives there, and the old shard after the entry has left it. So the old shards are read first, and the others only as
far as the old ones were read: `window` makes this cut. An entry found in both is returned once.
"""

from collections.abc import Iterable, Sequence
from heapq import merge
from operator import itemgetter
from typing import Any

from odm.expressions.nodes import Item
from odm.immutable import Immutable, evolve
from odm.planner.plan import Plan
from odm.procedures.pace import START, Pace, common
from odm.protocol import requests as req
from odm.schema.entity import Key


class Stream(Immutable):
    """One shard while it is read.

    Attributes:
        partition: its partition key.
        lo, hi: the range of sort keys to read.
        after: the position before its next page; None: the start of the range.
        items, positions: the items that were read and not returned yet.
        ended: the shard was read to the end of the range.
        leaving: an old shard, from which entries move to other shards.
        pace: how many items its next page reads, if the query has a filter.
    """

    partition: str
    lo: str
    hi: str | None
    after: req.Position | None = None
    items: Sequence[Item] = ()
    positions: Sequence[req.Position] = ()
    ended: bool = False
    leaving: bool = False
    pace: Pace = START

    @property
    def lacks(self) -> bool:
        """Whether another page must be read to know the next result."""
        return not self.ended and not self.positions

    @property
    def lacks_step(self) -> bool:
        """As `lacks`, or not all items with the next sort key have been read."""
        return self.lacks or (not self.ended and _sort(self.positions[0]) == self.edge)

    @property
    def edge(self) -> str | None:
        """The last sort key that was read; more items with it may follow. None: the shard was read to its end."""
        return None if self.ended or self.after is None else _sort(self.after)

    def fed(self, page: req.Page) -> "Stream":
        """The stream with its next page read."""
        if not self.positions:
            items, positions = page.items, page.positions
        else:
            items, positions = [*self.items, *page.items], [*self.positions, *page.positions]
        pace = self.pace.after(page)
        return evolve(self, items=items, positions=positions, after=page.next, ended=page.next is None, pace=pace)


class Given(Immutable):
    """The sort key returned last, and the keys of the items with it: another shard may contain them again."""

    sort: str | None = None
    keys: frozenset[Key] = frozenset()


NOTHING = Given()


def streams_of(plan: Plan, partition: str, position: req.Position | None, pace: Pace = START) -> tuple[Stream, ...]:
    """The shards of a partition, from the start or after a position in one of them, without shards read to the end."""
    streams = [
        Stream(partition + shard, plan.lo, plan.hi, leaving=shard in plan.leaving, pace=pace) for shard in plan.shards
    ]
    if position is None:
        return tuple(streams)
    read = position.index_key or position.key
    at = next(number for number, stream in enumerate(streams) if stream.partition == read.partition)
    streams[at] = evolve(streams[at], after=position)
    for number, stream in enumerate(streams):
        if number != at:
            # Of equal sort keys, the items of an earlier shard come before the position, those of a later one after it.
            streams[number] = _behind(stream, read.sort, whole=number < at, descending=plan.query.descending)
    return tuple(stream for stream in streams if not _is_empty(stream))


def given_at(plan: Plan, position: req.Position | None) -> Given:
    """The sort key and item returned last, from a position."""
    if position is None or len(plan.shards) == 1:
        return NOTHING
    return Given(_sort(position), frozenset((position.key,)))


def _behind(stream: Stream, sort: str, *, whole: bool, descending: bool) -> Stream:
    """The part of a shard from a sort key on; ``whole``: in ascending order, without the items with that sort key."""
    bound = sort + "\0" if whole else sort
    if descending:
        return evolve(stream, hi=bound if stream.hi is None else min(bound, stream.hi))
    return evolve(stream, lo=max(bound, stream.lo))


def _is_empty(stream: Stream) -> bool:
    return stream.hi is not None and stream.lo >= stream.hi and not stream.positions


def window(streams: Sequence[Stream], *, descending: bool) -> tuple[tuple[Stream, ...], tuple[Stream, ...]]:
    """The part of the shards that can be read now, and the part to read later.

    Args:
        streams: the old shards, read until no one `Stream.lacks_step`, and the other shards, not read yet.
        descending: the order.
    """
    edges = [stream.edge for stream in streams if stream.leaving and stream.edge is not None]
    if not edges or all(stream.leaving for stream in streams):
        return tuple(streams), ()
    edge = max(edges) if descending else min(edges)
    now, later = zip(*(_parted(stream, edge, descending=descending) for stream in streams), strict=True)
    return tuple(s for s in now if not _is_done(s)), tuple(s for s in later if not _is_done(s))


def _is_done(stream: Stream) -> bool:
    return _is_empty(stream) or (stream.ended and not stream.positions)


def _parted(stream: Stream, edge: str, *, descending: bool) -> tuple[Stream, Stream]:
    """A shard in two parts: before a sort key, and from the sort key on."""
    if stream.leaving:
        before = sum(1 for position in stream.positions if _is_before(_sort(position), edge, descending=descending))
        items, positions = stream.items, stream.positions
        now = evolve(stream, items=items[:before], positions=positions[:before], after=None, ended=True)
        return now, evolve(stream, items=items[before:], positions=positions[before:])
    bound = edge + "\0" if descending else edge
    above = evolve(stream, lo=max(stream.lo, bound))
    below = evolve(stream, hi=bound if stream.hi is None else min(bound, stream.hi))
    now, later = (above, below) if descending else (below, above)
    if stream.after is None:
        return now, later
    if _is_before(_sort(stream.after), edge, descending=descending):
        return now, evolve(later, after=None)  # services refuse a position outside of the range
    return evolve(now, lo="", hi=""), later


def _is_before(sort: str, edge: str, *, descending: bool) -> bool:
    return sort > edge if descending else sort < edge


def blocking(streams: Sequence[Stream], *, descending: bool) -> list[int]:
    """The indexes of the shards of which another page must be read to know the next result."""
    lacking = [at for at, stream in enumerate(streams) if stream.lacks]
    if len(lacking) in (0, len(streams)):
        return lacking
    heads = [(_sort(stream.positions[0]), at) for at, stream in enumerate(streams) if stream.positions]
    if not heads:
        return lacking
    next_result = max(heads) if descending else min(heads)
    return [
        at
        for at in lacking
        if (edge := streams[at].edge) is None or ((edge, at) > next_result if descending else (edge, at) < next_result)
    ]


def pace_of(streams: Iterable[Stream]) -> Pace:
    """The pace at which the shards were read."""
    return common(stream.pace for stream in streams)


def settled(streams: Sequence[Stream], *, descending: bool) -> req.Position | None:
    """The position up to which every shard was read and every result returned, so that all can continue after it.

    None: no such position is behind the last result.

    Args:
        streams: the shards, after `merged`.
        descending: the order.
    """
    reached = [(streams[at].edge, at) for at in blocking(streams, descending=descending)]
    known = [(edge, at) for edge, at in reached if edge is not None]
    if not known or len(known) < len(reached):
        return None
    _, at = max(known) if descending else min(known)
    return streams[at].after


def merged(
    streams: Sequence[Stream], most: int | None, last_items: Given = NOTHING, *, descending: bool
) -> tuple[Sequence[Item], Sequence[req.Position], tuple[Stream, ...], Given]:
    """The results known without another page: items in order, their positions, the streams left, and `Given`.

    Args:
        streams: the shards; none that was not read at all.
        most: the most items to return; None: no limit.
        last_items: the items returned last, before this call.
        descending: the order.
    """
    if len(streams) == 1 and not last_items.keys:
        [only] = streams
        open_streams = [] if only.ended else [evolve(only, items=(), positions=())]
        return only.items, only.positions, tuple(open_streams), NOTHING
    items: list[Item] = []
    positions: list[req.Position] = []
    taken = [0] * len(streams)
    last, keys = last_items.sort, set(last_items.keys)
    for (sort, at, key), item, position in merge(
        *map(_rows, range(len(streams)), streams), key=itemgetter(0), reverse=descending
    ):
        if position is None or len(items) == most:
            break
        if sort != last:
            last, keys = sort, set()
        if key not in keys:
            keys.add(key)
            items.append(item)
            positions.append(position)
        taken[at] += 1
    open_streams = [
        evolve(stream, items=stream.items[gone:], positions=stream.positions[gone:])
        for gone, stream in zip(taken, streams, strict=True)
    ]
    rest = tuple(stream for stream in open_streams if stream.positions or not stream.ended)
    return items, positions, rest, Given(last, frozenset(keys))


def _rows(at: int, stream: Stream) -> Any:
    """The items that were read from this shard, each with its place in the order, then the place that was reached."""
    for item, position in zip(stream.items, stream.positions, strict=False):
        yield (_sort(position), at, position.key), item, position
    if not stream.ended and stream.after is not None:
        yield (_sort(stream.after), at, stream.after.key), None, None


def _sort(position: req.Position) -> str:
    return (position.index_key or position.key).sort
