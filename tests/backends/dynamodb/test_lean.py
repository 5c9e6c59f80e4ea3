"""The lean transport does what botocore's client does, over real sockets; what it cannot do, botocore's client does."""

import asyncio
import json
import logging
import os
import ssl
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from email.utils import formatdate
from itertools import product
from pathlib import Path
from typing import Any, NamedTuple

import boto3
import pytest
from aiobotocore.config import AioConfig
from botocore.auth import SigV4Auth
from botocore.awsrequest import AWSRequest, AWSResponse
from botocore.client import BaseClient
from botocore.compat import HTTPHeaders
from botocore.config import Config
from botocore.credentials import Credentials, ReadOnlyCredentials, RefreshableCredentials
from hypothesis import given
from hypothesis import strategies as st
from moto import mock_aws

from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.client.clients import Settings, SyncClient
from odm.backends.dynamodb.client.endpoints import aws_endpoint
from odm.backends.dynamodb.client.routes import Route, route_of
from odm.backends.dynamodb.client.signing import CONTENT_TYPE, Signer
from odm.errors import BackendError, BadValue, Unsupported
from odm.protocol.connection import RetryPolicy, aperform, perform
from odm.protocol.requests import CreateTables, Get, Put
from odm.schema.entity import Key
from odm.schema.model import Schema
from tests.authority import make
from tests.backends.dynamodb.canned import Answer, Canned, serving

SHOP = Schema("shop", {}, {})
KEY = Key("p", "s")
ITEM = {"pk": {"S": "p"}, "sk": {"S": "s"}, "n": {"N": "1"}}
FOUND = Answer(json.dumps({"Item": ITEM}).encode())
THROTTLED = Answer(b'{"__type": "a#ThrottlingException", "message": "slow down"}', 400)
SKEWED = Answer(b'{"__type": "a#InvalidSignatureException", "message": "Signature expired"}', 400)


def session() -> boto3.Session:
    return boto3.Session("key", "secret", region_name="eu-west-1")


class Service(NamedTuple):
    """A service that sends the answers, and then finds the item."""

    server: Canned
    answers: list[Answer]


@pytest.fixture
def service() -> Iterator[Service]:
    """For calls over each of the HTTP libraries."""
    answers: list[Answer] = []
    with serving(lambda: answers.pop(0) if answers else FOUND) as server:
        yield Service(server, answers)


@pytest.fixture(params=["sync", "async"])
def asynchronous(request: pytest.FixtureRequest) -> bool:
    return bool(request.param == "async")


def ask(backend: DynamoDB, asynchronous: bool, times: int = 1, policy: RetryPolicy | None = None) -> list[Any]:
    """The results of gets through one connection."""
    connection = backend.connect(SHOP).with_retry_policy(policy or RetryPolicy())

    async def main() -> list[Any]:
        try:
            if asynchronous:
                return [await aperform(connection, Get(KEY)) for _ in range(times)]
            return [perform(connection, Get(KEY)) for _ in range(times)]
        finally:
            await connection.aclose()

    return asyncio.run(main())


TEXTS = st.text(st.characters(min_codepoint=33, max_codepoint=126), min_size=1, max_size=30)


@given(
    st.binary(max_size=300),
    st.builds(Credentials, TEXTS, TEXTS, st.none() | TEXTS),
    st.datetimes(datetime(2000, 1, 1), datetime(2090, 1, 1)),
    st.sampled_from(["eu-west-1", "us-gov-west-1"]),
)
def test_signatures_equal_botocores(body: bytes, credentials: Any, at: datetime, region: str) -> None:
    host = f"dynamodb.{region}.amazonaws.com"
    frozen = credentials.get_frozen_credentials()
    signed = Signer(host, region).headers("DynamoDB_20120810.GetItem", body, frozen, at.replace(tzinfo=UTC).timestamp())
    names = ("Content-Type", "X-Amz-Target")
    request = AWSRequest("POST", f"https://{host}/", headers={name: signed[name] for name in names}, data=body)
    request.context["timestamp"] = signed["X-Amz-Date"]
    signer = SigV4Auth(frozen, "dynamodb", region)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("botocore.auth.get_current_datetime", lambda *_, **__: at, raising=False)
        signer.add_auth(request)
    assert signed["X-Amz-Date"] == at.strftime("%Y%m%dT%H%M%SZ")
    assert signed["Authorization"] == request.headers["Authorization"]
    assert signed["Content-Type"] == CONTENT_TYPE


