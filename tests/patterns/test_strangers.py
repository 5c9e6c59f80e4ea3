"""Items of other programs under the keys of companions."""

from typing import Literal

import pytest

from odm import Entity, ItemInvalid, PrimaryKey, Store, Table, TransactionFailed
from odm.backends.local import Memory
from odm.testing.suite.pointers import Order, order, shop

theirs = Table(shop.name)


class Theirs(Entity, table=theirs):
    customer: str

    primary = PrimaryKey("LAST_ORDER#{customer}", "Order.latest")


@pytest.mark.parametrize("on_unknown", ["raise", "skip"])
def test_a_pointer_is_not_lost_to_another_programs_item(on_unknown: Literal["raise", "skip"]) -> None:
    backend = Memory()
    db, other = Store(shop, backend, on_unknown=on_unknown), Store(theirs, backend, on_unknown="skip")
    db.create()
    other.put(Theirs(customer="c1"))
    for write in (db.put, db.insert):
        with pytest.raises(ItemInvalid, match=r"LAST_ORDER|Order.latest"):
            write(order("1"))
    with pytest.raises(TransactionFailed) as caught, db.transaction() as tx:
        tx.put(order("1"))
    assert isinstance(caught.value.reasons[0], ItemInvalid)
    assert db.get(Order, customer_id="c1", order_id="1") is None
    assert other.get(Theirs, customer="c1") == Theirs(customer="c1")
