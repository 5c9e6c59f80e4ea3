"""Derived tables: what they have, what they cost, what is left of former ones, and what the verification finds."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Iterable, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Annotated, Any
from uuid import UUID

import pytest

from odm import (
    TTL,
    BadValue,
    Entity,
    ItemInvalid,
    PrimaryKey,
    SchemaError,
    Store,
    Table,
    collection,
    select,
    set_,
)
from odm.patterns.derive import Derived, aderive, derive
from odm.protocol import requests as req
from odm.testing.bridge import blocking_call
from odm.testing.capabilities import needs
from odm.testing.entities import (
    Address,
    Customer,
    Document,
    Everything,
    Order,
    Rank,
    Session,
    Sheet,
    Tally,
    Ticket,
    indexed,
    plain,
)
from odm.testing.evolving import Parcel, ParcelV2, parcels, parcels_v2
from odm.testing.merging import Day, Report, days
from odm.testing.stores import Stores
from odm.testing.suite.aggregates import Ad, Bid, campaign
from odm.testing.suite.copying import all_of
from odm.testing.suite.helpers import FUTURE, PAST, at, fill

bills, foreign = Table("bills"), Table("bills")


class Bill(Entity, table=bills):
    """What a customer has to pay for an order; it expires."""

    customer_id: str
    order_id: str
    total: Decimal
    due: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("BILL#{customer_id}", "{order_id}")


class Mark(Entity, table=bills):
    """One of several items that are made of an order."""

    number: int
    order: str
    text: str = ""

    primary = PrimaryKey("MARK#{number}#{order}")


class Intruder(Entity, table=foreign):
    """An item of another program in the table of the bills."""

    customer_id: str
    order_id: str

    primary = PrimaryKey("BILL#{customer_id}", "{order_id}")


ORDERS = [
    Order(customer_id=f"c{n}", order_id=f"o{m}", total=Decimal(n) + Decimal("0.50"), status=("open", "shipped")[m % 2])
    for n in range(8)
    for m in range(3)
]

run: Any = blocking_call(derive, aderive)
"""`derive`, or `aderive` for an async store."""


def bill(order: Order) -> Bill:
    """The bill of an order."""
    return Bill(customer_id=order.customer_id, order_id=order.order_id, total=order.total)


def marks(order: Order) -> Iterable[Mark]:
    """As many marks as the order's number; of the first none."""
    for number in range(int(order.order_id[1:])):
        yield Mark(number=number, order=order.customer_id + order.order_id, text=order.status)


@pytest.fixture
def orders(stores: Stores) -> Store:
    """A store with the orders and other items."""
    db = stores.open(plain)
    fill(db, ORDERS)
    fill(db, [Customer(customer_id=f"c{n}", name="n") for n in range(8)])
    return db


@pytest.fixture
def target(stores: Stores) -> Store:
    """A store of the bills."""
    return stores.open(bills)


def stored(db: Store) -> list[Any]:
    """All items of a store, in order of their keys."""
    return [item.entity for item in sorted(all_of(db), key=lambda item: (item.partition, item.sort))]


def in_order(db: Store, items: Iterable[Entity]) -> list[Any]:
    """These items as `stored` would return them."""
    return sorted(items, key=db.key_of)


def _complete(done: Derived, items: int) -> None:
    assert done.items == items
    assert done.verified is not None
    assert done.verified.same
    assert done.verified.items == items


