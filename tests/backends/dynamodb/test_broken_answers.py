"""Responses that no DynamoDB sends, over real sockets, sync and async.

A request is retried where that is safe, and succeeds. Otherwise it raises one clear error: `OutcomeUnknown` for a write
that may have been applied, `BackendError` for everything else; never an exception of another library.
"""

import asyncio
import json
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final
from zlib import crc32

import boto3
import pytest

from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.driver import DynamoDBConnection
from odm.errors import BackendError, OdmError, OutcomeUnknown, Throttled
from odm.expressions.nodes import Exists, Increment, Path
from odm.protocol.connection import RetryPolicy, aperform, perform
from odm.protocol.requests import (
    BatchGet,
    BatchWrite,
    CreateTables,
    Delete,
    Get,
    Page,
    Put,
    Query,
    Request,
    Scan,
    Transact,
    Update,
    writes,
)
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.backends.dynamodb.canned import Answer, Canned, serving
from tests.backends.dynamodb.conftest import described

SESSION = boto3.Session("key", "secret", region_name="eu-west-1")
SHOP = Schema("shop", {}, {})
KEY, N = Key("p", "s"), Path(("n",))
ITEM = {"pk": {"S": "p"}, "sk": {"S": "s"}, "n": {"N": "1"}}
PAGE = {"Items": [ITEM], "Count": 1, "ScannedCount": 1}

CALLS: Final[dict[str, tuple[Request, Any]]] = {
    "get": (Get(KEY), {"Item": ITEM}),
    "query": (Query("p"), PAGE),
    "scan": (Scan(), PAGE),
    "count": (Query("p", count=True), {"Count": 1, "ScannedCount": 1}),
    "batch get": (BatchGet((KEY,)), {"Responses": {"shop": [ITEM]}, "UnprocessedKeys": {}}),
    "atomic get": (BatchGet((KEY,), atomic=True), {"Responses": [{"Item": ITEM}]}),
    "describe": (CreateTables(), {**described("ACTIVE"), "Items": []}),  # Items: of the sample
    "put": (Put(KEY, {"n": 1}), {}),
    "batch write": (BatchWrite((Put(KEY, {"n": 1}),)), {"UnprocessedItems": {}}),
    "transaction": (Transact((Put(KEY, {"n": 1}, condition=Exists(N)),)), {}),
    "conditional put": (Put(KEY, {"n": 1}, condition=Exists(N)), {}),
    "update": (Update(KEY, (Increment(N, 1),), returning="new"), {"Attributes": ITEM}),
    "delete": (Delete(KEY), {"Attributes": ITEM}),
}
ONCE: Final = {"conditional put", "update", "delete"}
"""What is not sent again after a lost response."""

HTML = b"<html><body>Please log in</body></html>"


def text(value: Any) -> bytes:
    return json.dumps(value).encode()


