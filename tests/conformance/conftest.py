"""Fixtures for the local services. Which tests run on them is chosen in tests/selection.py."""

import boto3
import pytest
from botocore.config import Config


@pytest.fixture(scope="session")
def session() -> boto3.Session:
    """Credentials that are not valid on AWS."""
    return boto3.Session(aws_access_key_id="key", aws_secret_access_key="secret", region_name="eu-west-1")


@pytest.fixture(scope="session")
def config() -> Config:
    """No retries: a request that fails on moto fails again."""
    return Config(retries={"total_max_attempts": 1})
