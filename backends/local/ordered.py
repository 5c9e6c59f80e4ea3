"""`Ordered`: the sort keys of a partition, or the entries of an index partition, in order.

Most partitions are small, and for those a plain list is both smaller and faster than any tree-like structure.
"""

from bisect import bisect_left, bisect_right, insort
from collections.abc import Iterator
from typing import Final, Generic, TypeVar

from sortedcontainers import SortedList

T = TypeVar("T", str, tuple[str, ...])

FEW: Final = 1000
"""Up to here, moving the values behind a new one takes less time than finding its place."""


class Ordered(Generic[T]):
    """Values in order, none twice."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[T] | SortedList[T] = []

    def __bool__(self) -> bool:
        return bool(self._values)

    def add(self, value: T) -> None:
        """Put a value in its place."""
        if not isinstance(self._values, list):
            self._values.add(value)
            return
        insort(self._values, value)
        if len(self._values) > FEW:
            self._values = SortedList(self._values)

    def remove(self, value: T) -> None:
        """Take away a value, which is there."""
        if isinstance(self._values, list):
            del self._values[bisect_left(self._values, value)]
        else:
            self._values.remove(value)

    def between(self, low: T, high: T | None, *, behind: bool, reverse: bool) -> Iterator[T]:
        """The values from ``low``, or behind it, up to before ``high``, or to the end."""
        values = self._values
        if not isinstance(values, list):
            return values.irange(low, high, (not behind, False), reverse)
        start = (bisect_right if behind else bisect_left)(values, low)
        stop = len(values) if high is None else bisect_left(values, high)
        found = values[start:stop]
        return reversed(found) if reverse else iter(found)
