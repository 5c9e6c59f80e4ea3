"""The three laws of keys, on random templates of every type, format and direction in every position."""

from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odm.errors import KeyValueError
from odm.keys import Template, pair_encoder
from tests.keys.cases import LAW, TEMPLATES, Drawn, values_of

pytestmark = pytest.mark.slow


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


class Pair(NamedTuple):
    partition: str
    sort: str


@st.composite
def keys(draw: st.DrawFn) -> tuple[Template, Template | None, dict[str, Any]]:
    """Both templates of a key, and values of which some are None or cannot be used in a key."""
    drawn = draw(st.lists(TEMPLATES, min_size=1, max_size=2))
    values = {name: value for one in drawn for name, value in values_of(draw, one).items()}
    for name in draw(st.lists(st.sampled_from(sorted(values)), max_size=2) if values else st.just([])):
        values[name] = draw(st.sampled_from([None, "", "\ud800", object(), -(10**40)]))
    return drawn[0].template, drawn[1].template if drawn[1:] else None, values


@LAW
@given(keys())
def test_both_parts_of_a_key_in_one_go_are_those_of_each_template(
    key: tuple[Template, Template | None, dict[str, Any]],
) -> None:
    partition, sort, values = key

    def apart(values: Mapping[str, Any]) -> Pair | None:
        return of_each(partition, sort, values)

    encode = pair_encoder(partition, sort, Pair, apart)
    made = outcome(encode, values)
    assert made == outcome(apart, values)
    assert type(made) in (Pair, str, type(None))


def of_each(partition: Template, sort: Template | None, values: Mapping[str, Any]) -> Pair | None:
    first, second = partition.encode(values), "" if sort is None else sort.encode(values)
    return None if first is None or second is None else Pair(first, second)


def outcome(encode: Any, values: dict[str, Any]) -> Pair | str | None:
    """The key, or the message of its refusal."""
    try:
        made: Pair | None = encode(values)
    except KeyValueError as error:
        return str(error)
    return made
