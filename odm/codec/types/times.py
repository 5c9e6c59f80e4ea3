"""Stored types of time: fixed-width ISO text, and the forms that a field asks for, such as ``Stored(epoch="s")``.

A form loads only the text or number that it would write.
"""

import re
from collections.abc import Callable, Mapping
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from functools import cached_property
from typing import Any, Final, Literal, TypeAlias, cast, get_args

from odm.cache import pattern
from odm.codec.types.numbers import canonical
from odm.codec.types.scalars import parsed
from odm.codec.types.stored import NUMBER, TEXT, StoredType, Unfit, Unreadable, unfit
from odm.errors import brief
from odm.expressions.nodes import Number, Value
from odm.immutable import Immutable, field

_AT_UTC: Final = timedelta()
_MICROSECOND: Final = timedelta(microseconds=1)
_NAIVE: Final = "has no time zone, so it is not a timestamp: give it one, as in datetime.now(UTC)"
_UTC_TEXT: Final = "%04d-%02d-%02dT%02d:%02d:%02d.%06dZ"


class DateTimeType(StoredType):
    """An aware datetime, stored as fixed-width UTC text, so that text order is time order."""

    @property
    def ordered(self) -> bool:
        return True

    def dump(self, value: Any) -> Value:
        if not isinstance(value, datetime):
            raise unfit("datetime", value)
        v = in_utc(value)
        return _UTC_TEXT % (v.year, v.month, v.day, v.hour, v.minute, v.second, v.microsecond)

    def load(self, value: Value) -> Any:
        return parsed(datetime.fromisoformat, value)


def in_utc(value: datetime) -> datetime:
    """The same instant in UTC; raises `Unfit` if the datetime is naive or outside the years 1 to 9999 in UTC."""
    if value.tzinfo is UTC or value.utcoffset() == _AT_UTC:
        return value
    if value.utcoffset() is None:
        raise Unfit(_NAIVE, value)
    try:
        return value.astimezone(UTC)
    except OverflowError:
        raise Unfit("lies outside the years 1 to 9999 in UTC, which are all that can be stored", value) from None


class DateType(StoredType):
    """A calendar day."""

    @property
    def ordered(self) -> bool:
        return True

    def dump(self, value: Any) -> Value:
        if not isinstance(value, date) or isinstance(value, datetime):
            raise unfit("date", value)
        return value.isoformat()

    def load(self, value: Value) -> Any:
        return parsed(date.fromisoformat, value)


class TimeType(StoredType):
    """A time of day; its offset is stored."""

    @property
    def ordered(self) -> bool:
        return True

    def dump(self, value: Any) -> Value:
        if not isinstance(value, time):
            raise unfit("time", value)
        offset = value.utcoffset()
        if offset is not None and offset % timedelta(minutes=1):
            raise Unfit("has an offset that is not of whole minutes, which cannot be stored: round it", value)
        return value.isoformat(timespec="microseconds")

    def load(self, value: Value) -> Any:
        return parsed(time.fromisoformat, value)


class DurationType(StoredType):
    """A timedelta, as a whole number of microseconds."""

    @property
    def ordered(self) -> bool:
        return True

    def dump(self, value: Any) -> Value:
        if not isinstance(value, timedelta):
            raise unfit("timedelta", value)
        return value // _MICROSECOND

    def load(self, value: Value) -> Any:
        try:
            return timedelta(microseconds=value) if type(value) is int else value
        except OverflowError:
            return value

    def lax(self) -> bool:
        return False  # pydantic reads a number as seconds


DATETIME: Final = DateTimeType("datetime", TEXT)
DATE: Final = DateType("date", TEXT)
TIME: Final = TimeType("time", TEXT)
DURATION: Final = DurationType("timedelta", NUMBER)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MICRO: Final = timedelta(microseconds=1)

EpochUnit: TypeAlias = Literal["s", "ms", "us", "ns", "s.f", "d"]
"""The units of ``Stored(epoch=...)``; "s.f" is seconds with a fraction, and "d" is days, of a date."""

