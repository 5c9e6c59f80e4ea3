"""Former values as versions of a cell, and aggregates in aggregate families: what is sent and stored."""

import uuid
from collections.abc import Iterator
from decimal import Decimal
from typing import Annotated, Any

import pytest

from odm import (
    CellVersions,
    Entity,
    Max,
    Min,
    PrimaryKey,
    SchemaError,
    Store,
    Stored,
    Sum,
    Table,
    add_value,
    increment,
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.admin.schema import tables
from odm.backends.bigtable.client.filters import AnyFamily
from odm.backends.bigtable.client.native import ReadRows, Row
from odm.backends.bigtable.client.retry import Retry, read_all
from odm.expressions.collection import MaxVersions
from odm.protocol.connection import run
from odm.results import RequestInfo
from odm.testing import Clock

ads = Table("ads")


class Ad(Entity, table=ads):
    """Fields in all of odm's own families."""

    name: str
    price: Annotated[Decimal, CellVersions(3)] = Decimal(1)
    text: Annotated[str, CellVersions(2)] = ""
    views: Annotated[int, Sum] = 0
    least: Annotated[int | None, Min] = None
    best: Annotated[int | None, Max] = None

    primary = PrimaryKey("AD#{name}")


before = Table("ads")


class AdBefore(Entity, table=before, tag="Ad"):
    """The same without markers."""

    name: str
    price: Decimal = Decimal(1)
    text: str = ""
    views: int = 0
    least: int | None = None
    best: int | None = None

    primary = PrimaryKey("AD#{name}")


KEY = Ad.primary(name="a")


class Opened:
    """A store on the emulator, its native requests, and its rows."""

    def __init__(self, endpoint: str) -> None:
        self.prefix = f"{uuid.uuid4().hex[:8]}-"
        self.backend = Bigtable("test-project", "test-instance", endpoint=endpoint)
        self.clock = Clock()
        self.sent: list[RequestInfo] = []
        self.db = Store(ads, self.backend, prefix=self.prefix, clock=self.clock, on_request=self.sent.append)
        self.db.create()

    def old(self) -> Store:
        """A store with the models before the markers."""
        return Store(before, self.backend, prefix=self.prefix)

    def natives(self) -> list[str]:
        """The requests since the last call, without ids and times."""
        made = [type(info.native).__name__ for info in self.sent]
        self.sent.clear()
        return made

    def cells(self, *families: str) -> list[tuple[str, bytes, int]]:
        """All cells of these families, with their times in milliseconds after the start of the test."""
        connection = self.backend.connect(self.db._session.context.schema)
        call = ReadRows(f"{self.prefix}ads", filter=AnyFamily(families))
        rows: list[Row] = run(read_all(call, Retry()), connection.call)
        start = self.clock.now().timestamp() * 1000
        return [
            (f"{cell.family}:{cell.qualifier.decode()}", cell.value, round(cell.timestamp / 1000 - start))
            for row in rows
            for cell in row.cells
        ]


@pytest.fixture
def opened(bigtable_emulator: str) -> Iterator[Opened]:
    made = Opened(bigtable_emulator)
    yield made
    made.db.drop()
    made.db.close()


def test_the_families_keep_what_the_fields_ask_for() -> None:
    (created,) = tables(ads.compile())
    families = created.families
    assert (families["v"].gc, families["v"].aggregate) == (MaxVersions(3), None)
    assert {name: families[name].aggregate for name in ("sum", "min", "max")} == {
        "sum": "sum",
        "min": "min",
        "max": "max",
    }
    assert set(tables(before.compile())[0].families) == {"d", "c"}


def test_an_update_adds_a_version_and_deletes_none(opened: Opened) -> None:
    db = opened.db
    db.put(Ad(name="a", text="x"))
    opened.natives()
    for price in (2, 3, 4, 5):
        db.update(KEY, set_(Ad.price, Decimal(price)))
    assert opened.natives() == ["ReadRows", "CheckAndMutateRow"] * 4
    assert "deletecolumn v:price" not in str([info.native for info in opened.sent])
    found = [cell for cell in opened.cells("v") if cell[0] == "v:price"]
    assert found[:3] == [("v:price", b"5", 4), ("v:price", b"4", 3), ("v:price", b"3", 2)]
    assert [one.value for one in db.cell_versions(KEY, Ad.price)] == [5, 4, 3]
    assert not [column for column, *_ in opened.cells("d") if column in ("d:price", "d:_was")]


def test_a_read_gets_the_newest_version_only(opened: Opened) -> None:
    db = opened.db
    for price in (1, 2):
        db.put(Ad(name="a", price=Decimal(price)))
    opened.sent.clear()
    assert db.one(KEY).price == next(iter(db.scan(Ad))).price == 2
    filters = [str(info.native.filter) for info in opened.sent if isinstance(info.native, ReadRows)]
    assert len(filters) == 2
    assert set(filters) == {"(c:*|d:*|max:*|min:*|sum:*|v:* | cells-per-column=1)"}


def test_a_put_rewrites_the_versions_and_a_delete_removes_all(opened: Opened) -> None:
    db = opened.db
    for price in (1, 2, 3, 4):
        db.put(Ad(name="a", price=Decimal(price)))
    assert [cell[1] for cell in opened.cells("v") if cell[0] == "v:price"] == [b"4", b"3", b"2"]
    db.delete(KEY)
    assert opened.cells("v", "sum", "d") == []


def test_values_before_the_markers_are_read_and_then_moved(opened: Opened) -> None:
    db = opened.db
    old = AdBefore(name="a", price=Decimal(7), text="x", views=10, least=3, best=3)
    with opened.old() as store:
        store.put(old)
    assert db.one(KEY) == Ad(**vars(old))
    assert [one.views for one in db.scan(Ad, Ad.views == 10)] == [10]
    db.update(KEY, add_value(Ad.views, 5), add_value(Ad.least, 9), add_value(Ad.best, 2), when=Ad.price == 7)
    assert db.one(KEY) == Ad(name="a", price=Decimal(7), text="x", views=15, least=3, best=3)
    db.update(KEY, set_(Ad.price, Decimal(8)), set_(Ad.views, 1))
    assert [(one.value, one.at.year == 1970) for one in db.cell_versions(KEY, Ad.price)] == [
        (Decimal(8), False),
        (Decimal(7), True),
    ]
    assert db.one(KEY).views == 1
    assert not [column for column, *_ in opened.cells("d") if column in ("d:price", "d:views")]


def test_values_are_added_in_one_call_without_a_read(opened: Opened) -> None:
    db = opened.db
    db.put(Ad(name="a", views=1))
    opened.natives()
    db.update(KEY, increment(Ad.views, 2))
    assert opened.natives() == ["CheckAndMutateRow"]
    db.update(KEY, add_value(Ad.views, 2), add_value(Ad.least, -5), add_value(Ad.best, 7))
    (info,) = opened.sent
    mutations = info.native.matched or info.native.unmatched
    assert [str(one) for one in mutations][:3] == [
        "addtocell sum:views=2",
        "addtocell min:least=-5",
        "addtocell max:best=7",
    ]
    assert [cell[:2] for cell in opened.cells("sum")] == [("sum:views", bytes([0, 0, 0, 0, 0, 0, 0, 5]))]
    assert db.one(KEY).views == 5


def test_a_put_sets_an_aggregate_and_can_be_repeated(opened: Opened) -> None:
    shown = str(opened.db.explain(Ad(name="a", views=2, best=5), write="insert"))
    assert "addtocell sum:views=2 addtocell max:best=5" in shown
    assert "max:best" in shown.split("stored")[1]


@pytest.mark.parametrize(
    ("annotation", "says"),
    [
        (Annotated[int, Sum, Stored(family="stats")], "does not apply to a Sum, Min or Max"),
        (Annotated[int, CellVersions(2), Stored(family="stats")], "does not apply to a field with CellVersions"),
    ],
)
def test_such_a_field_has_no_other_family(annotation: Any, says: str) -> None:
    table = Table("ads")

    class One(Entity, table=table):
        name: str
        number: annotation = 0  # pyright: ignore[reportInvalidTypeForm]
        primary = PrimaryKey("AD#{name}")

    with pytest.raises(SchemaError, match=says):
        table.compile()


def test_no_other_cells_are_in_its_family() -> None:
    table = Table("ads")

    class One(Entity, table=table):
        name: str
        total: Annotated[int, Sum] = 0
        note: Annotated[str, Stored(family="sum")] = ""
        primary = PrimaryKey("AD#{name}")

    with pytest.raises(SchemaError, match=r"One\.total is stored in the column family 'sum'"):
        table.compile()
