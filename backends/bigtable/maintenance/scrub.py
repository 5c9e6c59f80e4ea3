"""Removes the garbage of interrupted writers: ``odm scrub``, and the same as functions.

Reads are correct without a scrub: they ignore the garbage, which costs only time and storage. So run it rarely, for
example once a day. It may be stopped at any time, and run at the same time as other scrubs and writers::

    from odm.backends.bigtable import Bigtable
    from odm.backends.bigtable.maintenance.scrub import scrub

    print(scrub(Bigtable("my-project", "shop"), table))

It removes index columns that no item lists (a write stopped before its item was written, or before the item's previous
entries were removed), rows that increments of Counters left without an item, and with ``expired=True`` items whose TTL
has passed. It keeps index columns and counters younger than the lease of one hour, because their writer may still be
running. It neither removes nor changes rows, cells and column families of other programs.

With ``repair=True`` it also writes index entries again that items list but that are missing, because an index table was
deleted by hand or restored from a backup; see `odm.backends.bigtable.index.repair`.

The procedures have no I/O, and scrub one page of rows at a time.

Data of other programs is never removed or changed. odm owns the families ``d`` and ``c`` of rows that hold an item, its
claims in index tables, and ghosts. A scrub does not read other families.

**Index columns.** A claim that no item lists is garbage, unless its writer is still running. So a scrub checks only
columns older than the lease, in this order: read the index row; then read the item; then remove the columns that the
item does not list under their qualifier, and of these only cells from before the cut-off. In the opposite order, a
claim that is committed in between would be taken for garbage. Rows are never removed, because they may have new claims.
The stored list of the item decides, even if the item has expired. A column is a claim only if its value is the row key
of the item that the index row's key names (`odm.backends.bigtable.rows.keys.claims`).

**Ghosts.** An increment of a Counter without an item writes a row with an empty tag and an empty revision. Its writer
undoes that (`odm.backends.bigtable.writes.counters`). If the writer stopped before that, a scrub removes exactly these
cells and the counters of the models, in one CheckAndMutateRow that checks that both marks are still empty and old. A
row with any other cell in ``d`` or ``c`` is not a ghost.

**Expired items** (optional) are removed by an ordinary delete, on the condition that the item still has the tag of an
entity with a TTL, and is still expired.

**Missing index rows** (optional) are written again: see `odm.backends.bigtable.index.repair`.

The time is the server's: claims have its timestamps, and the local clock may be wrong.

**Locks and records** of interrupted transactions are resolved and removed. A lock older than a minute belongs to a
program that has stopped: a transaction that is not committed is aborted, and one that is committed is carried forward.
Writers that need a row do the same earlier; until then readers ask the record of the transaction at each read.

A record is needed as long as a call of its transaction may come late. So only records older than two leases are
removed, and one that says "committed" only after its rows have been carried forward.
"""

import logging
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Final, cast

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.errors import kind_of
from odm.backends.bigtable.client.filters import (
    Before,
    ColumnRange,
    Family,
    Filter,
    Newest,
    ValueIs,
    chain,
    chained,
    interleave,
    newest,
)
from odm.backends.bigtable.client.native import (
    COUNTERS,
    ENTRIES,
    FAMILY,
    RECORDS,
    SERVER_TIME,
    Cell,
    CheckAndMutateRow,
    DeleteColumn,
    Entry,
    MutateRow,
    ReadRows,
    Row,
    RowRange,
    SetCell,
    Steps,
)
from odm.backends.bigtable.client.retry import LEASE_SECONDS, read_all, read_many, until_answered, write_many
from odm.backends.bigtable.index.pages import LIST_ONLY
from odm.backends.bigtable.index.repair import repair
from odm.backends.bigtable.rows.codec import LISTED, REVISION, TAG, Listed
from odm.backends.bigtable.rows.keys import Layout, claims, index_table, place_of, with_row_key_bytes
from odm.backends.bigtable.rows.locks import NO_LOCKS, NoLocks
from odm.backends.bigtable.rows.ownership import PROBE_PREFIX
from odm.backends.bigtable.rows.wide import REVISED, SIDE, WideRows
from odm.backends.bigtable.transactions.lock_cells import LOCKED
from odm.backends.bigtable.transactions.resolve import MICROS
from odm.backends.bigtable.writer import Writer, new_id
from odm.backends.bigtable.writes.commit import Work, settle
from odm.codec import TTL_ATTRIBUTE
from odm.errors import BackendError, BadValue, OutcomeUnknown, Throttled, Unsupported, brief
from odm.immutable import Immutable, evolve
from odm.protocol.connection import arun, run
from odm.protocol.predicates import Now, every, has_tag
from odm.protocol.requests import Delete, Position, Sleep, Written
from odm.schema.model import Schema
from odm.schema.table import Table

