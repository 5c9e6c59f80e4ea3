"""Locks of transactions in rows of items: their form, the filters that find them, and the state of a locked row.

A transaction with the id ``t`` locks the row of each of its items before it is committed
(`odm.backends.bigtable.writes.transact`). A locked row has two cells that differ from an unlocked one::

    d:~r = ~t                        in place of the item's revision
    d:~x = {"t": t, "since": ...}    the lock: what the row had before, and what it gets

The attributes and the list of index entries stay as they were until the lock is resolved. An increment cannot have a
condition, so it may change the counters of a locked row; that increment does not count, and both ways to resolve the
lock set the counters again. A row without an item can be locked, too: then it has these two cells only.

Ids are hexadecimal, and ``~`` sorts behind them. So both questions are filters that return a cell: a row is locked if
``~r`` is from ``~`` on, and unlocked if it is below.

To the protocol (`odm.backends.bigtable.writes.transact`), each item is a *row*: all cells that belong to it, and those
of its lock, under its id as the row key. `LockCells` has the filters and the calls for the layout with one row for each
item, and is the contract of both layouts; `odm.backends.bigtable.transactions.wide_locks` is that with one row for each
partition.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Final, TypeAlias

from odm.backends.bigtable.client.filters import Filter, ValueIs, ValueRange, chain, chained, interleave, newest
from odm.backends.bigtable.client.native import (
    COUNTERS,
    FAMILY,
    ITEM,
    SERVER_TIME,
    AddToCell,
    Cell,
    CheckAndMutateRow,
    DeleteColumn,
    DeleteFamily,
    Mutation,
    Row,
    SetCell,
    Steps,
)
from odm.backends.bigtable.client.retry import Retry, read_many
from odm.backends.bigtable.rows.cells import LOCK, REVISION, read_counter, write_counter
from odm.backends.bigtable.rows.codec import UNREADABLE, Stored
from odm.backends.bigtable.rows.locks import OneCall
from odm.backends.bigtable.rows.ownership import Owned
from odm.backends.bigtable.rows.placement import JOINED, VERSIONS
from odm.cache import Cache
from odm.codec import TAG
from odm.errors import BackendError
from odm.expressions.nodes import Value
from odm.immutable import Immutable, evolve

MARK: Final = "~"
"""Begins the revision of a locked row."""

Written: TypeAlias = tuple[Sequence[Mutation], Sequence[Mutation]]
"""The mutations that delete an item, and those of a write; none: the item is deleted."""

LOCKED: Final = ValueRange(MARK.encode())
"""The revisions of locked items. The mark sorts behind every id, so that each kind is a range: a filter returns cells
that exist, and cannot test that one does not."""

UNLOCKED: Final = ValueRange(b"", MARK.encode(), open=True)
"""Those of unlocked items. An increment that found no item leaves an empty one, maybe in another family."""

_LOCK: Final = LOCK.encode()


class Lock(Immutable):
    """The lock of a transaction on a row.

    Attributes:
        id: the id of the transaction's attempt.
        since: when the first attempt of the transaction began, in microseconds.
        was: the row's revision before; None: there was no item.
        after: the mutations that make the row what it is after the commit; None: it stays the same.
        counters: the cells of the counters before.
        home: the column family of the lock and of the revision.
        at: the server's time of the lock, in microseconds.
        revised: the qualifier of the revision.
        locked: the qualifier of the lock.
    """

    id: str
    since: int
    was: str | None
    after: tuple[Mutation, ...] | None
    counters: tuple[Cell, ...]
    home: str
    at: int = 0
    revised: str = REVISION
    locked: str = LOCK

    @property
    def order(self) -> tuple[int, str]:
        """Sorts transactions by their age: the oldest one is the first."""
        return self.since, self.id

    @property
    def revision(self) -> str:
        """The revision of the row while it is locked."""
        return MARK + self.id

    def mutations(self, now: int) -> tuple[Mutation, ...]:
        """The mutations that lock the row."""
        return (
            # Deleted first: an older cell with a later timestamp, from a clock that is ahead, would hide the new one.
            DeleteColumn(self.revised, self.home),
            SetCell(self.revised, self.revision.encode(), now, self.home),
            DeleteColumn(self.locked, self.home),
            SetCell(self.locked, self.text, SERVER_TIME, self.home),  # by its age, others decide whether to break it
        )

    def restored(self, now: int) -> tuple[Mutation, ...]:
        """The mutations that unlock the row of an item, and give it its former revision."""
        assert self.was is not None
        return (
            DeleteColumn(self.locked, self.home),
            DeleteColumn(self.revised, self.home),
            SetCell(self.revised, self.was.encode("utf-8", "surrogateescape"), now, self.home),
        )

    @property
    def is_held(self) -> Filter:
        """Returns a cell while the row has this lock."""
        return chain(newest(self.home, self.revised), ValueIs(self.revision.encode()))

    def has(self, cell: Cell) -> bool:
        """Whether a cell of the row is the lock or the revision."""
        return cell.family == self.home and cell.qualifier in (self.locked.encode(), self.revised.encode())

    @property
    def text(self) -> bytes:
        """The text of the lock."""
        after = None if self.after is None else [_mutation_text(mutation) for mutation in self.after]
        counters = [[named(cell.qualifier), _value_text(cell.value), cell.timestamp] for cell in self.counters]
        body = {"t": self.id, "since": self.since, "was": self.was, "after": after, "counters": counters}
        return json.dumps(body, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")


def is_lock(revision: bytes) -> bool:
    """Whether the revision of a row shows that it is locked."""
    return revision.startswith(MARK.encode())


def only_newest(row: Row) -> Row:
    """The row without the former values of its cells."""
    kept = {(cell.family, cell.qualifier): cell for cell in reversed(row.cells)}
    return row if len(kept) == len(row.values) else Row(row.key, reversed(kept.values()))


def written(cell: Cell) -> Mutation:
    """The mutation that writes a cell of a row of which nothing is left."""
    name = named(cell.qualifier)
    if cell.family in JOINED:
        return AddToCell(name, read_counter(cell.value), cell.family, cell.timestamp)
    return SetCell(name, cell.value, cell.timestamp, cell.family)


def changed(cells: Iterable[Cell], mutations: Iterable[Mutation], now: int) -> list[Cell]:
    """The cells of a row after some mutations, without values that a read does not show any more.

    Args:
        cells: the cells before.
        mutations: the mutations.
        now: the server's time, in microseconds.
    """
    columns: dict[tuple[str, bytes], dict[int, bytes]] = {}
    for cell in cells:
        columns.setdefault((cell.family, cell.qualifier), {})[cell.timestamp] = cell.value
    for mutation in mutations:
        if isinstance(mutation, DeleteFamily):
            columns = {place: held for place, held in columns.items() if place[0] != mutation.family}
            continue
        place = mutation.family, mutation.qualifier.encode("utf-8", "surrogateescape")
        if isinstance(mutation, DeleteColumn):
            columns.pop(place, None)
            continue
        held = columns.setdefault(place, {})
        at = now if mutation.timestamp == SERVER_TIME else mutation.timestamp
        if isinstance(mutation, AddToCell):
            known = held.get(at)
            join = JOINED.get(mutation.family, sum)  # Counters of wide rows are sums, too
            joined = mutation.by if known is None else join((read_counter(known), mutation.by))
            held[at] = write_counter(joined)
        else:
            held[at] = mutation.value
    return [
        Cell(family, qualifier, value, at)
        for (family, qualifier), held in columns.items()
        for at, value in _shown(family, held)
    ]


def _shown(family: str, held: dict[int, bytes]) -> list[tuple[int, bytes]]:
    """The versions of a cell that a read shows: of a field whose former values are kept, all; else the newest."""
    versions = sorted(held.items(), reverse=True)
    return versions if family == VERSIONS else versions[:1]


def row_of(key: bytes, cells: Iterable[Cell]) -> Row | None:
    """The row of some cells, in the server's order."""
    cells_in_order = sorted(cells, key=lambda cell: (cell.family, cell.qualifier, -cell.timestamp))
    return Row(key, cells_in_order) if cells_in_order else None


