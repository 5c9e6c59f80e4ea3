"""What a failure of Google's client means to odm: one table, from gRPC's status to `odm.errors`.

Two questions are answered here and nowhere else: may the same request be sent again, and what is the user told.
"""

from collections.abc import Mapping
from typing import Final

from google.api_core.exceptions import GoogleAPICallError, GoogleAPIError
from google.auth.exceptions import GoogleAuthError
from grpc import RpcError, StatusCode

from odm.backends.bigtable.native import (
    AdminCall,
    Call,
    CheckAndMutateRow,
    CreateTable,
    DeleteTable,
    ListTables,
    ReadModifyWriteRow,
    ReadRows,
    SampleRowKeys,
    Status,
)
from odm.errors import BackendError, ItemTooLarge, OdmError, OutcomeUnknown, Throttled, Unsupported


class Closed(Exception):
    """The store was closed while a call was under way."""

    def __init__(self) -> None:
        super().__init__("the store was closed meanwhile")


NATIVE_FAILURES: Final = (RpcError, GoogleAPIError, GoogleAuthError, Closed)
"""The bases of all that gRPC and Google's clients raise."""

RETRIED: Final = frozenset(
    {StatusCode.UNAVAILABLE, StatusCode.DEADLINE_EXCEEDED, StatusCode.ABORTED, StatusCode.CANCELLED}
)
"""The server did not do it now and may do it later. The first three are what the vendor's own clients retry; nobody on
this side cancels a call that is still awaited."""

_CUT: Final = ("rst_stream", "rst stream", "received unexpected eos on data frame from server")
"""What the text of an INTERNAL failure has where the connection was cut; so the vendor's Java client tells it."""

_TOO_LARGE: Final = "larger than max"
"""What RESOURCE_EXHAUSTED says of a message that is over gRPC's size."""

_LOST: Final = RETRIED | {StatusCode.UNKNOWN, StatusCode.INTERNAL}
"""After these a write may have been applied."""

_BY_NUMBER: Final[Mapping[int, StatusCode]] = {code.value[0]: code for code in StatusCode}

_MEANING: Final[Mapping[StatusCode, tuple[type[OdmError], str]]] = {
    StatusCode.NOT_FOUND: (
        BackendError,
        "the table, its instance or project does not exist: call store.create(), and check the names",
    ),
    StatusCode.PERMISSION_DENIED: (
        BackendError,
        "give the credentials a role such as roles/bigtable.user (to make tables, bigtable.admin), and check the names",
    ),
    StatusCode.UNAUTHENTICATED: (BackendError, "the credentials are not valid: log in again, or give credentials="),
    StatusCode.RESOURCE_EXHAUSTED: (Throttled, "a quota is used up: slow down, add nodes, or raise the quota"),
    StatusCode.FAILED_PRECONDITION: (BackendError, "the instance, table or app profile does not allow this"),
    StatusCode.UNIMPLEMENTED: (Unsupported, "this server does not have it: an emulator, or an old one?"),
    StatusCode.UNAVAILABLE: (
        BackendError,
        "the server cannot be reached: check the network (or the emulator that BIGTABLE_EMULATOR_HOST names)",
    ),
    StatusCode.DEADLINE_EXCEEDED: (BackendError, "the server did not answer in time: try again later"),
    StatusCode.ABORTED: (BackendError, "the server gave it up: try again"),
    StatusCode.CANCELLED: (
        BackendError,
        "the call was cut off: close a store only after its last call",
    ),
}

_SINGLE_CLUSTER = (
    "the app profile must route to a single cluster and allow transactional writes (single_cluster_routing, "
    "allow_transactional_writes): conditional writes, updates and deletes need both"
)

_PROTECTED = (
    "the table is protected: if it is to go, run `gcloud bigtable instances tables update` with "
    "--no-deletion-protection first"
)

_FAMILY_LACKS = ("unknown family", "column family not found")
"""What the emulator and Bigtable say, under various statuses, of a column family that the table does not have."""


def status(failure: Exception) -> StatusCode:
    """The gRPC status of a native failure; UNKNOWN for one that has none."""
    if isinstance(failure, GoogleAPICallError):
        return failure.grpc_status_code or StatusCode.UNKNOWN
    if isinstance(failure, Closed):
        return StatusCode.CANCELLED
    code = getattr(failure, "code", None) if isinstance(failure, RpcError) else None
    found: StatusCode = (code() if code is not None else None) or StatusCode.UNKNOWN
    return found


def passing(failure: Exception) -> bool:
    """Whether what failed may go well when it is sent again."""
    if isinstance(failure, Closed):
        return False
    code = status(failure)
    return code in RETRIED or (code is StatusCode.INTERNAL and any(word in text_of(failure).lower() for word in _CUT))


def is_throttled(code: StatusCode, message: str) -> bool:
    """Whether the server did not do it because there was too much to do, and may do it later."""
    return code is StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE not in message


def text_of(failure: Exception) -> str:
    """What a native failure says."""
    details = getattr(failure, "details", None) if isinstance(failure, RpcError) else None
    return (details() if details is not None else getattr(failure, "message", None)) or str(failure)


def status_of(answer: Status) -> StatusCode:
    """The gRPC status of the answer to one entry."""
    return _BY_NUMBER.get(answer.code, StatusCode.UNKNOWN)


def is_lost(failure: Exception) -> bool:
    """Whether a write may have been applied although it was answered with this."""
    return not isinstance(failure, GoogleAuthError) and status(failure) in _LOST


def translate(failure: Exception, call: Call) -> OdmError:
    """The error to raise for a native failure of this call, which is not sent again."""
    if isinstance(failure, GoogleAuthError):
        return BackendError(
            f"no credentials for Bigtable ({failure}): run `gcloud auth application-default login`, give "
            "Bigtable(credentials=...), or name an emulator in BIGTABLE_EMULATOR_HOST"
        )
    return explain(status(failure), text_of(failure), call)


def explain(code: StatusCode, message: str, call: Call, where: str = "") -> OdmError:
    """The error for a status.

    Args:
        code: the status.
        message: what the server said.
        call: what was sent.
        where: the row, when the status is that of one row of many.
    """
    place = f"{type(call).__name__} on Bigtable table {call.table!r}{where}: {code.name}, {message}"
    if code is StatusCode.RESOURCE_EXHAUSTED and _TOO_LARGE in message:
        return ItemTooLarge(f"{place}: the message is over the size that the server takes; nothing was written")
    if any(words in message.lower() for words in _FAMILY_LACKS):
        return BackendError(f"{place}: the table lacks a column family: call store.create() or odm apply, which add it")
    if code in _LOST and not isinstance(call, ReadRows | SampleRowKeys | AdminCall):
        return OutcomeUnknown(f"{place}: the write may or may not have been applied; read the item before going on")
    kind, hint = _MEANING.get(code, (BackendError, "the server refused it"))
    return kind(f"{place}: {_hint_of(code, call) or hint}")


def _hint_of(code: StatusCode, call: Call) -> str | None:
    """What a status means for some calls in particular."""
    match code, call:
        case StatusCode.FAILED_PRECONDITION, CheckAndMutateRow() | ReadModifyWriteRow():
            return _SINGLE_CLUSTER
        case StatusCode.FAILED_PRECONDITION, DeleteTable():
            return _PROTECTED
        case StatusCode.NOT_FOUND, CreateTable() | ListTables():
            return "the instance or its project does not exist: check the names"
        case _:
            return None
