"""Rules of transactions for items of every form: former values, aggregates, own families, expiry, older versions.

A transaction over items of all forms stops before each of its calls. All reads show the state before or after it; then
other writes are made, and go on from that state.
"""

from collections.abc import Callable
from contextlib import nullcontext, suppress
from datetime import UTC, datetime
from functools import partial
from typing import Annotated, Any

import pytest

from odm import (
    TTL,
    AccessPattern,
    CellVersions,
    Columns,
    Counter,
    Entity,
    ItemExists,
    Max,
    Min,
    PrimaryKey,
    Store,
    Sum,
    Table,
    add_to,
    add_value,
    increment,
    set_,
    upgrade,
)
from odm.backends.bigtable.client.native import Call, ReadRows
from odm.backends.bigtable.client.retry import LEASE_SECONDS
from odm.backends.bigtable.maintenance.scrub import scrub
from odm.errors import BackendError
from tests.backends.bigtable.native_backend import NativeBigtable
from tests.effort import times

pytestmark = pytest.mark.slow

forms = Table("forms", transactions=True)
older = Table("forms", transactions=True)

PAST = datetime(2020, 1, 1, tzinfo=UTC)
FUTURE = datetime(2990, 1, 1, tzinfo=UTC)


class Kept(Entity, table=forms):
    name: str
    text: Annotated[str, CellVersions(3)] = ""
    kind: str = "old"

    primary = PrimaryKey("KEPT", "{name}")
    by_kind = AccessPattern("KIND#{kind}", "{name}")


class Summed(Entity, table=forms):
    name: str
    total: Annotated[int, Sum] = 0
    best: Annotated[int | None, Max] = None
    least: Annotated[int | None, Min] = None
    n: int = 0

    primary = PrimaryKey("SUMMED", "{name}")


class Housed(Entity, table=forms, family="own"):
    name: str
    n: int = 0
    kind: str = "old"
    views: Annotated[int, Counter] = 0

    primary = PrimaryKey("HOUSED", "{name}")
    by_kind = AccessPattern("KIND#{kind}", "{name}")


class Timed(Entity, table=forms):
    name: str
    n: int = 0
    ends: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("TIMED", "{name}")


class Tagged(Entity, table=forms):
    name: str
    tags: Annotated[set[str], Columns] = set()

    primary = PrimaryKey("TAGGED", "{name}")


class OldNote(Entity, table=older, tag="Note"):
    name: str
    words: int = 0
    views: Annotated[int, Counter] = 0

    primary = PrimaryKey("NOTE", "{name}")


class Note(Entity, table=forms, version=2):
    name: str
    length: int = 0
    views: Annotated[int, Counter] = 0

    primary = PrimaryKey("NOTE", "{name}")

    @upgrade(from_=1)
    @staticmethod
    def measure(item: dict[str, Any]) -> dict[str, Any]:
        return {**item, "length": item.pop("words")}


KEPT, SUMMED, HOUSED = Kept.primary(name="k"), Summed.primary(name="s"), Housed.primary(name="h")
TIMED, TAGGED, NOTE = Timed.primary(name="t"), Tagged.primary(name="g"), Note.primary(name="n")
KEYS = (KEPT, SUMMED, HOUSED, TIMED, TAGGED, NOTE)

CALLS = 60
"""More calls than the transaction makes."""


def opened() -> tuple[NativeBigtable, Store]:
    """A store with an item of each form."""
    backend = NativeBigtable(abort_after=1e-9)
    with Store(older, backend) as old:
        old.put(OldNote(name="n", words=4, views=2))
    db = Store(forms, backend)
    for text in ("a", "b"):
        db.put(Kept(name="k", text=text))
    db.put(Summed(name="s", total=5, best=5, least=5))
    db.put(Housed(name="h", n=1, views=1))
    db.put(Timed(name="t", n=9, ends=PAST))
    db.put(Tagged(name="g", tags={"a"}))
    return backend, db


def transact(db: Store) -> None:
    """Write an item of each form."""
    with db.transaction() as tx:
        tx.update(KEPT, set_(Kept.text, "c"), set_(Kept.kind, "new"))
        tx.update(
            SUMMED, increment(Summed.total, 2), add_value(Summed.best, 7), add_value(Summed.least, 3), set_(Summed.n, 1)
        )
        tx.update(HOUSED, set_(Housed.kind, "new"), increment(Housed.n, 1))
        tx.insert(Timed(name="t", n=1, ends=FUTURE))
        tx.update(TAGGED, add_to(Tagged.tags, "b"))
        tx.update(NOTE, increment(Note.length, 1))


def state(db: Store) -> Any:
    """What all kinds of reads show."""
    items = [db.get(key) for key in KEYS]
    assert db.get_many(KEYS) == items
    assert db.get_many(KEYS, atomic=True) == items
    there = [one for one in items if one is not None]
    for model in (Kept, Summed, Housed, Timed, Tagged, Note):
        mine = [one for one in there if isinstance(one, model)]
        assert list(db.scan(model)) == mine
        assert list(db.query(model.primary())) == mine
        assert db.count(model.primary()) == len(mine)
    timed = db.get(TIMED)
    assert timed is None or timed.ends == FUTURE  # the item before has expired
    kinds = {
        kind: [*db.query(Kept.by_kind(kind=kind)), *db.query(Housed.by_kind(kind=kind))] for kind in ("old", "new")
    }
    for kind, found in kinds.items():
        assert found == [one for one in there if isinstance(one, Kept | Housed) and one.kind == kind]
    versions = [one.value for one in db.cell_versions(KEPT, Kept.text)]
    return items, kinds, versions


