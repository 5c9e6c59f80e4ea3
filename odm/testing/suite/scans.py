"""scan."""
# ruff: noqa: D101  # a test's name says what it shows

from decimal import Decimal
from typing import Any, cast

import pytest

from odm import BadValue
from odm.stores.sync import Store
from odm.testing.capabilities import needs
from odm.testing.entities import Customer, Event, Member, Order, Session, Setting, hashes
from odm.testing.stores import Stores
from odm.testing.suite.helpers import FUTURE, PAST, at, fill

ORDERS = [Order(customer_id=f"c{n}", order_id="o", total=Decimal(n)) for n in range(4)]


def by_key(order: Order) -> str:
    """For sorting."""
    return order.customer_id


class TestScan:
    def test_of_one_entity(self, db: Store) -> None:
        fill(db, ORDERS)
        db.put(Customer(customer_id="c1", name="Ann"))
        assert sorted(db.scan(Order), key=by_key) == ORDERS

    def test_with_conditions(self, db: Store) -> None:
        fill(db, ORDERS)
        found = db.scan(Order, Order.total > 0, Order.customer_id != "c2")
        assert sorted(found, key=by_key) == [ORDERS[1], ORDERS[3]]
        assert list(db.scan(Order, Order.total > 9)) == []

    def test_of_everything(self, db: Store) -> None:
        customer = Customer(customer_id="c1", name="Ann")
        event = Event(log="l", level=1, at=at(1), name="n")
        fill(db, [*ORDERS[:1], customer, event])
        found = list(db.scan())
        assert len(found) == 3
        assert all(item in found for item in (ORDERS[0], customer, event))

    def test_of_an_empty_table(self, db: Store) -> None:
        assert list(db.scan()) == []
        assert list(db.scan(Order, consistent=False)) == []

    def test_in_a_table_without_sort_key(self, stores: Stores) -> None:
        db = stores.open(hashes)
        items = fill(db, [Setting(name=name) for name in "ab"])
        assert sorted(db.scan(Setting), key=lambda setting: setting.name) == items

    def test_leaves_out_what_has_expired(self, db: Store) -> None:
        living = Session(user="u", session_id="a", expires_at=FUTURE)
        fill(db, [living, Session(user="u", session_id="b", expires_at=PAST)])
        assert list(db.scan(Session)) == [living]
        assert list(db.scan()) == [living]

    @needs("indexes")
    def test_shows_each_item_once_however_many_indexes_it_is_in(self, indexed: Store) -> None:
        fill(indexed, [Member(member_id="m", email="e")])
        assert list(indexed.scan()) == [Member(member_id="m", email="e")]

    def test_needs_the_entity_of_its_conditions(self, offline: Store) -> None:
        with pytest.raises(BadValue):
            list(cast(Any, offline).scan(None, Order.total > 1))
        with pytest.raises(TypeError):
            list(offline.scan(Order, True))
