import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from odm.backends.dynamodb.ranges import MAX_SORT_KEY, bounds, ceiling, predecessor

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
