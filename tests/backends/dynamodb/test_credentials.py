"""Credentials that cannot be loaded or refreshed: one error for all of them, and nothing is sent without them."""

import asyncio
import json
import shlex
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import boto3
import pytest
from botocore.credentials import RefreshableCredentials
from botocore.utils import ContainerMetadataFetcher

from odm.backends.dynamodb import DynamoDB
from odm.errors import BackendError
from odm.protocol.connection import RetryPolicy, aperform, perform
from odm.protocol.requests import Get, ListShards, Put, Request
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.backends.dynamodb.canned import Answer, Canned, serving

pytestmark = pytest.mark.one_of(4)

SHOP = Schema("shop", {}, {})
KEY = Key("p", "s")
TWICE = RetryPolicy(retries=1)
GONE = "2001-01-01T00:00:00Z"
HOUR = (datetime.now(UTC) + timedelta(hours=1)).strftime("%Y-%m-%dT%H:%M:%SZ")


class Sources:
    """Writes the configuration of AWS, and serves what the sources of credentials answer.

    Attributes:
        folder: where files are.
        answer: the response of every service of credentials.
        asked: the requests that they had.
    """

    def __init__(self, folder: Path, server: Canned, monkeypatch: pytest.MonkeyPatch) -> None:
        self.folder, self.endpoint, self._monkeypatch = folder, server.endpoint, monkeypatch
        self.server = server
        self.answer = Answer(b"{}")

    def config(self, text: str) -> "Sources":
        (self.folder / "config").write_text(f"[default]\nregion = eu-west-1\n{text}\n")
        return self

    def set(self, name: str, value: str) -> "Sources":
        self._monkeypatch.setenv(name, value)
        return self

    def process(self, output: str, code: int = 0) -> "Sources":
        note = f"pathlib.Path({str(self.folder / 'runs')!r}).open('a').write('x')"
        program = f"import pathlib, sys; {note}; print({output!r}); sys.exit({code})"
        (self.folder / "process.py").write_text(program)
        self.config(f"credential_process = {shlex.quote(sys.executable)} {self.folder}/process.py")
        return self

    def web_identity(self, token: str = "token") -> "Sources":
        (self.folder / "token").write_text(token)
        self.set("AWS_WEB_IDENTITY_TOKEN_FILE", str(self.folder / "token"))
        self.set("AWS_ROLE_ARN", "arn:aws:iam::123456789012:role/shop")
        self.set("AWS_ENDPOINT_URL_STS", self.endpoint)
        self.set("AWS_MAX_ATTEMPTS", "1")
        return self

    def container(self, answer: Answer) -> "Sources":
        self.answer = answer
        self.set("AWS_CONTAINER_CREDENTIALS_FULL_URI", f"{self.endpoint}/credentials")
        return self

    def says(self, answer: Answer) -> "Sources":
        self.answer = answer
        return self

    def forget_token(self) -> "Sources":
        (self.folder / "token").unlink()
        return self

    def metadata(self, answer: Answer) -> "Sources":
        self.answer = answer
        self._monkeypatch.delenv("AWS_EC2_METADATA_DISABLED")
        self.set("AWS_EC2_METADATA_SERVICE_ENDPOINT", self.endpoint)
        self.set("AWS_METADATA_SERVICE_NUM_ATTEMPTS", "1")
        return self


@pytest.fixture
def sources(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Sources]:
    for name in (
        "AWS_ACCESS_KEY_ID",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_SESSION_TOKEN",
        "AWS_PROFILE",
        "AWS_DEFAULT_REGION",
    ):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "config"))
    monkeypatch.setenv("AWS_SHARED_CREDENTIALS_FILE", str(tmp_path / "none"))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("HOME", str(tmp_path))
    # botocore's: a second after each of its own attempts, which are three for each attempt of odm.
    monkeypatch.setattr(ContainerMetadataFetcher, "SLEEP_TIME", 0)
    made: Sources
    with serving(lambda: made.answer) as server:
        made = Sources(tmp_path, server, monkeypatch)
        made.config("")
        yield made


