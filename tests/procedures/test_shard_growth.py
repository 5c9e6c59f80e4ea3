"""Changing the number of shards of a table in use: reads return what a dict holds, whichever entries have moved.

Pages end early, and parallel requests are answered one by one in any order, with moves in between.
"""

from collections.abc import Callable, Sequence
from itertools import chain
from random import Random
from types import new_class
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from odm import AccessPattern, Entity, PrimaryKey, Query, Shards, Store, Table, set_
from odm.backends.local import Memory
from odm.immutable import evolve
from odm.procedures.reading import read
from odm.procedures.reading.shards import Stream, window
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen, perform, run
from odm.schema.entity import Key
from odm.testing.suite.helpers import walk
from tests.effort import times

IDS = [f"t{number:02}" for number in range(30)]


class Model(NamedTuple):
    """A table and its entity."""

    table: Table
    task: Any


def model(shards: Shards | None) -> Model:
    """A table of tasks with two patterns with these shards; several tasks may have the same rank."""
    table = Table("tasks")

    def fill(body: dict[str, Any]) -> None:
        body |= {"__module__": __name__, "__annotations__": {"id": str, "owner": int, "rank": int, "note": str}}
        body |= {"owner": 0, "rank": 0, "note": "", "primary": PrimaryKey("TASK#{id}")}
        body["by_rank"] = AccessPattern("ALL", "{rank}#{id}", shards=shards)
        body["tied"] = AccessPattern("TIED", "{rank}", shards=shards)

    return Model(table, new_class("Task", (Entity,), {"table": table, "tag": "Task"}, fill))


BY = "id"
GROWN: list[tuple[Shards | None, Shards]] = [
    (Shards(4, by=BY), Shards(8, by=BY, was=4)),
    (Shards(8, by=BY), Shards(16, by=BY, was=8)),
    (Shards(12, by=BY), Shards(3, by=BY, was=12)),
    (Shards(8, by=BY), Shards(4, by=BY, was=8)),
    (None, Shards(3, by=BY, was=1)),
    (Shards(3), Shards(12, was=3)),
    (None, Shards(5, was=1)),
]
"""Changes of shards in which the shards that entries leave can be read before the others."""

OTHERS: list[tuple[Shards | None, Shards]] = [
    (Shards(3, by=BY), Shards(4, by=BY, was=3)),
    (Shards(15, by=BY), Shards(11, by=BY, was=15)),
    (Shards(2), Shards(3, was=2)),
    (Shards(2, by="owner"), Shards(12, by="owner", was=2)),
]

RANKS = st.integers(0, 5)
TASK = st.fixed_dictionaries({"id": st.sampled_from(IDS), "owner": st.integers(0, 9), "rank": RANKS})
Values = dict[str, Any]


class Live:
    """The table in both models on one `Memory`, and the same items as a dict."""

    def __init__(self, shards: tuple[Shards | None, Shards]) -> None:
        self.old, self.new = map(model, shards)
        memory = Memory()
        self.before, self.db = (Store(one.table, memory, random=Random(1)) for one in (self.old, self.new))
        self.before.create()
        self.held: dict[str, Values] = {}

    def put(self, values: Values, *, moved: bool) -> None:
        """Write a task, with the old model or the new one."""
        made, store = (self.new.task, self.db) if moved else (self.old.task, self.before)
        store.put(made(**values))
        self.held[values["id"]] = {"note": "", **values}

    def change(self, values: Values) -> None:
        """Change a field that is in no template, or one that is in both templates."""
        if values["id"] not in self.held:
            return
        name, value = ("note", "new") if values["owner"] % 2 else ("rank", values["rank"])
        self.db.update(self.new.task.primary(id=values["id"]), set_(getattr(self.new.task, name), value))
        self.held[values["id"]][name] = value

    def delete(self, values: Values) -> None:
        """Remove a task if it exists."""
        assert self.db.delete(self.new.task, id=values["id"]) == (self.held.pop(values["id"], None) is not None)

    def expected(self) -> list[Values]:
        """All tasks in order."""
        return sorted(self.held.values(), key=lambda values: (values["rank"], values["id"]))


def plain(tasks: Sequence[Any]) -> list[Values]:
    return [task.model_dump() for task in tasks]


def pages(db: Store, query: Query[Any], size: int) -> list[Values]:
    found = walk(db, query, size)
    assert all(len(page) == size for page in found[:-1])
    return plain(list(chain.from_iterable(found)))


WRITE = st.tuples(st.sampled_from(["old", "old", "new", "change", "delete"]), TASK)


