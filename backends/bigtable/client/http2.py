"""The lean transport: gRPC's calls over the HTTP/2 client pyqwest, which takes less time than grpcio.

The headers, frames and statuses are those of gRPC's specification
(https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md): each message is preceded by a byte for its compression
and four for its length, and the call's status is in the trailers, or in the headers if the response has no messages.

A response is read as a whole, so a response that is cut off is lost. A read of several rows is therefore continued by
grpcio, which keeps the rows that arrived: see `ReadRows.streamed`.
"""

import asyncio
import math
import os
import time
from collections.abc import Callable
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final, NamedTuple, Protocol
from urllib.parse import unquote

import pyqwest
from google.auth.exceptions import GoogleAuthError, TransportError
from grpc import StatusCode

from odm.backends.bigtable.client.errors import CallFailed, Closed, at_deadline
from odm.backends.bigtable.client.routes import Authorization, Route
from odm.backends.bigtable.client.wire import STREAMS, WRITES, Message, Received

_PREFIX: Final = 5
"""The bytes before each message."""

_BY_NUMBER: Final = {str(code.value[0]): code for code in StatusCode}

_BY_HTTP: Final = {
    400: StatusCode.INTERNAL,
    401: StatusCode.UNAUTHENTICATED,
    403: StatusCode.PERMISSION_DENIED,
    404: StatusCode.UNIMPLEMENTED,
    429: StatusCode.UNAVAILABLE,
    502: StatusCode.UNAVAILABLE,
    503: StatusCode.UNAVAILABLE,
    504: StatusCode.UNAVAILABLE,
}
"""The status of a response that is not gRPC's: from a proxy, or from another kind of server
(https://github.com/grpc/grpc/blob/master/doc/http-grpc-status-mapping.md)."""


class Response(Protocol):
    """A response over HTTP, as pyqwest's ``FullResponse``."""

    @property
    def status(self) -> int:
        """The HTTP status."""
        ...

    @property
    def headers(self) -> Any:
        """The headers, with a method ``get`` by the name, and ``items``."""
        ...

    @property
    def trailers(self) -> Any:
        """The trailers, likewise."""
        ...


def framed(message: bytes) -> bytes:
    """A message with its prefix, not compressed."""
    return b"\0%b%b" % (len(message).to_bytes(4, "big"), message)


def messages(body: bytes) -> tuple[list[memoryview], CallFailed | None]:
    """The messages of a response, not copied, up to its end.

    The second value is the failure if the body ends inside a message, or a message is compressed, which odm does not
    offer.
    """
    start, end, view = 0, len(body), memoryview(body)
    received: list[memoryview] = []
    while start < end:
        begin = start + _PREFIX
        start = begin + int.from_bytes(body[begin - 4 : begin], "big")
        if body[begin - _PREFIX] or begin > end or start > end:
            return received, CallFailed(StatusCode.INTERNAL, "received unexpected EOS on DATA frame from server")
        received.append(view[begin:start])
    return received, None


def failure_of(response: Response) -> CallFailed | None:
    """The failure of a call; None if it succeeded."""
    found = response.trailers.get("grpc-status")
    where = response.headers if found is None else response.trailers
    if found is None and (found := where.get("grpc-status")) is None:
        if response.status != 200:
            code = _BY_HTTP.get(response.status, StatusCode.UNKNOWN)
            return CallFailed(code, f"the server answered HTTP {response.status}, which is not gRPC")
        return CallFailed(StatusCode.UNAVAILABLE, "the response ended without a status")
    if found == "0":
        return None
    metadata = (*response.headers.items(), *response.trailers.items())
    return CallFailed(_BY_NUMBER.get(found, StatusCode.UNKNOWN), unquote(where.get("grpc-message") or ""), metadata)


@lru_cache(maxsize=64)
def timeout_of(seconds: float) -> str:
    """The header ``grpc-timeout``: at most eight digits, in milliseconds."""
    return f"{min(math.ceil(seconds * 1000), 99_999_999)}m"


Feed = Callable[[Received], bool | None]

_OPTIONS: Final[dict[str, Any]] = {
    "http_version": pyqwest.HTTPVersion.HTTP2,
    "use_system_dns": True,
    "follow_redirects": False,
    "enable_gzip": False,  # nor other encodings: messages have a compression of their own
    "enable_brotli": False,
    "enable_zstd": False,
    "enable_otel": False,  # instrumented clients are the vendor's
}