PROBE = "\0scrub"
"""The row in which a scrub writes a cell to get the server's time; each scrub has its own column."""

PROBE_COLUMN = re.compile(rb"~scrub-[0-9a-f]{20}")
"""The qualifier of such a column. If a scrub stops before it deletes its column, a later scrub deletes it."""


def server_time(writer: Writer) -> Steps[int]:
    """The server's time in microseconds, which is also the timestamp of claims; the local clock may be wrong.

    It is the timestamp of a new cell, in a column that only this call uses. So the call neither depends on nor changes
    cells of other scrubs, or of another program's row with the same key.

    Raises:
        BackendError: the table did not keep the cell.
    """
    own = f"{PROBE_PREFIX}{new_id()}"
    yield from until_answered(MutateRow(writer.table, Entry(PROBE, (SetCell(own, b"", SERVER_TIME),))), writer.retry)
    probes = chain(ColumnRange(FAMILY, PROBE_PREFIX, "~scrub."), Newest(), ValueIs(b""))
    rows = yield from read_all(ReadRows(writer.table, keys=(PROBE,), filter=probes), writer.retry)
    times = {
        cell.qualifier.decode(): cell.timestamp
        for row in rows
        for cell in row.cells
        if PROBE_COLUMN.fullmatch(cell.qualifier)
    }
    if own not in times:
        raise BackendError(
            f"table {writer.table!r} did not keep the cell that odm wrote to get the server's time: run odm plan, "
            "which reports whether the garbage collection rule of family 'd' deletes cells by their age"
        )
    stale = times[own] - int(LEASE_SECONDS * MICROS)
    gone = (DeleteColumn(name, FAMILY) for name, written in times.items() if name == own or written < stale)
    yield from until_answered(MutateRow(writer.table, Entry(PROBE, tuple(gone))), writer.retry)
    return times[own]


LOCK_SECONDS: Final = 60.0
"""The age from which a scrub resolves a lock."""


def resolve_old(writer: Writer, locks: NoLocks, rows: Sequence[Row], now: int, seconds: float) -> Steps[int]:
    """Resolve the locks among rows that are older than this. Returns their number.

    Args:
        writer: the writer of the table.
        locks: the locks to resolve.
        rows: rows that were read with their locks.
        now: the server's time, in microseconds.
        seconds: the age of a lock from which it is resolved.
    """
    locks_of_rows = locks.locks_in(rows).items()
    old = [(key, lock) for key, lock in locks_of_rows if lock.at <= now - seconds * MICROS]
    return (yield from locks.resolve(old, writer.retry, writer.now)) if old else 0


