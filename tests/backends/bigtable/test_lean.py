"""The lean transport does what grpcio does, over real sockets; what it cannot do, Google's client does."""

import asyncio
import itertools
import logging
import os
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from datetime import datetime, timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import grpc
import pyqwest
import pytest
from google.auth.credentials import AnonymousCredentials, Credentials
from google.auth.exceptions import RefreshError, TransportError
from grpc import StatusCode
from hypothesis import given
from hypothesis import strategies as st

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client import clients as clients_module
from odm.backends.bigtable.client import errors, http2, routes
from odm.backends.bigtable.client.errors import CallFailed
from odm.backends.bigtable.client.http2 import failure_of, framed, messages, timeout_of
from odm.backends.bigtable.client.native import ReadRows
from odm.backends.bigtable.client.retry import Retry, read_all
from odm.backends.bigtable.client.routes import Route, route_of
from odm.backends.bigtable.client.wire import Message
from odm.backends.bigtable.driver import BigtableConnection
from odm.errors import BackendError, BadValue, OutcomeUnknown, Unsupported
from odm.protocol.connection import RetryPolicy, aperform, arun, perform, run
from odm.protocol.requests import Get, Put
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests import authority
from tests.backends.bigtable.server import Delay, Server, Status, rows, serving

pytestmark = pytest.mark.one_of(2)

SHOP = Schema("shop", {}, {})
KEY = Key("p", "a")
GET = Get(KEY)
FOUND = (rows("p#a"),)
ITEM = {"_t": "Hat"}
ONCE = RetryPolicy(retries=0)
SECONDS = 0.3


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture(params=["sync", "async"])
def asynchronous(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "async")


def connection_to(address: str, **options: Any) -> BigtableConnection:
    backend = Bigtable("project", "instance", endpoint=address, transport="lean")
    return BigtableConnection(backend, SHOP, Retry(**{"overall": 2, "first": 0.01} | options))


def ask(connection: Any, asynchronous: bool, wanted: Any = GET, times: int = 1) -> list[Any]:
    """The results of requests through one connection."""

    async def main() -> list[Any]:
        try:
            if asynchronous:
                return [await aperform(connection, wanted) for _ in range(times)]
            return [perform(connection, wanted) for _ in range(times)]
        finally:
            await connection.aclose()
            connection.close()

    return asyncio.run(main())


def agents(server: Server) -> list[str]:
    """The names of the clients that made the calls."""
    return [call.metadata["user-agent"].partition("/")[0].replace("-asyncio", "") for call in server.calls]


