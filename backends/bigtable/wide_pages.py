"""Pages of queries and scans of wide rows; see `odm.backends.bigtable.wide`.

A *stretch* is a range of columns of one row. Bigtable cannot limit a stretch by items, only by cells of each family. So
a read asks for as many cells of each family as the items can have, and one more. If a family has this one too, the item
of that cell and those after it may be incomplete, and the next read begins there.

Bigtable returns the columns of a row only in ascending order. So a query in reverse reads its range up to the end.
"""

from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from odm.backends.bigtable.entries import bound
from odm.backends.bigtable.filters import Filter, First, Newest, chain, interleave
from odm.backends.bigtable.loading import Loader, RowItem, RowItems
from odm.backends.bigtable.native import COUNTERS, ReadRows, Row, RowRange, Steps
from odm.backends.bigtable.pages import passes, rows_to_read, scanned
from odm.backends.bigtable.partitions import rows_of
from odm.backends.bigtable.retry import Retry, read_all
from odm.backends.bigtable.wide import Wide
from odm.backends.bigtable.wide_size import SENTINEL
from odm.codec import EntityCodec, Lazy
from odm.expressions.nodes import Value
from odm.immutable import Immutable
from odm.protocol.requests import Page, Position, Query, Scan
from odm.schema.entity import Key

SCAN_ROWS = 200
"""The maximum number of rows of one read of a scan, whose rows may have any number of items."""

SCAN_ITEMS = 20
"""The items of each row that such a read returns; the others are read when it is the row's turn."""


class Document(RowItem):
    """A stored item of a wide row."""

    __slots__ = ()
    _loader: "Documents"

    def load(self) -> Any:
        return None  # the document must be decoded first

    def _make(self) -> dict[str, Value]:
        return self._loader.places.decode(self.row)

    def get(self, name: str, default: Any = None) -> Any:
        return self.made.get(name, default)


class Documents(Loader):
    """Reads the items of wide rows.

    Args:
        places: where the items stand.
        codecs: the codecs of the entities.
    """

    def __init__(self, places: Wide, codecs: Iterable[EntityCodec] = ()) -> None:
        super().__init__(places.form, codecs)
        self.places = places

    def item(self, row: Row | None) -> RowItem | None:
        return None if row is None else Document(row, self)

    def made_of(self, row: Row) -> RowItem:
        return Document(row, self)

    def load_all(self, parts: Sequence[Row]) -> list[Any] | None:
        return None if parts else []


class Stretch(NamedTuple):
    """Items of a row in order, and the qualifier from which to read on; None: there are no more in the range."""

    items: list[Row]
    following: str | None


class Reader(Immutable):
    """Reads pages of one table.

    Attributes:
        places: where the items stand.
        loader: makes the items.
        retry: how long to retry.
    """

    places: Wide
    loader: Documents
    retry: Retry

    def query(self, request: Query) -> Steps[Page]:
        """A page of a partition."""
        start, end = bound(request.lo), None if request.hi is None else bound(request.hi)
        if request.after is not None and request.reverse:
            end = request.after.key.sort
        elif request.after is not None:
            start = after(request.after.key.sort)
        pages = _Pages(request, self.loader)
        while end is None or start < end:
            stretch = yield from self._next(request, start, end, pages.to_read)
            pages.add(stretch.items, ended=stretch.following is None)
            if pages.full:
                return pages.page
            assert stretch.following is not None
            start = stretch.following
        return pages.page

    def _next(self, request: Query, start: str, end: str | None, most: int) -> Steps[Stretch]:
        if not request.reverse:
            return (yield from self.stretch(request.partition, start, end, most))
        rows = yield from read_all(self._call((request.partition,), self._between(start, end, None)), self.retry)
        items = yield from self.places.found(rows, self.retry)
        return Stretch(items[::-1], None)

    def stretch(self, row: str, start: str, end: str | None, most: int) -> Steps[Stretch]:
        """The next items of a row from ``start`` up to ``end``: at most as many, and none only if there are none."""
        limit, found = most, Stretch([], start)
        while not found.items and found.following is not None:
            rows = yield from read_all(self._call((row,), self._between(start, end, limit)), self.retry)
            found = Stretch((yield from self._items(rows, limit)), self._following(rows[0], limit) if rows else None)
            limit *= 4  # other programs may have many cells among the items
        if len(found.items) > most:
            return Stretch(found.items[:most], _sort(found.items[most]))
        return found

    def scan(self, request: Scan) -> Steps[Page]:
        """A page of the whole table."""
        span = rows_of(request)
        pages = _Pages(request, self.loader, entries=self.places.entries)
        rest: tuple[str, str] | None = None
        if request.after is not None:
            rest = (request.after.key.partition, after(request.after.key.sort))
        while not span.empty or rest is not None:
            if rest is not None:
                row, start = rest
                stretch = yield from self.stretch(row, start, None, pages.to_read)
                rest = None if stretch.following is None else (row, stretch.following)
                span = span.beyond(row, reverse=False)
                pages.add(stretch.items, ended=rest is None and span.empty)
            else:
                rows, rest, span = yield from self._rows(request, span, min(SCAN_ROWS, pages.to_read))
                pages.add(rows, ended=rest is None and span.empty)
            if pages.full:
                break
        return pages.page

    def _rows(
        self, request: Scan, span: RowRange, most: int
    ) -> Steps[tuple[list[Row], tuple[str, str] | None, RowRange]]:
        """The items of the next rows, the row that has more items and where to read on, and the rows after these."""
        columns = scanned(self.places, request, self._between("", None, SCAN_ITEMS))
        rows = yield from read_all(self._call((), columns, range=span, limit=most), self.retry)
        cut = (number for number, row in enumerate(rows) if self._following(row, SCAN_ITEMS) is not None)
        last = next(cut, None)
        if last is not None:
            items = yield from self._items(rows[: last + 1], SCAN_ITEMS)
            row, following = rows[last], self._following(rows[last], SCAN_ITEMS)
            assert following is not None
            return items, (row.text, following), span.beyond(row.text, reverse=False)
        items = yield from self._items(rows, SCAN_ITEMS)
        ended = len(rows) < most
        return items, None, RowRange("", "") if ended else span.beyond(rows[-1].text, reverse=False)

    def _call(self, keys: tuple[str, ...], columns: Filter, **rows: Any) -> ReadRows:
        return ReadRows(self.places.table, keys=keys, filter=columns, **rows)

    def _between(self, start: str, end: str | None, items: int | None) -> Filter:
        """The cells of a range of columns; at most those of as many items in each family, and one more."""
        parts = []
        for columns in self.places.columns(start, end or SENTINEL):
            most = () if items is None else (First(self._cells_of(columns.family, items)),)
            parts.append(chain(columns, Newest(), *most))
        return interleave(*parts)

    def _cells_of(self, family: str, items: int) -> int:
        """The most cells of so many items in a family, a document and its revision or the counters, and one more."""
        each = max(1, len(self.places.counters)) if family == COUNTERS else 2
        return items * each + 1

    def _following(self, row: Row, limit: int) -> str | None:
        """The first item of which cells may be missing, in a row read with a limit of cells of each family."""
        last: dict[str, list[bytes]] = {}
        for family, column in row.columns:
            last.setdefault(family, []).append(column)
        cut = [max(columns) for family, columns in last.items() if len(columns) >= self._cells_of(family, limit)]
        return min(cut).partition(b"##")[0].decode("utf-8", "surrogateescape") if cut else None

    def _items(self, rows: Sequence[Row], limit: int) -> Steps[list[Row]]:
        """The items of which all cells were read, by the committed state; only the last row may have others."""
        items = yield from self.places.found(rows, self.retry)
        following = self._following(rows[-1], limit) if rows else None
        if following is None:
            return items
        last, end = rows[-1].key, following.encode("utf-8", "surrogateescape")
        return [item for item in items if not _is_from(item.key, last, end)]


