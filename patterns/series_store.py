"""`SeriesStore` and `AsyncSeriesStore`: a `odm.patterns.time_series.TimeSeries` on a backend."""

from collections.abc import AsyncIterator, Callable, Iterable, Iterator
from datetime import date
from typing import Any, Literal, Self, TypeVar

from odm import AsyncStore, Entity, Page, Query, Store, TableNotFound
from odm.patterns.series_pages import read_page
from odm.patterns.series_range import Range, range_of
from odm.patterns.series_rotation import Rotation, Step, ignore, rotate, rotation
from odm.patterns.series_steps import SeriesSteps, When
from odm.patterns.two_stores import arun, run

E = TypeVar("E", bound=Entity)


class SeriesStore(SeriesSteps[E, Store]):
    """A time series on a backend, opened by ``TimeSeries.open``. The calls are those of `odm.Store`."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Release the connections of all periods; every later call raises BackendError. Idempotent."""
        for store in self._to_close():
            store.close()

    def put(self, entity: E, *, when: When = None) -> E:
        """Write an item; replaces any item under its key.

        Raises:
            TableNotFound: its period has no table: `rotate` makes it.
            BadValue: its period is older than those to keep.
        """
        stored: E = run(self.write(entity, "put", entity, when=when))
        return stored

    def insert(self, entity: E) -> E:
        """Write a new item; raises ItemExists if its key is taken, otherwise as `put`."""
        stored: E = run(self.write(entity, "insert", entity))
        return stored

    def put_all(self, items: Iterable[E]) -> int:
        """Put items in few requests, those of a period together; returns their number. Raises as `put`."""
        return run(self.put_steps(items))

    def update(
        self,
        which: E | Query[E],
        /,
        *actions: Any,
        when: When = None,
        returning: Literal["none", "old", "new"] = "none",
        upsert: bool = False,
        validate: Literal["item", "values"] = "item",
    ) -> E | None:
        """Change attributes of an item; otherwise as `odm.Store.update` and `put`."""
        stored: E | None = run(
            self.write(
                which, "update", which, *actions, when=when, returning=returning, upsert=upsert, validate=validate
            )
        )
        return stored

    def delete(self, which: type[E] | E | Query[E], /, *, when: When = None, **key: Any) -> bool:
        """Remove an item; returns whether it existed."""
        return run(self.delete_steps(which, when, key))

    def get(self, which: type[E] | Query[E], /, *, consistent: bool = True, **key: Any) -> E | None:
        """The item under a key, or None, also if its period has no table."""
        return run(self.get_steps(which, consistent, key))

    def one(self, which: type[E] | Query[E], /, *, consistent: bool = True, **key: Any) -> E:
        """The item under a key; raises ItemNotFound if it does not exist."""
        return run(self.one_steps(which, consistent, key))

    def query(self, query: Query[E], *, consistent: bool = True) -> Iterator[E]:
        """The results of a query from all tables in its range, read page by page while you iterate.

        Raises:
            Unsupported: it is of several periods, and not sorted by the time.
            TableNotFound: no table of the series exists.
        """
        return self._each(range_of(self.series, query), consistent)

    def _each(self, range_: Range, consistent: bool) -> Iterator[E]:
        remaining = range_.query.most
        for period, query in run(self.tables(range_)):
            limited = query if remaining is None else query.limit(remaining)
            try:
                for item in self.store_of(period).query(limited, consistent=consistent):
                    yield item
                    remaining = None if remaining is None else remaining - 1
            except TableNotFound as error:
                run(self.passed(period, error))
            if remaining == 0:
                return

    def page(self, query: Query[E], *, size: int = 25, after: str | None = None, consistent: bool = True) -> Page[E]:
        """One page of the results, from one or several tables.

        Args:
            query: as for `query`.
            size: number of results, 1 or more.
            after: ``page.cursor`` for the next page, ``page.previous`` for the one before.
            consistent: as for `odm.Store.page`.

        Raises:
            BadCursor: the cursor is damaged, or belongs to another query or series.
        """
        return run(read_page(self, range_of(self.series, query), size, after, consistent))

    def first(self, query: Query[E], *, consistent: bool = True) -> E | None:
        """The first result of a query, or None."""
        return run(self.first_steps(range_of(self.series, query), consistent))

    def count(self, query: Query[E], *, consistent: bool = True) -> int:
        """The number of results that `query` would return; of any pattern."""
        return run(self.count_steps(range_of(self.series, query, merged=False), consistent))

    def rotation(self, *, drop: bool = False, now: date | None = None) -> Rotation:
        """What `rotate` would do; it changes nothing.

        Args:
            drop: also drop the tables beyond ``keep``.
            now: a time in the present period. Default: the clock of the store.
        """
        return run(rotation(self, self.today(now), drop=drop))

    def rotate(
        self,
        *,
        drop: bool = False,
        now: date | None = None,
        tell: Callable[[Step], object] = ignore,
        remove_most: bool = False,
    ) -> Rotation:
        """Make the next tables, give those of past periods the settings ``old``, and drop those beyond ``keep``.

        It can be interrupted, repeated, and run by several programs at once.

        Args:
            drop: drop the tables beyond ``keep``; otherwise they stay, and the steps name them.
            now: as for `rotation`.
            tell: called with each step before it is made, such as `print`.
            remove_most: drop also more than half of the tables.

        Returns:
            The steps.

        Raises:
            BadValue: it would drop more than half of the tables, with those that it makes: the clock or ``keep`` may be
                wrong. Nothing was changed.
        """
        return run(rotate(self, self.today(now), drop=drop, tell=tell, remove_most=remove_most))


