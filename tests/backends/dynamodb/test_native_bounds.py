"""Bounds of number and binary sort keys hold exactly the values between, and their texts sort as the values do."""

from decimal import Context, Decimal
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from odm.backends.dynamodb.items.described import native_text, native_value
from odm.backends.dynamodb.key_conditions import native_bounds
from odm.keys import next_prefix, number_of, number_text
from odm.keys.text import escape, unescape

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
