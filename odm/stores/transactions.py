"""`Transaction` and `AsyncTransaction`: blocks at whose end several items are written together, or none of them.

Operations are collected without I/O, so they are methods without ``await`` in both colours: one that nobody awaited
would be missing from the transaction, and nothing would fail. Only the ends of the blocks differ.
"""

from collections.abc import Awaitable, Callable
from types import TracebackType
from typing import Any, Self, TypeVar, overload

from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.expressions.nodes import Action, Condition
from odm.procedures.transaction import Pending
from odm.protocol.connection import CoreGen
from odm.stores.base import BaseStore

E = TypeVar("E", bound=Entity)


class Operations:
    """What can be said in the block of a transaction; one operation an item, 100 operations, 4 MB of items.

    Each method checks its arguments at once. What the store has to say comes at the end of the block, as
    `odm.TransactionFailed`: its ``reasons`` hold, for each operation in order, the error that the same call of the
    store would raise, or None. All conditions are judged on the items as they were before the transaction.
    """

    def __init__(self, store: BaseStore) -> None:
        self._store = store
        self._pending = Pending(store._context)

    def put(self, entity: E, *, when: Condition | bool | None = None) -> E:
        """Write an entity over whatever is under its key; as `odm.Store.put`.

        Returns:
            The entity as it will be stored: the same object, or with a Revision a copy that counts one more.

        Raises:
            BadValue: a value can not be stored, the item is in this transaction already, there are 100 operations, or
                the block has ended.
        """
        return self._pending.put(entity, when)

    def insert(self, entity: E) -> E:
        """Write a new entity; as `odm.Store.insert`.

        Returns:
            The entity as it will be stored.

        Raises:
            BadValue: as for `put`.
        """
        return self._pending.insert(entity)

    def update(
        self,
        which: Entity | Query[Any],
        /,
        *actions: Action,
        when: Condition | bool | None = None,
        upsert: bool = False,
    ) -> None:
        """Change attributes of an existing item, with all its index entries; as `odm.Store.update`.

        Raises:
            BadValue: an action does not fit the model, or as for `put`.
        """
        self._pending.update(which, actions, when, upsert=upsert)

    @overload
    def delete(self, which: type[Entity], /, **key: Any) -> None: ...
    @overload
    def delete(self, which: Entity | Query[Any], /, *, when: Condition | bool | None = None) -> None: ...
    def delete(self, which: Any, /, when: Condition | bool | None = None, **key: Any) -> None:
        """Remove an item; one that is not there is no failure.

        But what depends on the item is judged on an absent one too, since the rest of the transaction may depend on
        it: ``when`` as for an item without attributes, and an entity with a Revision must be there as you read it.

        Raises:
            BadValue: as for `put`.
        """
        self._pending.delete(self._store._key(which, key), when)

    @overload
    def check(self, which: type[Entity], /, **key: Any) -> None: ...
    @overload
    def check(self, which: Entity | Query[Any], /, *, when: Condition | bool | None = None) -> None: ...
    def check(self, which: Any, /, when: Condition | bool | None = None, **key: Any) -> None:
        """Make the transaction depend on an item that it does not write.

        Args:
            which: an entity class with its key fields, an entity, or a key. An entity with a Revision must be stored as
                you read it.
            when: the condition on the item; an absent one has no attributes. Without it, the item must exist.
            key: the key fields.

        Raises:
            BadValue: as for `put`.
        """
        self._pending.check(self._store._key(which, key), when)


class Transaction(Operations):
    """The transaction of a `odm.Store`: ``with db.transaction() as tx:``; committed when the block ends."""

    def __init__(self, store: BaseStore, run: Callable[[CoreGen[None]], None], do: Any) -> None:
        super().__init__(store)
        self._run, self._do = run, do

    def __enter__(self) -> Self:
        self._pending.begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._run(self._pending.commit(self._do))
        finally:
            self._pending.close()


class AsyncTransaction(Operations):
    """The transaction of an `odm.AsyncStore`: ``async with db.transaction() as tx:``; committed when the block ends."""

    def __init__(self, store: BaseStore, run: Callable[[CoreGen[None]], Awaitable[None]], do: Any) -> None:
        super().__init__(store)
        self._run, self._do = run, do

    async def __aenter__(self) -> Self:
        self._pending.begin()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                await self._run(self._pending.commit(self._do))
        finally:
            self._pending.close()
