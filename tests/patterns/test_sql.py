"""Next to SQL: what is loaded, written back and pushed, in SQLite and in PostgreSQL."""

import asyncio
import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from pathlib import Path
from typing import Annotated, Any
from uuid import UUID

import pytest
import sqlalchemy as sa
from pydantic import BaseModel, Field
from sqlalchemy import event
from sqlalchemy.ext.asyncio import create_async_engine

from odm import (
    AsyncStore,
    BackendError,
    BadValue,
    Entity,
    ItemInvalid,
    PrimaryKey,
    SchemaError,
    Store,
    Table,
    Unsupported,
    set_,
)
from odm.backends.local import Memory
from odm.changes import Changed, Inserted, Removed
from odm.patterns.feed import Feed
from odm.patterns.follower import AsyncFollower, Follower, positions
from odm.patterns.sql import Push, ReadThrough, Rows, WriteBehind, applied_table, outbox_table
from tests.patterns.sql_shop import COLUMNS, Customer, Shop, customers_table, opened, shop

KEY = Customer.primary(customer_id="c1")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    return "sqlite://" if request.param == "sqlite" else request.getfixturevalue("postgresql_url")


@pytest.fixture
def site(url: str) -> Iterator[Shop]:
    with opened(url) as made:
        yield made


def test_an_absent_item_is_loaded_once(site: Shop) -> None:
    site.change("c1", "Ann")
    read = ReadThrough(site.rows)
    loaded = read.get(site.db, site.engine, customer_id="c1")
    assert loaded is not None
    assert (loaded.name, site.db.get(KEY)) == ("Ann", loaded)
    site.change("c1", "Bob")
    with site.db.meter() as meter:
        assert read.get(site.db, site.engine, customer_id="c1") == loaded
    assert meter.calls == 1
    assert read.get(site.db, site.engine, customer_id="c2") is None


def test_what_it_costs(url: str) -> None:
    with opened(url) as site:
        site.change("c1", "Ann")
        statements: list[str] = []
        event.listen(site.engine, "commit", lambda _: statements.append("commit"))

        def cost(call: Callable[[], object]) -> tuple[int, int]:
            statements.clear()
            with site.db.meter() as meter:
                call()
            return meter.calls, len(statements)

        read, push, follower = ReadThrough(site.rows, missing_ttl=9), Push(site.rows), site.follower()
        assert cost(lambda: read.get(site.db, site.engine, customer_id="c1")) == (5, 2)
        assert cost(lambda: read.get(site.db, site.engine, customer_id="c1")) == (1, 0)
        read.get(site.db, site.engine, customer_id="c2")
        assert cost(lambda: read.get(site.db, site.engine, customer_id="c2")) == (1, 0)
        push.drain(site.db, site.engine)
        site.change("c1", "Bob")
        assert cost(lambda: push.drain(site.db, site.engine)) == (2, 3 + 2)  # the entry; taking it, and finding no more
        follower.drain()
        site.db.update(KEY, set_(Customer.name, "Cid"))
        assert cost(follower.poll)[1] == 1


def test_a_loaded_item_expires(url: str) -> None:
    with opened(url, ttl=timedelta(minutes=1)) as site:
        site.change("c1", "Ann")
        read = ReadThrough(site.rows)
        read.get(site.db, site.engine, customer_id="c1")
        site.change("c1", "Bob")
        site.clock[0] += 61
        assert site.db.get(KEY) is None
        site.follower().drain()
        found = read.get(site.db, site.engine, customer_id="c1")
        assert found is not None
        assert found.name == site.row("c1") == "Bob"


def test_that_there_is_no_row_is_remembered_for_a_time(site: Shop) -> None:
    read = ReadThrough(site.rows, missing_ttl=30)
    assert read.get(site.db, site.engine, customer_id="c1") is None
    site.sql(sa.insert(site.rows.table).values(id="c1", name="Ann"))
    with site.db.meter() as meter:
        assert read.get(site.db, site.engine, customer_id="c1") is None
    assert meter.calls == 1
    site.clock[0] += 31
    assert read.get(site.db, site.engine, customer_id="c1") is not None


