"""`Id`, `CreatedAt` and `UpdatedAt`: fields whose value the store assigns."""
# ruff: noqa: D101  # a test's name says what it shows

from datetime import UTC, datetime
from random import Random
from typing import Annotated

import pytest

from odm import AUTO, AccessPattern, BadValue, CreatedAt, Entity, Id, PrimaryKey, Store, Stored, Table, UpdatedAt, set_
from odm.testing.capabilities import needs
from odm.testing.clock import Clock
from odm.testing.stores import Stores
from odm.testing.suite.ways import Way, each_way

desk = Table("desk")


class Ticket(Entity, table=desk):
    """Its index is sorted by the time of the last change."""

    queue: str
    ticket_id: Annotated[str, Id()] = AUTO
    title: str
    created_at: Annotated[datetime, CreatedAt] = AUTO
    updated_at: Annotated[datetime, UpdatedAt, Stored("changed", epoch="ms")] = AUTO

    primary = PrimaryKey("QUEUE#{queue}", "{ticket_id}")
    recent = AccessPattern("RECENT#{queue}", "{updated_at:desc}")


class Note(Entity, table=desk):
    """Has no index, so that it can be merged."""

    note_id: str
    text: str
    updated_at: Annotated[datetime, UpdatedAt] = AUTO

    primary = PrimaryKey("NOTE#{note_id}", "NOTE")


START = datetime(2026, 1, 5, 12, 0, 0, 250_500, tzinfo=UTC)
NEW = Ticket(queue="q", title="new")


def to_milliseconds(moment: datetime) -> datetime:
    """A time in whole milliseconds, as ``Stored(epoch="ms")`` has it."""
    return moment.replace(microsecond=moment.microsecond // 1000 * 1000)


@pytest.fixture
def ticks() -> Clock:
    """The clock of the store."""
    return Clock(START)


@pytest.fixture
def tickets(stores: Stores, ticks: Clock) -> Store:
    """A store whose ids are the same in each test."""
    return stores.open(desk, clock=ticks, random=Random(7))


@needs("conditions", "updates", "indexes")
class TestAutomaticFields:
    def test_puts_and_inserts_assign_them(self, tickets: Store, ticks: Clock) -> None:
        first, second = tickets.put(NEW), tickets.insert(NEW)
        assert [NEW.ticket_id, NEW.created_at, NEW.updated_at] == [AUTO] * 3
        assert first.ticket_id < second.ticket_id  # of one millisecond
        assert [first.created_at, first.updated_at] == [START, to_milliseconds(START)]
        assert list(tickets.query(Ticket.primary(queue="q"))) == [first, second]
        ticks.advance(1)
        again = tickets.put(first)
        assert again == first.model_copy(update={"updated_at": to_milliseconds(ticks.now())})
        assert list(tickets.query(Ticket.recent(queue="q"))) == [again, second]

    @each_way
    def test_an_update_moves_the_entry(self, tickets: Store, ticks: Clock, way: Way) -> None:
        stale = tickets.put(NEW)
        ticks.advance(1)
        newer = tickets.put(NEW)
        ticks.advance(1)
        way(tickets).update(stale, set_(Ticket.title, "b"), when=Ticket.title == "new")
        ticks.advance(1)
        way(tickets).update(stale, set_(Ticket.title, "c"))
        changed = stale.model_copy(update={"title": "c", "updated_at": to_milliseconds(ticks.now())})
        assert list(tickets.query(Ticket.recent(queue="q"))) == [changed, newer]

    @each_way
    def test_an_upsert_that_creates_sets_all(self, tickets: Store, ticks: Clock, way: Way) -> None:
        key = Ticket.primary(queue="q", ticket_id=tickets.new_id(Ticket))
        way(tickets).update(key, set_(Ticket.title, "made"), upsert=True)
        ticket = tickets.one(key)
        assert (ticket.created_at, ticket.updated_at) == (START, to_milliseconds(START))
        ticks.advance(1)
        way(tickets).update(key, set_(Ticket.title, "made"), upsert=True)
        assert tickets.one(key) == ticket.model_copy(update={"updated_at": to_milliseconds(ticks.now())})

    def test_batches_and_transactions_return_them(self, tickets: Store) -> None:
        with tickets.batch() as batch:
            batched = [batch.put(NEW), batch.put(NEW)]
        with tickets.transaction() as tx:
            stored = tx.put(NEW)
        assert list(tickets.query(Ticket.primary(queue="q"))) == [*batched, stored]

    def test_a_copy_keeps_them(self, tickets: Store, ticks: Clock) -> None:
        ticket = tickets.put(NEW)
        ticks.advance(1)
        tickets.put_raw(tickets.scan_page().items)
        assert list(tickets.scan()) == [ticket]

    def test_they_are_not_set_by_hand(self, tickets: Store) -> None:
        ticket = tickets.put(NEW)
        for action in (set_(Ticket.updated_at, START), set_(Ticket.created_at, START)):
            with pytest.raises(BadValue, match=r"Ticket\.(updated_at|created_at)"):
                tickets.update(ticket, action)


class TestMergedTimes:
    def test_a_merge_sets_the_time(self, stores: Stores, ticks: Clock) -> None:
        notes, key = stores.open(desk, clock=ticks), Note.primary(note_id="n")
        notes.merge(key, set_(Note.text, "a"))
        assert notes.one(key).updated_at == START
        ticks.advance(1)
        with notes.batch() as batch:
            batch.merge(key, set_(Note.text, "b"))
        assert notes.one(key) == Note(note_id="n", text="b", updated_at=ticks.now())