class TestFraming:
    @given(st.lists(st.binary(max_size=300), max_size=5), st.integers(0, 10), st.binary(max_size=3))
    def test_messages_come_back(self, given: list[bytes], cut: int, more: bytes) -> None:
        body = b"".join(map(framed, given))
        received, failure = messages(body)
        assert list(map(bytes, received)) == given
        assert failure is None
        if given:
            received, failure = messages(body[: -1 - cut % (4 + len(given[-1]))])
            assert list(map(bytes, received)) == given[:-1]
            assert "unexpected EOS" in str(failure)

    def test_compressed_messages_are_refused(self) -> None:
        received, failure = messages(framed(b"a") + b"\1" + framed(b"abc")[1:])
        assert received == [b"a"]
        assert isinstance(failure, CallFailed)

    @pytest.mark.parametrize("code", StatusCode)
    @pytest.mark.parametrize("where", ["trailers", "headers"])
    def test_statuses(self, code: StatusCode, where: str) -> None:
        given = pyqwest.Headers((("grpc-status", str(code.value[0])), ("grpc-message", "n%C3%B6 table")))
        headers, trailers = (given, pyqwest.Headers()) if where == "headers" else (pyqwest.Headers(), given)
        failure = failure_of(pyqwest.FullResponse(200, headers, b"", trailers))
        if code is StatusCode.OK:
            assert failure is None
        else:
            assert failure is not None
            assert (failure.code(), failure.details()) == (code, "nö table")

    @pytest.mark.parametrize(
        ("status", "code"),
        [(200, "UNAVAILABLE"), (401, "UNAUTHENTICATED"), (403, "PERMISSION_DENIED"), (404, "UNIMPLEMENTED"),
         (503, "UNAVAILABLE"), (500, "UNKNOWN")],
    )  # fmt: skip
    def test_responses_that_are_not_grpc(self, status: int, code: str) -> None:
        none = pyqwest.Headers()
        body = b"" if status == 200 else b"<html>no</html>"
        message = Message("data", "MutateRow", b"", 20.0)
        failure = http2._fed(message, pyqwest.FullResponse(status, none, body, none), lambda _: None)
        assert failure is not None
        assert failure.code().name == code

    def test_a_response_without_a_status_may_have_been_cut_off(self) -> None:
        none = pyqwest.Headers()
        failure = failure_of(pyqwest.FullResponse(200, none, framed(b"half"), none))
        assert failure is not None
        assert (failure.code(), failure.details()) == (StatusCode.UNAVAILABLE, "the response ended without a status")
        other = failure_of(pyqwest.FullResponse(500, none, b"", none))
        assert other is not None
        assert other.details() == "the server answered HTTP 500, which is not gRPC"

    def test_a_single_answer_of_several_messages(self) -> None:
        """Which of them answers the call is not known."""
        none, ok = pyqwest.Headers(), pyqwest.Headers((("grpc-status", "0"),))
        response = pyqwest.FullResponse(200, none, framed(b"a") + framed(b"b"), ok)
        failure = http2._fed(Message("data", "CheckAndMutateRow", b"", 20.0), response, lambda _: None)
        assert failure is not None
        assert failure.code() is StatusCode.INTERNAL
        rows_fed: list[bytes] = []
        read = Message("data", "ReadRows", b"", 20.0)
        assert http2._fed(read, response, lambda one: rows_fed.append(bytes(one))) is None
        assert rows_fed == [b"a", b"b"]

    @pytest.mark.parametrize(
        ("seconds", "text"), [(20, "20000m"), (0.3, "300m"), (1e-9, "1m"), (900, "900000m"), (1e9, "99999999m")]
    )
    def test_timeouts(self, seconds: float, text: str) -> None:
        assert timeout_of(seconds) == text


def test_calls_arrive_as_through_grpcio(server: Server, asynchronous: bool) -> None:
    server.script = [FOUND] * 4
    lean = connection_to(server.address)
    vendor = BigtableConnection(Bigtable("project", "instance", endpoint=server.address, transport="vendor"), SHOP)
    assert ask(lean, asynchronous, times=2) == ask(vendor, asynchronous, times=2) == [ITEM] * 2
    first, second = server.calls[0], server.calls[2]
    assert first.request == second.request
    assert abs((first.seconds or 0) - (second.seconds or 0)) < 2
    metadata = [dict(call.metadata) for call in (first, second)]
    assert metadata[0].pop("user-agent").startswith("odm")
    assert "grpc-python" in metadata[1].pop("user-agent")
    assert {name for name in metadata[0] if name not in metadata[1]} == {"accept", "content-length"}
    assert metadata[0] | metadata[1] == metadata[0]


def test_a_server_that_is_not_there(asynchronous: bool) -> None:
    connection = connection_to("127.0.0.1:1", overall=0.2)
    with pytest.raises(BackendError, match=r"UNAVAILABLE.*the server cannot be reached"):
        ask(connection, asynchronous)


@contextmanager
def talking(answer: bytes | None) -> Iterator[str]:
    """A server that answers each connection with some bytes and closes it; None: it never answers."""
    with socket.create_server(("127.0.0.1", 0)) as listening, ThreadPoolExecutor(1) as pool:
        ended = threading.Event()

        def talk() -> None:
            while not ended.is_set():
                with listening.accept()[0] as client:
                    if answer is None:
                        ended.wait(5)
                    elif not ended.is_set():
                        client.recv(10_000)
                        client.sendall(answer)

        pool.submit(talk)
        try:
            yield f"127.0.0.1:{listening.getsockname()[1]}"
        finally:
            ended.set()
            socket.create_connection(listening.getsockname()).close()


