"""Bulk loads of new items that are stopped after any operation and run again: the same end as inserts, one by one.

A batch is applied in part and in any order, as in the cloud: the store here splits each into its operations.
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from random import Random
from typing import Any

import pytest
from attrs import frozen
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from odm import Entity, ItemExists, Store, Throttled
from odm.backends.local import Faults, Memory
from odm.extend import Calls, Gen, procedure
from odm.immutable import evolve
from odm.patterns.bulk_load import bulk_load
from odm.protocol import requests as req
from odm.protocol.connection import Backend, ForwardingConnection, NativeGen
from odm.schema.model import Schema
from odm.testing.stores import WRITES, Stopped, Watched
from tests.effort import times
from tests.patterns.interleaving import OneByOne
from tests.patterns.promises import Account, Document, Order, Price, table
from tests.patterns.test_stateful_patterns import ENTITIES, key_of

RANDOM = {"claim_ids", "claimed_at", "life_"}
"""Stored attributes that differ between two equal stores, and marks."""


@frozen
class Split(Backend):
    """Applies the operations of a batch one after another, in a random order, each as a batch of its own."""

    inner: Backend
    seed: int
    name: str = "split"

    def connect(self, schema: Schema) -> "SplitConnection":
        return SplitConnection(self.inner.connect(schema), Random(self.seed))


class SplitConnection(ForwardingConnection[Any]):
    random: Random

    def steps(self, request: req.Request) -> NativeGen[Any, Any]:
        if not isinstance(request, req.BatchWrite):
            return (yield from self.inner.steps(request))
        for one in self.random.sample(request.operations, len(request.operations)):
            yield from self.inner.steps(evolve(request, operations=(one,)))
        return None


@procedure
def in_parts(do: Calls, items: Sequence[Entity], size: int) -> Gen[None]:
    for start in range(0, len(items), size):
        yield from do.load_new(items[start : start + size])


def stored(db: Store) -> list[tuple[str, str, dict[str, Any]]]:
    """All items, without what is random; checks that the marks of items are those of their claims and versions."""
    raw = db.scan_page(size=10_000, expired=True).items
    claims = {one.attributes["claim_ids"] for one in raw if "claim_ids" in one.attributes}
    lives = {one.attributes["life_"] for one in raw if "life_" in one.attributes}
    marks = [(name, mark) for one in raw for name, mark in one.attributes.items() if name.startswith("_c_")]
    assert {frozenset({mark}) for name, mark in marks if name != "_c_history"} <= claims
    assert {mark for name, mark in marks if name == "_c_history"} <= lives
    assert [one for one in raw if one.stale] == []
    return [
        (one.partition, one.sort, {name: value for name, value in one.attributes.items() if not differs(name)})
        for one in raw
    ]


def differs(name: str) -> bool:
    """Whether an attribute is random."""
    return name in RANDOM or name.startswith("_c_")


def inserted(db: Store, items: Sequence[Entity]) -> list[Entity]:
    """The items whose insert succeeds."""
    found = []
    for one in items:
        with suppress(ItemExists):
            db.insert(one)
            found.append(one)
    return found


MAKES: dict[str, Callable[[], Backend]] = {"together": Memory, "one by one": lambda: OneByOne(Memory())}


@pytest.mark.parametrize("make", MAKES.values(), ids=MAKES)
@settings(max_examples=times(40, 300), deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(
    given_=st.lists(ENTITIES, max_size=12),
    size=st.integers(1, 12),
    stops=st.lists(st.integers(0, 40), max_size=3),
    seed=st.integers(0, 10**6),
)
def test_a_load_that_is_stopped_and_run_again_ends_as_inserts_do(
    make: Callable[[], Backend], given_: list[Any], size: int, stops: list[int], seed: int
) -> None:
    watched = Watched(make(), "x")
    with Store(table, Memory()) as expected, Store(table, Split(watched, seed)) as db:
        expected.create()
        db.create()
        items = inserted(expected, given_)
        for stop in stops:
            watched.remaining = stop
            with suppress(Stopped):
                db.run(in_parts(items, size))
            watched.remaining = None
            stored(db)
        db.run(in_parts(items, size))
        assert stored(db) == stored(expected)
        watched.requests.clear()
        db.run(in_parts(items, size))
        assert not any(isinstance(one, WRITES) for one in watched.requests)
        for store in (expected, db):
            for number, item in enumerate(items):
                change(store, item, number)
        assert stored(db) == stored(expected)


def change(db: Store, item: Any, number: int) -> None:
    """Put an item with other values, or delete it."""
    key = key_of(item)
    if number % 3 == 0:
        db.delete(key)
        return
    changed: dict[type, dict[str, Any]] = {
        Account: {"email": f"{number}@new", "nick": None, "level": 3},
        Document: {"text": "new"},
        Price: {"code": f"new {number}", "amount": 99},
        Order: {},
    }
    db.put(db.one(key).model_copy(update=changed[type(item)]))


@pytest.mark.parametrize("done", range(12))
def test_a_load_that_is_throttled_reports_all_its_items_and_can_be_run_again(done: int) -> None:
    items = [Price(item=f"i{n}", code=f"c{n}", amount=n) for n in range(6)]
    for batch in range(3):
        faults = Faults()
        with Store(table, Memory(faults=faults)) as db, Store(table, Memory()) as expected:
            db.create()
            expected.create()
            faults.throttle("batch", done=done, after=batch)
            with pytest.raises(Throttled) as caught:
                db.run(bulk_load(items, new=True))
            assert caught.value.left == tuple(items)
            assert db.run(bulk_load(items, new=True)) == 6
            assert inserted(expected, items) == items
            assert stored(db) == stored(expected)
