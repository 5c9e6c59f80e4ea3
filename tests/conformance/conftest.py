"""Fixtures for the local services, and the selection of tests that run on them by default.

With ``--full`` all modules run sync and async. By default:

* on the engine in memory the suite runs sync and async, which takes seconds;
* on every other backend each test runs once. A checksum of its name decides whether sync or async, so that each module
  has both, and a test differs between modules;
* DynamoDB is DynamoDB Local, or moto if DynamoDB Local is not installed.
"""

from pathlib import Path
from zlib import crc32

import boto3
import pytest
from botocore.config import Config

from tests import dynamodb_local, effort

HERE = Path(__file__).parent


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    if effort.full():
        return
    out = {item for item in items if HERE in item.path.parents and not _by_default(item)}
    if out:
        config.hook.pytest_deselected(items=list(out))
        items[:] = [item for item in items if item not in out]


def _by_default(item: pytest.Item) -> bool:
    module = item.path.stem
    if module in {"test_dynamodb", "test_dynamodb_async"}:
        return module == "test_dynamodb" and not dynamodb_local.available()
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
