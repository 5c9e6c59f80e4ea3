"""The three laws of keys, on random templates of every type, format and direction in every position."""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.keys.cases import LAW, TEMPLATES, Drawn, values_of


@st.composite
def pairs(draw: st.DrawFn) -> tuple[Drawn, dict[str, Any], dict[str, Any]]:
    drawn = draw(TEMPLATES)
    values = values_of(draw, drawn)
    return drawn, values, values_of(draw, drawn, like=values)


@LAW
@given(pairs())
def test_different_values_give_different_keys(pair: tuple[Drawn, dict[str, Any], dict[str, Any]]) -> None:
    drawn, one, other = pair
    assert (drawn.key(one) == drawn.key(other)) == (drawn.ranks(one) == drawn.ranks(other))


@LAW
@given(pairs())
def test_keys_sort_as_the_tuples_of_values(pair: tuple[Drawn, dict[str, Any], dict[str, Any]]) -> None:
    drawn, one, other = pair
    left, right = drawn.key(one), drawn.key(other)
    assert (left.encode() < right.encode()) == (left < right) == (drawn.ranks(one) < drawn.ranks(other))


@LAW
@given(pairs(), st.integers(0, 3))
def test_keys_that_share_components_are_one_range(
    pair: tuple[Drawn, dict[str, Any], dict[str, Any]], count: int
) -> None:
    drawn, one, other = pair
    shared = [case for cases in drawn.by_component[:count] for case in cases]
    names = {case.field for case in shared}
    # A field that comes again later is given there too, so only what is not given yet decides where the range ends.
    leading = next((n for n, case in enumerate(drawn.cases) if case.field not in names), len(drawn.cases))
    span = drawn.template.span({name: one[name] for name in names})
    inside = span.lo <= (key := drawn.key(other)) and (span.hi is None or key < span.hi)
    assert inside == (drawn.ranks(one)[:leading] == drawn.ranks(other)[:leading])
