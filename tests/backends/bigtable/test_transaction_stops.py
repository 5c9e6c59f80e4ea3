"""A transaction is stopped before each of its calls, or the answer to one is lost: all of it is seen, or nothing.

After each stop every kind of read shows the same state, a rival of each kind gets through, and a scrub leaves no lock.
"""

import time
from collections.abc import Callable, Iterator
from itertools import count
from typing import Annotated, Any, TypeAlias

import pytest
from google.api_core.exceptions import ServiceUnavailable
from pydantic import Field

from odm import (
    AccessPattern,
    Columns,
    Counter,
    Entity,
    ItemExists,
    ItemNotFound,
    PrimaryKey,
    Store,
    Table,
    add_to,
    increment,
    set_,
)
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import Concurrent, Native, Read, ReadRows
from odm.backends.bigtable.maintenance.scrub import scrub
from odm.errors import OdmError
from tests.effort import times

pytestmark = [pytest.mark.one_of(3), pytest.mark.slow]

bank = Table("stops", transactions=True)


class Account(Entity, table=bank):
    scene: str
    name: str
    kind: str = "old"
    cents: int = 0
    views: Annotated[int, Counter] = 0

    primary = PrimaryKey("SCENE#{scene}", "ACCOUNT#{name}")
    by_kind = AccessPattern("SCENE#{scene}#KIND#{kind}", "{name}")


class Plain(Entity, table=bank):
    """Has no access patterns, so that its writes need no read."""

    scene: str
    cents: int = 0
    hits: Annotated[int, Counter] = 0

    primary = PrimaryKey("SCENE#{scene}", "PLAIN")


class Loose(Entity, table=bank):
    """Can be merged."""

    scene: str
    text: str = ""
    tags: Annotated[set[str], Columns] = Field(default_factory=set)

    primary = PrimaryKey("SCENE#{scene}", "LOOSE")


State: TypeAlias = dict[str, Entity | None]

_scenes = count(1)


class Stopped(BaseException):
    """The program of a transaction has stopped."""


class Scene:
    """Items of their own, and a transaction over all of them."""

    def __init__(self, db: Store) -> None:
        self.db, self.name = db, f"{next(_scenes):05}"
        for one in self.before.values():
            if one is not None:
                db.put(one)

    def account(self, name: str, **values: Any) -> Account:
        return Account(scene=self.name, name=name, **values)

    @property
    def before(self) -> State:
        return {
            "ann": self.account("ann", cents=5, views=3),
            "bob": self.account("bob", cents=7),
            "cid": None,
            "dan": self.account("dan", cents=1),
            "eve": self.account("eve", cents=9),
            "plain": Plain(scene=self.name, cents=2, hits=4),
            "loose": Loose(scene=self.name, text="a", tags={"a"}),
        }

    @property
    def after(self) -> State:
        return {
            "ann": self.account("ann", cents=4, kind="new", views=3),
            "bob": self.account("bob", cents=8, kind="new"),
            "cid": self.account("cid", cents=1, kind="new"),
            "dan": None,
            "eve": self.account("eve", cents=9),
            "plain": Plain(scene=self.name, cents=3, hits=4),
            "loose": Loose(scene=self.name, text="a", tags={"a", "b"}),
        }

    def transact(self) -> None:
        with self.db.transaction() as tx:
            tx.update(self.key("ann"), increment(Account.cents, -1), set_(Account.kind, "new"))
            tx.put(self.account("bob", cents=8, kind="new"))
            tx.insert(self.account("cid", cents=1, kind="new"))
            tx.delete(self.key("dan"))
            tx.check(self.key("eve"), when=Account.cents == 9)
            tx.update(self.plain, increment(Plain.cents, 1))
            tx.update(self.loose, add_to(Loose.tags, "b"))

    def key(self, name: str) -> Any:
        return Account.primary(scene=self.name, name=name)

    @property
    def plain(self) -> Any:
        return Plain.primary(scene=self.name)

    @property
    def loose(self) -> Any:
        return Loose.primary(scene=self.name)

    def read(self) -> State:
        """The state, which all reads show."""
        names = ("ann", "bob", "cid", "dan", "eve")
        keys = [*map(self.key, names), self.plain, self.loose]
        found = self.db.get_many(keys)
        state: State = dict(zip((*names, "plain", "loose"), found, strict=True))
        there = [one for one in state.values() if one is not None]
        assert [self.db.get(key) for key in keys] == [*state.values()]
        accounts = sorted((one for one in there if isinstance(one, Account)), key=lambda one: one.name)
        partition = list(self.db.query(Account.primary(scene=self.name)))
        assert partition == accounts
        assert self.db.count(Account.primary(scene=self.name)) == len(accounts)
        cents = self.db.query(Account.primary(scene=self.name), only=[Account.cents])
        assert [one[Account.cents] for one in cents] == [one.cents for one in accounts]
        for kind in ("old", "new"):
            listed = [one for one in accounts if one.kind == kind]
            query = Account.by_kind(scene=self.name, kind=kind)
            assert list(self.db.query(query)) == listed
            assert self.db.count(query) == len(listed)
        scanned = self.db.scan(Account, prefix={"scene": self.name})
        assert sorted(map(str, scanned)) == sorted(map(str, accounts))
        assert self.db.get_many(keys, atomic=True) == found
        return state


