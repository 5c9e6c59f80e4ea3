"""Rows: which row of a SQL table an item corresponds to, and how the two are compared.

An item that was copied from its row has a *mark*: the digest of the values copied, and a random part that distinguishes
copies. So a reader of the change feed recognizes a copy, and an item that an application changed afterwards still shows
which row it is based on. `odm.patterns.sql` describes what is built on this.
"""

import hashlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from functools import cache
from typing import Annotated, Any, Final, Generic, TypeVar

from pydantic import ValidationError
from sqlalchemy import JSON, Boolean, Column, DateTime, Table

from odm import (
    TTL,
    BadValue,
    Condition,
    CreatedAt,
    Entity,
    ItemInvalid,
    OdmError,
    PrimaryKey,
    Query,
    Revision,
    SchemaError,
    UpdatedAt,
)
from odm import set_ as set_to
from odm.extend import Calls, Companion, compiled, primary_key
from odm.patterns.sql_values import Undefined, comparisons, from_sql, plain, to_sql

E = TypeVar("E", bound=Entity)

ABSENT: Final = ""
"""The digest of an item or row that does not exist."""

GONE: Final = "gone"
"""In place of the digest in the mark of an item that is deleted because its row is."""


class Rows(Generic[E]):
    """The mapping between an entity and a table of SQLAlchemy Core.

    Args:
        entity: the class of the items.
        table: the SQL table; the columns of its primary key are those of the fields of the entity's primary key.
        columns: the column's name for each field; default: every field that has a column of its name, but for those
            that odm sets: Revision, CreatedAt, UpdatedAt.
        mark: the field that says from which row an item was copied: ``str | None = None``, set only by these patterns.
        ttl: how long a copied item is kept, a timedelta or seconds; it needs a field with the `odm.TTL` marker.
            Default: it does not expire.
        outbox: the keys of changed rows, see `odm.patterns.sql.outbox_table`.
        applied: what was written back, see `odm.patterns.sql.applied_table`.
        deleted: the name of a column of type Boolean or DateTime that marks a row as deleted; such a row counts as
            absent. Default: deleted rows are removed.

    Raises:
        SchemaError: the entity or the tables do not fit, or values of a field cannot be compared with those of its
            column: with `odm.Blob`, ``Any``, a serializer, or a union whose member the column does not show; with
            `odm.Compressed`, the entity needs a `odm.Revision`.
        BadValue: an argument is not valid.
    """

    def __init__(
        self,
        entity: type[E],
        table: Table,
        columns: Mapping[str, str] | None = None,
        *,
        mark: str = "sql",
        ttl: timedelta | float | None = None,
        outbox: Table | None = None,
        applied: Table | None = None,
        deleted: str | None = None,
    ) -> None:
        if not (isinstance(entity, type) and issubclass(entity, Entity) and isinstance(table, Table)):
            raise BadValue(f"Rows({entity!r}, {table!r}): pass an entity class and a Table of SQLAlchemy")
        self.entity, self.table, self.mark = entity, table, mark
        self.outbox, self.applied = outbox, applied
        view = compiled(entity)
        if columns is None:
            own = {mark, view.ttl, *_set_by_odm(entity)}
            columns = {name: name for name in entity.model_fields if name in table.c and name not in own}
        self.keys = primary_key(entity).fields
        self.columns: dict[str, Column[Any]] = {name: self._column(name, at) for name, at in columns.items()}
        self.expires = view.ttl if ttl is not None else None
        self.ttl = _seconds(ttl)
        self.deleted = None if deleted is None else self._column("deleted=", deleted)
        _check(self, view.ttl, ttl)
        try:
            self.mixed, self._by_revision = comparisons(entity, self.columns, view.revision)
        except Undefined as why:
            raise self.fault(f"{why}, or leave it out of columns=") from None
        # Made here and not where they are used: a program that only follows the feed must know these items too.
        self.leases, self.cursors = _made_for(entity)

    def __repr__(self) -> str:
        return f"Rows({self.entity.__name__}, {self.table.name!r})"

    def fault(self, wrong: str) -> SchemaError:
        """The error for a mapping that is not valid."""
        return SchemaError(f"{self!r}: {wrong}")

    def _column(self, field: str, name: str) -> Column[Any]:
        if field != "deleted=" and field not in self.entity.model_fields:
            raise self.fault(f"columns= has {field!r}, but {self.entity.__name__} has no such field")
        if name not in self.table.c:
            raise self.fault(
                f"{field!r} is mapped to {name!r}, but the table has only {', '.join(self.table.c.keys())}"
            )
        return self.table.c[name]

    def key(self, values: Mapping[str, Any]) -> Query[E]:
        """The key of an item, from the values of its key fields."""
        query: Query[E] = getattr(self.entity, primary_key(self.entity).name)(**values)
        if set(query.values) != set(self.keys):
            raise BadValue(f"{self!r}: {query} is not a whole key: give {', '.join(self.keys)}")
        return query

    def key_columns(self, query: Query[Any]) -> dict[str, Any]:
        """The values of the key's columns, by column name."""
        return {self.columns[name].name: to_sql(self.columns[name], query.values[name]) for name in self.keys}

    def key_of_row(self, row: Mapping[str, Any]) -> Query[E]:
        """The key of the item of a row, from the values of its key columns.

        Raises:
            ItemInvalid: the values do not fit the entity.
        """
        try:
            return self.key({name: from_sql(row[self.columns[name].name]) for name in self.keys})
        except BadValue as error:
            raise ItemInvalid(f"{self!r}: the key of row {dict(row)!r} does not fit: {error}", str(row), row) from error

    def item(self, row: Mapping[str, Any]) -> E:
        """The item of a row, without a mark.

        Raises:
            ItemInvalid: the row does not fit the entity.
        """
        values = {name: from_sql(row[column.name]) for name, column in self.columns.items()}
        try:
            return self.entity.model_validate(values, by_name=True)
        except ValidationError as error:
            key = ", ".join(f"{name}={values[name]!r}" for name in self.keys)
            raise ItemInvalid(
                f"{self!r}: the row with {key} does not fit {self.entity.__name__}: correct the row or the model: "
                f"{error}",
                key,
                values,
            ) from error

    def values(self, item: E) -> dict[str, Any]:
        """The values of all mapped columns, by column name."""
        plain = item.model_dump(include=set(self.columns), by_alias=False)
        documents = {name for name, column in self.columns.items() if isinstance(column.type, JSON)}
        texts = item.model_dump(mode="json", include=documents, by_alias=False)
        return {
            column.name: texts[name] if name in documents else to_sql(column, plain[name])
            for name, column in self.columns.items()
        }

    def digest(self, item: E | None) -> str:
        """A digest of the mapped values; ``ABSENT`` without an item."""
        if item is None:
            return ABSENT
        values = item.model_dump(include=set(self.columns), by_alias=False)
        text = json.dumps(
            {name: plain(field, mixed=name in self.mixed) for name, field in values.items()}, sort_keys=True
        )
        return hashlib.sha256(text.encode()).hexdigest()[:24]

    def base(self, item: E | None) -> str:
        """The digest of the row that an item was copied from; ``ABSENT`` if it was not copied."""
        mark = None if item is None else getattr(item, self.mark)
        return ABSENT if mark is None else str(mark).partition(".")[0]

    def leaving(self, item: E, do: Calls) -> E:
        """An item that is about to be deleted because its row is gone, with a mark that says so."""
        return item.model_copy(update={self.mark: f"{GONE}.{do.random.getrandbits(48):012x}"})

    def leaves(self, item: E | None) -> bool:
        """Whether an item has the mark of `leaving`."""
        return item is not None and self.base(item) == GONE

    def copied(self, item: E, do: Calls) -> E:
        """An item of a row, with a new mark and the time at which it expires."""
        added: dict[str, Any] = {self.mark: f"{self.digest(item)}.{do.random.getrandbits(48):012x}"}
        if self.expires is not None and self.ttl is not None:
            added[self.expires] = datetime.fromtimestamp(do.now() + self.ttl, UTC)
        return item.model_copy(update=added)

    def changes(self, item: E) -> list[Any]:
        """The actions that set the copied fields of a stored item, and leave its other fields."""
        names = [*self.columns, self.mark, *([] if self.expires is None else [self.expires])]
        return [set_to(getattr(self.entity, name), getattr(item, name)) for name in names if name not in self.keys]

    def unchanged(self, item: E) -> Condition:
        """The condition that the stored item still has these mapped values and this mark."""
        if self._by_revision is not None:
            return getattr(self.entity, self._by_revision) == getattr(item, self._by_revision)  # type: ignore[no-any-return]
        condition = getattr(self.entity, self.mark) == getattr(item, self.mark)
        for name in self.columns:
            if name not in self.keys:
                condition &= getattr(self.entity, name) == getattr(item, name)
        return condition  # type: ignore[no-any-return]


