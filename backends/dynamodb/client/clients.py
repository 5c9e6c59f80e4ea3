"""The boto3 and aiobotocore clients, created at the first call from one set of settings.

botocore configures timeouts per client, not per request, so each timeout of a store has clients of its own. A client
sends a request once; `odm.backends.dynamodb.client.retry` sends it again.
Only this module and `sessions` import boto3 and aiobotocore, and only when a client is needed. asyncio is slow to
import too, and sync programs do without, so the methods of async clients import it.

`saving` adds settings that make each botocore call cheaper.
"""

import os
import platform
import threading
from collections.abc import Callable, Mapping
from contextlib import AsyncExitStack, suppress
from io import BytesIO
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, Literal
from urllib.parse import urlsplit

from msgspec import Struct, field

from odm.backends.dynamodb.client.errors import DamagedAnswer
from odm.backends.dynamodb.client.native import Service
from odm.backends.dynamodb.client.retry import config_of
from odm.backends.dynamodb.client.settings import configuration_of
from odm.backends.dynamodb.client.wire import Bodies, read_bytes
from odm.errors import Unsupported
from odm.immutable import Immutable, evolve
from odm.protocol.connection import foreign_loop

if TYPE_CHECKING:
    import asyncio

    import boto3
    from botocore.config import Config
    from botocore.session import Session

    from odm.backends.dynamodb.client.settings import Environment


def saving(given: "Config | None", configuration: "Session") -> "Config":
    """The user's config, with two cheaper defaults: no parameter validation, and a fixed user agent.

    odm sends valid parameters, so validation is not needed. botocore would build its user agent twice per call.
    """
    from botocore.config import Config

    given = given or Config()
    # The class of the given config, because aiobotocore's has additional options. Given settings take precedence.
    cheaper = type(given)(parameter_validation=False, user_agent=user_agent(given, configuration)).merge(given)
    return given.merge(cheaper)  # old versions of aiobotocore lose their options in the opposite order


def user_agent(given: "Config | None", configuration: "Session | Environment") -> str:
    """The constant part of botocore's user agent. botocore appends the user agent extras, but not the app ID."""
    import botocore

    app = getattr(given, "user_agent_appid", None)
    app = app or configuration.get_config_variable("user_agent_appid")
    parts = (
        f"Botocore/{botocore.__version__}",
        f"os/{platform.system().lower()}#{platform.release()}",
        f"lang/python#{platform.python_version()}",
        "lib/odm",
        f"app/{app}" if app else "",
    )
    return " ".join(filter(None, parts))


LONG_BODY: Final = 512 * 1024
"""The largest request body, in bytes, that is sent in one piece; aiohttp warns about bodies over 1 MiB."""

_LEAST_STATUS: Final = 200
"""The least status of a final response (RFC 9110, section 15)."""

STAND_IN: Final = {"aws_access_key_id": "local", "aws_secret_access_key": "local"}
STAND_IN_REGION: Final = "us-east-1"
"""Used for a service on this machine if no credentials or region are configured: it requires some, but accepts any."""


_HOSTS_OF_AWS: Final = (".amazonaws.com", ".amazonaws.com.cn", ".api.aws", ".api.amazonwebservices.com.cn")
_EVENTS: Final[Mapping[Service, str]] = {"dynamodb": "dynamodb", "dynamodbstreams": "dynamodb-streams"}
"""The name of an API in botocore's events."""


class Settings(Immutable):
    """The settings of the clients. If a setting is None, boto3 looks it up in its usual places.

    Attributes:
        session, region, endpoint_url, config, profile, transport: as in `DynamoDB`.
        keys: credentials that replace the session's; {}: use the session's; None: not looked up yet.
    """

    session: "boto3.Session | None" = None
    region: str | None = None
    endpoint_url: str | None = None
    config: "Config | None" = None
    keys: Mapping[str, str] | None = None
    profile: str | None = None
    transport: Literal["lean", "vendor"] | None = None


