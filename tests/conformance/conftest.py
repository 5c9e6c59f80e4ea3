"""The services that stand in for the clouds, and what of the suite runs on them by default.

With ``--full`` all modules run sync and async. By default:

* on the engine in memory the suite runs sync and async: it takes seconds;
* on every other backend it runs once: the checksum of a test's name says whether sync or async, so that each module
  has both, and modules have different ones of a test;
* DynamoDB is DynamoDB Local; where there is none, moto.
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
    """Credentials that open nothing."""
    return boto3.Session(aws_access_key_id="key", aws_secret_access_key="secret", region_name="eu-west-1")


@pytest.fixture(scope="session")
def config() -> Config:
    """What moto fails to answer, it fails to answer again."""
    return Config(retries={"total_max_attempts": 1})
