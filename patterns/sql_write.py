"""Write-behind: a handler of a change feed that writes changed items to SQL; see `odm.patterns.sql`.

In one transaction for a list of changes, for each change:

1. insert the item's record in the applied table if it is new, lock it and the row, and skip a change that is not newer;
2. decide: an item that is a copy of a row is never written; one that an application changed is written if the row is
   still one that it is based on. With an outbox, another row wins over the item; without one, the item wins;
3. if row and item differ now, add the key to the outbox: `odm.patterns.sql.Push` makes the item equal to the row;
4. record the change's position, and the digests of item and row.
"""

import json
import logging
from collections.abc import Callable, Sequence
from datetime import UTC, datetime
from functools import partial
from typing import Any, Final, Generic, TypeVar

from attrs import frozen
from sqlalchemy import Connection, select, update
from sqlalchemy.ext.asyncio import AsyncEngine

from odm import BadValue, Conflict, Entity, OdmError
from odm.changes import Change, Changed, Inserted, Removed
from odm.extend import compiled
from odm.patterns.sql_rows import ABSENT, GONE, Rows
from odm.patterns.sql_tables import (
    EitherEngine,
    Key,
    RowState,
    add_to_outbox,
    check_engine,
    delete_row,
    insert_new,
    locked,
    matches,
    row_state,
    sql,
    write_row,
)
from odm.patterns.two_stores import Steps, arun, run

E = TypeVar("E", bound=Entity)

TRIES: Final = 5
"""How often a row is read again when other programs insert it at the same time."""

_LOG: Final = logging.getLogger("odm.sql")


@frozen
class _State:
    """The state of an item after a change.

    Attributes:
        item: None: it was removed.
        digest, mark: of the item; a mark of None: it has none, or was removed.
        ours: the change is a part of a delete by `odm.patterns.sql.Push`, see `Rows.leaving`.
        bases: the digests of rows that the change may replace.
        expired: it was removed because its time was over: the row stays.
    """

    item: Any
    digest: str
    mark: str | None
    ours: bool
    bases: frozenset[str]
    expired: bool


