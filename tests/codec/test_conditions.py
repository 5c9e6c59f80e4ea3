"""Conditions lowered to stored names and stored values; what is refused, and how."""

from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import StrEnum
from ipaddress import IPv4Address
from pathlib import PurePosixPath
from typing import Annotated, Any, Literal
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AnyUrl, BaseModel, Field, JsonValue, RootModel

from odm.codec import compile_codec
from odm.entities.markers import Stored
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

JANUARY = datetime(2024, 1, 1, tzinfo=UTC)


class State(StrEnum):
    OPEN = "open"


class Line(BaseModel):
    sku: Annotated[str, Stored("k")]
    amount: int = 1
    tags: set[str] = set()


class Lines(RootModel[list[Line]]):
    pass


class Parcel(BaseModel):
    kind: Literal["parcel"] = "parcel"
    weight: float = 0.0


class Letter(BaseModel):
    kind: Literal["letter"] = "letter"
    weight: int
    colour: str = "white"


class Base(BaseModel):
    total: Decimal = Decimal(0)


class Order(Base):
    level: Annotated[int, Field(ge=0, lt=1000)] = 0
    rate: float = 0.0
    at: Annotated[datetime, Stored("a")] = JANUARY
    day: date = date(2024, 1, 1)
    state: State = State.OPEN
    mode: Literal["a", "b"] = "a"
    note: str | None = None
    raw: bytes = b""
    took: timedelta = timedelta(0)
    paid: bool = False
    line: Line | None = None
    lines: list[Line] = []
    more: Lines = Lines([])
    pair: tuple[int, datetime] | None = None
    by_name: dict[str, Line] = {}
    by_state: dict[State, int] = {}
    tags: set[str] = set()
    days: frozenset[date] = frozenset()
    anything: Any = None
    json_value: JsonValue = None
    sent: Parcel | Letter | None = None
    token: UUID = UUID(int=1)
    clock: time = time(8)
    host: IPv4Address | None = None
    home: AnyUrl | None = None
    file: PurePosixPath | None = None


class Other(BaseModel):
    total: Decimal


CODEC = compile_codec(Order, "Order")


def path(*segments: str | int) -> Path:
    return Path(segments)


def mine(*segments: str | int) -> Path:
    return Path(segments, Order)


def absent(stored: str, condition: Condition) -> Condition:
    """The condition, which also holds if the attribute is absent."""
    return Or((condition, Missing(path(stored))))


JANUARY_TEXT = "2024-01-01T00:00:00.000000Z"

