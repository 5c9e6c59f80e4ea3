"""Procedures: steps of several calls, written once and run by either store.

A procedure is a generator function that makes its calls with ``yield from do.get(...)``. It does no I/O itself, so
``db.run(...)`` of a `odm.Store` runs it, and ``await db.run(...)`` of an `odm.AsyncStore` does.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import wraps
from random import Random
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar, overload

from attrs import frozen

from odm.entities.companions import BaseCompanion, Effect
from odm.entities.entity import Entity
from odm.entities.query import Finding, Query
from odm.errors import BadValue, ItemNotFound
from odm.expressions.nodes import Action, Condition
from odm.procedures import batch as batches
from odm.procedures import companion_commit, raw
from odm.procedures import read as reads
from odm.procedures import update as updates
from odm.procedures.companion_writes import CompanionWrites, companion_writes_of
from odm.procedures.concurrent import concurrent, counted
from odm.procedures.raw import PAGE, RawItem
from odm.protocol.connection import CoreGen
from odm.protocol.requests import Sleep
from odm.stores.base import BaseStore, Page
from odm.stores.transactions import Operations

E = TypeVar("E", bound=Entity)
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Calls:
    """The calls of a store as steps of a procedure: ``order = yield from do.get(Order, order_id="o1")``.

    Each takes what the method of that name of `odm.Store` takes, and raises what it raises.
    """

    def __init__(self, store: BaseStore) -> None:
        self._store = store

    @property
    def transactions(self) -> bool:
        """Whether the backend writes several items together; where not, a transaction has one operation."""
        return self._store._context.transactions

    @property
    def random(self) -> Random:
        """What the store draws chances from."""
        return self._store._context.random

    def now(self) -> float:
        """Seconds since the epoch, by the store's clock."""
        return self._store._context.clock()

    @overload
    def get(self, which: type[E], /, **key: Any) -> CoreGen[E | None]: ...
    @overload
    def get(self, which: Query[E], /, *, consistent: bool = True) -> CoreGen[E | None]: ...
    @overload
    def get(self, which: "Procedure[R]", /) -> CoreGen[R]: ...
    def get(self, which: Any, /, consistent: bool = True, **key: Any) -> CoreGen[Any]:
        """The item under a key, or None."""
        if isinstance(which, Procedure):
            return _alone(which, consistent, key)(self)
        return reads.get(self._store._context, self._store._key(which, key), consistent=consistent)

    @overload
    def one(self, which: type[E], /, **key: Any) -> CoreGen[E]: ...
    @overload
    def one(self, which: Query[E], /, *, consistent: bool = True) -> CoreGen[E]: ...
    @overload
    def one(self, which: "Procedure[E | None]", /) -> CoreGen[E]: ...
    def one(self, which: Any, /, consistent: bool = True, **key: Any) -> CoreGen[Any]:
        """The item under a key; ItemNotFound if there is none."""
        if isinstance(which, Procedure):
            return self._found(_alone(which, consistent, key))
        return reads.one(self._store._context, self._store._key(which, key), consistent=consistent)

    def _found(self, procedure: "Procedure[Any]") -> CoreGen[Any]:
        found = yield from procedure(self)
        if found is None:
            raise ItemNotFound(f"{procedure}: there is no such item in table {self._store._context.schema.name!r}")
        return found

    def get_many(self, keys: Sequence[Query[E]], *, consistent: bool = True) -> CoreGen[list[E | None]]:
        """The items under keys, in the order of the keys."""
        return reads.get_many(self._store._context, keys, consistent=consistent)

    def exists(self, which: type[Entity] | Query[Any], /, **key: Any) -> CoreGen[bool]:
        """Whether there is an item under the key."""
        return self._store._exists(which, key)

    def put(self, entity: E, *, when: Condition | bool | None = None) -> CoreGen[E]:
        """Write an entity over whatever is under its key."""
        return companion_commit.put(self._store._context, self, entity, when)

    def insert(self, entity: E) -> CoreGen[E]:
        """Write a new entity; ItemExists if its key is taken."""
        return companion_commit.insert(self._store._context, self, entity)

    def update(
        self,
        which: Entity | Query[Any],
        /,
        *actions: Action,
        when: Condition | bool | None = None,
        returning: updates.Returning = "none",
        upsert: bool = False,
    ) -> CoreGen[Any]:
        """Change attributes of an existing item."""
        store = self._store
        return companion_commit.update(
            store._context, self, which, actions, when, returning, upsert=upsert, retry_safe=store._retry_safe
        )

    def delete(
        self, which: type[Entity] | Entity | Query[Any], /, when: Condition | bool | None = None, **key: Any
    ) -> CoreGen[bool]:
        """Remove an item; whether it was there."""
        return companion_commit.delete(self._store._context, self, self._store._key(which, key), when)

    def delete_all(self, query: Query[Any]) -> CoreGen[int]:
        """Remove everything that a query finds; how many."""
        return companion_commit.delete_all(self._store._context, self, self._store._begin(query))

    def reshard(self, query: Query[Any]) -> CoreGen[int]:
        """Move index entries from the shards that were to those that are; how many."""
        return self._store._reshard(query)

    def query(self, query: Query[E], *, consistent: bool = True) -> CoreGen[list[E]]:
        """All results, in memory; `page` reads them bit by bit."""
        reading = self._store._begin(query, consistent=consistent)
        found: list[E] = []
        while reading is not None:
            items, reading = yield from reads.chunk(self._store._context, reading)
            found += items
        return found

    def page(
        self, query: Query[E], *, size: int = 25, after: str | None = None, consistent: bool = True
    ) -> CoreGen[Page[E]]:
        """One page of the results, and the cursor to the next."""
        return self._store._page(self._store._begin(query, consistent=consistent, after=after), size)

    def first(self, query: Query[E], *, consistent: bool = True) -> CoreGen[E | None]:
        """The first result, or None."""
        reading = self._store._begin(self._store._query(query).limit(1), consistent=consistent)
        return reads.first(self._store._context, reading)

    def count(self, query: Query[Any], *, consistent: bool = True) -> CoreGen[int]:
        """How many results there are."""
        reading = self._store._begin(query, consistent=consistent)
        return 0 if reading is None else (yield from reads.count(self._store._context, reading))

    def parts(self, parts: int) -> CoreGen[list[str]]:
        """The cursors at which parts of the table begin, to be read side by side with `scan_page`."""
        return self._store._parts(parts)

    def scan_page(
        self, after: str | None = None, *, size: int = PAGE, expired: bool = False, consistent: bool = True
    ) -> CoreGen[Page[RawItem]]:
        """A page of the whole table, or of a part of it, with the items as they are stored."""
        return self._store._scan_page(after, size, expired=expired, consistent=consistent)

    def put_raw(self, items: Sequence[RawItem]) -> CoreGen[None]:
        """Write items as they were read, over whatever is under their keys."""
        return raw.put_raw(self._store._context, items)

    def key_of(self, entity: Entity) -> tuple[str, str]:
        """The key under which an entity is stored: partition and sort, as text."""
        return self._store.key_of(entity)

    def batch(self) -> "BatchSteps":
        """A batch: ``batch = do.batch()``, ``batch.put(...)``, and at the end ``yield from batch.send()``."""
        return BatchSteps(self._store)

    def transaction(self) -> "TransactionSteps":
        """A transaction: ``tx = do.transaction()``, ``tx.put(...)``, and at the end ``yield from tx.commit()``."""
        return TransactionSteps(self._store)

    def marked(self, companion: BaseCompanion, key: Query[E]) -> CoreGen[tuple[E | None, str | None]]:
        """The item under a key, with the mark that a companion has put on it; see `CompanionWrites.mark`."""
        return companion_commit.marked(self._store._context, companion, key)

    def companion_writes(self, companion: BaseCompanion, effect: Effect[Any]) -> CompanionWrites:
        """What a companion writes with an item, for `Companion.without_transaction`."""
        return companion_writes_of(self._store._context, companion, effect)

    def write(self, writes: CompanionWrites) -> CoreGen[None]:
        """Send what a companion writes with an item, one after another.

        Raises:
            OdmError: one was refused; what comes after it was not written.
        """
        return companion_commit.write_each(self._store._context, writes)

    def pause(self, seconds: float) -> CoreGen[None]:
        """Wait, before something is tried again; an `odm.AsyncStore` does other things meanwhile."""
        yield Sleep(seconds)

    def concurrent(self, steps: Sequence[CoreGen[R]]) -> CoreGen[list[R]]:
        """Run several steps at once: ``yield from do.concurrent([do.get(...), do.count(...)])``.

        Returns:
            What each returns, in order.

        Raises:
            Exception: what the first of them raised; the others have ended by then, or were stopped where they were.
        """
        return concurrent(steps)

    def counted(self, steps: CoreGen[R]) -> CoreGen[tuple[R, int]]:
        """Count what some steps cost: ``found, requests = yield from do.counted(do.query(...))``.

        Returns:
            What the steps return, and how many requests they sent: as many as a `odm.Meter` counts calls, but for
            what takes several calls at the backend, such as a read of an index or a batch on Bigtable.
        """
        return counted(steps)


