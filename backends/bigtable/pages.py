"""Pages of a query or scan: rows are read until the limit is reached, and filters are evaluated here.

Bigtable's row filters select cells, and cannot compare numbers in text. So a filter on items is evaluated on the
decoded item. A `Source` defines what the rows are: items in this module, index entries in `index_pages`.
"""

from collections.abc import Callable, Sequence
from typing import Protocol, TypeVar

from odm.backends.bigtable.codec import items_among
from odm.backends.bigtable.filters import Chain, Filter, Sampled
from odm.backends.bigtable.form import Form
from odm.backends.bigtable.loading import Loader, RowItems
from odm.backends.bigtable.native import ITEM, ReadRows, Row, RowRange, Steps
from odm.backends.bigtable.places import Places
from odm.backends.bigtable.retry import Retry, read_all
from odm.codec import Lazy
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Item, paths
from odm.immutable import Immutable
from odm.protocol.requests import Page, Position, Query, Scan

PAGE_ROWS = 1000
"""The maximum rows of one read, which bounds the size of a page."""

FIRST_ROWS = 50
"""The minimum rows of a read with a filter, because few of them may pass."""

H = TypeVar("H")
"""A result of a source: a row, or a row with its position."""


class Source(Protocol[H]):
    """The rows of a page, and how they become results."""

    @property
    def table(self) -> str:
        """The table of the rows."""
        ...

    @property
    def loader(self) -> Loader:
        """Reads the items of the table's entities."""
        ...

    @property
    def cells(self) -> Filter:
        """The filter with which to read the rows."""
        ...

    def place(self, row_key: str) -> Position:
        """The position of a row."""
        ...

    def kept(self, rows: list[Row]) -> Steps[list[H]]:
        """The results among the rows."""
        ...

    def items(self, kept: list[H]) -> Sequence[Item]:
        """The items of the results."""
        ...

    def positions(self, kept: list[H]) -> Sequence[Position]:
        """The positions of the results."""
        ...

    def misread(self, kept: list[H]) -> int:
        """How many of the results have cells that their encodings cannot read, if the request reads these cells."""
        ...


class Items(Immutable):
    """Rows of items.

    Attributes:
        request: the query or scan.
        places: where the items stand.
        at: returns the position of a row key.
        loader: reads the items of the table's entities.
        retry: how long to retry.
        former: the items must have the former values of their fields.
        counts_all: only the number of items is needed, of all items in the range.
        wanted: the cells of the items that are needed.
        asked: the cells of their rows that are needed.
        cells: the filter for the whole item; for a count of all items, the filter for the tag.
    """

    request: Query | Scan
    places: Places
    at: Callable[[str], Position]
    loader: Loader
    retry: Retry
    former: bool
    counts_all: bool
    wanted: Filter
    asked: Filter
    cells: Filter

    @classmethod
    def of(
        cls, request: Query | Scan, places: Places, at: Callable[[str], Position], loader: Loader, retry: Retry
    ) -> "Items":
        """The rows of the items that a request reads."""
        former = isinstance(request, Scan) and request.entries
        counts_all = request.count and request.filter is None
        wanted = ITEM if former else places.current
        if request.only is not None:
            wanted = places.selection(request.only, roots_of(request))
        asked = places.cells(loader.form.owned.held if counts_all else wanted)
        cells = places.shown(asked)
        if isinstance(request, Scan) and not counts_all:
            cells = scanned(places, request, asked)
        return cls(request, places, at, loader, retry, former, counts_all, wanted, asked, cells)

    @property
    def table(self) -> str:
        """The table of the items."""
        return self.places.table

    def place(self, row_key: str) -> Position:
        """The position of an item's row."""
        return self.at(row_key)

    def kept(self, rows: list[Row]) -> Steps[list[Row]]:
        """The rows of the items that pass the filter."""
        cut = isinstance(self.request, Scan) and self.request.tag is not None  # see `without_others`
        rows = yield from self.places.committed(rows, self.asked, self.retry, cut=cut)
        rows = self.places.items(rows, former=self.former, wanted=self.wanted)
        if self.counts_all:
            return rows
        condition, form = self.request.filter, self.loader.form
        if condition is None:
            return items_among(rows, form)
        item_of = self.loader.item
        if not form.encodes:
            return [row for row in rows if (item := item_of(row)) is not None and holds(condition, item)]
        return [
            row
            for row in rows
            if (item := item_of(row)) is not None and passes_or_misread(self.request, row, item, form)
        ]

    def items(self, kept: list[Row]) -> Sequence[Item]:
        """The items, each read when it is accessed."""
        return RowItems(kept, self.loader)

    def positions(self, kept: list[Row]) -> Sequence[Position]:
        """The positions, each made when it is accessed."""
        at = self.at
        return Lazy(kept, lambda row: at(row.key.decode("utf-8", "surrogateescape")))

    def misread(self, kept: list[Row]) -> int:
        """How many of the items cannot be read; a count of all items of odm's own rows reads their tags alone."""
        if self.counts_all and self.places.tagged:
            return 0
        return sum(bool(self.loader.form.misread(row)) for row in kept)


