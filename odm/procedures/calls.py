"""`Calls`: the calls of a store as generators; and what is written with them, companions and procedures.

A procedure is a generator function that makes its calls with ``yield from do.get(...)``. It does no I/O itself:
``db.run(...)`` of an `odm.Store` or ``await db.run(...)`` of an `odm.AsyncStore` runs it.
"""

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from functools import wraps
from random import Random
from typing import Any, Concatenate, Final, Generic, Never, ParamSpec, TypeAlias, TypeVar, overload

import odm
from odm._published import public_in
from odm.entities.companions import BaseCompanion, Effect
from odm.entities.entity import Entity
from odm.entities.query import Finding, Query
from odm.errors import BadValue, ItemNotFound, Unsupported, brief
from odm.expressions.nodes import Action, Condition
from odm.immutable import Immutable
from odm.procedures import store_writes
from odm.procedures.batch import BatchSteps
from odm.procedures.companions.intent import companion_writes_of
from odm.procedures.companions.writes import CompanionWrites
from odm.procedures.concurrent import concurrent, counted
from odm.procedures.context import Context
from odm.procedures.reading import read
from odm.procedures.reading.partial import Partial
from odm.procedures.session import Page, Session
from odm.procedures.writing.automatic import assigned, new_id
from odm.procedures.writing.cell_versions import CellVersion, cell_versions
from odm.procedures.writing.intent import WriteIntent
from odm.procedures.writing.merge import merge
from odm.procedures.writing.transaction import TransactionSteps
from odm.procedures.writing.update import Returning, Validate, item_update
from odm.protocol.connection import CoreGen
from odm.protocol.requests import Sleep

E = TypeVar("E", bound=Entity)
P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)
T = TypeVar("T")
Only: TypeAlias = Sequence[object]
When: TypeAlias = Condition | bool | None

PAGE: Final = 250
"""The default number of raw items a page: 100 MB if each has the maximum of 400 KB."""
DAY: Final = 86_400.0
"""The default of `odm.Store.sweep` for the age in seconds from which a blob may be removed."""


