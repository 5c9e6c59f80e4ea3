"""pydynox's models, over its own HTTP client, sync and async."""

from collections.abc import Sequence
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

from benchmarks.dynamodb.answers import Item
from benchmarks.dynamodb.contender import Contender, Looped
from benchmarks.dynamodb.pages import CUSTOMER


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
        PydynoxOrder.model_config = ModelConfig(
            table="pydynox",
            client=DynamoDBClient(
                region="us-east-1",
                access_key="benchmark",
                secret_key="benchmark",
                endpoint_url=self.wire.endpoint_url,
            ),
        )

    def load(self, items: Sequence[Item]) -> None:
        """The page as pydynox writes it."""
        for model in self.models:
            model.sync_save()

    def model(self, tag: str, values: dict[str, Any]) -> Any:
        return PydynoxOrder(**values)

    def plain(self, found: Any) -> dict[str, Any]:
        return {name: getattr(found, name) for name in self.page.models["Order"].model_fields}


class Pydynox(_Pydynox):
    """pydynox, sync."""

    def query(self) -> list[Any]:
        return list(PydynoxOrder.sync_query(partition_key=CUSTOMER))

    def get(self) -> Any:
        return PydynoxOrder.sync_get(customer_id=CUSTOMER, order_id="o000000000")

    def put(self, model: Any) -> None:
        model.sync_save()


class AsyncPydynox(Looped, _Pydynox):
    """pydynox, async."""

    async def query(self) -> list[Any]:
        return [found async for found in PydynoxOrder.query(partition_key=CUSTOMER)]

    async def get(self) -> Any:
        return await PydynoxOrder.get(customer_id=CUSTOMER, order_id="o000000000")

    async def put(self, model: Any) -> None:
        await model.save()