LOWERED: list[tuple[Condition, Condition]] = [
    (Compare(">", mine("total"), Const(100)), Compare(">", path("total"), Const(100))),
    (Compare(">", Path(("total",), Base), Const(1.50)), Compare(">", path("total"), Const(Decimal("1.5")))),
    (Compare("<", mine("level"), Const(1000)), absent("level", Compare("<", path("level"), Const(1000)))),
    (Compare("<", mine("level"), Const(2.5)), absent("level", Compare("<", path("level"), Const(Decimal("2.5"))))),
    (Compare("=", mine("rate"), Const(Decimal("1.0"))), Compare("=", path("rate"), Const(1))),
    (Compare("<=", Const(JANUARY), mine("at")), absent("a", Compare("<=", Const(JANUARY_TEXT), path("a")))),
    (Compare("=", mine("day"), Const(date(2024, 1, 2))), Compare("=", path("day"), Const("2024-01-02"))),
    (Compare("=", mine("state"), Const(State.OPEN)), absent("state", Compare("=", path("state"), Const("open")))),
    (Compare("<", mine("state"), Const("p")), absent("state", Compare("<", path("state"), Const("p")))),
    (Compare("<>", mine("mode"), Const("b")), Compare("<>", path("mode"), Const("b"))),
    (Compare(">", mine("took"), Const(timedelta(seconds=1))), Compare(">", path("took"), Const(1_000_000))),
    (Compare("=", mine("paid"), Const(True)), Compare("=", path("paid"), Const(True))),
    (Compare("=", mine("line", "sku"), Const("x")), Compare("=", path("line", "k"), Const("x"))),
    (Compare("=", mine("lines", 0, "sku"), Const("x")), Compare("=", path("lines", 0, "k"), Const("x"))),
    (Compare("=", mine("more", 0, "sku"), Const("x")), Compare("=", path("more", 0, "k"), Const("x"))),
    (Compare("=", mine("by_name", "x", "amount"), Const(1)),
     Or((Compare("=", path("by_name", "x", "amount"), Const(1)),
         And((Exists(path("by_name", "x")), Missing(path("by_name", "x", "amount"))))))),
    (Compare("=", mine("by_name", "x", "amount"), Const(2)), Compare("=", path("by_name", "x", "amount"), Const(2))),
    (Compare("=", mine("by_state", "open"), Const(1)), Compare("=", path("by_state", "open"), Const(1))),
    (Compare("=", mine("pair", 1), Const(JANUARY)), Compare("=", path("pair", 1), Const(JANUARY_TEXT))),
    (Compare("=", mine("anything", "k", 0), Const(0.1)), Compare("=", path("anything", "k", 0), Const(Decimal("0.1")))),
    (Compare("<", mine("json_value", "k"), Const(0.1)), Compare("<", path("json_value", "k"), Const(Decimal("0.1")))),
    (Compare("=", mine("sent", "weight"), Const(1.5)), Compare("=", path("sent", "weight"), Const(Decimal("1.5")))),
    (Compare("=", mine("sent", "colour"), Const("x")), Compare("=", path("sent", "colour"), Const("x"))),
    (Compare("=", mine("lines"), Const([Line(sku="x")])),
     And((Compare("=", Size(path("lines")), Const(1)), And((
         Compare("=", path("lines", 0, "k"), Const("x")),
         Or((Compare("=", path("lines", 0, "amount"), Const(1)), Missing(path("lines", 0, "amount")))),
         Missing(path("lines", 0, "tags"))))))),
    (Compare("=", mine("lines"), Const([])), absent("lines", Compare("=", path("lines"), Const([])))),
    (Compare("=", mine("tags"), Const({"x"})), Compare("=", path("tags"), Const(frozenset({"x"})))),
    (Compare("=", mine("tags"), Const(set())), Missing(path("tags"))),
    (Compare("<>", Const(frozenset()), mine("tags")), Exists(path("tags"))),
    (Compare("=", mine("by_state", "open"), mine("line", "amount")),
     Or((Compare("=", path("by_state", "open"), path("line", "amount")),
         And((Exists(path("line")), Compare("<>", path("line"), Const(None)), Missing(path("line", "amount")),
              Compare("=", path("by_state", "open"), Const(1))))))),
    (Compare("=", mine("level"), mine("rate")),
     Or((Compare("=", path("level"), path("rate")),
         And((Missing(path("rate")), Compare("=", path("level"), Const(0)))),
         And((Missing(path("level")), absent("rate", Compare("=", Const(0), path("rate")))))))),
    (Compare("<>", mine("level"), mine("by_state", "open")),
     Or((And((Exists(path("level")), Compare("<>", path("level"), path("by_state", "open")))),
         And((Missing(path("level")), Compare("<>", Const(0), path("by_state", "open"))))))),
    (Compare("=", mine("note"), Const(None)), absent("note", Compare("=", path("note"), Const(None)))),
    (Or((Missing(mine("note")), Compare("=", mine("note"), Const(None)))),
     Or((Missing(path("note")), absent("note", Compare("=", path("note"), Const(None)))))),
    (And((Exists(mine("at")), Not(Missing(mine("at"))))), And((Exists(path("a")), Not(Missing(path("a")))))),
    (Between(mine("total"), Const(1), Const(2)), Between(path("total"), Const(1), Const(2))),
    (Between(Const(JANUARY), mine("at"), mine("at")),
     absent("a", Between(Const(JANUARY_TEXT), path("a"), path("a")))),
    (IsIn(mine("day"), (Const(date(2024, 1, 2)), Const(None))),
     IsIn(path("day"), (Const("2024-01-02"), Const(None)))),
    (IsIn(mine("tags"), (Const(set()),)), Missing(path("tags"))),
    (IsIn(mine("tags"), (Const(frozenset()), Const({"x"}))),
     Or((Missing(path("tags")), IsIn(path("tags"), (Const(frozenset({"x"})),))))),
    (Compare(">", mine("mode"), Const("z")), Compare(">", path("mode"), Const("z"))),
    (Compare(">", mine("token"), Const(UUID(int=0))),
     absent("token", Compare(">", path("token"), Const(str(UUID(int=0)))))),
    (Compare("<", mine("clock"), Const(time(9))),
     absent("clock", Compare("<", path("clock"), Const("09:00:00.000000")))),
    (Compare("=", mine("host"), Const(IPv4Address("9.0.0.1"))), Compare("=", path("host"), Const("9.0.0.1"))),
    (StartsWith(mine("note"), Const("ab")), StartsWith(path("note"), Const("ab"))),
    (StartsWith(mine("mode"), Const("ab")), StartsWith(path("mode"), Const("ab"))),
    (StartsWith(mine("raw"), Const(b"ab")), StartsWith(path("raw"), Const(b"ab"))),
    (StartsWith(mine("anything", "x"), Const("ab")), StartsWith(path("anything", "x"), Const("ab"))),
    (Contains(mine("note"), Const("ab")), Contains(path("note"), Const("ab"))),
    (Contains(mine("days"), Const(date(2024, 1, 2))), Contains(path("days"), Const("2024-01-02"))),
    (Contains(mine("lines"), Const(Line(sku="x"))),
     Or((Contains(path("lines"), Const({"k": "x", "amount": 1})), Contains(path("lines"), Const({"k": "x"}))))),
    (Contains(mine("lines"), Const(Line(sku="x", amount=2))),
     Contains(path("lines"), Const({"k": "x", "amount": 2}))),
    (Contains(mine("anything"), Const(1)), Contains(path("anything"), Const(1))),
    (Compare(">", Size(mine("lines")), Const(3)), Compare(">", Size(path("lines")), Const(3))),
    (Compare(">", Size(mine("tags")), Const(3)), Compare(">", Size(path("tags")), Const(3))),
    (Compare("<>", Size(mine("tags")), Const(0)),
     And((Exists(path("tags")), Compare("<>", Size(path("tags")), Const(0))))),
    (Compare("<", Size(mine("tags")), Const(3)),
     absent("tags", Compare("<", Size(path("tags")), Const(3)))),
    (Compare("=", Const(0), Size(mine("line", "tags"))),
     Or((Compare("=", Const(0), Size(path("line", "tags"))),
         And((Exists(path("line")), Compare("<>", path("line"), Const(None)), Missing(path("line", "tags"))))))),
    (Between(Size(mine("tags")), Const(0), Const(2)),
     absent("tags", Between(Size(path("tags")), Const(0), Const(2)))),
    (IsIn(Size(mine("tags")), (Const(0),)), absent("tags", IsIn(Size(path("tags")), (Const(0),)))),
    (Compare("<", Size(mine("note")), mine("by_state", "open")),
     Compare("<", Size(path("note")), path("by_state", "open"))),
    (Compare("<>", mine("level"), Const(0)), And((Exists(path("level")), Compare("<>", path("level"), Const(0))))),
    (Compare("<>", mine("level"), Const(1)), Compare("<>", path("level"), Const(1))),
    (Compare("=", mine("level"), Const(None)), Compare("=", path("level"), Const(None))),
    (StartsWith(mine("mode"), Const("a")), absent("mode", StartsWith(path("mode"), Const("a")))),
    (IsIn(mine("mode"), (Const("a"), Const("b"))), absent("mode", IsIn(path("mode"), (Const("a"), Const("b"))))),
]  # fmt: skip


