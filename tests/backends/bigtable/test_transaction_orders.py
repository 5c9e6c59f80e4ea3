"""Transactions of two rows and other clients in every order of their native calls, on a server in memory.

After each call, the committed state is as the protocol says: it changes only by a commit, and then all rows at once;
each listed entry has its column; answers and reads are those of a committed state. See `watching.Observer`.
"""

import logging
from collections.abc import Iterator

import pytest

from odm.backends.bigtable.client.native import Call
from odm.backends.bigtable.requests import Procedures
from odm.protocol.requests import BatchWrite, Delete
from tests.backends.bigtable.native_server import NativeServer
from tests.backends.bigtable.tx_states import (
    INDEX,
    RECORDS,
    SCHEMA,
    X,
    Y,
    assign,
    change,
    insert,
    live,
    locked,
    move,
    put,
    rich,
    spend,
    tx,
    view,
)
from tests.backends.bigtable.watching import (
    ADDS,
    BOTH,
    INSERTS,
    MOVES,
    NOTHING,
    ONLY_Y,
    PLAIN,
    PLAINS,
    P,
    Role,
    counts,
    explore,
    first,
    gets,
    now,
    queries,
    reads,
    resolves,
    scans,
    writes,
)
from tests.effort import times

pytestmark = pytest.mark.slow

STATES = times(600, 8_000)
"""At most so many states of a case."""


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Warnings of so many programs take time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def of_index(call: Call) -> bool:
    """Whether a call writes claims, which only queries and scrubs read."""
    return call.table == INDEX


TWO: dict[str, tuple[NativeServer, tuple[Role, ...]]] = {
    "the same order": (BOTH, (first("a", MOVES), first("b", tx(put(X, 3), put(Y, 4))))),
    "opposite orders": (BOTH, (first("a", MOVES), first("b", ADDS))),
    "again and again": (BOTH, (first("a", MOVES, 1), first("b", ADDS, 1))),
    "the younger one is faster": (BOTH, (first("b", MOVES), first("a", ADDS))),
    "one breaks locks": (BOTH, (first("a", MOVES), now("b", ADDS))),
    "put and delete": (BOTH, (first("a", MOVES), first("b", tx(Delete(X), change(Y, 2))))),
    "inserts": (NOTHING, (first("a", tx(insert(X, 1), insert(Y, 2))), first("b", tx(insert(Y, 3), insert(X, 4))))),
    "keys": (BOTH, (first("a", tx(move(X, "B"), change(Y, 1))), first("b", tx(move(X, "C"), put(Y, 2))))),
    "write skew": (BOTH, (first("a", tx(spend(X, 5), rich(Y, 6))), first("b", tx(spend(Y, 6), rich(X, 5))))),
    "insert where an item lives": (ONLY_Y, (writes("a", tx(insert(X, 1, "A"), live(Y))), writes("b", Delete(Y)))),
    "only checks": (BOTH, (first("a", tx(live(X), live(Y))), first("b", tx(Delete(X), live(Y))))),
}

SINGLE: dict[str, tuple[NativeServer, tuple[Role, ...]]] = {
    "put": (BOTH, (writes("a", ADDS), writes("b", put(X, 9)))),
    "put that breaks locks": (BOTH, (writes("a", ADDS), now("b", put(X, 9, "C")))),
    "put where nothing is": (ONLY_Y, (writes("a", INSERTS), now("b", put(X, 3, "B")))),
    "put without a read": (
        PLAIN,
        (writes("a", tx(put(P, 3, tag="Plain"), change(Y, 1))), now("b", put(P, 7, tag="Plain"))),
    ),
    "insert": (ONLY_Y, (writes("a", INSERTS), now("b", insert(X, 9, "C")))),
    "update in one call": (BOTH, (writes("a", ADDS), now("b", assign(X, 9)))),
    "update": (BOTH, (writes("a", ADDS), now("b", change(X, 9)))),
    "update of keys": (BOTH, (writes("a", MOVES), now("b", move(X, "C")))),
    "delete": (BOTH, (writes("a", ADDS), now("b", Delete(X)))),
    "delete of nothing": (ONLY_Y, (writes("a", INSERTS), now("b", Delete(X)))),
    "batch": (BOTH, (first("a", ADDS), now("b", BatchWrite((put(X, 3, "A"), put(Y, 4)))))),
    "batch without a read": (
        PLAIN,
        (writes("a", tx(put(P, 3, tag="Plain"), change(Y, 1))), now("b", BatchWrite((put(P, 7, tag="Plain"),)))),
    ),
    "increment": (BOTH, (writes("a", tx(change(X, 1), put(Y, 2))), now("b", view(X, 2)))),
    "two increments": (BOTH, (first("a", tx(change(X, 1), put(Y, 2))), now("b", view(X, 2)), writes("c", view(X, 4)))),
    "increment of nothing": (ONLY_Y, (writes("a", INSERTS), writes("b", view(X, 2)))),
    "increment and resolver": (BOTH, (first("a", ADDS), resolves("s", X), writes("b", view(X, 2)))),
}

