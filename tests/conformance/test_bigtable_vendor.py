"""The suite on Bigtable through Google's client, which is used where the lean transport cannot be."""

import pytest

from odm.backends.bigtable import Bigtable
from odm.testing.suite import *  # noqa: F403  # pytest collects its classes and fixtures
from tests.conformance.test_bigtable import capabilities  # noqa: F401  # a fixture

pytestmark = [pytest.mark.one_of(16, 4), pytest.mark.slow]


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return Bigtable("test-project", "test-instance", endpoint=bigtable_emulator, transport="vendor")
