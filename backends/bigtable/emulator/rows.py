"""The cells of a row: how they are kept, changed and listed.

A row maps families to columns, and columns to their versions, the newest first. It is changed in place, by the table
that holds its lock; what it lists are values that do not change.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import compress
from operator import not_
from typing import NamedTuple, TypeAlias


class Cell(NamedTuple):
    """A cell, as a read returns it."""

    family: str
    qualifier: bytes
    timestamp: int
    value: bytes
    labels: tuple[str, ...] = ()


Version: TypeAlias = tuple[int, bytes]
"""A version of a cell: its timestamp in microseconds, and its value."""

Versions: TypeAlias = tuple[Version] | list[Version]
"""The versions of a cell, the newest first. One alone is in a plain tuple, which Python's garbage collector ignores."""

Join: TypeAlias = Callable[[bytes, bytes], bytes]
"""Makes one value of that of a cell and of another with the same timestamp."""


class Row:
    """The cells of a row."""

    __slots__ = ("families",)

    def __init__(self) -> None:
        self.families: dict[str, dict[bytes, Versions]] = {}

    def __bool__(self) -> bool:
        return bool(self.families)

    def cells(self, order: Iterable[str]) -> list[Cell]:
        """The cells, by family in this order, qualifier, and the newest first."""
        return [
            Cell(family, qualifier, *version)
            for family in order
            if (columns := self.families.get(family)) is not None
            for qualifier in (sorted(columns) if len(columns) > 1 else columns)
            for version in columns[qualifier]
        ]

    def copy(self) -> "Row":
        """A copy that changes on its own."""
        row = Row()
        row.families = {
            family: {name: held if len(held) == 1 else [*held] for name, held in columns.items()}
            for family, columns in self.families.items()
        }
        return row

    def versions(self, family: str, qualifier: bytes) -> Sequence[Version]:
        """The versions of a cell."""
        return self.families.get(family, {}).get(qualifier, ())

    def set(self, family: str, qualifier: bytes, version: Version, join: Join | None = None) -> None:
        """Write a version; ``join``: makes its value of the one that has its timestamp."""
        columns = self.families.get(family)
        if columns is None:
            columns = self.families[family] = {}
        held = columns.get(qualifier)
        if held is None:
            columns[qualifier] = (version,)
            return
        timestamp, value = version
        at = bisect_left(held, -timestamp, key=_age)
        same = at < len(held) and held[at][0] == timestamp
        if same and join is not None:
            version = timestamp, join(held[at][1], value)
        if same and len(held) == 1:
            columns[qualifier] = (version,)
            return
        if isinstance(held, tuple):
            held = columns[qualifier] = [*held]
        held[at : at + same] = [version]

    def delete(self, family: str, qualifier: bytes) -> None:
        """Remove a cell."""
        self._keep(family, qualifier, [])

    def _keep(self, family: str, qualifier: bytes, kept: list[Version]) -> None:
        """Replace the versions of a cell."""
        columns = self.families.get(family)
        if columns is None or qualifier not in columns:
            return
        if kept:
            columns[qualifier] = kept if len(kept) > 1 else (kept[0],)
            return
        del columns[qualifier]
        if not columns:
            del self.families[family]

    def delete_between(self, family: str, qualifier: bytes, start: int, end: int) -> None:
        """Remove the versions of a cell with timestamps in ``[start, end)``."""
        self._keep(
            family,
            qualifier,
            [version for version in self.versions(family, qualifier) if not start <= version[0] < end],
        )

    def delete_family(self, family: str) -> None:
        """Remove the cells of a family."""
        self.families.pop(family, None)

    def clear(self) -> None:
        """Remove all cells."""
        self.families.clear()

    def has_garbage(self, rules: "Mapping[str, Rule]", now: int) -> bool:
        """Whether `collect` would remove anything."""
        return any(
            rule(number, timestamp, now)
            for family, rule in rules.items()
            for held in self.families.get(family, {}).values()
            for number, (timestamp, _) in enumerate(held)
        )

    def collect(self, rules: "Mapping[str, Rule]", now: int) -> Iterator[tuple[str, bytes, list[Version]]]:
        """Remove what the rules of families say. Yields, for each cell, the versions that are removed."""
        for family, rule in rules.items():
            for qualifier, held in [*self.families.get(family, {}).items()]:
                gone = [rule(number, timestamp, now) for number, (timestamp, _) in enumerate(held)]
                if any(gone):
                    self._keep(family, qualifier, [*compress(held, map(not_, gone))])
                    yield family, qualifier, [*compress(held, gone)]

    @property
    def size(self) -> int:
        """The bytes of its qualifiers and values."""
        return sum(
            len(qualifier) + len(value)
            for columns in self.families.values()
            for qualifier, held in columns.items()
            for _, value in held
        )


Rule: TypeAlias = Callable[[int, int, int], bool]
"""Whether garbage collection removes a version: its number among the versions, its timestamp, and the time now."""


def _age(version: Version) -> int:
    return -version[0]