@public_in("odm.extend")
class Calls:
    """The calls of a store as steps of a procedure: ``order = yield from do.get(Order, order_id="o1")``.

    Each call has the arguments and errors of the `odm.Store` method of the same name.
    """

    def __init__(self, session: Session) -> None:
        self._opened = session

    @property
    def _session(self) -> Session:
        return self._opened

    @property
    def _context(self) -> Context:
        """That of the store."""
        return self._session.context

    @property
    def transactions(self) -> bool:
        """Whether the backend has transactions of several items; if not, a transaction has one operation."""
        return self._context.transactions

    @property
    def random(self) -> Random:
        """The store's source of random numbers."""
        return self._context.random

    def now(self) -> float:
        """Seconds since the epoch, from the store's clock."""
        return self._context.clock()

    @overload
    def get(self, which: type[E], /, *, only: None = None, **key: Any) -> CoreGen[E | None]: ...
    @overload
    def get(self, which: type[E], /, *, only: Only, **key: Any) -> CoreGen[Partial[E] | None]: ...
    @overload
    def get(self, which: Query[E], /, *, consistent: bool = True, only: None = None) -> CoreGen[E | None]: ...
    @overload
    def get(self, which: Query[E], /, *, consistent: bool = True, only: Only) -> CoreGen[Partial[E] | None]: ...
    @overload
    def get(self, which: "Procedure[R]", /) -> CoreGen[R]: ...
    def get(self, which: Any, /, *unnamed: Any, consistent: bool = True, only: Any = None, **key: Any) -> CoreGen[Any]:
        """The item under a key, or None; with ``only``, these fields of it."""
        if unnamed:
            raise self._context.schema.no_names("get", which, unnamed)
        if isinstance(which, Procedure):
            return whole_procedure(which, consistent, key, only)(self)
        return read.get(self._context, self._context.schema.key_of(which, key), consistent=consistent, only=only)

    @overload
    def one(self, which: type[E], /, *, only: None = None, **key: Any) -> CoreGen[E]: ...
    @overload
    def one(self, which: type[E], /, *, only: Only, **key: Any) -> CoreGen[Partial[E]]: ...
    @overload
    def one(self, which: Query[E], /, *, consistent: bool = True, only: None = None) -> CoreGen[E]: ...
    @overload
    def one(self, which: Query[E], /, *, consistent: bool = True, only: Only) -> CoreGen[Partial[E]]: ...
    @overload
    def one(self, which: "Procedure[E | None]", /) -> CoreGen[E]: ...
    def one(self, which: Any, /, *unnamed: Any, consistent: bool = True, only: Any = None, **key: Any) -> CoreGen[Any]:
        """The item under a key; raises ItemNotFound if it does not exist."""
        if unnamed:
            raise self._context.schema.no_names("one", which, unnamed)
        if isinstance(which, Procedure):
            return self._existing(whole_procedure(which, consistent, key, only))
        return read.one(self._context, self._context.schema.key_of(which, key), consistent=consistent, only=only)

    def _existing(self, procedure: "Procedure[Any]") -> CoreGen[Any]:
        entity = yield from procedure(self)
        if entity is None:
            raise ItemNotFound(f"{procedure}: there is no such item in table {self._context.schema.name!r}")
        return entity

    @overload
    def get_many(
        self, keys: Sequence[Query[E]], *, consistent: bool = True, atomic: bool = False, only: None = None
    ) -> CoreGen[list[E | None]]: ...
    @overload
    def get_many(
        self, keys: Sequence[Query[E]], *, consistent: bool = True, atomic: bool = False, only: Only
    ) -> CoreGen[list[Partial[E] | None]]: ...
    def get_many(
        self, keys: Sequence[Query[Any]], *, consistent: bool = True, atomic: bool = False, only: Any = None
    ) -> CoreGen[list[Any]]:
        """The items under keys, in the order of the keys; None for each key without an item."""
        from odm.procedures.reading.get_many import get_many

        return get_many(self._context, keys, consistent=consistent, atomic=atomic, only=only)

    def cell_versions(self, which: Entity | Query[Any], field: T, /) -> CoreGen[list[CellVersion[T]]]:
        """The values that a field with `odm.CellVersions` has and had, newest first; empty if it is not stored."""
        return cell_versions(self._context, which, field)

    def exists(self, which: type[Entity] | Query[Any], /, *unnamed: Never, **key: Any) -> CoreGen[bool]:
        """Whether there is an item under the key."""
        if unnamed:
            raise self._context.schema.no_names("exists", which, unnamed)
        return read.exists(self._context, self._context.schema.key_of(which, key))

    def put(self, entity: E, *, when: When = None) -> CoreGen[E]:
        """Write an entity; replaces any item under its key."""
        return store_writes.put(self._context, self, entity, when)

    def insert(self, entity: E) -> CoreGen[E]:
        """Write a new entity; raises ItemExists if there is an item under its key."""
        return store_writes.insert(self._context, self, entity)

    def load_new(self, entities: Iterable[Entity]) -> CoreGen[None]:
        """Write entities that are new, with the items of their companions, in few requests: `insert` without its guard.

        The caller says that each is absent or is stored with exactly this content, and that nobody else writes them or
        their companions' items meanwhile: what another writer changes between the reads and the writes is overwritten.
        What is stored already stays as it is, so after a failure the same load can run again. An entity that is not
        new, because of what its key holds or because a companion's write is refused, is inserted by itself in the end.
        Items that `Companion.settle` would remove stay.

        Args:
            entities: at most some thousands; all are held in memory.

        Raises:
            Unsupported: an entity has a companion without ``loads``, or one that updates its items; nothing is written.
            BadValue: an entity cannot be stored; nothing is written.
            ItemExists: a key holds other content, or a companion refuses, as in an insert; all new ones are written.
            Throttled: ``left`` has all the entities; load them again.
        """
        from odm.procedures.upkeep.load_new import load_new

        return load_new(self._context, self, entities)

    def update(
        self,
        which: Entity | Query[Any],
        /,
        *actions: Action,
        when: When = None,
        returning: Returning = "none",
        upsert: bool = False,
        validate: Validate = "item",
        **fields: Never,
    ) -> CoreGen[Any]:
        """Change attributes of an existing item."""
        session = self._session
        context = session.context
        if fields:
            raise context.schema.no_actions(which, fields)
        change = item_update(context, which, actions, when, returning, upsert=upsert, validate=validate)
        return store_writes.update(context, self, change, retry_safe=session.retry_safe)

    def save(self, entity: E) -> CoreGen[E]:
        """Write the fields of an entity that have changed since it was read; returns the entity as stored."""
        return store_writes.save(self._context, self, entity, retry_safe=self._session.retry_safe)

    def merge(self, which: Entity | Query[Any], /, *actions: Action) -> CoreGen[None]:
        """Write parts of an item without reading it; creates the item if it does not exist."""
        return merge(self._context, which, actions)

    def delete(
        self, which: type[Entity] | Entity | Query[Any], /, *unnamed: Never, when: When = None, **key: Any
    ) -> CoreGen[bool]:
        """Remove an item; returns whether it existed."""
        if unnamed:
            raise self._context.schema.no_names("delete", which, unnamed)
        return store_writes.delete(self._context, self, self._context.schema.named(which, key), when)

    def delete_all(self, query: Query[Any]) -> CoreGen[int]:
        """Delete every item that matches a query; returns the number of items removed."""
        return store_writes.delete_all(self._context, self, self._session.begin(query))

    def reshard(self, query: Query[Any]) -> CoreGen[int]:
        """Move index entries from the old shards to the current ones; returns the number of entries moved."""
        from odm.procedures.upkeep.reshard import reshard

        return reshard(self._context, self._session.query(query))

    def backfill(
        self,
        target: object,
        *,
        rate: float | None = None,
        after: str | None = None,
        size: int = PAGE,
        on_progress: "Callable[[odm.results.Backfilled], object] | None" = None,
    ) -> "CoreGen[odm.results.Backfilled]":
        """Bring stored items up to date with the models, while other programs read and write."""
        from odm.procedures.upkeep.backfill import backfill

        return backfill(self._session, self, target, rate=rate, after=after, size=size, on_progress=on_progress)

    def rekey(
        self,
        old: type[Entity],
        new: type[E],
        make: Callable[[Any], E] | None = None,
        *,
        rate: float | None = None,
        after: str | None = None,
        size: int = PAGE,
        on_progress: "Callable[[odm.results.Backfilled], object] | None" = None,
    ) -> "CoreGen[odm.results.Backfilled]":
        """Move the stored items of a class to the primary key of another one."""
        from odm.procedures.upkeep.rekey import rekey

        return rekey(self._session, old, new, make, rate=rate, after=after, size=size, on_progress=on_progress)

    @overload
    def query(self, query: Query[E], *, consistent: bool = True, only: None = None) -> CoreGen[list[E]]: ...
    @overload
    def query(self, query: Query[E], *, consistent: bool = True, only: Only) -> CoreGen[list[Partial[E]]]: ...
    def query(self, query: Query[Any], *, consistent: bool = True, only: Any = None) -> CoreGen[list[Any]]:
        """All results of a query, as a list in memory; `page` reads them page by page."""
        reading = self._session.begin(query, consistent=consistent, only=only)
        entities: list[Any] = []
        while reading is not None:
            items, reading = yield from read.chunk(self._context, reading)
            entities += items
        return entities

    @overload
    def page(
        self,
        query: Query[E],
        *,
        size: int = 25,
        after: str | None = None,
        consistent: bool = True,
        max_requests: int | None = None,
        only: None = None,
    ) -> CoreGen[Page[E]]: ...
    @overload
    def page(
        self,
        query: Query[E],
        *,
        size: int = 25,
        after: str | None = None,
        consistent: bool = True,
        max_requests: int | None = None,
        only: Only,
    ) -> CoreGen[Page[Partial[E]]]: ...
    def page(
        self,
        query: Query[Any],
        *,
        size: int = 25,
        after: str | None = None,
        consistent: bool = True,
        max_requests: int | None = None,
        only: Any = None,
    ) -> CoreGen[Page[Any]]:
        """One page of a query's results, with the cursors of the next page and the one before."""
        reading = self._session.begin(query, consistent=consistent, after=after, only=only)
        return self._session.page(reading, size, max_requests)

    @overload
    def first(self, query: Query[E], *, consistent: bool = True, only: None = None) -> CoreGen[E | None]: ...
    @overload
    def first(self, query: Query[E], *, consistent: bool = True, only: Only) -> CoreGen[Partial[E] | None]: ...
    def first(self, query: Query[Any], *, consistent: bool = True, only: Any = None) -> CoreGen[Any]:
        """The first result of a query, or None."""
        query = self._session.query(query).limit(1)
        return read.first(self._context, self._session.begin(query, consistent=consistent, only=only))

    def count(self, query: Query[Any], *, consistent: bool = True) -> CoreGen[int]:
        """The number of results of a query."""
        reading = self._session.begin(query, consistent=consistent)
        return 0 if reading is None else (yield from read.count(self._context, reading))

    def parts(self, parts: int) -> CoreGen[list[str]]:
        """The cursors at which parts of the table begin; `scan_page` reads the parts concurrently."""
        return self._session.parts(parts)

    def scan_page(
        self,
        after: str | None = None,
        *,
        size: int = PAGE,
        expired: bool = False,
        consistent: bool = True,
        where: Query[Any] | None = None,
    ) -> "CoreGen[Page[odm.results.RawItem]]":
        """A page of the whole table, or of a part of it, as raw items."""
        return self._session.scan_page(after, size, expired=expired, consistent=consistent, where=where)

    def put_raw(self, items: "Sequence[odm.results.RawItem]") -> CoreGen[None]:
        """Write raw items unchanged; replaces items under their keys."""
        from odm.procedures import raw

        return raw.put_raw(self._context, items)

    def change_shards(self) -> "CoreGen[Sequence[odm.changes.ChangeShard]]":
        """The shards of the table's change feed, parents before their children; raises Unsupported without a feed."""
        from odm.procedures.changes import change_shards

        return change_shards(self._context)

    def changes(self, shard: str, after: str | None = None, *, size: int = PAGE) -> "CoreGen[odm.changes.Changes]":
        """A page of changes of a shard, after a position or from the oldest change on; empty if there is none now."""
        from odm.procedures.changes import changes

        return changes(self._context, shard, after, size)

    def key_of(self, entity: Entity) -> tuple[str, str]:
        """The key of an entity: partition key and sort key, as text; "" if it has no sort key."""
        return self._context.schema.target(entity).key

    def new_id(self, entity: type[Entity]) -> Any:
        """A new id for an entity of this class, see `odm.Store.new_id`."""
        return new_id(self._context, entity)

    def assigned(self, entity: E) -> E:
        """The entity with the Id and CreatedAt that a put would assign."""
        return assigned(self._context, self._context.schema.entity(type(entity)), entity, written=False)

    def raw_item(self, entity: Entity) -> "odm.results.RawItem":
        """The item that a batch would put for an entity, for `put_raw`."""
        from odm.procedures import raw

        return raw.raw_item(self._context, entity)

    def batch(self, *, parallel: int = 1) -> BatchSteps:
        """A batch: ``batch = do.batch()``, then ``batch.put(...)``, and at the end ``yield from batch.send()``."""
        return BatchSteps(lambda: self._context, parallel)

    def transaction(self) -> TransactionSteps:
        """A transaction: ``tx = do.transaction()``, then ``tx.put(...)``, and at the end ``yield from tx.commit()``."""
        return TransactionSteps(lambda: self._context, self._commit)

    def _commit(self, intents: Sequence[WriteIntent]) -> CoreGen[None]:
        """Apply all operations of a transaction, or none."""
        return store_writes.write_transaction(self._context, self, intents)

    def marked(self, companion: BaseCompanion, key: Query[E]) -> CoreGen[tuple[E | None, str | None]]:
        """The item under a key, and the mark that a companion stored with it; see `CompanionWrites.mark`."""
        return store_writes.marked(self._context, companion, key)

    def companion_writes(self, companion: "Companion", effect: Effect[Any]) -> CompanionWrites:
        """The writes of a companion for an item, for `Companion.without_transaction`."""
        return companion_writes_of(self._context, companion, effect)

    def write(self, writes: CompanionWrites) -> CoreGen[None]:
        """Send the writes of a companion, one after another.

        Raises:
            OdmError: a write was refused; the writes after it were not sent.
        """
        from odm.procedures.companions.one_by_one import write_each

        return write_each(self._context, writes)

    def pause(self, seconds: float) -> CoreGen[None]:
        """Wait before a retry. With an `odm.AsyncStore`, other tasks run meanwhile."""
        yield Sleep(seconds)

    def concurrent(self, steps: Sequence[CoreGen[R]]) -> CoreGen[list[R]]:
        """Run several generators concurrently: ``yield from do.concurrent([do.get(...), do.count(...)])``.

        Returns:
            The result of each generator, in order.

        Raises:
            Exception: the first error that a generator raised; generators that had not ended by then were closed.
        """
        return concurrent(steps)

    def counted(self, steps: CoreGen[R]) -> CoreGen[tuple[R, int]]:
        """Run a generator and count its requests: ``found, requests = yield from do.counted(do.query(...))``.

        Returns:
            The result of the generator, and the number of its requests. An `odm.results.Meter` counts more calls for a
            request that takes several calls on the backend, such as a read of an index or a batch on Bigtable.
        """
        return counted(steps)


