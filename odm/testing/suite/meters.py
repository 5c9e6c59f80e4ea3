"""`meter`: calls and capacity units of a block, by pattern and by index."""
# ruff: noqa: D101  # a test's name says what it shows

from typing import Any

import pytest

from odm import AccessPattern, Entity, ItemExists, ItemNotFound, PrimaryKey, Store, Table, collection, set_
from odm.results import RequestInfo, Usage
from odm.testing.capabilities import Capabilities, needs
from odm.testing.entities import Customer, Member, Order, Sheet, plain
from odm.testing.entities import indexed as table_of_indexes
from odm.testing.stores import Stores
from odm.testing.suite.helpers import fill

CUSTOMER = Customer(customer_id="c", name="Ann")


def order(order_id: str, size: int = 2500) -> Order:
    """An order of slightly more than so many bytes."""
    return Order(customer_id="c", order_id=order_id, note="n" * size)


class TestMeter:
    def test_counts_calls_by_pattern(self, db: Store) -> None:
        with db.meter() as meter:
            db.put(CUSTOMER)
            db.insert(order("a"))
            assert db.get(Order, customer_id="c", order_id="a") == order("a")
            assert db.exists(Order, customer_id="c", order_id="b") is False
            assert list(db.query(Order.primary(customer_id="c"))) == [order("a")]
            assert db.count(Order.primary(customer_id="c")) == 1
            assert len(list(db.query(collection(Customer.primary(customer_id="c"))))) == 2
            assert list(db.scan(Order)) == [order("a")]
            assert len(list(db.scan())) == 2
            db.delete(Customer, customer_id="c")
            db.delete_all(collection(Customer.primary(customer_id="c")))
        assert {name: used.calls for name, used in meter.by_pattern.items()} == {
            "Customer.primary": 2,
            "Order.primary": 5,
            "collection(Customer.primary)": 3,
            "scan(Order)": 1,
            "scan()": 1,
        }
        assert meter.calls == 12
        assert {name: used.calls for name, used in meter.by_index.items()} == {None: 12}

    def test_the_units_of_an_item_depend_on_its_size(self, db: Store) -> None:
        key = Order.primary(customer_id="c", order_id="a")
        with db.meter() as meter:
            db.put(order("a"))
        assert meter.by_pattern == {"Order.primary": Usage(1, 0.0, 3.0)}
        with db.meter() as meter:
            db.get(key)
            db.get(key, consistent=False)
            db.get(Order, customer_id="c", order_id="absent")
        assert meter.by_pattern == {"Order.primary": Usage(3, 2.5, 0.0)}
        assert (meter.read_units, meter.write_units) == (2.5, 0.0)

    def test_what_is_not_there_costs_a_read(self, db: Store) -> None:
        absent = Order.primary(customer_id="c", order_id="absent")
        with db.meter() as meter:
            assert list(db.query(absent)) == []
            assert list(db.query(absent, consistent=False)) == []
            assert db.get_many([absent, Order.primary(customer_id="c", order_id="too")]) == [None, None]
        assert meter.by_pattern == {"Order.primary": Usage(3, 3.5, 0.0)}

    def test_a_page_ends_at_a_megabyte_of_items(self, db: Store, capabilities: Capabilities) -> None:
        sheets = [Sheet(sheet_id=f"{n:02}", blob=b"x" * 59_800) for n in range(30)]  # with the rest about 60,000 bytes
        fill(db, sheets)
        with db.meter() as meter:
            assert list(db.query(Sheet.primary(book="b"))) == sheets
        if capabilities.units:
            assert meter.by_pattern == {"Sheet.primary": Usage(2, 440.0, 0.0)}  # 18 items and 12

    def test_rounds_up_a_page_as_a_whole(self, db: Store) -> None:
        fill(db, map(order, "abc"))
        query = Order.primary(customer_id="c")
        with db.meter() as meter:
            list(db.query(query))
            list(db.query(query, consistent=False))
            db.page(query, size=1)  # one more item is read, to know whether the page is the last
        assert meter.by_pattern == {"Order.primary": Usage(3, 2 + 1 + 2, 0.0)}

    def test_pays_for_what_a_filter_drops(self, db: Store, capabilities: Capabilities) -> None:
        fill(db, map(order, "abc"))
        query = Order.primary(customer_id="c")
        with db.meter() as meter:
            assert list(db.query(query.where(Order.status == "shipped"))) == []
            assert len(list(db.query(query.where(Order.status == "open").limit(1)))) == 1
            assert db.count(query) == 3
        assert meter.read_units == 5.0 or not capabilities.units  # one item of the limited query

    def test_a_batch_is_a_call_of_each_of_its_patterns(self, db: Store, capabilities: Capabilities) -> None:
        fill(db, [CUSTOMER, order("a")])
        with db.meter() as meter, db.batch() as batch:
            batch.put(CUSTOMER)
            batch.put(order("a"))
        calls = 3 if capabilities.locks else 2 + capabilities.reads_first  # first reads the tags of stored items
        assert meter.calls == calls
        assert meter.by_pattern == {"Customer.primary": Usage(calls, 0.5, 1.0), "Order.primary": Usage(calls, 0.5, 3.0)}
        fill(db, [order("b", 5000)])
        with db.meter() as meter:
            keys = [Order.primary(customer_id="c", order_id=name) for name in "ab"]
            assert None not in db.get_many([*keys, Customer.primary(customer_id="c")])
        assert meter.calls == 1
        assert meter.by_pattern == {"Customer.primary": Usage(1, 1.0, 0.0), "Order.primary": Usage(1, 3.0, 0.0)}

    def test_counts_what_is_in_its_block(self, db: Store, stores: Stores) -> None:
        other = stores.open(plain)
        db.put(CUSTOMER)
        with db.meter() as outer:
            db.get(Customer, customer_id="c")
            with db.meter() as inner:
                db.get(Customer, customer_id="c")
                other.get(Customer, customer_id="c")
            results = db.scan(Customer)
            db.get(Customer, customer_id="c")
        assert list(results) == [CUSTOMER]  # results are read on iteration
        assert (inner.calls, outer.calls) == (1, 3)

    def test_counts_the_calls_that_fail(self, db: Store) -> None:
        db.put(CUSTOMER)
        with db.meter() as meter:
            with pytest.raises(ItemExists):
                db.insert(CUSTOMER)
            with pytest.raises(ItemNotFound):
                db.one(Customer, customer_id="absent")
        assert meter.calls >= 2  # the conflicting item may have to be read
        assert meter.write_units == 0.0

    def test_prints(self, db: Store) -> None:
        with db.meter() as meter:
            db.put(CUSTOMER)
        assert [line.split() for line in str(meter).splitlines()] == [
            ["pattern", "calls", "read", "units", "write", "units"],
            ["Customer.primary", "1", "0", "1"],
            ["index", "calls", "read", "units", "write", "units"],
            ["the", "table", "itself", "1", "0", "1"],
            ["total", "1", "0", "1"],
        ]

    def test_agrees_with_the_hook(self, stores: Stores) -> None:
        told: list[RequestInfo] = []
        db = stores.open(plain, on_request=told.append)
        with db.meter() as meter:
            told.clear()
            db.put(CUSTOMER)
            db.get(Customer, customer_id="c")
        assert meter.calls == len(told) == 2
        units = [info.units for info in told if info.units is not None]
        assert not units or sum(units) == meter.read_units + meter.write_units  # or the backend reports no units


