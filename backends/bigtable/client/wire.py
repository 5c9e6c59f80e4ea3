"""Requests as the bytes of Google's protobuf messages, with the service and method to call.

The messages are plain protobuf classes: the wrapper classes of Google's clients are several times slower.

odm parses the response of ReadRows into its own messages, which have the same wire format. A chunk of the response is
bytes, because most chunks need not be parsed (`odm.backends.bigtable.client.read_rows`). Google's message wraps the
family and the qualifier of each cell in an inner message, to distinguish absent from empty. Here these fields are the
bytes of that inner message, which suffice to look up the column. An absent field has a default that no such bytes
equal.

The requests of the admin service are Google's messages: they are rare, and its clients take nothing else.
"""

from base64 import urlsafe_b64encode
from functools import lru_cache
from typing import Any, Final, Literal, NamedTuple, TypeAlias, assert_never
from urllib.parse import urlencode

from google.api_core.client_info import ClientInfo
from google.api_core.gapic_v1.client_info import METRICS_METADATA_KEY
from google.cloud.bigtable import __version__ as vendor_version
from google.cloud.bigtable_v2 import types
from google.cloud.bigtable_v2 import types as data
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

from odm.backends.bigtable.client import admin_wire, encoding
from odm.backends.bigtable.client.encoding import field
from odm.backends.bigtable.client.native import (
    Call,
    CheckAndMutateRow,
    Column,
    GenerateInitialChangeStreamPartitions,
    MutateRow,
    MutateRows,
    ReadChangeStream,
    ReadModifyWriteRow,
    ReadRows,
    SampleRowKeys,
    Span,
)
from odm.backends.bigtable.client.native_admin import (
    CreateTable,
    DeleteTable,
    DropRows,
    GetTable,
    ListTables,
    ModifyFamilies,
    UpdateTable,
)
from odm.backends.bigtable.client.retry import ATTEMPT_SECONDS, COMMIT_WITHIN
from odm.immutable import Immutable

Service: TypeAlias = Literal["data", "admin"]
"""A service of Bigtable."""

Received: TypeAlias = bytes | memoryview
"""The bytes of a message, or their place in a response."""

ABSENT: Final = b"\xff"
"""The family or qualifier of a chunk that has none. It is not a valid message, so no present field equals it."""

_CHUNK: Final = {
    "row_key": (1, FieldDescriptorProto.TYPE_BYTES),
    "family_name": (2, FieldDescriptorProto.TYPE_BYTES),
    "qualifier": (3, FieldDescriptorProto.TYPE_BYTES),
    "timestamp_micros": (4, FieldDescriptorProto.TYPE_INT64),
    "value": (6, FieldDescriptorProto.TYPE_BYTES),
    "value_size": (7, FieldDescriptorProto.TYPE_INT32),
    "reset_row": (8, FieldDescriptorProto.TYPE_BOOL),
    "commit_row": (9, FieldDescriptorProto.TYPE_BOOL),
}
"""Field numbers and types of google.bigtable.v2.ReadRowsResponse.CellChunk, without labels, which odm does not use."""


def _read_rows_messages() -> tuple[Any, Any]:
    file = FileDescriptorProto(name="odm/bigtable.proto", package="odm.bigtable", syntax="proto2")
    chunk = file.message_type.add(name="CellChunk")
    once, many = FieldDescriptorProto.LABEL_OPTIONAL, FieldDescriptorProto.LABEL_REPEATED
    for name, (number, kind) in _CHUNK.items():
        added = chunk.field.add(name=name, number=number, type=kind, label=once)
        if name in ("family_name", "qualifier"):
            added.default_value = "\\377"
    answer = file.message_type.add(name="ReadRowsResponse")
    answer.field.add(name="chunks", number=1, type=FieldDescriptorProto.TYPE_BYTES, label=many)
    answer.field.add(name="last_scanned_row_key", number=2, type=FieldDescriptorProto.TYPE_BYTES, label=once)
    pool = DescriptorPool()
    pool.Add(file)
    made = [GetMessageClass(pool.FindMessageTypeByName(f"odm.bigtable.{kind.name}")) for kind in file.message_type]
    return made[0], made[1]


