"""Procedures and companions: the calls that user code can make inside them.

A procedure is a generator function that makes its calls with ``yield from do.get(...)``. It does no I/O itself, so
``db.run(...)`` of a `odm.Store` runs it, and ``await db.run(...)`` of an `odm.AsyncStore` does.
"""

from collections.abc import Callable, Generator, Mapping, Sequence
from functools import wraps
from random import Random
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, overload

from attrs import frozen

from odm.entities.companions import BaseCompanion, Effect
from odm.entities.entity import Entity
from odm.entities.query import Finding, Query
from odm.errors import BadValue
from odm.expressions.nodes import Action, Condition
from odm.procedures.batch import BatchSteps
from odm.procedures.companion_writes import CompanionWrites
from odm.procedures.raw import PAGE, RawItem
from odm.procedures.session import Page
from odm.procedures.transaction import TransactionSteps
from odm.procedures.update import Returning
from odm.protocol.connection import CoreGen

E = TypeVar("E", bound=Entity)
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Calls(Protocol):
    """The calls of a store as steps of a procedure: ``order = yield from do.get(Order, order_id="o1")``.

    Each takes what the method of that name of `odm.Store` takes, and raises what it raises.
    """

    @property
    def transactions(self) -> bool:
        """Whether the backend writes several items together; where not, a transaction has one operation."""
        ...

    @property
    def random(self) -> Random:
        """The store's source of random numbers."""
        ...

    def now(self) -> float:
        """Seconds since the epoch, by the store's clock."""
        ...

    @overload
    def get(self, which: type[E], /, **key: Any) -> CoreGen[E | None]: ...
    @overload
    def get(self, which: Query[E], /, *, consistent: bool = True) -> CoreGen[E | None]: ...
    @overload
    def get(self, which: "Procedure[R]", /) -> CoreGen[R]: ...
    def get(self, which: Any, /, consistent: bool = True, **key: Any) -> CoreGen[Any]:
        """The item under a key, or None."""
        ...

    @overload
    def one(self, which: type[E], /, **key: Any) -> CoreGen[E]: ...
    @overload
    def one(self, which: Query[E], /, *, consistent: bool = True) -> CoreGen[E]: ...
    @overload
    def one(self, which: "Procedure[E | None]", /) -> CoreGen[E]: ...
    def one(self, which: Any, /, consistent: bool = True, **key: Any) -> CoreGen[Any]:
        """The item under a key; ItemNotFound if there is none."""
        ...

    def get_many(self, keys: Sequence[Query[E]], *, consistent: bool = True) -> CoreGen[list[E | None]]:
        """The items under keys, in the order of the keys."""
        ...

    def exists(self, which: type[Entity] | Query[Any], /, **key: Any) -> CoreGen[bool]:
        """Whether there is an item under the key."""
        ...

    def put(self, entity: E, *, when: Condition | bool | None = None) -> CoreGen[E]:
        """Write an entity over whatever is under its key."""
        ...

    def insert(self, entity: E) -> CoreGen[E]:
        """Write a new entity; ItemExists if its key is taken."""
        ...

    def update(
        self,
        which: Entity | Query[Any],
        /,
        *actions: Action,
        when: Condition | bool | None = None,
        returning: Returning = "none",
        upsert: bool = False,
    ) -> CoreGen[Any]:
        """Change attributes of an existing item."""
        ...

    def delete(
        self, which: type[Entity] | Entity | Query[Any], /, when: Condition | bool | None = None, **key: Any
    ) -> CoreGen[bool]:
        """Remove an item; whether it was there."""
        ...

    def delete_all(self, query: Query[Any]) -> CoreGen[int]:
        """Delete every item that matches a query; returns how many."""
        ...

    def reshard(self, query: Query[Any]) -> CoreGen[int]:
        """Move index entries from old shards to the current ones; returns how many."""
        ...

    def query(self, query: Query[E], *, consistent: bool = True) -> CoreGen[list[E]]:
        """All results, in memory; `page` reads them page by page."""
        ...

    def page(
        self, query: Query[E], *, size: int = 25, after: str | None = None, consistent: bool = True
    ) -> CoreGen[Page[E]]:
        """One page of the results, and the cursor to the next."""
        ...

    def first(self, query: Query[E], *, consistent: bool = True) -> CoreGen[E | None]:
        """The first result, or None."""
        ...

    def count(self, query: Query[Any], *, consistent: bool = True) -> CoreGen[int]:
        """How many results there are."""
        ...

    def parts(self, parts: int) -> CoreGen[list[str]]:
        """The cursors at which parts of the table begin; `scan_page` reads the parts concurrently."""
        ...

    def scan_page(
        self, after: str | None = None, *, size: int = PAGE, expired: bool = False, consistent: bool = True
    ) -> CoreGen[Page[RawItem]]:
        """A page of raw items of the table, or of a part of it."""
        ...

    def put_raw(self, items: Sequence[RawItem]) -> CoreGen[None]:
        """Write raw items over whatever is under their keys."""
        ...

    def key_of(self, entity: Entity) -> tuple[str, str]:
        """The key under which an entity is stored: partition and sort, as text."""
        ...

    def batch(self) -> BatchSteps:
        """A batch: ``batch = do.batch()``, ``batch.put(...)``, and at the end ``yield from batch.send()``."""
        ...

    def transaction(self) -> TransactionSteps:
        """A transaction: ``tx = do.transaction()``, ``tx.put(...)``, and at the end ``yield from tx.commit()``."""
        ...

    def marked(self, companion: BaseCompanion, key: Query[E]) -> CoreGen[tuple[E | None, str | None]]:
        """The item under a key, with the mark that a companion has put on it; see `CompanionWrites.mark`."""
        ...

    def companion_writes(self, companion: "Companion", effect: Effect[Any]) -> CompanionWrites:
        """What a companion writes with an item, for `Companion.without_transaction`."""
        ...

    def write(self, writes: CompanionWrites) -> CoreGen[None]:
        """Send what a companion writes with an item, one after another.

        Raises:
            OdmError: one was refused; what comes after it was not written.
        """
        ...

    def pause(self, seconds: float) -> CoreGen[None]:
        """Wait, before something is tried again; an `odm.AsyncStore` does other things meanwhile."""
        ...

    def concurrent(self, steps: Sequence[CoreGen[R]]) -> CoreGen[list[R]]:
        """Run several steps at once: ``yield from do.concurrent([do.get(...), do.count(...)])``.

        Returns:
            What each returns, in order.

        Raises:
            Exception: what the first of them raised; the others have ended by then, or were stopped where they were.
        """
        ...

    def counted(self, steps: CoreGen[R]) -> CoreGen[tuple[R, int]]:
        """Count what some steps cost: ``found, requests = yield from do.counted(do.query(...))``.

        Returns:
            What the steps return, and how many requests they sent: as many as a `odm.Meter` counts calls, but for
            what takes several calls at the backend, such as a read of an index or a batch on Bigtable.
        """
        ...


