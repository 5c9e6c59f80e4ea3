"""Verify: whether two stores of one table hold the same items, by count and checksum of each partition.

It writes nothing. For each partition on both sides it computes

| entity | partition | count, and the sum of the checksums (BLAKE2b, 128 bits) of its items modulo 2**128 |
|---|---|---|
| ``Order`` | ``c1`` | ``(12, 0x5c0f…)`` |

An item's checksum covers its key and all stored attributes, on every backend: also revision, counters, version, expiry
and attributes that are not in the model. An item of the target also counts as different if an index entry is missing
or differs from the model's. A sum does not depend on the order of reads, so both sides are read independently, each in
several parts at the same time.

`odm.patterns.copy` uses it by default. Use it also to check that a backup still matches the table.

What it costs: consistent reads of every item of both sides, in requests for ``size`` items (on DynamoDB 1 MB at most).
Partitions are grouped by a hash into 4,096 sums for each entity, which bounds the memory for any number of partitions.
Only if sums differ, both sides are read a second time, to name the partitions.

It works the same on every backend: DynamoDB reads its segments, Bigtable the ranges between its sample row keys, the
bundled engine ranges of hashes.

Limits: it is not a snapshot. Concurrent writes may appear as differences, except those that both sides have at the
second read. Items that had expired when it began are ignored on both sides, as in every read.
"""

from typing import Any

from odm import AsyncStore, BadValue, Page, Query, Store
from odm.patterns.compare import BUCKETS, NAMED, Comparison, Difference, Side, Tell, Verified
from odm.patterns.two_stores import Either, On, Steps, arun, now, page, parts, run
from odm.results import RawItem

__all__ = ["BUCKETS", "NAMED", "Difference", "Verified", "averify", "check_pair", "side_of", "steps", "verify"]


def verify(
    source: Store, target: Store, *, parallel: int = 4, size: int = 250, tell: Tell = lambda _: None
) -> Verified:
    """Compare all items of two stores of one table.

    Args:
        source: the store with the expected items.
        target: the store to check.
        parallel: the number of parts of each side to read at the same time.
        size: items per page.
        tell: called after each page with its number of items; from several threads.

    Raises:
        BadValue: the stores are not of one `odm.Table`.
        ItemInvalid: an item does not fit its model.
    """
    return run(steps(source, target, parallel, size, tell))


async def averify(
    source: AsyncStore, target: AsyncStore, *, parallel: int = 4, size: int = 250, tell: Tell = lambda _: None
) -> Verified:
    """Compare all items of two async stores of one table; see `verify`."""
    return await arun(steps(source, target, parallel, size, tell))


def check_pair(source: Either, target: Either) -> None:
    """Raise BadValue for two stores that are not of one table, or are the same store."""
    if source.table is not target.table:
        raise BadValue(
            f"the source is a store of {source.table!r} and the target of {target.table!r}: open both with one Table, "
            "so that the same models read both; prefix= gives it another name"
        )
    if source.backend is target.backend and source.name == target.name:
        raise BadValue(f"source and target are both {source!r}: give one of them another backend or prefix")


def side_of(store: Either, parallel: int, size: int, *, where: Query[Any] | None = None, stale: bool = False) -> Side:
    """All items of a store, or those of a query without an order or limit; also those that have expired."""

    def cursors() -> Steps[list[str]]:
        starts: list[str] = yield On(store, parts(parallel))
        return starts

    def read(cursor: str) -> Steps[Page[RawItem]]:
        items_page: Page[RawItem] = yield On(store, page(cursor, size=size, expired=True, where=where))
        return items_page

    return Side(cursors, read, stale)


def steps(source: Either, target: Either, parallel: int, size: int, tell: Tell) -> Steps[Verified]:
    """The steps of `verify`; arguments as there."""
    check_pair(source, target)
    moment: float = yield On(source, now())
    ours, theirs = side_of(source, parallel, size), side_of(target, parallel, size, stale=True)
    return (yield from Comparison(ours, theirs, moment, tell).verified())
