"""Lost responses over real sockets, sync and async: no write is lost or applied twice."""

import asyncio
from collections.abc import Callable, Iterator
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config

from odm import AsyncStore, OutcomeUnknown, Store, increment, set_
from odm.backends.dynamodb import DynamoDB
from odm.testing.bridge import blocking
from odm.testing.entities import Account, Tally, plain
from tests.backends.dynamodb.line import CUTS, Cut, Line, line_to

pytestmark = [pytest.mark.one_of(27, 3), pytest.mark.slow]


ANN, BOB = Account.primary(name="ann"), Account.primary(name="bob")
HITS = Tally.primary(name="t")
ALWAYS: list[Any] = 100 * ["closed"]


@pytest.fixture
def line(dynamodb_local: str) -> Iterator[Line]:
    with line_to(dynamodb_local) as line:
        yield line


@pytest.fixture
def session() -> boto3.Session:
    """A session with an account of its own."""
    return boto3.Session(uuid4().hex[:16], "secret", region_name="eu-west-1")


@pytest.fixture(params=["sync", "async"])
def db(request: pytest.FixtureRequest, line: Line, session: boto3.Session, transport: Any) -> Iterator[Store]:
    """A store behind the proxy, with an account and a tally."""
    backend = DynamoDB(session, endpoint_url=line.endpoint, transport=transport)
    with asyncio.Runner() as runner:
        asynchronous = request.param == "async"
        store = blocking(AsyncStore(plain, backend), runner) if asynchronous else Store(plain, backend)
        store.create()
        store.put(Account(name="ann", balance=100))
        store.put(Tally(name="t"))
        line.passed.clear()
        yield store
        line.cuts.clear()
        store.drop()
        store.close()


def transfer(db: Store) -> None:
    with db.transaction() as tx:
        tx.update(ANN, increment(Account.balance, -70))
        tx.insert(Account(name="bob", balance=70))


@pytest.mark.parametrize("cut", CUTS)
def test_a_write_that_must_not_happen_twice_is_sent_once(db: Store, line: Line, cut: Cut) -> None:
    done = cut != "before"
    for operation in ("PutItem", "UpdateItem", "DeleteItem"):
        line.cuts[operation] = [cut]
    for call in (
        lambda: db.insert(Account(name="bob")),
        lambda: db.update(HITS, increment(Tally.hits)),
        lambda: db.delete(ANN),
    ):
        with pytest.raises(OutcomeUnknown, match="read the item before you write again"):
            call()
    assert line.passed == (["PutItem", "UpdateItem", "DeleteItem"] if done else [])
    assert db.exists(BOB) is done
    assert db.one(HITS).hits == done
    assert db.exists(ANN) is not done


@pytest.mark.parametrize("cut", CUTS)
def test_a_merge_is_sent_again(db: Store, line: Line, cut: Cut) -> None:
    line.cuts["UpdateItem"] = [cut]
    db.merge(ANN, set_(Account.balance, 5))
    line.cuts["UpdateItem"] = [cut, cut]
    with db.batch() as batch:
        batch.merge(ANN, set_(Account.balance, 6))
        batch.merge(BOB, set_(Account.balance, 7))
    assert [account.balance for account in db.get_many([ANN, BOB]) if account] == [6, 7]


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("mode", ["legacy", "standard", "adaptive"])
def test_a_write_is_not_refused_because_of_its_own_effect(
    line: Line, session: boto3.Session, mode: Any, cut: Cut
) -> None:
    """Whatever retries are configured for botocore: sent again, each of these writes would be refused or repeated."""
    config = Config(retries={"mode": mode, "max_attempts": 5})
    with Store(plain, DynamoDB(session, endpoint_url=line.endpoint, config=config)) as db:
        db.create()
        calls: list[Callable[[], object]] = [
            lambda: db.insert(Account(name="bob")),
            lambda: db.put(Account(name="ann", balance=1), when=Account.balance == 100),
            lambda: db.update(ANN, increment(Account.balance), when=Account.balance == 100),
            lambda: db.delete(ANN, when=Account.balance == 100),
        ]
        for call in calls:
            db.delete(BOB)
            db.put(Account(name="ann", balance=100))
            line.passed.clear()
            line.cuts = {operation: [cut] for operation in ("PutItem", "UpdateItem", "DeleteItem")}
            with pytest.raises(OutcomeUnknown, match="read the item before you write again"):
                call()
            assert len(line.passed) == (cut != "before")
            line.cuts = {}
        db.put(Account(name="ann", balance=100))
        db.delete(BOB)
        line.cuts = {"TransactWriteItems": [cut]}
        transfer(db)  # under its token, DynamoDB applies it once
        assert [db.one(key).balance for key in (ANN, BOB)] == [30, 70]


