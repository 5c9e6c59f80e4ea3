"""What a hostile or broken server of HTTP/2 answers is an error of its own call, in time, and the next call succeeds.

The lean transport has no limit for the bytes of an answer, as grpcio's channels of Google's client have none: a row may
have 256 MB. A server that sends data without end, and that keeps to flow control, is cut off by the deadline of the
attempt, and what it sent until then is in memory. All other floods end before, or take no memory: pyqwest limits the
bytes of headers, answers PING and SETTINGS in order, and grants only a window of data that it has not read.

An answer with another content type is accepted if it has the status and the messages of gRPC, as grpcio does.
"""

import asyncio
import struct
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client import http2
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.driver import BigtableConnection
from odm.errors import BackendError, OutcomeUnknown, Throttled
from odm.protocol.connection import RetryPolicy, aperform, perform
from odm.protocol.predicates import ABSENT
from odm.protocol.requests import Get, Put, Query
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.backends.bigtable.raw_http2 import (
    CONTINUATION,
    DATA,
    END_HEADERS,
    GOAWAY,
    HEADERS,
    OK,
    PING,
    SETTINGS,
    USUAL,
    Behaviour,
    RawServer,
    Talk,
    block,
    frame,
    message,
    raw,
)
from tests.backends.bigtable.server import rows

pytestmark = [pytest.mark.one_of(4), pytest.mark.slow]

SHOP = Schema("shop", {}, {})
KEY = Key("p", "a")
ITEM = {"_t": "Hat"}
ROW = rows("p#a").SerializeToString()
FRAMED = message(ROW)
SECONDS = 0.5
"""The deadline of the call that a broken answer belongs to."""

PATIENT = RetryPolicy(retries=3, timeout=20)


@pytest.fixture
def server() -> Iterator[RawServer]:
    with raw(ROW) as server:
        yield server


@pytest.fixture(params=["sync", "async"])
def asynchronous(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "async")


class Client:
    """Makes calls through one connection, sync or async."""

    def __init__(self, server: RawServer, asynchronous: bool) -> None:
        backend = Bigtable("project", "instance", endpoint=server.address, transport="lean")
        self.connection = BigtableConnection(backend, SHOP, Retry(overall=20, first=0.01))
        self.asynchronous = asynchronous
        self._runner = asyncio.Runner()

    def ask(self, request: Any, policy: RetryPolicy = PATIENT) -> Any:
        connection = self.connection.with_retry_policy(policy)
        if self.asynchronous:
            return self._runner.run(aperform(connection, request))
        return perform(connection, request)

    def close(self) -> None:
        self._runner.run(self.connection.aclose())
        self.connection.close()
        self._runner.close()


@pytest.fixture
def client(server: RawServer, asynchronous: bool) -> Iterator[Client]:
    client = Client(server, asynchronous)
    yield client
    server.behave()
    client.close()


def sends(make: Callable[[Talk], bytes], *, closes: bool = False) -> Behaviour:
    """Send frames, and maybe end the connection."""

    def behave(talk: Talk) -> None:
        talk.link.send(make(talk))
        if closes:
            talk.link.close()

    return behave


def floods(make: Callable[[Talk], tuple[bytes, bytes]]) -> Behaviour:
    """Send frames once, and then others in a flood."""

    def behave(talk: Talk) -> None:
        first, others = make(talk)
        talk.link.send(first)
        talk.flood(others)

    return behave


def gone(last: int, code: int) -> bytes:
    return frame(GOAWAY, 0, 0, struct.pack(">II", last, code))


def html(status: str) -> Callable[[Talk], bytes]:
    return lambda talk: talk.answer(b"<html>bad</html>", None, {":status": status, "content-type": "text/html"})


def failed(text: bytes | str) -> Callable[[Talk], bytes]:
    return lambda talk: talk.answer(b"", {"grpc-status": "13", "grpc-message": text})


LONG = "a" * 4_000_000

