"""A shop: customers and orders in one table, orders by date, and an index that holds the open ones only."""

import asyncio
import tempfile
from datetime import UTC, datetime
from decimal import Decimal
from pathlib import Path
from typing import Literal

from odm import AccessPattern, AsyncStore, Backend, Entity, PrimaryKey, Store, Table, collection, field, set_
from odm.backends.local import LocalFile

shop = Table("shop-orders")


class Customer(Entity, table=shop):
    """A customer, in the same partition as their orders."""

    customer_id: str
    name: str

    primary = PrimaryKey("CUSTOMER#{customer_id}", "PROFILE")


class Order(Entity, table=shop):
    """An order, found by customer and date, and while it is open, among the open ones."""

    customer_id: str
    order_id: str
    placed_at: datetime
    total: Decimal
    status: Literal["open", "shipped"] = "open"

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
    by_date = AccessPattern("CUSTOMER#{customer_id}", "{placed_at}#{order_id}")
    open_orders = AccessPattern(  # odm: ignore[hot-partition]  few orders a second
        "OPEN", "{placed_at}#{order_id}", when=field("status") == "open"
    )


def on(day: int, customer_id: str, order_id: str, total: str) -> Order:
    """An order of a day in May 2026."""
    moment = datetime(2026, 5, day, 12, tzinfo=UTC)
    return Order(customer_id=customer_id, order_id=order_id, placed_at=moment, total=Decimal(total))


def main(backend: Backend) -> dict[str, list[str]]:
    """Store a customer's orders, ship one, and see the index of open orders follow."""
    with Store(shop, backend) as db:
        db.create()
        db.put(Customer(customer_id="c1", name='Ana "Zoë" Núñez #1'))
        first = db.put(on(1, "c1", "o9", "120.00"))
        for order in (on(8, "c1", "o7", "19.90"), on(15, "c1", "o8", "7.50"), on(9, "c2", "o6", "55.00")):
            db.put(order)

        orders = Order.by_date(customer_id="c1")
        since = datetime(2026, 5, 8, tzinfo=UTC)
        answers = {
            "customer and orders, one request": [
                item.name if isinstance(item, Customer) else item.order_id
                for item in db.query(collection(Customer.primary(customer_id="c1")))
                if isinstance(item, Customer | Order)
            ],
            "orders, newest first": [order.order_id for order in db.query(orders.reverse())],
            "orders since 8 May": [o.order_id for o in db.query(orders.where(Order.placed_at >= since))],
            "open orders": [order.order_id for order in db.query(Order.open_orders())],
        }
        db.update(first, set_(Order.status, "shipped"), when=Order.status == "open")
        answers["open orders, one shipped"] = [order.order_id for order in db.query(Order.open_orders())]
    answers["open orders, asked by asyncio"] = asyncio.run(open_orders(backend))
    return answers


async def open_orders(backend: Backend) -> list[str]:
    """The same question in an async program."""
    async with AsyncStore(shop, backend) as db:
        return [order.order_id async for order in db.query(Order.open_orders())]


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "shop.db"))).items():
            print(f"{question}: {', '.join(answer)}")
