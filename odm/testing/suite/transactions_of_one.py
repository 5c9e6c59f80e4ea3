"""Transactions of one operation, which every backend has, and what one says that has none of several items."""
# ruff: noqa: D101  # a test's name says what it shows

from contextlib import AbstractContextManager, nullcontext
from decimal import Decimal

import pytest

from odm import (
    BadValue,
    ConditionFailed,
    Conflict,
    ItemExists,
    ItemNotFound,
    Unsupported,
    add_to,
    append,
    increment,
    missing,
    remove,
    set_,
)
from odm.protocol import requests as req
from odm.stores.sync import Store
from odm.testing.capabilities import Capabilities, needs
from odm.testing.entities import Account, Document, Order, Session, Sheet, Tally, Ticket
from odm.testing.stores import Stores
from odm.testing.suite.helpers import FUTURE, PAST, at
from odm.testing.suite.indexes import KEY, TICKET, but, entries, expected
from odm.testing.suite.transactions import ANN, BOB, ORDER, Call, balances, failed, kinds, transact, update

CALLS: list[Call] = [
    lambda tx: tx.put(ORDER),
    lambda tx: tx.insert(ORDER),
    lambda tx: tx.update(ORDER, remove(Order.note)),
    lambda tx: tx.delete(ORDER),
    lambda tx: tx.check(ORDER),
]
"""One of each kind."""


class TestTransactionOfSeveral:
    """On a backend that has none, the second operation is refused at its call."""

    @pytest.mark.parametrize("second", CALLS, ids=["put", "insert", "update", "delete", "check"])
    def test_is_taken_or_refused_at_the_call(self, offline: Store, capabilities: Capabilities, second: Call) -> None:
        answer: AbstractContextManager[object] = nullcontext()
        if not capabilities.transactions:
            both = r"Order\.primary\(.*, order_id='o'\) cannot .* with Account\.primary\(name='ann'\): .*batch\(\)"
            answer = pytest.raises(Unsupported, match=both)
        with pytest.raises(ZeroDivisionError), offline.transaction() as tx:  # noqa: PT012  # left without a commit
            tx.check(ANN)
            with answer:
                second(tx)
            raise ZeroDivisionError

    @needs("updates")
    def test_what_was_refused_is_not_in_it(self, db: Store, capabilities: Capabilities) -> None:
        answer = nullcontext() if capabilities.transactions else pytest.raises(Unsupported)
        with db.transaction() as tx:
            tx.put(Account(name="ann"))
            with answer:
                tx.put(Account(name="bob"))
        assert (db.exists(ANN), db.exists(BOB)) == (True, capabilities.transactions)


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

    def test_says_why_it_was_refused(self, db: Store) -> None:
        absent: list[Call] = [CALLS[2], CALLS[4], lambda tx: tx.update(ORDER, remove(Order.note), when=Order.total > 9)]
        for call in absent:
            assert kinds(failed(db, call)) == [ItemNotFound]
        for call in (
            lambda tx: tx.put(ORDER, when=Order.status == "open"),
            lambda tx: tx.delete(ORDER, when=Order.status == "open"),
            lambda tx: tx.check(ORDER, when=Order.status == "open"),
        ):
            failure = failed(db, call)
            assert kinds(failure) == [ConditionFailed]
            assert isinstance(failure.reasons[0], ConditionFailed)
            assert failure.reasons[0].item is None
        db.put(ORDER)
        for kind, call in (
            (ItemExists, CALLS[1]),
            (ConditionFailed, lambda tx: tx.put(ORDER, when=Order.total > 9)),
            (ConditionFailed, lambda tx: tx.update(ORDER, remove(Order.note), when=Order.total > 9)),
            (ConditionFailed, lambda tx: tx.delete(ORDER, when=Order.total > 9)),
            (ConditionFailed, lambda tx: tx.check(ORDER, when=Order.total > 9)),
        ):
            failure = failed(db, call)
            assert kinds(failure) == [kind]
            assert isinstance(failure.reasons[0], ItemExists | ConditionFailed)
            assert failure.reasons[0].item == ORDER
        assert list(db.scan()) == [ORDER]

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

    def test_absence_wins_over_the_condition_of_an_update(self, db: Store) -> None:
        for condition in (Order.status == "open", Order.status != "open"):
            failure = failed(db, update(ORDER, remove(Order.note), when=condition))
            assert kinds(failure) == [ItemNotFound]

    def test_bounds_of_lists_and_sets(self, db: Store) -> None:
        db.put(Sheet(sheet_id="s"))
        key = Sheet.primary(book="b", sheet_id="s")
        with db.transaction() as tx:
            tx.update(key, append(Sheet.parts, "a"), add_to(Sheet.words, "w"), increment(Sheet.level, 9))
        assert kinds(failed(db, lambda tx: tx.update(key, increment(Sheet.level)))) == [ConditionFailed]
        assert db.one(key) == Sheet(sheet_id="s", parts=["a"], words={"w"}, level=9)

    def test_with_a_revision(self, db: Store) -> None:
        transact(db, lambda tx: tx.put(Document(document_id="a")))
        stale = db.one(Document, document_id="a")
        transact(db, lambda tx: tx.update(stale, set_(Document.text, "x")))
        newest = db.one(Document, document_id="a")
        assert (newest.revision, newest.text) == (2, "x")
        for call in (
            lambda tx: tx.put(stale),
            lambda tx: tx.update(stale, set_(Document.text, "y")),
            lambda tx: tx.delete(stale),
            lambda tx: tx.check(stale),
        ):
            failure = failed(db, call)
            assert kinds(failure) == [Conflict]
            assert isinstance(failure.reasons[0], Conflict)
            assert failure.reasons[0].item == newest
        transact(db, lambda tx: tx.check(newest))
        transact(db, lambda tx: tx.delete(newest))
        assert kinds(failed(db, lambda tx: tx.delete(newest))) == [Conflict]

    def test_a_new_entity_does_not_overwrite(self, db: Store) -> None:
        db.put(Document(document_id="a"))
        for call in (lambda tx: tx.put(Document(document_id="a")), lambda tx: tx.insert(Document(document_id="a"))):
            assert kinds(failed(db, call)) == [ItemExists]

    def test_the_entity_counts_as_it_was_at_the_call(self, db: Store) -> None:
        stored = db.put(Document(document_id="a"))
        with db.transaction() as tx:
            tx.update(stored, set_(Document.text, "x"))
            stored.revision = 9
        assert db.one(Document, document_id="a").text == "x"


