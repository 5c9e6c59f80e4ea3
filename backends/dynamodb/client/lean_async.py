"""The lean transport, async."""

import asyncio
from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from odm.backends.dynamodb.client.http_asyncio import Asyncio
from odm.backends.dynamodb.client.http_messages import failed
from odm.backends.dynamodb.client.lean import Exchange
from odm.backends.dynamodb.client.routes import Route
from odm.errors import OdmError


class AsyncTransport:
    """Sends requests to one service. Each event loop has connections of its own."""

    def __init__(self, route: Route) -> None:
        self._exchange = Exchange(route)
        self._http = Asyncio(route)

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
        except OdmError:  # of an event loop of another process
            raise
        except Exception as error:  # also of a certificate that cannot be read, and of connections that were closed
            raise failed(request.url, error) from error
        return exchange.read(request, status, headers, body)

    async def aclose(self) -> None:
        """Close the connections of the running loop; the next call opens new ones."""
        await self._http.aclose()
