"""The locks of a table with transactions: reads of the committed state, and what a writer does about locks of others.

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
from typing import Any, ClassVar, Final

from attrs import define, field

from odm.backends.bigtable.client.errors import NATIVE_FAILURES, is_throttled, passing, status, text_of
from odm.backends.bigtable.client.filters import Filter, fits, interleave
from odm.backends.bigtable.client.native import (
    CheckAndMutateRow,
    Cookies,
    Entry,
    Mutation,
    Row,
    Steps,
    record_table,
)
from odm.backends.bigtable.client.retry import (
    COMMITS,
    Pauses,
    Refusal,
    Retry,
    Stuck,
    read_many,
    together,
    until_answered,
)
from odm.backends.bigtable.rows.cells import REVISION
from odm.backends.bigtable.rows.locks import LockableRows, NoLocks, OneCall, RowWrite
from odm.backends.bigtable.transactions import records
from odm.backends.bigtable.transactions.lock_cells import Lock, LockCells, is_lock, only_newest
from odm.codec import TAG
from odm.errors import BackendError, OdmError, OutcomeUnknown, Throttled
from odm.protocol.requests import Notice


class Locks(NoLocks, dict=True):
    """The locks of a table with transactions.

    Attributes:
        table: the table's name.
        cells: where they stand.
        abort_after: the age in seconds from which a lock may be resolved by everybody who needs its row.
        records: the name of the table of records.
    """

    mentions: ClassVar[int] = 2  # once for the item and once for its lock
    ghost_marks: ClassVar[frozenset[str]] = frozenset({TAG, REVISION})  # an empty revision is not that of a lock

    table: str
    cells: LockCells
    abort_after: float

    @cached_property
    def records(self) -> str:
        return record_table(self.table)

    def locked(self, id: str) -> tuple[Filter, ...]:
        return (self.cells.locked(id),)

    def unlocked(self, id: str) -> tuple[Filter, ...]:
        return (self.cells.unlocked(id),)

    def locked_absent(self, id: str) -> tuple[Filter, ...]:
        return (self.cells.locked_absent(id),)

    def strange_or_locked(self, id: str, strange: Filter) -> Filter:
        return self.cells.or_locked(id, strange)

    def one_call(self, id: str, write: OneCall) -> OneCall | None:
        call = self.cells.unless_locked(id, write)
        if call.predicate is not None and not fits(call.predicate):
            return None
        return write._replace(call=call, refused=None)  # only a read shows whether a lock was the reason

    def shown(self, cells: Filter) -> Filter:
        return self.cells.shown(cells)

    def any_in(self, rows: Iterable[Row]) -> bool:
        return any(self.cells.is_lock(column) for row in rows for _, column in row.columns)

    def is_lock(self, revision: bytes) -> bool:
        return is_lock(revision)

    def locks_in(self, rows: Sequence[Row]) -> dict[str, Lock]:
        return self.cells.locks_of({row.text: row for row in self.cells.held(rows)})

    @property
    def any_lock(self) -> Filter | None:
        return self.cells.any_lock

    def read_locks(self, ids: tuple[str, ...], retry: Retry) -> Steps[dict[str, Row]]:
        return self.cells.read_locks(ids, retry)

    def resolve(self, held: Iterable[tuple[str, Lock]], retry: Retry, now: Callable[[], int]) -> Steps[int]:
        resolver = Resolver(self, retry, now, _OLDEST)
        yield from resolver.resolve(held)
        return resolver.resolved

    def remove_records(self, rows: Sequence[Row], retry: Retry, now: Callable[[], int]) -> Steps[int]:
        resolved = 0
        for record in rows:
            if records.state_of(record) == "committed":
                # Before the record is removed: rows that it still locks would show their former state without it.
                locked = yield from self.cells.read_locks(records.rows_of(record), retry)
                held = self.cells.locks_of(locked)
                own = [(key, lock) for key, lock in held.items() if lock.id == record.text]
                resolved += (yield from self.resolve(own, retry, now)) if own else 0
            yield from records.remove(self.records, (record.text,), retry)
        return resolved

    def at_most(self, calls: int | None) -> int | None:
        return None  # it depends on the locks that are met

    def read(self, table: str, ids: tuple[str, ...], cells: Filter, retry: Retry) -> Steps[dict[str, Row]]:
        rows = yield from read_many(table, ids, retry, self.cells.shown(cells))
        return {row.text: row for row in (yield from self.committed([*rows.values()], cells, retry))}

    def read_unlocked(
        self, layout: LockableRows, ids: tuple[str, ...], needed: Filter, retry: Retry, now: Callable[[], int]
    ) -> Steps[dict[str, Row]]:
        cells = layout.cells(needed)
        return layout.named((yield from Resolver(self, retry, now).unlocked(ids, cells)), cells)

    def unlocked_rows(
        self,
        read: Callable[[], Steps[list[Row]]],
        items: Callable[[list[Row]], dict[str, Row]],
        retry: Retry,
        now: Callable[[], int],
    ) -> Steps[list[Row]]:
        resolver = Resolver(self, retry, now)
        while True:
            rows = yield from read()
            if not self.any_in(rows) or not (yield from resolver.free(items(rows))):
                return rows

    def outcomes(
        self, layout: LockableRows, ids: tuple[str, ...], needed: Filter, retry: Retry
    ) -> Steps[Mapping[str, Sequence[Row]]]:
        rows_of_ids = yield from self.cells.read(ids, layout.cells(needed), retry)
        held = tuple(row.text for row in self.cells.held(rows_of_ids.values()))
        whole = (yield from self.cells.read(held, self.cells.whole, retry)) if held else {}
        states: dict[str, list[Row]] = {}
        for id in ids:
            row = whole.get(id) if id in held else rows_of_ids.get(id)
            lock = None if row is None else self.cells.lock_of(row)
            rows = [row] if row is None or lock is None else [self.cells.before(row, lock), self.cells.after(row, lock)]
            states[id] = [item for row in rows if row is not None and (item := layout.item_of(row)) is not None]
        return states

    def change(
        self, table: str, row: str, ids: Sequence[str], mutations: tuple[Mutation, ...], cookies: Cookies
    ) -> Any:
        asked = interleave(*map(self.cells.locked, ids))
        return CheckAndMutateRow(table, row, asked, unmatched=mutations, cookies=cookies)

    def wait(self, layout: LockableRows, ids: tuple[str, ...], retry: Retry, now: Callable[[], int]) -> Steps[None]:
        yield from self.read_unlocked(layout, ids, self.cells.any_lock, retry, now)

    def write_rows(
        self,
        layout: LockableRows,
        writes: Sequence[RowWrite],
        retry: Retry,
        now: Callable[[], int],
        refused: list[Refusal],
    ) -> Steps[Stuck | None]:
        stuck: list[Entry] = []
        reason = ""
        for start in range(0, len(writes), COMMITS):
            some = writes[start : start + COMMITS]
            errors = yield from together([self._failure(layout, write, retry, now) for write in some])
            silent = False
            for write, error in zip(some, errors, strict=True):
                unanswered = error is not None and _is_unanswered(error) and not write.once
                if isinstance(error, Throttled) or unanswered:
                    stuck.append(write.entry)
                    reason = str(error)
                elif error is not None:
                    refused.append((write.entry, error))
                silent = silent or unanswered
            if silent:  # the others would not be answered either, and would each wait as long
                stuck += [write.entry for write in writes[start + COMMITS :]]
                break
        return Stuck({layout.table: tuple(stuck)}, reason) if stuck else None

    def _failure(
        self, layout: LockableRows, write: RowWrite, retry: Retry, now: Callable[[], int]
    ) -> Steps[OdmError | None]:
        """Write one row. Returns the error if it is not, or may not be, written."""
        try:
            yield from self.write_row(layout, write, retry, now, batch=True)
        except OdmError as error:
            return error
        return None

    def committed(self, rows: list[Row], cells: Filter, retry: Retry, *, cut: bool = False) -> Steps[list[Row]]:
        held = {row.key: row for row in self.cells.held(rows)}
        if not held:
            return rows
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
            # A record is removed once its rows are written, so a row without one may be committed since it was read.
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


def _is_unanswered(error: OdmError) -> bool:
    """Whether a call was retried until the time was up."""
    cause = error.__cause__
    return isinstance(cause, NATIVE_FAILURES) and (passing(cause) or is_throttled(status(cause), text_of(cause)))


_LOG = logging.getLogger("odm.bigtable")

MICROS = 1_000_000

_OLDEST: Final = (0, "")
"""Sorts before every transaction, so that its locks may be resolved."""


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
            # Before the row is rolled back: without this record the transaction could still commit, without this row.
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
        # By the own watch too, because the local clock may differ from the server's.
        aged = max(clock - met, (self.now() - lock.at) / MICROS) >= self.locks.abort_after
        return aged or lock.order > self.order
