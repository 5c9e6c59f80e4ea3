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

`odm.backends.bigtable.lock_cells` has the filters and the calls, for each layout of rows.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Iterable
from typing import Any, Final

from odm.backends.bigtable.cells import read_counter, write_counter
from odm.backends.bigtable.columns import REVISION
from odm.backends.bigtable.filters import Filter, ValueIs, chain, newest
from odm.backends.bigtable.native import (
    COUNTERS,
    SERVER_TIME,
    AddToCell,
    Cell,
    DeleteColumn,
    DeleteFamily,
    Mutation,
    Row,
    SetCell,
)
from odm.backends.bigtable.placement import JOINED, VERSIONS
from odm.immutable import frozen
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
            DeleteColumn(self.revised, self.home),
            SetCell(self.revised, self.revision.encode(), now, self.home),
            DeleteColumn(self.locked, self.home),
            SetCell(self.locked, self.text, SERVER_TIME, self.home),
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
        after = None if self.after is None else [_mutation_text(one) for one in self.after]
        counters = [[named(cell.qualifier), _value_text(cell.value), cell.timestamp] for cell in self.counters]
        made = {"t": self.id, "since": self.since, "was": self.was, "after": after, "counters": counters}
        return json.dumps(made, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "surrogateescape")


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
            join = JOINED.get(one.family, sum)  # Counters of wide rows are sums, too
            joined = one.by if known is None else join((read_counter(known), one.by))
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


def row_of(key: bytes, cells: Iterable[Cell]) -> Row | None:
    """The row of some cells, in the server's order."""
    found = sorted(cells, key=lambda cell: (cell.family, cell.qualifier, -cell.timestamp))
    return Row(key, found) if found else None


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
