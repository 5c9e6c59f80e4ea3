"""Items in wide rows: each partition is one row, and each item of it is one cell, a *document*.

The row key is the partition key. The qualifier of an item's document is its sort key, so the items of a row are in the
order of a query. Next to the document stand the cells of the item that change without it:

.. code-block:: text

    comments:COMMENT#2023-09-10           {"_t": "Comment", "_c": ["likes"], "text": "..."}
    comments:COMMENT#2023-09-10##_r       4f0c... [["by_user", "USER#1", "...", "4f0c..."]]
    c:COMMENT#2023-09-10##likes           (8 bytes)

``##_r`` holds the item's revision, and after a space the list of its index entries. A Counter is a cell of the
aggregate family ``c``, to which the server adds; ``_c`` names the item's Counters. Other cells of ``c`` do not count:
an earlier item left them, if the models of a later writer did not have the Counter. An increment of a Counter that
``_c`` does not name reads the item, and sets the cell. No key contains ``##`` (see `odm.backends.bigtable.rows.keys`),
so all these cells are apart from those of other items. Documents stand in the family of their entity, or in ``d``. A
document begins with its tag, so a range of values shows whether an item has it.

To the rest of the backend, each item looks like a row of its own with the columns ``d:`` (the document), ``d:~r`` and
those of its counters. The row also has its size, in ``c`` under a qualifier that is above all others: every write adds
to it, because a row must not become too large to be read. Cells of other families, and columns of an item that are not
named here, belong to other programs: no call changes them.

**Size.** Bigtable does not say how large a row is. So every write adds to a cell of the row. What a write replaces
without a read, and what is written twice, makes that number too large. So before an item is refused, the row is
measured.

**Cells of the items in a row** are shown in two forms. `split` returns each item as a row of its own in the usual form,
which the rest of the backend reads. `cut` returns all cells of each item as they are, with those of its lock: so
transactions read them.

**Documents** are JSON, and begin with the tag, the version and the names of the counters. So a range of values has the
documents with a tag, or with a tag and a version::

    {"_t": "Video", "_v": 2, "_c": ["likes", "views"], ...

**Pages.** A *stretch* is a range of columns of one row. Bigtable cannot limit a stretch by items, only by cells of each
family. So a read asks for as many cells of each family as the items can have, and one more. If a family has this one
too, the item of that cell and those after it may be incomplete, and the next read begins there. Bigtable returns the
columns of a row only in ascending order. So a query in reverse reads its range up to the end.
"""

import logging
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from functools import cached_property, lru_cache
from typing import Any, ClassVar, Final, NamedTuple

