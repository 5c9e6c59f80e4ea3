"""Pages of a change stream from a server whose answers are scripted: splits, merges, chunks, heartbeats, lost calls."""

import asyncio
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from itertools import pairwise
from typing import Any, cast

import pytest
from google.cloud.bigtable_v2 import types
from google.rpc.status_pb2 import Status as RpcStatus
from grpc import StatusCode
from hypothesis import given
from hypothesis import strategies as st

from odm import BackendError, BadCursor, Entity, PrimaryKey, Store, Table
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.errors import CallFailed
from odm.backends.bigtable.client.native import (
    Begin,
    ReadChangeStream,
    RowChange,
    Span,
    Streamed,
    Token,
    Touched,
    begin_of,
)
from odm.backends.bigtable.client.native_admin import GetTable, Settings, TableInfo
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.emulator import Emulator
from odm.backends.bigtable.requests import Procedures
from odm.protocol.changes import ChangePage
from odm.protocol.connection import aperform, perform
from odm.protocol.requests import ReadChanges
from tests.backends.bigtable.server import Delay, Server, Status, serving

DAY = timedelta(days=1)
MICROS = 1_000_000
NOW = 1_800_000_000 * MICROS
START = NOW - 86_400 * MICROS + 60 * MICROS

shop = Table("shop")


class Hat(Entity, table=shop):
    id: str
    color: str = ""

    primary = PrimaryKey("HAT", "{id}")


KINDS = types.ReadChangeStreamResponse.DataChange.Type


def partition(start: bytes, end: bytes) -> dict[str, Any]:
    return {"row_range": {"start_key_closed": start, "end_key_open": end}}


def chunk(value: bytes, total: int = 0, offset: int = 0, column: bytes = b"color") -> dict[str, Any]:
    cell = {"family_name": "d", "column_qualifier": column, "value": value}
    info = {"chunked_value_size": total, "chunked_value_offset": offset, "last_chunk": offset + len(value) == total}
    return {"mutation": {"set_cell": cell}} | ({"chunk_info": info} if total else {})


