"""`Versioned` without transactions: writers in every order, each of them stopped anywhere."""

from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from random import Random
from typing import Annotated, Any

import pytest

from odm import ConditionFailed, Entity, ItemExists, ItemNotFound, PrimaryKey, Revision, Table, set_
from odm.extend import Calls, Gen
from odm.patterns import versioned
from odm.patterns.versioned import Versioned
from tests.patterns.interleaving import Crowd, Program, every_order, random_order, stored_by

pytestmark = pytest.mark.slow

KEEP = 2
papers = Table("papers")


class Paper(Entity, table=papers):
    """A document; every version has the text of the first one."""

    paper_id: str
    first: str
    text: str
    version: Annotated[int, Revision] = 0

    primary = PrimaryKey("PAPER#{paper_id}", "v0")
    history = Versioned("PAPER#{paper_id}", "v{version}", keep=KEEP)


KEY = Paper.primary(paper_id="p")


def write(text: str, do: Calls) -> Gen[Paper | None]:
    """Get the paper, and put another version or the first one."""
    paper = yield from do.get(KEY)
    try:
        if paper is None:
            return (yield from do.put(Paper(paper_id="p", first=text, text=text)))
        # A revision does not distinguish a paper from a deleted one that had the same number.
        same = Paper.first == paper.first
        return (yield from do.put(paper.model_copy(update={"text": text}), when=same))
    except (ConditionFailed, ItemExists):
        return None


def change(text: str, do: Calls) -> Gen[Paper | None]:
    """Update the paper, without a check of its version."""
    try:
        return (yield from do.update(KEY, set_(Paper.text, text), returning="new"))  # type: ignore[no-any-return]
    except ItemNotFound:
        return None


def delete(do: Calls) -> Gen[None]:
    """Delete the paper."""
    yield from do.delete(KEY)


def remake(text: str, do: Calls) -> Gen[Paper | None]:
    """Delete the paper and insert another one."""
    yield from do.delete(KEY)
    try:
        return (yield from do.insert(Paper(paper_id="p", first=text, text=text)))
    except ItemExists:
        return None


def written(texts: str, do: Calls) -> Gen[None]:
    """Write a version for each letter."""
    for text in texts:
        yield from write(text, do)


def left_behind(texts: str, do: Calls) -> Gen[None]:
    """Write a version for each letter, then start a delete and stop it after the paper itself is deleted."""
    yield from written(texts, do)
    steps, answer = do.delete(KEY), None
    for _ in range(2):
        answer = yield steps.send(answer)
    steps.close()


def check(crowd: Crowd) -> None:
    """Check that no writer's version is lost, and that no version is of an earlier paper."""
    db = crowd.store
    newest = db.get(KEY)
    last = 0 if newest is None else newest.version
    versions = {number: db.get(Paper.history.version(number, paper_id="p")) for number in range(1, last + 3)}
    found = {number: paper for number, paper in versions.items() if paper is not None}
    assert not found or max(found) == last
    assert found.get(last) == newest
    assert {*range(max(1, last - KEEP + 1), last + 1)} <= found.keys()
    for number, paper in found.items():
        assert newest is not None
        assert (paper.version, paper.first) == (number, newest.first)
    for writer in crowd.writers:
        mine = writer.result
        if mine is not None and newest is not None and mine.first == newest.first:
            assert mine.version <= last
            assert found.get(mine.version, mine) == mine
    assert len({paper.text for paper in found.values()}) == len(found)


def check_rest(crowd: Crowd, *, stopped: bool) -> None:
    """Check that only the last versions are left; after a stopped writer, the next write removes the others."""
    db = crowd.store
    newest = db.get(KEY)
    last = 0 if newest is None else newest.version
    if not stopped:
        kept = [paper.version for paper in db.query(Paper.history(paper_id="p"))]
        assert kept == [*range(max(1, last - KEEP + 1), last + 1)]
    db.run(partial(write, "next"))
    check(crowd)
    db.delete(KEY)
    assert list(db.scan()) == []


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Callable[[], Crowd]]:
    """Makes crowds; tokens are numbered, so that an order always leads to the same state."""

    def of(before: Program, *programs: Program) -> Callable[[], Crowd]:
        monkeypatch.setattr(versioned, "token_urlsafe", lambda _: "life0")
        stored = stored_by(papers, before)

        def crowd() -> Crowd:
            numbers = count(1)
            monkeypatch.setattr(versioned, "token_urlsafe", lambda _: f"life{next(numbers)}")
            return Crowd(papers, stored, programs)

        return crowd

    return of


CROWDS: dict[str, tuple[Program, Sequence[Program]]] = {
    "two puts": (partial(written, "abc"), (partial(write, "x"), partial(write, "y"))),
    "two firsts": (partial(written, ""), (partial(write, "x"), partial(write, "y"))),
    "put and update": (partial(written, "a"), (partial(write, "x"), partial(change, "y"))),
    "put and more puts than are kept": (partial(written, "a"), (partial(write, "x"), partial(written, "yz"))),
    "put and delete": (partial(written, "ab"), (partial(write, "x"), delete)),
    "put and another paper": (partial(written, "a"), (partial(write, "x"), partial(remake, "y"))),
    "two deletes": (partial(written, "abc"), (delete, delete)),
    "first after a delete": (partial(left_behind, "ab"), (partial(write, "x"),)),
    "first after a delete, and another paper": (
        partial(left_behind, "ab"),
        (partial(write, "x"), partial(remake, "y")),
    ),
}


LONG = {"put and more puts than are kept", "first after a delete, and another paper"}
"""Crowds with so many orders that only ``--full`` runs them."""


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.full] if name in LONG else []) for name in CROWDS]
)
def test_every_order(name: str, make: Any) -> None:
    before, programs = CROWDS[name]
    seen = set()
    for crowd in every_order(make(before, *programs)):
        check(crowd)
        stopped, results = bool(crowd.at_work), tuple(repr(writer.result) for writer in crowd.writers)
        if (crowd.stored, stopped, results) not in seen:  # they determine the rest
            seen.add((crowd.stored, stopped, results))
            check_rest(crowd, stopped=stopped)


@pytest.mark.parametrize("seed", range(3))
def test_many_in_random_order(seed: int, make: Any) -> None:
    random = Random(seed)
    kinds: list[Callable[[str, Calls], Gen[Any]]] = [write, write, change, remake]
    for _ in range(60):
        before = partial(random.choice([written, left_behind]), random.choice(["a", "ab"]))
        last: Program = delete if random.random() < 0.5 else partial(written, "yz")
        programs = [*(partial(random.choice(kinds), text) for text in "vwx"), last]
        crowd = make(before, *programs)()
        for _ in random_order(crowd, random):
            check(crowd)
        check_rest(crowd, stopped=True)
