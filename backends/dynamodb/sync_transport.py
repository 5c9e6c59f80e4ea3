"""The lean transport, sync."""

from collections.abc import Mapping
from typing import Any

from botocore.exceptions import ClientError

from odm.backends.dynamodb.http_messages import failed
from odm.backends.dynamodb.http_sockets import Sockets
from odm.backends.dynamodb.lean import Exchange
from odm.backends.dynamodb.routes import Route


class SyncTransport:
    """Sends requests to one service. Thread-safe."""

    def __init__(self, route: Route) -> None:
        self._exchange = Exchange(route)
        self._http = Sockets(route)

    def call(self, operation: str, arguments: Mapping[str, Any], timeout: float | None) -> Any:
        """Perform an operation; the arguments are those of `Exchange.prepare`.

        Raises:
            ClientError, BotoCoreError, DamagedAnswer: it failed; the same as botocore's client raises.
        """
        try:
            return self._call(operation, arguments, timeout)
        except ClientError as error:
            if not self._exchange.corrected(error):
                raise
        return self._call(operation, arguments, timeout)

    def _call(self, operation: str, arguments: Mapping[str, Any], timeout: float | None) -> Any:
        exchange = self._exchange
        request, response = exchange.prepare(operation, arguments)
        if response is not None:
            return exchange.read(request, response.status_code, response.headers, response.content)
        try:
            status, headers, body = self._http.send(request, timeout)
        except Exception as error:
            raise failed(request.url, error) from error
        return exchange.read(request, status, headers, body)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._http.close()
