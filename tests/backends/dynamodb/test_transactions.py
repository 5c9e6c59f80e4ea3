"""A transaction is one request with one token, retried until its outcome is definite."""

import time
from collections.abc import Sequence
from typing import Any

import pytest
from botocore.exceptions import ClientError, ConnectTimeoutError, ReadTimeoutError

from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.client.native import Call
from odm.backends.dynamodb.client.retry import ATTEMPTS
from odm.errors import BackendError, BadValue, ItemTooLarge, OdmError, OutcomeUnknown, TableNotFound, Throttled
from odm.expressions.nodes import Compare, Const, Exists, Increment, Path
from odm.protocol.connection import run
from odm.protocol.requests import (
    BatchGet,
    Check,
    CreateTables,
    Delete,
    Get,
    Put,
    Refusals,
    Refused,
    Sleep,
    Transact,
    Update,
    Written,
)
from odm.schema.entity import Key
from odm.schema.model import IndexSchema, Schema
from tests.backends.dynamodb.conftest import Ask

SHOP = Schema(name="shop", entities={}, indexes={"by_email": IndexSchema("by_email", ())})
A, B, C, D = (Key("p", name) for name in "abcd")
N = Path(("n",))
TWO = Transact((Put(A, {"n": 1}, condition=Exists(N)), Delete(B)))
LOST = ReadTimeoutError(endpoint_url="http://nowhere")


def answered(code: str, message: str = "no", status: int = 400, **more: Any) -> ClientError:
    response = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}, **more}
    return ClientError(response, "TransactWriteItems")  # type: ignore[arg-type]


def cancelled(*reasons: str | dict[str, Any]) -> ClientError:
    told = [{"Code": reason} if isinstance(reason, str) else reason for reason in reasons]
    return answered("TransactionCanceledException", CancellationReasons=told)


THROTTLED = answered("ThrottlingException")
CONFLICT = cancelled("None", "TransactionConflict")
IN_PROGRESS = answered("TransactionInProgressException")


def sent(answers: Sequence[Exception | None], request: Transact = TWO) -> tuple[Any, list[Call]]:
    """Send a transaction to a service with these responses (the last repeats): its response or error, and the calls."""
    calls: list[Call] = []

    def answer(native: Any) -> Any:
        if isinstance(native, Sleep):
            return {}
        calls.append(native)
        found = answers[min(len(calls), len(answers)) - 1]
        if found is not None:
            raise found
        return {}

    try:
        return run(DynamoDB().connect(SHOP).steps(request), answer), calls
    except OdmError as error:
        return error, calls


def test_the_request() -> None:
    _, (call,) = sent(
        [None],
        Transact(
            (
                Put(A, {"n": 1}, {"by_email": Key("e", "x")}),
                Update(B, (Increment(N, 1),), condition=Exists(N), returning="new"),
                Delete(C, Exists(N)),
                Check(D, Exists(N)),
                Check(Key("p", "e")),
            )
        ),
    )
    token = call.kwargs["ClientRequestToken"]
    assert 1 <= len(token) <= 36
    key = {"pk": {"S": "p"}}
    conditioned = {
        "TableName": "shop",
        "ConditionExpression": "attribute_exists(#0)",
        "ExpressionAttributeNames": {"#0": "n"},
        "ReturnValuesOnConditionCheckFailure": "ALL_OLD",
    }
    entries = {"by_emailpk": {"S": "e"}, "by_emailsk": {"S": "x"}}
    put, update, delete, check, always = call.kwargs["TransactItems"]
    assert put == {"Put": {"TableName": "shop", "Item": {**key, "sk": {"S": "a"}, "n": {"N": "1"}, **entries}}}
    assert update["Update"].items() >= {**conditioned, "Key": {**key, "sk": {"S": "b"}}}.items()
    assert update["Update"]["UpdateExpression"] == "SET #0 = if_not_exists(#0, :0) + :1"
    assert "ReturnValues" not in update["Update"]
    assert delete == {"Delete": {**conditioned, "Key": {**key, "sk": {"S": "c"}}}}
    assert check == {"ConditionCheck": {**conditioned, "Key": {**key, "sk": {"S": "d"}}}}
    assert always["ConditionCheck"]["ConditionExpression"] == "attribute_exists(#0) OR (NOT attribute_exists(#0))"


def test_refusals_are_reported_per_operation() -> None:
    item = {"pk": {"S": "p"}, "sk": {"S": "a"}, "n": {"N": "5"}}
    request = Transact((Put(A, {}), Delete(B), Update(C, (Increment(N, 1),)), Update(D, (Increment(N, 1),))))
    found, calls = sent(
        [
            cancelled(
                {"Code": "ConditionalCheckFailed", "Item": item},
                "None",
                {
                    "Code": "ValidationError",
                    "Message": "An operand in the update expression has an incorrect data type",
                },
                {"Code": "ValidationError", "Message": "Item size to update has exceeded the maximum allowed size"},
            )
        ],
        request,
    )
    assert len(calls) == 1
    first, second, third, fourth = found.reasons
    assert (first, second) == (Refused({"n": 5}), None)
    assert type(third) is BadValue
    assert type(fourth) is ItemTooLarge
    assert "Update on table 'shop', Key(partition='p', sort='c')" in str(third)
    assert sent([cancelled("None", "ConditionalCheckFailed")])[0] == Refusals((None, Refused()))
    assert sent([cancelled("TransactionConflict", "ConditionalCheckFailed")])[0] == Refusals((None, Refused()))


