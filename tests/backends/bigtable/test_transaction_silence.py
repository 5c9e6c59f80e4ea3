"""The server stops answering some calls of a transaction: what is known about its outcome is said."""

from collections.abc import Callable
from typing import Any

import pytest
from google.api_core import exceptions

from odm.backends.bigtable.client.native import (
    CheckAndMutateRow,
    Concurrent,
    MutateRow,
    MutateRows,
    Native,
    ReadRows,
)
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.requests import Procedures
from odm.errors import BackendError, OutcomeUnknown
from odm.protocol.connection import Later, run
from odm.protocol.requests import Request, Sleep
from tests.backends.bigtable.native_server import NativeServer
from tests.backends.bigtable.playing import Clock
from tests.backends.bigtable.tx_states import RECORDS, SCHEMA, X, Y, change, committed, locked, put, record, tx, view
from tests.backends.bigtable.watching import ADDS, BOTH, filled

Silent = Callable[[Native], bool]

FRESH = filled(put(X, 5), put(Y, 6))
"""Items that lack their counters."""


def silent(server: NativeServer, request: Request, is_silent: Silent, *, abort_after: float = 3.0) -> Exception | None:
    """Make a request; some calls are not applied and have no answer. Returns the error."""
    clock, ids = Clock(), iter("abcdefgh")
    procedures = Procedures(
        SCHEMA,
        Retry(clock=clock, jitter=lambda: 1.0),
        lambda: server.now,
        lambda: next(ids),
        abort_after=abort_after,
    )

    def outcome(call: Any) -> Any:
        try:
            return send(call)
        except exceptions.GoogleAPICallError as failure:
            return failure

    def send(native: Native) -> Any:
        if isinstance(native, Concurrent):
            return tuple(map(outcome, native.calls))
        if isinstance(native, Sleep):
            clock.now += native.seconds
            return None
        if not isinstance(native, Later) and is_silent(native):
            raise exceptions.ServiceUnavailable("silence")  # type: ignore[no-untyped-call]
        return server.call(native)

    try:
        run(procedures.steps(request), send)
    except Exception as error:  # noqa: BLE001  # its kind is judged
        return error
    return None


def locks(native: Native) -> bool:
    """Whether a call locks the first row."""
    return isinstance(native, CheckAndMutateRow) and native.key == "x" and "d:~x=" in str(native)


def on_records(native: Native) -> bool:
    """Whether a call writes a record."""
    return isinstance(native, CheckAndMutateRow) and native.table == RECORDS


def held() -> NativeServer:
    """A server on which a transaction has stopped with its locks."""
    server = BOTH.copy()
    steps = Procedures(SCHEMA, now=lambda: server.now, ids=lambda: "0").steps(ADDS)
    native = next(steps)
    while not on_records(native):
        native = steps.send(server.call(native))
    return server


class TestNothingWasWritten:
    """The commit was not sent, so the transaction is surely not applied, and no lock of it stays."""

    @pytest.mark.parametrize(
        ("server", "is_silent"),
        [
            (BOTH, lambda native: locks(native) or on_records(native)),
            (FRESH, lambda native: isinstance(native, CheckAndMutateRow) and "c:views=0" in str(native)),
        ],
        ids=["lock and abort", "counters"],
    )
    def test_it_says_so(self, server: NativeServer, is_silent: Silent) -> None:
        server = server.copy()
        before = committed(server)
        error = silent(server, ADDS, is_silent)
        assert isinstance(error, BackendError)
        assert not isinstance(error, OutcomeUnknown)
        assert "nothing was written" in str(error)
        assert committed(server) == before
        assert not locked(server)

    @pytest.mark.parametrize("request_", [ADDS, change(X, 1), put(X, 1), view(X)], ids=["tx", "update", "put", "view"])
    def test_also_if_a_lock_of_another_one_cannot_be_resolved(self, request_: Request) -> None:
        server = held()
        before = committed(server)
        error = silent(server, request_, on_records, abort_after=1e-9)
        assert isinstance(error, BackendError)
        assert not isinstance(error, OutcomeUnknown)
        assert "nothing was written" in str(error)
        assert committed(server) == before

    def test_a_record_stays_while_a_lock_may_come_late(self) -> None:
        """Neither the lock nor the read after it was answered."""
        server = BOTH.copy()
        lost: list[Any] = []

        def is_silent(native: Native) -> bool:
            if locks(native):
                lost.append(native)
            return locks(native) or (bool(lost) and isinstance(native, ReadRows) and native.keys == ("x",))

        assert silent(server, ADDS, is_silent) is not None
        assert record(server, "a") == b"aborted"


def test_the_outcome_is_unknown_if_the_commit_and_its_record_are_silent() -> None:
    server = BOTH.copy()
    error = silent(server, ADDS, lambda native: getattr(native, "table", None) == RECORDS)
    assert isinstance(error, OutcomeUnknown)


def test_a_transaction_is_done_although_nobody_can_clean_up() -> None:
    """It is committed; then the server is silent."""
    server = BOTH.copy()

    def is_silent(native: Native) -> bool:
        done = record(server, "a") == b"committed"
        return done and isinstance(native, CheckAndMutateRow | MutateRow | MutateRows)

    assert silent(server, tx(change(X, 1), change(Y, 1)), is_silent) is None
    assert len(locked(server)) == 2
    assert dict(committed(server)["x"][0])["n"] == 6
