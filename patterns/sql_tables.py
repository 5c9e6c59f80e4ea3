"""The tables that `odm.patterns.sql` adds to a SQL database, and its reads and writes there.

They run as functions of a connection, in a transaction each: of an `sqlalchemy.Engine` directly, of an `AsyncEngine` in
its ``run_sync``.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, TypeAlias, TypeVar

from attrs import frozen
from sqlalchemy import (
    BigInteger,
    Boolean,
    Column,
    Connection,
    Engine,
    Float,
    Integer,
    MetaData,
    String,
    Table,
    and_,
    delete,
    func,
    insert,
    literal,
    select,
    update,
)
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import SQLAlchemyError
from sqlalchemy.ext.asyncio import AsyncEngine
from sqlalchemy.sql import ColumnElement

from odm import AsyncStore, BackendError, BadValue, ItemInvalid, OdmError, Store, Unsupported
from odm.patterns.sql_rows import ABSENT, Rows
from odm.patterns.two_stores import Ask, Call, Step

R = TypeVar("R")

EitherEngine: TypeAlias = Engine | AsyncEngine
Key: TypeAlias = Mapping[str, Any]
"""The values of the columns of a row's primary key, by column name."""

_INSERTS: Final[Mapping[str, Any]] = {"sqlite": sqlite.insert, "postgresql": postgresql.insert}


def outbox_table(metadata: MetaData, of: Table, name: str | None = None) -> Table:
    """Define a table of the keys of changed rows, which each program that changes a row inserts in its transaction.

    An entry has the key of the row alone; a trigger can insert it too. `odm.patterns.sql.Push` deletes it afterwards.

    Args:
        metadata: where the table is defined; ``metadata.create_all(engine)`` creates it.
        of: the table whose rows change.
        name: its name. Default: that of the other table with ``_outbox``.

    Returns:
        The table, to be given to `odm.patterns.sql.Rows`.

    Raises:
        BadValue: the other table has no primary key.
    """
    number = BigInteger().with_variant(Integer(), "sqlite")  # SQLite numbers only an INTEGER by itself
    return Table(
        name or f"{of.name}_outbox",
        metadata,
        Column("outbox_id", number, primary_key=True, autoincrement=True),
        *_key_columns(of),
        Column("taken_by", String(32)),
        Column("taken_until", Float()),
        schema=of.schema,
    )


def applied_table(metadata: MetaData, of: Table, name: str | None = None) -> Table:
    """Define a table of what `odm.patterns.sql.WriteBehind` last wrote: a row for each item.

    Args:
        metadata: where the table is defined; ``metadata.create_all(engine)`` creates it.
        of: the table that is written.
        name: its name. Default: that of the other table with ``_applied``.

    Returns:
        The table, to be given to `odm.patterns.sql.Rows`.

    Raises:
        BadValue: the other table has no primary key.
    """
    return Table(
        name or f"{of.name}_applied",
        metadata,
        *_key_columns(of, primary_key=True),
        Column("item_key", String(), index=True, nullable=False),
        Column("item_position", String(), nullable=False),
        Column("item_digest", String(24), nullable=False),
        Column("item_mark", String(64)),
        Column("item_ends", Float()),
        Column("row_digest", String(24)),
        schema=of.schema,
    )


def _key_columns(of: Table, **options: Any) -> list[Column[Any]]:
    if not list(of.primary_key):
        raise BadValue(f"table {of.name!r} has no primary key: declare its columns with primary_key=True")
    return [
        Column(column.name, column.type, nullable=False, autoincrement=False, **options) for column in of.primary_key
    ]


def sql(rows: Rows[Any], engine: EitherEngine, work: Callable[[Connection], R]) -> Step:
    """The step that does work in a transaction; the answer is its result."""
    if isinstance(engine, AsyncEngine):
        return Ask(lambda: _awork(rows, engine, work))
    return Call(lambda: _work(rows, engine, work))


def _work(rows: Rows[Any], engine: Engine, work: Callable[[Connection], R]) -> R:
    try:
        with engine.begin() as connection:
            return work(connection)
    except OdmError:
        raise
    except _ERRORS as error:
        raise _failed(rows, error) from error


async def _awork(rows: Rows[Any], engine: AsyncEngine, work: Callable[[Connection], R]) -> R:
    try:
        async with engine.begin() as connection:
            return await connection.run_sync(work)
    except OdmError:
        raise
    except _ERRORS as error:
        raise _failed(rows, error) from error


_ERRORS: Final = (SQLAlchemyError, LookupError, ValueError, TypeError, ArithmeticError)
"""What SQLAlchemy raises; the errors of Python are those of values that it or the driver cannot convert."""


def _failed(rows: Rows[Any], error: Exception) -> BackendError:
    return BackendError(f"{rows!r}: the SQL database refused a statement or a value, or did not answer: {error}")


def check_store(rows: Rows[Any], store: object, *, sync: bool) -> None:
    """Raise BadValue for a store of the other mode, or for anything else."""
    if not isinstance(store, Store if sync else AsyncStore):
        raise BadValue(f"{rows!r}: {store!r} is not {'a Store' if sync else 'an AsyncStore'}, which this call needs")