def test_a_pushed_row_ends_what_is_remembered(site: Shop) -> None:
    read = ReadThrough(site.rows, missing_ttl=30)
    assert read.get(site.db, site.engine, customer_id="c1") is None
    site.change("c1", "Ann")
    Push(site.rows).drain(site.db, site.engine)
    assert read.get(site.db, site.engine, customer_id="c1") is not None


def test_one_program_loads_and_the_others_read_without_storing(site: Shop) -> None:
    """The first has stopped with its lease."""
    site.change("c1", "Ann")
    read = ReadThrough(site.rows, lease=10)
    steps = read._got(site.db, site.engine, {"customer_id": "c1"})
    step: Any = next(steps)
    for _ in range(2):
        step = steps.send(site.db.run(step.procedure))
    steps.close()
    found = read.get(site.db, site.engine, customer_id="c1")
    assert found is not None
    assert (found.name, site.db.get(KEY)) == ("Ann", None)
    site.clock[0] += 11
    assert read.get(site.db, site.engine, customer_id="c1") == site.db.get(KEY) != None  # noqa: E711


def test_changed_items_are_written_once_and_copies_never(site: Shop) -> None:
    site.change("c1", "Ann")
    ReadThrough(site.rows).get(site.db, site.engine, customer_id="c1")
    site.db.put(Customer(customer_id="c2", name="Bob", since=datetime(2026, 5, 1, 12, 30, tzinfo=UTC)))
    follower = site.follower()
    follower.drain()
    assert site.names() == {"c1": "Ann", "c2": "Bob"}
    for name in ("Ann Lee", "Ann", "Anna"):  # back to what was copied, too
        site.db.update(KEY, set_(Customer.name, name))
        follower.drain()
        assert site.row("c1") == name
    site.db.delete(Customer, customer_id="c2")
    follower.drain()
    assert site.names() == {"c1": "Anna"}
    assert Push(site.rows).drain(site.db, site.engine) == 1  # the entry of the first line
    assert site.items() == {"c1": "Anna"}


def test_late_and_repeated_changes_do_nothing(url: str) -> None:
    with opened(url, parts="applied") as site:
        handle = WriteBehind(site.rows).handler(site.engine)
        old, new = Customer(customer_id="c1", name="Ann"), Customer(customer_id="c1", name="Bob")
        first: Inserted[Any] = Inserted(key=("CUSTOMER#c1", ""), new=old, order="1")
        changed: Changed[Any] = Changed(key=first.key, old=old, new=new, order="2")
        removed: Removed[Any] = Removed(key=first.key, order="3")  # a feed without old items
        for changes, name in (
            ([first], "Ann"),
            ([changed, first], "Bob"),
            ([first, changed], "Bob"),
            (first, "Bob"),
            (removed, None),
            ([first, changed], None),
        ):
            handle(changes)
            assert site.row("c1") == name
        handle(Removed(key=("CUSTOMER#c9", ""), order="1"))  # of which nothing is known


def test_a_late_copy_does_not_replace_a_newer_row(url: str) -> None:
    for parts in ("applied", "outbox applied"):
        with opened(url, parts=parts) as site:
            site.change("c1", "Ann")
            ReadThrough(site.rows).get(site.db, site.engine, customer_id="c1")
            site.change("c1", "Bob")
            site.follower().drain()
            assert site.row("c1") == "Bob"


def test_an_expired_item_leaves_its_row(url: str) -> None:
    with opened(url, ttl=60) as site:
        site.change("c1", "Ann")
        item = ReadThrough(site.rows).get(site.db, site.engine, customer_id="c1")
        assert item is not None
        follower = site.follower()
        follower.drain()
        handle = WriteBehind(site.rows).handler(site.engine)
        later = datetime.fromtimestamp(site.clock[0] + 70, UTC)
        key = site.db.key_of(item)
        for change in (
            Removed(key=key, old=item, order="a", expired=True),
            Removed(key=key, old=item, order="b", at=later),
            Removed(key=key, order="c", at=later),  # Bigtable's, without the item
        ):
            handle(change)
            assert site.row("c1") == "Ann"
        handle(Inserted(key=key, new=item, order="ca"))
        handle(Removed(key=key, old=item, order="d", at=later - timedelta(seconds=20)))
        assert site.row("c1") is None


