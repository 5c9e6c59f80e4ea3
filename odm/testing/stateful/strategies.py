"""Strategies of the machine: entities, keys, actions, conditions, and writes."""

from datetime import datetime, timedelta
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from hypothesis import strategies as st

from odm import add_to, append, discard_from, increment, missing, prepend, remove, set_, set_if_missing
from odm.testing.stateful.entities import EPOCH, Locked, Note, Task
from odm.testing.stateful.model import Change, Predicate, Write

Which: TypeAlias = Literal["entity", "key"]

WORDS = st.sampled_from(["a", "b", "a#b"])
STATUSES = ["new", "a", "b", "a#b"]
PROJECTS = ["p", "q"]
TASK_KEYS = [("p", "x"), ("p", "y"), ("q", "x")]
LOCKED_NAMES = ["x", "y"]
NOTE_NUMBERS = range(6)
LEVELS = (0, 9)
STOCKS = (float("-inf"), 6)

KEYS: list[Any] = [
    *(Task.primary(project=project, name=name) for project, name in TASK_KEYS),
    *(Locked.primary(name=name) for name in LOCKED_NAMES),
    *(Note.primary(project=project, number=number) for project in PROJECTS for number in NOTE_NUMBERS),
]
"""The keys of all items that the machine ever writes."""


def _moment(seconds: float) -> datetime:
    return EPOCH + timedelta(seconds=seconds)


MOMENTS = st.none() | st.sampled_from([0, 1, 2.5, 4, 9, 1000]).map(_moment)

TASKS = st.builds(
    lambda key, **fields: Task(project=key[0], name=key[1], **fields),
    st.sampled_from(TASK_KEYS),
    status=WORDS,
    level=st.integers(*LEVELS),
    stock=st.integers(0, 6),
    due=WORDS | st.none(),
    price=st.sampled_from(["0", "1.5", "-2.25"]),
    steps=st.lists(WORDS, max_size=2),
    tags=st.sets(WORDS),
    expires=MOMENTS,
)
LOCKEDS = st.builds(Locked, name=st.sampled_from(LOCKED_NAMES), status=WORDS, revision=st.integers(0, 3))
NOTES = st.builds(Note, project=st.sampled_from(PROJECTS), number=st.sampled_from(NOTE_NUMBERS), text=WORDS)

TESTS = st.one_of(
    st.integers(0, 9).map(lambda n: Predicate(Task.level > n, lambda task: task is not None and task.level > n)),
    st.integers(0, 6).map(lambda n: Predicate(Task.stock <= n, lambda task: task is not None and task.stock <= n)),
    WORDS.map(lambda word: Predicate(Task.due == word, lambda task: task is not None and task.due == word)),
    st.just(Predicate(missing(Task.due), lambda task: task is None or task.due is None)),
)
"""Conditions on a `Task`; not on a field whose default `remove` restores, because conditions see the stored item."""


def _changes() -> st.SearchStrategy[tuple[Change, ...]]:
    """Actions on different fields of a `Task`."""
    number = st.sampled_from([-4, -1, 0, 1, 4])
    some = st.lists(WORDS, min_size=1, max_size=2)
    return st.lists(
        st.one_of(
            WORDS.map(lambda v: Change("status", set_(Task.status, v), lambda _: v)),
            st.just(Change("status", remove(Task.status), lambda _: "new")),
            st.integers(*LEVELS).map(lambda v: Change("level", set_(Task.level, v), lambda _: v)),
            number.map(lambda v: Change("level", increment(Task.level, v), lambda task: task.level + v, LEVELS)),
            number.map(lambda v: Change("stock", increment(Task.stock, v), lambda task: task.stock + v, STOCKS)),
            (WORDS | st.none()).map(lambda v: Change("due", set_(Task.due, v), lambda _: v)),
            WORDS.map(lambda v: Change("due", set_if_missing(Task.due, v), lambda task: task.due or v)),
            st.just(Change("due", remove(Task.due), lambda _: None)),
            number.map(lambda v: Change("price", increment(Task.price, v), lambda task: task.price + v)),
            some.map(lambda v: Change("steps", append(Task.steps, *v), lambda task: task.steps + v)),
            some.map(lambda v: Change("steps", prepend(Task.steps, *v), lambda task: v + task.steps)),
            some.map(lambda v: Change("tags", add_to(Task.tags, *v), lambda task: task.tags | set(v))),
            some.map(lambda v: Change("tags", discard_from(Task.tags, *v), lambda task: task.tags - set(v))),
            number.map(lambda v: Change("seen", increment(Task.seen, v), lambda task: task.seen + v)),
            MOMENTS.map(lambda v: Change("expires", set_(Task.expires, v), lambda _: v)),
        ),
        min_size=1,
        max_size=3,
        unique_by=attrgetter("field"),
    ).map(tuple)


def _locked_change(status: str) -> tuple[Change, ...]:
    return (Change("status", set_(Locked.status, status), lambda _: status),)


def _note_change(text: str) -> tuple[Change, ...]:
    return (Change("text", set_(Note.text, text), lambda _: text),)


def _key_of(entity: Any) -> Any:
    match entity:
        case Task():
            return Task.primary(project=entity.project, name=entity.name)
        case Locked():
            return Locked.primary(name=entity.name)
        case _:
            return Note.primary(project=entity.project, number=entity.number)


WHEN = st.none() | TESTS
TASK_TARGETS = TASKS | TASKS.map(_key_of)
OTHERS = LOCKEDS | NOTES
OTHER_TARGETS = OTHERS | OTHERS.map(_key_of)
RETURNING = st.sampled_from(["none", "old", "new"]).map(lambda which: {"returning": which})

NOTHING: st.SearchStrategy[tuple[Change, ...]] = st.just(())
ALWAYS: st.SearchStrategy[Predicate | None] = st.none()


def _writes(
    call: str,
    which: st.SearchStrategy[Any],
    changes: st.SearchStrategy[tuple[Change, ...]] = NOTHING,
    when: st.SearchStrategy[Predicate | None] = ALWAYS,
    **options: Any,
) -> st.SearchStrategy[Write]:
    return st.tuples(st.just(call), which, changes, when, st.just(options)).map(lambda parts: Write(*parts))


PUTS = _writes("put", TASKS, when=WHEN) | _writes("put", OTHERS)
INSERTS = _writes("insert", TASKS | OTHERS)
DELETES = _writes("delete", TASK_TARGETS, when=WHEN) | _writes("delete", OTHER_TARGETS)
UPDATES = st.one_of(
    _writes("update", TASK_TARGETS, _changes(), WHEN),
    _writes("update", LOCKEDS | LOCKEDS.map(_key_of), WORDS.map(_locked_change)),
    _writes("update", NOTES | NOTES.map(_key_of), WORDS.map(_note_change)),
)
UPSERTS = _writes("update", TASK_TARGETS, _changes(), upsert=True)
CHECKS = _writes("check", TASKS.map(_key_of), when=TESTS)
UNCHECKED = _writes("put", TASKS | NOTES) | _writes("delete", (TASKS | OTHERS).map(_key_of))
"""The writes that a batch accepts."""

IN_TRANSACTION = st.one_of(PUTS, INSERTS, DELETES, UPDATES, UPSERTS, CHECKS)
"""The writes that a transaction accepts."""
