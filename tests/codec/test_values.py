"""What is stored for a value of each type, exactly, and what is refused."""

import ipaddress
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from enum import Enum, IntEnum, IntFlag, StrEnum
from inspect import isabstract
from pathlib import Path, PurePath, PurePosixPath, PureWindowsPath
from types import NoneType
from typing import Annotated, Any, Literal, NamedTuple, NewType
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from pydantic import (
    AnyUrl,
    AwareDatetime,
    BaseModel,
    BeforeValidator,
    ByteSize,
    ConfigDict,
    FutureDate,
    FutureDatetime,
    JsonValue,
    PastDate,
    PastDatetime,
    PlainValidator,
    PostgresDsn,
    RootModel,
    create_model,
)
from pydantic_core import MultiHostUrl, Url
from typing_extensions import TypeAliasType

from odm.codec import annotations, compile_codec
from odm.codec.types.forms import FormType
from odm.codec.types.records import RecordField
from odm.codec.types.scalars import AggregateType, CounterType, FixedDecimalType, NumberType
from odm.codec.types.stored import StoredType
from odm.codec.types.times import EpochType, FormatType, IsoType
from odm.codec.types.unions import AliasType, Around
from odm.entities.markers import Stored
from odm.errors import BadValue


class Color(Enum):
    RED = "red"
    BLUE = "blue"


class Level(IntEnum):
    LOW = 1
    HIGH = 2


class State(StrEnum):
    OPEN = "open"
    SHUT = "shut"


class Weight(Enum):
    HALF = 0.5
    ONE = 1.0


class Right(IntFlag):
    READ = 1
    WRITE = 2


class Point(BaseModel):
    x: int
    y: int | None = None
    marks: set[str] = set()


class Marked(BaseModel):
    marks: set[str]


class Renamed(BaseModel):
    name: Annotated[str, Stored("n")]


class Loud(float):
    def __repr__(self) -> str:
        return "Loud"


@dataclass
class Size:
    width: int
    since: timedelta
    note: str | None = None


class Pair(NamedTuple):
    at: date
    n: int


class Names(RootModel[list[str]]):
    pass


class Spans(RootModel[list[timedelta]]):
    pass


class Cat(BaseModel):
    kind: Literal["cat"] = "cat"
    naps: timedelta


class Dog(BaseModel):
    kind: Literal["dog"] = "dog"
    naps: timedelta


UserId = NewType("UserId", str)
Tree = TypeAliasType("Tree", "dict[str, Tree] | list[Tree] | timedelta")