class WideLocks(Immutable):
    """The locks of items in wide rows.

    Attributes:
        writer: the writer of the table.
        places: where the items stand.
        locks: the locks to resolve.
        now: the server's time, in microseconds.
        seconds: the age of a lock from which it is resolved.
    """

    writer: Writer
    places: WideRows
    locks: NoLocks
    now: int
    seconds: float

    def page(self, span: RowRange) -> Steps[tuple[int, int, str | None]]:
        """Resolve old locks in the next rows.

        Args:
            span: the rows that are left; its start may be the id of an item, whose row is looked at again.

        Returns:
            The number of rows with locks, and of locks that were resolved; and the last row, if there may be more.
        """
        if self.locks.any_lock is None:
            return 0, 0, None
        first = self.places.row(span.start)
        if first != span.start:
            span = RowRange(first, span.end)
        revisions = chain(interleave(*map(Family, self.places.families)), Newest(), LOCKED)
        call = ReadRows(self.writer.table, range=span, limit=PAGE_ROWS, filter=revisions)
        rows = yield from read_all(call, self.writer.retry)
        ids = tuple(f"{row.text}{SIDE}{sort}" for row in rows for sort in _locked_in(row))
        locks = yield from self.locks.read_locks(ids, self.writer.retry)
        resolved = yield from resolve_old(self.writer, self.locks, [*locks.values()], self.now, self.seconds)
        return len(rows), resolved, rows[-1].text if len(rows) == PAGE_ROWS else None

    def all(self, span: RowRange, last: str | None) -> Steps[int]:
        """Resolve old locks up to the row of an item; None: in all rows. Returns their number."""
        remaining = span if last is None else evolve(span, end=self.places.row(last) + "\0")
        total = 0
        while not remaining.empty:
            _, resolved, row = yield from self.page(remaining)
            total += resolved
            if row is None:
                break
            remaining = remaining.beyond(row, reverse=False)
        return total


def _locked_in(row: Row) -> Iterator[str]:
    """The sort keys of the locked items, in a row that was read with the revisions of locked items."""
    for column in dict.fromkeys(column for _, column in row.columns):
        sort, side, name = column.decode("utf-8", "surrogateescape").partition(SIDE)
        if side + name == REVISED:
            yield sort


_LOG = logging.getLogger("odm.bigtable")

PAGE_ROWS = 500
"""The maximum rows of one page."""

COUNTER_BYTES = 8


class Scrubbed(Immutable):
    """The progress of a scrub.

    Attributes:
        rows: rows read.
        columns: columns removed from index rows.
        ghosts: ghosts removed: rows that increments of Counters left without an item.
        expired: items removed whose TTL had passed.
        repaired: missing index entries of items written again.
        locks: locks of interrupted transactions that were resolved.
        records: records of transactions removed.
        entries: columns of index rows that were looked at, in a dry run; those of running writers too.
        items: items that were looked at, in a dry run.
        following: where to continue, for ``after=``; None: the scrub has finished.
    """

    rows: int = 0
    columns: int = 0
    ghosts: int = 0
    expired: int = 0
    following: str | None = None
    repaired: int = 0
    locks: int = 0
    records: int = 0
    entries: int = 0
    items: int = 0

    def __str__(self) -> str:
        removed = [(self.columns, "index column"), (self.ghosts, "ghost"), (self.expired, "expired item")]
        removed += [(self.records, "record")] * bool(self.records)
        repaired = _many(self.repaired, "index entry", "index entries")
        resolved = f"; resolved: {_many(self.locks, 'lock')}" * bool(self.locks)
        return (
            f"{_many(self.rows, 'row')} read; removed: {', '.join(_many(*part) for part in removed)}; "
            f"repaired: {repaired}{resolved}"
        )

    def __add__(self, other: "Scrubbed") -> "Scrubbed":
        return Scrubbed(
            self.rows + other.rows,
            self.columns + other.columns,
            self.ghosts + other.ghosts,
            self.expired + other.expired,
            repaired=self.repaired + other.repaired,
            locks=self.locks + other.locks,
            records=self.records + other.records,
            entries=self.entries + other.entries,
            items=self.items + other.items,
        )