def change(id: str, token: str, *chunks: Any, at: int = NOW, done: bool = True, **fields: Any) -> Any:
    """A message with a change of a hat, or the beginning of one."""
    data = {
        "type_": KINDS.USER,
        "row_key": f"HAT#{id}".encode(),
        "commit_timestamp": {"seconds": at // MICROS},
        "source_cluster_id": "one",
        "chunks": chunks or (chunk(b"red"),),
        "done": done,
        "token": token,
    }
    return types.ReadChangeStreamResponse.pb()(data_change=data | fields)


def more(*chunks: Any, token: str = "") -> Any:
    """The continuation of a change; with a token, its end."""
    data = {"type_": KINDS.CONTINUATION, "chunks": chunks, "done": bool(token), "token": token}
    return types.ReadChangeStreamResponse.pb()(data_change=data)


def heartbeat(token: str, start: bytes = b"", end: bytes = b"") -> Any:
    position = {"partition": partition(start, end), "token": token}
    return types.ReadChangeStreamResponse.pb()(heartbeat={"continuation_token": position})


def closed(code: int, tokens: Any = (), partitions: Any = ()) -> Any:
    return types.ReadChangeStreamResponse.pb()(
        close_stream={
            "status": RpcStatus(code=code, message="split"),
            "continuation_tokens": [{"partition": partition(*span), "token": token} for *span, token in tokens],
            "new_partitions": [partition(*span) for span in partitions],
        }
    )


OUT_OF_RANGE = cast("int", StatusCode.OUT_OF_RANGE.value[0])


@pytest.fixture(scope="module")
def emulator() -> Iterator[str]:
    with Emulator() as running:
        yield running.address


@pytest.fixture
def server(emulator: str) -> Iterator[Server]:
    with serving(emulator) as running:
        yield running


Read = Callable[..., Any]


@pytest.fixture(params=["sync", "async"])
def read(request: pytest.FixtureRequest, emulator: str, server: Server) -> Iterator[Read]:
    """Reads a page; the table has the hats a and b."""
    backend = Bigtable("p", "i", endpoint=server.address)
    with Store(shop, Bigtable("p", "i", endpoint=emulator, stream=DAY)) as db:
        db.create()
        db.put(Hat(id="a"))
        db.put(Hat(id="b"))
    connection = backend.connect(shop.compile())

    def page(shard: str = ":", after: str | None = ":=t0", limit: int = 100) -> ChangePage:
        wanted = ReadChanges(shard, after, limit)
        if request.param == "sync":
            return cast("ChangePage", perform(connection, wanted))

        async def once() -> Any:
            try:
                return await aperform(connection, wanted)
            finally:
                await connection.aclose()

        return cast("ChangePage", asyncio.run(once()))

    yield page
    connection.close()


def scripted(server: Server, *answers: Any) -> None:
    server.scripts["ReadChangeStream"] = [*answers]


def brief(page: ChangePage) -> list[tuple[str, str, str]]:
    return [(record.kind, record.key.sort, record.position) for record in page.records]


def test_a_page_ends_at_a_heartbeat(server: Server, read: Read) -> None:
    scripted(server, [change("a", "t1"), change("c", "t2"), heartbeat("t3"), change("b", "t4")])
    page = read()
    assert brief(page) == [("modify", "a", ":=t1"), ("remove", "c", ":=t2")]
    assert (page.position, page.children) == (":=t3", {})
    (sent,) = server.sent("ReadChangeStream")
    assert [one.token for one in sent.continuation_tokens.tokens] == ["t0"]
    assert not sent.HasField("end_time")
    assert sent.heartbeat_duration.seconds == 1


def test_a_page_ends_at_its_limit_and_the_stream_is_cancelled(server: Server, read: Read) -> None:
    scripted(server, [change("a", "t1"), change("b", "t2"), Delay(60)])
    page, began = read(limit=1), time.monotonic()
    assert (brief(page), page.position) == ([("modify", "a", ":=t1")], ":=t1")
    server.idle()
    assert time.monotonic() - began < 30


def test_a_change_in_several_messages_is_one(server: Server, read: Read) -> None:
    parts = [
        change("a", "", chunk(b"1", column=b"x"), chunk(b"gre", 7, 0), done=False),
        more(chunk(b"e", 7, 3)),
        more(chunk(b"nis", 7, 4)),
        more(chunk(b"2", column=b"y"), token="t1"),
    ]
    scripted(server, [*parts, change("b", "t2"), heartbeat("t3")])
    first, second = read().records
    cells = [one["set_cell"] for one in first.native["mutations"]]
    assert [(cell["column_qualifier"], cell["value"]) for cell in cells] == [
        (b"x", b"1"),
        (b"color", b"greenis"),
        (b"y", b"2"),
    ]
    assert (first.position, second.position, second.key.sort) == (":=t1", ":=t2", "b")


def test_a_change_that_is_cut_off_is_read_again(server: Server, read: Read) -> None:
    cut = [change("a", "t1"), change("b", "", done=False), Status(StatusCode.UNAVAILABLE)]
    scripted(server, cut, [change("b", "t2"), heartbeat("t3")])
    first = read()
    assert (brief(first), first.position) == ([("modify", "a", ":=t1")], ":=t1")
    assert brief(read(after=first.position)) == [("modify", "b", ":=t2")]
    assert [one.continuation_tokens.tokens[0].token for one in server.sent("ReadChangeStream")] == ["t0", "t1"]


def test_a_stream_that_ends_before_any_progress_is_opened_again(server: Server, read: Read) -> None:
    scripted(server, [Status(StatusCode.UNAVAILABLE)], [Status(StatusCode.CANCELLED)], [heartbeat("t1")])
    assert read().position == ":=t1"
    assert len(server.sent("ReadChangeStream")) == 3


def test_garbage_collection_is_not_delivered(server: Server, read: Read) -> None:
    collected = change("a", "t1", type_=KINDS.GARBAGE_COLLECTION, source_cluster_id="")
    scripted(server, [collected, Status(StatusCode.UNAVAILABLE)])
    page = read()
    assert (page.records, page.position) == ((), ":=t1")


def test_a_split(server: Server, read: Read) -> None:
    tokens, spans = [(b"", b"m", "t2"), (b"m", b"", "t3")], [(b"", b"m"), (b"m", b"")]
    scripted(server, [change("a", "t1"), closed(OUT_OF_RANGE, tokens, spans)])
    page = read()
    assert page.position is None
    assert page.children == {":m": ":m=t2", "m:": "m:=t3"}
    scripted(server, [heartbeat("t4", b"m")])
    assert read("m:", page.children["m:"]).position == "m:=t4"
    sent = server.sent("ReadChangeStream")[-1]
    assert (sent.partition.row_range.start_key_closed, sent.continuation_tokens.tokens[0].token) == (b"m", "t3")


def test_a_merge_waits_for_the_tokens_of_all_parents(server: Server, read: Read) -> None:
    """The example of google.bigtable.v2, ReadChangeStreamResponse.CloseStream."""
    scripted(server, [closed(OUT_OF_RANGE, [(b"B", b"C", "1"), (b"C", b"D", "2")], [(b"A", b"C"), (b"C", b"E")])])
    page = read("B:D", "B:D=t0")
    assert page.children == {"A:C": "B:C=1", "C:E": "C:D=2"}
    before = len(server.calls)
    assert read("A:C", "B:C=1") == ChangePage(position="B:C=1")
    assert len(server.calls) == before
    scripted(server, [change("a", "t9"), heartbeat("t10")])
    assert read("A:C", "B:C=1\nA:B=0").position == "A:C=t10"
    sent = server.sent("ReadChangeStream")[-1].continuation_tokens.tokens
    assert [(one.partition.row_range.start_key_closed, one.token) for one in sent] == [(b"A", "0"), (b"B", "1")]


def test_a_server_without_new_partitions_means_those_of_the_tokens(server: Server, read: Read) -> None:
    scripted(server, [closed(OUT_OF_RANGE, [(b"", b"m", "t2"), (b"m", b"", "t3")])])
    assert read().children == {":m": ":m=t2", "m:": "m:=t3"}


def test_a_partition_that_moved_goes_on(server: Server, read: Read) -> None:
    scripted(server, [change("a", "t1"), closed(OUT_OF_RANGE, [(b"", b"", "t2")], [(b"", b"")])])
    page = read()
    assert (page.position, page.children) == (":=t2", {})


def test_the_end_of_a_stream_keeps_the_position(server: Server, read: Read) -> None:
    scripted(server, [closed(0)], [change("a", "t1"), closed(0)])
    assert read() == ChangePage(position=":=t0")
    assert read().position == ":=t1"


@pytest.mark.parametrize("code", [StatusCode.OUT_OF_RANGE, StatusCode.FAILED_PRECONDITION, StatusCode.INVALID_ARGUMENT])
@pytest.mark.parametrize("by", ["status", "message"])
def test_a_token_that_is_too_old(server: Server, read: Read, code: StatusCode, by: str) -> None:
    scripted(server, [Status(code, "too old")] if by == "status" else [closed(cast("int", code.value[0]))])
    with pytest.raises(BadCursor, match=rf"refused to continue .* ':=t0' \({code.name}, (too old|split)\).*were lost"):
        read()


def test_a_short_timeout_asks_for_more_heartbeats(emulator: str, server: Server) -> None:
    scripted(server, [heartbeat("t1")])
    with Store(shop, Bigtable("p", "i", endpoint=server.address), timeout=0.5) as db:
        assert db.run(lambda do: do.changes(":", ":=t0")).position == ":=t1"
    assert server.sent("ReadChangeStream")[0].heartbeat_duration.nanos == 250_000_000


def test_a_refused_app_profile(server: Server, read: Read) -> None:
    scripted(server, [Status(StatusCode.PERMISSION_DENIED)])
    with pytest.raises(BackendError, match=r"bigtable\.tables\.readChangeStream"):
        read()


def steps_with(answer: Callable[[ReadChangeStream], Streamed], shard: str = ":", after: str | None = None) -> Any:
    """The page, and the calls, of a procedure whose streams are answered so."""
    calls: list[Any] = []
    procedures = Procedures(shop.compile(), Retry(overall=1.0), lambda: NOW)
    steps = procedures.steps(ReadChanges(shard, after))
    response: Any = None
    try:
        while True:
            native = steps.send(response)
            calls.append(native)
            if isinstance(native, GetTable):
                response = TableInfo({}, Settings(stream=DAY))
            elif isinstance(native, ReadChangeStream):
                response = answer(native)
            else:
                raise AssertionError(native)
    except StopIteration as end:
        return end.value, calls


def test_a_new_feed_begins_with_the_retention() -> None:
    page, calls = steps_with(lambda _: Streamed(token="t1"))
    assert page == ChangePage(position=":=t1")
    assert [call.begin.at for call in calls[1:]] == [START, START]
    assert [call.limit for call in calls[1:]] == [0, 100]


@given(st.integers(START - 10 * MICROS, NOW - 6 * MICROS))
def test_a_new_feed_begins_with_the_stream_if_that_is_younger(created: int) -> None:
    """To a second: the server refuses an earlier time, and does not say when the stream was created."""

    def answer(call: ReadChangeStream) -> Streamed:
        if call.begin.at < created:
            return Streamed(failure=CallFailed(StatusCode.INVALID_ARGUMENT, "before its creation"))
        return Streamed()

    page, calls = steps_with(answer)
    at = calls[-1].begin.at
    assert max(created, START) <= at <= max(created, START) + MICROS
    assert page.position == f":@{at}"
    assert len(calls) <= 22


def test_a_feed_that_cannot_be_read_at_any_time() -> None:
    def answer(_: ReadChangeStream) -> Streamed:
        return Streamed(failure=CallFailed(StatusCode.FAILED_PRECONDITION, "single cluster"))

    with pytest.raises(BackendError, match=r"single cluster.*app profile with single-cluster routing"):
        steps_with(answer)


def test_a_page_without_a_token_keeps_the_time() -> None:
    page, _ = steps_with(lambda _: Streamed())
    assert page.position == f":@{START}"
    again, calls = steps_with(lambda _: Streamed(token="x"), after=page.position)
    assert calls == [ReadChangeStream("shop", Span(b"", b""), Begin(at=START), 100)]
    assert again.position == ":=x"


KEYS = st.binary(max_size=3)


@given(KEYS, KEYS)
def test_names_of_ranges(start: bytes, end: bytes) -> None:
    span = Span(start, end)
    assert "\n" not in span.id
    assert Span.of(span.id) == (span if not end or start < end else None)


@given(st.lists(KEYS.filter(bool), unique=True, max_size=4), st.text(min_size=1), st.data())
def test_tokens_of_all_of_a_range_begin_it(cuts: list[bytes], token: str, data: Any) -> None:
    bounds = [b"", *sorted(cuts), b""]
    tokens = [Token(Span(*pair), token + str(n)) for n, pair in enumerate(pairwise(bounds))]
    lines = data.draw(st.permutations([str(one) for one in tokens]))
    whole = Span(b"", b"")
    assert begin_of("\n".join(lines), whole) == Begin(tuple(tokens))
    if len(tokens) > 1:
        assert begin_of("\n".join(lines[1:]), whole) is None


def test_orders_sort_as_their_numbers() -> None:
    found = [(1, 0), (2, -(2**31)), (2, -1), (2, 0), (2, 2**31 - 1), (10**15, 5)]
    orders = [RowChange(b"", at, tie, "", "", ()).order for at, tie in found]
    assert orders == sorted(orders)
    assert len({*map(len, orders)}) == 1


@pytest.mark.parametrize(
    ("mutation", "touched"),
    [
        ({"set_cell": {"family_name": "d", "column_qualifier": b"a", "value": b"1"}}, Touched("d", b"a", b"1")),
        ({"set_cell": {"family_name": "d"}}, Touched("d", b"", b"")),
        ({"add_to_cell": {"family_name": "s", "column_qualifier": {"raw_value": b"n"}}}, Touched("s", b"n")),
        ({"merge_to_cell": {"family_name": "s", "column_qualifier": {"raw_value": b"n"}}}, Touched("s", b"n")),
        ({"delete_from_column": {"family_name": "d", "column_qualifier": b"a"}}, Touched("d", b"a")),
        ({"delete_from_family": {"family_name": "d"}}, Touched("d")),
        ({"delete_from_row": {}}, Touched()),
    ],
)
def test_what_a_mutation_touches(mutation: Any, touched: Touched) -> None:
    assert RowChange(b"", 0, 0, "", "", (mutation,)).touched == [touched]
