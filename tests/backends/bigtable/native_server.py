"""A Bigtable in memory: answers the native requests of the backend as one step each, without I/O.

Rows are tuples that never change, so a copy of all tables is cheap (`NativeServer.copy`), and tests can explore what
several writers do in every order. Nothing is collected: old versions of a cell stay until a mutation deletes them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

from google.api_core import exceptions

from odm.backends.bigtable.admin.schema import tables
from odm.backends.bigtable.client.native import (
    SERVER_TIME,
    AddToCell,
    AppendValue,
    Call,
    Cell,
    CheckAndMutateRow,
    Concurrent,
    DeleteColumn,
    DeleteFamily,
    Increment,
    Mutated,
    MutateRow,
    MutateRows,
    Mutation,
    Native,
    Read,
    ReadModifyWriteRow,
    ReadRows,
    Row,
    RowRange,
    SampleRowKeys,
    SetCell,
    Status,
)
from odm.backends.bigtable.client.native_admin import Aggregate, CreateTable, DeleteTable
from odm.protocol.connection import Later
from odm.protocol.requests import Notice, Sleep
from odm.schema.model import Schema
from tests.backends.bigtable.native_filters import passing

google: Any = exceptions

Cells: TypeAlias = tuple[Cell, ...]
"""The cells of a row, in the server's order: by family and qualifier, the newest version first."""

Families: TypeAlias = Mapping[str, Aggregate | None]
"""The families of a table in the order of their cells, with their aggregates."""

_JOINED: Mapping[str, Callable[[int, int], int]] = {"sum": int.__add__, "min": min, "max": max}

_NOT_FOUND = 5


