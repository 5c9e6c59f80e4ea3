"""Which conditions hold: as a filter, and as the condition of a write, which must agree."""

from decimal import Decimal
from typing import Any, Final

from odm import ConditionFailed, between, contains, exists, is_in, missing, not_, size, starts_with
from odm.expressions.nodes import Condition
from tests.facts.fact import Case, fact, shown, shown_node
from tests.facts.model import Thing

X, Y = Thing.x, Thing.y
D_OPERATORS: Final = "D Expressions.OperatorsAndFunctions"
S_FILTERS, S_QUERY, S_SCAN = "S scan/filterOperators", "S query/expressions", "S scan/basic"
S_PUT, S_WHEN = "S putItem/expressions", "S updateItem/conditions"
S_NUMBERS: Final = "S limits/numberPrecision"
ABSENT: Final = None
"""A field that is None by default is not stored."""


def holds(case: Case, x: Any, condition: Condition) -> bool | str:
    """Whether the condition holds for an item with this ``x``, and the text "y" in ``y``."""
    db, key, thing = case.db, case.key, case.thing(x, "y")
    db.put(thing)
    filtered = db.count(key.where(condition)) == 1
    try:
        db.put(thing, when=condition)
    except ConditionFailed:
        written = False
    else:
        written = True
    return filtered if filtered is written else f"filter {filtered}, condition {written}"