@pytest.fixture(params=["lean", "vendor"])
def carrier(request: pytest.FixtureRequest) -> Any:
    return request.param


@pytest.fixture(params=["sync", "async"])
def asynchronous(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "async")


def json_text(**more: Any) -> str:
    return json.dumps({"Version": 1, "AccessKeyId": "a", "SecretAccessKey": "b", "SessionToken": "c", **more})


CASES: dict[str, Callable[[Sources], object]] = {
    "no source": lambda s: None,
    "a process that prints no JSON": lambda s: s.process("hello"),
    "a process that prints nothing": lambda s: s.process(""),
    "a process that fails": lambda s: s.process("{}", 3),
    "a process that prints a list": lambda s: s.process("[1]"),
    "a process without a key": lambda s: s.process('{"Version": 1, "AccessKeyId": "a"}'),
    "a process of another version": lambda s: s.process('{"Version": 9}'),
    "a process whose keys have expired": lambda s: s.process(json_text(Expiration=GONE)),
    "a process with a wrong date": lambda s: s.process(json_text(Expiration="soon")),
    "a process that is not there": lambda s: s.config("credential_process = /nowhere/at/all"),
    "a process with an open quote": lambda s: s.config("credential_process = '/nowhere"),
    "a web identity without its file": lambda s: (s.web_identity(), s.forget_token()),
    "a web identity that STS refuses": lambda s: (
        s.web_identity(),
        s.says(Answer(b"<Error><Code>AccessDenied</Code><Message>no</Message></Error>", 403)),
    ),
    "a web identity while STS is down": lambda s: (
        s.web_identity(),
        s.says(Answer(b"<html>busy</html>", 500)),
    ),
    "a web identity whose STS answers nonsense": lambda s: (s.web_identity(), s.says(Answer(b"hello"))),
    "a web identity without a connection": lambda s: (
        s.web_identity(),
        s.set("AWS_ENDPOINT_URL_STS", "http://127.0.0.1:9"),
    ),
    "SSO without a token": lambda s: s.config(
        "sso_start_url = https://sso.example\nsso_region = eu-west-1\nsso_account_id = 123456789012\n"
        "sso_role_name = shop"
    ),
    "SSO without its section": lambda s: s.config(
        "sso_session = none\nsso_account_id = 123456789012\nsso_role_name = shop"
    ),
    "a container that answers no JSON": lambda s: s.container(Answer(b"hello")),
    "a container without keys": lambda s: s.container(Answer(b"{}")),
    "a container that fails": lambda s: s.container(Answer(b"", 500)),
    "a container without its token file": lambda s: (
        s.container(Answer(b"{}")),
        s.set("AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE", str(s.folder / "nowhere")),
    ),
    "a container whose keys have expired": lambda s: s.container(
        Answer(json_text(Token="c", Expiration=GONE).encode())
    ),
    "a metadata service that answers nonsense": lambda s: s.metadata(Answer(b"{]")),
    "half of the keys": lambda s: s.set("AWS_ACCESS_KEY_ID", "a"),
    "a profile that is not there": lambda s: s.set("AWS_PROFILE", "nowhere"),
    "a role of a profile that is not there": lambda s: s.config(
        "role_arn = arn:aws:iam::123456789012:role/x\nsource_profile = nowhere"
    ),
    "a role of itself": lambda s: s.config(
        "role_arn = arn:aws:iam::123456789012:role/x\nsource_profile = other\n[profile other]\n"
        "role_arn = arn:aws:iam::123456789012:role/y\nsource_profile = default"
    ),
    "a source that is not known": lambda s: s.config(
        "role_arn = arn:aws:iam::123456789012:role/x\ncredential_source = Moon"
    ),
    "a damaged configuration": lambda s: (s.folder / "config").write_text("hello"),
}


