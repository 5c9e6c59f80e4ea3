"""What a companion writes with an item, collected: the methods are those of a transaction."""

from collections.abc import Callable
from typing import Any

from attrs import frozen

from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import BadValue, ItemInvalid, OdmError
from odm.expressions.nodes import Action, Condition
from odm.procedures.context import Context
from odm.procedures.update import item_update
from odm.procedures.write import delete_write, insert_write, put_write
from odm.procedures.write_intent import KEEP, UNREAD, Planned, WriteIntent
from odm.protocol import requests as req

Refusal = Callable[[Any], OdmError]


@frozen
class SideWrite:
    """One write of a companion's own item.

    Attributes:
        lose: where its condition does not hold, the rest is written without it.
        rank: of several of one companion on one item, the one of the highest rank is done.
        refused: makes the error of a refusal, of the item as it was judged.
    """

    intent: WriteIntent
    lose: bool = False
    rank: Any = None
    refused: Refusal | None = None

    @property
    def companions(self) -> tuple[()]:
        """Those that its own write concerns: none."""
        return ()

    def reads(self, context: Context, *, in_transaction: bool) -> bool:
        """Whether the item must be read first: never."""
        return False

    def plan(self, context: Context, item: Any) -> Planned | OdmError:
        """The plan of the write by itself; a check takes the place of one that lost."""
        found = self.operation(context) if item is UNREAD else self.instead(context, req.Refused(item))
        if isinstance(found, OdmError):
            return found
        return Planned(self, req.Check(self.intent.target.key) if found is None else found)

    def operation(self, context: Context) -> req.Operation:
        """It as it is sent first."""
        first = self.intent.first(context)
        if first is None:
            raise BadValue(
                f"{self.intent.target}: an update that is written with another item cannot read its own first, which "
                "its index keys ask for: set all fields of a template, or put it"
            )
        return first

    def instead(self, context: Context, reason: req.Refused | BadValue) -> "req.Operation | OdmError | None":
        """What is done after a refusal: another operation, nothing (None), or why it fails."""
        if isinstance(reason, BadValue):
            return reason
        found = self.intent.next(context, reason.item)
        if not isinstance(found, OdmError) or isinstance(found, ItemInvalid):
            return found  # another program's item, or one that cannot be read, is never just lost to
        if self.lose:
            return None
        if self.refused is None:
            return found
        item = context.living(reason.item)
        return self.refused(None if item is None else context.decode(item, self.intent.target.key))


class CompanionWrites:
    """Collects what a companion writes with an item; its methods are those of a transaction.

    ``lose=True``: where the condition does not hold, the rest is written without it. ``refused``: a function that makes
    the error for a companion's stored item that refuses the write, or None.
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
            when: a condition on the one that is stored.
            lose: it is not a failure if that does not hold.
            rank: where one transaction has several such puts on one item, that of the highest rank is done; where it
                loses, none is.
            refused: makes the error of a refusal.
        """
        self._side_writes.append(SideWrite(put_write(self._context, entity, when), lose, rank, refused))

    def insert(self, entity: Entity, *, refused: Refusal | None = None) -> None:
        """Write one of the companion's items, whose key must be free.

        Args:
            entity: the item.
            refused: makes the error where it is not; default: `odm.ItemExists`.
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
        """Change one of the companion's items, without reading it: all fields of an index key are set, or none.

        Args:
            which: its key, or the item as it was read.
            actions: such as ``increment(...)``.
            when: a condition on the stored item.
            upsert: make it where it is not there.
            lose: it is not a failure if the condition does not hold, or the item does not exist.
            refused: makes the error of a refusal.
        """
        intent = item_update(self._context, which, actions, when, upsert=upsert)
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
        """Remove one of the companion's items; one that is not there is no failure.

        Args:
            which: its key, or the item as it was read.
            when: a condition on it, also where it is not there.
            lose: it is not a failure if that does not hold.
            refused: makes the error of a refusal.
        """
        self._side_writes.append(SideWrite(delete_write(self._context, which, when), lose, refused=refused))

    def mark(self, mark: str | None) -> None:
        """Store a text with the entity's own item, for the next `Effect` of this companion; None takes it away."""
        self._mark = mark

    def now(self) -> float:
        """Seconds since the epoch, by the store's clock."""
        return self._context.clock()

    @property
    def marked(self) -> Any:
        """The mark, or what stands for the one that the item has."""
        return self._mark

    @property
    def side_writes(self) -> tuple[SideWrite, ...]:
        """All writes, in order."""
        return tuple(self._side_writes)
