"""Google's own clients on the emulator, unchanged: data (sync and async), admin, and the older one."""

import asyncio
from collections.abc import Iterator
from typing import Any

import grpc
import pytest
from google.cloud import bigtable
from google.cloud.bigtable import column_family
from google.cloud.bigtable import row_filters as older_filters
from google.cloud.bigtable.data import (
    BigtableDataClient,
    BigtableDataClientAsync,
    DeleteAllFromRow,
    ReadRowsQuery,
    RowMutationEntry,
    RowRange,
    SetCell,
    row_filters,
)
from google.cloud.bigtable.data.read_modify_write_rules import AppendValueRule, IncrementRule
from google.cloud.bigtable_admin_v2 import BigtableTableAdminClient, types
from google.cloud.bigtable_admin_v2.services.bigtable_table_admin.transports import BigtableTableAdminGrpcTransport
from google.protobuf.duration_pb2 import Duration

from odm.backends.bigtable.emulator import emulator

INSTANCE = "projects/p/instances/i"
admin_client: Any = BigtableTableAdminClient
admin_types: Any = types
older: Any = bigtable
older_families: Any = column_family


@pytest.fixture
def address() -> Iterator[str]:
    with emulator() as found:
        yield found


@pytest.fixture
def admin(address: str) -> Iterator[Any]:
    with grpc.insecure_channel(address) as channel:
        yield admin_client(transport=BigtableTableAdminGrpcTransport(channel=channel))


def made(admin: Any) -> None:
    admin.create_table(request={"parent": INSTANCE, "table_id": "t", "table": {"column_families": {"d": {}}}})


def test_the_data_client(admin: Any) -> None:
    made(admin)
    with BigtableDataClient(project="p") as client:
        table = client.get_table("i", "t")
        with table.mutations_batcher() as batcher:
            for number in range(300):
                batcher.append(RowMutationEntry(f"r{number:03}", [SetCell("d", "a", number)]))
        query = ReadRowsQuery(row_ranges=[RowRange("r100", "r200")], limit=50)
        assert [row.row_key for row in table.read_rows(query)] == [b"r%03d" % number for number in range(100, 150)]
        assert table.row_exists("r001")
        assert not table.row_exists("x")
        less_than_9 = row_filters.ValueRangeFilter(end_value=9)
        found = table.check_and_mutate_row("r005", less_than_9, true_case_mutations=DeleteAllFromRow())
        assert found is True
        assert table.read_row("r005") is None
        row = table.read_modify_write_row("n", [IncrementRule("d", "n", 7), AppendValueRule("d", "t", "x")])
        assert [(cell.qualifier, cell.value[-1:]) for cell in row] == [(b"n", b"\7"), (b"t", b"x")]
        assert [key for key, _ in table.sample_row_keys()][-1] == b""
        for key in ("l1", "l2"):  # each comes in several messages
            table.mutate_row(key, [SetCell("d", f"{number}", bytes(30_000)) for number in range(100)])
        rows = table.read_rows(ReadRowsQuery(row_ranges=[RowRange("l", "m")]))
        assert [sum(len(cell.value) for cell in row) for row in rows] == [3_000_000] * 2
        for key in ("l1", "l2"):  # longer than a message that the client takes
            table.mutate_row(key, SetCell("d", "a", bytes(10 * 2**20)))
        rows = table.read_rows(ReadRowsQuery(row_ranges=[RowRange("l", "m")]))
        assert [sum(len(cell.value) for cell in row) for row in rows] == [3_000_000 + 10 * 2**20] * 2
        table.bulk_mutate_rows([RowMutationEntry(key, DeleteAllFromRow()) for key in ("l1", "l2")])
        shards = [ReadRowsQuery(row_ranges=[RowRange("r0", "r1")]), ReadRowsQuery(row_ranges=[RowRange("r1")])]
        assert len(table.read_rows_sharded(shards)) == 299


async def test_the_async_client(address: str, admin: Any) -> None:
    made(admin)
    async with BigtableDataClientAsync(project="p") as client:
        table = client.get_table("i", "t")
        await asyncio.gather(*(table.mutate_row(f"r{n}", SetCell("d", "a", b"v")) for n in range(20)))
        entries = [RowMutationEntry(f"b{n}", SetCell("d", "a", b"v")) for n in range(20)]
        await table.bulk_mutate_rows(entries)
        assert len(await table.read_rows({})) == 40
        wanted = row_filters.RowKeyRegexFilter(b"b.")
        assert len([row async for row in await table.read_rows_stream({"filter": wanted._to_pb()})]) == 10


def test_the_admin_client(admin: Any) -> None:
    made(admin)
    name = f"{INSTANCE}/tables/t"
    assert [one.name for one in admin.list_tables(parent=INSTANCE)] == [name]
    rule = admin_types.GcRule(max_age=Duration(seconds=5))
    change = types.ModifyColumnFamiliesRequest.Modification(id="n", create=types.ColumnFamily(gc_rule=rule))
    changed = admin.modify_column_families(request={"name": name, "modifications": [change]})
    assert changed.column_families["n"].gc_rule.max_age.seconds == 5
    protected = types.Table(name=name, deletion_protection=True)
    operation = admin.update_table(table=protected, update_mask={"paths": ["deletion_protection"]})
    assert operation.result().deletion_protection
    with pytest.raises(Exception, match="protected against deletion"):
        admin.delete_table(name=name)
    token = admin.generate_consistency_token(name=name).consistency_token
    assert admin.check_consistency(name=name, consistency_token=token).consistent
    assert admin.test_iam_permissions(resource=name, permissions=["bigtable.tables.get"]).permissions
    full = admin.get_table(request={"name": name, "view": types.Table.View.FULL})
    assert {*full.column_families} == {"d", "n"}
    assert full.cluster_states


def test_pages_of_tables(admin: Any) -> None:
    for number in range(5):
        admin.create_table(request={"parent": INSTANCE, "table_id": f"t{number}", "table": {}})
    admin.create_table(request={"parent": "projects/p/instances/other", "table_id": "t", "table": {}})
    found = admin.list_tables(request={"parent": INSTANCE, "page_size": 2})
    assert [one.name.rsplit("/", 1)[1] for one in found] == ["t0", "t1", "t2", "t3", "t4"]


def test_the_older_client(address: str) -> None:
    client = older.Client(project="p", admin=True)
    table = client.instance("i").table("t")
    table.create(column_families={"d": older_families.MaxVersionsGCRule(1)})
    assert table.exists()
    rows = [table.direct_row(f"r{number}") for number in range(10)]
    for row in rows:
        row.set_cell("d", b"a", b"1")
    assert {one.code for one in table.mutate_rows(rows)} == {0}
    found = table.read_row(b"r3")
    assert found is not None
    assert found.cells["d"][b"a"][0].value == b"1"
    assert len([*table.read_rows(start_key=b"r2", end_key=b"r5")]) == 3
    appended = table.append_row(b"r1")
    appended.append_cell_value("d", b"a", b"2")
    assert appended.commit()["d"][b"a"][0][0] == b"12"
    conditional = table.conditional_row(b"r1", older_filters.ValueRegexFilter(b"12"))
    conditional.delete(state=True)
    assert conditional.commit()
    table.drop_by_prefix(b"r2")
    assert [row.row_key for row in table.read_rows()] == [b"r0", *(b"r%d" % number for number in range(3, 10))]
    table.truncate()
    assert [*table.read_rows()] == []
    assert [one.table_id for one in client.instance("i").list_tables()] == ["t"]
    table.delete()
    assert not table.exists()
