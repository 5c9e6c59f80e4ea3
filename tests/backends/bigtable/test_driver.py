"""The driver with a scripted gRPC server, through the sync and the async clients."""

from base64 import urlsafe_b64decode
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import grpc
import pytest
from google.cloud.bigtable_v2 import types

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import ReadRows
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.driver import BigtableConnection, usual_retry
from odm.errors import BackendError, OutcomeUnknown, Throttled
from odm.protocol.connection import aperform, perform
from odm.protocol.requests import BatchWrite, Delete, Get, Put, Query, Request
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.backends.bigtable.server import Server, entries, rows, scanned, serving
from tests.backends.bigtable.test_rows import expected_cells, published, vendor_response

SCHEMA = Schema(name="shop", entities={}, indexes={})
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


@pytest.fixture
def server() -> Iterator[Server]:
    with serving() as server:
        yield server


@pytest.fixture
def connection(server: Server, transport: Any) -> Iterator[BigtableConnection]:
    settings = Bigtable("project", "instance", app_profile="one", endpoint=server.address, transport=transport)
    connection = BigtableConnection(settings, SCHEMA, Retry(overall=0.5, first=0.01))
    yield connection
    connection.close()


Ask = Callable[[Request], Awaitable[Any]]


@pytest.fixture(params=["sync", "async"])
async def ask(request: pytest.FixtureRequest, connection: BigtableConnection) -> Any:
    async def ask_sync(wanted: Request) -> Any:
        return perform(connection, wanted)

    async def ask_async(wanted: Request) -> Any:
        return await aperform(connection, wanted)

    yield ask_sync if request.param == "sync" else ask_async
    await connection.aclose()


def sorts(page: Any) -> list[str]:
    return [position.key.sort for position in page.positions]


async def test_a_broken_stream_continues_after_its_last_whole_row(ask: Ask, server: Server) -> None:
    server.script = [(rows("p#a", "p#b"), rows("p#c", begun="p#d"), UNAVAILABLE), (rows("p#d", "p#e"),)]
    assert sorts(await ask(Query("p", limit=10))) == ["a", "b", "c", "d", "e"]
    again = server.calls[1].request
    assert again.rows.row_ranges[0].start_key_open == b"p#c"
    assert again.rows_limit == 7


async def test_a_reverse_stream_continues_before_its_last_row(ask: Ask, server: Server) -> None:
    server.script = [(rows("p#c", "p#b"), UNAVAILABLE), (rows("p#a"),)]
    assert sorts(await ask(Query("p", "a", reverse=True))) == ["c", "b", "a"]
    span = server.calls[1].request.rows.row_ranges[0]
    assert (span.start_key_closed, span.end_key_open) == (b"p#a", b"p#b")
    assert server.calls[1].request.reversed


async def test_requests_carry_the_client_and_its_features(ask: Ask, server: Server) -> None:
    server.script = [(rows("p#a"),)]
    await ask(Query("p"))
    metadata = server.calls[0].metadata
    features = types.FeatureFlags.deserialize(urlsafe_b64decode(metadata["bigtable-features"]))
    assert features == types.FeatureFlags(
        reverse_scans=True, last_scanned_row_responses=True, retry_info=True, routing_cookie=True
    )
    assert " gapic/" in metadata["x-goog-api-client"]


async def test_requests_are_routed_to_the_table_and_app_profile(ask: Ask, server: Server) -> None:
    server.script = [(types.MutateRowResponse.pb()(),)]
    await ask(Put(Key("p", "a"), {"_t": "x"}))
    _, request, metadata, *_ = server.calls[0]
    assert request.table_name == "projects/project/instances/instance/tables/shop"
    assert request.app_profile_id == "one"
    table = "table_name=projects%2Fproject%2Finstances%2Finstance%2Ftables%2Fshop"
    assert metadata["x-goog-request-params"] == f"{table}&app_profile_id=one"


@pytest.mark.parametrize("wanted", [Get(Key("p", "a")), Put(Key("p", "a"), {"_t": "x"}), Delete(Key("p", "a"))])
async def test_an_attempt_has_twenty_seconds(ask: Ask, server: Server, wanted: Request) -> None:
    answers = {Get: (), Put: (types.MutateRowResponse.pb()(),), Delete: (types.CheckAndMutateRowResponse.pb()(),)}
    server.script = [answers[type(wanted)]]
    await ask(wanted)
    assert 10 < (server.calls[0].seconds or 0) < 25  # grpc rounds it up


