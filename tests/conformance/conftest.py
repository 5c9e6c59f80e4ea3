"""The services that stand in for the clouds."""

from collections.abc import Iterator

import boto3
import pytest
from botocore.config import Config
from moto.server import ThreadedMotoServer


@pytest.fixture(scope="session")
def session() -> boto3.Session:
    """Credentials that open nothing."""
    return boto3.Session(aws_access_key_id="key", aws_secret_access_key="secret", region_name="eu-west-1")


@pytest.fixture(scope="session")
def config() -> Config:
    """What moto fails to answer, it fails to answer again."""
    return Config(retries={"total_max_attempts": 1})


@pytest.fixture(scope="session")
def moto_server() -> Iterator[str]:
    """The address of a DynamoDB that lives as long as the session."""
    server = ThreadedMotoServer("127.0.0.1", 0, verbose=False)
    server.start()
    host, port = server.get_host_and_port()
    yield f"http://{host}:{port}"
    server.stop()
