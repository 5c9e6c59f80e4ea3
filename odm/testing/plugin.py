"""The pytest plugin of odm: fixtures for the tests of applications. pytest loads it wherever odm is installed.

This module imports only pytest; odm is imported by the first test that uses a fixture. ``pytest -p no:odm`` disables
the plugin.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from odm.backends.bigtable.emulator import Emulator
    from odm.backends.local import Faults
    from odm.testing import Clock, OpenStore

_MARKER = "odm(**options): options of the backend of odm_memory or odm_file, such as index_lag=5"


def pytest_configure(config: pytest.Config) -> None:
    """Register the marker."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def odm_clock() -> "Clock":
    """A clock that stands still until the test moves it; the stores of odm_memory and odm_file use it.

    odm_clock.advance(60) moves it by a minute: items that have expired by then are gone. See odm.testing.Clock.
    """
    from odm.testing import Clock

    return Clock()


@pytest.fixture
def odm_faults() -> "Faults":
    """Injects faults into the stores of odm_memory and odm_file.

    odm_faults.throttle("put") throttles the next put; other methods are fail, lose, delay and before. See
    odm.backends.local.Faults.
    """
    from odm.backends.local import Faults

    return Faults()


@pytest.fixture
def odm_memory(request: pytest.FixtureRequest) -> "Iterator[OpenStore]":
    """Opens stores in memory: call it with a table, and for an async store also with AsyncStore.

    The table is created and empty. All stores of a test share one Memory, and are closed when the test ends. The Memory
    uses odm_clock and odm_faults if the test does, and takes options from @pytest.mark.odm(index_lag=5).
    """
    from odm.backends.local import Memory

    yield from _opening(Memory(**_options(request)))


@pytest.fixture
def odm_file(request: pytest.FixtureRequest, tmp_path: Path) -> "Iterator[OpenStore]":
    """Opens stores on a LocalFile in tmp_path, for data that several processes share; otherwise like odm_memory."""
    from odm.backends.local import LocalFile

    yield from _opening(LocalFile(tmp_path / "odm.db", **_options(request)))


@pytest.fixture
def odm_bigtable_emulator(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> "Iterator[Emulator]":
    """A Bigtable emulator in the process; BIGTABLE_EMULATOR_HOST has its address while the test runs.

    Its attributes are address, and faults, which make calls fail. It uses odm_clock if the test does. It needs the
    extra "emulator". See odm.backends.bigtable.emulator.
    """
    from odm.backends.bigtable.emulator import VARIABLE, Emulator

    clock = {"clock": request.getfixturevalue("odm_clock")} if "odm_clock" in request.fixturenames else {}
    with Emulator(**clock) as running:
        monkeypatch.setenv(VARIABLE, running.address)
        yield running


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The options of the backend: from markers, and the fixtures that the test or its other fixtures use."""
    options: dict[str, Any] = {}
    for marker in request.node.iter_markers("odm"):  # the test's own first, then those of its class and module
        if marker.args:
            raise TypeError(
                f"@pytest.mark.odm({', '.join(map(repr, marker.args))}): write options by name, such as index_lag=5"
            )
        options = {**marker.kwargs, **options}
    for option in ("clock", "faults"):
        if f"odm_{option}" in request.fixturenames:
            options.setdefault(option, request.getfixturevalue(f"odm_{option}"))
    return options


def _opening(backend: Any) -> "Iterator[OpenStore]":
    from odm.testing import OpenStore

    opened = OpenStore(backend)
    yield opened
    opened.close()
