"""Actions lowered: validated, typed, renamed, with the companion of the TTL field."""

from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field, field_validator

from odm.codec import compile_codec
from odm.entities.markers import TTL, Stored
from odm.errors import BadValue
from odm.expressions.nodes import (
    Action,
    AddTo,
    Append,
    DiscardFrom,
    Increment,
    Path,
    Prepend,
    Remove,
    Set,
    SetIfMissing,
)

NOON = datetime(2024, 1, 1, 12, 0, 0, 1, tzinfo=UTC)
NOON_TEXT = "2024-01-01T12:00:00.000001Z"
NOON_SECONDS = 1704110401


class Line(BaseModel):
    sku: Annotated[str, Stored("k")]
    amount: Annotated[int, Field(lt=10)] = 1
    note: str | None = None
    tags: set[str] = set()


class Order(BaseModel):
    id: str
    level: Annotated[int, Field(ge=0, lt=1000)] = 5
    total: Annotated[Decimal, Stored("t")] = Decimal("1.50")
    rate: float = 0.5
    either: int | float = 1
    took: timedelta = timedelta(seconds=1)
    hits: int | None = None
    flag: bool = False
    note: str | None = None
    must: str | None
    must_tags: set[str]
    name: str = ""
    line: Line
    lines: list[Line] = []
    pairs: tuple[int, ...] = ()
    pair: tuple[int, int] = (1, 2)
    tags: set[str] = set()
    anything: Any = None
    until: Annotated[datetime, TTL, Stored("u")] | None = None

    @field_validator("name")
    @classmethod
    def upper(cls, value: str) -> str:
        return value.upper()


CODEC = compile_codec(Order, "Order")


def path(*segments: str | int) -> Path:
    return Path(segments)


def mine(*segments: str | int) -> Path:
    return Path(segments, Order)


LINE = Line(sku="x", tags={"a"})
STORED_LINE = {"k": "x", "amount": 1, "tags": frozenset({"a"})}

LOWERED: list[tuple[Action, Action]] = [
    (Set(mine("total"), "2.50"), Set(path("t"), Decimal("2.5"))),
    (Set(mine("name"), "ab"), Set(path("name"), "AB")),
    (Set(mine("line"), LINE), Set(path("line"), STORED_LINE)),
    (Set(mine("lines"), [{"sku": "x", "tags": ["a"]}]), Set(path("lines"), [STORED_LINE])),
    (Set(mine("note"), None), Remove(path("note"))),
    (Set(mine("must"), None), Set(path("must"), None)),
    (Set(mine("tags"), set()), Remove(path("tags"))),
    (Set(mine("tags"), {"a"}), Set(path("tags"), frozenset({"a"}))),
    (Set(mine("anything"), {"a": {"b"}}), Set(path("anything"), {"a": frozenset({"b"})})),
    (Set(mine("line", "amount"), 9), Set(path("line", "amount"), 9)),
    (Set(mine("line", "sku"), "y"), Set(path("line", "k"), "y")),
    (Set(mine("line", "note"), None), Remove(path("line", "note"))),
    (Set(mine("line", "tags"), set()), Remove(path("line", "tags"))),
    (Set(mine("lines", 0), LINE), Set(path("lines", 0), STORED_LINE)),
    (Set(mine("lines", 0), {"sku": "x", "tags": ["a"]}), Set(path("lines", 0), STORED_LINE)),
    (Set(mine("anything", "k", 1), [1]), Set(path("anything", "k", 1), [1])),
    (SetIfMissing(mine("level"), 7), SetIfMissing(path("level"), 7)),
    (Remove(mine("level")), Remove(path("level"))),
    (Remove(mine("tags")), Remove(path("tags"))),
    (Remove(mine("must_tags")), Remove(path("must_tags"))),
    (Remove(mine("line", "note")), Remove(path("line", "note"))),
    (Increment(mine("level"), 2), Increment(path("level"), 2, 5)),
    (Increment(mine("level"), -2000), Increment(path("level"), -2000, 5)),
    (Increment(mine("total"), Decimal("0.10")), Increment(path("t"), Decimal("0.1"), Decimal("1.5"))),
    (Increment(mine("total"), 1), Increment(path("t"), 1, Decimal("1.5"))),
    (Increment(mine("rate"), 0.1), Increment(path("rate"), Decimal("0.1"), Decimal("0.5"))),  # type: ignore[arg-type]
    (Increment(mine("either"), 1), Increment(path("either"), 1, 1)),
    (Increment(mine("took"), timedelta(seconds=2)), Increment(path("took"), 2_000_000, 1_000_000)),  # type: ignore[arg-type]
    (Increment(mine("hits"), 1), Increment(path("hits"), 1, 0)),
    (Increment(mine("line", "amount"), 1), Increment(path("line", "amount"), 1, 1)),
    (Increment(mine("anything", "n"), 1), Increment(path("anything", "n"), 1, 0)),
    (Append(mine("lines"), (LINE,)), Append(path("lines"), (STORED_LINE,))),
    (Prepend(mine("pairs"), (1, 2)), Prepend(path("pairs"), (1, 2))),
    (Append(mine("anything", "l"), ("x",)), Append(path("anything", "l"), ("x",))),
    (AddTo(mine("tags"), frozenset({"a"})), AddTo(path("tags"), frozenset({"a"}))),
    (AddTo(mine("line", "tags"), frozenset({"a"})), AddTo(path("line", "tags"), frozenset({"a"}))),
    (DiscardFrom(mine("tags"), frozenset({"a"})), DiscardFrom(path("tags"), frozenset({"a"}))),
    (AddTo(mine("anything", "s"), frozenset({1})), AddTo(path("anything", "s"), frozenset({1}))),
]


