"""What `explain` shows of a write: its requests, and the rows as ``cbt read`` prints them (as cbt 1.23.2 did)."""

import time
from collections.abc import Iterator
from typing import Annotated, Any

import pytest

from odm import AccessPattern, Counter, Entity, PrimaryKey, Store, Table, set_
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import (
    COUNTERS,
    ENTRIES,
    SERVER_TIME,
    CheckAndMutateRow,
    Concurrent,
    Entry,
    Mutated,
    MutateRow,
    MutateRows,
    Native,
    Read,
    ReadRows,
    SetCell,
    Steps,
)
from odm.backends.bigtable.rehearsal import quoted, rehearse
from odm.backends.bigtable.rows.ownership import REMOVED
from odm.concurrency import Background
from odm.protocol.connection import Later

NOW = 1_426_535_612_156_000

RECORDED = """\
$ cbt read shop
----------------------------------------
a#b
  c:neg                                    @ 2015/03/16-20:53:32.156000
    -2
  c:views                                  @ 2015/03/16-20:53:32.156000
    42
  d:S$S                                    @ 2015/03/16-20:53:32.156000
    "1"
  d:_t                                     @ 2015/03/16-20:53:32.156000
    "Order"
  d:xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx @ 2015/03/16-20:53:32.156000
    ""
  d:ü                                      @ 2015/03/16-20:53:32.156000
    "Zoë \\"q\\""
"""


@pytest.fixture
def berlin(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A time zone: cbt shows times in that of the machine."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    yield
    monkeypatch.undo()
    time.tzset()


@pytest.mark.usefixtures("berlin")
def test_a_row_is_shown_as_cbt_shows_it() -> None:
    cells = (
        SetCell("ü", 'Zoë "q"'.encode(), NOW),
        SetCell("_t", b"Order", NOW),
        SetCell("views", (42).to_bytes(8, "big"), NOW, COUNTERS),
        SetCell("neg", (-2).to_bytes(8, "big", signed=True), NOW, COUNTERS),
        SetCell(50 * "x", b"", NOW),
        SetCell("S$S", b"1", NOW),
    )
    put = MutateRow("shop", Entry("a#b", (*REMOVED, *cells)))
    assert rehearse(steps(put), "shop", NOW).stored == RECORDED


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b"\0\x01\xff\xfe\x7f", r'"\x00\x01\xff\xfe\x7f"'),
        (b"\t\r\n\a\b\f\v", r'"\t\r\n\a\b\f\v"'),
        (b"""it's "a" \\""", r'''"it's \"a\" \\"'''),
        ("\xa0\u200b\xad\u2028\ue000".encode(), r'"\u00a0\u200b\u00ad\u2028\ue000"'),
        ("x😀\ufffde\u0301".encode(), '"x😀\ufffde\u0301"'),
        ("\U000e0001".encode(), r'"\U000e0001"'),
        (b"", '""'),
    ],
)
def test_values_are_quoted_as_by_go(value: bytes, shown: str) -> None:
    assert quoted(value) == shown


def steps(*requests: Native, answers: list[Any] | None = None) -> Steps[None]:
    for request in requests:
        answer = yield request
        if answers is not None:
            answers.append(answer)
    raise AssertionError("the rehearsal went on behind the write of the item")


@pytest.mark.usefixtures("berlin")
def test_index_rows_are_shown_and_calls_are_answered_as_by_empty_tables() -> None:
    entry = SetCell("9f", b"a#b", SERVER_TIME, ENTRIES)
    claims = Concurrent((MutateRows("shop.by_date", (Entry("D##a##b", (entry,)),)),))
    read = ReadRows("shop", keys=("a#b",))
    commit = CheckAndMutateRow("shop", "a#b", None, (), (*REMOVED, SetCell("_t", b"Order", NOW)))
    answers: list[Any] = []
    later = Later(steps(read), Background())
    rehearsal = rehearse(steps(read, later, claims, commit, read, answers=answers), "shop", NOW)
    assert rehearsal.sent == (read, claims, commit)
    assert rehearsal.most is None
    [nothing, none, (mutated,)] = answers
    assert (nothing, none) == (Read(), None), "steps after the answer are not shown"
    assert isinstance(mutated, Mutated)
    assert [answer.code for answer in mutated.answers.values()] == [0]
    at = "@ 2015/03/16-20:53:32.156000"
    rule = 40 * "-"
    assert rehearsal.stored == (
        f'$ cbt read shop\n{rule}\na#b\n  {"d:_t":<40} {at}\n    "Order"\n\n'
        f'$ cbt read shop.by_date\n{rule}\nD##a##b\n  {"i:9f":<40} {at}\n    "a#b"\n'
    )


table = Table("shown")


class Page(Entity, table=table):
    path: str
    title: str = ""
    views: Annotated[int, Counter] = 0

    primary = PrimaryKey("{path}")


PAGE = Page(path="start", title="42", views=-1)


def opened() -> Store:
    return Store(table, Bigtable("project", "instance", endpoint="127.0.0.1:1"))  # no server is running


def test_what_explain_shows_of_a_put() -> None:
    explanation = opened().explain(PAGE)
    assert isinstance(explanation.native, CheckAndMutateRow)
    assert (explanation.then, explanation.requests) == ((), 2)  # one more to read cells of another program
    assert [line for line in explanation.stored.splitlines() if "@" not in line][:6] == [
        "$ cbt read shown",
        40 * "-",
        "start",
        "    -1",
        '    "Page"',
        '    "start"',
    ]
    assert '\n    "42"\n' in explanation.stored
    assert str(explanation).endswith(explanation.stored)


def test_what_explain_shows_of_other_writes() -> None:
    db = opened()
    insert = db.explain(PAGE, write="insert")
    assert isinstance(insert.native, CheckAndMutateRow)
    assert insert.requests == 2  # one more to read the item
    assert "c:views" in insert.stored
    assert db.explain(PAGE, write="delete").stored == ""
    update = db.explain(PAGE, set_(Page.title, "Start"))
    assert '    "Start"\n' in update.stored
    assert "c:views" not in update.stored


found = Table("found")


class Note(Entity, table=found):
    name: str
    topic: str

    primary = PrimaryKey("{name}")
    by_topic = AccessPattern("{topic}")


def test_what_explain_shows_of_a_write_with_index_rows() -> None:
    db = Store(found, Bigtable("project", "instance", endpoint="127.0.0.1:1"))
    explanation = db.explain(Note(name="a", topic="t"))
    assert [type(native).__name__ for native in (explanation.native, *explanation.then)] == [
        "ReadRows",
        "MutateRows",
        "CheckAndMutateRow",
    ]
    assert explanation.requests is None
    assert "\nrequests   those shown if the item does not exist" in str(explanation)
    assert [line for line in explanation.stored.splitlines() if line and line[0] not in " -"] == [
        "$ cbt read found",
        "a",
        "$ cbt read found.by_topic",
        "t##Note##a",
    ]


def test_explain_says_that_a_page_of_an_index_is_two_requests() -> None:
    db = Store(found, Bigtable("project", "instance", endpoint="127.0.0.1:1"))
    assert db.explain(Note.by_topic(topic="t")).note.startswith("each page is two requests")
    assert "two requests" not in db.explain(Note.primary(name="a")).note
