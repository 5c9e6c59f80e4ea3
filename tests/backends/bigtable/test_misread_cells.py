"""Cells that their encoding cannot read, such as NaN in a float: every call says so, or skips the item."""

import struct
from collections.abc import Callable, Iterator
from typing import Annotated, Any, Final

import pytest
from pydantic import JsonValue

from odm import (
    Cell,
    Entity,
    ItemInvalid,
    PrimaryKey,
    Store,
    Table,
    increment,
    missing,
    not_,
    set_,
)
from odm.backends.bigtable.client.native import SERVER_TIME, DeleteColumn, Entry, MutateRow, SetCell
from tests.backends.bigtable.test_existing_rows import Place

meters = Table("meters", row_style="verbatim")
own = Table("own")


class Reading(Entity, table=meters):
    id: str
    value: Annotated[float, Cell("m:value", "float64be")]
    note: Annotated[str | None, Cell("m:z", "text")] = None

    primary = PrimaryKey("A", "{id}")


class OwnReading(Entity, table=own):
    """A row of odm, of which another program writes a cell."""

    id: str
    value: Annotated[float, Cell("m:value", "float64be")]
    note: str | None = None

    primary = PrimaryKey("A", "{id}")


CELLS: Final = {
    "NaN": struct.pack(">d", float("nan")),
    "infinity": struct.pack(">d", float("inf")),
    "minus infinity": struct.pack(">d", float("-inf")),
    "4 bytes": b"1234",
    "a number that no other backend holds": struct.pack(">d", 1e300),
}


@pytest.fixture(params=[Reading, OwnReading])
def place(request: pytest.FixtureRequest, bigtable_emulator: str) -> Iterator[tuple[Place, Any]]:
    opened = Place(bigtable_emulator, request.param.__odm_table__)
    yield opened, request.param
    opened.db.drop()
    opened.db.close()


def _replace(place: Place, cell: bytes) -> None:
    """As another program does whose clock may be behind."""
    made = (DeleteColumn("value", "m"), SetCell("value", cell, SERVER_TIME, "m"))
    place.send(MutateRow(place.name, Entry("A#2", made)))


def _calls(cls: Any, db: Store) -> dict[str, Callable[[], Any]]:
    query, key, other = cls.primary(), cls.primary(id="2"), cls.value > 0
    return {
        "get": lambda: db.get(key),
        "query": lambda: list(db.query(query)),
        "filter": lambda: list(db.query(query.where(other))),
        "negated filter": lambda: list(db.query(query.where(not_(cls.value > 1e100)))),
        "equal": lambda: list(db.query(query.where(cls.value == 1.5))),
        "only another field": lambda: list(db.query(query.where(other), only=[cls.note])),
        "reverse": lambda: list(db.query(query.where(other).reverse())),
        "page": lambda: db.page(query.where(other), size=5),
        "first": lambda: db.first(query.where(cls.value > 2)),
        "scan": lambda: list(db.scan(cls, other)),
        "scan of all": lambda: list(db.scan()),
        "count": lambda: db.count(query),
        "count of a filter": lambda: db.count(query.where(other)),
        "count with a limit": lambda: db.count(query.where(cls.value > 5).limit(1)),
        "delete_all of a filter": lambda: db.delete_all(query.where(other)),
        "update": lambda: db.update(key, set_(cls.note, "n"), when=other),
        "increment": lambda: db.update(key, increment(cls.value)),
        "delete": lambda: db.delete(key, when=not_(other)),
        "put": lambda: db.put(cls(id="2", value=1), when=cls.value == 1.5),
    }


@pytest.mark.parametrize("cell", CELLS)
def test_every_call_that_needs_the_value_raises(place: tuple[Place, Any], cell: str) -> None:
    opened, cls = place
    opened.db.put(cls(id="1", value=1.5))
    opened.db.put(cls(id="2", value=1.5))
    _replace(opened, CELLS[cell])
    before = opened.cells()
    calls = _calls(cls, opened.db)
    if cls is OwnReading:
        assert calls.pop("count")() == 2  # of tags alone
    for name, call in calls.items():
        with pytest.raises(ItemInvalid, match=r"2.* does not fit the model: .*value"):
            pytest.fail(f"{name} answers {call()}")
        assert opened.cells() == before, name
    opened.db.update(cls.primary(id="2"), set_(cls.note, "n"))  # needs no value
    opened.db.update(cls.primary(id="2"), set_(cls.value, 2.5), when=cls.note == "n")
    assert opened.db.count(cls.primary().where(cls.value == 2.5)) == 1


