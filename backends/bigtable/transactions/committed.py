"""Reads of the committed state in a table with transactions, and what a writer does about the locks of others.

The *committed state* of a locked row is what its lock says of the time after the commit, if the record of the
transaction says "committed"; else what the row was before. A reader that finds no record, or "aborted", must read the
row again: the transaction may have been committed, carried out and its record removed between the two reads.

A lock is resolved by the record of its transaction: "committed" carries the row forward, "aborted" puts it back. If
there is no record, the transaction is undecided. It is aborted if it is younger than the writer, or if its lock is so
old that its program may have stopped; otherwise the writer waits, and has no lock while it does. Only the row itself is
changed; index columns are left to the transaction's own program and to a scrub.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property

from attrs import define, field

from odm.backends.bigtable.client.filters import Filter
from odm.backends.bigtable.client.native import Row, Steps, record_table
from odm.backends.bigtable.client.retry import Pauses, Retry, together, until_answered
from odm.backends.bigtable.transactions import records
from odm.backends.bigtable.transactions.locks import Lock, LockCells, only_newest
from odm.errors import BackendError, OutcomeUnknown, Throttled
from odm.immutable import Immutable
from odm.protocol.requests import Notice


class Locks(Immutable, dict=True):
    """The locks of a table with transactions.

    Attributes:
        table: the table's name.
        cells: where they stand.
        abort_after: the age in seconds from which a lock may be resolved by everybody who needs its row.
        records: the name of the table of records.
    """

    table: str
    cells: LockCells
    abort_after: float

    @cached_property
    def records(self) -> str:
        return record_table(self.table)

    def committed(self, rows: Sequence[Row], cells: Filter, retry: Retry, *, cut: bool = False) -> Steps[list[Row]]:
        """The rows as they are by the committed state; those in which nothing is left are omitted.

        Args:
            rows: rows that were read with `LockCells.shown`; of a locked row, whole items are returned.
            cells: the cells that were asked for.
            retry: how long to retry.
            cut: of some rows, no other cell than the lock was read.
        """
        held = {row.key: row for row in self.cells.held(rows)}
        if not held:
            return rows if isinstance(rows, list) else [*rows]
        complete = not cut and self.cells.is_complete(cells)
        states = yield from self._states(held if complete else (yield from self._again(held, retry)), retry)
        committed = (states.get(row.key) if row.key in held else row for row in rows)
        former = cells == self.cells.whole
        return [
            row if former or row.key not in held else only_newest(row)
            for row in committed
            if row is not None and (row.key not in held or self.cells.holds_something(row))
        ]

    def _again(self, rows: Iterable[bytes], retry: Retry) -> Steps[dict[bytes, Row]]:
        """Read rows again, with all their cells."""
        keys = tuple(key.decode("utf-8", "surrogateescape") for key in rows)
        found = yield from self.cells.read(keys, self.cells.whole, retry)
        return {row.key: row for row in found.values()}

    def _states(self, left: Mapping[bytes, Row], retry: Retry) -> Steps[dict[bytes, Row | None]]:
        """The committed states of rows with all their cells."""
        states: dict[bytes, Row | None] = {}
        while left:
            held: dict[bytes, tuple[Row, Lock]] = {}
            for key, row in left.items():
                lock = self.cells.lock_of(row)
                if lock is None:
                    states[key] = row
                elif lock.after is None:
                    states[key] = self.cells.before(row, lock)
                else:
                    held[key] = row, lock
            if not held:
                break
            said = yield from records.states(self.records, (lock.id for _, lock in held.values()), retry)
            for key, (row, lock) in held.items():
                if said.get(lock.id) == "committed":
                    states[key] = self.cells.after(row, lock)
            unsure = [key for key in held if key not in states]
            again = (yield from self._again(unsure, retry)) if unsure else {}
            left = {}
            for key in unsure:
                row_now, lock = again.get(key), held[key][1]
                now = None if row_now is None else self.cells.lock_of(row_now)
                if row_now is None:
                    states[key] = None
                elif now is not None and now.id == lock.id:
                    states[key] = self.cells.before(row_now, now)
                else:
                    left[key] = row_now
        return states


_LOG = logging.getLogger("odm.bigtable")

MICROS = 1_000_000


@define(eq=False)
class Resolver:
    """Resolves locks for one writer.

    Attributes:
        locks: the locks of the table.
        retry: how long to retry.
        now: returns the timestamp of written cells, in microseconds.
        order: sorts the writer among transactions by its age; None: it began when it first met a lock.
        resolved: the number of locks that were resolved.
    """

    locks: Locks
    retry: Retry
    now: Callable[[], int]
    order: tuple[int, str] | None = None
    resolved: int = field(init=False, default=0)
    _met: dict[str, float] = field(init=False, factory=dict)
    _pauses: Pauses | None = field(init=False, default=None)  # from the first wait on

    def unlocked(self, row_keys: Iterable[str], cells: Filter) -> Steps[dict[str, Row]]:
        """Read rows for a write: resolves locks, and waits for those that may not be resolved yet.

        Args:
            row_keys: the rows, without duplicates; missing ones are omitted.
            cells: the cells that are needed.

        Raises:
            Throttled: other writers kept locking rows until the time was up.
        """
        unlocked: dict[str, Row] = {}
        left = tuple(row_keys)
        while left:
            rows = yield from self.locks.cells.read(left, cells, self.retry)
            held = yield from self.free(rows)
            unlocked |= {key: row for key, row in rows.items() if key not in held}
            left = tuple(held)
        return unlocked

    def free(self, rows: Mapping[str, Row]) -> Steps[Mapping[str, Lock]]:
        """Resolve the locks of rows, or wait for them. Returns those locks, whose rows must be read again.

        Raises:
            Throttled: other writers kept locking rows until the time was up.
        """
        held = self.locks.cells.locks_of(rows)
        if held and not all((yield from self.resolve(held.items()))):
            yield from self.pause(tuple(held))
        return held

    def resolve(self, held: Iterable[tuple[str, Lock]]) -> Steps[Sequence[bool]]:
        """Resolve locks, each by itself. Returns, for each, whether the writer need not wait before it reads again.

        Raises:
            BackendError: the server did not answer; nothing that counts was written.
        """
        try:
            return (yield from together([self._resolve(row_key, lock) for row_key, lock in held]))
        except OutcomeUnknown as error:  # of the lock, and not of what the writer wants
            raise BackendError(
                f"table {self.locks.table!r}: the locks of transactions could not be resolved, so nothing was written: "
                f"{error}"
            ) from error

    def pause(self, row_keys: Sequence[str]) -> Steps[None]:
        """Wait for the locks of rows. Raises Throttled when the time is up."""
        self._pauses = self._pauses or self.retry.contention()
        if (wait := next(self._pauses, None)) is None:
            raise Throttled(
                f"row {row_keys[0]!r} of table {self.locks.table!r}: transactions of other programs kept locking it "
                "until the time was up: nothing was written; try again later"
            )
        _LOG.info("a write of table %s waits for a transaction", self.locks.table)
        yield Notice("waited")
        yield wait

    def _resolve(self, row_key: str, lock: Lock) -> Steps[bool]:
        locks = self.locks
        said = (yield from records.states(locks.records, (lock.id,), self.retry)).get(lock.id)
        if said is None:
            if not self._may_abort(lock):
                return False
            if not (yield from records.abort(locks.records, lock.id, self.retry)):
                said = (yield from records.states(locks.records, (lock.id,), self.retry)).get(lock.id)
            else:
                said = "aborted"
                _LOG.info("a transaction of table %s was aborted: another writer needed its row", locks.table)
        if said is None:  # it has ended, and its record was removed
            return True
        make = locks.cells.forward if said == "committed" else locks.cells.back
        if (yield from until_answered(make(row_key, lock, self.now()), self.retry)):
            self.resolved += 1
            yield Notice("resolved")
            _LOG.info("a lock of a transaction of table %s was resolved: %s", locks.table, said)
        return True

    def _may_abort(self, lock: Lock) -> bool:
        clock = self.retry.clock()
        met = self._met.setdefault(lock.id, clock)
        if self.order is None:
            self.order = self.now(), ""
        aged = max(clock - met, (self.now() - lock.at) / MICROS) >= self.locks.abort_after
        return aged or lock.order > self.order
