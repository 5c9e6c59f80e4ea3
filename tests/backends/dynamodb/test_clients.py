"""Sync and async clients use the user's session, region, endpoint and config."""

import asyncio
import gc
import os
import re
import threading
import weakref
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import Any

import boto3
import botocore.session
import pytest
from aiobotocore.config import AioConfig
from botocore.config import Config
from botocore.credentials import RefreshableCredentials
from botocore.exceptions import NoCredentialsError, ParamValidationError

from odm.backends.dynamodb.client.clients import AsyncClients, Settings, SyncClient


class BothClients:
    """Records one request each of the sync and the async client."""

    def __init__(self) -> None:
        self.closing: list[Any] = []

    async def sent(self, settings: Settings) -> list[Any]:
        """The requests that the sync and the async client send to the service."""
        requests: list[Any] = []

        def note(request: Any, **_more: Any) -> None:
            requests.append(request)

        sync, asynchronous = SyncClient(settings), AsyncClients(settings)
        self.closing += [sync, asynchronous]
        sync.get().meta.events.register("before-send.dynamodb", note)
        sync.get().list_tables()
        client = await asynchronous.get()
        client.meta.events.register("before-send.dynamodb", note)
        await client.list_tables()
        assert len(requests) == 2
        return requests


@pytest.fixture
async def both() -> AsyncIterator[BothClients]:
    both = BothClients()
    yield both
    for client in both.closing:
        if isinstance(client, AsyncClients):
            await client.aclose()
        else:
            client.close()


def _signer(request: Any) -> str:
    """The access key and region of a signed request."""
    authorization = request.headers["Authorization"]
    text = authorization.decode() if isinstance(authorization, bytes) else authorization
    found = re.search(r"Credential=([^/]+)/\d+/([^/]+)/", text)
    assert found is not None
    return f"{found[1]} in {found[2]}"


async def test_the_session_given(both: BothClients, endpoint: str) -> None:
    session = boto3.Session("mine", "secret", region_name="eu-west-1")
    sent = await both.sent(Settings(session, endpoint_url=endpoint))
    assert [_signer(request) for request in sent] == ["mine in eu-west-1"] * 2


async def test_the_region_and_config_given(both: BothClients, endpoint: str) -> None:
    session = boto3.Session("mine", "secret", region_name="eu-west-1")
    settings = Settings(session, "us-west-2", endpoint, Config(user_agent_extra="shop/1"))
    sent = await both.sent(settings)
    assert [_signer(request) for request in sent] == ["mine in us-west-2"] * 2
    assert all("shop/1" in str(request.headers["User-Agent"]) for request in sent)


