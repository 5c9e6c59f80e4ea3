"""Ranges: a key lies in the span of some bounds exactly if its values satisfy them."""

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odm.errors import BadValue, KeyValueError
from odm.keys import Op, Span, next_prefix
from tests.keys.cases import OPS, PROPERTY, TEMPLATES, Case, Drawn, compiled, values_of

NOON = datetime(2024, 1, 1, 12, 0, 0, tzinfo=UTC)
TICK = timedelta(microseconds=1)
Bounds = Sequence[tuple[Op, Any]]


def contains(span: Span, key: str) -> bool:
    return span.lo <= key and (span.hi is None or key < span.hi)


def holds(value: Any, op: Op, bound: Any) -> bool:
    match op:
        case "<":
            return bool(value < bound)
        case "<=":
            return bool(value <= bound)
        case ">":
            return bool(value > bound)
        case ">=":
            return bool(value >= bound)
        case "prefix":
            return bool(value.startswith(bound))


@st.composite
def bounds_on(draw: st.DrawFn, case: Case, near: Any) -> list[tuple[Op, Any]]:
    ops: list[Op] = [*OPS, "prefix"] if case.variable or case.field == "symbol" else OPS
    values = case.bounds | case.values | st.just(near)
    return draw(st.lists(st.tuples(st.sampled_from(ops), values), max_size=2))


@st.composite
def searches(draw: st.DrawFn) -> tuple[Drawn, dict[str, Any], Bounds, dict[str, Any]]:
    """A template, given leading values, bounds on the next one, and the values of some item."""
    drawn = draw(TEMPLATES)
    item = values_of(draw, drawn)
    names = drawn.template.fields
    count = draw(st.integers(0, len(names)))
    known = {name: item[name] for name in names[:count]}
    at = next((at for at, name in enumerate(names) if name not in known), None)
    bounds = draw(bounds_on(drawn.cases[at], item[names[at]])) if at is not None else []
    return drawn, known, bounds, values_of(draw, drawn, like=item)


@PROPERTY
@given(searches())
def test_a_key_is_in_the_span_exactly_if_its_values_satisfy_the_bounds(
    search: tuple[Drawn, dict[str, Any], Bounds, dict[str, Any]],
) -> None:
    drawn, known, bounds, item = search
    span = drawn.template.span(known, bounds)
    inside = contains(span, drawn.key(item))
    bounded = next((name for name in drawn.template.fields if name not in known), None)
    satisfied = all(item[name] == value for name, value in known.items()) and all(
        bounded is not None and holds(item[bounded], op, value) for op, value in bounds
    )
    if span.exact:
        assert inside == satisfied
    else:
        assert inside or not satisfied
    if inside:
        leading = [case for case in drawn.cases if case.field in known]
        firsts = leading[: next((n for n, case in enumerate(drawn.cases) if case.field not in known), None)]
        assert all(case.rank(item[case.field]) == case.rank(known[case.field]) for case in firsts)


