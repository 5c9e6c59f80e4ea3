"""The size of wide rows, which must not become too large to be read; see `odm.backends.bigtable.wide`.

Bigtable does not say how large a row is. So every write adds to a cell of the row. What a write replaces without a
read, and what is written twice, makes that number too large. So before an item is refused, the row is measured.
"""

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from odm.backends.bigtable.cells import read_counter, write_counter
from odm.backends.bigtable.filters import ColumnRange, First, Newest, ValueRange, chain, newest
from odm.backends.bigtable.native import (
    COUNTERS,
    AddToCell,
    Column,
    DeleteColumn,
    Entry,
    MutateRow,
    ReadRows,
    Row,
    SetCell,
    Steps,
)
from odm.backends.bigtable.retry import Retry, read_all, until_answered
from odm.errors import ItemTooLarge

SENTINEL: Final = "\udcff"
"""The qualifier of a cell that is above all others of its family: a byte that UTF-8 does not have."""

SIZE: Final = Column("size", b"")
"""The column of the row's size in the row that an item looks like."""

MAX_ROW: Final = 200 * 1024 * 1024
"""The size in bytes from which a row takes no more items. Bigtable cannot read a row of more than 256 MiB as a whole
(google.bigtable.v2, data.proto: Row); a batch may add to a row that is almost as large."""

MEASURED: Final = 4 * 1024 * 1024
"""About how many bytes to read at a time to measure a row."""

FULL: Final = chain(newest(COUNTERS, SENTINEL), ValueRange(write_counter(MAX_ROW), b"\x80"))
"""Returns a cell if a row has too many bytes for another item."""


def stored_size_of(row: Row) -> bytes | None:
    """The cell with the size of a row: the bytes of its items, which every write adds to."""
    cells = zip(row.columns, row.values, strict=True)
    return next((value for column, value in cells if column == (COUNTERS, b"\xff")), None)


def grown(size: int) -> tuple[AddToCell, ...]:
    """The mutation that adds to the size of a row; if the write is repeated, the size is too large (`check_space`)."""
    return (AddToCell(SENTINEL, size, COUNTERS),) if size else ()


def bytes_of(cell: SetCell) -> int:
    """The bytes of a cell, as the size of a row counts them."""
    return len(cell.qualifier.encode()) + len(cell.value)


def size_of(rows: Iterable[Row]) -> int:
    """The size of a row, in bytes, or of the row of an item; 0 if it was not read or is not known."""
    found = (row.values[row.columns.index(SIZE)] if SIZE in row.columns else stored_size_of(row) for row in rows)
    return sum(read_counter(size) for size in found if size is not None and len(size) == 8)


def is_full(rows: Iterable[Row]) -> bool:
    """Whether a row, or the row of an item, seems to have no space left for another item; see `check_space`."""
    return size_of(rows) >= MAX_ROW


def check_space(table: str, families: Sequence[str], rows: Mapping[str, int], retry: Retry) -> Steps[None]:
    """Refuse a write that could make a row too large to be read.

    Args:
        table: the table's name.
        families: the families of documents.
        rows: the bytes to be added, by row key.
        retry: how long to retry.

    Raises:
        ItemTooLarge: a row has no space for them.
    """
    if not rows:
        return
    found = yield from read_all(ReadRows(table, keys=tuple(rows), filter=newest(COUNTERS, SENTINEL)), retry)
    for row in found:
        added = rows[row.text]
        if size_of((row,)) + added < MAX_ROW:
            continue
        size = yield from _measure(table, families, row.text, retry)
        if size + added >= MAX_ROW:
            raise ItemTooLarge(
                f"the partition {row.text!r} of table {table!r} has {size} bytes in one row, which would be "
                f"{size + added} now; odm writes at most {MAX_ROW}, because Bigtable cannot read much larger rows: "
                'keep fewer items with keep=, add a component to the partition key, or use layout="row_per_item"'
            )
        corrected = (DeleteColumn(SENTINEL, COUNTERS), AddToCell(SENTINEL, size, COUNTERS))
        yield from until_answered(MutateRow(table, Entry(row.text, corrected)), retry)


def _measure(table: str, families: Sequence[str], row: str, retry: Retry) -> Steps[int]:
    """The size of a row's items in bytes: the sizes that writes add are too large if they replace items unread."""
    total = 0
    for family in families:
        start, most = "", 100
        while True:
            some = chain(ColumnRange(family, start, SENTINEL), Newest(), First(most))
            rows = yield from read_all(ReadRows(table, keys=(row,), filter=some), retry)
            cells = rows[0].cells if rows else ()
            read = sum(len(cell.qualifier) + len(cell.value) for cell in cells)
            total += read
            if len(cells) < most:
                break
            start = cells[-1].qualifier.decode("utf-8", "surrogateescape") + "\0"
            most = max(10, MEASURED * most // (read + 1))
    return total