_STREAM_ERRORS: Final = {
    pyqwest.StreamErrorCode.REFUSED_STREAM: StatusCode.UNAVAILABLE,
    pyqwest.StreamErrorCode.CANCEL: StatusCode.CANCELLED,
    pyqwest.StreamErrorCode.ENHANCE_YOUR_CALM: StatusCode.RESOURCE_EXHAUSTED,
    pyqwest.StreamErrorCode.INADEQUATE_SECURITY: StatusCode.PERMISSION_DENIED,
}
"""The statuses of a stream that the server reset, from gRPC's specification; INTERNAL for every other code."""

_OF_WRITES: Final = {
    pyqwest.StreamErrorCode.ENHANCE_YOUR_CALM: StatusCode.UNAVAILABLE,
    pyqwest.StreamErrorCode.INADEQUATE_SECURITY: StatusCode.INTERNAL,
}
"""The same for writes, where gRPC's statuses would say that nothing was written, which a reset does not."""

CONNECT_SECONDS: Final = 30.0
"""The seconds after which an attempt to connect has ended (pyqwest, HTTPTransport: connect_timeout)."""

_FAILURES: Final = (
    OSError,  # also of timeouts
    pyqwest.RemoteProtocolError,  # also of streams that the server reset
    pyqwest.ReadError,
    pyqwest.WriteError,
    RuntimeError,  # of a transport that was closed
)

_started: int | None = None
"""The process in which pyqwest's threads run."""


def usable() -> bool:
    """Whether pyqwest works in this process: not after a fork, because its threads are those of the parent."""
    return _started in (None, os.getpid())


class _Opened(NamedTuple):
    """pyqwest's transport, which has the connection, and the client that makes calls through it.

    Attributes:
        transport: the transport.
        client: the client.
        since: when it was opened, by the monotonic clock.
    """

    transport: Any
    client: Any
    since: float


class _Client:
    """What the sync and the async client share.

    Attributes:
        closed: whether it was closed.
    """

    def __init__(self, route: Route) -> None:
        global _started  # noqa: PLW0603  # pyqwest has one set of threads for the process
        _started = os.getpid()
        self.closed = False
        self._route = route
        self._options: dict[str, Any] = _OPTIONS if route.roots is None else _OPTIONS | {"tls_ca_cert": route.roots}
        self._methods: dict[str, str] = {}
        self._headers: dict[Any, pyqwest.Headers] = {}
        self._opened = self._open()
        self._proven: _Opened | None = None

    def _open(self) -> "_Opened":
        """A new transport with no connection yet."""
        raise NotImplementedError

    def _request(self, message: Message) -> tuple[str, pyqwest.Headers, bytes]:
        """The URL, headers and body of a call.

        Raises:
            CallFailed: no token can be obtained for now.
            GoogleAuthError: the credentials are not valid.
        """
        method = message.method
        url = self._methods.get(method) or self._methods.setdefault(
            method, f"{self._route.url}/google.bigtable.v2.Bigtable/{method}"
        )
        authorization = self._authorization(url)
        known = (message.metadata, message.timeout, authorization)
        headers = self._headers.get(known)
        if headers is None:
            if len(self._headers) >= 64:  # tokens change every hour
                self._headers.clear()
            headers = self._headers[known] = pyqwest.Headers(
                (
                    ("te", "trailers"),
                    ("content-type", "application/grpc"),
                    ("user-agent", "odm"),
                    ("grpc-timeout", timeout_of(message.timeout)),
                    *message.metadata,
                    *authorization,
                )
            )
        return url, headers, framed(message.request)

    def _authorization(self, url: str) -> Authorization:
        if self._route.authorization is None:
            return ()
        try:
            return self._route.authorization(url)
        except GoogleAuthError as failure:
            broken = TransportError  # the service of tokens cannot be reached; google-auth does not retry that for us
            if not (failure.retryable or isinstance(failure, broken) or isinstance(failure.__cause__, broken)):
                raise
            raise CallFailed(StatusCode.UNAVAILABLE, f"no token: {failure}") from failure

    def _failed(self, failure: Exception, began: float, message: Message, used: "_Opened") -> Exception:
        """The failure of a call in gRPC's terms."""
        late = time.monotonic() - began >= message.timeout
        if self.closed:
            return Closed()
        if isinstance(failure, RuntimeError):
            raise failure
        if isinstance(failure, ConnectionError):  # also a timeout of connecting
            return CallFailed(StatusCode.UNAVAILABLE, str(failure))
        if late or isinstance(failure, TimeoutError):
            # A connection may be dead without a sign of it, so the next attempt uses a new one. One that may not be
            # established yet is kept: otherwise no attempt could ever last long enough.
            established = used is self._proven or time.monotonic() - used.since >= CONNECT_SECONDS
            if used is self._opened and established:
                self._opened = self._open()
            return CallFailed(StatusCode.DEADLINE_EXCEEDED, f"no response within {message.timeout:g} seconds")
        if isinstance(failure, pyqwest.StreamError):
            code = _STREAM_ERRORS.get(failure.code, StatusCode.INTERNAL)
            if message.method in WRITES:
                code = _OF_WRITES.get(failure.code, code)
            return CallFailed(code, f"RST_STREAM with error code {failure.code.name}: {failure}")
        return CallFailed(StatusCode.UNAVAILABLE, str(failure))


