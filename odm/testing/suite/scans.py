"""`scan`."""
# ruff: noqa: D101  # a test's name says what it shows

from decimal import Decimal
from typing import Any, cast

import pytest

from odm import BadValue, Store
from odm.testing.capabilities import needs
from odm.testing.entities import Customer, Event, Member, Order, Session, Setting, hashes
from odm.testing.stores import Stores
from odm.testing.suite.helpers import FUTURE, PAST, at, fill

ORDERS = [Order(customer_id=f"c{n}", order_id="o", total=Decimal(n)) for n in range(4)]


def by_key(order: Order) -> str:
    """A sort key."""
    return order.customer_id


class TestScan:
    def test_of_one_entity(self, db: Store) -> None:
        fill(db, ORDERS)
        db.put(Customer(customer_id="c1", name="Ann"))
        assert sorted(db.scan(Order), key=by_key) == ORDERS

    def test_with_conditions(self, db: Store) -> None:
        fill(db, ORDERS)
        orders = db.scan(Order, Order.total > 0, Order.customer_id != "c2")
        assert sorted(orders, key=by_key) == [ORDERS[1], ORDERS[3]]
        assert list(db.scan(Order, Order.total > 9)) == []

    def test_of_everything(self, db: Store) -> None:
        customer = Customer(customer_id="c1", name="Ann")
        event = Event(log="l", level=1, at=at(1), name="n")
        fill(db, [*ORDERS[:1], customer, event])
        entities = list(db.scan())
        assert len(entities) == 3
        assert all(item in entities for item in (ORDERS[0], customer, event))

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

    def test_in_one_segment_is_the_whole(self, db: Store) -> None:
        fill(db, ORDERS)
        assert sorted(db.scan(Order, segments=1), key=by_key) == ORDERS
        assert sorted(db.scan(Order, segment=(0, 1)), key=by_key) == ORDERS

    @needs("indexes")
    def test_shows_each_item_once_however_many_indexes_it_is_in(self, indexed: Store) -> None:
        fill(indexed, [Member(member_id="m", email="e")])
        assert list(indexed.scan()) == [Member(member_id="m", email="e")]

    def test_needs_the_entity_of_its_conditions(self, offline: Store) -> None:
        with pytest.raises(BadValue):
            list(cast(Any, offline).scan(None, Order.total > 1))
        with pytest.raises(TypeError):
            list(offline.scan(Order, True))


@needs("segments")
class TestSegments:
    @pytest.mark.parametrize("segments", [2, 5, 40])
    def test_read_together_give_every_item_once(self, db: Store, segments: int) -> None:
        orders = fill(db, [Order(customer_id=f"c{n}", order_id=f"o{m}") for n in range(9) for m in range(2)])
        db.put(Customer(customer_id="c1", name="Ann"))
        scanned = list(db.scan(Order, segments=segments))
        assert sorted(scanned, key=lambda order: (order.customer_id, order.order_id)) == orders
        assert len(list(db.scan(Order, Order.customer_id > "c4", segments=segments))) == 8
        assert len(list(db.scan(segments=segments))) == 19

    def test_give_every_item_once_whatever_is_written_meanwhile(self, db: Store) -> None:
        orders = fill(db, [Order(customer_id=f"c{n:03}", order_id="o") for n in range(250)])
        scanned = []
        for n, order in enumerate(db.scan(Order, segments=4)):
            if n % 25 == 0:
                db.put(Customer(customer_id=f"c{n:03}", name="new"))
            scanned.append(order)
        assert sorted(scanned, key=by_key) == orders

    @needs("segment")
    def test_read_one_by_one_give_every_item_once(self, db: Store) -> None:
        orders = fill(db, [Order(customer_id=f"c{n:02}", order_id=f"o{m}") for n in range(30) for m in range(2)])
        parts = [list(db.scan(Order, segment=(number, 3))) for number in range(3)]
        assert sorted([order for part in parts for order in part], key=by_key) == sorted(orders, key=by_key)
        assert all(parts)
        partitions = [{order.customer_id for order in part} for part in parts]
        assert sum(map(len, partitions)) == 30
        assert list(db.scan(Order, segment=(1, 3))) == parts[1]


class TestRefusedSegments:
    @pytest.mark.parametrize("segments", [0, -1, 1001, True, "4", 2.0])
    def test_of_numbers_out_of_range(self, offline: Store, segments: Any) -> None:
        with pytest.raises(BadValue):
            list(offline.scan(Order, segments=segments))

    @pytest.mark.parametrize(
        "segment", [(1, 1), (-1, 4), (4, 4), (0, 0), (0, 10**6 + 1), (0, True), (0, 4, 1), 3, "04", (0.0, 4)]
    )
    def test_of_parts_out_of_range(self, offline: Store, segment: Any) -> None:
        with pytest.raises(BadValue):
            list(offline.scan(Order, segment=segment))

    def test_of_both(self, offline: Store) -> None:
        with pytest.raises(BadValue):
            list(offline.scan(Order, segments=4, segment=(0, 4)))
