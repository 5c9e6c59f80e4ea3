"""Random writes on a few keys against a dict of entities: after each step, every read and every index agrees with it.

The model changes Python objects; it knows nothing of guards, entries or stored values.
"""

from collections.abc import Callable
from decimal import Decimal
from operator import attrgetter
from typing import Annotated, Any, NamedTuple

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, rule
from pydantic import Field

from odm import (
    AccessPattern,
    ConditionFailed,
    Counter,
    Entity,
    ItemExists,
    ItemNotFound,
    PrimaryKey,
    Revision,
    Shards,
    Store,
    Table,
    add_to,
    append,
    collection,
    discard_from,
    field,
    increment,
    prepend,
    remove,
    set_,
    set_if_missing,
)
from odm.backends.local import Memory

table = Table("writes")


class Task(Entity, table=table):
    project: str
    name: str
    status: str = "new"
    level: Annotated[int, Field(ge=0, le=9)] = 0
    stock: Annotated[int, Field(le=6)] = 0
    due: str | None = None
    price: Decimal = Decimal(0)
    steps: list[str] = []
    tags: set[str] = set()
    seen: Annotated[int, Counter] = 0

    primary = PrimaryKey("PROJECT#{project}", "TASK#{name}")
    by_status = AccessPattern("STATUS#{status}", "{level}#{name}")
    due_ones = AccessPattern("DUE", "{due}#{project}#{name}", index="gsi1")
    hard = AccessPattern("PROJECT#{project}", "{name}", when=field("level") > 6)
    spread = AccessPattern("STATUS#{status}", "{level}#{project}#{name}", shards=Shards(3, by="stock"))
    at_random = AccessPattern("DUE", "{due}#{project}#{name}", shards=Shards(4))
    by_level = AccessPattern("PROJECT#{project}", "LEVEL#{level}#{name}", local=True)


class Locked(Entity, table=table):
    name: str
    status: str = "new"
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("LOCKED#{name}")
    by_status = AccessPattern("STATUS#{status}", "{name}", index="gsi1")


class Change(NamedTuple):
    """One action, for odm and on an entity."""

    field: str
    action: Any
    apply: Callable[[Task], Any]


WORDS = st.sampled_from(["a", "b", "a#b"])


def changes() -> st.SearchStrategy[list[Change]]:
    """Actions on different fields; each gives the new value of its field."""
    number = st.sampled_from([-4, -1, 0, 1, 4])
    some = st.lists(WORDS, min_size=1, max_size=2)
    return st.lists(
        st.one_of(
            WORDS.map(lambda v: Change("status", set_(Task.status, v), lambda _: v)),
            st.just(Change("status", remove(Task.status), lambda _: "new")),
            st.integers(0, 9).map(lambda v: Change("level", set_(Task.level, v), lambda _: v)),
            number.map(lambda v: Change("level", increment(Task.level, v), lambda task: task.level + v)),
            number.map(lambda v: Change("stock", increment(Task.stock, v), lambda task: task.stock + v)),
            (WORDS | st.none()).map(lambda v: Change("due", set_(Task.due, v), lambda _: v)),
            WORDS.map(lambda v: Change("due", set_if_missing(Task.due, v), lambda task: task.due or v)),
            st.just(Change("due", remove(Task.due), lambda _: None)),
            number.map(lambda v: Change("price", increment(Task.price, v), lambda task: task.price + v)),
            some.map(lambda v: Change("steps", append(Task.steps, *v), lambda task: task.steps + v)),
            some.map(lambda v: Change("steps", prepend(Task.steps, *v), lambda task: v + task.steps)),
            some.map(lambda v: Change("tags", add_to(Task.tags, *v), lambda task: task.tags | set(v))),
            some.map(lambda v: Change("tags", discard_from(Task.tags, *v), lambda task: task.tags - set(v))),
            number.map(lambda v: Change("seen", increment(Task.seen, v), lambda task: task.seen + v)),
        ),
        min_size=1,
        max_size=3,
        unique_by=attrgetter("field"),
    )


KEYS = st.sampled_from([("p", "x"), ("p", "y"), ("q", "x")])
TASKS = st.builds(
    Task,
    project=st.just("?"),
    name=st.just("?"),
    status=WORDS,
    level=st.integers(0, 9),
    stock=st.integers(0, 6),
    due=WORDS | st.none(),
    steps=st.lists(WORDS, max_size=2),
    tags=st.sets(WORDS),
)


