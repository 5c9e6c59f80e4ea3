"""No answer of a hostile or broken server is taken for that of another request, on any transport, sync and async."""

import asyncio
import gc
import socket
import threading
import warnings
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.config import Config

from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.driver import DynamoDBConnection
from odm.errors import BackendError, OdmError, OutcomeUnknown
from odm.protocol.connection import RetryPolicy, aperform, perform
from odm.protocol.requests import Get, Put
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.backends.dynamodb.hostile import FOREIGN, WAIT, Hostile, Talk, hostile, http, item_of

pytestmark = [pytest.mark.one_of(4), pytest.mark.slow]

SHOP = Schema("shop", {}, {})
ONCE = RetryPolicy(retries=0)
HEAD = b"HTTP/1.1 200 OK\r\n"


LEAVES_SOCKETS = pytest.mark.filterwarnings(
    "ignore::ResourceWarning", "ignore::pytest.PytestUnraisableExceptionWarning"
)
"""urllib3 and aiohttp leave the sockets of broken answers to the garbage collector."""


@pytest.fixture(params=["lean", pytest.param("vendor", marks=LEAVES_SOCKETS)])
def carrier(request: pytest.FixtureRequest) -> Iterator[Any]:
    """The transports."""
    yield request.param
    if request.param == "vendor":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", ResourceWarning)
            gc.collect()  # here, and not in a later test


of_lean = pytest.mark.parametrize("carrier", ["lean"], indirect=True)
"""What aiohttp, which aiobotocore uses, takes for the answer to the next request; docs/dynamodb.md says so."""


@pytest.fixture(params=["sync", "async"])
def asynchronous(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "async")


@pytest.fixture
def server() -> Iterator[Hostile]:
    with hostile() as server:
        yield server


class Client:
    """Gets items, sync or async, through one connection, each time another item."""

    def __init__(self, server: Hostile, carrier: Any, asynchronous: bool, **config: Any) -> None:
        session = boto3.Session("key", "secret", region_name="eu-west-1")
        backend = DynamoDB(session, endpoint_url=server.endpoint, transport=carrier, config=Config(**config))
        self.connection: DynamoDBConnection = backend.connect(SHOP).with_retry_policy(ONCE)
        self.asynchronous = asynchronous
        self._runner = asyncio.Runner()
        self._number = 0

    def ask(self, request: Any, policy: RetryPolicy = ONCE) -> Any:
        connection = self.connection.with_retry_policy(policy)
        if self.asynchronous:
            return self._runner.run(aperform(connection, request))
        return perform(connection, request)

    def get(self, policy: RetryPolicy = ONCE) -> str:
        """Get another item; returns whose item came: "own" or its sort key, or the name of the error."""
        self._number += 1
        sort = f"{self._number}"
        try:
            item = self.ask(Get(Key("p", sort)), policy)
        except BackendError as error:
            return type(error).__name__
        return "own" if item == {"of": sort} else str(item)

    def close(self) -> None:
        self._runner.run(self.connection.aclose())
        self.connection.close()
        self._runner.close()


@pytest.fixture
def client(server: Hostile, carrier: Any, asynchronous: bool) -> Iterator[Client]:
    client = Client(server, carrier, asynchronous)
    yield client
    server.ended.set()
    client.close()


def interim(status: int, headers: bytes = b"") -> bytes:
    return b"HTTP/1.1 %d Early\r\n%b\r\n" % (status, headers)


def chunked(*chunks: bytes, end: bytes = b"0\r\n\r\n") -> bytes:
    return HEAD + b"Transfer-Encoding: chunked\r\n\r\n" + b"".join(b"%x\r\n%b\r\n" % (len(c), c) for c in chunks) + end