@pytest.mark.parametrize(
    "answer", [b"", b"HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\nhi"], ids=["nothing", "HTTP/1.1"]
)
def test_a_server_that_does_not_talk_http2(answer: bytes, asynchronous: bool) -> None:
    with talking(answer) as address:
        with pytest.raises(BackendError, match="UNAVAILABLE"):
            ask(connection_to(address, overall=0.2), asynchronous)
        with pytest.raises(OutcomeUnknown):
            ask(connection_to(address, overall=0.2), asynchronous, Put(KEY, ITEM))


def test_a_server_that_never_answers(asynchronous: bool) -> None:
    with talking(None) as address:
        connection = connection_to(address).with_retry_policy(RetryPolicy(timeout=SECONDS, retries=0))
        begun = time.monotonic()
        with pytest.raises(BackendError, match="DEADLINE_EXCEEDED"):
            ask(connection, asynchronous)
        assert time.monotonic() - begun < 4


def test_after_a_timeout_another_connection_is_used(server: Server, asynchronous: bool) -> None:
    """The first one may be dead without a sign of it."""
    server.script = [FOUND, (Delay(5),), FOUND]
    connection = connection_to(server.address).with_retry_policy(RetryPolicy(timeout=SECONDS, retries=1))
    assert ask(connection, asynchronous, times=2) == [ITEM] * 2
    peers = [call.peer for call in server.calls]
    assert len(peers) == 3
    assert peers[0] == peers[1] != peers[2]


def test_a_new_connection_is_kept_after_a_timeout(server: Server, asynchronous: bool) -> None:
    """Otherwise no call would succeed where it takes longer to connect than a call may last."""
    server.script = [(Delay(5),), (Delay(5),), FOUND]
    connection = connection_to(server.address).with_retry_policy(RetryPolicy(timeout=SECONDS, retries=2))
    assert ask(connection, asynchronous) == [ITEM]
    assert len({call.peer for call in server.calls}) == 1


