"""The driver against a gRPC server that fails on purpose, through the sync and the async clients."""

from base64 import urlsafe_b64decode
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from google.cloud.bigtable_v2 import types

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.driver import BigtableConnection
from odm.backends.bigtable.retry import Retry
from odm.errors import BackendError, OutcomeUnknown, Throttled
from odm.operations.backend import aperform, perform
from odm.operations.ir import BatchWrite, Delete, Get, Put, Query, Request
from odm.schema.model import Key, Schema

SCHEMA = Schema(name="shop", entities={}, indexes={})
SERVICE = "google.bigtable.v2.Bigtable"
METHODS = {
    "ReadRows": (True, types.ReadRowsRequest),
    "MutateRow": (False, types.MutateRowRequest),
    "MutateRows": (True, types.MutateRowsRequest),
    "CheckAndMutateRow": (False, types.CheckAndMutateRowRequest),
}
UNAVAILABLE = grpc.StatusCode.UNAVAILABLE


class Server:
    """Answers each call with the next of ``script``: messages, and perhaps a status that ends the call."""

    def __init__(self) -> None:
        self.script: list[tuple[Any, ...]] = []
        self.seen: list[tuple[Any, dict[str, str]]] = []
        self.seconds: list[float | None] = []  # that each call was given

    def stream(self, request: Any, context: grpc.ServicerContext) -> Iterator[Any]:
        self.seen.append((request, {key: str(value) for key, value in context.invocation_metadata()}))
        self.seconds.append(context.time_remaining())
        for part in self.script.pop(0):
            if isinstance(part, grpc.StatusCode):
                context.abort(part, "on purpose")
            yield part

    def unary(self, request: Any, context: grpc.ServicerContext) -> Any:
        return next(self.stream(request, context))

    def handlers(self) -> "grpc.GenericRpcHandler[Any, Any]":
        def handler(streams: bool, kind: Any) -> "grpc.RpcMethodHandler[Any, Any]":
            make: Callable[..., grpc.RpcMethodHandler[Any, Any]] = (
                grpc.unary_stream_rpc_method_handler if streams else grpc.unary_unary_rpc_method_handler
            )
            behaviour = self.stream if streams else self.unary
            return make(behaviour, kind.pb().FromString, lambda message: message.SerializeToString())

        return grpc.method_handlers_generic_handler(
            SERVICE, {name: handler(streams, kind) for name, (streams, kind) in METHODS.items()}
        )


@pytest.fixture
def server() -> Server:
    return Server()


@pytest.fixture
def connection(server: Server) -> Iterator[BigtableConnection]:
    with ThreadPoolExecutor(2) as pool:
        running = grpc.server(pool)
        running.add_generic_rpc_handlers((server.handlers(),))
        port = running.add_insecure_port("127.0.0.1:0")
        running.start()
        settings = Bigtable("project", "instance", app_profile="one", endpoint=f"127.0.0.1:{port}")
        connection = BigtableConnection(settings, SCHEMA, Retry(overall=0.5, first=0.01))
        yield connection
        connection.close()
        running.stop(None).wait()


Ask = Callable[[Request], Any]


@pytest.fixture(params=["sync", "async"])
async def ask(request: pytest.FixtureRequest, connection: BigtableConnection) -> Any:
    async def ask_sync(wanted: Request) -> Any:
        return perform(connection, wanted)

    async def ask_async(wanted: Request) -> Any:
        return await aperform(connection, wanted)

    yield ask_sync if request.param == "sync" else ask_async
    await connection.aclose()


def rows(*keys: str, begun: str = "") -> Any:
    message = types.ReadRowsResponse.pb()()
    for key in (*keys, begun) if begun else keys:
        chunk = message.chunks.add(row_key=key.encode(), value=b"Hat", commit_row=key != begun)
        chunk.family_name.value, chunk.qualifier.value = "d", b"_t"
    return message


def entries(**codes: int) -> Any:
    message = types.MutateRowsResponse.pb()()
    for index, code in codes.items():
        message.entries.add(index=int(index[1:])).status.code = code
    return message


def sorts(page: Any) -> list[str]:
    return [position.key.sort for position in page.positions]


async def test_a_stream_that_breaks_goes_on_behind_its_last_whole_row(ask: Ask, server: Server) -> None:
    server.script = [(rows("p#a", "p#b"), rows("p#c", begun="p#d"), UNAVAILABLE), (rows("p#d", "p#e"),)]
    assert sorts(await ask(Query("p", limit=10))) == ["a", "b", "c", "d", "e"]
    again = server.seen[1][0]
    assert again.rows.row_ranges[0].start_key_open == b"p#c"
    assert again.rows_limit == 7


