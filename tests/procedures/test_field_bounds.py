"""Actions whose result is computed by the backend never leave an item that the model cannot read."""

from collections.abc import Callable
from datetime import timedelta
from decimal import Decimal
from typing import Annotated, Any, NewType

import pytest
from pydantic import BaseModel, Field, ValidationInfo, field_validator
from typing_extensions import TypeAliasType

from odm import (
    TTL,
    AccessPattern,
    BadValue,
    ConditionFailed,
    Counter,
    Entity,
    PrimaryKey,
    Store,
    Table,
    add_to,
    append,
    discard_from,
    increment,
    prepend,
    remove,
    set_,
)
from odm.backends.local import Memory
from odm.entities.markers import TTLMarker, find_marker

Level = TypeAliasType("Level", Annotated[int, Field(ge=0, le=10)])
Grade = NewType("Grade", Level)
table = Table("bounds")


class Part(BaseModel):
    amount: Annotated[int, Field(le=3)] = 0
    notes: Annotated[list[str], Field(max_length=1)] = []


class Box(Entity, table=table):
    id: str = "1"
    took: Annotated[timedelta, Field(le=timedelta(hours=1))] = timedelta(0)
    price: Annotated[Decimal, Field(max_digits=5, decimal_places=2)] = Decimal(0)
    loose: Annotated[Decimal, Field(max_digits=5)] = Decimal(0)
    wide: Annotated[Decimal, Field(le=Decimal(10) ** 30)] = Decimal(0)
    cents: Annotated[Decimal, Field(decimal_places=2)] = Decimal(0)
    free: Annotated[float, Field(le=float("inf"))] = 0.0
    numbers: Annotated[list[int], Field(max_length=2)] = []
    tags: Annotated[set[str], Field(max_length=2)] = set()
    least: Annotated[set[str], Field(min_length=1)] = set()
    part: Part = Part()
    parts: dict[str, Part] = {}
    levels: dict[str, Annotated[int, Field(le=3)]] = {}
    level: Level = 0
    grade: Grade = Grade(0)
    given: list[int] = [1]
    listed: list[int] = Field(default_factory=lambda: [1])
    made: int = Field(default_factory=lambda: 10)
    text: int = Field(default="5", validate_default=True)
    hits: Annotated[int, Counter] = 0

    primary = PrimaryKey("BOX#{id}")


KEY = Box.primary(id="1")


@pytest.fixture
def db() -> Store:
    store = Store(table, Memory())
    store.create()
    store.put(Box(least={"a"}, parts={"x": Part()}, levels={"x": 0}))
    return store


STOPPED: list[Any] = [
    pytest.param(lambda: increment(Box.took, timedelta(hours=2)), id="timedelta"),  # type: ignore[arg-type]
    pytest.param(lambda: increment(Box.price, 1000), id="digits"),
    pytest.param(lambda: increment(Box.price, -1000), id="digits below"),
    pytest.param(lambda: increment(Box.part.amount, 4), id="model"),
    pytest.param(lambda: increment(Box.parts["x"].amount, 4), id="model in a dict"),
    pytest.param(lambda: increment(Box.levels["x"], 4), id="dict"),
    pytest.param(lambda: append(Box.part.notes, "a", "b"), id="list in a model"),
    pytest.param(lambda: increment(Box.level, 50), id="alias"),
    pytest.param(lambda: increment(Box.grade, 50), id="newtype"),
    pytest.param(lambda: append(Box.numbers, 1, 2, 3), id="append"),
    pytest.param(lambda: prepend(Box.numbers, 1, 2, 3), id="prepend"),
    pytest.param(lambda: discard_from(Box.least, "a"), id="discard"),
]


@pytest.mark.parametrize("action", STOPPED)
def test_bounds(db: Store, action: Callable[[], Any]) -> None:
    before = db.get(KEY)
    with pytest.raises(ConditionFailed, match="would leave the bounds of the field"):
        db.update(KEY, action())
    assert db.get(KEY) == before