BODY = item_of("foreign")
LENGTH = b"Content-Length: %d\r\n" % len(BODY)
ANSWERS: dict[str, bytes] = {
    "101": interim(101, b"Upgrade: x\r\nConnection: Upgrade\r\n") + FOREIGN,
    "status 99": http(BODY, b"HTTP/1.1 099 Early"),
    "status 0": http(BODY, b"HTTP/1.1 000 Early"),
    "204 and a body": http(BODY, b"HTTP/1.1 204 No Content"),
    "204 and an answer": b"HTTP/1.1 204 No Content\r\n\r\n" + FOREIGN,
    "304 and an answer": b"HTTP/1.1 304 Not Modified\r\n\r\n" + FOREIGN,
    "205 and an answer": b"HTTP/1.1 205 Reset\r\nContent-Length: 0\r\n\r\n" + FOREIGN,
    "103 with a length": interim(103, b"Content-Length: 5\r\n") + b"hello" + FOREIGN,
    "two lengths": HEAD + b"Content-Length: 2\r\n" + LENGTH + b"\r\n{}" + FOREIGN,
    "two lengths in one": HEAD + b"Content-Length: 2, %d\r\n\r\n{}" % len(BODY) + FOREIGN,
    "a negative length": HEAD + b"Content-Length: -1\r\n\r\n" + FOREIGN,
    "a signed length": HEAD + b"Content-Length: +2\r\n\r\n{}" + FOREIGN,
    "a length in hexadecimal": HEAD + b"Content-Length: 0x2\r\n\r\n{}" + FOREIGN,
    "a length without digits": HEAD + b"Content-Length: \r\n\r\n" + FOREIGN,
    "a length of many digits": HEAD + b"Content-Length: " + b"9" * 40 + b"\r\n\r\n" + FOREIGN,
    "a length that is too long": HEAD + b"Content-Length: %d\r\n\r\n" % (len(BODY) + 10) + BODY,
    "a length with another encoding": HEAD + LENGTH + b"Transfer-Encoding: chunked\r\n\r\n0\r\n\r\n" + FOREIGN,
    "an encoding that is not known": HEAD + LENGTH + b"Transfer-Encoding: xchunked\r\n\r\n" + FOREIGN,
    "a chunk of a negative size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n-1\r\n" + FOREIGN,
    "a chunk without a size": HEAD + b"Transfer-Encoding: chunked\r\n\r\n\r\n" + FOREIGN,
    "a chunk that is longer than its size": chunked(end=b"2\r\n{}abc\r\n0\r\n\r\n") + FOREIGN,
    "no last chunk": chunked(BODY, end=b""),
    "no end of the trailers": chunked(BODY, end=b"0\r\nContent-Length: 5\r\n"),
    "a header without a colon": HEAD + b"Hello\r\n" + LENGTH + b"\r\n" + BODY[:9],
    "no HTTP": b"hello\r\n\r\n" + FOREIGN,
    "another version": http(BODY, b"HTTP/9.1 200 OK")[:-9],
    "nothing": b"",
    "half of the status": HEAD[:7],
    "half of the headers": HEAD + b"Content-Le",
    "a body that is no JSON": http(b"hello"),
    "a wrong checksum": HEAD + LENGTH + b"x-amz-crc32: 1\r\n\r\n" + BODY,
}
"""Answers that are broken, or have a second one behind them."""


@pytest.mark.parametrize("name", ANSWERS)
@pytest.mark.parametrize("closes", [True, False])
def test_a_broken_answer(server: Hostile, client: Client, carrier: Any, name: str, closes: bool) -> None:
    """It is an error of its own request, and the others get their own answers, if the connection stays open too."""

    def behave(talk: Talk) -> None:
        talk.send(ANSWERS[name] if talk.number == 2 else talk.own)
        talk.closes = closes and talk.number == 2

    server.behaviour = behave
    assert client.get() == "own"
    second = client.get(RetryPolicy(retries=0, timeout=None if closes else 0.5))
    assert second == "BackendError" or carrier == "vendor"  # whose parsers take some of them for the answer of the call
    if closes:
        assert server.closed.wait(WAIT)
    later = [client.get() for _ in range(3)]
    if carrier == "vendor" and later[0] == "BackendError":
        later[0] = "own"  # aiohttp may send it on the connection before its event loop has seen that it is closed
    assert later == ["own"] * 3


@pytest.mark.parametrize("status", [100, 102, 103, 104, 199])
def test_an_interim_answer_is_passed_over(server: Hostile, client: Client, carrier: Any, status: int) -> None:
    """RFC 9110, section 15.2: a client must be able to read any number of them before the final one."""
    received = threading.Event()

    def behave(talk: Talk) -> None:
        if talk.number == 2:
            talk.send(interim(status, b"X: y\r\n") * 2)
            received.wait(0.1)  # the final one arrives in a segment of its own
        talk.send(talk.own)

    server.behaviour = behave
    found = [client.get() for _ in range(5)]
    if carrier == "vendor" and not client.asynchronous and status != 100:
        found[1] = "own"  # botocore takes it for the final one, and odm refuses it
    assert found == ["own"] * 5


EXTRA = {
    "an answer": FOREIGN,
    "half an answer": FOREIGN[:40],
    "an empty line": b"\r\n",
    "a byte": b"x",
    "an interim answer": interim(100),
}


