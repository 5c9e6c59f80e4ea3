"""Secondary patterns: which items are in an index, and that every write keeps its entries up to date."""
# ruff: noqa: D101, RUF012  # a test's name says what it shows; its data is never changed

from typing import Any

import pytest

from odm import (
    ConditionFailed,
    Conflict,
    ItemNotFound,
    NoAccessPattern,
    Store,
    Unsupported,
    between,
    increment,
    remove,
    select,
    set_,
    set_if_missing,
    some,
)
from odm.protocol import contention
from odm.protocol import requests as req
from odm.testing.capabilities import Capabilities, needs
from odm.testing.entities import Contract, Member, Ticket, TicketV2, indexed_v2
from odm.testing.stores import Stores
from odm.testing.suite.helpers import at, fill
from odm.testing.suite.ways import Way, each_way

TICKET = Ticket(member_id="m", ticket_id="t", level=5, filed_at=at(1), assignee="ann")
KEY = Ticket.primary(member_id="m", ticket_id="t")


def but(ticket: Ticket = TICKET, **fields: Any) -> Ticket:
    """The ticket with other values."""
    return ticket.model_copy(update=fields)


def entries(db: Store) -> dict[str, list[str]]:
    """The entries of each index of tickets, in a readable form."""
    everybody = ("ann", "bob")
    return {
        "date": [f"{t.filed_at.hour}" for t in db.query(Ticket.by_date(member_id="m"))],
        "due": [f"{t.due_at and t.due_at.hour}" for t in db.query(Ticket.by_due())],
        "assignee": [f"{who} {t.level}" for who in everybody for t in db.query(Ticket.by_assignee(assignee=who))],
        "level": [
            f"{s} {level}"
            for s in ("open", "closed")
            for level in range(12)
            for _ in db.query(Ticket.by_level(status=s, level=level))
        ],
    }


def expected(ticket: Ticket) -> dict[str, list[str]]:
    """The entries that the indexes should have for one ticket."""
    assigned = ticket.assignee is not None and ticket.status == "open"
    return {
        "date": [f"{ticket.filed_at.hour}"],
        "due": [f"{ticket.due_at.hour}"] if ticket.due_at else [],
        "assignee": [f"{ticket.assignee} {ticket.level}"] if assigned else [],
        "level": [f"{ticket.status} {ticket.level}"],
    }


class TestIndexedTable:
    def test_is_made_once_or_refused_at_once(self, indexed: Store, capabilities: Capabilities) -> None:
        if capabilities.indexes:
            indexed.create()
        else:
            with pytest.raises(Unsupported, match="gsi1"):
                indexed.create()