READERS: dict[str, tuple[NativeServer, tuple[Role, ...]]] = {
    "get": (BOTH, (writes("a", MOVES), gets("r", X))),
    "get of an insert": (ONLY_Y, (writes("a", INSERTS), gets("r", X))),
    "get next to increments": (BOTH, (first("a", ADDS), writes("b", view(X, 2)), gets("r", X))),
    "two items": (BOTH, (writes("a", MOVES), reads("r", X, Y, atomic=False))),
    "two items at once": (BOTH, (writes("a", MOVES), reads("r", X, Y))),
    "two items at once of an insert": (ONLY_Y, (first("a", INSERTS), reads("r", X, Y))),
    "two items at once, two writers": (BOTH, (first("a", MOVES), first("b", ADDS), reads("r", X, Y))),
    "index": (BOTH, (writes("a", MOVES), queries("r", "A"), queries("q", "B"))),
    "index, two writers": (BOTH, (first("a", MOVES), first("b", tx(move(X, "C"), put(Y, 2))), queries("q", "A"))),
    "scan of an entity": (PLAIN, (first("a", tx(live(P), change(Y, 1))), scans("r", "Deal"))),
    "scan of an entity, all change": (PLAIN, (first("a", PLAINS), scans("r", "Plain"))),
    "count": (ONLY_Y, (first("a", INSERTS), writes("b", view(X, 2)), counts("r"))),
    "resolver": (BOTH, (writes("a", MOVES), gets("r", X), resolves("s", X))),
    "resolver, two items": (BOTH, (first("a", MOVES), reads("r", X, Y), resolves("s", X, Y))),
}

EVERY = TWO | SINGLE | READERS


@pytest.mark.parametrize("case", TWO)
def test_two_transactions(case: str) -> None:
    server, roles = TWO[case]
    explore(server, *roles, most=STATES, hides=of_index)


@pytest.mark.parametrize("case", SINGLE)
def test_a_single_write_beside_a_transaction(case: str) -> None:
    server, roles = SINGLE[case]
    explore(server, *roles, most=STATES, hides=of_index)


@pytest.mark.parametrize("case", READERS)
def test_a_reader_beside_a_transaction(case: str) -> None:
    server, roles = READERS[case]
    explore(server, *roles, most=STATES)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("case", EVERY)
def test_a_client_that_stops_anywhere(case: str) -> None:
    server, roles = EVERY[case]
    explore(server, *roles, most=STATES // 2, crashes=1)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("case", EVERY)
def test_an_answer_that_is_lost(case: str) -> None:
    """The call is applied at any later time, or never."""
    server, roles = EVERY[case]
    explore(server, *roles, most=STATES // 2, faults=1)


LONELY = {
    "put and update": (BOTH, MOVES),
    "updates": (BOTH, ADDS),
    "insert": (ONLY_Y, INSERTS),
    "delete": (BOTH, tx(move(X, None), Delete(Y))),
}


@pytest.mark.one_of(4)
@pytest.mark.parametrize("case", LONELY)
def test_a_transaction_of_which_two_answers_are_lost(case: str) -> None:
    server, request = LONELY[case]
    done = explore(server, writes("a", request, pauses=3), most=20_000, faults=2)
    assert done.complete


def test_an_interruption_while_locks_are_given_back() -> None:
    """The procedure is closed. It must not go on: that would hide the interruption."""
    server = BOTH.copy()
    steps = Procedures(SCHEMA, now=lambda: server.now, ids=lambda: "a").steps(MOVES)
    native = next(steps)
    while getattr(native, "table", "") != RECORDS:
        native = steps.send(server.call(native))
    steps.send(True)  # another writer has aborted it
    steps.close()
    assert len(locked(server)) == 2