CellChunk, ReadRowsResponse = _read_rows_messages()


def column(family: bytes, qualifier: bytes) -> Column:
    """The column of a chunk, by its ``family_name`` and ``qualifier``."""
    return Column(StringValue.FromString(family).value, BytesValue.FromString(qualifier).value)


RESPONSES: Final = {
    "ReadRows": ReadRowsResponse,
    "MutateRow": types.MutateRowResponse.pb(),
    "MutateRows": types.MutateRowsResponse.pb(),
    "CheckAndMutateRow": types.CheckAndMutateRowResponse.pb(),
    "ReadModifyWriteRow": types.ReadModifyWriteRowResponse.pb(),
    "SampleRowKeys": types.SampleRowKeysResponse.pb(),
    "GenerateInitialChangeStreamPartitions": types.GenerateInitialChangeStreamPartitionsResponse.pb(),
    "ReadChangeStream": types.ReadChangeStreamResponse.pb(),
}
"""The response classes of the data service, by method."""

STREAMS: Final = frozenset(RESPONSES) - {"MutateRow", "CheckAndMutateRow", "ReadModifyWriteRow"}
"""The server-streaming methods."""

WRITES: Final = frozenset({"MutateRow", "MutateRows", "CheckAndMutateRow", "ReadModifyWriteRow"})
"""The methods that write."""


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

    The request is encoded, except for the admin service. ``streamed``: the messages that arrive before a failure, or
    before the end of the answer, are needed.
    """

    service: Service
    method: str
    request: Any
    timeout: float
    metadata: Metadata = ()
    streamed: bool = False


class Wire(Immutable):
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
        seconds, app_profile, streamed = self.seconds, self.app_profile, False
        match call:  # of a data method, with the field number of ``app_profile_id`` in its request
            case ReadRows():
                method, number, content = "ReadRows", 5, encoding.read_rows(call)
                app_profile, streamed = call.profile or app_profile, call.streamed
            case CheckAndMutateRow():
                method, number, content = "CheckAndMutateRow", 7, encoding.check_and_mutate(call)
                seconds = min(seconds, COMMIT_WITHIN)  # a commit that is applied late must still find its claims
            case MutateRow():
                method, number, content = "MutateRow", 4, encoding.mutate(call)
            case MutateRows():
                method, number, content = "MutateRows", 3, encoding.mutate_many(call)
            case ReadModifyWriteRow():
                method, number, content = "ReadModifyWriteRow", 4, encoding.read_modify_write(call)
            case SampleRowKeys():
                method, number, content = "SampleRowKeys", 2, b""
            case GenerateInitialChangeStreamPartitions():
                method, number, content = "GenerateInitialChangeStreamPartitions", 2, b""
                streamed = True
            case ReadChangeStream():
                method, number, content = "ReadChangeStream", 2, _stream(call, min(HEARTBEAT, seconds / 2))
                streamed = True
            case GetTable() | ListTables():
                return Message("admin", *admin_wire.write(call, self.instance), seconds)
            case CreateTable() | UpdateTable() | ModifyFamilies() | DeleteTable() | DropRows():
                return Message("admin", *admin_wire.write(call, self.instance), ADMIN_SECONDS)
            case _:
                assert_never(call)
        start, metadata = _routed(f"{self.instance}/tables/{call.table}", app_profile, number)
        if call.cookies:
            metadata = (*metadata, *call.cookies)
        return Message("data", method, start + content, seconds, metadata, streamed)


@lru_cache(maxsize=256)
def _routed(table: str, app_profile: str, profile: int) -> tuple[bytes, Metadata]:
    """The start of a request, and its metadata; the service routes the request by the first entry.

    Cached, because all requests to a table share them.
    """
    start = field(1, table.encode()) + (field(profile, app_profile.encode()) if app_profile else b"")
    params = {"table_name": table} | ({"app_profile_id": app_profile} if app_profile else {})
    return start, (("x-goog-request-params", urlencode(params)), *_ABOUT)


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
