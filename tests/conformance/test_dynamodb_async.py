"""The suite on DynamoDB, async, against moto as a server, because moto cannot mock aiobotocore."""

import boto3
import pytest
from botocore.config import Config

from odm.backends.dynamodb import DynamoDB
from odm.testing import Capabilities
from odm.testing.suite import *  # noqa: F403  # pytest collects its classes and fixtures
from tests.conformance.moto import FAULTS

pytestmark = pytest.mark.one_of(1, 2)


@pytest.fixture  # type: ignore[no-redef]  # instead of both modes
def mode() -> str:
    return "async"


@pytest.fixture
def backend(session: boto3.Session, config: Config, moto_server: str) -> DynamoDB:
    return DynamoDB(session, endpoint_url=moto_server, config=config)


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities(faults=FAULTS, ranges=False)
