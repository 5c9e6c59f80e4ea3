"""Writing whole items: put, insert, delete, and deleting what a query finds.

A put carries every index entry that the item has from now on, so no derived key can be stale.
"""

from typing import Any, NoReturn, TypeVar

from attrs import frozen

from odm.entities.entity import Entity
from odm.errors import BadValue, ConditionFailed, Conflict, ItemExists, ItemInvalid
from odm.expressions.build import checked
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Condition, Item, shown
from odm.operations import ir
from odm.operations.backend import Gen
from odm.operations.context import Context
from odm.operations.guards import ABSENT, every, judged, revision_is
from odm.operations.limits import check_item
from odm.operations.reads import Reading, keys_chunk
from odm.operations.trim import trim_after
from odm.schema.model import EntitySchema, Key

E = TypeVar("E", bound=Entity)


@frozen
class Target:
    """The item that a write is about.

    Attributes:
        instance: the entity passed in, or None where a key was.
        values: the values of its key fields at least.
    """

    entity: EntitySchema
    key: Key
    instance: Entity | None
    values: Any

    def __str__(self) -> str:
        primary = self.entity.primary
        values = ", ".join(f"{name}={shown(self.values[name])}" for name in primary.fields)
        return f"{self.entity.name}.{primary.name}({values})"

    @property
    def revision(self) -> int | None:
        """The revision that the caller has read, or None where it is not checked."""
        name = self.entity.revision
        return None if name is None or self.instance is None else vars(self.instance)[name]


def target_of(context: Context, target: object) -> Target:
    """The target of a write: an entity, or a call of the primary key.

    Raises:
        BadValue: it is neither.
    """
    if isinstance(target, Entity):
        entity = context.schema.entity(type(target))
        return Target(entity, entity.key(vars(target)), target, vars(target))
    entity, key, values = context.key_of(target)
    return Target(entity, key, None, values)


def put_request(context: Context, instance: E) -> tuple[Target, E, ir.Put]:
    """The unconditional put of an entity, and the entity as it will be stored (its revision counted up)."""
    if not isinstance(instance, Entity):
        raise BadValue(f"{instance!r} is not an entity: give an instance of a class declared with table=...")
    target = target_of(context, instance)
    name = target.entity.revision
    stored = instance if name is None else instance.model_copy(update={name: vars(instance)[name] + 1})
    item = target.entity.codec.encode(stored)
    target.entity.codec.check(item)
    entries = target.entity.entries(vars(stored), item)
    check_item(item, target.key, entries, target.entity, context.limits)
    return target, stored, ir.Put(target.key, item, entries)


def put(context: Context, instance: E, when: Condition | bool | None) -> Gen[E]:
    """Write the entity over whatever is under its key; returns it as stored."""
    target, stored, request = put_request(context, instance)
    wanted = _lowered(target, when)
    revision = target.revision
    fresh = revision == 0
    guard = ABSENT if fresh else None if revision is None else revision_is(target.entity, revision)
    condition = judged(target.entity, every(guard, wanted), context.now())
    answer = yield ir.Put(request.key, request.item, request.entries, condition)
    if isinstance(answer, ir.Refused):
        refuse(context, target, answer.item, wanted, fresh=fresh)
    if target.entity.keep is not None:
        yield from trim_after(context, (request,))
    return stored


def insert(context: Context, instance: E) -> Gen[E]:
    """Write the entity if its key is free; returns it as stored."""
    target, stored, request = put_request(context, instance)
    condition = judged(target.entity, ABSENT, context.now())
    answer = yield ir.Put(request.key, request.item, request.entries, condition)
    if isinstance(answer, ir.Refused):
        refuse(context, target, answer.item, None, fresh=True)
    if target.entity.keep is not None:
        yield from trim_after(context, (request,))
    return stored


def delete(context: Context, which: object, when: Condition | bool | None) -> Gen[bool]:
    """Remove an item; returns whether it was there."""
    target = target_of(context, which)
    wanted = _lowered(target, when)
    revision = target.revision
    guard = None if revision is None else revision_is(target.entity, revision)
    now = context.now()
    condition = every(guard, wanted, now.alive if target.entity.ttl is not None else None)
    answer = yield ir.Delete(target.key, condition)
    if isinstance(answer, ir.Written):
        return answer.existed
    if now.living(answer.item) is not None:
        refuse(context, target, answer.item, wanted)
    return False


def delete_request(context: Context, which: object) -> ir.Delete:
    """The unconditional delete of an item."""
    return ir.Delete(target_of(context, which).key)


def delete_all(context: Context, reading: Reading | None) -> Gen[int]:
    """Remove everything that a query finds, expired items too, page by page; returns how many items went.

    What is gone is gone: after a failure, the same call goes on with the rest.
    """
    total = 0
    while reading is not None:
        found, reading = yield from keys_chunk(context, reading)
        if found:
            yield ir.BatchWrite(tuple(ir.Delete(key) for key in found))
        total += len(found)
    return total


def refuse(
    context: Context, target: Target, item: Item | None, wanted: Condition | None, *, fresh: bool = False
) -> NoReturn:
    """Raise the error that tells why a condition did not hold.

    ``item`` is the item as it was judged, ``wanted`` the user's own condition, lowered; ``fresh``: the write was to
    create the item.
    """
    there = context.now().living(item)
    was = None if there is None else as_it_was(context, there, target.key)
    if fresh and there is not None:
        raise ItemExists(f"{target} exists already: get it, and update it or put what you got", was)
    if wanted is not None and not holds(wanted, there):
        state = "there is no such item" if there is None else "the error's item is what is stored"
        raise ConditionFailed(f"{target}: the condition {wanted} does not hold; {state}", was)
    raise Conflict(f"{target} was changed or removed by somebody else since you read it: read it again and retry", was)


def as_it_was(context: Context, item: Item, key: Key) -> Any:
    """The entity that an error carries; None if it can not be read, which must not hide the error."""
    try:
        return context.decode(item, key)
    except ItemInvalid:
        return None


def _lowered(target: Target, when: Condition | bool | None) -> Condition | None:
    return None if when is None else target.entity.codec.lower(checked(when, "when="))