def increments(db: Store) -> None:
    """Each is one call, which takes effect on a locked row, too, and does not count there."""
    for key, counter in ((HOUSED, Housed.views), (NOTE, Note.views)):
        db.update(key, increment(counter, 10))


def additions(db: Store) -> None:
    """Adds to aggregates."""
    db.update(SUMMED, increment(Summed.total, 10))
    db.update(SUMMED, add_value(Summed.best, 6), add_value(Summed.least, 4))
    db.merge(SUMMED, add_value(Summed.best, 6), increment(Summed.total, 10))


def updates(db: Store) -> None:
    """Sets values, of which former ones are kept."""
    db.update(KEPT, set_(Kept.text, "x"))
    db.update(HOUSED, set_(Housed.n, 10))
    db.update(TAGGED, add_to(Tagged.tags, "x"))
    db.update(NOTE, set_(Note.length, 10))


def puts(db: Store) -> None:
    """Replaces items."""
    db.put(Kept(name="k", text="x"))
    db.put(Summed(name="s", total=1))
    db.put(Housed(name="h", n=7))
    db.put(Note(name="n", length=1))


def merges(db: Store) -> None:
    """Writes parts of items without a read."""
    db.merge(TAGGED, add_to(Tagged.tags, "x"))
    with db.batch() as batch:
        batch.merge(SUMMED, set_(Summed.n, 7))
        batch.put(Timed(name="t", n=3, ends=FUTURE))


def inserts(db: Store) -> None:
    """Inserts an item where one may be, has expired, or is inserted."""
    with suppress(ItemExists):
        db.insert(Timed(name="t", n=2, ends=FUTURE))
    with suppress(ItemExists):
        db.insert(Kept(name="k"))


def deletes(db: Store) -> None:
    """Deletes items."""
    for key in KEYS:
        db.delete(key)


def rivals(db: Store) -> None:
    """Makes another transaction."""
    with db.transaction() as tx:
        tx.update(SUMMED, increment(Summed.total, 100))
        tx.update(KEPT, set_(Kept.text, "x"), set_(Kept.kind, "old"))
        tx.update(NOTE, increment(Note.views, 1))
        tx.delete(HOUSED)


RIVALS = (increments, additions, updates, puts, merges, inserts, deletes, rivals)


def cleaned(backend: NativeBigtable) -> None:
    """Scrub three leases later: there are no locks then, and no records after another time."""
    instance = backend.instance_
    for _ in range(2):
        instance.server.now += int(3 * LEASE_SECONDS) * 1_000_000
        scrub(backend, forms)
    assert not instance.locks()
    assert not instance.server.keys("forms.tx.transactions")


def test_they_are_written_together() -> None:
    _, db = opened()
    assert state(db)[2] == ["b", "a"]
    transact(db)
    (_, summed, housed, timed, tagged, note), kinds, versions = state(db)
    assert versions == ["c", "b", "a"]
    assert (summed.total, summed.best, summed.least, summed.n) == (7, 7, 3, 1)
    assert (note.length, note.views, housed.n, timed.n, tagged.tags) == (5, 2, 2, 1, {"a", "b"})
    assert kinds["old"] == []


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.__name__)
def test_a_stop_leaves_all_or_nothing(rival: Callable[[Store], None]) -> None:
    """And a rival goes on from there, as from the state without an interruption."""
    expected = []
    for is_done in (False, True):
        _, db = opened()
        if is_done:
            transact(db)
        found = [state(db)]
        rival(db)
        expected.append((*found, state(db)))
    step = times(4, 1)
    seen, stopped = set(), True
    for at in range(RIVALS.index(rival) % step, CALLS, step):
        if not stopped:
            break
        backend, db = opened()
        stopped = backend.instance_.stopped(partial(transact, db), at)
        found = state(db)
        (after,) = [after for before, after in expected if before == found]
        rival(db)
        assert state(db) == after, at
        cleaned(backend)
        assert state(db) == after, at
        seen.add(found == expected[0][0])
    assert not stopped
    assert seen == {True, False}


def checked(db: Store) -> None:
    """Check an item of each form, and change one."""
    with db.transaction() as tx:
        for key in (KEPT, HOUSED, TAGGED, NOTE):
            tx.check(key)
        tx.update(SUMMED, set_(Summed.n, 1))


def test_items_that_are_only_checked_are_read_as_ever() -> None:
    """Also by a scan of one entity, which reads no cells of the others."""
    stopped, at = True, 0
    while stopped:
        backend, db = opened()
        before = state(db)
        stopped = backend.instance_.stopped(partial(checked, db), at)
        found = state(db)
        assert found[0][1].n in (0, 1)
        found[0][1].n = 0
        assert found == before
        at += 1


@pytest.mark.parametrize("times_missing", [1, 2])
def test_an_item_read_without_its_revision_is_read_once_more(times_missing: int) -> None:
    """A read of Google's emulator may miss a cell of a row that is being written; other rows are refused."""
    backend, db = opened()
    rows = backend.instance_.server.rows
    place = next(place for place in rows if place[1].startswith("SUMMED"))
    whole = rows[place]
    torn = tuple(cell for cell in whole if cell.qualifier != b"~r")
    reads = 0

    def tear(call: Call) -> None:
        nonlocal reads
        if isinstance(call, ReadRows):
            reads += 1
        rows[place] = torn if reads <= times_missing else whole

    backend.instance_.before = tear
    with pytest.raises(BackendError, match="has no cell d:~r") if times_missing == 2 else nullcontext():
        checked(db)
    assert reads >= 2
