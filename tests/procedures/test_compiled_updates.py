"""An update of a known shape is what it is as the first of its shape, for values of all types and refusals."""

from collections.abc import Callable
from datetime import UTC, datetime
from random import Random
from typing import Annotated, Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, Field, StringConstraints

from odm import (
    AUTO,
    TTL,
    AccessPattern,
    Entity,
    PrimaryKey,
    Query,
    Revision,
    Sum,
    Table,
    UpdatedAt,
    add_to,
    add_value,
    append,
    discard_from,
    exists,
    increment,
    prepend,
    remove,
    set_,
    set_fields,
    set_if_missing,
)
from odm.errors import BadValue, OdmError
from odm.expressions.nodes import Action
from odm.procedures.context import Context
from odm.procedures.writing.update import item_update
from tests.effort import times

pytestmark = pytest.mark.slow

table = Table("updated")
NOON = datetime(2026, 11, 29, 12, tzinfo=UTC)


Code = Annotated[str, StringConstraints(to_lower=True, max_length=400)]


class Part(BaseModel):
    code: Annotated[str, Field(min_length=2)] = "aa"
    size: int = 1


class Job(Entity, table=table):
    team: str
    id: str
    state: Annotated[str, StringConstraints(to_lower=True)] = "new"
    rank: Annotated[int, Field(ge=0, le=9)] = 0
    note: str | None = None
    due: Annotated[datetime | None, TTL] = None
    part: Part = Part()
    marks: Annotated[list[Annotated[int, Field(ge=0)]], Field(max_length=3)] = []
    labels: Annotated[set[str], Field(max_length=2)] = set()
    stock: Annotated[dict[Code, int], Field(max_length=3)] = {}
    parts: dict[str, Part] = {}
    spent: Annotated[int, Sum] = 0
    changed: Annotated[datetime, UpdatedAt] = AUTO

    primary = PrimaryKey("TEAM#{team}", "JOB#{id}")
    by_state = AccessPattern("STATE#{state}", "{rank}#{id}")


class Counted(Entity, table=table):
    id: str
    seen: int = 0
    kind: str = "a"
    note: str | None = None
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("COUNTED", "{id}")
    by_kind = AccessPattern("KIND#{kind}", "{seen}")


VALUES: list[Any] = [
    "x",
    "X",
    "",
    None,
    0,
    1,
    True,
    10,
    -1,
    0.5,
    NOON,
    {"code": "b"},
    {"code": "bb"},
    Part(code="cc"),
    {"y"},
    set(),
    [1],
]
MAKERS: list[Callable[[Any, Any], Any]] = [
    set_,
    set_,
    set_if_missing,
    lambda field, _: remove(field),
    increment,
    append,
    prepend,
    add_to,
    discard_from,
    add_value,
    lambda field, value: add_to(field, value, "z"),
]
FIELDS: list[Any] = [
    *(Job.state, Job.rank, Job.note, Job.due, Job.part, Job.marks, Job.labels, Job.spent, Job.changed, Job.id),
    *(Job.part.code, Job.marks[0], Counted.seen, Counted.kind, Counted.revision),
]


FITTING: list[Any] = [
    *(set_(Job.state, state) for state in ("a", "B")),
    *(set_(Job.note, note) for note in ("n", None)),
    *(set_(Job.labels, labels) for labels in (set(), {"y"})),
    *(add_to(Job.labels, *labels) for labels in ("x", "xy")),
    *(discard_from(Job.labels, *labels) for labels in ("x", "xy")),
    *(increment(Job.rank, by) for by in (1, -1)),
    *(append(Job.marks, *marks) for marks in ([1], [1, 2], [-1])),
    *(set_(Job.due, due) for due in (NOON, None)),
    *(set_(Counted.kind, kind) for kind in "ab"),
    *(add_value(Job.spent, by) for by in (1, 2)),
    *set_fields(Job, {"part": {"code": "dd"}, "note": "n"}),
    set_(Counted.id, "a"),
    *(set_(Job.part.code, code) for code in ("bb", "b")),
    *(set_(Job.marks[position], 1) for position in (0, 1, 2**31)),
    *(set_(Job.stock[key], 1) for key in ("a", "A", "b", "", "k" * 300)),
    *(remove(Job.stock[key]) for key in "ab"),
    *(increment(Job.stock[key], 1) for key in "ab"),
    *(set_(Job.parts[key].code, "bb") for key in "ab"),
    *(remove(Job.parts[key]) for key in "ab"),
    *set_fields(Job, {"parts": {"a": {"code": "dd"}}}),
    "set",
]
"""Several of a shape; all calls of a shape must be made as each alone."""


