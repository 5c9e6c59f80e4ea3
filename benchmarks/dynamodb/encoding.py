"""A model → the body of its PutItem, with nothing sent: what each library does, botocore's serializer included."""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import boto3
from boto3.dynamodb.types import TypeDeserializer, TypeSerializer
from botocore.serialize import create_serializer

from benchmarks.contender import Contender
from benchmarks.libraries.boto import values_of
from benchmarks.pages import Page
from benchmarks.timing import Racer
from odm import Store
from odm.backends.dynamodb.client.native import Call, Native
from odm.backends.dynamodb.client.wire import text_of
from odm.backends.dynamodb.driver import DynamoDB, DynamoDBConnection
from odm.backends.dynamodb.items.codec import write_item, write_put
from odm.backends.dynamodb.items.layout import layout_of
from odm.protocol.requests import Put
from odm.schema.model import Schema

Encode = Callable[[Any], bytes]
"""Makes the body for an object of a library."""


def _serializer(*, validating: bool) -> Callable[[dict[str, Any]], bytes]:
    """botocore's: PutItem's parameters to its body, with the check of their types or without."""
    client: Any = boto3.client("dynamodb", region_name="us-east-1")
    operation = client.meta.service_model.operation_model("PutItem")
    client.close()
    serializer = create_serializer("json", validating)

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
    schema = page.table.compile()
    [cls] = page.entities.values()
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
    serialize = _serializer(validating=validating)
    write = TypeSerializer().serialize
    name = page.table.name

    def encode(model: Any) -> bytes:
        return serialize({"TableName": name, "Item": {name: write(value) for name, value in values_of(model).items()}})

    return encode


def pynamo(page: Page) -> Encode:
    """PynamoDB's ``serialize``, and botocore, whose validation PynamoDB turns off."""
    serialize = _serializer(validating=False)
    name = page.table.name
    return lambda model: serialize({"TableName": name, "Item": model.serialize()})


def pydantic(_page: Page) -> Encode:
    """Pydantic's JSON, which is not a request body: what the same fields cost at least."""

    def encode(model: Any) -> bytes:
        made: bytes = model.__pydantic_serializer__.to_json(model)
        return made

    return encode


def racer(page: Page, encode: Encode, contender: Contender) -> Racer:
    """The encoder ready to be timed, seen to hold the first item."""
    models = [contender.model(number) for number in range(page.size)]
    check(page, encode, models[0])

    def arguments(count: int, _: int) -> Sequence[Any]:
        return [models[number % len(models)] for number in range(count)]

    return Racer(encode, arguments)


def check(page: Page, encode: Encode, model: Any) -> None:
    """See that the body holds the first item."""
    body = json.loads(encode(model))
    read = TypeDeserializer().deserialize
    values = {name: read(value) for name, value in body["Item"].items()} if "Item" in body else body
    found = page.models[page.tag(0)].model_validate(values)
    assert found == page.model(0), f"the body holds another item: {body}"


ENCODERS: Final[Mapping[str, tuple[Callable[[Page], Encode], str]]] = {
    "odm": (odm, "odm"),
    "odm, store.put": (odm_put, "odm"),
    "boto3 resource + Pydantic": (boto, "boto3 resource + Pydantic"),
    "boto3, unvalidated": (lambda page: boto(page, validating=False), "boto3 resource + Pydantic"),
    "PynamoDB": (pynamo, "PynamoDB"),
    "Pydantic to_json": (pydantic, "boto3 resource + Pydantic"),
}
"""By the names that tables show, with whose objects each takes."""
