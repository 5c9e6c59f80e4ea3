"""Fixtures without mocks: botocore and aiobotocore send requests to moto's server, sync and async."""

import uuid
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import boto3
import pytest

from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.driver import DynamoDBConnection
from odm.protocol.connection import aperform, perform
from odm.protocol.requests import CreateTables, Request
from odm.schema.model import IndexSchema, Schema

Ask = Callable[[Request], Awaitable[Any]]


@pytest.fixture(scope="session")
def endpoint(moto_server: str) -> str:
    """The address of moto's DynamoDB server, which runs for the whole session."""
    return moto_server


@pytest.fixture(scope="session")
def backend(endpoint: str) -> DynamoDB:
    session = boto3.Session(aws_access_key_id="key", aws_secret_access_key="secret", region_name="eu-west-1")
    return DynamoDB(session, endpoint_url=endpoint)


@pytest.fixture(scope="module", params=["lean", pytest.param("vendor", marks=pytest.mark.one_of(4))])
def transport(request: pytest.FixtureRequest) -> Any:
    """Each of the transports."""
    return request.param


@pytest.fixture
def schema() -> Schema:
    """A new table for each test, with one index."""
    return Schema(name=f"t-{uuid.uuid4()}", entities={}, indexes={"by_email": IndexSchema("by_email", ())})


@pytest.fixture
async def connection(backend: DynamoDB, schema: Schema) -> AsyncIterator[DynamoDBConnection]:
    connection = backend.connect(schema)
    yield connection
    await connection.aclose()


@pytest.fixture(params=["sync", "async"])
def send(request: pytest.FixtureRequest, connection: DynamoDBConnection) -> Ask:
    """Send requests on the connection, sync or async."""

    async def sync(asked: Request) -> Any:
        return perform(connection, asked)

    async def asynchronous(asked: Request) -> Any:
        return await aperform(connection, asked)

    return sync if request.param == "sync" else asynchronous


@pytest.fixture
async def ask(send: Ask) -> Ask:
    """Send requests to a table that was created."""
    await send(CreateTables())
    return send


def described(status: str, **indexes: str) -> dict[str, Any]:
    """The response of DescribeTable, with the status of the table and of each index."""

    def key(prefix: str) -> list[dict[str, str]]:
        return [
            {"AttributeName": f"{prefix}pk", "KeyType": "HASH"},
            {"AttributeName": f"{prefix}sk", "KeyType": "RANGE"},
        ]

    names = [name for prefix in ("", *indexes) for name in (f"{prefix}pk", f"{prefix}sk")]
    table: dict[str, Any] = {
        "TableStatus": status,
        "KeySchema": key(""),
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in names],
    }
    if indexes:
        table["GlobalSecondaryIndexes"] = [
            {"IndexName": index, "IndexStatus": state, "KeySchema": key(index)} for index, state in indexes.items()
        ]
    return {"Table": table}