class NativeServer:
    """All tables of an instance.

    Attributes:
        now: the server's time in microseconds; only tests move it.
        rows: the rows with cells, by table and row key.
        families: the families of each table in the order of their cells, with their aggregates.
        changed: the number of writes that changed a row.
    """

    def __init__(self, now: int = 1_700_000_000_000_000) -> None:
        self.now = now
        self.rows: dict[tuple[str, str], Cells] = {}
        self.families: dict[str, Families] = {}
        self.changed = 0

    @classmethod
    def of(cls, schema: Schema, now: int = 1_700_000_000_000_000) -> "NativeServer":
        """A server with the tables of a schema."""
        made = cls(now)
        for table in tables(schema):
            made.call(table)
        return made

    def copy(self) -> "NativeServer":
        """A copy that changes on its own."""
        twin = NativeServer(self.now)
        twin.rows, twin.families, twin.changed = dict(self.rows), self.families, self.changed
        return twin

    def call(self, call: Native) -> Any:
        """Answer a native request, as `odm.backends.bigtable.driver.BigtableConnection.call`; pauses move the time."""
        match call:
            case Sleep(seconds):
                self.now += int(seconds * 1000) * 1000
                return None
            case Notice():
                return None
            case Concurrent(calls):
                return tuple(map(self._outcome, calls))
            case CreateTable(table, families):
                if table in self.families:
                    raise google.AlreadyExists(table)
                added: Families = {name: family.aggregate for name, family in sorted(families.items())}
                self.families = {**self.families, table: added}
                return None
            case DeleteTable(table):
                self._check(table)
                self.families = {name: kept for name, kept in self.families.items() if name != table}
                self.rows = {place: cells for place, cells in self.rows.items() if place[0] != table}
                return None
        assert not isinstance(call, Later)  # who runs the procedure starts it
        self._check(call.table)
        match call:
            case ReadRows():
                return self._read(call)
            case MutateRow(table, entry):
                return self._write(table, entry.key, self._changed(table, entry.key, entry.mutations))
            case MutateRows(table, entries):
                return Mutated({n: self._status(table, one.key, one.mutations) for n, one in enumerate(entries)})
            case CheckAndMutateRow():
                return self._check_and_mutate(call)
            case ReadModifyWriteRow():
                return self._read_modify_write(call)
            case SampleRowKeys():
                return ()
        raise AssertionError(f"not a call of this server: {call}")

    def keys(self, table: str) -> list[str]:
        """The row keys of a table, sorted."""
        return sorted(key for name, key in self.rows if name == table)

    def after(self, cells: Cells, mutations: Iterable[Mutation], table: str) -> Cells:
        """The cells of a row after some mutations."""
        columns: dict[tuple[str, bytes], dict[int, bytes]] = {}
        for family, qualifier, value, timestamp in cells:
            columns.setdefault((family, qualifier), {})[timestamp] = value
        for one in mutations:
            self._apply(columns, one, table)
        return self._sorted(columns, table)

    def _outcome(self, call: Call) -> Any:
        try:
            return self.call(call)
        except exceptions.GoogleAPICallError as failure:
            return failure

    def _check(self, table: str) -> None:
        if table not in self.families:
            raise google.NotFound(f"table {table!r} not found")

    def _aggregate(self, table: str, family: str) -> Aggregate | None:
        if family not in self.families[table]:
            raise google.NotFound(f"unknown family {family!r}")
        return self.families[table][family]

    def _read(self, call: ReadRows) -> Read:
        if call.keys:
            keys = sorted(key for key in {*call.keys} if (call.table, key) in self.rows)
        else:
            keys = [key for key in self.keys(call.table) if _is_in(key, call.range)]
        found: list[Row] = []
        scanned = None
        for key in reversed(keys) if call.reverse else keys:
            scanned = key
            if cells := passing(call.filter, self.rows[call.table, key], self._order(call.table)):
                found.append(Row(key.encode("utf-8", "surrogateescape"), cells))
            if call.limit is not None and len(found) == call.limit:
                break
        return Read(tuple(found), scanned if found else None)

    def _order(self, table: str) -> dict[str, int]:
        return {family: n for n, family in enumerate(self.families[table])}

    def _check_and_mutate(self, call: CheckAndMutateRow) -> bool:
        cells = self.rows.get((call.table, call.key), ())
        shown = cells if call.predicate is None else passing(call.predicate, cells, self._order(call.table))
        mutations = call.matched if shown else call.unmatched
        self._write(call.table, call.key, self._changed(call.table, call.key, mutations))
        return bool(shown)

    def _read_modify_write(self, call: ReadModifyWriteRow) -> Row:
        columns: dict[tuple[str, bytes], dict[int, bytes]] = {}
        for family, qualifier, value, timestamp in self.rows.get((call.table, call.key), ()):
            columns.setdefault((family, qualifier), {})[timestamp] = value
        written: dict[tuple[str, bytes], int] = {}
        for rule in call.rules:
            if self._aggregate(call.table, rule.family) is not None:
                raise google.InvalidArgument("not for cells of an aggregate family")
            place = rule.family, rule.qualifier.encode("utf-8", "surrogateescape")
            held = columns.setdefault(place, {})
            newest = max(held, default=None)
            at = self.now if newest is None else max(newest, self.now)
            held[at] = _modified(None if newest is None else held[newest], rule)
            written[place] = at
        self._write(call.table, call.key, self._sorted(columns, call.table))
        shown = {place: {at: columns[place][at]} for place, at in written.items()}
        return Row(call.key.encode("utf-8", "surrogateescape"), self._sorted(shown, call.table))

    def _status(self, table: str, key: str, mutations: Iterable[Mutation]) -> Status:
        try:
            self._write(table, key, self._changed(table, key, mutations))
        except google.NotFound as failure:
            return Status(_NOT_FOUND, str(failure))
        return Status(0)

    def _changed(self, table: str, key: str, mutations: Iterable[Mutation]) -> Cells:
        return self.after(self.rows.get((table, key), ()), mutations, table)

    def _write(self, table: str, key: str, cells: Cells) -> None:
        if self.rows.get((table, key), ()) == cells:
            return
        self.changed += 1
        if cells:
            self.rows[table, key] = cells
        else:
            del self.rows[table, key]

    def _apply(self, columns: dict[tuple[str, bytes], dict[int, bytes]], one: Mutation, table: str) -> None:
        kind = self._aggregate(table, one.family)
        if isinstance(one, DeleteFamily):
            for place in [place for place in columns if place[0] == one.family]:
                del columns[place]
            return
        place = one.family, one.qualifier.encode("utf-8", "surrogateescape")
        if isinstance(one, DeleteColumn):
            held = columns.pop(place, {})
            if one.before is not None and (kept := {at: held[at] for at in held if at >= one.before}):
                columns[place] = kept
            return
        at = self.now if one.timestamp == SERVER_TIME else one.timestamp
        if at % 1000:
            raise google.InvalidArgument(f"the timestamp {at} is not in whole milliseconds")
        held = columns.setdefault(place, {})
        if isinstance(one, SetCell):
            held[at] = one.value
        else:
            held[at] = _added(held.get(at), one, kind)

    def _sorted(self, columns: Mapping[tuple[str, bytes], Mapping[int, bytes]], table: str) -> Cells:
        order = self._order(table)
        return tuple(
            Cell(*place, columns[place][at], at)
            for place in sorted(columns, key=lambda place: (order[place[0]], place[1]))
            for at in sorted(columns[place], reverse=True)
        )


def _is_in(key: str, span: RowRange) -> bool:
    return span.start <= key and (not span.open or key != span.start) and (span.end is None or key < span.end)


def _number(value: bytes) -> int:
    return int.from_bytes(value, "big", signed=True)


def _modified(value: bytes | None, rule: Increment | AppendValue) -> bytes:
    if isinstance(rule, AppendValue):
        return (value or b"") + rule.value
    if value is not None and len(value) != 8:
        raise google.InvalidArgument("increment of a cell that has not 8 bytes")
    number = (0 if value is None else _number(value)) + rule.by
    return (number % 2**64).to_bytes(8, "big")


def _added(value: bytes | None, one: AddToCell, kind: str | None) -> bytes:
    if kind is None or kind not in _JOINED:
        raise google.InvalidArgument(f"family {one.family!r} has no aggregate that odm adds to")
    number = one.by if value is None else _JOINED[kind](_number(value), one.by)
    return (number % 2**64).to_bytes(8, "big")