def test_a_signer_follows_the_clock_and_the_credentials() -> None:
    keys = [ReadOnlyCredentials(name, name, None) for name in ("a", "b")]
    signer = Signer("h", "r")
    for one, now in product(keys, (0.0, 0.5, 1.0, 90_000.0, 0.0)):
        assert signer.headers("t", b"", one, now) == Signer("h", "r").headers("t", b"", one, now)


VARIANTS = list(product((False, True), (False, True), ("", "123456789012")))


REGIONS = [
    region
    for partition in ("aws", "aws-cn", "aws-us-gov")
    for region in boto3.Session().get_available_regions("dynamodb", partition_name=partition)
]


@pytest.mark.one_of(24, 3)
@pytest.mark.parametrize("region", REGIONS)
@pytest.mark.parametrize(("fips", "dual_stack", "account"), VARIANTS)
def test_hosts_are_botocores(region: str, fips: bool, dual_stack: bool, account: str) -> None:
    keys = {"aws_account_id": account} if account else {}
    config = Config(use_fips_endpoint=fips, use_dualstack_endpoint=dual_stack)
    client = boto3.Session("a", "b", region_name=region, **keys).client("dynamodb", config=config)  # type: ignore[arg-type]
    urls: list[str] = []

    def note(request: Any, **_more: Any) -> AWSResponse:
        urls.append(request.url)
        return AWSResponse(request.url, 400, HTTPHeaders(), None)

    client.meta.events.register("before-send", note)
    with pytest.raises(Exception):  # noqa: B017, PT011  # the response has no body
        client.get_item(TableName="t", Key={})
    endpoint = aws_endpoint(region, fips=fips, dual_stack=dual_stack, accounts=True)
    assert endpoint is not None
    by_account = endpoint.for_account if account else ""
    assert urls[0] == f"{by_account.format(account=account) or endpoint.url}/"


def test_a_region_that_is_not_known() -> None:
    assert aws_endpoint("mars-north-1", fips=False, dual_stack=False, accounts=True) is None


def test_the_account_of_the_credentials_is_in_the_host() -> None:
    hosts: list[str] = []

    def note(request: Any, **_more: Any) -> AWSResponse:
        hosts.append(f"{request.url} {request.headers['Host']}")
        return _Answered(request.url)

    handler: Any = note

    for keys in ({"aws_account_id": "123456789012"}, {}):
        one = boto3.Session("a", "b", region_name="eu-west-1", **keys)  # type: ignore[arg-type]
        one.events.register("before-send.dynamodb.GetItem", handler)
        perform(DynamoDB(one).connect(SHOP), Get(KEY))
    plain, accounts = "dynamodb.eu-west-1.amazonaws.com", "123456789012.ddb.eu-west-1.amazonaws.com"
    assert hosts == [f"https://{accounts}/ {accounts}", f"https://{plain}/ {plain}"]


class _Answered(AWSResponse):
    def __init__(self, url: str) -> None:
        super().__init__(url, 200, HTTPHeaders(), None)

    @property
    def content(self) -> bytes:
        return FOUND.body


