"""Writing whole items: put, insert, delete, and deleting what a query finds.

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
from odm.procedures.read import Reading, keys_chunk
from odm.procedures.retention import trim_after
from odm.procedures.unprocessed import send_batch
from odm.procedures.upgrades import unchanged, up_to_date
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.limits import check_item
from odm.protocol.predicates import ABSENT, Now, every, has_tag, judged, revision_is
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
    """A put, insert, delete or check, understood: right whatever is stored, so that only its condition is judged.

    Attributes:
        operation: without a condition.
        wanted: the user's own condition, lowered.
        revision: the one that the item must have, where it is checked.
        present: whether the item must be there, or must not; None where either is right.
    """

    target: Target
    operation: req.Operation
    wanted: Condition | None = None
    revision: int | None = None
    present: bool | None = None

    @property
    def unconditional(self) -> bool:
        """Whether it is applied whatever is stored."""
        return self.wanted is None and self.revision is None and self.present is None

    def at(self, now: Now) -> req.Operation:
        """The operation with all of its conditions, at a given time."""
        entity = self.target.entity
        presence = None if self.present is None else has_tag(entity.tag) if self.present else ABSENT
        locked = None if self.revision is None else revision_is(entity, self.revision)
        condition = judged(entity, every(presence, locked, self.wanted), now)
        return self.operation if condition is None else evolve(self.operation, condition=condition)

    def again(self, context: Context, item: Item | None) -> req.Operation | None:
        """The operation for the item as it was judged, if only the form of an older item prevented the first one.

        Such an item has its revision under a name, or with a value, that its upgrades know. A delete or check that
        holds where nothing is becomes, for an item that is skipped, a check that it is still not one of the entity.
        """
        entity, there = self.target.entity, context.living(item)
        if there is None and item is not None and isinstance(self.operation, req.Delete | req.Check):
            absent = not self.present and self.revision is None
            absent = absent and (self.wanted is None or holds(self.wanted, None))
            if absent and context.stranger(self.target, item) is not None:
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

    def refusal(self, context: Context, item: Item | None) -> OdmError:
        """Why it was refused, by the item as it was judged."""
        if (stranger := self.stranger(context, item)) is not None:
            return stranger
        item = context.living(item)
        if self.present and context.now().living(item) is None:
            return ItemNotFound(f"{self.target} is not there")
        return refusal(context, self.target, item, self.wanted, fresh=self.present is False)


def put_write(context: Context, instance: E, when: Condition | bool | None) -> tuple[E, Write]:
    """The put of an entity with what it depends on, and the entity as it will be stored.

    At revision 0 the entity was never stored: the put is an insert.
    """
    target, stored, request = put_request(context, instance)
    wanted = lower_when(target, when)
    if target.revision == 0:
        return stored, Write(target, request, wanted, present=False)
    return stored, Write(target, request, wanted, target.revision)


def insert_write(context: Context, instance: E) -> tuple[E, Write]:
    """The put of an entity whose key must be free, and the entity as it will be stored."""
    target, stored, request = put_request(context, instance)
    return stored, Write(target, request, present=False)


def put(context: Context, instance: E, when: Condition | bool | None) -> CoreGen[E]:
    """Write the entity over whatever is under its key; returns it as stored."""
    return (yield from _written(context, *put_write(context, instance, when)))


def insert(context: Context, instance: E) -> CoreGen[E]:
    """Write the entity if its key is free; returns it as stored."""
    return (yield from _written(context, *insert_write(context, instance)))


def _written(context: Context, stored: E, write: Write) -> CoreGen[E]:
    operation = write.operation if write.unconditional else write.at(context.now())
    assert not isinstance(operation, req.Check)  # of transactions only
    answer = yield operation
    if isinstance(answer, req.Refused):
        answer = yield from _again(context, write, answer)
    if isinstance(answer, req.Refused):
        raise write.refusal(context, answer.item)
    if write.target.entity.keep is not None:
        yield from trim_after(context, (write.operation,))
    return stored


def _again(context: Context, write: Write, refused: req.Refused) -> CoreGen[req.Written | req.Refused]:
    """The answer to what takes the place of a refused operation, if only the form of an older item was in the way."""
    operation = write.again(context, refused.item)
    if operation is None:
        return refused
    assert not isinstance(operation, req.Check)  # of transactions only
    answer: req.Written | req.Refused = yield operation
    return answer


def delete(context: Context, which: object, when: Condition | bool | None) -> CoreGen[bool]:
    """Remove an item; returns whether it was there."""
    target = context.schema.target(which)
    wanted = lower_when(target, when)
    revision = target.revision
    guard = None if revision is None else revision_is(target.entity, revision)
    now = context.now()
    condition = every(guard, wanted, now.alive if target.entity.ttl is not None else None)
    request = delete_request(context, target)
    write = Write(target, request, wanted, revision)
    answer = yield evolve(request, condition=condition)
    if isinstance(answer, req.Refused) and context.living(answer.item) is not None:
        answer = yield from _again(context, write, answer)
    if isinstance(answer, req.Written):
        return answer.existed
    if context.living(answer.item) is not None:
        raise write.refusal(context, answer.item)
    return False


def delete_request(context: Context, target: Target) -> req.Delete:
    """The delete of an item, without a condition."""
    entity = target.entity
    return req.Delete(target.key, pattern=entity.primary.full_name, tag=context.guard(entity))


def delete_all(context: Context, reading: Reading | None) -> CoreGen[int]:
    """Remove everything that a query finds, expired items too, page by page; returns how many items went.

    What is gone is gone: after a failure, the same call goes on with the rest.
    """
    total = 0
    while reading is not None:
        pattern = reading.plan.name
        found, reading = yield from keys_chunk(context, reading)
        if found:
            yield from send_batch(req.BatchWrite(tuple(req.Delete(key, pattern=pattern) for key in found)), {})
        total += len(found)
    return total


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
