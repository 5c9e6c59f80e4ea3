"""The suite on the engine in a file."""

from pathlib import Path

import pytest

from odm.backends.local import LocalFile
from odm.testing import Capabilities
from odm.testing.suite import *  # noqa: F403  # pytest collects its classes and fixtures

pytestmark = pytest.mark.one_of(4)


@pytest.fixture
def backend(tmp_path: Path) -> LocalFile:
    return LocalFile(tmp_path / "suite.db")


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities()
