"""Every failure reaches the user as an error of odm that says what to do."""

import contextlib
import socket
import sys
from collections.abc import Iterator
from functools import partial
from typing import Any

import aiohttp
import boto3
import botocore.session
import pytest
from botocore.config import Config
from botocore.exceptions import (
    BotoCoreError,
    ChecksumError,
    ClientError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    IncompleteReadError,
    NoCredentialsError,
    NoRegionError,
    ParamValidationError,
    ProxyConnectionError,
    ReadTimeoutError,
)
from urllib3.connection import HTTPConnection
from urllib3.exceptions import NewConnectionError

from odm.backends.dynamodb import DynamoDB
from odm.errors import (
    BackendError,
    BadCursor,
    BadValue,
    ItemTooLarge,
    KeyValueError,
    OdmError,
    OutcomeUnknown,
    TableNotFound,
    Throttled,
    Unsupported,
)
from odm.expressions.nodes import Exists, Increment, Path
from odm.protocol.connection import aperform, perform, run
from odm.protocol.requests import (
    BatchGet,
    BatchWrite,
    CreateTables,
    Delete,
    DropTables,
    Get,
    Put,
    Query,
    Request,
    Scan,
    Sleep,
    Update,
)
from odm.schema.entity import Key
from odm.schema.model import IndexSchema, Schema
from tests.backends.dynamodb.conftest import Ask, described

SHOP = Schema(name="shop", entities={}, indexes={"by_email": IndexSchema("by_email", ())})
KEY = Key("C#1", "O#2")
EXISTS = Exists(Path(("_t",)))

REPEATABLE: list[Request] = [
    Get(KEY),
    BatchGet((KEY,)),
    Put(KEY, {}),
    BatchWrite((Delete(KEY),)),
    Query("p"),
    Scan(),
    CreateTables(),
    DropTables(),
]
ONCE: list[Request] = [
    Put(KEY, {}, condition=EXISTS),
    Delete(KEY),  # the response reports whether the item existed
    Delete(KEY, EXISTS),
    Update(KEY, (Increment(Path(("n",)), 1),)),
]


def answered(code: str, message: str = "no", status: int = 400, **more: Any) -> ClientError:
    response = {"Error": {"Code": code, "Message": message}, "ResponseMetadata": {"HTTPStatusCode": status}, **more}
    return ClientError(response, "Operation")  # type: ignore[arg-type]


def outcome(request: Request, error: Exception) -> OdmError:
    """The error that the user gets when every native request fails."""

    def fail(native: Any) -> Any:
        if not isinstance(native, Sleep):
            raise error

    with pytest.raises(OdmError) as caught:
        run(DynamoDB().connect(SHOP).steps(request), fail)
    assert caught.value.__cause__ is error
    return caught.value