def test_a_wrong_clock_is_corrected(service: Service, asynchronous: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    hour = 3600
    skewed = SKEWED._replace(date=formatdate(time.time() + hour, usegmt=True))
    service.answers.append(skewed)
    assert ask(DynamoDB(session(), endpoint_url=service.server.endpoint), asynchronous, 2) == [{"n": 1}] * 2
    stamps = [headers["X-Amz-Date"] for headers, _ in service.server.received]
    first, *later = (datetime.strptime(stamp, "%Y%m%dT%H%M%SZ") for stamp in stamps)
    assert len(later) == 2
    assert all(abs(one - first - timedelta(seconds=hour)) < timedelta(minutes=10) for one in later)  # a busy machine


def test_a_wrong_signature_is_no_wrong_clock(service: Service, asynchronous: bool) -> None:
    service.answers.append(SKEWED._replace(date=formatdate(usegmt=True)))
    with pytest.raises(BackendError, match="check the credentials"):
        ask(DynamoDB(session(), endpoint_url=service.server.endpoint), asynchronous)
    assert len(service.server.received) == 1


def test_credentials_are_refreshed(service: Service, asynchronous: bool) -> None:
    made: list[str] = []

    def fresh() -> dict[str, str]:
        made.append(threading.current_thread().name)
        soon = datetime.now(UTC) + timedelta(seconds=1 if len(made) == 1 else 3600)
        keys = {"access_key": f"key{len(made)}", "secret_key": "s", "token": f"token{len(made)}"}
        return {**keys, "expiry_time": soon.isoformat()}

    one = session()
    credentials = RefreshableCredentials.create_from_metadata(fresh(), fresh, "test")
    one.get_credentials = lambda: credentials  # type: ignore[method-assign]
    ask(DynamoDB(one, endpoint_url=service.server.endpoint), asynchronous)
    [(headers, _)] = service.server.received
    assert "Credential=key2/" in headers["Authorization"]
    assert headers["X-Amz-Security-Token"] == "token2"
    assert made[1:] != ["MainThread"] or not asynchronous  # a refresh is I/O, which would block the event loop


def test_a_connection_that_the_server_closed_is_replaced(service: Service, asynchronous: bool) -> None:
    connections: set[Any] = set()
    finish = service.server.finish_request

    def note(request: Any, client_address: Any) -> None:
        connections.add(client_address)
        finish(request, client_address)

    service.server.finish_request = note  # type: ignore[method-assign]
    backend = DynamoDB(session(), endpoint_url=service.server.endpoint)
    ask(backend, asynchronous, 5)
    assert len(connections) == 1
    service.answers.extend([FOUND._replace(close=True), FOUND])
    ask(backend, asynchronous, 3)
    assert len(connections) == 3


def test_a_forked_process_opens_its_own_connections(service: Service) -> None:
    connection = DynamoDB(session(), endpoint_url=service.server.endpoint).connect(SHOP)
    assert perform(connection, Get(KEY)) == {"n": 1}
    child = os.fork()
    if child == 0:  # pragma: no cover
        os._exit(0 if perform(connection, Get(KEY)) == {"n": 1} else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert perform(connection, Get(KEY)) == {"n": 1}
    connection.close()


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make(tmp_path_factory.mktemp("tls"))


@pytest.fixture
def secure(service: Service, authority: Path) -> Service:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority / "cert.pem", authority / "key.pem")
    context.load_verify_locations(authority / "ca.pem")
    context.verify_mode = ssl.CERT_OPTIONAL
    server = service.server
    server.socket = context.wrap_socket(server.socket, server_side=True, do_handshake_on_connect=False)
    server.handle_error = lambda *_: None  # type: ignore[method-assign]  # refused handshakes
    server.endpoint = server.endpoint.replace("http://127.0.0.1", "https://localhost")
    return service


ONCE = RetryPolicy(retries=0)


def test_tls_is_verified(secure: Service, authority: Path, asynchronous: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    endpoint = secure.server.endpoint
    with pytest.raises(BackendError, match=r"(?i)certificate"):
        ask(DynamoDB(session(), endpoint_url=endpoint), asynchronous, policy=ONCE)
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority / "ca.pem"))
    assert ask(DynamoDB(session(), endpoint_url=endpoint), asynchronous) == [{"n": 1}]
    other = endpoint.replace("localhost", "127.0.0.1")  # which the certificate does not name
    with pytest.raises(BackendError, match=r"(?i)certificate|hostname"):
        ask(DynamoDB(session(), endpoint_url=other), asynchronous, policy=ONCE)
    assert len(secure.server.received) == 1


