"""Variants of transactions that look correct and are not: each is shown to fail, where the real code does not.

The traces were found by a model of the protocol. Here the clients of a trace run in every order of their calls, once
with the real code and once with the variant (`tx_variants`), up to the first order in which something is wrong.
"""

import logging
from collections.abc import Iterator

import pytest

from odm.protocol.requests import BatchWrite, Delete, Put
from tests.backends.bigtable.exploring import Explored, Wrong
from tests.backends.bigtable.native_server import NativeServer
from tests.backends.bigtable.tx_states import X, Y, assign, change, insert, live, put, tx, view
from tests.backends.bigtable.tx_variants import VARIANTS
from tests.backends.bigtable.watching import (
    ADDS,
    BOTH,
    INSERTS,
    MOVES,
    ONLY_Y,
    PLAIN,
    PLAINS,
    P,
    Role,
    explore,
    first,
    gets,
    now,
    queries,
    resolves,
    writes,
)
from tests.effort import times

pytestmark = pytest.mark.slow

PUTS = tx(put(X, 1), put(Y, 2))
OVER = Put(P, {"_t": "Plain", "n": 7}, tag="Plain")

Case = tuple[NativeServer, tuple[Role, ...], int]
"""The tables, the clients, and how many answers are lost."""

CASES: dict[str, Case] = {
    "a reader trusts that there is no record": (BOTH, (first("a", PUTS), gets("r", X)), 0),
    "a reader trusts an aborted record": (BOTH, (first("a", PUTS), now("b", assign(X, 3)), gets("r", X)), 0),
    "a reader takes what is staged": (BOTH, (first("a", PUTS), gets("r", X)), 0),
    "a reader takes what shows": (BOTH, (first("a", PUTS), gets("r", X)), 0),
    "a reader takes a locked row without an item for absent": (ONLY_Y, (first("a", INSERTS), gets("r", X)), 0),
    "a reader takes the counters of a locked row": (BOTH, (first("a", ADDS), writes("b", view(X)), gets("r", X)), 0),
    "roll forward does not ask for the lock": (BOTH, (first("a", PUTS, 1), writes("b", assign(X, 3))), 1),
    "the record is removed before the rows are carried forward": (BOTH, (first("a", PUTS),), 0),
    "a resolver puts back without a record": (BOTH, (first("a", PUTS), resolves("s", X)), 0),
    "abort does not ask for a record": (BOTH, (first("a", PUTS), resolves("s", X)), 0),
    "commit does not ask for a record": (BOTH, (first("a", PUTS), resolves("s", X)), 0),
    "one id for all attempts": (BOTH, (first("a", ADDS, 2), writes("b", assign(X, 3))), 1),
    "checks do not lock": (ONLY_Y, (first("a", tx(insert(X, 1), live(Y))), writes("b", Delete(Y))), 0),
    "commit before all locks are answered": (BOTH, (first("a", PUTS), writes("b", assign(X, 3))), 1),
    "commit before all claims are answered": (ONLY_Y, (first("a", INSERTS), queries("q", "A")), 1),
    "a commit without an answer and a record counts as aborted": (BOTH, (first("a", PUTS),), 1),
    "a commit without an answer is reported as not done": (BOTH, (first("a", PUTS),), 1),
    "a commit is sent again": (BOTH, (first("a", PUTS, 1),), 1),
    "a lock is sent again": (ONLY_Y, (first("a", INSERTS, 1), now("b", Delete(X))), 1),
    "a put does not ask for a lock": (PLAIN, (first("a", PLAINS), writes("b", put(P, 7, tag="Plain"))), 0),
    "a put over an item with its tag does not ask for a lock": (PLAIN, (first("a", PLAINS), writes("b", OVER)), 0),
    "a batch does not ask for locks": (PLAIN, (first("a", PLAINS), writes("b", BatchWrite((OVER,)))), 0),
    "an update in one call does not ask for a lock": (BOTH, (first("a", PUTS), writes("b", assign(X, 3))), 0),
    "a lock leaves the revision alone": (BOTH, (first("a", ADDS), writes("b", change(X, 3))), 0),
    "an increment of a locked row counts": (BOTH, (first("a", PUTS), writes("b", view(X))), 0),
    "a lock does not ask for counters": (BOTH, (first("a", ADDS), writes("b", view(X))), 0),
    "roll forward leaves counters alone": (BOTH, (first("a", ADDS), writes("b", view(X))), 0),
    "roll back leaves counters alone": (BOTH, (first("a", ADDS), resolves("s", X), writes("b", view(X))), 0),
    "the removal of a ghost does not ask for a lock": (ONLY_Y, (first("a", INSERTS), writes("b", view(X))), 0),
    "a transaction waits while it holds locks": (BOTH, (first("b", ADDS, 1), first("a", MOVES)), 0),
}


@pytest.fixture(autouse=True, scope="module")
def quiet() -> Iterator[None]:
    """Warnings of so many programs take time."""
    logging.disable(logging.CRITICAL)
    yield
    logging.disable(logging.NOTSET)


def run(variant: str, most: int) -> Explored:
    """Run the clients of a variant."""
    server, roles, faults = CASES[variant]
    return explore(server, *roles, most=most, faults=faults)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_variant_fails(monkeypatch: pytest.MonkeyPatch, variant: str) -> None:
    for change_ in VARIANTS[variant]:
        change_.apply(monkeypatch)
    with pytest.raises(Wrong):
        run(variant, 100_000)


@pytest.mark.parametrize("variant", VARIANTS)
def test_the_code_does_not(variant: str) -> None:
    run(variant, times(1_000, 20_000))


def test_each_variant_has_its_clients() -> None:
    assert [*CASES] == [*VARIANTS]