@cache
def _made_for(entity: type[Entity]) -> tuple[Any, Any]:
    """The classes of the items that these patterns add to the table: leases and positions."""
    lease = {"name": str, "token": str, "until": Annotated[datetime, TTL], "missing": (bool, False)}
    by_part: dict[str, dict[str, Any]] = {"load": lease, "cursor": {"name": str, "position": str}}
    maker = Companion()
    maker.name = "sql"
    keys = {part: PrimaryKey(f"SQL#{entity.__odm_tag__}#{part.upper()}#{{name}}") for part in by_part}
    leases, cursors = (maker.make(entity, Entity, by_part[part], {"primary": keys[part]}, part) for part in by_part)
    return leases, cursors


def _check(rows: Rows[Any], field: str | None, ttl: object) -> None:
    """Raise if the entity and the table do not fit."""
    name, fields = rows.entity.__name__, rows.entity.model_fields
    mark = fields.get(rows.mark)
    if mark is None or rows.mark in rows.columns or mark.is_required() or not _optional_text(rows):
        raise rows.fault(
            f'mark={rows.mark!r} names a field of its own, which has no column: add "{rows.mark}: str | None = None" '
            f"to {name}, or name another one"
        )
    if ttl is not None and field is None:
        raise rows.fault(f"ttl= needs a field with the TTL marker: add one to {name}, or leave ttl= out")
    kept = {rows.mark, rows.expires}
    if lacking := [name for name, info in fields.items() if info.is_required() and name not in {*rows.columns, *kept}]:
        raise rows.fault(f"field {lacking[0]!r} is required, but no column is mapped to it: add it to columns=")
    _check_columns(rows)
    twice = [column.name for column in rows.columns.values()]
    if again := sorted({name for name in twice if twice.count(name) > 1}):
        raise rows.fault(f"column {again[0]!r} is mapped to several fields: give each field a column of its own")
    if lost := [key for key in rows.keys if key not in rows.columns]:
        raise rows.fault(f"field {lost[0]!r} of the primary key has no column: add it to columns=")
    ours, theirs = {rows.columns[key].name for key in rows.keys}, {column.name for column in rows.table.primary_key}
    if ours != theirs:
        have = ", ".join(sorted(theirs)) or "(no columns)"
        raise rows.fault(
            f"the columns of the SQL primary key are {have}, and those of the fields of "
            f"{primary_key(rows.entity)} are {', '.join(sorted(ours))}: they must be the same"
        )
    for option, table, own in (("outbox", rows.outbox, OUTBOX), ("applied", rows.applied, APPLIED)):
        needed = {*own, *(rows.columns[key].name for key in rows.keys)}
        if table is not None and (missing := sorted(needed - set(table.c.keys()))):
            raise rows.fault(f"{option}={table.name!r} lacks column {missing[0]!r}: make it with {option}_table(...)")


