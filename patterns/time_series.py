"""Time series: a table for each month or day of data. Old data goes by dropping a table, which costs no writes.

| table | partition | sort |
|---|---|---|
| ``readings-2026-10`` | ``SENSOR#s1`` | ``2026-10-31T23:00:00.000000Z`` |
| ``readings-2026-11`` | ``SENSOR#s1`` | ``2026-11-01T00:00:00.000000Z`` |
| ``readings-2026-12``, made ahead | | |

An item is in the table of its time. A query over a range of time reads the tables in order, as one::

    readings = Table("readings")


    class Reading(Entity, table=readings):
        sensor: str
        at: datetime
        value: float

        primary = PrimaryKey("SENSOR#{sensor}", "{at}")


    series = TimeSeries(Reading, by="at", period="month", keep=12, ahead=2)
    db = series.open(backend)
    db.rotate()  # makes the tables of this month and of the next two
    db.put(Reading(sensor="s1", at=now, value=20.5))
    db.page(Reading.primary(sensor="s1").where(Reading.at >= last_year).reverse(), size=100)

``rotate``, or ``odm rotate`` in a shell, runs once a period or more often, such as every night. It makes the next
tables, gives those of past periods the settings ``old``, and with ``drop=True`` deletes those beyond ``keep``.

**When.** Most writes are of the present; old data is read rarely, and then deleted as a whole. A `odm.TTL` deletes
single items and needs no rotation. One table is simpler, and transactions and companions span all of it.

**Guarantees.** A query, page, count or first returns what it would return of one table with the same items. ``rotate``
can be interrupted anywhere, repeated, and run by two programs at once. It only touches tables whose name is exactly
that of a period. A write to a period without a table raises `odm.TableNotFound`, one to a period beyond ``keep``
`odm.BadValue`. A table that another program makes or drops is known after ``refresh`` seconds (60), except where a key
or a range is of one period, which needs no list of tables.

**Cost** in requests to a store, with a known list of tables:

| call | requests |
|---|---|
| put, insert, get, update, delete | 1, to the table of the item |
| query | at least 1 for each table in the range |
| page | 1; if a table ends on it, 1 more for each table that it reaches |
| count | at least 1 for each table in the range |
| list of tables, each 60 s | on DynamoDB 1 for each 100 tables of the account; else 1 |
| rotate | 1, and 1 for each table from the present on, and for each change |

**Backends.** All. ``new`` and ``old`` have an effect on DynamoDB only: ``old=TableOptions(billing=Provisioned(1, 1),
table_class="standard_infrequent_access")``. A DynamoDB account has 2,500 tables by default, a Bigtable instance 1,000.

**Limits.** Periods are of UTC. The time is a field of the primary key, which never changes. A query over several
periods must be sorted by the time, after the fields that are given. Transactions are within a period, by
``store_of(at)``. Each table has connections of its own. Entities with companions (`odm.extend.Companion`) are refused.

**Known as** time series, a table a period: AWS,
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-time-series.html; Google, tables such as
``SENSOR_YYYYMMDD``.
"""

import re
from datetime import UTC, date, datetime
from string import Formatter
from typing import Any, Final, Generic, Literal, TypeAlias, TypeVar

from odm import AsyncStore, Backend, BadValue, Entity, KeyValueError, SchemaError, Store, Table
from odm.extend import Companion, PatternView, compiled
from odm.patterns.series_rotation import Rotation, Step
from odm.patterns.series_store import AsyncSeriesStore, SeriesStore

__all__ = ["AsyncSeriesStore", "Period", "Rotation", "SeriesStore", "Step", "TimeSeries"]

E = TypeVar("E", bound=Entity)

Period: TypeAlias = Literal["day", "month"]

_PARTS: Final[dict[Period, dict[str, str]]] = {
    "month": {"%Y": r"(?P<year>\d{4})", "%m": r"(?P<month>\d{2})"},
    "day": {"%Y": r"(?P<year>\d{4})", "%m": r"(?P<month>\d{2})", "%d": r"(?P<day>\d{2})"},
}