class Rules(Immutable):
    """The options of a scrub.

    Attributes:
        lease: the age in seconds up to which cells are kept.
        expired: also remove items whose TTL has passed.
        rate: the maximum rows per second; None: no limit.
        after: where to continue, a `Scrubbed.following`; None: from the start.
        clock: returns seconds since the epoch; None: use the server's time.
        repair: also write missing index entries again.
        dry_run: only count what would be removed; resolve no lock, and repair nothing.
    """

    lease: float
    expired: bool = False
    rate: float | None = None
    after: str | None = None
    clock: Callable[[], float] | None = None
    repair: bool = False
    dry_run: bool = False


def collect(writer: Writer, rules: Rules, tell: Callable[[Scrubbed], object]) -> Steps[Scrubbed]:
    """Scrub the tables of a schema: first the items' table, then its index tables.

    Args:
        writer: the writer of the items' table.
        rules: the options.
        tell: called with the progress so far after each page.

    Raises:
        Throttled: the server did not answer in time; continue after the ``following`` of the last reported progress.
        OdmError: the server refused a call.
    """
    if writer.places.layout not in _ITEM_SCRUBS:  # it has neither counters nor indexes, and no cells of odm
        if rules.expired:
            raise Unsupported(
                f"table {writer.table!r} has rows of other programs, and a scrub does not remove their expired items: "
                "let a garbage collection rule of their column family do it, or delete_all()"
            )
        return Scrubbed()
    now = int(rules.clock() * MICROS) if rules.clock is not None else (yield from server_time(writer))
    cutoff = _stamp(now - int(rules.lease * MICROS))
    scrubs = _scrubs(_Scope(writer, rules, now, cutoff))
    steps = _begin([*scrubs], rules.after)
    done = Scrubbed()
    for table, span, following in steps:
        remaining: RowRange | None = span
        while remaining is not None:
            page, last = yield from scrubs[table].page(remaining)
            remaining = None if last is None else remaining.beyond(last, reverse=False)
            done = evolve(done + page, following=following if last is None else f"{table}:{last}")
            tell(done)
            if rules.rate and done.following is not None:
                yield Sleep(page.rows / rules.rate)
    return done


def check_after(schema: Schema, after: str | None) -> None:
    """Refuse an ``after`` of other tables. Raises BadValue."""
    if after is not None and after.partition(":")[0] not in _tables(schema):
        raise BadValue(
            f"after={brief(after)} is not of table {schema.name!r}: pass the `following` of an earlier scrub"
        )


def _tables(schema: Schema) -> dict[str, str]:
    """The tables to scrub, with the name of their index; "" for the items' table, `RECORDS` for the records."""
    indexes = [*schema.indexes, *([RECORDS] * schema.transactions)]
    return {schema.name: "", **{index_table(schema.name, index): index for index in indexes}}


def _scrubs(scope: "_Scope") -> "dict[str, _Scrub]":
    """How to scrub each table, by its name."""
    writer = scope.writer
    items, *others = _tables(writer.schema).items()
    scrubs: dict[str, _Scrub] = {items[0]: _items_of(scope)}
    for table, index in others:
        is_records = index == RECORDS and writer.schema.transactions
        scrubs[table] = _RecordScrub(scope, table) if is_records else _IndexScrub(scope, table, index)
    return scrubs


def _items_of(scope: "_Scope") -> "_Scrub":
    """How to scrub the items' table, by the layout of its rows."""
    places = scope.writer.places
    return _ITEM_SCRUBS[places.layout](scope, places.table)


def _begin(tables: Sequence[str], after: str | None) -> Iterator[tuple[str, RowRange, str | None]]:
    """The remaining tables: the name, the range of remaining rows, and the `Scrubbed.following` after the table."""
    table, _, row_key = (f"{tables[0]}:" if after is None else after).partition(":")
    first = tables.index(table)
    for number, name in enumerate(tables[first:], first):
        span = RowRange(row_key, open=True) if number == first and row_key else RowRange()
        yield name, span, f"{tables[number + 1]}:" if number + 1 < len(tables) else None


