"""The laws of the codec over random entities: what is stored is documented values, and it comes back equal."""

from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, BeforeValidator, Field, JsonValue

from odm.codec import compile_codec
from odm.codec.types.numbers import canonical
from odm.entities.markers import TTL, Stored
from tests.effort import times

pytestmark = pytest.mark.slow


class Color(Enum):
    RED = "red"
    BLUE = 2
    GREEN = 0.25


class Small(BaseModel):
    n: int = 0
    w: float | None = None
    tags: frozenset[str] = frozenset()


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    naps: timedelta


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    born: date


class Node(BaseModel):
    at: datetime
    children: list["Node"] = []


class Wide(BaseModel):
    text: str
    renamed: Annotated[str, Stored("r")]
    data: bytes
    flag: bool
    whole: int
    money: Decimal
    ratio: float
    at: datetime
    day: date
    clock: time
    took: timedelta
    uid: UUID
    color: Color
    mode: Literal["a", 1, b"x"]
    maybe: datetime | None = None
    must: Decimal | None
    small: Small
    small_maybe: Small | None = None
    smalls: list[Small]
    tree: Node | None
    pet: Annotated[Cat | Dog, Field(discriminator="kind")]
    pets: dict[str, Cat | Dog]
    by_color: dict[str, list[float]]
    pair: tuple[int, timedelta]
    many: tuple[date, ...]
    texts: set[str]
    numbers: frozenset[Decimal] = frozenset()
    spans: set[timedelta] = set()
    blobs: set[bytes] = set()
    mixed: int | float | str | bytes | None = None
    anything: Any = None
    json_value: JsonValue = None
    early: Annotated[float, BeforeValidator(lambda value: value * 1.0)] = 0.0
    until: Annotated[datetime, TTL] | None = None


CODEC = compile_codec(Wide, "wide")

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
whole = st.integers(-(10**38) + 1, 10**38 - 1)
decimals = st.builds(
    lambda digits, exponent: Decimal(digits).scaleb(exponent) if digits else Decimal("-0"), whole, st.integers(-90, 80)
)
floats = st.floats(allow_nan=False, allow_infinity=False).filter(lambda f: f == 0 or 1e-130 <= abs(f) < 1e126)
# A whole float beyond 2**53 may be another number than its digits, and would read as an int where ints are allowed.
exact_floats = floats.filter(lambda f: not f.is_integer() or canonical(f) == f)
zones = st.builds(lambda minutes: timezone(timedelta(minutes=minutes)), st.integers(-1439, 1439))
moments = st.datetimes(datetime(2, 1, 1), datetime(9998, 1, 1), timezones=zones | st.just(UTC))
smalls = st.builds(Small, n=whole, w=st.none() | floats, tags=st.frozensets(texts, max_size=3))
cats = st.builds(Cat, naps=st.timedeltas())
dogs = st.builds(Dog, born=st.dates())
trees = st.recursive(  # at most 10 leaves and so, unlike a deferred strategy, never more than 32 levels
    st.builds(Node, at=moments),
    lambda children: st.builds(Node, at=moments, children=st.lists(children, min_size=1, max_size=2)),
    max_leaves=10,
)
json_values = st.recursive(
    st.none() | st.booleans() | whole | exact_floats | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts.filter(bool), inner, max_size=3),
    max_leaves=5,
)
plain_values = st.recursive(
    st.none()
    | st.booleans()
    | whole
    | decimals
    | texts
    | st.binary(max_size=4)
    | st.sets(whole, min_size=1, max_size=3),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts.filter(bool), inner, max_size=3),
    max_leaves=5,
)
wides = st.builds(
    Wide,
    text=texts,
    renamed=texts,
    data=st.binary(max_size=8),
    flag=st.booleans(),
    whole=whole,
    money=decimals,
    ratio=floats,
    at=moments,
    day=st.dates(),
    clock=st.times(timezones=st.none() | zones),
    took=st.timedeltas(),
    uid=st.uuids(),
    color=st.sampled_from(Color),
    mode=st.sampled_from(["a", 1, b"x"]),
    maybe=st.none() | moments,
    must=st.none() | decimals,
    small=smalls,
    small_maybe=st.none() | smalls,
    smalls=st.lists(smalls, max_size=2),
    tree=st.none() | trees,
    pet=cats | dogs,
    pets=st.dictionaries(texts.filter(bool), cats | dogs, max_size=2),
    by_color=st.dictionaries(texts.filter(bool), st.lists(floats, max_size=2), max_size=2),
    pair=st.tuples(whole, st.timedeltas()),
    many=st.lists(st.dates(), max_size=2).map(tuple),
    texts=st.sets(texts, max_size=3),
    numbers=st.frozensets(decimals, max_size=3),
    spans=st.sets(st.timedeltas(), max_size=3),
    blobs=st.sets(st.binary(max_size=4), max_size=3),
    mixed=st.none() | whole | exact_floats | texts | st.binary(max_size=4),
    anything=plain_values,
    json_value=json_values,
    early=floats,
    until=st.none() | moments,
)


def is_stored_value(value: Any) -> bool:
    """Whether it is a `Value` as documented, to the depth of it."""
    if isinstance(value, dict):
        return type(value) is dict and all(type(k) is str and is_stored_value(v) for k, v in value.items())
    if isinstance(value, list):
        return type(value) is list and all(map(is_stored_value, value))
    if isinstance(value, frozenset):
        kinds = {int if isinstance(member, Decimal) else type(member) for member in value}
        return kinds in ({str}, {int}, {bytes}) and all(map(is_stored_value, value))
    if type(value) in {int, Decimal}:
        return type(canonical(value)) is type(value) and str(canonical(value)) == str(value)
    return type(value) in {type(None), bool, str, bytes}


@settings(max_examples=times(150, 2000))
@given(wides)
def test_stored_values_are_documented_ones_and_come_back_equal(entity: Wide) -> None:
    item = CODEC.encode(entity)
    assert is_stored_value(item)
    back = CODEC.decode(item)
    assert back == entity
    assert CODEC.encode(back) == item
    assert CODEC.read(item, Wide.model_fields) == {name: getattr(entity, name) for name in Wide.model_fields}


@settings(max_examples=times(100, 500))
@given(wides)
def test_every_field_alone_is_stored_as_within_the_entity(entity: Wide) -> None:
    item = CODEC.encode(entity)
    for name, stored in CODEC.stored.items():
        if stored in item:
            assert CODEC.value(name, getattr(entity, name)) == item[stored]


@given(decimals, decimals)
def test_equal_numbers_are_stored_alike(one: Decimal, other: Decimal) -> None:
    assert (canonical(one) == canonical(other)) is (one == other)


@given(moments, moments)
def test_the_order_of_stored_moments_is_that_of_time(one: datetime, other: datetime) -> None:
    assert (CODEC.value("at", one) < CODEC.value("at", other)) is (one < other)
