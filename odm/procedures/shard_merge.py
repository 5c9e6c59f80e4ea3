"""Merges the shards of a partition: what is unread in each, and which result comes next.

Pure: `odm.procedures.read` fetches a page where a shard has run out of what was read. The order of a merged reading
is that of (sort key, shard) and then the service's own, so the position of one item shows where every shard goes on.

While entries move to another number of shards, one could be missed: where its new shard was read before it came, and
its old one after it had gone. So no other shard is read further than those that entries leave have been: `window` cuts
there. What is then found twice, in both, is given once.
"""

from collections.abc import Sequence
from heapq import merge
from operator import itemgetter
from typing import Any

from attrs import evolve, frozen

from odm.expressions.nodes import Item
from odm.planner.plan import Plan
from odm.protocol import requests as req
from odm.schema.entity import Key


@frozen
class Stream:
    """One shard while it is read.

    Attributes:
        partition: its partition key.
        lo, hi: the range of sort keys that is read.
        after: where its next page begins; None: at the start of the range.
        items, positions: what was read and not given yet.
        ended: nothing follows what was read.
        leaving: entries move from it to other shards.
    """

    partition: str
    lo: str
    hi: str | None
    after: req.Position | None = None
    items: Sequence[Item] = ()
    positions: Sequence[req.Position] = ()
    ended: bool = False
    leaving: bool = False

    @property
    def lacks(self) -> bool:
        """Whether the next result is unknown until another page is read."""
        return not self.ended and not self.positions

    @property
    def lacks_step(self) -> bool:
        """As `lacks`, or not all items with the next sort key have been read."""
        return self.lacks or (not self.ended and _sort(self.positions[0]) == self.edge)

    @property
    def edge(self) -> str | None:
        """The last sort key that was read, of which more items may follow; None: the shard was read to its end."""
        return None if self.ended or self.after is None else _sort(self.after)

    def fed(self, page: req.Page) -> "Stream":
        """The stream with its next page read."""
        if not self.positions:
            items, positions = page.items, page.positions
        else:
            items, positions = [*self.items, *page.items], [*self.positions, *page.positions]
        return evolve(self, items=items, positions=positions, after=page.next, ended=page.next is None)


@frozen
class Given:
    """The sort key that was returned last, and the items that have it: another shard may return them again."""

    sort: str | None = None
    keys: frozenset[Key] = frozenset()


NOTHING = Given()


def streams_of(plan: Plan, partition: str, position: req.Position | None) -> tuple[Stream, ...]:
    """The shards of a partition, from the start or after a position in one of them, without those that have ended."""
    streams = [Stream(partition + shard, plan.lo, plan.hi, leaving=shard in plan.leaving) for shard in plan.shards]
    if position is None:
        return tuple(streams)
    read = position.index_key or position.key
    at = next(number for number, stream in enumerate(streams) if stream.partition == read.partition)
    streams[at] = evolve(streams[at], after=position)
    for number, stream in enumerate(streams):
        if number != at:
            # Of equal sort keys, the items of an earlier shard come before the position, those of a later one behind.
            streams[number] = _behind(stream, read.sort, whole=number < at, descending=plan.query.descending)
    return tuple(stream for stream in streams if not _is_empty(stream))


def given_at(plan: Plan, position: req.Position | None) -> Given:
    """What was returned last, from a position."""
    if position is None or len(plan.shards) == 1:
        return NOTHING
    return Given(_sort(position), frozenset((position.key,)))


def _behind(stream: Stream, sort: str, *, whole: bool, descending: bool) -> Stream:
    """The part of a shard from a sort key on; ``whole``: in ascending order, without the items that have it."""
    cut = sort + "\0" if whole else sort
    if descending:
        return evolve(stream, hi=cut if stream.hi is None else min(cut, stream.hi))
    return evolve(stream, lo=max(cut, stream.lo))


def _is_empty(stream: Stream) -> bool:
    return stream.hi is not None and stream.lo >= stream.hi and not stream.positions


def window(streams: Sequence[Stream], *, descending: bool) -> tuple[tuple[Stream, ...], tuple[Stream, ...]]:
    """The part of the shards that can be read now, and the part that waits.

    Args:
        streams: those that entries leave read so far that none `Stream.lacks_step`, of the others nothing.
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
    """A shard before a sort key, and from it on."""
    if stream.leaving:
        before = sum(1 for position in stream.positions if _is_before(_sort(position), edge, descending=descending))
        items, positions = stream.items, stream.positions
        now = evolve(stream, items=items[:before], positions=positions[:before], after=None, ended=True)
        return now, evolve(stream, items=items[before:], positions=positions[before:])
    cut = edge + "\0" if descending else edge
    above = evolve(stream, lo=max(stream.lo, cut))
    below = evolve(stream, hi=cut if stream.hi is None else min(cut, stream.hi))
    now, later = (above, below) if descending else (below, above)
    if stream.after is None:
        return now, later
    if _is_before(_sort(stream.after), edge, descending=descending):
        return now, evolve(later, after=None)  # services refuse a place outside of the range
    return evolve(now, lo="", hi=""), later


def _is_before(sort: str, edge: str, *, descending: bool) -> bool:
    return sort > edge if descending else sort < edge


def merged(
    streams: Sequence[Stream], most: int | None, given: Given = NOTHING, *, descending: bool
) -> tuple[Sequence[Item], Sequence[req.Position], tuple[Stream, ...], Given]:
    """The results that are known without another page: items in order, their positions, the rest, and `Given`.

    Args:
        streams: none of which `lacks` a page.
        most: how many items are wanted at most.
        given: what was given before.
        descending: the order.
    """
    if len(streams) == 1 and not given.keys:
        [only] = streams
        left = [] if only.ended else [evolve(only, items=(), positions=())]
        return only.items, only.positions, tuple(left), NOTHING
    items: list[Item] = []
    positions: list[req.Position] = []
    taken = [0] * len(streams)
    last, keys = given.sort, set(given.keys)
    for (sort, at, key), item, position in merge(
        *map(_rows, range(len(streams)), streams), key=itemgetter(0), reverse=descending
    ):
        if len(items) == most:
            break
        if sort != last:
            last, keys = sort, set()
        if key not in keys:
            keys.add(key)
            items.append(item)
            positions.append(position)
        taken[at] += 1
        if taken[at] == len(streams[at].positions) and not streams[at].ended:
            break
    left = [
        evolve(stream, items=stream.items[gone:], positions=stream.positions[gone:])
        for gone, stream in zip(taken, streams, strict=True)
    ]
    rest = tuple(stream for stream in left if stream.positions or not stream.ended)
    return items, positions, rest, Given(last, frozenset(keys))


def _rows(at: int, stream: Stream) -> Any:
    """The rows that were read from this shard, each with its place in the order."""
    for item, position in zip(stream.items, stream.positions, strict=False):
        yield (_sort(position), at, position.key), item, position


def _sort(position: req.Position) -> str:
    return (position.index_key or position.key).sort