def test_a_client_certificate_is_sent(
    secure: Service, authority: Path, asynchronous: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    certificates: list[Any] = []
    finish = secure.server.finish_request

    def note(request: Any, client_address: Any) -> None:
        request.do_handshake()
        certificates.append(request.getpeercert())
        finish(request, client_address)

    secure.server.finish_request = note  # type: ignore[method-assign]
    monkeypatch.setenv("AWS_CA_BUNDLE", str(authority / "ca.pem"))
    cert_file, key_file, one_file = (authority / f"{name}.pem" for name in ("cert", "key", "both"))
    one_file.write_text(cert_file.read_text() + key_file.read_text())
    for cert in (None, (str(cert_file), str(key_file)), str(one_file)):
        backend = DynamoDB(session(), endpoint_url=secure.server.endpoint, config=Config(client_cert=cert))
        assert ask(backend, asynchronous) == [{"n": 1}]
    assert [bool(one) for one in certificates] == [False, True, True]


@pytest.mark.parametrize("options", [{"AWS_CA_BUNDLE": "/nowhere/ca.pem"}, {"client_cert": "/nowhere/cert.pem"}])
def test_certificates_that_cannot_be_read(
    secure: Service, asynchronous: bool, options: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    if "AWS_CA_BUNDLE" in options:
        monkeypatch.setenv("AWS_CA_BUNDLE", options["AWS_CA_BUNDLE"])
    config = Config(client_cert=options.get("client_cert"))
    backend = DynamoDB(session(), endpoint_url=secure.server.endpoint, config=config)
    with pytest.raises(BackendError):
        ask(backend, asynchronous, policy=ONCE)


async def test_a_call_on_connections_that_are_being_closed(service: Service) -> None:
    """No exception of asyncio reaches the user."""
    connection = DynamoDB(session(), endpoint_url=service.server.endpoint).connect(SHOP)
    for _ in range(20):
        calls = [asyncio.create_task(aperform(connection, Get(KEY))) for _ in range(5)]
        await asyncio.sleep(0)
        await connection.aclose()
        found = await asyncio.gather(*calls, return_exceptions=True)
        assert all(one == {"n": 1} or isinstance(one, BackendError) for one in found), found
    await connection.aclose()


@mock_aws
def test_moto_answers(asynchronous: bool) -> None:
    """Also async calls, which moto cannot mock in aiobotocore."""
    connection = DynamoDB(session()).connect(SHOP)
    perform(connection, CreateTables())
    perform(connection, Put(KEY, {"n": 1}))

    async def get() -> Any:
        try:
            return await aperform(connection, Get(KEY)) if asynchronous else perform(connection, Get(KEY))
        finally:
            await connection.aclose()

    assert asyncio.run(get()) == {"n": 1}


def test_handlers_of_before_send_see_and_change_requests(service: Service, asynchronous: bool) -> None:
    one = session()
    seen: list[Any] = []

    def add(request: Any, **_more: Any) -> None:
        seen.append((request.method, request.url, json.loads(request.body), request.headers["x-amz-target"]))
        request.headers["X-Shop"] = "1"
        request.url += "gateway?stage=1"

    one.events.register("before-send.dynamodb.GetItem", add)
    ask(DynamoDB(one, endpoint_url=service.server.endpoint), asynchronous)
    body = {"TableName": "shop", "Key": {"pk": {"S": "p"}, "sk": {"S": "s"}}, "ConsistentRead": True}
    assert seen == [("POST", f"{service.server.endpoint}/", body, "DynamoDB_20120810.GetItem")]
    assert service.server.received[0][0]["X-Shop"] == "1"
    assert service.server.paths == ["/gateway?stage=1"]


@pytest.mark.parametrize(
    ("options", "says"),
    [
        ({"config": Config(proxies={"http": "http://127.0.0.1:1"})}, "proxies"),
        ({"config": Config(retries={"mode": "adaptive"})}, "adaptive"),
        ({"config": Config(signature_version="v4a")}, "signature_version"),
        ({"config": Config(defaults_mode="standard")}, "defaults_mode"),  # type: ignore[arg-type]
        ({"config": Config(account_id_endpoint_mode="required"), "endpoint_url": None}, "required"),
        ({"config": Config(use_fips_endpoint=True)}, "FIPS"),
        ({"config": AioConfig(connector_args={"keepalive_timeout": 3})}, "connector_args"),
        ({"endpoint_url": "http://127.0.0.1:1/path"}, "more than a scheme and a host"),
        ({"endpoint_url": None, "region": "mars-north-1"}, "mars-north-1"),
        ({"session": boto3.Session("a", "b"), "endpoint_url": None}, "no region"),
    ],
)
def test_what_it_does_not_support_is_said(
    options: dict[str, Any], says: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("AWS_CONFIG_FILE", str(tmp_path / "none"))
    for name in ("AWS_DEFAULT_REGION", "AWS_REGION"):
        monkeypatch.delenv(name, raising=False)
    options = {"session": session(), "endpoint_url": "http://127.0.0.1:1", **options}
    route = route_of(Settings(**options))
    assert isinstance(route, str)
    assert says in route
    with pytest.raises(Unsupported, match="transport='lean' cannot be used"):
        perform(DynamoDB(**options, transport="lean").connect(SHOP), Get(KEY))


@pytest.mark.parametrize(
    ("variables", "says"),
    [
        ({"http_proxy": "http://127.0.0.1:1"}, "proxy"),
        ({"AWS_RETRY_MODE": "adaptive"}, "adaptive"),
        ({"AWS_DEFAULTS_MODE": "standard"}, "defaults_mode"),
        ({"AWS_CSM_ENABLED": "true"}, "csm_enabled"),
    ],
)
def test_so_are_variables_of_the_environment(
    variables: dict[str, str], says: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    route = route_of(Settings(session(), endpoint_url="http://db.example"))
    assert isinstance(route, str)
    assert says in route


def test_the_endpoint_and_options_of_the_profile(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    path = tmp_path / "config"
    path.write_text(
        "[profile shop]\nservices = mine\ntcp_keepalive = true\nregion = eu-west-3\nca_bundle = /authorities\n"
        "[services mine]\ndynamodb =\n  endpoint_url = http://profile.example:8000\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(path))
    monkeypatch.delenv("AWS_CA_BUNDLE", raising=False)
    for settings in (Settings(profile="shop"), Settings(boto3.Session(profile_name="shop"))):
        route = route_of(settings)
        assert isinstance(route, Route)
        assert route.endpoint.url == "http://profile.example:8000"
        assert (route.region, route.keepalive, route.ca_bundle) == ("eu-west-3", True, "/authorities")
    for name, url in (("AWS_ENDPOINT_URL", "http://all.example"), ("AWS_ENDPOINT_URL_DYNAMODB", "http://one.example")):
        monkeypatch.setenv(name, url)
        route = route_of(Settings(profile="shop"))
        assert isinstance(route, Route)
        assert route.endpoint.url == url
    options: dict[str, Any] = {"ignore_configured_endpoint_urls": True, "max_pool_connections": 5}
    config = Config(connect_timeout=3, read_timeout=4, **options)
    route = route_of(Settings(profile="shop", config=config))
    assert isinstance(route, Route)
    assert route.endpoint.url == "https://dynamodb.eu-west-3.amazonaws.com"
    assert (route.timeouts, route.connections) == ((3, 4), 5)


@pytest.mark.parametrize("section", ["", "[services mine]\ndynamodb = text\n"])
def test_a_profile_whose_services_are_not_there(section: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """botocore reports it; without an error, requests would go to AWS."""
    path = tmp_path / "config"
    path.write_text(f"[profile shop]\nservices = mine\nregion = eu-west-3\n{section}")
    monkeypatch.setenv("AWS_CONFIG_FILE", str(path))
    assert "services" in str(route_of(Settings(profile="shop")))


def test_the_region_of_the_session_precedes_that_of_the_config() -> None:
    """In both transports."""
    config = Config(region_name="us-west-2")
    endpoint = "http://localhost:1"
    for one, region in ((session(), "eu-west-1"), (boto3.Session("a", "b"), "us-west-2")):
        settings = Settings(one, endpoint_url=endpoint, config=config)
        route = route_of(settings)
        assert isinstance(route, Route)
        assert route.region == SyncClient(settings).get().meta.region_name == region


def test_handlers_of_other_events_are_called(service: Service, caplog: pytest.LogCaptureFixture) -> None:
    one = session()
    called: list[str] = []
    one.events.register("before-call.dynamodb.PutItem", lambda **_: called.append("call"))
    caplog.set_level(logging.INFO, "odm.dynamodb")
    service.answers.append(Answer(b"{}"))
    perform(DynamoDB(one, endpoint_url=service.server.endpoint).connect(SHOP), Put(KEY, {"n": 1}))
    assert called == ["call"]
    assert "handlers of the event before-call" in caplog.text


def test_a_library_that_instruments_the_client_sees_calls(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    """X-Ray and OpenTelemetry replace this method, possibly after the first call."""
    calls: list[str] = []
    original = BaseClient._make_api_call  # type: ignore[attr-defined]

    def traced(self: Any, operation_name: str, api_params: Any) -> Any:
        calls.append(operation_name)
        return original(self, operation_name, api_params)

    connection = DynamoDB(session(), endpoint_url=service.server.endpoint).connect(SHOP)
    assert perform(connection, Get(KEY)) == {"n": 1}
    assert calls == []
    monkeypatch.setattr(BaseClient, "_make_api_call", traced)
    assert perform(connection, Get(KEY)) == {"n": 1}
    assert calls == ["GetItem"]
    connection.close()


def test_the_trace_of_a_lambda_function_is_sent(service: Service, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_LAMBDA_FUNCTION_NAME", "shop")
    monkeypatch.setenv("_X_AMZN_TRACE_ID", "Root=1")
    ask(DynamoDB(session(), endpoint_url=service.server.endpoint), False)
    assert service.server.received[0][0]["X-Amzn-Trace-Id"] == "Root=1"


def test_an_unknown_transport_is_refused() -> None:
    with pytest.raises(BadValue, match="transport='grpc' is not known"):
        DynamoDB(transport="grpc")  # type: ignore[arg-type]


FIRST_GET = """
import sys

opened = []
sys.addaudithook(lambda event, args: opened.append(str(args[0])) if event == "open" else None)

from odm.backends.dynamodb import DynamoDB
from odm.protocol.connection import perform
from odm.protocol.requests import Get
from odm.schema.entity import Key
from odm.schema.model import Schema

found = perform(DynamoDB(endpoint_url=sys.argv[1]).connect(Schema("shop", {}, {})), Get(Key("p", "s")))
assert dict(found) == {"n": 1}, found
print([name for name in sys.argv[2:] if name in sys.modules], [path for path in opened if "/data/" in path])
"""
"""Prints which of the modules are loaded, and which of botocore's data files were read: models, rules, partitions."""

MACHINERY = (
    *("boto3", "aiobotocore", "aiohttp", "asyncio", "urllib3"),
    *("botocore.session", "botocore.client", "botocore.loaders"),
)


def first_get(service: Service, tmp_path: Path, **variables: str) -> str:
    keys = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret", "AWS_DEFAULT_REGION": "eu-west-1"}
    plain = {name: value for name, value in os.environ.items() if not name.startswith("AWS_")}
    done = subprocess.run(
        [sys.executable, "-c", FIRST_GET, service.server.endpoint, *MACHINERY],
        check=True,
        stdout=subprocess.PIPE,
        text=True,
        env={**plain, "HOME": str(tmp_path), "USERPROFILE": str(tmp_path), **keys, **variables},
    )
    return done.stdout.strip()


def test_a_first_get_loads_neither_boto3_nor_models_of_services(service: Service, tmp_path: Path) -> None:
    """As in a Lambda function: all settings are in the environment, so not even botocore's session is needed."""
    lambdas = {"AWS_REGION": "eu-west-1", "AWS_LAMBDA_FUNCTION_NAME": "shop", "AWS_XRAY_CONTEXT_MISSING": "LOG_ERROR"}
    assert first_get(service, tmp_path, **lambdas, AWS_SESSION_TOKEN="token") == "[] []"
    [(headers, _)] = service.server.received
    assert "Credential=key/" in headers["Authorization"]
    assert "/eu-west-1/dynamodb/" in headers["Authorization"]
    assert headers["X-Amz-Security-Token"] == "token"
    assert "lib/odm" in headers["User-Agent"]


@pytest.mark.one_of(4)
@pytest.mark.parametrize("name", ["AWS_PROFILE", "AWS_RETRY_MODE", "BOTOCORE_TCP_KEEPALIVE", "config", "credentials"])
def test_other_settings_are_read_by_botocores_session(service: Service, tmp_path: Path, name: str) -> None:
    """Which reads no model of a service either."""
    (tmp_path / ".aws").mkdir()
    variables = {"AWS_PROFILE": "default", "AWS_RETRY_MODE": "standard", "BOTOCORE_TCP_KEEPALIVE": "true"}
    if name not in variables or name == "AWS_PROFILE":
        (tmp_path / ".aws" / ("credentials" if name == "credentials" else "config")).write_text("[default]\n")
    given = {name: variables[name]} if name in variables else {}
    assert (
        first_get(service, tmp_path, **given)
        == "['urllib3', 'botocore.session', 'botocore.client', 'botocore.loaders'] []"
    )
