"""Pages of queries and scans: the reads that they send, and which rows are returned; without I/O."""

import pytest

from odm.backends.bigtable.client.native import (
    ITEM,
    Read,
    ReadRows,
    RowRange,
)
from odm.backends.bigtable.rows import pages
from odm.backends.bigtable.rows.ownership import Owned
from odm.protocol.requests import Page, Position, Query, Scan
from odm.schema.entity import Key
from tests.backends.bigtable.playing import GHOST, OPEN, hat, numbered, play, procedures, row, rows

X = {"_t": "Hat", "x": 1}


def test_a_partition() -> None:
    sent, answer = play(Query("hats"), rows("hats#a", "hats#b", x="1"))
    assert sent == [ReadRows("shop", range=RowRange("hats#", "hats$"), limit=1000)]
    assert answer == Page((X, X), (hat("a"), hat("b")), None)


def test_a_reverse_range() -> None:
    sent, answer = play(Query("hats", "a", "c", reverse=True, limit=1), rows("hats#b", x="1"))
    assert sent == [ReadRows("shop", range=RowRange("hats#a", "hats#c"), limit=1, reverse=True)]
    assert answer == Page((X,), (hat("b"),), hat("b"))


def test_the_unambiguous_join() -> None:
    sent, answer = play(Query("T#a", "U"), rows("T#a##U#b", x="1"), on=procedures(join="##"))
    assert sent[0].range == RowRange("T#a##U", "T#a#$")
    assert answer.positions == (Position(Key("T#a", "U#b")),)


def test_without_a_sort_key() -> None:
    sent, answer = play(Query("s1"), rows("s1", x="1"), on=procedures(hash_only=True))
    assert sent[0].range == RowRange("s1", "s1\0")
    assert answer.positions == (Position(Key("s1")),)


@pytest.mark.parametrize(
    ("reverse", "after", "left"),
    [
        (False, "b", RowRange("hats#b", "hats#d", open=True)),
        (True, "b", RowRange("hats#a", "hats#b")),
        (False, "A", RowRange("hats#a", "hats#d")),
        (True, "x", RowRange("hats#a", "hats#d")),
        (False, "a", RowRange("hats#a", "hats#d", open=True)),
    ],
)
def test_after_continues_after_a_position(reverse: bool, after: str, left: RowRange) -> None:
    sent, _ = play(Query("hats", "a", "d", reverse=reverse, after=hat(after)), Read())
    assert sent[0].range == left


@pytest.mark.parametrize(("reverse", "after"), [(False, "d"), (True, "a"), (True, "A")])
def test_nothing_is_sent_when_nothing_can_follow(reverse: bool, after: str) -> None:
    assert play(Query("hats", "a", "d", reverse=reverse, after=hat(after))) == ([], Page())


def test_a_full_page_may_have_a_next() -> None:
    assert play(Query("hats", limit=2), rows("hats#a", "hats#b", x="1"))[1].next == hat("b")


def test_a_short_page_has_none() -> None:
    assert play(Query("hats", limit=3), rows("hats#a", "hats#b", x="1"))[1].next is None


def test_without_a_limit_a_page_is_one_read(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_ROWS", 2)
    sent, answer = play(Query("hats"), rows("hats#a", "hats#b", x="1"))
    assert len(sent) == 1
    assert answer.next == hat("b")


def test_a_limit_over_one_read() -> None:
    sent, answer = play(Query("hats", limit=1500), numbered(0, 999), numbered(1000, 1499))
    assert [(one.range.start, one.limit) for one in sent] == [("hats#", 1000), ("hats#0999", 500)]
    assert (len(answer.items), answer.next) == (1500, hat("1499"))


def test_a_page_with_a_filter_reads_until_the_limit_is_reached(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_ROWS", 2)
    first = Read((row("hats#a", status="open"), row("hats#b", status="shipped")))
    second = Read((row("hats#c", status="open"), row("hats#d", status="open")))
    sent, answer = play(Query("hats", filter=OPEN, limit=2), first, second)
    assert [one.range for one in sent] == [RowRange("hats#", "hats$"), RowRange("hats#b", "hats$", open=True)]
    assert answer == Page(({"_t": "Hat", "status": "open"},) * 2, (hat("a"), hat("c")), hat("c"))


def test_a_page_with_a_number_of_items_to_examine_is_one_read() -> None:
    found = Read(tuple(row(f"hats#{n:02}", status="open" if n == 7 else "shipped") for n in range(60)))
    sent, answer = play(Query("hats", filter=OPEN, limit=2, examine=60), found)
    assert [one.limit for one in sent] == [60]
    assert answer == Page(({"_t": "Hat", "status": "open"},), (hat("07"),), hat("59"))
    assert answer.examined == 60
    sent, answer = play(Query("hats", filter=OPEN, limit=2, examine=2), Read(found.rows[:50]))
    assert [one.limit for one in sent] == [pages.FIRST_ROWS]
    assert answer.next == hat("49")
    sent, answer = play(Query("hats", filter=OPEN, examine=9), Read(found.rows[:9]))
    assert [one.limit for one in sent] == [9]
    assert (len(answer.items), answer.next) == (1, hat("08"))


def test_a_page_that_ends_with_the_last_row_has_no_next() -> None:
    assert play(Query("hats", filter=OPEN, limit=1), rows("hats#a", status="open"))[1].next is None


def test_a_filter_without_a_limit_may_give_an_empty_page(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_ROWS", 1)
    assert play(Query("hats", filter=OPEN), rows("hats#a", status="no"))[1] == Page((), (), hat("a"))


def test_count_reads_only_tags() -> None:
    sent, answer = play(Query("hats", count=True), Read((row("hats#a"), row("hats#b"))))
    assert sent[0].filter == Owned().held
    assert answer == Page(count=2, strangers=2), "the schema has no entities"


def test_count_with_a_filter_reads_items() -> None:
    read = Read((row("hats#a", status="open"), row("hats#b", status="no")))
    sent, answer = play(Query("hats", count=True, filter=OPEN), read)
    assert sent[0].filter == ITEM
    assert answer == Page(count=1, strangers=1)


def test_rows_without_a_tag_are_not_items() -> None:
    _, answer = play(Query("hats", limit=2), Read((GHOST, row("hats#x", x="1"))), rows("hats#y", x="1"))
    assert answer == Page((X, X), (hat("x"), hat("y")), hat("y"))


def test_scan() -> None:
    sent, answer = play(Scan(limit=1), rows("hats#a", x="1"))
    assert sent == [ReadRows("shop", range=RowRange(), limit=1)]
    assert answer.next == Position(Key("hats#a"))
    sent, _ = play(Scan(after=answer.next), Read())
    assert sent == [ReadRows("shop", range=RowRange("hats#a", open=True), limit=1000)]
