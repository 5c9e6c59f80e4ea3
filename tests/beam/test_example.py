"""The nightly job of the examples, by hand and with Beam."""

from pathlib import Path

import pytest

from examples import nightly_sensors
from odm.backends.local import LocalFile

pytest.importorskip("apache_beam", reason="apache_beam is not installed: see the extra test-beam")


def test_nightly_sensors(tmp_path: Path) -> None:
    from tests.beam.test_beam import pipeline

    nightly_sensors.main(LocalFile(tmp_path / "sensors.db"))
    answer = nightly_sensors.by_beam(tmp_path / "sensors.db", pipeline)
    assert answer == "101 items, equal to those derived by hand"
