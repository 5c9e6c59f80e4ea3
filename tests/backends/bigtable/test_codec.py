from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import odm
from odm.backends.bigtable.client.native import Cell, DeleteColumn, Mutation, Row, SetCell
from odm.backends.bigtable.rows.codec import (
    MAX_CELL,
    MAX_CELLS,
    MAX_QUALIFIER,
    Form,
    Kind,
    Listed,
    attribute_cells,
    attribute_gone,
    bookkeeping,
    cells,
    decode,
    replacement,
    stored,
)
from odm.backends.bigtable.rows.ownership import REMOVED, Owned
from odm.errors import BackendError, BadValue, ItemTooLarge
from odm.schema.entity import Key
from tests.backends.bigtable.values import texts, typed, values
from tests.effort import times

PLAIN = Form({})
FORM = Form({"views": "counter", "tags": "columns", "prices": "columns"})


def row(written: dict[str, bytes], family: str = "d") -> Row:
    return Row(b"hats#brandA", tuple(Cell(family, name.encode(), value) for name, value in written.items()))


def hat(*more: tuple[str, bytes]) -> Row:
    """A row with a tag and these columns, given as ``family:qualifier``."""
    columns = (("d:_t", b"Hat"), *more)
    return Row(b"k", tuple(Cell(column[0], column[2:].encode(), value) for column, value in columns))


def applied(mutations: tuple[Mutation, ...]) -> Row:
    """An empty row after these mutations."""
    left: dict[tuple[str, str], SetCell] = {}
    for mutation in mutations:
        if isinstance(mutation, SetCell):
            left[mutation.family, mutation.qualifier] = mutation
    return Row(b"k", tuple(Cell(one.family, one.qualifier.encode(), one.value) for one in left.values()))


def shown(made: tuple[SetCell, ...]) -> dict[str, bytes]:
    return {f"{cell.family}:{cell.qualifier}": cell.value for cell in made}


fields = st.sampled_from(["views", "tags", "prices"])
names = (texts | fields | st.text("#$S", max_size=3)).filter(lambda name: name not in ("_t", "~r", "_ix"))


class TestItems:
    @settings(max_examples=times(100, 500))
    @example({"a": "1", "b": 1, "c": b"1", "d": True, "e": "true", "f": None, "g": "null"})
    @example({"views": 5, "tags": frozenset({"a#b", ""}), "prices": {"": "", "#": {"": 1}}})
    @example({"views": None, "tags": frozenset({b"\xff", b""}), "prices": {}})
    @example({"tags": ["a"], "prices": "x"})
    @example({"tags": {"a": 1}, "prices": frozenset({1, 2}), "a#b": 1, "a": 2})
    @given(st.dictionaries(names, values, max_size=5))
    def test_an_item_round_trips(self, item: dict[str, Any]) -> None:
        item = {"_t": "Hat", **item}
        if type(item.get("views")) is int:
            item["views"] %= 2**63
        assert typed(decode(applied(cells(item, FORM, "k", 5000)), FORM)) == typed(item)
        assert typed(decode(applied(replacement(item, FORM, "k", "id1", (), 5000)), FORM)) == typed(item)

    def test_each_attribute_is_a_cell(self) -> None:
        item = {"_t": "Order", "total": 12, "views": 3, "tags": frozenset({"x"}), "note": "1"}
        assert cells(item, PLAIN, "k", 5000) == (
            SetCell("_t", b"Order", 5000),
            SetCell("total", b"12", 5000),
            SetCell("views", b"3", 5000),
            SetCell("tags", b'{"$set": ["x"]}', 5000),
            SetCell("note", b"'1", 5000),
        )

    def test_counters_and_columns_have_cells_of_their_own(self) -> None:
        item = {"_t": "Hat", "views": -2, "tags": frozenset({"b", "1", "a#"}), "prices": {"eu": 1, "é": "1"}}
        assert shown(cells(item, FORM, "k", 5000)) == {
            "d:_t": b"Hat",
            "c:views": b"\xff" * 7 + b"\xfe",
            "d:tags": b'{"$set": []}',
            "d:tags#'1": b"",
            "d:tags#a#": b"",
            "d:tags#b": b"",
            "d:prices": b"{}",
            "d:prices#eu": b"1",
            "d:prices#é": b"'1",
        }

    def test_the_members_of_a_set_are_as_in_cells(self) -> None:
        made = attribute_cells("tags", frozenset({1, 2}), FORM, "k", 5000)
        assert [cell.qualifier for cell in made] == ["tags", "tags#1", "tags#2"]
        (_, member) = attribute_cells("tags", frozenset({b"\xff"}), FORM, "k", 5000)
        assert member.qualifier == 'tags#{"$bytes": "/w=="}'


