"""`StoreCalls`: the calls of a store as generators, on its session."""

from collections.abc import Callable, Iterable, Sequence
from random import Random
from typing import Any, TypeVar

import odm
from odm.entities.companions import BaseCompanion, Effect
from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import ItemNotFound
from odm.expressions.nodes import Action, Condition
from odm.procedures import read, store_writes
from odm.procedures.automatic import assigned, new_id
from odm.procedures.batch import BatchSteps
from odm.procedures.calls import PAGE, Calls, Companion, Procedure, whole_procedure
from odm.procedures.cell_versions import CellVersion, cell_versions
from odm.procedures.companion_intent import companion_writes_of
from odm.procedures.companion_writes import CompanionWrites
from odm.procedures.concurrent import concurrent, counted
from odm.procedures.context import Context
from odm.procedures.merge import merge
from odm.procedures.session import Page, Session
from odm.procedures.transaction import TransactionSteps
from odm.procedures.update import Returning, Validate, item_update
from odm.procedures.write_intent import WriteIntent
from odm.protocol.connection import CoreGen
from odm.protocol.requests import Sleep

E = TypeVar("E", bound=Entity)
T = TypeVar("T")


class StoreCalls(Calls):
    """Implements `Calls`, which documents each method and has overloads for the types that are Any here."""

    def __init__(self, session: Session) -> None:
        self._opened = session

    @property
    def _session(self) -> Session:
        return self._opened

    @property
    def context(self) -> Context:
        """That of the store."""
        return self._session.context

    @property
    def transactions(self) -> bool:
        return self.context.transactions

    @property
    def random(self) -> Random:
        return self.context.random

    def now(self) -> float:
        return self.context.clock()

    def get(self, which: Any, /, *unnamed: Any, consistent: bool = True, only: Any = None, **key: Any) -> CoreGen[Any]:
        if unnamed:
            raise self.context.schema.no_names("get", which, unnamed)
        if isinstance(which, Procedure):
            return whole_procedure(which, consistent, key, only)(self)
        return read.get(self.context, self.context.schema.key_of(which, key), consistent=consistent, only=only)

    def one(self, which: Any, /, *unnamed: Any, consistent: bool = True, only: Any = None, **key: Any) -> CoreGen[Any]:
        if unnamed:
            raise self.context.schema.no_names("one", which, unnamed)
        if isinstance(which, Procedure):
            return self._found(whole_procedure(which, consistent, key, only))
        return read.one(self.context, self.context.schema.key_of(which, key), consistent=consistent, only=only)

    def _found(self, procedure: Procedure[Any]) -> CoreGen[Any]:
        found = yield from procedure(self)
        if found is None:
            raise ItemNotFound(f"{procedure}: there is no such item in table {self.context.schema.name!r}")
        return found

    def get_many(
        self, keys: Sequence[Query[Any]], *, consistent: bool = True, atomic: bool = False, only: Any = None
    ) -> CoreGen[list[Any]]:
        from odm.procedures.get_many import get_many

        return get_many(self.context, keys, consistent=consistent, atomic=atomic, only=only)

    def cell_versions(self, which: Entity | Query[Any], field: T, /) -> CoreGen[list[CellVersion[T]]]:
        return cell_versions(self.context, which, field)

    def exists(self, which: Any, /, *unnamed: Any, **key: Any) -> CoreGen[bool]:
        if unnamed:
            raise self.context.schema.no_names("exists", which, unnamed)
        return read.exists(self.context, self.context.schema.key_of(which, key))

    def put(self, entity: Any, *, when: Condition | bool | None = None) -> CoreGen[Any]:
        return store_writes.put(self.context, self, entity, when)

    def insert(self, entity: Any) -> CoreGen[Any]:
        return store_writes.insert(self.context, self, entity)

    def load_new(self, entities: Iterable[Entity]) -> CoreGen[None]:
        from odm.procedures.load_new import load_new

        return load_new(self.context, self, entities)

    def update(
        self,
        which: Entity | Query[Any],
        /,
        *actions: Action,
        when: Condition | bool | None = None,
        returning: Returning = "none",
        upsert: bool = False,
        validate: Validate = "item",
        **fields: Any,
    ) -> CoreGen[Any]:
        session = self._session
        context = session.context
        if fields:
            raise context.schema.no_actions(which, fields)
        change = item_update(context, which, actions, when, returning, upsert=upsert, validate=validate)
        return store_writes.update(context, self, change, retry_safe=session.retry_safe)

    def save(self, entity: E) -> CoreGen[E]:
        return store_writes.save(self.context, self, entity, retry_safe=self._session.retry_safe)

    def merge(self, which: Entity | Query[Any], /, *actions: Action) -> CoreGen[None]:
        return merge(self.context, which, actions)

    def delete(self, which: Any, /, *unnamed: Any, when: Condition | bool | None = None, **key: Any) -> CoreGen[bool]:
        if unnamed:
            raise self.context.schema.no_names("delete", which, unnamed)
        return store_writes.delete(self.context, self, self.context.schema.named(which, key), when)

    def delete_all(self, query: Query[Any]) -> CoreGen[int]:
        return store_writes.delete_all(self.context, self, self._session.begin(query))

    def reshard(self, query: Query[Any]) -> CoreGen[int]:
        from odm.procedures.reshard import reshard

        return reshard(self.context, self._session.query(query))

    def backfill(
        self,
        target: object,
        *,
        rate: float | None = None,
        after: str | None = None,
        size: int = PAGE,
        on_progress: "Callable[[odm.Backfilled], object] | None" = None,
    ) -> "CoreGen[odm.Backfilled]":
        from odm.procedures.backfill import backfill

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
        on_progress: "Callable[[odm.Backfilled], object] | None" = None,
    ) -> "CoreGen[odm.Backfilled]":
        from odm.procedures.rekey import rekey

        return rekey(self._session, old, new, make, rate=rate, after=after, size=size, on_progress=on_progress)

    def query(self, query: Query[Any], *, consistent: bool = True, only: Any = None) -> CoreGen[list[Any]]:
        reading = self._session.begin(query, consistent=consistent, only=only)
        found: list[Any] = []
        while reading is not None:
            items, reading = yield from read.chunk(self.context, reading)
            found += items
        return found

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
        reading = self._session.begin(query, consistent=consistent, after=after, only=only)
        return self._session.page(reading, size, max_requests)

    def first(self, query: Query[Any], *, consistent: bool = True, only: Any = None) -> CoreGen[Any]:
        query = self._session.query(query).limit(1)
        return read.first(self.context, self._session.begin(query, consistent=consistent, only=only))

    def count(self, query: Query[Any], *, consistent: bool = True) -> CoreGen[int]:
        reading = self._session.begin(query, consistent=consistent)
        return 0 if reading is None else (yield from read.count(self.context, reading))

    def parts(self, parts: int) -> CoreGen[list[str]]:
        return self._session.parts(parts)

    def scan_page(
        self,
        after: str | None = None,
        *,
        size: int = PAGE,
        expired: bool = False,
        consistent: bool = True,
        where: Query[Any] | None = None,
    ) -> "CoreGen[Page[odm.RawItem]]":
        return self._session.scan_page(after, size, expired=expired, consistent=consistent, where=where)

    def put_raw(self, items: "Sequence[odm.RawItem]") -> CoreGen[None]:
        from odm.procedures import raw

        return raw.put_raw(self.context, items)

    def change_shards(self) -> "CoreGen[Sequence[odm.ChangeShard]]":
        from odm.procedures.changes import change_shards

        return change_shards(self.context)

    def changes(self, shard: str, after: str | None = None, *, size: int = PAGE) -> "CoreGen[odm.Changes]":
        from odm.procedures.changes import changes

        return changes(self.context, shard, after, size)

    def key_of(self, entity: Entity) -> tuple[str, str]:
        return self.context.schema.target(entity).key

    def new_id(self, entity: type[Entity]) -> Any:
        return new_id(self.context, entity)

    def assigned(self, entity: E) -> E:
        return assigned(self.context, self.context.schema.entity(type(entity)), entity, written=False)

    def raw_item(self, entity: Entity) -> "odm.RawItem":
        from odm.procedures import raw

        return raw.raw_item(self.context, entity)

    def batch(self, *, parallel: int = 1) -> BatchSteps:
        return BatchSteps(lambda: self.context, parallel)

    def transaction(self) -> TransactionSteps:
        return TransactionSteps(lambda: self.context, self.commit)

    def commit(self, intents: Sequence[WriteIntent]) -> CoreGen[None]:
        """Apply all operations of a transaction, or none."""
        return store_writes.write_transaction(self.context, self, intents)

    def marked(self, companion: BaseCompanion, key: Query[Any]) -> CoreGen[tuple[Any, str | None]]:
        return store_writes.marked(self.context, companion, key)

    def companion_writes(self, companion: Companion, effect: Effect[Any]) -> CompanionWrites:
        return companion_writes_of(self.context, companion, effect)

    def write(self, writes: CompanionWrites) -> CoreGen[None]:
        from odm.procedures.companion_commit import write_each

        return write_each(self.context, writes)

    def pause(self, seconds: float) -> CoreGen[None]:
        yield Sleep(seconds)

    def concurrent(self, steps: Sequence[CoreGen[Any]]) -> CoreGen[list[Any]]:
        return concurrent(steps)

    def counted(self, steps: CoreGen[Any]) -> CoreGen[tuple[Any, int]]:
        return counted(steps)


class CurrentCalls(StoreCalls):
    """The calls of a procedure, transaction or batch: entities may join the table while it runs.

    Args:
        current: returns the current session of the store.
    """

    def __init__(self, current: Callable[[], Session]) -> None:
        self._current = current

    @property
    def _session(self) -> Session:
        return self._current()
