"""boto3 alone and with Pydantic: what one writes without a mapper."""

from typing import Any

from boto3.dynamodb.conditions import Key
from boto3.dynamodb.types import TypeDeserializer
from pydantic import BaseModel

from benchmarks.dynamodb.contender import Contender
from benchmarks.dynamodb.ours import session
from benchmarks.dynamodb.pages import CUSTOMER

PARTITION = f"CUSTOMER#{CUSTOMER}"


def item_of(model: BaseModel) -> dict[str, Any]:
    """The fields as boto3 takes them, which knows no datetime."""
    values = model.model_dump()
    for name in ("placed_at", "updated_at"):
        if name in values:
            values[name] = values[name].isoformat()
    return values


class ResourceDicts(Contender):
    """boto3's resource, which gives dicts."""

    def connect(self) -> None:
        reached = session()
        self.wire.register(reached.events)
        self.resource: Any = reached.resource("dynamodb", endpoint_url=self.wire.endpoint_url)
        self.table = self.resource.Table(self.page.table.name)
        self.key = {"PK": PARTITION, "SK": f"{next(iter(self.page.models)).upper()}#o000000000"}

    def plain(self, found: Any) -> dict[str, Any]:
        return super().plain(self.made(found))

    def made(self, item: dict[str, Any]) -> BaseModel:
        """The model of an item, by its tag."""
        return self.page.models[item["_t"]].model_validate(item)

    def query(self) -> list[Any]:
        found: list[Any] = self.table.query(KeyConditionExpression=Key("PK").eq(PARTITION))["Items"]
        return found

    def get(self) -> Any:
        return self.table.get_item(Key=self.key)["Item"]

    def put(self, model: BaseModel) -> None:
        self.table.put_item(Item={**self.key, **item_of(model)})

    def close(self) -> None:
        self.resource.meta.client.close()


class Resource(ResourceDicts):
    """boto3's resource and Pydantic."""

    def plain(self, found: Any) -> dict[str, Any]:
        return Contender.plain(self, found)

    def query(self) -> list[Any]:
        return [self.made(item) for item in super().query()]

    def get(self) -> Any:
        return self.made(super().get())


class Client(Contender):
    """boto3's client, `TypeDeserializer` and Pydantic."""

    def connect(self) -> None:
        reached = session()
        self.wire.register(reached.events)
        self.client: Any = reached.client("dynamodb", endpoint_url=self.wire.endpoint_url)
        self.read = TypeDeserializer().deserialize
        self.key = {"PK": {"S": PARTITION}, "SK": {"S": f"{next(iter(self.page.models)).upper()}#o000000000"}}

    def made(self, item: dict[str, Any]) -> BaseModel:
        """The model of an item, by its tag."""
        return self.page.models[item["_t"]["S"]].model_validate(
            {name: self.read(value) for name, value in item.items()}
        )

    def query(self) -> list[BaseModel]:
        answer = self.client.query(
            TableName=self.page.table.name,
            KeyConditionExpression="PK = :p",
            ExpressionAttributeValues={":p": {"S": PARTITION}},
        )
        return [self.made(item) for item in answer["Items"]]

    def get(self) -> BaseModel:
        return self.made(self.client.get_item(TableName=self.page.table.name, Key=self.key)["Item"])

    def close(self) -> None:
        self.client.close()
