"""The suite on Bigtable, against Google's emulator."""

import pytest

from odm.backends.bigtable import Bigtable
from odm.testing import Capabilities
from odm.testing.suite import *  # noqa: F403  # pytest collects its classes and fixtures
from tests.conformance.emulator_faults import FAULTS

pytestmark = pytest.mark.one_of(3)


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return Bigtable("test-project", "test-instance", endpoint=bigtable_emulator)


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities(
        faults=FAULTS,
        retry_safe=False,
        segment=False,
        transactions=False,
        units=False,
    )
