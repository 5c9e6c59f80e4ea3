"""`holds` and `apply` on stored values: DynamoDB's semantics, case by case, and laws on random items."""

from copy import deepcopy
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odm.errors import BadValue
from odm.expressions.evaluate import apply, equal, holds
from odm.expressions.nodes import (
    Action,
    AddTo,
    And,
    Append,
    Between,
    Comparator,
    Compare,
    Condition,
    Const,
    Contains,
    DiscardFrom,
    Exists,
    Increment,
    IsIn,
    Missing,
    Not,
    Or,
    Path,
    Prepend,
    Remove,
    Set,
    SetIfMissing,
    Size,
    StartsWith,
)

ITEM: dict[str, Any] = {
    "n": 5,
    "d": Decimal("5.5"),
    "s": "hello",
    "wide": "é€😀",
    "b": b"\x00\xff",
    "yes": True,
    "null": None,
    "list": [1, "a", True, [1], {"x": 1}],
    "map": {"k": 1, "deep": {"list": ["z"]}, "dotted.name": 2},
    "names": frozenset({"a", "b"}),
    "numbers": frozenset({1, Decimal("2.5")}),
}


def path(*segments: str | int) -> Path:
    return Path(segments)


def compare(left: Any, op: Comparator, right: Any) -> Compare:
    def operand(side: Any) -> Path | Size | Const:
        return side if isinstance(side, Path | Size) else Const(side)

    return Compare(op, operand(left), operand(right))


N, S, GONE = path("n"), path("s"), path("gone")

TRUE: list[Condition] = [
    compare(N, "=", 5),
    compare(N, "=", Decimal(5)),
    compare(5, "=", N),
    compare(N, "<>", "5"),
    compare(N, "<", Decimal("5.5")),
    compare(N, "<", path("d")),
    compare(N, ">=", 5),
    compare(S, ">", "hell"),
    compare(S, "<", "hello!"),
    compare(path("b"), "<", b"\x01"),
    compare("\ufeff", "<", "😀"),  # by UTF-8 bytes; by UTF-16 units it would be the other way round
    compare(path("null"), "=", None),
    compare(path("yes"), "=", True),
    compare(path("yes"), "<>", 1),
    compare(GONE, "<>", 1),
    compare(GONE, "<>", GONE),
    compare(1, "<>", GONE),
    compare(path("list", 2), "=", True),
    compare(path("list", 2), "<>", 1),
    compare(path("list", 4, "x"), "=", 1),
    compare(path("map"), "=", {"dotted.name": 2, "deep": {"list": ["z"]}, "k": Decimal(1)}),
    compare(path("map", "dotted.name"), "=", 2),
    compare(path("map", "deep", "list", 0), "=", "z"),
    compare(path("numbers"), "=", frozenset({Decimal("2.5"), 1})),
    compare(Size(S), "=", 5),
    compare(Size(path("wide")), "=", 4),
    compare(Size(path("b")), "=", 2),
    compare(Size(path("list")), "=", 5),
    compare(Size(path("map")), "=", 3),
    compare(Size(path("names")), ">", 1),
    compare(Size(N), "<>", 1),
    Between(N, Const(5), Const(5)),
    Between(N, Const(1), path("d")),
    Between(Const(5), N, path("d")),
    Between(Size(S), Const(1), Const(9)),
    IsIn(N, (Const("5"), Const(Decimal(5)))),
    IsIn(N, (Const(None), Const(5))),
    IsIn(path("null"), (Const(None), Const(5))),
    IsIn(path("null"), (Const(5), Const(None))),
    StartsWith(S, Const("hel")),
    StartsWith(S, Const("")),
    StartsWith(path("b"), Const(b"\x00")),
    Contains(S, Const("ell")),
    Contains(path("b"), Const(b"\xff")),
    Contains(path("list"), Const(1)),
    Contains(path("list"), Const(True)),
    Contains(path("list"), Const([Decimal(1)])),
    Contains(path("names"), Const("a")),
    Contains(path("numbers"), Const(Decimal("2.5"))),
    Exists(path("null")),
    Exists(path("list", 4)),
    Missing(GONE),
    Missing(path("list", 5)),
    Missing(path("map", "k", "deeper")),
    Missing(path("list", "name")),
    Missing(path("map", 0)),
    Missing(path("names", 0)),
    Missing(path("s", 0)),
    And((Exists(N), Exists(S))),
    Or((Exists(GONE), Exists(S))),
    Not(Exists(GONE)),
    Not(compare(GONE, "=", 1)),
]

