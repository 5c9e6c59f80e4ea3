"""`Ordered`: the sort keys of a partition, or the entries of an index partition, in order.

Most partitions are small, and for these a list is smaller and faster than blocks.

A signal handler may raise an exception between any two steps of Python. So each change here is one call of C, and the
values are in order before and after it. It may be repeated: adding a value that exists, or discarding one that does
not, does nothing.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from operator import itemgetter
from typing import Any, Final, Generic, TypeVar

T = TypeVar("T", str, tuple[str, ...])

FEW: Final = 1000
"""The maximum size of a plain list. Up to this size, an insert into a list is faster than into blocks."""

_LAST: Final[Any] = itemgetter(-1)


class Ordered(Generic[T]):
    """Distinct values in order."""

    __slots__ = ("_values",)

    def __init__(self) -> None:
        self._values: list[T] | _Blocks[T] = []

    def __bool__(self) -> bool:
        return bool(self._values)

    def add(self, value: T) -> None:
        """Insert a value, unless it exists."""
        values = self._values
        if not isinstance(values, list):
            values.add(value)
            return
        at = bisect_left(values, value)
        if at == len(values):
            values.append(value)
        elif values[at] != value:
            values.insert(at, value)
        if len(values) > FEW:
            self._values = _Blocks(values)

    def discard(self, value: T) -> None:
        """Remove a value, if it exists."""
        values = self._values
        if not isinstance(values, list):
            values.discard(value)
        elif (at := bisect_left(values, value)) < len(values) and values[at] == value:
            del values[at]

    def between(self, low: T, high: T | None, *, behind: bool, reverse: bool) -> Iterator[T]:
        """The values in ``[low, high)``, without ``low`` if ``behind``; to the end if ``high`` is None."""
        values = self._values
        if not isinstance(values, list):
            return values.between(low, high, behind=behind, reverse=reverse)
        part = _part(values, low, high, behind)
        return reversed(part) if reverse else iter(part)


class _Blocks(Generic[T]):
    """Many distinct values in order: a list of lists, none of which is empty or has more than twice `FEW` values."""

    __slots__ = ("_blocks",)

    def __init__(self, values: list[T]) -> None:
        self._blocks: list[list[T]] = [values]

    def __bool__(self) -> bool:
        return bool(self._blocks)

    def add(self, value: T) -> None:
        blocks = self._blocks
        if not blocks:
            blocks.append([value])
            return
        number = min(bisect_left(blocks, value, key=_LAST), len(blocks) - 1)
        block = blocks[number]
        at = bisect_left(block, value)
        if at == len(block) or block[at] != value:
            block.insert(at, value)
        if len(block) > 2 * FEW:
            blocks[number : number + 1] = [block[: len(block) // 2], block[len(block) // 2 :]]

    def discard(self, value: T) -> None:
        blocks = self._blocks
        number = bisect_left(blocks, value, key=_LAST)
        if number == len(blocks):
            return
        block = blocks[number]
        at = bisect_left(block, value)
        if block[at] != value:
            return
        if len(block) == 1:
            del blocks[number]
        else:
            del block[at]

    def between(self, low: T, high: T | None, *, behind: bool, reverse: bool) -> Iterator[T]:
        blocks = self._blocks
        first = bisect_left(blocks, low, key=_LAST)
        last = len(blocks) if high is None else bisect_left(blocks, high, key=_LAST) + 1
        for block in reversed(blocks[first:last]) if reverse else blocks[first:last]:
            part = _part(block, low, high, behind)
            yield from reversed(part) if reverse else part


def _part(values: list[T], low: T, high: T | None, behind: bool) -> list[T]:
    start = (bisect_right if behind else bisect_left)(values, low)
    stop = len(values) if high is None else bisect_left(values, high)
    return values[start:stop]
