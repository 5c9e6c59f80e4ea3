"""An expression whose shape is known has the text, names and values that it has when its shape is new."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odm.backends.dynamodb.expressions import Expressions
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
from odm.protocol import expressions
from odm.protocol.expressions import ExpressionText
from tests.effort import times

values = st.sampled_from([None, "", "a", "b" * 9000, 0, 1, True, Decimal("0.5"), b"a", [1], {"a": 1}, frozenset({"a"})])
consts = values.map(Const)
paths = st.sampled_from([Path(("a",)), Path(("b",)), Path(("_t",)), Path(("a", "x")), Path(("b", 0))])
operands = st.one_of(paths, paths.map(Size), consts)
choices = st.one_of(st.lists(consts, max_size=3), st.just([Const(at) for at in range(103)])).map(tuple)
leaves: st.SearchStrategy[Condition] = st.one_of(
    st.builds(Compare, st.sampled_from(["=", "<>", "<", ">="]), operands, operands),
    st.builds(Between, operands, operands, operands),
    st.builds(IsIn, operands, choices),
    st.builds(StartsWith, paths, consts),
    st.builds(Contains, paths, consts),
    st.builds(Exists, paths),
    st.builds(Missing, paths),
)


def several(parts: st.SearchStrategy[Condition]) -> st.SearchStrategy[tuple[Condition, ...]]:
    return st.lists(parts, min_size=2, max_size=3).map(tuple)


conditions = st.recursive(
    leaves,
    lambda parts: st.one_of(st.builds(And, several(parts)), st.builds(Or, several(parts)), st.builds(Not, parts)),
    max_leaves=4,
)
lists = st.lists(values, max_size=2).map(tuple)
members = st.frozensets(st.sampled_from("abc"), min_size=1)
actions: st.SearchStrategy[Action] = st.one_of(
    st.builds(Set, paths, values),
    st.builds(SetIfMissing, paths, values),
    st.builds(Remove, paths),
    st.builds(Increment, paths, st.integers(), st.integers()),
    st.builds(Append, paths, lists, lists),
    st.builds(Prepend, paths, lists, lists),
    st.builds(AddTo, paths, members),
    st.builds(DiscardFrom, paths, members),
)
parts = st.one_of(conditions, st.lists(actions, max_size=3))


def written(kind: type[ExpressionText], those: list[Any]) -> object:
    """The expressions of one request, or the refusal."""
    request = kind()
    try:
        texts = [request.condition(one) if isinstance(one, Condition) else request.update(one) for one in those]
    except BadValue as error:
        return str(error)
    return texts, list(request._names.items()), [(alias, repr(value)) for alias, value in request._values.items()]


@settings(max_examples=times(200, 3000))
@given(
    st.lists(st.lists(parts, min_size=1, max_size=2), min_size=1, max_size=3),
    st.sampled_from([ExpressionText, Expressions]),
)
def test_a_known_shape_gives_the_same_expressions(requests: list[list[Any]], kind: type[ExpressionText]) -> None:
    new: list[object] = []
    for those in requests:
        expressions._TEXTS.clear()
        new.append(written(kind, those))
    expressions._TEXTS.clear()
    for _ in range(2):
        assert [written(kind, those) for those in requests] == new


@pytest.mark.parametrize(
    "make",
    [
        lambda at: Compare("=", Path(("a",)), Const(at)),
        lambda at: And((Compare(">", Path(("a",)), Const(at)), Not(Exists(Path(("b",)))))),
        lambda at: IsIn(Path(("a",)), (Const(at), Const("x"))),
        lambda at: Between(Path(("a",)), Const(at), Const(at + 1)),
        lambda at: [Set(Path(("a",)), at), Increment(Path(("b",)), at)],
    ],
    ids=["comparison", "conjunction", "choices", "range", "update"],
)
def test_the_values_of_a_shape_share_a_text(make: Callable[[int], Any]) -> None:
    expressions._TEXTS.clear()
    for at in range(20):
        written(Expressions, [make(at)])
    assert len(expressions._TEXTS) == 1


def test_keys_of_dicts_are_not_kept() -> None:
    expressions._TEXTS.clear()
    for at in range(20):
        written(Expressions, [Exists(Path(("a", str(at)))), [Remove(Path(("a", str(at))))]])
    assert not expressions._TEXTS