@pytest.mark.parametrize(("action", "lowered"), LOWERED, ids=[str(n) for n in range(len(LOWERED))])
def test_lowered(action: Action, lowered: Action) -> None:
    result = CODEC.lower_action(action)
    assert result == lowered
    assert type(result) is type(lowered)
    assert CODEC.lower_actions([action])[0] == (lowered,)


REFUSED: list[tuple[Action, str]] = [
    (Set(mine("level"), 1000), r"Order\.level: 1000 is refused: .*less than 1000"),
    (Set(mine("id"), None), r"Order\.id: None is refused"),
    (Set(mine("nme"), "x"), r"Order: has no field 'nme': did you mean 'name'"),
    (Set(mine("line", "amount"), "x"), r"Order\.line\.amount: 'x' .*not of type int"),
    (Set(mine("line", "sku"), None), r"Order\.line\.sku: None .*not of type str"),
    (Set(mine("line", "amount"), 99), r"Order\.line\.amount: 99 is refused: Input should be less than 10"),
    (Set(mine("lines", 0), {"amount": 1}), r"Order\.lines\[0\]: .*not of type Line"),
    (Set(mine("name", "x"), 1), r"Order\.name: .*no parts"),
    (SetIfMissing(mine("note"), None), r"Order\.note: set_if_missing with None"),
    (SetIfMissing(mine("tags"), set()), r"Order\.tags: set_if_missing with set\(\)"),
    (Remove(mine("id")), r"Order\.id: is required.*default"),
    (Remove(mine("must")), r"Order\.must: is required"),
    (Remove(mine("line", "sku")), r"Order\.line\.sku: is required"),
    (Increment(mine("level"), Decimal("0.5")), r"Order\.level: Decimal\('0.5'\) .*not of type int"),
    (Increment(mine("level"), True), r"Order\.level: True"),
    (Increment(mine("name"), 1), r"Order\.name: is of type str, and only a number"),
    (Increment(mine("flag"), 1), r"Order\.flag: is of type bool, and only a number"),
    (Increment(mine("anything"), "x"), r"Order\.anything: 'x' is not a number"),  # type: ignore[arg-type]
    (Append(mine("lines"), ("x",)), r"Order\.lines: 'x' .*not of type Line"),
    (Append(mine("lines"), (["x"],)), r"Order\.lines: .*not of type Line.*one by one, as in append\(field, \*values"),
    (Append(mine("lines"), ()), r"Order\.lines: there is nothing to append"),
    (Append(mine("tags"), ("x",)), r"Order\.tags: .*only a list"),
    (Append(mine("pair"), (1,)), r"Order\.pair: .*only a list"),
    (AddTo(mine("tags"), frozenset({1})), r"Order\.tags: 1 .*not of type str"),
    (AddTo(mine("tags"), frozenset()), r"Order\.tags: there are no members"),
    (DiscardFrom(mine("lines"), frozenset({1})), r"Order\.lines: .*only a set"),
]


@pytest.mark.parametrize(("action", "message"), REFUSED, ids=[str(n) for n in range(len(REFUSED))])
def test_refused(action: Action, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        CODEC.lower_actions([action])


@pytest.mark.parametrize(
    ("action", "companion"),
    [
        (Set(mine("until"), NOON), Set(path("_ttl"), NOON_SECONDS)),
        (Set(mine("until"), None), Remove(path("_ttl"))),
        (Remove(mine("until")), Remove(path("_ttl"))),
    ],
)
def test_the_ttl_field_brings_its_companion(action: Action, companion: Action) -> None:
    lowered, _ = CODEC.lower_actions([Set(mine("level"), 1), action])
    assert lowered == (Set(path("level"), 1), CODEC.lower_action(action), companion)
    assert lowered[1].path == path("u")


def test_a_ttl_that_is_none_but_stored_has_no_expiry() -> None:
    class Session(BaseModel):
        until: Annotated[datetime | None, TTL]

    codec = compile_codec(Session, "Session")
    assert codec.encode(Session(until=None)) == {"until": None, "_t": "Session"}
    assert codec.encode(Session(until=NOON)) == {"until": NOON_TEXT, "_t": "Session", "_ttl": NOON_SECONDS}
    assert codec.lower_actions([Set(path("until"), None)])[0] == (Set(path("until"), None), Remove(path("_ttl")))


def test_the_ttl_field_can_not_be_set_only_if_missing() -> None:
    with pytest.raises(BadValue, match=r"Order\.until: is the TTL field"):
        CODEC.lower_actions([SetIfMissing(mine("until"), NOON)])


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (Set(mine("level"), 1), Increment(mine("level"), 1)),
        (Set(mine("line"), LINE), Set(mine("line", "amount"), 1)),
        (Remove(mine("lines", 0, "note")), Set(mine("lines", 0), LINE)),
        (Set(mine("line", "sku"), "x"), Set(mine("line", "sku"), "y")),
    ],
)
def test_overlapping_paths(one: Action, other: Action) -> None:
    with pytest.raises(BadValue) as caught:
        CODEC.lower_actions([one, other])
    assert f"Order.{one.path}" in str(caught.value)
    assert f"Order.{other.path}" in str(caught.value)


def test_a_path_that_two_actions_share_overlaps() -> None:
    path = Path(("total",))  # of one reference, used twice
    with pytest.raises(BadValue, match="same place"):
        CODEC.lower_actions([Set(path, 1), Set(path, 2)])


def test_neighbouring_paths_do_not_overlap() -> None:
    actions = [Remove(mine("lines", 0, "note")), Remove(mine("lines", 1, "note")), Remove(mine("line", "note"))]
    assert len(CODEC.lower_actions(actions)[0]) == 3
