"""Results of queries: order, limits, buckets of lossy partitions, collections, cursors."""

from decimal import Decimal
from typing import Any

import pytest

from odm import (
    AsyncStore,
    BadCursor,
    BadValue,
    Entity,
    NoAccessPattern,
    Query,
    Store,
    between,
    collection,
    select,
    set_,
)
from odm.backends.local import Memory
from odm.procedures.reading.cursor import encode_segment
from odm.procedures.reading.scan import Segment
from tests.shop import Counting, Customer, Item, Order, Reading, day, shop, store

CUSTOMER = Customer(customer_id="c1")
ORDERS = [Order(customer_id="c1", order_id=f"o{n}", placed_at=day(9 - n), total=Decimal(n)) for n in range(1, 6)]
ITEMS = [Item(customer_id="c1", order_id="o1", number=n) for n in (1, 2, 10)]
READINGS = [Reading(sensor="s", at=day(n, hour), value=n) for n in (1, 2, 3) for hour in (6, 12)]


@pytest.fixture
def db() -> Store:
    others = [
        Customer(customer_id="c2"),
        Order(customer_id="c2", order_id="o1"),
        Order(customer_id="c1#", order_id="x"),
    ]
    return store(CUSTOMER, *ORDERS, *ITEMS, *others, *READINGS, Reading(sensor="t", at=day(2)))


def test_both_directions(db: Store) -> None:
    assert list(db.query(Order.by_date(customer_id="c1"))) == ORDERS[::-1]
    assert list(db.query(Order.by_date(customer_id="c1").reverse().limit(2))) == ORDERS[:2]
    assert [order.placed_at for order in db.query(Order.by_status(status="open", region="EU"))] == [
        day(9 - n) for n in range(1, 6)
    ] + [day(1), day(1)]


def test_a_range_over_a_lossy_partition_is_read_bucket_by_bucket(db: Store) -> None:
    query = select(Reading).where(Reading.sensor == "s", between(Reading.at, day(1, 7), day(3, 6)))
    assert db.explain(query).partitions == ("SENSOR#s#20260101", "SENSOR#s#20260102", "SENSOR#s#20260103")
    assert list(db.query(query)) == READINGS[1:5]
    assert list(db.query(query.reverse())) == READINGS[1:5][::-1]
    assert list(db.query(query.reverse().limit(3))) == READINGS[2:5][::-1]
    assert (db.count(query), db.count(query.limit(3)), db.first(query.reverse())) == (4, 3, READINGS[4])


def test_pages_go_over_buckets(db: Store) -> None:
    query = select(Reading).where(Reading.sensor == "s", between(Reading.at, day(1), day(8)))
    for size in range(1, 8):
        found: list[Reading] = []
        page = db.page(query, size=size)
        found += page.items
        while page.cursor is not None:
            page = db.page(query, size=size, after=page.cursor)
            assert 0 < len(page.items) <= size
            found += page.items
        assert found == READINGS


def test_a_range_over_too_many_buckets_is_refused() -> None:
    with pytest.raises(BadValue, match=r"at touches 1081 partitions.*more than 1000; narrow the range"):
        store().query(select(Reading).where(Reading.at >= day(1), Reading.at <= day(1).replace(month=2, day=15)))


def test_a_collection_is_the_whole_partition(db: Store) -> None:
    everything = collection(Customer.primary(customer_id="c1"))
    assert list(db.query(everything)) == [ORDERS[0], *ITEMS, *ORDERS[1:], CUSTOMER]
    assert list(db.query(everything.reverse().limit(2))) == [CUSTOMER, ORDERS[4]]
    assert list(db.query(everything.where(Order.total > 3))) == ORDERS[3:]
    assert str(everything) == "collection(Customer.primary(customer_id='c1'))"
    assert db.count(everything) == 9


def test_a_collection_is_one_request(db: Store) -> None:
    backend = Counting()
    counted = Store(shop, backend)
    counted.create()
    with counted.batch() as batch:
        for item in (CUSTOMER, *ORDERS):
            batch.put(item)
    assert len(list(counted.query(collection(Customer.primary(customer_id="c1"))))) == 6
    assert backend.requests == ["CreateTables", "BatchGet", "BatchWrite", "Query"]


def test_a_collection_of_a_prefix_is_the_item_and_what_is_stored_under_it(db: Store) -> None:
    db.put(Order(customer_id="c1", order_id="o1$"))
    db.put(Order(customer_id="c1", order_id="o1 b"))
    db.put(Order(customer_id="c1", order_id="o10"))
    under = collection(Order.primary(customer_id="c1", order_id="o1"), prefix=True)
    assert list(db.query(under)) == [ORDERS[0], *ITEMS]
    assert str(under) == "collection(Order.primary(customer_id='c1', order_id='o1'), prefix=True)"
    assert db.delete_all(under) == 4
    assert db.count(Order.primary(customer_id="c1")) == 7


COLLECTIONS: list[Any] = [
    pytest.param(lambda: collection(select(Order)), "takes a pattern call", id="select"),
    pytest.param(
        lambda: collection(Order.primary(customer_id="c").where(Order.total > 1)), "range of a collection", id="where"
    ),
    pytest.param(
        lambda: collection(Order.primary(customer_id="c", order_id="o")), "'order_id' has no meaning", id="sort"
    ),
    pytest.param(lambda: collection(Order.primary(customer_id="c"), prefix=True), "'order_id' is missing", id="prefix"),
]