class TimeSeries(Generic[E]):
    """The tables of an entity, one for each period; see the module.

    Args:
        entity: the class.
        by: its field with the time, a datetime or date of the primary key.
        period: "month" or "day", of UTC.
        keep: how many periods to keep, up to the present one; None: all.
        ahead: for how many periods to make tables in advance, 1 or more.
        name: the names of the tables: text around ``{period:...}``, whose format has each of %Y, %m and (of a day) %d
            once. Default: ``readings-{period:%Y-%m}`` or ``readings-{period:%Y-%m-%d}``, after the `odm.Table`.
        new: the settings of tables of the present and of later periods, such as `odm.backends.dynamodb.TableOptions`;
            None: those of the backend.
        old: the settings of tables of past periods; None: they keep theirs.
        refresh: for how many seconds a store uses its list of tables; 0: it lists them for each query.

    Raises:
        SchemaError: an argument does not fit the entity.
    """

    def __init__(  # noqa: PLR0913  # the declaration
        self,
        entity: type[E],
        *,
        by: str,
        period: Period,
        keep: int | None = None,
        ahead: int = 2,
        name: str | None = None,
        new: object = None,
        old: object = None,
        refresh: float = 60.0,
    ) -> None:
        self.entity, self.by, self.keep, self.ahead = entity, by, keep, ahead
        self.period: Period = period
        self.new, self.old, self.refresh = new, old, refresh
        table = getattr(entity, "__odm_table__", None)
        if not isinstance(table, Table):
            raise SchemaError(f"TimeSeries({entity!r}): give an entity, class Reading(Entity, table=readings)")
        self.table = table
        if period not in _PARTS:
            raise self.fault(f"period={period!r}: write 'month' or 'day'")
        for option, number in (("keep", 1 if keep is None else keep), ("ahead", ahead)):
            if type(number) is not int or number < 1:
                raise self.fault(f"{option}={number!r}: give a number of periods, an int of 1 or more")
        self.name = name or f"{table.name}-{{period:{'-'.join(_PARTS[period])}}}"
        self._pattern = self._compiled_name()
        self._checked = False

    def __repr__(self) -> str:
        return f"TimeSeries({self.entity.__name__}, by={self.by!r}, period={self.period!r}, name={self.name!r})"

    def fault(self, text: str) -> SchemaError:
        """An error that names the series."""
        return SchemaError(f"TimeSeries({self.entity.__name__}, by={self.by!r}): {text}")

    def _compiled_name(self) -> re.Pattern[str]:
        """The form of the names."""
        parts = _PARTS[self.period]
        wants = f"write text around {{period:...}} with {', '.join(parts)}, as in 'SENSOR_{{period:{''.join(parts)}}}'"
        try:
            name_parts = [(text, field, form) for text, field, form, _ in Formatter().parse(self.name)]
        except ValueError as error:
            raise self.fault(f"name={self.name!r}: {wants}") from error
        forms = [form or "" for _, field, form in name_parts if field == "period"]
        self._form, fields = "".join(forms), [field for _, field, _ in name_parts if field is not None]
        if fields != ["period"] or sorted(re.findall("%.?", self._form)) != sorted(parts):
            raise self.fault(f"name={self.name!r}: {wants}")
        form = re.sub("%.", lambda part: parts[part[0]], re.escape(self._form).replace(r"\%", "%"))
        text = "".join(re.escape(text) + (form if field else "") for text, field, _ in name_parts)
        self._texts = [(text, field) for text, field, _ in name_parts]
        Table(self.name_of(date(2026, 1, 1)))  # raises for a name that no table can have
        return re.compile(text)

    def name_of(self, at: date) -> str:
        """The name of the table of a time, without the prefix of a store.

        Raises:
            BadValue: the time is not a date or an aware datetime.
        """
        day = self.period_of(at)
        form = self._form.replace("%Y", f"{day.year:04}").replace("%m", f"{day.month:02}")
        form = form.replace("%d", f"{day.day:02}")
        return "".join(text + (form if field else "") for text, field in self._texts)

    def period_in(self, name: str) -> date | None:
        """The period whose table has this name, as its first day; None for any other name."""
        match = self._pattern.fullmatch(name)
        if match is None:
            return None
        try:
            return date(**{"day": 1} | {part: int(number) for part, number in match.groupdict().items()})
        except ValueError:  # such as month 13
            return None

    def period_of(self, at: object) -> date:
        """The period of a time, as its first day.

        Raises:
            BadValue: the time is not a date or an aware datetime.
        """
        if not isinstance(at, date) or (isinstance(at, datetime) and at.utcoffset() is None):
            raise BadValue(f"{self.entity.__name__}.{self.by}: {at!r} is not a date, or a datetime with a time zone")
        try:
            day = at.astimezone(UTC).date() if isinstance(at, datetime) else at
        except OverflowError as error:
            raise BadValue(
                f"{self.entity.__name__}.{self.by}: {at} is in UTC outside the years 1 to 9999; give a time inside"
            ) from error
        return day.replace(day=1) if self.period == "month" else day

    def shifted(self, period: date, number: int) -> date:
        """The period so many periods later, or earlier with a negative number; at most the last or first one."""
        if self.period == "day":
            day = period.toordinal() + number
            return date.fromordinal(min(max(day, date.min.toordinal()), date.max.toordinal()))
        months = period.year * 12 + period.month - 1 + number
        months = min(max(months, date.min.year * 12), date.max.year * 12 + 11)
        return date(months // 12, months % 12 + 1, 1)

    def begin(self, period: date) -> date:
        """The first value of the field in a period."""
        return datetime(period.year, period.month, period.day, tzinfo=UTC) if self._exact else period

    @property
    def _exact(self) -> bool:
        """Whether the field is a datetime."""
        return isinstance(compiled(self.entity).validate(self.by, datetime(2024, 2, 1, tzinfo=UTC)), datetime)

    def splits(self, pattern: PatternView) -> bool:
        """Whether the keys of two periods differ in a pattern: not if it only has the year of the field."""
        begin = self.begin(date(2024, 2, 1))
        end = begin - begin.resolution
        return pattern.key_text(self.by, begin) != pattern.key_text(self.by, end)

    def check(self) -> None:
        """Check the declaration against the compiled entity, once.

        Raises:
            SchemaError: it does not fit.
        """
        if self._checked:
            return
        view, name = compiled(self.entity), self.entity.__name__
        if self.by not in view.primary.fields:
            raise self.fault(
                f"{self.by!r} is not in the primary key, but a key names the table of its item: put {{{self.by}}} into "
                f"its templates; it has {', '.join(view.primary.fields)}"
            )
        try:
            splits = isinstance(view.validate(self.by, datetime(2024, 2, 1, tzinfo=UTC)), date)
            splits = splits and self.splits(view.primary)
        except (BadValue, KeyValueError):
            splits = False
        if not splits:
            raise self.fault(
                f"the primary key needs the {self.period} of a datetime or date: {{{self.by}}}, or a format with it"
            )
        bases = (vars(base).items() for base in self.entity.__mro__)
        if companions := [key for items in bases for key, value in items if isinstance(value, Companion)]:
            raise self.fault(
                f"{name}.{companions[0]} has items of its own, which would be apart in each table: leave it out; "
                "db.first(query.reverse()) finds the newest item"
            )
        self._checked = True

    def open(self, backend: Backend, **options: Any) -> SeriesStore[E]:
        """Open the series on a backend; the options are those of `odm.Store`, without ``name``.

        Raises:
            SchemaError: the declaration does not fit the entity.
        """
        self.check()
        return SeriesStore(self, Store, backend, options)

    def open_async(self, backend: Backend, **options: Any) -> AsyncSeriesStore[E]:
        """Open the series for asyncio; otherwise as `open`."""
        self.check()
        return AsyncSeriesStore(self, AsyncStore, backend, options)
