"""Locks of transactions in rows of items: their form, the filters that find them, and the state of a locked row.

A transaction with the id ``t`` locks the row of each of its items before it is committed
(`odm.backends.bigtable.transactions`). A locked row has two cells that differ from an unlocked one::

    d:~r = ~t                        in place of the item's revision
    d:~x = {"t": t, "since": ...}    the lock: what the row had before, and what it gets

The attributes and the list of index entries stay as they were until the lock is resolved. An increment cannot have a
condition, so it may change the counters of a locked row; that increment does not count, and both ways to resolve the
lock set the counters again. A row without an item can be locked, too: then it has these two cells only.

Ids are hexadecimal, and ``~`` sorts behind them. So both questions are filters that return a cell: a row is locked if
``~r`` is from ``~`` on, and unlocked if it is below.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Collection, Iterable, Sequence
from typing import Any, Final

from attrs import frozen

from odm.backends.bigtable.cells import read_counter, write_counter
from odm.backends.bigtable.codec import UNREADABLE
from odm.backends.bigtable.columns import REVISION
from odm.backends.bigtable.filters import Filter, ValueIs, ValueRange, chain, interleave, newest
from odm.backends.bigtable.native import (
    COUNTERS,
    SERVER_TIME,
    AddToCell,
    Cell,
    CheckAndMutateRow,
    DeleteColumn,
    DeleteFamily,
    Mutation,
    Row,
    SetCell,
)
from odm.backends.bigtable.placement import JOINED, VERSIONS
from odm.codec import TAG
from odm.errors import BackendError
from odm.schema.model import Schema

LOCK: Final = "~x"
"""The qualifier of the lock."""

MARK: Final = "~"
"""Begins the revision of a locked row."""

END: Final = ".tx"
"""The end of the name of a table with locks."""

RECORDS: Final = "transactions"
"""The end of the name of the table with the records of transactions, as if it were an index."""

ABORT_AFTER: Final = 3.0
"""The default age in seconds from which a transaction without a record counts as one whose program has stopped."""

_LOCK: Final = LOCK.encode()


def name_of(schema: Schema) -> str:
    """The name of a schema's table on Bigtable, with which those of its indexes and records begin.

    A table with locks has another name than one without. So a program whose models do not say ``transactions=True``
    does not find the table, and can neither overlook a lock nor destroy one. No call is needed to find that out.
    """
    return schema.name if not schema.transactions or schema.name.endswith(END) else schema.name + END


def record_table(table: str) -> str:
    """The table with the records of a table's transactions."""
    return f"{table}.{RECORDS}"


@frozen
class Lock:
    """The lock of a transaction on a row.

    Attributes:
        id: the id of the transaction's attempt.
        since: when the first attempt of the transaction began, in microseconds.
        was: the row's revision before; None: there was no item.
        after: the mutations that make the row what it is after the commit; None: it stays the same.
        counters: the cells of the counters before.
        home: the column family of the lock and of the revision.
        at: the server's time of the lock, in microseconds.
    """

    id: str
    since: int
    was: str | None
    after: tuple[Mutation, ...] | None
    counters: tuple[Cell, ...]
    home: str
    at: int = 0

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
            DeleteColumn(REVISION, self.home),
            SetCell(REVISION, self.revision.encode(), now, self.home),
            DeleteColumn(LOCK, self.home),
            SetCell(LOCK, self._text(), SERVER_TIME, self.home),
        )

    @property
    def is_held(self) -> Filter:
        """Returns a cell while the row has this lock."""
        return chain(newest(self.home, REVISION), ValueIs(self.revision.encode()))

    def _text(self) -> bytes:
        after = None if self.after is None else [_mutation_text(one) for one in self.after]
        counters = [[_named(cell.qualifier), _value_text(cell.value), cell.timestamp] for cell in self.counters]
        made = {"t": self.id, "since": self.since, "was": self.was, "after": after, "counters": counters}
        return json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")


def forward(table: str, row_key: str, lock: Lock, marks: "Marks", now: int) -> CheckAndMutateRow:
    """The call that makes a row what it is after the commit of the transaction that locks it; idempotent."""
    if lock.after is None:
        return back(table, row_key, lock, marks, now)
    return CheckAndMutateRow(table, row_key, lock.is_held, matched=lock.after)


def back(table: str, row_key: str, lock: Lock, marks: "Marks", now: int) -> CheckAndMutateRow:
    """The call that makes a locked row what it was before; idempotent.

    Of a row without an item it removes what transactions and increments may have written. It does not remove the row,
    to which another program may have written.
    """
    restored: tuple[Mutation, ...]
    if lock.was is None:
        homes = dict.fromkeys((*marks.homes, lock.home))
        restored = (
            *(DeleteColumn(name, home) for home in homes for name in (TAG, REVISION, LOCK)),
            *(DeleteColumn(name, COUNTERS) for name in sorted(marks.counters)),
        )
    else:
        cells = (SetCell(_named(one.qualifier), one.value, one.timestamp, COUNTERS) for one in lock.counters)
        restored = (
            DeleteColumn(LOCK, lock.home),
            DeleteColumn(REVISION, lock.home),
            SetCell(REVISION, lock.was.encode(), now, lock.home),
            DeleteFamily(COUNTERS),
            *cells,
        )
    return CheckAndMutateRow(table, row_key, lock.is_held, matched=restored)


