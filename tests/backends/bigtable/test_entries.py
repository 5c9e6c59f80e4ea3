"""Rows of index tables: their keys, the range of a query, and their order, with random templates of every kind."""

from typing import Any, Literal

import pytest
from hypothesis import assume, given, reject, settings
from hypothesis import strategies as st

from odm import AccessPattern, Entity, PrimaryKey, Table
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.native import Cell, Row, RowRange
from odm.backends.bigtable.rows.keys import (
    MAX_ROW_KEY,
    RowKeys,
    check_entries,
    claims,
    entry_range,
    entry_row,
    index_table,
    is_odms,
    position,
)
from odm.errors import ItemTooLarge, KeyValueError, SchemaError
from odm.immutable import evolve
from odm.protocol.limits import check_keys
from odm.protocol.requests import Position
from odm.schema.entity import Key, PatternSchema
from odm.schema.model import IndexSchema
from tests.keys.cases import FIXED, PROPERTY, VARIABLE, Drawn, compiled, components, join, values_of
from tests.keys.test_spans import bounds_on, contains
from tests.shop import notes

# Making a pair of templates with values takes ten times as long as making one, so there are fewer examples.
ORDERED = settings(PROPERTY, max_examples=min(PROPERTY.max_examples, 500))

ITEMS = st.builds(Key, st.sampled_from(["C#1", "C#2", "C"]), st.sampled_from(["", "O#1", "O#1#x", "$P"]))


def index_of(*sorts: Drawn) -> IndexSchema:
    first = PatternSchema("A", "by_a", "global", "ix", compiled("P"), sorts[0].template)
    return IndexSchema(
        "ix", tuple(evolve(first, entity=f"E{at}", sort=drawn.template) for at, drawn in enumerate(sorts))
    )


def is_ordered(index: IndexSchema) -> bool:
    try:
        check_entries("shop", index)
    except SchemaError:
        return False
    return True


TEXT = next(case for case in VARIABLE if case.field == "text")
SYMBOL = next(case for case in FIXED if case.field == "symbol")
PIECES = components() | st.sampled_from([("{text}", (TEXT,)), ("{symbol:<5}", (SYMBOL,))])


@st.composite
def shared(draw: st.DrawFn) -> tuple[Drawn, dict[str, Any], Drawn, dict[str, Any]]:
    """Two sort templates that may share an index, often with a common prefix, with the values of an item of each."""
    pieces = draw(st.lists(PIECES, min_size=1, max_size=3))
    kept = draw(st.integers(0, len(pieces)))
    behind = draw(st.lists(PIECES, min_size=not kept, max_size=2))
    one, other = draw(st.permutations([join(pieces), join([*pieces[:kept], *behind])]))
    assume(is_ordered(index_of(one, other)))
    values = draw(values_for(one, {}))
    return one, values, other, draw(values_for(other, {"text": values.get("symbol", "A"), **values}))


@st.composite
def values_for(draw: st.DrawFn, drawn: Drawn, like: dict[str, Any]) -> dict[str, Any]:
    """Values for all placeholders, many of them those of `like`."""
    values = values_of(draw, drawn)
    values |= {name: like[name] for name in values if name in like and draw(st.integers(0, 3))}
    try:
        drawn.key(values)
    except KeyValueError:  # a time that only the other template's format can hold
        reject()
    return values


@ORDERED
@given(shared(), ITEMS, ITEMS)
def test_rows_sort_as_the_index_keys_and_then_as_the_items(
    pair: tuple[Drawn, dict[str, Any], Drawn, dict[str, Any]], item: Key, another: Key
) -> None:
    one, values, other, others = pair
    left, right = one.key(values), other.key(others)
    first, second = entry_row(Key("P", left), item), entry_row(Key("P", right), another)
    assert (first.encode() < second.encode()) == (first < second)
    if left != right:
        assert (first < second) == (left < right)
    assert (first == second) == ((left, item) == (right, another))


@st.composite
def searches(draw: st.DrawFn) -> tuple[str, str | None, str]:
    """The range of a query of one pattern, and the sort key of an item of that pattern or another."""
    one, values, other, others = draw(shared())
    names = one.template.fields
    count = draw(st.integers(0, len(names)))
    known = {name: values[name] for name in names[:count]}
    at = next((at for at, name in enumerate(names) if name not in known), None)
    span = one.template.span(known, draw(bounds_on(one.cases[at], values[names[at]])) if at is not None else [])
    return span.lo, span.hi, other.key(others)


@ORDERED
@given(searches(), ITEMS)
def test_a_row_is_in_the_range_exactly_if_its_sort_key_is(search: tuple[str, str | None, str], item: Key) -> None:
    lo, hi, sort = search
    row, span = entry_row(Key("P", sort), item), entry_range("P", lo, hi)
    inside = span.start <= row and (span.end is None or row < span.end)
    assert inside == (lo <= sort and (hi is None or sort < hi))
    assert not inside or not span.empty


@pytest.mark.parametrize("partition", ["P#x", "P$", "O", "P#", "Q"])
def test_other_partitions_are_not_in_the_range(partition: str) -> None:
    span = entry_range("P")
    row = entry_row(Key(partition.rstrip("#") or "P", "a"), Key("C"))
    assert (span.start <= row < str(span.end)) == (partition == "P#")


