"""Requests and responses of the lean transport: what botocore's client does between its arguments and the socket.

`Exchange` prepares a request and reads its response; `SyncTransport`, and `async_transport` for async calls, send it
over HTTP, by the files ``http_...``.
"""

import json
import os
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

from botocore.exceptions import ClientError, NoCredentialsError

from odm.backends.dynamodb.client.endpoints import Endpoint
from odm.backends.dynamodb.client.errors import is_of_credentials
from odm.backends.dynamodb.client.http_messages import Prepared, failed
from odm.backends.dynamodb.client.http_sockets import Sockets
from odm.backends.dynamodb.client.routes import Route
from odm.backends.dynamodb.client.signing import Signer
from odm.backends.dynamodb.client.wire import error_of, json_of, text_of

API: Final = "DynamoDB_20120810"

_SKEWED: Final = frozenset({"RequestTimeTooSkewed", "RequestExpired", "InvalidSignatureException"})
"""The error codes of requests that were signed with a wrong clock, or with a wrong key."""

LEAST_SKEW: Final = 60.0
"""A clock that is less wrong than this, in seconds, is not the reason; AWS accepts five minutes (IAM User Guide)."""


class Exchange:
    """Prepares requests and reads responses. Thread-safe; does no I/O, except that handlers and credentials may.

    Args:
        route: where requests go, and how.
    """

    def __init__(self, route: Route) -> None:
        self.route = route
        self.source: Any = None
        self._events: Any = route.events
        self._request: Any = Prepared
        if self._events is not None:
            from odm.backends.dynamodb.client.handlers import HandledRequest

            self._request = HandledRequest
        self._skew = 0.0
        self._signers: dict[str | None, tuple[str, Signer]] = {}
        self._in_lambda = "AWS_LAMBDA_FUNCTION_NAME" in os.environ

    def credentials(self) -> Any:
        """The current credentials; loads and refreshes them, which may be I/O.

        Raises:
            NoCredentialsError: none are configured.
        """
        if self.source is None:
            self.source = self.route.credentials()
            if self.source is None:
                raise NoCredentialsError
        return self.source.get_frozen_credentials()

    def blocks(self) -> bool:
        """Whether `credentials` may do I/O now."""
        needs_refresh = getattr(self.source, "refresh_needed", None)
        return self.source is None or bool(needs_refresh is not None and needs_refresh())

    def prepare(self, operation: str, arguments: Mapping[str, Any]) -> tuple[Prepared, Any]:
        """The signed request of an operation, and the response of a handler of ``before-send``, such as moto's.

        Args:
            operation: the name of the client's method, such as "get_item".
            arguments: the arguments of the operation.

        Returns:
            The request, and the response, or None if the request is to be sent.

        Raises:
            NoCredentialsError: none are configured.
        """
        credentials = self.credentials()
        name = _OPERATIONS.get(operation) or _OPERATIONS.setdefault(operation, _camel(operation))
        text = text_of(arguments)
        try:
            body = text.encode()
        except UnicodeEncodeError:  # lone surrogates: escaped, they are for DynamoDB to reject
            body = json.dumps(json.loads(text)).encode()
        url, signer = self._signers.get(credentials.account_id) or self._signer(credentials.account_id)
        headers = signer.headers(f"{API}.{name}", body, credentials, time.time() + self._skew)
        headers["User-Agent"] = self.route.user_agent
        headers["Accept-Encoding"] = "identity"  # nothing here decompresses a body
        if self._in_lambda and (trace := os.environ.get("_X_AMZN_TRACE_ID")):  # Lambda detects recursion by it
            headers["X-Amzn-Trace-Id"] = trace
        request, events = self._request(name, url, headers, body), self._events
        if events is None:
            return request, None
        return request, events.emit_until_response(f"before-send.dynamodb.{name}", request=request)[1]

    def read(self, request: Prepared, status: int, headers: Mapping[str, str], body: bytes) -> Any:
        """The decoded response.

        Raises:
            ClientError: the service reports an error.
            DamagedAnswer: the response is not complete, or not from DynamoDB.
        """
        if status < 300:
            return json_of(request.operation, headers, body)
        error: Any = error_of(status, headers, body)
        raise _error_class(error["Error"]["Code"])(error, request.operation)

    def corrected(self, error: ClientError) -> bool:
        """Whether the clock was corrected by that of the service, so that the request can be signed again."""
        if is_of_credentials(error):  # the service is that of the credentials
            return False
        response: Any = error.response
        sent = response["ResponseMetadata"]["HTTPHeaders"].get("date")
        if response["Error"]["Code"] not in _SKEWED or sent is None:
            return False
        from email.utils import parsedate_to_datetime

        try:
            skew = parsedate_to_datetime(sent).timestamp() - time.time()
        except ValueError:
            return False
        if abs(skew - self._skew) < LEAST_SKEW:
            return False
        self._skew = skew
        return True

    def _signer(self, account: str | None) -> tuple[str, Signer]:
        endpoint = self.route.endpoint
        if account and endpoint.for_account:
            endpoint = Endpoint(endpoint.for_account.format(account=account))
        found = f"{endpoint.url}/", Signer(_host(endpoint), self.route.region)
        return self._signers.setdefault(account, found)


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


_OPERATIONS: Final[dict[str, str]] = {}


@lru_cache(maxsize=64)  # bounded, because a foreign server may send any text as its code
def _error_class(code: str) -> type[ClientError]:
    """The exception of an error code, named after it like those of botocore's model, because logs show the name."""
    return (
        type(code, (ClientError,), {"__module__": "botocore.errorfactory"})
        if code.isidentifier() and code.endswith("Exception")
        else ClientError
    )


def _camel(operation: str) -> str:
    return "".join(part.capitalize() for part in operation.split("_"))


def _host(endpoint: Endpoint) -> str:
    """The Host header, which has no port if it is the default of the scheme."""
    default = ":443" if endpoint.url.startswith("https:") else ":80"
    return endpoint.host.removesuffix(default)