def ask(connection: Any, asynchronous: bool, request: Request) -> Any:
    async def main() -> Any:
        try:
            return await aperform(connection, request) if asynchronous else perform(connection, request)
        finally:
            await connection.aclose()

    return asyncio.run(main())


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("request_", [Get(KEY), Put(KEY, {"n": 1}), ListShards()], ids=["get", "put", "changes"])
def test_credentials_that_cannot_be_had(
    sources: Sources, carrier: Any, asynchronous: bool, name: str, request_: Request
) -> None:
    """A write is not of unknown outcome: nothing was sent."""
    CASES[name](sources)
    backend = DynamoDB(endpoint_url="http://db.example:9", region="eu-west-1", transport=carrier)
    connection = backend.connect(SHOP).with_retry_policy(TWICE)
    with pytest.raises(BackendError) as caught:
        ask(connection, asynchronous, request_)
    assert type(caught.value) is BackendError
    assert isinstance(caught.value.__cause__, Exception)
    assert not isinstance(caught.value.__cause__, BackendError)
    assert "credentials" in str(caught.value) or "profile" in str(caught.value)


@pytest.mark.parametrize("passes", [True, False])
def test_what_may_pass_is_tried_again(sources: Sources, carrier: Any, asynchronous: bool, passes: bool) -> None:
    if passes:
        sources.process("hello")
    else:
        sources.config("credential_process = /nowhere/at/all")
    backend = DynamoDB(endpoint_url="http://db.example:9", region="eu-west-1", transport=carrier)
    connection = backend.connect(SHOP).with_retry_policy(RetryPolicy(retries=2))
    with pytest.raises(BackendError):
        ask(connection, asynchronous, Put(KEY, {"n": 1}))
    runs = sources.folder / "runs"
    assert (len(runs.read_text()) if runs.exists() else 0) == (3 if passes else 0)


@pytest.mark.parametrize("failure", [RuntimeError("no"), KeyError("AccessKeyId"), OSError("disk"), None])
def test_keys_that_cannot_be_refreshed(carrier: Any, asynchronous: bool, failure: Exception | None) -> None:
    """None: the fresh ones have expired too, which botocore reports as a RuntimeError."""
    tries: list[int] = []

    def refresh() -> dict[str, str]:
        tries.append(1)
        if failure is not None:
            raise failure
        return {"access_key": "a", "secret_key": "b", "token": "c", "expiry_time": "2001-01-01T00:00:00Z"}

    session = boto3.Session(region_name="eu-west-1")
    keys = RefreshableCredentials("a", "b", "c", datetime(2001, 1, 1, tzinfo=UTC), refresh, "test")
    session._session._credentials = keys  # type: ignore[attr-defined]
    with serving(lambda: Answer(b"{}")) as server:
        connection = DynamoDB(session, endpoint_url=server.endpoint, transport=carrier).connect(SHOP)
        with pytest.raises(BackendError) as caught:
            ask(connection.with_retry_policy(TWICE), asynchronous, Put(KEY, {"n": 1}))
        assert server.received == []
    assert type(caught.value) is BackendError
    assert type(caught.value.__cause__) is (RuntimeError if failure is None else type(failure))
    assert len(tries) >= 2


def test_keys_that_come_late(carrier: Any, asynchronous: bool) -> None:
    tries: list[int] = []

    def refresh() -> dict[str, str]:
        tries.append(1)
        if len(tries) < 3:
            raise RuntimeError("not yet")
        return {"access_key": "a", "secret_key": "b", "token": "c", "expiry_time": HOUR}

    session = boto3.Session(region_name="eu-west-1")
    keys = RefreshableCredentials("a", "b", "c", datetime(2001, 1, 1, tzinfo=UTC), refresh, "test")
    session._session._credentials = keys  # type: ignore[attr-defined]
    with serving(lambda: Answer(b"{}")) as server:
        connection = DynamoDB(session, endpoint_url=server.endpoint, transport=carrier).connect(SHOP)
        ask(connection, asynchronous, Put(KEY, {"n": 1}))
        assert server.asked == ["PutItem"]
