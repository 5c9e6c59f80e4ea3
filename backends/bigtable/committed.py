"""Reads of a table with transactions: every read shows the committed state, and no reader waits or writes.

The *committed state* of a locked row is what its lock says of the time after the commit, if the record of the
transaction says "committed"; else what the row was before. A reader that finds no record, or "aborted", must read the
row again: the transaction may have been committed, carried out and its record removed between the two reads.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property

from odm.backends.bigtable import records
from odm.backends.bigtable.filters import Filter
from odm.backends.bigtable.locks import Lock, LockCells, only_newest
from odm.backends.bigtable.native import Row, Steps
from odm.backends.bigtable.retry import Retry
from odm.backends.bigtable.schema import record_table
from odm.immutable import Immutable


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
        shown = (states.get(row.key) if row.key in held else row for row in rows)
        former = cells == self.cells.whole
        return [
            row if former or row.key not in held else only_newest(row)
            for row in shown
            if row is not None and (row.key not in held or self.cells.holds_something(row))
        ]

    def _again(self, rows: Iterable[bytes], retry: Retry) -> Steps[dict[bytes, Row]]:
        """Read rows again, with all their cells."""
        keys = tuple(key.decode("utf-8", "surrogateescape") for key in rows)
        found = yield from self.cells.read(keys, self.cells.whole, retry)
        return {row.key: row for row in found.values()}

    def _states(self, left: Mapping[bytes, Row], retry: Retry) -> Steps[dict[bytes, Row | None]]:
        """The committed states of rows with all their cells."""
        found: dict[bytes, Row | None] = {}
        while left:
            held: dict[bytes, tuple[Row, Lock]] = {}
            for key, row in left.items():
                lock = self.cells.lock_of(row)
                if lock is None:
                    found[key] = row
                elif lock.after is None:
                    found[key] = self.cells.before(row, lock)
                else:
                    held[key] = row, lock
            if not held:
                break
            said = yield from records.states(self.records, (lock.id for _, lock in held.values()), retry)
            for key, (row, lock) in held.items():
                if said.get(lock.id) == "committed":
                    found[key] = self.cells.after(row, lock)
            unsure = [key for key in held if key not in found]
            again = (yield from self._again(unsure, retry)) if unsure else {}
            left = {}
            for key in unsure:
                shown, lock = again.get(key), held[key][1]
                now = None if shown is None else self.cells.lock_of(shown)
                if shown is None:
                    found[key] = None
                elif now is not None and now.id == lock.id:
                    found[key] = self.cells.before(shown, now)
                else:
                    left[key] = shown
        return found
