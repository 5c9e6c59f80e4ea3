"""The races of the Bigtable benchmarks run, at a size that takes no time: their figures are read by people."""

import json

import pytest

from benchmarks.bigtable import server
from benchmarks.bigtable.__main__ import main, parser
from benchmarks.bigtable.ours import Odm
from benchmarks.bigtable.races import CONTENDERS, RACES, Figures
from benchmarks.bigtable.readings import fields
from benchmarks.bigtable.report import TARGETS, judge
from benchmarks.bigtable.vendor import Data
from benchmarks.timing import Samples

TINY = ("--size", "6", "--rounds", "1", "--turn", "0")


@pytest.mark.full
def test_every_contender_is_timed(bigtable_emulator: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--json", *TINY])
    found = json.loads(capsys.readouterr().out)
    assert found["rows"] == 6
    assert list(found["microseconds"]) == list(RACES)
    assert {who for times in found["microseconds"].values() for who in times} == set(CONTENDERS)
    for times in found["microseconds"].values():
        assert {"odm", "data client", "odm, async", "data client, async"} <= set(times)
        assert all(time["cpu"] > 0 and time["wall"] > 0 for time in times.values())


def test_a_run_prints_times_and_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--only", "scan", *TINY])
    printed = capsys.readouterr().out
    assert "| scan of 6 rows, a row |" in printed
    assert "| 4 | scan of 6 rows, a row: odm / data client (cpu) |" in printed
    assert "| 4 | scan of 6 rows, a row: odm / data client + Pydantic (cpu) |" in printed
    main(["--only", "scan", "--readme", *TINY])
    assert capsys.readouterr().out.startswith("| µs | odm | odm, rows | data client | data client + Pydantic |")


def test_a_wrong_call_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        parser().parse_args(["--only", "speed"])
    assert "speed" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [Odm, Data])
def test_a_contender_that_gives_other_rows_back_is_not_measured(kind: type[Odm] | type[Data]) -> None:
    with server.running() as address:
        first = Odm(address, 3)
        first.fill(create=False)
        contender = kind(address, 3)
        expected = [fields(number) for number in range(3)]
        contender.check(expected, ["scan"])
        with pytest.raises(AssertionError, match=kind.__name__):
            contender.check(expected[::-1], ["scan"])
        contender.close()
        first.close()


def test_every_target_is_judged_by_the_ratio() -> None:
    times = {who: Samples("cpu", [cpu], [cpu]) for who, cpu in (("odm", 1.0), ("data client", 3.0))}
    verdicts = judge(Figures(1000, dict.fromkeys(TARGETS, times)))
    assert [(verdict.row, verdict.hit) for verdict in verdicts] == [(1, True), (2, True), (3, False), (4, True)]
