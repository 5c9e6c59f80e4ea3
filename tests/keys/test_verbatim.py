"""The laws of keys as they are: injective and safe to query by prefix, on any text; and numbers that sort as text."""

from decimal import Context, Decimal
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from odm import Entity, KeyValueError, PrimaryKey, Table
from odm.backends.dynamodb.described import native_text, native_value
from odm.backends.dynamodb.ranges import native_bounds
from odm.keys import Template, can_equal, can_overlap, compile_verbatim, next_prefix, number_of, number_text
from odm.keys.text import escape, unescape
from odm.schema.described import forms_of

table = Table("verbatim", keys=("PK", "SK"), key_style="verbatim", tag=None)


class Thing(Entity, table=table):
    a: str
    b: str
    n: int

    primary = PrimaryKey("{a}", "{b}")


ENTITY = table.compile().entities["Thing"]
ALPHABET = 'ab#|_:. "!$09-Ä\U0010ffff'
values = st.text(ALPHABET, min_size=1, max_size=6)
numbers = st.integers(-20, 200)
literals = st.text('ab#|_:. "', max_size=3)
rows = st.fixed_dictionaries({"a": values, "b": values, "n": numbers})


@st.composite
def templates(draw: st.DrawFn) -> Template:
    """Literals and placeholders in turn, with a literal between two placeholders."""
    text = draw(literals)
    for at, name in enumerate(draw(st.permutations(["a", "b", "n"]))[: draw(st.integers(0, 3))]):
        between = draw(literals.filter(bool)) if at else ""
        text += f"{between}{{{name}}}"
    text += draw(literals)
    assume(text)
    return made(text)


def made(text: str) -> Template:
    return compile_verbatim(text, Thing.model_fields, forms_of(ENTITY.codec), owner="Thing.key")


def key_of(template: Template, row: dict[str, Any]) -> str:
    try:
        key = template.encode(row)
    except KeyValueError:
        assume(False)  # the value contains the literal behind it
        raise
    assert key is not None
    return key


@given(templates(), rows, rows)
def test_different_values_give_different_keys_and_are_read_back(
    template: Template, row: dict[str, Any], other: dict[str, Any]
) -> None:
    key = key_of(template, row)
    assert template.read(key) == {name: row[name] for name in template.fields}
    assert template.written(row) == key
    if any(row[name] != other[name] for name in template.fields):
        assert key_of(template, other) != key


@given(templates(), rows, rows, st.integers(0, 3))
def test_leading_values_are_one_range(
    template: Template, row: dict[str, Any], other: dict[str, Any], count: int
) -> None:
    names = tuple(dict.fromkeys(template.fields))[:count]
    key_of(template, row)
    span = template.span({name: row[name] for name in names})
    key = key_of(template, other)
    inside = span.lo <= key and (span.hi is None or key < span.hi)
    assert inside is all(row[name] == other[name] for name in names)


@given(templates(), templates(), rows, rows)
def test_a_common_key_is_never_denied(one: Template, two: Template, row: dict[str, Any], other: dict[str, Any]) -> None:
    key = key_of(one, row)
    read = two.read(key)
    if read is not None:
        assert can_equal(one, two)
        assert can_equal(two, one)
    head = one.span({}).lo
    if key_of(two, other).startswith(head):
        assert can_overlap(one, two)


def test_a_value_with_the_literal_behind_it_is_refused() -> None:
    template = made("U#{a}##{b}")
    assert template.encode({"a": "x", "b": "y##z"}) == "U#x##y##z"
    for value in ("x##", "x##y", "##"):
        with pytest.raises(KeyValueError, match="which ends the value"):
            template.encode({"a": value, "b": "y"})
    with pytest.raises(KeyValueError, match="which ends the value"):
        template.encode({"a": "x#", "b": "y"})  # would be read as "x"


decimals = st.one_of(
    st.integers(-(10**38) + 1, 10**38 - 1),
    st.builds(
        lambda digits, scale: Decimal(digits).scaleb(scale, Context(prec=40)),
        st.integers(-(10**38) + 1, 10**38 - 1),
        st.integers(-130, 80),
    ),
)


@given(decimals, decimals)
def test_texts_of_numbers_sort_as_the_numbers(one: Any, two: Any) -> None:
    assert number_of(number_text(one)) == one
    assert (number_text(one) < number_text(two)) is (one < two)
    assert (number_text(one) == number_text(two)) is (one == two)


@given(st.integers(-50, 50), st.integers(-50, 50), st.booleans(), st.booleans())
def test_bounds_of_numbers_hold_exactly_the_numbers_between(low: int, high: int, over: bool, upto: bool) -> None:
    found = native_bounds(number_text(low) + "\0" * over, number_text(high) + "\0" * upto, "N")
    for number in (Decimal(n) / 2 for n in range(-110, 110)):
        wanted = (number > low if over else number >= low) and (number <= high if upto else number < high)
        assert (found is not None and found[0] <= number <= found[1]) is wanted


@given(st.binary(min_size=1, max_size=4), st.binary(max_size=3))
def test_bounds_of_bytes_hold_exactly_the_bytes_with_a_prefix(value: bytes, head: bytes) -> None:
    lo = head.hex()
    low, high = native_bounds(lo, next_prefix(lo), "B") or (b"\xff" * 9, b"")
    inside = (not low or low <= value) and (high is None or value <= high)
    assert inside is value.startswith(head)
    assert native_value(native_text(value, "B"), "B") == value


@given(st.text(), st.text())
def test_escaped_texts_sort_as_they_are(one: str, two: str) -> None:
    assert unescape(escape(one)) == one
    assert (escape(one) < escape(two)) is (one < two)
    assert "#" not in escape(one)
