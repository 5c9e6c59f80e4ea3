"""dynamoxy's pydantic models on its memory store, which is written in Rust; async, in one event loop."""

import asyncio
from collections.abc import Coroutine
from pathlib import Path
from typing import Annotated, Any

import dynamoxy
from dynamoxy import testing

from benchmarks.candidates import Candidate
from benchmarks.orders import Order, customer_of, fields, order_of


class DynamoxyOrder(Order, dynamoxy.PydanticModel, table="orders"):
    """The order in dynamoxy's terms."""

    customer_id: Annotated[str, dynamoxy.PartitionKey()]
    order_id: Annotated[str, dynamoxy.SortKey()]


PATHS: Any = DynamoxyOrder
"""On the class, fields are paths; type checkers see their values."""


class Dynamoxy(Candidate):
    """dynamoxy."""

    def __init__(self, size: int, folder: Path) -> None:
        super().__init__(size, folder)
        self.loop = asyncio.Runner()
        self.run(self._open())

    async def _open(self) -> None:
        self.client = testing.memory_client()
        await self.client.ensure_tables(DynamoxyOrder)
        self.orders = self.client.repository(DynamoxyOrder)

    def run(self, work: Coroutine[Any, Any, Any]) -> Any:
        return self.loop.run(work)

    def order(self, number: int, edition: int = 0) -> DynamoxyOrder:
        return DynamoxyOrder(**fields(number, edition))

    async def get(self, number: int) -> Any:
        return await self.orders.get(customer_of(number), order_of(number))

    async def put(self, order: DynamoxyOrder) -> None:
        await self.orders.put(order)

    async def query(self, number: int) -> Any:
        return await self.orders.query(customer_id=customer_of(number)).all()

    async def update(self, number: int) -> None:
        key = DynamoxyOrder.key(customer_of(number), order_of(number))
        await self.orders.update(key, PATHS.status.set("shipped"), PATHS.points.add(1))

    async def batch(self, orders: list[DynamoxyOrder]) -> None:
        await self.orders.batch_put(orders)

    async def transact(self, orders: list[DynamoxyOrder]) -> None:
        async with self.client.transaction() as tx:
            for order in orders:
                tx.put(order)

    def close(self) -> None:
        self.run(self.client.close())
        self.loop.close()
