"""PynamoDB's models against moto in this process."""

from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from typing import Any, ClassVar

from moto import mock_aws
from pynamodb.attributes import (
    Attribute,
    BooleanAttribute,
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    UnicodeAttribute,
    UTCDateTimeAttribute,
)
from pynamodb.connection import Connection
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

from benchmarks.candidates import Candidate, Operation
from benchmarks.orders import customer_of, fields, order_of


class DecimalAttribute(Attribute[Decimal]):
    """A Decimal, which PynamoDB leaves to the user."""

    attr_type = "N"

    def serialize(self, value: Decimal) -> str:
        return str(value)

    def deserialize(self, value: str) -> Decimal:
        return Decimal(value)


class Address(MapAttribute[str, Any]):
    """The map of the order."""

    street = UnicodeAttribute()
    city = UnicodeAttribute()
    postcode = UnicodeAttribute()
    country = UnicodeAttribute()


class PynamoOrder(Model):
    """The order in PynamoDB's terms."""

    class Meta:
        """Where it is."""

        table_name = "pynamo"
        region = "us-east-1"
        aws_access_key_id = "benchmark"
        aws_secret_access_key = "benchmark"
        billing_mode = "PAY_PER_REQUEST"

    customer_id = UnicodeAttribute(hash_key=True)
    order_id = UnicodeAttribute(range_key=True)
    product_id = UnicodeAttribute()
    placed_at = UTCDateTimeAttribute()
    updated_at = UTCDateTimeAttribute()
    total = DecimalAttribute()
    tax = DecimalAttribute()
    quantity = NumberAttribute()
    points = NumberAttribute()
    gift = BooleanAttribute()
    status = UnicodeAttribute()
    tags: ListAttribute[str] = ListAttribute(of=UnicodeAttribute)
    address = Address()


class Pynamo(Candidate):
    """PynamoDB on moto."""

    most: ClassVar[Mapping[Operation, int]] = {"transact": 1000}  # moto copies all tables before each

    def __init__(self, size: int, folder: Path) -> None:
        super().__init__(size, folder)
        self.mock = mock_aws()
        self.mock.start()
        PynamoOrder.create_table(wait=True)

    def order(self, number: int, edition: int = 0) -> PynamoOrder:
        values = fields(number, edition)
        return PynamoOrder(**values | {"address": Address(**values["address"])})

    def plain(self, found: PynamoOrder) -> dict[str, Any]:
        values = dict(found.attribute_values)
        return values | {"address": values["address"].attribute_values}

    def get(self, number: int) -> Any:
        return PynamoOrder.get(customer_of(number), order_of(number))

    def put(self, order: PynamoOrder) -> None:
        order.save()

    def query(self, number: int) -> list[PynamoOrder]:
        return list(PynamoOrder.query(customer_of(number)))

    def update(self, number: int) -> None:
        order = PynamoOrder(customer_of(number), order_of(number))
        order.update(actions=[PynamoOrder.status.set("shipped"), PynamoOrder.points.add(1)])

    def batch(self, orders: list[PynamoOrder]) -> None:
        with PynamoOrder.batch_write() as batch:
            for order in orders:
                batch.save(order)

    def transact(self, orders: list[PynamoOrder]) -> None:
        with TransactWrite(connection=Connection(region="us-east-1")) as transaction:
            for order in orders:
                transaction.save(order)

    def close(self) -> None:
        self.mock.stop()