@pytest.mark.parametrize("cell", CELLS)
def test_a_store_can_skip_them(place: tuple[Place, Any], cell: str) -> None:
    opened, cls = place
    for id in ("1", "2", "3"):
        opened.db.put(cls(id=id, value=1.5))
    _replace(opened, CELLS[cell])
    errors: list[ItemInvalid] = []
    db = Store(opened.table, opened.backend, prefix=opened.prefix, on_invalid=errors.append)
    query = cls.primary()
    reads: list[Callable[[], Any]] = [
        lambda: db.query(query),
        lambda: db.query(query.where(cls.value > 0)),
        lambda: db.query(query.where(not_(cls.value > 5))),
        lambda: db.scan(cls, cls.value > 0),
        lambda: db.page(query.where(cls.value > 0), size=2).items,
    ]
    for read in reads:
        errors.clear()
        assert sorted(one.id for one in read()) == ["1", "3"]
        assert {"A" in error.key and "2" in error.key for error in errors} == {True}
    assert len(list(db.query(query.where(cls.value > 0), only=[cls.note]))) == 2
    assert db.count(query) == db.count(query.where(cls.value > 0)) == 2
    assert db.delete_all(query.where(cls.value > 0)) == 2
    assert [*opened.cells()] == ["A#2"]


def test_filters_of_other_fields_judge_them(place: tuple[Place, Any]) -> None:
    opened, cls = place
    opened.db.put(cls(id="1", value=1.5, note="n"))
    opened.db.put(cls(id="2", value=1.5))
    _replace(opened, CELLS["NaN"])
    query = cls.primary()
    assert [one.id for one in opened.db.query(query.where(cls.note == "n"))] == ["1"]
    assert opened.db.count(query.where(cls.note == "n")) == 1
    with pytest.raises(ItemInvalid):
        list(opened.db.query(query.where(missing(cls.note))))


documents = Table("documents", row_style="verbatim")
own_documents = Table("own_documents")


class Document(Entity, table=documents):
    id: str
    any: Annotated[Any, Cell("m:any", "json")] = None
    json_value: Annotated[JsonValue, Cell("m:json", "json")] = None
    note: Annotated[str | None, Cell("m:z", "text")] = None

    primary = PrimaryKey("A", "{id}")


class OwnDocument(Entity, table=own_documents):
    id: str
    any: Annotated[Any, Cell("m:any", "json")] = None
    json_value: Annotated[JsonValue, Cell("m:json", "json")] = None
    note: Annotated[str | None, Cell("m:z", "text")] = None

    primary = PrimaryKey("A", "{id}")


@pytest.mark.parametrize("cls", [Document, OwnDocument])
@pytest.mark.parametrize("column", ["any", "json"])
@pytest.mark.parametrize("cell", [b"{", b"\xff", b"NaN", b"1e999", b"[" * 10_000, b""])
def test_a_cell_of_any_json_that_cannot_be_read(bigtable_emulator: str, cls: Any, column: str, cell: bytes) -> None:
    """No value of JSON is one that such a field does not take."""
    place = Place(bigtable_emulator, cls.__odm_table__)
    db, query = place.db, cls.primary()
    for number in (1, 2, 3):
        db.put(cls(id=str(number), any={"a": [1]}, json_value=[1.5], note="x"))
    place.send(MutateRow(place.name, Entry("A#2", (SetCell(column, cell, SERVER_TIME, "m"),))))
    key = cls.primary(id="2")
    calls: list[Callable[[], Any]] = [
        lambda: db.get(key),
        lambda: list(db.query(query)),
        lambda: list(db.query(query.where(cls.any == 1))) + list(db.query(query.where(cls.json_value == 1))),
        lambda: list(db.scan()),
        lambda: db.update(key, set_(cls.note, "y"), returning="new"),
    ]
    for call in calls:
        with pytest.raises(ItemInvalid, match=r"has the cell b"):
            call()
    with Store(cls.__odm_table__, place.backend, prefix=place.prefix, on_invalid="skip") as skipping:
        assert [one.id for one in skipping.query(query)] == ["1", "3"]
        assert [one.id for one in skipping.scan(cls)] == ["1", "3"]
    db.put(cls(id="2", any=1))
    assert db.one(key).any == 1
    db.drop()
    db.close()
