"""A condition judges what the entity shows: its truth on a stored item is that of plain Python on the loaded entity."""

import operator
from collections.abc import Callable, Mapping
from typing import Any, Final, assert_never, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from odm.codec import compile_codec
from odm.expressions.build import between, contains, is_in, not_, size, starts_with
from odm.expressions.evaluate import holds
from odm.expressions.nodes import (
    And,
    AnyCondition,
    Between,
    Compare,
    Condition,
    Const,
    Contains,
    Exists,
    IsIn,
    Item,
    Missing,
    Not,
    Operand,
    Or,
    Path,
    Size,
    StartsWith,
)
from odm.expressions.references import Reference
from tests.effort import times

pytestmark = pytest.mark.slow


class Place(BaseModel):
    city: str
    lift: bool = True
    floor: int = 0
    note: str | None = None
    marks: set[str] = set()


class Flat(BaseModel):
    key: str
    n: int = 5
    m: int = 0
    top: int | None = 3
    none: int | None = None
    name: str = "abc"
    tags: set[str] = set()
    numbers: list[int] = [1, 2]
    made: list[int] = Field(default_factory=lambda: [7])
    place: Place = Place(city="Ulm", floor=1)
    home: Place | None = None
    places: list[Place] = []


CODEC: Final = compile_codec(Flat, "Flat")
NOTHING: Final = object()

OPTIONAL: Final = [name for name, info in Flat.model_fields.items() if not info.is_required()]
NUMBERS: Final = st.integers(-1, 8)
TEXTS: Final = st.sampled_from(["", "a", "ab", "abc", "b", "Ulm", "lost"])
PLACES: Final = st.builds(
    Place,
    city=TEXTS,
    lift=st.booleans(),
    floor=st.integers(0, 2),
    note=st.none() | TEXTS,
    marks=st.sets(TEXTS.filter(bool), max_size=2),
)


def ref(*segments: str | int) -> Any:
    return Reference(Path(segments, Flat))


INTS: Final = [
    ref("n"),
    ref("m"),
    ref("top"),
    ref("none"),
    ref("place", "floor"),
    ref("home", "floor"),
    ref("numbers", 0),
]
STRINGS: Final = [ref("name"), ref("place", "city"), ref("home", "note"), ref("places", 0, "note")]
SIZED: Final = [ref("name"), ref("tags"), ref("numbers"), ref("made"), ref("place", "marks"), ref("home", "marks")]
COMPARISONS: Final[list[Callable[[Any, Any], Any]]] = [
    operator.eq,
    operator.ne,
    operator.lt,
    operator.le,
    operator.gt,
    operator.ge,
]


def compared(references: list[Any], values: st.SearchStrategy[Any]) -> st.SearchStrategy[Condition]:
    reference = st.sampled_from(references)
    return st.builds(lambda op, one, other: op(one, other), st.sampled_from(COMPARISONS), reference, values | reference)


TESTS: Final[st.SearchStrategy[Condition]] = st.one_of(
    compared(INTS, NUMBERS),
    compared(STRINGS, TEXTS),
    compared([size(one) for one in SIZED], NUMBERS),
    st.builds(between, st.sampled_from(INTS), NUMBERS, NUMBERS | st.sampled_from(INTS)),
    st.builds(is_in, st.sampled_from(INTS), st.lists(NUMBERS, min_size=1, max_size=3)),
    st.builds(is_in, st.sampled_from([ref("top"), ref("none")]), st.lists(NUMBERS | st.none(), min_size=1, max_size=3)),
    st.builds(starts_with, st.sampled_from(STRINGS), TEXTS.filter(bool)),
    st.builds(contains, st.sampled_from([ref("tags"), ref("place", "marks"), ref("name")]), TEXTS.filter(bool)),
    st.builds(contains, st.sampled_from([ref("numbers"), ref("made")]), NUMBERS),
    st.builds(contains, st.just(ref("places")), PLACES),
    st.builds(
        lambda op, one: op(one, None),
        st.sampled_from([operator.eq, operator.ne]),
        st.sampled_from([ref("n"), ref("top"), ref("none"), ref("place", "note"), ref("home")]),
    ),
    st.builds(
        lambda op, one, place: op(one, place),
        st.sampled_from([operator.eq, operator.ne]),
        st.sampled_from([ref("place"), ref("home"), ref("places", 0)]),
        PLACES,
    ),
    st.builds(
        lambda op, place: op(ref("places"), place), st.sampled_from([operator.eq, operator.ne]), st.lists(PLACES)
    ),
    st.builds(
        lambda op, tags: op(ref("tags"), tags), st.sampled_from([operator.eq, operator.ne]), st.sets(TEXTS, max_size=2)
    ),
)
CONDITIONS: Final = st.recursive(
    TESTS,
    lambda parts: parts.map(not_) | st.builds(operator.and_, parts, parts) | st.builds(operator.or_, parts, parts),
    max_leaves=4,
)
ENTITIES: Final = st.builds(
    Flat,
    key=st.just("k"),
    n=NUMBERS,
    m=NUMBERS,
    top=st.none() | NUMBERS,
    none=st.none() | NUMBERS,
    name=TEXTS,
    tags=st.sets(TEXTS.filter(bool), max_size=2),
    numbers=st.lists(NUMBERS, max_size=2),
    made=st.lists(NUMBERS, max_size=2),
    place=PLACES,
    home=st.none() | PLACES,
    places=st.lists(PLACES, max_size=2),
)


