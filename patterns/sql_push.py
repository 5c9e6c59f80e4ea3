"""Push: sends rows that other programs changed to the table; see `odm.patterns.sql`.

`bring` makes one item equal to its row:

1. read the item, then the row and what was last written back;
2. decide: nothing to do if they are equal, or if an application changed the item and the change feed brings that;
3. write on the condition that the item has not changed since 1; otherwise begin again;
4. read the row: if it has changed, begin again. So the writer that was last has seen the newest row.

An entry of the outbox is taken for `LEASE` seconds and deleted after 4 by the drain that took it. So if a drain stops,
or is late and writes an older row, its entry is still there, and is taken again.
"""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from functools import partial
from typing import Any, Final, Generic, TypeVar
from uuid import uuid4

from sqlalchemy import Connection, DateTime, Engine, Integer, delete, or_, select, update

from odm import (
    AsyncStore,
    BadValue,
    ConditionFailed,
    Conflict,
    Entity,
    ItemExists,
    ItemNotFound,
    OdmError,
    Query,
    Store,
    set_,
)
from odm.extend import Calls, Gen, procedure
from odm.patterns.sql_cursor import Cursors
from odm.patterns.sql_rows import Rows
from odm.patterns.sql_tables import EitherEngine, RowState, check_engine, check_store, find, rows_of, sql
from odm.patterns.two_stores import Either, On, Steps, arun, now, run

E = TypeVar("E", bound=Entity)

LEASE: Final = 60.0
"""Seconds for which a drain has taken an entry of the outbox: longer than it needs for a page of them."""

TRIES: Final = 20
"""How often an item is compared again when it and its row are changed at the same time."""

SIZE: Final = 50
"""Entries or rows that are read at once."""


@procedure
def _get(do: Calls, key: Query[Any]) -> Gen[Any]:
    return (yield from do.get(key))


@procedure
def _write(do: Calls, rows: Rows[Any], key: Query[Any], old: Any, new: Any) -> Gen[tuple[bool, Any]]:
    """Make an item equal to a row if it has not changed; returns whether it was, and the item."""
    try:
        if new is None:
            # In two steps, so that the feed shows that no application deleted it.
            leaving = rows.leaving(old, do)
            mark = set_(getattr(rows.entity, rows.mark), getattr(leaving, rows.mark))
            marked = yield from do.update(key, mark, when=rows.unchanged(old), returning="new")
            yield from do.delete(key, when=rows.unchanged(marked))
            return True, None
        copy = rows.copied(new, do)
        if old is None:
            return True, (yield from do.insert(copy))
        changed = yield from do.update(key, *rows.changes(copy), when=rows.unchanged(old), returning="new")
    except (ConditionFailed, ItemExists, ItemNotFound):
        return False, None
    return True, changed


def bring(rows: Rows[E], store: Either, engine: EitherEngine, key: Query[E], *, load: bool = False) -> Steps[E | None]:
    """Make an item equal to its row, unless an application has changed it since.

    Args:
        rows: the mapping.
        store: where the item is.
        engine: where the row is.
        key: of the item.
        load: an item that is absent is read from the row even if it was written back; and one that exists stays.

    Returns:
        The item.

    Raises:
        ItemInvalid: the row does not fit the entity.
        Conflict: item and row kept changing.
    """
    columns = rows.key_columns(key)
    for _ in range(TRIES):
        item = yield On(store, _get(key))
        row: RowState = yield sql(rows, engine, find(rows, columns))
        if (load and item is not None) or not _behind(rows, item, row, load=load):
            return item  # type: ignore[no-any-return]
        if row.wrong is not None:
            raise row.wrong
        written, stored = yield On(store, _write(rows, key, item, row.item))
        if written:
            # The row may have been changed since it was read, and its change pushed by another drain before this write.
            again: RowState = yield sql(rows, engine, find(rows, columns))
            if again.digest == row.digest:
                return stored  # type: ignore[no-any-return]
            load = False
    raise Conflict(f"{rows!r}: other programs kept changing {key} and its row: try again later")


def _behind(rows: Rows[Any], item: Any, row: RowState, *, load: bool) -> bool:
    """Whether an item is to be made equal to its row."""
    digest = rows.digest(item)
    if row.digest == digest:
        return rows.leaves(item)  # the row is back: the item is a copy of it again
    if item is None and load:
        return True
    if row.synced is not None and row.digest == row.synced:
        return False  # the row is what was written back: the item is newer, and its change follows
    # An item that is based on this row was changed by an application. If that change was already handled and the row
    # still differs, the row has been changed after it.
    return item is None or row.digest != rows.base(item) or digest == row.seen