Rival: TypeAlias = Callable[[Scene, State], State]
"""Writes, and returns the state that it leaves."""


def _put(scene: Scene, state: State) -> State:
    return {**state, "plain": scene.db.put(Plain(scene=scene.name, cents=50))}


def _update(scene: Scene, state: State) -> State:
    scene.db.update(scene.plain, set_(Plain.cents, 60))
    return {**state, "plain": _with(state["plain"], cents=60)}


def _count(scene: Scene, state: State) -> State:
    scene.db.update(scene.plain, increment(Plain.hits, 5))
    scene.db.update(scene.key("ann"), increment(Account.views, 5))
    return {**state, "plain": _with(state["plain"], hits=9), "ann": _with(state["ann"], views=8)}


def _delete(scene: Scene, state: State) -> State:
    assert scene.db.delete(scene.plain)
    return {**state, "plain": None}


def _merge(scene: Scene, state: State) -> State:
    loose: Any = state["loose"]
    scene.db.merge(scene.loose, set_(Loose.text, "m"), add_to(Loose.tags, "m"))
    with scene.db.batch() as batch:
        batch.merge(scene.loose, add_to(Loose.tags, "n"))
    return {**state, "loose": _with(loose, text="m", tags={*loose.tags, "m", "n"})}


def _batch(scene: Scene, state: State) -> State:
    ann = scene.account("ann", cents=11)
    with scene.db.batch() as batch:
        batch.delete(scene.plain)
        batch.put(ann)
        batch.delete(scene.key("bob"))
        batch.put(Loose(scene=scene.name, text="b"))
    return {**state, "plain": None, "ann": ann, "bob": None, "loose": Loose(scene=scene.name, text="b")}


def _insert(scene: Scene, state: State) -> State:
    made = {}
    for name in ("cid", "dan"):
        new = scene.account(name, cents=80, kind="new")
        try:
            made[name] = scene.db.insert(new)
        except ItemExists:
            assert state[name] is not None
        else:
            assert state[name] is None
    return {**state, **made}


def _move(scene: Scene, state: State) -> State:
    made = {}
    for name in ("ann", "cid", "dan"):
        try:
            scene.db.update(scene.key(name), set_(Account.kind, "old"), increment(Account.cents, 10))
        except ItemNotFound:
            assert state[name] is None
        else:
            found: Any = state[name]
            made[name] = _with(found, kind="old", cents=found.cents + 10)
    return {**state, **made}


def _remove(scene: Scene, state: State) -> State:
    for name in ("ann", "cid", "dan", "eve"):
        assert scene.db.delete(scene.key(name)) is (state[name] is not None)
    return {**state, "ann": None, "cid": None, "dan": None, "eve": None}


def _transact(scene: Scene, state: State) -> State:
    ann: Any = state["ann"]
    with scene.db.transaction() as tx:
        tx.update(scene.key("ann"), increment(Account.cents, 100))
        tx.put(scene.account("cid", cents=90))
        tx.delete(scene.key("eve"))
    return {**state, "ann": _with(ann, cents=ann.cents + 100), "cid": scene.account("cid", cents=90), "eve": None}


