"""Pages of a `odm.patterns.time_series.TimeSeries`: one cursor over several tables, in both directions."""

from collections.abc import Sequence
from datetime import date
from typing import TYPE_CHECKING, Any, TypeAlias

from attrs import evolve, frozen

from odm import BadCursor, BadValue, Page, Query
from odm.patterns.series_range import Range
from odm.patterns.two_stores import Steps

if TYPE_CHECKING:
    from odm.patterns.series_steps import SeriesSteps

Tables: TypeAlias = Sequence[tuple[date, Query[Any]]]


@frozen
class Place:
    """Where a page begins.

    Attributes:
        most: the limit of the query, or None.
        remaining: the number of results up to the limit from there on; None: no limit.
        period: that of its table; None: the first table.
        inner: the cursor in that table.
        back: the page before is wanted, with its items in the order of the query.
    """

    most: int | None
    remaining: int | None
    period: date | None = None
    inner: str | None = None
    back: bool = False

    @property
    def room(self) -> int | None:
        """The number of results that a page may have; None: no limit."""
        return (
            None
            if self.remaining is None or self.most is None
            else self.most - self.remaining
            if self.back
            else self.remaining
        )

    def passes(self, range_: Range, period: date) -> bool:
        """Whether a table is behind it."""
        if self.period is None:
            return False
        return period < self.period if range_.descending is self.back else period > self.period

    def moved(self, period: date, inner: str, items: int) -> "Place":
        """The place after so many items, in its direction."""
        remaining = None if self.remaining is None else self.remaining + (items if self.back else -items)
        return evolve(self, period=period, inner=inner, remaining=remaining)

    def turned(self, period: date, inner: str) -> "Place":
        """The same place for the other direction, found in a table."""
        return evolve(self, period=period, inner=inner, back=not self.back)


def read_page(
    series: "SeriesSteps[Any, Any]", range_: Range, size: int, after: str | None, consistent: bool
) -> Steps[Page[Any]]:
    """A page of the results, from one or several tables.

    Raises:
        BadValue: the size is not an int of 1 or more.
        BadCursor: ``after`` is not a cursor of this query of this series.
    """
    if type(size) is not int or size < 1:
        raise BadValue(f"page(size={size!r}): give the number of items a page, an int of 1 or more")
    most = range_.query.most
    place = Place(most, most) if after is None else _unsealed(series, range_, after)
    tables = yield from series.tables(range_)
    if place.back:
        tables.reverse()
    passed = sum(place.passes(range_, period) for period, _ in tables)
    items, behind, ahead = yield from _read(series, place, tables[passed:], size, consistent)
    if behind is None and passed:
        period, query = tables[passed - 1]
        start = series.store_of(period).start(query, end=not place.back)
        behind = None if start is None else place.turned(period, start)
    previous, further = (ahead, behind) if place.back else (behind, ahead)
    return Page(items, _sealed(series, further), _sealed(series, previous))


def _read(
    series: "SeriesSteps[Any, Any]", place: Place, tables: Tables, size: int, consistent: bool
) -> Steps[tuple[list[Any], Place | None, Place | None]]:
    """The items of a page, and the places behind it and ahead of it; None: nothing is there."""
    items: list[Any] = []
    behind: Place | None = None
    want = size if place.room is None else min(size, place.room)
    for period, query in tables:
        start = series.store_of(period).start(query, end=place.back)
        if len(items) < want:
            after = place.inner if period == place.period else start
            options = {"size": want - len(items), "after": after, "consistent": consistent}
            in_period: Page[Any] = yield from series.read(period, Page([]), "page", query, **options)
            items = [*in_period.items, *items] if place.back else [*items, *in_period.items]
            before, inner = (
                (in_period.cursor, in_period.previous) if place.back else (in_period.previous, in_period.cursor)
            )
            if before is not None and period == tables[0][0]:
                behind = place.turned(period, before)
        else:  # the page is full: is there another result?
            ordered = query.reverse() if place.back else query
            more = yield from series.read(period, None, "first", ordered, consistent=consistent)
            inner = None if more is None else start
        if len(items) == place.room:
            break
        if inner is not None:
            return items, behind, place.moved(period, inner, len(items))
    return items, behind, None


def _sealed(series: "SeriesSteps[Any, Any]", place: Place | None) -> str | None:
    if place is None or place.period is None or place.room == 0:
        return None
    body = [series.series.name, place.period.isoformat(), place.inner, place.most, place.remaining, place.back]
    cursor: str = series.base.seal(body)
    return cursor


def _unsealed(series: "SeriesSteps[Any, Any]", range_: Range, after: str) -> Place:
    value = series.base.unseal(after)
    wrong = BadCursor(f"the cursor belongs to another query than {range_.query}, or to another series")
    try:
        name, text, inner, most, remaining, back = value
        period = date.fromisoformat(text)
    except (TypeError, ValueError) as error:
        raise wrong from error
    if (name, most) != (series.series.name, range_.query.most) or type(inner) is not str or type(back) is not bool:
        raise wrong
    if remaining is not None if most is None else not (type(remaining) is int and 0 < remaining <= most - back):
        raise wrong
    if series.series.period_of(period) != period or not range_.holds(period):
        raise wrong
    return Place(most, remaining, period, inner, back)