@given(st.sampled_from(["P", "P#1"]), st.sampled_from(["a", "a#b", "a  "]), ITEMS)
def test_a_row_key_names_index_key_and_item(partition: str, sort: str, item: Key) -> None:
    index_key = Key(partition, sort)
    assert position(entry_row(index_key, item)) == Position(item, index_key)


def test_rows_and_ranges_by_example() -> None:
    assert index_table("shop", "by_date") == "shop.by_date"
    assert entry_row(Key("OPEN", "2024#o1"), Key("C#c1", "O#o1")) == "OPEN##2024#o1##C#c1##O#o1"
    assert entry_row(Key("OPEN", "2024#o1"), Key("c1")) == "OPEN##2024#o1##c1"
    assert entry_range("OPEN") == RowRange("OPEN##", "OPEN#$")
    assert entry_range("OPEN", "2024#", "2024$") == RowRange("OPEN##2024#$", "OPEN##2024$")
    assert entry_range("OPEN", "a\0", "b\0") == RowRange("OPEN##a#$", "OPEN##b#$")
    assert entry_range("OPEN", "a$", "b") == RowRange("OPEN##a$", "OPEN##b")


def test_the_rows_of_one_sort_key() -> None:
    span = entry_range("P", "a#b", "a#b\0")
    rows = {sort: entry_row(Key("P", sort), Key("C")) for sort in ("a", "a#b", "a#b#c", "a#bc", "a#b$Q")}
    assert [sort for sort, row in rows.items() if span.start <= row < str(span.end)] == ["a#b"]


def test_a_row_key_over_4_kb_is_refused() -> None:
    assert len(entry_row(Key("p" * 2000, "s" * 1000), Key("i" * 1090))) == 4094
    with pytest.raises(ItemTooLarge, match="4097 bytes"):
        entry_row(Key("p" * 2000, "s" * 1000), Key("i" * 1093))


def test_an_index_in_which_padding_would_break_the_order_is_refused() -> None:
    stock = Table("stock")

    class Name(Entity, table=stock):
        name: str
        primary = PrimaryKey("NAME#{name}")
        by_name = AccessPattern("ALL", "{name}", index="names")

    class Symbol(Entity, table=stock):
        symbol: str
        primary = PrimaryKey("SYMBOL#{symbol}")
        by_name = AccessPattern("ALL", "{symbol:<6}", index="names")

    with pytest.raises(SchemaError, match=r"Name\.by_name .* Symbol\.by_name .* its own index"):
        Bigtable("project", "instance").connect(stock.compile())


def test_such_keys_would_break_the_order() -> None:
    short, padded = "ab", "ab    "
    assert short < padded
    assert entry_row(Key("P", short), Key("C")) > entry_row(Key("P", padded), Key("C"))
    assert contains(compiled("{symbol:<5}").span({}), padded)


def test_the_largest_keys_that_every_backend_takes_fit_a_row_key() -> None:
    index_key, key = Key("i" * 2048, "s" * 1000), Key("p" * 1000, "k" * 42)
    check_keys(key, {"ix": index_key})
    assert len(entry_row(index_key, key)) == MAX_ROW_KEY
    with pytest.raises(ItemTooLarge, match="4091 bytes, and 4090 are the most"):
        check_keys(Key("p" * 1000, "k" * 43), {"ix": index_key})


@pytest.mark.parametrize(
    ("join", "row_key", "tag", "key"),
    [
        ("#", "METER#m#DAY#1", "Reading", Key("METER#m", "DAY#1")),
        ("#", "METER#m#DAY#1", "Other", None),
        ("##", "METER#m##DAY#1", "Other", Key("METER#m", "DAY#1")),
    ],
)
def test_the_key_of_a_row(join: Literal["#", "##"], row_key: str, tag: str, key: Key | None) -> None:
    meters = Table("meters", row_key_join=join)

    class Reading(Entity, table=meters):
        meter: str
        day: str
        primary = PrimaryKey("METER#{meter}", "DAY#{day}")

    assert RowKeys.of(meters.compile()).key_of(row_key, tag) == key


def test_the_key_of_a_row_without_a_sort_key() -> None:
    assert RowKeys.of(notes.compile()).key_of("NOTE#a", "Other") == Key("NOTE#a")


@pytest.mark.parametrize(
    ("row_key", "row_keys", "item"),
    [
        (b"P##1##C#a##O#1", RowKeys("#", hash_only=False), b"C#a#O#1"),
        (b"P##1##C#a##O#1", RowKeys("##", hash_only=False), b"C#a##O#1"),
        (b"P##1##C#a", RowKeys("#", hash_only=True), b"C#a"),
    ],
)
def test_a_claim_is_a_column_whose_cell_is_the_items_row_key(row_key: bytes, row_keys: RowKeys, item: bytes) -> None:
    mine = Cell("i", b"q", item)
    others = (Cell("i", b"", item), Cell("i", b"\xff", item), Cell("i", b"r", b"C#a#O#2"), Cell("MD", b"s", item))
    assert claims(Row(row_key, (mine, *others)), row_keys) == ("q",)
    assert is_odms(Row(row_key, (mine,)), row_keys)
    assert not any(is_odms(Row(row_key, (mine, other)), row_keys) for other in others)
    assert claims(Row(row_key + b"##x##y", (mine,)), row_keys) == ()
    other_row_keys = RowKeys(row_keys.join, hash_only=not row_keys.hash_only)
    assert claims(Row(row_key, (mine, Cell("i", b"t", b"C#a"), Cell("i", b"u", b"C#a#"))), other_row_keys) == ()
