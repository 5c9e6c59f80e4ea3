"""What other programs wrote into a described table: a field reads one stored form, finds it, and writes it back."""

from collections.abc import Iterator
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import count
from typing import Annotated, Any, Final
from uuid import UUID

import boto3
import pytest
from pydantic import BaseModel, Field

from odm import (
    BadValue,
    Entity,
    ItemInvalid,
    PrimaryKey,
    Store,
    Stored,
    Table,
    contains,
    exists,
    field,
    is_in,
    missing,
    set_,
)
from odm.backends.dynamodb import DynamoDB

NOON: Final = datetime(2026, 1, 5, 12, tzinfo=UTC)
ID: Final = UUID("0e4fd2a7-1b5c-4d3e-8f6a-9b7c5d3e1f20")
DAY: Final = date(2026, 1, 5)
NUMBERS: Final = count()


class Address(BaseModel):
    town: str
    zip: int = 0


class Described:
    """A table with one item of another program, whose attribute ``x`` has a form, and models of it."""

    def __init__(self, endpoint: str, attribute: dict[str, Any] | None) -> None:
        self.session = boto3.Session(aws_access_key_id="forms", aws_secret_access_key="x", region_name="eu-west-1")
        self.client = self.session.client("dynamodb", endpoint_url=endpoint)
        self.endpoint, self.name = endpoint, f"forms-{next(NUMBERS)}"
        self.client.create_table(
            TableName=self.name,
            AttributeDefinitions=[{"AttributeName": "PK", "AttributeType": "S"}],
            KeySchema=[{"AttributeName": "PK", "KeyType": "HASH"}],
            BillingMode="PAY_PER_REQUEST",
        )
        self.item = {"PK": {"S": "P#1"}} | ({} if attribute is None else {"x": attribute})
        self.client.put_item(TableName=self.name, Item=self.item)
        self.stores: list[Store] = []

    def model(self, annotation: Any, *default: Any) -> tuple[Any, Store]:
        table = Table(self.name, keys=("PK",), key_style="verbatim", tag=None)
        names = {"__annotations__": {"id": str, "x": annotation}, "primary": PrimaryKey("P#{id}")}
        cls = type("Product", (Entity,), names | ({"x": default[0]} if default else {}), table=table)
        store = Store(table, DynamoDB(self.session, endpoint_url=self.endpoint))
        self.stores.append(store)
        return cls, store

    def stored(self) -> dict[str, Any]:
        found: dict[str, Any] = self.client.get_item(TableName=self.name, Key={"PK": {"S": "P#1"}})["Item"]
        return found

    def close(self) -> None:
        for store in self.stores:
            store.close()
        self.client.close()


@pytest.fixture
def described(dynoxide: str, request: pytest.FixtureRequest) -> Iterator[Described]:
    made = Described(dynoxide, request.param)
    yield made
    made.close()


def iso(text: str) -> Any:
    return Annotated[datetime, Stored(format=text)]


