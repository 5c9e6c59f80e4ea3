"""Translates failures of Google's clients: one table from gRPC status to `odm.errors`.

Only this module decides whether a request may be retried, and which error the user gets.
"""

import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, Final

from google.api_core.exceptions import GoogleAPICallError, GoogleAPIError
from google.auth.exceptions import GoogleAuthError
from grpc import RpcError, StatusCode

from odm.backends.bigtable.client.native import (
    Call,
    CheckAndMutateRow,
    GenerateInitialChangeStreamPartitions,
    MutateRow,
    MutateRows,
    ReadChangeStream,
    ReadModifyWriteRow,
    Status,
)
from odm.backends.bigtable.client.native_admin import CreateTable, DeleteTable, ListTables
from odm.errors import BackendError, ItemTooLarge, OdmError, OutcomeUnknown, TableNotFound, Throttled, Unsupported


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


class Closed(Exception):
    """The store was closed during a call."""

    def __init__(self) -> None:
        super().__init__("the store was closed during the call")


NATIVE_FAILURES: Final = (RpcError, GoogleAPIError, GoogleAuthError, Closed)
"""The base classes of all errors that gRPC and Google's clients raise."""

RETRIED: Final = frozenset(
    {StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.ABORTED, StatusCode.CANCELLED}
)
"""The statuses after which a request is retried. Google's own clients retry the first three. CANCELLED comes from the
server or the connection, because odm does not cancel a call that it still awaits."""

_CUT: Final = ("rst_stream", "rst stream", "received unexpected eos on data frame from server")
"""Parts of the message of an INTERNAL failure if the connection was reset; the same as in Google's Java client."""

_TOO_LARGE: Final = "larger than max"
"""Part of the message of RESOURCE_EXHAUSTED if a message is larger than gRPC allows."""

_LOST: Final = RETRIED | {StatusCode.UNKNOWN, StatusCode.INTERNAL}
"""The statuses after which a write may or may not have been applied."""

_BY_NUMBER: Final[Mapping[int, StatusCode]] = {code.value[0]: code for code in StatusCode}

_NO_TABLE = (
    "the table, its instance or its project does not exist: call store.create(), and check the names and transactions= "
    "of the table, with which its name ends otherwise"
)

_MEANING: Final[Mapping[StatusCode, tuple[type[OdmError], str]]] = {
    StatusCode.NOT_FOUND: (
        TableNotFound,
        _NO_TABLE,
    ),
    StatusCode.PERMISSION_DENIED: (
        BackendError,
        "grant a role such as roles/bigtable.user (to create tables, roles/bigtable.admin), and check the names",
    ),
    StatusCode.UNAUTHENTICATED: (BackendError, "the credentials are not valid: log in again, or pass credentials="),
    StatusCode.RESOURCE_EXHAUSTED: (Throttled, "a quota is exhausted: send less, add nodes, or raise the quota"),
    StatusCode.FAILED_PRECONDITION: (BackendError, "the instance, table or app profile does not allow this"),
    StatusCode.UNIMPLEMENTED: (Unsupported, "this server does not support it; is it an emulator, or an old version?"),
    StatusCode.UNAVAILABLE: (
        BackendError,
        "the server cannot be reached: check the network (or the emulator that BIGTABLE_EMULATOR_HOST names)",
    ),
    StatusCode.DEADLINE_EXCEEDED: (BackendError, "the server did not answer in time: try again later"),
    StatusCode.ABORTED: (BackendError, "the server aborted the call: try again"),
    StatusCode.CANCELLED: (
        BackendError,
        "the call was cancelled: close a store only after its last call",
    ),
}

_SINGLE_CLUSTER = (
    "the app profile must use single-cluster routing and allow single-row transactions (single_cluster_routing, "
    "allow_transactional_writes): conditional writes, updates and deletes need both"
)

_STREAM = (
    "give the role the permission bigtable.tables.readChangeStream, which roles/bigtable.admin has, and an app profile "
    "with single-cluster routing; the table needs a change stream, see Bigtable(..., stream=...)"
)

_PROTECTED = (
    "the table has deletion protection: to delete it, first run odm apply, or `gcloud bigtable instances tables "
    "update`, with --no-deletion-protection"
)

_FAMILY_LACKS = ("unknown family", "column family not found")
"""Parts of the messages of the emulator and of Bigtable, with various statuses, if a column family does not exist."""


def status(failure: Exception) -> StatusCode:
    """The gRPC status of a native failure; UNKNOWN for a failure without a status."""
    if isinstance(failure, GoogleAPICallError):
        return failure.grpc_status_code or StatusCode.UNKNOWN
    if isinstance(failure, Closed):
        return StatusCode.CANCELLED
    code = getattr(failure, "code", None) if isinstance(failure, RpcError) else None
    found: StatusCode = (code() if code is not None else None) or StatusCode.UNKNOWN
    return found


