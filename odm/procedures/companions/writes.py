"""Collects the writes of a companion. The methods are those of a transaction."""

from collections.abc import Callable
from typing import Any

from odm._published import public_in
from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import BadValue, ItemInvalid, OdmError, Unsupported
from odm.expressions.nodes import Action, Condition
from odm.immutable import Immutable
from odm.procedures.context import Context
from odm.procedures.writing.cell_versions import keeps
from odm.procedures.writing.intent import KEEP, UNREAD, Planned, WriteIntent
from odm.procedures.writing.update import item_update
from odm.procedures.writing.write import delete_write, insert_write, put_write
from odm.protocol import requests as req

Refusal = Callable[[Any], OdmError]


class SideWrite(Immutable):
    """One write of a companion's own item.

    Attributes:
        lose: if its condition does not hold, the other writes are applied without it.
        rank: of several writes of a companion to one item, only the one with the highest rank is sent.
        refused: makes the error of a refused write from the stored item.
    """

    intent: WriteIntent
    lose: bool = False
    rank: Any = None
    refused: Refusal | None = None

    @property
    def companions(self) -> tuple[()]:
        """The companions that must write with it: none."""
        return ()

    def reads(self, context: Context, *, in_transaction: bool) -> bool:
        """Whether the item must be read first: never."""
        return False

    def plan(self, context: Context, item: Any) -> Planned | OdmError:
        """The plan of this write alone; a check replaces a write that lost."""
        operation = self.operation(context) if item is UNREAD else self.instead(context, req.Refused(item))
        if isinstance(operation, OdmError):
            return operation
        return Planned(self, req.Check(self.intent.target.key) if operation is None else operation)

    def operation(self, context: Context) -> req.Operation:
        """The operation of the first attempt."""
        if keeps(self.intent):
            raise Unsupported(
                f"{self.intent.target}: an item that is written with another one cannot keep former values: remove "
                "CellVersions from its class"
            )
        if self.intent.target.entity.blobs:
            raise Unsupported(
                f"{self.intent.target}: an item that is written with another one cannot have large values: remove Blob "
                "from its class"
            )
        first = self.intent.first(context)
        if first is None:
            raise BadValue(
                f"{self.intent.target}: an update that is written with another item cannot read its own first, which "
                "its index keys ask for: set all fields of a template, or put it"
            )
        return first

    def instead(self, context: Context, reason: req.Refused | BadValue) -> "req.Operation | OdmError | None":
        """The next step after a refusal: another operation, None (leave the write out), or the error to raise."""
        if isinstance(reason, BadValue):
            return reason
        operation = self.intent.next(context, reason.item)
        if not isinstance(operation, OdmError) or isinstance(operation, ItemInvalid):
            return operation  # ``lose`` does not cover an item of another program, or one that cannot be read
        if self.lose:
            return None
        if self.refused is None:
            return operation
        item = context.living(reason.item)
        return self.refused(None if item is None else context.decode(item, self.intent.target.key))


@public_in("odm.extend")
class CompanionWrites:
    """Collects the writes of a companion for one write of its entity; its methods are those of a transaction.

    ``lose=True``: if the condition does not hold, the other writes are applied without this one. ``refused``: a
    function that takes the companion's stored item (None: absent) and returns the error for a refused write.
    """

    def __init__(self, context: Context) -> None:
        self._context = context
        self._side_writes: list[SideWrite] = []
        self._mark: Any = KEEP

    def put(
        self,
        entity: Entity,
        *,
        when: Condition | bool | None = None,
        lose: bool = False,
        rank: Any = None,
        refused: Refusal | None = None,
    ) -> None:
        """Write one of the companion's items.

        Args:
            entity: the item.
            when: a condition on the stored item.
            lose: it is not an error if the condition does not hold.
            rank: if a transaction has several such puts of one item, only the put with the highest rank is sent; if it
                loses, none is applied.
            refused: makes the error of a refused write.
        """
        self._side_writes.append(SideWrite(put_write(self._context, entity, when), lose, rank, refused))

    def insert(self, entity: Entity, *, refused: Refusal | None = None) -> None:
        """Write a new item of the companion.

        Args:
            entity: the item.
            refused: makes the error if there is an item under its key; default: `odm.ItemExists`.
        """
        self._side_writes.append(SideWrite(insert_write(self._context, entity), refused=refused))

    def update(
        self,
        which: Entity | Query[Any],
        /,
        *actions: Action,
        when: Condition | bool | None = None,
        upsert: bool = False,
        lose: bool = False,
        refused: Refusal | None = None,
    ) -> None:
        """Change one of the companion's items without a read; so it must set all fields of an index key, or none.

        Validators that see more than the values, such as those of the whole entity, do not run.

        Args:
            which: the key, or the item as it was read.
            actions: such as ``increment(...)``.
            when: a condition on the stored item.
            upsert: create the item if it does not exist.
            lose: it is not an error if the condition does not hold, or the item does not exist.
            refused: makes the error of a refused write.
        """
        # It has no read for the validation of the whole item; the values are validated.
        intent = item_update(self._context, which, actions, when, upsert=upsert, validate="values")
        self._side_writes.append(SideWrite(intent, lose, refused=refused))

    def delete(
        self,
        which: Entity | Query[Any],
        /,
        *,
        when: Condition | bool | None = None,
        lose: bool = False,
        refused: Refusal | None = None,
    ) -> None:
        """Remove one of the companion's items; no error if it does not exist.

        Args:
            which: the key, or the item as it was read.
            when: a condition on the stored item; an absent item has no attributes.
            lose: it is not an error if the condition does not hold.
            refused: makes the error of a refused write.
        """
        self._side_writes.append(SideWrite(delete_write(self._context, which, when), lose, refused=refused))

    def mark(self, mark: str | None) -> None:
        """Store a text with the entity's own item, for the next `Effect` of this companion; None removes it."""
        self._mark = mark

    def now(self) -> float:
        """Seconds since the epoch, from the store's clock."""
        return self._context.clock()

    @property
    def marked(self) -> Any:
        """The mark, or ``KEEP`` to leave the mark of the stored item unchanged."""
        return self._mark

    @property
    def sets_mark(self) -> bool:
        """Whether the mark of the stored item is set or removed."""
        return self._mark is not KEEP

    @property
    def side_writes(self) -> tuple[SideWrite, ...]:
        """All writes, in order."""
        return tuple(self._side_writes)
