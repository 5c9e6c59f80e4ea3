"""The suite on DynamoDB through boto3 and aiobotocore, which are used where the lean transport cannot be."""

import boto3
import pytest
from botocore.config import Config

from odm.backends.dynamodb import DynamoDB
from odm.testing import Capabilities
from odm.testing.suite import *  # noqa: F403  # pytest collects its classes and fixtures
from tests.conformance.moto import FAULTS

pytestmark = [pytest.mark.one_of(32, 8), pytest.mark.slow]


@pytest.fixture
def backend(session: boto3.Session, config: Config, moto_server: str) -> DynamoDB:
    return DynamoDB(session, endpoint_url=moto_server, config=config, transport="vendor")


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities(faults=FAULTS, ranges=False)
