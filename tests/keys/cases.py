"""Templates and values for the properties of keys, with an oracle per placeholder that does not encode."""

import functools
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import IntEnum, StrEnum
from typing import Any, Literal
from uuid import UUID

from attrs import frozen
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field

from odm.keys import Op, Template, compile_template
from tests.effort import times

_HEALTH = [HealthCheck.too_slow, HealthCheck.data_too_large]

LAW = settings(max_examples=times(300, 1_500), deadline=None, suppress_health_check=_HEALTH)
PROPERTY = settings(LAW, max_examples=times(150, 750))


class Color(StrEnum):
    RED = "red"
    DARK_RED = "red dark"
    HASH = "#"


class Level(IntEnum):
    LOWEST = -200
    LOW = -3
    NONE = 0
    ONE = 1
    HIGH = 20
    HUGE = 10**25


class Everything(BaseModel):
    text: str
    other: str
    symbol: str
    status: Literal["open", "open#2", "shipped"]
    color: Color
    mark: Literal["#"]
    rank: Level
    grade: Literal[-12, -1, 0, 2, 10, 300]
    blob: bytes
    level: int = Field(ge=1, lt=1000)
    balance: int = Field(ge=-50, le=50)
    number: int
    meter: int = Field(ge=0, lt=10**10)
    digit: int = Field(ge=0, le=9)
    price: Decimal = Field(decimal_places=2, ge=-10, lt=100)
    amount: Decimal = Field(decimal_places=3)
    at: datetime
    seen: datetime | None
    day: date
    id: UUID
    flag: bool
    ratio: float


@functools.total_ordering
class Reversed:
    def __init__(self, rank: Any) -> None:
        self.rank = rank

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Reversed) and bool(self.rank == other.rank)

    def __lt__(self, other: "Reversed") -> bool:
        return bool(other.rank < self.rank)

    def __hash__(self) -> int:
        return hash(self.rank)


@frozen
class Case:
    """A placeholder: the values it takes, what its bounds may be, and how its written values compare."""

    field: str
    form: str
    values: st.SearchStrategy[Any]
    bounds: st.SearchStrategy[Any]
    rank: Callable[[Any], Any]
    variable: bool = False

    @property
    def placeholder(self) -> str:
        return f"{{{self.field}{self.form}}}"


NASTY = st.sampled_from([*"#$% \0\x1f%ab~\x7f", "é", "\ud7ff", "\ue000", "\uffff", "\U0001f600", "\U0010ffff"])
TEXTS = st.text(NASTY, min_size=1, max_size=4) | st.text(min_size=1, max_size=8)
SYMBOLS = st.text(st.sampled_from("ABé\U0001f600%"), min_size=1, max_size=5) | st.sampled_from(["#", "A B", "$", "#A"])
ZONES = st.sampled_from([UTC, timezone(timedelta(hours=5, minutes=30)), timezone(timedelta(hours=-8))])
EDGES = [
    datetime(2023, 12, 31, 23, 59, 59, 999999, UTC),
    datetime(2024, 1, 1, tzinfo=UTC),
    datetime(2024, 1, 1, 0, 0, 0, 1000, UTC),
    datetime(2024, 2, 29, 12, 30, 15, 500000, UTC),
    datetime(1970, 1, 1, tzinfo=UTC),
]
SOME_TIMES = st.sampled_from(EDGES) | st.datetimes(datetime(2023, 12, 31), datetime(2024, 3, 2), timezones=ZONES)
TIMES = SOME_TIMES | st.datetimes(datetime(1, 1, 2), datetime(9999, 12, 30), timezones=ZONES)
EPOCH_TIMES = SOME_TIMES | st.datetimes(datetime(1970, 1, 2), datetime(2286, 11, 19), timezones=ZONES)
ANY_TIMES = (
    TIMES
    | st.datetimes(timezones=ZONES)
    | st.sampled_from([datetime.min.replace(tzinfo=UTC), datetime.max.replace(tzinfo=UTC)])
)
DATES = st.dates() | st.dates(date(2023, 12, 30), date(2024, 1, 2))
DECIMALS = (
    st.decimals(-12, 120, places=2)
    | st.decimals(-12, 120, places=4)
    | st.sampled_from([Decimal("Infinity"), Decimal("-1E+40")])
)


def _same(value: Any) -> Any:
    return value


def _reversed(rank: Callable[[Any], Any]) -> Callable[[Any], Reversed]:
    return lambda value: Reversed(rank(value))


def _utc(value: datetime) -> datetime:
    return value.astimezone(UTC)


def _fields(count: int) -> Callable[[date], Any]:
    names = ("year", "month", "day", "hour", "minute", "second")[:count]
    return lambda value: tuple(getattr(_utc(value) if isinstance(value, datetime) else value, name) for name in names)


