"""Procedures: several calls, written once for sync and async, and calls in parallel."""
# ruff: noqa: D101  # a test's name says what it shows

from time import monotonic
from typing import Any, cast

import pytest

from odm import BadValue, ItemExists, ItemNotFound, OdmError, Query, Store, TransactionFailed, collection, set_
from odm.extend import Calls, Gen, procedure
from odm.protocol import requests as req
from odm.testing.capabilities import needs
from odm.testing.entities import Customer, Order
from odm.testing.stores import Stores
from odm.testing.suite.helpers import fill

KEY = Customer.primary(customer_id="c1")
ANN = Customer(customer_id="c1", name="Ann")


@procedure
def rename(do: Calls, key: Query[Customer], name: str) -> Gen[str]:
    """Rename a customer; returns the old name."""
    customer = yield from do.one(key)
    yield from do.put(customer.model_copy(update={"name": name}))
    return customer.name


@procedure
def orders(do: Calls, *ids: str) -> Gen[list[Order | None]]:
    """Orders of a customer, read in parallel."""
    return (yield from do.concurrent([do.get(Order, customer_id="c1", order_id=order_id) for order_id in ids]))


class TestProcedures:
    def test_make_their_calls_and_return(self, db: Store) -> None:
        db.put(ANN)
        assert db.run(rename(KEY, "Bea")) == "Ann"
        assert db.one(KEY).name == "Bea"

    def test_raise_what_their_calls_raise(self, db: Store) -> None:
        with pytest.raises(ItemNotFound):
            db.run(rename(KEY, "Bea"))

    def test_run_procedures(self, db: Store) -> None:
        @procedure
        def twice(do: Calls) -> Gen[str]:
            yield from rename(KEY, "Bea")(do)
            return (yield from rename(KEY, "Cleo")(do))

        db.put(ANN)
        assert db.run(twice()) == "Bea"

    def test_have_every_call(self, db: Store) -> None:
        @procedure
        def all_of_them(do: Calls) -> Gen[list[Any]]:
            yield from do.put(ANN)
            yield from do.insert(Order(customer_id="c1", order_id="o1"))
            page = yield from do.page(Order.primary(customer_id="c1"), size=1)
            return [
                (yield from do.exists(KEY)),
                (yield from do.first(Order.primary(customer_id="c1"))),
                (yield from do.count(collection(KEY))),
                (yield from do.get_many([KEY])),
                list(page.items),
                len((yield from do.query(collection(KEY)))),
                (yield from do.delete(KEY)),
                (yield from do.delete_all(collection(KEY))),
                do.now() > 0,
            ]

        order = Order(customer_id="c1", order_id="o1")
        assert db.run(all_of_them()) == [True, order, 2, [ANN], [order], 2, True, 1, True]

    @needs("updates")
    def test_update(self, db: Store) -> None:
        @procedure
        def update(do: Calls) -> Gen[Any]:
            return (yield from do.update(KEY, set_(Customer.name, "Bea"), returning="new"))

        db.put(ANN)
        assert db.run(update()).name == "Bea"

    def test_count_requests(self, db: Store) -> None:
        @procedure
        def costs(do: Calls) -> Gen[list[tuple[Any, int]]]:
            return [
                (yield from do.counted(do.count(collection(KEY)))),
                (yield from do.counted(rename(KEY, "Bea")(do))),
                (yield from do.counted(orders("o1", "o2", "o3")(do))),
                (yield from do.counted(do.get_many([]))),
            ]

        db.put(ANN)
        with db.meter() as meter:
            assert db.run(costs()) == [(1, 1), ("Ann", 2), ([None] * 3, 3), ([], 0)]
        assert meter.calls == 6

    def test_counted_decide_what_a_failure_means(self, db: Store) -> None:
        @procedure
        def ensured(do: Calls) -> Gen[Customer]:
            try:
                yield from do.insert(ANN)
            except ItemExists:
                return (yield from do.one(KEY))
            return ANN

        @procedure
        def cost(do: Calls) -> Gen[tuple[Customer, int]]:
            return (yield from do.counted(ensured()(do)))

        assert [db.run(cost()), db.run(cost())] == [(ANN, 1), (ANN, 2)]
        with pytest.raises(ItemNotFound):
            db.run(lambda do: do.counted(do.one(Customer.primary(customer_id="none"))))

    @needs("transactions")
    def test_commit_transactions(self, db: Store) -> None:
        @procedure
        def both(do: Calls) -> Gen[None]:
            tx = do.transaction()
            tx.insert(ANN)
            tx.insert(Order(customer_id="c1", order_id="o1"))
            yield from tx.commit()

        db.run(both())
        assert db.count(collection(KEY)) == 2
        with pytest.raises(TransactionFailed):
            db.run(both())

    def test_may_wait(self, db: Store) -> None:
        @procedure
        def wait(do: Calls) -> Gen[list[None]]:
            yield from do.pause(0.02)
            return (yield from do.concurrent([do.pause(0.02), do.pause(0.01)]))

        started = monotonic()
        assert db.run(wait()) == [None, None]
        assert 0.04 <= monotonic() - started < 2

    def test_that_are_not_procedures_are_refused(self, offline: Store) -> None:
        for wrong in (rename, KEY, lambda do: 5):
            with pytest.raises(TypeError, match="@procedure"):
                offline.run(cast(Any, wrong))

    def test_take_no_options_of_a_key(self, offline: Store) -> None:
        for call in (offline.get, offline.one):
            for options in ({"consistent": False}, {"customer_id": "c1"}):
                with pytest.raises(BadValue, match=r"rename\(.*\) is a procedure, .* leave .* out"):
                    cast(Any, call)(rename(KEY, "Bea"), **options)

    def test_print(self) -> None:
        assert repr(rename(KEY, name="Bea")) == "rename(Customer.primary(customer_id='c1'), name='Bea')"


