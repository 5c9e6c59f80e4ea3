"""The lean transport, async: aiohttp, which aiobotocore uses too."""

import asyncio
import ssl
from collections.abc import Mapping
from contextlib import suppress
from io import BytesIO
from typing import Any, Final

import aiohttp
from botocore.exceptions import (
    ClientError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
    SSLError,
)

from odm.backends.dynamodb.clients import LONG_BODY
from odm.backends.dynamodb.lean import Exchange, Prepared
from odm.backends.dynamodb.routes import Route
from odm.backends.dynamodb.tls import tls_context

IDLE_SECONDS: Final = 12
"""How long an idle connection stays open, as in aiobotocore: AWS closes it after 20 seconds."""


class AsyncTransport:
    """Sends requests to one service. Each event loop has connections of its own."""

    def __init__(self, route: Route) -> None:
        self._exchange = Exchange(route)
        self._route = route
        self._tls: ssl.SSLContext | None = None
        self._sessions: dict[asyncio.AbstractEventLoop, aiohttp.ClientSession] = {}
        self._timeouts: dict[float | None, aiohttp.ClientTimeout] = {}

    async def call(self, operation: str, arguments: Mapping[str, Any], timeout: float | None) -> Any:  # noqa: ASYNC109
        """Perform an operation, as `SyncTransport.call` does."""
        try:
            return await self._call(operation, arguments, timeout)
        except ClientError as error:
            if not self._exchange.corrected(error):
                raise
        return await self._call(operation, arguments, timeout)

    async def _call(self, operation: str, arguments: Mapping[str, Any], timeout: float | None) -> Any:  # noqa: ASYNC109
        exchange = self._exchange
        if exchange.blocks():
            await asyncio.to_thread(exchange.credentials)
        request, response = exchange.prepare(operation, arguments)
        if response is not None:
            return exchange.read(request, response.status_code, response.headers, response.content)
        status, headers, body = await self._send(request, timeout)
        return exchange.read(request, status, headers, body)

    async def _send(self, request: Prepared, timeout: float | None) -> tuple[int, Any, bytes]:  # noqa: ASYNC109
        limits = self._timeouts.get(timeout) or self._timeouts.setdefault(timeout, _timeout(self._route, timeout))
        url, body = request.url, request.body
        # A long body is sent as a stream: in one piece it blocks the event loop, and aiohttp logs a warning.
        data = BytesIO(body) if len(body) > LONG_BODY else body
        headers = request.sent
        try:
            session = self._sessions.get(asyncio.get_running_loop()) or await self._open()
            async with session.post(url, data=data, headers=headers, timeout=limits, allow_redirects=False) as response:
                return response.status, response.headers, await response.read()
        except aiohttp.ClientSSLError as error:
            raise SSLError(endpoint_url=url, error=error) from error
        except (aiohttp.ServerDisconnectedError, aiohttp.ClientPayloadError, aiohttp.ClientResponseError) as error:
            raise ConnectionClosedError(endpoint_url=url, error=error) from error
        except aiohttp.ConnectionTimeoutError as error:
            raise ConnectTimeoutError(endpoint_url=url, error=error) from error
        except TimeoutError as error:
            raise ReadTimeoutError(endpoint_url=url, error=error) from error
        except aiohttp.ClientConnectionError as error:
            raise EndpointConnectionError(endpoint_url=url, error=error) from error
        except Exception as error:  # also of a certificate that cannot be read, and of a session that was closed
            raise HTTPClientError(error=error) from error

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
            self._tls = await asyncio.to_thread(_tls, self._route)  # reads files
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


def _tls(route: Route) -> ssl.SSLContext:
    context: ssl.SSLContext = tls_context()
    context.verify_mode = ssl.CERT_REQUIRED
    context.check_hostname = True
    context.load_verify_locations(route.ca_bundle)
    if route.client_cert is not None:
        context.load_cert_chain(*([route.client_cert] if isinstance(route.client_cert, str) else route.client_cert))
    return context


def _timeout(route: Route, timeout: float | None) -> aiohttp.ClientTimeout:
    connect, read = route.timeouts if timeout is None else (timeout, timeout)
    return aiohttp.ClientTimeout(sock_connect=connect, sock_read=read)
