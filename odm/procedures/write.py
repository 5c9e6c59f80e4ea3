"""The intents of writing whole items, put, insert and delete, and of a check.

A put carries every index entry that the item has from now on, so no derived key can be stale.
"""

from typing import Any, NamedTuple, TypeVar

from attrs import evolve

from odm.entities.entity import Entity
from odm.errors import BadValue, ConditionFailed, Conflict, ItemExists, ItemInvalid, ItemNotFound, OdmError
from odm.expressions.build import checked
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Condition, Item, Not
from odm.procedures.context import Context
from odm.procedures.upgrades import unchanged, up_to_date
from odm.protocol import requests as req
from odm.protocol.limits import check_item
from odm.protocol.predicates import ABSENT, every, has_tag, judged, revision_is
from odm.schema.entity import Key
from odm.schema.target import Target

E = TypeVar("E", bound=Entity)


def put_request(context: Context, instance: E, *, batched: bool = False) -> tuple[Target, E, req.Put]:
    """The put of an entity without a condition, and the entity as it will be stored (its revision counted up)."""
    known = context.schema.by_class.get(type(instance))  # sooner than to ask whether it is an entity
    if known is None and not isinstance(instance, Entity):
        raise BadValue(f"{instance!r} is not an entity: give an instance of a class declared with table=...")
    entity, values = known or context.schema.entity(type(instance)), vars(instance)
    target = Target(entity, entity.key(values), values, instance)
    name = entity.revision
    stored = instance if name is None else instance.model_copy(update={name: values[name] + 1})
    item = context.encode(entity.codec, stored)
    entity.codec.check(item)
    entries = entity.entries(vars(stored), item, context.random)
    check_item(item, target.key, entries, entity, context.limits, entity.local)
    guard = None if batched else context.guard(entity)
    return target, stored, req.Put(target.key, item, entries, pattern=entity.primary.full_name, tag=guard)


class Write(NamedTuple):
    """The intent of a put, insert, delete or check: right whatever is stored, so that only its condition is judged.

    Attributes:
        name: as the user called it.
        operation: without a condition.
        wanted: the user's own condition, lowered.
        revision: the one that the item must have, where it is checked.
        present: whether the item must be there, or must not; None where either is right.
        absent_ok: an absent item is right whatever the conditions are: the delete of a store returns False for it.
        stored: of a put or insert, the entity as it will be stored.
    """

    name: str
    target: Target
    operation: req.Operation
    wanted: Condition | None = None
    revision: int | None = None
    present: bool | None = None
    absent_ok: bool = False
    stored: Any = None

    @property
    def unconditional(self) -> bool:
        """Whether it is applied whatever is stored."""
        return self.wanted is None and self.revision is None and self.present is None and not self.absent_ok

    @property
    def reads(self) -> bool:
        """Whether it depends on the stored item, which must be read first: never."""
        return False

    def first(self, context: Context) -> req.Operation:
        """The operation with all of its conditions, as it is sent first."""
        if self.unconditional:
            return self.operation
        entity, now = self.target.entity, context.now()
        locked = None if self.revision is None else revision_is(entity, self.revision)
        if self.absent_ok:
            condition = every(locked, self.wanted, now.alive if entity.ttl is not None else None)
        else:
            presence = None if self.present is None else has_tag(entity.tag) if self.present else ABSENT
            condition = judged(entity, every(presence, locked, self.wanted), now)
        return self.operation if condition is None else evolve(self.operation, condition=condition)

    def next(self, context: Context, item: Item | None) -> req.Operation | OdmError:
        """The operation that is right for the item as it was judged, or why there is none."""
        return self._again(context, item) or self._refusal(context, item)

    def _again(self, context: Context, item: Item | None) -> req.Operation | None:
        """The operation for the item as it was judged, if only the form of an older item prevented the first one.

        Such an item has its revision under a name, or with a value, that its upgrades know. Where nothing has to be
        deleted, it is a check that there is still no item of the entity.
        """
        entity, there = self.target.entity, context.living(item)
        if there is None and isinstance(self.operation, req.Delete | req.Check):
            absent = not self.present and self.revision is None
            absent = absent and (self.wanted is None or holds(self.wanted, None))
            if self.absent_ok or (absent and context.stranger(self.target, item) is not None):
                return req.Check(self.target.key, Not(has_tag(entity.tag)), pattern=self.operation.pattern)
        if there is None or self.revision is None or entity.codec.upgrades.current(there):
            return None
        if self.stranger(context, item) is not None:
            return None
        if self.wanted is not None and not holds(self.wanted, there):
            return None
        try:
            upgraded = up_to_date(context, entity, there, self.target.key)
        except ItemInvalid:
            return None
        if not holds(revision_is(entity, self.revision), upgraded):
            return None
        return evolve(self.operation, condition=unchanged(entity, there))

    def stranger(self, context: Context, item: Item | None) -> ItemInvalid | None:
        """The error for an item that is not one of the entity; one that is skipped only prevents a put."""
        there = isinstance(self.operation, req.Put) or context.living(item) is not None
        return context.stranger(self.target, item) if there else None

    def _refusal(self, context: Context, item: Item | None) -> OdmError:
        """Why it was refused, by the item as it was judged."""
        if (stranger := self.stranger(context, item)) is not None:
            return stranger
        item = context.living(item)
        if self.present and context.now().living(item) is None:
            return ItemNotFound(f"{self.target} is not there")
        return refusal(context, self.target, item, self.wanted, fresh=self.present is False)