STORED: list[tuple[Any, Any, Any]] = [
    (bool, True, True),
    (str, "æ😀", "æ😀"),
    (str, "", ""),
    (UserId, "u1", "u1"),
    (bytes, b"\x00\xff", b"\x00\xff"),
    (bytes, b"", b""),
    (int, 10**37, 10**37),
    (int, 12 * 10**100, 12 * 10**100),
    (ByteSize, ByteSize(5), 5),
    (Decimal, Decimal("1.50"), Decimal("1.5")),
    (Decimal, Decimal("1E+3"), 1000),
    (Decimal, Decimal("-0.00"), 0),
    (Decimal, Decimal("1E-130"), Decimal("1E-130")),
    (Decimal, Decimal("9.9E+125"), 99 * 10**124),
    (Decimal, Decimal("1" * 38), int("1" * 38)),
    (Decimal, Decimal("0." + "1" * 38), Decimal("0." + "1" * 38)),
    (float, 0.1, Decimal("0.1")),
    (float, 1.0, 1),
    (float, -0.0, 0),
    (float, 1e22, 10**22),
    (float, 1e125, 10**125),
    (float, 1.5e-7, Decimal("1.5E-7")),
    (
        datetime,
        datetime(2023, 9, 10, 17, 21, 48, tzinfo=timezone(timedelta(hours=2))),
        "2023-09-10T15:21:48.000000Z",
    ),
    (datetime, datetime(1, 2, 3, 4, 5, 6, 7, tzinfo=UTC), "0001-02-03T04:05:06.000007Z"),
    (AwareDatetime, datetime(2023, 7, 1, tzinfo=ZoneInfo("Europe/Paris")), "2023-06-30T22:00:00.000000Z"),
    (date, date(1, 2, 3), "0001-02-03"),
    (time, time(1, 2), "01:02:00.000000"),
    (time, time(1, 2, tzinfo=UTC), "01:02:00.000000+00:00"),
    (timedelta, timedelta(days=-1, microseconds=5), -86_399_999_995),
    (PastDatetime, datetime(2020, 1, 1, tzinfo=UTC), "2020-01-01T00:00:00.000000Z"),
    (FutureDatetime, datetime(9020, 1, 1, tzinfo=UTC), "9020-01-01T00:00:00.000000Z"),
    (PastDate, date(2020, 1, 1), "2020-01-01"),
    (FutureDate, date(9020, 1, 1), "9020-01-01"),
    (NoneType, None, None),
    (UUID, UUID(int=1), "00000000-0000-0000-0000-000000000001"),
    (ipaddress.IPv4Address, ipaddress.IPv4Address("10.0.0.1"), "10.0.0.1"),
    (ipaddress.IPv4Interface, ipaddress.IPv4Interface("10.0.0.1/8"), "10.0.0.1/8"),
    (ipaddress.IPv4Network, ipaddress.IPv4Network("10.0.0.0/8"), "10.0.0.0/8"),
    (ipaddress.IPv6Address, ipaddress.IPv6Address("2001:db8::1"), "2001:db8::1"),
    (ipaddress.IPv6Interface, ipaddress.IPv6Interface("2001:db8::1/32"), "2001:db8::1/32"),
    (ipaddress.IPv6Network, ipaddress.IPv6Network("2001:db8::/32"), "2001:db8::/32"),
    (Path, Path("a/b"), "a/b"),
    (PurePath, PurePath("a/b"), "a/b"),
    (PurePosixPath, PurePosixPath("a/b"), "a/b"),
    (PureWindowsPath, PureWindowsPath("a/b"), "a\\b"),
    (Url, Url("http://x.org"), "http://x.org/"),
    (MultiHostUrl, MultiHostUrl("postgres://u@h1,h2/db"), "postgres://u@h1,h2/db"),
    (AnyUrl, AnyUrl("http://x.org"), "http://x.org/"),
    (PostgresDsn, PostgresDsn("postgres://u@h1,h2/db"), "postgres://u@h1,h2/db"),
    (Color, Color.RED, "red"),
    (Level, Level.HIGH, 2),
    (State, State.OPEN, "open"),
    (Weight, Weight.ONE, 1),
    (Weight, Weight.HALF, Decimal("0.5")),
    (Right, Right.READ | Right.WRITE, 3),
    (Literal["a", 1, b"x"], b"x", b"x"),
    (Literal["a", 1], 1, 1),
    (Literal[Color.RED], Color.RED, "red"),
    (Literal["a", None], None, None),  # noqa: PYI061
    (int | None, None, None),
    (list[int | None], [1, None], [1, None]),
    (list[timedelta], [timedelta(seconds=1)], [1_000_000]),
    (tuple[int, ...], (1, 2), [1, 2]),
    (tuple[date, timedelta], (date(2020, 1, 1), timedelta(seconds=1)), ["2020-01-01", 1_000_000]),
    (Pair, Pair(date(2020, 1, 1), 2), ["2020-01-01", 2]),
    (dict[str, float], {"a": 0.5, "b": 1.0}, {"a": Decimal("0.5"), "b": 1}),
    (dict[State, int], {State.OPEN: 1}, {"open": 1}),
    (dict[Color, timedelta], {Color.RED: timedelta(seconds=1)}, {"red": 1_000_000}),
    (set[str], {"a", "b"}, frozenset({"a", "b"})),
    (frozenset[UUID], frozenset({UUID(int=1)}), frozenset({"00000000-0000-0000-0000-000000000001"})),
    (set[float], {0.5, 1.0}, frozenset({Decimal("0.5"), 1})),
    (set[timedelta], {timedelta(seconds=1)}, frozenset({1_000_000})),
    (set[bytes], {b"a"}, frozenset({b"a"})),
    (set[Color], {Color.RED}, frozenset({"red"})),
    (list[set[int]], [{1}], [frozenset({1})]),
    (Point, Point(x=1), {"x": 1}),
    (Point, Point(x=1, y=2, marks={"a"}), {"x": 1, "y": 2, "marks": frozenset({"a"})}),
    (list[Point], [Point(x=1)], [{"x": 1}]),
    (Marked, Marked(marks=set()), {}),
    (Renamed, Renamed(name="x"), {"n": "x"}),
    (Size, Size(1, timedelta(seconds=1)), {"width": 1, "since": 1_000_000}),
    (Names, Names(["a"]), ["a"]),
    (Spans, Spans([timedelta(seconds=1)]), [1_000_000]),
    (Cat | Dog, Dog(naps=timedelta(seconds=1)), {"kind": "dog", "naps": 1_000_000}),
    (list[Cat | Dog | None], [Cat(naps=timedelta(0)), None], [{"kind": "cat", "naps": 0}, None]),
    (Tree, {"a": [timedelta(seconds=1)]}, {"a": [1_000_000]}),
    (int | str, "5", "5"),
    (str | int, 5, 5),
    (int | bool, True, True),
    (int | float, 0.1, Decimal("0.1")),
    (int | Decimal, Decimal("0.1"), Decimal("0.1")),
    (timedelta | str, timedelta(seconds=1), 1_000_000),
    (datetime | int, datetime(2020, 1, 1, tzinfo=UTC), "2020-01-01T00:00:00.000000Z"),
    (UUID | list[UUID], [UUID(int=1)], ["00000000-0000-0000-0000-000000000001"]),
    (bytes | str, "a", "a"),
    (Literal["a"] | str, "b", "b"),  # noqa: PYI051
    (
        Any,
        {"a": [1, None, "x", b"y", True, {"s"}, Decimal("1.50"), 0.5]},
        {"a": [1, None, "x", b"y", True, frozenset({"s"}), Decimal("1.5"), Decimal("0.5")]},
    ),
    (object, [1], [1]),
    (list, [1, "a"], [1, "a"]),
    (dict, {"a": 1}, {"a": 1}),
    (JsonValue, {"a": [0.1, 1.0, "x", None]}, {"a": [Decimal("0.1"), 1, "x", None]}),
]