@pytest.mark.parametrize(
    ("error", "expected", "says"),
    [
        (answered("ResourceNotFoundException"), TableNotFound, "'shop' does not exist .* call store.create()"),
        (answered("ValidationException", "Item size has exceeded the maximum allowed size"), ItemTooLarge, "400 KB"),
        (answered("ValidationException", "Item size to update has exceeded the maximum"), ItemTooLarge, "400 KB"),
        (answered("ValidationException", "Size of hashkey has exceeded"), KeyValueError, "2,048 bytes"),
        (answered("ValidationException", "Aggregated size of all range keys has"), KeyValueError, "1,024 bytes"),
        (answered("ValidationException", "The provided starting key is outside query boundaries"), BadCursor, "cursor"),
        (answered("ValidationException", "The document path provided in the update"), BadValue, "parent of the path"),
        (
            answered(
                "ValidationException",
                "Invalid FilterExpression: Expression size has exceeded the maximum allowed size;",
            ),
            BadValue,
            "fewer or smaller values",
        ),
        (answered("ValidationException", "An operand in the update has an incorrect data type"), BadValue, "the type"),
        (
            answered("ValidationException", "Attribute name is too large, must be less than 65536 bytes"),
            BadValue,
            "65,535 bytes",
        ),
        (answered("404", "<html>"), BackendError, "not from DynamoDB: check endpoint_url"),
        (answered("ValidationException", "something else"), BackendError, "something else"),
        (answered("ThrottlingException"), Throttled, "try again later"),
        (answered("ProvisionedThroughputExceededException"), Throttled, "spread the load"),
        (answered("RequestLimitExceeded"), Throttled, "try again later"),
        (answered("TransactionConflictException"), Throttled, "a transaction"),
        (answered("AccessDeniedException"), BackendError, "permissions on table 'shop'"),
        (answered("UnrecognizedClientException"), BackendError, "credentials"),
        (answered("NeverHeardOf"), BackendError, "NeverHeardOf"),
        (NoCredentialsError(), BackendError, "configure AWS credentials"),
        (NoRegionError(), BackendError, "region='eu-west-1'"),
        (ParamValidationError(report="odd"), BackendError, "odd"),
        (BotoCoreError(), BackendError, "shop"),
    ],
)
def test_errors_say_what_to_do(error: Exception, expected: type[OdmError], says: str) -> None:
    found = outcome(Put(KEY, {}), error)
    assert type(found) is expected
    assert found.args
    with pytest.raises(expected, match=says):
        raise found
    assert "Put on table 'shop', Key(partition='C#1', sort='O#2')" in str(found)


@pytest.mark.parametrize(
    "message",
    [
        "The provided key element does not match the schema",
        "One or more parameter values were invalid: Missing the key PK in the item",
        "Query condition missed key schema element: PK",
        "One of the required keys was not given a value",
        "The number of conditions on the keys is invalid",
        "Query key condition not supported",
        "One or more parameter values were invalid: Condition parameter type does not match schema type",
        "One or more parameter values were invalid: Type mismatch for key pk expected: N actual: S",
        "One or more parameter values were invalid: Type mismatch for Index Key gpk Expected: N Actual: S IndexName: g",
    ],
)
def test_a_table_with_another_key(message: str) -> None:
    found = outcome(Put(KEY, {}), answered("ValidationException", message))
    assert type(found) is BackendError
    assert "the key attributes of table 'shop' or of an index differ from those of the models (run odm plan)" in str(
        found
    )
    assert "Table(..., keys=..., index_keys=...)" in str(found)


def test_a_page_of_html_is_cut() -> None:
    found = outcome(Get(KEY), answered("404", "<html>\n" * 1_000))
    assert len(str(found)) < 500
    assert "\n" not in str(found)


@pytest.mark.parametrize(
    "error",
    [
        answered("ValidationException", "The table does not have the specified index: by_email"),
        answered("ResourceNotFoundException", "Invalid index: by_email for table: shop. Available indexes are: "),
    ],
)
def test_a_missing_index_is_not_a_missing_table(error: Exception) -> None:
    found = outcome(Query("E#a", index="by_email"), error)
    assert type(found) is BackendError
    assert "Query on table 'shop': index 'by_email' of table 'shop' does not exist: call store.create()" in str(found)


UNSENT = [
    ConnectTimeoutError(endpoint_url="http://nowhere"),
    ProxyConnectionError(proxy_url="http://nowhere"),
    EndpointConnectionError(endpoint_url="http://nowhere", error=socket.gaierror()),
    EndpointConnectionError(
        endpoint_url="http://nowhere", error=NewConnectionError(HTTPConnection("nowhere"), "refused")
    ),
]
LOST = [
    # aiobotocore raises this when an open connection breaks.
    EndpointConnectionError(endpoint_url="http://nowhere", error=aiohttp.ClientOSError(104, "reset")),
    EndpointConnectionError(endpoint_url="http://nowhere"),
    ChecksumError(checksum_type="crc32", expected_checksum="1", actual_checksum="2"),
    IncompleteReadError(actual_bytes=1, expected_bytes=2),
    ReadTimeoutError(endpoint_url="http://nowhere"),
    HTTPClientError(error="reset"),
    answered("InternalServerError", status=500),
    answered("503", status=503),
]


