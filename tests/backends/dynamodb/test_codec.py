import json
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Annotated, Any

import pytest
from boto3.dynamodb.types import Binary, TypeDeserializer
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel

from odm import TTL, Entity, OdmError, PrimaryKey, Store, Table
from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.items.attributes import from_attribute
from odm.backends.dynamodb.items.codec import (
    read_item,
    read_position,
    to_attribute,
    write_item,
    write_position,
    write_put,
)
from odm.backends.dynamodb.items.layout import Layout
from odm.codec import Draft, compile_codec
from odm.errors import BackendError, BadValue
from odm.protocol.requests import Position, Put
from odm.schema.entity import Key
from tests.backends.dynamodb.canned import Answer, serving

measures = Table("measures")


class Measure(Entity, table=measures):
    id: str
    whole: int = 0
    price: Decimal = Decimal(0)
    real: float = 0
    any: Any = None
    several: list[int] = []
    distinct: set[int] = set()

    primary = PrimaryKey("M#{id}")


_LAYOUT = Layout("shop", ("pk", "sk"), {"by_email": ("by_emailpk", "by_emailsk")})


def _canonical(number: Decimal) -> int | Decimal:
    number = number.normalize(Context(prec=38))
    return int(number) if number == number.to_integral_value() else number


_NUMBERS = st.integers(-(10**38) + 1, 10**38 - 1) | st.builds(
    lambda digits, exponent: _canonical(Decimal(digits).scaleb(exponent, Context(prec=38))),
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.integers(-130, 80),
)
_TEXTS = st.text(st.characters(exclude_categories=["Cs"]))
_SETS = (
    st.frozensets(_TEXTS, min_size=1)
    | st.frozensets(_NUMBERS, min_size=1)
    | st.frozensets(st.binary(), min_size=1)  # members of one type per set
)
_VALUES = st.recursive(
    st.none() | st.booleans() | _NUMBERS | _TEXTS | st.binary() | _SETS,
    lambda inner: st.lists(inner) | st.dictionaries(_TEXTS, inner),
    max_leaves=10,
)


def _typed(value: Any) -> Any:
    """A value with the types of all its parts, so that True and 1 differ."""
    match value:
        case list():
            return [_typed(element) for element in value]
        case dict():
            return {name: _typed(element) for name, element in value.items()}
        case frozenset():
            return frozenset(map(_typed, value))
        case _:
            return type(value), value


@given(_VALUES)
def test_what_is_written_is_read_back_with_its_types(value: Any) -> None:
    assert _typed(from_attribute(to_attribute(value))) == _typed(value)


@given(st.text() | st.booleans() | st.integers(-(10**38) + 1, 10**38 - 1) | st.none())
def test_boto3_reads_the_same_value(value: Any) -> None:
    attribute: Any = to_attribute(value)
    assert TypeDeserializer().deserialize(attribute) == value


def test_boto3_reads_the_same_containers() -> None:
    value = {"tags": frozenset({"a", "b"}), "raw": b"\0", "lines": [Decimal("1.5"), {"n": 2}]}
    attribute: Any = to_attribute(value)
    assert TypeDeserializer().deserialize(attribute) == {**value, "raw": Binary(b"\0")}


@pytest.mark.parametrize(
    ("value", "attribute"),
    [
        (None, {"NULL": True}),
        (True, {"BOOL": True}),
        (1, {"N": "1"}),
        (Decimal("-1.25"), {"N": "-1.25"}),
        ("", {"S": ""}),
        (b"\x00", {"B": b"\x00"}),
        ([1, "a"], {"L": [{"N": "1"}, {"S": "a"}]}),
        ({"a.b": {}}, {"M": {"a.b": {"M": {}}}}),
        (frozenset({"b", "a"}), {"SS": ["a", "b"]}),
        (frozenset({2, Decimal("1.5")}), {"NS": ["1.5", "2"]}),
        (frozenset({b"b"}), {"BS": [b"b"]}),
    ],
)
def test_attribute_values(value: Any, attribute: dict[str, Any]) -> None:
    assert to_attribute(value) == attribute


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("00042", 42),
        ("-0", 0),
        ("1.0", 1),
        ("1.50", Decimal("1.5")),
        ("1.5E2", 150),
        ("1E-130", Decimal("1E-130")),
        ("12345678901234567890123456789.012345678", Decimal("12345678901234567890123456789.012345678")),
    ],
)
def test_numbers_are_read_canonical(text: str, number: int | Decimal) -> None:
    read = from_attribute({"N": text})
    assert read == number
    assert type(read) is type(number)
    assert str(read) == str(number)


