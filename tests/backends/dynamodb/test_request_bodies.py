"""Request bodies that the backend writes: the server gets what botocore would send, sync and async."""

import json
from collections.abc import AsyncIterator, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import boto3
import pytest
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest
from pydantic import BaseModel

from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.client.native import Call
from odm.backends.dynamodb.client.wire import WRITTEN, AttributesText, Bodies
from odm.backends.dynamodb.driver import DynamoDBConnection
from odm.backends.dynamodb.items.codec import write_item
from odm.codec import Draft, compile_codec
from odm.expressions.nodes import Compare, Const, Missing, Path, Set
from odm.protocol.connection import aperform, perform
from odm.protocol.requests import BatchGet, BatchWrite, Check, Delete, Get, Put, Query, Request, Scan, Transact, Update
from odm.schema.entity import Key
from odm.schema.model import IndexSchema, Schema
from tests.backends.dynamodb.canned import Answer, Canned, serving
from tests.backends.dynamodb.conftest import Ask
from tests.backends.dynamodb.test_driver import KEY, RICH

pytestmark = pytest.mark.one_of(2)

SHOP = Schema("shop", {}, {"by_email": IndexSchema("by_email", ())})
OTHER = Key("C#1", "é😀")
ENTRIES = {"by_email": Key("E#é", "1")}
N, RAW = Path(("n",)), Path(("raw",))


TEXT = 'é"\\\x00\u2028😀'


class Thing(BaseModel):
    text: str
    data: bytes = b"\x00\xff"
    blobs: set[bytes]
    names: set[str]
    parts: list[dict[str, bytes]] = [{"x": b"\x01"}, {}]


THING = compile_codec(Thing, "Thing")


def draft(text: str = TEXT) -> Draft[str]:
    item = write_item(THING, Thing(text=text, blobs={b"\x00\xff", b"a"}, names={"é", '"'}))
    assert isinstance(item, Draft)
    return item


REQUESTS: list[Request] = [
    Get(KEY),
    BatchGet((KEY, OTHER)),
    Put(KEY, RICH, ENTRIES),
    Put(KEY, draft(), ENTRIES),
    Put(KEY, draft(), ENTRIES, Missing(N) | Compare("=", RAW, Const(b"\x00\xff"))),
    Update(KEY, (Set(N, 1), Set(RAW, b"\x00\xff")), returning="new"),
    Delete(OTHER),
    BatchWrite((Put(KEY, draft()), Delete(OTHER))),
    Transact((Put(KEY, draft()), Check(OTHER, Missing(N)))),
    Query(KEY.partition, lo="a", limit=3),
    Scan(limit=1, segment=(0, 2)),
]


READ = {
    "Query": b'{"Items": [], "Count": 0, "ScannedCount": 0}',
    "Scan": b'{"Items": [], "Count": 0, "ScannedCount": 0}',
    "BatchGetItem": b'{"Responses": {}}',
}
"""The bodies of responses; others are empty."""


@pytest.fixture
def statuses() -> list[int]:
    """The HTTP statuses of the next responses, before successful ones."""
    return []


@pytest.fixture
def server(statuses: list[int]) -> Iterator[Canned]:
    def answer() -> Answer:
        operation = canned.received[-1][0]["X-Amz-Target"].partition(".")[2]
        body = READ.get(operation, b"{}")
        return Answer(body, statuses.pop(0) if statuses else 200)

    with serving(answer) as canned:
        yield canned


@pytest.fixture
def backend(server: Canned) -> DynamoDB:
    session = boto3.Session("key", "secret", region_name="eu-west-1")
    return DynamoDB(session, endpoint_url=server.endpoint, transport="vendor")


@pytest.fixture
async def connection(backend: DynamoDB) -> AsyncIterator[DynamoDBConnection]:
    connection = backend.connect(SHOP)
    yield connection
    await connection.aclose()


@pytest.fixture
def schema() -> Schema:
    return SHOP


def last(server: Canned) -> Any:
    return json.loads(server.received[-1][1])


