"""``only=`` agrees with whole items, for any items and fields; each query is compiled once."""

from collections.abc import Callable
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import AfterValidator, BaseModel, Field, ValidationInfo, field_validator
from typing_extensions import TypeAliasType

from odm import BadValue, Counter, Entity, ItemInvalid, PrimaryKey, Store, Stored, Table, field
from odm.backends.local import Memory
from odm.codec import parts
from odm.expressions.nodes import Path
from odm.expressions.references import Reference
from odm.immutable import evolve
from odm.results import Partial

table = Table("only-any")


class Kind(Enum):
    ONE = "one"
    TWO = "two"


class Spot(BaseModel):
    x: int = 0
    names: dict[str, str] = Field(default_factory=dict)


class Thing(Entity, table=table):
    name: str
    number: Annotated[int, Stored("n")] = 3
    amount: Decimal | None = Decimal("0.50")
    day: date = date(2024, 1, 1)
    tags: set[str] = Field(default_factory=lambda: {"a"})
    marks: set[int] = Field(default_factory=set)
    rows: list[int] = Field(default_factory=list)
    pair: tuple[int, str] = (1, "a")
    ratios: Annotated[dict[str, float], Stored("r")] = Field(default_factory=dict)
    optional: dict[str, int] | None = None
    starts: dict[str, int] = Field(default_factory=lambda: {"a": 1})
    deep: dict[str, dict[str, Spot]] = Field(default_factory=dict)
    kinds: dict[Kind, int] = Field(default_factory=dict)
    spot: Spot = Spot(x=5)
    other: Spot | None = None
    hits: Annotated[int, Counter] = 0
    loud: str = "A"

    primary = PrimaryKey("THING#{name}")

    @field_validator("loud")
    @classmethod
    def upper(cls, value: str) -> str:
        return value.upper()


KEYS = st.sampled_from(["a", "b", "c#", "d.e"])
SPOTS = st.builds(Spot, x=st.integers(-9, 9), names=st.dictionaries(KEYS, st.text(max_size=2), max_size=2))
KINDS = st.sampled_from(Kind)
THINGS = st.builds(
    Thing,
    name=st.just("t"),
    number=st.integers(-9, 9),
    amount=st.none() | st.sampled_from([Decimal("1.25"), Decimal(3)]),
    tags=st.sets(KEYS, max_size=2),
    marks=st.sets(st.integers(0, 3), max_size=2),
    rows=st.lists(st.integers(), max_size=3),
    ratios=st.dictionaries(KEYS, st.sampled_from([0.5, 2.0]), max_size=3),
    optional=st.none() | st.dictionaries(KEYS, st.integers(0, 3), max_size=2),
    starts=st.dictionaries(KEYS, st.integers(0, 3), max_size=2),
    deep=st.dictionaries(KEYS, st.dictionaries(KEYS, SPOTS, max_size=2), max_size=2),
    kinds=st.dictionaries(KINDS, st.integers(0, 3), max_size=2),
    spot=SPOTS,
    other=st.none() | SPOTS,
    hits=st.integers(0, 9),
    loud=st.sampled_from(["x", "Y"]),
)
FIELDS = sorted(Thing.model_fields)
INSIDE: dict[str, list[tuple[str | int, ...]]] = {
    "ratios": [("a",), ("c#",)],
    "optional": [("a",)],
    "starts": [("a",), ("b",)],
    "deep": [("a",), ("a", "b"), ("a", "b", "x"), ("a", "b", "names", "d.e")],
    "kinds": [("one",)],
    "rows": [(0,), (2,)],
    "pair": [(0,), (1,)],
    "spot": [("x",), ("names",), ("names", "a")],
    "other": [("x",), ("names", "b")],
}
PATHS = [(name,) for name in FIELDS] + [(name, *rest) for name, them in INSIDE.items() for rest in them]


def inside(value: Any, segments: tuple[str | int, ...]) -> Any:
    """The value at a path of Python values; raises a LookupError if it has none."""
    for segment in segments:
        if value is None:
            raise LookupError
        if isinstance(value, BaseModel):
            value = getattr(value, str(segment))
        elif isinstance(value, dict):
            value = {key.value if isinstance(key, Kind) else key: part for key, part in value.items()}[str(segment)]
        else:
            value = value[segment]
    return value