class TestDerive:
    def test_makes_an_item_of_each(self, orders: Store, target: Store) -> None:
        _complete(run(orders, Order, into=target, make=bill, size=5), len(ORDERS))
        assert stored(target) == in_order(target, map(bill, ORDERS))

    def test_makes_several_items_or_none(self, orders: Store, target: Store) -> None:
        expected = [mark for order in ORDERS for mark in marks(order)]
        _complete(run(orders, Order, into=target, make=marks, size=4), len(expected))
        assert stored(target) == in_order(target, expected)
        before = stored(target)
        _complete(run(orders, Order, into=target, make=lambda _: None, makes=Bill), 0)
        assert stored(target) == before

    def test_of_a_partition_reads_only_this(self, orders: Store, target: Store, stores: Stores) -> None:
        stores.forget()
        _complete(run(orders, Order.primary(customer_id="c1"), into=target, make=bill, size=2), 3)
        reads = [request for request in stores.requests if isinstance(request, req.Query | req.Scan)]
        read = [request.partition for request in reads if isinstance(request, req.Query)]
        assert set(read) == {"CUSTOMER#c1"}
        assert stored(target) == [bill(order) for order in ORDERS[3:6]]

    def test_of_a_collection(self, orders: Store, target: Store) -> None:
        query = collection(Customer.primary(customer_id="c1"))

        def named(item: Customer | Order) -> Mark:
            return Mark(number=0, order=type(item).__name__ + (item.order_id if isinstance(item, Order) else ""))

        _complete(run(orders, query, into=target, make=named), 4)

    def test_of_a_condition(self, orders: Store, target: Store, stores: Stores) -> None:
        stores.forget()
        query = select(Order).where(Order.status == "open", Order.total > 2)
        matching = [order for order in ORDERS if order.status == "open" and order.total > 2]
        _complete(run(orders, query, into=target, make=bill, size=3), len(matching))
        assert stored(target) == in_order(target, map(bill, matching))
        scans = [request for request in stores.requests if isinstance(request, req.Scan) and request.filter is not None]
        assert {scan.examine for scan in scans} == {3}

    @needs("indexes")
    def test_of_an_index_and_into_indexes(self, stores: Stores) -> None:
        tickets = [
            Ticket(member_id=f"m{n % 3}", ticket_id=f"t{n}", filed_at=at(1), due_at=at(n), assignee="ab"[n % 2])
            for n in range(9)
        ]
        source, there = stores.open(indexed), stores.open(indexed, prefix="to-")
        fill(source, tickets)
        done = run(source, Ticket.by_assignee(assignee="a"), into=there, size=2)
        _complete(done, 5)
        assert [ticket.ticket_id for ticket in there.query(Ticket.by_due())] == ["t0", "t2", "t4", "t6", "t8"]
        assert [item.stale for item in all_of(there)] == [frozenset()] * 5

    def test_of_items_of_an_older_version(self, stores: Stores, target: Store) -> None:
        old = stores.open(parcels)
        for number in range(6):
            old.put(Parcel(parcel_id=f"p{number}", place="Oslo", weight=number))

        def weigh(parcel: ParcelV2) -> Mark:
            return Mark(number=parcel.grams or 0, order=parcel.parcel_id)

        source = stores.open(parcels_v2)
        query = select(ParcelV2).where(ParcelV2.grams > 2000)
        _complete(run(source, query, into=target, make=weigh, size=2), 3)
        assert sorted(mark.number for mark in stored(target)) == [3000, 4000, 5000]

    def test_ignores_what_has_expired(self, orders: Store, target: Store) -> None:
        for name, when in (("a", FUTURE), ("b", PAST)):
            orders.put(Session(user="u", session_id=name, expires_at=when))

        def keep(session: Session) -> Bill:
            return Bill(customer_id="u", order_id=session.session_id, total=Decimal(1), due=session.expires_at)

        _complete(run(orders, Session, into=target, make=keep), 1)
        gone = run(orders, Order, into=target, make=lambda o: Bill(**{**vars(bill(o)), "due": PAST}), makes=Bill)
        assert gone.items == len(ORDERS)
        assert [difference.partition for difference in gone.verified.differences] == ["BILL#u"]
        assert [derived_bill.customer_id for derived_bill in target.scan(Bill)] == ["u"]

    def test_of_the_same_store(self, orders: Store) -> None:
        _complete(run(orders, Order, into=orders, make=sheet, makes=Sheet), len(ORDERS))
        assert orders.count(Sheet.primary(book="b")) == len(ORDERS)
        assert sum(1 for _ in orders.scan(Order)) == len(ORDERS)

    def test_again_has_the_same_result(self, orders: Store, target: Store) -> None:
        for _ in range(2):
            _complete(run(orders, Order, into=target, make=bill, parallel=2, size=7), len(ORDERS))
        assert stored(target) == in_order(target, map(bill, ORDERS))


def sheet(order: Order) -> Sheet:
    """An item in the table of the orders."""
    return Sheet(sheet_id=order.customer_id + order.order_id, price=order.total)


