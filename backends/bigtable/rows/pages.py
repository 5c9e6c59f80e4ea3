"""Pages of queries and scans, of rows of items and of wide rows; ranges of partitions, and parts of a table.

In a row key, the separator and the sort key follow the partition key. The separator sorts below all characters of a
value in a key of odm's. So a range of partition keys is one range of rows; only a bound directly behind a partition key
must be behind its rows, too.

Keys as they are may have characters below the separator. There, a partition key that is the beginning of the upper
bound may have rows behind it, so the range of rows ends behind these. The scan has a condition that leaves the others
out.

SampleRowKeys returns row keys that divide a table into parts of roughly equal bytes, and may return different keys in
each call. So the parts of one call belong together, and another call cannot reproduce them.

Bigtable's row filters select cells, and cannot compare numbers in text. So a filter on items is evaluated on the
decoded item. A `Source` defines what the rows are: items in this
module, index entries in `odm.backends.bigtable.index.pages`.

A *stretch* is a range of columns of one wide row. Bigtable cannot limit a stretch by items, only by cells of each
family. So a read asks for as many cells of each family as the items can have, and one more. If a family has this one
too, the item of that cell and those after it may be incomplete, and the next read begins there.

Bigtable returns the columns of a row only in ascending order. So a query in reverse reads its range up to the end.
"""

from collections.abc import Callable, Iterable, Sequence
from typing import Any, NamedTuple, Protocol, TypeVar

from odm.backends.bigtable.client.filters import Chain, Filter, First, Newest, Sampled, chain, interleave
from odm.backends.bigtable.client.native import COUNTERS, ITEM, ReadRows, Row, RowRange, Sample, Steps
from odm.backends.bigtable.client.retry import Retry, read_all
from odm.backends.bigtable.rows.codec import Form, items_among
from odm.backends.bigtable.rows.items import ItemRows
from odm.backends.bigtable.rows.keys import bound, key_of
from odm.backends.bigtable.rows.loading import Loader, RowItem, RowItems
from odm.backends.bigtable.rows.wide import SENTINEL, WideRows
from odm.codec import EntityCodec, Lazy
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Item, Value, paths
from odm.immutable import Immutable
from odm.keys import can_be_key, next_prefix
from odm.protocol.requests import Page, Part, Partitions, Position, Query, Scan
from odm.schema.entity import Key
from odm.schema.model import Schema
from odm.schema.row_keys import UNAMBIGUOUS


def rows_of(request: Scan, schema: Schema | None = None) -> RowRange:
    """The rows that a scan reads, before its position is taken into account.

    Args:
        request: the scan.
        schema: the schema of the table; None: a partition is a row.
    """
    part = RowRange() if request.part is None else RowRange(*request.part)
    if request.partitions is None:
        return part
    start, end = request.partitions
    if schema is not None and not schema.hash_only:
        start, end = _rows(schema, request.tag, request.partitions)
    ends = [bound for bound in (part.end, end) if bound is not None]
    return RowRange(max(part.start, start), min(ends, default=None))


def _rows(schema: Schema, tag: str | None, partitions: Partitions) -> tuple[str, str | None]:
    lo, hi = partitions
    if not schema.verbatim_rows:
        return _behind(lo), None if hi is None else _behind(hi)
    return lo, None if hi is None else _widened(schema, tag, hi)


def _behind(bound: str) -> str:
    """A bound of partition keys as one of row keys: behind a partition key is behind its rows."""
    return f"{bound[:-1]}$" if bound.endswith("\0") else bound


def _widened(schema: Schema, tag: str | None, hi: str) -> str | None:
    """The end of the rows of all partitions below a bound, in a table with keys as they are."""
    entity = schema.entities.get(str(tag))
    if entity is None:
        return None
    read, join = entity.primary.partition.read, schema.row_key_join
    heads = [hi[:size] for size in range(1, len(hi)) if read(hi[:size]) is not None]
    ends = [next_prefix(head + join) for head in heads]
    return None if None in ends else max([hi, *(end for end in ends if end is not None)])


