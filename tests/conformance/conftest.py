"""The services that stand in for the clouds."""

import boto3
import pytest
from botocore.config import Config


@pytest.fixture(scope="session")
def session() -> boto3.Session:
    """Credentials that open nothing."""
    return boto3.Session(aws_access_key_id="key", aws_secret_access_key="secret", region_name="eu-west-1")


@pytest.fixture(scope="session")
def config() -> Config:
    """What moto fails to answer, it fails to answer again."""
    return Config(retries={"total_max_attempts": 1})
