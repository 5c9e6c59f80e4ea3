"""Evaluates row filters on the cells of a row, as Bigtable does (google.bigtable.v2, data.proto: RowFilter)."""

import re
from collections.abc import Mapping
from typing import TypeAlias

from odm.backends.bigtable.client.filters import (
    AnyFamily,
    Before,
    Behind,
    Chain,
    Column,
    ColumnRange,
    Family,
    Filter,
    First,
    Interleave,
    Newest,
    Nothing,
    Sampled,
    Stripped,
    Unless,
    ValueIs,
    ValueMatches,
    ValueRange,
)
from odm.backends.bigtable.client.native import Cell

Cells: TypeAlias = tuple[Cell, ...]


def passing(wanted: Filter, cells: Cells, order: Mapping[str, int]) -> Cells:
    """The cells that pass a filter, in the server's order.

    Args:
        wanted: the filter.
        cells: cells in the server's order.
        order: the number of each family in that order.
    """
    match wanted:
        case Chain(filters):
            for one in filters:
                cells = passing(one, cells, order)
            return cells
        case Interleave(filters):
            found = [cell for one in filters for cell in passing(one, cells, order)]
            return tuple(sorted(found, key=lambda cell: (order[cell.family], cell.qualifier, -cell.timestamp)))
        case Unless(condition, otherwise):
            return () if passing(condition, cells, order) else passing(otherwise, cells, order)
        case Newest():
            return _newest(cells)
        case First(number):
            return cells[:number]
        case Behind(number):
            return cells[number:]
        case Stripped():
            return tuple(cell._replace(value=b"") for cell in cells)
        case Sampled():
            return cells
        case Nothing():
            return ()
        case _:
            return tuple(cell for cell in cells if _passes(wanted, cell))


def _newest(cells: Cells) -> Cells:
    """The first cell of each column."""
    found: dict[tuple[str, bytes], Cell] = {}
    for cell in cells:
        found.setdefault((cell.family, cell.qualifier), cell)
    return tuple(found.values())


def _passes(wanted: Filter, cell: Cell) -> bool:
    """Whether a cell passes a filter that looks at each cell by itself."""
    match wanted:
        case Column(family, qualifier):
            return cell.family == family and cell.qualifier == _bytes(qualifier)
        case ColumnRange(family, start, end):
            if cell.family != family or cell.qualifier < _bytes(start):
                return False
            return not end or cell.qualifier < _bytes(end)
        case Family(name):
            return cell.family == name
        case AnyFamily(names):
            return cell.family in names
        case ValueIs(value):
            return cell.value == value
        case ValueRange(start, end, is_open):
            return cell.value >= start and not (is_open and cell.value == start) and (end is None or cell.value < end)
        case ValueMatches(pattern):
            return re.fullmatch(pattern, cell.value, re.DOTALL) is not None
        case Before(micros):
            return cell.timestamp < micros
    raise AssertionError(f"not a filter of one cell: {wanted}")


def _bytes(qualifier: str) -> bytes:
    return qualifier.encode("utf-8", "surrogateescape")
