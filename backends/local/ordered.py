"""`Ordered`: the sort keys of a partition, or the entries of an index partition, in order.

Most partitions are small, and for these a list is smaller and faster than a tree.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from sortedcontainers import SortedList

T = TypeVar("T", str, tuple[str, ...])

FEW: Final = 1000
"""The maximum size of a plain list. Up to this size, an insert into a list is faster than into a tree."""


class Ordered(Generic[T]):
    """Distinct values in order."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[T] | SortedList[T] = []

    def __bool__(self) -> bool:
        return bool(self._values)

    def add(self, value: T) -> None:
        """Insert a value."""
        if not isinstance(self._values, list):
            self._values.add(value)
            return
        insort(self._values, value)
        if len(self._values) > FEW:
            self._values = SortedList(self._values)

    def remove(self, value: T) -> None:
        """Remove a value, which must exist."""
        if isinstance(self._values, list):
            del self._values[bisect_left(self._values, value)]
        else:
            self._values.remove(value)

    def between(self, low: T, high: T | None, *, behind: bool, reverse: bool) -> Iterator[T]:
        """The values in ``[low, high)``, without ``low`` if ``behind``; to the end if ``high`` is None."""
        values = self._values
        if not isinstance(values, list):
            return values.irange(low, high, (not behind, False), reverse)
        start = (bisect_right if behind else bisect_left)(values, low)
        stop = len(values) if high is None else bisect_left(values, high)
        found = values[start:stop]
        return reversed(found) if reverse else iter(found)