@pytest.mark.parametrize("request_", REQUESTS, ids=[f"{type(one).__name__}-{n}" for n, one in enumerate(REQUESTS)])
async def test_the_body_is_the_one_that_botocore_would_write(
    server: Canned, connection: DynamoDBConnection, send: Ask, request_: Request
) -> None:
    native = next(connection.steps(request_))
    assert isinstance(native, Call)
    plain = boto3.client("dynamodb", "eu-west-1", None, True, None, server.endpoint, "k", "s")
    getattr(plain, native.operation)(**Bodies().arguments(native.kwargs))
    expected = last(server)
    for _ in range(3):  # before and after the proof that the events work
        await send(request_)
        body = last(server)
        for one in (expected, body):
            one.pop("ClientRequestToken", None)
        assert body == expected
    assert connection._client.bodies._proved or connection._async_clients.bodies._proved


@pytest.mark.parametrize("request_", REQUESTS, ids=[f"{type(one).__name__}-{n}" for n, one in enumerate(REQUESTS)])
async def test_the_lean_transport_sends_the_same(
    server: Canned, connection: DynamoDBConnection, request_: Request
) -> None:
    session = boto3.Session("key", "secret", region_name="eu-west-1")
    lean = DynamoDB(session, endpoint_url=server.endpoint, transport="lean").connect(SHOP)
    perform(connection, request_)
    perform(lean, request_)
    await aperform(lean, request_)
    await lean.aclose()
    (headers, body), *others = server.received
    names = ("X-Amz-Target", "Content-Type", "Host", "Accept-Encoding", "Content-Length")
    for theirs, sent in others:
        assert _without_token(sent) == _without_token(body)
        assert headers["User-Agent"].startswith(theirs["User-Agent"])
        assert {name: theirs.get(name) for name in names} == {name: headers.get(name) for name in names}


def _without_token(body: bytes) -> Any:
    return {name: value for name, value in json.loads(body).items() if name != "ClientRequestToken"}


async def test_the_text_of_the_item_is_sent_unchanged(server: Canned, send: Ask) -> None:
    item = draft()
    await send(Get(KEY))
    await send(Put(KEY, item))
    await send(BatchWrite((Put(KEY, item), Put(OTHER, item))))
    assert [body.count(item.form[1:].encode()) for _, body in server.received] == [0, 1, 2]


async def test_the_signature_is_for_the_body_that_is_sent(server: Canned, send: Ask) -> None:
    credentials: Any = boto3.Session("key", "secret").get_credentials()
    for text in ("a", "b"):
        await send(Put(KEY, draft(text)))
        headers, body = server.received[-1]
        signed = headers["Authorization"].split("SignedHeaders=")[1].split(",")[0].split(";")
        request = AWSRequest("POST", f"http://{headers['Host']}/", {}, body)
        for name in headers:
            if name.lower() in signed and name.lower() != "host":
                request.headers[name] = headers[name]
        request.context["timestamp"] = headers["X-Amz-Date"]
        auth = SigV4Auth(credentials, "dynamodb", "eu-west-1")
        signature = auth.signature(auth.string_to_sign(request, auth.canonical_request(request)), request)
        assert headers["Authorization"].endswith(f"Signature={signature}")


async def test_a_retry_sends_the_same_body(server: Canned, statuses: list[int], send: Ask) -> None:
    await send(Get(KEY))
    server.received.clear()
    statuses[:] = [500, 200]
    await send(Put(KEY, draft()))
    (_, first), (_, second) = server.received
    assert first == second
    assert json.loads(first)["Item"]["text"] == {"S": TEXT}


async def test_what_a_handler_of_the_session_adds_is_sent(server: Canned, backend: DynamoDB) -> None:
    def ask_for_units(params: Any, **_: Any) -> None:
        params["ReturnConsumedCapacity"] = "TOTAL"

    def only_for_botocore(params: Any, **_: Any) -> None:
        params["ExpressionAttributeValues"] = {":0": {"B": bytearray(b"x")}}

    events = backend._settings.session.events  # type: ignore[union-attr]
    events.register("before-parameter-build.dynamodb.PutItem", ask_for_units)
    events.register("before-parameter-build.dynamodb.UpdateItem", only_for_botocore)
    connection = backend.connect(SHOP)
    for _ in range(2):
        perform(connection, Put(KEY, draft()))
        assert last(server)["ReturnConsumedCapacity"] == "TOTAL"
        assert last(server)["Item"]["text"] == {"S": TEXT}
        perform(connection, Update(KEY, (Set(N, 1),)))
        assert last(server)["ExpressionAttributeValues"] == {":0": {"B": "eA=="}}
        assert last(server)["Key"] == {"pk": {"S": "C#1"}, "sk": {"S": "O#1"}}
    connection.close()