def names(cases: list[tuple[Any, Any, Any]]) -> list[str]:
    return [f"{getattr(case[0], '__name__', case[0])}-{position}" for position, case in enumerate(cases)]


def model_of(annotation: Any, config: ConfigDict | None = None) -> Any:
    return create_model("Order", value=(annotation, ...), __config__=config)


@pytest.mark.parametrize(("annotation", "value", "stored"), STORED, ids=names(STORED))
def test_is_stored_as_documented_and_comes_back_equal(annotation: Any, value: Any, stored: Any) -> None:
    model = model_of(annotation)
    codec = compile_codec(model, "Order")
    entity = model(value=value)
    item = codec.encode(entity)
    assert item == {"value": stored, "_t": "Order"}
    assert repr_kind(item["value"]) == repr_kind(stored)
    back = codec.decode(item)
    assert back == entity
    assert repr_kind(back.value) == repr_kind(value) or not is_declared(annotation)
    assert codec.read(item, ["value"]) == {"value": value}


PLAIN = [
    case
    for case in STORED
    if not any(
        name in repr(case[1]) for name in ("Marked", "Renamed", "Point", "Size", "Names", "Spans", "Dog", "Cat", "Pair")
    )
]


@pytest.mark.parametrize("marker", [BeforeValidator, PlainValidator])
@pytest.mark.parametrize(("annotation", "value", "stored"), PLAIN, ids=names(PLAIN))
def test_early_validators_are_given_the_python_value(annotation: Any, value: Any, stored: Any, marker: Any) -> None:
    """So a validator that is idempotent on the field's own values works on stored data, too."""
    seen: list[Any] = []

    def note(given: Any) -> Any:
        seen.append(given)
        return given

    model = model_of(Annotated[annotation, marker(note)])
    codec = compile_codec(model, "Order")
    assert codec.decode({"value": stored}).value == value
    assert seen == [value]
    assert repr_kind(seen[0]) == repr_kind(value) or not is_declared(annotation)


def is_declared(annotation: Any) -> bool:
    """Values of undeclared type come back equal, but a set as a frozenset and 0.5 as Decimal("0.5")."""
    return annotation is not Any


