from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odm.backends.bigtable.codec import MAX_CELL, MAX_CELLS, MAX_QUALIFIER, decode, encode
from odm.backends.bigtable.native import Cell, Row
from odm.errors import BackendError, BadValue, ItemTooLarge


def row(cells: dict[str, bytes], family: str = "d") -> Row:
    return Row(b"hats#brandA", tuple(Cell(family, name.encode(), value) for name, value in cells.items()))


def stored(item: dict[str, Any]) -> Row:
    return row(dict(encode(item, "k")))


texts = st.text(st.characters(codec="utf-8"), max_size=6)
fractions = st.builds("{}1E{}".format, st.integers(-(10**36), 10**36), st.integers(-99, -1)).map(Decimal)
numbers = st.integers(-(10**38) + 1, 10**38 - 1) | fractions
blobs = st.binary(max_size=6)
sets = st.one_of([st.frozensets(members, min_size=1, max_size=3) for members in (texts, numbers, blobs)])
keys = texts | st.sampled_from(["$set", "$bytes", "$$set", "$"])
scalars = st.none() | st.booleans() | numbers | texts | blobs | sets
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=4
)


def typed(value: Any) -> Any:
    """The value with every type spelt out: 1, True and Decimal(1) are equal to Python, not here."""
    if isinstance(value, dict):
        return {key: typed(part) for key, part in value.items()}
    if isinstance(value, list):
        return [typed(part) for part in value]
    if isinstance(value, frozenset):
        return frozenset((type(part), part) for part in value)
    return type(value), value


@settings(max_examples=500)
@example({})
@example({"a": "1", "b": 1, "c": b"1", "d": True, "e": "true", "f": None, "g": "null", "h": Decimal("1.5"), "i": "[]"})
@example({"m": {"$set": [1]}, "n": {"$bytes": "YQ=="}, "o": {"$$set": {"$": 1}}, "p": [frozenset({1}), b"a", True]})
@given(st.dictionaries(texts.filter(lambda name: name != "_types"), values, max_size=4))
def test_an_item_comes_back_as_it_was(item: dict[str, Any]) -> None:
    assert typed(decode(stored(item))) == typed(item)


def test_values_are_written_as_people_write_them() -> None:
    item = {
        "_t": "Order",
        "total": Decimal("12.5"),
        "count": 3,
        "gift": True,
        "note": None,
        "raw": b"\x00\xff",
        "lines": [{"sku": "é", "price": Decimal("0.10")}],
        "tags": frozenset({"b", "a"}),
    }
    assert encode(item, "k") == (
        ("_t", b"Order"),
        ("total", b"12.5"),
        ("count", b"3"),
        ("gift", b"true"),
        ("note", b"null"),
        ("raw", b"\x00\xff"),
        ("lines", '[{"sku": "é", "price": 0.10}]'.encode()),
        ("tags", b'{"$set": ["a", "b"]}'),
        (
            "_types",
            (
                b'{"number": ["total", "count"], "bool": ["gift"], "null": ["note"], "bytes": ["raw"], '
                b'"json": ["lines", "tags"]}'
            ),
        ),
    )


def test_an_item_of_strings_needs_no_list_of_types() -> None:
    assert encode({"_t": "Pet", "name": "Rex"}, "k") == (("_t", b"Pet"), ("name", b"Rex"))


def test_cells_of_other_families_are_not_the_items() -> None:
    assert decode(Row(b"k", (Cell("d", b"a", b"1"), Cell("x", b"b", b"2"), Cell("x", b"_types", b"no json")))) == {
        "a": "1"
    }


@pytest.mark.parametrize(
    "cells",
    [
        {"a": b"\xff"},
        {"a": b"x", "_types": b'{"number": ["a"]}'},
        {"a": b"x", "_types": b'{"bool": ["a"]}'},
        {"a": b"{", "_types": b'{"json": ["a"]}'},
        {"a": b"x", "_types": b'{"later": ["a"]}'},
        {"a": b"x", "_types": b"[]"},
        {"a": b"x", "_types": b"no json"},
        {"a": b'{"$bytes": 1}', "_types": b'{"json": ["a"]}'},
        {"a": b'{"$set": [[]]}', "_types": b'{"json": ["a"]}'},
    ],
)
def test_a_row_of_somebody_else_is_told(cells: dict[str, bytes]) -> None:
    with pytest.raises(BackendError, match=r"'hats#brandA' is not one that odm wrote"):
        decode(row(cells))


@pytest.mark.parametrize(
    ("item", "error", "message"),
    [
        ({"n" * (MAX_QUALIFIER + 1): "x"}, BadValue, "name of 16385 bytes"),
        ({"a": "x" * (MAX_CELL + 1)}, ItemTooLarge, "'a' of the item 'c1#o1' has 104857601 bytes"),
        ({str(number): "" for number in range(MAX_CELLS + 1)}, ItemTooLarge, "99999 attributes"),
        ({"a": 1.5}, BadValue, "'a' of the item 'c1#o1' is a float"),
        ({"a": [1.5]}, BadValue, "1.5 is a float"),
        ({"_types": "x"}, BadValue, "reserved"),
    ],
    ids=["name", "cell", "cells", "float", "inner", "reserved"],
)
def test_what_a_row_can_not_hold_is_refused(item: dict[str, Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        encode(item, "c1#o1")
