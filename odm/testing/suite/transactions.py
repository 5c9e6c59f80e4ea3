"""Transactions: all operations or none, a reason for each failed one, revisions, expiry, limits."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable
from decimal import Decimal
from typing import Any, TypeAlias

import pytest

from odm import (
    Action,
    BadValue,
    Condition,
    ConditionFailed,
    Conflict,
    Entity,
    ItemExists,
    ItemNotFound,
    ItemTooLarge,
    Query,
    Store,
    Transaction,
    TransactionFailed,
    append,
    exists,
    increment,
    missing,
    remove,
    set_,
)
from odm.protocol import requests as req
from odm.testing.capabilities import needs
from odm.testing.entities import (
    Account,
    Customer,
    Document,
    Order,
    Setting,
    Sheet,
    Tally,
    hashes,
)
from odm.testing.stores import Stores
from odm.testing.suite.helpers import fill

Call: TypeAlias = Callable[[Transaction], Any]

ORDER = Order(customer_id="c", order_id="o", total=Decimal(5))
ANN = Account.primary(name="ann")
BOB = Account.primary(name="bob")


def transact(db: Store, *calls: Call) -> None:
    """Make these calls in one transaction."""
    with db.transaction() as tx:
        for call in calls:
            call(tx)


def failed(db: Store, *calls: Call) -> TransactionFailed:
    """The error of a transaction of these calls."""
    with pytest.raises(TransactionFailed) as caught:
        transact(db, *calls)
    return caught.value


def update(which: Entity | Query[Any], *actions: Action, when: Condition | bool | None = None) -> Call:
    """The call that updates."""
    return lambda tx: tx.update(which, *actions, when=when)


def kinds(failure: TransactionFailed) -> list[type | None]:
    """The classes of the reasons."""
    return [None if reason is None else type(reason) for reason in failure.reasons]


def transfer(db: Store, amount: int) -> None:
    """Move money from Ann to Bob."""
    with db.transaction() as tx:
        tx.update(ANN, increment(Account.balance, -amount))
        tx.update(BOB, increment(Account.balance, amount))


def balances(db: Store) -> list[int]:
    """The balances of Ann and Bob."""
    return [db.one(key).balance for key in (ANN, BOB)]


class TestTransactionCalls:
    """Errors of the call itself; nothing is sent."""

    def test_an_empty_one_sends_nothing(self, offline: Store) -> None:
        with offline.transaction():
            pass

    def test_an_error_in_the_block_discards_everything(self, offline: Store) -> None:
        with pytest.raises(ZeroDivisionError), offline.transaction() as tx:  # noqa: PT012  # what follows the put is the point
            tx.put(ORDER)
            raise ZeroDivisionError

    def test_arguments_are_checked_at_the_call(self, offline: Store) -> None:
        wrong: list[Call] = [
            lambda tx: tx.put("order"),  # type: ignore[type-var]
            lambda tx: tx.put(ORDER.model_copy(update={"order_id": ""})),
            lambda tx: tx.insert(ORDER.model_copy(update={"total": Decimal("NaN")})),
            lambda tx: tx.update(ORDER),
            lambda tx: tx.update(ORDER, set_(Order.order_id, "p")),  # type: ignore[odm]
            lambda tx: tx.update(Order.primary(customer_id="c"), remove(Order.note)),  # type: ignore[odm]
            lambda tx: tx.delete(Order, customer_id="c"),  # type: ignore[call-arg]
            lambda tx: tx.delete(ORDER, when=Account.balance > 5),  # type: ignore[odm]
            lambda tx: tx.check(Order),  # type: ignore[call-arg]
            lambda tx: tx.check("order"),  # type: ignore[call-overload]
        ]
        with offline.transaction() as tx:
            for call in wrong:
                with pytest.raises(BadValue):
                    call(tx)

    def test_an_item_is_taken_once(self, offline: Store) -> None:
        calls: list[Call] = [
            lambda tx: tx.put(ORDER),
            lambda tx: tx.insert(ORDER),
            lambda tx: tx.update(ORDER, remove(Order.note)),
            lambda tx: tx.delete(Order, customer_id="c", order_id="o"),
            lambda tx: tx.check(ORDER),
        ]
        for first in calls:
            for second in calls:
                with pytest.raises(BadValue, match=r"already, by \w+\(\), and now by \w+\(\)"):
                    transact(offline, first, second)

    def test_outside_of_its_block(self, offline: Store) -> None:
        tx = offline.transaction()
        with pytest.raises(BadValue, match="block"):
            tx.put(ORDER)
        with tx:
            pass
        with pytest.raises(BadValue, match="block"):
            tx.check(ORDER)

    def test_begun_twice(self, offline: Store) -> None:
        tx = offline.transaction()
        with pytest.raises(BadValue, match="has begun"), tx:  # noqa: PT012  # raised inside of it
            tx.put(ORDER)
            with tx:
                pass

    @needs("transactions")
    def test_takes_100_operations(self, offline: Store) -> None:
        with pytest.raises(BadValue, match="100"), offline.transaction() as tx:  # noqa: PT012  # only the last is refused
            for n in range(100):
                tx.put(Order(customer_id="c", order_id=str(n)))
            tx.check(ORDER)

    @needs("transactions")
    def test_takes_4_mb(self, offline: Store) -> None:
        with pytest.raises(ItemTooLarge, match="4194304"), offline.transaction() as tx:  # noqa: PT012  # only the last
            for n in range(10):
                tx.put(Order(customer_id="c", order_id=str(n), note="x" * 400_000))
            tx.put(Order(customer_id="c", order_id="10", note="x" * 200_000))


@needs("transactions")
class TestTransaction:
    def test_moves_money(self, db: Store) -> None:
        fill(db, [Account(name="ann", balance=100), Account(name="bob")])
        transfer(db, 70)
        assert balances(db) == [30, 70]
        with pytest.raises(TransactionFailed):
            transfer(db, 70)
        assert balances(db) == [30, 70]

    def test_does_every_operation(self, db: Store, stores: Stores) -> None:
        fill(db, [ORDER, Customer(customer_id="c", name="Ann"), Account(name="ann"), Tally(name="t", hits=5)])
        stores.forget()
        with db.transaction() as tx:
            new = Order(customer_id="c", order_id="new")
            assert tx.put(new) is new
            assert tx.insert(Account(name="bob", balance=1)) == Account(name="bob", balance=1)
            tx.update(ANN, increment(Account.balance, 9), when=Account.balance == 0)
            tx.update(Tally.primary(name="t"), increment(Tally.hits), set_(Tally.label, "l"))
            tx.delete(ORDER, when=Order.status == "open")
            tx.check(Customer, customer_id="c")
            assert stores.requests == []
        assert [type(request) for request in stores.requests] == [req.Transact]
        assert list(db.query(Order.primary(customer_id="c"))) == [new]
        assert balances(db) == [9, 1]
        assert db.one(Tally, name="t") == Tally(name="t", hits=6, label="l")
        assert db.one(Customer, customer_id="c").name == "Ann"

    def test_judges_the_state_before_it(self, db: Store) -> None:
        fill(db, [Account(name="ann", balance=1)])
        with db.transaction() as tx:
            tx.delete(ANN)
            tx.put(Account(name="bob"), when=missing(Account.balance))
        assert [account.name for account in db.scan(Account)] == ["bob"]

    def test_deletes_what_is_not_there(self, db: Store) -> None:
        with db.transaction() as tx:
            tx.delete(ORDER)
            tx.delete(Account, name="ann")
            tx.put(Account(name="bob"))
        assert db.exists(BOB)

    def test_upserts(self, db: Store) -> None:
        for count in (1, 2):
            with db.transaction() as tx:
                tx.update(Tally.primary(name="t"), increment(Tally.hits), upsert=True)
                tx.update(ANN, increment(Account.balance, 5), upsert=True)
            assert (db.one(Tally, name="t").hits, db.one(ANN).balance) == (count, 5 * count)

    def test_takes_100(self, db: Store) -> None:
        names = [f"{n:03}" for n in range(100)]
        with db.transaction() as tx:
            for name in names:
                tx.insert(Order(customer_id="c", order_id=name))
        assert [order.order_id for order in db.query(Order.primary(customer_id="c"))] == names

    def test_works_in_a_table_without_sort_key(self, stores: Stores) -> None:
        db = stores.open(hashes)
        with db.transaction() as tx:
            tx.put(Setting(name="a"))
            tx.put(Setting(name="b"))
        assert db.count(Setting.primary(name="a")) == db.count(Setting.primary(name="b")) == 1


@needs("transactions")
class TestTransactionReasons:
    def test_one_an_operation(self, db: Store) -> None:
        fill(db, [ORDER, Account(name="ann", balance=3)])
        failure = failed(
            db,
            lambda tx: tx.insert(ORDER),
            lambda tx: tx.put(Customer(customer_id="c", name="Ann")),
            lambda tx: tx.update(ANN, increment(Account.balance, -4)),
            lambda tx: tx.update(BOB, increment(Account.balance, 4)),
            lambda tx: tx.delete(Order.primary(customer_id="c", order_id="gone")),
            lambda tx: tx.check(Tally, name="t"),
        )
        assert kinds(failure) == [ItemExists, None, ConditionFailed, ItemNotFound, None, ItemNotFound]
        exists_, _, bounds, *_ = failure.reasons
        assert isinstance(exists_, ItemExists)
        assert exists_.item == ORDER
        assert isinstance(bounds, ConditionFailed)
        assert bounds.item == Account(name="ann", balance=3)
        assert sorted(type(item).__name__ for item in db.scan()) == ["Account", "Order"]

    def test_the_message_names_what_failed(self, db: Store) -> None:
        failure = failed(db, lambda tx: tx.put(ORDER), lambda tx: tx.check(ANN), lambda tx: tx.check(BOB))
        for part in ("nothing was written", "2 of 3", "reasons[1], check()", "Account.primary(name='bob')"):
            assert part in str(failure)

    def test_checks_of_absent_items(self, db: Store) -> None:
        with db.transaction() as tx:
            tx.check(ORDER, when=missing(Order.status))
            tx.check(ANN, when=missing(Account.balance))
            tx.put(Account(name="bob"))
        assert db.exists(BOB)
        failure = failed(db, lambda tx: tx.check(ORDER, when=exists(Order.status)), lambda tx: tx.delete(BOB))
        assert kinds(failure) == [ConditionFailed, None]
        assert "no such item" in str(failure)

    def test_what_a_delete_depends_on_is_judged_on_an_absent_item(self, db: Store) -> None:
        failure = failed(
            db, lambda tx: tx.delete(ORDER, when=Order.status == "open"), lambda tx: tx.put(Account(name="bob"))
        )
        assert kinds(failure) == [ConditionFailed, None]
        with db.transaction() as tx:
            tx.delete(ORDER, when=missing(Order.status))
            tx.put(Account(name="bob"))
        assert db.exists(BOB)

    def test_actions_that_do_not_fit_what_is_stored(self, db: Store) -> None:
        db.put(Sheet(sheet_id="s", meta={"n": 1}))
        failure = failed(
            db,
            lambda tx: tx.put(ORDER),
            lambda tx: tx.update(Sheet.primary(book="b", sheet_id="s"), append(Sheet.meta["n"], "x")),
        )
        assert kinds(failure) == [None, BadValue]
        assert not db.exists(ORDER.primary(customer_id="c", order_id="o"))


@needs("transactions")
class TestTransactionRevision:
    def test_counts(self, db: Store) -> None:
        with db.transaction() as tx:
            first = tx.put(Document(document_id="a"))
            other = tx.insert(Document(document_id="b"))
        assert [first.revision, other.revision] == [1, 1]
        with db.transaction() as tx:
            second = tx.put(first)
            tx.update(other, set_(Document.text, "x"))
        assert db.one(Document, document_id="a") == second
        assert db.one(Document, document_id="b") == Document(document_id="b", text="x", revision=2)
        with db.transaction() as tx:
            tx.update(Document.primary(document_id="b"), set_(Document.text, "y"))
            tx.check(second)
        assert db.one(Document, document_id="b").revision == 3

    def test_a_stale_entity_is_a_conflict(self, db: Store) -> None:
        stale = db.put(Document(document_id="a"))
        newest = db.put(stale)
        for call in (
            lambda tx: tx.put(stale),
            lambda tx: tx.update(stale, set_(Document.text, "x")),
            lambda tx: tx.delete(stale),
            lambda tx: tx.check(stale),
        ):
            failure = failed(db, lambda tx: tx.put(ORDER), call)
            assert kinds(failure) == [None, Conflict]
            assert isinstance(failure.reasons[1], Conflict)
            assert failure.reasons[1].item == newest
        assert not db.exists(ORDER.primary(customer_id="c", order_id="o"))

    def test_what_was_deleted_is_a_conflict(self, db: Store) -> None:
        stored = db.put(Document(document_id="a"))
        db.delete(stored)
        failure = failed(db, lambda tx: tx.delete(stored), lambda tx: tx.put(ORDER))
        assert kinds(failure) == [Conflict, None]
        assert kinds(failed(db, lambda tx: tx.check(stored))) == [ItemNotFound]
        assert kinds(failed(db, lambda tx: tx.put(stored))) == [Conflict]
