import re
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from odm.backends.dynamodb.expressions import Expressions
from odm.backends.dynamodb.items.attributes import from_attribute
from odm.errors import BadValue
from odm.expressions.nodes import (
    Action,
    AddTo,
    And,
    Append,
    Between,
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

STATUS, TOTAL = Path(("status",)), Path(("total",))
OPEN, TEN, TWENTY = Const("open"), Const(10), Const(20)
IS_OPEN, IS_LARGE = Compare("=", STATUS, OPEN), Compare(">", TOTAL, TEN)


@pytest.mark.parametrize(
    ("condition", "text", "names", "values"),
    [
        (IS_OPEN, "#0 = :0", ["status"], ["open"]),
        (Compare("<>", TOTAL, STATUS), "#0 <> #1", ["total", "status"], []),
        (Compare("=", STATUS, Const(None)), "#0 = :0", ["status"], [None]),
        (Compare("<=", TEN, TOTAL), ":0 <= #0", ["total"], [10]),
        (Compare(">=", Size(STATUS), TEN), "size(#0) >= :0", ["status"], [10]),
        (Between(TOTAL, TEN, TWENTY), "#0 BETWEEN :0 AND :1", ["total"], [10, 20]),
        (Between(TEN, TOTAL, STATUS), ":0 BETWEEN #0 AND #1", ["total", "status"], [10]),
        (IsIn(TOTAL, (TEN, TWENTY)), "#0 IN (:0, :1)", ["total"], [10, 20]),
        (IsIn(STATUS, (Const(None), OPEN)), "#0 IN (:0, :1)", ["status"], [None, "open"]),
        (StartsWith(STATUS, OPEN), "begins_with(#0, :0)", ["status"], ["open"]),
        (Contains(STATUS, OPEN), "contains(#0, :0)", ["status"], ["open"]),
        (Exists(STATUS), "attribute_exists(#0)", ["status"], []),
        (Missing(STATUS), "attribute_not_exists(#0)", ["status"], []),
        (IS_OPEN & IS_LARGE, "#0 = :0 AND #1 > :1", ["status", "total"], ["open", 10]),
        ((IS_OPEN & IS_LARGE) | IS_OPEN, "(#0 = :0 AND #1 > :1) OR #0 = :2", ["status", "total"], ["open", 10, "open"]),
        (Not(IS_OPEN), "NOT #0 = :0", ["status"], ["open"]),
        (Not(IS_OPEN | IS_LARGE), "NOT (#0 = :0 OR #1 > :1)", ["status", "total"], ["open", 10]),
        (Not(Not(IS_OPEN)), "NOT (NOT #0 = :0)", ["status"], ["open"]),
    ],
)
def test_conditions(condition: Condition, text: str, names: list[str], values: list[Any]) -> None:
    expressions = Expressions()
    assert expressions.condition(condition) == text
    arguments = expressions.arguments()
    assert list(arguments.get("ExpressionAttributeNames", {}).values()) == names
    assert list(map(from_attribute, arguments.get("ExpressionAttributeValues", {}).values())) == values


@pytest.mark.parametrize(
    ("path", "text", "names"),
    [
        (Path(("address", "name")), "#0.#1", {"#0": "address", "#1": "name"}),
        (Path(("lines", 0, "price")), "#0[0].#1", {"#0": "lines", "#1": "price"}),
        (Path(("grid", 1, 2)), "#0[1][2]", {"#0": "grid"}),
        (Path(("meta", "meta", "a.b")), "#0.#0.#1", {"#0": "meta", "#1": "a.b"}),
    ],
)
def test_a_path_has_one_placeholder_per_name(path: Path, text: str, names: dict[str, str]) -> None:
    expressions = Expressions()
    assert expressions.condition(Exists(path)) == f"attribute_exists({text})"
    assert expressions.arguments() == {"ExpressionAttributeNames": names}


def test_many_choices_are_split_into_hundreds() -> None:
    choices = IsIn(TOTAL, tuple(map(Const, range(201))))
    text = Expressions().condition(choices)
    assert re.sub(r":\d+", ":", text).split(" OR ") == [
        f"#0 IN ({','.join([':'] * 100)})",
        f"#0 IN ({','.join([':'] * 100)})",
        "#0 IN (:)",
    ]
    assert Expressions().condition(Not(choices)) == f"NOT ({text})"


def test_no_choices_never_hold() -> None:
    never = "attribute_exists(#0) AND attribute_not_exists(#0)"
    assert Expressions().condition(IsIn(TOTAL, ())) == never
    assert Expressions().condition(Not(IsIn(TOTAL, ()))) == f"NOT ({never})"


@pytest.mark.parametrize(("low", "high"), [(20, 10), ("a", 1), (None, 1)])
def test_a_range_that_dynamodb_refuses_becomes_two_comparisons(low: Any, high: Any) -> None:
    condition = Not(Between(TOTAL, Const(low), Const(high)))
    assert Expressions().condition(condition) == "NOT (#0 >= :0 AND #0 <= :1)"


LOWEST = "(#0 >= :0 OR #0 >= :1 OR #0 >= :2)"
NEVER = "(attribute_exists(#1) AND attribute_not_exists(#1))"


@pytest.mark.parametrize(
    ("condition", "text"),
    [
        (Compare("=", TOTAL, TOTAL), "attribute_exists(#0)"),
        (Compare("<>", TOTAL, TOTAL), "(NOT attribute_exists(#0))"),
        (Compare("<=", TOTAL, TOTAL), LOWEST),
        (Compare("<", TOTAL, TOTAL), NEVER),
        (Compare("=", Size(TOTAL), Size(TOTAL)), "size(#0) >= :0"),
        (Compare("<>", Size(TOTAL), Size(TOTAL)), "(NOT size(#0) >= :0)"),
        (Between(TOTAL, TOTAL, TEN), f"({LOWEST} AND #0 <= :3)"),
        (Between(TOTAL, TEN, TOTAL), "(#0 >= :0 AND (#0 >= :1 OR #0 >= :2 OR #0 >= :3))"),
    ],
)
def test_a_comparison_of_an_operand_with_itself_is_replaced(condition: Condition, text: str) -> None:
    expressions = Expressions()
    assert expressions.condition(Exists(TOTAL) & condition) == f"attribute_exists(#0) AND {text}"


@pytest.mark.parametrize(
    ("action", "text", "values"),
    [
        (Set(STATUS, None), "SET #0 = :0", [{"NULL": True}]),
        (SetIfMissing(STATUS, "a"), "SET #0 = if_not_exists(#0, :0)", [{"S": "a"}]),
        (Remove(STATUS), "REMOVE #0", []),
        (Increment(TOTAL, -2, 7), "SET #0 = if_not_exists(#0, :0) + :1", [{"N": "7"}, {"N": "-2"}]),
        (Append(STATUS, (1,)), "SET #0 = list_append(if_not_exists(#0, :0), :1)", [{"L": []}, {"L": [{"N": "1"}]}]),
        (Prepend(STATUS, (1,)), "SET #0 = list_append(:0, if_not_exists(#0, :1))", [{"L": [{"N": "1"}]}, {"L": []}]),
        (AddTo(STATUS, frozenset("a")), "ADD #0 :0", [{"SS": ["a"]}]),
        (DiscardFrom(STATUS, frozenset("a")), "DELETE #0 :0", [{"SS": ["a"]}]),
    ],
)
def test_actions(action: Action, text: str, values: list[Any]) -> None:
    expressions = Expressions()
    assert expressions.update([action]) == text
    assert list(expressions.arguments().get("ExpressionAttributeValues", {}).values()) == values


def test_each_clause_stands_once() -> None:
    actions: list[Action] = [Set(STATUS, 1), Remove(Path(("a",))), Set(TOTAL, 2), Remove(Path(("b",)))]
    assert Expressions().update(actions) == "SET #0 = :0, #2 = :1 REMOVE #1, #3"


def test_no_actions_give_an_empty_expression() -> None:
    assert Expressions().update([]) == ""


@pytest.mark.parametrize(
    ("bounds", "text"),
    [
        (("", None), "#0 = :0"),
        (("a", None), "#0 = :0 AND #1 >= :1"),
        (("", "b"), "#0 = :0 AND #1 <= :1"),
        (("a", "b"), "#0 = :0 AND #1 BETWEEN :1 AND :2"),
        (("a", "a"), "#0 = :0 AND #1 = :1"),
    ],
)
def test_key_conditions(bounds: tuple[str, str | None], text: str) -> None:
    assert Expressions().key_condition({"pk": "p"}, "sk", bounds) == text


ends = st.sampled_from([None, "", "a", "b", b"", b"a", 0, 1])


@given(st.lists(st.sampled_from(["pk", "a b", "é", "sk2"]), min_size=1, max_size=3, unique=True), ends, ends)
def test_a_key_condition_has_the_placeholders_of_its_names_and_values(names: list[str], low: Any, high: Any) -> None:
    made = Expressions()
    equal = {name: f"value of {name}" for name in names}
    text = made.key_condition(equal, "sort", (low, high))
    arguments = made.arguments()
    shown = text
    for alias, name in sorted(arguments["ExpressionAttributeNames"].items(), reverse=True):
        shown = shown.replace(alias, f"<{name}>")
    for alias, value in sorted(arguments["ExpressionAttributeValues"].items(), reverse=True):
        shown = shown.replace(alias, repr(from_attribute(value)))
    parts = [f"<{name}> = {value!r}" for name, value in equal.items()]
    if low == high and high is not None:
        parts.append(f"<sort> = {low!r}")
    elif high is None:
        parts += [] if low in (None, "", b"") else [f"<sort> >= {low!r}"]
    elif low in (None, "", b""):
        parts.append(f"<sort> <= {high!r}")
    else:
        parts.append(f"<sort> BETWEEN {low!r} AND {high!r}")
    assert shown == " AND ".join(parts)


def test_limits_are_checked_before_a_request_is_sent() -> None:
    many = tuple(Compare("=", TOTAL, Const(n)) for n in range(151))
    assert Expressions().condition(Or(many[:150]))  # 150 comparisons and 149 ORs
    with pytest.raises(BadValue, match="301 operators"):
        Expressions().condition(Or(many))
    with pytest.raises(BadValue, match="4096 are allowed"):
        Expressions().condition(IsIn(TOTAL, tuple(map(Const, range(900)))))
    with pytest.raises(BadValue, match="put the whole item"):
        Expressions().update([Set(Path((f"a{n}",)), n) for n in range(400)])
    with pytest.raises(BadValue, match="1000005 bytes together, but 1000000 are the most"):
        Expressions().condition(IsIn(STATUS, tuple(Const(f"{n}" + "ä" * 99_999) for n in range(5))))
    with pytest.raises(BadValue, match="values in the update have"):
        Expressions().update([Set(STATUS, ["x" * 1_000_000])])


_LEAVES = st.sampled_from([IS_OPEN, Exists(TOTAL), IsIn(TOTAL, ()), Between(TOTAL, TWENTY, TEN), IsIn(TOTAL, (TEN,))])


def _compounds(inner: st.SearchStrategy[Condition]) -> st.SearchStrategy[Condition]:
    pairs = st.tuples(inner, inner)
    return st.builds(Not, inner) | st.builds(And, pairs) | st.builds(Or, pairs)


_CONDITIONS = st.recursive(_LEAVES, _compounds, max_leaves=12)


@given(_CONDITIONS)
def test_placeholders_are_used_and_parentheses_are_not_doubled(condition: Condition) -> None:
    expressions = Expressions()
    text = expressions.condition(condition)
    arguments = expressions.arguments()
    assert set(re.findall(r"#\d+", text)) == set(arguments.get("ExpressionAttributeNames", {}))
    assert set(re.findall(r":\d+", text)) == set(arguments.get("ExpressionAttributeValues", {}))
    assert not _doubled(text)


def _doubled(text: str) -> bool:
    """Whether a pair of parentheses directly encloses another pair."""
    opened: list[int] = []
    pairs: set[tuple[int, int]] = set()
    for at, character in enumerate(text):
        if character == "(":
            opened.append(at)
        elif character == ")":
            pairs.add((opened.pop(), at))
    return any((start + 1, end - 1) in pairs for start, end in pairs)
