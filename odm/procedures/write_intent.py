"""One operation of a transaction, which is computed again while other writers are faster."""

from collections.abc import Sequence
from typing import Any

from attrs import frozen

from odm.entities.entity import Entity
from odm.errors import BadValue, ItemInvalid, OdmError
from odm.expressions.nodes import Action, Condition, Item
from odm.procedures.context import Context
from odm.procedures.update import ItemUpdate, attempt, fault, met, start, understand
from odm.procedures.write import Write, delete_request, insert_write, lower_when, put_write
from odm.protocol import requests as req
from odm.schema.target import Target


@frozen
class WriteIntent:
    """One operation of a transaction, named as the user called it.

    Attributes:
        base: what the first attempt of an update builds on; None: the item must be read.
        stored: of a put or insert, the entity as it will be stored.
    """

    name: str
    work: Write | ItemUpdate
    base: Item | None = None
    stored: Any = None

    @property
    def target(self) -> Target:
        return self.work.target

    @property
    def reads(self) -> bool:
        """Whether it depends on the stored item, which must be read first."""
        return self.base is None and not isinstance(self.work, Write)

    def first(self, context: Context) -> req.Operation | None:
        """The operation as it is sent first; None if it depends on the stored item."""
        if isinstance(self.work, Write):
            return self.work.at(context.now())
        return None if self.base is None else attempt(context, self.work, self.base)

    def next(self, context: Context, item: Item | None) -> req.Operation | OdmError:
        """The operation that is right for the item as it was read or judged, or why there is none."""
        if isinstance(self.work, Write):
            return self.work.again(context, item) or self.work.refusal(context, item)
        if (stranger := self.stranger(context, item)) is not None:
            return stranger
        base = context.living(item)
        try:
            return fault(context, self.work, base) or attempt(context, self.work, base)
        except (BadValue, ItemInvalid) as error:  # what comes of it cannot be stored; what is there cannot be read
            return error

    def stranger(self, context: Context, item: Item | None) -> ItemInvalid | None:
        """The error for an item that is not one of the entity."""
        return self.work.stranger(context, item) if isinstance(self.work, Write) else met(context, self.work, item)

    def after(self, context: Context, refused: req.Refused | BadValue) -> req.Operation | OdmError:
        """As `next`, after a refusal."""
        return refused if isinstance(refused, BadValue) else self.next(context, refused.item)


def put_intent(context: Context, entity: Entity, when: Condition | bool | None) -> WriteIntent:
    """A put."""
    stored, write = put_write(context, entity, when)
    return WriteIntent("put", write, stored=stored)


def insert_intent(context: Context, entity: Entity) -> WriteIntent:
    """An insert."""
    stored, write = insert_write(context, entity)
    return WriteIntent("insert", write, stored=stored)


def update_intent(
    context: Context, which: object, actions: Sequence[Action], when: Condition | bool | None, *, upsert: bool
) -> WriteIntent:
    """An update of an entity as it is now, which may change until it is sent, or of a key."""
    which = which.model_copy() if isinstance(which, Entity) else which
    change = understand(context, which, actions, when, "none", upsert=upsert)
    return WriteIntent("update", change, start(context, change))


def delete_intent(context: Context, which: object, when: Condition | bool | None) -> WriteIntent:
    """A delete. Unlike that of a store, ``when`` and a Revision are judged on an absent item too."""
    target = context.schema.target(which)
    return WriteIntent(
        "delete", Write(target, delete_request(context, target), lower_when(target, when), target.revision)
    )


def check_intent(context: Context, which: object, when: Condition | bool | None) -> WriteIntent:
    """A check: of the condition, or without one that the item is there."""
    target = context.schema.target(which)
    operation = req.Check(target.key, pattern=target.entity.primary.full_name, tag=context.guard(target.entity))
    present = True if when is None else None
    return WriteIntent("check", Write(target, operation, lower_when(target, when), target.revision, present))