class Push(Generic[E]):
    """Sends rows that other programs changed to the table.

    Args:
        rows: the mapping. If it has an outbox, its entries are pushed.
        changed: the name of a column of type DateTime with the time of the last change, or of type Integer with a
            growing number; rows without a value are not pushed. Default: only the outbox says which rows have changed.
        overlap: with ``changed``, how far before the last position each drain begins, in seconds, or in the unit of the
            number: longer than a transaction takes between choosing the value and its commit.

    Raises:
        BadValue: an argument is not valid.
        SchemaError: the table has no such column.
    """

    def __init__(self, rows: Rows[E], *, changed: str | None = None, overlap: timedelta | float = 60) -> None:
        if not isinstance(rows, Rows) or (changed is None and rows.outbox is None):
            raise BadValue(
                f"Push({rows!r}): give changed=, or Rows(..., outbox=...), so that it finds the changed rows"
            )
        if changed is not None and rows.outbox is None and rows.applied is not None:
            raise BadValue(
                f"Push({rows!r}): next to write-behind it needs Rows(..., outbox=...) for rows that both sides change"
            )
        seconds = overlap.total_seconds() if isinstance(overlap, timedelta) else overlap
        if isinstance(seconds, bool) or not 0 <= seconds < float("inf"):
            raise BadValue(f"Push(overlap={overlap!r}): give a timedelta or seconds, 0 or more")
        if changed is not None and changed not in rows.table.c:
            raise rows.fault(f"changed={changed!r}: the table has only {', '.join(rows.table.c.keys())}")
        if changed is not None and not isinstance(rows.table.c[changed].type, DateTime | Integer):
            raise rows.fault(f"changed={changed!r} is of type {rows.table.c[changed].type}: name a DateTime or Integer")
        self.rows = rows
        self._changed = None if changed is None else Cursors(rows, rows.table.c[changed], seconds)

    def __repr__(self) -> str:
        return f"Push({self.rows!r})"

    def drain(self, db: Store, engine: Engine) -> int:
        """Push all rows that have changed; several drains may run at once.

        Args:
            db: the store of the items.
            engine: of the SQL database.

        Returns:
            The number of entries and rows compared.

        Raises:
            ItemInvalid: a row does not fit the entity; the others are pushed, and its entry stays.
            Conflict: an item and its row kept changing.
            BackendError: the SQL database failed, or SQLAlchemy cannot read a row; the others are pushed.
        """
        check_store(self.rows, db, sync=True)
        check_engine(self.rows, engine, sync=True)
        return run(self._drained(db, engine))

    async def adrain(self, db: AsyncStore, engine: EitherEngine) -> int:
        """See `drain`."""
        check_store(self.rows, db, sync=False)
        check_engine(self.rows, engine, sync=False)
        return await arun(self._drained(db, engine))

    def _drained(self, store: Either, engine: EitherEngine) -> Steps[int]:
        done, errors = 0, list[OdmError]()
        if self.rows.outbox is not None:
            # A token for each page: entries of an earlier one whose rows did not fit are not taken again.
            while entries := (yield from self._taken(store, engine, token := uuid4().hex)):
                yield from self._entries(store, engine, token, entries, errors)
                done += len(entries)
        if self._changed is not None:
            done += yield from self._changed.drained(store, engine, partial(self._brought, store, engine, errors))
        if errors:
            raise errors[0]
        return done

    def _brought(
        self, store: Either, engine: EitherEngine, errors: list[OdmError], row: Mapping[str, Any]
    ) -> Steps[bool]:
        """Push a row by its key columns; returns whether it succeeded. The error of one does not stop the others."""
        try:
            yield from bring(self.rows, store, engine, self.rows.key_of_row(row))
        except OdmError as error:
            errors.append(error)
            return False
        return True

    def _taken(self, store: Either, engine: EitherEngine, token: str) -> Steps[Sequence[Mapping[str, Any]]]:
        """Take the next entries that no other drain has."""
        at: float = yield On(store, now())
        answer: Sequence[Mapping[str, Any]] = yield sql(self.rows, engine, partial(self._take, token, at))
        return answer

    def _take(self, token: str, at: float, connection: Connection) -> Sequence[Mapping[str, Any]]:
        outbox = self.rows.outbox
        assert outbox is not None
        free = or_(outbox.c.taken_until.is_(None), outbox.c.taken_until < at)
        some = select(outbox.c.outbox_id).where(free).order_by(outbox.c.outbox_id).limit(SIZE)
        # The condition is checked again when another drain has changed the entry in between.
        take = update(outbox).where(outbox.c.outbox_id.in_(some.scalar_subquery()), free)
        connection.execute(take.values(taken_by=token, taken_until=at + LEASE))
        mine = select(outbox).where(outbox.c.taken_by == token, outbox.c.taken_until == at + LEASE)
        return rows_of(connection.execute(mine.order_by(outbox.c.outbox_id)).mappings())

    def _entries(
        self,
        store: Either,
        engine: EitherEngine,
        token: str,
        entries: Sequence[Mapping[str, Any]],
        errors: list[OdmError],
    ) -> Steps[None]:
        """Push the rows of entries, each row once, and delete the entries."""
        outbox, keys = self.rows.outbox, [column.name for column in self.rows.table.primary_key]
        assert outbox is not None
        of: dict[tuple[Any, ...], list[int]] = {}
        for entry in entries:
            of.setdefault(tuple(entry[name] for name in keys), []).append(entry["outbox_id"])
        for values, ids in of.items():
            if (yield from self._brought(store, engine, errors, dict(zip(keys, values, strict=True)))):
                gone = delete(outbox).where(outbox.c.outbox_id.in_(ids), outbox.c.taken_by == token)
                yield sql(self.rows, engine, partial(_execute, gone))


def _execute(statement: Any, connection: Connection) -> None:
    connection.execute(statement)
