"""Random calls of every kind on a table in which another program has its own items.

The other program writes with the vendor's client, or on the bundled engine with models that the store does not know.
Its items have keys of the store's models or other keys, with and without the attributes that odm uses.
"""

from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Annotated, Any, Final, Protocol

from odm import (
    TTL,
    AccessPattern,
    Columns,
    Counter,
    Entity,
    OdmError,
    PrimaryKey,
    Query,
    Revision,
    Store,
    Table,
    add_to,
    append,
    collection,
    increment,
    missing,
    remove,
    set_,
)
from odm.backends.local import Memory
from odm.patterns.copy import copy
from odm.patterns.unique import Unique

GROUPS: Final = ("a", "b")
NAMES: Final = ("1", "2", "3", "4")
NOON: Final = datetime(2100, 1, 5, 12, tzinfo=UTC)

shared = Table("shared")


class Order(Entity, table=shared):
    group: str
    name: str
    status: str | None = None
    size: int = 0
    lines: list[str] = []
    views: Annotated[int, Counter] = 0
    tags: Annotated[set[str], Columns] = set()
    stock: Annotated[dict[str, int], Columns] = {}
    expires_at: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("GROUP#{group}", "ORDER#{name}")
    by_status = AccessPattern("STATUS#{status}", "{name}")


class Event(Entity, table=shared, keep=2):
    group: str
    name: str

    primary = PrimaryKey("GROUP#{group}", "EVENT#{name}")


class Profile(Entity, table=shared):
    group: str
    email: str
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("GROUP#{group}", "PROFILE")
    unique_email = Unique("email")


def item_keys() -> list[tuple[str, str]]:
    """The keys of the models."""
    kinds = ("ORDER", "EVENT")
    keys = [(f"GROUP#{group}", f"{kind}#{name}") for group in GROUPS for kind in kinds for name in NAMES]
    return [*keys, *((f"GROUP#{group}", "PROFILE") for group in GROUPS)]


class Others(Protocol):
    """The other program."""

    def write(self, random: Random) -> None:
        """Write something, or change what it wrote."""
        ...

    def changed(self) -> list[str]:
        """The items that differ from what it wrote."""
        ...


class Walk:
    """Random calls of a store.

    Args:
        db: the store.
        seed: of the random numbers.
        more: additional calls, of one backend.
    """

    def __init__(self, db: Store, seed: int, *more: Callable[[], object]) -> None:
        self._db = db
        self.random = Random(seed)
        self._more = more
        self.failures: dict[str, int] = {}

    def step(self) -> str:
        """Make one call, which may raise an OdmError; returns its name and the error."""
        call = self.random.choice([self._write, self._write, self._batch, self._transact, self._read, self._sweep])
        name = call.__name__
        try:
            call()
        except OdmError as error:
            self.failures[type(error).__name__] = self.failures.get(type(error).__name__, 0) + 1
            name += f" ({type(error).__name__})"
        return name

    def _order(self) -> Order:
        pick = self.random.choice
        return Order(
            group=pick(GROUPS),
            name=pick(NAMES),
            status=pick([None, "open", "42"]),
            size=pick([0, 5]),
            tags=set(pick([[], ["x"], ["y", "z"]])),
            stock=pick([{}, {"m": 1}]),
            expires_at=pick([None, None, NOON - timedelta(hours=1), NOON + timedelta(hours=1)]),
        )

    def _entity(self) -> Entity:
        pick = self.random.choice
        return pick(
            [
                self._order(),
                Event(group=pick(GROUPS), name=pick(NAMES)),
                Profile(group=pick(GROUPS), email=pick(NAMES), revision=pick([0, 1])),
            ]
        )

    def _key(self) -> Query[Order]:
        return Order.primary(group=self.random.choice(GROUPS), name=self.random.choice(NAMES))

    def _actions(self) -> list[Any]:
        choices: list[list[Any]] = [
            [increment(Order.views)],
            [increment(Order.views, 2), set_(Order.size, 3)],
            [increment(Order.size)],
            [set_(Order.status, "open")],
            [remove(Order.status)],
            [add_to(Order.tags, "n")],
            [set_(Order.stock["m"], 2)],
            [append(Order.lines, "l")],
        ]
        return self.random.choice(choices)

    def _write(self) -> None:
        db, pick = self._db, self.random.choice
        when = pick([None, None, Order.size > 1, missing(Order.status)])
        returning: Any = pick(["none", "old", "new"])
        self._one_of(
            lambda: db.put(self._entity()),
            lambda: db.put(self._order(), when=when),
            lambda: db.insert(self._entity()),
            lambda: db.update(self._key(), *self._actions(), when=when, returning=returning),
            lambda: db.update(self._key(), *self._actions(), upsert=True),
            lambda: db.delete(self._key(), when=when),
            lambda: db.delete(Profile, group=pick(GROUPS)),
        )

    def _one_of(self, *calls: Callable[[], object]) -> None:
        self.random.choice(calls)()

    def _batch(self) -> None:
        with self._db.batch() as batch:
            for _ in range(self.random.randrange(1, 4)):
                if self.random.random() < 0.5:
                    batch.delete(self._key())
                else:
                    batch.put(self.random.choice([self._order(), Event(group="a", name=self.random.choice(NAMES))]))

    def _transact(self) -> None:
        with self._db.transaction() as tx:
            for _ in range(self.random.choice([1, 1, 2])):
                self._one_of(
                    lambda: tx.put(self._entity()),
                    lambda: tx.insert(self._entity()),
                    lambda: tx.update(self._key(), *self._actions(), upsert=self.random.random() < 0.5),
                    lambda: tx.delete(self._key()),
                    lambda: tx.check(self._key()),
                )

    def _read(self) -> None:
        db, group = self._db, self.random.choice(GROUPS)
        self._one_of(
            lambda: list(db.query(Order.primary(group=group))),
            lambda: db.count(Order.primary(group=group).where(Order.size > 1)),
            lambda: list(db.query(collection(Profile.primary(group=group)))),
            lambda: list(db.query(Order.by_status(status="open"))),
            lambda: list(db.scan()),
        )

    def _sweep(self) -> None:
        """A call that affects many items."""
        db, group = self._db, self.random.choice(GROUPS)
        self._one_of(
            lambda: db.delete_all(Order.primary(group=group)),
            lambda: db.delete_all(collection(Profile.primary(group=group))),
            lambda: db.delete_all(Order.by_status(status="open")),
            db.create,
            self._copy_into,
            lambda: db.put_raw(db.scan_page().items),
            *self._more,
            *self._more,
        )

    def _copy_into(self) -> None:
        with Store(shared, Memory(), clock=NOON.timestamp) as source:
            source.create()
            for _ in range(3):
                with suppress(OdmError):  # the address is taken
                    source.put(self._entity())
            copy(source, self._db, into_existing=True, check=False)


def walk(db: Store, others: Others, steps: int, seed: int, *more: Callable[[], object]) -> dict[str, int]:
    """Make random calls, and check after each that the other program's items are unchanged; counts errors by class."""
    walking = Walk(db, seed, *more)
    for _ in range(8):
        others.write(walking.random)
    done: list[str] = []
    for number in range(steps):
        if number % 5 == 4:
            others.write(walking.random)
        done.append(walking.step())
        assert others.changed() == [], f"after {done[-3:]}, step {number} of seed {seed}"
    return walking.failures
