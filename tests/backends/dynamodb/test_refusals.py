"""A service that rejects requests, over real sockets, sync and async: a clear error each, and no repeated write."""

import asyncio
import json
import logging
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import boto3
import pytest

from odm import AsyncStore, BackendError, OdmError, Store, TableNotFound, Throttled, increment
from odm.backends.dynamodb import DynamoDB
from odm.results import RequestInfo
from odm.testing.bridge import blocking
from odm.testing.entities import Account, Tally, plain
from tests.backends.dynamodb.canned import Answer, Canned, serving

pytestmark = [pytest.mark.one_of(6), pytest.mark.slow]

ANN = Account.primary(name="ann")
HITS = Tally.primary(name="t")
SESSION = boto3.Session("key", "secret", region_name="eu-west-1")
RETRIES = 2


def transfer(db: Store) -> None:
    with db.transaction() as tx:
        tx.insert(Account(name="bob"))
        tx.update(HITS, increment(Tally.hits))


def fill(db: Store) -> None:
    with db.batch() as batch:
        batch.put(Account(name="ann"))
        batch.delete(HITS)


CALLS: dict[str, Callable[[Store], object]] = {
    "GetItem": lambda db: db.get(ANN),
    "BatchGetItem": lambda db: db.get_many([ANN, HITS]),
    "Query": lambda db: db.first(ANN),
    "Scan": lambda db: list(db.scan()),
    "PutItem": lambda db: db.put(Account(name="ann")),
    "UpdateItem": lambda db: db.update(HITS, increment(Tally.hits)),
    "DeleteItem": lambda db: db.delete(ANN),
    "BatchWriteItem": fill,
    "TransactWriteItems": transfer,
}


THROTTLED = b'{"__type": "com.amazonaws.dynamodb.v20120810#ThrottlingException", "message": "slow down"}'
TALLY = {"pk": {"S": "T#t"}, "sk": {"S": "T"}, "_t": {"S": "Tally"}, "name": {"S": "t"}, "hits": {"N": "1"}}
RIGHT: dict[str, Any] = {
    "BatchGetItem": {"Responses": {}, "UnprocessedKeys": {}},
    "Query": {"Items": [], "Count": 0, "ScannedCount": 0},
    "Scan": {"Items": [], "Count": 0, "ScannedCount": 0},
    "UpdateItem": {"Attributes": TALLY},
    "DeleteItem": {"Attributes": TALLY},
    "BatchWriteItem": {"UnprocessedItems": {}},
}
"""Responses to these operations; {} to the others."""


class Refusing:
    """Answers every request with one error, except the read of tags before a batch; or only so many with a failure."""

    def __init__(self) -> None:
        self.error: dict[str, Any] = {}
        self.failures = 0
        self.failure: Answer | None = None
        self.right: dict[str, Any] = {}
        self.batches = False
        self.first = True

    def answer(self) -> Answer:
        if self.batches and self.first:
            self.first = False
            return Answer(b'{"Responses": {"plain": []}, "UnprocessedKeys": {}}')
        if self.failure is None:
            return Answer(json.dumps(self.error).encode(), 400)
        self.failures -= 1
        return self.failure if self.failures >= 0 else Answer(json.dumps(self.right).encode())


@pytest.fixture
def refusing() -> Refusing:
    return Refusing()


@pytest.fixture
def server(refusing: Refusing) -> Iterator[Canned]:
    with serving(refusing.answer) as server:
        yield server


@pytest.fixture(params=["sync", "async"])
def asynchronous(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "async")


@contextmanager
def opened(backend: DynamoDB, asynchronous: bool, **options: Any) -> Iterator[Store]:
    """A store during the block."""
    with asyncio.Runner() as runner:
        if asynchronous:
            store = blocking(AsyncStore(plain, backend, retries=RETRIES, **options), runner)
        else:
            store = Store(plain, backend, retries=RETRIES, **options)
        yield store
        store.close()


@pytest.fixture
def db(server: Canned, asynchronous: bool, transport: Any) -> Iterator[Store]:
    with opened(DynamoDB(SESSION, endpoint_url=server.endpoint, transport=transport), asynchronous) as store:
        yield store


