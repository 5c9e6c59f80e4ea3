"""Native requests as the bytes of Google's protobuf messages, with the service and method to call.

The requests of the admin service are Google's messages: they are rare, and its clients take nothing else.
"""

from base64 import urlsafe_b64encode
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias, assert_never
from urllib.parse import urlencode

from google.api_core.client_info import ClientInfo
from google.api_core.gapic_v1.client_info import METRICS_METADATA_KEY
from google.cloud.bigtable import __version__ as vendor_version
from google.cloud.bigtable_v2 import types as data

from odm.backends.bigtable import admin_wire
from odm.backends.bigtable.commit import COMMIT_WITHIN
from odm.backends.bigtable.encoding import field, filter_of, mutations_of, number_field
from odm.backends.bigtable.messages import Service
from odm.backends.bigtable.native import (
    AppendValue,
    Call,
    CheckAndMutateRow,
    DataCall,
    Entry,
    GenerateInitialChangeStreamPartitions,
    Increment,
    MutateRow,
    MutateRows,
    ReadChangeStream,
    ReadModifyWriteRow,
    ReadRows,
    RowRange,
    SampleRowKeys,
)
from odm.backends.bigtable.native_admin import (
    CreateTable,
    DeleteTable,
    DropRows,
    GetTable,
    ListTables,
    ModifyFamilies,
    UpdateTable,
)
from odm.backends.bigtable.native_streams import Span
from odm.backends.bigtable.retry import ATTEMPT_SECONDS
from odm.immutable import frozen

ADMIN_SECONDS = 300.0
"""The deadline of a change of a table, in seconds; Google's default for CreateTable."""

HEARTBEAT: Final = 1.0
"""The seconds after which a page of a change stream ends if there are no changes, and at most half of its deadline."""

Metadata: TypeAlias = tuple[tuple[str, str], ...]


def _agent() -> str:
    info = ClientInfo(gapic_version=vendor_version)  # type: ignore[no-untyped-call]
    return str(info.to_user_agent())  # type: ignore[no-untyped-call]


_SUPPORTED: Final = data.FeatureFlags(
    reverse_scans=True, last_scanned_row_responses=True, retry_info=True, routing_cookie=True
)
_FEATURES: Final = urlsafe_b64encode(data.FeatureFlags.serialize(_SUPPORTED)).decode()
_ABOUT: Final[Metadata] = (
    ("bigtable-features", _FEATURES),  # servers use these features only with clients that declare support for them
    (METRICS_METADATA_KEY, _agent()),
)
"""The metadata about this client, sent with every request for data."""


class Message(NamedTuple):
    """A method call: the service, its method, the request, the deadline in seconds, and metadata.

    The request is encoded, except for the admin service.
    """

    service: Service
    method: str
    request: Any
    timeout: float
    metadata: Metadata = ()


