"""PynamoDB's models, on the page as PynamoDB writes its values."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from pynamodb.attributes import (
    BooleanAttribute,
    DiscriminatorAttribute,
    ListAttribute,
    NumberAttribute,
    UnicodeAttribute,
    UTCDateTimeAttribute,
)
from pynamodb.models import Model

from benchmarks.dynamodb.answers import Item
from benchmarks.dynamodb.contender import Contender
from benchmarks.dynamodb.pages import CUSTOMER, Page
from benchmarks.pynamo import Address, DecimalAttribute

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


def _models(page: Page, endpoint_url: str) -> dict[str, type[Any]]:
    """A model a class of the page; of several, subclasses of one that has the keys, distinguished by the tag."""
    meta = {
        "table_name": page.table.name,
        "region": "us-east-1",
        "host": endpoint_url,
        "aws_access_key_id": "benchmark",
        "aws_secret_access_key": "benchmark",
    }
    keys: dict[str, Any] = {
        "customer_id": UnicodeAttribute(hash_key=True),
        "order_id": UnicodeAttribute(range_key=True),
    }
    if len(page.models) > 1:
        keys["tag"] = DiscriminatorAttribute(attr_name="_t")
        base = type("Base", (Model,), {"Meta": type("Meta", (), meta), "__module__": __name__, **keys})
        return {
            tag: type(base)(tag, (base,), {"__module__": __name__, **_attributes(model)}, discriminator=tag)
            for tag, model in page.models.items()
        } | {"": base}
    [(tag, model)] = page.models.items()
    made = type(tag, (Model,), {"Meta": type("Meta", (), meta), "__module__": __name__, **keys, **_attributes(model)})
    return {tag: made, "": made}


def _attributes(model: type[Any]) -> dict[str, Any]:
    return {name: _OF_ORDERS[name]() for name in model.model_fields if name in _OF_ORDERS}


class Pynamo(Contender):
    """PynamoDB."""

    def connect(self) -> None:
        self.client = self.base._get_connection().connection.client
        self.wire.register(self.client.meta.events)

    def model(self, tag: str, values: dict[str, Any]) -> Any:
        if not hasattr(self, "kinds"):
            self.kinds = _models(self.page, self.wire.endpoint_url)
            self.base = self.kinds[""]
        given = {name: Address(**value) if name == "address" else value for name, value in values.items()}
        return self.kinds[tag](**given)

    def load(self, items: Sequence[Item]) -> None:
        """Ours with the values in PynamoDB's form: its datetimes are texts of their own."""
        super().load([{**item, **model.serialize()} for item, model in zip(items, self.models, strict=True)])

    def plain(self, found: Any) -> dict[str, Any]:
        values = {name: value for name, value in found.attribute_values.items() if name != "tag"}
        return values | {"address": values["address"].attribute_values}

    def query(self) -> list[Any]:
        return list(self.base.query(CUSTOMER))

    def get(self) -> Any:
        return self.base.get(CUSTOMER, "o000000000")

    def put(self, model: Any) -> None:
        model.save()

    def close(self) -> None:
        self.client.close()
