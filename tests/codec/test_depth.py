"""Nesting: 32 levels are stored and read back, anything deeper is refused before it is stored."""

from typing import Any

import pytest
from pydantic import BaseModel, JsonValue

from odm.codec import compile_codec
from odm.errors import BadValue
from odm.expressions.nodes import Append, Path, Set, SetIfMissing


class Tree(BaseModel):
    children: list["Tree"] = []


class Draft(BaseModel):
    id: str = "1"
    json_value: JsonValue = None
    anything: Any = None
    tree: Tree = Tree()


CODEC = compile_codec(Draft, "Draft")
REFUSED = r"nested deeper than 32 levels: flatten it, or store it as text"


def nested(lists: int) -> Any:
    value: Any = "x"
    for _ in range(lists):
        value = [value]
    return value


def tree(depth: int) -> Tree:
    found = Tree()
    for _ in range(depth):
        found = Tree(children=[found])
    return found


@pytest.mark.parametrize("name", ["json_value", "anything"])
def test_levels(name: str) -> None:
    draft = Draft.model_construct(**{name: nested(31)})
    assert CODEC.decode(CODEC.encode(draft)) == draft
    for lists in (32, 200, 100_000):
        with pytest.raises(BadValue, match=rf"Draft\.{name}: is {REFUSED}"):
            CODEC.encode(Draft.model_construct(**{name: nested(lists)}))


def test_levels_of_models() -> None:
    draft = Draft(tree=tree(14))
    assert CODEC.decode(CODEC.encode(draft)) == draft
    for depth in (15, 1000):
        with pytest.raises(BadValue, match=rf"Draft\.tree: is {REFUSED}"):
            CODEC.encode(Draft.model_construct(tree=tree(depth)))


def test_what_holds_itself() -> None:
    value: list[Any] = []
    value.append(value)
    with pytest.raises(BadValue, match=rf"Draft\.anything: is {REFUSED}"):
        CODEC.encode(Draft(anything=value))


@pytest.mark.parametrize("lists", [32, 1000])
def test_actions(lists: int) -> None:
    path, part = Path(("anything",)), Path(("anything", "a", "b"))
    for action in (Set(path, nested(lists)), SetIfMissing(path, nested(lists)), Set(part, nested(lists - 2))):
        with pytest.raises(BadValue, match=REFUSED):
            CODEC.lower_action(action)
    with pytest.raises(BadValue, match=REFUSED):
        CODEC.lower_action(Append(path, (nested(lists - 1),)))
    with pytest.raises(BadValue, match="Draft"):
        CODEC.lower_action(Set(Path(("json_value",)), nested(lists)))


def test_actions_at_the_limit() -> None:
    CODEC.lower_action(Set(Path(("anything",)), nested(31)))
    CODEC.lower_action(Set(Path(("anything", "a", "b")), nested(29)))
    CODEC.lower_action(Append(Path(("anything",)), (nested(30),)))
