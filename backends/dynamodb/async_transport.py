"""The lean transport, async, over any of the HTTP libraries that odm knows."""

import asyncio
import logging
from collections.abc import Mapping
from typing import Any, Protocol

from botocore.exceptions import ClientError

from odm.backends.dynamodb.lean import Exchange, Failures, Prepared, failed
from odm.backends.dynamodb.routes import Route

_LOG = logging.getLogger("odm.dynamodb")


class AsyncHttp(Protocol):
    """An HTTP library: `sync_transport.Http`, async. Each event loop has connections of its own."""

    @property
    def failures(self) -> Failures: ...

    async def send(self, request: Prepared, timeout: float | None) -> tuple[int, Mapping[str, str], bytes]: ...  # noqa: ASYNC109

    async def aclose(self) -> None:
        """Close the connections of the running loop; the next call opens new ones."""


class AsyncTransport:
    """Sends requests to one service. Each event loop has connections of its own."""

    def __init__(self, route: Route) -> None:
        self._exchange = Exchange(route)
        self._http = _http(route)

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
        try:
            status, headers, body = await self._http.send(request, timeout)
        except Exception as error:  # also of a certificate that cannot be read, and of connections that were closed
            raise failed(self._http.failures, request.url, error) from error
        return exchange.read(request, status, headers, body)

    async def aclose(self) -> None:
        """Close the connections of the running loop; the next call opens new ones."""
        await self._http.aclose()


def _http(route: Route) -> AsyncHttp:
    try:
        from odm.backends.dynamodb.http_asyncio import Asyncio
    except ImportError:  # the extra "fast" is not installed
        from odm.backends.dynamodb.http_aiohttp import Aiohttp

        _LOG.debug("async requests to DynamoDB are sent with aiohttp: httptools is not installed")
        return Aiohttp(route)
    return Asyncio(route)
