"""The environment alone gives the lean transport what botocore would: settings, credentials, defaults, and TLS."""

import os
import sys
from pathlib import Path
from typing import Any

import pytest
from botocore.config import Config
from botocore.httpsession import DEFAULT_CA_BUNDLE, create_urllib3_context, get_cert_path
from moto import mock_aws

from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.client.clients import Settings
from odm.backends.dynamodb.client.routes import _DEFAULTS, Route, authorities, route_of, tls_context
from odm.backends.dynamodb.client.settings import environment_of
from odm.protocol.connection import perform
from odm.protocol.requests import CreateTables, Get, Put
from odm.schema.entity import Key
from odm.schema.model import Schema


@pytest.fixture
def alone(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> pytest.MonkeyPatch:
    """An environment without settings or files, in which botocore's session is as if it were not imported."""
    for name in [name for name in os.environ if name.startswith(("AWS_", "BOTO"))]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.delitem(sys.modules, "botocore.session")
    return monkeypatch


KEYS = {"AWS_ACCESS_KEY_ID": "key", "AWS_SECRET_ACCESS_KEY": "secret"}


@pytest.mark.parametrize("url", [None, "http://localhost:1"])
@pytest.mark.parametrize(
    "variables",
    [
        {"AWS_DEFAULT_REGION": "eu-west-3", "AWS_SESSION_TOKEN": "token", "AWS_ACCOUNT_ID": "123456789012"},
        {"AWS_DEFAULT_REGION": "eu-west-3", "AWS_SESSION_TOKEN": "", "AWS_ACCOUNT_ID": ""},
        {"AWS_DEFAULT_REGION": "eu-west-3", "AWS_REGION": "eu-west-1", "AWS_EXECUTION_ENV": "AWS_Lambda_python3.13"},
        {"AWS_REGION": "eu-west-1"},
        {"AWS_DEFAULT_REGION": ""},
        {"AWS_DEFAULT_REGION": "eu-west-3", "AWS_CA_BUNDLE": "/authorities", "AWS_SDK_UA_APP_ID": "shop"},
        {"AWS_DEFAULT_REGION": "eu-west-3", "AWS_CA_BUNDLE": "", "REQUESTS_CA_BUNDLE": "/authorities"},
        {"AWS_DEFAULT_REGION": "eu-west-3", "AWS_ENDPOINT_URL_DYNAMODB": "http://one.example"},
        {"AWS_DEFAULT_REGION": "eu-west-3", "AWS_ENDPOINT_URL": "http://all.example"},
    ],
)
@pytest.mark.parametrize("config", [None, Config(user_agent_extra="extra", read_timeout=3, max_pool_connections=50)])
def test_the_environment_alone_gives_the_route_of_botocores_session(
    variables: dict[str, str], url: str | None, config: Any, alone: pytest.MonkeyPatch
) -> None:
    for name, value in (KEYS | variables).items():
        alone.setenv(name, value)
    settings = Settings(endpoint_url=url, config=config)
    assert environment_of(None) is not None
    mine = route_of(settings)
    alone.undo()
    for name, value in (KEYS | variables).items():
        alone.setenv(name, value)
    alone.setenv("AWS_CONFIG_FILE", "/nowhere")
    alone.setenv("AWS_SHARED_CREDENTIALS_FILE", "/nowhere")
    for name in {"AWS_DEFAULT_REGION", "AWS_REGION", "AWS_SESSION_TOKEN"} - set(variables):
        alone.delenv(name, raising=False)
    assert environment_of(None) is None
    theirs = route_of(settings)
    if isinstance(mine, str) or isinstance(theirs, str):
        assert mine == theirs
        return
    assert mine.events is None
    same = [name for name in Route.__annotations__ if name not in ("events", "credentials")]
    assert {name: getattr(mine, name) for name in same} == {name: getattr(theirs, name) for name in same}
    one, other = (route.credentials().get_frozen_credentials() for route in (mine, theirs))
    for name in ("access_key", "secret_key", "token", "account_id"):
        assert getattr(one, name) == getattr(other, name)


@pytest.mark.parametrize("variables", [{}, {"AWS_ACCESS_KEY_ID": "key"}, {**KEYS, "AWS_SECURITY_TOKEN": "token"}])
def test_credentials_that_are_elsewhere_need_botocores_session(
    variables: dict[str, str], alone: pytest.MonkeyPatch
) -> None:
    for name, value in variables.items():
        alone.setenv(name, value)
    assert environment_of(None) is None
    for name, value in KEYS.items():
        alone.setenv(name, value)
    alone.delenv("AWS_SECURITY_TOKEN", raising=False)
    assert environment_of(None) is not None
    assert environment_of("shop") is None


def test_no_home_is_no_file(alone: pytest.MonkeyPatch) -> None:
    """As in a container whose user has no name, or may not read the folder."""
    for name, value in KEYS.items():
        alone.setenv(name, value)
    alone.delenv("HOME")

    def unknown(_: int) -> Any:
        raise KeyError

    alone.setattr("pwd.getpwuid", unknown)
    assert environment_of(None) is not None


def test_moto_answers_a_store_whose_settings_are_all_in_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """moto changes what new sessions of botocore do, so one is used where moto is imported."""
    for name, value in (KEYS | {"AWS_DEFAULT_REGION": "eu-west-1"}).items():
        monkeypatch.setenv(name, value)
    with mock_aws():  # inside: it changes variables too, and puts them back at its end
        connection = DynamoDB(transport="lean").connect(Schema("shop", {}, {}))
        perform(connection, CreateTables())
        perform(connection, Put(Key("p", "s"), {"n": 1}))
        assert perform(connection, Get(Key("p", "s"))) == {"n": 1}


def test_secrets_are_not_shown(alone: pytest.MonkeyPatch) -> None:
    for name, value in (KEYS | {"AWS_SESSION_TOKEN": "token"}).items():
        alone.setenv(name, value)
    environment = environment_of(None)
    assert environment is not None
    assert repr(environment.get_credentials()) == "Keys(access_key='key', account_id=None)"


def test_the_defaults_are_those_of_botocores_config() -> None:
    plain = Config()
    assert vars(_DEFAULTS) == {name: getattr(plain, name) for name in vars(_DEFAULTS)}


@pytest.mark.parametrize("log", ["", "/nowhere/keys"])
def test_tls_is_configured_as_botocore_does(log: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("SSLKEYLOGFILE", str(tmp_path / "keys") if log else "")
    mine, theirs = tls_context(), create_urllib3_context()
    for name in ("protocol", "options", "verify_mode", "verify_flags", "check_hostname", "post_handshake_auth"):
        assert getattr(mine, name) == getattr(theirs, name), name
    for name in ("minimum_version", "maximum_version", "keylog_filename", "security_level"):
        assert getattr(mine, name) == getattr(theirs, name), name
    assert mine.get_ciphers() == theirs.get_ciphers()


def test_the_authorities_are_those_of_botocore(monkeypatch: pytest.MonkeyPatch) -> None:
    assert authorities() == get_cert_path(True)
    monkeypatch.setitem(sys.modules, "certifi", None)
    assert authorities() == DEFAULT_CA_BUNDLE
