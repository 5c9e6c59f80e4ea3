"""boto3's client with models in and out, against moto in this process and against a dynalite of its own."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any, ClassVar

import boto3
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.config import Config

from benchmarks import dynalite
from benchmarks.candidates import Candidate, Clock, Operation
from benchmarks.orders import Order, customer_of, fields, order_of

TABLE = "orders"
_write = TypeSerializer().serialize
_read = TypeDeserializer().deserialize


def _item(order: Order) -> dict[str, Any]:
    values = order.model_dump()
    for name in ("placed_at", "updated_at"):
        values[name] = values[name].isoformat()
    return {name: _write(value) for name, value in values.items()}


def _order(item: dict[str, Any]) -> Order:
    return Order.model_validate({name: _read(value) for name, value in item.items()})


def _key(number: int) -> dict[str, Any]:
    return {"customer_id": {"S": customer_of(number)}, "order_id": {"S": order_of(number)}}


class _Boto(Candidate):
    def connect(self, endpoint_url: str | None) -> None:
        """Make the client and its table."""
        self.client: Any = boto3.client(
            "dynamodb",
            region_name="us-east-1",
            endpoint_url=endpoint_url,
            aws_access_key_id="benchmark",
            aws_secret_access_key="benchmark",
            config=Config(retries={"max_attempts": 0}),
        )
        self.client.create_table(
            TableName=TABLE,
            KeySchema=[
                {"AttributeName": "customer_id", "KeyType": "HASH"},
                {"AttributeName": "order_id", "KeyType": "RANGE"},
            ],
            AttributeDefinitions=[
                {"AttributeName": name, "AttributeType": "S"} for name in ("customer_id", "order_id")
            ],
            BillingMode="PAY_PER_REQUEST",
        )
        self.client.get_waiter("table_exists").wait(TableName=TABLE, WaiterConfig={"Delay": 1})

    def order(self, number: int, edition: int = 0) -> Order:
        return Order(**fields(number, edition))

    def get(self, number: int) -> Order:
        return _order(self.client.get_item(TableName=TABLE, Key=_key(number))["Item"])

    def put(self, order: Order) -> None:
        self.client.put_item(TableName=TABLE, Item=_item(order))

    def query(self, number: int) -> list[Order]:
        answer = self.client.query(
            TableName=TABLE,
            KeyConditionExpression="customer_id = :c",
            ExpressionAttributeValues={":c": {"S": customer_of(number)}},
        )
        return [_order(item) for item in answer["Items"]]

    def update(self, number: int) -> None:
        self.client.update_item(
            TableName=TABLE,
            Key=_key(number),
            UpdateExpression="SET #s = :s ADD points :p",
            ExpressionAttributeNames={"#s": "status"},
            ExpressionAttributeValues={":s": {"S": "shipped"}, ":p": {"N": "1"}},
        )

    def batch(self, orders: list[Order]) -> None:
        for start in range(0, len(orders), 25):
            puts = [{"PutRequest": {"Item": _item(order)}} for order in orders[start : start + 25]]
            self.client.batch_write_item(RequestItems={TABLE: puts})


class Moto(_Boto):
    """moto in this process."""

    most: ClassVar[Mapping[Operation, int]] = {"transact": 1000}  # moto copies all tables before each

    def __init__(self, size: int, folder: Path) -> None:
        super().__init__(size, folder)
        from moto import mock_aws

        self.mock = mock_aws()
        self.mock.start()
        self.connect(None)

    def transact(self, orders: list[Order]) -> None:
        puts = [{"Put": {"TableName": TABLE, "Item": _item(order)}} for order in orders]
        self.client.transact_write_items(TransactItems=puts)

    def close(self) -> None:
        self.mock.stop()


class Dynalite(_Boto):
    """dynalite, a server of its own, so time is measured on the clock. It has no transactions."""

    clock: ClassVar[Clock] = "wall"

    def __init__(self, size: int, folder: Path) -> None:
        super().__init__(size, folder)
        self.server = dynalite.start()
        try:
            self.connect(self.server.url)
        except BaseException:
            self.server.stop()
            raise

    def close(self) -> None:
        self.server.stop()