@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize(
    ("code", "kind", "says"),
    [
        ("AccessDeniedException", BackendError, "permissions on table 'plain'"),
        ("UnrecognizedClientException", BackendError, "check the credentials"),
        ("ExpiredTokenException", BackendError, "check the credentials"),
        (
            "ResourceNotFoundException",
            TableNotFound,
            r"not exist in this account and region: call store\.create\(\)",
        ),
    ],
)
def test_permanent_errors_are_raised_at_once(
    db: Store, server: Canned, refusing: Refusing, operation: str, code: str, kind: type[OdmError], says: str
) -> None:
    refusing.error = {"__type": f"com.amazonaws.dynamodb.v20120810#{code}", "message": "no"}
    refusing.batches = operation == "BatchWriteItem"
    with pytest.raises(kind, match=says) as caught:
        CALLS[operation](db)
    assert type(caught.value) is kind
    assert server.asked == [*["BatchGetItem"] * refusing.batches, operation]


@pytest.mark.parametrize("operation", CALLS)
@pytest.mark.parametrize(
    ("code", "member"),  # the names in botocore's service model
    [
        ("ThrottlingException", "throttlingReasons"),
        ("ProvisionedThroughputExceededException", "ThrottlingReasons"),
    ],
)
def test_throttled_requests_are_retried_as_often_as_configured(
    db: Store, server: Canned, refusing: Refusing, operation: str, code: str, member: str
) -> None:
    refusing.error = {
        "__type": f"com.amazonaws.dynamodb.v20120810#{code}",
        "message": "slow down",
        member: [{"reason": "TableWriteKeyRangeThroughputExceeded", "resource": "arn:of:the:table"}],
    }
    refusing.batches = operation == "BatchWriteItem"
    with pytest.raises(Throttled, match="TableWriteKeyRangeThroughputExceeded at arn:of:the:table") as caught:
        CALLS[operation](db)
    assert server.asked == [*["BatchGetItem"] * refusing.batches, *[operation] * (RETRIES + 1)]
    left = {"BatchGetItem": (ANN, HITS), "BatchWriteItem": (Account(name="ann"), HITS)}
    assert caught.value.left == left.get(operation, ())


async def test_another_region_has_no_such_table(dynamodb_local: str) -> None:
    here, there = (
        DynamoDB(boto3.Session("regions", "secret"), region=region, endpoint_url=dynamodb_local)
        for region in ("eu-west-1", "us-east-1")
    )
    with Store(plain, here) as db:
        db.create()
        assert db.get(ANN) is None
    with Store(plain, there) as db, pytest.raises(BackendError, match="in this account and region"):
        db.get(ANN)
    async with AsyncStore(plain, there) as asynchronous:
        with pytest.raises(BackendError, match="in this account and region"):
            await asynchronous.get(ANN)


@pytest.mark.parametrize(
    ("operation", "failure", "error"),
    [
        *((operation, Answer(THROTTLED, 400), "ThrottlingException") for operation in CALLS),
        *(
            (operation, Answer(b"", raw=b""), "ConnectionClosedError")
            for operation in sorted(CALLS.keys() - {"UpdateItem", "DeleteItem"})  # not sent again after a lost response
        ),
    ],
)
def test_every_attempt_is_reported(
    server: Canned,
    refusing: Refusing,
    operation: str,
    failure: Answer,
    error: str,
    asynchronous: bool,
    transport: Any,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """To the hook, the meters and the log, with its own time and error."""
    refusing.batches = operation == "BatchWriteItem"
    refusing.failures, refusing.failure, refusing.right = 2, failure, RIGHT.get(operation, {})
    sent: list[RequestInfo] = []
    backend = DynamoDB(SESSION, endpoint_url=server.endpoint, transport=transport)
    caplog.set_level(logging.DEBUG, "odm")
    with opened(backend, asynchronous, on_request=sent.append) as db, db.meter() as meter:
        CALLS[operation](db)
    sent = sent[refusing.batches :]
    assert server.asked == [*["BatchGetItem"] * refusing.batches, *[operation] * 3]
    assert [type(info.error).__name__ for info in sent] == [error, error, "NoneType"]
    assert len({id(info.error) for info in sent}) == 3
    assert all(info.seconds > 0 for info in sent)
    assert meter.calls == 3 + refusing.batches
    texts = [record.getMessage() for record in caplog.records]
    assert sum(f"failed ({error})" in text for text in texts) == 2
    assert sum("is retried in" in text for text in texts) == 2
    assert not [text for text in texts for secret in ("ann", "bob", "name", "hits") if secret in text]
