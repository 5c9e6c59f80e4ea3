"""A compiled condition is lowered as one that is not compiled: equal conditions, and equal refusals."""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from functools import cache
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from odm.cache import MOST
from odm.codec import TAG, compile_codec
from odm.codec.conditions import compile_term, shape_of
from odm.codec.paths import Place, Resolver
from odm.codec.types.stored import Unfit
from odm.errors import BadValue
from odm.expressions.evaluate import holds
from odm.expressions.nodes import (
    And,
    Between,
    Compare,
    Condition,
    Const,
    Contains,
    Exists,
    IsIn,
    Missing,
    Not,
    Or,
    Path,
    Size,
    StartsWith,
)
from tests import effort

pytestmark = pytest.mark.slow


class State(StrEnum):
    OPEN = "open"
    PAID = "paid"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


def to_one_place(value: Decimal) -> Decimal:
    return round(value, 1) if value.is_finite() and abs(value) < 10**6 else value


class Part(BaseModel):
    size: int = 1


class Flat(BaseModel):
    name: str
    note: str = "open"
    nick: str | None = None
    mail: Annotated[str, StringConstraints(to_lower=True, strip_whitespace=True)] = "a"
    number: int = 1
    most: Annotated[int, Field(lt=1000)] | None = 7
    share: float = 0.5
    price: Decimal = Decimal("1.5")
    rounded: Annotated[Decimal, AfterValidator(to_one_place)] = Decimal("0.1")
    done: bool = False
    raw: bytes = b"a"
    at: datetime = datetime(2026, 1, 1, tzinfo=UTC)
    made: datetime = Field(default_factory=lambda: datetime(2026, 1, 1, tzinfo=UTC))
    day: date | None = date(2026, 1, 1)
    hour: time = time(12)
    wait: timedelta = timedelta(hours=1)
    id: UUID = UUID(int=1)
    state: State = State.OPEN
    level: Level = Level.LOW
    kind: Literal["a", "b", 1] = "a"
    either: int | str = 1
    tags: set[str] = set()
    names: list[str] = []
    part: Part = Part()
    counts: dict[str, int] = {}
    anything: Any = None


class Other(BaseModel):
    name: str = ""


CODEC = compile_codec(Flat, "F")
FIELDS = [*Flat.model_fields, "unknown"]
VALUES: list[Any] = [
    None,
    "",
    "a",
    "A ",
    "open",
    "paid",
    "\ud800",
    "é",
    0,
    1,
    2,
    -1,
    1000,
    10**39,
    True,
    False,
    0.5,
    1.5,
    float("nan"),
    float("inf"),
    Decimal("1.5"),
    Decimal("0.14"),
    Decimal("NaN"),
    b"",
    b"a",
    State.OPEN,
    State.PAID,
    Level.LOW,
    Level.HIGH,
    UUID(int=1),
    datetime(2026, 1, 1, tzinfo=UTC),
    datetime(2026, 1, 1),
    datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2))),
    date(2026, 1, 1),
    time(12),
    time(12, tzinfo=UTC),
    timedelta(hours=1),
    set(),
    {"a"},
    frozenset({1}),
    [],
    ["a"],
    {},
    {"size": 1},
    Part(),
    object(),
    Flat,
]

owners = st.sampled_from([None, Flat, Flat, Other])
values = st.sampled_from(VALUES)
consts = values.map(Const)
fields = st.builds(lambda name, owner: Path((name,), owner), st.sampled_from(FIELDS), owners)
deeper = st.sampled_from([Path(("part", "size")), Path(("counts", "x")), Path(("names", 0)), Path(("name", "x"))])
paths = st.one_of(fields, fields, fields, deeper)
operands = st.one_of(paths, paths, paths.map(Size))
ops = st.sampled_from(["=", "<>", "<", "<=", ">", ">="])
leaves: st.SearchStrategy[Condition] = st.one_of(
    st.builds(Compare, ops, operands, consts),
    st.builds(Compare, ops, consts, operands),
    st.builds(Compare, ops, operands, operands),
    st.builds(Between, operands, consts, consts),
    st.builds(IsIn, operands, st.lists(consts, min_size=1, max_size=3).map(tuple)),
    st.builds(StartsWith, paths, consts),
    st.builds(Contains, paths, consts),
    st.builds(Exists, paths),
    st.builds(Missing, paths),
)