def test_lengths(db: Store) -> None:
    db.update(KEY, append(Box.numbers, 1), add_to(Box.tags, "a"), increment(Box.took, timedelta(minutes=1)))  # type: ignore[arg-type]
    db.update(KEY, prepend(Box.numbers, 0), add_to(Box.tags, "b"))
    db.update(KEY, add_to(Box.tags, "a"), discard_from(Box.least, "z"))
    for action in (append(Box.numbers, 2), add_to(Box.tags, "c")):
        with pytest.raises(ConditionFailed, match="bounds"):
            db.update(KEY, action)
    box = db.one(KEY)
    assert (box.numbers, box.tags) == ([0, 1], {"a", "b"})
    db.update(KEY, remove(Box.numbers))
    assert db.update(KEY, append(Box.numbers, 1, 2), returning="new").numbers == [1, 2]
    with pytest.raises(BadValue, match=r"refuses the item after this update: tags: Set should have at most 2 items"):
        db.update(KEY, add_to(Box.tags, "a", "y"))
    assert db.update(KEY, add_to(Box.tags, "a", "b"), returning="new").tags == {"a", "b"}


def test_sums_are_exact(db: Store) -> None:
    db.update(KEY, increment(Box.wide, Decimal("0.4")))
    db.update(KEY, increment(Box.wide, 10**30 - 1))
    with pytest.raises(ConditionFailed, match="bounds"):
        db.update(KEY, increment(Box.wide, Decimal("0.7")))
    assert db.update(KEY, increment(Box.wide, Decimal("0.6")), returning="new").wide == 10**30


def test_what_no_stored_number_can_exceed(db: Store) -> None:
    tiny = Decimal("1E-20")
    assert db.update(KEY, increment(Box.wide, tiny), returning="new").wide == tiny
    assert db.update(KEY, increment(Box.free, 10**100), returning="new").free == 1e100
    assert db.update(KEY, increment(Box.cents, 10**27), returning="new").cents == 10**27


def test_digits_without_places_are_counted_in_the_stored_sum(db: Store) -> None:
    assert db.update(KEY, increment(Box.loose, Decimal("0.125")), returning="new").loose == Decimal("0.125")
    with pytest.raises(BadValue, match=r"refuses the item after this update: loose: .*no more than 5 digits"):
        db.update(KEY, increment(Box.loose, 1000))


def test_an_absent_number_counts_as_its_default(db: Store) -> None:
    db.update(KEY, remove(Box.made), remove(Box.text))
    box = db.update(KEY, increment(Box.made), increment(Box.text), returning="new")
    assert (box.made, box.text) == (11, 6)


@pytest.mark.parametrize("action", [append, prepend])
def test_an_absent_list_counts_as_its_default(db: Store, action: Any) -> None:
    db.update(KEY, remove(Box.given), remove(Box.listed))
    box = db.update(KEY, action(Box.given, 2), action(Box.listed, 3), returning="new")
    added = ([1, 2], [1, 3]) if action is append else ([2, 1], [3, 1])
    assert (box.given, box.listed) == added


def test_a_counter_has_64_bits(db: Store) -> None:
    assert db.put(Box(hits=2**63 - 1, least={"a"})).hits == 2**63 - 1
    for call in (
        lambda: db.put(Box(hits=2**63)),
        lambda: db.update(KEY, set_(Box.hits, -(2**63) - 1)),
        lambda: db.update(KEY, increment(Box.hits, 2**63)),
    ):
        with pytest.raises(BadValue, match=r"Box\.hits: -?\d+ does not fit a Counter, which has 64 bits"):
            call()


def test_markers_in_aliases() -> None:
    class Alias(BaseModel):
        generic: TypeAliasType("Generic", Annotated[int, TTL]) | None = None  # type: ignore[valid-type]

    assert find_marker(Alias.model_fields["generic"], TTLMarker) == TTL


def test_a_validator_that_needs_another_field() -> None:
    other = Table("validators")

    class Coded(Entity, table=other):
        id: str
        kind: str = "a"
        code: str = "a-1"
        rank: str = "w"
        by_code = AccessPattern("CODE#{code}", "{rank}")
        primary = PrimaryKey("V#{id}")

        @field_validator("code")
        @classmethod
        def check(cls, value: str, info: ValidationInfo) -> str:
            assert value.startswith(info.data["kind"])
            return value

    db = Store(other, Memory())
    db.create()
    db.put(Coded(id="1"))
    with pytest.raises(BadValue, match=r"Coded\.code: its validator looks up the field 'kind'"):
        db.update(Coded.primary(id="1"), set_(Coded.rank, "z"))
