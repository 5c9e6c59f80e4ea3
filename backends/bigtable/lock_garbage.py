"""Resolves the locks, and removes the records, that interrupted transactions left: a part of `garbage`.

A lock older than a minute belongs to a program that has stopped: a transaction that is not committed is aborted, and
one that is committed is carried forward. Writers that need a row do the same earlier; until then readers ask the record
of the transaction at each read.

A record is needed as long as a call of its transaction may come late. So only records older than two leases are
removed, and one that says "committed" only after its rows have been carried forward.
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from odm.backends.bigtable import records
from odm.backends.bigtable.committed import Locks
from odm.backends.bigtable.filters import Family, Filter, Newest, chain, interleave
from odm.backends.bigtable.locks import LOCKED, Lock
from odm.backends.bigtable.native import ReadRows, Row, RowRange, Steps
from odm.backends.bigtable.resolving import MICROS, Resolver
from odm.backends.bigtable.retry import read_all
from odm.backends.bigtable.wide import Wide
from odm.backends.bigtable.wide_cells import REVISED, SIDE
from odm.backends.bigtable.writer import Writer
from odm.immutable import Immutable, evolve

LOCK_SECONDS: Final = 60.0
"""The age from which a scrub resolves a lock."""

PAGE_ROWS: Final = 500
"""The maximum rows of one read for locks."""

_OLDEST: Final = (0, "")
"""Sorts before every transaction, so that its locks may be resolved."""


def resolve_old(writer: Writer, locks: Locks, rows: Sequence[Row], now: int, seconds: float) -> Steps[int]:
    """Resolve the locks among rows that are older than this. Returns their number.

    Args:
        writer: the writer of the table.
        locks: the locks of the table.
        rows: rows that were read with their locks.
        now: the server's time, in microseconds.
        seconds: the age of a lock from which it is resolved.
    """
    found = {row.text: locks.cells.lock_of(row) for row in locks.cells.held(rows)}
    old = {key: one for key, one in found.items() if one is not None and one.at <= now - seconds * MICROS}
    return (yield from _resolve(writer, locks, old.items())) if old else 0


def _resolve(writer: Writer, locks: Locks, held: Iterable[tuple[str, Lock]]) -> Steps[int]:
    resolver = Resolver(locks, writer.retry, writer.now, _OLDEST)
    yield from resolver.resolve(held)
    return resolver.resolved


class WideLocks(Immutable):
    """The locks of items in wide rows.

    Attributes:
        writer: the writer of the table.
        places: where the items stand.
        locks: the locks of the table.
        now: the server's time, in microseconds.
        seconds: the age of a lock from which it is resolved.
    """

    writer: Writer
    places: Wide
    locks: Locks
    now: int
    seconds: float

    def page(self, span: RowRange) -> Steps[tuple[int, int, str | None]]:
        """Resolve old locks in the next rows.

        Args:
            span: the rows that are left; its start may be the id of an item, whose row is looked at again.

        Returns:
            The number of rows with locks, and of locks that were resolved; and the last row, if there may be more.
        """
        first = self.places.row(span.start)
        if first != span.start:
            span = RowRange(first, span.end)
        revisions = chain(interleave(*map(Family, self.places.families)), Newest(), LOCKED)
        call = ReadRows(self.writer.table, range=span, limit=PAGE_ROWS, filter=revisions)
        rows = yield from read_all(call, self.writer.retry)
        ids = tuple(f"{row.text}{SIDE}{sort}" for row in rows for sort in _locked_in(row))
        found = yield from self.locks.cells.read_locks(ids, self.writer.retry)
        resolved = yield from resolve_old(self.writer, self.locks, [*found.values()], self.now, self.seconds)
        return len(rows), resolved, rows[-1].text if len(rows) == PAGE_ROWS else None

    def all(self, span: RowRange, last: str | None) -> Steps[int]:
        """Resolve old locks up to the row of an item; None: in all rows. Returns their number."""
        left = span if last is None else evolve(span, end=self.places.row(last) + "\0")
        total = 0
        while not left.empty:
            _, resolved, row = yield from self.page(left)
            total += resolved
            if row is None:
                break
            left = left.beyond(row, reverse=False)
        return total


def _locked_in(row: Row) -> Iterator[str]:
    """The sort keys of the locked items, in a row that was read with the revisions of locked items."""
    for column in dict.fromkeys(column for _, column in row.columns):
        sort, side, name = column.decode("utf-8", "surrogateescape").partition(SIDE)
        if side + name == REVISED:
            yield sort


def remove_records(writer: Writer, locks: Locks, rows: Sequence[Row]) -> Steps[tuple[int, int]]:
    """Remove old records. Returns the number of locks that were resolved before, and of records.

    Args:
        writer: the writer of the table.
        locks: the locks of the table.
        rows: the records, which are older than two leases.
    """
    resolved = 0
    for record in rows:
        if records.state_of(record) == "committed":
            found = yield from locks.cells.read_locks(records.rows_of(record), writer.retry)
            held = {key: locks.cells.lock_of(row) for key, row in found.items()}
            mine = [(key, lock) for key, lock in held.items() if lock is not None and lock.id == record.text]
            resolved += (yield from _resolve(writer, locks, mine)) if mine else 0
        yield from records.remove(locks.records, (record.text,), writer.retry)
    return resolved, len(rows)


def both_states(writer: Writer, locks: Locks, row_keys: tuple[str, ...], cells: Filter) -> Steps[dict[str, list[Row]]]:
    """Items as they are by both outcomes of the transaction that locks them, if one does."""
    found = yield from locks.cells.read(row_keys, cells, writer.retry)
    held = tuple(row.text for row in locks.cells.held(found.values()))
    whole = (yield from locks.cells.read(held, locks.cells.whole, writer.retry)) if held else {}
    states: dict[str, list[Row]] = {}
    for key in row_keys:
        row = whole.get(key) if key in held else found.get(key)
        lock = None if row is None else locks.cells.lock_of(row)
        rows = [row] if row is None or lock is None else [locks.cells.before(row, lock), locks.cells.after(row, lock)]
        states[key] = [item for one in rows if one is not None and (item := writer.places.item_of(one)) is not None]
    return states
