"""gRPC over HTTP/2, the part without I/O: headers, frames and statuses.

From gRPC's specification (https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md): each message is preceded by
a byte for its compression and four for its length, and the call's status is in the trailers, or in the headers if the
response has no messages.
"""

import math
from collections.abc import Iterable, Iterator
from functools import lru_cache
from typing import Any, Final, Protocol
from urllib.parse import unquote

from grpc import RpcError, StatusCode

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


class CallFailed(RpcError):
    """A call ended with a status that is not OK. Has the methods of grpcio's errors."""

    def __init__(self, code: StatusCode, details: str, metadata: Iterable[tuple[str, str]] = ()) -> None:
        super().__init__(f"{code.name}: {details}")
        self._code, self._details, self._metadata = code, details, tuple(metadata)

    def code(self) -> StatusCode:
        """The status."""
        return self._code

    def details(self) -> str:
        """The message."""
        return self._details

    def trailing_metadata(self) -> tuple[Any, ...]:
        """The metadata that the server sent, also before the messages."""
        return self._metadata


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


def messages(body: bytes) -> Iterator[memoryview]:
    """The messages of a response, not copied.

    Raises:
        CallFailed: the body ends inside a message, or a message is compressed, which odm does not offer.
    """
    start, end, view = 0, len(body), memoryview(body)
    while start < end:
        begin = start + _PREFIX
        start = begin + int.from_bytes(body[begin - 4 : begin], "big")
        if body[begin - _PREFIX] or begin > end or start > end:
            raise CallFailed(StatusCode.INTERNAL, "received unexpected EOS on DATA frame from server")
        yield view[begin:start]


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
