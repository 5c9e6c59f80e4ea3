"""What a write raises, and what it leaves, if the server does not answer a call about a lock or a record."""

from collections.abc import Callable
from itertools import count
from typing import Any, TypeAlias

import pytest
from google.api_core import exceptions

from odm.backends.bigtable.client.native import (
    CheckAndMutateRow,
    Concurrent,
    MutateRow,
    Native,
    ReadRows,
    SetCell,
    Steps,
)
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.requests import Procedures
from odm.errors import BackendError, OutcomeUnknown, Throttled
from odm.protocol.requests import BatchMerge, BatchWrite, Merge, Request, Sleep, Transact
from tests.backends.bigtable.native_server import NativeServer
from tests.backends.bigtable.playing import at_once
from tests.backends.bigtable.tx_states import RECORDS, SCHEMA, X, Y, assign, put

google: Any = exceptions
INTERNAL: Exception = google.InternalServerError("fault")
DOWN: Exception = google.ServiceUnavailable("down")
BOTH_PUT = Transact((put(X, 1), put(Y, 1)))
LATER = 10_000_000

Fails: TypeAlias = Callable[[Any], Exception | None]


class Stopped(Exception):
    """The program has stopped."""


class Client:
    """Runs requests against a server in memory; some calls fail, and are not applied.

    Attributes:
        server: the server.
        sent: the calls.
    """

    def __init__(self, server: NativeServer, fails: Fails = lambda _: None) -> None:
        self.server = server
        self.sent: list[Any] = []
        self._fails = fails
        ids = (f"{id(self):x}{number}" for number in count())
        retry = Retry(clock=lambda: server.now / 1e6, jitter=lambda: 1.0)
        self._procedures = Procedures(SCHEMA, retry, now=lambda: server.now, ids=lambda: next(ids))

    def ask(self, request: Request) -> Any:
        """Answer a request."""
        return self._run(at_once(self._procedures.steps(request)))

    def _run(self, steps: Steps[Any]) -> Any:
        try:
            native = next(steps)
            while True:
                try:
                    answer = self._answer(native)
                except google.GoogleAPICallError as failure:
                    native = steps.throw(failure)
                else:
                    native = steps.send(answer)
        except StopIteration as done:
            return done.value

    def _answer(self, native: Native) -> Any:
        if not isinstance(native, Concurrent):
            return self._one(native)
        return tuple(map(self._outcome, native.calls))

    def _outcome(self, native: Native) -> Any:
        try:
            return self._one(native)
        except google.GoogleAPICallError as failure:
            return failure

    def _one(self, native: Native) -> Any:
        if not isinstance(native, Sleep):
            self.sent.append(native)
            if (failure := self._fails(native)) is not None:
                raise failure
        return self.server.call(native)


def once(failure: Exception, when: Callable[[Any], bool]) -> Fails:
    """The first of some calls fails."""
    left = [failure]
    return lambda native: left.pop() if left and when(native) else None


def each(failure: Exception, when: Callable[[Any], bool]) -> Fails:
    """All of some calls fail."""
    return lambda native: failure if when(native) else None


def writes(record: bytes) -> Callable[[Any], bool]:
    """Whether a call writes this record."""
    return lambda native: (
        isinstance(native, CheckAndMutateRow)
        and native.table == RECORDS
        and any(isinstance(one, SetCell) and one.value == record for one in native.unmatched)
    )


def locks(key: str) -> Callable[[Any], bool]:
    """Whether a call locks this row."""
    return lambda native: (
        isinstance(native, CheckAndMutateRow)
        and native.key == key
        and any(isinstance(one, SetCell) and one.qualifier == "~x" for one in (*native.matched, *native.unmatched))
    )


def is_write(native: Any) -> bool:
    return isinstance(native, CheckAndMutateRow | MutateRow)


def filled() -> NativeServer:
    server = NativeServer.of(SCHEMA)
    Client(server).ask(BatchWrite((put(X, 0), put(Y, 0))))
    return server


def abandoned() -> NativeServer:
    """A server with locks of a program that has stopped."""
    server = filled()

    def stops(native: Any) -> None:
        if writes(b"committed")(native):
            raise Stopped

    with pytest.raises(Stopped):
        Client(server, stops).ask(BOTH_PUT)
    server.now += LATER
    return server


