"""Transactions: operations on several items, collected and checked one by one, then done all together or not at all."""

from collections.abc import Sequence
from typing import Any, TypeVar

from odm.entities.entity import Entity
from odm.errors import BadValue, Unsupported
from odm.expressions.nodes import Action, Condition, Item
from odm.procedures.companion_commit import write_transaction
from odm.procedures.context import Context
from odm.procedures.write_intent import (
    WriteIntent,
    check_intent,
    delete_intent,
    insert_intent,
    put_intent,
    update_intent,
)
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.limits import check_transaction, item_size, size_at_most
from odm.schema.model import Key

E = TypeVar("E", bound=Entity)


class Pending:
    """The operations of a transaction that is not committed yet, by key.

    Attributes:
        open: the transaction is inside its ``with`` block, at whose end it will be committed.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._intents: dict[Key, WriteIntent] = {}
        self._items: list[Item] = []
        self._size = 0
        self.open = False

    def begin(self) -> None:
        """Begin the block.

        Raises:
            BadValue: it has begun, and its end would commit what the outer one has so far.
        """
        if self.open:
            raise BadValue("the block of this transaction has begun already: write with db.transaction() for another")
        self.open = True

    def put(self, entity: E, when: Condition | bool | None) -> E:
        """Add a put; returns the entity as it will be stored."""
        intent = put_intent(self._context, entity, when)
        self._add(intent)
        stored: E = intent.stored
        return stored

    def insert(self, entity: E) -> E:
        """Add an insert; returns the entity as it will be stored."""
        intent = insert_intent(self._context, entity)
        self._add(intent)
        stored: E = intent.stored
        return stored

    def update(self, which: object, actions: Sequence[Action], when: Condition | bool | None, *, upsert: bool) -> None:
        """Add an update."""
        self._add(update_intent(self._context, which, actions, when, upsert=upsert))

    def delete(self, which: object, when: Condition | bool | None) -> None:
        """Add a delete."""
        self._add(delete_intent(self._context, which, when))

    def check(self, which: object, when: Condition | bool | None) -> None:
        """Add a check."""
        self._add(check_intent(self._context, which, when))

    def _add(self, intent: WriteIntent) -> None:
        if not self.open:
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
        self._check_supported(intent)
        operation = intent.first(self._context)
        items, size, most = self._items, self._size, self._context.limits.transaction_bytes
        if isinstance(operation, req.Put):
            items, size = [*items, operation.item], size + size_at_most(operation.item)
        if most is not None and size > most:
            size = sum(map(item_size, items))  # drafts are only read where the limit is near
        check_transaction(len(self._intents) + 1, size, self._context.limits)
        self._intents[intent.target.key] = intent
        self._items, self._size = items, size

    def _check_supported(self, intent: WriteIntent) -> None:
        """Refuse an operation on an item that the backend can not write together with the others."""
        if not self._intents:
            return
        reason = self._context.transaction_unsupported_reason((*self._intents, intent.target.key))
        if reason is not None:
            others = ", ".join(str(one.target) for one in self._intents.values())
            raise Unsupported(f"{intent.target} can not be in a transaction with {others}: {reason}")

    def close(self) -> None:
        """End the block: what has not been committed is dropped."""
        self.open = False
        self._intents.clear()
        self._items, self._size = [], 0

    def commit(self, do: Any) -> CoreGen[None]:
        """Do all operations, or none.

        Args:
            do: the calls of the store, for companions.

        Raises:
            TransactionFailed: none was done; its reasons say why.
            ItemTooLarge: the items have more than 4 MB together.
        """
        if self._intents:
            yield from write_transaction(self._context, tuple(self._intents.values()), do=do)
