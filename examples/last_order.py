"""The last order of a customer: a pointer that only moves forward, even if orders arrive late or twice.

Orders arrive as messages at several workers, in any order, and some arrive again. The key is ``LAST_ORDER#c1``.
"""

import asyncio
import tempfile
from datetime import UTC, datetime
from pathlib import Path
from random import Random

from odm import AsyncStore, Backend, Entity, PrimaryKey, Store, Table, set_
from odm.backends.local import LocalFile
from odm.patterns.pointer import Pointer

shop = Table("last-orders")


class Order(Entity, table=shop):
    """An order; its id gives its place in time."""

    customer_id: str
    order_id: str
    placed_at: datetime
    status: str = "open"

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
    latest = Pointer("LAST_ORDER#{customer_id}", tracks="order_id")


def messages() -> list[Order]:
    """Twelve orders of two customers, each sent twice, shuffled."""
    orders = [
        Order(customer_id=f"c{n % 2 + 1}", order_id=f"o{n:03}", placed_at=datetime(2026, 5, n, 12, tzinfo=UTC))
        for n in range(1, 13)
    ]
    told = orders * 2
    Random(3).shuffle(told)
    return told


async def work(backend: Backend) -> None:
    """Four workers, each with a part of the messages."""
    told = messages()

    async def worker(number: int) -> None:
        for order in told[number::4]:
            await db.put(order)

    async with AsyncStore(shop, backend) as db:
        await asyncio.gather(*map(worker, range(4)))


def main(backend: Backend) -> dict[str, list[str]]:
    """Let the workers race, and ask for the last order of each customer."""
    with Store(shop, backend) as db:
        db.create()
        asyncio.run(work(backend))
        last = [db.one(Order.latest(customer_id=customer)) for customer in ("c1", "c2")]
        answers = {"the last order of each": [f"{order.order_id} of {order.placed_at:%d %B}" for order in last]}
        db.put(messages()[0])
        answers["its id alone, after a late message"] = [db.run(Order.latest.value(customer_id="c1"))]
        db.update(last[0], set_(Order.status, "shipped"))
        answers["once it is shipped"] = [db.one(Order.latest(customer_id="c1")).status]
        answers["of a customer without orders"] = [str(db.get(Order.latest(customer_id="c3")))]
        answers["orders of a customer"] = [str(db.count(Order.primary(customer_id="c1")))]
    assert answers == {
        "the last order of each": ["o012 of 12 May", "o011 of 11 May"],
        "its id alone, after a late message": ["o012"],
        "once it is shipped": ["shipped"],
        "of a customer without orders": ["None"],
        "orders of a customer": ["6"],
    }
    return answers


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        for question, answer in main(LocalFile(Path(folder, "shop.db"))).items():
            print(f"{question}: {', '.join(answer)}")
