"""HTTP/1.1 without I/O, for `http_sockets` and `http_asyncio`: what is written to a connection, and what is read.

Responses are read by `http_reader`. Nothing here sends a request a second time, follows a redirect, or decodes a body.
"""

import re
import select
from collections.abc import Mapping
from functools import lru_cache
from ssl import SSLError as TlsError
from typing import Any, Final, NamedTuple
from urllib.parse import quote, urlsplit

from botocore.exceptions import (
    BotoCoreError,
    ConnectionClosedError,
    ConnectTimeoutError,
    EndpointConnectionError,
    HTTPClientError,
    ReadTimeoutError,
    SSLError,
)

CHUNK: Final = 64 * 1024
"""The most bytes that are read at once."""

_TOKEN: Final = re.compile(r"[!#$%&'*+.^_`|~0-9A-Za-z-]+", re.ASCII)
"""The name of a header (RFC 9110, section 5.6.2)."""

_FRAMING: Final = frozenset({"content-length", "transfer-encoding", "connection"})
"""The headers that say where a message ends. They are written here, whatever a handler has set."""

IDLE_SECONDS: Final = 12
"""How long an idle connection stays open, as in aiobotocore: AWS closes it after 20 seconds."""


class Prepared:
    """A request that is signed, with the headers to send."""

    def __init__(self, operation: str, url: str, headers: dict[str, str], body: bytes) -> None:
        self.operation = operation
        self.url = url
        self.sent: Any = headers
        self.body = body


class Unconnected(OSError):
    """No connection was established, so no request was sent."""


class UnconnectedInTime(Unconnected):
    """No connection was established in time."""


class Untrusted(Unconnected):
    """The TLS handshake failed, or a certificate cannot be read."""


class Broken(OSError):
    """The connection ended, or was closed, before the response was complete; or what arrived is not HTTP."""


_FAILURES: Final[tuple[tuple[type[Exception], type[BotoCoreError]], ...]] = (
    (UnconnectedInTime, ConnectTimeoutError),
    (Untrusted, SSLError),
    (Unconnected, EndpointConnectionError),
    (TlsError, SSLError),
    (TimeoutError, ReadTimeoutError),
    (OSError, ConnectionClosedError),
)
"""The exceptions of `http_sockets` and `http_asyncio`, and those of botocore. The first match decides."""


def failed(url: str, error: Exception) -> BotoCoreError:
    """Botocore's exception for one of `http_sockets` and `http_asyncio`."""
    kind = next((kind for known, kind in _FAILURES if isinstance(error, known)), HTTPClientError)
    return kind(endpoint_url=url, error=error)


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


@lru_cache(maxsize=64)  # a transport sends to one URL, or to one for each account
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


def is_readable(opened: Any) -> bool:
    """Whether something can be read from a socket without waiting: on an idle connection, its end, or foreign data."""
    if not hasattr(select, "poll"):  # Windows
        return bool(select.select([opened], [], [], 0)[0])
    poll = select.poll()
    poll.register(opened, select.POLLIN)
    return bool(poll.poll(0))
