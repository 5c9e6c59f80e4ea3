"""`put` and `insert`."""
# ruff: noqa: D101  # a test's name says what it shows

from decimal import Decimal
from typing import Any, cast

import pytest

from odm import BadValue, ConditionFailed, ItemExists, ItemTooLarge, SchemaError, Store, exists, missing
from odm.testing.capabilities import needs
from odm.testing.entities import Customer, Order, OrderV2, Session, Setting, Sheet, hashes
from odm.testing.stores import Stores
from odm.testing.suite.helpers import FUTURE
from odm.testing.suite.ways import Way, each_way

ORDER = Order(customer_id="c1", order_id="o1", total=Decimal("9.50"), note="gift")


class TestPut:
    def test_gives_the_entity_back_and_stores_it(self, db: Store) -> None:
        assert db.put(ORDER) == ORDER
        assert db.get(Order, customer_id="c1", order_id="o1") == ORDER

    def test_replaces_the_whole_item(self, db: Store) -> None:
        db.put(ORDER)
        db.put(Order(customer_id="c1", order_id="o1"))
        assert db.one(Order, customer_id="c1", order_id="o1") == Order(customer_id="c1", order_id="o1")

    def test_forgets_attributes_that_the_model_does_not_know(self, db: Store, stores: Stores) -> None:
        db.put(ORDER)
        stores.open(cast(Any, OrderV2.__odm_table__)).put(OrderV2(customer_id="c1", order_id="o1"))
        assert db.one(Order, customer_id="c1", order_id="o1").note is None

    def test_of_an_object_that_is_changed_later_keeps_what_was_put(self, db: Store) -> None:
        sheet = Sheet(sheet_id="s", parts=["a"])
        db.put(sheet)
        sheet.parts.append("b")
        stored = db.one(Sheet, sheet_id="s", book="b")
        stored.parts.append("c")
        assert db.one(Sheet, sheet_id="s", book="b").parts == ["a"]

    def test_in_a_table_without_sort_key(self, stores: Stores) -> None:
        db = stores.open(hashes)
        db.put(Setting(name="a", value="1"))
        db.put(Setting(name="a", value="2"))
        db.put(Setting(name="b", value="3"))
        assert [db.one(Setting, name=name).value for name in ("a", "b")] == ["2", "3"]

    def test_refuses_what_is_not_an_entity_of_the_table(self, offline: Store) -> None:
        with pytest.raises(BadValue):
            offline.put(cast(Any, "c1"))
        with pytest.raises(SchemaError):
            offline.put(Setting(name="a"))

    def test_refuses_a_value_of_a_wrong_type(self, offline: Store) -> None:
        with pytest.raises(BadValue, match=r"Order.total: 'much'"):
            offline.put(ORDER.model_copy(update={"total": "much"}))

    def test_refuses_an_item_over_the_limit_before_it_is_sent(self, offline: Store) -> None:
        with pytest.raises(ItemTooLarge):
            offline.put(Order(customer_id="c1", order_id="o1", note="x" * 400 * 1024))
        with pytest.raises(ItemTooLarge):
            offline.put(Order(customer_id="c" * 2048, order_id="o1"))
        with pytest.raises(ItemTooLarge):
            offline.put(Order(customer_id="c1", order_id="o" * 1024))

    def test_takes_an_item_just_below_the_limit(self, db: Store) -> None:
        order = Order(customer_id="c" * 2039, order_id="o" * 1018, note="x" * 390 * 1024)
        db.put(order)
        assert db.get(Order, customer_id=order.customer_id, order_id=order.order_id) == order


class TestInsert:
    def test_stores_a_new_item(self, db: Store) -> None:
        assert db.insert(ORDER) == ORDER
        assert db.get(Order.primary(customer_id="c1", order_id="o1")) == ORDER

    @each_way
    def test_of_a_taken_key_changes_nothing_and_carries_the_item(self, db: Store, way: Way) -> None:
        db.insert(ORDER)
        with pytest.raises(ItemExists) as caught:
            way(db).insert(Order(customer_id="c1", order_id="o1", note="second"))
        assert caught.value.item == ORDER
        assert db.get(Order, customer_id="c1", order_id="o1") == ORDER

    def test_next_to_another_item_of_the_partition(self, db: Store) -> None:
        db.insert(ORDER)
        db.insert(ORDER.model_copy(update={"order_id": "o2"}))
        db.insert(Customer(customer_id="c1", name="Ann"))
        assert db.exists(Customer, customer_id="c1")

    def test_in_a_table_without_sort_key(self, stores: Stores) -> None:
        db = stores.open(hashes)
        db.insert(Setting(name="a", value="1"))
        with pytest.raises(ItemExists):
            db.insert(Setting(name="a"))


@needs("conditions")
class TestConditionalPut:
    @each_way
    def test_writes_when_the_condition_holds(self, db: Store, way: Way) -> None:
        db.put(ORDER)
        way(db).put(ORDER.model_copy(update={"note": "new"}), when=Order.total == Decimal("9.5"))
        assert db.one(Order, customer_id="c1", order_id="o1").note == "new"

    @each_way
    def test_writes_nothing_when_it_does_not_and_carries_the_item(self, db: Store, way: Way) -> None:
        db.put(ORDER)
        with pytest.raises(ConditionFailed) as caught:
            way(db).put(ORDER.model_copy(update={"note": "new"}), when=Order.status == "shipped")
        assert caught.value.item == ORDER
        assert db.get(Order, customer_id="c1", order_id="o1") == ORDER

    @each_way
    def test_judges_an_absent_item_as_one_without_attributes(self, db: Store, way: Way) -> None:
        for condition in (Order.status == "open", exists(Order.order_id)):
            with pytest.raises(ConditionFailed) as caught:
                way(db).put(ORDER, when=condition)
            assert caught.value.item is None
        way(db).put(ORDER, when=missing(Order.order_id))
        assert db.get(Order, customer_id="c1", order_id="o1") == ORDER

    @each_way
    def test_insert_of_what_expires_needs_a_free_key(self, db: Store, way: Way) -> None:
        session = Session(user="u", session_id="s", expires_at=FUTURE)
        db.insert(session)
        with pytest.raises(ItemExists) as caught:
            way(db).insert(session)
        assert caught.value.item == session