class TestDeriveVerified:
    def test_finds_what_is_missing_changed_or_more(self, orders: Store, target: Store) -> None:
        run(orders, Order, into=target, make=bill)
        target.update(Bill.primary(customer_id="c1", order_id="o0"), set_(Bill.total, Decimal(9)))
        target.delete(Bill, customer_id="c2", order_id="o1")
        target.put(Bill(customer_id="c3", order_id="new", total=Decimal(0)))
        orders.delete(Order, customer_id="c4", order_id="o2")
        before = stored(target)
        done = run(orders, Order, into=target, make=bill, write=False)
        assert (done.items, stored(target)) == (0, before)
        assert [str(difference) for difference in done.verified.differences] == [
            "Bill BILL#c1: 3 on both sides, which differ in attributes, keys or index entries",
            "Bill BILL#c2: 3 in the source, 2 in the target",
            "Bill BILL#c3: 3 in the source, 4 in the target",
            "Bill BILL#c4: 2 in the source, 3 in the target",
        ]
        again = run(orders, Order, into=target, make=bill).verified.differences  # it wrote the first two
        assert [difference.partition for difference in again] == ["BILL#c3", "BILL#c4"]

    def test_compares_only_what_it_makes(self, orders: Store, target: Store) -> None:
        target.put(Mark(number=1, order="x"))
        assert not run(orders, Order, into=target, make=bill).verified.same
        assert run(orders, Order, into=target, make=bill, makes=Bill).verified.same
        target.put(Bill(customer_id="x", order_id="o", total=Decimal(0)))
        some = select(Bill).where(Bill.customer_id < "d")
        assert run(orders, Order, into=target, make=bill, makes=some).verified.same
        assert run(orders, Order, into=target, make=bill, makes=[some, Mark]).verified.differences[0].entity == "Mark"

    def test_removes_what_is_no_longer_derived(self, orders: Store, target: Store) -> None:
        run(orders, Order, into=target, make=bill)
        target.put(Mark(number=1, order="x"))
        orders.delete_all(Order.primary(customer_id="c3"))
        orders.delete(Order, customer_id="c4", order_id="o0")
        done = run(orders, Order, into=target, make=bill, makes=Bill, replace=True)
        assert (done.removed, done.verified.same, done.items) == (4, True, len(ORDERS) - 4)
        assert len(stored(target)) == len(ORDERS) - 4 + 1

    def test_two_sources_of_one_key_in_a_page_are_not_written(self, orders: Store, target: Store) -> None:
        query = Order.primary(customer_id="c1")
        with pytest.raises(BadValue, match=r"key Mark MARK#a0#x.*made of Order CUSTOMER#c1 ORDER#o0 and Order CUST"):
            run(orders, query, into=target, make=lambda _: Mark(number=0, order="x"))
        with pytest.raises(BadValue, match="made of Order CUSTOMER#c1 ORDER#o0 twice"):
            run(orders, query, into=target, make=lambda _: [Mark(number=0, order="x")] * 2)
        assert stored(target) == []

    def test_two_sources_of_one_key_in_two_pages_are_found(self, orders: Store, target: Store) -> None:
        with pytest.raises(BadValue, match=r"two derived items have the key Mark MARK.* made of Order .* and Order "):
            run(orders, Order, into=target, make=lambda o: Mark(number=0, order=o.order_id), size=1, parallel=1)


class TestDeriveRefuses:
    # One part at a time: asyncio may leak the socket of a connection attempt that the error of another part cancels.

    def test_items_of_other_programs(self, orders: Store, target: Store, stores: Stores) -> None:
        theirs = stores.open(foreign)
        theirs.put(Intruder(customer_id="c1", order_id="o1"))
        for skipping in (target, stores.open(bills, on_unknown="skip")):
            with pytest.raises(ItemInvalid, match="Intruder"):
                run(orders, Order, into=skipping, make=bill, size=1, parallel=1)
        assert theirs.get(Intruder, customer_id="c1", order_id="o1") == Intruder(customer_id="c1", order_id="o1")

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            ({}, "make= must make its items"),
            ({"make": bill, "replace": True}, "replace=True removes items: name the entities"),
            ({"make": bill, "replace": True, "makes": Bill, "write": False}, "write=False"),
            ({"make": bill, "makes": Bill.primary(customer_id="c")}, "with conditions only"),
            ({"make": bill, "makes": [Bill, select(Bill)]}, "give each entity once"),
            ({"make": bill, "makes": ["Bill"]}, "give an entity class, or a query"),
            ({"make": bill, "rate": 0}, "items per second"),
            ({"make": bill, "size": 0}, "size=0"),
            ({"make": bill, "parallel": 0}, "parts\\(0\\)"),
            ({"make": lambda _: 3}, "returned 3"),
            ({"make": lambda _: ["a"]}, "returned 'a'"),
            ({"make": bill, "makes": Mark}, "makes= has only Mark"),
        ],
    )
    def test_wrong_arguments(self, orders: Store, target: Store, options: Any, message: str) -> None:
        with pytest.raises(BadValue, match=message):
            run(orders, Order, into=target, **{"parallel": 1, **options})
        assert stored(target) == []

    def test_other_wrong_arguments(self, orders: Store, target: Store) -> None:
        for source in ("Order", 3, select(Order).limit(3), select(Order).reverse()):
            with pytest.raises(BadValue):
                run(orders, source, into=target, make=bill)
        for options in ({}, {"makes": Order}):
            with pytest.raises(BadValue, match=r"same store|would read what it writes"):
                run(orders, Order, into=orders, make=sheet, **options)
        for entity in (Document(document_id="d"), bill(ORDERS[0])):
            with pytest.raises((BadValue, SchemaError), match=r"has a Revision|Bill"):
                run(orders, Order, into=orders, make=lambda _, entity=entity: entity, makes=type(entity), parallel=1)


