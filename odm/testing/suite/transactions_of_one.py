"""Transactions of one operation, on every backend, and of several on a backend that does not support them."""
# ruff: noqa: D101  # a test's name says what it shows

from contextlib import AbstractContextManager, nullcontext
from decimal import Decimal

import pytest

from odm import (
    BadValue,
    ConditionFailed,
    Conflict,
    ItemNotFound,
    Store,
    Unsupported,
    append,
    increment,
    missing,
    remove,
    set_,
)
from odm.protocol import requests as req
from odm.testing.capabilities import Capabilities, needs
from odm.testing.entities import Account, Document, Order, Session, Sheet, Tally, Ticket
from odm.testing.stores import Stores
from odm.testing.suite.helpers import PAST, at
from odm.testing.suite.indexes import KEY, TICKET, but, entries, expected
from odm.testing.suite.transactions import ANN, BOB, ORDER, Call, balances, failed, kinds, transact, update

CALLS: list[Call] = [
    lambda tx: tx.put(ORDER),
    lambda tx: tx.insert(ORDER),
    lambda tx: tx.update(ORDER, remove(Order.note)),
    lambda tx: tx.delete(ORDER),
    lambda tx: tx.check(ORDER),
]
"""One operation of each kind."""


class TestTransactionOfSeveral:
    """On a backend without transactions of several items, the call of a second operation raises Unsupported."""

    @pytest.mark.parametrize("second", CALLS, ids=["put", "insert", "update", "delete", "check"])
    def test_is_taken_or_refused_at_the_call(self, offline: Store, capabilities: Capabilities, second: Call) -> None:
        answer: AbstractContextManager[object] = nullcontext()
        if capabilities.transactions is not True:
            both = r"Order\.primary\(.*, order_id='o'\) cannot .* with Account\.primary\(name='ann'\): .*batch\(\)"
            answer = pytest.raises(Unsupported, match=both)
        with pytest.raises(ZeroDivisionError), offline.transaction() as tx:  # noqa: PT012  # left without a commit
            tx.check(ANN)
            with answer:
                second(tx)
            raise ZeroDivisionError

    @needs("updates")
    def test_what_was_refused_is_not_in_it(self, db: Store, capabilities: Capabilities) -> None:
        answer = nullcontext() if capabilities.transactions is True else pytest.raises(Unsupported)
        with db.transaction() as tx:
            tx.put(Account(name="ann"))
            with answer:
                tx.put(Account(name="bob"))
        assert (db.exists(ANN), db.exists(BOB)) == (True, capabilities.transactions is True)


