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

import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from hashlib import blake2b
from typing import Any, Final, TypeAlias
from zlib import crc32

from attrs import frozen

from odm import AsyncStore, BadValue, RawItem, Store
from odm.patterns.two_stores import Concurrent, Either, On, Steps, arun, now, page, parts, run

BUCKETS: Final = 4096
"""The number of sums for each entity; each is of the partitions with the same hash."""

NAMED: Final = 16
"""The maximum number of differing sums whose partitions are listed."""

Name: TypeAlias = tuple[str, int | str]
"""An entity, and the hash of some partitions (first read) or a partition key (second read)."""

Sums: TypeAlias = dict[Name, tuple[int, int]]
Group: TypeAlias = Callable[[RawItem], Name | None]
Tell: TypeAlias = Callable[[int], object]


@frozen
class Difference:
    """A partition that differs between the two sides.

    Attributes:
        entity: the entity of the items.
        partition: the partition key.
        source, target: the number of items on each side; if it is the same, the items differ in their content.
    """

    entity: str
    partition: str
    source: int
    target: int

    def __str__(self) -> str:
        numbers = f"{self.source} in the source, {self.target} in the target"
        if self.source == self.target:
            numbers = f"{self.source} on both sides, which differ in attributes, keys or index entries"
        return f"{self.entity} {self.partition}: {numbers}"


@frozen
class Verified:
    """The result of a comparison.

    Attributes:
        items: the number of items in the source.
        differences: partitions that differ, by entity and partition.
        more: the number of other differing sums, whose partitions are not listed.
    """

    items: int
    differences: tuple[Difference, ...] = ()
    more: int = 0

    @property
    def same(self) -> bool:
        """Whether both sides hold the same items."""
        return not self.differences and not self.more


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


def steps(source: Either, target: Either, parallel: int, size: int, tell: Tell) -> Steps[Verified]:
    """The steps of `verify`; arguments as there."""
    check_pair(source, target)
    moment: float = yield On(source, now())
    read = _Reading(size, moment, tell)
    ours, theirs = yield from read.both(source, target, parallel, _bucket)
    items = sum(count for count, _ in ours.values())
    differing = _differing(ours, theirs)
    if not differing:
        return Verified(items)
    some = frozenset(differing[:NAMED])

    def named(item: RawItem) -> tuple[str, str] | None:  # only partitions of a few sums, to bound the memory
        return (type(item.entity).__name__, item.partition) if _bucket(item) in some else None

    ours, theirs = yield from read.both(source, target, parallel, named)
    found = [
        Difference(
            entity, str(partition), ours.get((entity, partition), _NONE)[0], theirs.get((entity, partition), _NONE)[0]
        )
        for entity, partition in _differing(ours, theirs)
    ]
    return Verified(items, tuple(found), len(differing) - len(some))


_NONE: Final = (0, 0)


def _differing(ours: Sums, theirs: Sums) -> list[Name]:
    return sorted(name for name in {*ours, *theirs} if ours.get(name, _NONE) != theirs.get(name, _NONE))


def _bucket(item: RawItem) -> tuple[str, int]:
    return type(item.entity).__name__, crc32(item.partition.encode()) % BUCKETS


@frozen
class _Reading:
    """How to read both sides: the page size, and the time that decides which items have expired."""

    size: int
    moment: float
    tell: Tell

    def both(self, source: Either, target: Either, parallel: int, group: Group) -> Steps[tuple[Sums, Sums]]:
        """The sums of both sides by group; items whose group is None are ignored."""
        begin: list[str] = yield On(source, parts(parallel))
        other: list[str] = yield On(target, parts(parallel))
        ours = [self._part(source, cursor, group, stale=False) for cursor in begin]
        theirs = [self._part(target, cursor, group, stale=True) for cursor in other]
        sums: list[Sums] = yield Concurrent([*ours, *theirs])
        return _added(sums[: len(ours)]), _added(sums[len(ours) :])

    def _part(self, store: Either, cursor: str | None, group: Group, *, stale: bool) -> Steps[Sums]:
        sums: Sums = {}
        while cursor is not None:
            found = yield On(store, page(cursor, size=self.size, expired=True))
            for item in found.items:
                if (item.expires is None or item.expires > self.moment) and (name := group(item)) is not None:
                    count, total = sums.get(name, _NONE)
                    sums[name] = count + 1, (total + checksum(item, stale=stale)) % 2**128
            self.tell(len(found.items))
            cursor = found.cursor
        return sums


def _added(parts_: Iterable[Sums]) -> Sums:
    whole: Sums = {}
    for sums in parts_:
        for name, (count, total) in sums.items():
            before = whole.get(name, _NONE)
            whole[name] = before[0] + count, (before[1] + total) % 2**128
    return whole


def checksum(item: RawItem, *, stale: bool = False) -> int:
    """128 bits of an item's key and attributes; with ``stale``, also of the indexes whose entry for it is wrong."""
    wrong = sorted(item.stale) if stale else []
    text = json.dumps([item.partition, item.sort, item.attributes, wrong], sort_keys=True, default=_written)
    return int.from_bytes(blake2b(text.encode(), digest_size=16).digest())


def _written(value: Any) -> Any:
    """JSON for types that JSON lacks: a number as its digits without trailing zeros, a set in order."""
    if isinstance(value, Decimal):
        digits = f"{value:f}"
        digits = digits.rstrip("0").rstrip(".") if "." in digits else digits
        return {"$n": digits} if "." in digits else int(digits)
    if isinstance(value, bytes):
        return {"$b": value.hex()}
    return {"$s": sorted(json.dumps(member, default=_written) for member in value)}
