"""The steps of the calls of a `odm.patterns.series_store.SeriesStore`, which sync and async share.

There is a store for each period. Each call yields calls of these stores (`odm.patterns.two_stores`).
"""

import time
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, date, datetime
from functools import partial
from threading import Lock
from typing import TYPE_CHECKING, Any, Generic, TypeAlias, TypeVar

from odm import (
    AsyncStore,
    Backend,
    BackendError,
    BadValue,
    Condition,
    Entity,
    ItemNotFound,
    Query,
    Store,
    TableNotFound,
)
from odm.extend import compiled
from odm.patterns.bulk_load import WINDOW, bulk_load
from odm.patterns.series_range import Range
from odm.patterns.two_stores import Ask, Steps

if TYPE_CHECKING:
    from odm.patterns.time_series import TimeSeries

E = TypeVar("E", bound=Entity)
S = TypeVar("S", Store, AsyncStore)

When: TypeAlias = Condition | bool | None


class SeriesSteps(Generic[E, S]):
    """The stores of the periods, and the steps of each call."""

    def __init__(self, series: "TimeSeries[E]", kind: type[S], backend: Backend, options: Mapping[str, Any]) -> None:
        self.series: TimeSeries[E] = series
        self.backend: Backend = backend
        self._make: Callable[..., S] = partial(kind, series.table, backend, **options)
        self.base: S = self._make()  # has no table: it lists them, and seals cursors
        self._clock: Callable[[], float] = options.get("clock") or backend.clock
        self._stores: dict[date, S] = {}
        self._lock = Lock()
        self._closed = False
        self._listed: tuple[float, frozenset[date]] | None = None

    def __repr__(self) -> str:
        return f"{self.series!r} on {self.backend!r}"

    def store_of(self, at: date) -> S:
        """The store of the period of a time, for transactions and all other calls within it.

        Raises:
            BadValue: the time is not a date or an aware datetime.
            BackendError: the series was closed.
        """
        period = self.series.period_of(at)
        with self._lock:
            if self._closed:
                raise BackendError(f"the store of the series {self.series.name} was closed: open another one")
            if period not in self._stores:
                self._stores[period] = self._make(name=self.series.name_of(period))
            return self._stores[period]

    def _to_close(self) -> list[S]:
        """The stores that have been used; from now on, no other is opened."""
        with self._lock:
            self._closed = True
        return self.opened()

    def opened(self) -> list[S]:
        """The stores that have been used."""
        stores = [self.base]
        with self._lock:
            stores.extend(self._stores.values())
        return stores

    def today(self, now: date | None = None) -> date:
        """The present period, by the clock of the store."""
        return self.series.period_of(datetime.fromtimestamp(self._clock(), UTC) if now is None else now)

    def oldest(self, today: date) -> date | None:
        """The oldest period to keep; None: all are kept."""
        keep = self.series.keep
        return None if keep is None else self.series.shifted(today, 1 - keep)

    def listed(self, *, fresh: bool = False) -> Steps[frozenset[date]]:
        """The periods that have a table: of a list that is not older than ``refresh``, or of a fresh one."""
        if self._listed is None or fresh or time.monotonic() >= self._listed[0] + self.series.refresh:
            asked = time.monotonic()  # before the request: its answer may lack a table that is made meanwhile
            beginning = self.base.prefix + self.series.name.partition("{")[0]
            names = yield Ask(partial(self.base.list_tables, beginning))
            periods = (self.series.period_in(name[len(self.base.prefix) :]) for name in names)
            self._listed = asked, frozenset(period for period in periods if period is not None)
        return self._listed[1]

    def forget(self) -> None:
        """Forget the list of tables."""
        self._listed = None

    def passed(self, period: date, error: TableNotFound) -> Steps[None]:
        """Pass over a table that does not exist, after an error of a read.

        Raises:
            TableNotFound: the table exists and lacks something else, or there is no table of the series at all.
        """
        oldest = self.oldest(self.today())
        if oldest is not None and period < oldest:
            return  # it is being dropped
        there = yield from self.listed(fresh=True)
        if period in there:
            raise error
        if not there:
            raise self._missing(period, "; the series has no table at all") from error

    def _missing(self, period: date, more: str = "") -> TableNotFound:
        name, today = self.base.prefix + self.series.name_of(period), self.today()
        rotated = today <= period <= self.series.shifted(today, self.series.ahead)
        alone = f"store_of(date({period.year}, {period.month}, {period.day})).create()"
        how = "rotate(), or odm rotate" if rotated else alone
        return TableNotFound(f"{self.series!r}: table {name!r} does not exist: make it with {how}{more}")

    def _ask(self, period: date, name: str, *args: Any, **options: Any) -> Ask:
        return Ask(partial(getattr(self.store_of(period), name), *args, **options))

    def read(self, period: date, otherwise: Any, name: str, *args: Any, **options: Any) -> Steps[Any]:
        """The answer of a call on the table of a period, or another one if the table does not exist."""
        try:
            return (yield self._ask(period, name, *args, **options))
        except TableNotFound as error:
            yield from self.passed(period, error)
            return otherwise

    def write(self, which: object, name: str, *args: Any, **options: Any) -> Steps[Any]:
        """The answer of a write to the table of an item or key.

        Raises:
            BadValue: the period is older than those to keep.
            TableNotFound: the period has no table.
        """
        if name in ("put", "insert"):
            which, *_ = args = (self._timed(which), *args[1:])
        return (yield from self._write(self._period_of(which, {}), name, *args, **options))

    def _timed(self, item: Any) -> Any:
        """The item; if the store assigns the time that names its table (CreatedAt), with that time."""
        untimed = isinstance(item, self.series.entity) and getattr(item, self.series.by) is None
        return self.base.assigned(item) if untimed else item

    def _write(self, period: date, name: str, *args: Any, **options: Any) -> Steps[Any]:
        oldest = self.oldest(self.today())
        if oldest is not None and period < oldest:
            raise BadValue(
                f"{self.series!r} keeps {self.series.keep} periods, now from {oldest} on: "
                f"an item of {period} would be in a table that is dropped"
            )
        try:
            answer = yield self._ask(period, name, *args, **options)
        except TableNotFound as error:
            if period in (yield from self.listed(fresh=True)):
                raise  # it lacks something else
            raise self._missing(period) from error
        if self._listed is not None and period not in self._listed[1]:
            self.forget()  # the table is new, and reads would not ask it
        return answer

    def put_steps(self, items: Iterable[E]) -> Steps[int]:
        """Put items, those of a period together."""
        waiting: dict[date, list[E]] = {}
        total = 0
        for total, entity in enumerate(items, 1):
            item = self._timed(entity)
            waiting.setdefault(self._period_of(item, {}), []).append(item)
            if total % WINDOW == 0:
                yield from self._load(waiting)
        yield from self._load(waiting)
        return total

    def _load(self, waiting: dict[date, list[E]]) -> Steps[None]:
        for period in sorted(waiting):
            yield from self._write(period, "run", bulk_load(waiting.pop(period)))

    def _period_of(self, which: object, key: Mapping[str, Any]) -> date:
        """The period of an entity, of a key, or of a class with its key fields."""
        series, entity = self.series, self.series.entity
        if isinstance(which, entity):
            return series.period_of(getattr(which, series.by))
        values = which.values if isinstance(which, Query) else key
        if which is not entity and not (isinstance(which, Query) and which.entity is entity):
            raise BadValue(f"{which!r} is not of {series!r}: give one of its items, or the key of one")
        if series.by not in values:
            raise BadValue(f"{which!r} has no {series.by}: give the whole key, whose {series.by} names the table")
        return series.period_of(compiled(entity).validate(series.by, values[series.by]))

    def tables(self, range_: Range) -> Steps[list[tuple[date, Query[Any]]]]:
        """The tables to read in order, each with its query."""
        if range_.single:
            periods = [range_.low] if range_.low == range_.high and range_.low else []
        else:
            there = (yield from self.listed()) or (yield from self.listed(fresh=True))
            if not there:
                raise TableNotFound(f"no table of {self.series!r} exists: make them with rotate(), or odm rotate")
            periods = sorted(filter(range_.holds, there), reverse=range_.descending)
        return [(period, range_.within(period)) for period in periods]

    def count_steps(self, range_: Range, consistent: bool) -> Steps[int]:
        """The number of results, up to the limit."""
        total, most = 0, range_.query.most
        for period, query in (yield from self.tables(range_)):
            limited = query if most is None else query.limit(most - total)
            total += yield from self.read(period, 0, "count", limited, consistent=consistent)
            if total == most:
                break
        return total

    def first_steps(self, range_: Range, consistent: bool) -> Steps[E | None]:
        """The first result, or None."""
        for period, query in (yield from self.tables(range_)):
            item: E | None = yield from self.read(period, None, "first", query, consistent=consistent)
            if item is not None:
                return item
        return None

    def delete_steps(self, which: Any, when: When, key: Mapping[str, Any]) -> Steps[bool]:
        """Remove an item; returns whether it existed."""
        arguments = key if when is None else {**key, "when": when}
        period = self._period_of(which, key)
        existed: bool = yield from self.read(period, False, "delete", which, **arguments)
        return existed

    def get_steps(self, which: Any, consistent: bool, key: Mapping[str, Any]) -> Steps[E | None]:
        """The item under a key, or None."""
        period = self._period_of(which, key)
        item: E | None = yield from self.read(period, None, "get", which, consistent=consistent, **key)
        return item

    def one_steps(self, which: Any, consistent: bool, key: Mapping[str, Any]) -> Steps[E]:
        """The item under a key; raises ItemNotFound if it does not exist."""
        period = self._period_of(which, key)
        item: E | None = yield from self.read(period, None, "one", which, consistent=consistent, **key)
        if item is None:
            raise ItemNotFound(f"{self.series!r}: there is no such item, as {period} has no table")
        return item
