"""Two laws of updates, for random models and random updates on every backend.

No accepted write makes an item that a read refuses, and what is stored equals what a read shows. Also: an update that
is refused changes nothing and raises an OdmError, and index entries are always those of the item.

``pytest --full --times 20 tests/conformance/test_update_laws.py`` is the long run.
"""

from collections.abc import Callable, Mapping
from dataclasses import field as dataclass_field
from decimal import Decimal
from enum import Enum
from itertools import count
from pathlib import Path
from typing import Annotated, Any, Final, Literal

import boto3
import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pydantic import (
    AfterValidator,
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    JsonValue,
    RootModel,
    StringConstraints,
    ValidationInfo,
    field_validator,
    model_validator,
)
from pydantic.dataclasses import dataclass

from odm import (
    AccessPattern,
    Entity,
    OdmError,
    PrimaryKey,
    Revision,
    SchemaError,
    Store,
    Table,
    add_to,
    append,
    discard_from,
    increment,
    prepend,
    remove,
    set_,
    set_fields,
    set_if_missing,
)
from odm.backends.bigtable import Bigtable
from odm.backends.dynamodb import DynamoDB
from odm.backends.local import LocalFile, Memory
from tests.effort import times
from tests.wide import WideBigtable

EXAMPLES: Final = times(30, 400)
UPDATES: Final = 6
PHASES: Final = [Phase.explicit, Phase.reuse, Phase.generate]
NUMBERS: Final = count()


class Colour(Enum):
    RED = "red"
    BLUE = "blue"


def _rounded(value: Any) -> Any:
    return round(value, 1)


def _distinct(value: list[Any]) -> list[Any]:
    if any(value.count(one) > 1 for one in value):
        raise ValueError("twice")
    return value


def _split(value: Any) -> Any:
    return value.split(",") if isinstance(value, str) else value


Lower = Annotated[str, StringConstraints(strip_whitespace=True, to_lower=True)]
Short = Annotated[str, Field(min_length=1, max_length=3)]
Small = Annotated[int, Field(ge=0, le=9)]
Even = Annotated[int, Field(multiple_of=2)]


class Part(BaseModel):
    code: Short = "aa"
    size: Small = 1
    names: Annotated[list[Lower], Field(max_length=2)] = []
    tags: set[Lower] = set()


class Strip(BaseModel):
    model_config = ConfigDict(str_strip_whitespace=True, validate_default=True)

    text: str = ""
    part: Part | None = None
    by_name: Annotated[dict[Lower, Small], Field(max_length=2)] = {}


class Ordered(BaseModel):
    low: int = 0
    high: int = 5

    @model_validator(mode="after")
    def _check(self) -> "Ordered":
        if self.low > self.high:
            raise ValueError("not in order")
        return self


class Sees(BaseModel):
    first: int = 0
    second: int = 5

    @field_validator("second")
    @classmethod
    def _check(cls, value: int, info: ValidationInfo) -> int:
        if value < info.data.get("first", value):
            raise ValueError("second is less")
        return value


class Circle(BaseModel):
    kind: Literal["circle"] = "circle"
    radius: Small = 1


class Square(BaseModel):
    kind: Literal["square"] = "square"
    side: Small = 2


class Numbers(RootModel[list[Small]]):
    pass


@dataclass
class Point:
    x: Small = 0
    labels: list[Lower] = dataclass_field(default_factory=list)


FIELDS: Final[dict[str, tuple[Any, Any]]] = {
    "small": (Small, 1),
    "even": (Even, 2),
    "optional": (Annotated[int | None, Field(ge=0, le=9)], None),
    "text": (Lower, "x"),
    "short": (Short, "a"),
    "colour": (Colour, Colour.RED),
    "literal": (Literal["a", 1], "a"),
    "digits": (Annotated[Decimal, Field(max_digits=3, decimal_places=1)], Decimal(0)),
    "any_digits": (Annotated[Decimal, Field(max_digits=3)], Decimal(0)),
    "rounded": (Annotated[Decimal, AfterValidator(_rounded)], Decimal(0)),
    "floats": (list[Annotated[float, Field(le=5)]], [1.5]),
    "smalls": (list[Small], []),
    "three": (Annotated[list[int], Field(min_length=1, max_length=3)], [1]),
    "distinct": (Annotated[list[int], AfterValidator(_distinct)], []),
    "split": (Annotated[list[Lower], BeforeValidator(_split)], []),
    "tags": (set[Lower], set()),
    "few": (Annotated[set[Small], Field(max_length=2)], {1}),
    "levels": (Annotated[dict[Lower, Small], Field(min_length=1, max_length=2)], {"a": 1}),
    "deep": (dict[str, list[Small]], {}),
    "pair": (tuple[Small, Lower], (1, "b")),
    "part": (Part, Part()),
    "maybe": (Part | None, None),
    "parts": (list[Part], []),
    "by_code": (dict[Lower, Part], {}),
    "strip": (Strip, Strip()),
    "ordered": (Ordered, Ordered()),
    "sees": (Sees, Sees()),
    "shape": (Circle | Square, Circle()),
    "numbers": (Numbers, Numbers([1])),
    "point": (Point, Point()),
    "payload": (JsonValue, None),
    "anything": (Any, None),
    "either": (Small | Lower, 1),
    "listed": (list[Small] | None, None),
    "invalid_default": (Small, -1),
}