def test_a_server_that_restarts_between_calls(asynchronous: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    connection = connection_to(f"127.0.0.1:{port}")

    def answered() -> Any:
        with serving(port=port) as server:
            server.script = [FOUND]
            return perform(connection, Get(KEY)) if not asynchronous else loop.run(aperform(connection, Get(KEY)))

    with asyncio.Runner() as loop:
        assert [answered() for _ in range(3)] == [ITEM] * 3
        loop.run(connection.aclose())
    connection.close()


def test_a_server_that_stops_during_a_call(server: Server, asynchronous: bool) -> None:
    server.script = [(Delay(5),)]
    threading.Timer(SECONDS, server.stop).start()
    connection = connection_to(server.address).with_retry_policy(ONCE)
    with pytest.raises(OutcomeUnknown):
        ask(connection, asynchronous, Put(KEY, ITEM))


@pytest.mark.parametrize("code", pyqwest.StreamErrorCode)
def test_streams_that_the_server_resets(code: pyqwest.StreamErrorCode, server: Server) -> None:
    client = http2.SyncClient(Route(f"http://{server.address}"))
    message = Message("data", "ReadRows", b"", 20.0)
    failure: Any = client._failed(pyqwest.StreamError("reset", code), time.monotonic(), message, client._opened)
    expected = {"REFUSED_STREAM": "UNAVAILABLE", "CANCEL": "CANCELLED", "ENHANCE_YOUR_CALM": "RESOURCE_EXHAUSTED",
                "INADEQUATE_SECURITY": "PERMISSION_DENIED"}  # fmt: skip
    assert failure.code().name == expected.get(code.name, "INTERNAL")
    assert "RST_STREAM" in failure.details()
    late: Any = client._failed(pyqwest.StreamError("reset", code), time.monotonic() - 20, message, client._opened)
    assert late.code() is StatusCode.DEADLINE_EXCEEDED
    client.close()


@pytest.mark.parametrize("reverse", [False, True])
def test_a_read_that_is_cut_off_is_continued_by_grpcio(server: Server, asynchronous: bool, reverse: bool) -> None:
    """It keeps the rows that arrived, so that a slow read makes progress."""
    server.script = [(rows("p#b"), Delay(5)), (rows("p#b"), Delay(5)), (rows("p#a" if reverse else "p#c"),)]
    connection = connection_to(server.address).with_retry_policy(RetryPolicy(timeout=SECONDS, retries=3))

    async def read() -> list[str]:
        steps = read_all(ReadRows("shop", reverse=reverse), Retry(overall=5, first=0.01))
        found = await arun(steps, connection.acall) if asynchronous else run(steps, connection.call)
        await connection.aclose()
        return [row.text for row in found]

    assert asyncio.run(read()) == ["p#b", "p#a" if reverse else "p#c"]
    assert agents(server) == ["odm", "grpc-python", "grpc-python"]
    connection.close()


async def test_a_cancelled_call_ends_at_the_server(server: Server) -> None:
    server.script = [(Delay(20),), FOUND]
    connection = connection_to(server.address)
    task = asyncio.create_task(aperform(connection, Get(KEY)))
    await asyncio.to_thread(server.busy)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    await asyncio.to_thread(server.idle)
    assert await aperform(connection, Get(KEY)) == ITEM
    await connection.aclose()


async def test_closing_while_a_deadline_passes(server: Server) -> None:
    client = http2.AsyncClient(Route(f"http://{server.address}"))

    async def close_late() -> None:
        async with asyncio.timeout(0) as passing:
            try:
                await asyncio.sleep(5)
            finally:
                client._waiting.add(passing)
                await client.close()

    with pytest.raises(TimeoutError):
        await close_late()
    assert client.closed


async def test_a_call_on_a_connection_that_is_closed(server: Server) -> None:
    server.scripts["ReadRows"] = [FOUND] * 200
    connection = connection_to(server.address)
    for _ in range(20):
        calls = [asyncio.create_task(aperform(connection, Get(KEY))) for _ in range(5)]
        await asyncio.sleep(0)
        await connection.aclose()
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert all(one == ITEM or isinstance(one, BackendError) for one in found), found
    await connection.aclose()


class Token(Credentials):
    """Credentials whose token is a number, and which note the threads that refresh them."""

    def __init__(self, failure: Exception | None = None) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.failure = failure
        self.threads: list[threading.Thread] = []

    def refresh(self, request: Any) -> None:
        self.threads.append(threading.current_thread())
        if self.failure is not None:
            raise self.failure
        self.token = f"t{len(self.threads)}"
        self.expiry = datetime.now() + timedelta(days=2)  # google-auth's are naive, in UTC


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return authority.make(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure(certificates: Path) -> Iterator[Server]:
    with serving(tls=certificates) as server:
        server.address = server.address.replace("127.0.0.1", "localhost")
        yield server


def to_cloud(monkeypatch: pytest.MonkeyPatch, host: str, roots: Path, credentials: Credentials) -> BigtableConnection:
    """A connection to Google Cloud, which is somewhere else."""
    monkeypatch.delenv("BIGTABLE_EMULATOR_HOST", raising=False)
    monkeypatch.setattr(routes, "HOST", host)
    monkeypatch.setenv("GRPC_DEFAULT_SSL_ROOTS_FILE_PATH", str(roots))
    settings = Bigtable("project", "instance", credentials=credentials, transport="lean")
    return BigtableConnection(settings, SHOP, Retry(overall=0.2, first=0.01))


def test_calls_carry_tokens_and_tls_is_verified(
    secure: Server, certificates: Path, asynchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    secure.scripts["ReadRows"] = [FOUND] * 9
    token = Token()
    assert (
        ask(to_cloud(monkeypatch, secure.address, certificates / "ca.pem", token), asynchronous, times=2) == [ITEM] * 2
    )
    assert [call.metadata["authorization"] for call in secure.calls] == ["Bearer t1"] * 2
    token.expiry = datetime(2020, 1, 1)
    assert ask(to_cloud(monkeypatch, secure.address, certificates / "ca.pem", token), asynchronous) == [ITEM]
    assert secure.calls[-1].metadata["authorization"] == "Bearer t2"
    assert [thread is threading.main_thread() for thread in token.threads] == [not asynchronous] * 2
    other = secure.address.replace("localhost", "127.0.0.1")  # which the certificate does not name
    for host, roots in ((other, certificates / "ca.pem"), (secure.address, Path(certifi_path()))):
        with pytest.raises(BackendError, match=r"UNAVAILABLE.*(?i:certificate)"):
            ask(to_cloud(monkeypatch, host, roots, token), asynchronous)
    assert len(secure.calls) == 3


@pytest.mark.parametrize("failure", [KeyError("access_token"), FileNotFoundError("token"), ValueError("no JSON")])
def test_what_credentials_raise_is_one_error(
    certificates: Path, asynchronous: bool, failure: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    """google-auth passes on what a source of the user raises."""
    with pytest.raises(BackendError, match=f"no credentials for Bigtable .{type(failure).__name__}") as caught:
        ask(to_cloud(monkeypatch, "localhost:1", certificates / "ca.pem", Token(failure)), asynchronous)
    assert caught.value.__cause__ is not None
    assert caught.value.__cause__.__cause__ is failure


@pytest.mark.parametrize("text", ["hello", "[1]", "{}", '{"type": "service_account"}', None])
@pytest.mark.parametrize("transport", ["lean", "vendor"])
def test_application_default_credentials_that_cannot_be_read(
    tmp_path: Path, asynchronous: bool, text: str | None, transport: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "key.json"
    if text is not None:
        path.write_text(text)
    monkeypatch.delenv("BIGTABLE_EMULATOR_HOST", raising=False)
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(path))
    connection = BigtableConnection(Bigtable("project", "instance", transport=transport), SHOP, Retry(overall=0.2))
    with pytest.raises(BackendError, match="no credentials for Bigtable"):
        ask(connection, asynchronous)


def certifi_path() -> str:
    import certifi

    return certifi.where()


NO_NETWORK = TransportError("no name")  # type: ignore[no-untyped-call]
REFUSALS = {
    "refused": (RefreshError("no"), False),  # type: ignore[no-untyped-call]
    "for now": (RefreshError("no", retryable=True), True),  # type: ignore[no-untyped-call]
    "no network": (NO_NETWORK, True),
    "no network to refresh": (RefreshError("no"), True),  # type: ignore[no-untyped-call]
}
REFUSALS["no network to refresh"][0].__cause__ = NO_NETWORK


@pytest.mark.parametrize("name", REFUSALS)
def test_a_token_that_cannot_be_had(
    name: str, certificates: Path, asynchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    failure, retried = REFUSALS[name]
    token = Token(failure)
    with pytest.raises(BackendError, match="UNAVAILABLE" if retried else "no credentials for Bigtable"):
        ask(to_cloud(monkeypatch, "localhost:1", certificates / "ca.pem", token), asynchronous)
    assert (len(token.threads) > 1) == retried


def test_certificates_that_cannot_be_read(certificates: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(BackendError, match="GRPC_DEFAULT_SSL_ROOTS_FILE_PATH"):
        ask(to_cloud(monkeypatch, "localhost:1", certificates / "nowhere.pem", Token()), asynchronous=False)


class Elsewhere(AnonymousCredentials):
    @property
    def universe_domain(self) -> str:
        return "example.com"


OBSTACLES = {
    "https_proxy": "http://proxy:3128",
    "GRPC_PROXY": "http://proxy:3128",
    "GOOGLE_API_USE_CLIENT_CERTIFICATE": "true",
    "GOOGLE_API_USE_MTLS_ENDPOINT": "always",
    "GOOGLE_CLOUD_UNIVERSE_DOMAIN": "example.com",
}


@pytest.mark.parametrize("name", OBSTACLES)
def test_variables_that_it_does_not_support(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert isinstance(route_of(None, AnonymousCredentials()), Route)  # type: ignore[no-untyped-call]
    monkeypatch.setenv(name, OBSTACLES[name])
    assert name.lower() in str(route_of(None, AnonymousCredentials())).lower()  # type: ignore[no-untyped-call]


def test_credentials_of_another_universe() -> None:
    assert "example.com" in str(route_of(None, Elsewhere()))  # type: ignore[no-untyped-call]


@pytest.mark.parametrize("emulator", ["unix:/tmp/socket", "[::1]:8086", "localhost"])
def test_addresses_that_it_does_not_support(emulator: str) -> None:
    assert "is not host:port" in str(route_of(emulator, None))


def test_a_library_that_instruments_grpc_sees_the_calls(server: Server, monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[str] = []

    class Instrumented:
        """As wrapt's wrappers, which OpenTelemetry puts in place of grpc's functions."""

        def __call__(self, target: str, *arguments: Any) -> Any:
            made.append(target)
            return open_channel(target, *arguments)

    open_channel = grpc.insecure_channel
    monkeypatch.setattr(grpc, "insecure_channel", Instrumented())
    server.script = [FOUND]
    connection = BigtableConnection(Bigtable("p", "i", endpoint=server.address), SHOP)
    assert perform(connection, Get(KEY)) == ITEM
    assert made == [server.address]
    connection.close()


def test_what_forbids_it_is_logged_or_raised(
    server: Server, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(routes, "find_spec", lambda _: None)
    server.script = [FOUND] * 2
    connection = BigtableConnection(Bigtable("p", "i", endpoint=server.address), SHOP)
    with caplog.at_level(logging.INFO, "odm.bigtable"):
        assert [perform(connection, Get(KEY)) for _ in range(2)] == [ITEM] * 2
    assert [record.message for record in caplog.records if "lean" in record.message] == [
        (
            "requests to Bigtable go through Google's client, not the lean transport: pyqwest is not installed: "
            "pip install 'single-table-odm[fast]'"
        )
    ]
    assert "grpc-python" in server.calls[0].metadata["user-agent"]
    connection.close()
    with pytest.raises(Unsupported, match=r"transport='lean' cannot be used: pyqwest is not installed"):
        perform(connection_to(server.address), Get(KEY))


def test_an_unknown_transport_is_refused() -> None:
    with pytest.raises(BadValue, match="transport='http' is not known"):
        Bigtable("p", "i", transport="http")  # type: ignore[arg-type]


FORK = """
import os, signal, sys, warnings
from odm.backends.bigtable import Bigtable
from odm.protocol.connection import perform
from odm.protocol.requests import Get
from odm.schema.entity import Key
from odm.schema.model import Schema

warnings.simplefilter("ignore", DeprecationWarning)  # of a fork with threads
connection = Bigtable("p", "i", endpoint=sys.argv[1]).connect(Schema("shop", {}, {}))
assert perform(connection, Get(Key("p", "a"))) == {"_t": "Hat"}
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if perform(connection, Get(Key("p", "a"))) == {"_t": "Hat"} else 1)
assert os.waitpid(child, 0)[1] == 0
assert perform(connection, Get(Key("p", "a"))) == {"_t": "Hat"}
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_a_forked_process_uses_grpcio(server: Server) -> None:
    """The threads of pyqwest stay with the parent."""
    server.script = [FOUND] * 3
    subprocess.run([sys.executable, "-c", FORK, server.address], check=True, timeout=60)
    assert agents(server) == ["odm", "grpc-python", "odm"]


FORK_ASYNC = """
import asyncio, os, signal, sys, warnings
from odm.backends.bigtable import Bigtable
from odm.errors import Unsupported
from odm.protocol.connection import aperform, perform
from odm.protocol.requests import Get
from odm.schema.entity import Key
from odm.schema.model import Schema

warnings.simplefilter("ignore")  # of a fork with threads
backend = Bigtable("p", "i", endpoint=sys.argv[1], transport="vendor")
connection, other = (backend.connect(Schema("shop", {}, {})) for _ in range(2))
loop = asyncio.new_event_loop()
found = {"_t": "Hat"}

def refused(runs, connection):
    try:
        runs(aperform(connection, Get(Key("p", "a"))))
    except Unsupported as error:
        return str(error)

assert perform(connection, Get(Key("p", "a"))) == found
assert loop.run_until_complete(aperform(connection, Get(Key("p", "a")))) == found
child = os.fork()
if child == 0:
    signal.alarm(30)
    assert "event loop" in refused(loop.run_until_complete, connection)
    assert "db.aclose()" in refused(asyncio.run, connection)
    assert "db.aclose()" in refused(asyncio.run, other)
    assert perform(connection, Get(Key("p", "a"))) == found
    os._exit(0)
assert os.waitpid(child, 0)[1] == 0
assert perform(connection, Get(Key("p", "a"))) == found
assert loop.run_until_complete(aperform(connection, Get(Key("p", "a")))) == found
loop.run_until_complete(connection.aclose())
child = os.fork()
if child == 0:
    signal.alarm(30)
    os._exit(0 if asyncio.run(aperform(other, Get(Key("p", "a")))) == found else 1)
assert os.waitpid(child, 0)[1] == 0
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system cannot fork")
def test_googles_client_after_a_fork(server: Server) -> None:
    """An async call would hang or crash; a sync one has a connection of its own."""
    server.script = [FOUND] * 6
    subprocess.run([sys.executable, "-c", FORK_ASYNC, server.address], check=True, timeout=90)
    peers = [call.peer for call in server.calls]
    assert peers[2] not in peers[:2]  # of the child
    assert peers[3:5] == peers[:2]


@pytest.mark.parametrize("transport", ["lean", "vendor"])
def test_cancelled_at_the_deadline_is_the_deadline(server: Server, asynchronous: bool, transport: Any) -> None:
    """A server that sees the deadline first ends the call with CANCELLED."""
    backend = Bigtable("project", "instance", endpoint=server.address, transport=transport)
    for passed, name in ((0.0, "CANCELLED"), (20.0, "DEADLINE_EXCEEDED")):
        clock = itertools.chain([0.0], itertools.repeat(passed))  # the attempt begins, and ends
        server.script = [(Status(StatusCode.CANCELLED),)]
        connection = BigtableConnection(backend, SHOP, Retry(overall=0)).with_retry_policy(ONCE)
        message = connection._wire.message(ReadRows("shop"))

        async def call(clients: Any = connection._clients, message: Any = message, clock: Any = clock) -> Any:
            client = clients.of_loop("data") if asynchronous else clients.sync("data")
            with pytest.MonkeyPatch.context() as patch:
                for module in (http2, clients_module, errors):
                    patch.setattr(module, "time", SimpleNamespace(monotonic=lambda: next(clock)))
                failure = client.call(message, lambda _: None)
                failure = await failure if asynchronous else failure
            await clients.aclose()
            clients.close()
            return failure

        assert asyncio.run(call()).code().name == name


def test_the_lean_transport_is_used_by_default(server: Server, asynchronous: bool) -> None:
    server.script = [FOUND]
    assert ask(BigtableConnection(Bigtable("p", "i", endpoint=server.address), SHOP), asynchronous) == [ITEM]
    assert server.calls[0].metadata["user-agent"] == "odm"
