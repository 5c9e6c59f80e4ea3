"""Moves of stored items to another primary key, next to other writers and stopped at any place."""
# ruff: noqa: D101  # a test's name says what it shows

from functools import partial
from pathlib import Path
from typing import Any

import pytest

from odm import BadCursor, BadValue, ItemExists, ItemInvalid, LazyBytes, SchemaError, Store, Unsupported, set_
from odm.results import Backfilled
from odm.testing.capabilities import Capabilities, needs
from odm.testing.rekeying import (
    Client,
    OldBadge,
    OldClient,
    OldTicket,
    Ticket,
    clients,
    clients_now,
    tickets,
    tickets_now,
)
from odm.testing.stores import Stores
from odm.testing.suite.backfills import counts, kinds, wrote
from odm.testing.suite.helpers import FUTURE, PAST

MANY = 7


def old_client(number: int, **values: Any) -> OldClient:
    """A client under its old key."""
    return OldClient(**{**at(number), "email": f"{number}@x", "note": "n", **values})


def at(number: int) -> dict[str, Any]:
    """The fields of the key of a client."""
    return {"team": "ab"[number % 2], "number": number}


def moves(done: Backfilled, written: int, *, right: int = 0, failed: int = 0) -> None:
    """So many items were moved, were right before, and failed; a later page may show a moved item again, but once."""
    assert (done.written, done.failed, done.cursor) == (written, failed, None)
    assert right <= done.skipped <= right + written
    assert done.seen == done.written + done.skipped + done.failed


def everything(db: Store) -> list[Any]:
    """All items of the table, also of companions, from pages of any size."""
    page = db.scan_page(size=1000)
    items = [*page.items]
    while page.cursor is not None:
        page = db.scan_page(size=1000, after=page.cursor)
        items += page.items
    return items


def check(db: Store, numbers: range | list[int] = range(MANY)) -> None:
    """Each client is there exactly once, with its revision, entry, unique value, pointer and versions."""
    moved = sorted(db.scan(Client), key=lambda client: client.number)
    assert [client.number for client in moved] == list(numbers)
    assert {client.version for client in moved} == {2}
    assert [client.number for client in db.query(Client.by_note(note="n"))] == list(numbers)
    for client in moved:
        assert db.one(Client, **at(client.number)) == client
        assert db.one(Client.unique_email(email=f"{client.number}@x")) == client
        assert [kept.version for kept in db.query(Client.history(**at(client.number)))] == [1, 2]
        assert db.run(Client.history.compare(1, 2, **at(client.number)))["note"] == ("m", "n")
    for team, rest in (("a", 0), ("b", 1)):
        newest = max(number for number in numbers if number % 2 == rest)
        assert db.one(Client.newest(team=team)).number == newest
    items = everything(db)
    assert sum(item.entity.__odm_tag__ == "Client" for item in items) == len(moved)  # none is left under its old key
    # With each, its claim and two versions; and two pointers and a badge.
    assert len(items) == 4 * len(moved) + 3


def fill(stores: Stores) -> Store:
    """Clients of revision 2, with two versions, under their old keys; returns a store of the new models."""
    db, old = stores.open(clients_now), stores.open(clients)
    for item in everything(db):  # of an earlier round of the test
        db.delete(item.entity)
    old.put(OldBadge(name="b"))
    for number in range(MANY):
        first = old.put(old_client(number).model_copy(update={"note": "m"}))
        old.put(first.model_copy(update={"note": "n"}))
    stores.forget()
    return db


