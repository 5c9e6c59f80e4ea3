"""The cells of the items in a wide row; see `odm.backends.bigtable.wide`.

They are shown in two forms. `split` returns each item as a row of its own in the usual form, which the rest of the
backend reads. `cut` returns all cells of each item as they are, with those of its lock: so transactions read them.
"""

from collections.abc import Iterable, Mapping
from functools import lru_cache
from typing import Final

from odm.backends.bigtable.columns import REVISION
from odm.backends.bigtable.native import COUNTERS, FAMILY, Cell, Column, Row
from odm.backends.bigtable.ownership import PROBE_PREFIX
from odm.backends.bigtable.wide_size import SENTINEL, SIZE, stored_size_of
from odm.schema.row_keys import UNAMBIGUOUS

SIDE: Final = UNAMBIGUOUS
"""Separates an item's sort key from the name of a cell next to its document."""

REVISED: Final = f"{SIDE}_r"
"""Ends the qualifier of the cell with an item's revision and index entries."""

LOCKED: Final = f"{SIDE}_x"
"""Ends the qualifier of the cell with the lock of a transaction on an item."""

DOCUMENT: Final = Column(FAMILY, b"")
"""The column of the document in the row that an item looks like."""

REVISION_OF: Final = Column(FAMILY, REVISION.encode())
"""The column of the revision in that row."""

_LOCKED: Final = LOCKED.encode()
_SIZE: Final = SENTINEL.encode("utf-8", "surrogateescape")


def split(row: Row, families: Iterable[str]) -> list[Row]:
    """The items of a row, in the order of their sort keys.

    Args:
        row: the row.
        families: the families of documents.
    """
    found: dict[bytes, dict[Column, tuple[bytes, int]]] = {}
    for (family, column), value, time in zip(row.columns, row.values, row.timestamps, strict=True):
        sort, side, name = column.partition(b"##")
        place = _place(family, side, name, families)
        if place is not None and not _is_mark(column, value):
            found.setdefault(sort, {})[place] = (value, time)
    head, size = row.key + b"##", stored_size_of(row)
    if size is not None:
        for cells in found.values():
            cells[SIZE] = (size, 0)
    return [_row(head + sort, cells) for sort, cells in sorted(found.items()) if DOCUMENT in cells]


def _place(family: str, side: bytes, name: bytes, families: Iterable[str]) -> Column | None:
    """The column of the row that an item looks like; None: the cell is another program's, or a lock."""
    if family == COUNTERS:
        return Column(COUNTERS, name) if side else None
    if family not in families:
        return None
    if not side:
        return DOCUMENT
    return REVISION_OF if name == b"_r" else None


def item_column(family: str, qualifier: bytes, value: bytes | None, families: Iterable[str]) -> bytes | None:
    """The sort key of the item of which a cell is the document or a counter; None: it is neither.

    Args:
        family: the family.
        qualifier: the column.
        value: the value; None if it is not known.
        families: the families of documents.
    """
    sort, side, name = qualifier.partition(b"##")
    if _place(family, side, name, families) in (None, REVISION_OF) or _is_mark(qualifier, value):
        return None
    return sort


def has_locks(rows: Iterable[Row]) -> bool:
    """Whether an item of these rows is locked."""
    return any(column.endswith(_LOCKED) for row in rows for _, column in row.columns)


def cut(rows: Iterable[Row], families: Iterable[str]) -> list[Row]:
    """All cells of each item and lock, with the id as the row key; and the size of the row, if it was read.

    Args:
        rows: the rows.
        families: the families of documents.
    """
    found: list[Row] = []
    for row in rows:
        items: dict[bytes, list[Cell]] = {}
        size = [cell for cell in row.cells if (cell.family, cell.qualifier) == (COUNTERS, _SIZE)]
        for cell in row.cells:
            sort, side, name = cell.qualifier.partition(b"##")
            is_lock = name == b"_x" and cell.family in families
            if (is_lock or _place(cell.family, side, name, families)) and not _is_mark(cell.qualifier, cell.value):
                items.setdefault(sort, []).append(cell)
        head = row.key + b"##"
        found += (Row(head + sort, (*cells, *size)) for sort, cells in sorted(items.items()) if _counts(cells))
    return found


def _counts(cells: Iterable[Cell]) -> bool:
    """Whether there is an item, or a lock."""
    return any(cell.family != COUNTERS and not cell.qualifier.endswith(REVISED.encode()) for cell in cells)


def joined(row: Row, families: Iterable[str]) -> Row | None:
    """The item in a row that `cut` made, as `split` returns it; None: there is none."""
    head, _, _ = row.key.partition(b"##")
    return next(iter(split(Row(head, row.cells), families)), None)


def apart(row: Row, family: str) -> Row:
    """The opposite: what `cut` returns for an item that is not locked.

    Args:
        row: the item.
        family: the family of its document.
    """
    sort = row.key.partition(b"##")[2]
    ends = {DOCUMENT: b"", REVISION_OF: REVISED.encode()}
    cells = [
        Cell(family, sort + ends[place], cell.value, cell.timestamp)
        if (place := Column(cell.family, cell.qualifier)) in ends
        else cell._replace(qualifier=_SIZE if place == SIZE else sort + b"##" + cell.qualifier, family=COUNTERS)
        for cell in row.cells
    ]
    return Row(row.key, cells)


def is_size(cell: Cell) -> bool:
    """Whether a cell has the size of a row."""
    return cell.family == COUNTERS and cell.qualifier == _SIZE


def _is_mark(column: bytes, value: bytes | None) -> bool:
    """Whether a cell is a sentinel, or one with which a scrub gets the server's time."""
    return column == _SIZE or (value == b"" and column.startswith(PROBE_PREFIX.encode()))


@lru_cache(maxsize=1024)
def _columns(columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """Equal columns as one object."""
    return columns


def _row(key: bytes, cells: Mapping[Column, tuple[bytes, int]]) -> Row:
    values, times = zip(*cells.values(), strict=True)
    return Row.parted(key, _columns(tuple(cells)), values, times)