BROKEN: dict[str, Behaviour] = {
    "GOAWAY before the call": sends(lambda talk: gone(0, 0)),
    "GOAWAY and the end": sends(lambda talk: gone(talk.stream, 0), closes=True),
    "GOAWAY for a flood": sends(lambda talk: gone(talk.stream, 11), closes=True),
    "a reset within a message": sends(lambda talk: talk.headers(USUAL) + talk.data(FRAMED[:-3]) + talk.reset(2)),
    "a reset without an error within a message": sends(
        lambda talk: talk.headers(USUAL) + talk.data(FRAMED[:-3]) + talk.reset(0)
    ),
    "a refused stream": sends(lambda talk: talk.reset(7)),
    "a reset that asks for calm": sends(lambda talk: talk.reset(11)),
    "the end of the connection": lambda talk: talk.link.close(),
    "the end of the connection after the headers": sends(lambda talk: talk.headers(USUAL), closes=True),
    "the end of the connection within a message": sends(
        lambda talk: talk.headers(USUAL) + talk.data(FRAMED[:-3]), closes=True
    ),
    "the end of the connection within a frame": sends(
        lambda talk: talk.headers(USUAL) + talk.data(FRAMED)[:-3], closes=True
    ),
    "the end of the stream after the headers": sends(lambda talk: talk.headers(USUAL, end=True)),
    "4 GB that do not come": sends(lambda talk: talk.answer(message(ROW, size=2**32 - 1))),
    "4 GB that are still to come": sends(lambda talk: talk.headers(USUAL) + talk.data(message(ROW, size=2**32 - 1))),
    "a compressed message": sends(lambda talk: talk.answer(message(ROW, 1))),
    "a flag that is not known": sends(lambda talk: talk.answer(message(ROW, 255))),
    "half a message": sends(lambda talk: talk.answer(FRAMED[:-3])),
    "half a prefix": sends(lambda talk: talk.answer(FRAMED[:3])),
    "garbage": sends(lambda talk: talk.answer(message(b"\xff" * 50))),
    "garbage in a field": sends(lambda talk: talk.answer(message(b"\x0a\x05\xff"))),
    "headers of megabytes": sends(lambda talk: talk.headers({**USUAL, "x-long": LONG})),
    "trailers of megabytes": sends(
        lambda talk: talk.headers(USUAL) + talk.data(FRAMED) + talk.headers({**OK, "x-long": LONG}, end=True)
    ),
    "a failure of megabytes": sends(
        lambda talk: talk.headers(USUAL) + talk.headers({"grpc-status": "13", "grpc-message": LONG}, end=True)
    ),
    "no answer": lambda talk: None,
    "no answer after the headers": sends(lambda talk: talk.headers(USUAL)),
    "a failure with a broken escape": sends(failed("%zz%F%")),
    "a failure with escaped bytes that are not UTF-8": sends(failed("%ff%fe")),
    "a failure with bytes that are not text": sends(failed(b"\xff\xfe")),
    "502 and HTML": sends(html("502")),
    "200 and HTML": sends(html("200")),
    "302": sends(lambda talk: talk.answer(b"", None, {":status": "302", "location": "http://127.0.0.1:1/"})),
    "HTTP/1.1 in place of a frame": sends(lambda talk: b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"),
    "no status of HTTP": sends(lambda talk: talk.answer(FRAMED, OK, {"content-type": "application/grpc"})),
    "99 as the status of HTTP": sends(lambda talk: talk.answer(FRAMED, OK, {":status": "99"})),
    "a word as the status of HTTP": sends(lambda talk: talk.answer(FRAMED, OK, {":status": "fine"})),
    "headers that cannot be read": sends(lambda talk: frame(HEADERS, END_HEADERS, talk.stream, b"\xff" * 7)),
    "a frame that is too long": sends(lambda talk: talk.headers(USUAL) + talk.data(bytes(1 << 20))),
    "data of no stream": sends(lambda talk: frame(DATA, 0, 0, b"x")),
    "data of a stream that does not exist": sends(lambda talk: frame(DATA, 0, 999, b"x")),
    "data before the headers": sends(lambda talk: talk.data(FRAMED)),
    "a flood of CONTINUATION": floods(
        lambda talk: (
            frame(HEADERS, 0, talk.stream, block(USUAL)),
            frame(CONTINUATION, 0, talk.stream, block({"x-long": "b" * 4000})),
        )
    ),
    "a flood of empty CONTINUATION": floods(
        lambda talk: (frame(HEADERS, 0, talk.stream, block(USUAL)), frame(CONTINUATION, 0, talk.stream) * 100)
    ),
    "a flood of SETTINGS": lambda talk: talk.flood(frame(SETTINGS, 0, 0, struct.pack(">HI", 3, 100)) * 100),
    "a flood of PING": lambda talk: talk.flood(frame(PING, 0, 0, bytes(8)) * 100),
    "a flood of early hints": lambda talk: talk.flood(talk.headers({":status": "103"}) * 100),
    "a flood of data without flow control": floods(lambda talk: (talk.headers(USUAL), talk.data(bytes(16_000)))),
}
"""Answers that are broken."""

NO_END: dict[str, Behaviour] = {
    "no trailers": sends(lambda talk: talk.answer(FRAMED, None)),
    "a status that is not a number": sends(lambda talk: talk.answer(FRAMED, {"grpc-status": "fine"})),
    "a status of many digits": sends(lambda talk: talk.answer(FRAMED, {"grpc-status": "9" * 5000})),
    "a negative status": sends(lambda talk: talk.answer(FRAMED, {"grpc-status": "-1"})),
    "a status that is not text": sends(lambda talk: talk.answer(FRAMED, {"grpc-status": b"\xff\xfe"})),
    "an empty status": sends(lambda talk: talk.answer(FRAMED, {"grpc-status": ""})),
}
"""Answers with a whole message whose end is broken: the row that was read is right, and a write may be applied."""

PUT = Put(KEY, ITEM)
WRITES: dict[str, Any] = {
    "put": PUT,
    "insert": Put(KEY, ITEM, condition=ABSENT, presence="absent"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_answer(server: RawServer, client: Client, name: str) -> None:
    """Of a connection that worked before: reads fail, a write has an unknown outcome, and the next calls succeed."""
    once = RetryPolicy(retries=0, timeout=SECONDS)
    reads = (BackendError, Throttled)
    for request, errors in ((Get(KEY), reads), (Query("p"), reads), (PUT, OutcomeUnknown)):
        assert client.ask(Get(KEY)) == ITEM
        server.calm.clear()
        server.behaviour = BROKEN[name]
        with pytest.raises(errors):
            client.ask(request, once)
        server.behave()
        assert client.ask(Get(KEY)) == ITEM


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_answer_to_a_conditional_write(server: RawServer, client: Client, name: str) -> None:
    server.behaviour = BROKEN[name]
    with pytest.raises(OutcomeUnknown):
        client.ask(WRITES["insert"], RetryPolicy(retries=0, timeout=SECONDS))


@pytest.mark.parametrize("name", NO_END)
def test_a_broken_end(server: RawServer, client: Client, name: str) -> None:
    server.behaviour = NO_END[name]
    once = RetryPolicy(retries=0, timeout=20)
    assert client.ask(Get(KEY), once) == ITEM
    for write in WRITES.values():
        with pytest.raises(OutcomeUnknown):
            client.ask(write, once)
    with pytest.raises(BackendError):  # there may be more rows
        client.ask(Query("p"), once)
    server.behave()
    assert client.ask(Get(KEY)) == ITEM


@pytest.mark.parametrize("opening", [b"HTTP/1.1 400 Bad Request\r\nContent-Length: 2\r\n\r\nhi", b"", b"\0\0\0"])
def test_a_server_of_http1(server: RawServer, client: Client, opening: bytes) -> None:
    server.opening = opening
    once = RetryPolicy(retries=0, timeout=20)
    for request, errors in ((Get(KEY), BackendError), (PUT, OutcomeUnknown)):
        with pytest.raises(errors):
            client.ask(request, once)
    server.behave()
    assert client.ask(Get(KEY)) == ITEM


def test_a_connection_that_never_answered_is_replaced(
    server: RawServer, client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once it cannot be that it is still being established."""
    once = RetryPolicy(retries=0, timeout=SECONDS)
    dead: list[Any] = []

    def behave(talk: Talk) -> None:
        dead[:] = dead or [talk.link]
        if talk.link not in dead:
            talk.link.send(talk.good())

    server.behaviour = behave
    with pytest.raises(BackendError):
        client.ask(Get(KEY), once)
    monkeypatch.setattr(http2, "CONNECT_SECONDS", 0.0)
    with pytest.raises(BackendError):
        client.ask(Get(KEY), once)
    assert client.ask(Get(KEY)) == ITEM


def test_data_without_end_is_cut_off_at_the_deadline(server: RawServer, client: Client) -> None:
    """What came until then is in memory, which is free again afterwards."""

    def behave(talk: Talk) -> None:
        talk.link.send(talk.headers(USUAL))
        while not server.calm.is_set() and talk.link.window.take(talk.stream, 16_000):
            talk.link.send(talk.data(bytes(16_000)))
            server.calm.wait(0.01)

    once = RetryPolicy(retries=0, timeout=SECONDS)
    for request, errors in ((Get(KEY), BackendError), (PUT, OutcomeUnknown)):
        assert client.ask(Get(KEY)) == ITEM
        server.calm.clear()
        server.behaviour = behave
        with pytest.raises(errors, match="DEADLINE_EXCEEDED"):
            client.ask(request, once)
        server.behave()


@pytest.mark.parametrize("content_type", ["text/html", "application/json", "", None])
def test_the_answer_of_grpc_counts_whatever_its_content_type_is(
    server: RawServer, client: Client, content_type: str | None
) -> None:
    headers = {":status": "200"} | ({} if content_type is None else {"content-type": content_type})
    server.behaviour = sends(lambda talk: talk.answer(FRAMED, OK, headers))
    assert client.ask(Get(KEY)) == ITEM