def check_engine(rows: Rows[Any], engine: object, *, sync: bool) -> None:
    """Raise if an engine cannot be used.

    Raises:
        BadValue: it is not an engine, or an async one in a sync call.
        Unsupported: it is of another database than SQLite and PostgreSQL.
    """
    if not isinstance(engine, Engine | AsyncEngine):
        raise BadValue(f"{rows!r}: {engine!r} is not an engine: pass what create_engine or create_async_engine returns")
    if sync and isinstance(engine, AsyncEngine):
        raise BadValue(f"{rows!r}: a sync call cannot use {engine!r}: pass a sync engine, or use AsyncStore")
    if engine.dialect.name not in _INSERTS:
        raise Unsupported(
            f"{rows!r}: {engine.dialect.name} is not supported, because its statements that insert a row unless it "
            "exists differ: use SQLite or PostgreSQL"
        )


@frozen
class RowState:
    """A row and what was last written back, at one instant.

    Attributes:
        item: the item of the row, without a mark; None: there is no row, or it does not fit.
        digest: of the row; `ABSENT` without one.
        seen: the digest of the last item that `odm.patterns.sql.WriteBehind` handled; None: it handled none.
        synced: the digest of the row when it last was equal to that item; None: unknown, or it was not equal.
        wrong: why the row does not fit the entity.
    """

    item: Any
    digest: str
    seen: str | None = None
    synced: str | None = None
    wrong: ItemInvalid | None = None


def find(rows: Rows[Any], key: Key) -> Callable[[Connection], RowState]:
    """Read a row and what was last written back in one statement, so that they belong together."""
    single = select(literal(1).label("one")).subquery()
    selected = _named(rows.table)
    source = single.outerjoin(rows.table, matches(rows.table, key))
    if rows.applied is not None:
        selected += [rows.applied.c.item_digest.label("odm_seen"), rows.applied.c.row_digest.label("odm_left")]
        source = source.outerjoin(rows.applied, matches(rows.applied, key))
    statement = select(*selected).select_from(source)

    def work(connection: Connection) -> RowState:
        (row,) = rows_of(connection.execute(statement).mappings())
        return row_state(rows, row, row.get("odm_seen"), row.get("odm_left"))

    return work


def row_state(
    rows: Rows[Any], row: Mapping[str, Any] | None, seen: str | None = None, synced: str | None = None
) -> RowState:
    """What a row and a record of what was written back mean."""
    absent = row is None or any(row[column.name] is None for column in rows.table.primary_key)
    if row is None or absent or (rows.deleted is not None and row[rows.deleted.name]):
        return RowState(None, ABSENT, seen, synced)
    try:
        item = rows.item(row)
    except ItemInvalid as error:
        return RowState(None, "invalid", seen, synced, error)
    return RowState(item, rows.digest(item), seen, synced)


def matches(table: Table, key: Key) -> ColumnElement[bool]:
    """The condition that a row has this key."""
    return and_(*(table.c[name] == value for name, value in key.items()))


def locked(connection: Connection, table: Table, key: Key) -> Mapping[str, Any] | None:
    """Read a row and lock it until the transaction ends; SQLite locks the whole database with its first write."""
    statement = select(*_named(table)).where(matches(table, key)).with_for_update()
    rows = rows_of(connection.execute(statement).mappings())
    return rows[0] if rows else None


def rows_of(mappings: Iterable[Mapping[Any, Any]]) -> list[Mapping[str, Any]]:
    """The rows of ``Result.mappings()``, by the names of their columns."""
    return [{str(name): value for name, value in row.items()} for row in mappings]


def _named(table: Table) -> list[Any]:
    """The columns of a table, by their names in the database."""
    return [column.label(column.name) for column in table.c]


def insert_new(connection: Connection, table: Table, values: Mapping[str, Any]) -> bool:
    """Insert a row unless its key is in use; returns whether it was inserted."""
    statement = _INSERTS[connection.dialect.name](table).values(dict(values))
    statement = statement.on_conflict_do_nothing(index_elements=list(table.primary_key))
    return connection.execute(statement).rowcount > 0


def write_row(connection: Connection, rows: Rows[Any], item: Any, *, exists: bool) -> bool:
    """Make a row equal to an item; returns False if another program inserted it first."""
    values = rows.values(item)
    if rows.deleted is not None:
        values[rows.deleted.name] = False if isinstance(rows.deleted.type, Boolean) else None
    if not exists:
        return insert_new(connection, rows.table, values)
    key = {name: values[name] for name in (column.name for column in rows.table.primary_key)}
    connection.execute(update(rows.table).where(matches(rows.table, key)).values(values))
    return True


def delete_row(connection: Connection, rows: Rows[Any], key: Key) -> None:
    """Delete a row, or mark it as deleted."""
    where = matches(rows.table, key)
    if rows.deleted is None:
        connection.execute(delete(rows.table).where(where))
        return
    value = True if isinstance(rows.deleted.type, Boolean) else func.now()
    connection.execute(update(rows.table).where(where).values({rows.deleted.name: value}))


def add_to_outbox(connection: Connection, rows: Rows[Any], key: Key) -> None:
    """Have a row pushed again."""
    if rows.outbox is not None:
        connection.execute(insert(rows.outbox).values(dict(key)))
