"""Batches of puts and deletes."""
# ruff: noqa: D101  # a test's name says what it shows

import pytest

from odm import BadValue, Store
from odm.testing.capabilities import needs
from odm.testing.entities import Customer, Document, Member, Order, Setting, hashes
from odm.testing.stores import Stores
from odm.testing.suite.helpers import fill


def order(name: str, note: str | None = None) -> Order:
    """An order of customer "c"."""
    return Order(customer_id="c", order_id=name, note=note)


class TestBatch:
    def test_writes_when_the_block_ends(self, db: Store, stores: Stores) -> None:
        fill(db, [order("old"), order("named")])
        stores.forget()
        with db.batch() as batch:
            batch.put(order("a"))
            batch.put(Customer(customer_id="c", name="Ann"))
            batch.delete(order("old"))
            batch.delete(Order.primary(customer_id="c", order_id="absent"))
            batch.delete(Order, customer_id="c", order_id="named")
            assert stores.requests == []
        assert list(db.query(Order.primary(customer_id="c"))) == [order("a")]
        assert db.exists(Customer, customer_id="c")

    def test_the_last_operation_on_a_key_wins(self, db: Store) -> None:
        with db.batch() as batch:
            batch.put(order("a", "first"))
            batch.put(order("a", "second"))
            batch.delete(order("b"))
            batch.put(order("b"))
            batch.put(order("c"))
            batch.delete(order("c"))
        assert list(db.query(Order.primary(customer_id="c"))) == [order("a", "second"), order("b")]

    def test_takes_more_than_a_service_does_at_once(self, db: Store) -> None:
        orders = [order(f"{n:03}") for n in range(60)]
        with db.batch() as batch:
            for entity in orders:
                batch.put(entity)
        assert list(db.query(Order.primary(customer_id="c"))) == orders

    def test_sends_nothing_when_the_block_raises(self, db: Store, stores: Stores) -> None:
        stores.forget()
        with pytest.raises(ZeroDivisionError), db.batch() as batch:  # noqa: PT012  # what follows the put is the point
            batch.put(order("a"))
            raise ZeroDivisionError
        assert stores.requests == []

    def test_of_nothing_sends_nothing(self, db: Store, stores: Stores) -> None:
        stores.forget()
        with db.batch():
            pass
        assert stores.requests == []

    def test_refuses_what_it_cannot_guard(self, db: Store) -> None:
        with db.batch() as batch:
            with pytest.raises(BadValue, match="Revision"):
                batch.put(Document(document_id="d"))
            with pytest.raises(BadValue, match="Revision"):
                batch.delete(Document(document_id="d"))
            batch.delete(Document.primary(document_id="d"))

    def test_in_a_table_without_sort_key(self, stores: Stores) -> None:
        db = stores.open(hashes)
        with db.batch() as batch:
            batch.put(Setting(name="a"))
            batch.put(Setting(name="b"))
            batch.delete(Setting(name="b"))
        assert list(db.scan()) == [Setting(name="a")]

    @needs("indexes")
    def test_keeps_index_entries_right(self, indexed: Store) -> None:
        indexed.put(Member(member_id="m", email="old"))
        indexed.put(Member(member_id="n", email="old"))
        with indexed.batch() as batch:
            batch.put(Member(member_id="m", email="new"))
            batch.delete(Member(member_id="n", email="whatever"))
        assert indexed.count(Member.by_email(email="old")) == 0
        assert indexed.first(Member.by_email(email="new")) == Member(member_id="m", email="new")
