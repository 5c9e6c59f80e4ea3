"""From the start of a process to the first item: what each library is imported, made and asked for.

``python -m benchmarks.dynamodb.starts odm http://127.0.0.1:8000 0`` is one of these processes: it prints the names of
its steps with the CPU time of the process, and the time on the clock since the time of its last argument, in seconds.
Each program imports its libraries itself, so that a process loads one of them only, and gets one order, whose key it
knows. Credentials and region are in the environment, as in a Lambda function.
"""

import sys
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

CUSTOMER: Final = "c0000001"
ORDER: Final = "o000000007"

ENVIRONMENT: Final = {
    "AWS_ACCESS_KEY_ID": "benchmark",
    "AWS_SECRET_ACCESS_KEY": "benchmark",
    "AWS_DEFAULT_REGION": "us-east-1",
}

STEPS: Final = ("import", "compile", "first get")
"""The steps of a program; the time before them is that of the interpreter."""


def odm(url: str, transport: Any = None) -> Iterator[str]:
    """odm, sync."""
    from odm import Entity, PrimaryKey, Store, Table
    from odm.backends.dynamodb import DynamoDB

    yield "import"
    table, order = _entity(Table, Entity, PrimaryKey)
    yield "compile"
    store = Store(table, DynamoDB(endpoint_url=url, transport=transport))
    found: Any = store.get(order, customer_id=CUSTOMER, order_id=ORDER)
    assert found.order_id == ORDER
    yield "first get"
    store.close()


def async_odm(url: str, transport: Any = None) -> Iterator[str]:
    """odm, async."""
    import asyncio

    from odm import AsyncStore, Entity, PrimaryKey, Table
    from odm.backends.dynamodb import DynamoDB

    yield "import"
    table, order = _entity(Table, Entity, PrimaryKey)
    yield "compile"
    store = AsyncStore(table, DynamoDB(endpoint_url=url, transport=transport))
    with asyncio.Runner() as loop:
        found: Any = loop.run(store.get(order, customer_id=CUSTOMER, order_id=ORDER))
        assert found.order_id == ORDER
        yield "first get"
        loop.run(store.aclose())


def _entity(table_class: Any, entity_class: Any, key: Any) -> tuple[Any, Any]:
    from benchmarks.order import Order

    table = table_class("orders")

    class Stored(entity_class, Order, table=table, tag="Order"):  # type: ignore[misc]  # imported late
        primary = key("CUSTOMER#{customer_id}", "ORDER#{order_id}")

    table.compile()
    return table, Stored


def boto(url: str) -> Iterator[str]:
    """boto3's client and Pydantic."""
    import boto3
    from boto3.dynamodb.types import TypeDeserializer
    from pydantic import BaseModel  # noqa: F401  # which pydantic loads when it is asked for

    yield "import"
    from benchmarks.order import Order

    yield "compile"
    client: Any = boto3.client("dynamodb", endpoint_url=url)
    key = {"PK": {"S": f"CUSTOMER#{CUSTOMER}"}, "SK": {"S": f"ORDER#{ORDER}"}}
    item = client.get_item(TableName="orders", Key=key)["Item"]
    read = TypeDeserializer().deserialize
    assert Order.model_validate({name: read(value) for name, value in item.items()}).order_id == ORDER
    yield "first get"


def pynamo(url: str) -> Iterator[str]:
    """PynamoDB."""
    from pynamodb import attributes as of
    from pynamodb.models import Model

    yield "import"

    class Address(of.MapAttribute[str, Any]):  # type: ignore[misc]  # without types here
        street = of.UnicodeAttribute()
        city = of.UnicodeAttribute()
        postcode = of.UnicodeAttribute()
        country = of.UnicodeAttribute()

    class Stored(Model):  # type: ignore[misc]  # without types here
        class Meta:
            table_name = "orders"
            region = "us-east-1"
            host = url

        customer_id = of.UnicodeAttribute(hash_key=True)
        order_id = of.UnicodeAttribute(range_key=True)
        product_id = of.UnicodeAttribute()
        placed_at = of.UTCDateTimeAttribute()
        updated_at = of.UTCDateTimeAttribute()
        total = of.NumberAttribute()
        tax = of.NumberAttribute()
        quantity = of.NumberAttribute()
        points = of.NumberAttribute()
        gift = of.BooleanAttribute()
        status = of.UnicodeAttribute()
        tags = of.ListAttribute(of=of.UnicodeAttribute)
        address = Address()

    yield "compile"
    assert Stored.get(CUSTOMER, ORDER).order_id == ORDER
    yield "first get"


