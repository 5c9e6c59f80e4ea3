"""Fixtures for the local services, and the selection of tests that run on them by default.

With ``--full`` all modules but those of `ONCE` run sync and async. By default:

* on the engine in memory the suite runs sync and async, which takes seconds;
* on every other backend each test runs once. A checksum of its name decides whether sync or async, so that each module
  has both, and a test differs between modules;
* DynamoDB is the first that is installed of Dynoxide, which takes two thirds of DynamoDB Local's time, DynamoDB Local
  and moto.
"""

from collections.abc import Callable
from pathlib import Path
from zlib import crc32

import boto3
import pytest
from botocore.config import Config

from tests import dynamodb_local, dynoxide, effort

HERE = Path(__file__).parent
DYNAMODB: dict[str, Callable[[], bool]] = {
    "test_dynoxide": dynoxide.available,
    "test_dynamodb_local": dynamodb_local.available,
    "test_dynamodb": lambda: True,
    "test_dynamodb_async": lambda: False,
}
"""The modules that run the suite on DynamoDB's stand-ins; by default, the first that can run."""


STEPS = ("TestCurrent", "TestDerive", "TestRawItem", "TestRotation", "TestSeries")
"""The beginnings of classes whose tests run once in each module, also with ``--full``: their steps are the same in both
modes, and each module shows what its backend does with them."""

ONCE = {"test_bigtable_wide", "test_bigtable_wide_transactions", "test_dynoxide"}
"""The modules of which each test runs once, sync or async, also with ``--full``: another module runs it in both, on the
same backend in another layout, or on another stand-in for the service."""


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    full = effort.full()
    out = {
        item
        for item in items
        if HERE in item.path.parents and not (full and not _runs_once(item)) and not _by_default(item)
    }
    if out:
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]


def _first_dynamodb() -> str:
    return next(name for name, can_run in DYNAMODB.items() if can_run())


def _runs_once(item: pytest.Item) -> bool:
    owner = item.getparent(pytest.Class)
    return item.path.stem in ONCE or (owner is not None and owner.name.startswith(STEPS))


def _by_default(item: pytest.Item) -> bool:
    module = item.path.stem
    if not effort.full() and module in DYNAMODB and module != _first_dynamodb():
        return False
    name, _, parameters = item.nodeid.partition("[")
    modes = {"sync", "async"}.intersection(parameters.rstrip("]").split("-"))
    return module == "test_memory" or not modes or modes == {("sync", "async")[crc32(name.encode()) % 2]}


@pytest.fixture(scope="session")
def session() -> boto3.Session:
    """Credentials that are not valid on AWS."""
    return boto3.Session(aws_access_key_id="key", aws_secret_access_key="secret", region_name="eu-west-1")


@pytest.fixture(scope="session")
def config() -> Config:
    """No retries: a request that fails on moto fails again."""
    return Config(retries={"total_max_attempts": 1})