def test_a_row_that_changed_too_wins_if_there_is_an_outbox(site: Shop, caplog: pytest.LogCaptureFixture) -> None:
    site.change("c1", "Ann")
    push, follower = Push(site.rows), site.follower()
    push.drain(site.db, site.engine)
    site.db.update(KEY, set_(Customer.name, "Bob"), set_(Customer.visits, 3))
    site.change("c1", "Cid")
    with caplog.at_level(logging.WARNING, "odm.sql"):
        follower.drain()
    assert site.row("c1") == "Cid"
    assert "were both changed" in caplog.text
    push.drain(site.db, site.engine)
    found = site.db.one(KEY)
    assert (found.name, found.visits) == ("Cid", 3)  # what has no column stays
    assert follower.drain() > 0
    assert site.waiting() == 0


def test_a_push_leaves_newer_items(site: Shop) -> None:
    """Entries of rows that were copied or written back before, as a trigger also inserts them for these."""
    push, follower = Push(site.rows), site.follower()
    site.change("c1", "Ann")
    push.drain(site.db, site.engine)
    site.db.update(KEY, set_(Customer.name, "Bob"))
    site.sql(*site.noted("c1"))
    push.drain(site.db, site.engine)
    assert site.db.one(KEY).name == "Bob"  # based on the row
    follower.drain()
    site.db.update(KEY, set_(Customer.name, "Cid"))
    site.sql(*site.noted("c1"))
    push.drain(site.db, site.engine)
    assert site.db.one(KEY).name == "Cid"  # newer than what was written back
    follower.drain()
    assert site.row("c1") == "Cid"
    site.change("c1", "Ann")  # back to what the item is based on
    push.drain(site.db, site.engine)
    assert site.db.one(KEY).name == "Ann"


def test_items_of_before_the_handler_are_written_back(site: Shop) -> None:
    handle = WriteBehind(site.rows).handler(site.engine)
    site.sql(sa.insert(site.rows.table).values(id="c1", name="Ann"))
    old, new = Customer(customer_id="c1", name="Ann"), Customer(customer_id="c1", name="Bob")
    handle(Changed(key=("CUSTOMER#c1", ""), old=old, new=new, order="1"))
    assert site.row("c1") == "Bob"
    handle(Changed(key=("CUSTOMER#c1", ""), new=old, order="2"))  # a feed without old items
    assert site.row("c1") == "Ann"


def test_what_the_database_changes_is_pushed(url: str) -> None:
    with opened(url) as site:
        site.sql(sa.insert(site.rows.table).values(id="c1", name="Ann"))
        ReadThrough(site.rows).get(site.db, site.engine, customer_id="c1")
        if url == "sqlite://":
            name = site.rows.table.name
            site.sql(
                sa.text(f"CREATE TRIGGER t AFTER UPDATE ON {name} BEGIN UPDATE {name} SET name = upper(new.name); END")
            )
        else:
            site.sql(sa.text(f"ALTER TABLE {site.rows.table.name} ALTER since TYPE timestamptz(0)"))
        at = datetime(2026, 5, 1, 12, 30, 0, 400_000, tzinfo=UTC)
        site.db.update(KEY, set_(Customer.name, "Bob"), set_(Customer.since, at))
        site.follower().drain()
        Push(site.rows).drain(site.db, site.engine)
        found = site.db.one(KEY)
        assert (found.name, found.since) == (("BOB", at) if url == "sqlite://" else ("Bob", at.replace(microsecond=0)))


