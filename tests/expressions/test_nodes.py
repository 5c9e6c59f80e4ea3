"""What is true of every node of the language, so also of one that is added."""

from typing import Any, get_args

import pytest

from odm.expressions.nodes import (
    Action,
    AddTo,
    AddValue,
    And,
    AnyCondition,
    Append,
    Between,
    Compare,
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
    paths,
    with_paths,
)

A, B = Path(("a",)), Path(("b", "x"))
ONE = Const(1)
NODES: list[Any] = [
    Compare("=", A, ONE),
    Compare("<", ONE, Size(B)),
    Between(A, B, ONE),
    IsIn(A, (ONE, Const(2))),
    StartsWith(A, Const("x")),
    Contains(A, ONE),
    Exists(A),
    Missing(B),
    And((Exists(A), Not(Missing(B)))),
    Or((Exists(A), Compare("=", B, ONE))),
    Not(Exists(A)),
    Set(A, {"a": 1}, nested=True),
    SetIfMissing(A, 1),
    Remove(A),
    Increment(A, 1, 2),
    Append(A, (1,), (2,)),
    Prepend(A, (1,), (2,)),
    AddTo(A, frozenset({1})),
    DiscardFrom(A, frozenset({1})),
    AddValue(A, 1, "min"),
]


def test_each_class_has_an_example() -> None:
    assert {type(node) for node in NODES} == {*get_args(AnyCondition), *get_args(Action)}


@pytest.mark.parametrize("node", NODES, ids=str)
def test_all_paths_of_a_node_are_changed_and_nothing_else(node: Any) -> None:
    changed = with_paths(node, lambda path: Path(("new", *path.segments)))
    of = [node.path] if hasattr(node, "path") and not paths(node) else paths(node)
    now = [changed.path] if hasattr(changed, "path") and not paths(changed) else paths(changed)
    assert now == [Path(("new", *path.segments)) for path in of]
    assert with_paths(changed, lambda path: Path(path.segments[1:])) == node
    assert with_paths(node, lambda path: path) == node


@pytest.mark.parametrize("node", NODES, ids=str)
def test_equal_nodes_have_one_hash(node: Any) -> None:
    twin = with_paths(node, lambda path: Path(path.segments))
    assert twin == node
    if not isinstance(node, Set):  # its value is a dict here
        assert hash(twin) == hash(node)