class Companion(BaseCompanion):
    """A declaration in an entity's body that keeps items of its own right by every write of the entity.

    Its items are written with every put, insert, update or delete by a store or in a transaction; a batch, which has no
    conditions, refuses entities that have one. On the class, ``Order.latest`` is what `of` gives.

    Attributes:
        name: the attribute name.
        reads: a put needs the previous item, so that is read first, and the write is refused and tried again if
            it has changed by then. Updates and deletes always do that, inserts never.
        reads_without_transaction: likewise, where the backend writes one item at a time.
        deletes: it takes part in deletes.
    """

    def companion_writes(self, tx: CompanionWrites, effect: Effect[Any]) -> None:
        """Say what is written with an item: ``tx.put(...)``, as in a transaction.

        Raises:
            BadValue: a value does not fit; nothing is sent.
        """

    def without_transaction(
        self, do: Calls, effect: Effect[Any], commit: Callable[..., CoreGen[None]]
    ) -> CoreGen[None]:
        """Write an item on a backend that writes one at a time; by default the companion's writes come after it.

        Args:
            do: the calls of the store.
            effect: as for `companion_writes`.
            commit: ``yield from commit()`` writes the item itself, on the condition that it is still as it was read;
                ``commit(mark=...)`` marks it, see `CompanionWrites.mark`; ``commit(until=...)`` writes it before that
                instant, in epoch seconds, or not at all. What it raises must be raised on: an `odm.BadValue`,
                `odm.ConditionFailed`, `odm.ItemExists` or `odm.ItemNotFound` says that it was certainly not written.
                It is written once at most, so its mark is in no item that comes later.
        """
        writes = do.companion_writes(self, effect)
        yield from commit(mark=writes.marked)
        yield from do.write(writes)

    def settle(self, do: Calls, effect: Effect[Any]) -> CoreGen[None]:
        """Called after a write was applied, for work that need not be atomic with it; does nothing by default.

        Also by transactions, and after a delete that finds no item (``old`` and ``new`` are None): a program that is
        stopped before it, or within, has left something that does no harm, and that goes by deleting again.

        Args:
            do: the calls of the store.
            effect: as for `companion_writes`, but without the mark.
        """
        yield from ()


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


def whole_procedure(made: Procedure[R], consistent: bool, key: Mapping[str, Any]) -> Procedure[R]:
    """A procedure that was given in place of a key, without what only goes with a key. Raises BadValue."""
    for name, given in {"consistent": not consistent, **dict.fromkeys(key, True)}.items():
        if given:
            raise BadValue(f"{made} is a procedure, which has its own {name}: leave {name}= out")
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