@pytest.mark.parametrize(
    ("template", "known", "bounds", "lo", "hi"),
    [
        ("T#{text}#{other}", {}, [(">", "a")], "T#a$", "T$"),
        ("T#{text}#{other}", {}, [("<=", "a")], "T#", "T#a$"),
        ("T#{text}#{other}", {}, [(">=", "a")], "T#a", "T$"),
        ("T#{text}#{other}", {}, [("<", "a")], "T#", "T#a"),
        ("T#{text}#{other}", {"text": "a"}, [(">", "b")], "T#a#b\0", "T#a$"),
        ("T#{text}#{other}", {"text": "a"}, [("<=", "b")], "T#a#", "T#a#b\0"),
        ("T#{text}#{other}", {"text": "a"}, [("prefix", "b#")], "T#a#b$S", "T#a#b$T"),
        ("T#{text}#{other}", {"text": "a"}, [("prefix", "")], "T#a#", "T#a$"),
        ("T#{text}#{other}", {"text": "a", "other": "b"}, [], "T#a#b", "T#a#b\0"),
        ("PROFILE", {}, [], "PROFILE", "PROFILE\0"),
        ("{text}", {}, [], "", None),
        ("{text}", {}, [(">", "a")], "a\0", None),
        ("v{level}x#{text}", {}, [(">", 5)], "v006", "w"),
        ("{level}#{text}", {}, [("<=", 5)], "", "005$"),
        ("L#{level:desc}", {}, [(">", 5)], "L#", "L#994"),
        ("L#{level:desc}", {}, [("<=", 5)], "L#994", "L$"),
        ("L#{level}", {}, [(">", 5), ("<", 9), (">=", 7)], "L#007", "L#009"),
        ("L#{level}", {}, [("<", 1000)], "L#", "L$"),
        ("B#{balance}", {}, [(">", -51)], "B#", "B$"),
        ("P#{price}", {}, [(">", Decimal("-10.01"))], "P#", "P$"),
        ("R#{ratio}", {}, [("<", 10**400)], "R#", "R$"),
        ("S#{symbol:<5}", {}, [(">", "")], "S#", "S$"),
        ("S#{blob}", {}, [(">", b"")], "S#", "S$"),
        ("S#{blob}", {}, [("prefix", b"\x01")], "S#01", "S#02"),
        ("D#{day:%Y%m}#{text}", {"day": date(2024, 1, 31)}, [], "D#202401#", "D#202401$"),
    ],
)
def test_edges(template: str, known: dict[str, Any], bounds: Bounds, lo: str, hi: str | None) -> None:
    span = compiled(template).span(known, bounds)
    assert (span.lo, span.hi) == (lo, hi)


@pytest.mark.parametrize(
    ("template", "bounds"),
    [
        ("L#{level}", [(">", 1000)]),
        ("L#{level}", [("<", 0)]),
        ("L#{level:desc}", [("<", 0)]),
        ("L#{level}", [(">", 5), ("<", 5)]),
        ("N#{number}", [(">", 10**30)]),
        ("N#{number:desc}", [("<=", -(10**30))]),
        ("{number}", [(">", 10**30)]),
        ("{price}", [(">=", Decimal("Infinity"))]),
        ("{at:s}", [("<", datetime(1969, 12, 31, tzinfo=UTC))]),
        ("{text}", [("<", "")]),
        ("{symbol:<5}x", [("prefix", "ABCDEF")]),
        ("{at:s}", [(">=", datetime(2286, 11, 20, 17, 46, 40, tzinfo=UTC))]),
        ("{ratio}", [(">", float("inf"))]),
    ],
)
def test_bounds_that_no_value_satisfies_are_empty(template: str, bounds: Bounds) -> None:
    assert compiled(template).span({}, bounds).empty


@pytest.mark.parametrize(
    ("op", "value", "exact"),
    [
        (">=", NOON, True),
        (">=", NOON + TICK, False),
        (">", NOON - TICK, True),
        (">", NOON, False),
        ("<", NOON, True),
        ("<", NOON + TICK, False),
        ("<=", NOON - TICK, True),
        ("<=", NOON, False),
    ],
)
@pytest.mark.parametrize("form", ["at:s", "at:s:desc", "at:%Y%m%d%H", "at:%Y%m%d%H:desc"])
def test_a_bound_on_the_edge_of_a_unit_is_exact(form: str, op: Op, value: datetime, exact: bool) -> None:
    assert compiled(f"T#{{{form}}}").span({}, [(op, value)]).exact is exact


def test_the_last_day_of_a_month_is_its_edge() -> None:
    months = compiled("{day:%Y%m}")
    assert months.span({}, [(">", date(2023, 9, 30))]) == Span("202309\0", None, exact=True)
    assert months.span({}, [("<=", date(9999, 12, 31))]).exact
    assert months.span({}, [("<=", date(2023, 9, 29))]) == Span("", "202309\0", exact=False)


def test_a_given_lossy_value_is_not_exact_unless_another_slot_tells_it() -> None:
    assert not compiled("{at:s}#{text}").span({"at": NOON}).exact
    assert compiled("{at:s}#{at}#{text}").span({"at": NOON}).exact


