"""Updates that are compiled once: their mutations and predicates are those that are made for each update by itself."""

from decimal import Decimal
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odm import Cell, Columns, Counter, Entity, PrimaryKey, Stored, Sum, Table
from odm.backends.bigtable.client.filters import Filter
from odm.backends.bigtable.client.native import Mutation
from odm.backends.bigtable.rows.codec import Form
from odm.backends.bigtable.rows.mutations import Blind, Parted, Whole, blind, compiled
from odm.backends.bigtable.rows.predicates import predicate, predicate_of_own
from odm.errors import BadValue, ItemTooLarge
from odm.expressions.nodes import (
    Action,
    And,
    Compare,
    Condition,
    Const,
    Exists,
    Increment,
    IsIn,
    Missing,
    Path,
    Remove,
    Set,
)
from odm.protocol.predicates import every, has_tag, has_version
from tests.backends.bigtable.values import values
from tests.effort import times

table = Table("shop")


class Plain(Entity, table=table):
    name: str
    note: str = ""
    price: Decimal = Decimal(0)

    primary = PrimaryKey("PLAIN#{name}", "PLAIN")


class Apart(Entity, table=table, family="apart"):
    name: str
    note: str = ""
    size: Annotated[int, Stored(family="sizes")] = 0
    ask: Annotated[float, Cell("market:ask", "float64be")] = 0.0
    views: Annotated[int, Counter] = 0
    sold: Annotated[int, Sum] = 0
    tags: Annotated[set[str], Columns] = set()

    primary = PrimaryKey("APART#{name}", "APART")


FORM = Form.of(table.compile())
NAMES = ("note", "price", "size", "ask", "views", "sold", "tags", "other", "a#b", "_was", "_ix", "~r")


def actions() -> st.SearchStrategy[Action]:
    paths = st.sampled_from(NAMES).map(lambda name: Path((name,))) | st.just(Path(("tags", "new")))
    return st.builds(Set, paths, values) | st.builds(Remove, paths) | st.builds(Increment, paths, st.integers(-5, 5))


def outcome(make: Any) -> Any:
    try:
        return make()
    except (BadValue, ItemTooLarge) as error:
        return type(error), str(error)


@settings(max_examples=times(300, 3000), deadline=None)
@given(st.lists(actions(), max_size=3), st.sampled_from(["Plain", "Apart", "Unknown", None]))
def test_an_update_is_its_actions_by_themselves(changes: list[Action], tag: str | None) -> None:
    parted = Parted(FORM, FORM.placement(tag))

    def one_by_one() -> Blind | None:
        mutations: list[Mutation] = []
        requires: dict[Filter, None] = {}
        for action in changes:
            part = parted.blind(action, 1000, "row")
            if part is None:
                return None
            mutations += part.mutations
            requires.update(dict.fromkeys(part.requires))
        return Blind(tuple(mutations), tuple(requires))

    assert outcome(lambda: blind(changes, FORM, 1000, "row", tag)) == outcome(one_by_one)


def test_plain_attributes_are_compiled_and_keys_of_dicts_share_an_update() -> None:
    kinds = [type(compiled([Set(Path((name,)), 1)], "Apart", None, FORM).parts[0]) for name in NAMES[:7]]
    assert kinds == [Whole, Whole, Whole, Parted, Parted, Parted, Parted]
    one, other = (compiled([Set(Path(("tags", key)), 1)], "Apart", None, FORM) for key in ("a", "b"))
    assert one is other


CONDITIONS: list[Condition | None] = [
    None,
    Compare("=", Path(("price",)), Const(1)),
    Compare("=", Path(("price",)), Const(True)),
    Compare("=", Path(("price",)), Const(Decimal(1))),
    And((Exists(Path(("note",))), Missing(Path(("price",))))),
    IsIn(Path(("note",)), (Const("a"), Const("b"))),
    has_tag("Plain"),
    And((has_tag("Plain"), Exists(Path(("note",))))),
    Compare("=", Path(("note",)), Const("x" * 100)),
    Compare("=", Path(("size",)), Const(5)),
]


@pytest.mark.parametrize("place", range(len(CONDITIONS)))
@pytest.mark.parametrize("version", [None, 1, 2])
@pytest.mark.parametrize("tag", ["Plain", "Apart"])
def test_the_predicate_of_an_update_is_that_of_its_whole_condition(place: int, version: int | None, tag: str) -> None:
    condition = CONDITIONS[place]
    own = None if version is None else has_version(version)
    named = isinstance(condition, And) and has_tag(tag) in condition.conditions
    whole = every(None if condition == has_tag(tag) or named else has_tag(tag), own, condition)
    for _ in range(2):  # made, and kept
        assert predicate_of_own(tag, version, FORM, condition) == predicate(whole, FORM, tag)
