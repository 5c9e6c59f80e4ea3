"""Each benchmark runs, at a size that takes no time: what it measures is read by people, not asserted here."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from benchmarks import dynalite
from benchmarks.candidates import ENTRIES, Candidate, Entry, Unavailable, entries
from benchmarks.engine import main, parser, size
from benchmarks.footprint import memory_per_item, reopen_ms, syncs_per_put
from benchmarks.orders import Order, fields, json_bytes
from benchmarks.report import full
from benchmarks.results import Results
from benchmarks.sections import OPERATIONS, Settings, run, scaled_name
from benchmarks.startup import compile_ms, import_ms
from benchmarks.targets import judge
from benchmarks.timing import Samples, measure, ratio
from tests.readme import README, command

SPEED = README.parent / "docs" / "speed.md"

SIZE = 250
"""Two customers and a half."""

OURS = "Memory,Memory + index,LocalFile,dict + SortedDict,sqlite3,append + fdatasync"


@pytest.fixture(params=ENTRIES, ids=lambda entry: entry.name)
def candidate(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Candidate]:
    entry: Entry = request.param
    if entry.name.startswith("dynalite") and not dynalite.installed():
        pytest.skip("dynalite is installed by npm when the benchmark runs")
    try:
        loaded = entry.loaded(SIZE, tmp_path)
    except Unavailable as missing:
        pytest.skip(str(missing))
    yield loaded
    loaded.close()


def test_each_operation_of_a_candidate_runs(candidate: Candidate) -> None:
    ran = 0
    for name in OPERATIONS:
        if candidate.operation(name) is not None:
            samples = measure({"it": candidate}, name, rounds=1, seconds=0)["it"]
            assert len(samples.wall) == 1
            assert samples.wall[0] > 0
            ran += 1
    assert ran > 0


def test_a_candidate_that_loses_an_order_is_not_measured(tmp_path: Path) -> None:
    [entry] = entries(["dict + SortedDict"])
    candidate = entry.loaded(SIZE, tmp_path)
    put = candidate.operation("put")
    assert put is not None
    put(candidate.order(SIZE // 2, edition=1))
    with pytest.raises(AssertionError, match="another order"):
        candidate.check()


def test_a_run_prints_times_and_verdicts(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> None:
    only = ["--only", "operations", "--candidates", OURS, "--rounds", "1", "--turn", "0", "--folder", str(tmp_path)]
    main(["--sizes", "200,400", *only])
    printed = capsys.readouterr().out
    assert "## 200 items, microseconds" in printed
    assert "| batch put of 100, an item |" in printed
    assert "| 9 | get, 400 items: Memory / dict + SortedDict (cpu) |" in printed
    assert "| 10 | query, Memory: 400 / 200 items |" in printed
    assert "| 12 | reopen 200 items to the first answer: LocalFile |" in printed
    assert list(tmp_path.iterdir()) == []


@pytest.mark.full
def test_a_run_prints_json(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--sizes", "200", "--only", "operations", "--candidates", "Memory", "--rounds", "1", "--turn", "0", "--json"])
    printed = json.loads(capsys.readouterr().out)
    assert printed["microseconds"]["200"]["get"]["Memory"]["cpu"] > 0
    assert printed["machine"]["pydantic"]


@pytest.mark.full
def test_the_readme_names_options_that_exist(capsys: pytest.CaptureFixture[str]) -> None:
    words = command("benchmarks", page=SPEED).split()
    given = parser().parse_args(words[words.index("benchmarks.engine") + 1 :])
    assert given.readme
    main(
        ["--sizes", "200", "--only", "operations", "--candidates", "Memory", "--rounds", "1", "--turn", "0", "--readme"]
    )
    assert capsys.readouterr().out.startswith("| µs | Memory |\n| --- | --: |\n| get, 200 items |")


@pytest.mark.parametrize("arguments", [["--only", "speed"], ["--candidates", "Memori"], ["--sizes", "many"]])
def test_a_wrong_option_is_refused(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(arguments)
    assert arguments[1] in capsys.readouterr().err


def test_sizes_are_written_short() -> None:
    assert [size("200"), size("10k"), size("1M")] == [200, 10_000, 1_000_000]


def test_a_candidate_that_is_not_installed_is_listed_with_the_reason() -> None:
    absent = Entry("absent", "absent:Absent")
    results = run(Settings([SIZE], ["operations"], [absent], rounds=1, seconds=0))
    assert results.missing == {"absent": "benchmarks.absent is not installed"}
    assert "| absent | benchmarks.absent is not installed |" in full(results)


def test_a_ratio_compares_the_candidates_within_each_round() -> None:
    slow_machine_in_one_round = Samples("cpu", cpu=[1, 10, 1], wall=[5, 5, 5])
    assert ratio(slow_machine_in_one_round, Samples("cpu", cpu=[0.5, 5, 0.5], wall=[5, 5, 5])) == 2
    assert ratio(slow_machine_in_one_round, Samples("wall", cpu=[1, 1, 1], wall=[1, 1, 1])) == 5


@pytest.mark.parametrize(("memory", "other", "hit"), [(10, 3, True), (10, 2, False)])
def test_a_target_is_hit_or_missed(memory: float, other: float, hit: bool) -> None:
    times = {"Memory": Samples("cpu", [memory], [memory]), "dict + SortedDict": Samples("cpu", [other], [other])}
    [verdict] = judge(Results(operations={SIZE: {"get": times}}))
    assert (verdict.row, verdict.hit) == (9, hit)


def test_growth_compares_sizes_in_turns() -> None:
    small = {"get": {"Memory": Samples("cpu", [1], [1])}, "query": {}}
    large = {"get": {"Memory": Samples("cpu", [9], [9]), scaled_name(10): Samples("cpu", [3], [3])}, "query": {}}
    [verdict] = judge(Results(operations={10: small, 1000: large}))
    assert (verdict.row, verdict.ratio, verdict.hit) == (10, "3.00x", False)


@pytest.mark.full
def test_what_runs_in_processes_of_its_own_answers(tmp_path: Path) -> None:
    assert memory_per_item("Memory", 2000) > json_bytes()
    [entry] = entries(["LocalFile"])
    entry.loaded(SIZE, tmp_path).close()
    assert reopen_ms(tmp_path / f"plain-{SIZE}.db", SIZE // 2) > 0


def test_a_durable_put_is_one_sync() -> None:
    try:
        assert 1 <= syncs_per_put("LocalFile") < 1.1
    except Unavailable as missing:
        pytest.skip(str(missing))


def test_start_is_measured() -> None:
    assert import_ms(1)["one odm entity"] > 0
    assert compile_ms(1)["compile an entity"] > 0


def test_the_order_is_as_large_as_described() -> None:
    assert len(Order.model_fields) == 13
    assert round(json_bytes(), -1) == 390
    assert Order(**fields(1)) != Order(**fields(1, edition=1))
