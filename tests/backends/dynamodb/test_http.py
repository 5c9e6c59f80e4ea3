"""HTTP of the lean transport, over real sockets, with each of its parsers."""

import asyncio
import json
import os
import signal
import socket
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from importlib import import_module
from pathlib import Path
from typing import Any
from zlib import crc32

import boto3
import pytest
from botocore.config import Config
from hypothesis import given
from hypothesis import strategies as st

from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.client.handlers import HandledRequest
from odm.backends.dynamodb.client.http_messages import Broken, target_of, written
from odm.backends.dynamodb.client.http_reader import Reader
from odm.backends.dynamodb.driver import DynamoDBConnection
from odm.errors import BackendError, OutcomeUnknown
from odm.expressions.nodes import Exists
from odm.expressions.nodes import Path as AttributePath
from odm.protocol.connection import RetryPolicy, aperform, perform
from odm.protocol.requests import Get, Put
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.authority import make
from tests.backends.dynamodb.canned import Answer, Canned, serving

pytestmark = pytest.mark.one_of(2)

SHOP = Schema("shop", {}, {})
KEY = Key("p", "s")
ONCE = RetryPolicy(retries=0)


def item(n: int) -> Answer:
    body = json.dumps({"Item": {"pk": {"S": "p"}, "sk": {"S": "s"}, "n": {"N": str(n)}}}).encode()
    return Answer(body, checksum=crc32(body))


class Service:
    """A service whose n-th response has the number n; a step can be taken before each.

    Attributes:
        step: what the service does before it answers the n-th request.
        connections: how many were opened.
    """

    def __init__(self) -> None:
        self.step: Callable[[int], object] = id
        self.connections = 0
        self.server: Canned
        self._lock, self._asked = threading.Lock(), 0

    def answer(self) -> Answer:
        with self._lock:
            number = self._asked = self._asked + 1
        self.step(number)
        return item(number)

    def connect(self, server: Canned) -> None:
        self.server, accept = server, server.finish_request

        def count(request: Any, client_address: Any) -> None:
            with self._lock:
                self.connections += 1
            accept(request, client_address)

        server.finish_request = count  # type: ignore[method-assign]
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # clients that hang up

    def connection(self, **options: Any) -> DynamoDBConnection:
        session = boto3.Session("key", "secret", region_name="eu-west-1")
        return DynamoDB(session, endpoint_url=self.server.endpoint, config=Config(**options)).connect(SHOP)


@pytest.fixture
def service() -> Iterator[Service]:
    service = Service()
    with serving(service.answer) as server:
        service.connect(server)
        yield service


@pytest.mark.usefixtures("interruptible")
def test_an_interrupted_call_ends_at_once_and_its_response_is_not_that_of_the_next(service: Service) -> None:
    """Ctrl+C, and the handlers of signals by which process managers stop workers."""
    raised, answered = threading.Event(), threading.Event()

    def interrupt(number: int) -> None:
        if number == 2:
            os.kill(os.getpid(), signal.SIGINT)
            raised.wait(20)
            answered.set()

    service.step = interrupt
    connection = service.connection()
    assert perform(connection, Get(KEY)) == {"n": 1}
    with pytest.raises(KeyboardInterrupt):
        perform(connection, Get(KEY))
    assert perform(connection, Get(KEY)) == {"n": 3}
    assert not answered.is_set()
    raised.set()
    connection.close()


async def test_a_cancelled_call_leaves_nothing_behind(service: Service) -> None:
    arrived, cancelled = threading.Event(), threading.Event()

    def wait(number: int) -> None:
        if number == 2:
            arrived.set()
            cancelled.wait(20)

    service.step = wait
    connection = service.connection(max_pool_connections=1)
    assert await aperform(connection, Get(KEY)) == {"n": 1}
    call = asyncio.create_task(aperform(connection, Get(KEY)))
    await asyncio.to_thread(arrived.wait, 20)
    call.cancel()
    with pytest.raises(asyncio.CancelledError):
        await call
    cancelled.set()
    assert await aperform(connection, Get(KEY)) == {"n": 3}
    await connection.aclose()