class TestReading:
    def test_values_from_before_the_declaration_still_count(self) -> None:
        before = hat(
            ("d:views", b"40"),
            ("c:views", b"\0" * 7 + b"\2"),
            ("d:tags", b'{"$set": ["a", "b"]}'),
            ("d:tags#c", b""),
            ("d:prices", b'{"eu": 1, "us": 2}'),
            ("d:prices#us", b"3"),
        )
        assert decode(before, FORM) == {
            "_t": "Hat",
            "views": 42,
            "tags": frozenset({"a", "b", "c"}),
            "prices": {"eu": 1, "us": 3},
        }

    @pytest.mark.parametrize(
        ("cell", "value"), [(b"red", "red"), (b"null", None), (b"true", True), (b"1.5", Decimal("1.5"))]
    )
    def test_a_value_that_is_not_a_number_stays(self, cell: bytes, value: object) -> None:
        """An increment of an older model leaves a counter of 0 if it is reverted because the item is newer."""
        assert decode(hat(("d:views", cell), ("c:views", b"\0" * 8)), FORM) == {"_t": "Hat", "views": value}

    def test_a_set_without_members_is_absent(self) -> None:
        assert decode(hat(("d:tags", b'{"$set": []}')), FORM) == {"_t": "Hat"}

    def test_a_map_without_members_is_empty(self) -> None:
        assert decode(hat(("d:prices", b"{}")), FORM) == {"_t": "Hat", "prices": {}}

    def test_members_without_the_plain_cell_are_ignored(self) -> None:
        assert decode(hat(("d:tags#a", b""), ("d:prices", b"7"), ("d:prices#eu", b"1")), FORM) == {
            "_t": "Hat",
            "prices": 7,
        }

    def test_other_families_are_not_read(self) -> None:
        assert decode(hat(("x:a", b"\xff"), ("d:b", b"2")), FORM) == {"_t": "Hat", "b": 2}

    @pytest.mark.parametrize("ghost", [Row(b"k", ()), row({"_t": b""}), row({"_t": b"", "~r": b""})])
    def test_a_row_without_a_tag_is_not_an_item(self, ghost: Row) -> None:
        assert (decode(ghost, FORM), stored(ghost, FORM), stored(None, FORM)) == (None, None, None)

    @pytest.mark.parametrize("cells", [{"_t": b"", "a": b"1"}, {"~r": b"id"}, {"x": b""}, {"readings#0000": b"\xff"}])
    def test_cells_of_another_program_are_an_item_without_a_tag(self, cells: dict[str, bytes]) -> None:
        found = stored(row(cells), FORM)
        assert found is not None
        assert (found.item, found.entries) == ({f"d:{name}": cell for name, cell in cells.items()}, ())

    def test_an_item_of_another_program_with_a_tag_is_read(self) -> None:
        form = Form({}, tags=frozenset({"Hat"}))
        found = row({"_t": b"Alien", "a": b"{", "_ix": b"?"})
        assert decode(found, form) == {"_t": "Alien", "d:_t": b"Alien", "d:a": b"{", "d:_ix": b"?"}
        assert stored(row({"_t": b"Alien", "_ix": b"?"}), form) is not None
        with pytest.raises(BackendError):
            decode(row({"_t": b"Hat", "a": b"{"}), form)

    @pytest.mark.parametrize(
        ("column", "value", "named"),
        [
            ("d:a", b"\xff", "d:a can"),
            ("d:a", b"{", "d:a can"),
            ("d:a", b'{"$set": [[]]}', "d:a can"),
            ("d:a", b"1" * 5000, "d:a can"),
            ("d:a", b"[" * 100_000, "d:a can"),
            ("c:a", b"1", "c:a can"),
        ],
    )
    def test_a_cell_of_another_program_is_reported(self, column: str, value: bytes, named: str) -> None:
        with pytest.raises(BackendError, match=f"odm did not write the row 'k': its cell {named}"):
            decode(hat((column, value)), FORM)

    def test_a_member_of_another_program_is_reported(self) -> None:
        with pytest.raises(BackendError, match="its cell d:tags#a can"):
            decode(hat(("d:tags", b"{}"), ("d:tags#a", b"\xff")), FORM)

    def test_a_column_with_a_binary_qualifier_is_ignored(self) -> None:
        assert decode(Row(b"k", (Cell("d", b"_t", b"Hat"), Cell("d", b"\xff", b""))), FORM) == {"_t": "Hat"}


