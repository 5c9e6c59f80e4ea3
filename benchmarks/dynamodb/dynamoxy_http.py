"""dynamoxy's pydantic models, over its own HTTP client; async, in one event loop."""

from collections.abc import Sequence
from typing import Any

import dynamoxy

from benchmarks.dynamodb.answers import Item
from benchmarks.dynamodb.contender import Looped
from benchmarks.dynamodb.pages import CUSTOMER
from benchmarks.dynamoxy_memory import DynamoxyOrder


class Dynamoxy(Looped):
    """dynamoxy."""

    def connect(self) -> None:
        self.client = dynamoxy.Client(
            region="us-east-1",
            endpoint_url=self.wire.endpoint_url,
            credentials=dynamoxy.Credentials("benchmark", "benchmark"),
        )
        self.orders = self.client.repository(DynamoxyOrder)

    def load(self, items: Sequence[Item]) -> None:
        """The page as dynamoxy writes it."""
        for model in self.models:
            self.loop.run(self.put(model))

    def model(self, tag: str, values: dict[str, Any]) -> Any:
        return DynamoxyOrder(**values)

    async def query(self) -> Any:
        return await self.orders.query(customer_id=CUSTOMER).all()

    async def get(self) -> Any:
        return await self.orders.get(CUSTOMER, "o000000000")

    async def put(self, model: Any) -> None:
        await self.orders.put(model)

    async def aclose(self) -> None:
        await self.client.close()
