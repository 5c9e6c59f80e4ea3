"""A compiled condition is lowered as one that is not compiled: equal conditions, and equal refusals."""

from collections.abc import Callable
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, StringConstraints

from odm.cache import MOST
from odm.codec import compile_codec
from odm.codec.conditions import lower_condition
from odm.codec.terms import shape_of
from odm.errors import BadValue
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


def outcome(lower: Callable[[Condition], Condition], condition: Condition) -> object:
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


@settings(max_examples=effort.times(300, 3000))
@given(st.lists(conditions, min_size=1, max_size=4))
@example([Compare(">", Path(("number",)), Const(0)), Compare(">", Path(("number",)), Const(5))])
@example([Compare("=", Path(("number",)), Const(1)), Compare("=", Path(("number",)), Const(True))])
@example([Compare("<>", Path(("note",)), Const("open")), Compare("<>", Path(("note",)), Const("paid"))])
def test_a_condition_is_lowered_as_without_its_shape(those: list[Condition]) -> None:
    resolver = CODEC._actions.resolver
    for condition in those:
        expected = outcome(lambda one: lower_condition(resolver, one), condition)
        assert outcome(CODEC.lower, condition) == expected
        assert outcome(CODEC.lower, condition) == expected


@given(conditions)
def test_a_shape_has_no_values(condition: Condition) -> None:
    assert hash(shape_of(condition)) == hash(shape_of(condition))


@pytest.mark.parametrize("name", ["name", "number", "at", "state", "kind", "id", "done", "raw", "price", "most"])
def test_a_comparison_of_a_field_is_compiled(name: str) -> None:
    codec = compile_codec(Flat, "F")
    entity = Flat(name="a")
    for op in ("=", "<>"):
        codec.lower(Compare(op, Path((name,)), Const(getattr(entity, name))))
    assert not [term for term in codec._terms.values() if type(term).__name__ == "_Interpreted"]


def test_the_values_of_a_shape_share_a_term() -> None:
    codec = compile_codec(Flat, "F")
    for number in range(50):
        codec.lower(Compare("<", Path(("number",)), Const(number)))
        codec.lower(IsIn(Path(("name",)), tuple(Const(str(at)) for at in range(number + 1))))
        codec.lower(Compare("=", Path(("counts", str(number))), Const(1)))
    assert len(codec._terms) == 3


def test_a_program_with_many_shapes_keeps_the_newest_terms() -> None:
    codec = compile_codec(Flat, "F")
    for number in range(MOST + 10):
        digits = [
            Compare("<", Path(("number" if bit == "1" else "name",)), Const(1 if bit == "1" else "a"))
            for bit in f"{number:012b}"
        ]
        codec.lower(And(tuple(digits)))
    assert MOST // 2 < len(codec._terms) <= MOST
