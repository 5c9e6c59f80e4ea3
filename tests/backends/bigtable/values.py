"""Strategies for stored values."""

from decimal import Decimal
from typing import Any

from hypothesis import strategies as st

texts = st.text(st.characters(codec="utf-8"), max_size=6)
# The last digit of a fraction is not 0, so that a value is not an integer and has one form.
fractions = st.builds(
    lambda ahead, last, exponent: Decimal(f"{ahead}{last}E{exponent}"),
    st.integers(-(10**36), 10**36),
    st.integers(1, 9),
    st.integers(-130, -1),
)
numbers = st.integers(-(10**38) + 1, 10**38 - 1) | st.integers(-150, 150) | fractions
blobs = st.binary(max_size=6)
sets = st.one_of([st.frozensets(members, min_size=1, max_size=3) for members in (texts, numbers, blobs)])
keys = texts | st.sampled_from(["$set", "$bytes", "$$set", "$"])
scalars = st.none() | st.booleans() | numbers | texts | blobs | sets
values = st.recursive(
    scalars, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(keys, inner, max_size=3), max_leaves=4
)


def typed(value: Any) -> Any:
    """The value with its types, because 1, True and Decimal(1) are equal in Python."""
    if isinstance(value, dict):
        return {key: typed(part) for key, part in value.items()}
    if isinstance(value, list):
        return [typed(part) for part in value]
    if isinstance(value, frozenset):
        return frozenset((type(part), part) for part in value)
    return type(value), value
