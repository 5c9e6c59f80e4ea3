"""The suite on the engine in memory."""

import pytest

from odm.backends.local import Memory
from odm.testing import Capabilities
from odm.testing.suite import *  # noqa: F403  # pytest collects its classes and fixtures


@pytest.fixture
def backend() -> Memory:
    return Memory()


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities()