bags = Table("bags")


class Bag(Entity, table=bags):
    """Has a map and a set, which have no order."""

    bag_id: str
    owner: str
    words: set[str]
    meta: dict[str, Any]

    primary = PrimaryKey("BAG#{bag_id}")
    by_owner = AccessPattern("OWNER#{owner}")


@needs("updates")
class TestMeterUpdates:
    def test_a_write_costs_the_larger_of_two_items(self, db: Store, capabilities: Capabilities) -> None:
        db.put(order("a"))
        key = Order.primary(customer_id="c", order_id="a")
        with db.meter() as meter:
            db.update(key, set_(Order.note, "short"))
            db.put(order("a"))
            db.delete(Order, customer_id="c", order_id="a")
            db.delete(Order, customer_id="c", order_id="a")
        units = 3 + 3 + 3 + 1 if capabilities.units else 1 + 3 + 1 + 1
        calls = 4 if capabilities.units else 5 + capabilities.reads_first  # a delete that finds no item also reads it
        assert meter.by_pattern == {"Order.primary": Usage(calls, 0.0, units)}


@needs("indexes")
class TestMeterIndexes:
    def test_a_write_pays_for_the_entries_that_it_changes(self, indexed: Store, capabilities: Capabilities) -> None:
        ann = Member(member_id="m", email="a@x")
        usage = []
        for member in (ann, ann, Member(member_id="m", email="b@x"), Member(member_id="m", email="b@x", name="Ann")):
            with indexed.meter() as meter:
                indexed.put(member)
            usage.append(meter.by_index)
            assert meter.by_pattern == {"Member.primary": Usage(meter.calls, 0.0, meter.write_units)}
        with indexed.meter() as meter:
            indexed.delete(ann)
        usage.append(meter.by_index)
        new, same, moved, changed, gone = usage
        if capabilities.units:
            unit = Usage(1, 0.0, 1.0)
            assert new == changed == gone == {None: unit, "gsi1": unit}
            assert same == {None: unit}
            assert moved == {None: unit, "gsi1": Usage(1, 0.0, 2.0)}
        for used in (new, moved, gone):
            assert used.keys() == {None, "gsi1"}
            assert min(used[None].calls, used["gsi1"].calls) >= 1

    def test_an_equal_item_costs_nothing_in_indexes(self, stores: Stores, capabilities: Capabilities) -> None:
        db = stores.open(bags)
        bag = Bag(bag_id="b", owner="Ann", words={"x", "y", "z"}, meta={"k": {"a": 1, "b": 2}, "l": [1]})
        again = Bag(bag_id="b", owner="Ann", words={"z", "y", "x"}, meta={"l": [1], "k": {"b": 2, "a": 1}})
        other = again.model_copy(update={"meta": {"l": [2]}})
        usage = []
        for item in (bag, again, other):
            with db.meter() as meter:
                db.put(item)
            usage.append(meter.by_index)
        table, index = Usage(1, 0.0, 1.0), Usage(1, 0.0, 1.0)
        if capabilities.units:
            assert usage == [{None: table, "by_owner": index}, {None: table}, {None: table, "by_owner": index}]

    def test_reads_of_an_index_are_reported_separately(self, indexed: Store, stores: Stores) -> None:
        told: list[RequestInfo] = []
        watched = stores.open(table_of_indexes, on_request=told.append)
        indexed.put(Member(member_id="m", email="a@x"))
        told.clear()
        with watched.meter() as meter:
            assert len(list(watched.query(Member.by_email(email="a@x")))) == 1
            watched.get(Member, member_id="m")
        by_email, primary = meter.by_pattern["Member.by_email"], meter.by_pattern["Member.primary"]
        assert (by_email.read_units, by_email.write_units, primary) == (0.5, 0.0, Usage(1, 1.0, 0.0))
        assert meter.by_index["gsi1"] == Usage(1, 0.5, 0.0)
        assert meter.by_index[None].read_units == 1.0
        assert meter.calls == len(told) == meter.by_index[None].calls + 1

    def test_a_transaction_doubles_the_units_of_the_table_only(
        self, indexed: Store, capabilities: Capabilities
    ) -> None:
        ann, usage = Member(member_id="m", email="a@x"), []
        with indexed.meter() as meter, indexed.transaction() as tx:
            tx.insert(ann)
        usage.append(meter.by_index)
        with indexed.meter() as meter, indexed.transaction() as tx:
            tx.update(ann, set_(Member.email, "b@x"))
        usage.append(meter.by_index)
        if capabilities.units:
            twice = Usage(1, 0.0, 2.0)
            assert usage == [{None: twice, "gsi1": Usage(1, 0.0, 1.0)}, {None: twice, "gsi1": twice}]
        assert [used.keys() for used in usage] == [{None, "gsi1"}] * 2


@needs("transactions")
class TestMeterTransactions:
    def test_a_transaction_costs_twice(self, db: Store, capabilities: Capabilities) -> None:
        with capabilities.whole(db) as meter, db.transaction() as tx:
            tx.put(order("a"))
            tx.insert(order("b", 0))
        calls = capabilities.transaction_calls(2)
        assert meter.by_pattern == {"Order.primary": Usage(calls, 0.0, 8.0)}
        assert meter.by_index == {None: Usage(calls, 0.0, 8.0)}
