"""Pages of a query or scan: rows are read on until the limit is full, and filters are evaluated here.

Bigtable's own row filters choose cells, and cannot compare numbers in text; what a filter asks of the item is asked of
the decoded item. What the rows are is a `Source`'s: items themselves here, entries of an index in `index_pages`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from attrs import frozen

from odm.backends.bigtable.codec import is_item
from odm.backends.bigtable.filters import Filter
from odm.backends.bigtable.loading import Loader, RowItems
from odm.backends.bigtable.native import ITEM, ReadRows, Row, RowRange, Steps
from odm.backends.bigtable.retry import Retry, read_all
from odm.codec import Lazy
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Item
from odm.protocol.requests import Page, Position, Query, Scan

PAGE_ROWS = 1000
"""Rows of one read, so that a page has a bounded size."""

FIRST_ROWS = 50
"""Rows of the first read for a page of few items behind a filter, which may let few through."""

H = TypeVar("H")
"""What a source finds: a row, or more than that."""


class Source(Protocol[H]):
    """The rows that a page is read from, and what becomes of them."""

    @property
    def table(self) -> str:
        """The table that holds them."""
        ...

    @property
    def loader(self) -> Loader:
        """Of the entities."""
        ...

    def cells(self, request: Query | Scan) -> Filter:
        """What is read of them."""
        ...

    def place(self, row_key: str) -> Position:
        """The position of a row."""
        ...

    def kept(self, request: Query | Scan, rows: list[Row]) -> Steps[list[H]]:
        """What the rows bring to the answer."""
        ...

    def items(self, kept: list[H]) -> Sequence[Item]:
        """The items of that."""
        ...

    def positions(self, kept: list[H]) -> Sequence[Position]:
        """The positions of that."""
        ...


@frozen
class Items:
    """Rows of items.

    Attributes:
        table: the table's name.
        at: gives the position of a row key.
        loader: of the entities.
    """

    table: str
    at: Callable[[str], Position]
    loader: Loader

    def cells(self, request: Query | Scan) -> Filter:
        """All of an item, or that it is one."""
        return self.loader.form.owned.held if request.count and request.filter is None else ITEM

    def place(self, row_key: str) -> Position:
        """The position of an item's row."""
        return self.at(row_key)

    def kept(self, request: Query | Scan, rows: list[Row]) -> Steps[list[Row]]:
        """The rows of the items that the filter lets through."""
        yield from ()
        if request.count and request.filter is None:
            return rows
        if request.filter is None:
            return [row for row in rows if is_item(row, self.loader.form)]
        return [row for row in rows if (item := self.loader.item(row)) is not None and passes(request, item)]

    def items(self, kept: list[Row]) -> Sequence[Item]:
        """The items, read when they are looked at."""
        return RowItems(kept, self.loader)

    def positions(self, kept: list[Row]) -> Sequence[Position]:
        """The positions, made when they are looked at."""
        return Lazy(kept, lambda row: self.at(row.text))


def passes(request: Query | Scan, item: Item) -> bool:
    """Whether the filter lets an item through."""
    return request.filter is None or holds(request.filter, item)


def read_page(request: Query | Scan, source: Source[H], span: RowRange, retry: Retry) -> Steps[Page]:
    """Read a page: on until the limit is full; without a limit, one read.

    It never ends because rows were not kept, and where it ends between two rows, the next one begins behind the last
    row that was looked at.

    Args:
        request: what is asked; its range and ``after`` are already in ``span``.
        source: what is read.
        span: the rows to read, in either direction.
        retry: how long to try.
    """
    kept: list[H] = []
    seen = 0
    while not span.empty:
        most = _rows(request, len(kept), seen)
        reverse = isinstance(request, Query) and request.reverse
        call = ReadRows(source.table, range=span, limit=most, reverse=reverse, filter=source.cells(request))
        rows = yield from read_all(call, retry)
        kept += yield from source.kept(request, rows)
        ended = len(rows) < most
        last = source.place(rows[-1].text) if rows else None
        if request.limit is not None and len(kept) >= request.limit:
            kept = kept[: request.limit]
            (position,) = source.positions(kept[-1:])
            return _answer(request, source, kept, None if ended and position == last else position)
        if ended or request.limit is None:
            return _answer(request, source, kept, None if ended else last)
        span = span.beyond(rows[-1].text, reverse=reverse)
        seen += len(rows)
    return _answer(request, source, kept, None)


def _rows(request: Query | Scan, found: int, seen: int) -> int:
    """How many rows to read next: what a filter lets through is not known, so reads grow until the page is full."""
    if request.limit is None:
        return PAGE_ROWS
    lacking = request.limit - found
    return min(PAGE_ROWS, lacking if request.filter is None else max(FIRST_ROWS, 2 * lacking, seen))


def _answer(request: Query | Scan, source: Source[H], kept: list[H], following: Position | None) -> Page:
    if request.count:
        return Page(next=following, count=len(kept), strangers=source.loader.strangers(source.items(kept)))
    return Page(source.items(kept), source.positions(kept), following)