def async_dynamoxy(url: str) -> Iterator[str]:
    """The client of dynamoxy and its Pydantic models."""
    import asyncio
    from typing import Annotated

    import dynamoxy
    from pydantic import BaseModel  # noqa: F401  # which pydantic loads when it is asked for

    yield "import"
    from benchmarks.order import Order

    class Stored(Order, dynamoxy.PydanticModel, table="orders"):  # type: ignore[misc]  # without types here
        customer_id: Annotated[str, dynamoxy.PartitionKey()]
        order_id: Annotated[str, dynamoxy.SortKey()]

    yield "compile"
    credentials = dynamoxy.Credentials("benchmark", "benchmark")
    with asyncio.Runner() as loop:

        async def get() -> Any:
            client = dynamoxy.Client(region="us-east-1", endpoint_url=url, credentials=credentials)
            return await client.repository(Stored).get(CUSTOMER, ORDER)

        assert loop.run(get()).order_id == ORDER
        yield "first get"


def pydynox(url: str) -> Iterator[str]:
    """pydynox, sync."""
    from pydynox import DynamoDBClient, Model, ModelConfig
    from pydynox import attributes as of

    yield "import"
    client = DynamoDBClient(region="us-east-1", access_key="benchmark", secret_key="benchmark", endpoint_url=url)

    class Stored(Model):  # type: ignore[misc]  # without types here
        model_config = ModelConfig(table="orders", client=client)
        customer_id = of.StringAttribute(partition_key=True)
        order_id = of.StringAttribute(sort_key=True)
        product_id = of.StringAttribute()
        placed_at = of.DatetimeAttribute()
        updated_at = of.DatetimeAttribute()
        total = of.DecimalAttribute()
        tax = of.DecimalAttribute()
        quantity = of.NumberAttribute()
        points = of.NumberAttribute()
        gift = of.BooleanAttribute()
        status = of.StringAttribute()
        tags = of.ListAttribute()
        address = of.MapAttribute()

    yield "compile"
    found: Any = Stored.sync_get(customer_id=CUSTOMER, order_id=ORDER)
    assert found.order_id == ORDER
    yield "first get"


PROGRAMS: Final[Mapping[str, tuple[Callable[[str], Iterator[str]], str]]] = {
    "odm": (odm, "odm"),
    "odm, vendor": (lambda url: odm(url, "vendor"), "odm"),
    "odm, async": (async_odm, "odm, async"),
    "odm, async, vendor": (lambda url: async_odm(url, "vendor"), "odm, async"),
    "boto3 client + Pydantic": (boto, "boto3 client + Pydantic"),
    "PynamoDB": (pynamo, "PynamoDB"),
    "dynamoxy, async": (async_dynamoxy, "dynamoxy, async"),
    "pydynox": (pydynox, "pydynox"),
}
"""By the names that tables show, with whose stored items each reads."""


def main(name: str, url: str, begun: float) -> None:
    """Run a program."""
    times = [("python", time.process_time(), time.time() - begun)]
    for step in PROGRAMS[name][0](url):
        times.append((step, time.process_time(), time.time() - begun))  # noqa: PERF401  # a program runs between them
    for step, cpu, wall in times:
        sys.stdout.write(f"{step}\t{cpu}\t{wall}\n")


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], float(sys.argv[3]))
