"""Unique values without transactions: writers in every order, with stopped writers and lost answers.

In every state, (I) of `odm.patterns.claims` must hold. The test detects variants that look right but are wrong.
"""

from collections.abc import Callable, Iterator
from itertools import count
from typing import Any

import pytest

from odm import ConditionFailed, Entity, ItemExists, ItemNotFound, OutcomeUnknown, PrimaryKey, Store, Table, set_
from odm.backends.local import Memory
from odm.extend import Calls, Effect, Gen
from odm.patterns import claims
from odm.patterns.claims import Claims
from odm.patterns.unique import Unique
from odm.procedures.companions import one_by_one as companion_commit
from tests.patterns.every_order import LONG, Exploration, Settled, Stored, Work, Wrong, done
from tests.patterns.interleaving import OneByOne

pytestmark = pytest.mark.slow

REFUSED = (ItemExists, ItemNotFound, ConditionFailed)
table = Table("docs")


class Doc(Entity, table=table):
    doc_id: str
    value: str | None = None

    primary = PrimaryKey("DOC#{doc_id}")
    unique_value = Unique("value")


def put(doc_id: str, value: str | None) -> Work:
    return lambda do: do.put(Doc(doc_id=doc_id, value=value))


def insert(doc_id: str, value: str | None) -> Work:
    return lambda do: do.insert(Doc(doc_id=doc_id, value=value))


def update(doc_id: str, value: str) -> Work:
    return lambda do: do.update(Doc.primary(doc_id=doc_id), set_(Doc.value, value))


def delete(doc_id: str) -> Work:
    return lambda do: do.delete(Doc, doc_id=doc_id)


def writer(*works: Work) -> Work:
    """Makes calls one after the other; a call that is refused, or whose outcome is unknown, is not repeated."""

    def steps(do: Calls) -> Gen[None]:
        for work in works:
            try:
                yield from work(do)
            except (*REFUSED, OutcomeUnknown):
                continue

    return steps


time = [1_700_000_000.0]
ids: Iterator[str] = iter(())


@pytest.fixture
def store(monkeypatch: pytest.MonkeyPatch) -> Store:
    monkeypatch.setattr(claims, "PAUSES", (0.0,))
    monkeypatch.setattr(claims, "new_id", lambda: next(ids))
    return Store(table, OneByOne(Memory()), clock=lambda: time[0])


def begin(number: int) -> None:
    """Reset the ids of a writer, before it is replayed."""
    global ids  # noqa: PLW0603  # each run of a writer has the same ids
    ids = (f"w{number}-{n}" for n in count(1))


def check(stored: Stored) -> None:
    """Check (I), and that no value is held twice."""
    held: dict[str, str] = {}
    claimed = {item["value"]: item for item in stored.values() if item["_t"] == "Doc.unique_value"}
    for item in stored.values():
        if item["_t"] == "Doc" and item.get("value") is not None:
            assert held.setdefault(item["value"], item["doc_id"]) == item["doc_id"], f"held twice: {stored}"
            claim = claimed.get(item["value"])
            assert claim is not None, f"held without a claim: {stored}"
            assert claim["doc_id"] == item["doc_id"], f"claimed by another: {stored}"
            assert item["_c_unique_value"] in claim["claim_ids"], f"the mark is not among the ids: {stored}"


def alone(store: Store, stored: Stored, work: Work) -> tuple[Stored, type[Exception] | None]:
    """The items and the error of a writer that runs alone, a long time later."""
    begin(9)
    time[0] += 2 * LONG
    steps = work(Calls(store._session))
    answer: Any = None
    try:
        while True:
            request = steps.send(answer)
            answer = None
            if hasattr(request, "key"):
                stored, answer = done(stored, request)
    except StopIteration:
        return stored, None
    except REFUSED as error:
        return stored, type(error)
    finally:
        time[0] -= 2 * LONG


def settled(store: Store) -> Settled:
    """Checks the final items: without faults only held values are claimed; all other values can be claimed."""
    seen: set[str] = set()

    def look(stored: Stored, *, well: bool) -> None:
        held = {item["value"]: item for item in stored.values() if item["_t"] == "Doc" and item.get("value")}
        claimed = {item["value"]: item for item in stored.values() if item["_t"] == "Doc.unique_value"}
        if well:
            assert held.keys() == claimed.keys(), f"claimed and not held: {stored}"
            for value, item in held.items():
                assert claimed[value]["claim_ids"] == {item["_c_unique_value"]}, f"ids are left: {stored}"
        if repr(stored) not in seen:
            seen.add(repr(stored))
            for value in {*held, *claimed}:
                _, error = alone(store, stored, insert("new", value))
                assert error is (ItemExists if value in held else None), f"{value}: {error}: {stored}"

    return look


def explore(store: Store, stored: Stored, *works: Work, faults: bool = True) -> int:
    """Explore all states of these writers; returns their number."""
    return Exploration(store, time, works, begin, check, settled(store), faults).run(stored)


def start(store: Store, *works: Work) -> Stored:
    """The stored items before the writers start."""
    stored: Stored = {}
    for number, work in enumerate(works):
        begin(100 + number)
        steps = work(Calls(store._session))
        answer: Any = None
        try:
            while True:
                stored, answer = done(stored, steps.send(answer))
        except StopIteration:
            pass
    return stored