@frozen
class Wire:
    """Builds the messages for one instance.

    Attributes:
        instance: the full name, ``projects/<project>/instances/<instance>``.
        app_profile: the app profile of requests for data that name no other; "" is the instance's default.
        seconds: the deadline of an attempt.
    """

    instance: str
    app_profile: str
    seconds: float = ATTEMPT_SECONDS

    def message(self, call: Call) -> Message:
        """The method call for a native request."""
        match call:
            case ReadRows():
                return self._data(call, "ReadRows", 5, _read(call))
            case CheckAndMutateRow():
                return self._data(call, "CheckAndMutateRow", 7, _check(call))
            case MutateRow(_, entry):
                changed = field(2, _key(entry.key)) + mutations_of(3, entry.mutations)
                return self._data(call, "MutateRow", 4, changed)
            case MutateRows(_, entries):
                return self._data(call, "MutateRows", 3, b"".join([field(2, _entry(entry)) for entry in entries]))
            case ReadModifyWriteRow():
                return self._data(call, "ReadModifyWriteRow", 4, _rules(call))
            case SampleRowKeys():
                return self._data(call, "SampleRowKeys", 2, b"")
            case GenerateInitialChangeStreamPartitions():
                return self._data(call, "GenerateInitialChangeStreamPartitions", 2, b"")
            case ReadChangeStream():
                return self._data(call, "ReadChangeStream", 2, _stream(call, min(HEARTBEAT, self.seconds / 2)))
            case GetTable() | ListTables():
                return Message("admin", *admin_wire.write(call, self.instance), self.seconds)
            case CreateTable() | UpdateTable() | ModifyFamilies() | DeleteTable() | DropRows():
                return Message("admin", *admin_wire.write(call, self.instance), ADMIN_SECONDS)
            case _:
                assert_never(call)

    def _data(self, call: DataCall, method: str, profile: int, content: bytes) -> Message:
        """The call of a data method; ``profile``: the field number of ``app_profile_id`` in its request."""
        own = call.profile if isinstance(call, ReadRows) else None
        start, metadata = _routed(f"{self.instance}/tables/{call.table}", own or self.app_profile, profile)
        if call.cookies:
            metadata = (*metadata, *call.cookies)
        # a commit that is applied late must still find its claims
        seconds = min(self.seconds, COMMIT_WITHIN) if isinstance(call, CheckAndMutateRow) else self.seconds
        return Message("data", method, start + content, seconds, metadata)


@lru_cache(maxsize=256)
def _routed(table: str, app_profile: str, profile: int) -> tuple[bytes, Metadata]:
    """The start of a request, and its metadata; the service routes the request by the first entry."""
    start = field(1, table.encode()) + (field(profile, app_profile.encode()) if app_profile else b"")
    params = {"table_name": table} | ({"app_profile_id": app_profile} if app_profile else {})
    return start, (("x-goog-request-params", urlencode(params)), *_ABOUT)


def _read(call: ReadRows) -> bytes:
    rows = b"".join([field(1, _key(key)) for key in call.keys]) if call.keys else field(2, _range(call.range))
    limit = number_field(4, call.limit) if call.limit else b""
    return field(2, rows) + field(3, filter_of(call.filter)) + limit + (number_field(7, True) if call.reverse else b"")


def _range(wanted: RowRange) -> bytes:
    """A RowRange message; without a start or an end, it has no limit there."""
    start = field(2 if wanted.open else 1, _key(wanted.start)) if wanted.open or wanted.start else b""
    return start if wanted.end is None else start + field(3, _key(wanted.end))


def _entry(entry: Entry) -> bytes:
    return field(1, _key(entry.key)) + mutations_of(2, entry.mutations)


def _check(call: CheckAndMutateRow) -> bytes:
    """Without a predicate, the server checks whether the row has any cell."""
    predicate = b"" if call.predicate is None else field(6, filter_of(call.predicate))
    return field(2, _key(call.key)) + predicate + mutations_of(4, call.matched) + mutations_of(5, call.unmatched)


def _rules(call: ReadModifyWriteRow) -> bytes:
    return field(2, _key(call.key)) + b"".join([field(3, _rule(rule)) for rule in call.rules])


def _rule(rule: Increment | AppendValue) -> bytes:
    column = field(1, rule.family.encode()) + field(2, rule.qualifier.encode())
    return column + (number_field(4, rule.by) if isinstance(rule, Increment) else field(3, rule.value))


def _stream(call: ReadChangeStream, heartbeat: float) -> bytes:
    """The request without its table; protobuf's messages can be joined."""
    made = data.ReadChangeStreamRequest.pb()(partition=_partition(call.span))
    for span, token in call.begin.tokens:
        made.continuation_tokens.tokens.add(partition=_partition(span), token=token)
    if not call.begin.tokens:
        made.start_time.FromMicroseconds(call.begin.at)
    made.heartbeat_duration.FromMicroseconds(int(heartbeat * 1_000_000))
    return bytes(made.SerializeToString())


def _partition(span: Span) -> Any:
    return data.StreamPartition.pb()(row_range={"start_key_closed": span.start, "end_key_open": span.end})


def _key(row_key: str) -> bytes:
    return row_key.encode("utf-8", "surrogateescape")