def _stamp(micros: int) -> int:
    """A timestamp that a server takes: in whole milliseconds, and not 0, which as the end of a range means no end."""
    return max(1000, micros // 1000 * 1000)


class _Scope(Immutable, dict=True):
    """What the scrubs of all tables share.

    Attributes:
        writer: the writer of the items' table.
        rules: the options.
        now: the time of the scrub, in microseconds.
        cutoff: only cells with a timestamp before this are checked, in microseconds.
        expiring: the tags of the entities that have a TTL.
        locks: the locks to resolve; none in a dry run.
        old_lock: the age in seconds from which a lock is resolved.
    """

    writer: Writer
    rules: Rules
    now: int
    cutoff: int

    @cached_property
    def expiring(self) -> frozenset[str]:
        return _expiring(self.writer.schema)

    @property
    def locks(self) -> NoLocks:
        return NO_LOCKS if self.rules.dry_run else self.writer.places.locks

    @property
    def old_lock(self) -> float:
        return min(LOCK_SECONDS, self.rules.lease)


class _Scrub(Immutable):
    """The scrub of one table, a page of rows at a time.

    Attributes:
        scope: what all tables share.
        table: the table.
    """

    scope: _Scope
    table: str

    @property
    def columns(self) -> Filter | None:
        """The filter for the rows; None: none are needed."""
        raise NotImplementedError

    def scrub(self, rows: list[Row], columns: Filter) -> Steps[Scrubbed]:
        """Scrub rows that were read with the filter."""
        raise NotImplementedError

    def page(self, span: RowRange) -> Steps[tuple[Scrubbed, str | None]]:
        """Scrub the next rows. Returns the progress, and the last row key, or None if there are no more rows."""
        columns = self.columns
        if columns is None:
            return Scrubbed(), None
        call = ReadRows(self.table, range=span, limit=PAGE_ROWS, filter=columns)
        rows = yield from read_all(call, self.scope.writer.retry)
        page = yield from self.scrub(rows, columns)
        return page + Scrubbed(len(rows)), rows[-1].text if len(rows) == PAGE_ROWS else None


class _RecordScrub(_Scrub):
    """Removes old records of transactions."""

    @property
    def columns(self) -> Filter | None:
        scope = self.scope
        return None if scope.rules.dry_run else chain(Newest(), Before(_stamp(2 * scope.cutoff - scope.now)))

    def scrub(self, rows: list[Row], columns: Filter) -> Steps[Scrubbed]:
        writer = self.scope.writer
        resolved = yield from writer.places.locks.remove_records(rows, writer.retry, writer.now)
        return Scrubbed(locks=resolved, records=len(rows))


class _IndexScrub(_Scrub):
    """Removes columns of an index that no item lists.

    Attributes:
        index: the name of the index.
    """

    index: str

    @property
    def columns(self) -> Filter | None:
        if self.scope.rules.dry_run:  # it counts the columns of running writers, too
            return chain(Family(ENTRIES), Newest())
        return chain(Family(ENTRIES), Newest(), Before(self.scope.cutoff))

    def _listed(self, items: Sequence[Row], place: Position) -> frozenset[str] | None:
        """The qualifiers under which an item lists an entry; None if its list cannot be read."""
        entries: list[Listed] = []
        for item in items:
            try:
                entries += self.scope.writer.places.listed(item)
            except BackendError as error:
                _LOG.warning("index columns are left alone: %s", kind_of(error))
                return None
        return frozenset(
            entry.qualifier for entry in entries if (entry.index, entry.key) == (self.index, place.index_key)
        )

    def scrub(self, rows: list[Row], columns: Filter) -> Steps[Scrubbed]:
        """Remove old columns that no item lists; ``rows`` are the index rows.

        The items are read after them: otherwise an entry that an item lists since its read would be removed.
        """
        writer, scope = self.scope.writer, self.scope
        claimed: list[tuple[Row, Position, tuple[str, ...]]] = []
        looked_at = 0
        if scope.rules.dry_run:  # it reads the columns of running writers too, to count them
            looked_at = sum(len(claims(row, writer.row_keys)) for row in rows)
            rows = [Row(row.key, (cell for cell in row.cells if cell.timestamp < scope.cutoff)) for row in rows]
        for row in rows:
            place, claims_of_row = place_of(row.text, writer.row_keys), claims(row, writer.row_keys)
            if place is not None and claims_of_row:
                claimed.append((row, place, claims_of_row))
        row_keys = [writer.row_key(place.key) for _, place, _ in claimed]
        ids = tuple(dict.fromkeys(row_keys))
        # Of a locked item, both lists count: the present one, and that after the commit.
        items = yield from writer.places.locks.outcomes(writer.places, ids, LIST_ONLY, writer.retry)
        entries: list[Entry] = []
        for (row, place, claims_of_row), row_key in zip(claimed, row_keys, strict=True):
            kept = self._listed(items.get(row_key, ()), place)
            if kept is None:
                continue
            # not what is claimed since
            gone = (DeleteColumn(column, ENTRIES, scope.cutoff) for column in claims_of_row if column not in kept)
            if mutations := tuple(gone):
                entries.append(Entry(row.text, mutations))
        count = sum(len(entry.mutations) for entry in entries)
        if scope.rules.dry_run:
            return Scrubbed(columns=count, entries=looked_at)
        stuck = yield from write_many({self.table: entries}, writer.retry)
        if stuck is not None:
            raise Throttled(f"index {self.table!r} could not be scrubbed: {stuck.reason}; try again later", [])
        return Scrubbed(columns=count)


class _ItemScrub(_Scrub):
    """Removes ghosts and expired items from rows of items, and writes missing index entries again."""

    @property
    def columns(self) -> Filter | None:
        scope, places = self.scope, self.scope.writer.places
        expired, repair = scope.rules.expired and scope.expiring, scope.rules.repair and scope.writer.schema.indexes
        if not (scope.writer.form.owned.counters or expired or repair):
            return scope.locks.any_lock
        parts = [newest(FAMILY, TAG)]  # so that every row with a tag is returned
        parts += [newest(FAMILY, TTL_ATTRIBUTE)] * bool(expired)
        parts += [newest(FAMILY, LISTED)] * bool(repair)
        return places.shown(places.cells(interleave(*parts)))

    def scrub(self, rows: list[Row], columns: Filter) -> Steps[Scrubbed]:
        scope, places = self.scope, self.scope.writer.places
        resolved = yield from resolve_old(scope.writer, scope.locks, rows, scope.now, scope.old_lock)
        rows = yield from places.locks.committed(rows, columns, scope.writer.retry)
        return (yield from self._items(places.items(rows))) + Scrubbed(locks=resolved)

    def _items(self, rows: list[Row]) -> Steps[Scrubbed]:
        repaired = (
            (yield from repair(self.scope.writer, rows))
            if self.scope.rules.repair and not self.scope.rules.dry_run
            else 0
        )
        marked = tuple(row.text for row in rows if self.scope.writer.form.owned.counters and _cell(row, TAG) == b"")
        ghosts = (yield from self._remove_ghosts(marked)) if marked else 0
        expired = (yield from self._remove_expired(rows)) if self.scope.rules.expired else 0
        items = len(rows) - len(marked) if self.scope.rules.dry_run else 0
        return Scrubbed(ghosts=ghosts, expired=expired, repaired=repaired, items=items)

    def _remove_ghosts(self, row_keys: tuple[str, ...]) -> Steps[int]:
        removed = 0
        families = (FAMILY, *self.scope.writer.form.owned.families, COUNTERS)
        own = chain(interleave(*map(Family, families)), Newest())
        rows_of_keys = yield from read_many(self.scope.writer.table, row_keys, self.scope.writer.retry, own)
        for row_key, row in rows_of_keys.items():
            if (call := self._ghost(row_key, row)) is not None:
                removed += 1 if self.scope.rules.dry_run else (yield from until_answered(call, self.scope.writer.retry))
        return removed

    def _ghost(self, row_key: str, row: Row) -> CheckAndMutateRow | None:
        """The call that removes the cells of a ghost if it still is one; None: the row is not a ghost."""
        counters = [cell for cell in row.cells if cell.family == COUNTERS]
        marks = {(cell.family, cell.qualifier): cell.value for cell in row.cells if cell.family != COUNTERS}
        home = next((family for family, name in marks if name == TAG.encode()), FAMILY)
        ghost = {(home, TAG.encode()): b"", (home, REVISION.encode()): b""}
        if (
            marks != ghost
            or home not in self.scope.writer.form.owned.tag_families
            or not all(map(self._is_counter, counters))
        ):
            return None
        # a later increment writes both marks again, with new timestamps, and its writer undoes it
        same = [chain(newest(home, mark), Before(self.scope.cutoff), ValueIs(b"")) for mark in (TAG, REVISION)]
        gone = [DeleteColumn(mark, home, self.scope.cutoff) for mark in (TAG, REVISION)]
        gone += [DeleteColumn(cell.qualifier.decode(), COUNTERS, self.scope.cutoff) for cell in counters]
        return CheckAndMutateRow(self.scope.writer.table, row_key, chained(*same), matched=tuple(gone))

    def _is_counter(self, cell: Cell) -> bool:
        return (
            cell.qualifier.decode(errors="replace") in self.scope.writer.form.owned.counters
            and len(cell.value) == COUNTER_BYTES
        )

    def _remove_expired(self, rows: list[Row]) -> Steps[int]:
        """Remove the expired items of the models' entities. Ignores items whose tag no model has."""
        now = Now(self.scope.now // MICROS)
        works: list[Work] = []
        for row in rows:
            marks = self.scope.writer.places.marks(row)
            if (tag := str(marks.get(TAG))) not in self.scope.expiring or not now.expired(marks):
                continue
            if (key := self.scope.writer.row_keys.key_of(row.text, tag)) is not None:
                works.append(Work(Delete(key, every(has_tag(tag), now.gone)), row.text))
        if self.scope.rules.dry_run:
            return len(works)
        if works:
            try:
                yield from settle(self.scope.writer, works)
            except OutcomeUnknown as error:
                _LOG.warning("an expired item is left to the next scrub: %s", kind_of(error))
        return sum(isinstance(work.answer, Written) and work.answer.existed for work in works)


class _WideScrub(_ItemScrub):
    """The same for the items of wide rows, which have ids in place of row keys."""

    def page(self, span: RowRange) -> Steps[tuple[Scrubbed, str | None]]:
        scope, writer = self.scope, self.scope.writer
        places = cast("WideRows", writer.places)
        locks = WideLocks(writer, places, scope.locks, scope.now, scope.old_lock)
        reads = (scope.rules.repair and writer.schema.indexes) or (scope.rules.expired and scope.expiring)
        if not reads:
            read, resolved, last = yield from locks.page(span)
            return Scrubbed(read, locks=resolved), last
        rows, last = yield from places.items_after(span.start, writer.retry)
        resolved = yield from locks.all(span, last)
        return (yield from self._items(rows)) + Scrubbed(len(rows), locks=resolved), last


_ITEM_SCRUBS: Final[Mapping[Layout, type[_ItemScrub]]] = {
    "row_per_item": _ItemScrub,
    "row_per_partition": _WideScrub,
}
"""By layout; rows of other programs are not scrubbed."""


def _expiring(schema: Schema) -> frozenset[str]:
    """The tags of the entities that have a TTL."""
    return frozenset(tag for tag, entity in schema.entities.items() if entity.ttl is not None)


def _many(number: int, noun: str, several: str = "") -> str:
    return f"{number} {noun if number == 1 else several or f'{noun}s'}"


def _cell(row: Row, name: str) -> bytes | None:
    """The value of a cell in the family of attributes; None if the cell does not exist."""
    values = (cell.value for cell in row.cells if (cell.family, cell.qualifier) == (FAMILY, name.encode()))
    return next(values, None)


Tell = Callable[[Scrubbed], object]


def scrub(  # noqa: PLR0913  # its options
    backend: Bigtable,
    table: Table,
    *,
    prefix: str = "",
    expired: bool = False,
    repair: bool = False,
    rate: float | None = None,
    after: str | None = None,
    tell: Tell | None = None,
    lease: float = LEASE_SECONDS,
    clock: Callable[[], float] | None = None,
    dry_run: bool = False,
) -> Scrubbed:
    """Remove garbage from the tables of a schema.

    Args:
        backend: the Bigtable instance.
        table: the table; its indexes are scrubbed, too.
        prefix: the prefix of the `odm.Store`.
        expired: also remove items whose TTL has passed, with their index entries. This reads the whole table, as does
            a scrub of a table in which a model has a Counter.
        repair: also write missing index entries again. This reads the whole table.
        rate: the maximum rows per second; None: no limit.
        after: continue an earlier call: the last `Scrubbed.following` that was passed to ``tell``.
        tell: called with the progress so far after each page of 500 rows.
        lease: the age in seconds up to which index columns and counters are kept. Writers rely on one hour; use less
            only if no program writes.
        clock: returns seconds since the epoch, for tests; None: the server's time, which is also that of the columns.
        dry_run: remove, resolve and repair nothing: count what would be removed, and of how many. Ghosts of increments
            are counted before it is known whether they are old enough.

    Returns:
        The rows read, and what was removed and repaired.

    Raises:
        BadValue: an argument is not valid.
        SchemaError: Bigtable cannot store the models.
        Throttled: the server did not answer in time.
        OdmError: the server refused a call.
    """
    schema, rules = _named(backend, table, prefix), Rules(lease, expired, rate, after, clock, repair, dry_run)
    _check(schema, rules)
    connection = backend.connect(schema)
    try:
        return run(_steps(schema, rules, tell), connection.call)
    finally:
        connection.close()


async def ascrub(  # noqa: PLR0913  # its options
    backend: Bigtable,
    table: Table,
    *,
    prefix: str = "",
    expired: bool = False,
    repair: bool = False,
    rate: float | None = None,
    after: str | None = None,
    tell: Tell | None = None,
    lease: float = LEASE_SECONDS,
    clock: Callable[[], float] | None = None,
    dry_run: bool = False,
) -> Scrubbed:
    """Remove garbage, without blocking the event loop; see `scrub`."""
    schema, rules = _named(backend, table, prefix), Rules(lease, expired, rate, after, clock, repair, dry_run)
    _check(schema, rules)
    connection = backend.connect(schema)
    try:
        return await arun(_steps(schema, rules, tell), connection.acall)
    finally:
        await connection.aclose()


def _steps(schema: Schema, rules: Rules, tell: Tell | None) -> Steps[Scrubbed]:
    return with_row_key_bytes(schema, collect(Writer(schema), rules, tell or _silent))


def _named(backend: Bigtable, table: Table, prefix: str) -> Schema:
    schema = backend.laid_out(table.compile())
    return evolve(schema, name=prefix + schema.name, prefix=prefix)


def _check(schema: Schema, rules: Rules) -> None:
    check_after(schema, rules.after)
    for name, value in (("lease", rules.lease), ("rate", 1 if rules.rate is None else rules.rate)):
        if not value > 0:
            raise BadValue(f"scrub({name}={brief(value)}): pass a number above 0")


def _silent(_done: Scrubbed) -> None:
    """Report no progress."""


__all__ = ["Scrubbed", "ascrub", "scrub"]
