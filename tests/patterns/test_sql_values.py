"""Next to SQL: values of every accepted type come back equal and each change is noticed; other types are refused."""

from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from ipaddress import IPv4Address
from itertools import count
from pathlib import PurePosixPath
from types import new_class
from typing import Annotated, Any, Literal, NamedTuple, NewType
from uuid import UUID

import pytest
import sqlalchemy as sa
from pydantic import AnyUrl, BaseModel, Field, JsonValue, PlainSerializer, field_serializer
from typing_extensions import TypeAliasType

from odm import Blob, Compressed, Entity, LazyBytes, PrimaryKey, Revision, SchemaError, Store, Table
from odm.backends.local import Memory
from odm.changes import Inserted
from odm.patterns import sql_push
from odm.patterns.sql import Push, ReadThrough, Rows, WriteBehind, applied_table, outbox_table

EAST = datetime.fromisoformat("2026-05-01T12:30:00.123456+05:00")
_NUMBERS = count()


class Level(Enum):
    GOLD = "gold"
    TIN = "tin"


class Address(BaseModel):
    city: str
    zips: list[int] = []
    at: datetime | None = None
    parts: "list[Address]" = []


@dataclass
class Spot:
    x: int
    name: str = ""


class Pair(NamedTuple):
    one: int
    other: str


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    lives: int


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    name: str


class Masked(BaseModel):
    secret: str

    @field_serializer("secret")
    def mask(self, value: str) -> str:
        return "*" * len(value)


Name = NewType("Name", str)
Names = TypeAliasType("Names", list[Name])
ZIPPED = Annotated[str, Compressed("gzip", over=10)]

ACCEPTED: dict[str, tuple[Any, Any, Any, Any]] = {
    "str": (str, sa.String, "a", "b"),
    "float": (float, sa.Double, 0.1, 0.2),
    "float of a whole number": (float, sa.Double, 1.0, 2.0),
    "negative zero": (float, sa.Double, -0.0, 1.0),
    "Decimal": (Decimal, sa.Numeric(12, 4), Decimal("4.90"), Decimal("4.901")),
    "int or float": (int | float, sa.Double, 5, 5.5),
    "bool": (bool, sa.Boolean, True, False),
    "bytes": (bytes, sa.LargeBinary, b"\x00\xff", b"\x00\xfe"),
    "datetime": (datetime, sa.DateTime(timezone=True), EAST, EAST + timedelta(microseconds=1)),
    "datetime without zone": (datetime, sa.DateTime, EAST, EAST.astimezone(UTC) + timedelta(microseconds=1)),
    "date": (date, sa.Date, date(2026, 1, 1), date(2026, 1, 2)),
    "time": (time, sa.Time, time(12, 30), time(12, 30, 0, 1)),
    "timedelta": (timedelta, sa.Interval, timedelta(seconds=1), timedelta(days=1)),
    "UUID": (UUID, sa.Uuid, UUID(int=1), UUID(int=2)),
    "UUID as text": (UUID, sa.String(36), UUID(int=1), UUID(int=2)),
    "IP address": (IPv4Address, sa.String, IPv4Address("10.0.0.1"), IPv4Address("10.0.0.2")),
    "URL": (AnyUrl, sa.String, AnyUrl("https://a.example/"), AnyUrl("https://b.example/")),
    "path": (PurePosixPath, sa.String, PurePosixPath("a/b"), PurePosixPath("a/c")),
    "Enum": (Level, sa.String, Level.GOLD, Level.TIN),
    "Literal": (Literal["a", "b"], sa.String, "a", "b"),
    "NewType": (Name, sa.String, Name("a"), Name("b")),
    "alias": (Names, sa.JSON, ["a"], ["a", "b"]),
    "constrained parts": (list[Annotated[str, Field(max_length=3)] | None], sa.JSON, [None], ["a", None]),
    "optional": (str | None, sa.String, None, "a"),
    "set": (set[str], sa.JSON, {"x", "y"}, {"y"}),
    "tuple": (tuple[int, str], sa.JSON, (1, "a"), (1, "b")),
    "dict": (dict[str, int], sa.JSON, {"a": 1, "b": 2}, {"b": 2, "a": 2}),
    "dict of an Enum": (dict[Level, Decimal], sa.JSON, {Level.GOLD: Decimal("1.50")}, {Level.TIN: Decimal("1.5")}),
    "model": (Address, sa.JSON, Address(city="Rom", at=EAST), Address(city="Rom", parts=[Address(city="x")])),
    "dataclass": (Spot, sa.JSON, Spot(1), Spot(1, "a")),
    "NamedTuple": (Pair, sa.JSON, Pair(1, "a"), Pair(1, "b")),
    "models": (Cat | Dog, sa.JSON, Cat(lives=9), Dog(name="Rex")),
    "text or float": (str | float, sa.JSON, "0.5", 0.5),
    "text or int": (str | int | None, sa.JSON, "5", 5),
    "list of text or bool": (list[str | bool], sa.JSON, ["true"], [True]),
    "JsonValue": (JsonValue, sa.JSON, {"a": [1, "0.5", None]}, {"a": [1, 0.5, None]}),
}