FALSE: list[Condition] = [
    compare(N, "=", "5"),
    compare(N, "<>", Decimal("5.0")),
    compare(N, "<", "6"),
    compare(S, ">", b"a"),
    compare(path("yes"), "=", 1),
    compare(path("yes"), "<", 2),
    compare(path("yes"), "<=", True),
    compare(path("null"), "<=", None),
    compare(path("list"), "<", [9]),
    compare(path("list"), "=", [1, "a", 1, [1], {"x": 1}]),
    compare(path("list"), "=", [1, "a", True, [1], {"x": True}]),
    compare(path("list"), "=", [1, "a", True, [1]]),
    compare(path("map"), ">=", {}),
    compare(path("map"), "=", {"k": 1}),
    compare(path("names"), "<=", frozenset({"a", "b", "c"})),
    compare(GONE, "=", GONE),
    compare(GONE, "<", 1),
    compare(GONE, ">=", 1),
    compare(Size(N), "=", 1),
    compare(Size(path("null")), ">=", 0),
    compare(Size(GONE), ">=", 0),
    Between(GONE, Const(1), Const(9)),
    Between(N, GONE, Const(9)),
    Between(N, Const("1"), Const("9")),
    Between(N, Const(6), Const(1)),
    IsIn(N, (Const("5"), Const(True))),
    IsIn(GONE, (Const(1),)),
    IsIn(GONE, (Const(None), Const(1))),
    IsIn(N, (Const(None), Const(6))),
    StartsWith(N, Const("5")),
    StartsWith(S, Const(b"h")),
    StartsWith(path("names"), Const("a")),
    StartsWith(GONE, Const("")),
    Contains(S, Const(b"h")),
    Contains(N, Const(5)),
    Contains(path("list"), Const(False)),
    Contains(path("list"), Const({"x": True})),
    Contains(path("map"), Const("k")),
    Contains(path("names"), Const(["a"])),
    Contains(path("numbers"), Const(True)),
    Contains(GONE, Const("a")),
    Missing(path("null")),
    And((Exists(N), Exists(GONE))),
    Or((Exists(GONE), Missing(N))),
    Not(compare(GONE, "<>", 1)),
]


@pytest.mark.parametrize("condition", TRUE)
def test_holds(condition: Condition) -> None:
    assert holds(condition, ITEM)


@pytest.mark.parametrize("condition", FALSE)
def test_does_not_hold(condition: Condition) -> None:
    assert not holds(condition, ITEM)


def test_every_path_of_an_absent_item_is_missing() -> None:
    assert holds(And((Missing(N), compare(N, "<>", 5), Not(Exists(S)))), None)
    assert not holds(Or((Exists(N), compare(N, "=", 5), compare(N, "<", 5))), None)


def test_a_value_that_is_never_stored_is_refused() -> None:
    with pytest.raises(BadValue, match=r"1\.5 of type float is not a stored value"):
        holds(compare(N, "<", 1.5), ITEM)


