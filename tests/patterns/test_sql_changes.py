"""Next to SQL: whose change it was, and values and rows that databases treat in ways of their own."""

from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from enum import Enum
from typing import Annotated, Any
from uuid import uuid4

import pytest
import sqlalchemy as sa
from pydantic import Field

from odm import (
    AUTO,
    AsyncStore,
    BackendError,
    BadValue,
    Entity,
    PrimaryKey,
    SchemaError,
    Store,
    Table,
    UpdatedAt,
    increment,
)
from odm.backends.local import Memory
from odm.changes import Inserted, Removed
from odm.patterns.sql import Push, ReadThrough, Rows, WriteBehind, applied_table, outbox_table
from odm.patterns.sql_values import plain
from tests.patterns.sql_shop import Customer, opened, shop

KEY = Customer.primary(customer_id="c1")


class Level(Enum):
    LOW = "low"


users = Table("sql_users")


class User(Entity, table=users):
    id: str
    email: str = Field("none", alias="mail")
    level: Level | None = None
    changed: Annotated[datetime, UpdatedAt] = AUTO
    sql: str | None = None

    primary = PrimaryKey("USER#{id}")


@pytest.fixture(params=["sqlite", "postgresql"])
def url(request: pytest.FixtureRequest) -> str:
    return "sqlite://" if request.param == "sqlite" else request.getfixturevalue("postgresql_url")


def user_table(metadata: sa.MetaData) -> sa.Table:
    return sa.Table(
        f"users_{uuid4().hex[:9]}",
        metadata,
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("email", sa.String, unique=True),
        sa.Column("level", sa.Enum(Level, native_enum=False, create_constraint=False)),
        sa.Column("changed", sa.DateTime, server_default=sa.func.now()),
    )


@contextmanager
def made(metadata: sa.MetaData, url: str) -> Iterator[sa.Engine]:
    engine = sa.create_engine(url)
    metadata.create_all(engine)
    try:
        yield engine
    finally:
        metadata.drop_all(engine)
        engine.dispose()


def test_a_row_that_comes_back_is_not_deleted_for_the_push_that_followed_its_delete(url: str) -> None:
    with opened(url) as site:
        push, follower = Push(site.rows), site.follower()
        for name in ("Ann", None, "Ann"):
            site.change("c1", name)
            push.drain(site.db, site.engine)
            if name is not None:
                follower.drain()
        while push.drain(site.db, site.engine) or follower.drain():
            pass
        assert site.names() == site.items() == {"c1": "Ann"}


@pytest.mark.parametrize("parts", ["outbox applied", "applied"])
def test_a_copy_that_was_deleted_can_be_put_again(url: str, parts: str) -> None:
    with opened(url, parts=parts) as site:
        follower = site.follower()
        site.change("c1", "Ann")
        copy = ReadThrough(site.rows).get(site.db, site.engine, customer_id="c1")
        assert copy is not None
        follower.drain()
        site.db.delete(copy)
        follower.drain()
        assert site.names() == {}
        site.db.put(copy)
        for _ in range(3):
            follower.drain()
            if site.rows.outbox is not None:
                Push(site.rows).drain(site.db, site.engine)
        assert site.names() == site.items() == {"c1": "Ann"}


def test_a_change_of_other_fields_leaves_a_newer_row(url: str) -> None:
    with opened(url, parts="applied") as site:
        follower = site.follower()
        site.change("c1", "Ann")
        ReadThrough(site.rows).get(site.db, site.engine, customer_id="c1")
        follower.drain()
        site.change("c1", "Bob")
        site.db.update(KEY, increment(Customer.visits))
        follower.drain()
        assert site.names() == {"c1": "Bob"}


def test_an_item_with_a_time_of_its_own_leaves_its_row_when_it_expires(url: str) -> None:
    with opened(url) as site:
        handle = WriteBehind(site.rows).handler(site.engine)
        key, ends = ("CUSTOMER#c1", ""), datetime(2026, 1, 1, tzinfo=UTC)
        item = Customer(customer_id="c1", name="Ann", expires_at=ends)
        handle(Inserted(key=key, new=item, order="1"))
        handle(Removed(key=key, order="2", at=ends + timedelta(days=1)))  # a feed without old items
        assert site.row("c1") == "Ann"
        handle(Inserted(key=key, new=item, order="3"))
        handle(Removed(key=key, order="4", at=ends - timedelta(days=1)))
        assert site.row("c1") is None


def test_a_delete_after_a_push_has_deleted_is_written_back(url: str) -> None:
    """On a feed without old items, as Bigtable's: an item that an application put later was not deleted by the push."""
    with opened(url) as site:
        handle, key = WriteBehind(site.rows).handler(site.engine), ("CUSTOMER#c1", "")
        leaving = Customer(customer_id="c1", name="Ann", sql="gone.1")
        handle(Inserted(key=key, new=leaving, order="1"))
        handle(Removed(key=key, order="2"))
        handle(Inserted(key=key, new=Customer(customer_id="c1", name="Bob"), order="3"))
        assert site.row("c1") == "Bob"
        handle(Removed(key=key, order="4"))
        assert site.row("c1") is None


