"""Each race of the DynamoDB benchmarks runs, at a size that takes no time: its figures are read by people."""

from typing import Any

import pytest

from benchmarks.dynamodb import encoding, starts
from benchmarks.dynamodb.__main__ import ALL, BENCHMARK, ENTRIES, started
from benchmarks.dynamodb.answers import Canned, Loopback
from benchmarks.libraries.boto import Client
from benchmarks.libraries.ours import Odm
from benchmarks.pages import orders
from benchmarks.report import Row, judge
from benchmarks.services import Service, Unavailable
from benchmarks.timing import Samples
from tests.readme import README, command

SPEED = README.parent / "docs" / "speed.md"

TINY = ("--size", "6", "--rounds", "1", "--turn", "0")


@pytest.mark.full
@pytest.mark.parametrize("section", BENCHMARK.sections)
def test_every_contender_of_a_section_is_timed_or_excused(section: str, capsys: pytest.CaptureFixture[str]) -> None:
    BENCHMARK.main(["--only", section, *TINY])
    printed = capsys.readouterr().out
    assert "|  | odm |" in printed
    if section == "start":
        assert "| first get, on the clock |" in printed
        assert all(f"| {name} |" in printed for name in ("odm", "odm, async, vendor", "boto3 client + Pydantic"))
    if section == "http":
        assert all(f"| {entry.name} |" in printed for entry in ENTRIES if entry.name != "by hand")


def test_a_run_prints_times_and_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    BENCHMARK.main(["--only", "decode,encode", *TINY])
    printed = capsys.readouterr().out
    assert "| 6 items of 3 classes |" in printed
    assert "| 1 | decode a page of 6 orders, an item: odm / boto3 resource + Pydantic (cpu) |" in printed
    assert "| 5 | encode a PutItem: odm / Pydantic to_json (cpu) |" in printed


@pytest.mark.full
def test_the_table_of_the_documentation(capsys: pytest.CaptureFixture[str]) -> None:
    words = command("dynamodb benchmarks", page=SPEED).split()
    assert BENCHMARK.parser().parse_args(words[words.index("benchmarks.dynamodb") + 1 :]).readme
    BENCHMARK.main(["--only", "decode,encode", "--readme", *TINY])
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head.startswith("| µs | odm | by hand | boto3 resource + Pydantic |")
    assert [row.split(" | ")[0] for row in rows if row.startswith("|")] == [
        "| decode a page of 6 orders, an item",
        "| decode a page of 6 items of 3 classes, an item",
        "| encode a PutItem",
    ]


def test_names_may_have_commas() -> None:
    given = BENCHMARK.parser().parse_args(["--candidates", "odm,odm, async"])
    assert given.candidates == ["odm", "odm, async"]


def test_a_contender_that_gives_other_items_back_is_not_measured() -> None:
    service = Canned()
    contender = Client(orders(3), service)
    contender.load()
    service.answers.items[0] = {**service.answers.items[0], "points": {"N": "7777"}}
    with pytest.raises(AssertionError, match="Client gives other items back"):
        contender.check()
    contender.close()


def test_a_body_that_holds_another_item_is_not_measured() -> None:
    page = orders(3)
    encode = encoding.odm(page)
    encoding.check(page, encode, page.entity(0))
    with pytest.raises(AssertionError, match="another item"):
        encoding.check(page, encode, page.entity(1))


def test_the_server_answers_as_the_process_does() -> None:
    assert _page(Canned()) == _page(Loopback()) == [orders(3).model(number) for number in range(3)]


def _page(service: Service) -> Any:
    contender = Client(orders(3), service)
    contender.load()
    try:
        return contender.query(0)
    finally:
        contender.close()


def test_a_process_that_starts_reports_its_steps() -> None:
    service = Loopback()
    contender = Odm(orders(8), service)
    contender.load()
    try:
        steps = started("odm", str(service.endpoint_url))
    finally:
        contender.close()
    assert list(steps) == ["python", *starts.STEPS, ALL]
    assert steps[ALL] == pytest.approx(tuple(sum(times[each] for times in steps.values()) / 2 for each in (0, 1)))


def test_a_process_that_finds_nothing_is_not_measured() -> None:
    service = Loopback()
    contender = Odm(orders(3), service)
    contender.load()
    try:
        with pytest.raises(Unavailable, match="odm"):
            started("odm", str(service.endpoint_url))
    finally:
        contender.close()


def test_every_target_is_judged() -> None:
    rows = [
        Row("", "", {t.ours: Samples("cpu", [1], [1]), t.peer or "": Samples("cpu", [2], [2])}, t.label)
        for t in BENCHMARK.targets
    ]
    found = judge(rows, BENCHMARK.targets)
    assert [verdict.number for verdict in found] == [1, 1, 3, 4, 5, 5, 5, 6, 6]
    assert [verdict.hit for verdict in found] == [False] * 6 + [True] * 2 + [False]