def at_deadline(failure: Exception, began: float, seconds: float) -> Exception:
    """The failure of an attempt; CANCELLED at or after its own deadline is the deadline: chance decides which arrives.

    Args:
        failure: the native failure.
        began: when the attempt began, on the monotonic clock.
        seconds: the deadline of the attempt.
    """
    cancelled = not isinstance(failure, Closed) and status(failure) is StatusCode.CANCELLED
    if not cancelled or time.monotonic() - began < seconds:
        return failure
    late = CallFailed(StatusCode.DEADLINE_EXCEEDED, f"no response within {seconds:g} seconds")
    late.__cause__ = failure
    return late


@contextmanager
def loading_credentials() -> Iterator[None]:
    """Reports what a source of credentials raises as google-auth's exception, also what google-auth lets through.

    Raises:
        GoogleAuthError: there are no credentials, or they cannot be refreshed.
    """
    try:
        yield
    except (GoogleAuthError, OdmError):
        raise
    except Exception as error:
        text = f"{type(error).__name__}: {error}"
        raise GoogleAuthError(text) from error  # type: ignore[no-untyped-call]


def passing(failure: Exception) -> bool:
    """Whether the failure is temporary, so that the request may be retried."""
    if isinstance(failure, Closed):
        return False
    code = status(failure)
    return code in RETRIED or (code is StatusCode.INTERNAL and any(word in text_of(failure).lower() for word in _CUT))


def is_throttled(code: StatusCode, message: str) -> bool:
    """Whether the server refused the request because of a quota, so that it may succeed later."""
    return code is StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE not in message


def text_of(failure: Exception) -> str:
    """The message of a native failure."""
    details = getattr(failure, "details", None) if isinstance(failure, RpcError) else None
    return (details() if details is not None else getattr(failure, "message", None)) or str(failure)


def kind_of(failure: Exception) -> str:
    """The kind of a failure, for the log: messages may contain keys."""
    code = getattr(failure, "code", None) if isinstance(failure, RpcError) else None
    return type(failure).__name__ if code is None else str(code().name)


def status_of(answer: Status) -> StatusCode:
    """The gRPC status of the answer to one entry."""
    return _BY_NUMBER.get(answer.code, StatusCode.UNKNOWN)


def is_lost(failure: Exception) -> bool:
    """Whether a write with this failure may have been applied."""
    return not isinstance(failure, GoogleAuthError) and status(failure) in _LOST


def translate(failure: Exception, call: Call) -> OdmError:
    """The error to raise for a native failure of this call, if it is not retried."""
    if isinstance(failure, GoogleAuthError):
        return BackendError(
            f"no credentials for Bigtable ({failure}): run `gcloud auth application-default login`, pass "
            "Bigtable(credentials=...), or set BIGTABLE_EMULATOR_HOST to an emulator"
        )
    return explain(status(failure), text_of(failure), call)


def explain(code: StatusCode, message: str, call: Call, where: str = "") -> OdmError:
    """The error for a status.

    Args:
        code: the status.
        message: the server's message.
        call: the call that failed.
        where: the row, if the status is that of one row of several.
    """
    place = f"{type(call).__name__} on Bigtable table {call.table!r}{where}: {code.name}, {message}"
    if code is StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in message:
        return ItemTooLarge(f"{place}: the message is larger than the server allows; nothing was written")
    if any(words in message.lower() for words in _FAMILY_LACKS):
        return BackendError(f"{place}: the table lacks a column family: call store.create() or odm apply, which add it")
    if code in _LOST and isinstance(call, MutateRow | MutateRows | CheckAndMutateRow | ReadModifyWriteRow):
        return OutcomeUnknown(f"{place}: the write may or may not have been applied; read the item before going on")
    kind, hint = _MEANING.get(code, (BackendError, "the server refused it"))
    return kind(f"{place}: {_hint_of(code, call) or hint}")


def _hint_of(code: StatusCode, call: Call) -> str | None:
    """What to do about a status of a particular call, if it differs from `_MEANING`."""
    match code, call:
        case StatusCode.FAILED_PRECONDITION, CheckAndMutateRow() | ReadModifyWriteRow():
            return _SINGLE_CLUSTER
        case (
            StatusCode.PERMISSION_DENIED | StatusCode.FAILED_PRECONDITION | StatusCode.INVALID_ARGUMENT,
            GenerateInitialChangeStreamPartitions() | ReadChangeStream(),
        ):
            return _STREAM
        case StatusCode.FAILED_PRECONDITION, DeleteTable():
            return _PROTECTED
        case StatusCode.NOT_FOUND, CreateTable() | ListTables():
            return "the instance or its project does not exist: check the names"
        case _:
            return None