CALLS: dict[str, Work] = {
    "put a v": put("a", "v"),
    "put a w": put("a", "w"),
    "put a -": put("a", None),
    "put b v": put("b", "v"),
    "insert a v": insert("a", "v"),
    "insert b v": insert("b", "v"),
    "update a v": update("a", "v"),
    "update a w": update("a", "w"),
    "update b v": update("b", "v"),
    "delete a": delete("a"),
}
STARTS: dict[str, tuple[Work, ...]] = {"nothing": (), "a v": (put("a", "v"),), "a w": (put("a", "w"),)}
PAIRS = (
    ("nothing", ["insert a v", "delete a"], ["insert b v"]),
    ("nothing", ["put a v"], ["put b v"]),
    ("nothing", ["insert a v"], ["insert a v"]),
    ("nothing", ["insert a v"], ["put a w"]),
    ("a v", ["put a w"], ["put b v"]),
    ("a v", ["put a -"], ["insert b v"]),
    ("a v", ["delete a"], ["put a v"]),
    ("a v", ["delete a"], ["insert b v"]),
    ("a v", ["update a w"], ["put a -"]),
    ("a v", ["put a v"], ["delete a"]),
    ("a w", ["update a v"], ["put b v"]),
    ("a w", ["put a v"], ["update a w"]),
    ("a w", ["update a v", "put a w"], ["insert b v"]),
)
"""The items before, and the calls of two writers."""


def pair(store: Store, before: str, one: list[str], two: list[str]) -> int:
    """Explore all states of two writers; returns their number."""
    works = (writer(*(CALLS[call] for call in calls)) for calls in (one, two))
    return explore(store, start(store, *STARTS[before]), *works)


SLOW = (PAIRS[2], PAIRS[-1])
"""Pairs with so many orders that only ``--full`` runs them."""


@pytest.mark.one_of(3)
@pytest.mark.parametrize(
    ("before", "one", "two"),
    [pytest.param(*pair, marks=[pytest.mark.full] if pair in SLOW else []) for pair in PAIRS],
    ids=lambda one: one if isinstance(one, str) else ",".join(one),
)
def test_two_writers(store: Store, before: str, one: list[str], two: list[str]) -> None:
    assert pair(store, before, one, two) > 50


@pytest.mark.parametrize(
    ("before", "works"),
    [
        ("nothing", ("insert a v", "insert b v", "put a w")),
        ("a v", ("delete a", "insert b v", "update a w")),
        ("a v", ("put a w", "put a v", "put b v")),
        ("a v", ("put a w", "put a v", "put a v")),  # one writer finds the previous value, with another mark
    ],
    ids=str,
)
def test_three_writers(store: Store, before: str, works: tuple[str, ...]) -> None:
    writers = (writer(CALLS[call]) for call in works)
    assert explore(store, start(store, *STARTS[before]), *writers, faults=False) > 100


APART, JOIN = Unique.without_transaction, Claims._join


def careless(self: Unique, do: Calls, effect: Effect[Any], commit: Callable[..., Gen[None]]) -> Gen[None]:
    """Removes its id after any error, also after a lost answer."""

    def carefree(**options: Any) -> Gen[None]:
        try:
            yield from commit(**options)
        except OutcomeUnknown as error:
            raise ConditionFailed("taken for a refusal") from error

    yield from APART(self, do, effect, carefree)


def hasty(self: Unique, do: Calls, effect: Effect[Any], commit: Callable[..., Gen[None]]) -> Gen[None]:
    """Writes the item before the claim."""
    found, new, _ = self._change(effect)
    yield from commit(mark=None if new is None else "hasty")
    if new is not None:
        yield from found.claim(do, effect.key, new)


def slow(self: Unique, do: Calls, effect: Effect[Any], commit: Callable[..., Gen[None]]) -> Gen[None]:
    """Relies on its claim forever."""

    def ever(mark: str | None = None, **_: Any) -> Gen[None]:
        return commit(mark=mark)

    yield from APART(self, do, effect, ever)


def free_all(self: Claims, do: Calls, values: Any, mark: str) -> Gen[None]:
    """Deletes the claim, even if it has other ids."""
    yield from do.delete(self.key(values))


def take_over(self: Claims, do: Calls, owner: Any, claim: Any, there: Any) -> Gen[bool]:
    """Takes over a claim that may have changed since it was read."""
    holder = yield from self.holder(do, there)
    if holder is not None and self.owner(there) != owner:
        raise self.taken(owner, {}, there)
    if self.owner(there) != owner and there.claimed_at + claims.LEASE >= claim.claimed_at:
        return False
    yield from do.put(claim)
    return True


def at_once(self: Claims, do: Calls, owner: Any, claim: Any, there: Any) -> Gen[bool]:
    """Takes over a claim whose item does not hold the value, without waiting for its lease."""
    there.claimed_at -= 2 * claims.LEASE
    return (yield from JOIN(self, do, owner, claim, there))


VARIANTS: dict[str, tuple[Any, str, Any]] = {
    "one id for all attempts": (claims, "new_id", lambda: "id"),
    "its id is removed after a lost answer": (Unique, "without_transaction", careless),
    "the item is written first": (Unique, "without_transaction", hasty),
    "the claim is relied on forever": (Unique, "without_transaction", slow),
    "the claim is deleted with all its ids": (Claims, "free", free_all),
    "a claim is taken over at once": (Claims, "_join", at_once),
    "a claim is taken over after it has changed": (Claims, "_join", take_over),
    "an insert may be applied twice": (companion_commit, "evolve", lambda operation, **_: operation),
}


@pytest.mark.parametrize("variant", VARIANTS)
def test_wrong_variants_are_detected(store: Store, variant: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(*VARIANTS[variant])
    with pytest.raises(Wrong, match=r"held twice|held without|claimed by|not among"):
        [pair(store, *each) for each in PAIRS]
