"""The locks of transactions in wide rows: each item is locked by itself.

A locked item has these cells, in the family of its document::

    comments: COMMENT  # 2023-09-10##_r   ~t                      in place of the revision and the list of index entries
    comments: COMMENT  # 2023-09-10##_x   {"t": t, "since": ...}  the lock, which has the former text of that cell

If there is no item, they stand in the family ``d``. Every write of an item asks in its predicate that the item is not
locked, an increment too: so the counters of a locked item do not change. The lock counts in the size of the row.
"""

from collections.abc import Collection, Iterable, Sequence

from odm.backends.bigtable.client.filters import Filter, chain, interleave, newest
from odm.backends.bigtable.client.native import (
    COUNTERS,
    FAMILY,
    ITEM,
    AddToCell,
    Cell,
    CheckAndMutateRow,
    DeleteColumn,
    Mutation,
    Row,
    SetCell,
    Steps,
)
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.rows.cells import qualifier, read_counter
from odm.backends.bigtable.rows.codec import Stored
from odm.backends.bigtable.rows.locks import OneCall
from odm.backends.bigtable.rows.wide import COUNTED, FILTER_BYTES, REVISED, SIDE, WideRows, apart, cut, grown, is_size
from odm.backends.bigtable.rows.wide import LOCKED as LOCK
from odm.backends.bigtable.transactions.lock_cells import (
    LOCKED,
    UNLOCKED,
    Lock,
    LockCells,
    changed,
    named,
    read_lock,
    row_of,
    was_of,
)
from odm.codec import TAG
from odm.expressions.nodes import Value
from odm.immutable import field

_REVISED = REVISED.encode()
_LOCK = LOCK.encode()


