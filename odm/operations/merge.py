"""Reading the shards of a partition as one: what is left of each, and what of it comes next.

Pure: `odm.operations.reads` fetches a page where a shard has run out of what was read. The order of a merged reading
is that of (sort key, shard) and then the service's own, so the position of one item tells where every shard goes on.
"""

from collections.abc import Sequence
from heapq import merge
from itertools import repeat
from typing import Any

from attrs import evolve, frozen

from odm.expressions.nodes import Item
from odm.operations import ir
from odm.operations.plan import Plan


@frozen
class Stream:
    """One shard under way.

    Attributes:
        partition: its partition key.
        lo, hi: the range of sort keys that is read.
        after: where its next page begins; None: at the start of the range.
        items, positions: what was read and not given yet.
        ended: nothing follows what was read.
    """

    partition: str
    lo: str
    hi: str | None
    after: ir.Position | None = None
    items: Sequence[Item] = ()
    positions: Sequence[ir.Position] = ()
    ended: bool = False

    @property
    def lacks(self) -> bool:
        """Whether a page must be read before it is known what comes next."""
        return not self.ended and not self.positions

    def fed(self, page: ir.Page) -> "Stream":
        """The stream with its next page read."""
        return evolve(self, items=page.items, positions=page.positions, after=page.next, ended=page.next is None)


def streams_of(plan: Plan, partition: str, position: ir.Position | None) -> tuple[Stream, ...]:
    """The shards of a partition, from the start or behind a position of one of them; those with nothing left go."""
    streams = (Stream(partition + shard, plan.lo, plan.hi) for shard in plan.shards)
    if position is None:
        return tuple(streams)
    moved = (_behind(stream, position, descending=plan.query.descending) for stream in streams)
    return tuple(stream for stream in moved if stream.hi is None or stream.lo < stream.hi)


def _behind(stream: Stream, position: ir.Position, *, descending: bool) -> Stream:
    """The part of a shard that follows a position of this or another one."""
    read = position.index_key or position.key
    if stream.partition == read.partition:
        return evolve(stream, after=position)
    # Among equal sort keys, the items of an earlier shard come before the position, those of a later one behind.
    cut = read.sort + "\0" if stream.partition < read.partition else read.sort
    if descending:
        return evolve(stream, hi=cut if stream.hi is None else min(cut, stream.hi))
    return evolve(stream, lo=max(cut, stream.lo))


def merged(
    streams: Sequence[Stream], most: int | None, *, descending: bool
) -> tuple[Sequence[Item], Sequence[ir.Position], tuple[Stream, ...]]:
    """What can be given before a shard must be read on: items in order, their positions, and what is left.

    Args:
        streams: none of which `lacks` a page.
        most: how many items are wanted at most.
        descending: the order.
    """
    if len(streams) == 1:
        [only] = streams
        return only.items, only.positions, () if only.ended else (evolve(only, items=(), positions=()),)
    items: list[Item] = []
    positions: list[ir.Position] = []
    taken = [0] * len(streams)
    for at, item, position in merge(*map(_rows, range(len(streams)), streams), key=_place, reverse=descending):
        if len(items) == most:
            break
        items.append(item)
        positions.append(position)
        taken[at] += 1
        if taken[at] == len(streams[at].positions) and not streams[at].ended:
            break
    rest = (
        evolve(stream, items=stream.items[given:], positions=stream.positions[given:])
        for given, stream in zip(taken, streams, strict=True)
    )
    return items, positions, tuple(stream for stream in rest if stream.positions or not stream.ended)


def _rows(at: int, stream: Stream) -> Any:
    return zip(repeat(at), stream.items, stream.positions, strict=False)


def _place(row: tuple[int, Item, ir.Position]) -> tuple[str, str, ir.Key]:
    key, index_key = row[2]
    read = index_key or key
    return read.sort, read.partition, key
