"""The vendor's clients, sync and async, made at the first call from one set of settings.

boto3 and aiobotocore are imported here alone, and only when a client is needed.
"""

import asyncio
import threading
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any
from weakref import WeakKeyDictionary

from attrs import Factory, frozen

from odm.errors import Unsupported

if TYPE_CHECKING:
    import boto3
    from botocore.config import Config


@frozen
class Settings:
    """What both clients are made from; what is None, boto3 looks up in its usual places."""

    session: "boto3.Session | None" = None
    region: str | None = None
    endpoint_url: str | None = None
    config: "Config | None" = None


class SyncClient:
    """One boto3 client, which threads may share."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._client: Any = None

    def get(self) -> Any:
        """The client, made by the first caller."""
        if self._client is None:
            with self._lock:  # making a client is not thread-safe in boto3, using one is
                if self._client is None:
                    self._client = self._create()
        return self._client

    def close(self) -> None:
        """Close the client's connections; a later `get` makes a new client."""
        with self._lock:
            client, self._client = self._client, None
        if client is not None:
            client.close()

    def _create(self) -> Any:
        settings = self._settings
        return session_of(settings).client(
            "dynamodb", region_name=settings.region, endpoint_url=settings.endpoint_url, config=settings.config
        )


@frozen(eq=False)
class _Slot:
    """The client of one event loop, behind a lock: many tasks may ask for it first."""

    lock: asyncio.Lock = Factory(asyncio.Lock)
    stack: AsyncExitStack = Factory(AsyncExitStack)
    clients: list[Any] = Factory(list)


class AsyncClients:
    """One aiobotocore client an event loop: its connections can not move to another loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, _Slot] = WeakKeyDictionary()

    async def get(self) -> Any:
        """The client of the running loop, made by the first caller."""
        slot = self._slots.setdefault(asyncio.get_running_loop(), _Slot())
        async with slot.lock:
            if not slot.clients:
                slot.clients.append(await slot.stack.enter_async_context(self._create()))
        return slot.clients[0]

    async def aclose(self) -> None:
        """Close the client of the running loop; a later `get` makes a new one."""
        slot = self._slots.pop(asyncio.get_running_loop(), None)
        if slot is not None:
            await slot.stack.aclose()

    def _create(self) -> Any:
        settings, session = self._settings, session_of(self._settings)
        try:
            from odm.backends.dynamodb.sessions import twin_of
        except ImportError as error:
            raise Unsupported(_missing("aiobotocore", "async")) from error
        return twin_of(session).create_client(
            "dynamodb",
            region_name=settings.region or session.region_name,
            endpoint_url=settings.endpoint_url,
            config=settings.config,
        )


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
    return boto3.Session()


def _missing(package: str, extra: str) -> str:
    return f"the DynamoDB backend needs {package}, which is not installed: pip install 'single-table-odm[{extra}]'"