def test_many_threads_share_a_connection(service: Service) -> None:
    connection = service.connection()
    with ThreadPoolExecutor(64) as threads:
        found = list(threads.map(lambda _: perform(connection, Get(KEY))["n"], range(640)))
    assert sorted(found) == list(range(1, 641))  # each response went to one call
    connection.close()


def test_another_thread_takes_the_connection_at_once(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    connection = service.connection()
    other: list[Any] = []
    sockets: Any = import_module("odm.backends.dynamodb.client.http_sockets").Sockets
    keep = sockets._keep

    def keep_and_use(*arguments: Any) -> None:
        keep(*arguments)
        if not other:
            other.append(None)
            other.append(perform(connection, Get(KEY)))

    monkeypatch.setattr(sockets, "_keep", keep_and_use)
    assert perform(connection, Get(KEY)) == {"n": 1}
    assert other == [None, {"n": 2}]
    assert service.connections == 1
    connection.close()


async def test_tasks_wait_for_a_free_connection(service: Service) -> None:
    connection = service.connection(max_pool_connections=2)
    found = await asyncio.gather(*[aperform(connection, Get(KEY)) for _ in range(40)])
    assert sorted(one["n"] for one in found) == list(range(1, 41))
    assert service.connections <= 2
    await connection.aclose()


def test_several_loops_have_their_own_connections(service: Service) -> None:
    connection = service.connection()

    async def ask() -> list[Any]:
        try:
            return [await aperform(connection, Get(KEY)) for _ in range(5)]
        finally:
            await connection.aclose()

    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(lambda _: asyncio.run(ask()), range(8)))
    assert sorted(one["n"] for ones in found for one in ones) == list(range(1, 41))


@pytest.mark.parametrize("asynchronous", [False, True])
def test_a_write_whose_response_is_late_is_not_sent_again(service: Service, asynchronous: bool) -> None:
    late = threading.Event()
    service.step = lambda _: late.wait(20)
    connection = service.connection().with_retry_policy(RetryPolicy(timeout=0.1))
    put = Put(KEY, {"n": 1}, condition=Exists(AttributePath(("n",))))

    async def ask() -> None:
        try:
            await aperform(connection, put) if asynchronous else perform(connection, put)
        finally:
            await connection.aclose()

    with pytest.raises(OutcomeUnknown, match=r"(?i)read timeout"):
        asyncio.run(ask())
    assert service.server.asked == ["PutItem"]
    late.set()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_sixteen_megabytes(service: Service, asynchronous: bool) -> None:
    connection = service.connection()
    put = Put(KEY, {"text": "x" * (16 << 20)})

    async def ask() -> None:
        try:
            await aperform(connection, put) if asynchronous else perform(connection, put)
        finally:
            await connection.aclose()

    service.server.answer = lambda: Answer(b"{}")
    asyncio.run(ask())
    [(_, body)] = service.server.received
    assert json.loads(body)["Item"]["text"]["S"] == "x" * (16 << 20)


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("name", ["X-Shop", "X-Sh\r\nop"])
def test_a_header_with_a_line_break_is_not_sent(service: Service, asynchronous: bool, name: str) -> None:
    connection = service.connection()
    session: Any = connection._settings.session
    connection = connection.with_retry_policy(ONCE)

    def add(request: Any, **_: Any) -> None:
        request.headers[name] = "1\r\nX-Other: 2"

    session.events.register("before-send.dynamodb.GetItem", add)

    async def ask() -> None:
        try:
            await aperform(connection, Get(KEY)) if asynchronous else perform(connection, Get(KEY))
        finally:
            await connection.aclose()

    with pytest.raises(BackendError):
        asyncio.run(ask())
    assert service.server.received == []


PROGRAM = """
import asyncio, sys
from odm.backends.dynamodb import DynamoDB
from odm.protocol.connection import aperform, perform
from odm.protocol.requests import Get
from odm.schema.entity import Key
from odm.schema.model import Schema

connection = DynamoDB(region="eu-west-1", endpoint_url="{endpoint}").connect(Schema("shop", {{}}, {{}}))
print(perform(connection, Get(Key("p", "s")))["n"])

async def main():
    print((await aperform(connection, Get(Key("p", "s"))))["n"])
    await connection._transports.aclose()

asyncio.run(main())
{last}
print(*(name for name in ("aiohttp", "urllib3.connectionpool", "httptools") if sys.modules.get(name)))
"""