# The stored x, the condition, whether it holds, the source.
_ROWS: list[tuple[Any, Any, bool, str]] = [
    # equality
    (5, X == 5, True, S_FILTERS),
    (5, X == 6, False, S_FILTERS),
    (5, Decimal("5.0") == X, True, S_NUMBERS),
    (100, Decimal("1E+2") == X, True, S_NUMBERS),
    (10**37 + 1, X == 10**37 + 1, True, S_NUMBERS),
    (10**37 + 1, X == 10**37 + 2, False, S_NUMBERS),
    (5, X == "5", False, D_OPERATORS),
    ("5", X == 5, False, D_OPERATORS),
    ("abc", X == "abc", True, S_FILTERS),
    ("abc", X == "ABC", False, D_OPERATORS),
    ("é", X == "e\u0301", False, "L"),
    ("", X == "", True, "L"),
    (b"abc", X == b"abc", True, D_OPERATORS),
    (b"abc", X == "abc", False, D_OPERATORS),
    (True, X == True, True, D_OPERATORS),  # noqa: E712
    (True, X == False, False, D_OPERATORS),  # noqa: E712
    (True, X == 1, False, D_OPERATORS),
    (False, X == 0, False, D_OPERATORS),
    ([1, "a"], X == [1, "a"], True, D_OPERATORS),
    ([1, "a"], X == ["a", 1], False, D_OPERATORS),
    ([], X == [], True, "L"),
    ({"k": 1, "l": 2}, X == {"l": 2, "k": 1}, True, D_OPERATORS),
    ({"k": 1}, X == {"k": 1, "l": 2}, False, D_OPERATORS),
    ({}, X == {}, True, "L"),
    ({"k": [{1, 2}]}, {"k": [{2, 1}]} == X, True, "L"),
    ({"a", "b"}, {"b", "a"} == X, True, S_FILTERS),
    ({"a", "b"}, {"a"} == X, False, S_FILTERS),
    ({1, 2}, {2, 1} == X, True, S_FILTERS),
    ({1, 2}, {"1", "2"} == X, False, D_OPERATORS),
    ({1}, X == [1], False, D_OPERATORS),
    ({b"a", b"b"}, {b"b", b"a"} == X, True, S_FILTERS),
    (ABSENT, X == 5, False, "S updateItem/conditions"),
    ("y", X == Y, True, D_OPERATORS),
    ("z", X == Y, False, D_OPERATORS),
    (ABSENT, X == Y, False, "L"),
    # inequality
    (5, X != 6, True, S_FILTERS),
    (5, X != 5, False, S_FILTERS),
    (5, X != "5", True, D_OPERATORS),
    ({"a", "b"}, {"a", "c"} != X, True, S_FILTERS),
    ({"a", "b"}, {"b", "a"} != X, False, S_FILTERS),
    (ABSENT, X != 5, True, "L"),
    ("z", X != Y, True, D_OPERATORS),
    # order
    (5, X < 6, True, D_OPERATORS),
    (5, X < 5, False, D_OPERATORS),
    (5, X <= 5, True, D_OPERATORS),
    (5, X > 4, True, S_FILTERS),
    (5, X >= 6, False, D_OPERATORS),
    (10, X > 9, True, S_FILTERS),
    (-5, Decimal("-4.99") > X, True, D_OPERATORS),
    (Decimal("1E-130"), X > 0, True, "L"),
    (Decimal("1E+125"), X > 10**37, True, "L"),
    ("10", X < "9", True, D_OPERATORS),
    ("a", X <= "b", True, S_FILTERS),
    ("Z", X < "a", True, D_OPERATORS),
    ("a", X < "aa", True, D_OPERATORS),
    ("z", X < "é", True, D_OPERATORS),
    ("\uffff", X < "\U00010000", True, D_OPERATORS),
    (b"\x7f", X < b"\x80", True, S_FILTERS),
    (b"a", X < b"a\x00", True, D_OPERATORS),
    (5, X < "6", False, D_OPERATORS),
    ("5", X > 4, False, D_OPERATORS),
    (b"a", X < "b", False, D_OPERATORS),
    (ABSENT, X < 5, False, S_WHEN),
    (ABSENT, X >= 5, False, S_WHEN),
    (ABSENT, not_(X < 5), True, "L"),
    (True, X > 0, False, D_OPERATORS),
    ([5], X > 4, False, D_OPERATORS),
    ("x", X < Y, True, D_OPERATORS),
    (5, X < Y, False, D_OPERATORS),
    # between
    (5, between(X, 5, 6), True, S_QUERY),
    (5, between(X, 4, 5), True, S_QUERY),
    (5, between(X, 6, 7), False, S_QUERY),
    ("b", between(X, "a", "c"), True, D_OPERATORS),
    (b"b", between(X, b"a", b"c"), True, S_FILTERS),
    ("5", between(X, 4, 6), False, D_OPERATORS),
    (ABSENT, between(X, 4, 6), False, "L"),
    # one of several
    (5, is_in(X, [4, 5]), True, S_QUERY),
    (5, is_in(X, [4, 6]), False, S_QUERY),
    (5, is_in(X, ["5", b"5"]), False, D_OPERATORS),
    ({"a"}, is_in(X, [{"a"}, {"b"}]), True, "L"),
    ([1], is_in(X, [[1], [2]]), True, "L"),
    (ABSENT, is_in(X, [4, 5]), False, "L"),
    (99, is_in(X, range(100)), True, D_OPERATORS),
    # the beginning
    ("abc", starts_with(X, "ab"), True, S_QUERY),
    ("abc", starts_with(X, "b"), False, S_QUERY),
    ("abc", starts_with(X, ""), True, "L"),
    ("ab", starts_with(X, "abc"), False, S_QUERY),
    (b"abc", starts_with(X, b"ab"), True, S_FILTERS),
    ("abc", starts_with(X, b"ab"), False, "L"),
    (5, starts_with(X, "5"), False, "L"),
    ({"abc"}, starts_with(X, "ab"), False, "L"),
    (ABSENT, starts_with(X, "ab"), False, "L"),
    # parts
    ("abc", contains(X, "bc"), True, S_QUERY),
    ("abc", contains(X, "cb"), False, S_QUERY),
    ("abc", contains(X, ""), True, "L"),
    (b"abc", contains(X, b"bc"), True, D_OPERATORS),
    ("5", contains(X, 5), False, "L"),
    ({"abc", "d"}, contains(X, "abc"), True, S_QUERY),
    ({"abc", "d"}, contains(X, "ab"), False, D_OPERATORS),
    ({1, 2}, contains(X, 2), True, D_OPERATORS),
    ({1, 2}, contains(X, "2"), False, D_OPERATORS),
    ([1, "a"], contains(X, "a"), True, D_OPERATORS),
    ([1, "abc"], contains(X, "ab"), False, D_OPERATORS),
    ([[1]], contains(X, [1]), True, "L"),
    ([{1, 2}], contains(X, {2, 1}), True, "L"),
    ({"k": 1}, contains(X, "k"), False, "L"),
    (5, contains(X, 5), False, "L"),
    (ABSENT, contains(X, "a"), False, "L"),
    ("abc", not_(contains(X, "d")), True, S_QUERY),
    # presence
    (5, exists(X), True, S_FILTERS),
    ("", exists(X), True, D_OPERATORS),
    (ABSENT, exists(X), False, S_WHEN),
    (ABSENT, missing(X), True, S_WHEN),
    (5, missing(X), False, S_WHEN),
    (5, not_(exists(X)), False, S_PUT),
    ({"k": None}, exists(X["k"]), True, D_OPERATORS),
    ({"k": 1}, exists(X["k"]), True, S_PUT),
    ({"k": 1}, missing(X["l"]), True, S_PUT),
    ({"k": 1}, exists(X["l"]["m"]), False, "L"),
    ([1], exists(X[0]), True, D_OPERATORS),
    ([1], exists(X[1]), False, D_OPERATORS),
    (5, exists(X["k"]), False, "L"),
    # parts by path
    ({"k": 5}, X["k"] == 5, True, S_QUERY),
    ({"k": {"l": [0, 7]}}, X["k"]["l"][1] == 7, True, S_QUERY),
    ([4, 5], X[0] == 4, True, S_QUERY),
    ([4, 5], X[2] == 4, False, "L"),
    ([4, 5], X["k"] == 4, False, "L"),
    ({"a.b": 5}, X["a.b"] == 5, True, D_OPERATORS),
    ({"k": None}, X["k"] == None, True, D_OPERATORS),  # noqa: E711
    # sizes
    ("abc", size(X) < 4, True, S_PUT),
    ("aé𝄞", size(X) == 4, True, S_QUERY),
    ("", size(X) == 0, True, D_OPERATORS),
    (b"abcd", size(X) == 4, True, S_QUERY),
    ([1, 2, 3], size(X) == 3, True, S_QUERY),
    ({"k": 1, "l": [2, 3]}, size(X) == 2, True, S_QUERY),
    ({"a", "b", "c"}, size(X) == 3, True, S_QUERY),
    (ABSENT, size(X) >= 0, False, S_QUERY),
    (ABSENT, size(X) == 0, False, S_QUERY),
    (5, size(X) >= 0, False, "L"),
    (True, size(X) >= 0, False, "L"),
    ({"k": "abc"}, size(X["k"]) == 3, True, D_OPERATORS),
    # together
    (5, (X > 4) & (Y == "y"), True, S_QUERY),
    (5, (X > 4) & (Y == "z"), False, S_QUERY),
    (5, (X > 5) | (Y == "y"), True, S_QUERY),
    (5, (X > 5) | (Y == "z"), False, S_QUERY),
    (5, not_(X > 5), True, "S scan/filterExpressionParens"),
    (5, not_((X > 4) & (Y == "y")), False, D_OPERATORS),
    (5, (X > 5) & (Y == "y") | exists(X), True, D_OPERATORS),
    (5, (X > 5) & ((Y == "y") | exists(X)), False, "S scan/filterExpressionParens"),
]

FACTS = [
    fact(f"`{shown(x)}`: `{shown_node(condition)}`", outcome, source, holds, x, condition)
    for x, condition, outcome, source in _ROWS
]