async def test_the_users_config_takes_precedence_over_cheaper_defaults(
    both: BothClients, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("AWS_SDK_UA_APP_ID", "till")
    session = boto3.Session("mine", "secret", region_name="eu-west-1")

    async def agents(config: Config | None) -> list[str]:
        sent = await both.sent(Settings(session, endpoint_url=endpoint, config=config))
        agents = [request.headers["User-Agent"] for request in sent]
        return [agent.decode() if isinstance(agent, bytes) else agent for agent in agents]

    assert all("Botocore/" in agent and "lib/odm app/till" in agent for agent in await agents(None))
    named = Config(user_agent_appid="shop")  # type: ignore[call-arg]  # the stubs do not know it
    assert all("app/shop" in agent for agent in await agents(named))
    assert all(agent.startswith("mine/1") for agent in await agents(Config(user_agent="mine/1")))
    careful = SyncClient(Settings(session, endpoint_url=endpoint, config=Config(parameter_validation=True))).get()
    with pytest.raises(ParamValidationError):
        careful.describe_table()
    other = AsyncClients(
        Settings(session, endpoint_url=endpoint, config=AioConfig(connector_args={"keepalive_timeout": 3}))
    )
    assert (await other.get()).meta.config.connector_args == {"keepalive_timeout": 3}
    await other.aclose()


async def test_a_profile(both: BothClients, endpoint: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "config"
    file.write_text(
        f"[profile shop]\nregion = eu-north-1\nendpoint_url = {endpoint}\n"
        "aws_access_key_id = profiled\naws_secret_access_key = secret\n"
    )
    monkeypatch.setenv("AWS_CONFIG_FILE", str(file))
    for settings in (Settings(boto3.Session(profile_name="shop")), Settings(profile="shop")):
        sent = await both.sent(settings)
        assert [_signer(request) for request in sent] == ["profiled in eu-north-1"] * 2
        assert all(request.url.startswith(endpoint) for request in sent)


async def test_what_the_environment_says(both: BothClients, endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "surroundings")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    monkeypatch.setenv("AWS_DEFAULT_REGION", "eu-south-1")
    monkeypatch.setenv("AWS_ENDPOINT_URL_DYNAMODB", endpoint)
    sent = await both.sent(Settings())
    assert [_signer(request) for request in sent] == ["surroundings in eu-south-1"] * 2


@pytest.fixture
def nothing_configured(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """No AWS configuration: no environment variables, files or metadata service."""
    for name in [name for name in os.environ if name.startswith("AWS_")]:
        monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("USERPROFILE", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")  # the test machine may have a metadata service


@pytest.mark.usefixtures("nothing_configured")
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_a_service_on_this_machine_needs_no_configuration(both: BothClients, endpoint: str, host: str) -> None:
    sent = await both.sent(Settings(endpoint_url=endpoint.replace("127.0.0.1", host)))
    assert [_signer(request) for request in sent] == ["local in us-east-1"] * 2


@pytest.mark.usefixtures("nothing_configured")
async def test_configured_credentials_are_also_used_on_this_machine(
    both: BothClients, endpoint: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    sent = await both.sent(Settings(region="eu-west-1", endpoint_url=endpoint))
    assert [_signer(request) for request in sent] == ["local in eu-west-1"] * 2
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "surroundings")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    sent = await both.sent(Settings(endpoint_url=endpoint))
    assert [_signer(request) for request in sent] == ["surroundings in us-east-1"] * 2


@pytest.mark.usefixtures("nothing_configured")
@pytest.mark.parametrize(
    "url", [None, "http://db.example:8000", "http://localhost.example:8000", "http://10.0.0.1:8000"]
)
async def test_other_services_get_no_default_credentials(url: str | None) -> None:
    sync, asynchronous = (
        SyncClient(Settings(region="eu-west-1", endpoint_url=url)),
        AsyncClients(Settings(None, "eu-west-1", url)),
    )
    with pytest.raises(NoCredentialsError):
        sync.get().list_tables()
    client = await asynchronous.get()
    with pytest.raises(NoCredentialsError):
        await client.list_tables()
    sync.close()
    await asynchronous.aclose()


async def test_credentials_that_expire_are_refreshed_sync_and_async(both: BothClients, endpoint: str) -> None:
    numbers = count(1)
    threads: list[int] = []

    def fresh() -> dict[str, str]:
        threads.append(threading.get_ident())
        soon = datetime.now(UTC) + timedelta(minutes=1)
        return {
            "access_key": f"key{next(numbers)}",
            "secret_key": "secret",
            "token": "token",
            "expiry_time": soon.isoformat(),
        }

    class Provider:
        def load_credentials(self) -> RefreshableCredentials:
            return RefreshableCredentials.create_from_metadata(fresh(), fresh, "custom")

    core = botocore.session.get_session()
    core.register_component("credential_provider", Provider())
    session = boto3.Session(botocore_session=core, region_name="eu-west-1")
    sent = await both.sent(Settings(session, endpoint_url=endpoint))
    assert len({_signer(request) for request in sent}) == 2
    threads.clear()
    client = await both.closing[-1].get()
    await client.list_tables()
    assert threads
    assert threading.get_ident() not in threads  # a refresh is I/O and must not block the event loop


async def test_clients_send_each_request_once(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "7")
    session = boto3.Session("mine", "secret", region_name="eu-west-1")
    config = Config(user_agent_extra="shop/1", retries={"mode": "standard"})
    sync = SyncClient(Settings(session, endpoint_url=endpoint, config=config))
    asynchronous = AsyncClients(Settings(session, endpoint_url=endpoint, config=config))
    for client in (sync.get(), await asynchronous.get()):
        assert client.meta.config.retries == {"mode": "standard", "total_max_attempts": 1}
        assert client.meta.config.user_agent_extra == "shop/1"
        assert client.meta.endpoint_url == endpoint
    assert sync.get(2.5) is sync.get(2.5) is not sync.get()
    sync.close()
    await asynchronous.aclose()


def test_both_clients_look_for_credentials_once(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "surroundings")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "secret")
    sync = SyncClient(Settings(region="eu-west-1", endpoint_url=endpoint))
    assert sync.get()._request_signer._credentials is sync.get(2.5)._request_signer._credentials
    sync.close()


def test_a_loop_that_ended_leaves_no_clients(endpoint: str) -> None:
    session = boto3.Session("mine", "secret", region_name="eu-west-1")
    clients = AsyncClients(Settings(session, endpoint_url=endpoint))
    made: list[Any] = []

    async def ask() -> None:
        client = await clients.get()
        made.append(weakref.ref(client))
        await client.meta.events.emit("odm")  # without a connection, because asyncio warns about unclosed ones

    for _ in range(3):
        asyncio.run(ask())
    gc.collect()
    assert [one() is None for one in made] == [True, True, False]

    async def close() -> None:
        await clients.get()
        await clients.aclose()

    asyncio.run(close())


async def test_closing_waits_for_a_client_that_is_being_made(endpoint: str) -> None:
    session = boto3.Session("mine", "secret", region_name="eu-west-1")
    clients = AsyncClients(Settings(session, endpoint_url=endpoint))
    first = asyncio.create_task(clients.get())
    await asyncio.sleep(0)
    await clients.aclose()
    again = await clients.get()
    assert again is not await first
    await again.list_tables()
    await clients.aclose()


@pytest.mark.skipif(not hasattr(os, "fork"), reason="no processes are forked here")
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # for a fork while threads run
def test_a_forked_process_has_clients_of_its_own(endpoint: str) -> None:
    sync = SyncClient(Settings(boto3.Session("mine", "secret", region_name="eu-west-1"), endpoint_url=endpoint))
    client = sync.get()
    assert sync.get() is client
    child = os.fork()
    if not child:
        os._exit(0 if sync.get() is not client and sync.get() is sync.get() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert sync.get() is client
    sync.close()