class TestBookkeeping:
    LISTED = (Listed("by_price", Key("a", "b"), "q"), Listed("by_size", Key("é"), "q2"))

    def test_revision_and_entries_are_read(self) -> None:
        made = applied(replacement({"_t": "Hat"}, PLAIN, "k", "id1", self.LISTED, 5000))
        found = stored(made, FORM)
        assert found is not None
        assert (found.item, found.revision, found.entries, found.row) == ({"_t": "Hat"}, "id1", self.LISTED, made)

    def test_a_row_is_replaced(self) -> None:
        assert replacement({"_t": "Hat"}, PLAIN, "k", "id1", self.LISTED[:1], 5000) == (
            *REMOVED,
            SetCell("_t", b"Hat", 5000),
            SetCell("~r", b"id1", 5000),
            SetCell("_ix", b'[["by_price", "a", "b", "q"]]', 5000),
        )

    def test_bookkeeping_of_an_update(self) -> None:
        revision = (DeleteColumn("~r"), SetCell("~r", b"id1", 5000))
        assert bookkeeping("id1", None, 5000) == revision
        assert bookkeeping("id1", (), 5000) == (*revision, DeleteColumn("_ix"))
        listed = SetCell("_ix", b'[["by_price", "a", "b", "q"]]', 5000)
        assert bookkeeping("id1", self.LISTED[:1], 5000) == (*revision, DeleteColumn("_ix"), listed)

    def test_a_list_of_another_program_is_reported(self) -> None:
        with pytest.raises(BackendError, match="its cell d:_ix can"):
            stored(hat(("d:_ix", b"[1]")), FORM)


class TestGone:
    ROW = hat(("d:tags", b""), ("d:tags#a", b""), ("d:tag", b""), ("d:tagsx#a", b""), ("c:tags", b""), ("c:views", b""))

    def test_an_attribute_is_removed_with_all_its_columns(self) -> None:
        gone = attribute_gone("tags", self.ROW, PLAIN)
        assert gone == (DeleteColumn("tags"), DeleteColumn("tags#a"), DeleteColumn("tags", "c"))

    def test_a_counter_that_was_added_after_the_read_is_removed_too(self) -> None:
        """Otherwise a number set here would be older, and so hidden, if this clock is behind the server's."""
        row = hat(("d:x", b""))
        assert attribute_gone("views", row, FORM) == (DeleteColumn("views"), DeleteColumn("views", "c"))

    def test_without_the_row_the_form_names_the_columns(self) -> None:
        assert attribute_gone("views", None, FORM) == (DeleteColumn("views"), DeleteColumn("views", "c"))
        assert attribute_gone("a#", None, FORM) == (DeleteColumn("a$S"),)


@pytest.mark.parametrize(
    ("item", "error", "message"),
    [
        ({"n" * (MAX_QUALIFIER + 1): "x"}, BadValue, "'nnn.* the column qualifier 'nnn.* of 16385 bytes"),
        (
            {"tags": frozenset({"é" * (MAX_QUALIFIER // 2)})},
            BadValue,
            "'tags' .* qualifier 'tags#é.* of 16389 bytes",
        ),
        ({"a": "x" * (MAX_CELL + 1)}, ItemTooLarge, "'a' of the item 'c1#o1' has 104857601 bytes"),
        ({str(number): "" for number in range(MAX_CELLS)}, ItemTooLarge, "99991 cells"),
        ({"tags": frozenset(range(MAX_CELLS - 1))}, ItemTooLarge, "99991 cells"),
        ({"a": 1.5}, BadValue, "'a' of the item 'c1#o1': 1.5 is a float"),
        ({"a": [1.5]}, BadValue, "'a' of the item 'c1#o1': 1.5 is a float"),
        ({"views": 2**63}, BadValue, "'views' of the item 'c1#o1': 9223372036854775808 is not a 64-bit number"),
        ({"~r": "x"}, BadValue, "'~r': that name is reserved"),
        ({"_ix": "x"}, BadValue, "'_ix': that name is reserved"),
        ({"_t": ""}, BadValue, "'c1#o1' has no tag"),
        ({"_t": None}, BadValue, "'c1#o1' has no tag"),
    ],
    ids=["name", "member", "cell", "cells", "members", "float", "inner", "counter", "~r", "_ix", "empty tag", "no tag"],
)
def test_items_that_a_row_cannot_hold_are_refused(item: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        cells({"_t": "Hat", **item}, FORM, "c1#o1", 5000)


def test_the_form_of_a_table() -> None:
    table = odm.Table("forms")

    class One(odm.Entity, table=table):
        id: str
        views: Annotated[int, odm.Counter] = 0
        likes: Annotated[int, odm.Counter, odm.Stored("l")] = 0
        count: Annotated[int, odm.Counter] = 0
        tags: Annotated[set[str], odm.Columns, odm.Stored("t#")] = set()
        sizes: Annotated[dict[str, int], odm.Columns] = {}
        main = odm.PrimaryKey("ONE#{id}")

    class Two(odm.Entity, table=table):
        id: str
        views: Annotated[int, odm.Counter] = 0
        count: int = 0
        size: Annotated[int, odm.Counter, odm.Stored("sizes")] = 0
        main = odm.PrimaryKey("TWO#{id}")

    form = Form.of(table.compile())
    kinds: dict[str, Kind] = {"views": "counter", "l": "counter", "t#": "columns"}
    tags, owned = frozenset({"One", "Two"}), Owned(frozenset({"views", "l", "count", "sizes"}))
    assert form == Form(kinds, frozenset({"count", "sizes"}), frozenset({"id"}), tags, owned)
    assert [form.kind(name) for name in ("views", "t#", "count", "id")] == ["counter", "columns", None, None]