@frozen
class Marks:
    """Where a table's rows have locks, revisions and counters.

    Attributes:
        homes: the families that may have a tag.
        counters: the qualifiers of the models' Counters.
    """

    homes: tuple[str, ...]
    counters: Collection[str] = ()

    @property
    def locked(self) -> Filter:
        """Returns a cell if the row is locked."""
        return interleave(*(chain(newest(home, REVISION), ValueRange(MARK.encode())) for home in self.homes))

    @property
    def unlocked(self) -> Filter:
        """Returns a cell if the row has a revision and is not locked.

        An increment that found no item leaves an empty revision, which may be in another family than the item.
        """
        below = ValueRange(b"", MARK.encode(), open=True)
        return interleave(*(chain(newest(home, REVISION), below) for home in self.homes))

    @property
    def locks(self) -> Filter:
        """Returns the lock of a row."""
        return interleave(*(newest(home, LOCK) for home in self.homes))


def is_lock(revision: bytes) -> bool:
    """Whether the revision of a row shows that it is locked."""
    return revision.startswith(MARK.encode())


def locked(rows: Iterable[Row]) -> list[Row]:
    """The rows that are locked; columns are only looked at if they are not those of the row before."""
    found: list[Row] = []
    columns: object = None
    has = False
    for row in rows:
        if row.columns is not columns:
            columns = row.columns
            has = any(qualifier == _LOCK for _, qualifier in row.columns)
        if has:
            found.append(row)
    return found


def lock_of(row: Row, marks: Marks) -> Lock | None:
    """The lock of a row; None if it is not locked.

    A filter may also return the cell of the lock without its value, to show that the row holds something.

    Raises:
        BackendError: odm did not write the lock.
    """
    for cell in row.cells:
        if cell.qualifier == _LOCK and cell.family in marks.homes and cell.value:
            try:
                return _read(cell)
            except UNREADABLE as fault:
                raise BackendError(
                    f"odm did not write the row {row.text!r}: its cell {cell.family}:{LOCK} cannot be read ({fault}). "
                    "Use the table only with odm, or delete the cell"
                ) from fault
    return None


def before(row: Row, lock: Lock) -> Row | None:
    """A locked row as it is if the transaction is not committed; None: there is nothing in it."""
    was = () if lock.was is None else (Cell(lock.home, REVISION.encode(), lock.was.encode(), lock.at),)
    cells = [cell for cell in row.cells if not _is_locks(cell, lock)]
    return _row(row.key, (*cells, *was, *lock.counters))


def after(row: Row, lock: Lock) -> Row | None:
    """A locked row as it is if the transaction is committed; None: there is nothing in it."""
    if lock.after is None:
        return before(row, lock)
    return _row(row.key, changed((), lock.after, lock.at))


def _is_locks(cell: Cell, lock: Lock) -> bool:
    """Whether a cell of a locked row is the lock's, or a counter, whose value the lock has."""
    return cell.family == COUNTERS or (cell.family == lock.home and cell.qualifier in (_LOCK, REVISION.encode()))


def only_newest(row: Row) -> Row:
    """The row without the former values of its cells."""
    kept = {(cell.family, cell.qualifier): cell for cell in reversed(row.cells)}
    return row if len(kept) == len(row.values) else Row(row.key, reversed(kept.values()))


def staged(
    row: Row | None, removed: Sequence[Mutation], mutations: Sequence[Mutation], now: int
) -> tuple[Mutation, ...]:
    """The mutations that make a row what it is after some mutations, whatever it holds; idempotent.

    Args:
        row: all cells of the item, as it is before.
        removed: the mutations that delete an item.
        mutations: those of the write.
        now: the time of the write, in microseconds.
    """
    cells = changed(() if row is None else row.cells, mutations, now)
    return (*removed, *map(_written, cells))


def _written(cell: Cell) -> Mutation:
    name = _named(cell.qualifier)
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
    for one in mutations:
        if isinstance(one, DeleteFamily):
            columns = {place: held for place, held in columns.items() if place[0] != one.family}
            continue
        place = one.family, one.qualifier.encode("utf-8", "surrogateescape")
        if isinstance(one, DeleteColumn):
            columns.pop(place, None)
            continue
        held = columns.setdefault(place, {})
        at = now if one.timestamp == SERVER_TIME else one.timestamp
        if isinstance(one, AddToCell):
            known = held.get(at)
            joined = one.by if known is None else JOINED[one.family]((read_counter(known), one.by))
            held[at] = write_counter(joined)
        else:
            held[at] = one.value
    return [
        Cell(family, qualifier, value, at)
        for (family, qualifier), held in columns.items()
        for at, value in _shown(family, held)
    ]


def _shown(family: str, held: dict[int, bytes]) -> list[tuple[int, bytes]]:
    """The versions of a cell that a read shows: of a field whose former values are kept, all; else the newest."""
    versions = sorted(held.items(), reverse=True)
    return versions if family == VERSIONS else versions[:1]


def _row(key: bytes, cells: Iterable[Cell]) -> Row | None:
    """The row of some cells, in the server's order."""
    found = sorted(cells, key=lambda cell: (cell.family, cell.qualifier, -cell.timestamp))
    return Row(key, found) if found else None


def _named(qualifier: bytes) -> str:
    return qualifier.decode("utf-8", "surrogateescape")


def _value_text(value: bytes) -> Any:
    """Bytes as JSON: text, or a list with their base64."""
    try:
        return value.decode()
    except UnicodeDecodeError:
        return [b64encode(value).decode()]


def _value(text: Any) -> bytes:
    return text.encode() if isinstance(text, str) else b64decode(text[0], validate=True)


def _mutation_text(one: Mutation) -> list[Any]:
    match one:
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


def _read(cell: Cell) -> Lock:
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
    )