def test_that_a_row_is_absent_is_not_remembered_longer_than_a_copy_is_kept(url: str) -> None:
    with opened(url, ttl=60) as site:
        read = ReadThrough(site.rows, missing_ttl=3600)
        assert read.get(site.db, site.engine, customer_id="c1") is None
        site.change("c1", "Ann")
        Push(site.rows).drain(site.db, site.engine)
        site.clock[0] += 61
        assert read.get(site.db, site.engine, customer_id="c1") is not None


def test_a_row_that_sqlalchemy_cannot_read_does_not_stop_the_others(url: str) -> None:
    metadata = sa.MetaData()
    table = user_table(metadata)
    rows = Rows(User, table, {"id": "id", "level": "level"}, outbox=outbox_table(metadata, table))
    with made(metadata, url) as engine, Store(users, Memory()) as db:
        db.create()
        with engine.begin() as connection:
            connection.execute(sa.text(f"INSERT INTO {table.name} (id, level) VALUES ('1', 'no'), ('2', 'LOW')"))
            connection.execute(sa.text(f"INSERT INTO {table.name}_outbox (id) VALUES ('1'), ('2')"))
        with pytest.raises(BackendError, match="'no' is not among"):
            Push(rows).drain(db, engine)
        assert [item.id for item in db.scan(User)] == ["2"]


def test_a_row_that_the_database_refuses_is_reported_as_that(url: str) -> None:
    metadata = sa.MetaData()
    table = user_table(metadata)
    rows = Rows(User, table, {"id": "id", "email": "email"}, applied=applied_table(metadata, table))
    with made(metadata, url) as engine:
        with engine.begin() as connection:
            connection.execute(table.insert().values(id="1", email="a@b"))
        new: Any = User(id="2", mail="a@b")
        with pytest.raises(BackendError, match=r"(?i)unique"):
            WriteBehind(rows).handler(engine)(Inserted(key=("USER#2", ""), new=new, order="1"))


def test_rows_of_one_second_are_all_found(url: str) -> None:
    """The time is the database's own; SQLite's has no fraction, and its drivers compare texts."""
    metadata = sa.MetaData()
    table = user_table(metadata)
    rows = Rows(User, table, {"id": "id", "email": "email"})
    with made(metadata, url) as engine, Store(users, Memory()) as db:
        db.create()
        with engine.begin() as connection:
            connection.execute(table.insert(), [{"id": f"u{number:03}", "email": str(number)} for number in range(250)])
        push = Push(rows, changed="changed", overlap=0)
        assert push.drain(db, engine) == 250
        assert len(list(db.scan(User))) == 250
        assert push.drain(db, engine) == 250  # those of the last second


def test_values_are_compared_exactly() -> None:
    digits = Decimal(1234567890123456789012345678901)
    assert plain(digits) != plain(digits + 1)
    assert plain(Decimal("1.50")) == plain(Decimal("1.5"))
    assert plain(Decimal("-0")) == plain(Decimal("0.00")) == "0"


def test_a_field_with_an_alias_is_loaded() -> None:
    table = user_table(sa.MetaData())
    rows = Rows(User, table)
    assert "changed" not in rows.columns  # odm sets it
    assert rows.item({"id": "1", "email": "a@b", "level": None}).email == "a@b"


def test_what_cannot_be_mapped_is_refused() -> None:
    metadata = sa.MetaData()
    table = user_table(metadata)
    with pytest.raises(SchemaError, match="odm sets 'changed' by itself"):
        Rows(User, table, {"id": "id", "changed": "changed"})
    with pytest.raises(SchemaError, match="must be a Boolean or a DateTime"):
        Rows(User, table, {"id": "id"}, deleted="email")
    keyed = sa.Table("keyed", metadata, sa.Column("ID", sa.String, primary_key=True, key="id"))
    with pytest.raises(SchemaError, match="give it no key="):
        Rows(User, keyed, {"id": "id"})
    with pytest.raises(SchemaError, match="name a DateTime or Integer"):
        Push(Rows(User, table, {"id": "id"}), changed="email")
    strict = sa.Table(
        "strict",
        metadata,
        sa.Column("id", sa.String, primary_key=True),
        sa.Column("level", sa.String, nullable=False),
    )
    with pytest.raises(SchemaError, match="'level' may be None, and column 'level' is NOT NULL"):
        WriteBehind(Rows(User, strict, applied=applied_table(metadata, strict)))


def test_a_store_of_the_other_mode_is_refused() -> None:
    with opened("sqlite://") as site:
        other: Any = AsyncStore(shop, Memory())
        with pytest.raises(BadValue, match="is not a Store"):
            Push(site.rows).drain(other, site.engine)
        with pytest.raises(BadValue, match="is not a Store"):
            ReadThrough(site.rows).get(other, site.engine, customer_id="c1")
