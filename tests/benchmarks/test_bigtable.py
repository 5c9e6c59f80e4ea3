"""The races of the Bigtable benchmarks run, at a size that takes no time: their figures are read by people."""

import pytest

from benchmarks.bigtable.__main__ import BENCHMARK, ENTRIES, Answering
from benchmarks.bigtable.merging import BATCHER
from benchmarks.libraries.data_client import Rows
from benchmarks.libraries.ours import Odm
from benchmarks.pages import readings
from benchmarks.report import Row, judge
from benchmarks.timing import Samples
from odm import Store

TINY = ("--size", "6", "--rounds", "1", "--turn", "0")


@pytest.mark.full
def test_a_run_prints_times_and_verdicts(bigtable_emulator: str, capsys: pytest.CaptureFixture[str]) -> None:
    BENCHMARK.main(TINY)
    printed = capsys.readouterr().out.splitlines()
    assert "| scan of 6 rows, a row |" in "".join(printed)
    assert sum(line.startswith("| 4 | scan of 6 rows, a row: odm / data client") for line in printed) == 2
    assert not [line for line in printed if line.startswith("## Not available")]
    heads = [name for line in printed if line.startswith("|  |") for name in line.strip("| ").split(" | ")]
    assert set(heads) == {entry.name for entry in ENTRIES} | {BATCHER}
    assert sum(line.startswith("| 5 | merge of ") for line in printed) == 2


def test_the_documentation_shows_all_contenders(bigtable_emulator: str, capsys: pytest.CaptureFixture[str]) -> None:
    BENCHMARK.main(["--only", "scan", "--readme", *TINY])
    assert capsys.readouterr().out.startswith(
        "| µs | odm | odm, exclusive | odm, rows | data client | data client + Pydantic |"
    )


def test_a_wrong_call_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        BENCHMARK.parser().parse_args(["--only", "speed"])
    assert "speed" in capsys.readouterr().err


@pytest.mark.parametrize("kind", [Odm, Rows])
def test_a_contender_that_gives_other_rows_back_is_not_measured(
    bigtable_emulator: str, kind: type[Odm] | type[Rows]
) -> None:
    service, page = Answering(bigtable_emulator), readings(3)
    with Store(page.table, service.backend()) as store:
        store.create()
    first = Odm(page, service)
    first.load()
    other = kind(page, service)
    other.load()
    other.check()
    first.put(page.entity(0, edition=1))
    with pytest.raises(AssertionError, match=f"{kind.__name__} gives other items back"):
        other.check()
    other.close()
    first.close()


def test_every_target_is_judged_by_the_ratio() -> None:
    times = {who: Samples("cpu", [cpu], [cpu]) for who, cpu in (("odm", 1.0), ("data client", 3.0))}
    labels = ("point read", "single write", "bulk write of 6 rows", "scan of 6 rows")
    verdicts = judge([Row("", "", times, label) for label in labels], BENCHMARK.targets)
    assert [(verdict.number, verdict.hit) for verdict in verdicts] == [(1, False), (2, True), (3, False), (4, True)]
