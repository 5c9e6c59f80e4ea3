"""Fixtures for both storages and both backends, so that each test of semantics runs on both."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from odm.backends.local import LocalFile, Memory
from odm.backends.local.file import FileStorage
from odm.backends.local.memory import MemoryStorage
from odm.backends.local.storage import Storage
from odm.protocol.connection import perform
from odm.protocol.requests import CreateTables
from tests.backends.local.support import Send, schema_of


@pytest.fixture(params=["memory", "file"])
def storage(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Storage]:
    storage: Storage = (
        MemoryStorage({}, "shop") if request.param == "memory" else FileStorage(tmp_path / "db", "shop", 60.0)
    )
    storage.create(["by_x", "by_y"])
    yield storage
    storage.close()


@pytest.fixture(params=["memory", "file"])
def backend(request: pytest.FixtureRequest, tmp_path: Path) -> Memory | LocalFile:
    return Memory() if request.param == "memory" else LocalFile(tmp_path / "shop.db")


@pytest.fixture
def send(backend: Memory | LocalFile) -> Iterator[Send]:
    """Performs one request on a table ``shop`` with the indexes ``by_x`` and ``by_y``."""
    connection = backend.connect(schema_of())
    perform(connection, CreateTables())
    yield lambda request: perform(connection, request)
    connection.close()