async def test_rows_out_of_order_are_refused(ask: Ask, server: Server) -> None:
    server.script = [(rows("p#b", "p#a"),)]
    with pytest.raises(BackendError, match="out of order"):
        await ask(Query("p"))
    assert len(server.calls) == 1


async def test_a_put_is_retried_unchanged(ask: Ask, server: Server) -> None:
    server.script = [(UNAVAILABLE,), (grpc.StatusCode.ABORTED,), (types.MutateRowResponse.pb()(),)]
    await ask(Put(Key("p", "a"), {"_t": "x"}))
    first, *again = server.sent("MutateRow")
    assert again == [first, first]


async def test_a_checked_write_is_sent_once(ask: Ask, server: Server) -> None:
    server.script = [(UNAVAILABLE,)]
    with pytest.raises(OutcomeUnknown, match="on purpose") as raised:
        await ask(Delete(Key("p", "a")))
    assert isinstance(raised.value.__cause__, grpc.RpcError)
    assert len(server.calls) == 1


async def test_rows_of_a_batch_are_answered_one_by_one(ask: Ask, server: Server) -> None:
    server.script = [(entries(0, None, 14), UNAVAILABLE), (entries(None, 0), entries(0))]
    await ask(BatchWrite(tuple(Delete(Key("p", sort)) for sort in "abc")))
    assert [entry.row_key for entry in server.calls[1].request.entries] == [b"p#b", b"p#c"]


async def test_a_batch_that_always_fails(ask: Ask, server: Server) -> None:
    server.script = [(entries(0, 14),)] + [(entries(14),)] * 200
    operations = (Delete(Key("p", "a")), Delete(Key("p", "b")))
    with pytest.raises(Throttled) as raised:
        await ask(BatchWrite(operations))
    assert raised.value.left == operations[1:]


async def test_a_read_that_always_fails(ask: Ask, server: Server) -> None:
    server.script = [(UNAVAILABLE,)] * 200
    with pytest.raises(BackendError, match="UNAVAILABLE, on purpose"):
        await ask(Get(Key("p", "a")))
    assert len(server.calls) > 2


async def test_a_read_continues_after_scanned_rows_without_cells(ask: Ask, server: Server) -> None:
    server.script = [(rows("p#a"), scanned("p#m"), UNAVAILABLE), (scanned("p#q"), UNAVAILABLE), (rows("p#z"),)]
    assert sorts(await ask(Query("p", limit=5))) == ["a", "z"]
    spans = [(request.rows.row_ranges[0].start_key_open, request.rows_limit) for request in server.sent("ReadRows")]
    assert spans[1:] == [(b"p#m", 4), (b"p#q", 4)]


async def test_a_read_that_makes_progress_is_continued(ask: Ask, server: Server) -> None:
    letters = "abcdefghijklmnopqrstuvwxyz"
    server.script = [(rows(f"p#{letter}"), UNAVAILABLE) for letter in letters] + [()]
    assert sorts(await ask(Query("p"))) == list(letters)


def test_retries_end_sooner_on_an_emulator() -> None:
    assert (usual_retry("localhost:8086").overall, usual_retry(None).overall) == (10.0, 60.0)


@pytest.mark.parametrize("case", published(), ids=lambda case: str(case["description"]))
@pytest.mark.parametrize("together", [True, False], ids=["one response", "a response a chunk"])
@pytest.mark.parametrize("mode", ["sync", "async"])
async def test_published_case(
    case: dict[str, Any], together: bool, mode: str, connection: BigtableConnection, server: Server
) -> None:
    chunks = case.get("chunks", [])
    server.script = [[vendor_response(*chunks)] if together else [vendor_response(chunk) for chunk in chunks]]
    read, failed = None, False
    try:
        read = connection.call(ReadRows("t")) if mode == "sync" else await connection.acall(ReadRows("t"))
    except BackendError:
        failed = True
    await connection.aclose()
    assert failed == any(result.get("error") for result in case.get("results", []))
    if read is not None:
        assert [(row.key, *cell) for row in read.rows for cell in row.cells] == expected_cells(case)