class TransactionSteps(Operations):
    """The transaction of a procedure, which is committed by `commit`."""

    def __init__(self, store: BaseStore) -> None:
        super().__init__(store)
        self._pending.begin()

    def commit(self) -> CoreGen[None]:
        """Do all operations, or none.

        Raises:
            TransactionFailed: nothing was written, and its ``reasons`` say why.
        """
        try:
            yield from self._pending.commit(Calls(self._store))
        finally:
            self._pending.close()


class BatchSteps:
    """The batch of a procedure, which is sent by `send`: once, whatever it holds; the last operation on a key wins."""

    def __init__(self, store: BaseStore) -> None:
        self._store = store
        self._pending = batches.Pending(store._context)
        self._pending.open = True

    def put(self, entity: Entity) -> None:
        """Write an entity over whatever is under its key; BadValue if it has a Revision."""
        self._pending.put(entity)

    def delete(self, which: type[Entity] | Entity | Query[Any], /, **key: Any) -> None:
        """Remove an item."""
        self._pending.delete(self._store._key(which, key))

    def send(self) -> CoreGen[None]:
        """Do all operations; Throttled with what is left.

        Raises:
            Throttled: ``left`` has the entities that were not put, and the keys of those that were not deleted.
        """
        try:
            yield from self._pending.flush()
        finally:
            self._pending.close()


