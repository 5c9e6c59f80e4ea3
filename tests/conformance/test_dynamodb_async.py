"""The suite on DynamoDB in the async mode, against moto as a server: aiobotocore cannot be answered in process."""

import boto3
import pytest
from botocore.config import Config

from odm.backends.dynamodb import DynamoDB
from odm.testing import Capabilities
from odm.testing.suite import *  # noqa: F403  # its classes and fixtures are what this module is for
from tests.conformance.moto import FAULTS


@pytest.fixture  # type: ignore[no-redef]  # in place of both
def mode() -> str:
    return "async"


@pytest.fixture
def backend(session: boto3.Session, config: Config, moto_server: str) -> DynamoDB:
    return DynamoDB(session, endpoint_url=moto_server, config=config)


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities(faults=FAULTS)
