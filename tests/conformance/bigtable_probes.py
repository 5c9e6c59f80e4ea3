"""The requests to Google's Bigtable emulator in docs/differences.md, sent without odm."""

import contextlib
from collections.abc import Callable, Mapping
from typing import Any, Final

import grpc
from google.api_core.exceptions import GoogleAPICallError
from google.cloud.bigtable_admin_v2 import BigtableTableAdminClient
from google.cloud.bigtable_admin_v2 import types as admin
from google.cloud.bigtable_admin_v2.services.bigtable_table_admin.transports import BigtableTableAdminGrpcTransport
from google.cloud.bigtable_v2 import BigtableClient
from google.cloud.bigtable_v2 import types as data
from google.cloud.bigtable_v2.services.bigtable.transports import BigtableGrpcTransport

INSTANCE: Final = "projects/project/instances/differences"


class Emulator:
    """A table with a family ``d`` on an emulator."""

    def __init__(self, address: str) -> None:
        self._channel = channel = grpc.insecure_channel(address)
        self.client = BigtableClient(transport=BigtableGrpcTransport(channel=channel))
        self._admin = BigtableTableAdminClient(transport=BigtableTableAdminGrpcTransport(channel=channel))
        table = admin.Table(column_families={"d": admin.ColumnFamily()})
        self._admin.create_table(parent=INSTANCE, table_id="probes", table=table)
        self.table = f"{INSTANCE}/tables/probes"

    def close(self) -> None:
        self._admin.delete_table(name=self.table)
        self._channel.close()

    def write(self, key: bytes = b"k", *mutations: Any, **options: Any) -> None:
        request = {"table_name": self.table, "row_key": key, "mutations": mutations or (cell(),), **options}
        self.client.mutate_row(request=request, retry=None)

    def read(self, **options: Any) -> list[bytes]:
        """The values of all cells."""
        answer = self.client.read_rows(request={"table_name": self.table, **options}, retry=None)
        return [chunk.value for response in answer for chunk in response.chunks]


def cell(qualifier: bytes = b"q", family: str = "d", value: bytes = b"v") -> Any:
    return data.Mutation(
        set_cell=data.Mutation.SetCell(
            family_name=family, column_qualifier=qualifier, timestamp_micros=1000, value=value
        )
    )


def _too_many_mutations(emulator: Emulator) -> None:
    emulator.write(b"k", *[cell()] * 100_001)


def _half_a_row(emulator: Emulator) -> str:
    with contextlib.suppress(GoogleAPICallError):
        emulator.write(b"half", cell(), cell(family="unknown"))
    return "writes a part" if emulator.read(rows={"row_keys": [b"half"]}) else "writes nothing"


def _too_long_a_filter(emulator: Emulator) -> None:
    emulator.read(filter=data.RowFilter(value_regex_filter=b"x" * 20_481))


def _too_long_a_label(emulator: Emulator) -> None:
    emulator.read(filter=data.RowFilter(apply_label_transformer="l" * 16))


PROBES: Final[Mapping[str, Callable[[Emulator], str | None]]] = {
    "a row key of 4,097 bytes": lambda emulator: emulator.write(b"k" * 4097),
    "a qualifier of 16,385 bytes": lambda emulator: emulator.write(b"k", cell(b"q" * 16_385)),
    "100,001 mutations of a row": _too_many_mutations,
    "a filter of more than 20,480 bytes": _too_long_a_filter,
    "a label of more than 15 characters": _too_long_a_label,
    "an app profile that does not exist": lambda emulator: emulator.write(app_profile_id="gone"),
    "a mutation of an unknown family, behind another": _half_a_row,
    "an empty row key": lambda emulator: emulator.write(b""),
}
"""The requests by their names on the page; each returns its result, or None for "takes it"."""


def outcome(emulator: Emulator, probe: Callable[[Emulator], str | None]) -> str:
    """The result of a request, as the page describes it."""
    try:
        return probe(emulator) or "takes it"
    except GoogleAPICallError:
        return "refuses it"
