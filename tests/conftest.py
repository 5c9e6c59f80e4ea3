"""Fixtures and options of all test folders."""

import os
from collections.abc import Iterator
from typing import NoReturn
from zlib import crc32

import pytest
from hypothesis import settings
from moto.server import ThreadedMotoServer

from tests import dynamodb_local as local
from tests import effort, emulator

# Without deadlines: a property must not fail because the machine is busy.
settings.register_profile("odm", deadline=None, print_blob=True)
settings.load_profile("odm")


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("odm")
    group.addoption("--full", action="store_true", help="Run everything at full length: see tests/effort.py.")
    group.addoption("--times", type=int, default=1, help="With --full: so many times as many examples and steps.")


@pytest.hookimpl(tryfirst=True)  # before pytest-timeout reads its variable
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: runs only with --full; see tests/effort.py")
    config.addinivalue_line("markers", "one_of(n): without --full, one of n such tests runs; see tests/effort.py")
    if config.getoption("--full"):
        times = int(str(config.getoption("--times")))
        os.environ[effort.FULL] = str(times)
        os.environ["PYTEST_TIMEOUT"] = str(900 * times)


@pytest.hookimpl(tryfirst=True)  # before xdist chooses
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Workers take halves instead of shares of each file: tests of one module then share its fixtures."""
    if config.getoption("numprocesses", None) and config.getoption("dist") == "no":
        config.option.dist = "worksteal"


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if effort.full():
        return
    out = {item for item in items if item.get_closest_marker("full") or _on_moto(item) or _left_out(item)}
    if out:
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]


def _left_out(item: pytest.Item) -> bool:
    """Whether a test with the mark ``one_of(n)`` is not the one of n that the checksum of its name chooses."""
    mark = item.get_closest_marker("one_of")
    return mark is not None and crc32(item.nodeid.encode()) % mark.args[0] != 0


def _on_moto(item: pytest.Item) -> bool:
    """Whether this is the moto run of a test that also runs on DynamoDB Local."""
    parameters = item.nodeid.partition("[")[2].rstrip("]").split("-")
    return "moto_server" in parameters and local.available()


@pytest.fixture(scope="session")
def bigtable_emulator() -> Iterator[str]:
    """The "host:port" of a Bigtable emulator that runs for the whole session.

    Without an emulator the test is skipped; with CI=true in the environment it fails.
    """
    try:
        program = emulator.find(os.environ)
    except emulator.EmulatorMissing as missing:
        _skip(missing)
    with emulator.running(program) as address:
        yield address


@pytest.fixture(scope="session")
def dynamodb_local() -> Iterator[str]:
    """The endpoint of a DynamoDB Local that runs for the whole session; each access key and region has its own tables.

    If it cannot run, the test is skipped; with CI=true in the environment it fails.
    """
    try:
        folder = local.find(os.environ)
    except local.DynamoDBLocalMissing as missing:
        _skip(missing)
    with local.running(folder) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def moto_server() -> Iterator[str]:
    """The address of moto's DynamoDB server, which runs for the whole session."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()


def _skip(missing: Exception) -> NoReturn:
    if os.environ.get("CI") == "true":
        raise missing
    pytest.skip(str(missing))
