"""`collection`: all items of a partition, or under the beginning of a sort key."""
# ruff: noqa: D101  # a test's name says what it shows

from decimal import Decimal

import pytest

from odm import AccessPattern, BadValue, Entity, Grouped, PrimaryKey, Store, Table, collection
from odm.testing.capabilities import Capabilities, needs
from odm.testing.entities import Customer, Member, Order, OrderLine, Session, Ticket
from odm.testing.stores import Stores
from odm.testing.suite.helpers import FUTURE, PAST, at, fill, walk

CUSTOMER = Customer(customer_id="c", name="Ann")
ORDERS = [Order(customer_id="c", order_id=name, total=Decimal(n)) for n, name in enumerate(("o", "o#1", "o1", "o2"))]
LINES = [OrderLine(customer_id="c", order_id="o1", number=n, sku="x") for n in (1, 2)]
WHOLE = collection(Customer.primary(customer_id="c"))
ORDERS_AND_CUSTOMER = collection(Order.primary(customer_id="c"), through=Customer.primary(customer_id="c"))
EVERYTHING = [ORDERS[0], ORDERS[1], ORDERS[2], *LINES, ORDERS[3], CUSTOMER]
"""In key order."""

code = Table("code", keys=("PK", "SK"), index_keys={"GSI1": ("GSI1PK", "GSI1SK")}, key_style="verbatim", tag=None)


class Fork(Entity, table=code):
    repo: str
    user: str
    note: str = ""

    primary = PrimaryKey("REPO#{repo}", "FORK#{user}")


class Issue(Entity, table=code):
    repo: str
    number: int
    title: str = ""

    primary = PrimaryKey("REPO#{repo}", "ISSUE#{number:06}")
    listed = AccessPattern("LIST#{repo}", "ISSUE#{number:06}", index="GSI1")


class Repo(Entity, table=code):
    repo: str
    title: str = ""

    primary = PrimaryKey("REPO#{repo}", "REPO")
    listed = AccessPattern("LIST#{repo}", "A REPO", index="GSI1")


class Star(Entity, table=code):
    repo: str
    user: str
    note: str = ""

    primary = PrimaryKey("REPO#{repo}", "STAR#{user}")


REPO = Repo(repo="odm", title="t")
ISSUES = [Issue(repo="odm", number=number, title="x" * 3000) for number in range(1, 40)]
OUTSIDE = [kind(repo="odm", user=f"u{n}", note="n" * 50_000) for kind in (Fork, Star) for n in range(30)]
NEWEST = collection(Issue.primary(repo="odm"), Repo, Issue, through=Repo.primary(repo="odm")).reverse()


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
        grouped = Grouped(db.query(WHOLE))
        assert (grouped[Order], grouped[OrderLine], grouped[Customer], grouped[Session]) == (
            ORDERS,
            LINES,
            [CUSTOMER],
            [],
        )
        assert (list(grouped), str(grouped)) == (
            [Order, OrderLine, Customer],
            "Grouped(4 Order, 2 OrderLine, 1 Customer)",
        )
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


class TestBoundedCollection:
    def test_reads_from_the_keys_of_one_entity_through_those_of_another(self, db: Store) -> None:
        fill(db, EVERYTHING)
        assert list(db.query(ORDERS_AND_CUSTOMER)) == EVERYTHING
        assert list(db.query(ORDERS_AND_CUSTOMER.reverse().limit(2))) == [CUSTOMER, ORDERS[3]]
        late = Order.primary(customer_id="c").where(Order.order_id >= "o1")
        for some in (
            collection(late, through=Customer.primary(customer_id="c")),
            collection(Customer.primary(customer_id="c"), through=late),
        ):
            assert list(db.query(some)) == [ORDERS[2], *LINES, ORDERS[3], CUSTOMER]
            assert db.count(some) == 5
            assert walk(db, some.reverse(), 2) == [[CUSTOMER, ORDERS[3]], [*LINES[::-1]], [ORDERS[2]]]
            assert list(db.query(some.where(Order.total > 2))) == [ORDERS[3]]
        between = collection(
            Order.primary(customer_id="c", order_id="o1"), through=Order.primary(customer_id="c", order_id="o2")
        )
        assert list(db.query(between)) == [ORDERS[2], *LINES, ORDERS[3]]
        some = collection(late, Customer, Order, through=Customer.primary(customer_id="c"))
        assert list(db.query(some)) == [ORDERS[2], ORDERS[3], CUSTOMER]
        assert str(some) == (
            "collection(Order.primary(customer_id='c').where(order_id >= 'o1'), Customer, Order, "
            "through=Customer.primary(customer_id='c'))"
        )
        assert db.delete_all(collection(late, through=Customer.primary(customer_id="c"))) == 5
        assert list(db.query(WHOLE)) == ORDERS[:2]

    def test_takes_two_calls_of_one_partition(self, offline: Store) -> None:
        orders, customer = Order.primary(customer_id="c"), Customer.primary(customer_id="c")
        with pytest.raises(BadValue, match=r"through= has another partition than the collection, 'CUSTOMER#d' and not"):
            offline.query(collection(orders, through=Customer.primary(customer_id="d")))
        with pytest.raises(BadValue, match=r"total > 1 does not give one of"):
            offline.query(collection(customer, through=orders.where(Order.total > 1)))
        for wrong in (Customer, customer.limit(1), customer.reverse(), WHOLE, "c"):
            with pytest.raises(BadValue, match="through= takes a second pattern call"):
                collection(orders, through=wrong)  # type: ignore[arg-type]
        with pytest.raises(BadValue, match="no prefix=True"):
            collection(Order.primary(customer_id="c", order_id="o"), through=customer, prefix=True)

    def test_of_keys_as_they_are(self, stores: Stores, capabilities: Capabilities) -> None:
        """A repo and its newest issues, among items of other entities before and behind them."""
        db = stores.open(code)
        fill(db, [REPO, *ISSUES, *OUTSIDE])
        with db.meter() as meter:
            assert list(db.query(NEWEST.limit(4))) == [REPO, *ISSUES[:-4:-1]]
        assert meter.calls == 1
        if capabilities.units:
            assert meter.read_units == 3  # 9.2 KB
        with db.meter() as meter:
            page = db.page(NEWEST, size=11)
        assert (page.items, meter.calls) == ([REPO, *ISSUES[:-11:-1]], 1)
        assert db.page(NEWEST, size=50, after=page.cursor).items == ISSUES[-11::-1]
        assert list(db.query(NEWEST)) == [REPO, *ISSUES[::-1]]
        few = collection(Repo.primary(repo="odm"), through=Issue.primary(repo="odm").where(Issue.number > 36))
        with db.meter() as meter:
            assert list(db.query(few.reverse())) == [REPO, *ISSUES[:-4:-1]]
        assert meter.calls == 1
        if capabilities.units:
            assert meter.read_units == 3
        explanation = db.explain(few.reverse().limit(4))
        assert (explanation.range, explanation.descending) == (("ISSUE#000036\0", "REPO\0"), True)

    @needs("indexes")
    def test_of_an_index(self, stores: Stores) -> None:
        db = stores.open(code)
        fill(db, [REPO, *ISSUES[:5]])
        first = collection(Repo.listed(repo="odm"), through=Issue.listed(repo="odm").where(Issue.number <= 2))
        assert list(db.query(first)) == [REPO, *ISSUES[:2]]
        assert list(db.query(first.reverse().limit(1))) == [ISSUES[1]]
        with pytest.raises(BadValue, match="or that of another index"):
            db.query(collection(Repo.listed(repo="odm"), through=Issue.primary(repo="odm")))
