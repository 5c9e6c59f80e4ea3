"""The suite on Bigtable in tables with ``transactions=True``, against Google's emulator."""

import pytest

from odm.backends.bigtable import Bigtable
from odm.testing import Capabilities, suite
from odm.testing.suite import *  # noqa: F403  # pytest collects its classes and fixtures
from tests.conformance.emulator_faults import FAULTS
from tests.locking import LockingBigtable

pytestmark = pytest.mark.one_of(12)


@pytest.fixture
def backend(bigtable_emulator: str) -> Bigtable:
    return LockingBigtable("test-project", "test-instance", endpoint=bigtable_emulator)


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities(faults=FAULTS, locks=True, segment=False, units=False)


OPEN = pytest.mark.xfail(
    reason="an open defect: rekey reads the row keys of the old class as keys without a sort key", strict=False
)


@OPEN
class TestRekey(suite.TestRekey):
    """Fails on Bigtable in tables with locks."""


@OPEN
class TestRekeyFields(suite.TestRekeyFields):
    """The same."""


@OPEN
class TestRekeyWithoutTransactions(suite.TestRekeyWithoutTransactions):
    """The same."""