@pytest.mark.parametrize(("condition", "lowered"), LOWERED, ids=[str(n) for n in range(len(LOWERED))])
def test_lowered(condition: Condition, lowered: Condition) -> None:
    result = CODEC.lower(condition)
    assert result == lowered
    assert types_of(result) == types_of(lowered)


def types_of(node: Any) -> Any:
    """Equality alone would not distinguish 1 from True or from Decimal(1)."""
    if isinstance(node, Const):
        return type(node.value)
    if isinstance(node, tuple):
        return [types_of(part) for part in node]
    return [types_of(getattr(node, name)) for name in getattr(node, "__struct_fields__", ())]


REFUSED: list[tuple[Condition, str]] = [
    (Compare(">", mine("total"), Const("x")), r"Order\.total: 'x' is not a number"),
    (Compare(">", mine("level"), Const(True)), r"Order\.level: True is not a number"),
    (Compare(">=", mine("at"), Const(datetime(2024, 1, 1))), r"Order\.at: .* has no time zone"),
    (Compare(">=", mine("at"), Const("2024")), r"Order\.at: '2024' .*not of type datetime"),
    (Compare("=", mine("day"), Const(JANUARY)), r"Order\.day: .*not of type date"),
    (Compare("=", mine("mode"), Const(1)), r"Order\.mode: 1 .*not of type Literal"),
    (Compare("=", mine("state"), Const(1)), r"Order\.state: 1 .*not of type State"),
    (Compare("=", mine("totl"), Const(1)), r"Order: has no field 'totl': did you mean 'total'"),
    (Compare("=", mine("line", "k"), Const(1)), r"Order\.line: has no field 'k': there is sku, amount, tags"),
    (Compare("=", mine("lines", "sku"), Const(1)), r"Order\.lines: is of type list\[Line\], .*positions"),
    (Compare("=", mine("by_name", 0), Const(1)), r"Order\.by_name: .*keys are text"),
    (Compare("=", mine("pair", 2), Const(1)), r"Order\.pair: .*leads nowhere"),
    (Compare("=", mine("lines", 2**31), Const(1)), r"Order\.lines: \[2147483648\] leads nowhere"),
    (Exists(mine("by_name", "")), r"Order\.by_name: \[''\] leads nowhere"),
    (Compare("=", mine("anything"), Const({"a": {"": 1}})), r"Order\.anything\.a: .* has an empty key"),
    (Exists(mine("anything", *["k"] * 32)), r"Order\.anything.*: a path has at most 32 segments"),
    (Compare("=", mine("total", "x"), Const(1)), r"Order\.total: is of type Decimal and has no parts"),
    (Compare("=", mine("sent", "size"), Const(1)), r"Order\.sent: has no field 'size'"),
    (Compare("=", Path(("total",), Other), Const(1)), r"Other\.total is a field of Other.*Order"),
    (Compare("=", mine("level"), Const(set())), r"Order\.level: is of type int, so it never equals a set"),
    (Compare("<", mine("tags"), Const({"x"})), r"Order\.tags: .*no order"),
    (Compare("<", mine("lines"), Const([])), r"Order\.lines: .*no order"),
    (Compare("<", mine("lines"), mine("lines")), r"Order\.lines: .*no order"),
    (Compare("<", mine("paid"), Const(True)), r"Order\.paid: .*no order"),
    (Compare("<", mine("note"), Const(None)), r"Order\.note: None has no order"),
    (Compare("<", mine("anything"), Const([1])), r"Order\.anything: \[1\] has no order"),
    (Compare("=", mine("anything"), Const(JANUARY)), r"Order\.anything: .*declare a type"),
    (Compare("=", Const(1), Const(1)), r"Order: .*compares no field"),
    (Compare("=", Size(mine("note")), Const("x")), r"Order\.note: 'x' is not a number"),
    (Compare("=", Size(mine("level")), Const(1)), r"Order\.level: is of type int, which has no size"),
    (Between(mine("tags"), Const({"x"}), Const({"y"})), r"Order\.tags: .*no order"),
    (IsIn(mine("level"), (Const("x"),)), r"Order\.level: 'x'"),
    (IsIn(mine("level"), (Const(set()),)), r"Order\.level: is of type int, so it never equals a set"),
    (Compare("=", mine("mode"), Const("z")), r"Order\.mode: 'z' is not one of its values: 'a', 'b'"),
    (Compare("<>", mine("state"), Const("gone")), r"Order\.state: 'gone' is not one of its values: 'open'"),
    (IsIn(mine("mode"), (Const("a"), Const("z"))), r"Order\.mode: 'z' is not one of its values: 'a', 'b'"),
    (Compare(">", mine("host"), Const(IPv4Address("9.0.0.1"))), r"Order\.host: is of type IPv4Address . None, stored"),
    (
        Between(mine("home"), Const(AnyUrl("x://a")), Const(AnyUrl("x://b"))),
        r"Order\.home: is of type AnyUrl . None, stored as",
    ),
    (Compare("<", mine("file"), Const(PurePosixPath("a"))), r"Order\.file: is of type PurePosixPath . None, stored"),
    (Compare("<", mine("clock"), Const(time(9, tzinfo=UTC))), r"Order\.clock: 09:00:00\+00:00 has an offset"),
    (StartsWith(mine("at"), Const("2024")), r"Order\.at: .*only str and bytes have a prefix"),
    (StartsWith(mine("level"), Const("1")), r"Order\.level: .*only str and bytes"),
    (StartsWith(mine("note"), Const(1)), r"Order\.note: 1 .*not of type str"),
    (StartsWith(mine("anything"), Const(1)), r"Order\.anything: 1 is not a prefix"),
    (Contains(mine("level"), Const(1)), r"Order\.level: .*contain"),
    (Contains(mine("by_name"), Const("x")), r"Order\.by_name: .*contain"),
    (Contains(mine("days"), Const("2024-01-01")), r"Order\.days: '2024-01-01' .*not of type date"),
    (Contains(mine("note"), Const(1)), r"Order\.note: 1 .*not of type str"),
]


@pytest.mark.parametrize(("condition", "message"), REFUSED, ids=[str(n) for n in range(len(REFUSED))])
def test_refused(condition: Condition, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        CODEC.lower(condition)


@given(st.sets(st.sampled_from("abcd")), st.integers(-1, 5), st.sampled_from(["=", "<>", "<", "<=", ">", ">="]))
def test_an_empty_set_has_size_0(tags: set[str], number: int, op: Any) -> None:
    item = CODEC.encode(Order(tags=tags))
    expected = {
        "=": len(tags) == number,
        "<>": len(tags) != number,
        "<": len(tags) < number,
        "<=": len(tags) <= number,
        ">": len(tags) > number,
        ">=": len(tags) >= number,
    }
    assert holds(CODEC.lower(Compare(op, Size(mine("tags")), Const(number))), item) is expected[op]
