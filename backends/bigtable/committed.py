"""Reads of a table with transactions: every read shows the committed state, and no reader waits or writes.

The *committed state* of a locked row is what its lock says of the time after the commit, if the record of the
transaction says "committed"; else what the row was before. A reader that finds no record, or "aborted", must read the
row again: the transaction may have been committed, carried out and its record removed between the two reads.
"""

from collections.abc import Iterable, Mapping, Sequence

from attrs import Factory, field, frozen

from odm.backends.bigtable import records
from odm.backends.bigtable.bulk import read_many
from odm.backends.bigtable.filters import Filter, interleave
from odm.backends.bigtable.locks import Lock, Marks, after, before, lock_of, locked, only_newest, record_table
from odm.backends.bigtable.native import ITEM, Row, Steps
from odm.backends.bigtable.ownership import Owned
from odm.backends.bigtable.retry import Retry
from odm.codec import TAG

_MOST_FILTERS = 256


@frozen
class Locks:
    """The locks of a table with transactions.

    Attributes:
        table: the table's name.
        owned: distinguishes odm's cells from those of other programs.
        abort_after: the age in seconds from which a lock may be resolved by everybody who needs its row.
        marks: where rows have locks.
        records: the name of the table of records.
        locked: returns a cell if a row is locked.
        unlocked: returns a cell if a row has a revision and is not locked.
    """

    table: str
    owned: Owned
    abort_after: float
    marks: Marks = field(
        init=False, default=Factory(lambda self: Marks(self.owned.tag_families, self.owned.counters), takes_self=True)
    )
    records: str = field(init=False, default=Factory(lambda self: record_table(self.table), takes_self=True))
    locked: Filter = field(init=False, default=Factory(lambda self: self.marks.locked, takes_self=True))
    unlocked: Filter = field(init=False, default=Factory(lambda self: self.marks.unlocked, takes_self=True))
    _strange: dict[Filter, Filter] = field(init=False, factory=dict, eq=False, repr=False)
    _shown: dict[Filter, Filter] = field(init=False, factory=dict, eq=False, repr=False)

    @property
    def whole(self) -> Filter:
        """All cells of an item, with former values of its fields."""
        return self.owned.former

    def is_whole(self, cells: Filter) -> bool:
        """Whether a read with this filter returns whole items, with their locks."""
        return cells is ITEM or cells in (self.owned.item, self.owned.former)

    def shown(self, cells: Filter) -> Filter:
        """The filter, so that it also returns locks; of a row that is not locked, it returns nothing more."""
        if self.is_whole(cells):
            return cells
        known = self._shown.get(cells)
        if known is None:
            if len(self._shown) >= _MOST_FILTERS:
                self._shown.clear()
            known = self._shown[cells] = interleave(cells, self.marks.locks)
        return known

    def or_locked(self, strange: Filter) -> Filter:
        """Returns a cell if a filter for the cells of other programs does, or if the row is locked."""
        known = self._strange.get(strange)
        if known is None:
            known = self._strange[strange] = interleave(strange, self.locked)
        return known

    def committed(self, rows: Sequence[Row], cells: Filter, retry: Retry) -> Steps[list[Row]]:
        """The rows as they are by the committed state; those in which nothing is left are omitted.

        Args:
            rows: rows that were read with `shown`; of a locked row, whole items are returned.
            cells: the cells that were asked for.
            retry: how long to retry.
        """
        held = {row.key: row for row in locked(rows)}
        if not held:
            return rows if isinstance(rows, list) else [*rows]
        complete = self.is_whole(cells) and self.whole in (cells, self.owned.item)
        states = yield from self._states(held if complete else (yield from self._again(held, retry)), retry)
        shown = (states.get(row.key) if row.key in held else row for row in rows)
        former = cells == self.owned.former
        return [
            row if former or row.key not in held else only_newest(row)
            for row in shown
            if row is not None and (row.key not in held or self._shows_something(row))
        ]

    def _shows_something(self, row: Row) -> bool:
        """Whether a row holds an item or cells of another program; not so, if an increment found no item in it."""
        tags = {(home, TAG.encode()) for home in self.marks.homes}
        tagged = any(value and column in tags for column, value in zip(row.columns, row.values, strict=True))
        return tagged or self.owned.is_strange(row)

    def _again(self, rows: Iterable[bytes], retry: Retry) -> Steps[dict[bytes, Row]]:
        """Read rows again, with all their cells."""
        keys = tuple(key.decode("utf-8", "surrogateescape") for key in rows)
        found = yield from read_many(self.table, keys, retry, self.whole)
        return {row.key: row for row in found.values()}

    def _states(self, left: Mapping[bytes, Row], retry: Retry) -> Steps[dict[bytes, Row | None]]:
        """The committed states of rows with all their cells."""
        found: dict[bytes, Row | None] = {}
        while left:
            held: dict[bytes, tuple[Row, Lock]] = {}
            for key, row in left.items():
                lock = lock_of(row, self.marks)
                if lock is None:
                    found[key] = row
                elif lock.after is None:
                    found[key] = before(row, lock)
                else:
                    held[key] = row, lock
            if not held:
                break
            said = yield from records.states(self.records, (lock.id for _, lock in held.values()), retry)
            for key, (row, lock) in held.items():
                if said.get(lock.id) == "committed":
                    found[key] = after(row, lock)
            unsure = [key for key in held if key not in found]
            again = (yield from self._again(unsure, retry)) if unsure else {}
            left = {}
            for key in unsure:
                shown, lock = again.get(key), held[key][1]
                now = None if shown is None else lock_of(shown, self.marks)
                if shown is None:
                    found[key] = None
                elif now is not None and now.id == lock.id:
                    found[key] = before(shown, now)
                else:
                    left[key] = shown
        return found