@pytest.mark.parametrize("cut", CUTS)
def test_idempotent_requests_are_retried(db: Store, line: Line, cut: Cut) -> None:
    for operation in ("PutItem", "GetItem", "BatchGetItem", "Query"):
        line.cuts[operation] = [cut]
    db.put(Account(name="bob", balance=7))
    assert db.one(BOB).balance == 7
    assert [account.name for account in db.get_many([ANN, BOB]) if account] == ["ann", "bob"]
    assert db.count(BOB) == 1
    assert not any(line.cuts.values())


@pytest.mark.parametrize("cut", CUTS)
def test_a_batch_loses_nothing(db: Store, line: Line, cut: Cut) -> None:
    accounts = [Account(name=f"{n:03}", balance=n) for n in range(60)]
    line.cuts["BatchWriteItem"] = [None, cut, None, cut]
    with db.batch() as batch:
        for account in accounts:
            batch.put(account)
        batch.delete(ANN)
    assert sorted(db.scan(Account), key=lambda account: account.name) == accounts
    assert line.cuts["BatchWriteItem"] == []


@pytest.mark.parametrize("cut", CUTS)
@pytest.mark.parametrize("times", [1, 3])
def test_a_transaction_is_applied_once(db: Store, line: Line, cut: Cut, times: int) -> None:
    line.cuts["TransactWriteItems"] = [cut for _ in range(times)]
    transfer(db)
    assert [db.one(key).balance for key in (ANN, BOB)] == [30, 70]
    assert line.cuts["TransactWriteItems"] == []


@pytest.mark.parametrize("cut", CUTS)
def test_an_increment_that_is_safe_to_retry_counts_once(db: Store, line: Line, cut: Cut) -> None:
    for hits in (1, 2, 3):
        line.cuts["TransactWriteItems"] = [cut, cut]
        db.with_options(retry_safe=True).update(HITS, increment(Tally.hits))
        assert db.one(HITS).hits == hits
    assert "UpdateItem" not in line.passed


def test_a_safe_increment_detects_a_write_in_between(db: Store, line: Line, session: boto3.Session) -> None:
    with Store(plain, DynamoDB(session, endpoint_url=f"http://{line.service}")) as rival:
        line.meanwhile = lambda: rival.with_options(retry_safe=True).update(HITS, increment(Tally.hits, 10))
        line.cuts["TransactWriteItems"] = ["closed"]
        db.with_options(retry_safe=True).update(HITS, increment(Tally.hits))
    assert db.one(HITS).hits == 11


def test_a_transaction_whose_responses_are_all_lost_has_an_unknown_outcome(db: Store, line: Line) -> None:
    line.cuts["TransactWriteItems"] = ALWAYS
    with pytest.raises(OutcomeUnknown, match="read the item"):
        transfer(db.with_options(retries=2))
    assert line.passed == ["TransactWriteItems"] * 3
    assert [db.one(key).balance for key in (ANN, BOB)] == [30, 70]


def test_a_batch_whose_responses_are_all_lost_says_so(db: Store, line: Line) -> None:
    line.cuts["BatchWriteItem"] = ALWAYS
    with (
        pytest.raises(OutcomeUnknown, match=r"can safely be repeated; check the network"),
        db.with_options(retries=2).batch() as batch,
    ):
        batch.put(Account(name="bob"))
