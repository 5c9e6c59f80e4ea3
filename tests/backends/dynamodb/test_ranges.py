from decimal import Context, Decimal
from typing import Any, Final

import pytest
from hypothesis import assume, example, given, settings
from hypothesis import strategies as st

from odm import Entity, PrimaryKey, Table
from odm.backends.dynamodb.key_conditions import MAX_SORT_KEY, bounds, ceiling, native_bounds, predecessor
from odm.expressions.nodes import Value
from odm.keys import Op, Span, Template, compile_verbatim, number_text
from odm.schema.described import forms_of
from tests.effort import times

pytestmark = pytest.mark.slow

_CHARACTERS = st.sampled_from("\0\x01$/0Aaz\x7f\x80\u07ff\u0800\ud7ff\ue000\uffff\U00010000\U0010ffff") | st.characters(
    exclude_categories=["Cs"]
)
_SHORT = st.text(_CHARACTERS, max_size=6)
# Texts whose end is close to the limit of 1,024 bytes.
_TEXT = st.builds(lambda pad, end: "x" * pad + end, st.sampled_from([0, 1, 1018, 1020, 1022, 1023, 1024]), _SHORT)
_KEY = _TEXT.filter(lambda text: 0 < len(text.encode()) <= MAX_SORT_KEY)


def _fits(text: str) -> bool:
    return len(text.encode()) <= MAX_SORT_KEY


@given(_TEXT.filter(bool), _KEY)
@example("\ue000", "\ud7ff")
@example("a\0", "a")
def test_no_key_lies_between_a_text_and_its_predecessor(text: str, key: str) -> None:
    below = predecessor(text)
    assert _fits(below)
    assert below < text
    assert (key < text) == (key <= below)


@given(_TEXT, _KEY)
def test_no_key_lies_between_a_text_and_its_ceiling(text: str, key: str) -> None:
    above = ceiling(text)
    if above is None:
        assert key < text
        return
    assert _fits(above)
    assert above >= text
    assert (key >= text) == (key >= above)


@given(_TEXT, _TEXT | st.none(), _KEY)
def test_bounds_hold_exactly_the_keys_of_the_range(lo: str, hi: str | None, key: str) -> None:
    assume(hi is None or lo < hi)
    found = bounds(lo, hi)
    inside = lo <= key and (hi is None or key < hi)
    if found is None:
        assert not inside
    else:
        low, high = found
        assert inside == (low <= key and (high is None or key <= high))


@pytest.mark.parametrize("hi", ["b", "ORDER$", "x" * 1024, "\0\0", "a" * 2000])
def test_a_predecessor_is_the_highest_key_there_is(hi: str) -> None:
    below = predecessor(hi)
    assert not _fits(below + "\0") or below + "\0" == hi


@pytest.mark.parametrize(
    ("lo", "hi", "expected"),
    [
        ("", None, ("", None)),
        ("a", None, ("a", None)),
        ("a", "a\0", ("a", "a")),
        ("", "\0", None),
        ("\U0010ffff" * 257, None, None),
        ("y" * 1025, None, ("y" * 1023 + "z", None)),
        ("y" * 1025, "y" * 1025 + "\0", None),
    ],
)
def test_bounds_by_example(lo: str, hi: str | None, expected: tuple[str, str | None] | None) -> None:
    assert bounds(lo, hi) == expected


native = Table("native")


class Native(Entity, table=native):
    number: Decimal
    blob: bytes

    primary = PrimaryKey("N", "X")  # odm: ignore[constant-key]


_FORMS: Final = forms_of(native.compile().entities["Native"].codec)
_NUMBER: Final = compile_verbatim("{number}", Native.model_fields, _FORMS, owner="Native.p", native="N")
_BLOB: Final = compile_verbatim("{blob}", Native.model_fields, _FORMS, owner="Native.p", native="B")
_MOST: Final = Decimal("9." + "9" * 37 + "E+125")
_EDGES: Final = [Decimal(0), Decimal("1E-130"), _MOST, Decimal(1), Decimal("1." + "0" * 36 + "1"), Decimal(10)]
_NUMBERS: Final = (
    st.sampled_from([*_EDGES, *(edge.copy_negate() for edge in _EDGES)])
    | st.integers(-(10**38) + 1, 10**38 - 1).map(Decimal)
    | st.integers(-20, 20).map(Decimal)
    | st.decimals(-3, 3, places=37)
    | st.builds(Decimal, st.builds("{}E{}".format, st.integers(-999, 999), st.integers(-130, 123)))
)
_BYTES: Final = (
    st.binary(min_size=1, max_size=3)
    | st.lists(
        st.sampled_from([b"\0", b"\x01", b"\x09", b"\x0f", b"\x10", b"\xfe", b"\xff"]), min_size=1, max_size=4
    ).map(b"".join)
    | st.builds(lambda pad, end: b"x" * pad + end, st.sampled_from([1021, 1022]), st.binary(min_size=1, max_size=2))
)
_OPS: Final[list[Op]] = ["<", "<=", ">", ">="]


