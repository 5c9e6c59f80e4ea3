"""Open orders: a sparse index contains only open orders, oldest first.

The write that ships an order also removes it from the index.

Of a shop's millions of orders, few are open. `by_age` contains those with an `opened_at`. `of_customer` uses a
condition, for entities without such a field.
"""

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import Literal

from odm import AccessPattern, Backend, Entity, PrimaryKey, Query, Store, Table, field, remove, set_, some
from odm.backends.local import LocalFile
from odm.results import RequestInfo

shop = Table("open-orders")


class Order(Entity, table=shop):
    """An order; `opened_at` goes when it is shipped."""

    customer_id: str
    order_id: str
    status: Literal["open", "shipped"] = "open"
    opened_at: datetime | None = None

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
    by_age = AccessPattern("OPEN", "{opened_at}#{order_id}")  # odm: ignore[hot-partition]  few orders a second
    of_customer = AccessPattern("CUSTOMER#{customer_id}", "OPEN#{order_id}", when=field("status") == "open")


def on(day: int, customer_id: str, order_id: str) -> Order:
    """An order that was opened on a day in May 2026."""
    return Order(customer_id=customer_id, order_id=order_id, opened_at=datetime(2026, 5, day, tzinfo=UTC))


def main(backend: Backend) -> dict[str, list[str]]:
    """Open three orders among a hundred shipped ones, ship one and open it again, and query the open orders."""
    sent: list[RequestInfo] = []
    with Store(shop, backend, on_request=sent.append) as db:
        db.create()
        with db.batch() as batch:
            for number in range(100):
                batch.put(Order(customer_id="ann", order_id=f"old{number}", status="shipped"))
        first, *_ = [db.put(order) for order in (on(3, "bob", "o1"), on(8, "ann", "o2"), on(5, "ann", "o3"))]

        def names_of(query: Query[Order]) -> list[str]:
            return [order.order_id for order in db.query(query)]

        older = Order.by_age().where(some(Order.opened_at) < datetime(2026, 5, 8, tzinfo=UTC))
        answers = {
            "open, oldest first": names_of(Order.by_age()),
            "open since before 8 May": names_of(older),
            "open, of Ann": names_of(Order.of_customer(customer_id="ann")),
        }
        assert db.explain(Order.by_age()).filter is None  # of 103 orders, it reads the three that are open

        del sent[:]
        db.update(first, set_(Order.status, "shipped"), remove(Order.opened_at), when=Order.status == "open")
        assert len(sent) == 1 or backend.name == "bigtable"  # one write: the item with its entries in both indexes
        answers["open, o1 shipped"] = names_of(Order.by_age())
        db.update(first, set_(Order.status, "open"), set_(Order.opened_at, datetime(2026, 5, 9, tzinfo=UTC)))
        answers["open, o1 came back"] = names_of(Order.by_age())

    assert answers == {
        "open, oldest first": ["o1", "o3", "o2"],
        "open since before 8 May": ["o1", "o3"],
        "open, of Ann": ["o2", "o3"],
        "open, o1 shipped": ["o3", "o2"],
        "open, o1 came back": ["o3", "o2", "o1"],
    }
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "orders.db"))).items():
            print(f"{question}: {', '.join(answer)}")