class CurrentCalls(Calls):
    """The calls of a procedure, transaction or batch: entities may join the table while it runs.

    Args:
        current: returns the current session of the store.
    """

    def __init__(self, current: Callable[[], Session]) -> None:
        self._current = current

    @property
    def _session(self) -> Session:
        return self._current()


@public_in("odm.extend")
class Companion(BaseCompanion):
    """A declaration in an entity's body that updates items of its own with every write of the entity.

    Its items are written with every put, insert, update or delete by a store or in a transaction. A batch has no
    conditions, so it refuses entities with companions; `Calls.load_new` writes new ones. On the class, ``Order.latest``
    is the result of `of`.

    Attributes:
        name: the attribute name.
        reads: a put reads the previous item first; if another writer changes the item before the write, odm reads and
            writes again. Updates and deletes always do this, inserts never.
        reads_without_transaction: the same, on backends that write one item at a time.
        deletes: the companion also writes when the entity is deleted.
        loads: whether `Calls.load_new` writes its items "before" or "after" the entity's own item; None: it refuses the
            entity. Its writes for a new item must then be puts and deletes that are right when they are collected and
            applied again: "before", while the item is not stored; "after", also when it is.
    """

    def companion_writes(self, tx: CompanionWrites, effect: Effect[Any]) -> None:
        """Collect the writes for an item: ``tx.put(...)``, as in a transaction.

        `odm.Store.backfill` calls it for stored items, and sends what differs from the stored items: with the effect of
        an insert if the item does not have the companion's mark, otherwise with ``old`` and ``new`` the same.

        Raises:
            BadValue: a value does not fit the model; nothing is sent.
        """

    def without_transaction(
        self, do: Calls, effect: Effect[Any], commit: Callable[..., CoreGen[None]]
    ) -> CoreGen[None]:
        """Write an item on a backend that writes one item at a time; by default, the item first, then the companion's.

        Args:
            do: the calls of the store.
            effect: as for `companion_writes`.
            commit: ``yield from commit()`` writes the item itself, if it was not changed since it was read.
                ``commit(mark=...)`` marks it, see `CompanionWrites.mark`; ``commit(until=...)`` only writes it before
                that instant, in epoch seconds. Do not suppress its errors. After an `odm.BadValue`,
                `odm.ConditionFailed`, `odm.ItemExists` or `odm.ItemNotFound`, the item was certainly not written. The
                item is written at most once, so no later item has this mark.
        """
        writes = do.companion_writes(self, effect)
        yield from commit(mark=writes.marked)
        yield from do.write(writes)

    def rekey_writes(
        self, tx: CompanionWrites, freed: CompanionWrites, before: "Companion", old: Effect[Any], new: Effect[Any]
    ) -> None:
        """Collect the writes for an item that `odm.Store.rekey` moves to another key; by default, raise Unsupported.

        Args:
            tx: collects the writes of this companion, and the mark of the new item.
            freed: collects deletes of items that the old companion wrote; one of a key that ``tx`` writes is left out.
            before: the companion of the same name of the old class.
            old: the delete of the old item, with its mark.
            new: the insert of the new item.

        Raises:
            Unsupported: its items cannot follow.
        """
        raise Unsupported(
            f"rekey() to {new.key}: {self.name} does not say how its items follow: define rekey_writes() of "
            f"{type(self).__name__}"
        )

    def settle(self, do: Calls, effect: Effect[Any]) -> CoreGen[None]:
        """Called after a write was applied, for work that need not be atomic with it; does nothing by default.

        Transactions call it too, and so does a delete that finds no item (``old`` and ``new`` are None). A program may
        stop before or during this call: whatever is left then must be harmless, and a second delete must remove it.

        Args:
            do: the calls of the store.
            effect: as for `companion_writes`, but without the mark.
        """
        yield from ()