CHANGES: list[tuple[dict[str, Any], list[Action], dict[str, Any]]] = [
    ({}, [Set(N, 1)], {"n": 1}),
    ({"n": 1}, [Set(N, None)], {"n": None}),
    ({"m": {"a": 1}}, [Set(path("m", "b"), 2)], {"m": {"a": 1, "b": 2}}),
    ({"l": [1, 2]}, [Set(path("l", 1), 9)], {"l": [1, 9]}),
    ({"l": [1, 2]}, [Set(path("l", 7), 9)], {"l": [1, 2, 9]}),
    ({"l": [1]}, [Set(path("l", 9), "b"), Set(path("l", 8), "a")], {"l": [1, "a", "b"]}),
    ({"l": [{"x": 1}]}, [Set(path("l", 0, "x"), 2)], {"l": [{"x": 2}]}),
    ({}, [SetIfMissing(N, 1)], {"n": 1}),
    ({"n": 0}, [SetIfMissing(N, 1)], {"n": 0}),
    ({"n": None}, [SetIfMissing(N, 1)], {"n": None}),
    ({"n": 1, "s": "x"}, [Remove(N)], {"s": "x"}),
    ({}, [Remove(N)], {}),
    ({"m": {"a": 1}}, [Remove(path("m", "a"))], {"m": {}}),
    ({"m": {}}, [Remove(path("m", "a"))], {"m": {}}),
    ({"l": [0, 1, 2, 3]}, [Remove(path("l", 1)), Remove(path("l", 2))], {"l": [0, 3]}),
    ({"l": [0, 1, 2, 3]}, [Remove(path("l", 2)), Remove(path("l", 0))], {"l": [1, 3]}),
    ({"l": list(range(12))}, [Remove(path("l", 2)), Remove(path("l", 10))], {"l": [0, 1, *range(3, 10), 11]}),
    ({"l": [0]}, [Remove(path("l", 3))], {"l": [0]}),
    ({"l": [0, 1]}, [Remove(path("l", 0)), Set(path("l", 1), 9)], {"l": [9]}),
    ({"l": [0, 1]}, [Remove(path("l", 0)), Set(path("l", 2), 9)], {"l": [1, 9]}),
    ({"l": [{"x": 1}, 5]}, [Remove(path("l", 0, "x")), Remove(path("l", 1))], {"l": [{}]}),
    ({"l": [5, {"x": 1}]}, [Remove(path("l", 1, "x")), Remove(path("l", 0))], {"l": [{}]}),
    ({"n": 1}, [Increment(N, 2)], {"n": 3}),
    ({"n": 1}, [Increment(N, -2)], {"n": -1}),
    ({}, [Increment(N, 2)], {"n": 2}),
    ({}, [Increment(N, 2, start=10)], {"n": 12}),
    ({"n": Decimal("0.5")}, [Increment(N, Decimal("0.50"))], {"n": 1}),
    ({"n": Decimal("0.1")}, [Increment(N, Decimal("0.2"))], {"n": Decimal("0.3")}),
    ({"n": 10**37}, [Increment(N, 1)], {"n": 10**37 + 1}),
    ({"n": 10**100}, [Increment(N, 10**100)], {"n": 2 * 10**100}),
    ({"n": Decimal("-1.5")}, [Increment(N, Decimal("1.5"))], {"n": 0}),
    ({"l": [1]}, [Append(path("l"), (2, 3))], {"l": [1, 2, 3]}),
    ({"l": [1]}, [Prepend(path("l"), (2, 3))], {"l": [2, 3, 1]}),
    ({}, [Append(path("l"), (1,))], {"l": [1]}),
    ({}, [Prepend(path("l"), (1,))], {"l": [1]}),
    ({"t": frozenset({1})}, [AddTo(path("t"), frozenset({1, 2}))], {"t": frozenset({1, 2})}),
    ({}, [AddTo(path("t"), frozenset({"a"}))], {"t": frozenset({"a"})}),
    ({"t": frozenset({1, 2})}, [DiscardFrom(path("t"), frozenset({2, 3}))], {"t": frozenset({1})}),
    ({"t": frozenset({1}), "n": 1}, [DiscardFrom(path("t"), frozenset({1}))], {"n": 1}),
    ({}, [DiscardFrom(path("t"), frozenset({1}))], {}),
    ({"m": {"t": frozenset({b"a"})}}, [DiscardFrom(path("m", "t"), frozenset({b"a"}))], {"m": {}}),
]


@pytest.mark.parametrize(("before", "actions", "after"), CHANGES)
def test_apply(before: dict[str, Any], actions: list[Action], after: dict[str, Any]) -> None:
    kept = deepcopy(before)
    result = apply(actions, before)
    assert equal(result, after), result
    assert before == kept


REFUSED: list[tuple[Action, str]] = [
    (Set(path("gone", "a"), 1), "gone.a cannot be changed: gone is not there; set gone as a whole"),
    (Set(path("n", "a"), 1), "n.a cannot be changed: n is a number"),
    (Set(path("map", 0), 1), r"map\[0\] cannot be changed: map is a map"),
    (Set(path("list", "a"), 1), "list is a list"),
    (Set(path("map", "deep", "gone", "a"), 1), "map.deep.gone is not there"),
    (SetIfMissing(path("gone", "a"), 1), "gone is not there"),
    (Remove(path("gone", "a")), "gone is not there"),
    (Remove(path("n", 0)), "n is a number"),
    (Increment(path("s"), 1), "s is stored as a string"),
    (Increment(path("yes"), 1), "yes is stored as a boolean"),
    (Increment(path("null"), 1), "null is stored as a null"),
    (Increment(path("gone", "a"), 1), "gone is not there"),
    (Append(path("s"), (1,)), "s is stored as a string"),
    (Prepend(path("names"), (1,)), "names is stored as a set"),
    (AddTo(path("n"), frozenset({1})), "n is stored as a number"),
    (AddTo(path("names"), frozenset({1})), "set of string values, and the members given are number"),
    (DiscardFrom(path("numbers"), frozenset({"a"})), "set of number values"),
    (DiscardFrom(path("list"), frozenset({1})), "list is stored as a list"),
]


@pytest.mark.parametrize(("action", "message"), REFUSED)
def test_apply_refuses(action: Action, message: str) -> None:
    kept = deepcopy(ITEM)
    with pytest.raises(BadValue, match=message):
        apply([Set(path("first"), 1), action], ITEM)
    assert kept == ITEM


@pytest.mark.parametrize(
    ("stored", "by", "message"),
    [
        (10**38, 1, "more than 38 significant digits"),
        (Decimal("1E-10"), 10**30, "more than 38 significant digits"),
        (9 * 10**125, 10**125, "outside the range"),
        (Decimal("1.1E-130"), Decimal("-1E-130"), "outside the range"),
    ],
)
def test_a_sum_stays_within_38_digits_and_the_range(stored: Any, by: Any, message: str) -> None:
    with pytest.raises(BadValue, match=message):
        apply([Increment(N, by)], {"n": stored})