def named(qualifier: bytes) -> str:
    """A qualifier as text, without loss."""
    return qualifier.decode("utf-8", "surrogateescape")


def _value_text(value: bytes) -> Any:
    """Bytes as JSON: text, or a list with their base64."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return [b64encode(value).decode()]


def _value(text: Any) -> bytes:
    return text.encode() if isinstance(text, str) else b64decode(text[0], validate=True)


def _mutation_text(mutation: Mutation) -> list[Any]:
    match mutation:
        case DeleteFamily(family):
            return ["-", family]
        case DeleteColumn(qualifier, family):
            return ["-", family, qualifier]
        case AddToCell(qualifier, by, family, at):
            return ["+", family, qualifier, at, by]
        case SetCell(qualifier, value, at, family):
            return ["=", family, qualifier, at, _value_text(value)]


def _mutation(text: Any) -> Mutation:
    match text:
        case ["-", str(family)]:
            return DeleteFamily(family)
        case ["-", str(family), str(qualifier)]:
            return DeleteColumn(qualifier, family)
        case ["+", str(family), str(qualifier), int(at), int(by)]:
            return AddToCell(qualifier, by, family, at)
        case ["=", str(family), str(qualifier), int(at), value]:
            return SetCell(qualifier, _value(value), at, family)
    raise ValueError("an unknown change")


def read_lock(cell: Cell, revised: str = REVISION) -> Lock:
    """The lock in a cell.

    Args:
        cell: the cell.
        revised: the qualifier of the revision.

    Raises:
        ValueError, TypeError, LookupError or RecursionError: odm did not write it.
    """
    said = json.loads(cell.value.decode("utf-8", "surrogateescape"))
    return Lock(
        str(said["t"]),
        int(said["since"]),
        None if said["was"] is None else str(said["was"]),
        None if said["after"] is None else tuple(map(_mutation, said["after"])),
        tuple(
            Cell(COUNTERS, name.encode("utf-8", "surrogateescape"), _value(value), int(at))
            for name, value, at in said["counters"]
        ),
        cell.family,
        cell.timestamp,
        revised,
        named(cell.qualifier),
    )


class LockCells(Immutable, dict=True):
    """The locks of items with a row each.

    Attributes:
        table: the table's name.
        owned: distinguishes odm's cells from those of other programs.
        loads_rows: a row that was loaded with its item has all its cells.
        any_lock: returns the lock of a row.
    """

    table: str
    owned: Owned
    loads_rows: bool = True

    @cached_property
    def any_lock(self) -> Filter:
        return self._all(LOCK)

    @cached_property
    def _locked(self) -> Filter:
        return self._all(REVISION, LOCKED)

    @cached_property
    def _unlocked(self) -> Filter:
        return self._all(REVISION, UNLOCKED)

    @cached_property
    def _strange(self) -> Cache[Filter, Filter]:
        return Cache()

    @cached_property
    def _shown(self) -> Cache[Filter, Filter]:
        return Cache()

    def _all(self, name: str, *values: Filter) -> Filter:
        """The cells with this name in all families that may have a tag."""
        return interleave(*(chain(newest(home, name), *values) for home in self.owned.tag_families))

    def row(self, id: str) -> str:
        """The row key of the row that holds an item."""
        return id

    def locked(self, id: str) -> Filter:
        """Returns a cell if an item is locked."""
        return self._locked

    def unlocked(self, id: str) -> Filter:
        """Returns a cell if an item has a revision and is not locked."""
        return self._unlocked

    def locked_absent(self, id: str) -> Filter:
        """Returns a cell of the family ``d`` if there is no item with this id and its place is locked."""
        return chain(newest(FAMILY, REVISION), LOCKED)

    def unless_locked(self, id: str, write: OneCall) -> CheckAndMutateRow:
        """The call of a write whose predicate also checks that the item is not locked."""
        call = write.call
        if call.predicate is None:
            return call
        if write.matches:
            return evolve(call, predicate=chained(call.predicate, self.unlocked(id)))
        return evolve(call, predicate=interleave(call.predicate, self.locked(id)))

    def or_locked(self, id: str, strange: Filter) -> Filter:
        """Returns a cell if a filter for the cells of other programs does, or if an item is locked."""
        known = self._strange.get(strange)
        return self._strange.keep(strange, interleave(strange, self._locked)) if known is None else known

    def holds_something(self, row: Row) -> bool:
        """Whether a row holds an item or cells of another program; not so, if an increment found no item in it."""
        tags = {(home, TAG.encode()) for home in self.owned.tag_families}
        tagged = any(value and column in tags for column, value in zip(row.columns, row.values, strict=True))
        return tagged or self.owned.is_strange(row)

    @property
    def whole(self) -> Filter:
        """All cells of an item, with former values of its fields."""
        return self.owned.former

    def is_whole(self, cells: Filter) -> bool:
        """Whether a read for these cells returns whole items, with their locks."""
        return cells is ITEM or cells in (self.owned.item, self.owned.former)

    def is_complete(self, cells: Filter) -> bool:
        """Whether it returns all cells that a lock may depend on."""
        return self.is_whole(cells) and self.whole in (cells, self.owned.item)

    def shown(self, cells: Filter) -> Filter:
        """The filter, so that it also returns locks; of a row that is not locked, it returns nothing more."""
        if self.is_whole(cells):
            return cells
        known = self._shown.get(cells)
        return self._shown.keep(cells, interleave(cells, self.any_lock)) if known is None else known

    def read(self, ids: tuple[str, ...], cells: Filter, retry: Retry) -> Steps[dict[str, Row]]:
        """Read rows of the protocol with their locks, by id; missing ones are omitted.

        Args:
            ids: the items, without duplicates.
            cells: the cells that are needed.
            retry: how long to retry.
        """
        return read_many(self.table, ids, retry, self.shown(cells))

    def read_locks(self, ids: tuple[str, ...], retry: Retry) -> Steps[dict[str, Row]]:
        """Read the locks of items, by id; items without one may be omitted."""
        return read_many(self.table, ids, retry, self.any_lock)

    def at_one_instant(self, ids: Sequence[str]) -> bool:
        """Whether `read` reads these items at one instant."""
        return len(ids) < 2

    def shows_changes(self, ids: Sequence[str], rows: Iterable[Row]) -> bool:
        """Whether two equal reads of these rows show that nothing has changed in between."""
        return True

    def versions(self, row: Row) -> list[Cell]:
        """The cells that show whether an item was changed."""
        revision = REVISION.encode()
        return [
            # The value of a counter may come back, so its timestamp counts too; a revision never comes back.
            cell if cell.family == COUNTERS else cell._replace(timestamp=0)
            for cell in row.cells
            if cell.family == COUNTERS or cell.qualifier == revision
        ]

    def held(self, rows: Iterable[Row]) -> list[Row]:
        """The rows that are locked; columns are only looked at if they are not those of the row before."""
        rows_held: list[Row] = []
        columns: object = None
        has = False
        for row in rows:
            if row.columns is not columns:
                columns = row.columns
                has = any(self.is_lock(qualifier) for _, qualifier in row.columns)
            if has:
                rows_held.append(row)
        return rows_held

    def is_lock(self, qualifier: bytes) -> bool:
        """Whether this is the column of a lock."""
        return qualifier == _LOCK

    def locks_of(self, rows: Mapping[str, Row]) -> dict[str, Lock]:
        """The locks of those rows that are locked; raises the same error as `lock_of`."""
        return {id: lock for id, row in rows.items() if (lock := self.lock_of(row)) is not None}

    def lock_of(self, row: Row) -> Lock | None:
        """The lock of a row; None if it is not locked.

        A filter may also return the cell of the lock without its value, to show that the row holds something.

        Raises:
            BackendError: odm did not write the lock.
        """
        if not any(self.is_lock(qualifier) for _, qualifier in row.columns):
            return None
        for cell in row.cells:
            if cell.value and self.is_lock(cell.qualifier) and cell.family in self._homes:
                try:
                    return self._read(cell)
                except UNREADABLE as fault:
                    raise BackendError(
                        f"odm did not write the row {row.text!r}: its cell {cell.family}:{named(cell.qualifier)} "
                        f"cannot be read ({fault}). Use the table only with odm, or delete the cell"
                    ) from fault
        return None

    @property
    def _homes(self) -> Collection[str]:
        """The families that may have locks."""
        return self.owned.tag_families

    def _read(self, cell: Cell) -> Lock:
        return read_lock(cell)

    def loaded(self, row: Row) -> Row | None:
        """The row of the protocol for one that was loaded with its item; None: it must be read."""
        return row if self.loads_rows else None

    def counters(self, row: Row, before: Stored) -> list[Cell]:
        """The cells of the counters of a row with an item."""
        if not any(family == COUNTERS for family, _ in row.columns):
            return []
        return [cell for cell in row.cells if cell.family == COUNTERS]

    def counts(self, before: Stored, name: str) -> bool:
        """Whether an increment of this Counter of the item changes its cell without reading it."""
        return True

    def lock(  # what it depends on
        self,
        id: str,
        part: Row | None,
        before: Stored | None,
        tag: Value,
        written: Written | None,
        age: tuple[int, str],
        now: int,
    ) -> Lock:
        """The lock of an item for an attempt.

        Args:
            id: the item.
            part: all cells of the item, as it was read; None: there was no row.
            before: the item; None: there was none.
            tag: the tag that the item has, or will have, if it is known.
            written: the mutations that delete an item, and those of the write; None: the item is only checked.
            age: see `Lock.order`.
            now: the time of the write, in microseconds.
        """
        row = None if before is None else part
        counters = () if row is None or before is None else tuple(self.counters(row, before))
        after = None if written is None else self.staged(id, row, *written, now)
        former = self.former(id, row, before, tag)
        since, attempt = age
        return Lock(
            attempt, since, former.was, after, counters, former.home, revised=former.revised, locked=former.locked
        )

    def former(self, id: str, row: Row | None, before: Stored | None, tag: Value) -> Lock:
        """What a new lock says of the time before: an incomplete lock.

        Args:
            id: the item.
            row: its row; None: there was none.
            before: the item; None: there was none.
            tag: the tag that the item has, or will have, if it is known.
        """
        was = None if before is None else before.revision
        return Lock("", 0, was, None, (), self.owned.homes.get(str(tag), FAMILY))

    def staged(
        self, id: str, row: Row | None, removed: Sequence[Mutation], mutations: Sequence[Mutation], now: int
    ) -> tuple[Mutation, ...]:
        """The mutations that make a row what it is after some mutations, whatever it holds; idempotent.

        Args:
            id: the item.
            row: all cells of the item, as it is before.
            removed: the mutations that delete an item.
            mutations: those of the write; none: the item is deleted.
            now: the time of the write, in microseconds.
        """
        if not mutations:
            return tuple(removed)
        gone = {
            mutation.family for mutation in mutations if isinstance(mutation, DeleteFamily)
        }  # of a put, all of the item
        kept = () if row is None or gone.issuperset([family for family, _ in row.columns]) else row.cells
        return (*removed, *map(written, changed(kept, mutations, now)))

    def free(self, id: str, taken: Filter, *, checked: bool) -> Filter:
        """Returns a cell if a row without an item may not be locked.

        Args:
            id: the item.
            taken: returns a cell if no new item may be written there.
            checked: nothing will be written there.
        """
        return taken

    def mutations(self, lock: Lock, now: int) -> tuple[Mutation, ...]:
        """The mutations that lock a row."""
        return lock.mutations(now)

    def forward(self, id: str, lock: Lock, now: int) -> CheckAndMutateRow:
        """The call that makes a row what it is after the commit of the transaction that locks it; idempotent.

        It is conditional, because a copy that is applied late would undo what was written to the row since.
        """
        if lock.after is None:
            return self.back(id, lock, now)
        return CheckAndMutateRow(self.table, self.row(id), lock.is_held, matched=self._after(lock))

    def _after(self, lock: Lock) -> tuple[Mutation, ...]:
        assert lock.after is not None
        return lock.after

    def back(self, id: str, lock: Lock, now: int) -> CheckAndMutateRow:
        """The call that makes a locked row what it was before; idempotent.

        Of a row without an item it removes what transactions and increments may have written. It does not remove the
        row, to which another program may have written.
        """
        return CheckAndMutateRow(self.table, self.row(id), lock.is_held, matched=self._before(lock, now))

    def _before(self, lock: Lock, now: int) -> tuple[Mutation, ...]:
        if lock.was is None:
            homes = dict.fromkeys((*self.owned.tag_families, lock.home))
            return (
                *(DeleteColumn(name, home) for home in homes for name in (TAG, REVISION, LOCK)),
                *(DeleteColumn(name, COUNTERS) for name in sorted(self.owned.counters)),
            )
        cells = (
            SetCell(named(counter.qualifier), counter.value, counter.timestamp, COUNTERS) for counter in lock.counters
        )
        # Increments of a locked row are void: their writers learn of the lock from the revision, and count again.
        return (*lock.restored(now), DeleteFamily(COUNTERS), *cells)

    def before(self, row: Row, lock: Lock) -> Row | None:
        """A locked row as it is if the transaction is not committed; None: there is nothing in it."""
        return row_of(row.key, (*self._kept(row, lock), *was_of(lock), *lock.counters))

    def _kept(self, row: Row, lock: Lock) -> list[Cell]:
        """The cells of a locked row that the lock does not replace: the counters may have been changed since."""
        return [cell for cell in row.cells if cell.family != COUNTERS and not lock.has(cell)]

    def after(self, row: Row, lock: Lock) -> Row | None:
        """A locked row as it is if the transaction is committed; None: there is nothing in it."""
        if lock.after is None:
            return self.before(row, lock)
        return row_of(row.key, changed((), lock.after, lock.at))


def was_of(lock: Lock) -> tuple[Cell, ...]:
    """The cell with the revision before the lock, if there was one."""
    if lock.was is None:
        return ()
    return (Cell(lock.home, lock.revised.encode(), lock.was.encode("utf-8", "surrogateescape"), lock.at),)