class TestTogetherInProcedures:
    def test_are_sent_at_once(self, db: Store, stores: Stores) -> None:
        fill(db, [Order(customer_id="c1", order_id=f"o{n}") for n in range(3)])
        replies = db.run(orders("o2", "none", "o0"))
        assert [order and order.order_id for order in replies] == ["o2", None, "o0"]
        assert db.run(orders()) == []

    def test_may_take_different_numbers_of_requests(self, db: Store) -> None:
        @procedure
        def both(do: Calls) -> Gen[list[Any]]:
            steps: list[Gen[Any]] = [rename(KEY, "Bea")(do), do.count(collection(KEY)), do.get_many([])]
            return (yield from do.concurrent(steps))

        db.put(ANN)
        assert db.run(both()) == ["Ann", 1, []]

    def test_report_to_each_its_own_failure(self, db: Store) -> None:
        @procedure
        def claim(do: Calls, order: Order) -> Gen[bool]:
            try:
                yield from do.insert(order)
            except ItemExists:
                return False
            return True

        @procedure
        def claims(do: Calls) -> Gen[list[bool]]:
            claimants = [Order(customer_id="c1", order_id=f"o{n}") for n in range(3)]
            return (yield from do.concurrent([claim(order)(do) for order in claimants]))

        db.insert(Order(customer_id="c1", order_id="o1"))
        assert db.run(claims()) == [True, False, True]

    def test_end_with_the_failure_of_one(self, db: Store) -> None:
        @procedure
        def both(do: Calls) -> Gen[list[Any]]:
            return (yield from do.concurrent([do.one(KEY), do.put(Order(customer_id="c1", order_id="o1"))]))

        with pytest.raises(OdmError, match="c1"):
            db.run(both())
        assert db.exists(Order, customer_id="c1", order_id="o1")

    def test_refuse_wrong_values_before_they_are_sent(self, db: Store, stores: Stores) -> None:
        @procedure
        def both(do: Calls) -> Gen[list[Any]]:
            return (yield from do.concurrent([do.put(ANN), do.get(cast(Any, "c1"))]))

        stores.forget()
        with pytest.raises(BadValue):
            db.run(both())
        assert [request for request in stores.requests if isinstance(request, req.Put)] == []
