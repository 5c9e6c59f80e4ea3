"""The suite on Bigtable with one row for each partition, against Google's emulator."""

import pytest

from odm.backends.bigtable import Bigtable
from odm.testing import Capabilities
from odm.testing.suite import *  # noqa: F403  # pytest collects its classes and fixtures
from tests.conformance.emulator_faults import FAULTS
from tests.wide import WideBigtable

pytestmark = pytest.mark.one_of(6)


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return WideBigtable("test-project", "test-instance", endpoint=bigtable_emulator)


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities(
        faults=FAULTS,
        reads_first=True,
        retry_safe=False,
        segment=False,
        transactions="partition",
        units=False,
    )
