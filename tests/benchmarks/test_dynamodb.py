"""Each race of the DynamoDB benchmarks runs, at a size that takes no time: its figures are read by people."""

from types import SimpleNamespace
from typing import Any

import pytest
from attrs import evolve

from benchmarks.contender import Contender
from benchmarks.dynamodb import crowds, encoding, starts
from benchmarks.dynamodb.__main__ import ALL, BENCHMARK, CROWD, CROWDS, ENTRIES, started
from benchmarks.dynamodb.answers import Answers, Canned, Loopback, _Talk
from benchmarks.libraries.boto import Client
from benchmarks.libraries.ours import AsyncOdm, Odm
from benchmarks.pages import orders
from benchmarks.report import Row, judge
from benchmarks.services import Service, Unavailable
from benchmarks.timing import Samples
from tests.readme import README, command

pytestmark = [pytest.mark.one_of(2), pytest.mark.slow]

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
    if section == "concurrent":
        assert printed.count("| requests a second |") == len(CROWDS)
        assert all(f"| {name} |" in printed for name in CROWD)
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


@pytest.mark.parametrize("kind", [Client, AsyncOdm])
def test_each_of_many_at_once_gets_its_orders(kind: type[Contender]) -> None:
    contender = kind(orders(7), Loopback(3))
    contender.load()
    asked: list[int] = []
    get: Any = contender.call("get")
    contender.get = lambda number: asked.append(number) or get(number)  # type: ignore[attr-defined, func-returns-value]
    try:
        turn = crowds.turn(contender, at_once=3, each=4)
    finally:
        contender.close()
    assert sorted(asked) == sorted(number % 7 for number in range(12))
    assert len(turn.latencies) == 12
    assert 0 < max(turn.latencies) <= turn.wall


def test_a_get_that_fails_among_many_is_raised() -> None:
    contender = Client(orders(3), Loopback(3))
    try:
        with pytest.raises(Exception, match="GetItem"):  # nothing is stored
            crowds.turn(contender, at_once=3, each=1)
    finally:
        contender.close()


def test_the_tail_is_what_one_request_in_a_hundred_takes_longer_than() -> None:
    turn = crowds.Turn([float(n) for n in range(200, 0, -1)], wall=100, cpu=1)
    assert (turn.p99, turn.rate) == (198_000, 2)
    found = {"odm": [turn, evolve(turn, wall=50), evolve(turn, wall=10)]}
    assert crowds.rates(found) == {"odm": 4}
    assert crowds.tails(found) == {"odm": 198_000}
    costs = crowds.costs(found)["odm"]
    assert costs.cpu == pytest.approx([5000] * 3)
    assert costs.wall == pytest.approx([500_000, 250_000, 50_000])


@pytest.mark.parametrize("size", [1, 3, 1000])
def test_the_server_reads_requests_that_come_in_parts_and_together(size: int) -> None:
    answers, written = Answers(), list[bytes]()
    talk = _Talk(answers)
    talk.connection_made(SimpleNamespace(write=written.append))
    item = b'{"Item": {"order_id": {"S": "o000000001"}}}'
    requests = [("PutItem", item), ("GetItem", b'{"Key": "o000000001"}'), ("Scan", b"{}")]
    heads = [
        f"POST / HTTP/1.1\r\nx-amz-target: A.{name}\r\nContent-Length: {len(text)}\r\n\r\n" for name, text in requests
    ]
    stream = b"".join(head.encode() + text for head, (_, text) in zip(heads, requests, strict=True))
    for start in range(0, len(stream), size):
        talk.data_received(stream[start : start + size])
    assert [answer.partition(b"\r\n")[0] for answer in written] == [b"HTTP/1.1 200 OK"] * 2 + [
        b"HTTP/1.1 400 Bad Request"
    ]
    assert written[1].endswith(b'\r\n\r\n{"Item":{"order_id":{"S":"o000000001"}}}')


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
    assert [verdict.number for verdict in found] == [1, 1, 3, 4, 5, 5, 5, 6, 6] + [7] * 32  # both clocks, twice
    assert [verdict.hit for verdict in found] == [False] * 6 + [True] * 2 + [False] + [True] * 32