def test_a_sum_is_canonical() -> None:
    halves = [Increment(N, Decimal("0.5")), Increment(path("d"), Decimal("0.25"))]
    result = apply(halves, {"n": Decimal("1.5"), "d": Decimal("1.25")})
    assert type(result["n"]) is int
    assert str(result["d"]) == "1.5"


def test_right_hand_sides_see_the_item_as_it_was() -> None:
    actions: list[Action] = [Remove(path("l", 0)), Append(path("other"), (1,)), Set(path("l", 1), "new")]
    assert apply(actions, {"l": ["a", "b"], "other": []}) == {"l": ["new"], "other": [1]}


def test_apply_shares_nothing_that_can_change() -> None:
    given_value: dict[str, Any] = {"list": [1]}
    element: list[Any] = [1]
    item: dict[str, Any] = {"old": [[1]], "grown": [[1]]}
    result = apply([Set(path("new"), given_value), Append(path("grown"), (element,))], item)
    result["new"]["list"].append(2)
    result["old"][0].append(2)
    result["grown"][0].append(2)
    result["grown"][1].append(2)
    assert given_value == {"list": [1]}
    assert element == [1]
    assert item == {"old": [[1]], "grown": [[1]]}


NUMBERS = st.integers(-(10**12), 10**12) | st.decimals("-1000", "1000", places=2).map(
    lambda d: int(d) if d == d.to_integral_value() else d.normalize()
)
SCALARS = st.none() | st.booleans() | NUMBERS | st.text(max_size=4) | st.binary(max_size=4)
SETS = st.frozensets(NUMBERS, min_size=1, max_size=3) | st.frozensets(st.text(max_size=2), min_size=1, max_size=3)
VALUES = st.recursive(
    SCALARS | SETS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=2), inner, max_size=3),
    max_leaves=8,
)
ITEMS = st.dictionaries(st.sampled_from("abcd"), VALUES, max_size=4)
NAMES = st.sampled_from("abcd")


@given(ITEMS, NAMES, VALUES)
def test_what_was_set_is_found(item: dict[str, Any], name: str, value: Any) -> None:
    after = apply([Set(path(name), value)], item)
    assert holds(compare(path(name), "=", value), after)
    assert holds(And((Exists(path(name)), Not(compare(path(name), "<>", value)))), after)
    assert holds(Missing(path(name)), apply([Remove(path(name))], after))


@given(VALUES, VALUES)
def test_exactly_one_of_equal_and_unequal_holds(left: Any, right: Any) -> None:
    item = {"left": left, "right": right}
    for sides in ((path("left"), path("right")), (path("left"), path("gone"))):
        assert holds(compare(sides[0], "=", sides[1]), item) != holds(compare(sides[0], "<>", sides[1]), item)
    assert holds(compare(path("left"), "=", path("left")), item)


def three(values: st.SearchStrategy[Any]) -> st.SearchStrategy[tuple[Any, Any, Any]]:
    return st.tuples(values, values, values)


@given(three(NUMBERS) | three(st.text(max_size=3)) | three(st.binary(max_size=3)))
def test_orderings_agree(values: tuple[Any, Any, Any]) -> None:
    low, value, high = values
    item = {"low": low, "value": value, "high": high}
    both = And((compare(path("value"), ">=", low), compare(path("value"), "<=", high)))
    assert holds(Between(path("value"), path("low"), path("high")), item) == holds(both, item)
    assert holds(compare(path("value"), "<", low), item) != holds(compare(path("value"), ">=", low), item)


@given(ITEMS, NAMES, NUMBERS, NUMBERS)
def test_increments_add_up(item: dict[str, Any], name: str, start: Any, by: Any) -> None:
    after = apply([Increment(path(name), by)], {**item, name: start})
    assert holds(compare(path(name), "=", start + by), after)


@given(st.lists(st.integers(), max_size=8), st.sets(st.integers(0, 9), max_size=8))
def test_removed_positions_refer_to_the_old_list(values: list[int], positions: set[int]) -> None:
    after = apply([Remove(path("l", position)) for position in positions], {"l": values})
    assert after["l"] == [value for position, value in enumerate(values) if position not in positions]


@given(ITEMS, st.frozensets(NUMBERS, min_size=1), st.frozensets(NUMBERS, min_size=1))
def test_sets_grow_and_shrink(item: dict[str, Any], members: frozenset[Any], others: frozenset[Any]) -> None:
    both = apply([AddTo(path("a"), others)], {**item, "a": members})
    assert all(holds(Contains(path("a"), Const(member)), both) for member in members | others)
    left = apply([DiscardFrom(path("a"), others)], both)
    assert left.get("a", frozenset()) == members - others
