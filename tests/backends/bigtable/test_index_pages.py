"""Pages of an index: the reads that they send, and which hits are returned; without I/O."""

import json
from collections.abc import Callable
from typing import Any

import pytest

from odm.backends.bigtable.client import retry
from odm.backends.bigtable.client.native import ITEM, Cell, Read, ReadRows, Row, RowRange
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.index.pages import LIST_ONLY, ROW_ONLY
from odm.backends.bigtable.requests import Procedures
from odm.backends.bigtable.rows import pages
from odm.backends.bigtable.rows.codec import LISTED, REVISION
from odm.errors import BackendError
from odm.protocol.requests import Page, Position, Query
from odm.schema.entity import Key
from odm.schema.model import IndexSchema, Schema
from tests.backends.bigtable.playing import BUSY, OPEN, Clock, play

INDEX = "by_date"


def shop(*, hash_only: bool = False) -> Procedures:
    return Procedures(Schema(name="shop", entities={}, indexes={INDEX: IndexSchema(INDEX, ())}, hash_only=hash_only))


def entry(sort: str, item: str) -> Row:
    """An index row, read without its value."""
    return Row(f"P##{sort}##C##{item}".encode(), (Cell("i", b"q", b""),))


def item(name: str, *sorts: str, partition: str = "P", index: str = INDEX, **values: str) -> Row:
    """The row of an item that lists these entries."""
    listed = json.dumps([[index, partition, sort, "another"] for sort in sorts])
    cells = {"_t": "Order", REVISION: "r", LISTED: listed, **values}
    return Row(f"C#{name}".encode(), tuple(Cell("d", key.encode(), text.encode()) for key, text in cells.items()))


def at(sort: str, name: str) -> Position:
    return Position(Key("C", name), Key("P", sort))


def ask(query: Query, *answers: tuple[Row, ...], on: Procedures | None = None) -> tuple[list[Any], Page]:
    return play(query, *map(Read, answers), on=on or shop())


def query(lo: str = "", hi: str | None = None, **options: Any) -> Query:
    return Query("P", lo, hi, index=INDEX, **options)


def test_a_page_is_a_range_of_rows_and_one_read_of_their_items() -> None:
    rows = (entry("1", "b"), entry("2", "a"))
    sent, answer = ask(query("1", "3"), rows, (item("a", "2", n="y"), item("b", "1", n="x")))
    assert sent == [
        ReadRows("shop.by_date", range=RowRange("P##1", "P##3"), limit=1000, filter=ROW_ONLY),
        ReadRows("shop", keys=("C#b", "C#a")),
    ]
    assert answer == Page(({"_t": "Order", "n": "x"}, {"_t": "Order", "n": "y"}), (at("1", "b"), at("2", "a")), None)


def test_without_sort_keys_of_items() -> None:
    row = Row(b"P##1##c1", (Cell("i", b"q", b""),))
    found = Row(b"c1", item("", "1").cells)
    sent, answer = ask(query(), (row,), (found,), on=shop(hash_only=True))
    assert sent[1].keys == ("c1",)
    assert answer.positions == (Position(Key("c1"), Key("P", "1")),)


@pytest.mark.parametrize(
    "found",
    [
        (),
        (item("a"),),
        (item("a", "2"),),
        (item("a", "1", partition="Q"),),
        (item("a", "1", index="by_name"),),
        (Row(b"C#a", (Cell("c", b"views", bytes(8)),)),),
        (Row(b"C#a", (Cell("d", b"_t", b""),)),),
    ],
    ids=["no row", "no entries", "another sort", "another partition", "another index", "a ghost", "a ghost's tag"],
)
def test_a_hit_that_the_item_does_not_list_is_dropped(found: tuple[Row, ...]) -> None:
    assert ask(query(), (entry("1", "a"),), found)[1] == Page()


def test_the_qualifier_does_not_matter() -> None:
    row = Row(b"P##1##C##a", (Cell("i", b"mine", b""), Cell("i", b"yours", b"")))
    assert len(ask(query(), (row,), (item("a", "1"),))[1].items) == 1


def test_an_item_that_moved_between_two_rows_of_a_page_is_read_once_and_found_once() -> None:
    sent, answer = ask(query(), (entry("1", "a"), entry("2", "a")), (item("a", "2"),))
    assert sent[1].keys == ("C#a",)
    assert answer.positions == (at("2", "a"),)


