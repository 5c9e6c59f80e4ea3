"""The server in memory answers as the emulator does: random calls, with filters like those of the backend.

The emulator counts the cells of a row in a random order of families. So the filters that count them have one family
here; of what the backend's own filters return, only the number of cells is compared.
"""

from collections.abc import Iterator
from contextlib import suppress
from random import Random
from typing import Any

import pytest

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.errors import NATIVE_FAILURES
from odm.backends.bigtable.client.filters import (
    AnyFamily,
    Before,
    Behind,
    Column,
    ColumnRange,
    Family,
    Filter,
    First,
    Newest,
    Nothing,
    Stripped,
    Unless,
    ValueIs,
    ValueMatches,
    ValueRange,
    chain,
    chained,
    interleave,
    newest,
)
from odm.backends.bigtable.client.native import (
    ITEM,
    AddToCell,
    AppendValue,
    Cell,
    CheckAndMutateRow,
    DeleteColumn,
    DeleteFamily,
    Entry,
    Increment,
    Mutated,
    MutateRow,
    MutateRows,
    Mutation,
    Read,
    ReadModifyWriteRow,
    ReadRows,
    Row,
    RowRange,
    SetCell,
)
from odm.backends.bigtable.client.native_admin import ColumnFamily, CreateTable, DeleteTable
from odm.backends.bigtable.driver import BigtableConnection
from odm.backends.bigtable.index.pages import LIST_ONLY, ROW_ONLY
from odm.backends.bigtable.requests import Procedures
from odm.backends.bigtable.transactions.resolve import Locks
from odm.schema.model import Schema
from tests.backends.bigtable.native_server import NativeServer
from tests.effort import times

TABLE = "both"
FAMILIES = ("d", "c", "sum", "v", "i", "t")
QUALIFIERS = ("_t", "~r", "~x", "a", "b#k", "_ix", "n", "~scrub-1")
VALUES = (b"", b"T", b"U", b"x1", b"x2", b"~x1", b"\xff\x00", (5).to_bytes(8, "big"), (7).to_bytes(8, "big"))
KEYS = ("k1", "k2", "k3#\U0001f600", "l\udcff")
FUTURE = 4_000_000_000_000_000
"""Behind the emulator's time, so that increments of both servers get the same timestamps."""

_WRITER = Procedures(Schema(name="x", entities={}, indexes={}, transactions=True)).writer


def backends() -> list[Filter]:
    """Filters that the backend makes."""
    owned = _WRITER.form.owned
    assert isinstance(_WRITER.places.locks, Locks)
    locks = _WRITER.places.locks.cells
    locked, unlocked = locks.locked("a"), locks.unlocked("a")
    return [
        *(ITEM, owned.held, owned.taken, owned.bookkeeping, owned.strange("T"), owned.unexpected("T"), owned.former),
        *(locked, unlocked, locks.any_lock, locks.shown(owned.held), locks.shown(owned.bookkeeping)),
        *(locks.shown(LIST_ONLY), LIST_ONLY, ROW_ONLY, Newest()),
        chained(newest("d", "~r"), chain(newest("c", "n"), ValueIs(VALUES[-1])), unlocked),
        interleave(owned.strange("U"), locked),
    ]


class Calls:
    """Makes random calls."""

    def __init__(self, random: Random) -> None:
        self.random = random

    def filter(self, depth: int = 3) -> Filter:
        pick = self.random.choice
        if depth and self.random.random() < 0.5:
            some = [self.filter(depth - 1) for _ in range(self.random.randint(2, 3))]
            return pick([chain(*some), interleave(*some), Unless(some[0], some[1])])
        start, end = sorted(self.random.sample(QUALIFIERS, 2))
        low, high = sorted(self.random.sample(VALUES, 2))
        return pick(
            [
                *(Newest(), Stripped(), Nothing(), Family(pick(FAMILIES)), AnyFamily(("d", "c"))),
                *(Column(pick(FAMILIES), pick(QUALIFIERS)), newest("d", pick(QUALIFIERS)), ValueIs(pick(VALUES))),
                *(ColumnRange("d", start, end), ColumnRange("d", start, ""), ColumnRange("d", f"{start}\0", end)),
                *(ValueRange(low, high), ValueRange(low, high, open=True), ValueRange(low), ValueRange(open=True)),
                *(ValueMatches(b"x.*"), ValueMatches(b"(?s:.*)")),
                *(Before(pick((2000, 3000))), chain(Family("d"), pick((First(1), First(2), Behind(1), Behind(2))))),
            ]
        )

    def mutation(self) -> Mutation:
        pick, chance = self.random.choice, self.random.random()
        family = pick(FAMILIES)
        if chance < 0.1:
            return DeleteFamily(family)
        if chance < 0.25:
            return DeleteColumn(pick(QUALIFIERS), family, pick((None, 2000, 3000)))
        if family == "sum":
            return AddToCell(pick("ab"), self.random.randint(-9, 9), "sum", pick((0, 1000)))
        return SetCell(pick(QUALIFIERS), pick(VALUES), pick((1000, 2000, 3000)), family)

    def mutations(self, least: int = 1) -> tuple[Mutation, ...]:
        return tuple(self.mutation() for _ in range(self.random.randint(least, 4)))

    def call(self) -> Any:
        pick, chance = self.random.choice, self.random.random()
        if chance < 0.3:
            return self.read()
        if chance < 0.5:
            return MutateRow(TABLE, Entry(pick(KEYS), self.mutations()))
        if chance < 0.6:
            return MutateRows(TABLE, tuple(Entry(key, self.mutations()) for key in self.random.sample(KEYS, 2)))
        if chance < 0.7:
            rules = (Increment("n", self.random.randint(-9, 9)), AppendValue("_t", b""), AppendValue("~r", b""))
            return ReadModifyWriteRow(TABLE, pick(KEYS), rules[self.random.randint(0, 1) :])
        predicate = pick((None, pick(backends()), chained(self.filter(), self.filter()), self.filter()))
        matched, unmatched = self.mutations(0), self.mutations(0)
        return CheckAndMutateRow(TABLE, pick(KEYS), predicate, matched, unmatched or self.mutations())

    def read(self) -> ReadRows:
        keys = tuple(self.random.sample(KEYS[:3], self.random.randint(0, 2)))
        start, end = sorted(self.random.sample(["", "k1", "k2", "k3#", "z"], 2))
        span = RowRange() if keys else RowRange(start, end, open=self.random.random() < 0.3)
        limit, reverse = self.random.choice((None, 1, 2)), self.random.random() < 0.3
        if span.empty:
            span = RowRange()
        wanted = self.random.choice(backends()) if self.random.random() < 0.5 else self.filter()
        return ReadRows(TABLE, keys, span, limit, reverse and not keys, wanted)