def _nothing(scene: Scene, state: State) -> State:
    return state


def _with(item: Entity | None, **values: Any) -> Entity:
    assert item is not None
    return item.model_copy(update=values)


RIVALS: list[Rival] = [
    _nothing,
    _put,
    _update,
    _count,
    _delete,
    _merge,
    _batch,
    _insert,
    _move,
    _remove,
    _transact,
]

MOST_CALLS = 24
"""More calls than the transaction makes."""


class Bank:
    """Stores on the emulator, and transactions that are stopped."""

    def __init__(self, address: str, prefix: str) -> None:
        self.prefix = prefix
        self.backend = Bigtable("project", "instance", endpoint=address, abort_after=0.001)
        self.db = Store(bank, self.backend, prefix=prefix)
        self.db.create()

    def disturbed(
        self, patch: pytest.MonkeyPatch, transact: Callable[[], None], at: int, how: str
    ) -> BaseException | None:
        """Make a transaction, and disturb its call with this number. Returns the error that it raised, if any.

        Args:
            patch: to replace the calls of the connection.
            transact: makes the transaction.
            at: the number of the call, from 0 on.
            how: "stop": the program stops before it; "lost": it is applied, and the answer is lost; "dropped": it is
                not applied, and the answer is lost.
        """
        connection: Any = self.db._session.connection
        self.settle()
        call, number = connection.call, count()

        def disturb(native: Native) -> Any:
            if isinstance(native, Concurrent):
                return tuple(connection._outcome(one) for one in native.calls)
            if next(number) != at:
                return call(native)
            if how == "stop":
                raise Stopped
            if how == "lost":
                call(native)
            lost = ServiceUnavailable("the answer was lost")  # type: ignore[no-untyped-call]
            if isinstance(native, ReadRows):
                return Read(failure=lost)
            raise lost

        with patch.context() as patched:
            patched.setattr(connection, "call", disturb)
            patched.setattr(connection._procedures.writer.background, "start", lambda work: work())
            try:
                transact()
            except (OdmError, Stopped) as error:
                return error
        return None

    def settle(self) -> None:
        """Wait for the work after the answers, which makes calls, too."""
        connection: Any = self.db._session.connection
        connection._procedures.background.wait()

    def check_clean(self) -> None:
        """After a scrub, the tables hold no locks."""
        self.settle()
        later = time.time() + 100
        scrub(self.backend, bank, prefix=self.prefix, clock=lambda: later)
        rows = self.db._session.connection.call(ReadRows(f"{self.prefix}stops.tx", filter=Newest())).rows
        assert not [
            cell for row in rows for cell in row.cells if cell.qualifier == b"~x" or cell.value.startswith(b"~")
        ]


@pytest.fixture
def made(bigtable_emulator: str, request: pytest.FixtureRequest) -> Iterator[Bank]:
    made = Bank(bigtable_emulator, f"s{abs(hash(request.node.name)) % 10**8}x")
    yield made
    made.db.drop()
    made.db.close()


@pytest.mark.parametrize("rival", RIVALS, ids=lambda rival: rival.__name__[1:])
def test_a_stop_leaves_all_or_nothing(made: Bank, rival: Rival, monkeypatch: pytest.MonkeyPatch) -> None:
    seen, done = set(), False
    step = times(5, 1)
    for at in range(RIVALS.index(rival) % step, MOST_CALLS, step):
        scene = Scene(made.db)
        error = made.disturbed(monkeypatch, scene.transact, at, "stop")
        state = scene.read()
        assert state in (scene.before, scene.after)
        seen.add(state == scene.after)
        state = rival(scene, state)
        assert scene.read() == state
        made.check_clean()
        assert scene.read() == state
        done = error is None
    assert done
    assert seen == {True, False}


@pytest.mark.parametrize("how", ["lost", "dropped"])
def test_a_lost_answer_is_found_out(made: Bank, how: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for at in range(MOST_CALLS):
        scene = Scene(made.db)
        error = made.disturbed(monkeypatch, scene.transact, at, how)
        assert error is None, f"call {at}"
        assert scene.read() == scene.after, f"call {at}"
        made.check_clean()
