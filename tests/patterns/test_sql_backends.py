"""Next to SQL on every backend: an item is loaded, written back, pushed over and deleted, on the servers themselves."""

import asyncio
from pathlib import Path

import pytest
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import create_async_engine

from odm import AsyncStore, set_
from odm.backends.local import Memory
from odm.patterns.feed import Feed
from odm.patterns.follower import AsyncFollower, positions
from odm.patterns.sql import Push, ReadThrough, Rows, WriteBehind, applied_table, outbox_table
from odm.protocol.connection import Backend
from tests.patterns.sql_shop import COLUMNS, Customer, customers_table, opened, shop
from tests.patterns.with_feed import with_feed

KEY = Customer.primary(customer_id="c1")


@pytest.fixture(params=["file", "moto_server", "dynamodb_local", "bigtable", "wide"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Backend:
    return with_feed(request, tmp_path)


def test_items_and_rows_follow_each_other(backend: Backend) -> None:
    with opened("sqlite://", backend) as site:
        site.change("c1", "Ann")
        read, push, follower = ReadThrough(site.rows, missing_ttl=60), Push(site.rows), site.follower()
        assert read.get(site.db, site.engine, customer_id="c2") is None
        assert read.get(site.db, site.engine, customer_id="c2") is None
        loaded = read.get(site.db, site.engine, customer_id="c1")
        assert loaded is not None
        follower.drain()
        site.db.update(loaded, set_(Customer.name, "Bob"), set_(Customer.visits, 2))
        follower.drain()
        assert site.names() == {"c1": "Bob"}
        site.change("c1", "Cid")
        site.change("c2", "Dan")
        push.drain(site.db, site.engine)
        assert site.items() == {"c1": "Cid", "c2": "Dan"}
        assert site.db.one(KEY).visits == 2
        follower.drain()  # on Bigtable it writes back the deletes only of items that it has seen
        site.db.delete(Customer, customer_id="c1")
        site.change("c2", None)
        push.drain(site.db, site.engine)
        follower.drain()
        push.drain(site.db, site.engine)
        assert site.names() == site.items() == {}
        assert site.waiting() == 0
        site.db.drop()


@pytest.mark.full
def test_async_items_and_rows_follow_each_other(backend: Backend, tmp_path: Path) -> None:
    metadata = sa.MetaData()
    table = customers_table(metadata, "customers")
    outbox, applied = outbox_table(metadata, table), applied_table(metadata, table)
    rows = Rows(Customer, table, COLUMNS, outbox=outbox, applied=applied)

    async def work() -> None:
        engine = create_async_engine(f"sqlite+aiosqlite:///{tmp_path / 'sql.db'}")
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
            await connection.execute(sa.insert(table).values(id="c1", name="Ann"))
        async with AsyncStore(shop, backend) as db, AsyncStore(positions, Memory()) as state:
            await db.create()
            await state.create()
            feed = Feed(shop)
            feed.on_many(Customer)(WriteBehind(rows).handler(engine))
            assert await ReadThrough(rows).aget(db, engine, customer_id="c1") is not None
            await db.update(KEY, set_(Customer.name, "Bob"))
            await AsyncFollower(db, feed, state=state, name="sql").drain()
            async with engine.begin() as connection:
                assert (await connection.execute(sa.select(table.c.name))).scalar() == "Bob"
                await connection.execute(sa.update(table).values(name="Cid"))
                await connection.execute(sa.insert(outbox).values(id="c1"))
            await Push(rows).adrain(db, engine)
            assert (await db.one(KEY)).name == "Cid"
            await db.drop()
        await engine.dispose()

    asyncio.run(work())
