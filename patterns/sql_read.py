"""Read-through: loads an item from its row when it is first read; see `odm.patterns.sql`.

| partition | sort | attributes |
|---|---|---|
| ``SQL#Customer#LOAD#c1`` | its tag | ``token``, ``until``: who loads it, and how long; ``missing``: no row |
"""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any, Final, Generic, TypeVar
from uuid import uuid4

from sqlalchemy import Engine

from odm import AsyncStore, BadValue, ConditionFailed, Entity, ItemExists, Query, Store
from odm.extend import Calls, Gen, compiled, procedure
from odm.patterns.sql_push import bring
from odm.patterns.sql_rows import Rows
from odm.patterns.sql_tables import EitherEngine, RowState, check_engine, check_store, find, sql
from odm.patterns.two_stores import Either, On, Pause, Steps, arun, run

E = TypeVar("E", bound=Entity)

PAUSES: Final = (0.01, 0.02, 0.04, 0.08, 0.16, 0.32)
"""Seconds to wait each time for the program that loads the same row, before reading the row without storing it."""


@procedure
def _look(do: Calls, key: Query[Any], lease: Query[Any]) -> Gen[tuple[Any, Any, float]]:
    """The item, its lease, and the time."""
    item, held = yield from do.get_many([key, lease])
    return item, held, do.now()


@procedure
def _take(do: Calls, lease: Any) -> Gen[bool]:
    """Take the lease unless another program has it; one that has expired counts as absent."""
    try:
        yield from do.insert(lease)
    except ItemExists:
        return False
    return True


@procedure
def _give(do: Calls, key: Query[Any], lease: Any, missing: Any) -> Gen[None]:
    """Give the lease back, or leave in its place that there is no row."""
    mine = type(lease).token == lease.token
    try:
        if missing is None:
            yield from do.delete(key, when=mine)
        else:
            yield from do.put(missing, when=mine)
    except ConditionFailed:
        return


class ReadThrough(Generic[E]):
    """Reads items, and loads absent ones from SQL.

    Args:
        rows: the mapping.
        lease: for how many seconds one program alone loads a row; others wait about 0.6 seconds, then read the row
            without storing it.
        missing_ttl: for how many seconds to remember that there is no row, at most the ``ttl`` of the rows; None: each
            read of an absent row reads SQL.

    Raises:
        BadValue: an argument is not valid.
    """

    def __init__(self, rows: Rows[E], *, lease: float = 10, missing_ttl: float | None = None) -> None:
        if not isinstance(rows, Rows):
            raise BadValue(f"ReadThrough({rows!r}): pass Rows(...)")
        for name, value in (("lease", lease), ("missing_ttl", missing_ttl)):
            if value is not None and (isinstance(value, bool) or not 0 < value < float("inf")):
                raise BadValue(f"ReadThrough({name}={value!r}): give seconds, more than 0")
        self.rows, self.lease, self.missing_ttl = rows, lease, missing_ttl
        self.leases = rows.leases

    def __repr__(self) -> str:
        return f"ReadThrough({self.rows!r})"

    def get(self, db: Store, engine: Engine, **key: Any) -> E | None:
        """Read an item; if it is absent, load it from its row.

        Args:
            db: the store of the items.
            engine: of the SQL database.
            key: the fields of the primary key.

        Returns:
            The item; None: there is neither an item nor a row.

        Raises:
            BadValue: the key is not that of the entity.
            ItemInvalid: the row does not fit the entity.
            BackendError: the SQL database failed.
            Conflict: the item and its row kept changing.
        """
        check_store(self.rows, db, sync=True)
        check_engine(self.rows, engine, sync=True)
        return run(self._got(db, engine, key))

    async def aget(self, db: AsyncStore, engine: EitherEngine, **key: Any) -> E | None:
        """See `get`."""
        check_store(self.rows, db, sync=False)
        check_engine(self.rows, engine, sync=False)
        return await arun(self._got(db, engine, key))

    def _got(self, store: Either, engine: EitherEngine, values: Mapping[str, Any]) -> Steps[E | None]:
        key = self.rows.key(values)
        view = compiled(self.rows.entity)
        name = "#".join(view.primary.key_text(field, key.values[field]) for field in self.rows.keys)
        lease = self.leases.primary(name=name)
        for pause in (*PAUSES, None):
            item, held, at = yield On(store, _look(key, lease))
            if item is not None or (held is not None and held.missing):
                return item  # type: ignore[no-any-return]
            if held is None:
                ours = self._lease(name, at, self.lease)
                if (yield On(store, _take(ours))):
                    return (yield from self._loaded(store, engine, key, ours, lease, at))
            if pause is not None:
                yield Pause(pause)
        row: RowState = yield sql(self.rows, engine, find(self.rows, self.rows.key_columns(key)))
        if row.wrong is not None:
            raise row.wrong
        return row.item  # type: ignore[no-any-return]

    def _lease(self, name: str, at: float, seconds: float, *, missing: bool = False, token: str | None = None) -> Any:
        until = datetime.fromtimestamp(at, UTC) + timedelta(seconds=seconds)
        return self.leases(name=name, token=token or uuid4().hex, until=until, missing=missing)

    def _loaded(
        self, store: Either, engine: EitherEngine, key: Query[E], ours: Any, lease: Query[Any], at: float
    ) -> Steps[E | None]:
        """Load the row while the lease is held; a program that stops leaves a lease that expires."""
        try:
            item = yield from bring(self.rows, store, engine, key, load=True)
        except Exception:
            yield On(store, _give(lease, ours, None))
            raise
        missing = None
        if item is None and self.missing_ttl is not None:
            # No longer than a copy is kept: one that is pushed meanwhile must not expire before it.
            seconds = min(self.missing_ttl, self.rows.ttl or self.missing_ttl)
            missing = self._lease(ours.name, at, seconds, missing=True)
        yield On(store, _give(lease, ours, missing))
        return item
