"""The position up to which `odm.patterns.sql.Push` has read a column with the time of the last change."""

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, date, datetime, timedelta
from functools import partial
from typing import Any, Final

from sqlalchemy import Column, Connection, and_, or_, select

from odm import BadValue, Calls, ConditionFailed, Gen, ItemExists, procedure
from odm.patterns.sql_rows import Rows, from_sql, to_sql
from odm.patterns.sql_tables import EitherEngine, rows_of, sql
from odm.patterns.two_stores import Either, On, Steps

SIZE: Final = 100
"""Rows that are read at once."""


@procedure
def _load(do: Calls, made: Any, name: str) -> Gen[Any]:
    return (yield from do.get(made.primary(name=name)))


@procedure
def _save(do: Calls, made: Any, name: str, old: Any, position: str) -> Gen[None]:
    """Store a position, unless another drain has stored one in the meantime."""
    new = made(name=name, position=position)
    try:
        if old is None:
            yield from do.insert(new)
        elif old.position != position:
            yield from do.put(new, when=made.position == old.position)
    except (ConditionFailed, ItemExists):
        return


class Cursors:
    """Reads the rows that have changed since a stored position."""

    def __init__(self, rows: Rows[Any], column: Column[Any], overlap: float) -> None:
        self.rows, self.column, self.overlap = rows, column, overlap
        self.made = rows.cursors
        self.name = f"{rows.table.fullname}.{column.name}"

    def drained(
        self, store: Either, engine: EitherEngine, each: Callable[[Mapping[str, Any]], Steps[bool]]
    ) -> Steps[int]:
        """Push each changed row; the position moves up to the first one that failed."""
        known = yield On(store, _load(self.made, self.name))
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
            if len(page) < SIZE:
                break
            last = page[-1]
        if reached is not None:
            yield On(store, _save(self.made, self.name, known, _written(reached)))
        return done

    def _before(self, value: Any) -> Any:
        if isinstance(value, datetime | date):
            return value - timedelta(seconds=self.overlap)
        return value - self.overlap

    def _page(self, begin: Any, last: Mapping[str, Any] | None, connection: Connection) -> Sequence[Mapping[str, Any]]:
        """The next rows in the order of the column, and of the key among equal ones."""
        keys, changed = list(self.rows.table.primary_key), self.column
        wanted = select(*(key.label(key.name) for key in keys), changed.label("odm_changed")).where(
            changed.is_not(None)
        )
        if begin is not None:
            wanted = wanted.where(changed >= to_sql(changed, begin))
        if last is not None:
            after = [changed > last["odm_changed"]]
            equal = [changed == last["odm_changed"]]
            for key in keys:
                after.append(and_(*equal, key > last[key.name]))
                equal.append(key == last[key.name])
            wanted = wanted.where(or_(*after))
        return rows_of(connection.execute(wanted.order_by(changed, *keys).limit(SIZE)))


def _written(value: Any) -> str:
    match value:
        case datetime():
            return f"t{value.astimezone(UTC).isoformat()}"
        case bool() | str() | bytes():
            raise BadValue(f"changed= names a column with {value!r}: use one of times or growing whole numbers")
        case int():
            return f"n{value}"
        case _:
            raise BadValue(f"changed= names a column with {value!r}: use one of times or growing whole numbers")


def _read(text: str) -> Any:
    return datetime.fromisoformat(text[1:]) if text[0] == "t" else int(text[1:])
