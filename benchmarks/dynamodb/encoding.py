"""A model → the body of its PutItem, with nothing sent: what each library does, botocore's serializer included."""

import json
from collections.abc import Callable, Mapping
from typing import Any, Final

from attrs import frozen
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.serialize import create_serializer

from benchmarks.dynamodb.boto import item_of
from benchmarks.dynamodb.ours import session
from benchmarks.dynamodb.pages import Page
from odm import Store
from odm.backends.dynamodb.codec import write_item, write_put
from odm.backends.dynamodb.driver import DynamoDB, DynamoDBConnection
from odm.backends.dynamodb.native import Call, Native
from odm.backends.dynamodb.schema import layout_of
from odm.backends.dynamodb.wire import text_of
from odm.protocol.requests import Put
from odm.schema.model import Schema

Encode = Callable[[Any], bytes]
"""Makes the body for an object of a library."""


@frozen
class Serializer:
    """botocore's, as its client has it.

    Attributes:
        validating: check the types of parameters, as clients do when nothing else is said.
    """

    validating: bool = True

    def bodies(self) -> Callable[[dict[str, Any]], bytes]:
        """A function from PutItem's parameters to its body."""
        client: Any = session().client("dynamodb")
        operation = client.meta.service_model.operation_model("PutItem")
        client.close()
        serializer = create_serializer("json", self.validating)

        def body(parameters: dict[str, Any]) -> bytes:
            made: bytes = serializer.serialize_to_request(parameters, operation)["body"]
            return made

        return body


class _Bodies(DynamoDB):
    """The backend, whose requests end as bodies."""

    def connect(self, schema: Schema) -> "_Connection":
        self.connection = _Connection(layout_of(schema), self._settings)
        return self.connection


class _Connection(DynamoDBConnection):
    body = b""

    def call(self, native: Native) -> dict[str, Any]:
        """Make the body of a native request, as the clients' events do, and return a successful answer."""
        assert isinstance(native, Call)
        self.body = text_of(native.kwargs).encode()
        return {}


def odm(page: Page) -> Encode:
    """The codec: the item, its key by the templates, and the body. The peers below do no more either."""
    [cls] = page.entities.values()
    schema = page.table.compile()
    entity = schema.by_class[cls]
    layout = layout_of(schema)

    def encode(instance: Any) -> bytes:
        put = Put(entity.key(vars(instance)), write_item(entity.codec, instance))
        return text_of({"TableName": layout.table, "Item": write_put(layout, put)}).encode()

    return encode


def odm_put(page: Page) -> Encode:
    """``store.put`` up to the body, with its checks of sizes and keys, conditions and steps."""
    backend = _Bodies()
    store = Store(page.table, backend)

    def encode(entity: Any) -> bytes:
        store.put(entity)
        return backend.connection.body

    return encode


def boto(page: Page, *, validating: bool = True) -> Encode:
    """``model_dump``, boto3's `TypeSerializer`, and botocore."""
    serialize = Serializer(validating).bodies()
    write = TypeSerializer().serialize
    name = page.table.name

    def encode(model: Any) -> bytes:
        return serialize({"TableName": name, "Item": {name: write(value) for name, value in item_of(model).items()}})

    return encode


def pynamo(page: Page) -> Encode:
    """PynamoDB's ``serialize``, and botocore, whose validation PynamoDB turns off."""
    serialize = Serializer(validating=False).bodies()
    name = page.table.name
    return lambda model: serialize({"TableName": name, "Item": model.serialize()})


def pydantic(_page: Page) -> Encode:
    """Pydantic's JSON, which is not a request body: what the same fields cost at least."""

    def encode(model: Any) -> bytes:
        made: bytes = model.__pydantic_serializer__.to_json(model)
        return made

    return encode


def check(page: Page, encode: Encode, model: Any) -> None:
    """See that the body holds the first item."""
    body = json.loads(encode(model))
    read = TypeDeserializer().deserialize
    values = {name: read(value) for name, value in body["Item"].items()} if "Item" in body else body
    [(_, cls)] = page.models.items()
    found = cls.model_validate(values).model_dump()
    assert found == page.expected[0], f"the body holds another item: {body}"


ENCODERS: Final[Mapping[str, tuple[Callable[[Page], Encode], str]]] = {
    "odm": (odm, "odm"),
    "odm, store.put": (odm_put, "odm"),
    "boto3": (boto, "boto3 resource + Pydantic"),
    "boto3, unvalidated": (lambda page: boto(page, validating=False), "boto3 resource + Pydantic"),
    "PynamoDB": (pynamo, "PynamoDB"),
    "Pydantic to_json": (pydantic, "boto3 resource + Pydantic"),
}
"""By the names that tables show, with whose objects each takes."""