SCALARS: Final = (
    st.integers(-3, 12)
    | st.sampled_from(["", "a", " B ", "aBcD", "red", "circle", "k,L", "x"])
    | st.sampled_from([Decimal("1.25"), Decimal("0.5"), 2.5, None, True, Colour.BLUE])
)
NAMES: Final = st.sampled_from(
    ["code", "size", "names", "tags", "text", "part", "by_name", "low", "high", "first", "second"]
)
MORE: Final = st.sampled_from(["radius", "side", "kind", "x", "labels", "a", "B", " c", "k", 0, 1, 2])
SEGMENTS: Final = NAMES | MORE
OBJECTS: Final = st.sampled_from(
    [Part(code="zz"), Strip(text="s"), Ordered(low=1), Circle(radius=3), Square(), Point(x=2)]
)
VALUES: Final = st.recursive(
    SCALARS | OBJECTS,
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(SEGMENTS.filter(lambda s: isinstance(s, str)), inner, max_size=2)
    ),
    max_leaves=4,
) | st.sets(st.sampled_from(["a", " B", "c"]) | st.integers(-1, 3), max_size=3)
HASHABLE: Final = st.sampled_from(["a", " B", "c", "D "]) | st.integers(-1, 3)


@st.composite
def models(draw: st.DrawFn) -> type[Entity]:
    """An entity class with some of the fields, and sometimes a validator of the whole or a Revision."""
    names = draw(st.lists(st.sampled_from(sorted(FIELDS)), min_size=1, max_size=5, unique=True))
    annotations: dict[str, Any] = {"item_id": str, "group": Lower}
    body: dict[str, Any] = {"__module__": __name__, "item_id": "1", "group": "g"}
    for name in names:
        annotations[name], body[name] = FIELDS[name]
    if draw(st.booleans()):
        annotations["revision"], body["revision"] = Annotated[int, Revision], 0
    whole = draw(st.sampled_from([None, None, None, "check", "derive"]))
    if whole == "check":
        body["_check"] = model_validator(mode="after")(_few_letters)
    elif whole == "derive":
        annotations["letters"], body["letters"] = int, 0
        body["_derive"] = model_validator(mode="after")(_count_letters)
    body["__annotations__"] = annotations
    body["primary"] = PrimaryKey("ITEM", "{item_id}")
    body["by_group"] = AccessPattern("GROUP#{group}")
    make: Any = type(Entity)
    model: type[Entity] = make("Item", (Entity,), body, table=Table("update-laws"))
    return model


def _letters(entity: Any) -> int:
    return len(repr([getattr(entity, name) for name in FIELDS if name in type(entity).model_fields]))


def _few_letters(self: Any) -> Any:
    if _letters(self) > 150:
        raise ValueError("too long")
    return self


def _count_letters(self: Any) -> Any:
    self.__dict__["letters"] = _letters(self)
    return self


