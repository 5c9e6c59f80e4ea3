"""`odm inspect` on tables of Bigtable that Google's own client wrote: the models read every row."""

import struct
import uuid
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import grpc
import pytest
from google.cloud.bigtable.data import BigtableDataClient, ReadRowsQuery, RowMutationEntry, SetCell
from google.cloud.bigtable.data.row_filters import CellsColumnLimitFilter
from google.cloud.bigtable_admin_v2 import BigtableTableAdminClient
from google.cloud.bigtable_admin_v2.services.bigtable_table_admin.transports import BigtableTableAdminGrpcTransport

from odm import Store, Table, increment, remove
from odm.backends.bigtable import Bigtable
from tests.cli.conftest import Run

Rows = Mapping[str, Mapping[str, bytes | int | str]]
"""Cells by row key and column; the client writes an int in 8 bytes, and text in UTF-8."""

METRIC_MS = 1426535612045
MARKET: Rows = {
    "NASDAQ#ZXZZT#1426535612156": {
        "MD:SYMBOL": "ZXZZT",
        "MD:EXCHANGE": "NASDAQ",
        "MD:BID": struct.pack(">d", 600.55),
        "MD:ASK": struct.pack(">d", 600.60),
        "MD:BIDSIZE": 500,
        "MD:ASKSIZE": 1500,
        "MD:QUOTETIME": 1426535612156,
    },
    "NYSE  #IBM  #1426535612157": {"MD:SYMBOL": "IBM", "MD:EXCHANGE": "NYSE", "MD:ASK": struct.pack(">d", 153.5)},
}
METRICS: Rows = {
    f"server{host}.bbb.com#{METRIC_MS + 5000 * number}": {
        "CPU:CPU1_USR": struct.pack(">d", 0.02 * number),
        "IO:BLK_READ": 253453634,
        "MIO:BLK_WRTN": 657365234,
    }
    for host in (1, 2)
    for number in range(3)
}
METERS: Rows = {
    f"{meter:010}#201707{day}": {
        f"d:{hour:02}{minute:02}": struct.pack(">d", 12.25 + hour) for hour in range(24) for minute in (0, 15, 30, 45)
    }
    for meter in (987654, 4_000_000_001)
    for day in (26, 27)
}
SHOP: Rows = {
    "CUSTOMER#ann#PROFILE": {"d:name": "Ann", "d:mail": "ann@example.com"},
    "CUSTOMER#bob#PROFILE": {"d:name": "Bob", "d:mail": "bob@example.com"},
    "CUSTOMER#ann#ORDER#2026-01-05T09:00:00Z": {
        "d:total": "12.5",
        "d:lines": '[{"sku": "a", "n": 2}]',
        "o:open": "true",
    },
    "CUSTOMER#ann#ORDER#2026-01-06T09:00:00Z": {"d:total": "3", "d:lines": "[]"},
}
FIXED: Rows = {f"0000987654201503{day:02}": {"d:temp": "60.4"} for day in range(1, 4)}
USAGE: Rows = {
    f"page{page}#2026-01-0{day}": {
        "views:total": 60 * page,
        **{f"views:m{minute:02}": page for minute in range(0, 60, 5 * page)},
        **{f"by:2026-01-0{day}T{hour:02}": "7" for hour in range(page)},
        **{f"m:note#{day}{number}": "x" for number in range(3)},
        "m:title": "Start",
    }
    for page in (1, 2)
    for day in (5, 6)
}
TABLES = {"market": MARKET, "metrics": METRICS, "meters": METERS, "shop": SHOP, "fixed": FIXED, "usage": USAGE}


def _bytes(value: bytes | int | str) -> bytes:
    if isinstance(value, int):
        return value.to_bytes(8, "big", signed=True)
    return value.encode() if isinstance(value, str) else value


def _cell(column: str, value: bytes | int | str) -> SetCell:
    family, _, qualifier = column.partition(":")
    return SetCell(family, qualifier, value)


