"""pydynox's models, over its own HTTP client, sync and async."""

import logging
from typing import Any

from pydynox import DynamoDBClient, Model, ModelConfig
from pydynox.attributes import (
    BooleanAttribute,
    DatetimeAttribute,
    DecimalAttribute,
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    StringAttribute,
)

from benchmarks.contender import Contender, Looped

logging.getLogger("pydynox").setLevel(logging.ERROR)  # it warns of each call that takes 100 ms


class PydynoxOrder(Model):
    """The order in pydynox's terms."""

    model_config = ModelConfig(table="pydynox")
    customer_id = StringAttribute(partition_key=True)
    order_id = StringAttribute(sort_key=True)
    product_id = StringAttribute()
    placed_at = DatetimeAttribute()
    updated_at = DatetimeAttribute()
    total = DecimalAttribute()
    tax = DecimalAttribute()
    quantity = NumberAttribute()
    points = NumberAttribute()
    gift = BooleanAttribute()
    status = StringAttribute()
    tags = ListAttribute()
    address = MapAttribute()


class _Pydynox(Contender):
    def connect(self) -> None:
        names = {"region": "us-east-1", "access_key": "benchmark", "secret_key": "benchmark"}
        client = DynamoDBClient(**names, endpoint_url=self.service.endpoint_url)
        # A class keeps the first client that it is used with, so each contender has a class of its own.
        config = ModelConfig(table="pydynox", client=client)
        self.order: Any = type("PydynoxOrder", (PydynoxOrder,), {"model_config": config})

    def load(self) -> None:
        for number in range(self.page.size):
            self.model(number).sync_save()

    def model(self, number: int, edition: int = 0) -> Any:
        return self.order(**self.page.row(number, edition))

    def plain(self, found: Any) -> dict[str, Any]:
        return {name: getattr(found, name) for name in self.page.models["Order"].model_fields}


class Pydynox(_Pydynox):
    """pydynox, sync."""

    def get(self, number: int) -> Any:
        customer, order = self.page.keys(number)
        return self.order.sync_get(customer_id=customer, order_id=order)

    def put(self, model: Any) -> None:
        model.sync_save()

    def query(self, number: int) -> list[Any]:
        return list(self.order.sync_query(partition_key=self.page.keys(number)[0]))


class AsyncPydynox(Looped, _Pydynox):
    """pydynox, async."""

    async def get(self, number: int) -> Any:
        customer, order = self.page.keys(number)
        return await self.order.get(customer_id=customer, order_id=order)

    async def put(self, model: Any) -> None:
        await model.save()

    async def query(self, number: int) -> list[Any]:
        return [found async for found in self.order.query(partition_key=self.page.keys(number)[0])]
