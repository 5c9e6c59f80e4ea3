"""Applies a filter to the cells of a row."""

from collections.abc import Mapping, Sequence
from random import Random
from typing import assert_never

from msgspec import Struct

from odm.backends.bigtable.emulator.filters import (
    Bits,
    Block,
    Chain,
    Columns,
    Condition,
    Family,
    Filter,
    First,
    Interleave,
    Label,
    Newest,
    Offset,
    Pass,
    Qualifier,
    RowKey,
    Sample,
    Sink,
    Strip,
    Times,
    Value,
    Values,
)
from odm.backends.bigtable.emulator.rows import Cell


class Evaluator(Struct, frozen=True):
    """Applies filters to the rows of a table.

    Attributes:
        order: the number of each family in the order of their cells.
        random: chooses the rows of a sample.
    """

    order: Mapping[str, int]
    random: Random

    def cells(self, filter: Filter, key: bytes, cells: Sequence[Cell]) -> Sequence[Cell]:
        """The cells that a read returns, in order.

        Args:
            filter: the filter.
            key: the key of the row.
            cells: its cells, in order.
        """
        sunk: list[Cell] = []
        passed = self._apply(filter, key, cells, sunk)
        return self._sorted([*sunk, *passed]) if sunk else passed

    def _apply(self, filter: Filter, key: bytes, cells: Sequence[Cell], sunk: list[Cell]) -> Sequence[Cell]:
        if not cells:
            return cells
        match filter:
            case Pass():
                return cells
            case Block():
                return ()
            case Sink():
                sunk += cells
                return ()
            case Chain(filters):
                for inner in filters:
                    cells = self._apply(inner, key, cells, sunk)
                return cells
            case Interleave(filters):
                return self._sorted([cell for inner in filters for cell in self._apply(inner, key, cells, sunk)])
            case Condition(predicate, matched, unmatched):
                chosen = matched if self._apply(predicate, key, cells, []) else unmatched
                return () if chosen is None else self._apply(chosen, key, cells, sunk)
            case RowKey(matches):
                return cells if matches(key) else ()
            case Sample(share):
                return cells if self.random.random() < share else ()
            case Offset(count):
                return cells[count:]
            case First(count):
                return cells[:count]
            case Newest(count):
                return _newest(cells, count)
            case Strip():
                return [cell._replace(value=b"") for cell in cells]
            case Label(label):
                return [cell._replace(labels=(label,)) for cell in cells]
            case _:
                return _chosen(filter, cells)

    def _sorted(self, cells: list[Cell]) -> list[Cell]:
        return sorted(cells, key=lambda cell: (self.order[cell.family], cell.qualifier, -cell.timestamp))


def _newest(cells: Sequence[Cell], count: int) -> list[Cell]:
    """The first cells of each column."""
    kept: list[Cell] = []
    last, left = None, 0
    for cell in cells:
        column = cell.family, cell.qualifier
        if column != last:
            last, left = column, count
        if left:
            kept.append(cell)
            left -= 1
    return kept


def _chosen(filter: Family | Qualifier | Value | Columns | Values | Bits | Times, cells: Sequence[Cell]) -> list[Cell]:
    """The cells that pass a filter that looks at each cell by itself."""
    match filter:
        case Family(matches):
            names = {name for name in {cell.family for cell in cells} if matches(name.encode())}
            return [cell for cell in cells if cell.family in names]
        case Qualifier(matches):
            return [cell for cell in cells if matches(cell.qualifier)]
        case Value(matches):
            return [cell for cell in cells if matches(cell.value)]
        case Columns(family, span):
            return [cell for cell in cells if cell.family == family and cell.qualifier in span]
        case Values(span):
            return [cell for cell in cells if cell.value in span]
        case Bits(mask):
            return [cell for cell in cells if _has_bits(cell.value, mask)]
        case Times(start, end):
            return [cell for cell in cells if start <= cell.timestamp < end]
        case _:
            assert_never(filter)


def _has_bits(value: bytes, mask: bytes) -> bool:
    return len(value) == len(mask) and all(byte & bit == bit for byte, bit in zip(value, mask, strict=True))
