"""The transport of a connection: the lean one where nothing forbids it, otherwise the vendor's clients.

It is chosen at the first call, from the settings of that time, and again if a library instruments botocore's client
later. The transports themselves are imported only when they are chosen.
"""

import logging
import sys
import threading
from types import FunctionType
from typing import TYPE_CHECKING

from odm.backends.dynamodb.client.clients import Settings
from odm.backends.dynamodb.client.routes import Route, route_of
from odm.errors import Unsupported

if TYPE_CHECKING:
    from odm.backends.dynamodb.client.lean import SyncTransport
    from odm.backends.dynamodb.client.lean_async import AsyncTransport


_LOG = logging.getLogger("odm.dynamodb")


class Transports:
    """The lean transports of a connection. Thread-safe.

    Args:
        settings: the settings of the connection.
    """

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._lock = threading.Lock()
        self._route: Route | str | None = None
        self._sync: SyncTransport | None = None
        self._async: AsyncTransport | None = None
        self._said = False

    def sync(self) -> "SyncTransport | None":
        """The transport of sync calls; None if the vendor's client is to be used.

        Raises:
            Unsupported: ``transport="lean"`` is asked for, but cannot be used.
        """
        if self._sync is None:
            route = self._chosen()
            if isinstance(route, str):
                return None
            from odm.backends.dynamodb.client.lean import SyncTransport

            with self._lock:
                self._sync = self._sync or SyncTransport(route)
        return None if self._is_instrumented() else self._sync

    async def asynchronous(self) -> "AsyncTransport | None":
        """The transport of async calls; otherwise as `sync`."""
        if self._async is None:
            import asyncio  # slow to import, and sync programs do without

            # In a thread, because files and a metadata service may be read.
            route = await asyncio.to_thread(self._chosen) if self._route is None else self._route
            if isinstance(route, str):
                return None
            from odm.backends.dynamodb.client.lean_async import AsyncTransport

            with self._lock:  # loops in several threads share it
                self._async = self._async or AsyncTransport(route)
        return None if self._is_instrumented() else self._async

    def close(self) -> None:
        """Close the sync connections; the next call opens new ones."""
        if self._sync is not None:
            self._sync.close()

    async def aclose(self) -> None:
        """Close the async connections of the running loop."""
        if self._async is not None:
            await self._async.aclose()

    def _is_instrumented(self) -> bool:
        if self._settings.transport is not None or not _client_is_patched():
            return False
        if not self._said:
            self._said = True
            _LOG.info("requests to DynamoDB go through the vendor's client: a library instruments it")
        return True

    def _chosen(self) -> Route | str:
        if self._route is None:
            with self._lock:
                if self._route is None:
                    self._route = self._choose()
        return self._route

    def _choose(self) -> Route | str:
        asked = self._settings.transport
        if asked == "vendor":
            return "transport='vendor'"
        route = route_of(self._settings)
        if not isinstance(route, str):
            return route
        if asked == "lean":
            raise Unsupported(f"transport='lean' cannot be used: {route}: use transport='vendor', or leave it out")
        _LOG.info("requests to DynamoDB go through the vendor's client, not the lean transport: %s", route)
        return route


def _client_is_patched() -> bool:
    """Whether a library (X-Ray, OpenTelemetry, a mock) has replaced the method that botocore's clients call.

    They replace it by its name, in the class, so this is where to see it; nothing is called.
    """
    for module, name in (("botocore.client", "BaseClient"), ("aiobotocore.client", "AioBaseClient")):
        method = getattr(sys.modules.get(module), name, object).__dict__.get("_make_api_call")
        if method is not None and (type(method) is not FunctionType or method.__module__ != module):
            return True
    return False
