"""Calls that fail: a server that fails on purpose, with the emulator behind it, sync and async."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from typing import Annotated, Any

import grpc
import pytest
from grpc import StatusCode

from odm import AsyncStore, Counter, Entity, PrimaryKey, Store, Table, increment
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.driver import BigtableConnection
from odm.errors import BackendError, OdmError, OutcomeUnknown, Throttled
from odm.expressions.nodes import Exists, Missing, Path
from odm.protocol.connection import Connection, RetryPolicy, aperform, perform
from odm.protocol.requests import (
    BatchGet,
    BatchWrite,
    CreateTables,
    Delete,
    Get,
    Put,
    Query,
    Refused,
    Request,
    Scan,
    Split,
)
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.backends.bigtable.server import Delay, Server, Status, done, entries, first, packed, serving

pytestmark = [pytest.mark.one_of(6), pytest.mark.slow]

EXISTS, ABSENT = Exists(Path(("_t",))), Missing(Path(("_t",)))
ITEM = {"_t": "Pet", "name": "Rex", "age": 3}
LETTERS = "abcdefghij"
RESET = Status(StatusCode.INTERNAL, "Received RST_STREAM with error code 2")
TRANSIENT = [
    StatusCode.UNAVAILABLE,
    StatusCode.DEADLINE_EXCEEDED,
    StatusCode.ABORTED,
    StatusCode.CANCELLED,
    RESET,
]
FATAL = {
    StatusCode.RESOURCE_EXHAUSTED: (Throttled, "quota"),
    StatusCode.PERMISSION_DENIED: (BackendError, r"roles/bigtable\.user"),
    StatusCode.UNAUTHENTICATED: (BackendError, "credentials"),
    StatusCode.NOT_FOUND: (BackendError, r"store\.create\(\), and check the names"),
    StatusCode.INVALID_ARGUMENT: (BackendError, "refused"),
}

Ask = Callable[[Request], Awaitable[Any]]


@pytest.fixture
def server(bigtable_emulator: str) -> Iterator[Server]:
    with serving(bigtable_emulator) as server:
        yield server


@pytest.fixture
def connection(server: Server, schema: Schema, bigtable_emulator: str, transport: Any) -> Iterator[BigtableConnection]:
    """A connection to the server; on the emulator, the table has a partition with ten items."""
    direct = Bigtable("project", "instance", endpoint=bigtable_emulator).connect(schema)
    perform(direct, CreateTables())
    perform(direct, BatchWrite(tuple(Put(Key("p", letter), ITEM) for letter in LETTERS)))
    direct.close()
    connection = BigtableConnection(
        Bigtable("project", "instance", endpoint=server.address, transport=transport),
        schema,
        Retry(overall=2, first=0.01),
    )
    yield connection
    connection.close()


def asking(connection: Connection[Any], mode: str) -> Ask:
    """Sends requests, sync or async."""

    async def ask(wanted: Request) -> Any:
        return perform(connection, wanted) if mode == "sync" else await aperform(connection, wanted)

    return ask


@pytest.fixture(params=["sync", "async"])
def mode(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture
async def ask(connection: BigtableConnection, mode: str) -> AsyncIterator[Ask]:
    yield asking(connection, mode)
    await connection.aclose()


def sorts(page: Any) -> str:
    return "".join(position.key.sort for position in page.positions)


class TestReads:
    @pytest.mark.parametrize("status", TRANSIENT)
    @pytest.mark.parametrize("reverse", [False, True])
    @pytest.mark.parametrize("chunks", [0, 1, 7, 12, 39])
    async def test_no_row_is_lost_or_comes_twice(
        self, ask: Ask, server: Server, status: Any, reverse: bool, chunks: int
    ) -> None:
        server.scripts["ReadRows"] = [(first(chunks), status), (first(2 * chunks), status)]
        page = await ask(Query("p", reverse=reverse))
        assert sorts(page) == (LETTERS[::-1] if reverse else LETTERS)
        assert page.items == (ITEM,) * len(LETTERS)
        assert len(server.calls) == 3

    @pytest.mark.parametrize("reverse", [False, True])
    async def test_the_limit_holds_over_attempts(self, ask: Ask, server: Server, reverse: bool) -> None:
        server.scripts["ReadRows"] = [(first(10), RESET), (first(11), StatusCode.UNAVAILABLE)]
        page = await ask(Query("p", limit=7, reverse=reverse))
        assert sorts(page) == (LETTERS[::-1] if reverse else LETTERS)[:7]
        limits = [request.rows_limit for request in server.sent("ReadRows")]
        assert limits[0] == 7
        assert limits == sorted(limits, reverse=True)
        assert len(set(limits)) == 3

    async def test_keys_that_were_read_are_not_asked_for_again(self, ask: Ask, server: Server) -> None:
        server.scripts["ReadRows"] = [(first(10), StatusCode.UNAVAILABLE)]
        found = await ask(BatchGet(tuple(Key("p", letter) for letter in "jxbafc")))
        assert found == (ITEM, None, ITEM, ITEM, ITEM, ITEM)
        before, after = (list(request.rows.row_keys) for request in server.sent("ReadRows"))
        assert len(before) == 6
        assert 0 < len(after) < 6
        assert set(after) < set(before)

    async def test_packed_rows(self, ask: Ask, server: Server) -> None:
        server.scripts["ReadRows"] = [(packed(4),), (packed(250),)]
        assert (await ask(Query("p"))).items == (await ask(Scan())).items == (ITEM,) * 10

    async def test_an_attempt_that_hangs_is_given_up(self, connection: Any, server: Server, mode: str) -> None:
        server.scripts["ReadRows"] = [(Delay(30),), (first(10), Delay(30))]
        ask = asking(connection.with_retry_policy(RetryPolicy(timeout=0.3)), mode)
        begun = time.monotonic()
        assert sorts(await ask(Query("p"))) == LETTERS
        assert time.monotonic() - begun < 5
        assert [call.seconds is not None and call.seconds < 1.4 for call in server.calls] == [True] * 3
        await connection.aclose()

    @pytest.mark.parametrize("status", FATAL)
    async def test_permanent_errors_are_raised_at_once(self, ask: Ask, server: Server, status: Any) -> None:
        server.scripts["ReadRows"] = [(status,)]
        error, words = FATAL[status]
        with pytest.raises(error, match=words):
            await ask(Get(Key("p", "a")))
        assert len(server.calls) == 1


class TestPatience:
    @pytest.mark.parametrize("retries", [0, 1, 3])
    async def test_retries_are_counted(self, connection: Any, server: Server, mode: str, retries: int) -> None:
        ask = asking(connection.with_retry_policy(RetryPolicy(retries=retries)), mode)
        for wanted in (Get(Key("p", "a")), Put(Key("p", "a"), ITEM), BatchWrite((Put(Key("p", "a"), ITEM),))):
            server.calls.clear()
            server.script = [(StatusCode.UNAVAILABLE,)] * 20
            with pytest.raises(OdmError, match="on purpose"):
                await ask(wanted)
            assert len(server.calls) == retries + 1
        await connection.aclose()

    async def test_the_last_attempt_may_succeed(self, connection: Any, server: Server, mode: str) -> None:
        server.script = [(StatusCode.UNAVAILABLE,)] * 3
        assert await asking(connection.with_retry_policy(RetryPolicy(retries=3)), mode)(Get(Key("p", "a"))) == ITEM
        await connection.aclose()

    async def test_attempts_end_when_the_time_is_up(self, connection: Any, server: Server, mode: str) -> None:
        server.script = [(StatusCode.UNAVAILABLE,)] * 500
        begun = time.monotonic()
        with pytest.raises(BackendError, match="UNAVAILABLE"):
            await asking(connection, mode)(Get(Key("p", "a")))
        assert 0.2 < time.monotonic() - begun < 4
        await connection.aclose()

    async def test_a_twin_shares_the_clients(self, connection: Any, server: Server, mode: str) -> None:
        twin = connection.with_retry_policy(RetryPolicy(timeout=2.0, retries=1))
        assert await asking(twin, mode)(Get(Key("p", "a"))) == ITEM
        assert (server.calls[0].seconds or 0) < 3.1
        assert connection._clients is twin._clients
        await connection.aclose()


class TestBatches:
    async def test_only_entries_without_success_are_sent_again(self, ask: Ask, server: Server) -> None:
        server.scripts["MutateRows"] = [(done, StatusCode.UNAVAILABLE), (done, RESET)]
        await ask(BatchWrite((Delete(Key("p", "a")), Put(Key("p", "k"), ITEM))))
        assert sorts(await ask(Query("p"))) == "bcdefghijk"
        assert len(server.sent("MutateRows")) == 3

    async def test_large_ones_are_divided_by_bytes_and_mutations(self, ask: Ask, server: Server) -> None:
        big: dict[str, Any] = {"_t": "Pet", "text": "x" * 1_500_000}
        many: dict[str, Any] = {"_t": "Pet"} | {f"n{number}": number for number in range(30_000)}
        for items in ([big] * 5, [many] * 4):
            server.scripts["MutateRows"] = [(entries(0, 0, 0, 0, 0),)] * 5
            await ask(BatchWrite(tuple(Put(Key("q", str(number)), item) for number, item in enumerate(items))))
            sent = server.sent("MutateRows")
            server.calls.clear()
            assert sum(len(request.entries) for request in sent) == len(items)
            assert all(request.ByteSize() < 4_500_000 for request in sent)
            assert all(sum(len(entry.mutations) for entry in request.entries) <= 100_000 for request in sent)
            assert len(sent) > 1

    async def test_what_is_left_is_attached(self, connection: Any, server: Server, mode: str) -> None:
        server.scripts["MutateRows"] = [(StatusCode.UNAVAILABLE,)] * 3
        operations = tuple(Put(Key("p", letter), ITEM) for letter in "xyz")
        with pytest.raises(Throttled, match="3 of 3") as raised:
            await asking(connection.with_retry_policy(RetryPolicy(retries=2)), mode)(BatchWrite(operations))
        assert raised.value.left == operations
        await connection.aclose()


WRITES_ONCE = [
    Put(Key("p", "new"), ITEM, condition=ABSENT, presence="absent"),
    Put(Key("p", "a"), {"_t": "Pet", "age": 4}, condition=EXISTS),
    Delete(Key("p", "a")),
]


class TestWritesThatMustNotHappenTwice:
    @pytest.mark.parametrize("status", [*TRANSIENT, StatusCode.INTERNAL, StatusCode.UNKNOWN])
    @pytest.mark.parametrize("wanted", WRITES_ONCE, ids=["insert", "put if", "delete"])
    @pytest.mark.parametrize("applied", [False, True], ids=["not applied", "applied"])
    async def test_no_request_is_sent_twice(
        self, ask: Ask, server: Server, status: Any, wanted: Any, applied: bool
    ) -> None:
        """The answer is lost. If the row shows that it was not applied, it may be tried again under another id."""
        server.scripts["CheckAndMutateRow"] = [((done, status) if applied else (status,))]
        before = await ask(Get(wanted.key))
        try:
            answer = await ask(wanted)
        except OutcomeUnknown:
            answer = None
        sent = [request.SerializeToString() for request in server.sent("CheckAndMutateRow")]
        assert len(set(sent)) == len(sent)
        assert len(sent) == 1 or not applied
        assert not isinstance(answer, Refused)
        item = await ask(Get(wanted.key))
        assert item == getattr(wanted, "item", None) or (answer is None and not applied and item == before)

    @pytest.mark.parametrize("wanted", WRITES_ONCE, ids=["insert", "put if", "delete"])
    async def test_an_app_profile_of_several_clusters(self, ask: Ask, server: Server, wanted: Request) -> None:
        server.scripts["CheckAndMutateRow"] = [(Status(StatusCode.FAILED_PRECONDITION, "multi-cluster routing"),)]
        with pytest.raises(BackendError, match=r"single-cluster routing and allow single-row transactions"):
            await ask(wanted)
        assert len(server.sent("CheckAndMutateRow")) == 1

    async def test_one_that_hangs(self, connection: Any, server: Server, mode: str) -> None:
        server.scripts["CheckAndMutateRow"] = [(Delay(30),)]
        ask = asking(connection.with_retry_policy(RetryPolicy(timeout=0.3)), mode)
        wanted = Put(Key("p", "a"), {"_t": "Pet", "age": 4}, condition=EXISTS)
        with pytest.raises(OutcomeUnknown, match="DEADLINE_EXCEEDED"):
            await ask(wanted)
        assert len(server.sent("CheckAndMutateRow")) == 1
        assert await ask(Get(wanted.key)) == ITEM
        await connection.aclose()


pages = Table("pages")


class Page(Entity, table=pages):
    """An item with a Counter."""

    primary = PrimaryKey("PAGE#{path}", "PAGE")

    path: str
    visits: Annotated[int, Counter] = 0


async def visit(backend: Bigtable, mode: str, path: str) -> None:
    """Increment the counter of a page."""
    if mode == "sync":
        with Store(pages, backend) as db:
            db.update(Page.primary(path=path), increment(Page.visits))
    else:
        async with AsyncStore(pages, backend) as async_db:
            await async_db.update(Page.primary(path=path), increment(Page.visits))


class TestIncrements:
    @pytest.mark.parametrize("status", [*TRANSIENT, StatusCode.INTERNAL, StatusCode.UNKNOWN])
    @pytest.mark.parametrize("applied", [False, True], ids=["not applied", "applied"])
    async def test_are_sent_once(
        self, server: Server, bigtable_emulator: str, mode: str, status: Any, applied: bool
    ) -> None:
        path = f"{mode}{status}{applied}"
        direct = Store(pages, Bigtable("project", "instance", endpoint=bigtable_emulator))
        direct.create()
        direct.put(Page(path=path, visits=5))
        server.scripts["ReadModifyWriteRow"] = [((done, status) if applied else (status,))]
        backend = Bigtable("project", "instance", endpoint=server.address)
        with pytest.raises(OutcomeUnknown):
            await visit(backend, mode, path)
        assert [call.method for call in server.calls if call.method != "ReadRows"] == ["ReadModifyWriteRow"]
        assert direct.one(Page, path=path).visits == 5 + applied
        direct.close()


EVERY: dict[str, Request] = {
    "get": Get(Key("p", "a")),
    "batch get": BatchGet((Key("p", "a"),)),
    "query": Query("p"),
    "scan": Scan(),
    "put": Put(Key("p", "a"), ITEM),
    "put if": Put(Key("p", "a"), ITEM, condition=EXISTS),
    "delete": Delete(Key("p", "a")),
    "batch write": BatchWrite((Put(Key("p", "a"), ITEM),)),
    "split": Split(2),
}


class TestNothingRawEscapes:
    @pytest.mark.parametrize("name", EVERY)
    async def test_whatever_the_status(self, connection: Any, server: Server, mode: str, name: str) -> None:
        ask = asking(connection.with_retry_policy(RetryPolicy(retries=0)), mode)
        for code in StatusCode:
            if code is StatusCode.OK:
                continue
            server.script = [(code,)] * 5
            with pytest.raises(OdmError) as raised:
                await ask(EVERY[name])
            assert not isinstance(raised.value, grpc.RpcError)
        await connection.aclose()

    @pytest.mark.parametrize("name", EVERY)
    async def test_when_the_server_is_gone(self, connection: Any, server: Server, mode: str, name: str) -> None:
        ask = asking(connection.with_retry_policy(RetryPolicy(timeout=2.0, retries=1)), mode)
        await ask(Get(Key("p", "a")))
        server.stop()
        with pytest.raises(OdmError, match=r"UNAVAILABLE|connect"):
            await ask(EVERY[name])
        await connection.aclose()

    async def test_when_the_server_goes_while_it_answers(self, connection: Any, server: Server, mode: str) -> None:
        server.scripts["ReadRows"] = [(first(5), Delay(30))]
        threading.Timer(0.3, server.stop).start()
        with pytest.raises(BackendError, match=r"UNAVAILABLE|CANCELLED"):
            await asking(connection.with_retry_policy(RetryPolicy(retries=1)), mode)(Query("p"))
        await connection.aclose()


class TestClosing:
    """Calls in progress fail because the store was closed; a lost write may still be tried again."""

    @pytest.mark.parametrize("name", EVERY)
    async def test_while_calls_wait(self, connection: Any, server: Server, name: str, transport: str) -> None:
        """A call of the lean transport ends as usual, because nothing can interrupt it."""
        server.script = [(Delay(30 if transport == "vendor" else 0.5), iter)]

        def close() -> None:
            while server.script:  # until the call is in progress
                time.sleep(0.01)
            connection.close()

        threading.Thread(target=close, daemon=True).start()
        begun = time.monotonic()
        try:
            perform(connection, EVERY[name])
        except OdmError as error:
            assert "closed during the call" in str(error)  # noqa: PT017  # not every write fails
        else:
            assert transport == "lean" or name in ("put", "put if", "delete", "batch write")
        assert time.monotonic() - begun < 10
        assert perform(connection, Get(Key("p", "b"))) == ITEM

    @pytest.mark.parametrize("name", EVERY)
    async def test_while_async_calls_wait(self, connection: Any, server: Server, name: str) -> None:
        server.script = [(Delay(30),)]
        waiting = asyncio.create_task(aperform(connection, EVERY[name]))
        while server.script:  # noqa: ASYNC110  # until the call is in progress
            await asyncio.sleep(0.01)
        await connection.aclose()
        try:
            await asyncio.wait_for(waiting, 10)
        except OdmError as error:
            assert "closed during the call" in str(error)  # noqa: PT017
        else:
            assert name in ("put", "put if", "delete", "batch write")
        assert await aperform(connection, Get(Key("p", "b"))) == ITEM
        await connection.aclose()

    @pytest.mark.parametrize("name", EVERY)
    async def test_a_cancelled_task_is_cancelled(self, connection: Any, server: Server, name: str) -> None:
        server.script = [(Delay(5),)] * 5
        waiting = asyncio.create_task(aperform(connection, EVERY[name]))
        await asyncio.sleep(0.2)
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.2):
                await aperform(connection, EVERY[name])
        server.script.clear()
        assert await aperform(connection, Get(Key("p", "b"))) == ITEM
        await connection.aclose()
