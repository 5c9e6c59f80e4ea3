"""Remove what the target of a comparison has and its source lacks: for ``replace=True`` of `odm.patterns.derive`.

| step | reads of both sides |
|---|---|
| find the sums that differ, see `odm.patterns.compare` | once |
| for each million keys of the source in these sums: keep the keys in memory, remove the others | once |

It is not a snapshot: an item that joins both sides between these reads may be removed from the target.
"""

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import Final, TypeAlias

from odm.extend import Calls, Gen, procedure
from odm.patterns.compare import NONE, Comparison, Name, Side, Sums, bucket, differing
from odm.patterns.two_stores import Concurrent, Either, On, Steps
from odm.results import RawItem

KEYS: Final = 1_000_000
"""The maximum number of keys in memory, unless a single sum has more."""

Keys: TypeAlias = set[tuple[str, str]]
"""Partition and sort keys of items."""


def remove_stale(comparison: Comparison, store: Either) -> Steps[int]:
    """Remove the items of the target that the source lacks.

    Args:
        comparison: of both sides.
        store: that of the target.

    Returns:
        The number of items removed.
    """
    ours, theirs = yield from comparison.sums(bucket)
    removed = 0
    for some in _rounds(differing(ours, theirs), ours):
        begun = yield from comparison.source.cursors()
        keys: list[Keys] = yield Concurrent([_keys(comparison.source, cursor, some) for cursor in begun])
        kept = set(chain.from_iterable(keys))
        there = yield from comparison.target.cursors()
        removed += sum((yield Concurrent([_swept(store, comparison.target, cursor, some, kept) for cursor in there])))
    return removed


def _swept(store: Either, side: Side, cursor: str | None, some: frozenset[Name], kept: Keys) -> Steps[int]:
    """Remove the items of these sums from a part of the target, except those with these keys."""
    removed = 0
    while cursor is not None:
        side_page = yield from side.page(cursor)
        stale = [item for item in side_page.items if bucket(item) in some and key_of(item) not in kept]
        if stale:
            yield On(store, remove(stale))
        removed, cursor = removed + len(stale), side_page.cursor
    return removed


def _keys(side: Side, cursor: str | None, some: frozenset[Name]) -> Steps[Keys]:
    """The keys of the items of these sums in a part of a side."""
    keys: Keys = set()
    while cursor is not None:
        side_page = yield from side.page(cursor)
        keys.update(key_of(item) for item in side_page.items if bucket(item) in some)
        cursor = side_page.cursor
    return keys


def _rounds(names: Iterable[Name], sums: Sums) -> Iterator[frozenset[Name]]:
    """The sums, as many together as have at most `KEYS` items; a single one may have more."""
    some: set[Name] = set()
    held = 0
    for name in names:
        count = sums.get(name, NONE)[0]
        if some and held + count > KEYS:
            yield frozenset(some)
            some, held = set(), 0
        some.add(name)
        held += count
    if some:
        yield frozenset(some)


def key_of(item: RawItem) -> tuple[str, str]:
    """The key of a raw item."""
    return item.partition, item.sort


@procedure
def remove(do: Calls, items: Sequence[RawItem]) -> Gen[None]:
    """Delete items in a batch."""
    batch = do.batch()
    for item in items:
        batch.delete(item.entity)
    yield from batch.send()