def _millis(value: datetime) -> datetime:
    return _utc(value).replace(microsecond=value.microsecond // 1000 * 1000)


def _seconds(value: datetime) -> datetime:
    return _utc(value).replace(microsecond=0)


FIXED = [
    Case("symbol", ":<5", SYMBOLS, st.text(NASTY | st.sampled_from("AB"), max_size=7), _same),
    Case("level", "", st.integers(1, 999), st.integers() | st.integers(-2, 1002), _same),
    Case("balance", "", st.integers(-50, 50), st.integers(-60, 60), _same),
    Case("number", "", st.integers(-(10**26) + 1, 10**26 - 1) | st.integers(-120, 120), st.integers(), _same),
    Case("rank", "", st.sampled_from(Level), st.sampled_from(Level) | st.integers(), int),
    Case("grade", "", st.sampled_from([-12, -1, 0, 2, 10, 300]), st.integers(-400, 400), _same),
    Case("price", "", st.decimals("-10", "99.99", places=2), DECIMALS | st.integers(-12, 120), _same),
    Case("amount", "", st.decimals("-1E+20", "1E+20", places=3) | st.decimals(-2, 2, places=3), DECIMALS, _same),
    Case("seen", "", TIMES, ANY_TIMES, _utc),
    Case("at", ":s", EPOCH_TIMES, ANY_TIMES, _seconds),
    Case("at", ":ms", EPOCH_TIMES, ANY_TIMES, _millis),
    Case("at", ":us", EPOCH_TIMES, ANY_TIMES, _utc),
    Case("at", ":%Y", TIMES, ANY_TIMES, _fields(1)),
    Case("at", ":%Y-%m", TIMES, ANY_TIMES, _fields(2)),
    Case("at", ":%Y%m%d", TIMES, ANY_TIMES, _fields(3)),
    Case("at", ":%Y%m%d %H", TIMES, ANY_TIMES, _fields(4)),
    Case("at", ":%Y%m%dT%H:%M", TIMES, ANY_TIMES, _fields(5)),
    Case("at", ":%Y%m%d%H%M%S", TIMES, ANY_TIMES, _fields(6)),
    Case("at", ":%Y%m%d%H%M%S%3f", TIMES, ANY_TIMES, _millis),
    Case("at", ":%Y%m%d%H%M%S.%f", TIMES, ANY_TIMES, _utc),
    Case("day", "", DATES, DATES, _same),
    Case("day", ":%Y", DATES, DATES, _fields(1)),
    Case("day", ":%Y/%m", DATES, DATES, _fields(2)),
    Case("day", ":%Y%m%d", DATES, DATES, _same),
    Case("id", "", st.uuids(), st.uuids(), _same),
    Case("flag", "", st.booleans(), st.booleans(), _same),
    Case(
        "ratio",
        "",
        st.floats(allow_nan=False, allow_infinity=False) | st.sampled_from([0.0, -0.0, 1.5, -1.5]),
        st.floats(allow_nan=False) | st.integers() | st.sampled_from([2**53 + 1, 10**400, -(10**400)]),
        _same,
    ),
]
DESCENDING = [
    Case(case.field, f"{case.form}:desc", case.values, case.bounds, _reversed(case.rank))
    for case in FIXED
    if case.field != "symbol"
]
VARIABLE = [
    Case("text", "", TEXTS, TEXTS | st.just(""), _same, variable=True),
    Case("other", "", TEXTS, TEXTS, _same, variable=True),
    Case("status", "", st.sampled_from(["open", "open#2", "shipped"]), TEXTS | st.just("open"), _same, variable=True),
    Case("color", "", st.sampled_from(Color), st.sampled_from(Color) | TEXTS, str, variable=True),
    Case("blob", "", st.binary(min_size=1, max_size=4), st.binary(max_size=4), _same, variable=True),
]
LITERALS = st.sampled_from(["A", "ORDER", "v", "0", "a-b", "%s", "%", "~"])


@functools.cache
def compiled(text: str) -> Template:
    return compile_template(text, Everything.model_fields, owner="Everything.pattern")


@st.composite
def components(draw: st.DrawFn) -> tuple[str, tuple[Case, ...]]:
    """The text of a component and its placeholders."""
    text = draw(st.just("") | LITERALS)
    cases: list[Case] = []
    for _ in range(draw(st.sampled_from([0, 1, 1, 1, 2]))):
        case = draw(st.sampled_from(FIXED) | st.sampled_from(DESCENDING) | st.sampled_from(VARIABLE))
        cases.append(case)
        text += case.placeholder
        if case.variable:
            break
        text += draw(st.just("") | LITERALS)
    return (text, tuple(cases)) if text else ("X", ())


@frozen
class Drawn:
    """A template of which every placeholder has its oracle."""

    template: Template
    by_component: tuple[tuple[Case, ...], ...]

    @property
    def cases(self) -> tuple[Case, ...]:
        return tuple(case for cases in self.by_component for case in cases)

    def key(self, values: dict[str, Any]) -> str:
        key = self.template.encode(values)
        assert key is not None
        return key

    def ranks(self, values: dict[str, Any]) -> tuple[Any, ...]:
        return tuple(case.rank(values[case.field]) for case in self.cases)


def join(drawn: list[tuple[str, tuple[Case, ...]]]) -> Drawn:
    return Drawn(compiled("#".join(text for text, _ in drawn)), tuple(cases for _, cases in drawn))


TEMPLATES = st.lists(components(), min_size=1, max_size=3).map(join)


def values_of(draw: st.DrawFn, drawn: Drawn, like: dict[str, Any] | None = None) -> dict[str, Any]:
    """Values for all placeholders; about half of them those of `like`."""
    values: dict[str, Any] = {}
    # A field that stands twice takes values that all of its formats can hold.
    for case in sorted(drawn.cases, key=lambda case: case.values is EPOCH_TIMES):
        values[case.field] = (
            like[case.field] if like is not None and draw(st.booleans()) else draw(case.values, label=case.placeholder)
        )
    return values


OPS: list[Op] = ["<", "<=", ">", ">="]