FORMS: Final[list[tuple[dict[str, Any], Any, str, Any, Any]]] = [
    # the attribute, the declaration that does not accept it, what the error says, one that does, and its value
    ({"S": "100"}, int, 'Stored(format="text")', Annotated[int, Stored(format="text")], 100),
    ({"S": "9.5"}, Decimal, 'Stored(format="text")', Annotated[Decimal, Stored(format="text")], Decimal("9.5")),
    ({"S": "9.5"}, float, 'Stored(format="text")', Annotated[float, Stored(format="text")], 9.5),
    (
        {"S": "9.50"},
        Decimal,
        'Stored(format="text") and Field(decimal_places=2)',
        Annotated[Decimal, Field(decimal_places=2), Stored(format="text")],
        Decimal("9.50"),
    ),
    ({"N": "100"}, str, "declare it as int or Decimal", int, 100),
    ({"N": "0.1"}, int, "declare it as int or Decimal", Decimal, Decimal("0.1")),
    ({"N": "1"}, bool, 'Stored(format="number")', Annotated[bool, Stored(format="number")], True),
    ({"S": "true"}, bool, 'Stored(format="true/false")', Annotated[bool, Stored(format="true/false")], True),
    ({"S": "N"}, bool, 'Stored(format="Y/N")', Annotated[bool, Stored(format="Y/N")], False),
    ({"BOOL": True}, int, "declare it as bool", bool, True),
    ({"S": "2026-01-05T12:00:00Z"}, datetime, "%H:%M:%SZ", iso("%Y-%m-%dT%H:%M:%SZ"), NOON),
    ({"S": "2026-01-05T12:00:00Z"}, iso("%Y-%m-%dT%H:%M:%S.%3fZ"), "%H:%M:%SZ", iso("Instant"), NOON),
    ({"S": "2026-01-05T12:00Z"}, datetime, 'format="OffsetDateTime"', iso("OffsetDateTime"), NOON),
    ({"S": "2026-01-05T12:00"}, datetime, 'format="LocalDateTime"', iso("LocalDateTime"), NOON),
    (
        {"S": "2026-01-05T12:00:00.12Z"},
        datetime,
        'format="RFC3339Nano"',
        iso("RFC3339Nano"),
        NOON.replace(microsecond=120000),
    ),
    ({"S": "2026-01-05T12:00:00+00:00"}, datetime, "%H:%M:%S%:z", iso("isoformat"), NOON),
    ({"S": "2026-01-05T12:00:00.123456789Z"}, datetime, "declare it as str to keep all of it", str, None),
    ({"S": "2026-01-05T12:00:00.123456789Z"}, iso("RFC3339Nano"), "nanoseconds", str, None),
    ({"N": "1767614400"}, datetime, 'Stored(epoch="s")', Annotated[datetime, Stored(epoch="s")], NOON),
    (
        {"N": "1767614400.25"},
        Annotated[datetime, Stored(epoch="s")],
        'Stored(epoch="s.f")',
        Annotated[datetime, Stored(epoch="s.f")],
        NOON.replace(microsecond=250000),
    ),
    (
        {"N": "1767614400000000000"},
        datetime,
        'Stored(epoch="ns")',
        Annotated[datetime, Stored(epoch="ns")],
        NOON,
    ),
    ({"N": "1767614400000000001"}, Annotated[datetime, Stored(epoch="ns")], "nanoseconds", int, None),
    ({"N": "20458"}, date, 'Stored(epoch="d")', Annotated[date, Stored(epoch="d")], DAY),
    ({"N": "1767571200"}, date, 'Stored(epoch="s")', Annotated[date, Stored(epoch="s")], DAY),
    ({"S": str(ID).upper()}, UUID, 'Stored(format="upper")', Annotated[UUID, Stored(format="upper")], ID),
    ({"S": ID.hex}, UUID, 'Stored(format="hex")', Annotated[UUID, Stored(format="hex")], ID),
    ({"B": ID.bytes}, UUID, 'Stored(format="bytes")', Annotated[UUID, Stored(format="bytes")], ID),
    ({"S": "aGVsbG8="}, bytes, 'Stored(format="base64")', Annotated[bytes, Stored(format="base64")], b"hello"),
    (
        {"S": '{"town":"Rome","zip":7}'},
        Address,
        'Stored(format="JSON.stringify")',
        Annotated[Address, Stored(format="JSON.stringify")],
        None,
    ),
    (
        {"S": '{"a": [1, 2.5, null]}'},
        dict[str, Any],
        'Stored(format="json.dumps")',
        Annotated[dict[str, Any], Stored(format="json.dumps")],
        None,
    ),
    ({"SS": ["a", "b"]}, list[str], "set[str]", set[str], {"a", "b"}),
    ({"L": [{"S": "a"}, {"S": "b"}]}, set[str], "list[str]", list[str], ["a", "b"]),
    ({"L": [{"S": "1"}]}, list[int], "would write [1]", list[str], ["1"]),
    ({"M": {"town": {"S": "Rome"}, "zip": {"S": "7"}}}, Address, "would write", dict[str, str], None),
]