def refusal(code: str, **more: Any) -> bytes:
    return text({"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "no", **more})


LOST: Final = {
    "closed": Answer(b"", raw=b""),
    "cut in the status": Answer(b"", raw=b"HTTP/1.1 2"),
    "cut in a header": Answer(b"", raw=b"HTTP/1.1 200 OK\r\nContent-Le"),
    "cut after the headers": Answer(b"", lacks=20),
    "cut in the body": Answer(b'{"Item": {"pk"', lacks=20),
    "another checksum": Answer(b"{}", checksum=crc32(b"x")),
    "another protocol": Answer(b"", raw=b"SSH-2.0-OpenSSH_9.6\r\n"),
    "a web page": Answer(HTML),
    "nothing": Answer(b""),
    "no content": Answer(b"", 204),
    **{f"JSON {value!r}": Answer(text(value)) for value in ([], [1], "text", 3, None, {"message": "Please log in"})},
    "a gateway's page": Answer(HTML, 503),
    **{
        f"500 {body!r}": Answer(body, 500)
        for body in (b"{x", b"", b"[1]", b'"x"', b"null", b'{"__type": 5}', b"\xff\xfe", refusal("InternalServerError"))
    },
}
"""The request may have been applied."""

REFUSED: Final = {
    **{str(status): Answer(b"" if status == 304 else HTML, status) for status in (301, 304, 307, 403, 404, 413)},
    **{
        f"400 {body!r}": Answer(body, 400)
        for body in (
            b"{x",
            b"",
            b"[1]",
            b'"x"',
            b"null",
            b"\xff\xfe",
            b'{"__type": 5}',
            b'{"__type": null, "message": 5}',
            b'{"__type": "NeverHeardOf"}',
            b'{"message": ["no"]}',
            refusal("TransactionCanceledException", CancellationReasons="x"),
            refusal("TransactionCanceledException", CancellationReasons=[1]),
            refusal("ConditionalCheckFailedException", Item="x"),
            refusal("ConditionalCheckFailedException", Item={"n": 5}),
            refusal("ThrottlingException", throttlingReasons=[5]),
        )
    },
}
"""The service, or a proxy, has certainly not applied the request."""

FOREIGN: Final[dict[str, Sequence[Any]]] = {
    "get": [{"Item": "x"}, {"Item": [1]}, {"Item": {"n": 5}}, {"Item": {"n": {"N": 5}}}, {"Item": {"n": {"Q": "5"}}}],
    "query": [
        {},
        {"Count": 1, "ScannedCount": 1},
        {"Items": 3, "Count": "a", "ScannedCount": []},
        {"Items": {}, "Count": 0, "ScannedCount": 0},
        {"Items": ["x"], "Count": 1, "ScannedCount": 1},
        {"Items": [{"n": 1}], "Count": 1, "ScannedCount": 1},
        {"Items": [], "Count": 0, "ScannedCount": 0, "LastEvaluatedKey": "x"},
        {"Items": [], "Count": 0, "ScannedCount": 0, "LastEvaluatedKey": {"pk": {"N": "1"}}},
    ],
    "count": [{}, {"Items": []}, {"Count": "x", "ScannedCount": []}],
    "batch get": [{}, {"Responses": "x"}, {"Responses": {"shop": "x"}}, {"Responses": {"shop": [{"n": 1}]}}],
    "atomic get": [{}, {"Responses": []}, {"Responses": {}}, {"Responses": ["x"]}],
    "describe": [{}, {"Table": "x"}, {"Table": {}}, {"Table": {"TableStatus": 5}}],
    "update": [{"Attributes": "x"}, {"Attributes": {"n": 5}}, {"Attributes": {"n": {"N": 5}}}],
    "batch write": [
        {"UnprocessedItems": "x"},
        {"UnprocessedItems": {"shop": "x"}},
        {"UnprocessedItems": {"shop": [{"n": 1}]}},
        {"UnprocessedItems": {"shop": [{"PutRequest": {"Item": {"pk": {"S": "other"}, "sk": {"S": "s"}}}}]}},
    ],
}
"""JSON objects that lack a part, or whose parts have other types."""


class Script:
    """The service's next responses; the last one repeats."""

    def __init__(self) -> None:
        self.answers = [Answer(b"{}")]

    def answer(self) -> Answer:
        return self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]


@pytest.fixture(scope="module")
def script() -> Script:
    return Script()


@pytest.fixture(scope="module")
def server(script: Script) -> Iterator[Canned]:
    with serving(script.answer) as server:
        server.handle_error = lambda *_: None  # type: ignore[method-assign]  # a client may close its connection first
        yield server


def connection_to(endpoint: str, transport: Any) -> DynamoDBConnection:
    backend = DynamoDB(SESSION, endpoint_url=endpoint, transport=transport)
    return backend.connect(SHOP).with_retry_policy(RetryPolicy(timeout=5, retries=1))


def read(response: Any) -> Any:
    """The response, with all of its items decoded."""
    if isinstance(response, Page):
        return [dict(item.items()) for item in response.items], list(response.positions), response.count
    if isinstance(response, tuple):
        return [item and dict(item.items()) for item in response]
    return dict(response.items()) if isinstance(response, Mapping) else response


@pytest.fixture(scope="module", params=["sync", "async"])
def send(
    request: pytest.FixtureRequest, server: Canned, script: Script, transport: Any
) -> Iterator[Callable[[Request], Any]]:
    """Sends a request on an open connection. Every response is read as a whole."""
    connection = connection_to(server.endpoint, transport)
    with asyncio.Runner() as runner:

        def send(asked: Request) -> Any:
            if request.param == "sync":
                return read(perform(connection, asked))
            return read(runner.run(aperform(connection, asked)))

        script.answers = [Answer(text({"Item": ITEM}))]
        for _ in range(2):  # later responses are decoded by odm, the first one by botocore
            assert send(Get(KEY)) == {"n": 1}
        yield send
        runner.run(connection.aclose())


@pytest.fixture(autouse=True)
def no_pauses(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(random, "uniform", lambda low, _high: low)


def failure_of(send: Callable[[Request], Any], request: Request, mark: str) -> OdmError:
    """The error of a request; its type is the one that the kind of request and response asks for."""
    with pytest.raises(OdmError) as caught:
        send(request)
    expected = OutcomeUnknown if mark == "lost" and writes(request) else BackendError
    assert type(caught.value) is expected, caught.value
    assert "on table 'shop'" in str(caught.value)
    return caught.value


@pytest.mark.one_of(6)
@pytest.mark.parametrize("kind", LOST)
def test_a_lost_response(send: Callable[[Request], Any], server: Canned, script: Script, kind: str) -> None:
    for name, (request, right) in CALLS.items():
        script.answers = [Answer(text(right))]
        expected = send(request)
        server.received.clear()
        script.answers = [LOST[kind]]
        failure_of(send, request, "lost")
        assert len(server.received) == (1 if name in ONCE else 2)
        script.answers = [LOST[kind], Answer(text(right))]
        if name in ONCE:
            failure_of(send, request, "lost")
        else:
            assert send(request) == expected, name


@pytest.mark.parametrize("kind", REFUSED)
def test_a_refusal_that_is_not_dynamodbs(
    send: Callable[[Request], Any], server: Canned, script: Script, kind: str
) -> None:
    for request, _ in CALLS.values():
        script.answers = [REFUSED[kind]]
        server.received.clear()
        failure_of(send, request, "refused")
        assert len(server.received) == 1


@pytest.mark.parametrize("status", [301, 302, 307, 308])
def test_a_redirect(
    send: Callable[[Request], Any], script: Script, status: int, transport: str, request: pytest.FixtureRequest
) -> None:
    """The response of the other address is never taken, even if it looks like one of DynamoDB."""
    sync = "sync" in request.node.callspec.params.values()
    other = Script()
    with serving(other.answer) as elsewhere:
        for asked, right in CALLS.values():
            other.answers = [Answer(text(right))]
            script.answers = [Answer(HTML, status, location=elsewhere.endpoint)]
            with pytest.raises(OdmError) as caught:
                send(asked)
            assert type(caught.value) in (BackendError, *([OutcomeUnknown] if writes(asked) else []))
        assert (not elsewhere.received) == (sync or transport == "lean")  # aiobotocore follows redirects


@pytest.mark.one_of(2)
@pytest.mark.parametrize("name", FOREIGN)
def test_foreign_json(send: Callable[[Request], Any], script: Script, name: str) -> None:
    for value in FOREIGN[name]:
        script.answers = [Answer(text(value))]
        with pytest.raises(OdmError) as caught:
            send(CALLS[name][0])
        assert type(caught.value) is (OutcomeUnknown if writes(CALLS[name][0]) else BackendError), value


@pytest.mark.parametrize("asynchronous", [False, True])
@pytest.mark.parametrize("name", ["get", "put"])
def test_the_first_response_of_a_connection(
    server: Canned, script: Script, name: str, asynchronous: bool, transport: Any
) -> None:
    """botocore parses it, so it is checked in another way than later ones."""

    async def first(request: Request, answer: Answer) -> Any:
        script.answers = [answer]
        connection = connection_to(server.endpoint, transport)
        try:
            return read(await aperform(connection, request) if asynchronous else perform(connection, request))
        finally:
            await connection.aclose()

    def send(answer: Answer) -> Callable[[Request], Any]:
        return lambda request: asyncio.run(first(request, answer))

    request, _ = CALLS[name]
    for answer in (LOST["cut in the body"], LOST["JSON [1]"], LOST["a web page"], LOST["500 b'[1]'"]):
        failure_of(send(answer), request, "lost")
    for answer in (REFUSED["301"], REFUSED["400 b'[1]'"]):
        failure_of(send(answer), request, "refused")
    for value in FOREIGN.get(name, ()):
        with pytest.raises(BackendError):
            send(Answer(text(value)))(request)


@pytest.mark.parametrize("code", ["ThrottlingException", "AccessDeniedException", "ConditionalCheckFailedException"])
def test_a_refusal_after_a_lost_response(send: Callable[[Request], Any], script: Script, code: str) -> None:
    """The attempt whose response was lost may have been applied, whatever the service says of the next."""
    for name in ("put", "batch write", "transaction"):
        script.answers = [LOST["closed"], Answer(refusal(code), 400)]
        failure_of(send, CALLS[name][0], "lost")


def test_too_many_requests_for_a_gateway(send: Callable[[Request], Any], script: Script) -> None:
    for request, right in CALLS.values():
        script.answers = [Answer(HTML, 429), Answer(text(right))]
        send(request)
        script.answers = [Answer(HTML, 429)]
        with pytest.raises(Throttled):
            send(request)


@pytest.mark.one_of(3)
@pytest.mark.parametrize("asynchronous", [False, True])
def test_no_connection(server: Canned, asynchronous: bool, transport: Any) -> None:
    tls = server.endpoint.replace("http:", "https:")

    async def ask(endpoint: str) -> None:
        connection = connection_to(endpoint, transport)
        try:
            for request, _ in CALLS.values():
                with pytest.raises(BackendError, match="check the network, region and endpoint_url"):
                    await aperform(connection, request) if asynchronous else perform(connection, request)
        finally:
            await connection.aclose()

    for endpoint in ("http://127.0.0.1:9", "http://nowhere.invalid", tls):
        asyncio.run(ask(endpoint))