@public_in("odm.extend")
class Procedure(Finding, Immutable, Generic[R_co]):
    """The result of calling a `procedure` function: its steps, ready for ``db.run(...)``."""

    steps: Callable[[Calls], CoreGen[R_co]]
    text: str = ""

    def __call__(self, do: Calls) -> CoreGen[R_co]:
        """The generator of the steps, on a store. A procedure runs another one with ``yield from other(do)``."""
        return self.steps(do)

    def __repr__(self) -> str:
        return self.text


@public_in("odm.extend")
def procedure(steps: Callable[Concatenate[Calls, P], CoreGen[R]]) -> Callable[P, Procedure[R]]:
    """Make a procedure from a generator function whose first parameter is the `Calls` of the store that runs it.

    ::

        @procedure
        def rename(do: Calls, key: Query[Customer], name: str) -> Gen[str]:
            customer = yield from do.one(key)
            yield from do.update(customer, set_(Customer.name, name))
            return customer.name


        db.run(rename(Customer.primary(customer_id="c1"), "Ann"))  # await db.run(...), of an AsyncStore

    Args:
        steps: the generator function.

    Returns:
        A function that takes the other parameters and returns a `Procedure`.
    """

    @wraps(steps)
    def make(*args: P.args, **kwargs: P.kwargs) -> Procedure[R]:
        arguments = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
        return Procedure(lambda do: steps(do, *args, **kwargs), f"{steps.__name__}({', '.join(arguments)})")

    return make


def whole_procedure(
    instance: Procedure[R], consistent: bool, key: Mapping[str, Any], only: object = None
) -> Procedure[R]:
    """A procedure passed in place of a key; raises BadValue for arguments that are only allowed with a key."""
    for name, is_set in {"consistent": not consistent, "only": only is not None, **dict.fromkeys(key, True)}.items():
        if is_set:
            raise BadValue(f"{instance} is a procedure, which has its own {name}: leave {name}= out")
    return instance


def started(routine: Callable[[Calls], CoreGen[R]], do: Calls) -> CoreGen[R]:
    """The generator of the steps that ``db.run(...)`` runs.

    Raises:
        TypeError: the argument does not return a generator.
    """
    steps = routine(do) if callable(routine) else None
    if not isinstance(steps, Generator):
        raise TypeError(
            f"run({brief(routine)}): give what a @procedure makes when it is called, as in run(rename(key, 'Ann'))"
        )
    return steps
