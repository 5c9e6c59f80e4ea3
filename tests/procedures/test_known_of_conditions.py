"""What a request says of its condition is true of the condition, whatever is stored."""

from datetime import UTC, datetime
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odm import (
    TTL,
    Entity,
    PrimaryKey,
    Revision,
    Table,
    exists,
    increment,
    is_in,
    missing,
    set_,
    set_if_missing,
    upgrade,
)
from odm.backends.bigtable.rows.mutations import settled
from odm.errors import BadValue
from odm.expressions.evaluate import apply, holds
from odm.expressions.nodes import Condition, Increment, Item
from odm.procedures.context import Context
from odm.procedures.writing.update import item_update
from odm.procedures.writing.write import check_write, delete_write, insert_write, put_write
from odm.protocol.predicates import EXISTS, condition_of, every, guarded, has_tag, over_own, requires
from odm.protocol.requests import Check, Delete, Put, Update
from odm.schema.entity import Key
from tests.effort import times

pytestmark = pytest.mark.slow

shared, owned = Table("shared"), Table("owned", exclusive=True)
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)
NOW = NOON.timestamp()


class Plain(Entity, table=shared):
    id: str
    rank: int = 0
    note: str | None = None
    tags: set[str] = set()
    made: str = "now"
    primary = PrimaryKey("P#{id}")


class Brief(Entity, table=shared):
    id: str
    rank: int = 3
    note: str = "x"
    tags: set[str] = set()
    due: Annotated[datetime | None, TTL] = None
    number: Annotated[int, Revision] = 0
    primary = PrimaryKey("B#{id}")


class Later(Entity, table=owned, version=2):
    id: str
    rank: int = 0
    note: str | None = None
    tags: set[str] = set()
    due: Annotated[datetime | None, TTL] = None
    primary = PrimaryKey("L#{id}")

    @upgrade(from_=1)
    @staticmethod
    def _first(item: dict[str, Any]) -> dict[str, Any]:
        return item


ENTITIES: tuple[Any, ...] = (Plain, Brief, Later)
CONTEXTS = {table.name: Context(table.compile(), clock=lambda: NOW) for table in (shared, owned)}


def leaves(cls: Any) -> st.SearchStrategy[Condition]:
    made = [
        *(cls.rank == number for number in (0, 3, 7)),
        cls.rank != 0,
        cls.rank > 1,
        cls.note == "x",
        cls.note == None,  # noqa: E711  # a condition
        cls.note != "x",
        cls.tags == set(),
        exists(cls.rank),
        missing(cls.note),
        (cls.rank == 7) | missing(cls.rank),
        is_in(cls.note, ["x", "y"]),
    ]
    return st.sampled_from(made)


def conditions(cls: Any) -> st.SearchStrategy[Condition]:
    one = leaves(cls)
    return st.recursive(
        one,
        lambda parts: st.one_of(
            st.tuples(parts, parts).map(lambda two: two[0] & two[1]),
            st.tuples(parts, parts).map(lambda two: two[0] | two[1]),
            parts.map(lambda part: ~part),
        ),
        max_leaves=3,
    )


@st.composite
def stored_items(draw: st.DrawFn) -> Item | None:
    item: dict[str, Any] = {}
    attributes: dict[str, list[Any]] = {
        "_t": ["Plain", "Brief", "Later", "Stranger"],
        "_v": [2],
        "_ttl": [int(NOW) - 1, int(NOW) + 60],
        "id": ["a"],
        "rank": [0, 3, 7],
        "note": ["x", "y", None],
        "tags": [frozenset({"a"})],
        "number": [1, 2],
    }
    for name, values in attributes.items():
        if draw(st.booleans()):
            item[name] = draw(st.sampled_from(values))
    return item or None


