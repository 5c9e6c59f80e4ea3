"""The lean transport, sync, over any of the HTTP libraries that odm knows."""

import logging
from collections.abc import Mapping
from typing import Any, Protocol

from botocore.exceptions import ClientError

from odm.backends.dynamodb.lean import Exchange, Failures, Prepared, failed
from odm.backends.dynamodb.routes import Route

_LOG = logging.getLogger("odm.dynamodb")


class Http(Protocol):
    """An HTTP library. Thread-safe.

    Attributes:
        failures: its exceptions, and botocore's in place of them.
    """

    @property
    def failures(self) -> Failures: ...

    def send(self, request: Prepared, timeout: float | None) -> tuple[int, Mapping[str, str], bytes]:
        """Send a request once, and return the status, headers and body of the response.

        Args:
            request: the request.
            timeout: the seconds to wait for a connection, and for each part of the response; None: as configured.
        """

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""


class SyncTransport:
    """Sends requests to one service. Thread-safe."""

    def __init__(self, route: Route) -> None:
        self._exchange = Exchange(route)
        self._http = _http(route)

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
            raise failed(self._http.failures, request.url, error) from error
        return exchange.read(request, status, headers, body)

    def close(self) -> None:
        """Close the connections; the next call opens new ones."""
        self._http.close()


def _http(route: Route) -> Http:
    try:
        from odm.backends.dynamodb.http_sockets import Sockets
    except ImportError:  # the extra "fast" is not installed
        from odm.backends.dynamodb.http_urllib3 import Urllib3

        _LOG.debug("requests to DynamoDB are sent with urllib3: httptools is not installed")
        return Urllib3(route)
    return Sockets(route)