def run(service: Service, last: str = "") -> str:
    """The output of a program in a process of its own, in which warnings are errors."""
    program = PROGRAM.format(endpoint=service.server.endpoint, last=last)
    command = [sys.executable, "-W", "error", "-c", program]
    # Credentials in the environment: without, botocore looks for some elsewhere, and loads its own HTTP client.
    environment = {**os.environ, "AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60, env=environment)
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


def test_a_process_ends_without_warnings(service: Service) -> None:
    """Although the store was not closed."""
    assert run(service).split() == ["1", "2", "httptools"]


def test_a_process_ends_while_threads_wait(service: Service) -> None:
    wait = (
        "import threading; threading.Thread(target=perform, args=(connection, Get(Key('p', 's'))), daemon=True).start()"
    )
    late = threading.Event()
    service.step = lambda number: number > 2 and late.wait(20)
    assert run(service, wait).split()[:2] == ["1", "2"]
    late.set()


@pytest.mark.parametrize("asynchronous", [False, True])
def test_an_old_connection_is_not_used(service: Service, asynchronous: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """AWS closes it at about that time, and the response to a request would be lost."""
    for module in ("http_sockets", "http_asyncio"):
        monkeypatch.setattr(import_module(f"odm.backends.dynamodb.client.{module}"), "IDLE_SECONDS", 0)
    connection = service.connection()

    async def ask() -> None:
        for _ in range(3):
            await aperform(connection, Get(KEY)) if asynchronous else perform(connection, Get(KEY))
        await connection.aclose()

    asyncio.run(ask())
    assert service.connections == 3


@pytest.mark.parametrize("asynchronous", [False, True])
def test_no_request_is_sent_on_a_connection_that_the_server_has_closed(service: Service, asynchronous: bool) -> None:
    """Its response would be lost, so a write would have an unknown outcome."""
    closed = threading.Event()
    server, close = service.server, service.server.shutdown_request

    def note(request: Any) -> None:
        close(request)
        closed.set()

    server.shutdown_request = note  # type: ignore[method-assign]
    server.answer = lambda: item(1)._replace(close=len(server.received) == 1)
    connection = service.connection().with_retry_policy(ONCE)

    async def ask() -> None:
        for _ in range(2):
            await aperform(connection, Get(KEY)) if asynchronous else perform(connection, Get(KEY))
            assert closed.wait(20)
            await asyncio.sleep(0.01)  # the loop notices it
        await connection.aclose()

    asyncio.run(ask())
    assert service.connections == 2


def test_a_connection_that_was_used_before_a_fork_stays_open_for_the_parent(service: Service) -> None:
    connection = service.connection()
    assert perform(connection, Get(KEY)) == {"n": 1}
    child = os.fork()
    if child == 0:  # pragma: no cover
        found = [perform(connection, Get(KEY))["n"] for _ in range(2)]

        async def ask() -> Any:
            try:
                return await aperform(connection, Get(KEY))
            finally:
                await connection.aclose()

        found.append(asyncio.run(ask())["n"])
        os._exit(0 if found == [2, 3, 4] else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert perform(connection, Get(KEY)) == {"n": 5}
    assert service.connections == 3  # one of the parent, and two of the child
    connection.close()


def test_other_threads_of_a_forked_process_take_no_connection_of_the_parent(
    service: Service, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They compare the process, so it is noted only when the connections are closed."""
    connection = service.connection()
    assert perform(connection, Get(KEY)) == {"n": 1}
    transport: Any = connection._transports.sync()
    sockets, noted = transport._http, list[int]()
    close = sockets.close

    def note() -> None:
        noted.append(sockets._process)
        close()

    monkeypatch.setattr(sockets, "_process", -1)
    monkeypatch.setattr(sockets, "close", note)
    assert perform(connection, Get(KEY)) == {"n": 2}
    assert noted == [-1]
    connection.close()


@contextmanager
def slow_reader(tls: Path | None) -> Iterator[str]:
    """A server that reads at most eight megabytes a second, and answers."""
    context = None
    if tls is not None:
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.load_cert_chain(tls / "cert.pem", tls / "key.pem")
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 65536)  # or the system takes in all at once

        def read() -> None:
            with listening.accept()[0] as plain:
                client = plain if context is None else context.wrap_socket(plain, server_side=True)
                head, _, rest = client.recv(16384).partition(b"\r\n\r\n")
                left = int(head.lower().partition(b"content-length:")[2].split()[0]) - len(rest)
                while left > 0:
                    left -= len(client.recv(16384))
                    time.sleep(0.002)
                client.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{}")
                client.recv(1)
                client.close()

        reading = pool.submit(read)
        scheme, host = ("http", "127.0.0.1") if tls is None else ("https", "localhost")
        yield f"{scheme}://{host}:{listening.getsockname()[1]}"
        reading.result()


@pytest.mark.parametrize("secure", [False, True])
async def test_a_slow_upload_is_no_timeout(secure: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As long as something is sent; also with TLS, whose transport does not say how much is still to be sent."""
    tls = make(tmp_path) if secure else None
    monkeypatch.setenv("AWS_CA_BUNDLE", str(tmp_path / "ca.pem"))
    with slow_reader(tls) as endpoint:
        session = boto3.Session("key", "secret", region_name="eu-west-1")
        connection = DynamoDB(session, endpoint_url=endpoint, config=Config(read_timeout=1)).connect(SHOP)
        begun = time.monotonic()
        try:
            await aperform(connection.with_retry_policy(ONCE), Put(KEY, {"text": "x" * 14_000_000}))
        finally:
            await connection.aclose()
        assert time.monotonic() - begun > 1, "or it shows nothing"


async def test_connections_of_loops_that_start_tasks_at_once(service: Service) -> None:
    """In some versions of Python, the staggered connections of asyncio fail there."""
    loop, made = asyncio.get_running_loop(), []
    create = loop.create_connection

    def note(*arguments: Any, **options: Any) -> Any:
        made.append(options)
        return create(*arguments, **options)

    loop.create_connection = note  # type: ignore[method-assign]
    try:
        for factory in (None, lambda loop, coro, **options: asyncio.Task(coro, loop=loop, **options)):
            loop.set_task_factory(factory)
            connection = service.connection()
            await aperform(connection, Get(KEY))
            await connection.aclose()
    finally:
        loop.set_task_factory(None)
    assert ["happy_eyeballs_delay" in options for options in made] == [True, False]


HEAD = b"HTTP/1.1 200 OK\r\nX-Amz-Crc32: 5\r\n"
RESPONSES = {
    "a length": HEAD + b"Content-Length: 5\r\n\r\nhello",
    "chunks": HEAD + b"Transfer-Encoding: chunked\r\n\r\n2\r\nhe\r\n3;x=y\r\nllo\r\n0\r\nTrailer: x\r\n\r\n",
    "after another status": b"HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 103 Hints\r\nX: y\r\n\r\n"
    + HEAD
    + b"Content-Length: 5\r\n\r\nhello",
}


@given(st.data(), st.sampled_from(list(RESPONSES)))
def test_responses_in_pieces_of_any_size(data: st.DataObject, name: str) -> None:
    raw = RESPONSES[name]
    cuts = sorted(data.draw(st.lists(st.integers(0, len(raw)))))
    reader = Reader()
    for _ in range(2):  # on the same connection
        reader.begin()
        found = [
            reader.feed(raw[begin:end]) for begin, end in zip([0, *cuts], [*cuts, len(raw)], strict=True) if begin < end
        ]
        assert found == [False] * (len(found) - 1) + [True]
        assert (reader.status, reader.headers["x-amz-crc32"], reader.body) == (200, "5", b"hello")
        assert reader.reusable


def read(raw: bytes) -> Reader:
    reader = Reader()
    reader.begin()
    if not reader.feed(raw):
        reader.end()
    return reader


@pytest.mark.parametrize(
    ("raw", "body"),
    [
        (HEAD + b"\r\nuntil the end", b"until the end"),
        (b"HTTP/1.0 200 OK\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
        (HEAD + b"Connection: close\r\nContent-Length: 5\r\n\r\nhello", b"hello"),
        (HEAD + b"Content-Length: 5\r\n\r\nhelloHTTP/1.1 200 OK\r\nX-Amz-Crc32: 6\r\n\r\n", b"hello"),
        (HEAD + b"Content-Length: 5\r\n\r\nhello???", b"hello"),
        (b"HTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n", b""),
    ],
)
def test_connections_that_are_not_used_again(raw: bytes, body: bytes) -> None:
    reader = read(raw)
    assert (reader.body, reader.reusable) == (body, False)
    assert reader.headers.get("x-amz-crc32", "5") == "5"


@pytest.mark.parametrize(
    "raw",
    [
        b"",
        b"HTTP/1.1 200",
        HEAD,
        HEAD + b"Content-Length: 5\r\n\r\nhell",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\n5\r\nhello\r\n",
        HEAD + b"Content-Length: 5\r\nContent-Length: 6\r\n\r\nhello",
        HEAD + b"Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\nhello",
        HEAD + b"Content-Length: -1\r\n\r\n",
        HEAD + b"Transfer-Encoding: chunked\r\n\r\nx\r\n",
        b"HTTP/1.1 101 Switching Protocols\r\nUpgrade: x\r\nConnection: Upgrade\r\n\r\nabc",
        b"SSH-2.0-OpenSSH_9.6\r\n",
    ],
)
def test_responses_that_are_not_complete_or_not_http(raw: bytes) -> None:
    with pytest.raises(Broken):
        read(raw)


@pytest.mark.parametrize("place", ["on_header", "on_headers_complete", "on_body", "on_message_complete"])
@pytest.mark.parametrize("raised", [KeyboardInterrupt, LookupError])
def test_what_a_signal_handler_raises_is_raised(place: str, raised: type[BaseException]) -> None:
    """httptools replaces any exception in the methods that it calls by one of its own."""

    def interrupted(self: Reader, *arguments: Any) -> None:
        getattr(Reader, place)(self, *arguments)
        raise raised

    reader = type("Interrupted", (Reader,), {place: interrupted})()
    reader.begin()
    with pytest.raises(raised):
        reader.feed(RESPONSES["a length"])
    assert not reader.reusable


def test_headers_that_occur_twice_are_joined() -> None:
    assert read(HEAD + b"X: 1\r\nx: 2\r\nContent-Length: 0\r\n\r\n").headers["x"] == "1, 2"


@pytest.mark.parametrize(
    ("url", "server", "path"),
    [
        ("https://db.example", ("https", "db.example", 443), "/"),
        ("http://db.example/", ("http", "db.example", 80), "/"),
        ("http://[::1]:8000/a b?c=d e#f", ("http", "::1", 8000), "/a%20b?c=d%20e"),
        ("http://db.example/%41\u00e4", ("http", "db.example", 80), "/%41%C3%A4"),
    ],
)
def test_targets(url: str, server: tuple[str, str, int], path: str) -> None:
    assert target_of(url) == (server, path)


@pytest.mark.parametrize("url", ["ftp://db.example/", "http:///x", "db.example"])
def test_what_is_no_target(url: str) -> None:
    with pytest.raises(ValueError, match="not the URL of a server"):
        target_of(url)


def test_the_length_is_that_of_the_body_that_a_handler_left() -> None:
    request: Any = HandledRequest("GetItem", "http://db.example/", {"Host": "db.example"}, b"{}")
    assert written(request, "/") == b"POST / HTTP/1.1\r\nHost: db.example\r\nContent-Length: 2\r\n\r\n{}"
    request.headers["Connection"] = b"close"
    request.headers["X-Shop"] = b"hats"
    request.body = "{\u00e4}"
    head = b"POST / HTTP/1.1\r\nHost: db.example\r\nX-Shop: hats\r\nContent-Length: 4\r\n\r\n"
    assert written(request, "/") == head + b"{\xc3\xa4}"
