"""The periods of a `odm.patterns.time_series.TimeSeries` that a query reads, and in which order."""

from datetime import date
from typing import TYPE_CHECKING, Any

from attrs import frozen
from msgspec.structs import replace

from odm import BadValue, Query, Unsupported
from odm.extend import PlanView, planned

if TYPE_CHECKING:
    from odm.patterns.time_series import TimeSeries


@frozen
class Range:
    """What a query reads.

    Attributes:
        series: the series.
        query: the query.
        plan: how each table answers it.
        low, high: the first and the last period; None: no bound.
        descending: the newest period comes first.
    """

    series: "TimeSeries[Any]"
    query: Query[Any]
    plan: PlanView
    low: date | None
    high: date | None
    descending: bool

    @property
    def single(self) -> bool:
        """Whether it is of one period at most."""
        return self.low is not None and self.high is not None and self.low >= self.high

    def holds(self, period: date) -> bool:
        """Whether a period is within the bounds."""
        return (self.low is None or self.low <= period) and (self.high is None or period <= self.high)

    def within(self, period: date) -> Query[Any]:
        """The query of one table, without limit; only with the partitions of its period, if these are by time."""
        query, series = replace(self.query, most=None), self.series
        if series.by not in self.plan.pattern.partition_fields or series.by in query.values:
            return query
        field, following = getattr(series.entity, series.by), series.shifted(period, 1)
        if following == period:  # the last period that a date can have
            return query.where(field >= series.begin(period))
        return query.where(field >= series.begin(period), field < series.begin(following))


def range_of(series: "TimeSeries[Any]", query: Any, *, merged: bool = True) -> Range:
    """The range of a query.

    Raises:
        BadValue: it is not a query of the entity.
        Unsupported: with ``merged``, if the results of one table after the other are not in the order of the query.
    """
    if isinstance(query, Query) and (query.entity is not series.entity or query.scope != "entity"):
        name = series.entity.__name__
        raise BadValue(f"{query} is not a query of {series!r}: call a pattern of {name}, or select({name})")
    plan = planned(query)
    low, high = _bounds(series, plan)
    order = plan.order
    splits = series.by not in plan.pattern.fields or series.splits(plan.pattern)
    by_time = order is None or (order[0] == series.by and splits)
    range_ = Range(series, query, plan, low, high, query.descending if order is None else order[1])
    coarse = series.by in query.values and not splits  # the value stands for a unit of several periods
    if coarse or (merged and not by_time and not range_.single):
        raise Unsupported(
            f"{query}: {plan.pattern.name} does not sort by {series.by} after the given fields, so the results of "
            f"several tables would not be in its order: give a range of {series.by} within one {series.period}, or "
            f"declare a pattern whose sort key begins with {{{series.by}}}"
        )
    return range_


def _bounds(series: "TimeSeries[Any]", plan: PlanView) -> tuple[date | None, date | None]:
    """The first and the last period of a query."""
    low, high = date.min, date.max
    for op, value in plan.bounds(series.by):
        if op in (">", ">="):
            low = max(low, series.period_of(value))
        else:
            high = min(high, series.period_of(_before(value) if op == "<" else value))
    return (None if low == date.min else low), (None if high == date.max else high)


def _before(value: Any) -> Any:
    """The last value before a bound; of the first value that there is, itself."""
    try:
        return value - value.resolution
    except OverflowError:
        return value
