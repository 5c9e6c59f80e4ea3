"""Stored types of time: datetime, date and time as fixed-width ISO text, timedelta as microseconds."""

from datetime import UTC, date, datetime, time, timedelta
from typing import Any, Final

from odm.codec.faults import Unfit
from odm.codec.scalars import parsed
from odm.codec.stored import NUMBER, TEXT, StoredType, unfit
from odm.expressions.nodes import Value

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
