"""The suite on DynamoDB, sync, against moto in this process."""

from collections.abc import Iterator

import boto3
import pytest
from botocore.config import Config
from moto import mock_aws

from odm.backends.dynamodb import DynamoDB
from odm.testing import Capabilities
from odm.testing.suite import *  # noqa: F403  # pytest collects its classes and fixtures
from tests.conformance.moto import FAULTS, one_at_a_time

pytestmark = pytest.mark.one_of(1, 2)


@pytest.fixture  # type: ignore[no-redef]  # instead of both modes
def mode() -> str:
    return "sync"


@pytest.fixture
def backend(session: boto3.Session, config: Config) -> Iterator[DynamoDB]:
    with mock_aws(), one_at_a_time():
        yield DynamoDB(session, config=config)


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities(faults=FAULTS, ranges=False)