INTS: Final = st.integers(-1, 10)
DECIMALS: Final = st.sampled_from([Decimal("0.5"), Decimal("1.25"), Decimal(9), Decimal(-1), Decimal("0.04")])
TEXTS: Final = st.sampled_from(["a", " B ", "aBcD", "red", "C", "k,L", ""])
PARTS: Final[st.SearchStrategy[Any]] = st.builds(dict, code=st.sampled_from(["b", "zzzz", "c"]), size=INTS) | st.just(
    Part(code="zz")
)
PLACES: Final[dict[str, list[tuple[tuple[Any, ...], str, Any]]]] = {
    "group": [((), "s", TEXTS)],
    "small": [((), "sir", INTS)],
    "even": [((), "sir", INTS)],
    "optional": [((), "sir", INTS)],
    "text": [((), "sr", TEXTS)],
    "short": [((), "s", TEXTS)],
    "colour": [((), "s", st.sampled_from(["red", "blue", Colour.BLUE, "green"]))],
    "literal": [((), "s", st.sampled_from(["a", 1, True, "b"]))],
    "digits": [((), "si", DECIMALS)],
    "any_digits": [((), "si", DECIMALS)],
    "rounded": [((), "sir", DECIMALS)],
    "floats": [((), "a", DECIMALS), ((0,), "sir", DECIMALS)],
    "smalls": [((), "a", INTS), ((0,), "sir", INTS)],
    "three": [((), "a", INTS), ((0,), "sir", INTS), ((3,), "s", INTS), ((1,), "r", INTS)],
    "distinct": [((), "a", INTS), ((0,), "sir", INTS), ((1,), "s", INTS)],
    "split": [((), "as", TEXTS), ((0,), "sr", TEXTS)],
    "tags": [((), "m", TEXTS)],
    "few": [((), "m", INTS)],
    "levels": [
        ((), "sr", st.dictionaries(TEXTS, INTS, max_size=3)),
        *((((key,), "sir", INTS)) for key in ("a", "B", " A")),
    ],
    "deep": [(("k",), "s", st.lists(INTS, max_size=2)), (("k",), "ar", INTS), (("k", 0), "sir", INTS)],
    "pair": [((0,), "si", INTS), ((1,), "s", TEXTS)],
    "part": [
        (("code",), "sr", TEXTS),
        (("size",), "sir", INTS),
        (("names",), "a", TEXTS),
        (("tags",), "m", TEXTS),
        ((), "f", PARTS),
    ],
    "maybe": [((), "sr", PARTS), (("size",), "si", INTS), ((), "f", PARTS), (("names", 0), "s", TEXTS)],
    "parts": [((), "a", PARTS), ((0,), "sr", PARTS), ((0, "code"), "s", TEXTS), ((0, "names"), "a", TEXTS)],
    "by_code": [(("A",), "sr", PARTS), (("a", "size"), "si", INTS), ((" a", "tags"), "m", TEXTS)],
    "strip": [
        (("text",), "sr", TEXTS),
        (("part",), "sr", PARTS),
        (("by_name", "A"), "sir", INTS),
        (("by_name", "b"), "s", INTS),
        ((), "f", st.builds(dict, part=PARTS, text=TEXTS)),
    ],
    "ordered": [(("low",), "sir", INTS), (("high",), "sir", INTS), ((), "f", st.builds(dict, low=INTS, high=INTS))],
    "sees": [(("first",), "sir", INTS), (("second",), "sir", INTS), ((), "f", st.builds(dict, second=INTS))],
    "shape": [
        (("radius",), "si", INTS),
        (("side",), "s", INTS),
        ((), "s", st.sampled_from([Circle(radius=3), Square()])),
    ],
    "numbers": [((), "a", INTS), ((0,), "si", INTS), ((), "s", st.lists(INTS, max_size=2))],
    "point": [(("x",), "si", INTS), (("labels",), "a", TEXTS), ((), "f", st.builds(dict, x=INTS))],
    "payload": [((), "s", VALUES), (("k",), "si", INTS), (("k", "l"), "sr", TEXTS)],
    "anything": [((), "s", VALUES), (("k",), "sir", INTS), ((), "am", TEXTS)],
    "either": [((), "si", INTS | TEXTS)],
    "listed": [((), "ar", INTS), ((0,), "sr", INTS)],
    "invalid_default": [((), "sir", INTS)],
    "letters": [((), "sir", INTS)],
}
"""For each field the places in it, and what fits there: set, increment, remove, append, members, or set_fields."""