@pytest.mark.parametrize("error", LOST)
@pytest.mark.parametrize("request_", REPEATABLE)
def test_a_lost_response_to_an_idempotent_request_says_whether_it_writes(request_: Request, error: Exception) -> None:
    found = outcome(request_, error)
    if isinstance(request_, Put | BatchWrite):
        assert type(found) is OutcomeUnknown
        assert "can safely be repeated" in str(found)
    else:
        assert type(found) is BackendError


@pytest.mark.parametrize("error", LOST)
@pytest.mark.parametrize("request_", ONCE)
def test_a_lost_response_to_any_other_write_is_an_unknown_outcome(request_: Request, error: Exception) -> None:
    found = outcome(request_, error)
    assert type(found) is OutcomeUnknown
    assert "read the item before you write again" in str(found)


@pytest.mark.parametrize("error", UNSENT)
@pytest.mark.parametrize("request_", REPEATABLE + ONCE)
def test_a_request_that_was_never_sent_has_a_known_outcome(request_: Request, error: Exception) -> None:
    assert type(outcome(request_, error)) is BackendError


def sent(request: Request, errors: list[Exception]) -> list[bool]:
    """Send a request that fails with these errors; returns the ``once`` of each native request."""
    left, seen = iter(errors), []

    def answer(native: Any) -> Any:
        if isinstance(native, Sleep):
            return None
        seen.append(native.once)
        error = next(left, None)
        if error is not None:
            raise error
        return {}

    with contextlib.suppress(OdmError):
        run(DynamoDB().connect(SHOP).steps(request), answer)
    return seen


@pytest.mark.parametrize("request_", ONCE)
def test_a_write_that_is_not_idempotent_is_retried_only_if_it_had_no_effect(request_: Request) -> None:
    for error in (*UNSENT, answered("ThrottlingException"), answered("TransactionConflictException")):
        assert sent(request_, [error] * 2) == [True] * 3
        assert sent(request_, [error] * 9) == [True] * 7
    for error in (*LOST, answered("AccessDeniedException"), NoCredentialsError()):
        assert sent(request_, [error]) == [True]
    assert sent(request_, [answered("ThrottlingException"), LOST[0]]) == [True] * 2


@pytest.mark.parametrize("request_", REPEATABLE[:-2])
def test_an_idempotent_request_is_retried_if_its_response_was_lost_too(request_: Request) -> None:
    for error in (*UNSENT, *LOST, answered("ThrottlingException")):
        assert sent(request_, [error] * 2)[:3] == [False] * 3
        assert sent(request_, [error] * 9) == [False] * 7
    for refusal in (answered("AccessDeniedException"), NoCredentialsError(), answered("404", "<html>", 404)):
        assert sent(request_, [refusal]) == [False]


@pytest.mark.parametrize("request_", [Put(KEY, {}), BatchWrite((Delete(KEY),))])
@pytest.mark.parametrize("lost", LOST)
@pytest.mark.parametrize(
    "last",
    [
        answered("ThrottlingException"),
        answered("AccessDeniedException"),
        answered("ConditionalCheckFailedException"),  # another program may have replaced the item since
        answered("ValidationException"),
        UNSENT[0],
    ],
)
def test_a_refused_attempt_does_not_deny_an_earlier_one_whose_response_was_lost(
    request_: Request, lost: Exception, last: Exception
) -> None:
    failures = iter([lost])

    def answer(native: Any) -> Any:
        if not isinstance(native, Sleep):
            raise next(failures, last)

    with pytest.raises(OutcomeUnknown, match="can safely be repeated") as caught:
        run(DynamoDB().connect(SHOP).steps(request_), answer)
    assert caught.value.__cause__ is lost


def test_a_read_reports_its_last_failure() -> None:
    failures = iter([LOST[0], answered("AccessDeniedException")])

    def answer(native: Any) -> Any:
        if not isinstance(native, Sleep):
            raise next(failures)

    with pytest.raises(BackendError, match="permissions"):
        run(DynamoDB().connect(SHOP).steps(Get(KEY)), answer)


