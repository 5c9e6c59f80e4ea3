"""odm evaluates conditions and actions with the same results as DynamoDB Local and Dynoxide, on the same items.

``pytest --full --times 50 tests/conformance/test_evaluator_dynamodb.py`` is the long run.
"""

from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import boto3
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odm.backends.dynamodb import DynamoDB
from odm.codec import TAG
from odm.errors import BadValue
from odm.expressions.evaluate import apply, holds
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
from odm.protocol import requests as req
from odm.protocol.connection import Connection, perform
from odm.schema.model import Schema
from tests.effort import times

pytestmark = pytest.mark.slow

EXAMPLES = times(50, 100)
KEY = req.Key("a", "b")

NUMBERS: st.SearchStrategy[Any] = st.one_of(
    st.integers(-20, 20),
    st.decimals("-5", "5", places=2).map(lambda d: int(d) if d == d.to_integral_value() else d.normalize()),
    st.sampled_from([10**37, Decimal("1E-130"), 10**125]),  # sums of these numbers have too many digits
)
TEXTS = st.text("aé𝄞", max_size=3)
BYTES = st.binary(max_size=2)
ORDERED = NUMBERS | TEXTS | BYTES
SETS = st.one_of(*(st.frozensets(members, min_size=1, max_size=3) for members in (NUMBERS, TEXTS, BYTES)))
RANGES = st.one_of(*(st.tuples(ends, ends).map(sorted) for ends in (NUMBERS, TEXTS, BYTES)))
VALUES = st.recursive(
    st.none() | st.booleans() | ORDERED | SETS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["k", "a.b", "#"]), inner, max_size=2),
    max_leaves=5,
)
NAMES = st.sampled_from(["x", "y", "z", "size"])
ITEMS = st.dictionaries(NAMES, VALUES, max_size=4)
PATHS = st.builds(
    lambda name, rest: Path((name, *rest)), NAMES, st.lists(st.sampled_from(["k", "a.b", "#", 0, 1]), max_size=2)
)
OPERANDS = PATHS | st.builds(Size, PATHS)
ORDERED_CONST = st.builds(Const, ORDERED)
LEAVES = st.one_of(
    st.builds(Compare, st.sampled_from(["=", "<>"]), OPERANDS, st.builds(Const, VALUES)),
    st.builds(Compare, st.sampled_from(["<", "<=", ">", ">="]), OPERANDS, ORDERED_CONST),
    st.builds(Compare, st.sampled_from(["=", "<>", "<", "<=", ">", ">="]), OPERANDS, OPERANDS),
    st.builds(lambda operand: Compare("<=", operand, operand), OPERANDS),
    st.builds(Compare, st.sampled_from(["=", "<>", "<", ">="]), ORDERED_CONST, OPERANDS),
    st.builds(lambda operand, ends: Between(operand, *map(Const, ends)), OPERANDS, RANGES),
    st.builds(Between, OPERANDS, OPERANDS | ORDERED_CONST, OPERANDS | ORDERED_CONST),
    st.builds(Between, ORDERED_CONST, OPERANDS, OPERANDS),
    st.builds(IsIn, OPERANDS, st.lists(st.builds(Const, VALUES), max_size=3).map(tuple)),
    st.builds(StartsWith, PATHS, st.builds(Const, TEXTS | BYTES)),
    st.builds(Contains, PATHS, st.builds(Const, VALUES)),
    st.builds(Exists, PATHS),
    st.builds(Missing, PATHS),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Not, inner),
    ),
    max_leaves=4,
)
ACTIONS = st.one_of(
    st.builds(Set, PATHS, VALUES),
    st.builds(SetIfMissing, PATHS, VALUES),
    st.builds(Remove, PATHS),
    st.builds(Increment, PATHS, NUMBERS, NUMBERS),
    st.builds(Append, PATHS, st.lists(VALUES, min_size=1, max_size=2).map(tuple)),
    st.builds(Prepend, PATHS, st.lists(VALUES, min_size=1, max_size=2).map(tuple)),
    st.builds(AddTo, PATHS, SETS),
    st.builds(DiscardFrom, PATHS, SETS),
)


def apart(actions: list[Action]) -> bool:
    """Whether no path equals or contains another one: odm refuses overlapping paths before it sends them."""
    paths = [action.path.segments for action in actions]
    return not any(a == b[: len(a)] for i, a in enumerate(paths) for j, b in enumerate(paths) if i != j)


@pytest.fixture(scope="module", params=["dynamodb_local", pytest.param("dynoxide", marks=pytest.mark.full)])
def connection(request: pytest.FixtureRequest) -> Iterator[Connection[Any]]:
    session = boto3.Session("evaluator", "secret", region_name="eu-west-1")
    connection = DynamoDB(session, endpoint_url=request.getfixturevalue(request.param)).connect(
        Schema("evaluated", {}, {})
    )
    perform(connection, req.CreateTables())
    yield connection
    perform(connection, req.DropTables())
    connection.close()


few = settings(max_examples=EXAMPLES, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])


@few
@given(item=ITEMS, condition=CONDITIONS)
def test_conditions(connection: Connection[Any], item: dict[str, Any], condition: Condition) -> None:
    item = {TAG: "T", **item}
    perform(connection, req.Put(KEY, item))
    found = perform(connection, req.Query("a", filter=condition))
    assert bool(found.items) == holds(condition, item)


@few
@given(item=ITEMS, actions=st.lists(ACTIONS, min_size=1, max_size=3).filter(apart))
def test_actions(connection: Connection[Any], item: dict[str, Any], actions: list[Action]) -> None:
    item = {TAG: "T", **item}
    perform(connection, req.Put(KEY, item))
    try:
        expected = apply(actions, item)
    except BadValue:
        with pytest.raises(BadValue):
            perform(connection, req.Update(KEY, tuple(actions)))
        expected = item
    else:
        perform(connection, req.Update(KEY, tuple(actions)))
    assert perform(connection, req.Get(KEY)) == expected