@pytest.mark.parametrize("value", [1.5, frozenset(), frozenset({"a", 1}), frozenset({True}), {"a": [frozenset()]}, ()])
def test_values_that_cannot_be_stored_are_refused(value: Any) -> None:
    with pytest.raises(BadValue):
        to_attribute(value)


def test_an_unknown_attribute_type_is_a_backend_error() -> None:
    with pytest.raises(BackendError, match="'X'"):
        from_attribute({"X": "new"})


class _Pass(BaseModel):
    until: Annotated[datetime | None, TTL] = None


@pytest.mark.parametrize(
    ("microseconds", "seconds"),
    [(0, 1767614400), (1, 1767614401), (999_999, 1767614401), (1_000_000, 1767614401)],
)
def test_ttl_is_in_whole_seconds_rounded_up(microseconds: int, seconds: int) -> None:
    """As JSON text and as encoded values: DynamoDB's TTL needs whole seconds, and an item must not expire early."""
    codec = compile_codec(_Pass, "Pass")
    entity = _Pass(until=datetime(2026, 1, 5, 12, tzinfo=UTC) + timedelta(microseconds=microseconds))
    written = write_item(codec, entity)
    assert type(written) is Draft
    assert json.loads(written.form)["_ttl"] == {"N": str(seconds)}
    assert written["_ttl"] == codec.encode(entity)["_ttl"] == seconds
    assert "_ttl" not in write_item(codec, _Pass())


def test_key_attributes_are_written_with_the_item_and_hidden_on_reads() -> None:
    put = Put(Key("C#1", "O#2"), {"_t": "Order", "n": 1}, {"by_email": Key("E#a", "Order")})
    attributes = write_put(_LAYOUT, put)
    assert attributes == {
        "pk": {"S": "C#1"},
        "sk": {"S": "O#2"},
        "by_emailpk": {"S": "E#a"},
        "by_emailsk": {"S": "Order"},
        "_t": {"S": "Order"},
        "n": {"N": "1"},
    }
    assert read_item(_LAYOUT, attributes) == put.item


@pytest.mark.parametrize(
    ("index", "position", "names"),
    [
        (None, Position(Key("p", "s")), {"pk", "sk"}),
        ("by_email", Position(Key("p", "s"), Key("e", "x")), {"pk", "sk", "by_emailpk", "by_emailsk"}),
    ],
)
def test_positions_are_start_keys(index: str | None, position: Position, names: set[str]) -> None:
    attributes = write_position(_LAYOUT, index, position)
    assert set(attributes) == names
    assert read_position(_LAYOUT, index, attributes) == position


def test_a_table_without_sort_key_has_keys_without_sort() -> None:
    layout = Layout("shop", ("pk",), {})
    assert write_position(layout, None, Position(Key("p"))) == {"pk": {"S": "p"}}
    assert read_position(layout, None, {"pk": {"S": "p"}}) == Position(Key("p"))


@pytest.mark.parametrize("text", ["1e999999999", "-1e-999999999", "1e99999999999999999999", "x", "", "NaN", "9" * 5000])
def test_a_number_that_no_item_has_is_an_error_and_takes_no_time(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """An int of a billion digits would take hours."""
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "k")
    number = {"N": text}
    fields: list[dict[str, Any]] = [{name: number} for name in ("whole", "price", "real", "any")]
    fields += [{"several": {"L": [number]}}, {"distinct": {"NS": [text]}}, {"any": {"M": {"a": number}}}]
    items = [{"pk": {"S": "M#a"}, "sk": {"S": ""}, "_t": {"S": "Measure"}, "id": {"S": "a"}} | one for one in fields]
    bodies = [json.dumps({"Item": item}).encode() for item in items]
    with (
        serving(lambda: Answer(bodies.pop(0))) as server,
        Store(measures, DynamoDB(region="eu-west-1", endpoint_url=server.endpoint)) as db,
    ):
        for _ in items:
            with pytest.raises(OdmError):
                db.get(Measure, id="a")
