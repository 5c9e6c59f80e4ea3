"""Each race of the DynamoDB benchmarks runs, at a size that takes no time: its figures are read by people."""

import json
from typing import Any

import pytest

from benchmarks.dynamodb import boto, encoding, ours, pages
from benchmarks.dynamodb.__main__ import main, parser
from benchmarks.dynamodb.answers import Canned, Loopback
from benchmarks.dynamodb.races import CONTENDERS, SECTIONS, Figures
from benchmarks.dynamodb.verdicts import TARGETS, judge
from benchmarks.timing import Samples
from tests.readme import README, command

SPEED = README.parent / "docs" / "speed.md"

TINY = ("--size", "6", "--rounds", "1", "--turn", "0")


@pytest.mark.full
@pytest.mark.parametrize("section", SECTIONS)
def test_every_contender_of_a_section_is_timed_or_excused(section: str, capsys: pytest.CaptureFixture[str]) -> None:
    main(["--only", section, "--json", *TINY])
    found = json.loads(capsys.readouterr().out)
    races = found["microseconds"][section]
    names = {who for times in races.values() for who in times}
    assert {"odm"} < names
    assert all(times["cpu"] > 0 and times["wall"] > 0 for race in races.values() for times in race.values())
    if section == "http":
        assert names | set(found["missing"]) == set(CONTENDERS) - {"by hand"}


def test_a_run_prints_times_and_verdicts(capsys: pytest.CaptureFixture[str]) -> None:
    main(["--only", "decode,encode", *TINY])
    printed = capsys.readouterr().out
    assert "| 6 items of 3 classes |" in printed
    assert "| 1 | decode: 6 orders: odm / boto3 resource + Pydantic (cpu) |" in printed
    assert "| 5 | encode: PutItem: odm / Pydantic to_json (cpu) |" in printed


@pytest.mark.full
def test_the_table_of_the_readme(capsys: pytest.CaptureFixture[str]) -> None:
    words = command("dynamodb benchmarks", page=SPEED).split()
    assert parser().parse_args(words[words.index("benchmarks.dynamodb") + 1 :]).readme
    main(["--only", "decode,encode", "--readme", *TINY])
    head, _, *rows = capsys.readouterr().out.splitlines()
    assert head.startswith("| µs | odm | by hand | boto3 resource + Pydantic |")
    assert [row.split(" | ")[0] for row in rows if row.startswith("|")] == [
        "| decode a page of 6 orders, an item",
        "| decode a page of 6 items of 3 classes, an item",
        "| encode a PutItem",
    ]


def test_a_wrong_section_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["--only", "speed"])
    assert "speed" in capsys.readouterr().err


def test_a_contender_that_gives_other_items_back_is_not_measured() -> None:
    page = pages.orders(3)
    first, *others = ours.stored(page)
    with pytest.raises(AssertionError, match="other items"):
        boto.Client(page, Canned(), [{**first, "points": {"N": "7777"}}, *others]).check()


def test_a_body_that_holds_another_item_is_not_measured() -> None:
    page = pages.orders(3)
    _, second, _ = (page.entities[tag](**values) for tag, values in page.rows)
    with pytest.raises(AssertionError, match="another item"):
        encoding.check(page, encoding.odm(page), second)


def test_the_server_answers_as_the_process_does() -> None:
    page = pages.orders(3)
    items = ours.stored(page)
    server = Loopback.start()
    try:
        told = [_page(boto.Client(page, wire, items)) for wire in (Canned(), server)]
    finally:
        server.close()
    assert told[0] == told[1]
    assert len(told[0]) == len(items)


def _page(contender: boto.Client) -> Any:
    try:
        return contender.query()
    finally:
        contender.close()


def test_every_target_is_judged() -> None:
    figures = Figures()
    for section, target in TARGETS:
        times = figures.times.setdefault(section, {}).setdefault(target.operation or "all", {})
        times |= {target.ours: Samples("cpu", [1], [1]), target.peer: Samples("cpu", [2], [2])}
    found = judge(figures)
    assert [verdict.row for verdict in found] == [1, 1, 3, 4, 5, 5, 5, 6, 6]
    assert [verdict.hit for verdict in found] == [False] * 6 + [True] * 2 + [False]
