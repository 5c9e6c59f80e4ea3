"""Fixtures and options of all test folders."""

import gc
import os
import signal
import sys
from collections.abc import Generator, Iterator
from pathlib import Path

import pytest
from hypothesis import settings
from moto.server import ThreadedMotoServer

from tests import dynamodb_local as local
from tests import dynoxide as oxide
from tests import effort, emulator, node, postgresql, selection, servers, vendors
from tests.conformance.moto import one_at_a_time

vendors.remember()

# Images of containers often set it. Each process would compile all tests again, and each program that a test starts all
# of odm: minutes of a run.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("odm")
    group.addoption("--full", action="store_true", help="Run everything at full length: see tests/effort.py.")
    group.addoption("--rest", action="store_true", help="With --full: a share of what a run without --full leaves out.")
    group.addoption("--times", type=int, default=1, help="With --full: so many times as many examples and steps.")


@pytest.hookimpl(tryfirst=True)  # before pytest-timeout reads its variable
def pytest_configure(config: pytest.Config) -> None:
    config.addinivalue_line("markers", "full: runs only with --full; see tests/effort.py")
    config.addinivalue_line("markers", "slow: runs only with --full, or if its file is named; see tests/effort.py")
    if not hasattr(config, "workerinput") and config.args_source is not pytest.Config.ArgsSource.ARGS:
        os.environ[effort.WHOLE] = "1"
    config.addinivalue_line(
        "markers", "one_of(n, m=1): one of n such tests runs, with --full one of m; see tests/effort.py"
    )
    if config.getoption("--full"):
        times = int(str(config.getoption("--times")))
        os.environ[effort.FULL] = str(times)
        if config.getoption("--rest"):
            os.environ[effort.REST] = "1"
        os.environ["PYTEST_TIMEOUT"] = str(900 * times)
    # Without deadlines: a property must not fail because the machine is busy.
    settings.register_profile("odm", deadline=None, print_blob=True, max_examples=100 if effort.full() else 40)
    settings.load_profile("odm")


@pytest.hookimpl(tryfirst=True)  # before xdist chooses
def pytest_cmdline_main(config: pytest.Config) -> None:
    """Workers take halves instead of shares of each file: tests of one module then share its fixtures."""
    if config.getoption("numprocesses", None) and config.getoption("dist") == "no":
        config.option.dist = "worksteal"


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """The garbage collector leaves alone what lives for the whole run.

    These are modules and tests, a million objects: without this, each gc.collect() of a test takes half a second, and
    a collection of its own accord as long.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.freeze()
        gc.enable()
        # Tests make and drop many objects, few of them in cycles.
        gc.set_threshold(20_000, 20, 20)


def pytest_ignore_collect(collection_path: Path) -> bool | None:
    """Modules without a test in this run are not even collected, which takes seconds."""
    return None if selection.in_use(collection_path) else True


@pytest.hookimpl(tryfirst=True)  # before pytest makes tests of the function's parameters
def pytest_pycollect_makeitem(collector: pytest.Collector, name: str, obj: object) -> list[pytest.Item] | None:
    """Functions without a test in this run are not collected, which takes seconds in each process."""
    in_use = selection.function_in_use(collector, name, obj, rest=bool(collector.config.getoption("--rest")))
    return None if in_use else []


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    rest = bool(config.getoption("--rest"))
    out = {item for item in items if not selection.chosen(item, rest=rest)}
    if out:
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]


@pytest.fixture
def interruptible() -> Iterator[None]:
    """An interrupt raises KeyboardInterrupt, here and in programs that the test starts.

    A shell lets what it runs in the background ignore SIGINT, and programs inherit that.
    """
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.fixture(scope="session")
def bigtable_emulator() -> Iterator[str]:
    """The "host:port" of a Bigtable emulator that runs for the whole session: Google's, or odm's if that is missing."""
    with emulator.either(os.environ) as address:
        yield address


@pytest.fixture(scope="session")
def google_emulator() -> Iterator[str]:
    """The "host:port" of Google's Bigtable emulator, which runs for the whole session."""
    with emulator.running(_found(emulator.find)) as address:
        yield address


@pytest.fixture(scope="session")
def dynamodb_local() -> Iterator[str]:
    """The endpoint of a DynamoDB Local that runs for the whole session; each access key has its own tables."""
    with local.running(_found(local.find)) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def dynoxide() -> Iterator[str]:
    """The endpoint of a Dynoxide that runs for the whole session; all access keys have the same tables."""
    with oxide.running(_found(oxide.find)) as endpoint:
        yield endpoint


@pytest.fixture(scope="session")
def postgresql_url() -> Iterator[str]:
    """The URL, for SQLAlchemy, of a PostgreSQL that runs for the whole session; tests make tables of their own."""
    with postgresql.running(_found(postgresql.find)) as url:
        yield url


@pytest.fixture(scope="session")
def node_modules() -> Path:
    """The JavaScript libraries that pages of docs/ compare odm with."""
    return _found(node.find)


@pytest.fixture(scope="session")
def moto_server() -> Iterator[str]:
    """The address of moto's DynamoDB server, which runs for the whole session."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    with one_at_a_time():
        yield f"http://{host}:{port}"
    server.stop()


def _found(find: servers.Find) -> Path:
    """Where the server is. If it cannot run here, the test is skipped; with CI=true in the environment it fails."""
    try:
        return find(os.environ)
    except servers.Missing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