class AsyncSeriesStore(SeriesSteps[E, AsyncStore]):
    """A time series on a backend for asyncio, opened by ``TimeSeries.open_async``; otherwise as `SeriesStore`."""

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Release the connections of all periods; every later call raises BackendError. Idempotent."""
        for store in self._to_close():
            await store.aclose()

    async def put(self, entity: E, *, when: When = None) -> E:
        """Write an item; replaces any item under its key."""
        stored: E = await arun(self.write(entity, "put", entity, when=when))
        return stored

    async def insert(self, entity: E) -> E:
        """Write a new item; raises ItemExists if its key is taken, otherwise as `put`."""
        stored: E = await arun(self.write(entity, "insert", entity))
        return stored

    async def put_all(self, items: Iterable[E]) -> int:
        """Put items in few requests, those of a period together; returns their number. Raises as `put`."""
        return await arun(self.put_steps(items))

    async def update(
        self,
        which: E | Query[E],
        /,
        *actions: Any,
        when: When = None,
        returning: Literal["none", "old", "new"] = "none",
        upsert: bool = False,
        validate: Literal["item", "values"] = "item",
    ) -> E | None:
        """Change attributes of an item; otherwise as `odm.Store.update` and `put`."""
        stored: E | None = await arun(
            self.write(
                which, "update", which, *actions, when=when, returning=returning, upsert=upsert, validate=validate
            )
        )
        return stored

    async def delete(self, which: type[E] | E | Query[E], /, *, when: When = None, **key: Any) -> bool:
        """Remove an item; returns whether it existed."""
        return await arun(self.delete_steps(which, when, key))

    async def get(self, which: type[E] | Query[E], /, *, consistent: bool = True, **key: Any) -> E | None:
        """The item under a key, or None, also if its period has no table."""
        return await arun(self.get_steps(which, consistent, key))

    async def one(self, which: type[E] | Query[E], /, *, consistent: bool = True, **key: Any) -> E:
        """The item under a key; raises ItemNotFound if it does not exist."""
        return await arun(self.one_steps(which, consistent, key))

    def query(self, query: Query[E], *, consistent: bool = True) -> AsyncIterator[E]:
        """The results of a query from all tables in its range, read page by page while you iterate."""
        return self._each(range_of(self.series, query), consistent)

    async def _each(self, range_: Range, consistent: bool) -> AsyncIterator[E]:
        remaining = range_.query.most
        for period, query in await arun(self.tables(range_)):
            limited = query if remaining is None else query.limit(remaining)
            try:
                async for item in self.store_of(period).query(limited, consistent=consistent):
                    yield item
                    remaining = None if remaining is None else remaining - 1
            except TableNotFound as error:
                await arun(self.passed(period, error))
            if remaining == 0:
                return

    async def page(
        self, query: Query[E], *, size: int = 25, after: str | None = None, consistent: bool = True
    ) -> Page[E]:
        """One page of the results, from one or several tables."""
        return await arun(read_page(self, range_of(self.series, query), size, after, consistent))

    async def first(self, query: Query[E], *, consistent: bool = True) -> E | None:
        """The first result of a query, or None."""
        return await arun(self.first_steps(range_of(self.series, query), consistent))

    async def count(self, query: Query[E], *, consistent: bool = True) -> int:
        """The number of results that `query` would return; of any pattern."""
        return await arun(self.count_steps(range_of(self.series, query, merged=False), consistent))

    async def rotation(self, *, drop: bool = False, now: date | None = None) -> Rotation:
        """What `rotate` would do; it changes nothing."""
        return await arun(rotation(self, self.today(now), drop=drop))

    async def rotate(
        self,
        *,
        drop: bool = False,
        now: date | None = None,
        tell: Callable[[Step], object] = ignore,
        remove_most: bool = False,
    ) -> Rotation:
        """Make the next tables, give those of past periods the settings ``old``, and drop those beyond ``keep``."""
        return await arun(rotate(self, self.today(now), drop=drop, tell=tell, remove_most=remove_most))
