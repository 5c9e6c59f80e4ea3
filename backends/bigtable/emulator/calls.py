"""A call to the emulator, as its methods see it."""

from base64 import urlsafe_b64decode
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from google.cloud.bigtable_v2 import types
from google.protobuf.message import DecodeError
from msgspec import Struct, field


class CallInfo(Struct, frozen=True):
    """A call.

    Attributes:
        metadata: what the client sent with it.
        is_active: returns whether the client still waits.
        cut: after how many chunks its stream is cut; None: it is not.
        refused: the status codes of entries of a MutateRows that are refused, by their numbers.
    """

    metadata: Mapping[str, Any] = field(default_factory=dict)
    is_active: Callable[[], bool] = lambda: True
    cut: int | None = None
    refused: Mapping[int, str] = field(default_factory=dict)

    @property
    def features(self) -> Any:
        """The google.bigtable.v2.FeatureFlags that the client announced."""
        message = types.FeatureFlags.pb()
        try:
            return message.FromString(urlsafe_b64decode(self.metadata.get("bigtable-features", "")))
        except (ValueError, TypeError, DecodeError):
            return message()

    @property
    def is_python(self) -> bool:
        """Whether the client is one of Python's gRPC library."""
        return "grpc-python" in str(self.metadata.get("user-agent", ""))


class Method(NamedTuple):
    """A method of a service.

    Attributes:
        run: takes the request and a `CallInfo`; returns the response, or an iterator of them.
        request: the message of its request.
        streams: whether it returns several responses.
    """

    run: Callable[[Any, CallInfo], Any]
    request: Any
    streams: bool = False