@needs("conditions", "updates")
class TestTransactionTTL:
    def test_an_expired_item_counts_as_absent(self, db: Store) -> None:
        gone = Session(user="u", session_id="gone", data="old", hits=5, expires_at=PAST)
        key = Session.primary(user="u", session_id="gone")
        db.put(gone)
        for call in (
            lambda tx: tx.check(key),
            lambda tx: tx.update(key, increment(Session.hits)),
        ):
            assert kinds(failed(db, call)) == [ItemNotFound]
        for conditional in (
            lambda tx: tx.check(key, when=Session.data == "old"),
            lambda tx: tx.put(gone, when=Session.data == "old"),
            lambda tx: tx.delete(key, when=Session.data == "old"),
        ):
            failure = failed(db, conditional)
            assert kinds(failure) == [ConditionFailed]
            assert isinstance(failure.reasons[0], ConditionFailed)
            assert failure.reasons[0].item is None
        with db.transaction() as tx:
            tx.insert(Session(user="u", session_id="gone", expires_at=FUTURE))
        assert db.one(key).hits == 0

    def test_an_expired_item_is_made_anew_by_an_upsert(self, db: Store) -> None:
        db.put(Session(user="u", session_id="gone", hits=5, expires_at=PAST))
        with db.transaction() as tx:
            tx.update(Session.primary(user="u", session_id="gone"), increment(Session.hits), upsert=True)
        assert db.one(Session, user="u", session_id="gone") == Session(user="u", session_id="gone", hits=1)


@needs("indexes", "conditions", "updates")
class TestTransactionOfOneIndexes:
    def test_a_stale_entity_leaves_no_stale_key(self, indexed: Store) -> None:
        indexed.put(TICKET)
        indexed.update(KEY, set_(Ticket.level, 9))
        with indexed.transaction() as tx:
            tx.update(TICKET, set_(Ticket.assignee, "bob"))
        assert entries(indexed) == expected(but(level=9, assignee="bob"))

    def test_a_rival_that_deletes_leaves_nothing_behind(self, indexed: Store, stores: Stores) -> None:
        for which in (KEY, TICKET):
            indexed.put(TICKET)
            stores.rival_deletes(TICKET)
            assert kinds(failed(indexed, update(which, set_(Ticket.assignee, "bob")))) == [ItemNotFound]
            assert not any(entries(indexed).values())

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