class SyncClient:
    """The boto3 clients, one for each timeout. Thread-safe."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.bodies = Bodies()
        self._begin()

    def _begin(self) -> None:
        self._process = os.getpid()
        self._lock = threading.Lock()
        self._clients: dict[tuple[float | None, Service], Any] = {}

    def get(self, timeout: float | None = None, service: Service = "dynamodb") -> Any:
        """The client, created at the first call.

        Args:
            timeout: the seconds to wait for a connection, and for each response; None: as configured.
            service: the API.
        """
        if self._process != os.getpid():
            self._begin()  # after a fork: two processes that share a connection read each other's responses
        client = self._clients.get((timeout, service))
        if client is None:
            with self._lock:  # in boto3, using a client is thread-safe, creating one is not
                client = self._clients.get((timeout, service))
                if client is None:
                    client = self._clients[timeout, service] = self._create(timeout, service)
        return client

    def close(self) -> None:
        """Close the clients' connections; a later `get` creates a new client."""
        with self._lock:
            clients, self._clients = self._clients, {}
        for client in clients.values():
            client.close()

    def _create(self, timeout: float | None, service: Service) -> Any:
        settings = self._settings = _resolved(self._settings)
        client = session_of(settings).client(service, **_arguments(settings, timeout, service))
        client.meta.events.register(f"needs-retry.{_EVENTS[service]}", _refusing_interim(client))
        if service != "dynamodb":
            return client
        read_bytes(client)
        self.bodies.register(client)
        return client


def _lock() -> "asyncio.Lock":
    import asyncio

    return asyncio.Lock()


class _Slot(Struct, eq=False):
    """The clients of one event loop. The lock keeps concurrent tasks from creating the same client twice."""

    process: int = field(default_factory=os.getpid)
    lock: "asyncio.Lock" = field(default_factory=_lock)
    stack: AsyncExitStack = field(default_factory=AsyncExitStack)
    clients: dict[tuple[float | None, Service], Any] = field(default_factory=dict)
    session: Any = None

    async def close(self) -> None:
        """Close the clients, including one that is still being created."""
        async with self.lock:
            self.clients.clear()
            await self.stack.aclose()


