"""The suite on Bigtable in wide rows with ``transactions=True``, against Google's emulator."""

import pytest

from odm.backends.bigtable import Bigtable
from odm.testing import Capabilities
from odm.testing.suite import *  # noqa: F403  # pytest collects its classes and fixtures
from tests.conformance.emulator_faults import FAULTS
from tests.locking import WideLockingBigtable

pytestmark = [pytest.mark.one_of(12), pytest.mark.slow]


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return WideLockingBigtable("test-project", "test-instance", endpoint=bigtable_emulator)


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities(faults=FAULTS, locks="partitions", reads_first=True, segment=False, units=False)