_MICROS: Final[Mapping[EpochUnit, Decimal]] = {
    "s": Decimal(1_000_000),
    "ms": Decimal(1000),
    "us": Decimal(1),
    "ns": Decimal("0.001"),
    "s.f": Decimal(1_000_000),
    "d": Decimal(86_400_000_000),
}
"""The microseconds of a unit."""

_NANOS: Final = "it has nanoseconds, and a datetime has microseconds"
_WIDTHS: Final = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "3f": 3, "f": 6}
_CLOCK: Final = {"H": "hour", "M": "minute", "S": "second", "f": "microsecond"}
_ZONES: Final = {"z": "+0000", ":z": "+00:00"}
_ORDER: Final = ("Y", "m", "d", "H", "M", "S", "f")
_DIRECTIVE: Final = pattern(r"%(:z|3f|.)", re.DOTALL)
DIRECTIVES: Final = "%Y %m %d %H %M %S %3f %f %z %:z %%"


class EpochType(StoredType):
    """A datetime, or a date at midnight in UTC, as a number of a unit since 1970.

    Attributes:
        unit: of the number.
        of: datetime or date.
    """

    unit: EpochUnit
    of: type = datetime

    @property
    def ordered(self) -> bool:
        return True

    def dump(self, value: Any) -> Value:
        if not isinstance(value, self.of) or (self.of is date and isinstance(value, datetime)):
            raise unfit(self.of.__name__, value)
        number = self._number(value)
        if self.whole and type(number) is not int:
            raise Unfit(f"has a fraction, which epoch={self.unit!r} does not store: round it", value)
        return number

    @property
    def whole(self) -> bool:
        """Whether the numbers have no fraction."""
        return self.unit != "s.f"

    def _number(self, value: Any) -> Number:
        moment = value if isinstance(value, datetime) else datetime(value.year, value.month, value.day, tzinfo=UTC)
        return canonical(Decimal((in_utc(moment) - _EPOCH) // _MICRO) / _MICROS[self.unit])

    def load(self, value: Value) -> Any:
        if type(value) is not int and (self.whole or type(value) is not Decimal):
            return value if isinstance(value, self.of) else Unreadable(value)
        try:
            moment = _EPOCH + int(value * _MICROS[self.unit]) * _MICRO
        except OverflowError:
            return Unreadable(value)
        loaded = moment if self.of is datetime else moment.date()
        if self._number(loaded) != value:
            return Unreadable(value, _NANOS if self.of is datetime else "it is not midnight in UTC, and a date is")
        return loaded

    def loose(self, value: Any) -> Value:
        return self._number(value) if isinstance(value, datetime) and self.of is datetime else self.dump(value)

    def lax(self) -> bool:
        return False


class FormatType(StoredType, dict=True):
    """A datetime or date as text of a format, in UTC.

    Attributes:
        form: the format.
        of: datetime or date.
    """

    form: str
    of: type

    @cached_property
    def _pattern(self) -> re.Pattern[str]:
        return _pattern(self.form)

    @property
    def ordered(self) -> bool:
        """Whether the texts sort as the times do: the largest unit first, and none left out in between."""
        units = tuple(directive[0].removeprefix("3") for directive in _directives(self.form))
        return units == _ORDER[: len(units)]

    def dump(self, value: Any) -> Value:
        if not isinstance(value, self.of) or (self.of is date and isinstance(value, datetime)):
            raise unfit(self.of.__name__, value)
        if isinstance(value, datetime):
            value = in_utc(value)
        text = _DIRECTIVE().sub(lambda match: _written(match[1], value), self.form)
        if self.load(text) != value:
            raise Unfit(f"has parts that the format {self.form!r} does not store: round it", value)
        return text

    def load(self, value: Value) -> Any:
        match = self._pattern.fullmatch(value) if isinstance(value, str) else None
        if match is None:
            return value if isinstance(value, date) else Unreadable(value)
        parts = {name: int(text) for name, text in match.groupdict().items()}
        day = parts.get("Y", 1), parts.get("m", 1), parts.get("d", 1)
        micros = parts.get("f", 1000 * parts.get("ms", 0))
        clock = parts.get("H", 0), parts.get("M", 0), parts.get("S", 0), micros
        try:
            return date(*day) if self.of is date else datetime(*day, *clock, tzinfo=UTC)
        except ValueError:
            return Unreadable(value)

    def lax(self) -> bool:
        return False


class IsoType(StoredType):
    """A datetime as ISO text in UTC with as many digits as it needs, as other languages write it.

    Attributes:
        name: one of `ISO_FORMS`.
        sorts: see `ordered`.
    """

    name: str
    sorts: bool
    _style: "_Style" = field(repr=False)

    @property
    def ordered(self) -> bool:
        return self.sorts

    def dump(self, value: Any) -> Value:
        if not isinstance(value, datetime):
            raise unfit("datetime", value)
        instant = in_utc(value)
        day = f"{instant.year:04}-{instant.month:02}-{instant.day:02}"
        clock = f"{instant.hour:02}:{instant.minute:02}"
        if instant.second or instant.microsecond or not self._style.short:
            clock += f":{instant.second:02}"
        return f"{day}T{clock}{self._style.fraction(instant.microsecond)}{self._style.zone or ''}"

    def load(self, value: Value) -> Any:
        if type(value) is not str:
            return value if isinstance(value, datetime) else Unreadable(value)
        match = _ISO().fullmatch(value)
        if match is None or match["zone"] != self._style.zone:
            return Unreadable(value)
        if match["nanos"] and match["nanos"].strip("0"):
            return Unreadable(value, _NANOS)
        try:
            instant = datetime.fromisoformat(f"{match['minute']}{match['second'] or ''}{match['micros'] or ''}")
        except ValueError:
            return Unreadable(value)
        instant = instant.replace(tzinfo=UTC)
        return instant if self.dump(instant) == value else Unreadable(value)

    def lax(self) -> bool:
        return False


_ISO: Final = pattern(
    r"(?P<minute>[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2})((?P<second>:[0-9]{2})(?P<micros>\.[0-9]{1,6})?"
    r"(?P<nanos>[0-9]{1,3})?)?(?P<zone>Z|[+-][0-9]{2}:[0-9]{2})?"
)


def _three(micros: int) -> str:
    """No digits, three or six."""
    return "" if not micros else f".{micros // 1000:03}" if micros % 1000 == 0 else f".{micros:06}"


def _six(micros: int) -> str:
    """No digits or six."""
    return f".{micros:06}" if micros else ""


def _trimmed(micros: int) -> str:
    """As many digits as are not zeros at the end."""
    return f".{micros:06}".rstrip("0") if micros else ""


class _Style(Immutable):
    """How a language writes a time.

    Attributes:
        zone: the text of UTC; None: no zone.
        fraction: the text of the microseconds.
        short: seconds are left out if there is nothing in them.
    """

    zone: str | None
    fraction: Callable[[int], str]
    short: bool = False


ISO_FORMS: Final = {
    "Instant": _Style("Z", _three),
    "OffsetDateTime": _Style("Z", _three, short=True),
    "LocalDateTime": _Style(None, _three, short=True),
    "RFC3339Nano": _Style("Z", _trimmed),
    "isoformat": _Style("+00:00", _six),
    "isoformat naive": _Style(None, _six),
}
"""The ISO texts of other languages, by the name there: classes of java.time, a constant of Go's package time, and
Python's method, of times in UTC."""

_IN_ORDER: Final = frozenset({"isoformat", "isoformat naive"})
"""Those whose texts sort as the times: "+" and the end of a text sort before ".", and "Z" behind it."""


def is_datetime(type_: StoredType) -> bool:
    """Whether the values of a type are datetimes."""
    if isinstance(type_, EpochType | FormatType):
        return type_.of is datetime
    return type_ == DATETIME or isinstance(type_, IsoType)


def storable(type_: StoredType) -> Callable[[datetime], datetime]:
    """The function that cuts a time in UTC to what a type of `is_datetime` stores."""
    if isinstance(type_, EpochType):
        step = _MICRO if type_.unit in ("s.f", "ns") else timedelta(microseconds=int(_MICROS[type_.unit]))
        return lambda moment: moment - (moment - _EPOCH) % step
    if not isinstance(type_, FormatType):
        return lambda moment: moment
    stored = {name for (name,) in _directives(type_.form)}
    absent: dict[str, Any] = {word: 0 for name, word in _CLOCK.items() if name not in stored}
    if "3f" in stored:
        del absent["microsecond"]
    millis = 1000 if "3f" in stored else 1
    return lambda moment: moment.replace(microsecond=moment.microsecond // millis * millis).replace(**absent)


def epoch_type(unit: str, of: type = datetime) -> EpochType:
    """The type of a datetime or date as a number. Raises ValueError for an unknown unit."""
    if unit not in get_args(EpochUnit):
        raise ValueError(f"epoch={brief(unit)} is not one of {', '.join(map(repr, get_args(EpochUnit)))}")
    if unit == "d" and of is datetime:
        raise ValueError("epoch='d' has days, which a date holds: declare the field as date")
    if unit == "s.f" and of is date:
        raise ValueError("epoch='s.f' has fractions of a second, and a date has none: write epoch='s'")
    return EpochType(f"{of.__name__} in {unit} since 1970", NUMBER, cast("EpochUnit", unit), of)


def iso_type(name: str) -> IsoType:
    """The type of a datetime as one of `ISO_FORMS`."""
    return IsoType(f"datetime as {name}", TEXT, name, name in _IN_ORDER, ISO_FORMS[name])


def format_type(form: str, of: type) -> FormatType:
    """The type of a datetime or date as text. Raises ValueError for a format that cannot be read back."""
    used = [match[1] for match in _DIRECTIVE().finditer(form)]
    known = (*_WIDTHS, *_ZONES, "%") if of is datetime else ("Y", "m", "d", "%")
    if unknown := [name for name in used if name not in known]:
        raise ValueError(f"format={brief(form)} has %{unknown[0]}, and odm reads {DIRECTIVES}")
    if lacking := [name for name in ("Y", "m", "d") if name not in used]:
        names = f": write one of {', '.join(map(repr, ISO_FORMS))}, or add it" if of is datetime and not used else ""
        raise ValueError(f"format={brief(form)} lacks %{lacking[0]}, without which no day can be read back{names}")
    if len(set(used) - {"%"}) != len([name for name in used if name != "%"]) or {"3f", "f"} <= set(used):
        raise ValueError(f"format={brief(form)} has a part twice")
    return FormatType(f"{of.__name__} as {brief(form)}", TEXT, form, of)


def _directives(form: str) -> list[tuple[str]]:
    return [(match[1],) for match in _DIRECTIVE().finditer(form) if match[1] in _WIDTHS]


def _pattern(form: str) -> re.Pattern[str]:
    pieces, at = "", 0
    for match in _DIRECTIVE().finditer(form):
        name = match[1]
        width = _WIDTHS.get(name)
        digits = f"(?P<{'ms' if name == '3f' else name}>[0-9]{{{width}}})" if width else ""
        pieces += re.escape(form[at : match.start()]) + (digits or re.escape(_ZONES.get(name, name)))
        at = match.end()
    return re.compile(pieces + re.escape(form[at:]), re.DOTALL)


def _written(name: str, value: Any) -> str:
    match name:
        case "Y":
            return f"{value.year:04}"
        case "m":
            return f"{value.month:02}"
        case "d":
            return f"{value.day:02}"
        case "H":
            return f"{value.hour:02}"
        case "M":
            return f"{value.minute:02}"
        case "S":
            return f"{value.second:02}"
        case "3f":
            return f"{value.microsecond // 1000:03}"
        case "f":
            return f"{value.microsecond:06}"
    return _ZONES.get(name, name)