def held(server: NativeServer) -> list[str]:
    """The row keys of the locked rows."""
    return [key for (_, key), cells in server.rows.items() if any(cell.qualifier == b"~x" for cell in cells)]


def records(server: NativeServer) -> list[str]:
    """The row keys of the records."""
    return [key for table, key in server.rows if table == RECORDS]


WRITES: dict[str, Request] = {
    "update": assign(X, 7),
    "put": put(X, 7, tag="Plain"),
    "transaction": Transact((put(X, 7), put(Y, 7))),
}


@pytest.mark.parametrize("name", WRITES)
def test_a_lock_that_cannot_be_resolved_does_not_make_the_outcome_unknown(name: str) -> None:
    client = Client(abandoned(), each(INTERNAL, writes(b"aborted")))
    with pytest.raises(BackendError, match="the locks of transactions could not be resolved, so nothing was written: "):
        client.ask(WRITES[name])


def test_an_abort_without_an_answer_does_not_make_the_outcome_unknown() -> None:
    """The lock of Y may come late, and the record that is to stop it cannot be written: no commit was sent."""
    server = filled()
    fails = once(DOWN, locks("y"))
    client = Client(server, lambda native: fails(native) or each(INTERNAL, writes(b"aborted"))(native))
    with pytest.raises(BackendError, match="nothing was written"):
        client.ask(BOTH_PUT)
    assert held(server) == []
    assert not any(map(writes(b"committed"), client.sent))


def test_a_commit_without_an_answer_is_found_out_although_an_abort_has_none_either() -> None:
    server = filled()
    lost, failed = once(DOWN, writes(b"committed")), once(INTERNAL, writes(b"aborted"))
    Client(server, lambda native: lost(native) or failed(native)).ask(BOTH_PUT)
    assert held(server) == []


def test_the_outcome_is_unknown_if_neither_the_commit_nor_the_abort_is_answered() -> None:
    lost, failed = once(DOWN, writes(b"committed")), each(INTERNAL, writes(b"aborted"))
    with pytest.raises(OutcomeUnknown, match="its record cannot be read"):
        Client(filled(), lambda native: lost(native) or failed(native)).ask(BOTH_PUT)


def test_the_record_stays_if_a_row_cannot_be_read_after_its_lock_was_not_answered() -> None:
    """The lock may come late; the record says that it is aborted, so that it blocks nobody."""
    server = filled()
    lost = once(DOWN, locks("y"))
    sent: list[Any] = []

    def fails(native: Any) -> Exception | None:
        if sent and isinstance(native, ReadRows) and native.keys == ("y",):
            return INTERNAL
        if (failure := lost(native)) is not None:
            sent.append(native)
        return failure

    with pytest.raises(BackendError):
        Client(server, fails).ask(BOTH_PUT)
    assert held(server) == []
    assert len(records(server)) == 1


def test_a_batch_stops_when_the_server_does_not_answer() -> None:
    """As in a table without transactions: `left` may be sent again, and the time of one call is not spent for each."""
    puts = tuple(put(X._replace(partition=f"p{number}"), 1, tag="Plain") for number in range(100))
    client = Client(filled(), each(DOWN, is_write))
    began = client.server.now
    with pytest.raises(Throttled, match="100 of 100 operations") as caught:
        client.ask(BatchWrite(puts))
    assert caught.value.left == puts
    assert client.server.now - began < 61_000_000


def test_merges_stop_when_the_server_does_not_answer() -> None:
    merges = tuple(
        Merge(X._replace(partition=f"p{number}"), assign(X, 1).actions, {"_t": "Plain"}) for number in range(100)
    )
    client = Client(filled(), each(DOWN, is_write))
    began = client.server.now
    with pytest.raises(Throttled, match="100 of 100 merges") as caught:
        client.ask(BatchMerge(merges))
    assert caught.value.left == merges
    assert client.server.now - began < 61_000_000


def test_rows_of_a_batch_are_sent_again_when_a_quota_is_exhausted() -> None:
    busy = google.ResourceExhausted("quota")
    fails = once(busy, is_write)
    server = filled()
    Client(server, fails).ask(BatchWrite((put(X, 5, tag="Plain"),)))
    with pytest.raises(Throttled, match="1 of 1 operations"):
        Client(server, each(busy, is_write)).ask(BatchWrite((put(X, 6, tag="Plain"),)))