@frozen(repr=False)
class Procedure(Finding, Generic[R_co]):
    """What a `procedure` makes when it is called: its steps, ready for ``db.run(...)``."""

    steps: Callable[[Calls], CoreGen[R_co]]
    text: str = ""

    def __call__(self, do: Calls) -> CoreGen[R_co]:
        """The steps on a store: a procedure runs another by ``yield from other(do)``."""
        return self.steps(do)

    def __repr__(self) -> str:
        return self.text


def procedure(steps: Callable[Concatenate[Calls, P], CoreGen[R]]) -> Callable[P, Procedure[R]]:
    """Make a procedure of a generator function whose first parameter is the `Calls` of the store that runs it.

    ::

        @procedure
        def rename(do: Calls, key: Query[Customer], name: str) -> CoreGen[str]:
            customer = yield from do.one(key)
            yield from do.update(customer, set_(Customer.name, name))
            return customer.name


        db.run(rename(Customer.primary(customer_id="c1"), "Ann"))  # await db.run(...), of an AsyncStore

    Args:
        steps: the generator function.

    Returns:
        A function of its other parameters, which makes a `Procedure`.
    """

    @wraps(steps)
    def make(*args: P.args, **kwargs: P.kwargs) -> Procedure[R]:
        given = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        return Procedure(lambda do: steps(do, *args, **kwargs), f"{steps.__name__}({', '.join(given)})")

    return make


def _alone(made: Procedure[R], consistent: bool, key: Mapping[str, Any]) -> Procedure[R]:
    """A procedure that was given in place of a key, without what only goes with a key. Raises BadValue."""
    for name, given in {"consistent": not consistent, **dict.fromkeys(key, True)}.items():
        if given:
            raise BadValue(f"{made} is a procedure, which reads as it was written: leave {name}= out")
    return made


def started(made: Callable[[Calls], CoreGen[R]], do: Calls) -> CoreGen[R]:
    """The steps of what was given to ``db.run(...)``.

    Raises:
        TypeError: it gives no generator.
    """
    steps = made(do) if callable(made) else None
    if not isinstance(steps, Generator):
        raise TypeError(f"run({made!r}): give what a @procedure makes when it is called, as in run(rename(key, 'Ann'))")
    return steps
