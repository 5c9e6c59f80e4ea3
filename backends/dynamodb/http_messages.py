"""HTTP/1.1 without I/O, for `http_sockets` and `http_asyncio`: what is written to a connection, and what is read.

Responses are parsed by httptools, the binding of Node's parser llhttp. Nothing here sends a request a second time,
follows a redirect, or decodes a body.
"""

import re
from collections.abc import Mapping
from functools import lru_cache
from ssl import SSLError as TlsError
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from botocore.exceptions import (
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    ReadTimeoutError,
    SSLError,
)
from httptools import HttpParserError, HttpParserUpgrade, HttpResponseParser

from odm.backends.dynamodb.lean import Failures, Prepared

CHUNK: Final = 64 * 1024
"""The most bytes that are read at once."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
"""The name of a header (RFC 9110, section 5.6.2)."""

_FRAMING: Final = frozenset({"content-length", "transfer-encoding", "connection"})
"""The headers that say where a message ends. They are written here, whatever a handler has set."""


class Unconnected(OSError):
    """No connection was established, so no request was sent."""


class UnconnectedInTime(Unconnected):
    """No connection was established in time."""


class Untrusted(Unconnected):
    """The TLS handshake failed, or a certificate cannot be read."""


class Broken(OSError):
    """The connection ended, or was closed, before the response was complete; or what arrived is not HTTP."""


FAILURES: Final[Failures] = (
    (UnconnectedInTime, ConnectTimeoutError),
    (Untrusted, SSLError),
    (Unconnected, EndpointConnectionError),
    (TlsError, SSLError),
    (TimeoutError, ReadTimeoutError),
    (OSError, ConnectionClosedError),
)
"""The exceptions of `http_sockets` and `http_asyncio`, and those of botocore."""


def unconnected(error: OSError) -> Unconnected:
    """The failure to establish a connection."""
    if isinstance(error, TimeoutError):
        return UnconnectedInTime(str(error))
    return Untrusted(str(error)) if isinstance(error, TlsError) else Unconnected(str(error))


class Target(NamedTuple):
    """Where a request goes.

    Attributes:
        server: scheme, host and port: requests with the same ones share connections.
        path: the path and query.
    """

    server: tuple[str, str, int]
    path: str


@lru_cache(maxsize=64)
def target_of(url: str) -> Target:
    """The target of a URL.

    Raises:
        ValueError: it is not a URL of a server.
    """
    parts = urlsplit(url)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise ValueError(f"{url!r} is not the URL of a server")
    path = f"{parts.path or '/'}?{parts.query}" if parts.query else parts.path or "/"
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return Target((parts.scheme, parts.hostname, port), quote(path, safe="!#$%&'()*+,/:;=?@[]~"))


def written(request: Prepared, path: str) -> bytes:
    """A request as it is sent.

    Raises:
        ValueError: a header cannot be sent, or would be read as several.
        TypeError: a handler has replaced the body by something that is neither bytes nor text.
    """
    headers, body = request.sent, request.body
    if type(headers) is not dict:  # a handler has seen them, and may have changed them and the body
        headers, body = _checked(headers), _bytes(body)
    fields = "".join([f"{name}: {value}\r\n" for name, value in headers.items()])
    head = f"POST {path} HTTP/1.1\r\n{fields}Content-Length: {len(body)}\r\n\r\n"
    if not head.count("\n") == head.count("\r") == len(headers) + 3:
        raise ValueError("a header contains a line break")
    message: bytes = head.encode("latin-1") + body
    return message


def _checked(headers: Mapping[str, Any]) -> dict[str, Any]:
    kept = {
        name: value.decode("latin-1") if isinstance(value, bytes) else value
        for name, value in headers.items()
        if name.lower() not in _FRAMING
    }
    for name in kept:
        if not _TOKEN.fullmatch(name):
            raise ValueError(f"{name!r} is not the name of a header")
    return kept


def _bytes(body: Any) -> bytes:
    if isinstance(body, str):
        return body.encode()
    if not isinstance(body, bytes | bytearray):
        raise TypeError(f"the body is a {type(body).__name__}, not bytes")
    return bytes(body)


class Reader:
    """Reads the responses of one connection, one after the other. The methods ``on_...`` are called by httptools.

    Attributes:
        status: the status of the response.
        headers: its headers; the names are lower case.
        body: its body, when it is complete.
        complete: whether the response is complete, or none is expected.
        reusable: whether the connection can be used for another request.
    """

    __slots__ = ("_framed", "_parser", "_parts", "body", "complete", "headers", "reusable", "status")

    def __init__(self) -> None:
        self._parser = HttpResponseParser(self)
        self.complete = self.reusable = True
        self.status, self.headers, self.body = 0, dict[str, str](), b""
        self._parts: list[bytes] = []
        self._framed = False

    def begin(self) -> None:
        """Expect a response."""
        self.complete = self._framed = False
        self.status, self.headers, self._parts = 0, {}, []

    def feed(self, data: bytes) -> bool:
        """Read data, and return whether the response is complete.

        Raises:
            Broken: it is not HTTP.
        """
        try:
            self._parser.feed_data(data)
        except (HttpParserError, HttpParserUpgrade) as error:  # also if data follows the response
            self.reusable = False
            raised = error.__context__  # in a method of this class, by a signal: httptools catches even Ctrl-C
            if raised is not None and not isinstance(raised, HttpParserError | Broken):
                raise raised from None
            if not self.complete:
                raise Broken(f"the response is not HTTP: {error}") from error
        return self.complete

    def end(self) -> None:
        """The server has closed the connection.

        Raises:
            Broken: the response is not complete.
        """
        self.reusable = False
        if self.complete:
            return
        # Without a length, the end of the connection is the end of the body (RFC 9112, section 6.3).
        if not self._framed or not self.headers.keys().isdisjoint(("content-length", "transfer-encoding")):
            raise Broken("the connection was closed before the response was complete")
        self._finish()

    def on_message_begin(self) -> None:
        if self.complete:
            raise Broken("data follows the response")

    def on_header(self, name: bytes, value: bytes) -> None:
        key, text = name.decode("latin-1").lower(), value.decode("latin-1")
        headers = self.headers
        headers[key] = f"{headers[key]}, {text}" if key in headers else text

    def on_headers_complete(self) -> None:
        self._framed, self.status = True, self._parser.get_status_code()

    def on_body(self, data: bytes) -> None:
        self._parts.append(data)

    def on_message_complete(self) -> None:
        if self.status < 200:  # an interim response, such as 100 Continue: the final one follows
            self.begin()
            return
        self.reusable = self._parser.should_keep_alive()
        self._finish()

    def _finish(self) -> None:
        parts = self._parts
        self.body = parts[0] if len(parts) == 1 else b"".join(parts)
        self._parts, self.complete = [], True