def test_rows_are_found_by_their_last_change(url: str) -> None:
    with opened(url, parts="", deleted="gone") as site:
        push, table = Push(site.rows, changed="updated", overlap=5), site.rows.table
        site.sql(*(sa.insert(table).values(id=f"c{n:03}", name="Ann", updated=n // 2) for n in range(230)))
        assert push.drain(site.db, site.engine) == 230
        assert len(site.items()) == 230
        assert push.drain(site.db, site.engine) == 12  # the overlap
        site.db.update(Customer.primary(customer_id="c229"), set_(Customer.name, "Bob"))
        assert push.drain(site.db, site.engine) == 12
        assert site.items()["c229"] == "Bob"  # its row has not changed since
        site.sql(sa.update(table).where(table.c.id == "c229").values(name="Cid", updated=115))
        site.sql(sa.update(table).where(table.c.id == "c000").values(gone=True, updated=116))
        push.drain(site.db, site.engine)
        assert site.items()["c229"] == "Cid"
        assert "c000" not in site.items()
        assert ReadThrough(site.rows).get(site.db, site.engine, customer_id="c000") is None


def test_a_column_marks_deleted_rows(url: str) -> None:
    with opened(url, deleted="gone") as site:
        follower, table = site.follower(), site.rows.table
        for gone, name in ((False, "Ann"), (True, None), (False, "Bob")):
            if name is None:
                site.db.delete(Customer, customer_id="c1")
            else:
                site.db.put(Customer(customer_id="c1", name=name))
            follower.drain()
            with site.engine.connect() as connection:
                assert connection.execute(sa.select(table.c.gone)).scalar() is gone


def test_a_row_that_does_not_fit_is_reported_and_does_not_stop_the_others(url: str) -> None:
    table = Table("sql_short")

    class Short(Entity, table=table):
        customer_id: str
        name: Annotated[str, Field(max_length=3)]
        sql: str | None = None

        primary = PrimaryKey("SHORT#{customer_id}")

    with opened(url, parts="outbox") as site:
        db = Store(table, Memory())
        db.create()
        rows = Rows(Short, site.rows.table, {"customer_id": "id", "name": "name"}, outbox=site.rows.outbox)
        site.change("c1", "Annabel")
        site.change("c2", "Bob")
        with pytest.raises(ItemInvalid, match=r"customer_id='c1' does not fit Short: correct the row or the model"):
            Push(rows).drain(db, site.engine)
        assert [item.name for item in db.scan(Short)] == ["Bob"]
        assert site.waiting() == 1
        with pytest.raises(ItemInvalid):
            ReadThrough(rows).get(db, site.engine, customer_id="c1")
        site.change("c1", "Ann")
        Push(rows).drain(db, site.engine)
        assert len(list(db.scan(Short))) == 2


def test_a_program_that_only_follows_knows_the_leases() -> None:
    """They are items of the table too, and are in its feed"""
    library = Table("sql_library")

    class Reader(Entity, table=library):
        reader_id: UUID
        sql: str | None = None

        primary = PrimaryKey("READER#{reader_id}")

    metadata = sa.MetaData()
    readers = sa.Table("readers", metadata, sa.Column("reader_id", sa.String(36), primary_key=True))
    rows = Rows(Reader, readers, applied=applied_table(metadata, readers))
    engine = sa.create_engine("sqlite://")
    metadata.create_all(engine)
    db, state = Store(library, Memory(changes=True)), Store(positions, Memory())
    db.create()
    state.create()
    db.put(rows.leases(name="a", token="b", until=datetime(2999, 1, 1, tzinfo=UTC)))
    db.put(Reader(reader_id=UUID(int=7)))
    feed = Feed(library)
    feed.on_many(Reader)(WriteBehind(rows).handler(engine))
    assert Follower(db, feed, state=state, name="sql").drain() == 2
    with engine.connect() as connection:
        assert connection.execute(sa.select(readers)).all() == [(str(UUID(int=7)),)]
    assert ReadThrough(rows).get(db, engine, reader_id=UUID(int=7)) is not None
    engine.dispose()


class Level(Enum):
    GOLD = "gold"
    TIN = "tin"


class Address(BaseModel):
    city: str
    zips: list[int] = []


account_table = Table("sql_accounts")


class Account(Entity, table=account_table):
    branch: str
    number: int
    balance: Decimal
    rate: float = 0.1
    level: Level = Level.TIN
    kind: Level = Level.TIN
    address: Address | None = None
    tags: set[str] = set()
    photo: bytes = b""
    opened: datetime
    local: datetime | None = None
    active: bool = True
    sql: str | None = None

    primary = PrimaryKey("BRANCH#{branch}", "{number}")


def test_values_of_all_types_come_and_go(url: str) -> None:
    metadata = sa.MetaData()
    accounts = sa.Table(
        f"accounts_{id(metadata)}",
        metadata,
        sa.Column("branch", sa.String, primary_key=True),
        sa.Column("number", sa.BigInteger, primary_key=True, autoincrement=False),
        sa.Column("balance", sa.Numeric(12, 2, asdecimal=True)),
        sa.Column("rate", sa.Double),
        sa.Column("level", sa.Enum(Level, native_enum=False)),
        sa.Column("kind", sa.String),
        sa.Column("address", sa.JSON),
        sa.Column("tags", sa.JSON),
        sa.Column("photo", sa.LargeBinary),
        sa.Column("opened", sa.DateTime(timezone=True)),
        sa.Column("local", sa.DateTime),
        sa.Column("active", sa.Boolean),
    )
    rows = Rows(Account, accounts, outbox=outbox_table(metadata, accounts), applied=applied_table(metadata, accounts))
    engine = sa.create_engine(url)
    metadata.create_all(engine)
    db = Store(account_table, Memory())
    db.create()
    east = datetime.fromisoformat("2026-05-01T12:30:00.123456+05:00")
    account = Account(
        branch="a#b",
        number=7,
        balance=Decimal("10.50"),
        level=Level.GOLD,
        tags={"x", "y"},
        address=Address(city="Rom", zips=[1, 2]),
        photo=b"\x00\xff",
        opened=east,
        local=east,
    )
    handle = WriteBehind(rows).handler(engine)
    handle(Inserted(key=db.key_of(account), new=account, order="1"))
    assert Push(rows).drain(db, engine) == 0  # the row is equal to the item
    loaded = ReadThrough(rows).get(db, engine, branch="a#b", number=7)
    assert loaded is not None
    assert loaded.model_copy(update={"sql": None}) == account
    with pytest.raises(BadValue, match="is not a whole key: give branch, number"):
        ReadThrough(rows).get(db, engine, branch="a#b")
    metadata.drop_all(engine)
    engine.dispose()


def test_it_is_async(tmp_path: Path, postgresql_url: str, url: str) -> None:
    url = f"sqlite+aiosqlite:///{tmp_path / 'shop.db'}" if url == "sqlite://" else postgresql_url
    metadata = sa.MetaData()
    table = customers_table(metadata, f"customers_{id(metadata)}")
    rows = Rows(Customer, table, COLUMNS, outbox=outbox_table(metadata, table), applied=applied_table(metadata, table))

    async def work() -> tuple[Any, ...]:
        engine = create_async_engine(url)
        async with engine.begin() as connection:
            await connection.run_sync(metadata.create_all)
            await connection.execute(sa.insert(table).values(id="c1", name="Ann"))
            await connection.execute(sa.insert(rows.outbox).values(id="c1"))  # type: ignore[arg-type]
        async with AsyncStore(shop, Memory(changes=True)) as db, AsyncStore(positions, Memory()) as state:
            await db.create()
            await state.create()
            feed = Feed(shop)
            feed.on_many(Customer)(WriteBehind(rows).handler(engine))
            found = await ReadThrough(rows).aget(db, engine, customer_id="c1")
            pushed = await Push(rows).adrain(db, engine)
            await db.update(KEY, set_(Customer.name, "Bob"))
            await AsyncFollower(db, feed, state=state, name="sql").drain()
            async with engine.begin() as connection:
                name = (await connection.execute(sa.select(table.c.name))).scalar()
                await connection.run_sync(metadata.drop_all)
            with pytest.raises(BackendError, match="the SQL database refused a statement"):
                await Push(rows).adrain(db, engine)
        await engine.dispose()
        return found.name if found else None, pushed, name

    assert asyncio.run(work()) == ("Ann", 1, "Bob")


def test_what_does_not_fit_is_refused() -> None:
    metadata = sa.MetaData()
    table = customers_table(metadata, "customers")
    other = sa.Table("other", metadata, sa.Column("name", sa.String), sa.Column("id", sa.String))
    lacking = sa.Table("lacking", metadata, sa.Column("id", sa.String, primary_key=True))
    strict = sa.Table(
        "strict", metadata, *(column._copy() for column in table.c), sa.Column("x", sa.Integer, nullable=False)
    )

    class Plain(Entity, table=Table("sql_plain")):
        customer_id: str
        name: str
        sql: str = ""

        primary = PrimaryKey("PLAIN#{customer_id}")

    columns = {"customer_id": "id", "name": "name"}
    applied = applied_table(metadata, table)
    badly_declared: list[tuple[Callable[[], object], str]] = [
        (lambda: Rows(Customer, table, {"nam": "name"}), r"columns= has 'nam', but Customer has no such field"),
        (lambda: Rows(Customer, table, {"name": "nam"}), r"'name' is mapped to 'nam', but the table has only id, name"),
        (lambda: Rows(Customer, table, {"customer_id": "id"}), r"field 'name' is required, but no column is mapped"),
        (lambda: Rows(Customer, table, columns | {"since": "name"}), r"column 'name' is mapped to several fields"),
        (lambda: Rows(Customer, other, columns), r"SQL primary key are \(no columns\), and those of"),
        (
            lambda: Rows(Customer, table, {"name": "name", "customer_id": "updated"}),
            r"SQL primary key are id, and those",
        ),
        (lambda: Rows(Customer, table, columns, mark="visits"), r"mark='visits' names a field of its own"),
        (lambda: Rows(Customer, table, columns, mark="nope"), r'add "nope: str \| None = None" to Customer'),
        (lambda: Rows(Plain, table, columns), r"mark='sql' names a field of its own"),
        (lambda: Rows(Plain, table, columns, mark="sql", ttl=5), r"mark='sql' names a field"),
        (lambda: Rows(Customer, table, columns, outbox=lacking), r"outbox='lacking' lacks column 'outbox_id'"),
        (lambda: Rows(Customer, table, columns, deleted="nope"), r"'deleted=' is mapped to 'nope'"),
        (
            lambda: WriteBehind(Rows(Customer, strict, columns, applied=applied)),
            r"column 'x' is NOT NULL",
        ),
        (lambda: Push(Rows(Customer, table, columns), changed="nope"), r"changed='nope': the table has only"),
    ]
    for make, message in badly_declared:
        with pytest.raises(SchemaError, match=message):
            make()
    rows = Rows(Customer, table, columns, applied=applied)
    db, engine = Store(shop, Memory()), sa.create_engine("sqlite://")
    unfit, other_engine = sa.create_mock_engine("sqlite://", print), create_async_engine("sqlite+aiosqlite://")
    badly_called: list[tuple[Callable[[], object], str]] = [
        (lambda: Rows(Customer, "customers"), r"pass an entity class and a Table of SQLAlchemy"),  # type: ignore[arg-type]
        (lambda: Rows(Customer, table, columns, ttl=0), r"ttl=0: give a timedelta or seconds, more than 0"),
        (lambda: WriteBehind(Rows(Customer, table, columns)), r"applied=applied_table\(...\)\): it orders the changes"),
        (lambda: ReadThrough(Customer), r"ReadThrough\(<class .*Customer'>\): pass Rows\(...\)"),  # type: ignore[arg-type]
        (lambda: ReadThrough(rows, lease=0), r"lease=0\): give seconds, more than 0"),
        (lambda: Push(Rows(Customer, table, columns)), r"give changed=, or Rows\(..., outbox=...\)"),
        (lambda: Push(rows, changed="updated"), r"next to write-behind it needs Rows\(..., outbox=...\)"),
        (lambda: Push(rows, changed="updated", overlap=-1), r"next to write-behind|overlap=-1"),
        (lambda: ReadThrough(rows).get(db, unfit, customer_id="a"), r"is not an engine"),  # type: ignore[arg-type]
        (lambda: ReadThrough(rows).get(db, other_engine, customer_id="a"), r"use AsyncStore"),  # type: ignore[arg-type]
        (lambda: ReadThrough(rows).get(db, engine), r"needs 'customer_id'"),
        (lambda: outbox_table(metadata, other), r"table 'other' has no primary key"),
        (
            lambda: WriteBehind(rows).handler(engine)(Changed(key=("CUSTOMER#a", ""), order="1")),
            r"has no item: enable a feed with old and new images",
        ),
    ]
    for make, message in badly_called:
        with pytest.raises(BadValue, match=message):
            make()


def test_another_database_is_not_supported() -> None:
    metadata = sa.MetaData()
    table = customers_table(metadata, "customers")
    rows = Rows(Customer, table, COLUMNS, applied=applied_table(metadata, table))
    engine = sa.create_engine("sqlite://")
    engine.dialect.name = "other"
    with pytest.raises(Unsupported, match="other is not supported"):
        WriteBehind(rows).handler(engine)
