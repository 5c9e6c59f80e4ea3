"""Pages of a query or scan: rows are read on until the limit is full, and filters are evaluated here.

Bigtable's own row filters choose cells, and can not compare numbers in text; what a filter asks of the item is asked of
the decoded item.
"""

from collections.abc import Callable

from odm.backends.bigtable.codec import TAG, decode
from odm.backends.bigtable.filters import Newest, Stripped, ValueRange, chain, newest
from odm.backends.bigtable.native import FAMILY, ReadRows, Row, RowRange
from odm.backends.bigtable.retry import Retry, read_all
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Item
from odm.operations.backend import Gen
from odm.operations.ir import Page, Position, Query, Scan

PAGE_ROWS = 1000
"""Rows of one read, so that a page has a bounded size."""

KEYS_ONLY = chain(newest(FAMILY, TAG), ValueRange(b"\0"), Stripped())
"""The tags of items, which rows that are none have not, or have empty; without their values."""

Place = Callable[[str], Position]
"""Gives the position of a row key."""


def read_page(request: Query | Scan, table: str, span: RowRange, place: Place, retry: Retry) -> Gen[Page]:
    """Read a page: on until the limit is full; without a limit, one read.

    Args:
        request: what is asked; its range and ``after`` are already in ``span``.
        table: the table's name.
        span: the rows to read, in either direction.
        place: gives the position of a row.
        retry: how long to try.
    """
    kept: list[tuple[Item, Position]] = []
    while not span.empty:
        call = _read(request, table, span, len(kept))
        rows = yield from read_all(call, retry)
        kept += _kept(request, rows, place)
        ended = len(rows) < (call.limit or 0)
        last = place(rows[-1].text) if rows else None
        if request.limit is not None and len(kept) >= request.limit:
            kept = kept[: request.limit]
            position = kept[-1][1]
            return _answer(request, kept, None if ended and position == last else position)
        if ended or request.limit is None:
            return _answer(request, kept, None if ended else last)
        span = span.beyond(rows[-1].text, reverse=call.reverse)
    return _answer(request, kept, None)


def _read(request: Query | Scan, table: str, span: RowRange, found: int) -> ReadRows:
    """The next read of a page; how many rows a filter lets through is not known."""
    filtered = request.filter is not None
    return ReadRows(
        table,
        range=span,
        limit=PAGE_ROWS if filtered or request.limit is None else min(PAGE_ROWS, request.limit - found),
        reverse=isinstance(request, Query) and request.reverse,
        filter=KEYS_ONLY if request.count and not filtered else Newest(),
    )


def _kept(request: Query | Scan, rows: list[Row], place: Place) -> list[tuple[Item, Position]]:
    """The items that the filter lets through, with their positions; empty where only their number is asked for."""
    if request.count and request.filter is None:
        return [({}, place(row.text)) for row in rows]
    found = ((item, row) for row in rows if (item := decode(row)) is not None)
    return [(item, place(row.text)) for item, row in found if request.filter is None or holds(request.filter, item)]


def _answer(request: Query | Scan, kept: list[tuple[Item, Position]], following: Position | None) -> Page:
    if request.count:
        return Page(next=following, count=len(kept))
    return Page(tuple(item for item, _ in kept), tuple(position for _, position in kept), following)
