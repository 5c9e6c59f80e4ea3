"""A customer from SQL: the customers are in a relational database, and the shop reads and changes them as items.

An item is loaded from its row when it is first read. A follower of the change feed writes changed items to their rows.
Programs that know only SQL change rows: triggers note the keys in an outbox, and a drain sends the rows to the table.
Copies are never written back, although the triggers also note the rows that the follower writes.

Here the database is SQLite in a temporary folder; with PostgreSQL only the URL and the triggers differ.
"""

import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import sqlalchemy as sa

from odm import Entity, PrimaryKey, Store, Table, increment, set_
from odm.backends.local import LocalFile
from odm.patterns.feed import Feed
from odm.patterns.follower import Follower, positions
from odm.patterns.sql import Push, ReadThrough, Rows, WriteBehind, applied_table, outbox_table

shop = Table("customer_from_sql")


class Customer(Entity, table=shop):
    """A customer, whose name and city have columns; only the item has the visits."""

    customer_id: str
    name: str
    city: str | None = None
    visits: int = 0
    sql: str | None = None

    primary = PrimaryKey("CUSTOMER#{customer_id}")


metadata = sa.MetaData()
customers = sa.Table(
    "customers",
    metadata,
    sa.Column("id", sa.String, primary_key=True),
    sa.Column("name", sa.String, nullable=False),
    sa.Column("city", sa.String),
)
outbox = outbox_table(metadata, customers)
rows = Rows(
    Customer,
    customers,
    {"customer_id": "id", "name": "name", "city": "city"},
    outbox=outbox,
    applied=applied_table(metadata, customers),
)
TRIGGERS = [
    f"CREATE TRIGGER on_{event} AFTER {event} ON customers BEGIN INSERT INTO {outbox.name} (id) VALUES ({row}.id); END"
    for event, row in (("INSERT", "new"), ("UPDATE", "new"), ("DELETE", "old"))
]


@contextmanager
def opened(folder: str) -> Iterator[tuple[sa.Engine, Store, Store]]:
    """The SQL database with three customers, the table, and the store of the follower's positions."""
    engine = sa.create_engine(f"sqlite:///{folder}/customers.db")
    metadata.create_all(engine)
    backend = LocalFile(Path(folder, "shop.db"), changes=True)
    with Store(shop, backend) as db, Store(positions, backend) as state:
        db.create()
        state.create()
        with engine.begin() as connection:
            for trigger in TRIGGERS:
                connection.execute(sa.text(trigger))
            names = [{"id": "c1", "name": "Ann"}, {"id": "c2", "name": "Bob"}, {"id": "c3", "name": "Cid"}]
            connection.execute(customers.insert(), names)
        yield engine, db, state
    engine.dispose()


def shown(engine: sa.Engine) -> list[str]:
    """The rows, as text."""
    with engine.begin() as connection:
        return [f"{row.name} of {row.city}" for row in connection.execute(customers.select().order_by(customers.c.id))]


def main() -> dict[str, list[str]]:
    """Load a customer, change it, mirror it to SQL, and change rows in SQL; returns what each side has."""
    with tempfile.TemporaryDirectory() as folder, opened(folder) as (engine, db, state):
        ann = ReadThrough(rows, missing_ttl=60).get(db, engine, customer_id="c1")
        assert ann is not None
        loaded = [item.name for item in db.scan(Customer)]

        feed = Feed(shop)
        feed.on_many(Customer)(WriteBehind(rows).handler(engine))
        follower, push = Follower(db, feed, state=state, name="to-sql"), Push(rows)
        db.update(ann, set_(Customer.city, "Rome"), increment(Customer.visits))
        follower.drain()
        mirrored = shown(engine)

        with engine.begin() as connection:  # another program, which knows only SQL
            connection.execute(customers.update().where(customers.c.id == "c1").values(name="Anna"))
            connection.execute(customers.delete().where(customers.c.id == "c3"))
        while push.drain(db, engine) or follower.drain():
            pass
        items = sorted(db.scan(Customer), key=lambda item: item.customer_id)
        assert shown(engine) == [f"{item.name} of {item.city}" for item in items]
        return {
            "loaded": loaded,
            "mirrored to SQL": mirrored,
            "in the table": [f"{item.name} of {item.city}, {item.visits} visits" for item in items],
        }


if __name__ == "__main__":
    for question, answer in main().items():
        print(f"{question}: {', '.join(answer)}")