def _fed(message: Message, response: pyqwest.FullResponse, feed: Feed) -> CallFailed | None:
    """Hand on the messages of a response; returns its failure."""
    if response.status != 200:
        return failure_of(response)  # the body may be anything
    received, failure = messages(response.content)
    failure = failure or failure_of(response)
    if message.method not in STREAMS and len(received) != 1:  # gRPC's specification: exactly one
        if received:  # which of them answers the call is not known
            failure = CallFailed(StatusCode.INTERNAL, "the response has several messages")
        failure = failure or CallFailed(StatusCode.INTERNAL, "the response has no message")
        del received[1:]
    for each in received:
        feed(each)
    return failure


class SyncClient(_Client):
    """Calls of the data service. Thread-safe."""

    def _open(self) -> "_Opened":
        transport = pyqwest.SyncHTTPTransport(**self._options)
        return _Opened(transport, pyqwest.SyncClient(transport), time.monotonic())

    def call(self, message: Message, feed: Feed) -> Exception | None:
        """Make a call, and feed its messages; returns its failure."""
        began, used = time.monotonic(), self._opened
        try:
            url, headers, body = self._request(message)
            response = used.client.post(url, headers, body, timeout=message.timeout)
        except CallFailed as refused:
            return refused
        except _FAILURES as broken:
            return self._failed(broken, began, message, used)
        self._proven = used
        failure = _fed(message, response, feed)
        return failure and at_deadline(failure, began, message.timeout)

    def close(self) -> None:
        """Close the connection; calls in progress end as usual."""
        self.closed = True
        self._opened.transport.close()


class AsyncClient(_Client):
    """Calls of the data service in one event loop."""

    def __init__(self, route: Route) -> None:
        super().__init__(route)
        self._waiting: set[asyncio.Timeout] = set()

    def _open(self) -> "_Opened":
        transport = pyqwest.HTTPTransport(**self._options)
        return _Opened(transport, pyqwest.Client(transport), time.monotonic())

    async def call(self, message: Message, feed: Feed) -> Exception | None:
        """Make a call, and feed its messages; returns its failure."""
        began, used = time.monotonic(), self._opened
        try:
            if self._route.blocks():
                # Refreshing a token sends a request of its own, and blocks; the headers below then use the new token.
                await asyncio.to_thread(self._authorization, self._route.url)
            url, headers, body = self._request(message)
            # Not by an argument of pyqwest, because `close` ends the calls in progress by their timeouts.
            async with asyncio.timeout(message.timeout) as waiting:
                self._waiting.add(waiting)
                try:
                    response = await used.client.post(url, headers, body)
                finally:
                    self._waiting.discard(waiting)
        except CallFailed as refused:
            return refused
        except _FAILURES as broken:
            return self._failed(broken, began, message, used)
        self._proven = used
        failure = _fed(message, response, feed)
        return failure and at_deadline(failure, began, message.timeout)

    async def close(self) -> None:
        """Close the connection; calls in progress fail."""
        self.closed = True
        for waiting in list(self._waiting):
            with suppress(RuntimeError):  # it is just ending by itself
                waiting.reschedule(0)
        await self._opened.transport.aclose()
