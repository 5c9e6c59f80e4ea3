"""A removed field reads as its default, and index entries are computed from that default."""

from typing import Any

import pytest

from odm import AccessPattern, Entity, PrimaryKey, Store, Table, field, remove, set_
from odm.backends.local import Memory

table = Table("removed-defaults")


class Ticket(Entity, table=table):
    ticket_id: str
    status: str = "open"
    level: int = 3
    note: str | None = None

    primary = PrimaryKey("TICKET#{ticket_id}")
    open_ones = AccessPattern("OPEN", "{level}", when=field("status") == "open")
    by_level = AccessPattern("LEVEL#{level}")


KEY: Any = Ticket.primary(ticket_id="t")


@pytest.fixture
def db() -> Store:
    store = Store(table, Memory())
    store.create()
    return store


def test_an_item_enters_the_index_that_its_default_puts_it_in(db: Store) -> None:
    db.put(Ticket(ticket_id="t", status="shut"))
    assert db.count(Ticket.open_ones()) == 0
    db.update(KEY, remove(Ticket.status))
    assert [ticket.status for ticket in db.query(Ticket.open_ones())] == ["open"]


def test_it_stays_there_when_another_key_field_changes(db: Store) -> None:
    db.put(Ticket(ticket_id="t"))
    db.update(KEY, remove(Ticket.status))
    db.update(KEY, set_(Ticket.level, 5))
    assert db.count(Ticket.open_ones(level=5)) == db.count(Ticket.by_level(level=5)) == 1
    db.update(KEY, remove(Ticket.level))
    assert db.count(Ticket.open_ones(level=3)) == db.count(Ticket.by_level(level=3)) == 1
