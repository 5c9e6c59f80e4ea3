"""PynamoDB's models."""

from collections.abc import Mapping
from decimal import Decimal
from typing import Any, Final

from pynamodb.attributes import (
    Attribute,
    BooleanAttribute,
    DiscriminatorAttribute,
    ListAttribute,
    MapAttribute,
    NumberAttribute,
    UnicodeAttribute,
    UTCDateTimeAttribute,
)
from pynamodb.connection import Connection
from pynamodb.models import Model
from pynamodb.transactions import TransactWrite

from benchmarks.contender import Contender
from benchmarks.pages import Page


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


_OF_ORDERS: Final[Mapping[str, Any]] = {
    "product_id": UnicodeAttribute,
    "placed_at": UTCDateTimeAttribute,
    "updated_at": UTCDateTimeAttribute,
    "total": DecimalAttribute,
    "tax": DecimalAttribute,
    "quantity": NumberAttribute,
    "points": NumberAttribute,
    "gift": BooleanAttribute,
    "status": UnicodeAttribute,
    "tags": lambda: ListAttribute(of=UnicodeAttribute),
    "address": Address,
}


def _models(page: Page, service: Any) -> dict[str, type[Any]]:
    """A model a class of the page; of several, subclasses of one that has the keys, distinguished by the tag."""
    meta = {
        "table_name": f"pynamo-{page.table.name}",
        "region": "us-east-1",
        "host": service.endpoint_url,
        "max_pool_connections": service.connections,
        "aws_access_key_id": "benchmark",
        "aws_secret_access_key": "benchmark",
        "billing_mode": "PAY_PER_REQUEST",
    }
    body: dict[str, Any] = {
        "__module__": __name__,
        "Meta": type("Meta", (), meta),
        "customer_id": UnicodeAttribute(hash_key=True),
        "order_id": UnicodeAttribute(range_key=True),
    }
    of = {
        tag: {n: _OF_ORDERS[n]() for n in model.model_fields if n in _OF_ORDERS} for tag, model in page.models.items()
    }
    if len(of) == 1:
        [(tag, attributes)] = of.items()
        made = type(tag, (Model,), body | attributes)
        return {tag: made, "": made}
    base = type("Base", (Model,), body | {"tag": DiscriminatorAttribute(attr_name="_t")})
    subclasses = {
        tag: type(base)(tag, (base,), {"__module__": __name__, **attributes}, discriminator=tag)
        for tag, attributes in of.items()
    }
    return subclasses | {"": base}


class Pynamo(Contender):
    """PynamoDB."""

    def connect(self) -> None:
        self.kinds = _models(self.page, self.service)
        self.base = self.kinds[""]
        self.client = self.base._get_connection().connection.client
        self.service.register(self.client.meta.events)
        if self.service.creates:
            self.base.create_table(wait=True)

    def model(self, number: int, edition: int = 0) -> Any:
        values = self.page.row(number, edition)
        return self.kinds[self.page.tag(number)](**values | {"address": Address(**values["address"])})

    def plain(self, found: Any) -> dict[str, Any]:
        values = {name: value for name, value in found.attribute_values.items() if name != "tag"}
        return values | {"address": values["address"].attribute_values}

    def get(self, number: int) -> Any:
        return self.base.get(*self.page.keys(number))

    def put(self, model: Any) -> None:
        model.save()

    def query(self, number: int) -> list[Any]:
        return list(self.base.query(self.page.keys(number)[0]))

    def update(self, number: int) -> None:
        order = self.base(*self.page.keys(number))
        order.update(actions=[self.base.status.set("shipped"), self.base.points.add(1)])

    def batch(self, models: list[Any]) -> None:
        with self.base.batch_write() as batch:
            for model in models:
                batch.save(model)

    def transact(self, models: list[Any]) -> None:
        with TransactWrite(connection=Connection(region="us-east-1")) as transaction:
            for model in models:
                transaction.save(model)

    def close(self) -> None:
        self.client.close()
        super().close()