def test_a_page_does_not_end_because_hits_were_dropped() -> None:
    rows = [(entry("1", "a"), entry("2", "b")), (entry("3", "c"), entry("4", "d"))]
    sent, answer = ask(query(limit=2), rows[0], (), rows[1], (item("c", "3"), item("d", "4")))
    assert [one.range for one in sent if one.table == "shop.by_date"] == [
        RowRange("P##", "P#$"),
        RowRange("P##2##C##b", "P#$", open=True),
    ]
    assert answer.positions == (at("3", "c"), at("4", "d"))
    assert answer.next == at("4", "d")


def test_the_next_page_begins_after_the_last_examined_row(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "PAGE_ROWS", 2)
    _, answer = ask(query(), (entry("1", "a"), entry("2", "b")), (item("a", "1"),))
    assert (answer.positions, answer.next) == ((at("1", "a"),), at("2", "b"))
    _, answer = ask(query(), (entry("1", "a"), entry("2", "b")), ())
    assert answer == Page((), (), at("2", "b"))


@pytest.mark.parametrize(
    ("reverse", "left"),
    [(False, RowRange("P##2##C##b", "P##4", open=True)), (True, RowRange("P##1", "P##2##C##b"))],
)
def test_after_continues_after_an_entry(reverse: bool, left: RowRange) -> None:
    sent, _ = ask(query("1", "4", after=at("2", "b"), reverse=reverse), ())
    assert (sent[0].range, sent[0].reverse) == (left, reverse)


def test_a_filter_is_evaluated_on_the_item() -> None:
    rows = tuple(entry(sort, f"i{sort}") for sort in "123")
    found = tuple(
        item(f"i{sort}", sort, status=status) for sort, status in zip("123", ("open", "no", "open"), strict=True)
    )
    sent, answer = ask(query(filter=OPEN, limit=2), rows, found)
    assert sent[0].limit == pages.FIRST_ROWS
    assert answer.positions == (at("1", "i1"), at("3", "i3"))
    assert answer.next is None


def test_reads_with_a_filter_grow(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(pages, "FIRST_ROWS", 2)
    monkeypatch.setattr(pages, "PAGE_ROWS", 5)
    rows = [entry(f"{n:02}", "a") for n in range(20)]
    cut = [tuple(rows[a:b]) for a, b in ((0, 2), (2, 4), (4, 8), (8, 13), (13, 15))]
    answers = [one for part in cut for one in (part, ())]
    sent, answer = ask(query(filter=OPEN, limit=1), *answers)
    assert [one.limit for one in sent if one.table == "shop.by_date"] == [2, 2, 4, 5, 5]
    assert answer == Page()


def test_count_reads_only_the_lists_of_the_items() -> None:
    sent, answer = ask(query(count=True), (entry("1", "a"), entry("2", "b")), (item("a", "1"), item("b", "7")))
    assert [one.filter for one in sent] == [ROW_ONLY, LIST_ONLY]
    assert answer == Page(count=1, strangers=1), "the schema has no entities"


def test_count_with_a_filter_reads_items() -> None:
    sent, answer = ask(query(count=True, filter=OPEN), (entry("1", "a"),), (item("a", "1", status="open"),))
    assert sent[1].filter == ITEM
    assert answer == Page(count=1, strangers=1)


def test_a_row_that_odm_did_not_write_is_named() -> None:
    with pytest.raises(BackendError, match=r"'someone', which odm did not write"):
        ask(query(), (Row(b"someone", (Cell("i", b"q", b""),)),))


def test_a_slow_reader_continues_while_each_read_of_a_block_of_items_makes_progress(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The items of a page are read in blocks of keys. 40 seconds pass in each read, and calls are retried for 60."""
    monkeypatch.setattr(retry, "READ_BYTES", 4 * 4 * len("C#a"))
    clock = Clock()

    def read(*names: str, failure: Exception | None = BUSY) -> Callable[[], Read]:
        def answer() -> Read:
            clock.now += 40
            found = tuple(item(name, str(ord(name))) for name in names)
            return Read(found, f"C#{names[-1]}" if names else None, failure)

        return answer

    names = "ijklmnop"
    index_rows = Read(tuple(entry(str(ord(name)), name) for name in names))
    reads = [read(name, failure=None if name in "lp" else BUSY) for name in names]
    on = Procedures(shop().schema, Retry(clock=clock, jitter=lambda: 1.0))
    sent, page = play(query(), index_rows, *reads, on=on, clock=clock)
    keys = ["".join(key[2:] for key in one.keys) for one in sent if isinstance(one, ReadRows) and one.keys]
    assert keys == ["ijkl", "jkl", "kl", "l", "mnop", "nop", "op", "p"]
    assert [position.key.sort for position in page.positions] == list(names)
    with pytest.raises(BackendError, match="UNAVAILABLE"):
        play(query(), index_rows, read(), read(), read(), on=on, clock=clock)