class Place:
    """An emulator with tables that Google's clients made."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.prefix = f"{uuid.uuid4().hex[:8]}-"
        self.location = f"bigtable:project/instance?endpoint={address}&prefix={self.prefix}"
        with grpc.insecure_channel(address) as channel, BigtableDataClient(project="project") as client:
            admin = BigtableTableAdminClient(transport=BigtableTableAdminGrpcTransport(channel=channel))
            for name, rows in TABLES.items():
                self._create(admin, name, {column.partition(":")[0] for cells in rows.values() for column in cells})
                entries = [
                    RowMutationEntry(key, [_cell(column, value) for column, value in cells.items()])
                    for key, cells in rows.items()
                ]
                with client.get_table("instance", self.prefix + name) as table:
                    table.bulk_mutate_rows(entries)

    def cells(self, name: str) -> dict[str, dict[str, bytes]]:
        """The newest cells of a table, by row key and column."""
        with (
            BigtableDataClient(project="project") as client,
            client.get_table("instance", self.prefix + name) as table,
        ):
            rows = table.read_rows(ReadRowsQuery(row_filter=CellsColumnLimitFilter(1)))
        return {
            row.row_key.decode(): {f"{cell.family}:{cell.qualifier.decode()}": cell.value for cell in row.cells}
            for row in rows
        }

    def _create(self, admin: Any, name: str, families: set[str]) -> None:
        kept = {"max_age": timedelta(days=90)} if name == "metrics" else {"max_num_versions": 5}
        table = {"column_families": {family: {"gc_rule": kept} for family in families}}
        parent = "projects/project/instances/instance"
        admin.create_table(request={"parent": parent, "table_id": self.prefix + name, "table": table})


@pytest.fixture(scope="module")
def place(bigtable_emulator: str) -> Iterator[Place]:
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv("BIGTABLE_EMULATOR_HOST", bigtable_emulator)
        yield Place(bigtable_emulator)


class Inspected:
    """The models of a table that `odm inspect` wrote, and a store that has them."""

    def __init__(self, run: Run, place: Place, name: str) -> None:
        done = run("inspect", place.location, name)
        assert (done.code, done.err) == (0, "")
        self.source = done.out
        self.names: dict[str, Any] = {"__name__": f"models_of_{name}"}
        exec(done.out, self.names)
        [table] = [made for made in self.names.values() if isinstance(made, Table)]
        self.db: Any = Store(table, Bigtable("project", "instance", endpoint=place.address))
        self.schema = table.compile()
        self.entities = [entity.cls for entity in self.schema.entities.values()]


@pytest.fixture
def inspected(run: Run, place: Place, request: pytest.FixtureRequest) -> Iterator[Inspected]:
    made = Inspected(run, place, request.param)
    yield made
    made.db.close()


@pytest.mark.parametrize("inspected", TABLES, indirect=True)
def test_every_row_is_read(inspected: Inspected, request: pytest.FixtureRequest) -> None:
    rows = TABLES[request.node.callspec.params["inspected"]]
    found = list(inspected.db.scan())
    assert len(found) == len(rows)
    for one in found:
        fields = inspected.schema.entity(type(one)).primary.fields
        assert inspected.db.get(type(one), **{field: getattr(one, field) for field in fields}) == one


@pytest.mark.parametrize("inspected", TABLES, indirect=True)
def test_a_row_that_is_put_again_has_the_same_bytes(
    inspected: Inspected, place: Place, request: pytest.FixtureRequest
) -> None:
    name = request.node.callspec.params["inspected"]
    for one in list(inspected.db.scan()):
        inspected.db.put(one)
    assert place.cells(name) == {
        key: {column: _bytes(value) for column, value in cells.items()} for key, cells in TABLES[name].items()
    }


@pytest.mark.parametrize("inspected", ["market"], indirect=True)
def test_the_quotes_of_a_stock(inspected: Inspected) -> None:
    [entity] = inspected.entities
    [quote] = inspected.db.query(entity.primary(part_1="NASDAQ", part_2="ZXZZT"))
    assert (quote.ask, quote.bid, quote.bidsize, quote.symbol) == (600.6, 600.55, 500, "ZXZZT")
    assert quote.at == quote.quotetime == datetime(2015, 3, 16, 19, 53, 32, 156000, tzinfo=UTC)
    assert "# Family MD, gc=MaxVersions(5)." in inspected.source


@pytest.mark.parametrize("inspected", ["metrics"], indirect=True)
def test_the_metrics_of_a_host_in_a_range_of_time(inspected: Inspected) -> None:
    [entity] = inspected.entities
    query = entity.primary(part_1="server1.bbb.com").where(entity.at > datetime(2015, 3, 16, 19, 53, 33, tzinfo=UTC))
    assert [one.cpu1_usr for one in inspected.db.query(query)] == [0.02, 0.04]
    assert "gc=MaxAge(days=90)" in inspected.source


@pytest.mark.parametrize("inspected", ["meters"], indirect=True)
def test_the_day_of_a_meter(inspected: Inspected) -> None:
    [entity] = inspected.entities
    found = inspected.db.one(entity, part_1=987654, day=date(2017, 7, 26))
    assert (found.d["0000"], found.d["2345"], len(found.d)) == (12.25, 35.25, 96)


@pytest.mark.parametrize("inspected", ["usage"], indirect=True)
def test_columns_whose_names_are_data(inspected: Inspected, place: Place) -> None:
    [entity] = inspected.entities
    key = entity.primary(part_1="page2", day=date(2026, 1, 5))
    found = inspected.db.one(key)
    assert (found.total, found.m["10"], found.by["2026-01-05T01"], found.note["51"]) == (120, 2, 7, "x")
    before = place.cells("usage")
    inspected.db.update(key, increment(entity.m["10"], 3), remove(entity.note["51"]), when=entity.m["20"] == 2)
    after = before["page2#2026-01-05"]
    after["views:m10"] = _bytes(5)
    del after["m:note#51"]
    assert place.cells("usage") == before
    inspected.db.put(found)
    assert place.cells("usage")["page2#2026-01-05"] == {
        name: _bytes(value) for name, value in USAGE["page2#2026-01-05"].items()
    }


@pytest.mark.parametrize("inspected", ["fixed"], indirect=True)
def test_keys_without_a_separator(inspected: Inspected) -> None:
    [entity] = inspected.entities
    query = entity.primary(part_1=987654).where(entity.day >= date(2015, 3, 2))
    assert [one.day.day for one in inspected.db.query(query)] == [2, 3]


@pytest.mark.parametrize("inspected", ["shop"], indirect=True)
def test_rows_of_two_kinds_are_two_entities(inspected: Inspected) -> None:
    assert sorted(entity.__name__ for entity in inspected.entities) == ["Order", "Profile"]
    order = inspected.names["Order"]
    totals = [one.total for one in inspected.db.query(order.primary(customer="ann").where(order.open == True))]  # noqa: E712
    assert totals == [Decimal("12.5")]


def test_what_cannot_be_inspected(run: Run, place: Place) -> None:
    assert "there is no table" in run("inspect", place.location, "other").line
    assert "bigtable:PROJECT/INSTANCE" in run("inspect", "shop.db", "other").line