def scanned(places: Places, request: Scan, cells: Filter) -> Filter:
    """The filter of a scan for these cells: without rows of other entities, and only of the rows of the sample."""
    cells = places.shown(cells if request.tag is None else places.without_others(request.tag, cells))
    if request.sample is not None and request.sample.share < 1:
        cells = Chain((Sampled(request.sample.share), cells))
    return cells


def roots_of(request: Query | Scan) -> frozenset[str]:
    """The attributes that the filter of a request needs."""
    return frozenset() if request.filter is None else frozenset(path.root for path in paths(request.filter))


def passes(request: Query | Scan, item: Item) -> bool:
    """Whether an item passes the filter."""
    return request.filter is None or holds(request.filter, item)


def passes_or_misread(request: Query | Scan, row: Row, item: Item, form: Form) -> bool:
    """Whether an item passes the filter, or holds a value that the filter cannot compare."""
    return passes(request, item) or bool(form.misread(row) & roots_of(request))


def read_page(request: Query | Scan, source: Source[H], span: RowRange, retry: Retry) -> Steps[Page]:
    """Read a page: read rows until the limit is reached; read once without a limit, or with a number to ``examine``.

    Otherwise a page never ends because rows did not pass the filter. The next page begins after the last row that was
    examined.

    Args:
        request: the query or scan; ``span`` already takes its range and ``after`` into account.
        source: the rows to read.
        span: the range of rows to read, forwards or in reverse.
        retry: how long to retry.
    """
    kept: list[H] = []
    seen = 0
    while not span.empty:
        most = rows_to_read(request, len(kept), seen)
        reverse = isinstance(request, Query) and request.reverse
        call = ReadRows(source.table, range=span, limit=most, reverse=reverse, filter=source.cells)
        rows = yield from read_all(call, retry)
        kept += yield from source.kept(rows)
        ended = len(rows) < most
        seen += len(rows)
        if request.limit is not None and len(kept) >= request.limit:
            kept = kept[: request.limit]
            (position,) = source.positions(kept[-1:])
            last = source.place(rows[-1].text) if rows and ended else None
            return _answer(request, source, kept, None if ended and position == last else position, seen)
        if ended or request.limit is None or request.examine is not None:
            return _answer(request, source, kept, None if ended else source.place(rows[-1].text), seen)
        span = span.beyond(rows[-1].text, reverse=reverse)
    return _answer(request, source, kept, None, seen)


def rows_to_read(request: Query | Scan, found: int, seen: int) -> int:
    """How many rows to read next. With a filter, each read is larger, because any number of rows may pass."""
    if request.limit is None:
        return min(PAGE_ROWS, request.examine or PAGE_ROWS)
    lacking = request.limit - found
    if request.filter is None:
        return min(PAGE_ROWS, lacking)
    return min(PAGE_ROWS, max(FIRST_ROWS, 2 * lacking, seen, request.examine or 0))


def _answer(request: Query | Scan, source: Source[H], kept: list[H], following: Position | None, examined: int) -> Page:
    if request.count:
        strangers = source.loader.strangers(source.items(kept)) + source.misread(kept)
        return Page(next=following, count=len(kept), strangers=strangers, examined=examined)
    return Page(source.items(kept), source.positions(kept), following, len(kept), examined=examined)