@st.composite
def actions(draw: st.DrawFn, cls: type[Entity]) -> Any:
    if draw(st.integers(0, 9)):
        return draw(st.sampled_from([one for one in FITTING if isinstance(one, Action) and one.path.owner is cls]))
    if draw(st.integers(0, 1)):
        return draw(st.sampled_from(FITTING))
    make = draw(st.sampled_from(MAKERS))
    try:
        return make(draw(st.sampled_from(FIELDS)), draw(st.sampled_from(VALUES)))
    except (OdmError, TypeError, ValueError):
        return remove(Job.note)


KEYS: list[Any] = [
    Job.primary(team="a", id="1"),
    Job(team="a", id="1", note="n", rank=3),
    Counted.primary(id="1"),
    Counted(id="1", seen=2),
]


@st.composite
def calls(draw: st.DrawFn) -> tuple[Any, ...]:
    key = draw(st.sampled_from(KEYS))
    cls = key.entity if isinstance(key, Query) else type(key)
    when = draw(st.sampled_from([None, None, Job.note == "n", Counted.seen > 1, exists(Job.marks)]))
    upsert, validate = draw(st.booleans()), draw(st.sampled_from([*["item"] * 9, "values", "no"]))
    return key, draw(st.lists(actions(cls), min_size=1, max_size=2)), when, upsert, validate


def outcome(key: Any, those: list[Action], when: Any, upsert: bool, validate: Any) -> tuple[Any, Any]:
    """The update and its first request; or the refusal."""
    context = Context(table.compile(), clock=NOON.timestamp, random=Random(1))
    try:
        change = item_update(context, key, those, when, upsert=upsert, validate=validate)
        return repr(change), repr(change.first(context))
    except OdmError as error:
        return type(error), str(error)


def as_the_first(*call: Any) -> object:
    """The outcome of a call if no shape is known."""
    schemas = [*table.compile().entities.values()]
    known = [dict(entity.updates) for entity in schemas]
    for entity in schemas:
        entity.updates.clear()
    found = outcome(*call)
    for entity, shapes in zip(schemas, known, strict=True):
        entity.updates.update(shapes)
    return found


@settings(max_examples=times(500, 5000))
@given(calls())
def test_an_update_is_made_as_the_first_of_its_shape(call: tuple[Any, ...]) -> None:
    """The shapes of the calls before are known."""
    expected = as_the_first(*call)
    assert outcome(*call) == expected
    assert outcome(*call) == expected


def test_the_values_of_a_shape_share_a_compiled_update() -> None:
    entity = table.compile().entity(Job)
    entity.updates.clear()
    for value in ("a", "B", None):
        outcome(KEYS[0], [set_(Job.note, value), increment(Job.rank, 1)], None, False, "item")
    assert len(entity.updates) == 1


def test_a_field_of_another_entity_is_of_another_shape() -> None:
    outcome(KEYS[0], [set_(Job.note, "a")], None, False, "item")
    kind, text = outcome(KEYS[0], [set_(Counted.note, "a")], None, False, "item")
    assert (kind, "Counted.note is a field of Counted, not of Job" in text) == (BadValue, True)


@pytest.mark.parametrize(
    "many",
    [
        [set_(Job.part.code, code) for code in ("bb", "cc")],
        [set_(Job.marks[position], 1) for position in range(300)],
        [set_(Job.stock[f"k{number}"], 1) for number in range(300)],
        [set_(Job.parts[f"k{number}"].code, "bb") for number in range(300)],
    ],
    ids=lambda many: str(many[0].path),
)
def test_keys_and_positions_are_values(many: list[Action]) -> None:
    """A program has as many keys of dicts and positions as its data."""
    entity = table.compile().entity(Job)
    entity.updates.clear()
    for action in many:
        _, request = outcome(KEYS[0], [action], None, False, "item")
        assert request == "None" or str(action.path) in str(request)
    assert len(entity.updates) == 1


def test_two_keys_of_one_dict_are_judged_for_each_call() -> None:
    """Two members of one dict may change its length by two; of two dicts, each by one."""
    for first, second in (("a", "b"), ("a", "a"), ("b", "A")):
        pair = [set_(Job.stock[first], 1), set_(Job.stock[second], 1)]
        assert outcome(KEYS[0], pair, None, False, "item") == as_the_first(KEYS[0], pair, None, False, "item")


def test_a_refused_shape_is_not_kept() -> None:
    entity = table.compile().entity(Job)
    entity.updates.clear()
    assert outcome(KEYS[0], [remove(Job.id)], None, False, "item") == outcome(
        KEYS[0], [remove(Job.id)], None, False, "item"
    )
    assert len(entity.updates) == 0