@needs("indexes")
class TestIndexReads:
    TICKETS = [
        Ticket(member_id="m", ticket_id=f"t{n}", level=level, filed_at=at(n), assignee="ann")
        for n, level in enumerate((7, 100, 20, 7))
    ]

    def test_an_overloaded_index_gives_each_pattern_its_own(self, indexed: Store) -> None:
        member = indexed.put(Member(member_id="m", email="m"))
        ticket = indexed.put(TICKET)
        assert list(indexed.query(Member.by_email(email="m"))) == [member]
        assert list(indexed.query(Ticket.by_date(member_id="m"))) == [ticket]

    def test_ranges(self, indexed: Store) -> None:
        fill(indexed, self.TICKETS)
        a, b, c, d = self.TICKETS
        by_date, by_level = Ticket.by_date(member_id="m"), Ticket.by_level(status="open")
        assert list(indexed.query(by_date.where(Ticket.filed_at > at(0), Ticket.filed_at <= at(2)))) == [b, c]
        assert list(indexed.query(by_date.where(between(Ticket.filed_at, at(1), at(2))).reverse())) == [c, b]
        assert list(indexed.query(by_level)) == [b, c, a, d]
        assert list(indexed.query(by_level.where(Ticket.level > 7))) == [b, c]
        assert list(indexed.query(by_level.where(Ticket.level <= 20).reverse())) == [d, a, c]
        assert list(indexed.query(by_level.where(Ticket.filed_at > at(1)))) == [c, d]
        assert indexed.count(by_level.where(Ticket.level == 7)) == 2

    def test_a_sparse_index_holds_only_what_has_its_fields(self, indexed: Store) -> None:
        due = but(ticket_id="due", due_at=at(5))
        fill(indexed, [TICKET, due])
        assert list(indexed.query(Ticket.by_due())) == [due]
        assert list(indexed.query(Ticket.by_due().where(some(Ticket.due_at) < at(5)))) == []

    def test_a_predicate_keeps_items_out(self, indexed: Store) -> None:
        fill(indexed, [TICKET, but(ticket_id="closed", status="closed"), but(ticket_id="nobody's", assignee=None)])
        assert list(indexed.query(Ticket.by_assignee(assignee="ann"))) == [TICKET]

    def test_a_lossy_index_partition(self, indexed: Store) -> None:
        tickets = fill(indexed, [but(ticket_id=f"t{day}", filed_at=at(3, day=day)) for day in (1, 2, 4)])
        assert list(indexed.query(Ticket.by_day(filed_at=at(9, day=2)))) == tickets[1:2]
        spread = select(Ticket).where(between(Ticket.filed_at, at(4), at(3, day=4)))
        assert list(indexed.query(spread)) == tickets[1:]

    def test_the_planner_picks_the_index_that_serves(self, indexed: Store) -> None:
        indexed.put(TICKET)
        query = select(Ticket).where(Ticket.status == "open", Ticket.level > 1)
        assert indexed.explain(query).index == "by_level"
        assert list(indexed.query(query)) == [TICKET]
        assert indexed.explain(select(Member).where(Member.email == "e")).index == "gsi1"

    def test_the_planner_never_picks_what_may_leave_items_out(self, indexed: Store) -> None:
        with pytest.raises(NoAccessPattern, match="sparse"):
            indexed.query(select(Ticket).where(Ticket.assignee == "ann"))


@needs("indexes")
class TestIndexPuts:
    @each_way
    def test_move_the_entries(self, indexed: Store, way: Way) -> None:
        versions = [
            TICKET,
            but(due_at=at(5)),
            but(due_at=at(6), level=6),
            but(status="closed"),
            but(assignee="bob", filed_at=at(2)),
            but(assignee=None),
        ]
        for ticket in versions:
            way(indexed).put(ticket)
            assert entries(indexed) == expected(ticket)
        way(indexed).delete(KEY)
        assert not any(entries(indexed).values())

    def test_of_entities_with_a_revision(self, indexed: Store) -> None:
        first = indexed.put(Contract(contract_id="c", party="p"))
        indexed.put(first.model_copy(update={"party": "q"}))
        assert indexed.count(Contract.by_party(party="p")) == 0
        assert indexed.count(Contract.by_party(party="q")) == 1


