"""Pages of queries and scans of rows; ranges of partitions, parts of a table, and samples of its rows.

In a row key, the separator and the sort key follow the partition key. The separator sorts below all characters of a
value in a key of odm's. So a range of partition keys is one range of rows; only a bound directly behind a partition key
must be behind its rows, too.

Keys as they are may have characters below the separator. There, a partition key that is the beginning of the upper
bound may have rows behind it, so the range of rows ends behind these. The scan has a condition that leaves the others
out.

SampleRowKeys returns row keys that divide a table into parts of roughly equal bytes, and may return different keys in
each call. So the parts of one call belong together, and another call cannot reproduce them.

Bigtable's row filters select cells, and cannot compare numbers in text. So a filter on items is evaluated on the
decoded item. A `Source` defines what the rows are: items in this module, index entries in
`odm.backends.bigtable.index.pages`. Pages of wide rows are in `odm.backends.bigtable.rows.wide`.
"""

import re
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

from odm.backends.bigtable.client.filters import Chain, Filter, Sampled
from odm.backends.bigtable.client.native import ITEM, ReadRows, Row, RowRange, Sample, Steps
from odm.backends.bigtable.client.retry import Retry, read_all
from odm.backends.bigtable.rows.codec import Form, items_among
from odm.backends.bigtable.rows.keys import MAX_ROW_KEY, RowKeys
from odm.backends.bigtable.rows.loading import Loader, RowItems
from odm.codec import Lazy
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Item, roots_of
from odm.immutable import Immutable
from odm.protocol.requests import Page, Part, Position, Query, Scan

if TYPE_CHECKING:
    from odm.backends.bigtable.rows.items import ItemRows


def rows_of(request: Scan, row_keys: RowKeys | None = None) -> RowRange:
    """The rows that a scan reads, before its position is taken into account.

    Args:
        request: the scan.
        row_keys: how row keys are built; None: a partition is a row.
    """
    part = RowRange() if request.part is None else RowRange(*request.part)
    if request.partitions is None:
        return part
    start, end = request.partitions if row_keys is None else row_keys.rows_of(request.tag, request.partitions)
    ends = [bound for bound in (part.end, end) if bound is not None]
    return RowRange(max(part.start, start), min(ends, default=None))


CONCURRENT_ONLY = (
    "scan(segment=...) on Bigtable: the server divides a table differently each time, so segments of different calls "
    "would miss items or return them twice. Read all segments in one call, scan(segments=4), or let each worker query "
    "its own partitions"
)
"""Why an `odm.protocol.requests.Scan` with a ``segment`` is not supported."""


def cut(row_keys: RowKeys, samples: Sequence[Sample], most: int) -> tuple[Part, ...]:
    """At most ``most`` parts of similar size: as many as the samples and the partitions allow."""
    total = max((sample.offset for sample in samples), default=0)
    chosen = {_nearest(samples, total * number // most).key for number in range(1, most)} if samples else set()
    texts = (key.decode("utf-8", "surrogateescape") for key in sorted(chosen))
    starts = [start for start in dict.fromkeys(map(row_keys.start_of_partition, texts)) if start]
    # By their bytes: a byte that is not UTF-8 is a surrogate in the text, which sorts otherwise.
    starts.sort(key=lambda start: start.encode("utf-8", "surrogateescape"))
    return tuple(Part(start, end) for start, end in zip(("", *starts), (*starts, None), strict=True))


def _nearest(samples: Sequence[Sample], offset: int) -> Sample:
    return min(samples, key=lambda sample: abs(sample.offset - offset))


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


class ItemSource(Immutable):
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
    places: "ItemRows"
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
        cls, request: Query | Scan, places: "ItemRows", at: Callable[[str], Position], loader: Loader, retry: Retry
    ) -> "ItemSource":
        """The rows of the items that a request reads."""
        former = isinstance(request, Scan) and request.entries
        counts_all = request.count and request.filter is None
        needed = ITEM if former else places.current
        if request.only is not None:
            needed = places.selection(request.only, roots_of(request.filter))
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
        rows = yield from self.places.locks.committed(rows, self.asked, self.retry, cut=cut)
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
        """How many of the items cannot be read."""
        return self.places.misread(kept, counts_all=self.counts_all)


def scanned(places: "ItemRows", request: Scan, cells: Filter) -> Filter:
    """The filter of a scan for these cells: without rows of other entities, and only of the rows of the sample."""
    cells = places.shown(cells if request.tag is None else places.without_others(request.tag, cells))
    if request.sample is not None and request.sample.share < 1:
        cells = Chain((Sampled(request.sample.share), cells))
    return cells


def passes(request: Query | Scan, item: Item) -> bool:
    """Whether an item passes the filter."""
    return request.filter is None or holds(request.filter, item)


def passes_or_misread(request: Query | Scan, row: Row, item: Item, form: Form) -> bool:
    """Whether an item passes the filter, or holds a value that the filter cannot compare."""
    return passes(request, item) or bool(form.misread(row) & roots_of(request.filter))


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
            # If the last result is the last row, nothing follows, and the caller needs no further request to see that.
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


SHARE: Final = 10
"""At most one tenth of the rows of a sample are of one kind, if there are enough kinds. The first rows of a table are
often all of one kind, because rows are in the order of their keys."""

MOST_CELLS: Final = 2000
"""The maximum number of cells to read of a row of another program. Such a row may have millions."""

_KIND: Final = re.compile(r"[^#|:/~^@]*[#|:/~^@]")


def own_kind(row_key: str) -> str:
    """The first component of a row key that odm wrote, which rows of one kind have in common."""
    return row_key.partition("#")[0] + "#"


def any_kind(row_key: str) -> str:
    """The same for keys of other programs, with the separators that are usual."""
    match = _KIND.match(row_key)
    return row_key if match is None else match[0]


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
    sample: dict[bytes, Row] = {}
    span = RowRange()
    while len(sample) < most and not span.empty:
        few = min(max(1, most // SHARE), most - len(sample))
        rows = yield from read_all(ReadRows(table, range=span, limit=few, filter=cells), retry)
        sample |= {row.key: row for row in rows}
        if not sample:
            return []  # the table is empty
        if len(rows) < few:
            break
        span = RowRange(_after_prefix(kind(rows[-1].text)))
    if len(sample) < most:
        rows = yield from read_all(ReadRows(table, limit=most, filter=cells), retry)
        sample |= {row.key: row for row in rows}
    return [*sample.values()][:most]


def _after_prefix(prefix: str) -> str:
    """The first text behind all row keys with a prefix, by their bytes; the last row key, if there is none."""
    head = prefix.encode("utf-8", "surrogateescape").rstrip(b"\xff")
    behind = head[:-1] + bytes([head[-1] + 1]) if head else b"\xff" * MAX_ROW_KEY
    return behind.decode("utf-8", "surrogateescape")
