"""A `Sum` that is a cell of another program's aggregate family: the server adds to it, for every program."""

import struct
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Annotated, Any

import pytest

from odm import (
    Cell,
    Entity,
    ItemInvalid,
    Min,
    PrimaryKey,
    SchemaError,
    Sum,
    Table,
    add_value,
    increment,
    remove,
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import AddToCell, Entry, MutateRow
from tests.backends.bigtable.test_existing_rows import Place

meters = Table("meters", row_style="verbatim")


class Meter(Entity, table=meters):
    id: str
    total: Annotated[int, Sum, Cell("agg:total")] = 0
    hits: Annotated[int, Sum, Cell("agg:hits", "int64be")] = 0
    name: Annotated[str | None, Cell("m:name", "text")] = None

    primary = PrimaryKey("M", "{id}")


KEY = Meter.primary(id="1")


@pytest.fixture
def place(bigtable_emulator: str) -> Iterator[Place]:
    opened = Place(bigtable_emulator, meters)
    yield opened
    opened.db.drop()
    opened.db.close()


def _add(place: Place, by: int, at: int = 0) -> None:
    """As another program does."""
    place.send(MutateRow(place.name, Entry("M#1", (AddToCell("total", by, "agg", at),))))


def test_both_programs_add(place: Place) -> None:
    _add(place, 5)
    assert place.db.one(KEY) == Meter(id="1", total=5)
    place.db.merge(KEY, add_value(Meter.total, 2), increment(Meter.hits))
    place.db.update(KEY, add_value(Meter.total, 3), set_(Meter.name, "n"))
    place.db.update(KEY, increment(Meter.total, 4), when=Meter.total == 10)
    _add(place, -1)
    assert place.db.one(KEY) == Meter(id="1", total=13, hits=1, name="n")
    new = place.db.update(KEY, add_value(Meter.total, 1), returning="new")
    assert new is not None
    assert new.total == 14
    assert place.cells()["M#1"] == {
        "agg:total": struct.pack(">q", 14),
        "agg:hits": struct.pack(">q", 1),
        "m:name": b"n",
    }
    query = Meter.primary()
    assert [one.total for one in place.db.query(query.where(Meter.total > 13))] == [14]
    assert place.db.count(query.where(Meter.total > 14)) == 0


def test_puts_and_deletes(place: Place) -> None:
    place.db.put(Meter(id="1", total=7, name="n"))
    place.db.put(Meter(id="1", total=8, name="n"))
    place.db.update(KEY, set_(Meter.total, 20))
    _add(place, 1)
    assert place.db.one(KEY).total == 21
    place.db.update(KEY, remove(Meter.total))
    assert place.db.one(KEY).total == 0
    place.db.merge(KEY, set_(Meter.total, 3))
    assert place.db.one(KEY).total == 3
    assert place.db.delete(KEY)
    assert place.cells() == {}
    with place.db.batch() as batch:
        batch.merge(KEY, add_value(Meter.total, 2))
    assert place.db.one(KEY).total == 2


def test_no_addition_is_lost(place: Place) -> None:
    place.db.put(Meter(id="1", name="n"))

    def theirs() -> None:
        for _ in range(20):
            _add(place, 1)

    def ours() -> None:
        for _ in range(10):
            place.db.update(KEY, increment(Meter.total), when=Meter.name == "n")
            place.db.merge(KEY, add_value(Meter.total, 1))

    with ThreadPoolExecutor() as pool:
        for one in [pool.submit(theirs), pool.submit(ours)]:
            one.result()
    assert place.db.one(KEY).total == 40


def test_a_sum_of_another_time_is_refused(place: Place) -> None:
    """The server adds up each timestamp apart, so odm would add to a cell that nobody reads."""
    _add(place, 5, 1_000_000)
    for read in (lambda: place.db.get(KEY), lambda: place.db.count(Meter.primary())):
        with pytest.raises(ItemInvalid, match="has the timestamp 1000000, and odm adds to that of 0"):
            read()


FAULTS: dict[str, tuple[dict[str, Any], str]] = {
    "a Min": ({"x": Annotated[int | None, Min, Cell("agg:x")]}, "a Min or Max, or a field with CellVersions"),
    "another encoding": ({"x": Annotated[int, Sum, Cell("agg:x", "text")]}, "a Sum is a cell of 8 bytes"),
    "no cell": ({"x": Annotated[int, Sum], "y": Annotated[str, Cell("m:y")]}, "name the cell of a Sum"),
    "a family with other cells": (
        {"x": Annotated[int, Sum, Cell("agg:x")], "y": Annotated[str, Cell("agg:y")]},
        "has another cell in it",
    ),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_faults(fault: str) -> None:
    fields, says = FAULTS[fault]
    table = Table("faulty", row_style="verbatim")
    body = {"__annotations__": {"id": str, **fields}, "primary": PrimaryKey("{id}"), "x": None if "Min" in fault else 0}
    type("Faulty", (Entity,), body, table=table)
    with pytest.raises(SchemaError, match=says):
        Bigtable("project", "instance", endpoint="localhost:1").connect(table.compile())


def test_rows_of_odm_keep_their_own_family() -> None:
    table = Table("own")
    annotations = {"id": str, "x": Annotated[int, Sum, Cell("agg:x")]}
    type("Own", (Entity,), {"__annotations__": annotations, "x": 0, "primary": PrimaryKey("{id}")}, table=table)
    with pytest.raises(SchemaError, match="a Sum has its cell in a family of odm's own"):
        table.compile()
