"""`collection`: all items of a partition, or under the beginning of a sort key."""
# ruff: noqa: D101  # a test's name says what it shows

from decimal import Decimal

import pytest

from odm import BadValue, Grouped, collection
from odm.stores.sync import Store
from odm.testing.capabilities import needs
from odm.testing.entities import Customer, Member, Order, OrderLine, Session, Ticket
from odm.testing.suite.helpers import FUTURE, PAST, at, fill, walk

CUSTOMER = Customer(customer_id="c", name="Ann")
ORDERS = [Order(customer_id="c", order_id=name, total=Decimal(n)) for n, name in enumerate(("o", "o#1", "o1", "o2"))]
LINES = [OrderLine(customer_id="c", order_id="o1", number=n, sku="x") for n in (1, 2)]
WHOLE = collection(Customer.primary(customer_id="c"))
EVERYTHING = [ORDERS[0], ORDERS[1], ORDERS[2], *LINES, ORDERS[3], CUSTOMER]
"""In key order."""


class TestCollection:
    def test_gives_objects_of_every_entity_in_key_order(self, db: Store) -> None:
        fill(db, [CUSTOMER, *LINES, *ORDERS, Order(customer_id="c2", order_id="o")])
        assert list(db.query(WHOLE)) == EVERYTHING
        assert list(db.query(WHOLE.reverse())) == EVERYTHING[::-1]
        assert list(db.query(WHOLE.limit(2))) == EVERYTHING[:2]
        assert db.count(WHOLE) == 7

    def test_pages(self, db: Store) -> None:
        fill(db, EVERYTHING)
        assert walk(db, WHOLE, 3) == [EVERYTHING[:3], EVERYTHING[3:6], EVERYTHING[6:]]

    def test_filters_by_the_field_that_a_condition_names(self, db: Store) -> None:
        fill(db, EVERYTHING)
        assert list(db.query(WHOLE.where(Order.total > 1))) == ORDERS[2:]
        assert list(db.query(WHOLE.where(Customer.name == "Ann"))) == [CUSTOMER]

    def test_of_some_entities_and_grouped(self, db: Store) -> None:
        fill(db, EVERYTHING)
        some = collection(Customer.primary(customer_id="c"), Customer, OrderLine)
        assert list(db.query(some)) == [*LINES, CUSTOMER]
        assert db.first(some.reverse().where(OrderLine.number == 1)) == LINES[0]
        assert walk(db, some, 1) == [[LINES[0]], [LINES[1]], [CUSTOMER]]
        key = Order.primary(customer_id="c", order_id="o1")
        assert list(db.query(collection(key, Order, prefix=True))) == [ORDERS[2]]
        found = Grouped(db.query(WHOLE))
        assert (found[Order], found[OrderLine], found[Customer], found[Session]) == (ORDERS, LINES, [CUSTOMER], [])
        assert (list(found), str(found)) == ([Order, OrderLine, Customer], "Grouped(4 Order, 2 OrderLine, 1 Customer)")
        assert str(some) == "collection(Customer.primary(customer_id='c'), Customer, OrderLine)"
        assert db.delete_all(some) == 3
        assert list(db.query(WHOLE)) == ORDERS

    def test_under_a_key(self, db: Store) -> None:
        fill(db, EVERYTHING)
        key = Order.primary(customer_id="c", order_id="o1")
        assert list(db.query(collection(key, prefix=True))) == [ORDERS[2], *LINES]
        assert list(db.query(collection(key, prefix=True).reverse())) == [*LINES[::-1], ORDERS[2]]
        assert list(db.query(collection(Order.primary(customer_id="c", order_id="o"), prefix=True))) == ORDERS[:1]
        assert list(db.query(collection(Order.primary(customer_id="c", order_id="x"), prefix=True))) == []

    def test_leaves_out_what_has_expired(self, db: Store) -> None:
        living = Session(user="u", session_id="a", expires_at=FUTURE)
        fill(db, [living, Session(user="u", session_id="b", expires_at=PAST)])
        everything = collection(Session.primary(user="u"))
        assert list(db.query(everything)) == [living]
        assert db.count(everything) == 1

    @needs("indexes")
    def test_of_an_index_partition(self, indexed: Store) -> None:
        ticket = Ticket(member_id="m", ticket_id="t", filed_at=at(1))
        fill(indexed, [ticket, Member(member_id="m", email="e")])
        assert list(indexed.query(collection(Ticket.by_date(member_id="m")))) == [ticket]

    def test_takes_a_partition_or_a_whole_key(self, offline: Store) -> None:
        with pytest.raises(BadValue):
            offline.query(collection(Order.primary(customer_id="c", order_id="o")))
        with pytest.raises(BadValue):
            offline.query(collection(Order.primary(customer_id="c"), prefix=True))
        with pytest.raises(BadValue):
            collection(Order.primary(customer_id="c").where(Order.order_id > "o"), prefix=True)
        with pytest.raises(BadValue, match="'Order' is not an entity class"):
            collection(Order.primary(customer_id="c"), "Order")  # type: ignore[call-overload]

    def test_of_a_range_of_sort_keys(self, db: Store) -> None:
        fill(db, EVERYTHING)
        some = Order.primary(customer_id="c").where(Order.order_id >= "o1")
        assert list(db.query(collection(some))) == [ORDERS[2], *LINES, ORDERS[3]]
        assert list(db.query(collection(some).reverse().limit(1))) == [ORDERS[3]]
        assert list(db.query(collection(some).where(Order.total > 2))) == [ORDERS[3]]
        assert walk(db, collection(some), 3) == [[ORDERS[2], *LINES], [ORDERS[3]]]
        with pytest.raises(BadValue, match=r"range of a collection is one of sort keys, and total > 1"):
            db.query(collection(Order.primary(customer_id="c").where(Order.total > 1)))
