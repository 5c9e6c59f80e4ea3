"""The benchmarks of the engine run, at a size that takes no time: what they measure is read by people."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks.contender import CALLS, Contender, Entry
from benchmarks.engine import processes, programs
from benchmarks.engine.__main__ import BENCHMARK, SMALLEST, TARGETS, json_bytes
from benchmarks.engine.entries import ENTRIES, page_of, service_of, started
from benchmarks.order import Order
from benchmarks.pages import many_customers
from benchmarks.report import Row, judge
from benchmarks.services import Dynalite, InFile, Unavailable
from benchmarks.timing import Samples, race, ratio
from tests.readme import README, command

pytestmark = pytest.mark.slow

SPEED = README.parent / "docs" / "speed.md"

SIZE = 250
"""Two customers and a half."""

OURS = "Memory,Memory + index,LocalFile,dict + SortedDict,sqlite3,append + fdatasync"
TINY = ("--rounds", "1", "--turn", "0")


@pytest.fixture(params=ENTRIES, ids=lambda entry: entry.name)
def contender(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Contender]:
    entry: Entry = request.param
    if entry.name.startswith("dynalite") and not Dynalite.there():
        pytest.skip("dynalite is installed by npm when the benchmark runs")
    try:
        with entry.on(page_of(entry, SIZE), lambda: service_of(entry, SIZE, tmp_path)) as loaded:
            loaded.load()
            loaded.check()
            yield loaded
    except Unavailable as missing:
        pytest.skip(str(missing))


@pytest.mark.one_of(3)
def test_each_call_of_a_contender_runs(contender: Contender) -> None:
    racers = {str(call): racer for call in CALLS if (racer := contender.racer(call))}
    assert racers
    for samples in race(racers, rounds=1, seconds=0).values():
        assert len(samples.wall) == 1
        assert samples.wall[0] > 0


def test_a_contender_that_loses_an_order_is_not_measured(tmp_path: Path) -> None:
    with started("dict + SortedDict", SIZE, tmp_path) as loaded:
        loaded.load()
        loaded.answer("put", loaded.model(SIZE // 2, edition=1))
        with pytest.raises(AssertionError, match="Sorted gives other items back for plain"):
            loaded.check()


@pytest.mark.full
def test_a_run_prints_times_and_verdicts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    only = ["--only", "operations", "--candidates", OURS, "--folder", str(tmp_path)]
    BENCHMARK.main(["--sizes", "200,400", *only, *TINY])
    printed = capsys.readouterr().out
    assert "## 200 items, microseconds" in printed
    assert "| batch put of 100, an item |" in printed
    assert "| 9 | get, 400 items: Memory / dict + SortedDict (cpu) |" in printed
    assert f"| 10 | query of 100, 400 items: Memory / {SMALLEST} (cpu) |" in printed
    assert "| 12 | reopen, 200 items: LocalFile |" in printed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_the_documentation_names_options_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    words = command("benchmarks", page=SPEED).split()
    assert BENCHMARK.parser().parse_args(words[words.index("benchmarks.engine") + 1 :]).readme
    BENCHMARK.main(["--sizes", "200", "--only", "operations", "--candidates", "Memory", "--readme", *TINY])
    assert capsys.readouterr().out.startswith("| µs | Memory |\n| --- | --: |\n| get, 200 items |")


@pytest.mark.parametrize("arguments", [["--only", "speed"], ["--candidates", "Memori"], ["--sizes", "many"]])
def test_a_wrong_option_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        BENCHMARK.main(arguments)
    assert arguments[1] in capsys.readouterr().err


def test_options_take_short_sizes_and_names_with_commas() -> None:
    given = BENCHMARK.parser().parse_args(["--sizes", "200,10k,1M", "--candidates", "Memory,sqlite3"])
    assert given.size == [200, 10_000, 1_000_000]
    assert given.candidates == ["Memory", "sqlite3"]


def test_a_contender_that_is_not_installed_is_not_there(tmp_path: Path) -> None:
    absent = Entry("absent", "absent:Absent")
    with (
        pytest.raises(Unavailable, match=r"benchmarks\.absent is not installed"),
        absent.on(many_customers(SIZE), lambda: InFile(tmp_path)),
    ):
        pass


def test_a_ratio_compares_the_contenders_within_each_round() -> None:
    slow_machine_in_one_round = Samples("cpu", cpu=[1, 10, 1], wall=[5, 5, 5])
    assert ratio(slow_machine_in_one_round, Samples("cpu", cpu=[0.5, 5, 0.5], wall=[5, 5, 5]), "cpu") == 2
    assert ratio(slow_machine_in_one_round, Samples("wall", cpu=[1, 1, 1], wall=[1, 1, 1]), "wall") == 5


@pytest.mark.parametrize(("memory", "other", "hit"), [(10, 3, True), (10, 2, False)])
def test_a_target_is_hit_or_missed(memory: float, other: float, hit: bool) -> None:
    times = {"Memory": Samples("cpu", [memory], [memory]), "dict + SortedDict": Samples("cpu", [other], [other])}
    [verdict] = judge([Row("", "", times, "get, 10 items")], TARGETS)
    assert (verdict.number, verdict.hit) == (9, hit)


@pytest.mark.parametrize(("syncs", "hit"), [(0, False), (1.01, True), (2, False)])
def test_a_limit_is_kept_or_not(syncs: float, hit: bool) -> None:
    [verdict] = judge([Row("", "", {"LocalFile": syncs}, "syncs a durable put")], TARGETS)
    assert (verdict.number, verdict.hit) == (11, hit)


@pytest.mark.full
def test_what_runs_in_processes_of_its_own_answers(tmp_path: Path) -> None:
    assert processes.memory_per_item("Memory", 2000) > json_bytes()
    with started("LocalFile", SIZE, tmp_path) as loaded:
        loaded.load()
    assert processes.reopen_ms(loaded.service.path, SIZE) > 0


def test_a_durable_put_is_one_sync() -> None:
    try:
        assert 1 <= processes.syncs_per_put("LocalFile") < 1.1
    except Unavailable as missing:
        pytest.skip(str(missing))


@pytest.mark.full
def test_start_is_measured() -> None:
    assert processes.import_ms(1)["one odm entity"] > 0
    assert processes.start_ms(1)[programs.DYNAMODB] > 0
    assert processes.compile_ms(1)["compile an entity, with its first put and get"] > 0


def test_the_order_is_as_large_as_described() -> None:
    page = many_customers(SIZE)
    assert len(Order.model_fields) == 13
    assert round(json_bytes(), -1) == 390
    assert page.model(1) != page.model(1, edition=1)
