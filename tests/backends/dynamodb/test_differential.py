"""Random conditions and actions on random items: DynamoDB Local and the bundled engine's evaluator agree."""

import os
from collections.abc import Iterator
from decimal import Decimal
from typing import Any

import boto3
import pytest
from hypothesis import given, note, settings
from hypothesis import strategies as st

from odm.backends.dynamodb import DynamoDB
from odm.backends.dynamodb.driver import DynamoDBConnection
from odm.errors import BadValue
from odm.expressions.evaluate import apply, equal, holds
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
from odm.operations.backend import perform
from odm.operations.ir import CreateTables, DropTables, Put, Query, Update
from odm.schema.model import Key, Schema

KEY = Key("p", "s")
QUICK = os.environ.get("ODM_HYPOTHESIS") == "quick"
PROPERTY = settings(max_examples=int(os.environ.get("ODM_DIFFERENTIAL", "30" if QUICK else "150")), deadline=None)

NUMBERS = st.sampled_from([0, 1, -1, 2, 10, Decimal("1.5"), Decimal("-0.001"), 10**37, Decimal("1E+125")])
TEXTS = st.sampled_from(["", "a", "ab", "b", "é", "\U0010ffff", "size"])
BYTES = st.sampled_from([b"", b"a", b"ab", b"\xff"])
ORDERED = NUMBERS | TEXTS | BYTES
SETS = st.one_of(*(st.frozensets(members, min_size=1, max_size=2) for members in (NUMBERS, TEXTS, BYTES)))
SCALARS = st.none() | st.booleans() | ORDERED | SETS
NAMES = st.sampled_from(["a", "b", "name", "x.y", "#0", ":0", "a b"])
VALUES = st.recursive(
    SCALARS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=2),
    max_leaves=4,
)
ITEMS = st.dictionaries(NAMES, VALUES, max_size=4)
PATHS = st.builds(
    lambda root, rest: Path((root, *rest)), NAMES, st.lists(NAMES | st.integers(0, 2), max_size=2).map(tuple)
)
SHALLOW = NAMES.map(lambda name: Path((name,)))
SOME_PATHS = SHALLOW | PATHS
SIZES = SOME_PATHS.map(Size)

LEAVES = st.one_of(
    st.builds(Compare, st.sampled_from(["=", "<>"]), SOME_PATHS, SOME_PATHS | VALUES.map(Const)),
    st.builds(Compare, st.sampled_from(["<", "<=", ">", ">="]), SOME_PATHS, SOME_PATHS | ORDERED.map(Const)),
    st.builds(Compare, st.sampled_from(["=", "<>", "<", ">="]), ORDERED.map(Const), SOME_PATHS),
    st.builds(
        Compare,
        st.sampled_from(["=", "<>", "<", ">="]),
        SIZES,
        SIZES | SOME_PATHS | st.integers(-1, 3).map(Const),
    ),
    st.builds(Between, SOME_PATHS, ORDERED.map(Const) | SOME_PATHS, ORDERED.map(Const) | SOME_PATHS),
    st.builds(Between, SIZES, st.integers(-1, 3).map(Const), st.integers(-1, 3).map(Const) | SIZES),
    st.builds(Between, ORDERED.map(Const), SOME_PATHS, SOME_PATHS),
    st.builds(IsIn, SOME_PATHS, st.lists(VALUES.map(Const), max_size=3).map(tuple)),
    st.builds(IsIn, SIZES, st.lists(st.integers(0, 3).map(Const), max_size=2).map(tuple)),
    st.builds(StartsWith, SOME_PATHS, (TEXTS | BYTES).map(Const)),
    st.builds(Contains, SOME_PATHS, VALUES.map(Const)),
    st.builds(Exists, SOME_PATHS),
    st.builds(Missing, SOME_PATHS),
)
CONDITIONS: st.SearchStrategy[Condition] = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds(Not, inner),
        st.builds(And, st.lists(inner, min_size=2, max_size=3).map(tuple)),
        st.builds(Or, st.lists(inner, min_size=2, max_size=3).map(tuple)),
    ),
    max_leaves=5,
)

ACTIONS: st.SearchStrategy[Action] = st.one_of(
    st.builds(Set, SOME_PATHS, VALUES),
    st.builds(SetIfMissing, SOME_PATHS, VALUES),
    st.builds(Remove, SOME_PATHS),
    st.builds(Increment, SOME_PATHS, NUMBERS, NUMBERS),
    st.builds(Append, SOME_PATHS, st.lists(VALUES, min_size=1, max_size=2).map(tuple)),
    st.builds(Prepend, SOME_PATHS, st.lists(VALUES, min_size=1, max_size=2).map(tuple)),
    st.builds(AddTo, SOME_PATHS, SETS),
    st.builds(DiscardFrom, SOME_PATHS, SETS),
)


def _apart(actions: list[Action]) -> bool:
    """No path is another's, or a part of it: the core refuses that."""
    paths = [action.path.segments for action in actions]
    return not any(
        one is not other and one == other[: len(one)]
        for n, one in enumerate(paths)
        for m, other in enumerate(paths)
        if n != m
    )


@pytest.fixture(scope="module")
def table(dynamodb_local: str) -> Iterator[DynamoDBConnection]:
    session = boto3.Session(aws_access_key_id="differential", aws_secret_access_key="secret", region_name="eu-west-1")
    connection = DynamoDB(session, endpoint_url=dynamodb_local).connect(Schema("differential", {}, {}))
    perform(connection, CreateTables())
    yield connection
    perform(connection, DropTables())
    connection.close()


@PROPERTY
@given(ITEMS, st.lists(CONDITIONS, min_size=1, max_size=3))
def test_conditions(table: DynamoDBConnection, item: dict[str, Any], conditions: list[Condition]) -> None:
    perform(table, Put(KEY, item))
    for condition in conditions:
        note(str(condition))
        assert bool(perform(table, Query(KEY.partition, filter=condition)).items) == holds(condition, item)


@PROPERTY
@given(ITEMS, st.lists(ACTIONS, min_size=1, max_size=3).filter(_apart))
def test_actions(table: DynamoDBConnection, item: dict[str, Any], actions: list[Action]) -> None:
    perform(table, Put(KEY, item))
    note(str(actions))
    try:
        expected: Any = apply(actions, item)
    except BadValue as error:
        expected = error
    request = Update(KEY, tuple(actions), returning="new")
    if isinstance(expected, BadValue):
        with pytest.raises(BadValue):
            perform(table, request)
    else:
        assert equal(perform(table, request).item, expected)
