"""Stored forms of times that a field asks for: ``Stored(epoch="s")``, ``Stored(format="%Y-%m-%d")``."""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any, Final, Literal, cast

from attrs import field, frozen

from odm.codec.faults import Unfit
from odm.codec.moments import DATETIME, in_utc
from odm.codec.numbers import canonical
from odm.codec.stored import NUMBER, TEXT, StoredType, unfit
from odm.codec.unreadable import Unreadable
from odm.errors import brief
from odm.expressions.nodes import Value

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = {"s": timedelta(seconds=1), "ms": timedelta(milliseconds=1)}
_WIDTHS: Final = {"Y": 4, "m": 2, "d": 2, "H": 2, "M": 2, "S": 2, "3f": 3, "f": 6}
_CLOCK: Final = {"H": "hour", "M": "minute", "S": "second", "f": "microsecond"}
_ZONES: Final = {"z": "+0000", ":z": "+00:00"}
_ORDER: Final = ("Y", "m", "d", "H", "M", "S", "f")
_DIRECTIVE: Final = re.compile(r"%(:z|3f|.)", re.DOTALL)
DIRECTIVES: Final = "%Y %m %d %H %M %S %3f %f %z %:z %%"


@frozen
class EpochType(StoredType):
    """A datetime as a whole number of seconds or milliseconds since 1970.

    Attributes:
        unit: "s" or "ms".
    """

    unit: Literal["s", "ms"]

    def dump(self, value: Any) -> Value:
        if not isinstance(value, datetime):
            raise unfit("datetime", value)
        number, rest = divmod(in_utc(value) - _EPOCH, _UNITS[self.unit])
        if rest:
            raise Unfit(f"has a fraction, which epoch={self.unit!r} does not store: round it", value)
        return number

    def load(self, value: Value) -> Any:
        if type(value) is not int:
            return value if isinstance(value, datetime) else Unreadable(value)
        try:
            return _EPOCH + value * _UNITS[self.unit]
        except OverflowError:
            return Unreadable(value)

    def loose(self, value: Any) -> Value:
        if not isinstance(value, datetime):
            return self.dump(value)
        micros = (in_utc(value) - _EPOCH) // timedelta(microseconds=1)
        return canonical(Decimal(micros) / (_UNITS[self.unit] // timedelta(microseconds=1)))

    def lax(self) -> bool:
        return False


@frozen
class FormatType(StoredType):
    """A datetime or date as text of a format, in UTC.

    Attributes:
        form: the format.
        of: datetime or date.
    """

    form: str
    of: type
    _pattern: re.Pattern[str] = field(init=False, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        object.__setattr__(self, "_pattern", _pattern(self.form))

    @property
    def ordered(self) -> bool:
        """Whether the texts sort as the times do: the largest unit first, and none left out in between."""
        units = tuple(found[0].removeprefix("3") for found in _directives(self.form))
        return units == _ORDER[: len(units)]

    def dump(self, value: Any) -> Value:
        if not isinstance(value, self.of) or (self.of is date and isinstance(value, datetime)):
            raise unfit(self.of.__name__, value)
        if isinstance(value, datetime):
            value = in_utc(value)
        text = _DIRECTIVE.sub(lambda found: _written(found[1], value), self.form)
        if self.load(text) != value:
            raise Unfit(f"has parts that the format {self.form!r} does not store: round it", value)
        return text

    def load(self, value: Value) -> Any:
        found = self._pattern.fullmatch(value) if isinstance(value, str) else None
        if found is None:
            return value if isinstance(value, date) else Unreadable(value)
        parts = {name: int(text) for name, text in found.groupdict().items()}
        day = parts.get("Y", 1), parts.get("m", 1), parts.get("d", 1)
        micros = parts.get("f", 1000 * parts.get("ms", 0))
        clock = parts.get("H", 0), parts.get("M", 0), parts.get("S", 0), micros
        try:
            return date(*day) if self.of is date else datetime(*day, *clock, tzinfo=UTC)
        except ValueError:
            return Unreadable(value)

    def lax(self) -> bool:
        return False


def is_datetime(type_: StoredType) -> bool:
    """Whether the values of a type are datetimes."""
    return type_ == DATETIME or isinstance(type_, EpochType) or (isinstance(type_, FormatType) and type_.of is datetime)


def storable(type_: StoredType) -> Callable[[datetime], datetime]:
    """The function that cuts a time in UTC to what a type of `is_datetime` stores."""
    if isinstance(type_, EpochType):
        unit = _UNITS[type_.unit]
        return lambda moment: moment - (moment - _EPOCH) % unit
    if not isinstance(type_, FormatType):
        return lambda moment: moment
    stored = {name for (name,) in _directives(type_.form)}
    absent: dict[str, Any] = {word: 0 for name, word in _CLOCK.items() if name not in stored}
    if "3f" in stored:
        del absent["microsecond"]
    millis = 1000 if "3f" in stored else 1
    return lambda moment: moment.replace(microsecond=moment.microsecond // millis * millis).replace(**absent)


def epoch_type(unit: str) -> EpochType:
    """The type of a datetime as a number. Raises ValueError for an unknown unit."""
    if unit not in _UNITS:
        raise ValueError(f"epoch={brief(unit)} is neither 's' nor 'ms'")
    return EpochType(f"datetime in {unit} since 1970", NUMBER, cast('Literal["s", "ms"]', unit))


def format_type(form: str, of: type) -> FormatType:
    """The type of a datetime or date as text. Raises ValueError for a format that cannot be read back."""
    used = [found[1] for found in _DIRECTIVE.finditer(form)]
    known = (*_WIDTHS, *_ZONES, "%") if of is datetime else ("Y", "m", "d", "%")
    if unknown := [name for name in used if name not in known]:
        raise ValueError(f"format={brief(form)} has %{unknown[0]}, and odm reads {DIRECTIVES}")
    if lacking := [name for name in ("Y", "m", "d") if name not in used]:
        raise ValueError(f"format={brief(form)} lacks %{lacking[0]}, without which no day can be read back")
    if len(set(used) - {"%"}) != len([name for name in used if name != "%"]) or {"3f", "f"} <= set(used):
        raise ValueError(f"format={brief(form)} has a part twice")
    return FormatType(f"{of.__name__} as {brief(form)}", TEXT, form, of)


def _directives(form: str) -> list[tuple[str]]:
    return [(found[1],) for found in _DIRECTIVE.finditer(form) if found[1] in _WIDTHS]


def _pattern(form: str) -> re.Pattern[str]:
    pieces, at = "", 0
    for found in _DIRECTIVE.finditer(form):
        name = found[1]
        width = _WIDTHS.get(name)
        digits = f"(?P<{'ms' if name == '3f' else name}>[0-9]{{{width}}})" if width else ""
        pieces += re.escape(form[at : found.start()]) + (digits or re.escape(_ZONES.get(name, name)))
        at = found.end()
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
