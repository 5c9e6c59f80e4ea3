"""Google's messages as plain protobuf classes: the wrapper classes of its clients are several times slower.

odm parses the response of ReadRows into its own messages, which have the same wire format. A chunk of the response is
bytes, because most chunks need not be parsed (`odm.backends.bigtable.rows`). Google's message wraps the family and the
qualifier of each cell in an inner message, to distinguish absent from empty. Here these fields are the bytes of that
inner message, which suffice to look up the column. An absent field has a default that no such bytes equal.
"""

from typing import Any, Final, Literal, TypeAlias

from google.cloud.bigtable_v2 import types
from google.protobuf.descriptor_pb2 import FieldDescriptorProto, FileDescriptorProto
from google.protobuf.descriptor_pool import DescriptorPool
from google.protobuf.message_factory import GetMessageClass
from google.protobuf.wrappers_pb2 import BytesValue, StringValue

from odm.backends.bigtable.native import Column

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
