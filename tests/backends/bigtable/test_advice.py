"""What a failed call says about the next attempt: RetryInfo and routing cookies, through both transports."""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Any

import pytest
from google.cloud.bigtable_v2 import types
from google.protobuf.any_pb2 import Any as AnyMessage
from google.protobuf.duration_pb2 import Duration
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status as RpcStatus
from grpc import StatusCode
from hypothesis import given
from hypothesis import strategies as st

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.errors import CallFailed
from odm.backends.bigtable.client.native import ReadRows
from odm.backends.bigtable.client.retry import COOKIE, DETAILS, Advice, Retry, advice_of, until_answered
from odm.errors import BackendError
from odm.protocol.connection import Connection, arun, run
from odm.protocol.requests import BatchWrite, Get, Merge, Put, Query, Request, Sleep
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.backends.bigtable.playing import Clock
from tests.backends.bigtable.server import Server, Status, serving

SHOP = Schema(name="shop", entities={}, indexes={})
KEY = Key("p", "s")
FIRST, SECOND = (f"{COOKIE}first", "a"), (f"{COOKIE}second", "b")

Sent = list[Any]


def details(seconds: float | None) -> bytes:
    """The status details of a RetryInfo."""
    status = RpcStatus(code=8, message="later")
    if seconds is not None:
        detail = AnyMessage()
        delay = Duration()
        delay.FromMilliseconds(round(seconds * 1000))
        detail.Pack(RetryInfo(retry_delay=delay))
        status.details.append(detail)
    return bytes(status.SerializeToString())


def busy(*trailers: tuple[str, str | bytes], code: StatusCode = StatusCode.UNAVAILABLE) -> tuple[Status]:
    return (Status(code, "busy", trailers),)


@pytest.fixture
def server(bigtable_emulator: str) -> Iterator[Server]:
    with serving(bigtable_emulator) as server:
        yield server


@pytest.fixture(params=["lean", "vendor"])
def connection(request: pytest.FixtureRequest, server: Server) -> Iterator[Connection[Any]]:
    connection = Bigtable("project", "advice", endpoint=server.address, transport=request.param).connect(SHOP)
    yield connection
    connection.close()


async def asked(connection: Connection[Any], request: Request, mode: str) -> tuple[Any, list[float]]:
    """The answer to a request, and the pauses before it."""
    pauses: list[float] = []

    def call(native: Any) -> Any:
        if isinstance(native, Sleep):
            pauses.append(native.seconds)
            return None
        return connection.call(native)

    async def acall(native: Any) -> Any:
        return call(native) if isinstance(native, Sleep) else await connection.acall(native)

    steps = connection.steps(request)
    if mode == "sync":
        return run(steps, call), pauses
    try:
        return await arun(steps, acall), pauses
    finally:
        await connection.aclose()


REQUESTS: dict[str, tuple[str, Request, tuple[Any, ...]]] = {
    "get": ("ReadRows", Get(KEY), ()),
    "query": ("ReadRows", Query("p"), ()),
    "put": ("MutateRow", Put(KEY, {"_t": "Hat"}), (types.MutateRowResponse.pb()(),)),
    "merge": ("MutateRow", Merge(KEY, (), {"_t": "Hat"}), (types.MutateRowResponse.pb()(),)),
    "batch": (
        "MutateRows",
        BatchWrite((Put(KEY, {"_t": "Hat"}),)),
        (types.MutateRowsResponse.pb()(entries=[{"index": 0}]),),
    ),
}


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("which", REQUESTS)
async def test_routing_cookies_are_returned(server: Server, connection: Connection[Any], which: str, mode: str) -> None:
    method, request, answer = REQUESTS[which]
    server.scripts[method] = [busy(FIRST), busy(SECOND, ("x-other", "c")), busy((FIRST[0], "new")), answer]
    await asked(connection, request, mode)
    returned = [
        {name: value for name, value in call.metadata.items() if name.startswith(COOKIE) or name == "x-other"}
        for call in server.calls
        if call.method == method
    ]
    assert returned == [{}, dict([FIRST]), dict([FIRST, SECOND]), dict([(FIRST[0], "new"), SECOND])]


@pytest.mark.parametrize("mode", ["sync", "async"])
@pytest.mark.parametrize("which", REQUESTS)
async def test_a_retry_waits_as_long_as_the_server_says(
    server: Server, connection: Connection[Any], which: str, mode: str
) -> None:
    method, request, answer = REQUESTS[which]
    later = (DETAILS, details(2.5))
    server.scripts[method] = [busy(later), busy(later, code=StatusCode.RESOURCE_EXHAUSTED), answer]
    _, pauses = await asked(connection, request, mode)
    assert pauses == [2.5, 2.5]


async def test_what_is_final_stays_final(server: Server, connection: Connection[Any]) -> None:
    server.script = [busy((DETAILS, details(None)), FIRST, code=StatusCode.PERMISSION_DENIED)]
    with pytest.raises(BackendError, match="PERMISSION_DENIED"):
        await asked(connection, Get(KEY), "sync")
    assert len(server.calls) == 1


@given(st.one_of(st.text(), st.binary()))
def test_advice_that_cannot_be_read_is_no_advice(found: str | bytes) -> None:
    advice = advice_of(CallFailed(StatusCode.UNAVAILABLE, "", [(DETAILS, found)]))  # type: ignore[list-item]
    assert advice.cookies == ()
    assert advice.seconds is None or advice.seconds >= 0


def test_cookies_are_no_part_of_a_call() -> None:
    call = ReadRows("shop")
    assert Advice(cookies=(FIRST,)).followed_by(call) == call
    assert FIRST[0] not in str(Advice(cookies=(FIRST,)).followed_by(call))


async def test_a_wait_beyond_the_time_for_retries_is_not_begun(server: Server, connection: Connection[Any]) -> None:
    server.script = [busy((DETAILS, details(86_400)))]
    with pytest.raises(BackendError, match="UNAVAILABLE"):
        await asked(connection, Get(KEY), "sync")
    assert len(server.calls) == 1


def test_a_server_that_asks_for_no_wait_gets_the_usual_one() -> None:
    clock, waited = Clock(), []
    told = CallFailed(StatusCode.UNAVAILABLE, "", [(DETAILS, urlsafe_b64encode(details(0)).decode())])

    def send(native: Any) -> None:
        if not isinstance(native, Sleep):
            raise told
        clock.now += native.seconds
        waited.append(native.seconds)

    with pytest.raises(BackendError):
        run(until_answered(ReadRows("shop"), Retry(overall=1.0, clock=clock, jitter=lambda: 1.0)), send)
    assert waited == [0.05, 0.1, 0.2, 0.4]
