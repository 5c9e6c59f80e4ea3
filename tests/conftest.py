"""What every test folder shares."""

import os
from collections.abc import Iterator

import pytest
from hypothesis import settings

from tests.emulator import EmulatorMissing, find, running

# Properties are judged by what they find, not by how busy the machine is.
settings.register_profile("odm", deadline=None, print_blob=True)
settings.load_profile("odm")


@pytest.fixture(scope="session")
def bigtable_emulator() -> Iterator[str]:
    """The "host:port" of a Bigtable emulator that runs for the whole session.

    Without an emulator the test is skipped, but fails where the environment says CI=true.
    """
    try:
        program = find(os.environ)
    except EmulatorMissing as missing:
        if os.environ.get("CI") == "true":
            raise
        pytest.skip(str(missing))
    with running(program) as address:
        yield address
