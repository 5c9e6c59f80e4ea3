"""Compare what two sides hold, by count and checksum: for `odm.patterns.verify` and `odm.patterns.derive`.

A side is read in parts at the same time, page by page, as raw items: those of a table, or those that a function makes.

| step | reads | result |
|---|---|---|
| `Comparison.sums` by a hash of the partition | each side once | 4,096 sums for each entity |
| the same by partition, if sums differ | each side once more | the partitions with the hashes of 16 of these sums |

The number of sums, and so the memory, is the same for any number of partitions. A sum is a count and the sum of the
items' checksums (BLAKE2b, 128 bits) modulo 2**128. It does not depend on the order in which the items are read.
"""

import json
from collections.abc import Callable, Iterable
from decimal import Decimal
from hashlib import blake2b
from typing import Any, Final, TypeAlias
from zlib import crc32

from attrs import frozen

from odm import Page
from odm.patterns.two_stores import Concurrent, Steps
from odm.results import RawItem

BUCKETS: Final = 4096
"""The number of sums for each entity; each is of the partitions with the same hash."""

NAMED: Final = 16
"""The maximum number of differing sums whose partitions are listed."""

Name: TypeAlias = tuple[str, int | str]
"""An entity, and the hash of some partitions (first read) or a partition key (second read)."""

Sum: TypeAlias = tuple[int, int]
"""A count, and the sum of checksums."""

Sums: TypeAlias = dict[Name, Sum]
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


@frozen
class Side:
    """One of two sides.

    Attributes:
        cursors: steps that return the cursors at which its parts begin.
        page: steps that return the page at a cursor.
        stale: the checksum of an item includes the indexes whose entry for it is wrong.
    """

    cursors: Callable[[], Steps[list[str]]]
    page: Callable[[str], Steps[Page[RawItem]]]
    stale: bool = False


@frozen
class Comparison:
    """How to compare two sides.

    Attributes:
        source, target: the sides.
        instant: the time that decides which items have expired, in seconds since the epoch.
        tell: called after each page with its number of items; from several threads.
    """

    source: Side
    target: Side
    instant: float
    tell: Tell

    def verified(self) -> Steps[Verified]:
        """Compare both sides."""
        ours, theirs = yield from self.sums(bucket)
        items = sum(count for count, _ in ours.values())
        names = differing(ours, theirs)
        if not names:
            return Verified(items)
        some = frozenset(names[:NAMED])

        def named(item: RawItem) -> Name | None:  # only partitions of a few sums, to bound the memory
            return name_of(item) if bucket(item) in some else None

        ours, theirs = yield from self.sums(named)
        differences = tuple(
            Difference(entity, str(partition), ours.get(name, NONE)[0], theirs.get(name, NONE)[0])
            for name in differing(ours, theirs)
            for entity, partition in [name]
        )
        return Verified(items, differences, len(names) - len(some))

    def sums(self, group: Group) -> Steps[tuple[Sums, Sums]]:
        """The sums of both sides by group; items whose group is None are ignored."""
        begin = yield from self.source.cursors()
        other = yield from self.target.cursors()
        ours = [self._part(self.source, cursor, group) for cursor in begin]
        theirs = [self._part(self.target, cursor, group) for cursor in other]
        sums: list[Sums] = yield Concurrent([*ours, *theirs])
        return _added(sums[: len(ours)]), _added(sums[len(ours) :])

    def _part(self, side: Side, cursor: str | None, group: Group) -> Steps[Sums]:
        sums: Sums = {}
        while cursor is not None:
            side_page = yield from side.page(cursor)
            for item in side_page.items:
                if (item.expires is None or item.expires > self.instant) and (name := group(item)) is not None:
                    sums[name] = plus(sums.get(name, NONE), (1, checksum(item, stale=side.stale)))
            self.tell(len(side_page.items))
            cursor = side_page.cursor
        return sums


NONE: Final = (0, 0)
"""The sum of nothing."""


def plus(first: Sum, second: Sum) -> Sum:
    """The sum of two sums."""
    return first[0] + second[0], (first[1] + second[1]) % 2**128


def differing(ours: Sums, theirs: Sums) -> list[Name]:
    """The names whose sums differ, in order."""
    return sorted(name for name in {*ours, *theirs} if ours.get(name, NONE) != theirs.get(name, NONE))


def bucket(item: RawItem) -> Name:
    """The sum of the first read to which an item belongs."""
    return type(item.entity).__name__, crc32(item.partition.encode()) % BUCKETS


def name_of(item: RawItem) -> Name:
    """The entity and partition of an item."""
    return type(item.entity).__name__, item.partition


def _added(parts_: Iterable[Sums]) -> Sums:
    whole: Sums = {}
    for sums in parts_:
        for name, sum_ in sums.items():
            whole[name] = plus(whole.get(name, NONE), sum_)
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