class WideLockCells(LockCells, kw_only=True):
    """The locks of items in the row of their partition.

    Attributes:
        places: where the items stand; it does not know of locks.
    """

    places: WideRows = field()

    def row(self, id: str) -> str:
        return self.places.row(id)

    def locked(self, id: str) -> Filter:
        return self._revision(id, LOCKED)

    def unlocked(self, id: str) -> Filter:
        return self._revision(id, UNLOCKED)

    def locked_absent(self, id: str) -> Filter:
        return chain(newest(FAMILY, self.places.sort(id) + REVISED), LOCKED)

    def unless_locked(self, id: str, write: OneCall) -> CheckAndMutateRow:
        return write.call  # it names the item's lock already, with its other columns

    def _revision(self, id: str, values: Filter) -> Filter:
        name = self.places.sort(id) + REVISED
        return interleave(*(chain(newest(family, name), values) for family in self.places.families))

    @property
    def whole(self) -> Filter:
        return ITEM

    def is_whole(self, cells: Filter) -> bool:
        return True

    def is_complete(self, cells: Filter) -> bool:
        return True

    def read(self, ids: tuple[str, ...], cells: Filter, retry: Retry) -> Steps[dict[str, Row]]:
        rows = yield from self.places.rows(ids, retry)
        asked = frozenset(ids)
        return {item.text: item for item in cut(rows, self.places.families) if item.text in asked}

    def read_locks(self, ids: tuple[str, ...], retry: Retry) -> Steps[dict[str, Row]]:
        return self.read(ids, ITEM, retry)

    def at_one_instant(self, ids: Sequence[str]) -> bool:
        size = sum(map(self.places.filter_bytes, ids))
        return len(set(map(self.row, ids))) < 2 and size <= FILTER_BYTES

    def shows_changes(self, ids: Sequence[str], rows: Iterable[Row]) -> bool:
        """Counters have no timestamps. One may change and change back, while one of another row does so, too."""
        return len({self.row(row.text) for row in rows if any(map(_is_counter, row.cells))}) < 2

    def versions(self, row: Row) -> list[Cell]:
        return [
            cell._replace(timestamp=0)
            for cell in row.cells
            if _is_counter(cell) or (cell.family != COUNTERS and cell.qualifier.endswith(_REVISED))
        ]

    def is_lock(self, qualifier: bytes) -> bool:
        return qualifier.endswith(_LOCK)

    @property
    def _homes(self) -> Collection[str]:
        return self.places.families

    def _read(self, cell: Cell) -> Lock:
        return read_lock(cell, named(cell.qualifier).removesuffix(LOCK) + REVISED)

    def loaded(self, row: Row) -> Row | None:
        document = self.places.document(row)
        return None if document is None else apart(row, self.places.family(str(document[TAG])))

    def counters(self, row: Row, before: Stored) -> list[Cell]:
        names = (self.places.document(before.row) or {}).get(COUNTED, ())
        head = row.key.partition(b"##")[2] + SIDE.encode()
        counted = {head + qualifier(str(name)).encode() for name in names}
        return [cell for cell in row.cells if cell.family == COUNTERS and cell.qualifier in counted]

    def counts(self, before: Stored, name: str) -> bool:
        return name in (self.places.document(before.row) or {}).get(COUNTED, ())

    def former(self, id: str, row: Row | None, before: Stored | None, tag: Value) -> Lock:
        sort = self.places.sort(id)
        home, was = FAMILY, None
        for cell in () if row is None else row.cells:
            if cell.family != COUNTERS and named(cell.qualifier) == sort:
                home = cell.family
            elif cell.family != COUNTERS and cell.qualifier.endswith(_REVISED):
                was = named(cell.value)
        return Lock("", 0, was, None, (), home, 0, sort + REVISED, sort + LOCK)

    def staged(
        self, id: str, row: Row | None, removed: Sequence[Mutation], mutations: Sequence[Mutation], now: int
    ) -> tuple[Mutation, ...]:
        locks = (DeleteColumn(self.places.sort(id) + LOCK, family) for family in self.places.families)
        if not mutations:
            return (*removed, *locks)
        cells = [] if row is None else [cell for cell in row.cells if not is_size(cell)]
        gone = [mutation for mutation in removed if isinstance(mutation, DeleteColumn)]
        # A counter is a sum, to which a write adds: deleted first, it becomes what is staged, however often this is
        # applied.
        gone += (DeleteColumn(named(cell.qualifier), COUNTERS) for cell in cells if cell.family == COUNTERS)
        return (*dict.fromkeys((*gone, *locks)), *map(_written, changed(cells, mutations, now)))

    def free(self, id: str, taken: Filter, *, checked: bool) -> Filter:
        """A row that is full has space for a lock."""
        return interleave(self.places.there(id, None), self.locked(id)) if checked else taken

    def mutations(self, lock: Lock, now: int) -> tuple[Mutation, ...]:
        others = (DeleteColumn(lock.revised, family) for family in self.places.families if family != lock.home)
        return (*others, *lock.mutations(now), *grown(_size(lock)))

    def _after(self, lock: Lock) -> tuple[Mutation, ...]:
        return (*super()._after(lock), *grown(-_size(lock)))

    def _before(self, lock: Lock, now: int) -> tuple[Mutation, ...]:
        gone = (DeleteColumn(lock.locked, lock.home), DeleteColumn(lock.revised, lock.home))
        return (*(gone if lock.was is None else lock.restored(now)), *grown(-_size(lock)))

    def before(self, row: Row, lock: Lock) -> Row | None:
        kept = (cell for cell in row.cells if not lock.has(cell))
        return None if lock.was is None else row_of(row.key, (*kept, *was_of(lock)))

    def after(self, row: Row, lock: Lock) -> Row | None:
        if lock.after is None:
            return self.before(row, lock)
        return row_of(row.key, (cell for cell in changed((), lock.after, lock.at) if not is_size(cell)))


def _is_counter(cell: Cell) -> bool:
    return cell.family == COUNTERS and not is_size(cell)


def _written(cell: Cell) -> Mutation:
    """The mutation that writes a cell of an item, or adds to the size of its row."""
    name = named(cell.qualifier)
    if cell.family == COUNTERS:
        return AddToCell(name, read_counter(cell.value), COUNTERS)
    return SetCell(name, cell.value, cell.timestamp, cell.family)


def _size(lock: Lock) -> int:
    """The bytes that a row has more while an item of it has this lock."""
    name = len(lock.revised.encode("utf-8", "surrogateescape"))  # that of the lock is as long
    was = 0 if lock.was is None else name + len(lock.was.encode("utf-8", "surrogateescape"))
    return 2 * name + len(lock.revision) + len(lock.text) - was