def several(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[tuple[Condition, ...]]:
    return st.lists(parts, min_size=2, max_size=3).map(tuple)


conditions = st.recursive(
    leaves,
    lambda parts: st.one_of(st.builds(And, several(parts)), st.builds(Or, several(parts)), st.builds(Not, parts)),
    max_leaves=4,
)


def alone(resolver: Resolver, condition: Condition) -> Condition:
    """The condition lowered by terms that are compiled for it alone, part by part."""
    match condition:
        case And(parts) | Or(parts):
            return type(condition)(tuple(alone(resolver, part) for part in parts))
        case Not(part):
            return Not(alone(resolver, part))
    return compile_term(resolver, condition).lower(condition)


def outcome(lower: Callable[[Condition], object], condition: Condition) -> object:
    """What lowering gives, with the types of values, which are equal across types; or the text of the refusal."""
    try:
        lowered = lower(condition)
    except BadValue as error:
        return str(error)
    return lowered, typed(lowered)


def typed(node: object) -> object:
    if isinstance(node, Const):
        return type(node.value), repr(node.value)
    if isinstance(node, tuple):
        return tuple(map(typed, node))
    if isinstance(node, Condition | Size):
        return type(node), *(typed(getattr(node, name)) for name in type(node).__match_args__)  # type: ignore[union-attr]
    return node


@settings(max_examples=effort.times(120, 3000))
@given(st.lists(conditions, min_size=1, max_size=4))
@example([Compare(">", Path(("number",)), Const(0)), Compare(">", Path(("number",)), Const(5))])
@example([Compare("=", Path(("number",)), Const(1)), Compare("=", Path(("number",)), Const(True))])
@example([Compare("<>", Path(("note",)), Const("open")), Compare("<>", Path(("note",)), Const("paid"))])
def test_a_condition_is_lowered_as_without_its_shape(those: list[Condition]) -> None:
    resolver = CODEC._actions.resolver
    for condition in those:
        expected = outcome(lambda one: alone(resolver, one), condition)
        assert outcome(CODEC.lower, condition) == expected
        assert outcome(CODEC.lower, condition) == expected


@given(conditions)
def test_a_shape_has_no_values(condition: Condition) -> None:
    assert hash(shape_of(condition, CODEC.declared)) == hash(shape_of(condition, CODEC.declared))


class Color(StrEnum):
    RED = "red"
    BLUE = "blue"


class Inner(BaseModel):
    size: int = 1
    word: Annotated[str, StringConstraints(to_lower=True)] = "w"
    marks: set[str] = set()
    counts: dict[str, int] = {"x": 3}
    fresh: list[int] = Field(default_factory=lambda: [1, 2])
    note: str | None = None


class Deep(BaseModel):
    inners: list[Inner] = [Inner(size=4), Inner()]
    one: Inner = Inner(size=2)
    maybe: Inner | None = None
    named: dict[str, Inner] = {"x": Inner(size=9)}
    pair: tuple[int, str] = (1, "a")
    lower: dict[Annotated[str, StringConstraints(to_lower=True)], int] = {"x": 1}
    colors: dict[Color, int] = {Color.RED: 1}
    union: Inner | int = 1
    anything: Any = None
    fresh: Inner = Field(default_factory=lambda: Inner(size=5))
    lists: dict[str, list[Inner]] = Field(default_factory=lambda: {"x": [Inner()]})
    numbers: list[int] = [1, 2]
    tags: set[str] = set()
    hour: time = time(12)
    state: State = State.OPEN
    kind: Literal["a", "b"] = "a"


DEEP = compile_codec(Deep, "D")
KEYS: list[str | int] = ["x", "y", "X", "size", "red", "green", "", 0, 1, 2, 7, 2**31]
SEGMENTS: list[str | int] = [*Inner.model_fields, *KEYS]
EXAMPLES: list[Any] = [
    *VALUES,
    Inner(),
    Inner(size=2),
    [Inner()],
    {"x": 1},
    {"x": Inner()},
    (1, "a"),
    Color.RED,
    "W",
    9,
]


@cache
def place_of(path: Path) -> Place | None:
    """Where a path leads in the deep model."""
    try:
        return DEEP._actions.resolver.resolve(path)
    except BadValue:
        return None


def fitting(path: Path) -> list[Any]:
    """Values that fit a place, and some that do not."""
    place, those = place_of(path), list[Any]()
    for value in EXAMPLES:
        with suppress(Unfit):
            if place is not None:
                place.type.loose(value)
                those.append(value)
    return those or EXAMPLES


@st.composite
def deep_paths(draw: st.DrawFn) -> Path:
    """A path that leads somewhere, if there is one, up to three segments long."""
    segments: tuple[str | int, ...] = (draw(st.sampled_from([*Deep.model_fields])),)
    for _ in range(draw(st.sampled_from([0, 1, 2]))):
        further = [one for one in SEGMENTS if place_of(Path((*segments, one))) is not None]
        some = further if further and draw(st.sampled_from([*"known", ""])) else SEGMENTS
        segments = (*segments, draw(st.sampled_from(some)))
    return Path(segments)


@st.composite
def deep_leaves(draw: st.DrawFn) -> Condition:
    path, other = draw(deep_paths()), draw(deep_paths())
    op: Any = draw(ops)
    const = st.sampled_from(fitting(path)).map(Const)
    which = draw(st.integers(0, 10))
    if which < 3:
        return Compare(op, path, draw(const)) if which else Compare(op, draw(const), path)
    if which == 3:
        sides: tuple[Any, Any] = draw(st.tuples(*[st.sampled_from([one, Size(one)]) for one in (path, other)]))
        return Compare(op, *sides)
    if which == 4:
        return Compare(op, Size(path), Const(draw(st.integers(0, 3))))
    if which == 5:
        return Between(path, draw(const), draw(st.one_of(const, st.just(other))))
    if which == 6:
        return IsIn(path, tuple(draw(st.lists(st.one_of(const, consts), min_size=1, max_size=3))))
    if which == 7:
        return StartsWith(path, Const(draw(st.sampled_from(["a", "W", b"a"]))))
    if which == 8:
        return Contains(path, Const(draw(st.sampled_from(EXAMPLES))))
    return draw(st.sampled_from([Exists(path), Missing(path)]))


deep_conditions = st.recursive(
    deep_leaves(),
    lambda parts: st.one_of(st.builds(And, several(parts)), st.builds(Or, several(parts)), st.builds(Not, parts)),
    max_leaves=3,
)


@settings(max_examples=effort.times(80, 3000), deadline=None)
@given(st.lists(deep_conditions, min_size=1, max_size=4), st.sampled_from(["lower", "lower_stored"]))
@example([Compare("=", Path(("lower", key)), Const(1)) for key in ("Y", "x", "X")], "lower")
@example([Compare("=", Path(("numbers", at)), Const(2)) for at in (0, 1, 7)], "lower")
@example([Compare("=", Path(("pair", at)), Const(value)) for at, value in ((0, 1), (1, "a"), (0, "a"))], "lower")
@example([Compare("=", Path(("inners", at, "size")), Const(4)) for at in (0, 1)], "lower")
@example([Compare("<", Size(Path(("inners",))), Const(number)) for number in (0, 2)], "lower")
@example([Compare("=", Path(("tags",)), Const(tags)) for tags in ({"a"}, set(), {"b"})], "lower")
def test_a_condition_on_a_part_is_lowered_as_without_its_shape(those: list[Condition], which: str) -> None:
    resolver = DEEP._actions.resolver if which == "lower" else DEEP._stored_resolver
    for condition in those:
        expected = outcome(lambda one: alone(resolver, one), condition)
        assert outcome(getattr(DEEP, which), condition) == expected
        assert outcome(getattr(DEEP, which), condition) == expected


SHARED: dict[str, Callable[[int], Condition]] = {
    "numbers": lambda number: Compare("<", Path(("number",)), Const(number)),
    "several choices": lambda number: IsIn(Path(("name",)), tuple(Const(str(at)) for at in range(number + 1))),
    "choices of several types": lambda number: IsIn(Path(("either",)), (Const(number), Const(str(number)))),
    "keys of a dict": lambda number: Compare("=", Path(("counts", f"k{number}")), Const(1)),
    "positions in a list": lambda number: Exists(Path(("names", number))),
    "sizes": lambda number: Compare("=", Size(Path(("names",))), Const(number)),
    "elements": lambda number: Contains(Path(("tags",)), Const(str(number))),
    "parts of text": lambda number: Contains(Path(("name",)), Const(str(number))),
    "lists": lambda number: Compare("=", Path(("names",)), Const(["a"] * number)),
    "sets": lambda number: Compare("=", Path(("tags",)), Const({str(number)})),
    "dicts": lambda number: Compare("=", Path(("counts",)), Const({str(number): number})),
    "models": lambda number: Compare("=", Path(("part",)), Const(Part(size=number))),
    "two fields": lambda number: Compare("<", Path(("counts", f"k{number}")), Path(("number",))),
    "times": lambda number: Compare("<", Path(("hour",)), Const(time(number % 24))),
    "anything": lambda number: Compare("=", Path(("anything", f"k{number}", number)), Const(1)),
    "computed defaults": lambda number: Compare("<", Path(("made",)), Const(datetime(2000 + number, 1, 1, tzinfo=UTC))),
}


@pytest.mark.parametrize("name", SHARED)
def test_conditions_that_differ_in_values_share_a_term(name: str) -> None:
    codec = compile_codec(Flat, "F")
    lowered = [codec.lower(SHARED[name](number)) for number in range(300)]
    assert len(codec._terms) == 1
    resolver = codec._actions.resolver
    assert lowered == [alone(resolver, SHARED[name](number)) for number in range(300)]


def test_a_refused_value_does_not_spoil_the_term_of_its_shape() -> None:
    codec = compile_codec(Flat, "F")
    for key in ("", "k" * 70_000):
        with pytest.raises(BadValue, match="leads nowhere"):
            codec.lower(Exists(Path(("counts", key))))
    assert codec.lower(Exists(Path(("counts", "a")))) == Exists(Path(("counts", "a")))
    with pytest.raises(BadValue, match="leads nowhere"):
        codec.lower(Exists(Path(("counts", ""))))


def test_the_first_part_that_is_refused_is_reported() -> None:
    codec, bad = compile_codec(Flat, "F"), (Compare("=", Path(("number",)), Const("x")), Exists(Path(("counts", ""))))
    for parts in (bad, bad[::-1]):
        for _ in range(2):
            with pytest.raises(BadValue, match="not a number" if parts is bad else "leads nowhere"):
                codec.lower(And(parts))
            codec.lower(And((Compare("=", Path(("number",)), Const(1)), Exists(Path(("counts", "a"))))))


def test_a_size_is_not_compared_with_a_set() -> None:
    for node in (Compare("=", Size(Path(("tags",))), Const(set())), IsIn(Size(Path(("tags",))), (Const(set()),))):
        with pytest.raises(BadValue, match="is not a number"):
            compile_codec(Flat, "F").lower(node)


def test_a_program_with_many_shapes_keeps_the_newest_terms() -> None:
    codec = compile_codec(Flat, "F")
    for number in range(MOST + 10):
        digits = [
            Compare("<", Path(("number" if bit == "1" else "name",)), Const(1 if bit == "1" else "a"))
            for bit in f"{number:012b}"
        ]
        codec.lower(And(tuple(digits)))
    assert MOST // 2 < len(codec._terms) <= MOST


def when_alone(condition: Condition) -> tuple[Condition, bool]:
    """A condition lowered for an item that may be absent, judged for itself."""
    lowered, of_none = DEEP.lower(condition), holds(DEEP.lower_stored(condition), None)
    if holds(lowered, None) == of_none:
        return lowered, not of_none
    tag = Path((TAG,))
    return (Or((Missing(tag), lowered)) if of_none else And((Exists(tag), lowered))), not of_none


@settings(max_examples=effort.times(80, 3000), deadline=None)
@given(st.lists(deep_conditions, min_size=1, max_size=4))
@example([Compare("=", Path(("lower", key)), Const(1)) for key in ("Y", "x", "X")])
@example([Compare("<", Size(Path(("inners",))), Const(number)) for number in (0, 2)])
@example([Compare("=", Path(("tags",)), Const(tags)) for tags in ({"a"}, set(), {"b"})])
def test_a_condition_for_an_absent_item_is_lowered_as_without_its_shape(those: list[Condition]) -> None:
    for condition in those:
        expected = outcome(when_alone, condition)
        assert outcome(DEEP.lower_when, condition) == expected
        assert outcome(DEEP.lower_when, condition) == expected
