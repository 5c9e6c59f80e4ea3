"""`Ordered` has the same order as a sorted list, with few or many values."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from sortedcontainers import SortedList

from odm.backends.local import ordered
from odm.backends.local.ordered import Ordered

texts = st.text("abc", max_size=3)


@given(st.data(), st.lists(texts, unique=True, max_size=20), st.integers(0, 12))
def test_it_behaves_like_a_sorted_list(data: st.DataObject, values: list[str], few: int) -> None:
    usual, ordered.FEW = ordered.FEW, few  # type: ignore[misc]
    try:
        found: Ordered[Any] = Ordered()
        expected: SortedList[str] = SortedList()
        for value in values:
            found.add(value)
            expected.add(value)
        for value in data.draw(st.lists(st.sampled_from(values), unique=True)) if values else []:
            found.discard(value)
            expected.remove(value)
    finally:
        ordered.FEW = usual  # type: ignore[misc]
    low, high = data.draw(texts), data.draw(st.none() | texts)
    behind, reverse = data.draw(st.booleans()), data.draw(st.booleans())
    between = list(found.between(low, high, behind=behind, reverse=reverse))
    assert between == list(expected.irange(low, high, (not behind, False), reverse))
    assert bool(found) is bool(expected)


def test_values_can_be_added_and_discarded_again(monkeypatch: pytest.MonkeyPatch) -> None:
    for few in (1, 1000):
        monkeypatch.setattr(ordered, "FEW", few)
        found: Ordered[str] = Ordered()
        for value in "bdacbdacf":
            found.add(value)
        for value in "cczee":
            found.discard(value)
        assert list(found.between("", None, behind=False, reverse=False)) == ["a", "b", "d", "f"]


def test_many_values_are_stored_in_blocks() -> None:
    found: Ordered[str] = Ordered()
    values = [f"{number * 7919 % 100_003:06}" for number in range(5 * ordered.FEW)]
    for value in values:
        found.add(value)
    blocks = found._values._blocks  # type: ignore[union-attr]
    assert len(blocks) > 2
    assert max(map(len, blocks)) <= 2 * ordered.FEW
    assert list(found.between("", None, behind=False, reverse=False)) == sorted(values)