@pytest.mark.parametrize("request_", [Put(KEY, {}), BatchWrite((Delete(KEY),)), *ONCE])
@pytest.mark.parametrize("code", ["TransactionConflictException", "ReplicatedWriteConflictException"])
def test_a_conflict_with_a_transaction_is_retried(request_: Request, code: str) -> None:
    assert len(sent(request_, [answered(code)] * 3)) == 4
    found = outcome(request_, answered(code))
    assert type(found) is Throttled
    assert getattr(found, "left", ()) == getattr(request_, "operations", ())


@pytest.mark.parametrize("request_", REPEATABLE + ONCE)
@pytest.mark.parametrize("error", [answered("ThrottlingException"), answered("AccessDeniedException"), BotoCoreError()])
def test_no_native_error_gets_through(request_: Request, error: Exception) -> None:
    outcome(request_, error)


def test_throttling_names_the_throttled_resource() -> None:
    reasons = [{"reason": "TableWriteKeyRangeThroughputExceeded", "resource": "arn:aws:dynamodb:eu:1:table/shop"}]
    found = outcome(Put(KEY, {}), answered("ThrottlingException", ThrottlingReasons=reasons))
    assert "TableWriteKeyRangeThroughputExceeded at arn:aws:dynamodb:eu:1:table/shop" in str(found)


def test_a_throttled_batch_says_what_is_left() -> None:
    found = outcome(BatchGet((KEY, Key("C#2"))), answered("ProvisionedThroughputExceededException"))
    assert isinstance(found, Throttled)
    assert found.left == (KEY, Key("C#2"))
    assert "2 of 2 operations" in str(found)
    assert "The 2 left are in .left of this error" in str(found)


def test_other_exceptions_are_not_translated() -> None:
    def fail(_native: Any) -> Any:
        raise KeyError("ours")

    with pytest.raises(KeyError, match="ours"):
        run(DynamoDB().connect(SHOP).steps(Get(KEY)), fail)


def test_creation_continues_with_a_table_that_exists_or_is_not_visible_yet() -> None:
    answers: Iterator[Any] = iter(
        [
            answered("ResourceNotFoundException"),
            answered("ResourceInUseException"),
            answered("ResourceNotFoundException"),
            described("ACTIVE", by_email="ACTIVE"),
        ]
    )
    pauses: list[Any] = []

    def answer(native: Any) -> Any:
        if not hasattr(native, "operation"):
            return pauses.append(native)
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    run(DynamoDB().connect(SHOP).steps(CreateTables()), answer)
    assert len(pauses) == 1


def test_a_table_that_is_being_created_is_removed_when_it_is_ready() -> None:
    answers: Iterator[Any] = iter(
        [
            answered("ResourceInUseException"),
            {},
            {"Table": {"TableStatus": "DELETING"}},
            answered("ResourceNotFoundException"),
        ]
    )
    calls: list[str] = []

    def answer(native: Any) -> Any:
        if not hasattr(native, "operation"):
            return None
        calls.append(native.operation)
        found = next(answers)
        if isinstance(found, Exception):
            raise found
        return found

    run(DynamoDB().connect(SHOP).steps(DropTables()), answer)
    assert calls == ["delete_table", "delete_table", "describe_table", "describe_table"]


def test_waiting_for_a_table_ends_with_an_error() -> None:
    def reply(answer: Any, native: Any) -> Any:
        return {"Items": []} if getattr(native, "operation", None) == "scan" else answer

    for answer, says in [
        (described("CREATING", by_email="CREATING"), "table 'shop' is still CREATING after 1203 seconds"),
        (described("ACTIVE", by_email="CREATING"), "index 'by_email' of table 'shop' is still CREATING after"),
        (described("ACTIVE"), "index 'by_email' of table 'shop' is still absent after"),
    ]:
        with pytest.raises(BackendError, match=says):
            run(DynamoDB().connect(SHOP).steps(CreateTables()), partial(reply, answer))
    with pytest.raises(BackendError, match="still DELETING after 602 seconds"):
        run(DynamoDB().connect(SHOP).steps(DropTables()), lambda _native: described("DELETING"))


