"""Calls of an emulator by gRPC, with Google's plain messages and without a client."""

from base64 import urlsafe_b64encode
from collections.abc import Iterator
from typing import Any, Final, TypeAlias

import grpc
from google.cloud.bigtable_admin_v2 import types as admin
from google.cloud.bigtable_v2 import types as data

DATA: Final = "google.bigtable.v2.Bigtable"
ADMIN: Final = "google.bigtable.admin.v2.BigtableTableAdmin"

INSTANCE: Final = "projects/p/instances/i"

_FLAGS: Final = data.FeatureFlags(
    reverse_scans=True, last_scanned_row_responses=True, retry_info=True, routing_cookie=True
)
FEATURES: Final = ("bigtable-features", urlsafe_b64encode(data.FeatureFlags.serialize(_FLAGS)).decode())

STREAMS: Final = {
    "ReadRows",
    "SampleRowKeys",
    "MutateRows",
    "ReadChangeStream",
    "GenerateInitialChangeStreamPartitions",
}

CellText: TypeAlias = tuple[str, bytes, int, bytes, tuple[str, ...]]
"""Family, qualifier, timestamp, value and labels."""


class Raw:
    """A channel to an emulator."""

    def __init__(self, address: str) -> None:
        self.channel = grpc.insecure_channel(address, options=[("grpc.max_receive_message_length", -1)])

    def close(self) -> None:
        self.channel.close()

    def call(self, method: str, metadata: tuple[tuple[str, str], ...] = (FEATURES,), **request: Any) -> Any:
        """Call a method; a stream is returned as a list."""
        answer = self.start(method, metadata, **request)
        return [*answer] if method in STREAMS else answer

    def start(self, method: str, metadata: tuple[tuple[str, str], ...] = (FEATURES,), **request: Any) -> Any:
        """Call a method; a stream is returned as it comes."""
        service, types = (DATA, data) if hasattr(data, f"{method}Request") else (ADMIN, admin)
        message = getattr(types, f"{method}Request").pb()
        kind = self.channel.unary_stream if method in STREAMS else self.channel.unary_unary
        made: Any = kind(
            f"/{service}/{method}",
            request_serializer=message.SerializeToString,
            response_deserializer=_answer(types, method).FromString,
        )
        return made(message(**request), metadata=metadata, timeout=20)

    def code(self, method: str, **request: Any) -> str:
        """The name of the status code of a call."""
        try:
            self.call(method, **request)
        except grpc.RpcError as error:
            return str(error.code().name)
        return "OK"

    def create(self, table: str, *families: str, **settings: Any) -> str:
        """Make a table, and its families in this order; returns its full name."""
        made: str = self.call("CreateTable", parent=INSTANCE, table_id=table, table=settings).name
        for family in families:
            self.family(made, family)
        return made

    def family(self, table: str, name: str, **settings: Any) -> None:
        """Add a family to a table."""
        self.call("ModifyColumnFamilies", name=table, modifications=[{"id": name, "create": settings}])

    def rows(self, table: str, **request: Any) -> list[tuple[bytes, list[CellText]]]:
        """The rows of a ReadRows."""
        return [*rows_of(self.call("ReadRows", table_name=table, **request))]


def _answer(types: Any, method: str) -> Any:
    if method in ("CreateTable", "GetTable", "ModifyColumnFamilies"):
        return admin.Table.pb()
    if method == "UpdateTable":
        from google.longrunning.operations_pb2 import Operation

        return Operation
    if not hasattr(types, f"{method}Response"):
        from google.protobuf.empty_pb2 import Empty

        return Empty
    return getattr(types, f"{method}Response").pb()


def rows_of(answers: Any) -> Iterator[tuple[bytes, list[CellText]]]:
    """The rows in the responses of a ReadRows."""
    key, family, qualifier, cells = b"", "", b"", list[CellText]()
    value, split = b"", None
    for chunk in (chunk for one in answers for chunk in one.chunks):
        key = chunk.row_key or key
        family = chunk.family_name.value if chunk.HasField("family_name") else family
        qualifier = chunk.qualifier.value if chunk.HasField("qualifier") else qualifier
        head = (family, qualifier, chunk.timestamp_micros, tuple(chunk.labels)) if split is None else split
        value += chunk.value
        split = head if chunk.value_size else None
        if split is None:
            cells.append((*head[:3], value, head[3]))
            value = b""
        if chunk.commit_row:
            yield key, cells
            cells = []
    assert not cells
    assert split is None


def set_cell(family: str, qualifier: bytes, value: bytes, at: int = 1000) -> dict[str, Any]:
    """A mutation that writes a cell."""
    cell = {"family_name": family, "column_qualifier": qualifier, "value": value, "timestamp_micros": at}
    return {"set_cell": cell}
