"""A scrub after transactions that stopped anywhere, and next to other clients, in every order of their calls."""

import logging
from collections.abc import Iterator
from typing import Any

import pytest

from odm.backends.bigtable.client.native import Call
from odm.backends.bigtable.client.retry import LEASE_SECONDS
from odm.backends.bigtable.maintenance import scrub as scrubs
from odm.backends.bigtable.maintenance.scrub import Rules, Scrubbed, collect
from odm.backends.bigtable.requests import Procedures
from odm.backends.bigtable.transactions.resolve import Locks
from odm.protocol.requests import Delete, Transact
from tests.backends.bigtable.exploring import Moment, World, Wrong
from tests.backends.bigtable.native_server import NativeServer
from tests.backends.bigtable.tx_states import (
    INDEX,
    RECORDS,
    SCHEMA,
    X,
    Y,
    change,
    columns,
    committed,
    listed,
    locked,
    move,
    tx,
)
from tests.backends.bigtable.tx_variants import Change
from tests.backends.bigtable.watching import (
    BOTH,
    INSERTS,
    MOVES,
    ONLY_Y,
    Role,
    does,
    explore,
    first,
    gets,
    queries,
    reads,
    resolves,
    writes,
)
from tests.effort import times

pytestmark = pytest.mark.slow

THREE_LEASES = int(3 * LEASE_SECONDS) * 1_000_000

STATES = times(600, 5_000)

CASES: dict[str, tuple[NativeServer, Transact]] = {
    "put and update": (BOTH, MOVES),
    "insert": (ONLY_Y, INSERTS),
    "delete": (BOTH, tx(move(X, None), Delete(Y))),
}

NEXT_TO: dict[str, tuple[Role, ...]] = {
    "nobody": (),
    "a reader": (gets("r", X),),
    "a reader of two items": (reads("r", X, Y),),
    "queries": (queries("q", "A"), queries("r", "B")),
    "a resolver": (resolves("r", X, Y),),
    "a transaction": (first("b", tx(move(X, "C"), change(Y, 4))),),
    "an update": (writes("b", change(Y, 4), abort_after=0),),
}


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Warnings of so many programs take time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def scrub(server: NativeServer, *, after: str | None = None) -> Role:
    """A scrub at the time of a server; of the tables from ``after`` on."""
    rules = Rules(LEASE_SECONDS, clock=lambda: server.now / 1_000_000, after=after)

    def make(procedures: Procedures) -> Any:
        return collect(procedures.writer, rules, lambda _: None)

    return does("s", make)


def stops(case: str) -> list[NativeServer]:
    """All states of the tables in which a transaction can have stopped, three leases later."""
    server, request = CASES[case]
    found: dict[Any, NativeServer] = {}

    def watch(_before: Moment, after: Moment, _client: int, _call: Call) -> None:
        found.setdefault(tuple(sorted(after.server.rows.items())), after.server)

    World(SCHEMA, server, [first("a", request).client], watch, lambda _: None).explore(10_000)
    for one in found.values():
        one.now += THREE_LEASES
    return list(found.values())


@pytest.mark.parametrize("case", CASES)
def test_a_scrub_leaves_nothing_of_a_transaction_that_stopped(case: str) -> None:
    for server in stops(case):
        explore(server, scrub(server), most=STATES)
        state = committed(server)
        scrubbed(server)
        assert committed(server) == state
        assert not locked(server)
        assert columns(server) == listed(server)
        server.now += THREE_LEASES
        scrubbed(server)  # the first one aborted a transaction, and calls of it might have come late
        assert not server.keys(RECORDS)


def scrubbed(server: NativeServer) -> Scrubbed:
    """Scrub the tables of a server."""
    steps = scrub(server).client.make(Procedures(SCHEMA, now=lambda: server.now, ids=lambda: "s"))
    answer = None
    while True:
        try:
            native = steps.send(answer)
        except StopIteration as done:
            found: Scrubbed = done.value
            return found
        answer = None if type(native).__name__ == "Notice" else server.call(native)


@pytest.mark.parametrize("others", NEXT_TO)
@pytest.mark.parametrize("case", CASES)
def test_a_scrub_next_to_other_clients(case: str, others: str) -> None:
    found = stops(case)
    for server in found:
        explore(server, scrub(server), *NEXT_TO[others], most=STATES // len(found) + 50)


@pytest.mark.parametrize("case", CASES)
def test_a_scrub_leaves_a_running_transaction_alone(case: str) -> None:
    server, request = CASES[case]
    explore(server, scrub(server), writes("a", request, pauses=0), queries("q", "A"), most=STATES)
    explore(server, scrub(server), writes("a", request, pauses=0), resolves("r", X), most=STATES)


TEARS = tx(move(X, "B"), change(Y, 1))

VARIANTS: dict[str, tuple[Change, ...]] = {
    "records of aborted transactions are removed early": (
        Change(
            scrubs._RecordScrub,
            "columns",
            "chain(Newest(), Before(_stamp(2 * scope.cutoff - scope.now)))",
            "Newest()",
        ),
    ),
    "old records are removed without a look at the rows": (
        Change(Locks, "remove_records", 'if records.state_of(record) == "committed":', "if False:"),
    ),
    "index columns are judged by what a locked row shows": (
        Change(Locks, "outcomes", ", self.cells.after(row, lock)]", "]"),
    ),
    "index columns are removed without a lease": (
        Change(
            scrubs._IndexScrub,
            "columns",
            "chain(Family(ENTRIES), Newest(), Before(self.scope.cutoff))",
            "chain(Family(ENTRIES), Newest())",
        ),
        Change(
            scrubs._IndexScrub,
            "scrub",
            "DeleteColumn(column, ENTRIES, scope.cutoff)",
            "DeleteColumn(column, ENTRIES)",
        ),
    ),
}


def trace(variant: str) -> None:
    """Run the clients of a variant."""
    if variant == "records of aborted transactions are removed early":
        explore(BOTH, first("a", MOVES), resolves("r", X), scrub(BOTH, after=f"{RECORDS}:"), most=100_000)
    elif variant == "index columns are removed without a lease":
        explore(BOTH, first("a", TEARS), scrub(BOTH, after=f"{INDEX}:"), most=100_000)
    else:
        for server in stops("put and update"):
            table = RECORDS if "records" in variant else INDEX
            explore(server, scrub(server, after=f"{table}:"), queries("q", "B"), most=100_000)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_variant_fails(monkeypatch: pytest.MonkeyPatch, variant: str) -> None:
    for one in VARIANTS[variant]:
        one.apply(monkeypatch)
    with pytest.raises(Wrong):
        trace(variant)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_code_does_not(variant: str) -> None:
    trace(variant)
