"""A new table on the emulator for each test, sync and async."""

from collections.abc import Awaitable, Callable
from itertools import count
from typing import Any

import pytest

from odm.backends.bigtable import Bigtable
from odm.protocol.connection import Connection, aperform, perform
from odm.protocol.requests import CreateTables, Gather, Request
from odm.schema.model import Schema

Ask = Callable[[Request | Gather], Awaitable[Any]]

_numbers = count(1)


@pytest.fixture(params=["lean", pytest.param("vendor", marks=pytest.mark.one_of(8))])
def transport(request: pytest.FixtureRequest) -> Any:
    """Each of the transports."""
    return request.param


@pytest.fixture
def schema() -> Schema:
    return Schema(name=f"shop{next(_numbers)}", entities={}, indexes={})


@pytest.fixture
def connection(bigtable_emulator: str, schema: Schema) -> Connection[Any]:
    return Bigtable("project", "instance", endpoint=bigtable_emulator).connect(schema)


@pytest.fixture(params=["sync", "async"])
async def ask(request: pytest.FixtureRequest, connection: Connection[Any]) -> Any:
    """Sends requests of the core to a created table, through the sync or the async clients."""

    async def ask_sync(wanted: Request | Gather) -> Any:
        return perform(connection, wanted)

    async def ask_async(wanted: Request | Gather) -> Any:
        return await aperform(connection, wanted)

    asking: Ask = ask_sync if request.param == "sync" else ask_async
    await asking(CreateTables())
    yield asking
    connection.close()
    await connection.aclose()