class AsyncClients:
    """The aiobotocore clients of each event loop; their connections cannot be used in another loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self.bodies = Bodies()
        self._slots: dict[asyncio.AbstractEventLoop, _Slot] = {}

    async def get(self, timeout: float | None = None, service: Service = "dynamodb") -> Any:  # noqa: ASYNC109  # a setting of the client
        """The client of the running loop, created at the first call; the arguments are those of `SyncClient.get`."""
        import asyncio

        loop = asyncio.get_running_loop()
        slot = self._slots.get(loop)
        if slot is None:
            await self._close_left()
            slot = self._slots.setdefault(loop, _Slot())
        if slot.process != os.getpid():
            raise foreign_loop()
        async with slot.lock:
            if (timeout, service) not in slot.clients:
                # In a thread, because credentials may come from a metadata service, which is I/O.
                self._settings = await asyncio.to_thread(_resolved, self._settings)
                client = await slot.stack.enter_async_context(self._create(slot, timeout, service))
                client.meta.events.register(f"needs-retry.{_EVENTS[service]}", _refuse_redirected)
                if service == "dynamodb":
                    client.meta.events.register("before-send.dynamodb", _stream_long_body)
                    read_bytes(client)
                    self.bodies.register(client)
                slot.clients[timeout, service] = client
            return slot.clients[timeout, service]

    async def aclose(self) -> None:
        """Close the clients of the running loop; a later `get` creates a new one."""
        import asyncio

        slot = self._slots.get(asyncio.get_running_loop())
        if slot is not None:
            await slot.close()

    async def _close_left(self) -> None:
        """Close the clients of loops that ended without `aclose`, so that repeated `asyncio.run` does not leak them."""
        for loop in [loop for loop in list(self._slots) if loop.is_closed()]:
            slot = self._slots.pop(loop, None)
            if slot is not None:
                with suppress(Exception):  # its event loop is closed
                    await slot.stack.aclose()

    def _create(self, slot: _Slot, timeout: float | None, service: Service) -> Any:
        try:
            from odm.backends.dynamodb.client.sessions import twin_of
        except ImportError as error:
            raise Unsupported(_missing("aiobotocore", "async")) from error
        if slot.session is None:
            slot.session = twin_of(session_of(self._settings))
        return slot.session.create_client(service, **_arguments(self._settings, timeout, service))


def _stream_long_body(request: Any, **_: Any) -> None:
    """Send a long body as a stream: in one piece it blocks the event loop, and aiohttp logs a warning."""
    if isinstance(request.body, bytes) and len(request.body) > LONG_BODY:
        request.body = BytesIO(request.body)


def _refusing_interim(client: Any) -> Callable[..., None]:
    """A handler that refuses an interim response.

    Python's http.client takes it for the final one, which then arrives as the response to the next request: the
    connections are closed before.
    """

    def refuse(response: Any, **_: Any) -> None:
        if response is not None and response[0].status_code < _LEAST_STATUS:
            client.close()
            raise DamagedAnswer(f"the response has the status {response[0].status_code}")

    return refuse


def _refuse_redirected(response: Any, **_: Any) -> None:
    """Refuse the response of another address: unlike botocore, aiohttp always follows redirects."""
    if response is None:
        return
    if response[0].status_code < _LEAST_STATUS:
        raise DamagedAnswer(f"the response has the status {response[0].status_code}")
    raw = response[0].raw
    if any(earlier is not raw for earlier in getattr(raw, "history", ())):
        raise DamagedAnswer(f"the request was redirected to {response[0].url}")


def session_of(settings: Settings) -> "boto3.Session":
    """The user's session, or a new one.

    Raises:
        Unsupported: boto3 is not installed.
    """
    if settings.session is not None:
        return settings.session
    try:
        import boto3
    except ImportError as error:
        raise Unsupported(_missing("boto3", "dynamodb")) from error
    return boto3.Session(profile_name=settings.profile)


def botocore_session(settings: Settings) -> "Session":
    """A new botocore session with the user's profile. It is created without boto3, which takes longer to import.

    Raises:
        Unsupported: botocore is not installed.
    """
    try:
        from botocore.session import Session
    except ImportError as error:
        raise Unsupported(_missing("boto3", "dynamodb")) from error
    return Session(profile=settings.profile)


def _resolved(settings: Settings) -> Settings:
    """The settings with session, region and credentials filled in, so that all clients look them up only once."""
    if settings.keys is not None:
        return settings
    session = session_of(settings)
    region, keys = stand_ins(settings, session, session.region_name)
    return evolve(settings, session=session, region=region, keys=keys)


def stand_ins(settings: Settings, session: Any, region: str | None) -> tuple[str | None, Mapping[str, str]]:
    """The region, and the credentials that replace the session's: a service on this machine needs some.

    Args:
        settings: the settings.
        session: the boto3 or botocore session.
        region: the region of the session.
    """
    region = settings.region or region or getattr(settings.config, "region_name", None)
    if not _is_on_this_machine(settings.endpoint_url):
        return region, {}
    return region or STAND_IN_REGION, STAND_IN if session.get_credentials() is None else {}


def _is_on_this_machine(endpoint_url: str | None) -> bool:
    try:
        host = urlsplit(endpoint_url or "").hostname or ""
        return host == "localhost" or ip_address(host).is_loopback
    except ValueError:  # a host name, not an IP address
        return False


def _arguments(settings: Settings, timeout: float | None, service: Service) -> dict[str, Any]:
    """The arguments that create a sync or async client."""
    session, url = session_of(settings), settings.endpoint_url
    if service != "dynamodb" and (urlsplit(url or "").hostname or "").endswith(_HOSTS_OF_AWS):
        url = None  # the address is that of AWS's other API
    return {
        "region_name": settings.region,
        "endpoint_url": url,
        "config": config_of(saving(settings.config, configuration_of(session)), timeout),
        **(settings.keys or {}),
    }


def _missing(package: str, extra: str) -> str:
    return f"the DynamoDB backend needs {package}, which is not installed: pip install 'single-table-odm[{extra}]'"
