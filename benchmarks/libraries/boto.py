"""boto3 alone and with Pydantic: what one writes without a mapper, with keys and tags as odm stores them."""

from typing import Any, Final

from boto3.dynamodb.conditions import Key
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.config import Config
from pydantic import BaseModel

from benchmarks.contender import Contender

KEYS: Final = ("PK", "SK")
_write = TypeSerializer().serialize
_read = TypeDeserializer().deserialize


def values_of(model: BaseModel) -> dict[str, Any]:
    """The fields as boto3 takes them, which knows no datetime."""
    values = model.model_dump()
    for name in ("placed_at", "updated_at", "at"):
        if name in values:
            values[name] = values[name].isoformat()
    return values


class _Boto(Contender):
    def key(self, number: int) -> dict[str, Any]:
        """The key of an item."""
        customer, order = self.page.keys(number)
        return {"PK": f"CUSTOMER#{customer}", "SK": f"{self.page.tag(number).upper()}#{order}"}

    def item(self, model: BaseModel) -> dict[str, Any]:
        """What is stored."""
        values, tag = values_of(model), type(model).__name__
        keys = {"PK": f"CUSTOMER#{values['customer_id']}", "SK": f"{tag.upper()}#{values['order_id']}", "_t": tag}
        return keys | values

    def made(self, item: dict[str, Any]) -> BaseModel:
        """The model of an item, by its tag."""
        return self.page.models[item["_t"]].model_validate(item)


class ResourceDicts(_Boto):
    """boto3's resource, which gives dicts."""

    def connect(self) -> None:
        self.resource: Any = self.service.session().resource("dynamodb", endpoint_url=self.service.endpoint_url)
        self.table = self.resource.Table(self.page.table.name)

    def plain(self, found: Any) -> dict[str, Any]:
        return super().plain(self.made(found))

    def query(self, number: int) -> list[Any]:
        found: list[Any] = self.table.query(KeyConditionExpression=Key("PK").eq(self.key(number)["PK"]))["Items"]
        return found

    def get(self, number: int) -> Any:
        return self.table.get_item(Key=self.key(number))["Item"]

    def put(self, model: BaseModel) -> None:
        self.table.put_item(Item=self.item(model))

    def close(self) -> None:
        self.resource.meta.client.close()
        super().close()


class Resource(ResourceDicts):
    """boto3's resource and Pydantic."""

    def plain(self, found: Any) -> dict[str, Any]:
        return Contender.plain(self, found)

    def query(self, number: int) -> list[Any]:
        return [self.made(item) for item in super().query(number)]

    def get(self, number: int) -> Any:
        return self.made(super().get(number))


class Client(_Boto):
    """boto3's client, its serializers, and Pydantic."""

    def connect(self) -> None:
        config = Config(retries={"max_attempts": 0}, max_pool_connections=self.service.connections)
        url = self.service.endpoint_url
        self.client: Any = self.service.session().client("dynamodb", endpoint_url=url, config=config)
        self.table = self.page.table.name
        if self.service.creates:
            self.client.create_table(
                TableName=self.table,
                KeySchema=[
                    {"AttributeName": key, "KeyType": kind} for key, kind in zip(KEYS, ("HASH", "RANGE"), strict=True)
                ],
                AttributeDefinitions=[{"AttributeName": key, "AttributeType": "S"} for key in KEYS],
                BillingMode="PAY_PER_REQUEST",
            )
            self.client.get_waiter("table_exists").wait(TableName=self.table, WaiterConfig={"Delay": 1})

    def written(self, model: BaseModel) -> dict[str, Any]:
        """An item in DynamoDB's types."""
        return {name: _write(value) for name, value in self.item(model).items()}

    def read(self, item: dict[str, Any]) -> BaseModel:
        """The model of an item in DynamoDB's types."""
        return self.made({name: _read(value) for name, value in item.items()})

    def typed_key(self, number: int) -> dict[str, Any]:
        """The key of an item in DynamoDB's types."""
        return {name: {"S": value} for name, value in self.key(number).items()}

    def get(self, number: int) -> BaseModel:
        return self.read(self.client.get_item(TableName=self.table, Key=self.typed_key(number))["Item"])

    def put(self, model: BaseModel) -> None:
        self.client.put_item(TableName=self.table, Item=self.written(model))

    def query(self, number: int) -> list[BaseModel]:
        answer = self.client.query(
            TableName=self.table,
            KeyConditionExpression="PK = :p",
            ExpressionAttributeValues={":p": {"S": self.key(number)["PK"]}},
        )
        return [self.read(item) for item in answer["Items"]]

    def update(self, number: int) -> None:
        self.client.update_item(
            TableName=self.table,
            Key=self.typed_key(number),
            UpdateExpression="SET #s = :s ADD points :p",
            ExpressionAttributeNames={"#s": "status"},
            ExpressionAttributeValues={":s": {"S": "shipped"}, ":p": {"N": "1"}},
        )

    def batch(self, models: list[BaseModel]) -> None:
        for start in range(0, len(models), 25):
            puts = [{"PutRequest": {"Item": self.written(model)}} for model in models[start : start + 25]]
            self.client.batch_write_item(RequestItems={self.table: puts})

    def transact(self, models: list[BaseModel]) -> None:
        puts = [{"Put": {"TableName": self.table, "Item": self.written(model)}} for model in models]
        self.client.transact_write_items(TransactItems=puts)

    def close(self) -> None:
        self.client.close()
        super().close()
