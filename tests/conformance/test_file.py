"""The suite on the engine on a file."""

from pathlib import Path

import pytest

from odm.backends.local import LocalFile
from odm.testing import Capabilities
from odm.testing.suite import *  # noqa: F403  # its classes and fixtures are what this module is for


@pytest.fixture
def backend(tmp_path: Path) -> LocalFile:
    return LocalFile(tmp_path / "suite.db")


@pytest.fixture
def capabilities() -> Capabilities:
    return Capabilities()
