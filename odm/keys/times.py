"""Key types of datetimes and dates.

Every format writes whole units (a day, a second, ...) of UTC. A format whose unit is longer than the resolution of
the type, a microsecond or a day, is lossy. Arithmetic is on ticks: ints counted from the year 1 in that resolution.
"""

import re
from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from operator import itemgetter
from typing import Any, ClassVar

from odm.errors import brief
from odm.immutable import field
from odm.keys.base import ABOVE, BELOW, NINES, KeyType, Place, Refused, wrong_type
from odm.keys.shapes import Shape, like

_MICROSECOND = timedelta(microseconds=1)
_DAY = timedelta(days=1)
_NO_TIME = timedelta(0)
_TWO = [f"{number:02}" for number in range(60)]
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)

Unit = int | timedelta
"""What a format counts in: a number of months, or a fixed time."""


class TimeKey(KeyType):
    """What the formats of datetimes and dates share.

    Attributes:
        kind: `datetime` (aware ones, brought to UTC) or `date`.
        unit: what the format counts in.
    """

    complement: ClassVar[Mapping[int, int] | None] = NINES
    kind: type[date]
    unit: Unit

    @abstractmethod
    def write(self, moment: Any) -> str:
        """The text of a datetime in UTC or of a date."""

    def encode(self, value: Any) -> str:
        try:
            return self.write(self._utc(value))
        except OverflowError:
            raise Refused("in UTC it is outside the years 1 to 9999; give a time inside") from None

    def place(self, value: Any) -> Place:
        tick, (lowest, highest) = self._ticks(value), self._domain()
        if tick < lowest:
            return BELOW
        if tick > highest:
            return ABOVE
        number = self._number(tick)
        first, last = self._ticks(self.start(number)), self._last_tick(number)
        return Place(self.write(self._moment(tick)), int(tick > first), -int(tick < last))

    def shapes(self) -> tuple[Shape, ...]:
        return (like(self.write(self._moment(self._domain()[0]))),)

    @property
    def lossy(self) -> bool:
        return self.unit != self._tick

    def units(self, bounds: Sequence[tuple[str, Any]]) -> range:
        """The numbers of all units that hold a value within the bounds, for `start`."""
        low, high = self._domain()
        for op, value in bounds:
            tick = self._ticks(value)
            if op in {">", ">="}:
                low = max(low, tick + (op == ">"))
            else:
                high = min(high, tick - (op == "<"))
        return range(self._number(low), self._number(high) + 1) if low <= high else range(0)

    def start(self, number: int) -> Any:
        """The first instant of the unit with that number."""
        if isinstance(self.unit, timedelta):
            return self._origin + number * self.unit
        year, month = divmod(number * self.unit, 12)
        return self._origin.replace(year=year, month=month + 1)

    def _number(self, tick: int) -> int:
        if isinstance(self.unit, timedelta):
            return tick // (self.unit // self._tick)
        moment = self._moment(tick)
        return int(moment.year * 12 + moment.month - 1) // self.unit

    def _last_tick(self, number: int) -> int:
        try:
            return self._ticks(self.start(number + 1)) - 1
        except (OverflowError, ValueError):  # the year 10000
            return self._domain()[1]

    def _domain(self) -> tuple[int, int]:
        return 0, self._ticks(self.kind.max if self.kind is date else datetime.max.replace(tzinfo=UTC))

    def _ticks(self, value: Any) -> int:
        return int((self._checked(value) - self._origin) // self._tick)

    def _moment(self, tick: int) -> Any:
        return self._origin + tick * self._tick

    @property
    def _tick(self) -> timedelta:
        return _DAY if self.kind is date else _MICROSECOND

    @property
    def _origin(self) -> Any:
        return date.min if self.kind is date else datetime.min.replace(tzinfo=UTC)

    def _utc(self, value: Any) -> Any:
        # Datetimes come in UTC most of the time, and from pydantic with a tzinfo of its own; this is the hot path.
        if type(value) is datetime and self.kind is datetime and (value.tzinfo is UTC or value.utcoffset() == _NO_TIME):
            return value
        self._checked(value)
        return value.astimezone(UTC) if self.kind is datetime and value.utcoffset() else value

    def _checked(self, value: Any) -> Any:
        if self.kind is date:
            if not isinstance(value, date) or isinstance(value, datetime):
                raise wrong_type(value, "a date (of a datetime: its .date())")
        elif not isinstance(value, datetime):
            raise wrong_type(value, "an aware datetime")
        elif value.utcoffset() is None:
            raise Refused("it has no time zone; give an aware datetime, e.g. value.replace(tzinfo=UTC)")
        return value


class IsoKey(TimeKey):
    """The default: `2023-09-10T15:21:48.000000Z`, `2023-09-10`."""

    def write(self, moment: Any) -> str:
        if self.kind is date:
            return str(moment.isoformat())
        m, two = moment, _TWO  # isoformat takes longer, because it asks for the offset
        day = f"{m.year:04}-{two[m.month]}-{two[m.day]}"
        return f"{day}T{two[m.hour]}:{two[m.minute]}:{two[m.second]}.{m.microsecond:06}Z"

    @property
    def encoding(self) -> str:
        return self.kind.__name__


_EPOCH_UNITS = {
    "s": (timedelta(seconds=1), 10),
    "ms": (timedelta(milliseconds=1), 13),
    "us": (_MICROSECOND, 16),
}


class EpochKey(TimeKey):
    """Seconds, milliseconds or microseconds since 1970, in 10, 13 or 16 digits: until 2286."""

    digits: int

    def write(self, moment: Any) -> str:
        count = (moment - _EPOCH) // _MICROSECOND // 10 ** (16 - self.digits)
        if not 0 <= count < 10**self.digits:
            raise Refused("it is outside 1970 to 2286, what this format can hold; use the default format")
        return f"{count:0{self.digits}d}"

    @property
    def encoding(self) -> str:
        return f"{self.kind.__name__} in {self.digits} digits since 1970"

    def _domain(self) -> tuple[int, int]:
        return self._ticks(_EPOCH), self._ticks(_EPOCH) + 10**16 - 1


_DIRECTIVES: dict[str, tuple[slice, Unit]] = {
    "%Y": (slice(0, 4), 12),
    "%m": (slice(5, 7), 1),
    "%d": (slice(8, 10), _DAY),
    "%H": (slice(11, 13), timedelta(hours=1)),
    "%M": (slice(14, 16), timedelta(minutes=1)),
    "%S": (slice(17, 19), timedelta(seconds=1)),
    "%3f": (slice(20, 23), timedelta(milliseconds=1)),
    "%f": (slice(20, 26), _MICROSECOND),
}
"""Directive: where it stands in the ISO form, and its unit; in the order that a form must keep."""


class CalendarKey(TimeKey):
    """An ordered strftime form: from the year on downwards, nothing left out, other characters as they are."""

    form: str
    _pattern: str = field(repr=False)
    _pick: Callable[[str], Any] = field(eq=False, repr=False)

    def write(self, moment: Any) -> str:
        # strftime itself does not pad years below 1000 on every platform.
        text = moment.isoformat() if self.kind is date else moment.isoformat(timespec="microseconds")
        return str(self._pattern % self._pick(text))

    @property
    def encoding(self) -> str:
        return f"{self.kind.__name__} as {self.form}"


def time_key(kind: type[date], form: str) -> TimeKey:
    """The key type of `date` or `datetime` in a format: "", "s", "ms", "us" or a strftime form."""
    if not form:
        return IsoKey(kind, _DAY if kind is date else _MICROSECOND)
    if form in _EPOCH_UNITS and kind is not date:
        return EpochKey(kind, *_EPOCH_UNITS[form])
    if not form.startswith("%"):
        forms = "a form like %Y%m%d" if kind is date else "s, ms, us or a form like %Y%m%d"
        raise Refused(f"{brief(form)} is not a format of a {kind.__name__}; use none, or {forms}")
    return _calendar_key(kind, form)


def _calendar_key(kind: type[date], form: str) -> CalendarKey:
    directives = re.findall(r"%3f|%.?", form)
    order = [d for d in _DIRECTIVES if d != ("%f" if "%3f" in directives else "%3f")]
    allowed = order[:3] if kind is date else order
    if not directives or directives != allowed[: len(directives)]:
        raise Refused(
            f"{brief(form)} does not sort; a form starts with %Y and goes on in the order {' '.join(allowed)}"
            ", with none left out and no other"
        )
    if "#" in form:
        raise Refused(f"{brief(form)} holds '#', which ends a component; use two placeholders")
    slices, units = zip(*(_DIRECTIVES[d] for d in directives), strict=True)
    return CalendarKey(kind, units[-1], form, re.sub(r"%3f|%.", "%s", form), itemgetter(*slices))