@st.composite
def _spans(draw: st.DrawFn, template: Template, values: st.SearchStrategy[Any]) -> tuple[Span, Any]:
    """A span, and a value that is often close to its ends."""
    name = template.fields[0]
    ops: list[Op] = [*_OPS, "prefix"] if template is _BLOB else _OPS
    given = draw(st.lists(st.tuples(st.sampled_from(ops), values), max_size=3))
    near = draw(st.sampled_from([bound for _, bound in given]) | values) if given else draw(values)
    if template is _BLOB:
        near = draw(st.sampled_from([near, near + b"\0", near + b"\xff", near[:-1], near[:-1] + b"\xff"]))
        assume(0 < len(near) <= MAX_SORT_KEY)
    elif draw(st.booleans()):
        near = draw(st.sampled_from([_CONTEXT.next_plus(near), _CONTEXT.next_minus(near)]))
        assume(not near or -130 <= near.adjusted() <= 125)
    bounded: bool = draw(st.booleans())
    if given and bounded:
        return template.span({}, given), near
    if bounded:
        return template.span({}, ()), near
    return template.span({name: draw(values)}), near


def _text(value: Any) -> str:
    return number_text(value) if isinstance(value, Decimal) else value.hex()


def _is_within(found: tuple[Value, Value] | None, value: Any) -> bool:
    if found is None:
        return False
    low, high = found
    return (low is None or low <= value) and (high is None or value <= high)


def _is_number(number: Value) -> bool:
    return number is None or not number or (number.is_finite() and -130 <= number.adjusted() <= 125)


_CONTEXT: Final = Context(prec=38)


@settings(max_examples=times(500, 2_000))
@given(_spans(_NUMBER, _NUMBERS))
def test_bounds_of_numbers_hold_exactly_the_numbers_of_the_range(case: tuple[Span, Decimal]) -> None:
    span, number = case
    found = native_bounds(span.lo, span.hi, "N")
    inside = span.lo <= _text(number) and (span.hi is None or _text(number) < span.hi)
    assert _is_within(found, number) == inside
    assert found is None or all(map(_is_number, found)), found


@settings(max_examples=times(500, 2_000))
@given(_spans(_BLOB, _BYTES))
def test_bounds_of_bytes_hold_exactly_the_bytes_of_the_range(case: tuple[Span, bytes]) -> None:
    span, value = case
    found = native_bounds(span.lo, span.hi, "B")
    inside = span.lo <= _text(value) and (span.hi is None or _text(value) < span.hi)
    assert _is_within(found, value) == inside
    if found is not None:
        low, high = found
        assert len(low) <= MAX_SORT_KEY
        assert high is None or 0 < len(high) <= MAX_SORT_KEY


@pytest.mark.parametrize(
    ("lo", "hi", "kind", "expected"),
    [
        ("", None, "N", (None, None)),
        ("", "", "N", None),
        ("", "", "B", None),
        ("", None, "B", (b"", None)),
        ("ff", "fg", "B", (b"\xff", None)),
        ("00ff", "00fg", "B", (b"\0\xff", b"\0\xff" + b"\xff" * 1022)),
        ("09", "0:", "B", (b"\x09", b"\x09" + b"\xff" * 1023)),
        ("01", "01\0", "B", (b"\x01", b"\x01")),
        (number_text(_MOST) + "\0", None, "N", None),
        ("", number_text(_MOST.copy_negate()), "N", None),
        ("", number_text(Decimal("1E-130")), "N", (None, Decimal(0))),
        ("o\0", None, "N", (Decimal("1E-130"), None)),
        ("o", "o\0", "N", (Decimal(0), Decimal(0))),
    ],
)
def test_native_bounds_by_example(lo: str, hi: str | None, kind: str, expected: tuple[Value, Value] | None) -> None:
    assert native_bounds(lo, hi, kind) == expected