@st.composite
def operations(draw: st.DrawFn) -> Put | Delete | Check:
    cls = draw(st.sampled_from(ENTITIES))
    context = CONTEXTS["owned" if cls is Later else "shared"]
    when = draw(st.one_of(st.none(), conditions(cls)))
    number: Any = {"number": draw(st.integers(0, 2))} if cls is Brief else {}
    entity = cls(id="a", **number)
    call = draw(st.integers(0, 4))
    if call == 0:
        write = put_write(context, entity, when)
    elif call == 1:
        write = insert_write(context, entity)
    elif call == 2:
        write = check_write(context, entity, when)
    else:
        write = delete_write(context, draw(st.sampled_from([entity, cls.primary(id="a")])), when, absent_ok=call == 3)
    if draw(st.booleans()):
        return write.first(context)
    operation = write.next(context, draw(stored_items()))
    return operation if isinstance(operation, Put | Delete | Check) else write.first(context)


@settings(max_examples=times(300, 5000), deadline=None)
@given(operations(), st.lists(stored_items(), min_size=1, max_size=6))
def test_a_write(operation: Put | Delete | Check, items: list[Item | None]) -> None:
    condition, tag = operation.condition, operation.tag
    if operation.presence == "own":
        assert isinstance(operation, Check) or tag is None or requires(condition, has_tag(tag))
    for item in (None, *items):
        held = condition is None or holds(condition, item)
        there, expired = item is not None and "_t" in item, item is not None and item.get("_ttl", NOW + 1) <= NOW
        if held and operation.presence is not None:
            assert {
                "absent": not there,
                "expired": not there or expired,
                "present": item is not None,
                "own": there,
            }[operation.presence]
        if tag is not None and (item is None or there):  # an item without a tag is absent only by its key
            whole = guarded(operation)
            assert (whole is None or holds(whole, item)) is (held and holds(over_own(tag), item))


def test_a_write_made_by_hand_has_no_shortcut() -> None:
    for condition in (None, has_tag("Plain"), EXISTS):
        assert guarded(Put(Key("a"), {}, condition=condition, tag="Plain")) == every(over_own("Plain"), condition)


@settings(max_examples=times(300, 5000), deadline=None)
@given(st.data(), st.sampled_from(ENTITIES), st.lists(stored_items(), min_size=1, max_size=6))
def test_an_update(data: st.DataObject, cls: Any, items: list[Item | None]) -> None:
    context = CONTEXTS["owned" if cls is Later else "shared"]
    actions: Any = data.draw(
        st.lists(
            st.sampled_from([increment(cls.rank, 2), set_(cls.note, "z"), set_if_missing(cls.note, "z")]),
            min_size=1,
            max_size=2,
            unique_by=lambda action: action.path.root,
        )
    )
    number: Any = {"number": 2} if cls is Brief else {}
    which = data.draw(st.sampled_from([cls(id="a", **number), cls.primary(id="a")]))
    update = item_update(context, which, actions, data.draw(st.one_of(st.none(), conditions(cls)))).first(context)
    assert isinstance(update, Update)
    condition = condition_of(update)
    assert condition is not None
    for item in items:
        if item is None or not holds(condition, item):
            continue
        starts = {one.path.root: one.start for one in update.actions if isinstance(one, Increment)}
        for name, value in update.fixed.items():
            assert item.get(name, starts.get(name)) == value
        try:
            expected = apply(update.actions, item)
        except BadValue:
            continue
        assert apply(settled(update.actions, update.fixed), item) == expected


@pytest.mark.parametrize("rank", [3, 7])
def test_the_values_that_a_condition_fixes(rank: int) -> None:
    context, entity = CONTEXTS["shared"], Brief(id="a", number=2)
    update = item_update(context, entity, (increment(Brief.rank, 1),), Brief.rank == rank).first(context)
    assert isinstance(update, Update)
    assert update.fixed == {"number": 2, "rank": rank}  # 3 is its default, too
    update = item_update(context, entity, (set_(Brief.note, "y"),), Brief.rank == rank).first(context)
    assert isinstance(update, Update)
    assert update.fixed == {"number": 2}
    absent = (Brief.rank == rank) | missing(Brief.rank)  # an absent rank counts as 3
    update = item_update(context, Brief.primary(id="a"), (increment(Brief.rank, 1),), absent).first(context)
    assert isinstance(update, Update)
    assert update.fixed == {}