@needs("indexes", "updates", "conditions", "transactions")
class TestRekey:
    @pytest.fixture
    def stored(self, stores: Stores) -> Store:
        return fill(stores)

    def test_moves_items_with_all_that_belongs_to_them(self, stored: Store, stores: Stores) -> None:
        moves(stored.rekey(OldClient, Client), MANY)
        check(stored)
        stores.forget()
        assert counts(stored.rekey(OldClient, Client)) == (MANY, 0, MANY, 0)
        assert wrote(stores) == []

    def test_later_writes_go_on_as_if_the_key_had_always_been_this(self, stored: Store) -> None:
        stored.rekey(OldClient, Client)
        changed = stored.update(stored.one(Client, **at(1)), set_(Client.email, "new@x"), returning="new")
        assert changed.version == 3
        stored.put(Client(team="a", number=50, email="1@x", note="n"))  # the value is free
        stored.delete(Client, **at(2))
        stored.put(Client(team="a", number=51, email="2@x", note="n"))
        with pytest.raises(ItemExists):
            stored.put(Client(team="a", number=52, email="3@x", note="n"))
        assert stored.one(Client.newest(team="a")).number == 51
        assert len(list(stored.query(Client.history(**at(1))))) == 3

    def test_a_function_makes_the_new_items(self, stored: Store) -> None:
        def make(old: OldClient) -> Client:
            return Client(team=old.team, number=old.number, email=old.email, note=old.note, name=f"c{old.number}")

        moves(stored.rekey(OldClient, Client, make), MANY)
        check(stored)
        assert [stored.one(Client, **at(number)).name for number in (0, 3)] == ["c0", "c3"]

    def test_ends_after_any_stop_as_without_one(self, stores: Stores) -> None:
        for after in range(99):
            db = fill(stores)
            far: list[Backfilled] = []
            work = partial(db.rekey, OldClient, Client, size=5, on_progress=far.append)
            stopped = stores.stopped(work, after=after)
            if stopped and after % 2 and far:
                assert db.rekey(OldClient, Client, size=5, after=far[-1].cursor).failed == 0
            assert db.rekey(OldClient, Client).failed == 0
            check(db)
            if not stopped:
                assert after >= MANY
                return
        raise AssertionError("it never ends")

    def test_keeps_the_changes_of_other_programs(self, stored: Store, stores: Stores) -> None:
        changed = [old_client(number, email=None, version=7) for number in range(MANY)]
        stores.rival_puts(*changed)
        assert stored.rekey(OldClient, Client).failed == 0
        versions = {client.number: client.version for client in stored.scan(Client)}
        assert versions == dict.fromkeys(range(MANY), 8)
        assert stored.rekey(OldClient, Client).skipped == MANY

    def test_an_item_that_is_deleted_stays_deleted(self, stored: Store, stores: Stores) -> None:
        stores.rival_deletes(old_client(0))
        stores.rival_deletes(old_client(3))
        done = stored.rekey(OldClient, Client)
        assert done.failed == 0
        remaining = {client.number for client in stored.scan(Client)}
        assert remaining >= {1, 2, 4, 5, 6}
        assert done.written == len(remaining)

    def test_an_item_under_the_new_key_is_not_overwritten(self, stored: Store) -> None:
        stored.put(Client(**at(3), note="n", name="mine"))
        done = stored.rekey(OldClient, Client)
        moves(done, MANY - 1, right=1, failed=1)
        assert [type(failure.error) for failure in done.failures] == [ItemExists]
        assert "exists already, so the OldClient under" in str(done.failures[0])
        assert stored.one(Client, **at(3)).name == "mine"
        stored.delete(Client, **at(3))
        moves(stored.rekey(OldClient, Client), 1, right=MANY - 1)
        assert stored.one(Client, **at(3)).email == "3@x"

    def test_a_unique_value_of_another_item_is_reported(self, stored: Store) -> None:
        def make(old: OldClient) -> Client:
            return Client(team=old.team, number=old.number, email="same@x", note=old.note)

        done = stored.rekey(OldClient, Client, make)
        assert (done.written, done.failed) == (1, MANY - 1)
        assert {kind for _, kind in kinds(done)} == {ItemExists}
        assert stored.rekey(OldClient, Client).failed == 0
        assert len(list(stored.scan(Client))) == MANY
        assert sorted(client.email or "" for client in stored.scan(Client)) == [
            *(f"{number}@x" for number in range(MANY) if stored.get(Client.unique_email(email=f"{number}@x"))),
            "same@x",
        ]

    def test_an_item_that_does_not_fit_is_reported(self, stored: Store, stores: Stores) -> None:
        def make(old: OldClient) -> Client:
            return Client.model_validate({**at(old.number), "email": old.email, "note": old.number % 3 or "n"})

        done = stored.rekey(OldClient, Client, make)
        moves(done, MANY - 4, failed=4)
        assert {kind for _, kind in kinds(done)} == {ItemInvalid}
        assert stored.rekey(OldClient, Client).failed == 0
        assert len(list(stored.scan(Client))) == MANY

    def test_in_parts_and_from_a_cursor(self, stored: Store) -> None:
        done = [stored.rekey(OldClient, Client, after=part, rate=1e9, size=2) for part in stored.parts(3)]
        assert sum(report.written for report in done) == MANY
        check(stored)
        with pytest.raises(BadCursor):
            stored.rekey(OldClient, Client, after="x")

    def test_other_arguments_are_refused(self, stored: Store) -> None:
        cases: list[tuple[type[Any], type[Any], Any, str]] = [
            (OldClient, Ticket, None, "belongs to table"),
            (Client, Client, None, "nothing would move"),
            (OldTicket, Client, None, "within one table"),
            (OldClient, Client, 1, "give a plain function"),
            (OldClient, Client, lambda _: 1, "returned 1: let it return a Client"),
        ]
        for old, new, make, why in cases:
            with pytest.raises((BadValue, SchemaError), match=why):
                stored.rekey(old, new, make)
        with pytest.raises(BadValue, match=r"rekey\(rate=0\)"):
            stored.rekey(OldClient, Client, rate=0)
        assert stored.rekey(OldClient, Client).written == MANY


