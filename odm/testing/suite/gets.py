"""`get`, `one`, `exists` and `get_many`."""
# ruff: noqa: D101  # a test's name says what it shows

from typing import Any, cast

import pytest

from odm import BadValue, ItemInvalid, ItemNotFound, KeyValueError, Store
from odm.testing.capabilities import Capabilities, needs
from odm.testing.entities import Customer, Order, OrderLine, Setting, Sheet, SheetV2, hashes, plain_v2
from odm.testing.stores import Stores
from odm.testing.suite.helpers import fill

ORDER = Order(customer_id="c1", order_id="o1")


class TestGet:
    def test_of_an_absent_item(self, db: Store) -> None:
        assert db.get(Order, customer_id="c1", order_id="o1") is None
        assert db.exists(Order, customer_id="c1", order_id="o1") is False
        with pytest.raises(ItemNotFound, match="o1"):
            db.one(Order, customer_id="c1", order_id="o1")

    def test_by_class_and_by_key(self, db: Store) -> None:
        db.put(ORDER)
        key = Order.primary(customer_id="c1", order_id="o1")
        assert db.get(key) == db.one(key) == db.one(Order, customer_id="c1", order_id="o1") == ORDER
        assert db.exists(key)
        assert db.exists(Order, customer_id="c1", order_id="o1")

    def test_may_be_eventually_consistent(self, db: Store) -> None:
        db.put(ORDER)
        key = Order.primary(customer_id="c1", order_id="o1")
        assert db.get(key, consistent=False) in (None, ORDER)
        assert db.get_many([key], consistent=False)[0] in (None, ORDER)

    def test_distinguishes_entities_of_one_partition(self, db: Store) -> None:
        customer, line = (
            Customer(customer_id="c1", name="Ann"),
            OrderLine(customer_id="c1", order_id="o1", number=1, sku="x"),
        )
        fill(db, [ORDER, customer, line])
        assert db.get(Customer, customer_id="c1") == customer
        assert db.get(OrderLine, customer_id="c1", order_id="o1", number=1) == line
        assert db.get(OrderLine, customer_id="c1", order_id="o1", number=2) is None

    def test_of_values_that_hold_the_separator(self, db: Store) -> None:
        first = db.put(Order(customer_id="a#ORDER", order_id="b"))
        second = db.put(Order(customer_id="a", order_id="ORDER#b"))
        assert db.get(Order, customer_id="a#ORDER", order_id="b") == first
        assert db.get(Order, customer_id="a", order_id="ORDER#b") == second

    def test_refuses_a_key_that_is_not_whole(self, offline: Store) -> None:
        with pytest.raises(BadValue, match="order_id"):
            offline.get(Order, customer_id="c1")  # type: ignore[call-arg]
        with pytest.raises(KeyValueError, match="customer_id"):
            offline.get(Order, order_id="o1")  # type: ignore[call-arg]
        with pytest.raises(KeyValueError, match="did you mean 'order_id'"):
            offline.get(Order, customer_id="c1", orderid="o1")  # type: ignore[call-arg]
        with pytest.raises(BadValue):
            offline.get(Order.primary(customer_id="c1", order_id="o1").where(Order.status == "open"))
        with pytest.raises(BadValue):
            offline.get(cast(Any, ORDER))

    @pytest.mark.parametrize("bad", ["", "\ud800", 7, None])
    def test_refuses_an_invalid_key_value(self, offline: Store, bad: Any) -> None:
        with pytest.raises(BadValue, match="order_id"):
            offline.get(Order, customer_id="c1", order_id=bad)

    def test_of_stored_data_that_does_not_fit_the_model(self, db: Store, stores: Stores) -> None:
        db.put(Sheet(sheet_id="s", title="words"))
        later = stores.open(plain_v2)
        for read in (
            lambda: later.get(SheetV2, book="b", sheet_id="s"),
            lambda: later.get_many([SheetV2.primary(book="b", sheet_id="s")]),
            lambda: list(later.query(SheetV2.primary(book="b"))),
            lambda: list(later.scan(SheetV2)),
        ):
            with pytest.raises(ItemInvalid, match="title") as caught:
                read()
            assert caught.value.item["title"] == "words"
            assert "SHEETS#b" in caught.value.key
            assert caught.value.__cause__ is not None
        assert later.exists(SheetV2, book="b", sheet_id="s")


class TestGetMany:
    def test_answers_in_the_order_of_the_keys(self, db: Store) -> None:
        orders = fill(db, [Order(customer_id="c1", order_id=name) for name in "bca"])
        customer = db.put(Customer(customer_id="c1", name="Ann"))
        keys = [Order.primary(customer_id="c1", order_id=name) for name in "abxc"]
        mixed = [*keys, Customer.primary(customer_id="c1"), keys[1]]
        assert db.get_many(mixed) == [orders[2], orders[0], None, orders[1], customer, orders[0]]

    def test_takes_no_keys_and_very_many(self, db: Store) -> None:
        orders = fill(db, [Order(customer_id="c1", order_id=f"o{n}") for n in (0, 60, 119)])
        keys = [Order.primary(customer_id="c1", order_id=f"o{n}") for n in range(120)]
        entities = db.get_many(keys)
        assert [entities[0], entities[60], entities[119]] == orders
        assert sum(order is not None for order in entities) == 3
        assert db.get_many([]) == []

    @needs("transactions")
    def test_atomically_in_the_order_of_the_keys(self, db: Store) -> None:
        orders = fill(db, [Order(customer_id=f"c{n}", order_id="o") for n in range(3)])
        customer = db.put(Customer(customer_id="c1", name="Ann"))
        keys = [Order.primary(customer_id=f"c{n}", order_id="o") for n in (2, 0, 9, 2)]
        entities = db.get_many([*keys, Customer.primary(customer_id="c1")], atomic=True)
        assert entities == [orders[2], orders[0], None, orders[2], customer]
        assert db.get_many([], atomic=True) == []

    @needs("transactions")
    def test_atomically_costs_twice_as_much(self, db: Store, capabilities: Capabilities) -> None:
        fill(db, [Order(customer_id="c", order_id=name) for name in "ab"])
        keys = [Order.primary(customer_id="c", order_id=name) for name in "abc"]
        with capabilities.whole(db) as meter:
            db.get_many(keys, atomic=True)
        # One item is missing: a read shows that, and a transaction reads and locks all of them.
        assert meter.calls == (1 + capabilities.transaction_calls(3) if capabilities.locks is True else 1)
        assert meter.read_units == 6.0 or not capabilities.units
        with capabilities.whole(db) as meter:
            assert None not in db.get_many(keys[:2], atomic=True)
        assert meter.calls == (2 if capabilities.locks is True else 1)  # two reads in which nothing has changed

    def test_atomically_refuses_what_cannot_be_read_so(self, offline: Store) -> None:
        keys = [Order.primary(customer_id="c", order_id=f"o{n}") for n in range(101)]
        with pytest.raises(BadValue, match="at most 100"):
            offline.get_many(keys, atomic=True)
        with pytest.raises(BadValue, match="consistent"):
            offline.get_many(keys[:2], atomic=True, consistent=False)

    def test_in_a_table_without_sort_key(self, stores: Stores) -> None:
        db = stores.open(hashes)
        setting = db.put(Setting(name="a", value="1"))
        assert db.get_many([Setting.primary(name="b"), Setting.primary(name="a")]) == [None, setting]

    def test_refuses_what_is_not_a_key(self, offline: Store) -> None:
        with pytest.raises(BadValue):
            offline.get_many([Order.primary(customer_id="c1")])  # type: ignore[odm]