@needs("indexes", "updates")
class TestIndexUpdates:
    def test_every_action_keeps_the_entries_right(self, indexed: Store) -> None:
        indexed.put(TICKET)
        steps: list[list[Any]] = [
            [set_(Ticket.due_at, at(5))],
            [set_(Ticket.due_at, at(6)), set_(Ticket.level, 7)],
            [increment(Ticket.level, 2)],
            [set_if_missing(Ticket.due_at, at(9))],
            [remove(Ticket.due_at)],
            [set_if_missing(Ticket.due_at, at(7))],
            [set_(Ticket.due_at, None)],
            [set_(Ticket.status, "closed")],
            [increment(Ticket.level, -9)],
            [set_(Ticket.assignee, "bob")],
            [set_(Ticket.status, "open"), set_(Ticket.note, "reopened")],
            [remove(Ticket.assignee), remove(Ticket.level)],
            [set_(Ticket.filed_at, at(11)), increment(Ticket.seen)],
        ]
        new = TICKET
        for actions in steps:
            new = indexed.update(KEY, *actions, returning="new")
            assert entries(indexed) == expected(new), actions
        assert (new.level, new.status, new.seen, new.filed_at) == (0, "open", 1, at(11))

    def test_a_sparse_entry_leaves_in_the_same_write(self, indexed: Store, stores: Stores) -> None:
        indexed.put(but(due_at=at(5)))
        stores.forget()
        indexed.update(KEY, remove(Ticket.due_at))
        assert [type(request) for request in stores.requests if not isinstance(request, req.Get)] == [req.Update]
        assert entries(indexed)["due"] == []

    def test_values_given_whole_need_no_read(self, indexed: Store, stores: Stores) -> None:
        indexed.put(Member(member_id="m", email="old"))
        stores.forget()
        indexed.update(Member.primary(member_id="m"), set_(Member.email, "new"))
        assert [type(request) for request in stores.requests] == [req.Update]
        assert indexed.count(Member.by_email(email="old")) == 0
        assert indexed.count(Member.by_email(email="new")) == 1

    @each_way
    def test_a_stale_entity_leaves_no_stale_key(self, indexed: Store, way: Way) -> None:
        indexed.put(TICKET)
        indexed.update(KEY, set_(Ticket.level, 9))
        way(indexed).update(TICKET, set_(Ticket.assignee, "bob"))
        assert entries(indexed) == expected(but(level=9, assignee="bob"))

    @each_way
    def test_a_rival_between_read_and_write_is_taken_in(self, indexed: Store, stores: Stores, way: Way) -> None:
        for which in (KEY, TICKET):
            indexed.put(TICKET)
            stores.rival_puts(but(level=8), but(level=9, due_at=at(4)))
            way(indexed).update(which, set_(Ticket.assignee, "bob"))
            new = but(level=9, due_at=at(4), assignee="bob")
            assert indexed.one(KEY) == new
            assert entries(indexed) == expected(new)

    @each_way
    def test_the_condition_is_judged_again_after_a_rival(self, indexed: Store, stores: Stores, way: Way) -> None:
        indexed.put(TICKET)
        stores.rival_puts(but(level=8, note="theirs"))
        with pytest.raises(ConditionFailed) as caught:
            way(indexed).update(KEY, set_(Ticket.assignee, "bob"), when=Ticket.note == "")
        assert caught.value.item == but(level=8, note="theirs")
        stores.rival_puts(but(level=9))
        way(indexed).update(KEY, set_(Ticket.assignee, "bob"), when=Ticket.status == "open")
        assert entries(indexed) == expected(but(level=9, assignee="bob"))

    @each_way
    def test_a_rival_that_deletes_leaves_nothing_behind(self, indexed: Store, stores: Stores, way: Way) -> None:
        for which in (KEY, TICKET):
            indexed.put(TICKET)
            stores.rival_deletes(TICKET)
            with pytest.raises(ItemNotFound):
                way(indexed).update(which, set_(Ticket.assignee, "bob"))
            assert not any(entries(indexed).values())

    @each_way
    def test_an_item_that_keeps_changing_is_a_conflict(
        self, indexed: Store, stores: Stores, way: Way, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        indexed.put(TICKET)
        stores.rival_puts(*(but(level=n % 2) for n in range(9)))
        monkeypatch.setattr(contention, "LONGEST_SECONDS", 0.0)
        with pytest.raises(Conflict, match=r"other writers before each of \d+ attempts in \d+\.\d seconds"):
            way(indexed).update(KEY, set_(Ticket.assignee, "bob"))
        assert indexed.one(KEY).assignee == "ann"

    @each_way
    def test_an_absent_item_gets_no_entry(self, indexed: Store, way: Way) -> None:
        for which in (KEY, TICKET):
            with pytest.raises(ItemNotFound):
                way(indexed).update(which, set_(Ticket.due_at, at(5)))
        assert not any(entries(indexed).values())

    def test_an_upsert_makes_all_entries(self, indexed: Store) -> None:
        new = indexed.update(
            KEY, set_(Ticket.filed_at, at(2)), set_(Ticket.due_at, at(3)), upsert=True, returning="new"
        )
        assert entries(indexed) == expected(new)

    def test_entries_that_the_model_does_not_know_stay(self, indexed: Store, stores: Stores) -> None:
        indexed.put(but(note="kept"))
        later = stores.open(indexed_v2)
        later.update(TicketV2.primary(member_id="m", ticket_id="t"), set_(TicketV2.filed_at, at(3)))
        assert indexed.one(KEY) == but(note="kept", filed_at=at(3))
        assert entries(indexed) == expected(but(filed_at=at(3)))
