"""HTTP by aiohttp, which aiobotocore uses too."""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from typing import Final

import aiohttp
from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
    SSLError,
)

from odm.backends.dynamodb.clients import LONG_BODY
from odm.backends.dynamodb.lean import IDLE_SECONDS, Failures, Prepared
from odm.backends.dynamodb.routes import Route


class Aiohttp:
    """Sends requests. Each event loop has connections of its own."""

    failures: Final[Failures] = (
        (aiohttp.ClientSSLError, SSLError),
        (aiohttp.ServerDisconnectedError, ConnectionClosedError),
        (aiohttp.ClientPayloadError, ConnectionClosedError),
        (aiohttp.ClientResponseError, ConnectionClosedError),
        (aiohttp.ConnectionTimeoutError, ConnectTimeoutError),
        (TimeoutError, ReadTimeoutError),
        (aiohttp.ClientConnectionError, EndpointConnectionError),
    )

    def __init__(self, route: Route) -> None:
        self._route = route
        self._tls: ssl.SSLContext | None = None
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}
        self._timeouts: dict[float | None, aiohttp.ClientTimeout] = {}

    async def send(self, request: Prepared, timeout: float | None) -> tuple[int, Mapping[str, str], bytes]:  # noqa: ASYNC109
        """Send a request once, as `Urllib3.send` does."""
        limits = self._timeouts.get(timeout) or self._timeouts.setdefault(timeout, self._limits(timeout))
        url, body = request.url, request.body
        # A long body is sent as a stream: in one piece it blocks the event loop, and aiohttp logs a warning.
        data = BytesIO(body) if len(body) > LONG_BODY else body
        headers = request.sent
        session = self._sessions.get(asyncio.get_running_loop()) or await self._open()
        async with session.post(url, data=data, headers=headers, timeout=limits, allow_redirects=False) as response:
            return response.status, response.headers, await response.read()

    async def aclose(self) -> None:
        """Close the connections of the running loop; the next call opens new ones."""
        session = self._sessions.pop(asyncio.get_running_loop(), None)
        if session is not None:
            await session.close()

    async def _open(self) -> aiohttp.ClientSession:
        """The connections of the running loop; closes those of loops that ended without `aclose`."""
        for loop in [loop for loop in list(self._sessions) if loop.is_closed()]:
            left = self._sessions.pop(loop, None)
            if left is not None:
                with suppress(Exception):  # its event loop is closed
                    await left.close()
        if self._tls is None:
            self._tls = await asyncio.to_thread(self._route.tls)  # reads files
        loop = asyncio.get_running_loop()
        if loop not in self._sessions:
            self._sessions[loop] = aiohttp.ClientSession(
                connector=aiohttp.TCPConnector(
                    limit=self._route.connections, keepalive_timeout=IDLE_SECONDS, ssl=self._tls
                ),
                cookie_jar=aiohttp.DummyCookieJar(),
                auto_decompress=False,
            )
        return self._sessions[loop]

    def _limits(self, timeout: float | None) -> aiohttp.ClientTimeout:
        connect, read = self._route.limits(timeout)
        return aiohttp.ClientTimeout(sock_connect=connect, sock_read=read)