@of_lean
@pytest.mark.parametrize("extra", EXTRA)
def test_bytes_behind_an_answer(server: Hostile, client: Client, extra: str) -> None:
    def behave(talk: Talk) -> None:
        talk.send(talk.own + (EXTRA[extra] if talk.number == 2 else b""))

    server.behaviour = behave
    assert [client.get() for _ in range(5)] == ["own"] * 5


@of_lean
@pytest.mark.parametrize("extra", EXTRA)
def test_bytes_that_come_while_nothing_is_asked(server: Hostile, client: Client, extra: str) -> None:
    """Also if the event loop has not seen them yet: they were there before the next request was sent."""
    answered, more = threading.Event(), threading.Event()

    def behave(talk: Talk) -> None:
        talk.send(talk.own)
        if talk.number == 2:
            talk.wait(answered)
            talk.send(EXTRA[extra])
            more.set()

    server.behaviour = behave
    assert [client.get() for _ in range(2)] == ["own"] * 2
    answered.set()
    assert more.wait(WAIT)
    assert [client.get() for _ in range(3)] == ["own"] * 3


@of_lean
@pytest.mark.parametrize("extra", EXTRA)
async def test_bytes_that_come_before_the_loop_looks(server: Hostile, carrier: Any, extra: str) -> None:
    answered, more = threading.Event(), threading.Event()

    def behave(talk: Talk) -> None:
        talk.send(talk.own)
        if talk.number == 2:
            talk.wait(answered)
            talk.send(EXTRA[extra])
            more.set()

    server.behaviour = behave
    session = boto3.Session("key", "secret", region_name="eu-west-1")
    connection = DynamoDB(session, endpoint_url=server.endpoint, transport=carrier).connect(SHOP)
    found = []
    for number in range(1, 6):
        found.append(await aperform(connection.with_retry_policy(ONCE), Get(Key("p", str(number)))))
        if number == 2:
            answered.set()
            assert more.wait(WAIT)  # which blocks the loop
    await connection.aclose()
    assert found == [{"of": str(number)} for number in range(1, 6)]


@pytest.mark.parametrize("where", ["head", "body"])
def test_a_call_that_timed_out_within_its_answer(server: Hostile, client: Client, where: str) -> None:
    gone = threading.Event()

    def behave(talk: Talk) -> None:
        if talk.number != 2:
            talk.send(talk.own)
            return
        middle = 20 if where == "head" else len(talk.own) - 5
        talk.send(talk.own[:middle])
        talk.wait(gone)
        talk.send(talk.own[middle:] + FOREIGN)

    server.behaviour = behave
    assert client.get() == "own"
    assert client.get(RetryPolicy(retries=0, timeout=0.2)) == "BackendError"
    gone.set()
    assert [client.get() for _ in range(3)] == ["own"] * 3


async def test_a_task_that_is_cancelled_within_its_answer(server: Hostile, carrier: Any) -> None:
    half, gone = threading.Event(), threading.Event()

    def behave(talk: Talk) -> None:
        if talk.number != 2:
            talk.send(talk.own)
            return
        talk.send(talk.own[:-5])
        half.set()
        talk.wait(gone)
        talk.send(talk.own[-5:] + FOREIGN)

    server.behaviour = behave
    session = boto3.Session("key", "secret", region_name="eu-west-1")
    connection = DynamoDB(session, endpoint_url=server.endpoint, transport=carrier).connect(SHOP)
    assert await aperform(connection, Get(Key("p", "1"))) == {"of": "1"}
    task = asyncio.create_task(aperform(connection, Get(Key("p", "2"))))
    await asyncio.to_thread(half.wait, WAIT)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    gone.set()
    assert [await aperform(connection, Get(Key("p", str(n)))) for n in (3, 4)] == [{"of": "3"}, {"of": "4"}]
    await connection.aclose()


LONG = Put(Key("p", "long"), {"text": "x" * 3_000_000})


@pytest.mark.parametrize("reads", [False, True])
def test_an_answer_before_the_whole_request_was_sent(server: Hostile, client: Client, reads: bool) -> None:
    """It answers that request or none, and no other one."""
    answer = http(b'{"__type": "a#ValidationException", "message": "too long"}', b"HTTP/1.1 400 Bad Request")

    def refuse(opened: socket.socket) -> bool:
        server.early = lambda _: False
        opened.sendall(answer)
        if not reads:
            opened.shutdown(socket.SHUT_RDWR)
            server.closed.set()
        return True

    server.early = refuse
    with pytest.raises(OdmError):
        client.ask(LONG, RetryPolicy(retries=0, timeout=2))
    if not reads:  # or the next request may be on its way when the server closes the connection
        assert server.closed.wait(WAIT)
    assert [client.get() for _ in range(3)] == ["own"] * 3