class TestDeriveCosts:
    """The table of costs of `odm.patterns.derive`."""

    def test_of_a_table(self, orders: Store, target: Store, stores: Stores) -> None:
        once = self._scans(stores, orders, target, check=False)  # the pages of the source
        tags, batches = self._writes
        assert len(tags) == len(batches) == len(ORDERS)
        if once == 1:
            assert len({key.partition for key in batches[:8]}) == 8
        both = self._scans(stores, orders, target, write=False)  # those of both sides
        assert self._writes == ([], [])
        assert self._scans(stores, orders, target) == once + both
        assert self._writes == (tags, batches)

    def test_of_differences_and_of_what_is_removed(self, orders: Store, target: Store, stores: Stores) -> None:
        run(orders, Order, into=target, make=bill)
        orders.delete(Order, customer_id="c1", order_id="o0")
        once = self._scans(stores, orders, target, check=False)
        named = self._scans(stores, orders, target, write=False)
        assert self._scans(stores, orders, target) == once + named
        both = named // 2
        removing = self._scans(stores, orders, target, replace=True)
        assert once + named + 3 * both - 1 <= removing <= once + named + 3 * both  # at last without the removed item

    def _scans(self, stores: Stores, orders: Store, target: Store, **options: Any) -> int:
        stores.forget()
        run(orders, Order, into=target, make=bill, makes=Bill, parallel=1, **options)
        tags = [key for request in stores.requests if isinstance(request, req.BatchGet) for key in request.keys]
        writes = [
            w.key for request in stores.requests if isinstance(request, req.BatchWrite) for w in request.operations
        ]
        self._writes = tags, writes
        return sum(isinstance(request, req.Scan) for request in stores.requests)


class TestRawItem:
    def test_is_what_a_scan_returns_of_a_put(self, db: Store) -> None:
        items: Sequence[Entity] = [
            *ORDERS,
            Sheet(sheet_id="1", price=Decimal("1.50"), weight=-0.0, words={"b", "a"}, meta={"a": [1, Decimal("2.0")]}),
            Session(user="u", session_id="s", expires_at=FUTURE.replace(microsecond=5)),
            Tally(name="t", hits=3),
            Everything(
                name="e",
                exact=Decimal("1E+3"),
                approximate=1e-5,
                blob=b"\0a",
                moment=at(1, micro=7).astimezone(),
                day=date(2024, 2, 29),
                ident=UUID(int=7),
                rank=Rank.HIGH,
                null=None,
                numbers=frozenset({3, 1}),
                parts=[1, "a", None],
                anything={"x": [True, None, 1.5]},
                address=Address(street="s", labels={"l"}),
            ),
        ]
        fill(db, items)
        raw_items = {item.partition + item.sort: item for item in map(db.raw_item, items)}
        for item in all_of(db):
            assert item == raw_items[item.partition + item.sort]
            assert str(item.attributes) == str(dict(item.attributes))
        db.put_raw([*raw_items.values()])
        assert len(all_of(db)) == len(items)

    def test_of_columns_and_aggregates(self, stores: Stores) -> None:
        of_days = [
            Day(meter="a", day=date(2024, 1, 1)),
            Day(meter="b", day=date(2024, 1, 1), readings={"0015": 1.5, "b": -0.0}, flags={"x"}, extra={"a": [None]}),
            Report(meter="a", at=at(1), title="t", values={}),
        ]
        of_ads = [Ad(name="a"), Ad(name="b", views=3), Bid(place="p"), Bid(place="q", least=1, best=3)]
        for db, items in ((stores.open(days), of_days), (stores.open(campaign), of_ads)):
            for item in items:
                db.put(item)
            raw_items = {item.partition + item.sort: item for item in map(db.raw_item, items)}
            scanned = {item.partition + item.sort: item for item in all_of(db)}
            assert scanned == raw_items

    def test_refuses_what_a_batch_refuses(self, db: Store) -> None:
        with pytest.raises(BadValue, match="Document has a Revision"):
            db.raw_item(Document(document_id="d"))
