"""Finding and removing what writers left behind: procedures without I/O, a page of rows at a time. See `scrub`.

**Index columns.** A claim that no item lists is garbage, unless its writer is still at it. So only columns older than
the lease are judged, and in this order: first the index row is read, then the item; then the columns that the item does
not list under their qualifier are removed, and of them only cells from before the cut-off. Read the other way round, a
claim that was committed in between would be taken for garbage; rows are never removed, because another claim may have
come into them. What the item lists is judged as it is stored, whether it has expired or not.

**Ghosts.** An increment of a Counter where there was no item makes a row without a tag, which its writer removes; if it
stopped before, the row goes here, in one step with the question whether an item has been made of it.

**Expired items**, where that is asked for, are removed as any delete removes an item, on the condition that it still
has expired.
"""

import logging
from collections.abc import Callable, Iterator, Sequence

from attrs import evolve, frozen

from odm.backends.bigtable.bulk import read_many, write_many
from odm.backends.bigtable.cells import read
from odm.backends.bigtable.codec import TAG, stored
from odm.backends.bigtable.commit import Work, settle
from odm.backends.bigtable.entries import index_table, position
from odm.backends.bigtable.expressions import there
from odm.backends.bigtable.filters import Before, Filter, First, Newest, Stripped, chain, interleave, newest
from odm.backends.bigtable.index_pages import LIST_ONLY
from odm.backends.bigtable.layout import key_of
from odm.backends.bigtable.native import (
    ENTRIES,
    FAMILY,
    SERVER_TIME,
    CheckAndMutateRow,
    DeleteColumn,
    DeleteRow,
    Entry,
    MutateRow,
    ReadRows,
    Row,
    RowRange,
    SetCell,
)
from odm.backends.bigtable.retry import read_all, until_answered
from odm.backends.bigtable.writer import Writer
from odm.codec import TTL_ATTRIBUTE
from odm.errors import BadValue, OutcomeUnknown, Throttled
from odm.operations.backend import Gen, Sleep
from odm.operations.guards import Now
from odm.operations.ir import Delete, Written

_LOG = logging.getLogger("odm.bigtable")

PAGE_ROWS = 500
"""Rows of one step."""

PROBE = "\0scrub"
"""The row that asks the server for its time. If it stays behind, it is a ghost."""

MICROS = 1_000_000


@frozen
class Scrubbed:
    """What a scrub has done so far.

    Attributes:
        rows: how many rows it has looked at.
        columns: how many columns of index rows it has removed.
        ghosts: how many rows that held no item.
        expired: how many items whose TTL had passed.
        following: where it goes on, for ``after=``; None: it is through.
    """

    rows: int = 0
    columns: int = 0
    ghosts: int = 0
    expired: int = 0
    following: str | None = None

    def __str__(self) -> str:
        removed = ((self.columns, "index column"), (self.ghosts, "ghost"), (self.expired, "expired item"))
        return f"{_many(self.rows, 'row')} read; removed: {', '.join(_many(*part) for part in removed)}"

    def __add__(self, other: "Scrubbed") -> "Scrubbed":
        return Scrubbed(
            self.rows + other.rows,
            self.columns + other.columns,
            self.ghosts + other.ghosts,
            self.expired + other.expired,
        )


@frozen
class Rules:
    """What is removed.

    Attributes:
        lease: seconds for which what nobody lists is left alone.
        expired: items go whose TTL has passed.
        rate: rows a second at most; None: as many as there are.
        after: where to begin, `Scrubbed.following`; None: at the start.
        clock: seconds since the epoch; None: the server's.
    """

    lease: float
    expired: bool = False
    rate: float | None = None
    after: str | None = None
    clock: Callable[[], float] | None = None


def collect(writer: Writer, rules: Rules, tell: Callable[[Scrubbed], object]) -> Gen[Scrubbed]:
    """Go through the tables of a schema, its own first.

    Args:
        writer: of the schema's own table.
        rules: what is removed.
        tell: is told after each step what has been done so far.

    Raises:
        BadValue: ``after`` is not of these tables.
        Throttled: the server did not answer in time; `tell` has been told where to go on.
        OdmError: the server refused a call.
    """
    now = int(rules.clock() * MICROS) if rules.clock is not None else (yield from server_time(writer))
    collector = _Collector(writer, rules.expired, now, now - int(rules.lease * MICROS))
    steps = _begin(collector.tables, rules.after)
    done = Scrubbed()
    for table, index, span, following in steps:
        left: RowRange | None = span
        while left is not None:
            page, last = yield from collector.page(table, index, left)
            left = None if last is None else left.beyond(last, reverse=False)
            done = evolve(done + page, following=following if last is None else f"{table}:{last}")
            tell(done)
            if rules.rate and done.following is not None:
                yield Sleep(page.rows / rules.rate)
    return done


def _begin(
    tables: Sequence[tuple[str, str | None]], after: str | None
) -> Iterator[tuple[str, str | None, RowRange, str | None]]:
    """The tables that are left, with their index, what is left of them, and what follows each."""
    names = [table for table, _ in tables]
    table, _, row_key = (f"{names[0]}:" if after is None else after).partition(":")
    if table not in names:
        raise BadValue(f"after={after!r} is not of table {names[0]!r}: pass what an earlier scrub gave as `following`")
    first = names.index(table)
    for number, (name, index) in enumerate(tables[first:], first):
        span = RowRange(row_key, open=True) if number == first and row_key else RowRange()
        yield name, index, span, f"{names[number + 1]}:" if number + 1 < len(names) else None