def _is_from(id: bytes, row: bytes, sort: bytes) -> bool:
    """Whether an item stands in this row, and at this sort key or above."""
    partition, _, key = id.partition(b"##")
    return partition == row and key >= sort


class _Pages:
    """Collects the items of a page."""

    def __init__(self, request: Query | Scan, loader: Documents, entries: Any = None) -> None:
        self._request, self._loader, self._entries = request, loader, entries
        self._kept: list[Row] = []
        self._last: Row | None = None
        self._seen = 0
        self._ended = True

    @property
    def to_read(self) -> int:
        """How many items to read next."""
        return rows_to_read(self._request, len(self._kept), self._seen)

    def add(self, items: Sequence[Row], *, ended: bool) -> None:
        """Add the next items of the range, which may be its last."""
        asked, made_of = self._request, self._loader.made_of
        self._kept += items if asked.filter is None else [row for row in items if passes(asked, made_of(row))]
        self._last = items[-1] if items else self._last
        self._seen += len(items)
        self._ended = ended

    @property
    def full(self) -> bool:
        """Whether the page is complete."""
        asked = self._request
        if self._ended or (asked.limit is not None and len(self._kept) >= asked.limit):
            return True
        return self._seen > 0 and (asked.limit is None or asked.examine is not None)

    @property
    def page(self) -> Page:
        asked, kept, last = self._request, self._kept, self._last
        if asked.limit is not None and len(kept) >= asked.limit:
            kept = kept[: asked.limit]
            ended = self._ended and kept[-1] is last
            last = kept[-1]
        else:
            ended = self._ended
        following = None if ended or last is None else _position(last)
        items = RowItems(kept, self._loader)
        if asked.count:
            strangers = self._loader.strangers(items)
            return Page(next=following, count=len(kept), strangers=strangers, examined=self._seen)
        entries = Lazy(kept, self._entries) if isinstance(asked, Scan) and asked.entries else ()
        return Page(items, Lazy(kept, _position), following, examined=self._seen, entries=entries)


def after(sort: str) -> str:
    """The first qualifier above all columns of the item with this sort key."""
    return bound(f"{sort}\0")


def _position(row: Row) -> Position:
    partition, _, sort = row.text.partition("##")
    return Position(Key(partition, sort))


def _sort(row: Row) -> str:
    return row.text.partition("##")[2]


def items_after(places: Wide, id: str, retry: Retry, limit: int | None = None) -> Steps[tuple[list[Row], str | None]]:
    """The next items of a table.

    Args:
        places: where the items stand.
        id: the item after which to begin; "" is the start of the table.
        retry: how long to retry.
        limit: the most items to return; None: any number.

    Returns:
        The items, and the id after which to read on; None if there are no more.
    """
    partition, _, sort = id.partition("##")
    begin = Position(Key(partition, sort)) if id else None
    page = yield from Reader(places, Documents(places), retry).scan(Scan(after=begin, limit=limit))
    assert isinstance(page.items, RowItems)
    return [*page.items.parts], None if page.next is None else "##".join(page.next.key)