@pytest.mark.parametrize(
    ("template", "value", "below"),
    [
        ("{price}", Decimal("1.005"), "01100"),
        ("{symbol:<5}", "ABCDEF", "ABCDE"),
        ("{ratio}", 2**53 + 1, "c340000000000000"),
    ],
)
def test_a_bound_between_two_storable_values_is_exact(template: str, value: Any, below: str) -> None:
    ops: list[tuple[Op, Op]] = [(">", "<"), (">=", "<=")]
    for above, under in ops:
        assert compiled(template).span({}, [(above, value)]) == Span(f"{below}\0", None, exact=True)
        assert compiled(template).span({}, [(under, value)]) == Span("", f"{below}\0", exact=True)


def test_two_bounds_are_exact_only_if_both_are() -> None:
    span = compiled("{at:s}").span({}, [(">=", NOON), ("<", NOON + TICK)])
    assert span == Span("1704110400", "1704110400\0", exact=False)


@pytest.mark.parametrize("known", [{"other": "a"}, {"text": "a", "symbol": "b"}])
def test_gaps_and_strangers_are_refused(known: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"Everything\.pattern: (other|symbol) cannot be given .* text, other"):
        compiled("{text}#{other}").span(known)


def test_bounds_need_a_slot() -> None:
    with pytest.raises(ValueError, match=r"Everything\.pattern: .* nothing to bound"):
        compiled("{text}").span({"text": "a"}, [("<", "b")])


@pytest.mark.parametrize(
    ("template", "op", "value", "why"),
    [
        ("{level}", "<", "5", "int"),
        ("{level}", "<", True, "int"),
        ("{level}", "prefix", 5, "prefix"),
        ("{text}", "<", 5, "str"),
        ("{text}", "<", None, "str"),
        ("{text}", "prefix", "\ud800", "surrogate"),
        ("{at:s}", "<", datetime(2024, 1, 1), "time zone"),
        ("{day}", "<", NOON, "date"),
        ("{at}", "<", date(2024, 1, 1), "datetime"),
        ("{price}", "<", Decimal("NaN"), "not a number"),
        ("{ratio}", "<", float("nan"), "not a number"),
    ],
)
def test_bounds_of_another_type_are_refused(template: str, op: Op, value: Any, why: str) -> None:
    with pytest.raises(KeyValueError, match=why) as caught:
        compiled(template).span({}, [(op, value)])
    assert isinstance(caught.value, BadValue)
    for part in ("Everything.pattern", compiled(template).fields[0], repr(value)):
        assert part in str(caught.value)


@pytest.mark.parametrize(
    ("text", "above"),
    [
        ("", None),
        ("a", "b"),
        ("a#", "a$"),
        ("a\ud7ff", "a\ue000"),
        ("a\U0010ffff", "b"),
        ("\U0010ffff", None),
        ("\uffff", "\U00010000"),
    ],
)
def test_next_prefix(text: str, above: str | None) -> None:
    assert next_prefix(text) == above


@pytest.mark.parametrize("template", ["{level}", "{number}", "{level:desc}", "{number:desc}", "{price}"])
@pytest.mark.parametrize("op", ["<", "<=", ">", ">="])
@given(bound=st.floats(-20, 1100) | st.decimals(-20, 1100, places=3) | st.sampled_from([math.inf, -math.inf]))
def test_a_bound_may_be_any_number(template: str, op: Op, bound: float | Decimal) -> None:
    made = compiled(template)
    [field] = made.fields
    span = made.span({}, [(op, bound)])
    for value in (1, 2, 9, 10, 11, 50, 98, 99):
        number = Decimal(value) if field == "price" else value
        key = made.encode({field: number})
        assert key is not None
        holds = {"<": value < bound, "<=": value <= bound, ">": value > bound, ">=": value >= bound}[op]
        assert (span.lo <= key and (span.hi is None or key < span.hi)) == holds
