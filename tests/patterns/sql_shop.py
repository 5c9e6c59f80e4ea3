"""Customers in a SQL database and in a table, and who changes them; for the tests of `odm.patterns.sql`."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from typing import Annotated, Any
from uuid import uuid4

import sqlalchemy as sa
from attrs import define

from odm import TTL, Entity, PrimaryKey, Store, Table
from odm.backends.local import Memory
from odm.patterns.feed import Feed
from odm.patterns.follower import Follower, positions
from odm.patterns.sql import Rows, WriteBehind, applied_table, outbox_table
from odm.protocol.connection import Backend

shop = Table("sql_shop")


class Customer(Entity, table=shop):
    customer_id: str
    name: str
    visits: int = 0  # without a column
    since: datetime | None = None
    sql: str | None = None
    expires_at: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("CUSTOMER#{customer_id}")


COLUMNS = {"customer_id": "id", "name": "name", "since": "since"}
NOW = datetime(2100, 1, 1, tzinfo=UTC).timestamp()


def customers_table(metadata: sa.MetaData, name: str) -> sa.Table:
    return sa.Table(
        name,
        metadata,
        sa.Column("id", sa.String(20), primary_key=True),
        sa.Column("name", sa.String(20), nullable=False),
        sa.Column("since", sa.DateTime(timezone=True)),
        sa.Column("updated", sa.Integer),
        sa.Column("gone", sa.Boolean, server_default=sa.false()),
    )


@define
class Shop:
    """A SQL database and a table next to it, with their clock."""

    engine: sa.Engine
    rows: Rows[Customer]
    db: Store
    state: Store
    clock: list[float]

    def sql(self, *statements: Any) -> None:
        """Run statements in a transaction."""
        with self.engine.begin() as connection:
            for statement in statements:
                connection.execute(statement)

    def row(self, customer_id: str) -> str | None:
        """The name in a row; None: there is none."""
        table = self.rows.table
        with self.engine.connect() as connection:
            name: str | None = connection.execute(sa.select(table.c.name).where(table.c.id == customer_id)).scalar()
            return name

    def names(self) -> dict[str, str]:
        """The names in all rows."""
        with self.engine.connect() as connection:
            return {row.id: row.name for row in connection.execute(sa.select(self.rows.table))}

    def items(self) -> dict[str, str]:
        """The names in all items."""
        return {item.customer_id: item.name for item in self.db.scan(Customer)}

    def change(self, customer_id: str, name: str | None) -> None:
        """Change a row as another program does, with its entry in the outbox."""
        table, entry = self.rows.table, self.noted(customer_id)
        gone = sa.delete(table).where(table.c.id == customer_id)
        if name is None:
            self.sql(gone, *entry)
        elif self.row(customer_id) is None:
            self.sql(sa.insert(table).values(id=customer_id, name=name), *entry)
        else:
            self.sql(sa.update(table).where(table.c.id == customer_id).values(name=name), *entry)

    def noted(self, customer_id: str) -> list[Any]:
        """The entry of a change in the outbox."""
        return [] if self.rows.outbox is None else [sa.insert(self.rows.outbox).values(id=customer_id)]

    def waiting(self) -> int:
        """How many entries the outbox has."""
        assert self.rows.outbox is not None
        with self.engine.connect() as connection:
            return len(connection.execute(sa.select(self.rows.outbox)).all())

    def follower(self) -> Follower:
        """A follower that writes changed items to SQL."""
        feed = Feed(shop)
        feed.on_many(Customer)(WriteBehind(self.rows).handler(self.engine))
        return Follower(self.db, feed, state=self.state, name="sql", size=3)


@contextmanager
def opened(
    url: str, backend: Backend | None = None, *, parts: str = "outbox applied", **options: Any
) -> Iterator[Shop]:
    """A shop with tables of its own, which are dropped afterwards.

    Args:
        url: of the SQL database.
        backend: of the items; default: a `Memory` with a feed.
        parts: the tables next to that of the customers.
        options: of the `Rows`.
    """
    engine = sa.create_engine(url)
    metadata = sa.MetaData()
    table = customers_table(metadata, f"customers_{uuid4().hex[:10]}")
    makers = {"outbox": outbox_table, "applied": applied_table}
    options |= {part: makers[part](metadata, table) for part in parts.split()}
    clock = [NOW]
    db = Store(shop, backend or Memory(changes=True), clock=lambda: clock[0])
    state = Store(positions, Memory())
    rows = Rows(Customer, table, COLUMNS, **options)
    metadata.create_all(engine)
    db.create()
    state.create()
    try:
        yield Shop(engine, rows, db, state, clock)
    finally:
        metadata.drop_all(engine)
        engine.dispose()
        db.close()
        state.close()