from odm.backends.bigtable.client.filters import (
    MAX_BYTES,
    ColumnRange,
    Filter,
    First,
    Newest,
    ValueMatches,
    ValueRange,
    chain,
    interleave,
    newest,
)
from odm.backends.bigtable.client.filters import (
    Column as ColumnFilter,
)
from odm.backends.bigtable.client.native import (
    COUNTERS,
    FAMILY,
    ITEM,
    AddToCell,
    Cell,
    Column,
    DeleteColumn,
    Entry,
    MutateRow,
    Mutation,
    ReadRows,
    Row,
    RowRange,
    SetCell,
    Steps,
    Touched,
)
from odm.backends.bigtable.client.retry import Retry, leading, read_all, until_answered
from odm.backends.bigtable.rows.cells import REVISION, qualifier, read, read_counter, write, write_counter
from odm.backends.bigtable.rows.codec import (
    MAX_CELL,
    MAX_QUALIFIER,
    NO_MEMBERS,
    UNREADABLE,
    Listed,
    Stored,
    listing,
    read_listing,
)
from odm.backends.bigtable.rows.items import ItemRows
from odm.backends.bigtable.rows.keys import Layout, bound
from odm.backends.bigtable.rows.loading import Loader, RowItem, RowItems
from odm.backends.bigtable.rows.ownership import PROBE_PREFIX
from odm.backends.bigtable.rows.pages import passes, rows_of, rows_to_read, scanned
from odm.codec import TAG, VERSION, EntityCodec, Lazy
from odm.errors import BackendError, BadValue, ItemTooLarge, brief
from odm.expressions.nodes import Item, Path, Value
from odm.immutable import Immutable, field
from odm.protocol.limits import size_at_most
from odm.protocol.requests import Only, Page, Position, Query, Scan
from odm.schema.entity import EntitySchema, Key
from odm.schema.row_keys import UNAMBIGUOUS

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
    sizes = (row.values[row.columns.index(SIZE)] if SIZE in row.columns else stored_size_of(row) for row in rows)
    return sum(read_counter(size) for size in sizes if size is not None and len(size) == 8)


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
    rows_ = yield from read_all(ReadRows(table, keys=tuple(rows), filter=newest(COUNTERS, SENTINEL)), retry)
    for row in rows_:
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
            cells = [cell for row_read in rows for cell in row_read.cells]
            read = sum(len(cell.qualifier) + len(cell.value) for cell in cells)
            total += read
            if len(cells) < most:
                break
            start = cells[-1].qualifier.decode("utf-8", "surrogateescape") + "\0"
            most = max(10, MEASURED * most // (read + 1))
    return total


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

_SIZE: Final = SENTINEL.encode("utf-8", "surrogateescape")


def split(row: Row, families: Iterable[str]) -> list[Row]:
    """The items of a row, in the order of their sort keys.

    Args:
        row: the row.
        families: the families of documents.
    """
    items: dict[bytes, dict[Column, tuple[bytes, int]]] = {}
    for (family, column), value, time in zip(row.columns, row.values, row.timestamps, strict=True):
        sort, side, name = column.partition(b"##")
        place = _place(family, side, name, families)
        if place is not None and not _is_mark(column, value):
            items.setdefault(sort, {})[place] = (value, time)
    head, size = row.key + b"##", stored_size_of(row)
    if size is not None:
        for cells in items.values():
            cells[SIZE] = (size, 0)
    return [_row(head + sort, cells) for sort, cells in sorted(items.items()) if DOCUMENT in cells]


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


def cut(rows: Iterable[Row], families: Iterable[str]) -> list[Row]:
    """All cells of each item and lock, with the id as the row key; and the size of the row, if it was read.

    Args:
        rows: the rows.
        families: the families of documents.
    """
    rows_of_items: list[Row] = []
    for row in rows:
        items: dict[bytes, list[Cell]] = {}
        size = [cell for cell in row.cells if (cell.family, cell.qualifier) == (COUNTERS, _SIZE)]
        for cell in row.cells:
            sort, side, name = cell.qualifier.partition(b"##")
            is_lock = name == b"_x" and cell.family in families
            if (is_lock or _place(cell.family, side, name, families)) and not _is_mark(cell.qualifier, cell.value):
                items.setdefault(sort, []).append(cell)
        head = row.key + b"##"
        rows_of_items += (Row(head + sort, (*cells, *size)) for sort, cells in sorted(items.items()) if _counts(cells))
    return rows_of_items


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
    """Equal columns as one object: generated code compares the columns of a row with those before by identity."""
    return columns


def _row(key: bytes, cells: Mapping[Column, tuple[bytes, int]]) -> Row:
    values, times = zip(*cells.values(), strict=True)
    return Row.parted(key, _columns(tuple(cells)), values, times)


COUNTED: Final = "_c"
"""The attribute of a document that names the item's Counters; it is not one of the item."""

_PLAIN: Final = re.compile(r"[A-Za-z0-9_.-]+")


def has_tag(tag: str) -> Filter:
    """The documents with this tag."""
    return _beginning(_opening(tag))


def has_other_tag(tag: str) -> Filter:
    """All others, including values that are not documents."""
    start = _opening(tag)
    return interleave(ValueRange(b"", start), ValueRange(_past(start)))


def has_version(tag: str, version: Value) -> Filter:
    """The documents with this tag and version."""
    start = _opening(tag) + f', "{VERSION}": {version}'.encode()
    return interleave(_beginning(start + b","), _beginning(start + b"}"))


def has_first_version(tag: str) -> Filter:
    """The documents with this tag and the first version, which is not stored."""
    start = _opening(tag)
    later = start + f', "{VERSION}"'.encode()
    return interleave(ValueRange(start, later), ValueRange(_past(later), _past(start)))


def has_counter(tag: str, name: str) -> Filter | None:
    """The documents with this tag that name this counter; None if no filter can express the name."""
    if not (_PLAIN.fullmatch(name) and tag.isascii()):
        return None
    start = re.escape(_opening(tag)).decode()
    named = f'{start}(, "{VERSION}": [0-9]+)?, "{COUNTED}": \\[[^]]*"{re.escape(name)}"[^]]*\\]\\C*'
    return ValueMatches(named.encode())


def _opening(tag: str) -> bytes:
    """The first bytes of the documents with this tag."""
    return write({TAG: tag}).removesuffix(b"}")


def _beginning(start: bytes) -> ValueRange:
    return ValueRange(start, _past(start))


def _past(start: bytes) -> bytes:
    """The first value above all that begin with this one, which is ASCII at its end."""
    return start[:-1] + bytes([start[-1] + 1])


_LOG = logging.getLogger("odm.bigtable")

PAST: Final = "#$"
"""A sort key and this text is above all columns of the item, and below those of items with further components."""

MARGIN: Final = 512
"""The maximum bytes of a filter for one family without the sort key: the values of the tag, tags and lengths."""

FILTER_BYTES: Final = 16 * 1024
"""The maximum bytes of column ranges in one filter; Bigtable allows 20 KB for a filter."""


class WideRows(ItemRows, dict=True):
    """Items as documents in the row of their partition.

    Attributes:
        families: the families of documents.
        of_tag: the family of an entity's documents, by tag; an entity that is not named here has ``d``.
    """

    layout: ClassVar[Layout] = "row_per_partition"
    reads_backwards: ClassVar[bool] = False
    merges_together: ClassVar[bool] = False

    families: tuple[str, ...] = (FAMILY,)
    of_tag: Mapping[str, str] = field(factory=dict)

    @cached_property
    def _counters(self) -> tuple[str, ...]:
        return tuple(sorted(self.form.owned.counters))

    @cached_property
    def _longest(self) -> int:
        """The maximum bytes of a sort key; with locks, a filter names it twice as often."""
        return (MAX_BYTES // (self.locks.mentions * (len(self.families) + 1)) - MARGIN) // 2

    @property
    def counters(self) -> tuple[str, ...]:
        """The columns of the models' Counters in a row of their own."""
        return self._counters

    def row(self, id: str) -> str:
        return id.partition(SIDE)[0]

    def in_one_call(self, keys: Sequence[Key]) -> bool:
        return len({key.partition for key in keys}) < 2

    def sort(self, id: str) -> str:
        """The sort key of an item, which is the qualifier of its document.

        Raises:
            ItemTooLarge: a filter of the item's columns in all families would be too large.
        """
        sort = id.partition(SIDE)[2]
        if len(sort) > self._longest // 4 and len(sort.encode("utf-8", "surrogateescape")) > self._longest:
            raise ItemTooLarge(
                f"the sort key {brief(sort[:40])}… of table {self.table!r} has {len(sort.encode())} bytes; with "
                f"{len(self.families)} families for documents, Bigtable allows {self._longest}, because a filter names "
                "the key for each of them: shorten the values of its key fields, or declare fewer families"
            )
        return sort

    def columns(self, start: str, end: str) -> Iterator[ColumnRange]:
        """All columns with these qualifiers in which the cells of items may be."""
        for family in self.families:
            yield ColumnRange(family, start, end)
        yield ColumnRange(COUNTERS, start, end)

    def read(self, ids: tuple[str, ...], retry: Retry, needed: Filter = ITEM) -> Steps[dict[str, Row]]:
        rows = yield from self.rows(ids, retry)
        return {item.text: item for item in (yield from self.found(rows, retry, frozenset(ids)))}

    def rows(self, ids: tuple[str, ...], retry: Retry) -> Steps[list[Row]]:
        """The rows of some items; of a row with very many of them, several parts. They may have other items, too."""
        rows_read: list[Row] = []
        remaining = ids
        while remaining:
            some = leading(remaining, self.filter_bytes, FILTER_BYTES)
            rows = tuple(dict.fromkeys(map(self.row, some)))
            size = ColumnFilter(COUNTERS, SENTINEL)
            rows_read += yield from read_all(ReadRows(self.table, keys=rows, filter=self.of_items(some, size)), retry)
            remaining = remaining[len(some) :]
        return rows_read

    def read_together(self, ids: tuple[str, ...], retry: Retry, needed: Filter = ITEM) -> Steps[dict[str, Row]]:
        rows = yield from self.row_with(ids, retry)
        return {item.text: item for item in (yield from self.found(rows, retry))}

    def row_with(self, ids: Sequence[str], retry: Retry, *others: Filter) -> Steps[list[Row]]:
        """The row of some items, read at one instant; it may have other items, too."""
        columns = self.of_items(ids, *others)
        if sum(map(self.filter_bytes, ids)) > FILTER_BYTES:
            sorts = sorted(map(self.sort, ids))
            columns = chain(interleave(*self.columns(sorts[0], sorts[-1] + PAST), *others), Newest())
        return (yield from read_all(ReadRows(self.table, keys=(self.row(ids[0]),), filter=columns), retry))

    def of_items(self, ids: Iterable[str], *others: Filter) -> Filter:
        """The filter for all cells of some items."""
        sorts = dict.fromkeys(map(self.sort, ids))
        ranges = (column for sort in sorts for column in self.columns(sort, sort + PAST))
        return chain(interleave(*ranges, *others), Newest())

    def documents(self, ids: Sequence[str]) -> Iterator[ColumnRange]:
        """The columns between the first and the last of some items of a row, without counters."""
        sorts = sorted(map(self.sort, ids))
        return (ColumnRange(family, sorts[0], sorts[-1] + PAST) for family in self.families)

    def family(self, tag: str) -> str:
        """The family of the documents of an entity."""
        return self.of_tag.get(tag, FAMILY)

    def filter_bytes(self, id: str) -> int:
        """The bytes of the filter for an item."""
        return (len(self.families) + 1) * (2 * len(self.sort(id).encode()) + 64)

    def _selected(self, only: Only, roots: frozenset[str], *, listed: bool) -> Filter | None:
        return None  # an item is one cell

    def without_others(self, tag: str, cells: Filter) -> Filter:
        return cells

    def items(self, rows: Iterable[Row], *, former: bool = False, needed: Filter = ITEM) -> list[Row]:
        return [item for row in rows for item in self.split(row)]

    def split(self, row: Row) -> list[Row]:
        """The items of a row, in the order of their sort keys."""
        return split(row, self.families)

    def found(self, rows: Sequence[Row], retry: Retry, asked: Collection[str] | None = None) -> Steps[list[Row]]:
        """The items of some rows by the committed state.

        Args:
            rows: the rows.
            retry: how long to retry.
            asked: the ids of the items that are needed; None: all.
        """
        if not self.locks.any_in(rows):
            items = self.items(rows)
            return items if asked is None else [item for item in items if item.text in asked]
        apart = [item for item in cut(rows, self.families) if asked is None or item.text in asked]
        committed = yield from self.locks.committed(apart, ITEM, retry)
        return [item for row in committed if (item := self.item_of(row)) is not None]

    def item_of(self, row: Row) -> Row | None:
        return joined(row, self.families)

    def loader(self, codecs: Iterable[EntityCodec] = ()) -> Loader:
        return Documents(self, codecs)

    def query(self, request: Query, loader: Loader, retry: Retry) -> Steps[Page]:
        return _Reader(self, loader, retry).query(request)

    def scan(self, request: Scan, loader: Loader, retry: Retry) -> Steps[Page]:
        return _Reader(self, loader, retry).scan(request)

    def sample(self, most: int, retry: Retry) -> Steps[list[Row]]:
        """The first items."""
        items: list[Row] = []
        last: str | None = ""
        while last is not None and len(items) < most:
            following, last = yield from self.items_after(last, retry, most - len(items))
            items += following
        return items

    def items_after(self, id: str, retry: Retry, limit: int | None = None) -> Steps[tuple[list[Row], str | None]]:
        """The next items of the table.

        Args:
            id: the item after which to begin; "" is the start of the table.
            retry: how long to retry.
            limit: the most items to return; None: any number.

        Returns:
            The items, and the id after which to read on; None if there are no more.
        """
        partition, _, sort = id.partition("##")
        begin = Position(Key(partition, sort)) if id else None
        page = yield from self.scan(Scan(after=begin, limit=limit), self.loader(), retry)
        assert isinstance(page.items, RowItems)
        return [*page.items.parts], None if page.next is None else "##".join(page.next.key)

    def whole_families(self, declared: Iterable[str] = ()) -> set[str]:
        return super().whole_families((*declared, *self.families))

    def shows(self, entity: EntitySchema, row: Row) -> bool:
        return True  # the tag is in the document

    def unknown_items(self, entities: Iterable[EntitySchema]) -> tuple[Filter, ...]:
        return ()

    def tags_unless(self, tag: str) -> Filter | None:
        return None

    def named(self, rows: dict[str, Row], cells: Filter) -> dict[str, Row]:
        return {id: item for id, row in rows.items() if (item := self.item_of(row)) is not None}

    def shown(self, cells: Filter) -> Filter:
        return cells

    def stored(self, row: Row | None) -> Stored | None:
        if row is None:
            return None
        item = self.decode(row)
        revision = self._note_of(row)[0].decode(errors="backslashreplace")
        return Stored(item, revision, self.entries_of(row, item.get(TAG)), row)

    def decode(self, row: Row) -> dict[str, Value]:
        """The item of the row that it looks like; a document that is not an item's is returned as it is.

        Raises:
            BackendError: a cell of an item has a form that odm does not write.
        """
        item = self.document(row)
        if item is None:
            return {row.text.partition(SIDE)[2]: row.values[row.columns.index(DOCUMENT)]}
        try:
            for name in item.pop(COUNTED, ()):
                column = Column(COUNTERS, qualifier(name).encode())
                if column in row.columns:
                    item[name] = read_counter(row.values[row.columns.index(column)])
        except UNREADABLE as fault:
            raise _foreign(row, fault) from fault
        return {name: value for name, value in item.items() if value != NO_MEMBERS}

    def marks(self, row: Row) -> dict[str, Value]:
        return self.document(row) or {}

    def listed(self, row: Row) -> tuple[Listed, ...]:
        entries = self._note_of(row)[1]
        try:
            return read_listing(entries) if entries else ()
        except UNREADABLE as fault:
            raise _foreign(row, fault) from fault

    def _note_of(self, row: Row) -> tuple[bytes, bytes]:
        """The revision of an item, and the stored list of its index entries."""
        try:
            revision, _, entries = row.values[row.columns.index(REVISION_OF)].partition(b" ")
        except ValueError:  # another program wrote the item
            return b"", b""
        return revision, entries

    def has_space(self, before: Stored | None, *, refused: bool) -> bool:
        return not refused if before is None else not is_full((before.row,))

    def check_space(self, rows: Mapping[str, int], retry: Retry) -> Steps[None]:
        if rows:
            yield from check_space(self.table, self.families, rows, retry)

    def check_puts(self, puts: Iterable[tuple[str, Item]], retry: Retry) -> Steps[None]:
        rows: dict[str, int] = {}
        for id, item in puts:
            row = self.row(id)
            rows[row] = rows.get(row, 0) + size_at_most(item)
        return self.check_space(rows, retry)

    def taken(self, id: str) -> Filter:
        return interleave(self._documents(id), *self.locks.locked(id), FULL)

    def _documents(self, id: str) -> Filter:
        """Returns the document of an item, in any family."""
        return interleave(*(newest(family, self.sort(id)) for family in self.families))

    def strange(self, id: str, tag: str) -> Filter:
        others = (chain(newest(family, self.sort(id)), has_other_tag(tag)) for family in self.families)
        return interleave(*others, *self.locks.locked(id), FULL)

    def there(self, id: str, tag: str | None, said: Filter | None = None) -> Filter:
        """Returns a cell if there is an item with this tag, or any; ``said`` restricts its document (`documents`)."""
        if tag is None:
            return self._documents(id)
        return chain(newest(self.family(tag), self.sort(id)), has_tag(tag) if said is None else said)

    def unchanged(self, id: str, before: Stored) -> Filter:
        revision = before.revision.encode()
        held = ValueRange(revision, revision + b"!")  # nothing, or a space and the list, follows
        return interleave(*(chain(newest(family, self.sort(id) + REVISED), held) for family in self.families))

    def removed(self, id: str, before: Stored | None = None) -> tuple[Mutation, ...]:
        return (*self._removed(id), *grown(-self._held(before)))

    def _removed(self, id: str) -> Iterator[Mutation]:
        sort = self.sort(id)
        for family in self.families:
            yield DeleteColumn(sort, family)
            yield DeleteColumn(sort + REVISED, family)
        for column in self.counters:
            yield DeleteColumn(f"{sort}{SIDE}{column}", COUNTERS)

    def replaced(  # as in `ItemRows`
        self,
        item: Item,
        id: str,
        revision: str,
        listed: Sequence[Listed],
        now: int,
        before: Stored | None = None,
    ) -> tuple[Mutation, ...]:
        counts = {name: value for name, value in item.items() if self._counts(name, value)}
        plain = {name: value for name, value in item.items() if name not in counts}
        added = (self._added(id, name, value) for name, value in counts.items())
        written, note = self._written(plain, counts, id, now), self._note(item, id, revision, listed, now)
        added_bytes = bytes_of(written) + bytes_of(note) - self._held(before)
        return (*self._removed(id), written, *added, note, *grown(added_bytes))

    def touched(self, row: str, cells: Iterable[Touched]) -> list[str]:
        """The items whose documents or counters the mutations name; the items of a deleted family are not known."""
        sorts: dict[bytes, None] = {}
        for family, column, value in cells:
            if column is None:
                if family in (None, COUNTERS, *self.families):
                    _LOG.warning("table %r: a deletion of a whole row or family was not delivered", self.table)
            elif (sort := item_column(family or "", column, value, self.families)) is not None:
                sorts[sort] = None
        most = self._longest
        return [f"{row}{SIDE}{sort.decode('utf-8', 'surrogateescape')}" for sort in sorts if len(sort) <= most]

    def _held(self, before: Stored | None, *columns: Column) -> int:
        """The bytes of these cells of an item that was read; default: of all except its counters."""
        if before is None:
            return 0
        sort = len(before.row.key.partition(b"##")[2])
        cells = zip(before.row.columns, before.row.values, strict=True)
        ends = {DOCUMENT: 0, REVISION_OF: len(REVISED)}
        return sum(sort + ends[column] + len(value) for column, value in cells if column in (columns or ends))

    def updated(self, id: str, changed: Iterable[Path], before: Stored, after: Item, now: int) -> tuple[Mutation, ...]:
        whole = self.document(before.row) or {}
        plain, counted = dict(whole), set(whole.get(COUNTED, ()))  # counters that do not change keep their cells
        mutations: list[Mutation] = []
        for name in frozenset(path.root for path in changed):
            plain.pop(name, None)
            if name in counted or self.form.kind(name) == "counter":
                mutations.append(DeleteColumn(f"{self.sort(id)}{SIDE}{qualifier(name)}", COUNTERS))
                counted.discard(name)
            if name in after and self._counts(name, after[name]):
                mutations.append(self._added(id, name, after[name]))
                counted.add(name)
            elif name in after:
                plain[name] = after[name]
        plain.pop(COUNTED, None)
        written = self._written(plain, counted, id, now)
        stored = before.row.values[before.row.columns.index(DOCUMENT)]
        if written.value != stored or self.form.renewed(after):
            mutations += (
                DeleteColumn(written.qualifier, written.family),
                written,
                *grown(len(written.value) - len(stored)),
            )
        return tuple(mutations)

    def noted(self, id: str, before: Stored, revision: str, listed: Sequence[Listed], now: int) -> tuple[Mutation, ...]:
        note = self._note(before.item, id, revision, listed, now)
        added_bytes = bytes_of(note) - self._held(before, REVISION_OF)
        return (DeleteColumn(note.qualifier, note.family), note, *grown(added_bytes))

    def counter(self, id: str, column: str) -> Filter:
        return newest(COUNTERS, f"{self.sort(id)}{SIDE}{column}")

    def counted(self, id: str, column: str, cell: bytes, now: int) -> AddToCell:
        return AddToCell(f"{self.sort(id)}{SIDE}{column}", read_counter(cell), COUNTERS)

    def document(self, row: Row) -> dict[str, Value] | None:
        """The document of an item, without its counters; None if it is not an item's."""
        try:
            document = read(row.values[row.columns.index(DOCUMENT)])
        except UNREADABLE:
            return None
        return document if isinstance(document, dict) and isinstance(document.get(TAG), str) else None

    def _counts(self, name: str, value: Value) -> bool:
        return type(value) is int and self.form.kind(name) == "counter"

    def _added(self, id: str, name: str, value: Value) -> AddToCell:
        write_counter(value)  # raises BadValue for a number of more than 64 bits
        return AddToCell(f"{self.sort(id)}{SIDE}{qualifier(name)}", value, COUNTERS)

    def _written(self, document: Item, counted: Collection[str], id: str, now: int) -> SetCell:
        """The cell of a document, which begins with its tag, its version and the names of the item's counters."""
        if not document.get(TAG):
            raise BadValue(f"the item {brief(id)} has no tag: every item has the name of its entity as {TAG!r}")
        marks = {name: document[name] for name in (TAG, VERSION) if name in document}
        if counted:
            marks[COUNTED] = sorted(counted)
        try:
            cell = write({**marks, **document})
        except BadValue as error:
            raise BadValue(f"the item {brief(id)}: {error}") from error
        if len(cell) > MAX_CELL:
            raise ItemTooLarge(f"the item {brief(id)} has {len(cell)} bytes; Bigtable allows {MAX_CELL} in a cell")
        if len(self.sort(id).encode()) > MAX_QUALIFIER - len(REVISED):
            raise ItemTooLarge(f"the sort key of {brief(id)} is too long: Bigtable allows {MAX_QUALIFIER} bytes")
        return SetCell(self.sort(id), cell, now, self._family(document))

    def _note(self, item: Item, id: str, revision: str, listed: Sequence[Listed], now: int) -> SetCell:
        text = f"{revision} ".encode() + listing(listed) if listed else revision.encode()
        return SetCell(self.sort(id) + REVISED, text, now, self._family(item))

    def _family(self, item: Item) -> str:
        return self.family(item[TAG])


def _foreign(row: Row, fault: Exception) -> BackendError:
    partition, _, sort = row.text.partition(SIDE)
    return BackendError(
        f"odm did not write the item {brief(sort)} of row {brief(partition)}: a cell next to its document "
        "cannot be read "
        f"({fault}). Use the table only with odm, or delete the cells"
    )


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


class _Reader(Immutable):
    """Reads pages of one table.

    Attributes:
        places: where the items stand.
        loader: makes the items.
        retry: how long to retry.
    """

    places: WideRows
    loader: Loader
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

    def __init__(self, request: Query | Scan, loader: Loader, entries: Any = None) -> None:
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