class WriteBehind(Generic[E]):
    """Writes changed items to SQL.

    Args:
        rows: the mapping, with an applied table.

    Raises:
        BadValue: there is no applied table.
        SchemaError: a row of a new item would lack a column.
    """

    def __init__(self, rows: Rows[E]) -> None:
        if not isinstance(rows, Rows) or rows.applied is None:
            raise BadValue(f"WriteBehind({rows!r}): pass Rows(..., applied=applied_table(...)): it orders the changes")
        known = {column.name for column in rows.columns.values()}
        for column in rows.table.c:
            optional = column.nullable or column.default is not None or column.server_default is not None
            if column.name not in known and not optional and column is not rows.deleted and column.identity is None:
                raise rows.fault(
                    f"column {column.name!r} is NOT NULL without a default, and no field is mapped to it: map one, or "
                    "give the column a default"
                )
        for name, column in rows.columns.items():
            if not column.nullable and not column.primary_key and _may_be_none(rows, name):
                raise rows.fault(f"{name!r} may be None, and column {column.name!r} is NOT NULL: change one of them")
        self.rows, self.applied = rows, rows.applied

    def __repr__(self) -> str:
        return f"WriteBehind({self.rows!r})"

    def handler(self, engine: EitherEngine) -> Callable[[Any], Any]:
        """A handler for ``feed.on_many(Customer)(...)``, or for ``feed.on``.

        Args:
            engine: of the SQL database.

        Returns:
            A function of a change or a list of changes; async with an AsyncEngine. It can be called again with the same
            changes, also with earlier ones, and does nothing for them. It raises BadValue for a change that lacks the
            new item, because the feed has only keys; BackendError if the database failed or refused a row; ItemInvalid
            for a row that cannot be read; Conflict if other programs kept inserting a row. A feed delivers the changes
            again then, and comes no further until they succeed.

        Raises:
            BadValue: it is not an engine.
            Unsupported: it is of another database than SQLite and PostgreSQL.
        """
        check_engine(self.rows, engine, sync=False)
        if isinstance(engine, AsyncEngine):

            async def ahandle(changes: Change[E] | Sequence[Change[E]]) -> None:
                await arun(self._steps(engine, changes))

            return ahandle

        def handle(changes: Change[E] | Sequence[Change[E]]) -> None:
            run(self._steps(engine, changes))

        return handle

    def _steps(self, engine: EitherEngine, changes: Change[E] | Sequence[Change[E]]) -> Steps[None]:
        listed = [changes] if isinstance(changes, Change) else list(changes)
        mine = [change for change in listed if change.entity is None or issubclass(change.entity, self.rows.entity)]
        for change in mine:
            if change.entity is None and isinstance(change, Inserted | Changed):
                raise BadValue(
                    f"{self!r}: the change of {change.key} has no item: enable a feed with old and new images, such as "
                    'DynamoDB(stream="new_and_old_images")'
                )
        # By key, so that several handlers lock rows in one order; the changes of an item stay in theirs.
        mine.sort(key=lambda change: change.key)
        yield sql(self.rows, engine, partial(self._apply, mine))

    def _apply(self, changes: Sequence[Change[E]], connection: Connection) -> None:
        for change in changes:
            key = self._key(change, connection)
            if key is not None:
                self._apply_one(change, key, connection)

    def _key(self, change: Change[E], connection: Connection) -> Key | None:
        """The key of the row; None: an item that was removed, of which nothing is known."""
        item = change.new if change.new is not None else change.old
        if item is not None:
            return self.rows.key_columns(self.rows.key({name: getattr(item, name) for name in self.rows.keys}))
        names = [column.name for column in self.rows.table.primary_key]
        columns = [self.applied.c[name] for name in names]
        known = select(*columns).where(self.applied.c.item_key == json.dumps(change.key))
        row = connection.execute(known).first()
        return None if row is None else dict(zip(names, row, strict=True))

    def _apply_one(self, change: Change[E], key: Key, connection: Connection) -> None:
        new = {**key, "item_key": json.dumps(change.key), "item_position": "", "item_digest": ABSENT}
        insert_new(connection, self.applied, new)
        before = locked(connection, self.applied, key)
        assert before is not None
        if before["item_position"] and change.order <= before["item_position"]:
            return
        state = self._state(change, before)
        row = self._written(state, key, before, connection)
        if row.digest != state.digest and not state.expired:
            add_to_outbox(connection, self.rows, key)
        # A mark stays when the item is deleted, or put without one, so that a copy that is put again is known.
        stays = state.item is None or not _says_gone(before["item_mark"])
        after = {
            "item_position": change.order,
            "item_digest": state.digest,
            "item_mark": state.mark or (before["item_mark"] if stays else None),
            "item_ends": self._ends(state.item, before),
            "row_digest": row.digest if row.digest == state.digest else None,
        }
        connection.execute(update(self.applied).where(matches(self.applied, key)).values(after))

    def _state(self, change: Change[E], before: Key) -> _State:
        rows, old, item = self.rows, change.old, change.new
        known = {rows.base(item if item is not None else old)}
        if old is not None:
            known.add(rows.digest(old))
        elif item is None:
            known.clear()
        mark = None if item is None else getattr(item, rows.mark)
        if item is not None:
            ours = rows.leaves(item) and mark != before["item_mark"]
        else:  # a feed without old images shows the mark in the change before
            ours = rows.leaves(old) if old is not None else _says_gone(before["item_mark"])
        return _State(item, rows.digest(item), mark, ours, frozenset(known), self._expired(change, before))

    def _ends(self, item: Any, before: Key) -> float | None:
        """When an item expires, in seconds since the epoch; of a removed one, what was known of it."""
        ttl = compiled(self.rows.entity).ttl
        if item is None or ttl is None:
            return before["item_ends"]  # type: ignore[no-any-return]
        ends = getattr(item, ttl)
        return None if ends is None else float(ends.timestamp())

    def _expired(self, change: Change[E], before: Key) -> bool:
        """Whether an item was removed because its time was over: a feed may say only that it was removed."""
        if not isinstance(change, Removed) or change.expired:
            return isinstance(change, Removed)
        ends = self._ends(change.old, before)
        return ends is not None and ends <= (change.at or datetime.now(UTC)).timestamp()

    def _written(self, state: _State, key: Key, before: Key, connection: Connection) -> RowState:
        """Write the row if that is right; returns the row afterwards."""
        rows = self.rows
        for _ in range(TRIES):
            stored = locked(connection, rows.table, key)
            row = row_state(rows, stored)
            copy = state.mark not in {None, before["item_mark"]} and rows.base(state.item) == state.digest
            # A change of other fields only, or of a copy, or by the time, does not concern the row.
            same = bool(before["item_position"]) and state.digest == before["item_digest"]
            if copy or same or state.ours or state.expired or row.digest == state.digest:
                return row
            if rows.outbox is not None and row.digest not in {*state.bases, before["row_digest"]}:
                _LOG.warning("%r: row and item of %s were both changed: the row is kept", rows, dict(key))
                return row
            if state.item is None:
                delete_row(connection, rows, key)
            elif not write_row(connection, rows, state.item, exists=stored is not None):
                continue
            return row_state(rows, locked(connection, rows.table, key))
        raise Conflict(f"{self!r}: other programs keep inserting and deleting row {dict(key)}: apply the change again")


def _says_gone(mark: str | None) -> bool:
    """Whether a mark is one of `Rows.leaving`."""
    return mark is not None and mark.startswith(f"{GONE}.")


def _may_be_none(rows: Rows[Any], name: str) -> bool:
    try:
        compiled(rows.entity).validate(name, None)
    except OdmError:
        return False
    return True
