"""Transactions: operations on several items, checked and collected one by one, then all applied or none."""

from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias, TypeVar, overload

from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import BadValue, Unsupported, brief
from odm.expressions.nodes import Action, Condition
from odm.hints import TRANSACTION, Hinted
from odm.procedures.context import Context
from odm.procedures.writing.intent import WriteIntent
from odm.procedures.writing.save import save_update
from odm.procedures.writing.update import ItemUpdate, check_known, entity_after, item_update
from odm.procedures.writing.write import check_write, delete_write, insert_write, put_write
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.limits import Local, check_transaction, keys_at_most, size_at_most, stored_size
from odm.schema.entity import Key

E = TypeVar("E", bound=Entity)


Commit: TypeAlias = Callable[[Sequence[WriteIntent]], CoreGen[None]]
"""Applies all operations, or none."""


class Operations(Hinted):
    """The operations of a transaction: at most one an item, 100 operations, and 4 MB of items.

    Each method checks its arguments at once. Errors of the backend are raised at the end of the block, as
    `odm.TransactionFailed`: its ``reasons`` hold, for each operation in order, the error that the same call of the
    store would raise, or None. All conditions are evaluated on the items before the transaction.
    """

    _odm_hints = TRANSACTION

    def __init__(self, current: Callable[[], Context], commit: Commit) -> None:
        self._current, self._commit_all = current, commit
        self._intents: dict[Key, WriteIntent] = {}
        self._puts: list[tuple[req.Put, Local]] = []  # with the local indexes of its entity
        self._size = 0
        self._open = False

    @property
    def intents(self) -> tuple[WriteIntent, ...]:
        """The operations so far."""
        return tuple(self._intents.values())

    @property
    def _context(self) -> Context:
        """The current context of the store: entities can join the table inside the block."""
        return self._current()

    def put(self, entity: E, *, when: Condition | bool | None = None) -> E:
        """Write an entity; replaces any item under its key; as `odm.Store.put`.

        Returns:
            The entity as it will be stored: the same object, or a copy if it has a Revision, an automatic field, or a
            Decimal that a read returns with more or fewer decimal places.

        Raises:
            BadValue: a value cannot be stored, the item is in this transaction already, there are 100 operations, or
                the block has ended.
        """
        context = self._context
        stored: E = self._add(context, put_write(context, entity, when))
        return stored

    def insert(self, entity: E) -> E:
        """Write a new entity; as `odm.Store.insert`.

        Returns:
            The entity as it will be stored.

        Raises:
            BadValue: as for `put`.
        """
        context = self._context
        stored: E = self._add(context, insert_write(context, entity))
        return stored

    @overload
    def update(
        self,
        which: Entity | Query[Any],
        /,
        *actions: Action,
        when: Condition | bool | None = None,
        returning: Literal["none"] = "none",
        upsert: bool = False,
        validate: Literal["item", "values"] = "item",
    ) -> None: ...
    @overload
    def update(
        self, which: E, /, *actions: Action, when: Condition | bool | None = None, returning: Literal["new"]
    ) -> E: ...
    def update(
        self,
        which: Any,
        /,
        *actions: Action,
        when: Condition | bool | None = None,
        returning: Literal["none", "new"] = "none",
        upsert: bool = False,
        validate: Literal["item", "values"] = "item",
        **fields: Any,
    ) -> Any:
        """Change attributes of an existing item, and its index entries with them; as `odm.Store.update`.

        Args:
            which: the entity or its key.
            actions: as for `odm.Store.update`.
            when: a condition on the stored item.
            returning: "new": return the entity as it will be stored, with its new Revision, to write it again later. It
                is computed from the entity, so pass it as you read it; it must have a Revision.
            upsert: create the item if it does not exist; the actions must set every required field.
            validate: "values": validate only the values that are written, where the model would have the whole item
                validated and so read. Then odm does not promise that the item can be read afterwards.
            fields: not allowed; write actions.

        Raises:
            BadValue: an action does not fit the model, what will be stored is not known, or as for `put`.
        """
        context = self._context
        if fields:
            raise context.schema.no_actions(which, fields)
        as_now = which.model_copy() if isinstance(which, Entity) else which  # user code may change it before the commit
        change = item_update(context, as_now, actions, when, upsert=upsert, validate=validate)
        outcome = _after(change, returning)
        self._add(context, change)
        return outcome

    def save(self, entity: Entity) -> None:
        """Write the fields of an entity that have changed since it was read; as `odm.Store.save`.

        It returns nothing, as what will be stored depends on other writers: read the item again to save it again. If no
        field differs, the transaction gets no operation; add `check` if it depends on the item.

        Args:
            entity: as for `odm.Store.save`.

        Raises:
            BadValue: the entity was not read, a field of its key has changed, or as for `put`.
        """
        context = self._context
        change = save_update(context, entity)
        if change is not None:
            self._add(context, change)

    @overload
    def delete(self, which: type[Entity], /, **key: Any) -> None: ...
    @overload
    def delete(self, which: Entity | Query[Any], /, *, when: Condition | bool | None = None) -> None: ...
    def delete(self, which: Any, /, *unnamed: Any, when: Condition | bool | None = None, **key: Any) -> None:
        """Remove an item; no error if it does not exist.

        Unlike in `odm.Store.delete`, which returns False, conditions are evaluated on an absent item too, because the
        rest of the transaction may depend on them: ``when`` sees an item without attributes, and an entity with a
        Revision must exist as you read it.

        Raises:
            BadValue: as for `put`.
        """
        context = self._context
        if unnamed:
            raise context.schema.no_names("delete", which, unnamed)
        self._add(context, delete_write(context, context.schema.named(which, key), when))

    @overload
    def check(self, which: type[Entity], /, **key: Any) -> None: ...
    @overload
    def check(self, which: Entity | Query[Any], /, *, when: Condition | bool | None = None) -> None: ...
    def check(self, which: Any, /, *unnamed: Any, when: Condition | bool | None = None, **key: Any) -> None:
        """Make the transaction depend on an item that it does not write.

        Args:
            which: an entity class with its key fields, an entity, or a key. An entity with a Revision must be stored as
                you read it.
            unnamed: not allowed; give the key fields by name.
            when: a condition on the stored item; an absent item has no attributes. Without it, the item must exist.
            key: the key fields.

        Raises:
            BadValue: as for `put`.
        """
        context = self._context
        if unnamed:
            raise context.schema.no_names("check", which, unnamed)
        self._add(context, check_write(context, context.schema.named(which, key), when))

    def _begin(self) -> None:
        """Begin the block.

        Raises:
            BadValue: the block has begun already; the end of an inner block would commit the operations so far.
        """
        if self._open:
            raise BadValue("the block of this transaction has begun already: write with db.transaction() for another")
        self._open = True

    def _add(self, context: Context, intent: WriteIntent) -> Any:
        """Add an operation; returns the entity as it will be stored, for a put or insert."""
        if not self._open:
            raise BadValue(
                "a transaction is committed when its block ends, and this one is not in a block: write "
                "with db.transaction() as tx: ... (async with, of an AsyncStore)"
            )
        earlier = self._intents.get(intent.target.key)
        if earlier is not None:
            raise BadValue(
                f"{intent.target} is in this transaction already, by {earlier.name}(), and now by {intent.name}(): a "
                "transaction has one operation an item, so say both in one"
            )
        if self._intents:
            self._check_supported(context, intent)
        operation = intent.first(context)
        puts, size, most = self._puts, self._size, context.limits.transaction_bytes
        if isinstance(operation, req.Put):
            puts = [*puts, (operation, intent.target.entity.local)]
            size += size_at_most(operation.item) + keys_at_most(operation.key, operation.entries)
        if most is not None and size > most:  # reads every draft, so only near the limit
            size = sum(stored_size(put.item, put.key, put.entries, local) for put, local in puts)
        check_transaction(len(self._intents) + 1, size, context.limits)
        self._intents[intent.target.key] = intent
        self._puts, self._size = puts, size
        return intent.stored

    def _check_supported(self, context: Context, intent: WriteIntent) -> None:
        """Raise Unsupported if the backend cannot write the item in one transaction with the others."""
        reason = context.transaction_unsupported_reason((*self._intents, intent.target.key))
        if reason is not None:
            others = ", ".join(str(other.target) for other in self._intents.values())
            raise Unsupported(f"{intent.target} cannot be in a transaction with {others}: {reason}")

    def _close(self) -> None:
        """End the block; discards operations that were not committed."""
        self._open = False
        self._intents.clear()
        self._puts, self._size = [], 0

    def _commit(self) -> CoreGen[None]:
        """Apply all operations, or none.

        Raises:
            TransactionFailed: nothing was written; its ``reasons`` say why.
            ItemTooLarge: the items have more than 4 MB in total.
        """
        if self._intents:
            yield from self._commit_all(tuple(self._intents.values()))


def _after(change: ItemUpdate, returning: str) -> Any:
    """What an update in a transaction returns."""
    if returning == "none":
        return None
    if returning == "old":
        raise BadValue("returning='old': a transaction returns no item; or get() the item after the transaction")
    if returning != "new":
        raise BadValue(f"returning={brief(returning)}: say 'none' or 'new'")
    check_known(change)
    return entity_after(change)


class TransactionSteps(Operations):
    """The transaction of a procedure, committed by `commit`."""

    def __init__(self, current: Callable[[], Context], commit: Commit) -> None:
        super().__init__(current, commit)
        self._begin()

    def commit(self) -> CoreGen[None]:
        """Apply all operations, or none.

        Raises:
            TransactionFailed: nothing was written; its ``reasons`` say why.
        """
        try:
            yield from self._commit()
        finally:
            self._close()