@settings(max_examples=times(30, 120))
@given(st.sampled_from([*GROWN, *OTHERS]), st.lists(st.lists(WRITE, max_size=12), min_size=1, max_size=4), st.data())
def test_reads_over_old_and_new_shards_are_those_of_a_dict(
    shards: tuple[Shards | None, Shards], phases: list[list[tuple[str, Values]]], data: st.DataObject
) -> None:
    live = Live(shards)
    for writes in phases:
        for kind, values in writes:
            match kind:
                case "change":
                    live.change(values)
                case "delete":
                    live.delete(values)
                case _:
                    live.put(values, moved=kind == "new")
        expected, size = live.expected(), data.draw(st.integers(1, 5))
        query = live.new.task.by_rank()
        assert plain(list(live.db.query(query))) == expected
        assert plain(list(live.db.query(query.reverse()))) == expected[::-1]
        assert pages(live.db, query, size) == expected
        assert pages(live.db, query.reverse(), size) == expected[::-1]
        assert live.db.count(query) == len(expected)
        assert live.db.count(query.limit(3)) == min(3, len(expected))
        assert plain(list(live.db.query(query.limit(size)))) == expected[:size]
        for values in expected:
            assert plain(list(live.db.query(live.new.task.by_rank(rank=values["rank"], id=values["id"])))) == [values]
        tied = plain(list(live.db.query(live.new.task.tied())))
        assert [values["rank"] for values in tied] == [values["rank"] for values in expected]
        assert sorted(tied, key=lambda values: (values["rank"], values["id"])) == expected


def answered(live: Live, steps: CoreGen[Any], between: Callable[[], None], order: Callable[[int], list[int]]) -> Any:
    """Run steps with pages of three items, parallel requests in this order, and ``between`` before every request."""
    connection = live.db._session.connection

    def send(request: Any) -> Any:
        if isinstance(request, req.Gather):
            answers = {at: send(request.requests[at]) for at in order(len(request.requests))}
            return tuple(answers[at] for at in sorted(answers))
        between()
        return perform(connection, evolve(request, limit=min(3, request.limit or 3)))

    return run(steps, send)


@settings(max_examples=times(30, 150))
@given(
    st.sampled_from(GROWN),
    st.lists(TASK, min_size=4, max_size=30, unique_by=lambda values: values["id"]),
    st.sampled_from(["by_rank", "tied"]),
    st.booleans(),
    st.data(),
)
def test_entries_that_move_during_a_read_are_returned_once(
    shards: tuple[Shards | None, Shards], tasks: list[Values], pattern: str, reverse: bool, data: st.DataObject
) -> None:
    live = Live(shards)
    for values in tasks:
        live.put(values, moved=False)
    waiting = data.draw(st.permutations(list(live.held.values())))

    def between() -> None:
        for _ in range(data.draw(st.integers(0, 2))):
            if waiting:
                live.put(waiting.pop(), moved=True)

    def order(count: int) -> list[int]:
        return list(data.draw(st.permutations(range(count))))

    query = getattr(live.new.task, pattern)()
    query = query.reverse() if reverse else query
    context = live.db._session.context
    if data.draw(st.booleans()):
        reading = read.begin(context, query)
        assert reading is not None
        assert answered(live, read.count(context, reading), between, order) == len(tasks)
        return
    found: list[Any] = []
    reading = read.begin(context, query)
    while reading is not None:
        items, reading = answered(live, read.chunk(context, reading), between, order)
        found += items
    ranks = sorted((values["rank"] for values in tasks), reverse=reverse)
    assert [task.rank for task in found] == ranks
    assert sorted(task.id for task in found) == sorted(live.held)


@pytest.mark.parametrize(
    ("descending", "after", "now", "later"),
    [
        (False, None, ("", "m"), ("m", None)),
        (True, None, ("m\0", None), ("", "m\0")),
        (False, "k", ("", "m"), ("m", None)),
        (False, "m", None, ("m", None)),
        (True, "p", ("m\0", None), ("", "m\0")),
        (True, "m", None, ("", "m\0")),
    ],
)
def test_the_other_shards_are_read_up_to_where_entries_have_left(
    descending: bool, after: str | None, now: tuple[str, str | None] | None, later: tuple[str, str | None]
) -> None:
    """At the edge, entries may still be moving, so items with its sort key are read later."""
    edge = req.Position(Key("x", "x"), Key("A", "m"))
    place = None if after is None else req.Position(Key("y", "y"), Key("B", after))
    leaving = Stream("A", "", None, after=edge, leaving=True)
    read_now, waits = window([leaving, Stream("B", "", None, after=place)], descending=descending)
    assert [(one.lo, one.hi) for one in read_now if one.partition == "B"] == ([] if now is None else [now])
    [waiting] = [one for one in waits if one.partition == "B"]
    assert (waiting.lo, waiting.hi, waiting.after) == (*later, place if now is None else None)