class Writes(RuleBasedStateMachine):
    """A table of tasks and, in ``model``, what it should hold."""

    @initialize(x=TASKS, y=TASKS)
    def start(self, x: Task, y: Task) -> None:
        self.db = Store(table, Memory())
        self.db.create()
        self.model: dict[tuple[str, str], Task] = {}
        self.stale: dict[tuple[str, str], Task] = {}
        self.put(("p", "x"), x)
        self.put(("p", "y"), y)

    def key(self, key: tuple[str, str]) -> Any:
        return Task.primary(project=key[0], name=key[1])

    @rule(key=KEYS, task=TASKS)
    def put(self, key: tuple[str, str], task: Task) -> None:
        task = task.model_copy(update={"project": key[0], "name": key[1]}, deep=True)
        self.stale[key] = self.db.put(task).model_copy(deep=True)
        self.model[key] = task

    @rule(key=KEYS, task=TASKS)
    def insert(self, key: tuple[str, str], task: Task) -> None:
        task = task.model_copy(update={"project": key[0], "name": key[1]}, deep=True)
        if key in self.model:
            with pytest.raises(ItemExists) as raised:
                self.db.insert(task)
            assert raised.value.item == self.model[key]
        else:
            self.db.insert(task)
            self.model[key] = task

    @rule(
        key=KEYS,
        what=changes(),
        by=st.sampled_from(["key", "stale"]),
        returning=st.sampled_from(["none", "old", "new"]),
    )
    def update(self, key: tuple[str, str], what: list[Change], by: str, returning: Any) -> None:
        which: Any = self.stale.get(key, self.key(key)) if by == "stale" else self.key(key)
        actions = [change.action for change in what]
        old = self.model.get(key)
        if old is None:
            with pytest.raises(ItemNotFound):
                self.db.update(which, *actions, returning=returning)
            return
        new = old.model_copy(update={change.field: change.apply(old) for change in what}, deep=True)
        if not 0 <= new.level <= 9 or new.stock > 6:
            with pytest.raises(ConditionFailed, match="bounds"):
                self.db.update(which, *actions, returning=returning)
            return
        assert self.db.update(which, *actions, returning=returning) == {"none": None, "old": old, "new": new}[returning]
        self.model[key] = new

    @rule(key=KEYS, what=changes(), status=WORDS)
    def update_when(self, key: tuple[str, str], what: list[Change], status: str) -> None:
        old = self.model.get(key)
        if old is None or old.status == status:
            return
        with pytest.raises(ConditionFailed, match="status") as raised:
            self.db.update(self.key(key), *(change.action for change in what), when=Task.status == status)
        assert raised.value.item == old

    @rule(key=KEYS, task=TASKS)
    def upsert(self, key: tuple[str, str], task: Task) -> None:
        actions = (set_(Task.status, task.status), set_(Task.due, task.due), increment(Task.price))
        new = self.db.update(self.key(key), *actions, upsert=True, returning="new")
        old = self.model.get(key, Task(project=key[0], name=key[1]))
        self.model[key] = old.model_copy(
            update={"status": task.status, "due": task.due, "price": old.price + 1}, deep=True
        )
        assert new == self.model[key]

    @rule(key=KEYS)
    def delete(self, key: tuple[str, str]) -> None:
        assert self.db.delete(self.key(key)) is (self.model.pop(key, None) is not None)

    @rule(keys=st.lists(KEYS, unique=True), task=TASKS, gone=st.lists(KEYS, unique=True))
    def batch(self, keys: list[tuple[str, str]], task: Task, gone: list[tuple[str, str]]) -> None:
        with self.db.batch() as batch:
            for key in keys:
                self.model[key] = task.model_copy(update={"project": key[0], "name": key[1]}, deep=True)
                batch.put(self.model[key])
            for key in gone:
                self.model.pop(key, None)
                batch.delete(self.key(key))

    @invariant()
    def every_read_agrees(self) -> None:
        db, tasks = self.db, [self.model[key] for key in sorted(self.model)]
        assert sorted(db.scan(Task), key=attrgetter("project", "name")) == tasks
        assert db.get_many([self.key(("p", "x")), self.key(("q", "x"))]) == [
            self.model.get(("p", "x")),
            self.model.get(("q", "x")),
        ]
        for project in ("p", "q"):
            mine = [task for task in tasks if task.project == project]
            assert list(db.query(Task.primary(project=project))) == mine
            assert list(db.query(Task.hard(project=project))) == [task for task in mine if task.level > 6]
            assert list(db.query(Task.by_level(project=project))) == sorted(mine, key=attrgetter("level", "name"))

    @invariant()
    def every_index_agrees(self) -> None:
        tasks = [self.model[key] for key in sorted(self.model)]
        for status in ("new", "a", "b", "a#b"):
            of_status = sorted((t for t in tasks if t.status == status), key=attrgetter("level", "name"))
            query = Task.by_status(status=status)
            assert list(self.db.query(query)) == of_status
            hard = [task for task in of_status if task.level > 4]
            assert list(self.db.query(query.where(Task.level > 4))) == hard  # by the key, where it could be stale
            spread = sorted(of_status, key=attrgetter("level", "project", "name"))
            assert list(self.db.query(Task.spread(status=status))) == spread
            for stock in {task.stock for task in tasks}:  # each reads the one shard where they should be
                found = self.db.query(Task.spread(status=status).where(Task.stock == stock))
                assert list(found) == [task for task in spread if task.stock == stock]
        due = sorted((t for t in tasks if t.due is not None), key=attrgetter("due", "project", "name"))
        assert list(self.db.query(collection(Task.due_ones()))) == due
        assert list(self.db.query(Task.at_random())) == due