@st.composite
def actions(draw: st.DrawFn, model: type[Entity]) -> list[Any]:
    """The actions of an update; most of them fit the model."""
    made: list[Any] = []
    fields = [name for name in model.model_fields if name not in ("item_id", "revision")]
    for _ in range(draw(st.integers(1, 2))):
        name = draw(st.sampled_from(fields))
        segments, kinds, values = draw(st.sampled_from(PLACES[name]))
        if draw(st.integers(0, 9)) == 0:
            segments, kinds, values = tuple(draw(st.lists(SEGMENTS, max_size=2))), "siramf", VALUES
        reference = getattr(model, name)
        for segment in segments:
            reference = reference[segment] if isinstance(segment, int) else _inside(reference, segment)
        value = draw(values)
        match draw(st.sampled_from(kinds)):
            case "s":
                made.append(draw(st.sampled_from([set_, set_, set_if_missing]))(reference, value))
            case "a":
                made.append(
                    draw(st.sampled_from([append, prepend]))(reference, value, *draw(st.lists(values, max_size=1)))
                )
            case "m":
                members = draw(st.lists(values if kinds != "siramf" else HASHABLE, min_size=1, max_size=2))
                made.append(draw(st.sampled_from([add_to, add_to, discard_from]))(reference, *members))
            case "i":
                made.append(increment(reference, draw(DECIMALS if values is DECIMALS else INTS)))
            case "r":
                made.append(remove(reference))
            case _:
                made += set_fields(model, {name: value})
    return made


def _inside(reference: Any, segment: str) -> Any:
    try:
        return getattr(reference, segment)
    except AttributeError:
        return reference[segment]


def agrees(stored: Any, shown: Any) -> bool:
    """Whether what is stored is what an entity shows; of an absent part it shows the default."""
    if isinstance(stored, Mapping) and isinstance(shown, Mapping):
        return all(name in shown and agrees(value, shown[name]) for name, value in stored.items())
    if isinstance(stored, list) and isinstance(shown, list):
        return len(stored) == len(shown) and all(map(agrees, stored, shown))
    return bool(type(stored) is type(shown) and stored == shown)


def check_laws(store: Callable[[Table], Store], model: Any, data: st.DataObject) -> None:
    """Update an item a few times; each time it must be readable and stored as it reads."""
    table: Table = model.__odm_table__
    try:
        schema = table.compile()
    except SchemaError:
        return  # such as a union that cannot be distinguished
    db = store(table)
    key = model.primary(item_id=f"{next(NUMBERS)}")
    try:
        db.put(model(item_id=key.values["item_id"]))
    except OdmError:
        return  # an invalid default
    try:
        for _ in range(UPDATES):
            before = db.one(key)
            update = data.draw(actions(model))
            refused = False
            try:
                db.update(key, *update)
            except OdmError:
                refused = True
            entity = db.one(key)  # the first law
            assert not refused or entity == before
            raw = next(one for one in db.scan_page(size=10_000).items if one.sort == key.values["item_id"])
            stored = schema.entity(model).codec.encode(entity)
            assert agrees(raw.attributes, stored), (update, before, raw.attributes)  # the second law
            assert not raw.stale
    finally:  # an item that a read refuses would stop the scans of the next examples
        db.delete(key)


def example(store: Callable[[Table], Store], most: int = EXAMPLES) -> None:
    """Check the laws for random models."""

    # Without Phase.shrink: it takes minutes, and the failing update is in the message.
    @settings(
        max_examples=most,
        deadline=None,
        suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.large_base_example],
        phases=PHASES,
    )
    @given(models(), st.data())
    def laws(model: type[Entity], data: st.DataObject) -> None:
        check_laws(store, model, data)

    laws()


def created(open_: Callable[[Table], Store]) -> Callable[[Table], Store]:
    """Opens stores, and creates their table once."""
    known: list[Store] = []

    def opened(table: Table) -> Store:
        store = open_(table)
        if not known:
            store.create()
            known.append(store)
        return store

    return opened


def test_in_memory() -> None:
    memory = Memory()
    example(created(lambda table: Store(table, memory)))


def test_in_a_file(tmp_path: Path) -> None:
    backend = LocalFile(tmp_path / "laws.db")
    example(created(lambda table: Store(table, backend)), EXAMPLES // 3)


@pytest.mark.parametrize("server", [pytest.param("dynamodb_local", marks=pytest.mark.full), "dynoxide"])
def test_on_dynamodb(session: boto3.Session, server: str, request: pytest.FixtureRequest) -> None:
    backend = DynamoDB(session, endpoint_url=request.getfixturevalue(server))
    example(created(lambda table: Store(table, backend, prefix="laws-")), EXAMPLES // 4)


@pytest.mark.parametrize("kind", [Bigtable, WideBigtable])
def test_on_bigtable(kind: type[Bigtable], bigtable_emulator: str) -> None:
    backend = kind("project", "laws", endpoint=bigtable_emulator)
    example(created(lambda table: Store(table, backend, prefix=f"{kind.__name__}-")), EXAMPLES // 4)
