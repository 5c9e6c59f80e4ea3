"""A sample of the rows of a table, spread over the kinds of rows that it has."""

import re
from collections.abc import Callable
from typing import Final

from google.api_core.exceptions import NotFound

from odm.backends.bigtable.filters import Filter, First, Newest, chain
from odm.backends.bigtable.layout import MAX_ROW_KEY
from odm.backends.bigtable.native import ReadRows, Row, RowRange, Steps
from odm.backends.bigtable.native_admin import Families, GetTable, TableInfo
from odm.backends.bigtable.retry import Retry, answers_of, read_all
from odm.errors import BackendError

SHARE: Final = 10
"""At most one tenth of the rows of a sample are of one kind, if there are enough kinds."""

MOST_CELLS: Final = 2000
"""The maximum number of cells to read of a row of another program."""

_KIND: Final = re.compile(r"[^#|:/~^@]*[#|:/~^@]")


def own_kind(row_key: str) -> str:
    """The first component of a row key that odm wrote, which rows of one kind have in common."""
    return row_key.partition("#")[0] + "#"


def any_kind(row_key: str) -> str:
    """The same for keys of other programs, with the separators that are usual."""
    found = _KIND.match(row_key)
    return row_key if found is None else found[0]


def sample_rows(
    table: str, most: int, retry: Retry, cells: Filter, kind: Callable[[str], str] = own_kind
) -> Steps[list[Row]]:
    """Read some rows: a few of each kind, then rows from the start.

    Args:
        table: the table.
        most: the maximum number of rows.
        retry: how long to retry.
        cells: the cells to read.
        kind: the prefix that the keys of rows of one kind have in common.
    """
    found: dict[bytes, Row] = {}
    span = RowRange()
    while len(found) < most and not span.empty:
        few = min(max(1, most // SHARE), most - len(found))
        rows = yield from read_all(ReadRows(table, range=span, limit=few, filter=cells), retry)
        found |= {row.key: row for row in rows}
        if not found:
            return []  # the table is empty
        if len(rows) < few:
            break
        span = RowRange(_behind(kind(rows[-1].text)))
    if len(found) < most:
        rows = yield from read_all(ReadRows(table, limit=most, filter=cells), retry)
        found |= {row.key: row for row in rows}
    return [*found.values()][:most]


def _behind(prefix: str) -> str:
    """The first text behind all row keys with a prefix, by their bytes; the last row key, if there is none."""
    head = prefix.encode("utf-8", "surrogateescape").rstrip(b"\xff")
    behind = head[:-1] + bytes([head[-1] + 1]) if head else b"\xff" * MAX_ROW_KEY
    return behind.decode("utf-8", "surrogateescape")


def describe(table: str, most: int, retry: Retry) -> Steps[tuple[Families, list[Row]]]:
    """The column families of a table of other programs, and some of its rows with the newest cells.

    Args:
        table: the table.
        most: the maximum number of rows.
        retry: how long to retry.

    Raises:
        BackendError: there is no such table.
    """
    [found] = yield from answers_of((GetTable(table),), retry, NotFound)
    if not isinstance(found, TableInfo):
        raise BackendError(f"there is no table {table!r} in this instance") from found
    rows = yield from sample_rows(table, most, retry, chain(Newest(), First(MOST_CELLS)), any_kind)
    return found.families, rows
