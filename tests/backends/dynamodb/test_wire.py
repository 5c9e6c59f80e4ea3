"""Responses decoded from their bytes equal those of botocore's parser, sync and async."""

import json
from typing import Any
from zlib import crc32

import boto3
import botocore.session
import pytest
from botocore.config import Config

from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.client.wire import _Hooks
from odm.backends.dynamodb.driver import DynamoDBConnection
from odm.errors import BackendError, OutcomeUnknown
from odm.expressions.nodes import Missing, Path, Set
from odm.protocol.connection import RetryPolicy, aperform, perform
from odm.protocol.requests import (
    BatchGet,
    BatchWrite,
    Delete,
    Get,
    Put,
    Query,
    Refused,
    Request,
    Scan,
    Transact,
    Update,
    writes,
)
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.backends.dynamodb.canned import Answer, serving
from tests.backends.dynamodb.conftest import Ask
from tests.backends.dynamodb.test_driver import KEY, RICH


@pytest.fixture
def backend(endpoint: str) -> DynamoDB:
    """With botocore's clients, whose parser odm replaces."""
    return DynamoDB(boto3.Session("key", "secret", region_name="eu-west-1"), endpoint_url=endpoint, transport="vendor")


async def test_responses_are_the_same_before_and_after_the_event_is_proved(ask: Ask) -> None:
    await ask(Put(KEY, RICH))
    for _ in range(3):
        assert await ask(Get(KEY)) == RICH
        assert list((await ask(Query(KEY.partition))).items) == [RICH]
        assert list((await ask(Scan())).items) == [RICH]
        assert await ask(BatchGet((KEY, Key("C#1", "none")))) == (RICH, None)
        again = Update(KEY, (Set(Path(("raw",)), RICH["raw"]),), returning="new")
        assert (await ask(again)).item == RICH
        assert await ask(Put(KEY, RICH, condition=Missing(Path(("_t",))))) == Refused(RICH)


async def test_the_parser_is_bypassed_from_the_second_response_on(ask: Ask, connection: DynamoDBConnection) -> None:
    await ask(Put(KEY, {"raw": b"\x00\xff"}))
    arguments = {"TableName": connection.layout.table, "Key": {"pk": {"S": KEY.partition}, "sk": {"S": KEY.sort}}}
    sync, asynchronous = connection._client.get(), await connection._async_clients.get()
    answers = [sync.get_item(**arguments) for _ in range(2)]
    answers += [await asynchronous.get_item(**arguments) for _ in range(2)]
    # The only response before the proof may be that of the put.
    assert {str(answer["Item"]["raw"]["B"]) for answer in answers[1::2]} == {"AP8="}
    assert all(answer["ResponseMetadata"]["HTTPStatusCode"] == 200 for answer in answers)
    assert not any("odm" in name for answer in answers for name in answer)


QUERY = botocore.session.Session().get_service_model("dynamodb").operation_model("Query")


def test_the_parser_does_the_work_until_a_mark_has_arrived() -> None:
    hooks = _Hooks()

    def answered() -> tuple[dict[str, Any], dict[str, Any]]:
        answer: dict[str, Any] = {"status_code": 200, "headers": {}, "body": b'{"Count": 1}'}
        more: dict[str, Any] = {}
        hooks.before_parse(QUERY, answer, more)
        return answer, more

    for _ in range(2):  # a botocore version that does not merge a handler's result
        answer, more = answered()
        assert answer["body"]
        assert "Count" not in more
        hooks.after_call({"Count": 1})
    parsed = {"Count": 1, **answered()[1]}
    hooks.after_call(parsed)
    assert parsed == {"Count": 1}
    assert answered() == ({"status_code": 200, "headers": {}, "body": b""}, {"Count": 1})


@pytest.mark.parametrize("answer", [(500, b"{}"), (400, b"x")])
def test_botocore_parses_errors(answer: tuple[int, bytes]) -> None:
    hooks = _Hooks()
    hooks._proved = True
    status, body = answer
    response: dict[str, Any] = {"status_code": status, "headers": {}, "body": body}
    more: dict[str, Any] = {}
    hooks.before_parse(QUERY, response, more)
    assert (response["body"], more) == (body, {})


@pytest.mark.parametrize("mode", ["legacy", "standard"])
async def test_a_damaged_response_is_requested_again(mode: Any) -> None:
    right = json.dumps({"Item": {"n": {"N": "1"}}}).encode()
    bodies: list[bytes] = []
    with serving(lambda: Answer(bodies.pop(0), checksum=crc32(right))) as server:
        session = boto3.Session("key", "secret", region_name="eu-west-1")
        config = Config(retries={"mode": mode, "total_max_attempts": 3})
        connection = DynamoDB(session, endpoint_url=server.endpoint, config=config, transport="vendor").connect(
            Schema("shop", {}, {})
        )
        for damaged in (right.replace(b"1", b"2"), right[:-1] + b"x"):
            bodies += [right, damaged, right]
            for _ in range(2):
                assert perform(connection, Get(KEY)) == {"n": 1}
            assert not bodies
            bodies += [right, damaged, right]
            for _ in range(2):
                assert await aperform(connection, Get(KEY)) == {"n": 1}
            assert not bodies
        await connection.aclose()


_WRITES: list[Request] = [
    Put(KEY, {}, condition=Missing(Path(("_t",)))),
    Update(KEY, (Set(Path(("n",)), 1),)),
    Delete(KEY),
    Transact((Put(KEY, {}),)),
]
_OTHERS: list[Request] = [Get(KEY), Query("C#1"), Scan(), BatchGet((KEY,)), Put(KEY, {}), BatchWrite((Delete(KEY),))]
_NO_ANSWERS = [b"<html>Please log in</html>", b"", b'{"Item": {', b'"x"', b"\xff"]


@pytest.mark.parametrize("mode", ["legacy", "standard"])
async def test_a_response_that_is_not_from_dynamodb_is_an_error(mode: Any) -> None:
    answers = [Answer(b"{}", checksum=1)]
    with serving(lambda: answers[0]) as server:
        session = boto3.Session("key", "secret", region_name="eu-west-1")
        config = Config(retries={"mode": mode, "total_max_attempts": 1})
        backend = DynamoDB(session, endpoint_url=server.endpoint, config=config, transport="vendor")
        connection = backend.connect(Schema("shop", {}, {})).with_retry_policy(RetryPolicy(retries=0))
        for answer in [Answer(b"{}", checksum=1), *map(Answer, _NO_ANSWERS)]:
            answers[0] = answer
            for request in [*_WRITES, *_OTHERS]:
                with pytest.raises(OutcomeUnknown if writes(request) else BackendError, match="arrived damaged"):
                    perform(connection, request)
                with pytest.raises(OutcomeUnknown if writes(request) else BackendError, match="arrived damaged"):
                    await aperform(connection, request)
        await connection.aclose()


async def test_invalid_text_is_decoded_by_the_standard_library() -> None:
    with serving(lambda: Answer(b'{"Item": {"a": {"S": "\\ud800"}}}')) as server:
        session = boto3.Session("key", "secret", region_name="eu-west-1")
        connection = DynamoDB(session, endpoint_url=server.endpoint, transport="vendor").connect(Schema("shop", {}, {}))
        for _ in range(2):
            assert perform(connection, Get(KEY)) == {"a": "\ud800"}
        await connection.aclose()
