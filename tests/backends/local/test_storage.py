"""The storage protocol, with both storages."""

from contextlib import closing

import pytest

from odm.backends.local.storage import Record, Row, Rows, Storage, position_of
from odm.errors import BackendError
from odm.protocol.requests import Key, Position, Query, Scan
from tests.backends.local.support import reading, set_record, writing

SORTS = ["", "!", "a", "a\x00", "a#", "aa", "b", "é", "\ud7ff", "\ue000", "\uffff", "😀"]


def record(text: str, **entries: Key) -> Record:
    return Record(text.encode(), entries)


def fill(storage: Storage) -> None:
    with writing(storage) as view:
        for sort in reversed(SORTS):
            set_record(view, Key("p", sort), record(sort))
        for other in ("o", "pp", "p#", "q"):
            set_record(view, Key(other, "a"), record(other))


def all_of(rows: Rows) -> list[Row]:
    with closing(rows):
        return list(rows)


def sorts(storage: Storage, query: Query) -> list[str]:
    with reading(storage) as view:
        return [position_of(query, row).key.sort for row in all_of(view.rows(query))]


def test_a_record_is_put_replaced_and_deleted(storage: Storage) -> None:
    key = Key("p", "s")
    first, second = record("1", by_x=Key("X", "1")), record("2")
    with writing(storage) as view:
        assert view.get(key) is None
        set_record(view, key, first)
        assert view.record(key) == first
        set_record(view, key, second)
    with reading(storage) as view:
        assert view.record(key) == second
        assert view.get(Key("p", "s2")) is None
        assert view.get(Key("ps")) is None
    with writing(storage) as view:
        set_record(view, key, None)
    with reading(storage) as view:
        assert view.get(key) is None


def test_rows_are_in_the_order_of_utf_8(storage: Storage) -> None:
    fill(storage)
    assert sorted(SORTS, key=str.encode) == SORTS
    assert sorts(storage, Query("p")) == SORTS
    assert sorts(storage, Query("p", reverse=True)) == SORTS[::-1]
    assert sorts(storage, Query("nothing")) == []


@pytest.mark.parametrize("lo", SORTS)
@pytest.mark.parametrize("hi", [*SORTS, "\ud800", None])
def test_rows_include_lo_and_exclude_hi(storage: Storage, lo: str, hi: str | None) -> None:
    fill(storage)
    expected = [sort for sort in SORTS if lo <= sort and (hi is None or sort < hi)]
    assert sorts(storage, Query("p", lo, hi)) == expected
    assert sorts(storage, Query("p", lo, hi, reverse=True)) == expected[::-1]


@pytest.mark.parametrize("place", range(1, 9))
def test_rows_continue_after_a_position_that_may_be_deleted(storage: Storage, place: int) -> None:
    fill(storage)
    position = Position(Key("p", SORTS[place]))
    forward, back = Query("p", "!", "\uffff", after=position), Query("p", "!", "\uffff", after=position, reverse=True)
    for _ in range(2):
        assert sorts(storage, forward) == SORTS[place + 1 : 10]
        assert sorts(storage, back) == SORTS[1:place][::-1]
        with writing(storage) as view:
            if view.get(position.key) is not None:
                set_record(view, position.key, None)


def test_entries_are_ordered_by_index_key_and_then_by_item_key(storage: Storage) -> None:
    keys = [Key("p", "1"), Key("p", "2"), Key("p2", "0"), Key("q", "")]
    expected = [("sam", Key("q", "9")), *(("same", key) for key in keys), ("samf", Key("p", "0"))]
    with writing(storage) as view:
        for index_sort, key in reversed(expected):
            entries = {"by_x": Key("X", index_sort), "by_y": Key("Y", index_sort)}
            set_record(view, key, record(key.partition + key.sort, **entries))
    places: list[Row] = [((key.partition + key.sort).encode(), sort, *key) for sort, key in expected]
    with reading(storage) as view:
        assert all_of(view.rows(Query("X", index="by_x"))) == places
        assert all_of(view.rows(Query("X", index="by_x", reverse=True))) == places[::-1]
        assert all_of(view.rows(Query("X", "same", "samf", index="by_x"))) == places[1:5]
        assert all_of(view.rows(Query("X", "same", index="by_x", reverse=True))) == places[:0:-1]
        for at, (sort, key) in enumerate(expected):
            position = position_of(Query("X", index="by_x"), places[at])
            assert position == Position(key, Key("X", sort))
            assert all_of(view.rows(Query("X", index="by_x", after=position))) == places[at + 1 :]
            assert all_of(view.rows(Query("X", index="by_x", after=position, reverse=True))) == places[:at][::-1]
        assert all_of(view.rows(Query("Y", index="by_x"))) == []
    with writing(storage) as view:
        set_record(view, keys[1], record("p2"))
    with reading(storage) as view:
        assert all_of(view.rows(Query("X", index="by_x"))) == places[:2] + places[3:]


def test_a_scan_returns_every_row_once_while_others_are_added_and_removed(storage: Storage) -> None:
    fill(storage)
    seen: list[Key] = []
    after: Key | None = None
    while True:
        with writing(storage) as view:
            rows = all_of(view.scan(after))[:3]
            if not rows:
                break
            seen += [position_of(Scan(), row).key for row in rows]
            after = seen[-1]
            set_record(view, after, None)  # the position where the next page begins is deleted
            set_record(view, Key("a", after.sort), record("before every partition there was"))
    assert [key for key in seen if key.partition != "a"] == [
        Key("o", "a"),
        *(Key("p", sort) for sort in SORTS),
        Key("p#", "a"),
        Key("pp", "a"),
        Key("q", "a"),
    ]


def test_rows_can_be_left_unread(storage: Storage) -> None:
    fill(storage)
    for _ in range(3):
        with reading(storage) as view, closing(view.rows(Query("p"))) as rows:
            assert next(rows)[1] == ""
    with writing(storage) as view:
        set_record(view, Key("p", ""), None)


def test_nothing_works_before_create_or_after_drop(storage: Storage) -> None:
    fill(storage)
    with writing(storage) as view:
        set_record(view, Key("p", "a"), record("a", by_x=Key("X")))
    storage.drop()
    storage.drop()
    for block in (reading, writing):
        with (
            pytest.raises(BackendError, match=r"table 'shop' does not exist: call store.create\(\) first"),
            block(storage) as view,
        ):
            view.get(Key("p", "a"))
    storage.create([])
    with reading(storage) as view:
        assert view.get(Key("p", "a")) is None
        assert all_of(view.scan(None)) == []
        assert "by_x" not in view.indexes
    storage.create(["by_x"])
    storage.create(["by_x", "by_z"])
    with reading(storage) as view:
        assert {"by_x", "by_z"} <= set(view.indexes)
        assert all_of(view.rows(Query("X", index="by_x"))) == []


def test_create_does_not_change_existing_items(storage: Storage) -> None:
    fill(storage)
    storage.create(["by_x", "new"])
    assert sorts(storage, Query("p")) == SORTS
