"""The benchmark of Bigtable emulators runs, at a size that takes no time."""

import pytest

from benchmarks.emulators.__main__ import BENCHMARK, OWN


def test_it_runs(capsys: pytest.CaptureFixture[str]) -> None:
    BENCHMARK.main(["--candidates", OWN.name, "--size", "20", "--rounds", "1", "--turn", "0"])
    printed = capsys.readouterr().out
    assert "write and scan 20 rows, a row" in printed
    assert "start and stop: odm" in printed