CONCURRENT_ONLY = (
    "scan(segment=...) on Bigtable: the server divides a table differently each time, so segments of different calls "
    "would miss items or return them twice. Read all segments in one call, scan(segments=4), or let each worker query "
    "its own partitions"
)
"""Why an `odm.protocol.requests.Scan` with a ``segment`` is not supported."""


def cut(schema: Schema, samples: Sequence[Sample], most: int) -> tuple[Part, ...]:
    """At most ``most`` parts of similar size: as many as the samples and the partitions allow."""
    total = max((sample.offset for sample in samples), default=0)
    chosen = {_nearest(samples, total * number // most).key for number in range(1, most)} if samples else set()
    texts = (key.decode("utf-8", "surrogateescape") for key in sorted(chosen))
    starts = [start for start in dict.fromkeys(_start_of_partition(schema, text) for text in texts) if start]
    starts.sort(key=lambda start: start.encode("utf-8", "surrogateescape"))
    return tuple(Part(start, end) for start, end in zip(("", *starts), (*starts, None), strict=True))


def _nearest(samples: Sequence[Sample], offset: int) -> Sample:
    return min(samples, key=lambda sample: abs(sample.offset - offset))


def _start_of_partition(schema: Schema, row_key: str) -> str:
    """The start of a part near a row key: a text that does not contain a whole partition and the separator after it.

    All rows of a partition begin with that partition and separator, so they are all before the start or all after it.
    """
    if schema.hash_only:
        return row_key
    if schema.verbatim_rows:
        keys = (key_of(schema, row_key, tag) for tag in schema.entities)
        return min((key.partition for key in keys if key is not None), default=row_key)
    if schema.row_key_join == UNAMBIGUOUS:
        return row_key.split(UNAMBIGUOUS, 1)[0]
    components = row_key.split("#")
    partitions = (entity.primary.partition for entity in schema.entities.values())
    lengths = [len(partition.components) for partition in partitions if can_be_key(partition, components[:-1])]
    return "#".join(components[: min(lengths, default=len(components))])


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
        needed: the cells of the items that are needed.
        asked: the cells of their rows that are needed.
        cells: the filter for the whole item; for a count of all items, the filter for the tag.
    """

    request: Query | Scan
    places: ItemRows
    at: Callable[[str], Position]
    loader: Loader
    retry: Retry
    former: bool
    counts_all: bool
    needed: Filter
    asked: Filter
    cells: Filter

    @classmethod
    def of(
        cls, request: Query | Scan, places: ItemRows, at: Callable[[str], Position], loader: Loader, retry: Retry
    ) -> "Items":
        """The rows of the items that a request reads."""
        former = isinstance(request, Scan) and request.entries
        counts_all = request.count and request.filter is None
        needed = ITEM if former else places.current
        if request.only is not None:
            needed = places.selection(request.only, roots_of(request))
        asked = places.cells(loader.form.owned.held if counts_all else needed)
        cells = places.shown(asked)
        if isinstance(request, Scan) and not counts_all:
            cells = scanned(places, request, asked)
        return cls(request, places, at, loader, retry, former, counts_all, needed, asked, cells)

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
        rows = self.places.items(rows, former=self.former, needed=self.needed)
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


def scanned(places: ItemRows, request: Scan, cells: Filter) -> Filter:
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
        return self.content.get(name, default)


class Documents(Loader):
    """Reads the items of wide rows.

    Args:
        places: where the items stand.
        codecs: the codecs of the entities.
    """

    def __init__(self, places: WideRows, codecs: Iterable[EntityCodec] = ()) -> None:
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

    places: WideRows
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
        limit, stretch = most, Stretch([], start)
        while not stretch.items and stretch.following is not None:
            rows = yield from read_all(self._call((row,), self._between(start, end, limit)), self.retry)
            stretch = Stretch((yield from self._items(rows, limit)), self._following(rows[0], limit) if rows else None)
            limit *= 4  # other programs may have many cells among the items
        if len(stretch.items) > most:
            return Stretch(stretch.items[:most], _sort(stretch.items[most]))
        return stretch

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


def items_after(
    places: WideRows, id: str, retry: Retry, limit: int | None = None
) -> Steps[tuple[list[Row], str | None]]:
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