class Site:
    """A field and its column: items in a table, and rows in a SQL table."""

    def __init__(self, url: str, annotation: Any, kind: Any, *, revision: bool = False) -> None:
        number = next(_NUMBERS)
        table = Table(f"sql_values_{number}")
        annotations = {"item_id": str, "value": annotation, "sql": str | None}
        body: dict[str, Any] = {"sql": None, "primary": PrimaryKey("ITEM#{item_id}")}
        if revision:
            annotations |= {"revision": Annotated[int, Revision]}
            body |= {"revision": 0}
        body["__annotations__"] = annotations
        self.entity: Any = new_class("Item", (Entity,), {"table": table}, lambda space: space.update(body))
        self.metadata = sa.MetaData()
        self.items = sa.Table(
            f"items_{number}",
            self.metadata,
            sa.Column("item_id", sa.String(20), primary_key=True),
            sa.Column("value", kind),
        )
        outbox, applied = outbox_table(self.metadata, self.items), applied_table(self.metadata, self.items)
        self.rows: Rows[Any] = Rows(self.entity, self.items, outbox=outbox, applied=applied)
        self.engine = sa.create_engine(url)
        self.metadata.create_all(self.engine)
        self.db = Store(table, Memory())
        self.db.create()

    def changed(self, item: Any) -> None:
        """Change the row as another program does."""
        assert self.rows.outbox is not None
        with self.engine.begin() as connection:
            connection.execute(sa.delete(self.items))
            connection.execute(sa.insert(self.items).values(self.rows.values(item)))
            connection.execute(sa.insert(self.rows.outbox).values(item_id=item.item_id))

    def waiting(self) -> int:
        assert self.rows.outbox is not None
        with self.engine.connect() as connection:
            return len(connection.execute(sa.select(self.rows.outbox)).all())

    def close(self) -> None:
        self.metadata.drop_all(self.engine)
        self.engine.dispose()


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    return "sqlite://" if request.param == "sqlite" else request.getfixturevalue("postgresql_url")


@pytest.mark.parametrize("name", ACCEPTED)
def test_values_of_accepted_types_come_back_and_each_change_is_noticed(name: str, url: str) -> None:
    follow(Site(url, *ACCEPTED[name][:2]), *ACCEPTED[name][2:])


@pytest.mark.parametrize("annotation", [ZIPPED, ZIPPED | None])
def test_compressed_values_are_compared_if_there_is_a_revision(annotation: Any, url: str) -> None:
    follow(Site(url, annotation, sa.String, revision=True), "a" * 99, "a" * 98 + "b")


@pytest.mark.parametrize(
    ("annotation", "one", "two"), [(set[str], {"a", "b"}, {"a"}), (tuple[str, ...], ("a",), ("b",))]
)
def test_sets_and_tuples_in_arrays(annotation: Any, one: Any, two: Any, postgresql_url: str) -> None:
    follow(Site(postgresql_url, annotation, sa.ARRAY(sa.String)), one, two)


