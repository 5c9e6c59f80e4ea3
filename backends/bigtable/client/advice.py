"""What a failed call says about the next attempt: how long to wait, and the routing cookies to send back.

The server says when it can take the request again (`RetryInfo`, see https://google.aip.dev/194), also with statuses
that are otherwise final. Its cookies are metadata whose names begin with ``x-goog-cbt-cookie-``. A client that
announces the feature ``routing_cookie`` returns them with the next attempt, so that the service can choose another
route.
"""

from base64 import urlsafe_b64decode
from binascii import Error
from collections.abc import Iterable
from typing import Any, Final, NamedTuple, TypeVar

from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status

from odm.backends.bigtable.client.native import Call, Cookies
from odm.backends.bigtable.client.native_admin import AdminCall
from odm.immutable import evolve

C = TypeVar("C", bound=Call)

COOKIE: Final = "x-goog-cbt-cookie-"
DETAILS: Final = "grpc-status-details-bin"

_SOURCES: Final = ("initial_metadata", "trailing_metadata")
"""The methods of gRPC's errors that return metadata."""


class Advice(NamedTuple):
    """What a failure says about the next attempt.

    Attributes:
        seconds: how long to wait; None: it does not say.
        cookies: metadata to send with it.
    """

    seconds: float | None = None
    cookies: Cookies = ()

    def followed_by(self, call: C) -> C:
        """The call of the next attempt."""
        if not self.cookies or isinstance(call, AdminCall):
            return call
        return evolve(call, cookies=tuple((dict(call.cookies) | dict(self.cookies)).items()))


def advice_of(failure: object) -> Advice:
    """The advice in the metadata of a failure."""
    seconds: float | None = None
    cookies: dict[str, str] = {}
    for source in _SOURCES:
        metadata = getattr(failure, source, None)
        for name, value in _pairs(metadata() if callable(metadata) else None):
            if name.startswith(COOKIE) and isinstance(value, str):
                cookies[name] = value
            elif name == DETAILS:
                seconds = _delay(value)
    return Advice(seconds, tuple(cookies.items()))


def _pairs(metadata: Any) -> Iterable[tuple[str, Any]]:
    """The entries of gRPC's metadata, which has several types."""
    return [(str(name).lower(), value) for name, value in metadata or ()]


def _delay(details: str | bytes) -> float | None:
    """The seconds of the RetryInfo in a status; None if it has none. Binary metadata is text if pyqwest received it."""
    try:
        if isinstance(details, str):
            details = urlsafe_b64decode(details.replace("+", "-").replace("/", "_") + "=" * (-len(details) % 4))
        for detail in Status.FromString(details).details:
            info = RetryInfo()
            if detail.Unpack(info) and info.HasField("retry_delay"):
                return max(0.0, float(info.retry_delay.ToTimedelta().total_seconds()))
    except (DecodeError, Error, ValueError, OverflowError):
        pass
    return None
