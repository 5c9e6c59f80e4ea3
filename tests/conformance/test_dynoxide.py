"""The suite on DynamoDB, sync and async, against Dynoxide."""

import boto3
import pytest
from botocore.config import Config

from odm.backends.dynamodb import DynamoDB
from odm.testing import Capabilities
from odm.testing.suite import *  # noqa: F403  # pytest collects its classes and fixtures
from tests.conformance.dynoxide import FAULTS


@pytest.fixture
def backend(session: boto3.Session, config: Config, dynoxide: str) -> DynamoDB:
    return DynamoDB(session, endpoint_url=dynoxide, config=config)


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities(faults=FAULTS, ranges=False)