@pytest.fixture(scope="module")
def connection(bigtable_emulator: str) -> Iterator[BigtableConnection]:
    schema = Schema(name=TABLE, entities={}, indexes={})
    made = BigtableConnection(Bigtable("both", "both", endpoint=bigtable_emulator), schema)
    yield made
    made.close()


def pair(connection: BigtableConnection) -> NativeServer:
    """An empty table on both servers, with the same order of families; the emulator chooses it."""
    families = {name: ColumnFamily(None, "sum" if name == "sum" else None) for name in FAMILIES}
    with suppress(*NATIVE_FAILURES):
        connection.call(DeleteTable(TABLE))
    connection.call(CreateTable(TABLE, families))
    plain = tuple(SetCell("a", b"", 0, name) for name in FAMILIES if name != "sum")
    connection.call(MutateRow(TABLE, Entry("k1", (*plain, AddToCell("a", 1, "sum")))))
    (row,) = connection.call(ReadRows(TABLE, ("k1",), filter=Newest())).rows
    connection.call(MutateRow(TABLE, Entry("k1", tuple(map(DeleteFamily, FAMILIES)))))
    server = NativeServer(FUTURE)
    server.families = {TABLE: {cell.family: "sum" if cell.family == "sum" else None for cell in row.cells}}
    return server


def outcome(call: Any, send: Any) -> Any:
    """The answer, in a form to compare: newly written cells have the time of their server."""
    try:
        answer = send(call)
    except NATIVE_FAILURES:
        return "failed"
    if isinstance(answer, Read):
        counted = call.filter in backends()
        return [(row.key, len(row.cells) if counted else sorted(row.cells)) for row in answer.rows]
    if isinstance(answer, Mutated):
        return {number: status.code for number, status in answer.answers.items()}
    return _timeless(answer) if isinstance(answer, Row) else answer


def _timeless(row: Row) -> Any:
    return row.key, sorted(cell._replace(timestamp=0) for cell in row.cells)


def settled(connection: BigtableConnection, server: NativeServer, key: str) -> None:
    """Give the cells that an increment wrote the same timestamps on both servers."""
    cells: tuple[Cell, ...] = server.rows.get((TABLE, key), ())
    fresh = [cell for cell in cells if cell.timestamp == FUTURE]
    if not fresh:
        return
    gone = tuple(DeleteColumn(cell.qualifier.decode(), cell.family) for cell in fresh)
    again = tuple(SetCell(cell.qualifier.decode(), cell.value, 3000, cell.family) for cell in fresh)
    for send in (connection.call, server.call):
        send(MutateRow(TABLE, Entry(key, (*gone, *again))))


@pytest.mark.parametrize("seed", range(times(3, 60)))
def test_random_calls_have_the_same_answers(connection: BigtableConnection, seed: int) -> None:
    server, calls = pair(connection), Calls(Random(seed))
    for _ in range(150):
        call = calls.call()
        assert outcome(call, server.call) == outcome(call, connection.call), str(call)
        if isinstance(call, ReadModifyWriteRow):
            settled(connection, server, call.key)


def test_a_copy_changes_on_its_own() -> None:
    server = NativeServer.of(Schema(name="own", entities={}, indexes={}))
    twin = server.copy()
    twin.call(MutateRow("own", Entry("k", (SetCell("a", b"1", 1000),))))
    assert server.keys("own") == []
    assert twin.keys("own") == ["k"]
    assert (server.changed, twin.changed) == (0, 1)