def _set_by_odm(entity: type[Entity]) -> set[str]:
    """The fields that a write cannot set."""
    marks = (type(Revision), type(CreatedAt), type(UpdatedAt))
    fields = entity.model_fields.items()
    return {name for name, info in fields if any(isinstance(mark, marks) for mark in info.metadata)}


def _check_columns(rows: Rows[Any]) -> None:
    """Raise if a column cannot be mapped as it is."""
    if own := sorted(_set_by_odm(rows.entity) & {*rows.columns}):
        raise rows.fault(f"odm sets {own[0]!r} by itself, so that it cannot be copied from a row: leave it out")
    if named := [column.key for column in rows.columns.values() if column.key != column.name]:
        raise rows.fault(f"column {named[0]!r} has another name in the database: give it no key=")
    if rows.deleted is not None and not isinstance(rows.deleted.type, Boolean | DateTime):
        raise rows.fault(f"deleted= names a column of type {rows.deleted.type}: it must be a Boolean or a DateTime")


OUTBOX: Final = ("outbox_id", "taken_by", "taken_until")
"""The columns of an outbox next to those of the key."""

APPLIED: Final = ("item_key", "item_position", "item_digest", "item_mark", "item_ends", "row_digest")
"""The columns of a table of what was written back, next to those of the key."""


def _optional_text(rows: Rows[Any]) -> bool:
    """Whether the field of the mark takes a text and None."""
    try:
        view = compiled(rows.entity)
        return view.validate(rows.mark, "a") == "a" and view.validate(rows.mark, None) is None
    except OdmError:
        return False


def _seconds(ttl: timedelta | float | None) -> float | None:
    seconds = ttl.total_seconds() if isinstance(ttl, timedelta) else ttl
    if seconds is not None and (isinstance(seconds, bool) or not 0 < seconds < float("inf")):
        raise BadValue(f"ttl={ttl!r}: give a timedelta or seconds, more than 0")
    return seconds