def put_write(context: Context, instance: Entity, when: Condition | bool | None) -> Write:
    """The put of an entity. At revision 0 it was never stored: the put is an insert."""
    target, stored, request = put_request(context, instance)
    wanted, revision = lower_when(target, when), target.revision
    if revision == 0:
        return Write("put", target, request, wanted, present=False, stored=stored)
    return Write("put", target, request, wanted, revision, stored=stored)


def insert_write(context: Context, instance: Entity) -> Write:
    """The put of an entity whose key must be free."""
    target, stored, request = put_request(context, instance)
    return Write("insert", target, request, present=False, stored=stored)


def delete_write(context: Context, which: object, when: Condition | bool | None, *, absent_ok: bool = False) -> Write:
    """The delete of an item."""
    target = context.schema.target(which)
    request = delete_request(context, target)
    return Write("delete", target, request, lower_when(target, when), target.revision, absent_ok=absent_ok)


def check_write(context: Context, which: object, when: Condition | bool | None) -> Write:
    """A check: of the condition, or without one that the item is there."""
    target = context.schema.target(which)
    operation = req.Check(target.key, pattern=target.entity.primary.full_name, tag=context.guard(target.entity))
    present = True if when is None else None
    return Write("check", target, operation, lower_when(target, when), target.revision, present)


def delete_request(context: Context, target: Target) -> req.Delete:
    """The delete of an item, without a condition."""
    entity = target.entity
    return req.Delete(target.key, pattern=entity.primary.full_name, tag=context.guard(entity))


def refusal(
    context: Context, target: Target, item: Item | None, wanted: Condition | None, *, fresh: bool = False
) -> OdmError:
    """The error that says why a condition did not hold.

    ``item`` is the item as it was judged, ``wanted`` the user's own condition, lowered; ``fresh``: the write was to
    create the item.
    """
    there = context.now().living(item)
    was = None if there is None else as_it_was(context, there, target.key)
    if fresh and there is not None:
        return ItemExists(f"{target} exists already: get it, and update it or put what you got", was)
    if wanted is not None and not holds(wanted, there):
        state = "there is no such item" if there is None else "the error's item is what is stored"
        return ConditionFailed(f"{target}: the condition {wanted} does not hold; {state}", was)
    return Conflict(
        f"{target} was changed or removed since you read it, by another writer, or by a put() whose result you did not "
        "use: read it again and retry",
        was,
    )


def as_it_was(context: Context, item: Item, key: Key) -> Any:
    """The entity that an error carries; None if it cannot be read, which must not hide the error."""
    try:
        return context.decode(item, key)
    except ItemInvalid:
        return None


def lower_when(target: Target, when: Condition | bool | None) -> Condition | None:
    """The user's condition of a write, over stored names."""
    return None if when is None else target.entity.codec.lower(checked(when, "when="))