def repr_kind(value: Any) -> Any:
    """The types inside a value, so that 1 is not True and not Decimal(1)."""
    if isinstance(value, list | tuple):
        return type(value), [repr_kind(part) for part in value]
    if isinstance(value, dict):
        return type(value), {key: repr_kind(part) for key, part in value.items()}
    if isinstance(value, set | frozenset):
        return type(value), {type(part) for part in value}
    if isinstance(value, Decimal | float | int) and not isinstance(value, bool | Enum):
        return "whole" if value == int(value) else type(value)
    return type(value)


TESTED_ELSEWHERE = {"BlobType", "CompressedType"}


def stored_types(part: object) -> Iterator[StoredType]:
    """A stored type, or a value that holds some, with all types that it is made of; none of these is recursive."""
    if isinstance(part, StoredType):
        yield part
        for name in type(part).__struct_fields__:
            yield from stored_types(getattr(part, name, None))
    elif isinstance(part, RecordField):
        yield from stored_types(part.type)
    elif isinstance(part, Mapping):
        yield from stored_types(tuple(part.values()))
    elif isinstance(part, tuple):
        for one in part:
            yield from stored_types(one)


def subclasses(cls: type[Any]) -> Iterator[type[Any]]:
    for below in cls.__subclasses__():
        yield below
        yield from subclasses(below)


def test_each_stored_type_has_an_example() -> None:
    declared = [case[0] for case in STORED if case[0] is not Tree]
    seen = {type(one) for of in declared for one in stored_types(compile_codec(model_of(of), "Order").record)}
    forms = {*subclasses(FormType), EpochType, FormatType, IsoType}  # of `Stored(format=)` and `Stored(epoch=)`
    marked = {CounterType, AggregateType, FixedDecimalType, AliasType}
    made = {one for one in subclasses(StoredType) if not isabstract(one) and one.__module__[:4] == "odm."}
    missing = {one.__name__ for one in made - seen - forms - marked - {NumberType, Around}} - TESTED_ELSEWHERE
    assert missing == set(), "add an annotation, a value and its stored form to STORED"


def test_each_class_with_a_stored_type_has_an_example() -> None:
    named = [*annotations._SCALARS, *annotations._TEXTS]  # pyright: ignore[reportPrivateUsage]
    examples = [case[0] for case in STORED]
    assert [one for one in named if one not in examples] == [], "add it with a value and its stored form to STORED"


REFUSED: list[tuple[Any, Any, str]] = [
    (bool, 1, "not of type bool"),
    (str, 5, "not of type str"),
    (str, "a\ud800", "surrogate"),
    (bytes, "a", "not of type bytes"),
    (datetime | int, datetime(2020, 1, 1), "no time zone"),
    (int, True, "not of type int"),
    (int, "5", "not of type int"),
    (int, int("1" * 39), "38 significant digits"),
    (int, 10**126, "range"),
    (int, 10**5000, "range"),
    (Decimal, 0.5, "not of type Decimal"),
    (Decimal, Decimal("1." + "1" * 38), "38 significant digits"),
    (Decimal, Decimal("1E+126"), "range"),
    (Decimal, Decimal("1E-131"), "range"),
    (Decimal, Decimal("NaN"), "finite"),
    (Decimal, Decimal("sNaN"), "finite"),
    (Decimal, Decimal("-Infinity"), "finite"),
    (float, float("nan"), "finite"),
    (float, float("inf"), "finite"),
    (float, 1e126, "range"),
    (float, 5e-324, "range"),
    (float, 2**60 + 1, "no float"),
    (int | float, 1.956642338152191e16, "declare the field as float"),
    (JsonValue, [1.956642338152191e16], "declare the field as float"),
    (float, "1", "not of type float"),
    (datetime, datetime(2020, 1, 1), "no time zone"),
    (datetime, "2020-01-01T00:00:00Z", "not of type datetime"),
    (datetime, datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=2))), "years 1 to 9999"),
    (date, datetime(2020, 1, 1, tzinfo=UTC), "not of type date"),
    (time, time(1, tzinfo=timezone(timedelta(seconds=90))), "whole minutes"),
    (timedelta, 5, "not of type timedelta"),
    (UUID, str(UUID(int=1)), "not of type UUID"),
    (Path, "a", "not of type Path"),
    (Color, "red", "not of type Color"),
    (State, "other", "not of type State"),
    (Level, True, "not of type Level"),
    (Literal["a"], "b", "not allowed by"),
    (Literal[1], True, "not allowed by"),
    (Literal["a"], ["a"], "not allowed by"),
    (list[int], (1,), "not of type list"),
    (tuple[int, ...], [1], "not of type tuple"),
    (tuple[int, int], (1,), "not of type tuple"),
    (Pair, (date(2020, 1, 1), 2), "not of type Pair"),
    (dict[str, int], {1: 1}, "not of type str"),
    (dict[str, int], [], "not of type dict"),
    (set[str], ["a"], "not of type set"),
    (set[str], {1}, "not of type str"),
    (list[set[str]], [set()], "empty set"),
    (dict[str, set[str]], {"k": set()}, "empty set"),
    (Point, {"x": 1}, "not of type Point"),
    (Names, ["a"], "not of type Names"),
    (Cat | Dog, Point(x=1), "not of type Cat | Dog"),
    (int | str, 0.5, "not of type int | str"),
    (int, None, "not of type int"),
    (Any, (1, 2), "declare a type"),
    (Any, 0.1, "pydantic.JsonValue reads numbers"),
    (Any, Color.RED, "declare a type"),
    (Any, State.OPEN, "declare a type"),
    (Any, Point(x=1), "declare a type"),
    (Any, {"a": datetime(2020, 1, 1, tzinfo=UTC)}, "declare a type"),
    (Any, {1: 2}, "declare a type"),
    (Any, set(), "declare a type"),
    (Any, {1, "a"}, "declare a type"),
    (Any, {True}, "declare a type"),
    (JsonValue, Decimal("0.5"), "declare a type"),
    (JsonValue, [b"x"], "declare a type"),
]


