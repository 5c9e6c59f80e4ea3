"""Values as cells, and back."""

import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from odm.backends.bigtable.rows.cells import (
    INT64,
    NUMBER,
    member_qualifier,
    qualifier,
    read,
    read_counter,
    read_member,
    read_qualifier,
    set_member,
    write,
    write_counter,
)
from odm.backends.bigtable.rows.codec import UNREADABLE
from odm.errors import BadValue
from tests.backends.bigtable.values import numbers, texts, typed, values
from tests.effort import times

LIKE_OTHERS = [
    *["0", "-1", "12.5", "01", "1.0", "-0", "1e5", "+1", ".5", "5.", "--1", "-", "1\n", "\u0661"],
    *["true", "True", "false", "null", "None", "nullx", "truely"],
    *["", "'", "''", "'5", "[", "[]", "{", '{"a": 1}', "\0", "\0x", "2023-09-10T15:21:48.000000Z", "é"],
]


@settings(max_examples=times(200, 1000))
@example(Decimal("1E-130"))
@example(int(Decimal("9.99E+125")))
@example(-Decimal("9.9999999999999999999999999999999999999E-92"))
@example({"$set": [1], "$$": {"$bytes": "YQ=="}})
@example([frozenset({b"\0", b""}), b"'", True, 1, None])
@given(values)
def test_a_value_round_trips(value: Any) -> None:
    assert typed(read(write(value))) == typed(value)


@pytest.mark.parametrize("text", LIKE_OTHERS)
def test_a_text_stays_a_text(text: str) -> None:
    assert typed(read(write(text))) == (str, text)


@given(values, values)
def test_no_two_values_have_one_cell(one: Any, other: Any) -> None:
    assert (write(one) == write(other)) <= (typed(one) == typed(other))


@given(st.sampled_from(LIKE_OTHERS) | st.text("01-.'[{truefalsn\0", max_size=6))
def test_only_texts_that_read_as_another_get_an_apostrophe(text: str) -> None:
    other = (
        re.fullmatch(NUMBER.pattern.decode(), text) or text in ("true", "false", "null") or text[:1] in tuple("'[{\0")
    )
    assert write(text) == (b"'" if text and other else b"") + text.encode()


@example(Decimal("1E-130"))
@example(int(Decimal("9.99E+125")))
@given(numbers)
def test_a_number_is_written_out_and_in_one_way_only(number: int | Decimal) -> None:
    cell = write(number)
    assert NUMBER.fullmatch(cell)
    assert Decimal(cell.decode()) == number
    assert write(Decimal(number)) == cell
    assert write([number]) == b"[" + cell + b"]"


@given(numbers, numbers)
def test_numbers_sort_by_their_digits_before_the_point_then_as_text(one: int | Decimal, other: int | Decimal) -> None:
    """Filters for ranges of numbers rely on this."""

    def ranked(number: int | Decimal) -> tuple[int, bytes]:
        text = write(number).removeprefix(b"-")
        whole, _, _ = text.partition(b".")
        return len(whole), text

    assert (ranked(one) < ranked(other)) == (Decimal(one).copy_abs() < Decimal(other).copy_abs())


@pytest.mark.parametrize(
    ("value", "cell"),
    [
        (12, b"12"),
        (Decimal("-12.50"), b"-12.5"),
        (Decimal("0.000001"), b"0.000001"),
        (Decimal("1E+3"), b"1000"),
        (True, b"true"),
        (None, b"null"),
        (b"\xff", b"\0\xff"),
        ([{"sku": "é", "price": Decimal("0.10")}], '[{"sku": "é", "price": 0.1}]'.encode()),
        (frozenset({"b", "a"}), b'{"$set": ["a", "b"]}'),
        ("12345", b"'12345"),
        ("0123", b"0123"),
        ("2023-09-10T15:21:48.000000Z", b"2023-09-10T15:21:48.000000Z"),
    ],
)
def test_cells_by_example(value: Any, cell: bytes) -> None:
    assert write(value) == cell


@pytest.mark.parametrize("value", [1.5, [1.5], {1}, Decimal("NaN"), [Decimal("Infinity")], "\ud800", ["\ud800"]])
def test_values_that_cannot_be_stored_are_refused(value: Any) -> None:
    with pytest.raises(BadValue):
        write(value)


@pytest.mark.parametrize(
    "cell", [b"\xff", b"5\xff", b"'\xff", b"[", b"[NaN]", b'{"$bytes": 1}', b'{"$set": [[]]}', b"{}x"]
)
def test_cells_that_odm_does_not_write_are_errors(cell: bytes) -> None:
    with pytest.raises((ValueError, TypeError, LookupError)):
        read(cell)


@given(st.integers(INT64[0], INT64[-1]))
def test_a_counter_comes_back(value: int) -> None:
    cell = write_counter(value)
    assert (len(cell), read_counter(cell)) == (8, value)


@pytest.mark.parametrize("value", [2**63, -(2**63) - 1])
def test_a_counter_has_64_bits(value: int) -> None:
    with pytest.raises(BadValue, match=f"{value} is not a 64-bit number"):
        write_counter(value)


@pytest.mark.parametrize("cell", [b"", b"1", b"123456789"])
def test_a_counter_has_8_bytes(cell: bytes) -> None:
    with pytest.raises(ValueError, match="8 bytes"):
        read_counter(cell)


@given(texts | st.text("#$ST", max_size=5), st.none() | texts | st.text("#$ST", max_size=5))
def test_a_qualifier_names_attribute_and_member(name: str, member: str | None) -> None:
    column = qualifier(name) if member is None else member_qualifier(name, member)
    assert read_qualifier(column.encode()) == (name, member)


def test_qualifiers_by_example() -> None:
    assert [qualifier("views"), qualifier("a#$b"), member_qualifier("tags", "a#b")] == ["views", "a$S$Tb", "tags#a#b"]


@example("12", 12)
@example(b"12", "12")
@given(texts | numbers | st.binary(max_size=5), texts | numbers | st.binary(max_size=5))
def test_the_members_of_sets_come_back(one: Any, other: Any) -> None:
    assert typed(read_member(set_member(one))) == typed(one)
    assert (set_member(one) == set_member(other)) == (typed(one) == typed(other))


@pytest.mark.parametrize("text", ["1e999999999", "-1e-999999999", "1e99999999999999999999", "NaN", "9" * 5000])
def test_a_number_that_no_item_has_cannot_be_read(text: str) -> None:
    """An int of a billion digits, or its text, would take hours."""
    for cell in (f'{{"a": {text}}}', f'{{"$set": [{text}]}}', f"[{text}]"):
        with pytest.raises(UNREADABLE):
            read(cell.encode())