@st.composite
def stored_items(draw: st.DrawFn) -> dict[str, Any]:
    """The stored form of an entity, without some of the attributes that have a default, at any depth."""
    item = dict(CODEC.encode(draw(ENTITIES)))
    for name in draw(st.sets(st.sampled_from(OPTIONAL))):
        item.pop(name, None)
    places = [item.get("place"), item.get("home"), *item.get("places", [])]
    for place in places:
        if place is not None:
            for name in draw(st.sets(st.sampled_from(["lift", "floor", "note", "marks"]))):
                place.pop(name, None)
    return item


@settings(max_examples=times(200, 1000), deadline=None)
@given(stored_items(), CONDITIONS)
def test_a_condition_judges_what_the_entity_shows(item: Item, condition: Condition) -> None:
    lowered = CODEC.lower(condition)
    assert holds(lowered, item) is in_python(condition, CODEC.decode(item)), lowered


def in_python(condition: Condition, entity: Flat) -> bool:
    """The condition on the fields of the loaded entity, in plain Python."""
    node = cast("AnyCondition", condition)
    match node:
        case And(parts):
            return all(in_python(part, entity) for part in parts)
        case Or(parts):
            return any(in_python(part, entity) for part in parts)
        case Not(inner):
            return not in_python(inner, entity)
        case Compare(op, left, right):
            values = [_value(left, entity), _value(right, entity)]
            if Const(None) in (left, right):  # nothing is None
                values = [None if value is NOTHING else value for value in values]
            return _compare(op, *values)
        case Between(operand, low, high):
            value = _value(operand, entity)
            return _compare("<=", _value(low, entity), value) and _compare("<=", value, _value(high, entity))
        case IsIn(operand, choices):
            return any(_compare("=", _value(operand, entity), choice.value) for choice in choices)
        case StartsWith(path, prefix):
            value = _value(path, entity)
            return isinstance(value, str) and value.startswith(prefix.value)
        case Contains(path, member):
            value = _value(path, entity)
            return value not in (None, NOTHING) and member.value in value
        case Exists() | Missing():
            raise AssertionError("these ask about the stored attribute")
        case _:
            assert_never(node)


_IN_PYTHON: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": operator.eq,
    "<>": operator.ne,
    "<": operator.lt,
    "<=": operator.le,
    ">": operator.gt,
    ">=": operator.ge,
}


def _compare(op: str, left: Any, right: Any) -> bool:
    if NOTHING in (left, right):  # a path that leads nowhere, such as a part of None
        return op == "<>"
    if op not in {"=", "<>"} and None in (left, right):
        return False
    return bool(_IN_PYTHON[op](left, right))


def _value(operand: Operand, entity: Flat) -> Any:
    match operand:
        case Const(value):
            return value
        case Size(path):
            value = _value(path, entity)
            return NOTHING if value in (None, NOTHING) else len(value)
        case Path(segments):
            found: Any = entity
            for segment in segments:
                if isinstance(segment, int):
                    found = found[segment] if segment < len(found) else NOTHING
                elif found is None or found is NOTHING:
                    return NOTHING
                else:
                    found = getattr(found, segment)
            return found
        case _:
            assert_never(operand)
