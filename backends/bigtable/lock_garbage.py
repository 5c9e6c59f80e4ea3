"""Resolves the locks, and removes the records, that interrupted transactions left: a part of `garbage`.

A lock older than a minute belongs to a program that has stopped: a transaction that is not committed is aborted, and
one that is committed is carried forward. Writers that need a row do the same earlier; until then readers ask the record
of the transaction at each read.

A record is needed as long as a call of its transaction may come late. So only records older than two leases are
removed, and one that says "committed" only after its rows have been carried forward.
"""

from collections.abc import Iterable, Sequence
from typing import Final

from odm.backends.bigtable import records
from odm.backends.bigtable.committed import Locks
from odm.backends.bigtable.filters import Filter
from odm.backends.bigtable.locks import Lock
from odm.backends.bigtable.native import Row, Steps
from odm.backends.bigtable.resolving import MICROS, Resolver
from odm.backends.bigtable.writer import Writer

LOCK_SECONDS: Final = 60.0
"""The age from which a scrub resolves a lock."""

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
    """Rows as they are by both outcomes of the transaction that locks them, if one does."""
    found = yield from locks.cells.read(row_keys, cells, writer.retry)
    held = tuple(row.text for row in locks.cells.held(found.values()))
    whole = (yield from locks.cells.read(held, locks.cells.whole, writer.retry)) if held else {}
    states: dict[str, list[Row]] = {}
    for key in row_keys:
        row = whole.get(key) if key in held else found.get(key)
        lock = None if row is None else locks.cells.lock_of(row)
        rows = [row] if row is None or lock is None else [locks.cells.before(row, lock), locks.cells.after(row, lock)]
        states[key] = [one for one in rows if one is not None]
    return states
