"""The pytest plugin of odm: fixtures for the tests of applications, found by pytest wherever odm is installed.

Importing it imports nothing but pytest, which is running already; odm is loaded by the first test that asks for a
fixture. ``pytest -p no:odm`` leaves the plugin out.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from odm.backends.local import Faults
    from odm.testing import Clock, OpenStore

_MARKER = "odm(**options): options of the backend of odm_memory or odm_file, such as index_lag=5"


def pytest_configure(config: pytest.Config) -> None:
    """Make the marker known."""
    config.addinivalue_line("markers", _MARKER)


@pytest.fixture
def odm_clock() -> "Clock":
    """A clock that stands still until the test moves it; the stores of odm_memory and odm_file go by it.

    odm_clock.advance(60) lets a minute pass: what has expired by then is gone. See odm.testing.Clock.
    """
    from odm.testing import Clock

    return Clock()


@pytest.fixture
def odm_faults() -> "Faults":
    """What shall go wrong in the stores of odm_memory and odm_file.

    odm_faults.throttle("put") refuses the next put; fail, lose, delay and before are others. See
    odm.backends.local.Faults.
    """
    from odm.backends.local import Faults

    return Faults()


@pytest.fixture
def odm_memory(request: pytest.FixtureRequest) -> "Iterator[OpenStore]":
    """Opens stores in memory: call it with a table, and with AsyncStore as well for an async one.

    The table is created and empty. All stores of a test share one Memory, and are closed when it ends. It goes by
    odm_clock and odm_faults where the test asks for them, and takes options from @pytest.mark.odm(index_lag=5).
    """
    from odm.backends.local import Memory

    yield from _opening(Memory(**_options(request)))


@pytest.fixture
def odm_file(request: pytest.FixtureRequest, tmp_path: Path) -> "Iterator[OpenStore]":
    """Opens stores on a LocalFile in tmp_path, otherwise like odm_memory: for data that several processes share."""
    from odm.backends.local import LocalFile

    yield from _opening(LocalFile(tmp_path / "odm.db", **_options(request)))


def _options(request: pytest.FixtureRequest) -> dict[str, Any]:
    """The options of the backend: those of markers, and the fixtures that the test or its other fixtures ask for."""
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