MIXED: list[Callable[[Talk], bytes]] = [
    lambda talk: talk.own,
    lambda talk: talk.own,
    lambda talk: talk.own + FOREIGN,
    lambda talk: talk.own[:-4],
    lambda talk: interim(103) + talk.own,
    lambda talk: http(b"hello"),
    lambda talk: b"HTTP/1.1 204 No Content\r\n\r\n" + FOREIGN,
    lambda talk: FOREIGN[:30],
]


def test_many_callers_of_a_hostile_server(server: Hostile, carrier: Any, asynchronous: bool) -> None:
    """Threads or tasks that share the connections."""

    def behave(talk: Talk) -> None:
        answer = MIXED[talk.number % len(MIXED)]
        if carrier == "vendor" and answer is MIXED[4]:
            answer = MIXED[0]
        talk.send(answer(talk))
        talk.closes = answer in (MIXED[3], MIXED[7])

    server.behaviour = behave
    session = boto3.Session("key", "secret", region_name="eu-west-1")
    config = Config(max_pool_connections=4)
    backend = DynamoDB(session, endpoint_url=server.endpoint, transport=carrier, config=config)
    connection = backend.connect(SHOP).with_retry_policy(ONCE)
    found: list[Any] = []

    def ask(number: int) -> Any:
        try:
            return perform(connection, Get(Key("p", str(number))))
        except BackendError:
            return None

    async def ask_later(number: int) -> Any:
        try:
            return await aperform(connection, Get(Key("p", str(number))))
        except BackendError:
            return None

    async def main() -> list[Any]:
        try:
            return await asyncio.gather(*[ask_later(number) for number in range(300)])
        finally:
            await connection.aclose()

    if asynchronous:
        found = asyncio.run(main())
    else:
        with ThreadPoolExecutor(8) as threads:
            found = list(threads.map(ask, range(300)))
        connection.close()
    assert [item for number, item in enumerate(found) if item not in (None, {"of": str(number)})] == []
    assert sum(item is not None for item in found) > 100


@pytest.mark.parametrize(
    ("carrier", "asynchronous"),
    [("lean", "sync"), ("lean", "async"), ("vendor", "async")],
    indirect=True,
)  # boto3 has no deadline, and docs/dynamodb.md says so
@pytest.mark.parametrize("place", ["head", "body"])
@pytest.mark.parametrize("write", [False, True])
def test_a_server_that_drips_is_cut_off(server: Hostile, client: Client, place: str, write: bool) -> None:
    """The timeout of a store is a deadline: all bytes would take it minutes, and no pause exceeds the timeout."""
    dripped: list[int] = []
    done = threading.Event()

    def behave(talk: Talk) -> None:
        if talk.number != 2:
            talk.send(talk.own)
            return
        talk.send(HEAD + (b"X-Padding: " if place == "head" else b"Content-Length: 10000\r\n\r\n"))
        dripped.append(talk.drip(b"x" * 10_000))
        done.set()

    server.behaviour = behave
    assert client.get() == "own"
    request = Put(Key("p", "2"), {"n": 1}) if write else Get(Key("p", "2"))
    with pytest.raises(OutcomeUnknown if write else BackendError, match=r"(?i)timeout"):
        client.ask(request, RetryPolicy(timeout=0.5, retries=0))
    assert client.get() == "own"
    assert done.wait(WAIT), "the connection stayed open"
    assert 0 < dripped[0] < 10_000


@of_lean
def test_a_server_that_reads_slowly_is_cut_off(server: Hostile, client: Client) -> None:
    """Also while the request is sent."""
    read: list[int] = []
    done = threading.Event()

    def take_little(opened: socket.socket) -> bool:
        taken = 0
        while not server.ended.wait(0.02):
            try:
                piece = opened.recv(2_000)
            except OSError:
                break
            if not piece:
                break
            taken += len(piece)
        read.append(taken)
        done.set()
        return True

    assert client.get() == "own"
    server.early = take_little
    with pytest.raises(OutcomeUnknown):
        client.ask(Put(Key("p", "s"), {"text": "x" * 16_000_000}), RetryPolicy(timeout=0.5, retries=0))
    server.early = lambda _: False
    assert client.get() == "own"