def follow(site: Site, one: Any, two: Any) -> None:
    """Write a value back, load it, push another one, write the first one back, and delete its row."""
    db, key = site.db, site.entity.primary(item_id="i")
    handle, push = WriteBehind(site.rows).handler(site.engine), Push(site.rows)
    first, second = (site.entity(item_id="i", value=value) for value in (one, two))
    handle(Inserted(key=db.key_of(first), new=first, order="1"))
    assert site.waiting() == 0  # the row is equal to the item
    loaded = ReadThrough(site.rows).get(db, site.engine, item_id="i")
    assert loaded is not None
    assert (loaded.value, db.one(key).value) == (one, one)
    handle(Inserted(key=db.key_of(loaded), new=db.one(key), order="2"))
    assert site.waiting() == 0
    for order, item in (("3", second), ("4", first)):
        site.changed(item)
        assert push.drain(db, site.engine) == 1
        assert db.one(key).value == item.value
        handle(Inserted(key=db.key_of(first), new=db.one(key), order=order))
        assert site.waiting() == 0
    db.put(db.one(key).model_copy(update={"value": two}))
    handle(Inserted(key=db.key_of(first), new=db.one(key), order="5"))
    assert site.waiting() == 0
    with site.engine.begin() as connection:
        (row,) = connection.execute(sa.select(site.items)).mappings()
        assert site.rows.item(dict(row)).value == two
        connection.execute(sa.delete(site.items))
        connection.execute(sa.insert(site.rows.outbox).values(item_id="i"))  # type: ignore[arg-type]
    assert push.drain(db, site.engine) == 1
    assert db.get(key) is None
    site.close()


def test_a_change_of_a_compressed_item_during_a_push_is_not_lost() -> None:
    site = Site("sqlite://", ZIPPED, sa.String, revision=True)
    first, second, third = (site.entity(item_id="i", value=letter * 99) for letter in "abc")
    site.changed(first)
    Push(site.rows).drain(site.db, site.engine)
    stale = site.db.one(site.entity, item_id="i")
    site.db.put(stale.model_copy(update={"value": third.value}))
    assert not site.db.run(sql_push._write(site.rows, site.entity.primary(item_id="i"), stale, second))[0]
    assert site.db.one(site.entity, item_id="i").value == third.value


REFUSED: dict[str, tuple[Any, Any, str]] = {
    "LazyBytes": (
        Annotated[LazyBytes, Blob(over=10)],
        sa.LargeBinary,
        "has Blob, and its value is outside of the item",
    ),
    "LazyBytes or None": (Annotated[LazyBytes | None, Blob(over=10)], sa.LargeBinary, "has Blob"),
    "Blob": (Annotated[bytes, Blob(over=10)], sa.LargeBinary, "has Blob"),
    "Compressed": (ZIPPED, sa.String, "is Compressed, and no condition of a write compares it: give Item a Revision"),
    "constrained union": (Annotated[str, Field(max_length=9)] | int, sa.String, "does not keep of which type"),
    "Any": (Any, sa.JSON, "has a part of any type, and SQL keeps no types"),
    "dict": (dict, sa.JSON, "has a part of any type, and SQL keeps no types"),
    "list of Any": (list[Any], sa.JSON, "has a part of any type, and SQL keeps no types"),
    "JsonValue in text": (
        JsonValue,
        sa.String,
        "has the type JsonValue, which column 'value' cannot hold: declare it as JSON",
    ),
    "bytes in JSON": (list[bytes], sa.JSON, "has bytes, which column 'value' of JSON cannot hold"),
    "union in text": (str | int, sa.String, "column 'value' does not keep of which type a value is"),
    "union of texts": (list[str | Decimal], sa.JSON, "column 'value' does not keep of which type a value is"),
    "serializer": (Masked, sa.JSON, "is written as a serializer or exclude= of Masked says"),
    "serializer of a part": (list[Annotated[str, PlainSerializer(str.upper)]], sa.JSON, "as its serializer says"),
    "exclude": (Annotated[str, Field(exclude=True)], sa.String, "is written as a serializer or exclude= of Item says"),
}


@pytest.mark.filterwarnings("ignore:Item.value. PlainSerializer")
@pytest.mark.parametrize("name", REFUSED)
def test_types_without_a_comparison_are_refused(name: str) -> None:
    annotation, kind, message = REFUSED[name]
    with pytest.raises(SchemaError, match=rf"Rows\(Item, .*field 'value' .*{message}.*, or leave it out of columns="):
        Site("sqlite://", annotation, kind)
