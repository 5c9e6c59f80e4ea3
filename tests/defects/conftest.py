"""Stores for the defects: the engine in memory, and DynamoDB's own client where the service matters."""

from collections.abc import Iterator

import boto3
import pytest
from moto import mock_aws

from odm.backends.dynamodb import DynamoDB
from odm.backends.local import Memory


@pytest.fixture
def memory() -> Memory:
    return Memory()


@pytest.fixture
def dynamodb() -> Iterator[DynamoDB]:
    session = boto3.Session(aws_access_key_id="key", aws_secret_access_key="secret", region_name="eu-west-1")
    with mock_aws():
        yield DynamoDB(session)


@pytest.fixture(params=["memory", "dynamodb"])
def backend(request: pytest.FixtureRequest) -> Memory | DynamoDB:
    """Each in turn, for what a service could spoil."""
    found: Memory | DynamoDB = request.getfixturevalue(request.param)
    return found
