"""Timeouts and retries of a store and of single calls, on a service that stops responding."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import boto3
import pytest
from botocore.config import Config

from odm import AsyncStore, BackendError, OutcomeUnknown, Store, increment
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.client.clients import Settings, SyncClient
from odm.backends.dynamodb.client.native import backoff
from odm.backends.dynamodb.client.retry import ATTEMPTS, attempts_of, config_of
from odm.protocol.connection import RetryPolicy
from odm.testing.bridge import blocking
from odm.testing.entities import Account, Tally, plain
from tests.backends.dynamodb.line import Line, line_to

pytestmark = pytest.mark.one_of(6)

Open = Callable[..., Store]
ANN = Account.primary(name="ann")
HITS = Tally.primary(name="t")
SOON = 0.5  # seconds
SESSION = boto3.Session("key", "secret", region_name="eu-west-1")


@pytest.fixture
def line(endpoint: str) -> Iterator[Line]:
    with line_to(endpoint) as line:
        yield line


@pytest.fixture(params=["sync", "async"])
def open_store(request: pytest.FixtureRequest, line: Line, transport: Any) -> Iterator[Open]:
    """Opens stores on one table behind the proxy; the table has a tally."""
    session = boto3.Session(uuid4().hex[:16], "secret", region_name="eu-west-1")
    opened: list[Store] = []
    with asyncio.Runner() as runner:

        def open_store(config: Config | None = None, **options: Any) -> Store:
            backend = DynamoDB(session, endpoint_url=line.endpoint, config=config, transport=transport)
            if request.param == "sync":
                opened.append(Store(plain, backend, prefix=prefix, **options))
            else:
                opened.append(blocking(AsyncStore(plain, backend, prefix=prefix, **options), runner))
            return opened[-1]

        prefix = f"{uuid4().hex[:8]}-"
        first = open_store()
        first.create()
        first.put(Tally(name="t"))
        line.passed.clear()
        yield open_store
        line.cuts.clear()
        line.ended.set()
        for store in opened:
            store.close()


def silence(line: Line, *operations: str) -> None:
    """Requests for these operations get no response from now on."""
    for operation in operations:
        line.cuts[operation] = ["silent" for _ in range(100)]


def test_a_read_is_retried_as_often_as_configured(open_store: Open, line: Line) -> None:
    db = open_store(timeout=SOON, retries=2)
    silence(line, "GetItem")
    with pytest.raises(BackendError, match="check the network"):
        db.get(HITS)
    assert line.passed == ["GetItem"] * 3


def test_a_call_can_have_its_own_timeout_and_retries(open_store: Open, line: Line) -> None:
    db = open_store(timeout=60, retries=5)
    line.cuts = {"GetItem": ["silent", "closed", "closed"]}
    with pytest.raises(BackendError):
        db.with_options(timeout=SOON, retries=0).get(HITS)
    assert line.passed == ["GetItem"]
    assert db.one(HITS).hits == 0
    assert line.passed == ["GetItem"] * 4


def test_a_write_that_must_not_happen_twice_is_sent_once(open_store: Open, line: Line) -> None:
    db = open_store(timeout=SOON, retries=3)
    silence(line, "UpdateItem")
    with pytest.raises(OutcomeUnknown):
        db.update(HITS, increment(Tally.hits))
    assert line.passed == ["UpdateItem"]
    assert db.one(HITS).hits == 1


def test_a_transaction_is_retried(open_store: Open, line: Line) -> None:
    db = open_store().with_options(timeout=SOON, retries=2)
    silence(line, "TransactWriteItems")
    with pytest.raises(OutcomeUnknown), db.transaction() as tx:
        tx.put(Account(name="ann"))
    assert line.passed == ["TransactWriteItems"] * 3


def test_a_timeout_stays_where_only_the_retries_are_set(open_store: Open, line: Line) -> None:
    db = open_store(timeout=SOON).with_options(retries=0)
    silence(line, "Query")
    with pytest.raises(BackendError):
        db.first(HITS)
    assert line.passed == ["Query"]


def test_the_users_config_is_kept(open_store: Open, line: Line) -> None:
    config = Config(retries={"total_max_attempts": 2}, read_timeout=SOON)
    silence(line, "GetItem")
    with pytest.raises(BackendError):
        open_store(config).get(HITS)
    assert line.passed == ["GetItem"] * 2


def test_closing_one_closes_both(line: Line) -> None:
    db = Store(plain, DynamoDB(SESSION, endpoint_url=line.endpoint, transport="vendor"))
    twin = db.with_options(timeout=2.5)
    db.create()
    clients = db._session.connection._client  # type: ignore[attr-defined]
    assert twin.get(ANN) is None
    assert set(clients._clients) == {(None, "dynamodb"), (2.5, "dynamodb")}
    twin.close()
    assert clients._clients == {}
    for store in (db, twin):
        with pytest.raises(BackendError, match="was closed"):
            store.get(ANN)
    assert clients._clients == {}  # no new connections


@pytest.fixture
def nothing_said(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    """No retries are configured in the environment or in profiles; returns the path of the profiles' file."""
    for name in ("AWS_MAX_ATTEMPTS", "AWS_RETRY_MODE", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    return tmp_path / "config"


def attempts(config: Config | None = None, session: boto3.Session = SESSION, **policy: Any) -> int:
    return attempts_of(config, session, RetryPolicy(**policy))


@pytest.mark.usefixtures("nothing_said")
def test_default_retries_take_seconds() -> None:
    assert attempts() == attempts(Config(user_agent_extra="x")) == ATTEMPTS == 7


@pytest.mark.usefixtures("nothing_said")
def test_a_store_takes_precedence_over_the_config() -> None:
    assert attempts(Config(retries={"mode": "adaptive"}), retries=4) == 5
    assert attempts(Config(retries={"max_attempts": 9}), retries=0) == 1
    made = config_of(Config(read_timeout=7), 2.5)
    assert (made.connect_timeout, made.read_timeout) == (2.5, 2.5)  # type: ignore[attr-defined]
    made = config_of(Config(read_timeout=7), None)
    assert (made.connect_timeout, made.read_timeout) == (60, 7)  # type: ignore[attr-defined]


@pytest.mark.usefixtures("nothing_said")
@pytest.mark.parametrize("given", [{"mode": "adaptive"}, {"max_attempts": 9}, {"total_max_attempts": 4}, {}])
def test_botocore_sends_once_and_keeps_its_mode(given: Any) -> None:
    found: dict[str, Any] = config_of(Config(retries=given), None).retries  # type: ignore[attr-defined]
    assert found == {**given, "total_max_attempts": 1}


def test_what_is_configured_for_boto3_is_kept(nothing_said: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same numbers as in botocore."""
    assert attempts(Config(retries={"mode": "standard"})) == 3
    assert attempts(Config(retries={"mode": "adaptive"})) == 3
    assert attempts(Config(retries={"mode": "legacy"})) == 10
    assert attempts(Config(retries={"max_attempts": 4, "mode": "standard"})) == 5
    assert attempts(Config(retries={"max_attempts": 4, "total_max_attempts": 2})) == 2
    nothing_said.write_text(
        "[profile slow]\nmax_attempts = 9\n[profile plain]\nregion = eu-west-1\n"
        "[profile quick]\nretry_mode = standard\n"
    )
    assert attempts(session=boto3.Session(profile_name="slow")) == 9
    assert attempts(session=boto3.Session(profile_name="plain")) == ATTEMPTS
    assert attempts(session=boto3.Session(profile_name="quick")) == 3
    monkeypatch.setenv("AWS_RETRY_MODE", "standard")
    assert attempts() == attempts(session=boto3.Session()) == 3
    assert attempts(Config(retries={"mode": "legacy"})) == 10
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "5")
    assert attempts(session=boto3.Session()) == 5
    assert attempts(Config(retries={"max_attempts": 1}), session=boto3.Session()) == 2


def test_a_session_of_the_default_profile_ignores_that_in_the_environment(
    nothing_said: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    nothing_said.write_text("[default]\nregion = eu-west-1\n[profile slow]\nmax_attempts = 9\n")
    monkeypatch.setenv("AWS_PROFILE", "slow")
    assert attempts(session=boto3.Session()) == 9
    assert attempts(session=boto3.Session(profile_name="default")) == ATTEMPTS


def test_a_client_has_the_timeout_of_its_policy(endpoint: str) -> None:
    client = SyncClient(Settings(SESSION, endpoint_url=endpoint))
    quick, slow = client.get(1.0), client.get()
    assert client.get(1.0) is quick is not slow
    assert quick.meta.config.read_timeout == 1.0
    assert slow.meta.config.read_timeout == 60
    client.close()


def test_pauses_have_an_upper_bound() -> None:
    assert all(0 <= backoff(failures).seconds <= 5 for failures in (1, 100, 2000))