def agrees(whole: Thing, part: Partial[Thing], path: tuple[str | int, ...]) -> None:
    reference = Reference(Path(path, Thing))
    try:
        wanted = inside(getattr(whole, str(path[0])), path[1:])
    except LookupError:
        assert part.get(reference) is None
        with pytest.raises(BadValue):
            part[reference]
    else:
        found = part[reference]
        assert (found, type(found)) == (wanted, type(wanted))


@given(thing=THINGS, asked=st.lists(st.sampled_from(PATHS), min_size=1, max_size=6))
def test_any_fields_are_those_of_the_whole(thing: Thing, asked: list[tuple[str | int, ...]]) -> None:
    db = Store(table, Memory())
    db.create()
    db.put(thing)
    whole = db.one(Thing, name="t")
    part = db.one(Thing, name="t", only=[Reference(Path(path, Thing)) for path in asked])
    for path in asked:
        agrees(whole, part, path)


def test_a_field_that_does_not_fit_is_refused_only_where_it_is_asked_for() -> None:
    db = Store(table, Memory())
    db.create()
    db.put(Thing(name="t"))
    (raw,) = db.scan_page().items
    db.put_raw([evolve(raw, attributes={**raw.attributes, "day": "never"})])
    assert db.one(Thing, name="t", only=[Thing.number])[Thing.number] == 3
    with pytest.raises(ItemInvalid, match="day"):
        db.one(Thing, name="t", only=[Thing.day])


def test_nothing_is_compiled_again(monkeypatch: pytest.MonkeyPatch) -> None:
    db = Store(table, Memory())
    db.create()
    for number in range(5):
        db.put(Thing(name=f"t{number}", ratios={"a": 1.0}))
    made: list[Any] = []
    compile_part: Callable[..., Any] = parts.compile_part

    def counted(*args: Any) -> Any:
        made.append(args)
        return compile_part(*args)

    monkeypatch.setattr("odm.codec.entity.compile_part", counted)
    only = [Thing.ratios["a"], Thing.ratios["never"], Thing.rows]
    for _ in range(3):
        assert len(list(db.scan(Thing, only=only))) == 5
    assert len(made) <= 4  # three paths and the key, in the whole process


def test_a_reference_without_an_entity() -> None:
    db = Store(table, Memory())
    db.create()
    db.put(Thing(name="t"))
    assert db.one(Thing, name="t", only=[field("number")])[Thing.number] == 3


def test_a_part_cannot_be_hashed_and_compares_by_its_values() -> None:
    db = Store(table, Memory())
    db.create()
    db.put(Thing(name="t"))
    one, same = (db.one(Thing, name="t", only=[Thing.number]) for _ in range(2))
    assert one == same != db.one(Thing, name="t", only=[Thing.rows])
    assert one != "one"
    with pytest.raises(TypeError):
        hash(one)


def at_least_base(value: int, info: ValidationInfo) -> int:
    return max(value, int(info.data["base"]))


AtLeastBase = TypeAliasType("AtLeastBase", Annotated[int, AfterValidator(at_least_base)])

leveled = Table("only-levels")


class Levels(Entity, table=leveled):
    name: str
    base: int = 0
    low: AtLeastBase = 0
    high: AtLeastBase = 0

    primary = PrimaryKey("LEVELS#{name}")


class LevelsBefore(Entity, table=Table("only-levels"), tag="Levels"):
    name: str
    base: int = 0
    low: int = 0
    high: int = 0

    primary = PrimaryKey("LEVELS#{name}")


def test_a_validator_of_several_fields_may_see_others() -> None:
    memory = Memory()
    with Store(leveled, memory) as db, Store(LevelsBefore.__odm_table__, memory) as before:  # type: ignore[arg-type]
        db.create()
        before.put(LevelsBefore(name="a", base=50, low=1, high=70))
        part = db.one(Levels, name="a", only=[Levels.low])
        assert part[Levels.low] == 50
        assert "low sees the other fields" in str(db.explain(Levels.primary(name="a"), only=[Levels.low]))
