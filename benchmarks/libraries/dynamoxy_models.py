"""dynamoxy's pydantic models, on its memory store or over its HTTP client, both written in Rust; async."""

from typing import Annotated, Any

import dynamoxy
from dynamoxy import testing

from benchmarks.contender import Looped
from benchmarks.order import Order


class DynamoxyOrder(Order, dynamoxy.PydanticModel, table="orders"):
    """The order in dynamoxy's terms."""

    customer_id: Annotated[str, dynamoxy.PartitionKey()]
    order_id: Annotated[str, dynamoxy.SortKey()]


PATHS: Any = DynamoxyOrder
"""On the class, fields are paths; type checkers see their values."""


class Dynamoxy(Looped):
    """dynamoxy over HTTP."""

    def connect(self) -> None:
        self.loop.run(self.opened())

    async def opened(self) -> None:
        """Make the client."""
        credentials = dynamoxy.Credentials("benchmark", "benchmark")
        url = self.service.endpoint_url
        self.client = dynamoxy.Client(region="us-east-1", endpoint_url=url, credentials=credentials)
        self.orders = self.client.repository(DynamoxyOrder)

    def model(self, number: int, edition: int = 0) -> Any:
        return DynamoxyOrder(**self.page.row(number, edition))

    async def get(self, number: int) -> Any:
        return await self.orders.get(*self.page.keys(number))

    async def put(self, model: Any) -> None:
        await self.orders.put(model)

    async def query(self, number: int) -> Any:
        return await self.orders.query(customer_id=self.page.keys(number)[0]).all()

    async def update(self, number: int) -> None:
        key = DynamoxyOrder.key(*self.page.keys(number))
        await self.orders.update(key, PATHS.status.set("shipped"), PATHS.points.add(1))

    async def batch(self, models: list[Any]) -> None:
        await self.orders.batch_put(models)

    async def transact(self, models: list[Any]) -> None:
        async with self.client.transaction() as tx:
            for model in models:
                tx.put(model)

    async def aclose(self) -> None:
        await self.client.close()


class InMemory(Dynamoxy):
    """dynamoxy on its memory store."""

    async def opened(self) -> None:
        self.client = testing.memory_client()
        await self.client.ensure_tables(DynamoxyOrder)
        self.orders = self.client.repository(DynamoxyOrder)
