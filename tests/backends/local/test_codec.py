"""Items encoded and decoded, for all types of values and for maps that look like tags."""

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odm.backends.local.codec import decode, drafted, encode
from odm.errors import BackendError, BadValue
from odm.expressions.evaluate import equal
from odm.protocol.limits import item_size

NUMBERS = st.integers(-(10**38) + 1, 10**38 - 1) | st.decimals(
    allow_nan=False, allow_infinity=False, min_value="-1E+9", max_value="1E+9", places=7
).map(lambda d: int(d) if d == d.to_integral_value() else d.normalize())
TEXTS = st.text(st.characters(exclude_categories=["Cs"]), max_size=6)
SETS = (
    st.frozensets(NUMBERS, min_size=1, max_size=3)
    | st.frozensets(TEXTS, min_size=1, max_size=3)
    | st.frozensets(st.binary(max_size=4), min_size=1, max_size=3)
)
NAMES = TEXTS | st.sampled_from(["$", "$n", "$b", "$s", "$$n", "$$"])
VALUES = st.recursive(
    st.none() | st.booleans() | NUMBERS | TEXTS | st.binary(max_size=6) | SETS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=10,
)


@given(st.dictionaries(NAMES, VALUES, max_size=3))
def test_every_item_is_decoded_unchanged(item: dict[str, Any]) -> None:
    result = decode(encode(item))
    assert equal(result, item), result
    draft = drafted(item)
    assert draft.form == encode(item) == encode(draft)
    assert draft.most >= item_size(item)
    assert {**draft} == item


@pytest.mark.parametrize(
    "item",
    [
        {},
        {"$n": "1"},
        {"a": {"$n": "1"}},
        {"a": [{"$s": [1]}, {"$$b": {"$b": b"x"}}]},
        {"a": '{"$n":"1"}', "b": Decimal("1.5")},
        {"a": 10**125, "b": -(10**38) + 1, "c": Decimal("1E-130"), "d": Decimal("-9.9E-20")},
        {"a": Decimal("912752405701983.2"), "b": Decimal("0.30000000000000004"), "c": {"d": [Decimal("1E-7")]}},
        {"a": frozenset([1]), "_s": 1},
        {"a": 1, "_t": "x"},
        {"a": '\x00"\\\u2028😀'},
        {"a": True, "b": 1, "c": [False, 0]},
    ],
)
def test_maps_that_look_like_tags(item: dict[str, Any]) -> None:
    assert equal(decode(encode(item)), item)


@pytest.mark.parametrize("value", [1.5, (1,), {1: 2}.keys(), object(), [{"a": {"b": 0.5}}], "\ud800"])
def test_values_that_cannot_be_stored_are_refused(value: Any) -> None:
    with pytest.raises(BadValue, match="cannot be stored"):
        encode({"a": value})


def test_each_decode_returns_new_objects() -> None:
    data = encode({"a": [1], "b": {"c": Decimal("1.5")}})
    first = decode(data)
    first["a"].append(2)
    first["b"]["c"] = 0
    assert decode(data) == {"a": [1], "b": {"c": Decimal("1.5")}}


@pytest.mark.parametrize(
    "damaged",
    [
        *(encode({"a": 1})[:-1], b"3", b"[1]", b"[{},5]", b'[{"a":"x"},{"a":"n"}]', b"[[],[]]", b"\xff"),
        *(b'[{"a":{"$n":"1e999999999"}},["a"]]', b'[{"a":{"$n":"x"}},["a"]]', b'[{"a":{"$n":[]}},["a"]]'),
    ],
)
def test_damaged_bytes_are_reported(damaged: bytes) -> None:
    with pytest.raises(BackendError, match="a stored item is damaged"):
        decode(damaged)
