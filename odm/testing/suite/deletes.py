"""`delete` and `delete_all`."""
# ruff: noqa: D101  # a test's name says what it shows

import pytest

from odm import ConditionFailed, Store, collection
from odm.testing.capabilities import needs
from odm.testing.entities import Customer, Event, Member, Order, OrderLine, Setting, hashes
from odm.testing.stores import Stores
from odm.testing.suite.helpers import at, fill
from odm.testing.suite.ways import Way, each_way

ORDER = Order(customer_id="c1", order_id="o1")


class TestDelete:
    def test_says_whether_the_item_was_there(self, db: Store) -> None:
        db.put(ORDER)
        assert db.delete(Order, customer_id="c1", order_id="o1") is True
        assert db.delete(Order, customer_id="c1", order_id="o1") is False
        assert db.get(Order, customer_id="c1", order_id="o1") is None

    def test_by_entity_and_by_key(self, db: Store) -> None:
        db.put(ORDER)
        assert db.delete(ORDER)
        db.put(ORDER)
        assert db.delete(Order.primary(customer_id="c1", order_id="o1"))
        assert not db.exists(Order, customer_id="c1", order_id="o1")

    def test_leaves_the_neighbours(self, db: Store) -> None:
        others = fill(db, [Order(customer_id="c1", order_id=name) for name in ("o", "o10", "o2")])
        db.put(ORDER)
        db.delete(ORDER)
        assert list(db.query(Order.primary(customer_id="c1"))) == others

    def test_in_a_table_without_sort_key(self, stores: Stores) -> None:
        db = stores.open(hashes)
        db.put(Setting(name="a"))
        assert db.delete(Setting, name="a")
        assert not db.delete(Setting, name="a")

    @needs("indexes")
    def test_removes_the_index_entries(self, indexed: Store) -> None:
        indexed.put(Member(member_id="m", email="a@b"))
        indexed.delete(Member, member_id="m")
        assert indexed.first(Member.by_email(email="a@b")) is None


@needs("conditions")
class TestConditionalDelete:
    @each_way
    def test_deletes_when_the_condition_holds(self, db: Store, way: Way) -> None:
        db.put(ORDER)
        way(db).delete(ORDER, when=Order.status == "open")
        assert not db.exists(Order, customer_id="c1", order_id="o1")

    @each_way
    def test_deletes_nothing_when_it_does_not(self, db: Store, way: Way) -> None:
        db.put(ORDER)
        with pytest.raises(ConditionFailed) as caught:
            way(db).delete(Order.primary(customer_id="c1", order_id="o1"), when=Order.status == "shipped")
        assert caught.value.item == ORDER
        assert db.exists(Order, customer_id="c1", order_id="o1")

    def test_of_an_absent_item_is_false_whatever_the_condition(self, db: Store) -> None:
        assert db.delete(ORDER, when=Order.status == "open") is False
        assert db.delete(ORDER, when=Order.status != "open") is False


class TestDeleteAll:
    def test_of_a_partition(self, db: Store) -> None:
        line = OrderLine(customer_id="c1", order_id="o1", number=1, sku="x")
        fill(db, [Customer(customer_id="c1", name="Ann"), line, ORDER, Order(customer_id="c2", order_id="o1")])
        assert db.delete_all(collection(Customer.primary(customer_id="c1"))) == 3
        assert list(db.query(collection(Customer.primary(customer_id="c1")))) == []
        assert db.exists(Order, customer_id="c2", order_id="o1")

    def test_of_one_entity_in_a_partition(self, db: Store) -> None:
        line = OrderLine(customer_id="c1", order_id="o1", number=1, sku="x")
        fill(db, [Customer(customer_id="c1", name="Ann"), line, ORDER])
        assert db.delete_all(Order.primary(customer_id="c1")) == 1
        assert len(list(db.query(collection(Customer.primary(customer_id="c1"))))) == 2

    def test_of_a_range_with_a_filter(self, db: Store) -> None:
        fill(db, [Event(log="l", level=n, at=at(0), name="n", text="xy"[n % 2]) for n in range(6)])
        query = Event.primary(log="l").where(Event.level >= 2, Event.text == "x")
        assert db.delete_all(query) == 2
        assert [event.level for event in db.query(Event.primary(log="l"))] == [0, 1, 3, 5]

    def test_keeps_to_the_limit(self, db: Store) -> None:
        fill(db, [Event(log="l", level=n, at=at(0), name="n") for n in range(4)])
        assert db.delete_all(Event.primary(log="l").reverse().limit(3)) == 3
        assert [event.level for event in db.query(Event.primary(log="l"))] == [0]

    def test_of_nothing(self, db: Store) -> None:
        assert db.delete_all(Event.primary(log="l")) == 0
        assert db.delete_all(Event.primary(log="l").where(Event.level > 5, Event.level < 2)) == 0

    @needs("indexes")
    def test_through_an_index(self, indexed: Store) -> None:
        fill(indexed, [Member(member_id=name, email="a@b" if name < "c" else "c@d") for name in "abc"])
        assert indexed.delete_all(Member.by_email(email="a@b")) == 2
        assert [member.member_id for member in indexed.scan(Member)] == ["c"]