@pytest.mark.parametrize(
    "error",
    [
        LOST,
        CONFLICT,
        IN_PROGRESS,
        THROTTLED,
        cancelled("ThrottlingError", "None"),
        cancelled("ProvisionedThroughputExceeded", "TransactionConflict"),
        answered("InternalServerError", status=500),
        ConnectTimeoutError(endpoint_url="http://nowhere"),
    ],
)
def test_temporary_failures_are_retried_with_one_token(error: Exception) -> None:
    found, calls = sent([error, error, error, None])
    assert found == Written()
    assert len(calls) == 4
    assert len({call.kwargs["ClientRequestToken"] for call in calls}) == 1
    assert len(sent([error])[1]) == ATTEMPTS


def test_each_transaction_has_a_token_of_its_own() -> None:
    one, other = (sent([None])[1][0].kwargs["ClientRequestToken"] for _ in range(2))
    assert one != other


def test_permanent_failures_are_raised_at_once() -> None:
    for error, says in [
        (answered("AccessDeniedException"), "permissions"),
        (answered("ResourceNotFoundException"), r"store.create\(\)"),
        (cancelled("ItemCollectionSizeLimitExceeded"), "reason"),
        (cancelled("TransactionConflict", "ItemCollectionSizeLimitExceeded"), "reason"),
        (cancelled("None", {"Code": "ValidationError", "Message": "something new"}), "reason"),
    ]:
        found, calls = sent([error])
        assert type(found) in (BackendError, TableNotFound)
        assert len(calls) == 1
        with pytest.raises(BackendError, match=says):
            raise found


@pytest.mark.parametrize(
    "message",
    [
        "Transaction payload size cannot exceed 4MB. Payload Size: 4400056",
        (
            "Collection size of items exceeded, which can also be caused by the aggregate size of the items in the "
            "transaction exceeding the 4MB limit"
        ),
    ],
)
def test_a_transaction_over_4_mb_is_too_large(message: str) -> None:
    found, _ = sent([answered("ValidationException", message)])
    assert type(found) is ItemTooLarge
    assert "split the work into several transactions" in str(found)


def test_the_advice_is_that_of_the_reason() -> None:
    other_key = {"Code": "ValidationError", "Message": "The provided key element does not match the schema"}
    found, _ = sent([cancelled("None", other_key)])
    assert type(found) is BackendError
    assert "the key attributes of table 'shop' or of an index differ from those of the models" in str(found)
    assert "The provided key element does not match the schema" in str(found)


def test_items_with_lasting_conflicts_are_named() -> None:
    found, _ = sent([CONFLICT])
    assert type(found) is Throttled
    assert "nothing was written" in str(found)
    assert "Key(partition='p', sort='b') (TransactionConflict)" in str(found)
    assert found.__cause__ is CONFLICT
    assert type(sent([THROTTLED])[0]) is Throttled


@pytest.mark.parametrize("after", [THROTTLED, CONFLICT, answered("AccessDeniedException"), LOST, IN_PROGRESS])
def test_a_lost_response_determines_the_error(after: Exception) -> None:
    found, _ = sent([LOST, after])
    assert type(found) is OutcomeUnknown
    assert found.__cause__ is LOST
    assert "read the item before you write again" in str(found)


def test_a_response_after_a_lost_one_is_definite() -> None:
    assert sent([LOST, None])[0] == Written()
    assert sent([LOST, cancelled("None", "ConditionalCheckFailed")])[0] == Refusals((None, Refused()))


def test_an_old_token_is_not_sent_again(monkeypatch: pytest.MonkeyPatch) -> None:
    now = 1_000_000.0
    monkeypatch.setattr(time, "time", lambda: now)
    calls = 0

    def answer(native: Any) -> Any:
        nonlocal now, calls
        if isinstance(native, Call):
            calls, now = calls + 1, now + 200  # seconds to the timeout
            raise LOST

    with pytest.raises(OutcomeUnknown):
        run(DynamoDB().connect(SHOP).steps(TWO), answer)
    assert calls == 3


async def test_on_a_server(ask: Ask) -> None:
    await ask(CreateTables())
    await ask(Put(A, {"n": 1}))
    assert await ask(Transact((Update(A, (Increment(N, 1),)), Put(B, {"n": 5})))) == Written()
    is_two = Compare("=", N, Const(2))
    refused = await ask(Transact((Delete(A, is_two), Delete(B, is_two), Check(C, is_two))))
    assert refused == Refusals((None, Refused({"n": 5}), Refused(None)))
    assert await ask(Transact((Delete(A, is_two), Check(D)))) == Written()
    assert [await ask(Get(key)) for key in (A, B)] == [None, {"n": 5}]


def test_an_atomic_read_is_retried_while_writers_change_its_items() -> None:
    read = BatchGet((A, B), atomic=True)
    response = {"Responses": [{"Item": {"pk": {"S": "p"}, "sk": {"S": "a"}, "n": {"N": "1"}}}, {}]}
    calls: list[Call] = []
    failures: list[Exception] = [CONFLICT, CONFLICT]

    def answer(native: Any) -> Any:
        if isinstance(native, Sleep):
            return None
        calls.append(native)
        if failures:
            raise failures.pop()
        return response

    found = run(DynamoDB().connect(SHOP).steps(read), answer)
    assert [found[0]["n"], found[1]] == [1, None]
    assert [call.operation for call in calls] == ["transact_get_items"] * 3
    failures += [CONFLICT] * ATTEMPTS
    with pytest.raises(Throttled, match="other writers kept changing the items"):
        run(DynamoDB().connect(SHOP).steps(read), answer)
    failures[:] = [answered("AccessDeniedException")]
    with pytest.raises(BackendError, match="permissions"):
        run(DynamoDB().connect(SHOP).steps(read), answer)