@needs("conditions", "updates")
class TestTransactionOfOne:
    def test_does_each_kind_of_operation(self, db: Store) -> None:
        key = Order.primary(customer_id="c", order_id="o")
        transact(db, lambda tx: tx.insert(ORDER))
        assert db.one(key) == ORDER
        transact(db, lambda tx: tx.update(key, increment(Order.total), when=Order.status == "open"))
        assert db.one(key).total == Decimal(6)
        transact(db, lambda tx: tx.put(ORDER, when=Order.total == 6))
        assert db.one(key) == ORDER
        transact(db, lambda tx: tx.check(key))
        transact(db, lambda tx: tx.check(key, when=Order.total > 4))
        transact(db, lambda tx: tx.delete(key, when=Order.status == "open"))
        assert not db.exists(key)
        transact(db, lambda tx: tx.delete(key))
        transact(db, lambda tx: tx.check(key, when=missing(Order.status)))
        transact(db, lambda tx: tx.update(Tally.primary(name="t"), increment(Tally.hits), upsert=True))
        assert db.one(Tally, name="t").hits == 1
        transact(db, lambda tx: tx.update(Tally.primary(name="t"), increment(Tally.hits)))
        assert db.one(Tally, name="t").hits == 2

    def test_is_one_request(self, db: Store, stores: Stores) -> None:
        for call in (lambda tx: tx.put(ORDER), *CALLS[2:3], CALLS[4], CALLS[3]):
            stores.forget()
            transact(db, call)
            assert [type(request) for request in stores.requests] == [req.Transact]

    def test_says_why_a_check_was_refused(self, db: Store) -> None:
        assert kinds(failed(db, CALLS[4])) == [ItemNotFound]
        for stored in (None, ORDER):
            if stored is not None:
                db.put(stored)
            failure = failed(db, lambda tx: tx.check(ORDER, when=Order.total > 9))
            assert kinds(failure) == [ConditionFailed]
            assert isinstance(failure.reasons[0], ConditionFailed)
            assert failure.reasons[0].item == stored

    def test_judges_what_a_delete_depends_on_where_nothing_is(self, db: Store) -> None:
        """`odm.Store.delete` returns False instead; a transaction could not report that."""
        gone = Session(user="u", session_id="gone", data="old", expires_at=PAST)
        db.put(gone)
        for call in (
            lambda tx: tx.delete(ORDER, when=Order.status == "open"),
            lambda tx: tx.delete(gone, when=Session.data == "old"),
        ):
            failure = failed(db, call)
            assert kinds(failure) == [ConditionFailed]
            assert isinstance(failure.reasons[0], ConditionFailed)
            assert failure.reasons[0].item is None
        deleted = db.put(Document(document_id="a"))
        db.delete(deleted)
        assert kinds(failed(db, lambda tx: tx.delete(deleted))) == [Conflict]
        assert db.delete(ORDER, when=Order.status == "open") is db.delete(deleted) is False

    def test_checks_count_an_expired_item_as_absent(self, db: Store) -> None:
        gone = Session(user="u", session_id="gone", data="old", expires_at=PAST)
        db.put(gone)
        assert kinds(failed(db, lambda tx: tx.check(gone))) == [ItemNotFound]
        assert kinds(failed(db, lambda tx: tx.check(gone, when=Session.data == "old"))) == [ConditionFailed]

    def test_checks_a_revision(self, db: Store) -> None:
        stale = db.put(Document(document_id="a"))
        newest = db.put(stale)
        failure = failed(db, lambda tx: tx.check(stale))
        assert kinds(failure) == [Conflict]
        assert isinstance(failure.reasons[0], Conflict)
        assert failure.reasons[0].item == newest
        transact(db, lambda tx: tx.check(newest))

    def test_whose_actions_do_not_fit_what_is_stored(self, db: Store) -> None:
        sheet = Sheet(sheet_id="s", meta={"n": 1})
        db.put(sheet)
        key = Sheet.primary(book="b", sheet_id="s")
        assert kinds(failed(db, lambda tx: tx.update(key, append(Sheet.meta["n"], "x")))) == [BadValue]
        assert db.one(key) == sheet

    def test_can_be_used_again(self, db: Store) -> None:
        tx = db.transaction()
        for name in ("ann", "bob"):
            with tx:
                tx.insert(Account(name=name))
        assert balances(db) == [0, 0]

    def test_keeps_what_was_passed_as_it_was_then(self, db: Store) -> None:
        order = ORDER.model_copy()
        with db.transaction() as tx:
            tx.put(order)
            order.note = "later"
        assert db.one(ORDER.primary(customer_id="c", order_id="o")) == ORDER

    def test_the_entity_counts_as_it_was_at_the_call(self, db: Store) -> None:
        stored = db.put(Document(document_id="a"))
        with db.transaction() as tx:
            tx.update(stored, set_(Document.text, "x"))
            stored.revision = 9
        assert db.one(Document, document_id="a").text == "x"


@needs("indexes", "conditions", "updates")
class TestTransactionOfOneIndexes:
    def test_a_rival_that_fixes_what_was_read_lets_it_pass(self, indexed: Store, stores: Stores) -> None:
        stores.rival_puts(TICKET)
        with indexed.transaction() as tx:
            tx.update(KEY, set_(Ticket.assignee, "bob"))
        assert entries(indexed) == expected(but(assignee="bob"))

    def test_every_kind_of_operation_keeps_entries_right(self, indexed: Store) -> None:
        transact(indexed, lambda tx: tx.insert(TICKET))
        assert entries(indexed) == expected(TICKET)
        new = but(level=TICKET.level + 1, due_at=at(7), assignee=None)
        transact(indexed, update(KEY, increment(Ticket.level), set_(Ticket.due_at, at(7)), remove(Ticket.assignee)))
        assert entries(indexed) == expected(new)
        transact(indexed, lambda tx: tx.check(KEY, when=Ticket.level == new.level))
        transact(indexed, lambda tx: tx.put(TICKET))
        assert entries(indexed) == expected(TICKET)
        transact(indexed, lambda tx: tx.delete(KEY))
        assert not any(entries(indexed).values())