@pytest.mark.parametrize(("make", "says"), COLLECTIONS)
def test_what_has_no_collection(make: Any, says: str) -> None:
    with pytest.raises(BadValue, match=says):
        store().query(make())


def test_a_when_pattern_holds_what_its_condition_holds_for(db: Store) -> None:
    db.update(ORDERS[0], set_(Order.region, "US"))
    assert {order.order_id for order in db.query(Order.in_europe().where(Order.customer_id == "c1"))} == {
        "o2",
        "o3",
        "o4",
        "o5",
    }


def test_a_cursor_is_bound_to_its_query(db: Store) -> None:
    query = Order.by_date(customer_id="c1").where(Order.total > 1)
    first = db.page(query, size=1)
    assert first.items == [ORDERS[4]]
    cursor = first.cursor
    assert cursor is not None
    assert db.page(query, size=1, after=cursor).items == [ORDERS[3]]
    others: list[Query[Any]] = [
        query.reverse(),
        Order.by_date(customer_id="c2").where(Order.total > 1),
        Order.by_date(customer_id="c1").where(Order.total > 2),
        Order.by_date(customer_id="c1"),
        Order.primary(customer_id="c1").where(Order.total > 1),
        query.where(Order.placed_at > day(20)),
    ]
    for other in others:
        with pytest.raises(BadCursor):
            db.page(other, size=1, after=cursor)


def test_a_bound_may_move_while_the_position_is_inside(db: Store) -> None:
    query = Order.by_date(customer_id="c1")
    cursor = db.page(query.where(Order.placed_at >= day(4)), size=1).cursor
    assert list(db.page(query.where(Order.placed_at >= day(3)), size=9, after=cursor).items) == ORDERS[3::-1]
    with pytest.raises(BadCursor, match="lies outside"):
        db.page(query.where(Order.placed_at >= day(5)), after=cursor)


@pytest.mark.parametrize("cursor", ["x", "äöü", "AAAA"], ids=repr)
def test_a_damaged_cursor_is_refused(db: Store, cursor: Any) -> None:
    with pytest.raises(BadCursor, match="damaged"):
        db.page(Order.by_date(customer_id="c1"), after=cursor)


@pytest.mark.parametrize("number", [(4, 4), (-1, 4)])
def test_a_cursor_of_an_impossible_part_is_refused(db: Store, number: tuple[int, int]) -> None:
    cursor = encode_segment(shop.compile(), db.backend.name, Segment(number), None)
    with pytest.raises(BadCursor, match="damaged"):
        db.scan_page(cursor)


def test_a_count_stops_at_its_limit() -> None:
    backend = Counting()
    db = Store(shop, backend)
    db.create()
    for order in ORDERS:
        db.put(order)
    backend.requests.clear()
    assert db.count(Order.by_date(customer_id="c1").limit(2)) == 2
    assert backend.requests == ["Query"]


def test_a_cursor_of_another_secret_is_refused(db: Store) -> None:
    query = Order.by_date(customer_id="c1")
    signing = Store(shop, db.backend, cursor_secret="s1")
    cursor = signing.page(query, size=1).cursor
    assert signing.page(query, size=1, after=cursor).items == [ORDERS[3]]
    for other in (db, Store(shop, db.backend, cursor_secret=b"s2")):
        with pytest.raises(BadCursor, match="cursor_secret"):
            other.page(query, size=1, after=cursor)


@pytest.mark.parametrize("size", [0, -1, True, 2.5], ids=repr)
def test_a_page_has_a_size(db: Store, size: Any) -> None:
    with pytest.raises(BadValue, match="an int of 1 or more"):
        db.page(Order.by_date(customer_id="c1"), size=size)


def test_a_scan_is_asked_for_by_name(db: Store) -> None:
    assert len(list(db.scan())) == 19
    assert sorted(order.order_id for order in db.scan(Order, Order.total > 3)) == ["o4", "o5"]
    with pytest.raises(NoAccessPattern):
        db.query(select(Order))


BAD_SCANS: list[Any] = [
    pytest.param((Order, True), TypeError, id="bool"),
    pytest.param((Order, Customer.email == "x"), BadValue, id="another entity"),
    pytest.param((None, Order.total > 3), BadValue, id="no entity"),
]


@pytest.mark.parametrize(("arguments", "error"), BAD_SCANS)
def test_a_scan_that_does_not_fit_is_refused_before_it_is_iterated(arguments: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        store().scan(*arguments)
    with pytest.raises(error):
        AsyncStore(shop, Memory()).scan(*arguments)


def test_an_entity_of_another_table_is_refused(db: Store) -> None:
    class Elsewhere(Entity):
        id: str

    with pytest.raises(Exception, match="Elsewhere is not an entity of table 'shop'; its entities are Customer, Item"):
        db.scan(Elsewhere)


@pytest.mark.parametrize("size", [0, -1, True, "5", None])
def test_a_page_size_is_checked_also_if_no_key_can_match(db: Store, size: Any) -> None:
    nothing = Order.primary(customer_id="c1").where(Order.order_id > "b", Order.order_id < "a")
    with pytest.raises(BadValue, match=r"page\(size="):
        db.page(nothing, size=size)