async def test_handlers_of_the_session_see_and_change_what_is_sent(server: Canned, backend: DynamoDB) -> None:
    seen: list[bytes] = []

    def ask_for_units(params: Any, **_: Any) -> None:
        params["ReturnConsumedCapacity"] = "TOTAL"

    def note(params: Any, **_: Any) -> None:
        seen.append(params["body"])

    events = backend._settings.session.events  # type: ignore[union-attr]
    events.register_last("before-parameter-build", ask_for_units)
    for event in ("before-call", "before-call.dynamodb", "before-call.dynamodb.PutItem"):
        events.register(event, note)
    connection = backend.connect(SHOP)
    for _ in range(2):
        seen.clear()
        perform(connection, Put(KEY, draft()))
        assert last(server)["ReturnConsumedCapacity"] == "TOTAL"
        assert seen == [server.received[-1][1]] * 3
    connection.close()


_CALLS = [f"before-call.dynamodb.{name}" for name in WRITTEN]


@pytest.mark.parametrize("missing", [["before-parameter-build"], _CALLS], ids=["build", "call"])
async def test_without_an_event_botocore_writes_the_body(
    server: Canned, connection: DynamoDBConnection, missing: list[str]
) -> None:
    for client in (connection._client.get(), await connection._async_clients.get()):
        for event in missing:
            client.meta.events.unregister(event, unique_id=f"odm-{event}")
    for _ in range(2):
        perform(connection, Put(KEY, draft()))
        assert last(server)["Item"]["text"] == {"S": TEXT}
        await aperform(connection, Put(KEY, draft()))
        assert last(server)["Item"]["text"] == {"S": TEXT}
        await aperform(connection, BatchWrite((Put(KEY, draft()),)))
        assert last(server)["RequestItems"]["shop"][0]["PutRequest"]["Item"]["text"] == {"S": TEXT}
    assert not connection._client.bodies._proved
    assert not connection._async_clients.bodies._proved
    assert [connection._client.bodies._proved, connection._async_clients.bodies._proved] == [False, False]


async def test_a_long_body_arrives_whole(server: Canned, send: Ask) -> None:
    item = draft("é" * 150_000)
    puts = tuple(Put(Key("C#1", str(n)), item) for n in range(4))
    for _ in range(2):
        await send(BatchWrite(puts))
        assert server.received[-1][1].count(item.form[1:].encode()) == 4


def test_threads_do_not_mix_their_bodies(server: Canned, connection: DynamoDBConnection) -> None:
    perform(connection, Get(KEY))
    server.received.clear()
    names = [f"name-{n}" for n in range(40)]
    with ThreadPoolExecutor(8) as pool:
        list(pool.map(lambda name: perform(connection, Put(Key(name, "1"), draft(name))), names))
    items = [json.loads(body)["Item"] for _, body in server.received]
    assert sorted(item["pk"]["S"] for item in items) == sorted(names)
    assert all(item["pk"] == item["text"] for item in items)


async def test_botocore_writes_the_bodies_of_table_operations(server: Canned, connection: DynamoDBConnection) -> None:
    perform(connection, Get(KEY))
    connection.call(Call("describe_table", {"TableName": "shop"}))
    assert last(server) == {"TableName": "shop"}


def test_a_request_prints_the_attributes_of_its_text(connection: DynamoDBConnection) -> None:
    text = next(connection.steps(Put(KEY, draft("x" * 1000), ENTRIES)))
    plain = next(connection.steps(Put(KEY, dict(draft("x" * 1000)), ENTRIES)))
    assert isinstance(text, Call)
    assert isinstance(text.kwargs["Item"], AttributesText)
    assert text == plain
    assert str(text) == str(plain)
    assert repr(text) == repr(plain)
    assert len(str(text)) < 1000


def test_botocore_writes_a_body_with_invalid_text(server: Canned, connection: DynamoDBConnection) -> None:
    perform(connection, Get(KEY))
    perform(connection, Put(KEY, {"text": "\ud800"}))
    assert last(server)["Item"]["text"] == {"S": "\ud800"}  # the service rejects it
