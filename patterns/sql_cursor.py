"""The position up to which `odm.patterns.sql.Push` has read a column with the time of the last change."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

from sqlalchemy import Column, Connection, DateTime, String, and_, or_, select, type_coerce

from odm import ConditionFailed, ItemExists
from odm.extend import Calls, Gen, procedure
from odm.patterns.sql_rows import Rows
from odm.patterns.sql_tables import EitherEngine, rows_of, sql
from odm.patterns.sql_values import from_sql, to_sql
from odm.patterns.two_stores import Either, On, Steps

SIZE: Final = 100
"""Rows that are read at once."""


@procedure
def _load(do: Calls, cursors: Any, name: str) -> Gen[Any]:
    return (yield from do.get(cursors.primary(name=name)))


@procedure
def _save(do: Calls, cursors: Any, name: str, old: Any, position: str) -> Gen[Any]:
    """Store a position, unless another drain has stored one in the meantime; returns what this drain stored last."""
    new = cursors(name=name, position=position)
    try:
        if old is None:
            yield from do.insert(new)
        elif old.position != position:
            yield from do.put(new, when=cursors.position == old.position)
    except (ConditionFailed, ItemExists):
        return old
    return new


class Cursors:
    """Reads the rows that have changed since a stored position."""

    def __init__(self, rows: Rows[Any], column: Column[Any], overlap: float) -> None:
        self.rows, self.column, self.overlap = rows, column, overlap
        self.cursors = rows.cursors
        self.name = f"{rows.table.fullname}.{column.name}"

    def drained(
        self, store: Either, engine: EitherEngine, each: Callable[[Mapping[str, Any]], Steps[bool]]
    ) -> Steps[int]:
        """Push each changed row; the position moves up to the first one that failed."""
        known = yield On(store, _load(self.cursors, self.name))
        begin = None if known is None else self._before(_read(known.position))
        reached, done, failed, last = None if known is None else _read(known.position), 0, False, None
        while True:
            page: Sequence[Mapping[str, Any]] = yield sql(self.rows, engine, partial(self._page, begin, last))
            for row in page:
                failed = not (yield from each(row)) or failed
                value = from_sql(row["odm_changed"])
                if not failed and (reached is None or value > reached):
                    reached = value
            done += len(page)
            if reached is not None:
                known = yield On(store, _save(self.cursors, self.name, known, _written(reached)))
            if len(page) < SIZE:
                return done
            last = page[-1]

    def _before(self, value: Any) -> Any:
        if not isinstance(value, datetime):
            return value - self.overlap
        first = datetime.min.replace(tzinfo=UTC)
        return first if (value - first).total_seconds() < self.overlap else value - timedelta(seconds=self.overlap)

    def _page(self, begin: Any, last: Mapping[str, Any] | None, connection: Connection) -> Sequence[Mapping[str, Any]]:
        """The next rows in the order of the column, and of the key among equal ones."""
        keys, changed = list(self.rows.table.primary_key), self.column
        # SQLite compares times as text, and its own CURRENT_TIMESTAMP has no fraction where SQLAlchemy writes one.
        text = connection.dialect.name == "sqlite" and isinstance(changed.type, DateTime)
        order: Any = type_coerce(changed, String) if text else changed
        columns = (*(key.label(key.name) for key in keys), changed.label("odm_changed"), order.label("odm_order"))
        statement = select(*columns).where(changed.is_not(None))
        if begin is not None:
            least = to_sql(changed, begin)
            statement = statement.where(order >= (least.isoformat(" ") if text else least))
        if last is not None:
            after = [order > last["odm_order"]]
            equal = [order == last["odm_order"]]
            for key in keys:
                after.append(and_(*equal, key > last[key.name]))
                equal.append(key == last[key.name])
            statement = statement.where(or_(*after))
        return rows_of(connection.execute(statement.order_by(order, *keys).limit(SIZE)).mappings())


def _written(value: Any) -> str:
    return f"t{value.astimezone(UTC).isoformat()}" if isinstance(value, datetime) else f"n{value}"


def _read(text: str) -> Any:
    return datetime.fromisoformat(text[1:]) if text[0] == "t" else int(text[1:])