@pytest.mark.parametrize(
    ("described", "wrong", "says", "right", "value"),
    FORMS,
    indirect=["described"],
    ids=[f"{at}: {one[2]}" for at, one in enumerate(FORMS)],
)
def test_a_form_is_refused_or_declared(described: Described, wrong: Any, says: str, right: Any, value: Any) -> None:
    cls, db = described.model(wrong)
    for read in (lambda: db.get(cls, id="1"), lambda: list(db.scan(cls)), lambda: db.get(cls, id="1", only=[cls.x])):
        with pytest.raises(ItemInvalid, match=r"a stored Product under .*P#1.* does not fit the model: x") as refused:
            read()
        assert says in str(refused.value)
    cls, db = described.model(right)
    found: Any = db.get(cls, id="1")
    db.put(found)
    assert described.stored() == described.item
    if value is None:
        return
    assert found.x == value
    assert type(found.x) is type(value)
    assert list(db.scan(cls, cls.x == value)) == [found]
    db.update(cls.primary(id="1"), set_(cls.x, value), when=cls.x == value)
    assert described.stored() == described.item
    query = cls.primary(id="1").where(cls.x == value)
    assert db.count(query) == 1
    assert db.delete_all(query) == 1


@pytest.mark.parametrize("described", [{"S": "2026-01-05T12:00:00Z"}], indirect=True)
@pytest.mark.parametrize("form", ["Instant", "OffsetDateTime", "LocalDateTime", "RFC3339Nano"])
def test_a_range_of_texts_that_do_not_sort_as_times_is_refused(described: Described, form: str) -> None:
    cls, db = described.model(iso(form))
    with pytest.raises(BadValue, match=r"Product\.x: is of type datetime as .* sorts differently: compare it with =="):
        list(db.scan(cls, cls.x <= NOON))


@pytest.mark.parametrize("described", [{"S": "2026-01-05T12:00:00+00:00"}], indirect=True)
def test_a_range_of_isoformat_texts_is_one_of_times(described: Described) -> None:
    cls, db = described.model(iso("isoformat"))
    later = cls(id="2", x=NOON.replace(microsecond=1))
    db.put(later)
    assert [one.id for one in db.scan(cls, cls.x <= NOON)] == ["1"]
    assert [one.id for one in db.scan(cls, cls.x > NOON)] == ["2"]


@pytest.mark.parametrize("described", [{"S": '{"town":"Rome","zip":7}'}], indirect=True)
def test_json_text_has_no_order_of_members_to_compare(described: Described) -> None:
    cls, db = described.model(Annotated[dict[str, Any], Stored(format="JSON.stringify")])
    with pytest.raises(BadValue, match="JSON text, of which equal values may have several"):
        list(db.scan(cls, cls.x == {"zip": 7, "town": "Rome"}))
    assert [one.x for one in db.scan(cls, cls.x != None)] == [{"town": "Rome", "zip": 7}]  # noqa: E711
    with pytest.raises(BadValue, match="has no parts"):
        list(db.scan(cls, field("x")["town"] == "Rome"))


@pytest.mark.parametrize(
    ("described", "form"),
    [
        ({"S": '{"large":1e+21,"less":100000000000000000000,"small":-1.5e-7,"more":0.000001}'}, "JSON.stringify"),
        ({"S": '{"large": 1000000000000000000000, "small": -1.5e-07, "more": 1e-06}'}, "json.dumps"),
    ],
    indirect=["described"],
    ids=["JavaScript", "Python"],
)
def test_numbers_in_json_have_the_form_of_their_language(described: Described, form: str) -> None:
    cls, db = described.model(Annotated[dict[str, Any], Stored(format=form)])
    read: Any = db.get(cls, id="1")
    assert read.x["large"] == 10**21
    db.put(read)
    assert described.stored() == described.item
    db.update(read, set_(cls.x, {**read.x}))
    assert described.stored() == described.item


class Weighed(BaseModel):
    weight: float
    sizes: list[float | None] = []
    by_day: dict[str, float] = {}
    count: int = 0


@pytest.mark.parametrize(
    ("described", "form"),
    [
        ({"S": '{"weight": 1.0, "sizes": [2.0, null, 1e+16, 0.5], "by_day": {"mo": 3.0}, "count": 4}'}, "json.dumps"),
        ({"S": '{"weight":1,"sizes":[2,null,10000000000000000,0.5],"by_day":{"mo":3},"count":4}'}, "JSON.stringify"),
    ],
    indirect=["described"],
    ids=["Python", "JavaScript"],
)
def test_a_float_in_json_has_the_form_of_its_language(described: Described, form: str) -> None:
    """Python writes a whole float as 1.0, which only the type of the field shows."""
    cls, db = described.model(Annotated[Weighed, Stored(format=form)])
    read: Any = db.get(cls, id="1")
    assert read.x == Weighed(weight=1, sizes=[2, None, 1e16, 0.5], by_day={"mo": 3}, count=4)
    db.put(read)
    assert described.stored() == described.item