def server_time(writer: Writer) -> Gen[int]:
    """The server's time in microseconds, by which it has stamped claims: a clock here may be wrong."""
    probe = Entry(PROBE, (SetCell("_", b"", SERVER_TIME),))
    yield from until_answered(MutateRow(writer.table, probe), writer.retry)
    rows = yield from read_all(ReadRows(writer.table, keys=(PROBE,)), writer.retry)
    yield from until_answered(MutateRow(writer.table, Entry(PROBE, (DeleteRow(),))), writer.retry)
    if not rows:  # somebody else's scrub has removed it
        return (yield from server_time(writer))
    return rows[0].cells[0].timestamp


@frozen
class _Collector:
    """What goes, at one moment.

    Attributes:
        writer: of the schema's own table.
        expired: items go whose TTL has passed.
        now, cutoff: microseconds; what was written before the cut-off is judged.
    """

    writer: Writer
    expired: bool
    now: int
    cutoff: int

    @property
    def tables(self) -> list[tuple[str, str | None]]:
        """The tables to go through, with the name of their index."""
        schema = self.writer.schema
        return [(schema.name, None), *((index_table(schema.name, index), index) for index in schema.indexes)]

    @property
    def _has_ghosts(self) -> bool:
        """Whether there may be any: only increments of Counters make them."""
        form = self.writer.form
        return "counter" in form.kinds.values() or bool(form.disputed)

    def page(self, table: str, index: str | None, span: RowRange) -> Gen[tuple[Scrubbed, str | None]]:
        """Look at the next rows: what was done, and the last row key unless these were the last ones."""
        columns = self._columns if index is None else chain(Newest(), Before(self.cutoff), Stripped())
        if columns is None:
            return Scrubbed(), None
        call = ReadRows(table, range=span, limit=PAGE_ROWS, filter=columns)
        rows = yield from read_all(call, self.writer.retry)
        done = yield from (self._items(rows) if index is None else self._entries(table, index, rows))
        return done + Scrubbed(len(rows)), rows[-1].text if len(rows) == PAGE_ROWS else None

    def _entries(self, table: str, index: str, rows: list[Row]) -> Gen[Scrubbed]:
        """Remove old columns that no item lists; the index rows have been read, now the items are."""
        places = [position(row.text) for row in rows]
        row_keys = [self.writer.row_key(place.key) for place in places]
        items = yield from read_many(self.writer.table, tuple(dict.fromkeys(row_keys)), self.writer.retry, LIST_ONLY)
        entries: list[Entry] = []
        for row, row_key, place in zip(rows, row_keys, places, strict=True):
            held = stored(items.get(row_key), self.writer.form)
            has = () if held is None else held.entries
            listed = {entry.qualifier for entry in has if (entry.index, entry.key) == (index, place.index_key)}
            found = dict.fromkeys(cell.qualifier.decode() for cell in row.cells)
            gone = (DeleteColumn(one, ENTRIES, self.cutoff) for one in found if one not in listed)
            if mutations := tuple(gone):
                entries.append(Entry(row.text, mutations))
        stuck = yield from write_many({table: entries}, self.writer.retry)
        if stuck is not None:
            raise Throttled(f"index {table!r} could not be scrubbed: {stuck.reason}; run it again later", [])
        return Scrubbed(columns=sum(len(entry.mutations) for entry in entries))

    @property
    def _columns(self) -> Filter | None:
        """What tells which rows of the own table go; None: none does."""
        parts = [newest(FAMILY, TAG)]
        if self._has_ghosts:
            parts.append(chain(First(1), Stripped()))
        if self.expired:
            parts.append(newest(FAMILY, TTL_ATTRIBUTE))
        return interleave(*parts) if len(parts) > 1 else None

    def _items(self, rows: list[Row]) -> Gen[Scrubbed]:
        ghosts = yield from self._remove_ghosts(tuple(row.text for row in rows if not _tag(row)))
        expired = yield from self._remove_expired(rows) if self.expired else _none()
        return Scrubbed(ghosts=ghosts, expired=expired)

    def _remove_ghosts(self, row_keys: tuple[str, ...]) -> Gen[int]:
        removed = 0
        columns = chain(Newest(), Stripped())
        found = yield from read_many(self.writer.table, row_keys, self.writer.retry, columns)
        for row_key, row in found.items():
            if max(cell.timestamp for cell in row.cells) < self.cutoff:
                call = CheckAndMutateRow(self.writer.table, row_key, there(), unmatched=(DeleteRow(),))
                removed += not (yield from until_answered(call, self.writer.retry))
        return removed

    def _remove_expired(self, rows: list[Row]) -> Gen[int]:
        now = Now(self.now // MICROS)
        works: list[Work] = []
        for row in rows:
            key = key_of(self.writer.schema, row.text, _tag(row))
            ttl = next((cell.value for cell in row.cells if cell.qualifier == TTL_ATTRIBUTE.encode()), None)
            if key is not None and ttl and now.expired({TTL_ATTRIBUTE: read(ttl)}):
                works.append(Work(Delete(key, now.gone), row.text))
        if works:
            try:
                yield from settle(self.writer, works)
            except OutcomeUnknown as error:
                _LOG.warning("an expired item is left to the next scrub: %s", error)
        return sum(isinstance(work.answer, Written) and work.answer.existed for work in works)


def _none() -> Gen[int]:
    yield from ()
    return 0


def _many(number: int, what: str) -> str:
    return f"{number} {what}{'s' * (number != 1)}"


def _tag(row: Row) -> str:
    """The tag of the item in a row; "" if it holds none."""
    return next((cell.value.decode() for cell in row.cells if cell.qualifier == TAG.encode() and cell.value), "")