async def test_a_table_that_was_not_created(send: Ask) -> None:
    for request in (Get(KEY), Put(KEY, {}), Update(KEY, ()), Query("p"), BatchGet((KEY,)), BatchWrite((Delete(KEY),))):
        with pytest.raises(BackendError, match=r"call store\.create\(\)"):
            await send(request)


async def test_an_unreachable_service() -> None:
    session = boto3.Session("key", "secret", region_name="eu-west-1")
    config = Config(retries={"total_max_attempts": 1}, connect_timeout=2)
    connection = DynamoDB(session, endpoint_url="http://127.0.0.1:9", config=config).connect(SHOP)
    with pytest.raises(BackendError, match="endpoint_url"):
        perform(connection, Get(KEY))
    with pytest.raises(BackendError, match="endpoint_url"):
        await aperform(connection, Get(KEY))
    with pytest.raises(BackendError, match="endpoint_url"):  # nothing was sent, so the outcome is known
        perform(connection, Put(KEY, {}, condition=EXISTS))
    with pytest.raises(BackendError, match="endpoint_url"):
        await aperform(connection, Put(KEY, {}, condition=EXISTS))
    await connection.aclose()


def test_an_endpoint_that_is_not_a_url() -> None:
    with pytest.raises(BadValue, match="endpoint_url='localhost:8000'"):
        DynamoDB(endpoint_url="localhost:8000")


def test_wrong_types_of_session_and_config() -> None:
    with pytest.raises(BadValue, match=r"is a str, not a boto3.Session: write DynamoDB\(endpoint_url="):
        DynamoDB("http://localhost:8000")  # type: ignore[arg-type]
    with pytest.raises(BadValue, match=r"is a Session, not a boto3.Session"):
        DynamoDB(botocore.session.Session())  # type: ignore[arg-type]
    with pytest.raises(BadValue, match=r"is a dict, not a botocore.config.Config"):
        DynamoDB(config={"retries": 3})  # type: ignore[arg-type]


@pytest.fixture
def no_settings(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("AWS_REGION", "AWS_DEFAULT_REGION", "AWS_PROFILE", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.delenv(name, raising=False)
    for name in ("AWS_CONFIG_FILE", "AWS_SHARED_CREDENTIALS_FILE"):
        monkeypatch.setenv(name, "/nonexistent")
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")


@pytest.mark.usefixtures("no_settings")
async def test_a_missing_region_or_missing_credentials() -> None:
    for backend, says in [
        (DynamoDB(), "name the AWS region"),
        (DynamoDB(region="eu-west-1", endpoint_url="http://db.example:9"), "configure AWS credentials"),
    ]:
        connection = backend.connect(SHOP)
        with pytest.raises(BackendError, match=says):
            perform(connection, Get(KEY))
        with pytest.raises(BackendError, match=says):
            await aperform(connection, Get(KEY))
        await connection.aclose()


async def test_packages_that_are_not_installed(monkeypatch: pytest.MonkeyPatch) -> None:
    connection = DynamoDB(boto3.Session("key", "secret", region_name="eu-west-1")).connect(SHOP)
    monkeypatch.delitem(sys.modules, "odm.backends.dynamodb.client.sessions", raising=False)
    monkeypatch.setitem(sys.modules, "aiobotocore.credentials", None)
    monkeypatch.setitem(sys.modules, "httptools", None)
    with pytest.raises(Unsupported, match=r"pip install 'single-table-odm\[async\]'"):
        await aperform(connection, Get(KEY))
    monkeypatch.setitem(sys.modules, "botocore.session", None)
    with pytest.raises(Unsupported, match=r"pip install 'single-table-odm\[dynamodb\]'"):
        perform(DynamoDB().connect(SHOP), Get(KEY))
