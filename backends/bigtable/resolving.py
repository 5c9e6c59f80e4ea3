"""Resolves the locks of other transactions, for a writer that needs their rows, and for a scrub.

A lock is resolved by the record of its transaction: "committed" carries the row forward, "aborted" puts it back. If
there is no record, the transaction is undecided. It is aborted if it is younger than the writer, or if its lock is so
old that its program may have stopped; otherwise the writer waits, and has no lock while it does. Only the row itself is
changed; index columns are left to the transaction's own program and to a scrub.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence

from attrs import define, field

from odm.backends.bigtable import records
from odm.backends.bigtable.committed import Locks
from odm.backends.bigtable.filters import Filter
from odm.backends.bigtable.locks import Lock
from odm.backends.bigtable.native import Row, Steps
from odm.backends.bigtable.retry import Pauses, Retry, together, until_answered
from odm.errors import BackendError, OutcomeUnknown, Throttled
from odm.protocol.requests import Notice

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
        found: dict[str, Row] = {}
        left = tuple(row_keys)
        while left:
            rows = yield from self.locks.cells.read(left, cells, self.retry)
            held = yield from self.free(rows)
            found |= {key: row for key, row in rows.items() if key not in held}
            left = tuple(held)
        return found

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