@needs("updates", "conditions", "transactions")
class TestRekeyFields:
    def test_keeps_times_ids_counters_expiry_and_blobs(self, stores: Stores, tmp_path: Path) -> None:
        db, old = (stores.open(app, blobs=str(tmp_path)) for app in (tickets_now, tickets))
        put = [
            old.put(OldTicket(title=f"t{n}", scans=n, scan=LazyBytes(bytes([n]) * size), expires=expires))
            for n, (size, expires) in enumerate([(5, None), (50, None), (50, FUTURE), (5, FUTURE)])
        ]
        old.put(OldTicket(title="gone", expires=PAST))
        moves(db.rekey(OldTicket, Ticket), 4)
        moved = sorted(db.scan(Ticket), key=lambda ticket: ticket.title)
        assert [ticket.model_dump(exclude={"scan"}) for ticket in moved] == [
            ticket.model_dump(exclude={"scan"}) for ticket in put
        ]
        for n, ticket in enumerate(moved):
            assert ticket.scan is not None
            assert ticket.scan.read() == bytes([n]) * ticket.scan.size
        assert db.sweep(grace=0, force=True).orphans == ()
        db.delete(moved[1])
        assert db.sweep(grace=0, force=True).orphans == ()

    def test_changes_between_read_and_move(self, stores: Stores, tmp_path: Path) -> None:
        """Without a Revision, the condition compares every attribute."""
        db, old = (stores.open(app, blobs=str(tmp_path)) for app in (tickets_now, tickets))
        for n in range(3):  # one at a time: a rival's put of an item that has moved would make an old one again
            ticket = old.put(OldTicket(title=f"t{n}"))
            stores.rival_puts(ticket.model_copy(update={"title": "new"}))
            assert db.rekey(OldTicket, Ticket, size=1).failed == 0
        assert [ticket.title for ticket in db.scan(Ticket)] == ["new"] * 3


@needs("updates", "conditions")
class TestRekeyWithoutTransactions:
    def test_is_refused_with_the_way_out(self, stores: Stores, capabilities: Capabilities, tmp_path: Path) -> None:
        db, old = (stores.open(app, blobs=str(tmp_path)) for app in (tickets_now, tickets))
        kept = old.put(OldTicket(title="t"))
        if capabilities.transactions is True:
            assert db.rekey(OldTicket, Ticket).written == 1
            return
        with pytest.raises(Unsupported, match=r"Table\(transactions=True\)"):
            db.rekey(OldTicket, Ticket)
        assert old.one(OldTicket, ticket_id=kept.ticket_id) == kept