Writes.TestCase.settings = settings(max_examples=200, stateful_step_count=30, deadline=None)
TestWrites = Writes.TestCase


class Lock(RuleBasedStateMachine):
    """One item with a Revision, written by those who have read it and by those who are late."""

    @initialize()
    def start(self) -> None:
        self.db = Store(table, Memory())
        self.db.create()
        self.now: Locked | None = None
        self.read: list[Locked] = [Locked(name="x")]

    @rule(at=st.integers(0, 20), status=WORDS)
    def put(self, at: int, status: str) -> None:
        mine = self.read[at % len(self.read)].model_copy(update={"status": status})
        if mine.revision == (0 if self.now is None else self.now.revision):
            self.now = self.db.put(mine)
            assert self.now == Locked(name="x", status=status, revision=mine.revision + 1)
            self.read.append(self.now)
        else:
            with pytest.raises((ItemExists, ConditionFailed)):
                self.db.put(mine)

    @rule(at=st.integers(0, 20), status=WORDS)
    def update(self, at: int, status: str) -> None:
        mine = self.read[at % len(self.read)]
        if self.now is None:
            with pytest.raises(ItemNotFound):
                self.db.update(mine, set_(Locked.status, status))
        elif mine.revision != self.now.revision:
            with pytest.raises(ConditionFailed, match="changed"):
                self.db.update(mine, set_(Locked.status, status))
        else:
            self.now = self.db.update(mine, set_(Locked.status, status), returning="new")
            self.read.append(self.now)

    @rule(status=WORDS)
    def update_by_key(self, status: str) -> None:
        if self.now is not None:
            new = self.db.update(Locked.primary(name="x"), set_(Locked.status, status), returning="new")
            assert new == Locked(name="x", status=status, revision=self.now.revision + 1)
            self.now = new

    @rule(at=st.integers(0, 20))
    def delete(self, at: int) -> None:
        mine = self.read[at % len(self.read)]
        if self.now is None:
            assert self.db.delete(mine) is False
        elif mine.revision != self.now.revision:
            with pytest.raises(ConditionFailed, match="changed"):
                self.db.delete(mine)
        else:
            assert self.db.delete(mine) is True
            self.now = None

    @invariant()
    def the_index_agrees(self) -> None:
        assert self.db.get(Locked, name="x") == self.now
        for status in ("new", "a", "b", "a#b"):
            found = [self.now] if self.now is not None and self.now.status == status else []
            assert list(self.db.query(Locked.by_status(status=status))) == found


Lock.TestCase.settings = settings(max_examples=60, stateful_step_count=20, deadline=None)
TestLock = Lock.TestCase