async def test_a_backward_stream_goes_on_before_its_last_row(ask: Ask, server: Server) -> None:
    server.script = [(rows("p#c", "p#b"), UNAVAILABLE), (rows("p#a"),)]
    assert sorts(await ask(Query("p", "a", reverse=True))) == ["c", "b", "a"]
    span = server.seen[1][0].rows.row_ranges[0]
    assert (span.start_key_closed, span.end_key_open) == (b"p#a", b"p#b")
    assert server.seen[1][0].reversed


async def test_requests_say_whose_they_are_and_that_reads_may_come_backwards(ask: Ask, server: Server) -> None:
    server.script = [(rows("p#a"),)]
    await ask(Query("p"))
    metadata = server.seen[0][1]
    features = types.FeatureFlags.deserialize(urlsafe_b64decode(metadata["bigtable-features"]))
    assert features == types.FeatureFlags(reverse_scans=True)
    assert " gapic/" in metadata["x-goog-api-client"]


async def test_requests_are_routed_to_the_table_and_app_profile(ask: Ask, server: Server) -> None:
    server.script = [(types.MutateRowResponse.pb()(),)]
    await ask(Put(Key("p", "a"), {"_t": "x"}))
    request, metadata = server.seen[0]
    assert request.table_name == "projects/project/instances/instance/tables/shop"
    assert request.app_profile_id == "one"
    table = "table_name=projects%2Fproject%2Finstances%2Finstance%2Ftables%2Fshop"
    assert metadata["x-goog-request-params"] == f"{table}&app_profile_id=one"


@pytest.mark.parametrize("wanted", [Get(Key("p", "a")), Put(Key("p", "a"), {"_t": "x"}), Delete(Key("p", "a"))])
async def test_an_attempt_has_twenty_seconds(ask: Ask, server: Server, wanted: Request) -> None:
    answers = {Get: (), Put: (types.MutateRowResponse.pb()(),), Delete: (types.CheckAndMutateRowResponse.pb()(),)}
    server.script = [answers[type(wanted)]]
    await ask(wanted)
    assert 10 < (server.seconds[0] or 0) < 21  # grpc rounds it up


async def test_rows_out_of_order_are_refused(ask: Ask, server: Server) -> None:
    server.script = [(rows("p#b", "p#a"),)]
    with pytest.raises(BackendError, match="out of order"):
        await ask(Query("p"))
    assert len(server.seen) == 1


async def test_a_put_is_sent_again_as_it_was(ask: Ask, server: Server) -> None:
    server.script = [(UNAVAILABLE,), (grpc.StatusCode.ABORTED,), (types.MutateRowResponse.pb()(),)]
    await ask(Put(Key("p", "a"), {"_t": "x"}))
    first, *again = (request for request, _ in server.seen)
    assert again == [first, first]


async def test_a_checked_write_is_sent_once(ask: Ask, server: Server) -> None:
    server.script = [(UNAVAILABLE,)]
    with pytest.raises(OutcomeUnknown, match="on purpose") as raised:
        await ask(Delete(Key("p", "a")))
    assert isinstance(raised.value.__cause__, grpc.RpcError)
    assert len(server.seen) == 1


async def test_rows_of_a_batch_are_answered_one_by_one(ask: Ask, server: Server) -> None:
    server.script = [(entries(_0=0, _2=14), UNAVAILABLE), (entries(_1=0), entries(_0=0))]
    await ask(BatchWrite(tuple(Delete(Key("p", sort)) for sort in "abc")))
    assert [entry.row_key for entry in server.seen[1][0].entries] == [b"p#b", b"p#c"]


async def test_a_batch_that_never_gets_through(ask: Ask, server: Server) -> None:
    server.script = [(entries(_0=0, _1=14),)] + [(entries(_0=14),)] * 200
    operations = (Delete(Key("p", "a")), Delete(Key("p", "b")))
    with pytest.raises(Throttled) as raised:
        await ask(BatchWrite(operations))
    assert raised.value.left == operations[1:]


async def test_a_read_that_never_gets_through(ask: Ask, server: Server) -> None:
    server.script = [(UNAVAILABLE,)] * 200
    with pytest.raises(BackendError, match="UNAVAILABLE, on purpose"):
        await ask(Get(Key("p", "a")))
    assert len(server.seen) > 2
