"""Decimals: each call returns them alike, with the declared decimal places, or without trailing zeros."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, Field

from odm import (
    AccessPattern,
    ConditionFailed,
    Entity,
    PrimaryKey,
    Revision,
    Store,
    Table,
    collection,
    field,
    increment,
    set_,
)
from odm.patterns.versioned import Versioned
from odm.testing.capabilities import needs
from odm.testing.stores import Stores

bills, offers, priced = Table("bills"), Table("offers"), Table("priced")

Money = Annotated[Decimal, Field(decimal_places=2)]


class Line(BaseModel):
    """A line of a bill."""

    price: Money
    weight: Decimal


@dataclass(frozen=True)
class Tax:
    """The tax of a bill."""

    rate: Decimal


class Bill(Entity, table=bills):
    """Has Decimals everywhere."""

    bill_id: str
    total: Annotated[Decimal, Field(decimal_places=2)]
    discount: Annotated[Decimal | None, Field(decimal_places=3)] = None
    weight: Decimal = Decimal("0.0")
    line: Line | None = None
    lines: list[Line] = []  # noqa: RUF012  # pydantic copies defaults
    prices: list[Money] = []  # noqa: RUF012
    rates: dict[str, Decimal] = {}  # noqa: RUF012
    sizes: set[Decimal] = set()  # noqa: RUF012
    pair: tuple[Money, str] = (Decimal(1), "")
    tax: Tax = Tax(Decimal("0.10"))
    number: int | Money = 1
    anything: Any = None

    primary = PrimaryKey("BILL#{bill_id}", "BILL")


GIVEN: dict[str, Any] = {
    "total": Decimal("4.9"),
    "discount": Decimal("1E+1"),
    "weight": Decimal("4.90"),
    "line": Line(price=Decimal(100), weight=Decimal("1E+2")),
    "lines": [Line(price=Decimal("-0"), weight=Decimal("0.00")), Line(price=Decimal("2.50"), weight=Decimal("2.5"))],
    "prices": [Decimal("1.1"), Decimal("2.20")],
    "rates": {"a": Decimal("1.10")},
    "sizes": {Decimal("3.00")},
    "pair": (Decimal("7.5"), "x"),
    "tax": Tax(Decimal("0.250")),
    "number": Decimal("2.5"),
    "anything": {"list": [Decimal("1.50"), Decimal("2.00")]},
}
STORED = (
    "total=Decimal('4.90') discount=Decimal('10.000') weight=Decimal('4.9') "
    "line=Line(price=Decimal('100.00'), weight=Decimal('100')) "
    "lines=[Line(price=Decimal('0.00'), weight=Decimal('0')), Line(price=Decimal('2.50'), weight=Decimal('2.5'))] "
    "prices=[Decimal('1.10'), Decimal('2.20')] rates={'a': Decimal('1.1')} sizes={Decimal('3')} "
    "pair=(Decimal('7.50'), 'x') tax=Tax(rate=Decimal('0.25')) number=Decimal('2.50') "
    "anything={'list': [Decimal('1.5'), 2]}"
)
KEY = Bill.primary(bill_id="b")


def bill(name: str = "b") -> Bill:
    """A bill whose Decimals are not as they read back."""
    return Bill(bill_id=name, **GIVEN)


def values(entity: Any) -> str:
    """The fields of a bill as text, which shows the places of its Decimals."""
    return str(entity).removeprefix("bill_id='b' ")


class Price(Entity, table=priced):
    """Has former versions."""

    name: str
    price: Money
    free: Decimal
    version: Annotated[int, Revision] = 0

    primary = PrimaryKey("PRICE#{name}", "v0")
    history = Versioned("PRICE#{name}", "v{version}")


class Offer(Entity, table=offers):
    """Sorted by its price, in its primary key and in an index."""

    shop: str
    price: Money
    free: Decimal = Decimal("1.0")

    primary = PrimaryKey("OFFERS#{shop}", "{price}")
    cheap = AccessPattern("CHEAP#{shop}", "{price}", when=field("price") < 10)


@pytest.fixture
def billing(stores: Stores) -> Store:
    """A store without items."""
    return stores.open(bills)


def _in_batch(db: Store, entity: Bill) -> Bill:
    with db.batch() as batch:
        return batch.put(entity)


def _in_transaction(db: Store, entity: Bill) -> Bill:
    with db.transaction() as tx:
        return tx.put(entity)


WRITES: dict[str, Callable[[Store, Bill], Bill]] = {
    "put": lambda db, entity: db.put(entity),
    "insert": lambda db, entity: db.insert(entity),
    "batch": _in_batch,
    "transaction": _in_transaction,
}

READS: dict[str, Callable[[Store], Any]] = {
    "get": lambda db: db.get(KEY),
    "get_many": lambda db: db.get_many([KEY])[0],
    "query": lambda db: next(iter(db.query(KEY))),
    "page": lambda db: db.page(KEY).items[0],
    "first": lambda db: db.first(KEY.where(Bill.total > 1)),
    "collection": lambda db: next(iter(db.query(collection(KEY)))),
    "scan": lambda db: next(iter(db.scan(Bill))),
    "new": lambda db: db.update(KEY, set_(Bill.weight, Decimal("4.9000")), returning="new"),
    "old": lambda db: db.update(KEY, set_(Bill.weight, Decimal("1.0")), returning="old"),
}


class TestDecimals:
    @pytest.mark.parametrize("write", WRITES.values(), ids=WRITES)
    def test_a_write_returns_those_that_a_read_returns(
        self, billing: Store, write: Callable[[Store, Bill], Bill]
    ) -> None:
        entity = bill()
        stored = write(billing, entity)
        assert values(stored) == STORED
        assert stored == entity == bill()
        assert values(entity) == values(bill())  # the caller's own object is unchanged
        assert values(billing.one(KEY)) == STORED

    def test_what_is_in_normal_form_is_returned_itself(self, billing: Store) -> None:
        stored = billing.put(bill())
        assert billing.put(stored) is stored

    @pytest.mark.parametrize("read", READS.values(), ids=READS)
    def test_each_read_returns_them_alike(self, billing: Store, read: Callable[[Store], Any]) -> None:
        billing.put(bill())
        assert values(read(billing)) == STORED

    def test_parts_have_their_places(self, billing: Store) -> None:
        billing.put(bill())
        part = billing.one(KEY, only=[Bill.total, Bill.weight, Bill.lines, Bill.rates["a"]])
        assert repr(part[Bill.total]) == "Decimal('4.90')"
        assert repr(part[Bill.weight]) == "Decimal('4.9')"
        assert repr(part[Bill.rates["a"]]) == "Decimal('1.1')"
        assert repr(part[Bill.lines][0].price) == "Decimal('0.00')"

    @needs("conditions")
    def test_an_error_carries_them_alike(self, billing: Store) -> None:
        billing.put(bill())
        with pytest.raises(ConditionFailed) as caught:
            billing.put(bill(), when=Bill.total == 5)
        assert values(caught.value.item) == STORED

    @needs("indexes")
    def test_a_key_is_made_of_any_form(self, stores: Stores) -> None:
        billing = stores.open(offers)
        offer = Offer(shop="s", price=Decimal("4.9"))
        stored = billing.put(offer)
        assert str(stored) == "shop='s' price=Decimal('4.90') free=Decimal('1')"
        for form in ("4.9", "4.90"):
            assert str(billing.get(Offer, shop="s", price=Decimal(form))) == str(stored)
        assert str(billing.first(Offer.cheap(shop="s"))) == str(stored)
        assert billing.delete(offer)

    def test_of_former_versions_too(self, stores: Stores) -> None:
        billing = stores.open(priced)
        stored = billing.put(Price(name="p", price=Decimal("4.9"), free=Decimal("4.90")))
        assert str(stored) == "name='p' price=Decimal('4.90') free=Decimal('4.9') version=1"
        with billing.transaction() as tx:
            stored = tx.update(
                stored, increment(Price.price, Decimal("0.1")), set_(Price.free, Decimal("2.0")), returning="new"
            )
        assert str(stored) == "name='p' price=Decimal('5.00') free=Decimal('2') version=2"
        assert str(billing.one(Price, name="p")) == str(stored)
        former = billing.get(Price.history.version(1, name="p"))
        assert str(former) == "name='p' price=Decimal('4.90') free=Decimal('4.9') version=1"