@pytest.mark.parametrize("described", [{"NULL": True}, None], indirect=True, ids=["null", "absent"])
def test_null_is_kept_apart_from_a_missing_attribute(described: Described) -> None:
    is_null = "x" in described.item
    cls, db = described.model(str | None, None)
    if is_null:
        with pytest.raises(ItemInvalid, match=r'x is stored as NULL, .* declare it with Stored\(null="keep"\)'):
            db.get(cls, id="1")
    cls, db = described.model(Annotated[str | None, Stored(null="keep")], None)
    found: Any = db.get(cls, id="1")
    assert (found.x, "x" in found.model_fields_set) == (None, is_null)
    assert list(db.scan(cls, cls.x == None)) == [found]  # noqa: E711
    assert bool(list(db.scan(cls, missing(cls.x)))) is not is_null
    assert bool(list(db.scan(cls, exists(cls.x), cls.x == None))) is is_null  # noqa: E711
    db.put(found)
    assert described.stored() == described.item
    db.update(found, set_(cls.x, None))
    assert described.stored()["x"] == {"NULL": True}
    db.put(cls(id="1"))
    assert described.stored() == {"PK": {"S": "P#1"}}


class Place(BaseModel):
    town: str
    zip: int


@pytest.mark.parametrize("model", [Address, Place])
@pytest.mark.parametrize(
    "described", [{"M": {"town": {"S": "Rome"}, "zip": {"N": "7"}, "of": {"S": "x"}}}], indirect=True
)
def test_a_nested_model_equals_the_one_that_is_shown(described: Described, model: Any) -> None:
    cls, db = described.model(model)
    rome, bonn = model(town="Rome", zip=7), model(town="Bonn", zip=7)
    assert [one.id for one in db.scan(cls, cls.x == rome)] == ["1"]
    assert [one.id for one in db.scan(cls, is_in(cls.x, [bonn, rome]))] == ["1"]
    assert list(db.scan(cls, cls.x != rome)) == list(db.scan(cls, cls.x == bonn)) == []


@pytest.mark.parametrize(
    "described", [{"L": [{"M": {"town": {"S": "Rome"}, "zip": {"N": "7"}, "of": {"S": "x"}}}]}], indirect=True
)
def test_models_in_a_list_may_have_members_of_other_programs(described: Described) -> None:
    cls, db = described.model(list[Place])
    rome = Place(town="Rome", zip=7)
    assert [one.x for one in db.scan(cls, cls.x == [rome])] == [[rome]]
    with pytest.raises(BadValue, match="holds models, which may have members of other programs"):
        list(db.scan(cls, contains(cls.x, rome)))


@pytest.mark.parametrize("described", [{"M": {"a": {"M": {"town": {"S": "Rome"}, "zip": {"N": "7"}}}}}], indirect=True)
def test_a_dict_of_models_is_not_compared_as_a_whole(described: Described) -> None:
    cls, db = described.model(dict[str, Place])
    with pytest.raises(BadValue, match="compare in your program, or compare parts of it"):
        list(db.scan(cls, cls.x == {"a": Place(town="Rome", zip=7)}))
    assert [one.id for one in db.scan(cls, cls.x["a"] == Place(town="Rome", zip=7))] == ["1"]


@pytest.mark.parametrize("described", [{"S": "100"}], indirect=True)
def test_no_filter_counts_or_deletes_an_item_that_no_read_shows(described: Described) -> None:
    cls, db = described.model(int)
    query = cls.primary(id="1").where(cls.x != 5)
    for call in (lambda: list(db.query(query)), lambda: db.count(query), lambda: db.delete_all(query)):
        with pytest.raises(ItemInvalid, match="x is stored as text"):
            call()
    assert db.count(cls.primary(id="1").where(cls.x == 100)) == 0
    assert described.stored() == described.item