@pytest.mark.parametrize(("annotation", "value", "reason"), REFUSED, ids=names(REFUSED))
def test_a_wrong_value_is_never_written(annotation: Any, value: Any, reason: str) -> None:
    model = model_of(annotation)
    with pytest.raises(BadValue) as caught:
        compile_codec(model, "Order").encode(model.model_construct(value=value))
    assert "Order.value" in str(caught.value)
    assert reason in str(caught.value)
    assert len(str(caught.value)) < 300


@pytest.mark.parametrize(
    ("annotation", "value", "path"),
    [
        (list[list[int]], [[1], [2, "x"]], "Order.value[1][1]"),
        (dict[str, Point], {"a": Point.model_construct(x="x")}, "Order.value.a.x"),
        (tuple[int, str], (1, 2), "Order.value[1]"),
        (list[Cat | Dog], [Dog.model_construct(kind="dog", naps=1)], "Order.value[0].naps"),
        (Any, {"a": [1, (2,)]}, "Order.value.a[1]"),
    ],
)
def test_the_error_names_the_place_inside(annotation: Any, value: Any, path: str) -> None:
    model = model_of(annotation)
    with pytest.raises(BadValue) as caught:
        compile_codec(model, "Order").encode(model.model_construct(value=value))
    assert f"{path}:" in str(caught.value)


class Labels(BaseModel):
    status: str = State.OPEN
    ratio: float = 0
    total: Decimal = Decimal(0)


def test_defaults_of_kindred_types_are_stored_as_the_declared_type() -> None:
    codec = compile_codec(Labels, "Labels")
    item = codec.encode(Labels())
    assert item == {"status": "open", "ratio": 0, "total": 0, "_t": "Labels"}
    assert type(item["status"]) is str
    assert codec.decode(item) == Labels()


def test_the_digits_of_a_float_are_its_own_whatever_its_class_prints() -> None:
    assert compile_codec(Labels, "Labels").value("ratio", Loud(0.1)) == Decimal("0.1")


def test_use_enum_values() -> None:
    model = model_of(Color, ConfigDict(use_enum_values=True))
    codec = compile_codec(model, "Order")
    entity = model(value=Color.RED)
    assert codec.encode(entity)["value"] == "red"
    assert codec.decode(codec.encode(entity)) == entity
    assert codec.encode(model.model_construct(value=Color.BLUE))["value"] == "blue"


def test_a_str_enum_takes_its_bare_value_as_it_comes_back_equal() -> None:
    model = model_of(State)
    codec = compile_codec(model, "Order")
    assert codec.decode(codec.encode(model.model_construct(value="open"))).value is State.OPEN
