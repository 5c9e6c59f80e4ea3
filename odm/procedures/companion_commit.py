"""Writes of a store with those of companions: in one transaction, or one after another where there are none.

Either way the item itself is written on the condition that it is still as its companions have seen it. Where another
writer was faster, everything is computed again, as an update does it.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeVar

from attrs import define, evolve, field

from odm.codec import TAG
from odm.entities.companions import BaseCompanion, Effect
from odm.entities.entity import Entity
from odm.errors import (
    BadValue,
    ConditionFailed,
    Conflict,
    ItemExists,
    ItemInvalid,
    ItemNotFound,
    OdmError,
    TransactionFailed,
    Unsupported,
)
from odm.expressions.nodes import Action, Condition
from odm.procedures import write
from odm.procedures.calls import Calls
from odm.procedures.commit import commit
from odm.procedures.companion_intent import IntentWithCompanions, Planned, concerned, mark_of
from odm.procedures.companion_writes import KEEP, UNREAD, CompanionWrites
from odm.procedures.concurrent import concurrent
from odm.procedures.context import Context
from odm.procedures.read import Reading, rows_chunk
from odm.procedures.retention import trim_after
from odm.procedures.unprocessed import send_batch
from odm.procedures.update import ATTEMPTS, Returning, check_returning, contended
from odm.procedures.update import update as update_item
from odm.procedures.write_intent import WriteIntent, delete_intent, insert_intent, put_intent, update_intent
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.schema.entity import EntitySchema
from odm.schema.target import Target

E = TypeVar("E", bound=Entity)


REFUSALS: Final = (BadValue, ConditionFailed, ItemExists, ItemInvalid, ItemNotFound)
"""Errors that say of a write that it was certainly not done."""


class StaleRead(Conflict):
    """The item has changed since its companions saw it: the write is computed again from ``stored``."""

    def __init__(self, target: Target, stored: Any) -> None:
        super().__init__(f"{target} was changed by another writer")
        self.stored = stored


class SideWriteFailed(OdmError):
    """A companion's write was refused after the item itself was written: it is not an error of the item."""

    def __init__(self, error: OdmError) -> None:
        super().__init__(str(error))
        self.error = error


@define
class Writing:
    """An item that its companions are about to write.

    Attributes:
        marks: what they mark it with, by stored name.
        until: when they rely on what they have done no more, in epoch seconds.
        written: it was applied.
    """

    marks: dict[str, Any] = field(factory=dict)
    until: float | None = None
    written: bool = False


# Most entities have none: for these, the functions below only choose the plain write, at no cost of a generator.


def put(context: Context, do: Calls, instance: E, when: Condition | bool | None) -> CoreGen[E]:
    """Write the entity over whatever is under its key, with its companions' items; returns it as stored."""
    entity = context.schema.by_class.get(type(instance))
    if entity is None or not entity.companions:
        return write.put(context, instance, when)
    return _stored(context, do, put_intent(context, instance, when))


def insert(context: Context, do: Calls, instance: E) -> CoreGen[E]:
    """Write the entity if its key is free, with its companions' items; returns it as stored."""
    entity = context.schema.by_class.get(type(instance))
    if entity is None or not entity.companions:
        return write.insert(context, instance)
    return _stored(context, do, insert_intent(context, instance))


def _stored(context: Context, do: Calls, intent: WriteIntent) -> CoreGen[Any]:
    yield from _write(context, do, intent)
    return intent.stored


def update(  # the arguments of an update
    context: Context,
    do: Calls,
    which: object,
    actions: Sequence[Action],
    when: Condition | bool | None,
    returning: Returning,
    *,
    upsert: bool = False,
    retry_safe: bool = False,
) -> CoreGen[Any]:
    """Change an existing item, with its companions' items; returns the previous or the new item, or None."""
    entity = _entity(context, which)
    if entity is not None and entity.companions:
        check_returning(returning, retry_safe=retry_safe)
        intent = update_intent(context, which, actions, when, upsert=upsert)
        if concerned(intent):
            return _updated(context, do, intent, returning, once=retry_safe)
    return update_item(context, which, actions, when, returning, upsert=upsert, retry_safe=retry_safe)


def _updated(context: Context, do: Calls, intent: WriteIntent, returning: Returning, *, once: bool) -> CoreGen[Any]:
    effect = yield from _write(context, do, intent, once=once)
    return {"none": None, "old": effect.old, "new": effect.new}[returning]


def delete(context: Context, do: Calls, which: object, when: Condition | bool | None) -> CoreGen[bool]:
    """Remove an item, with its companions' items; returns whether it was there."""
    entity = _entity(context, which)
    if entity is None or not any(one.deletes for one in entity.companions):
        return write.delete(context, which, when)
    return _deleted(context, do, delete_intent(context, which, when))


def _deleted(context: Context, do: Calls, intent: WriteIntent) -> CoreGen[bool]:
    get = req.Get(intent.target.key, pattern=intent.target.entity.primary.full_name)
    item = yield get
    if context.living(item) is None:
        yield from _settle(do, intent, Effect(intent.target.query, None, None))
        return False
    try:
        effect = yield from _write(context, do, intent, item)
    except ConditionFailed as error:
        if error.item is None and context.living((yield get)) is None:
            return False  # it has gone since
        raise
    return effect.old is not None


def delete_all(context: Context, do: Calls, reading: Reading | None) -> CoreGen[int]:
    """Remove everything that a query finds, expired items too, with its companions' items; returns how many items went.

    Items without companions are deleted in batches, as from any table.
    """
    deleting = {tag for tag, entity in context.schema.entities.items() if any(one.deletes for one in entity.companions)}
    whose = None if reading is None else reading.plan.entity
    if not deleting or (whose is not None and whose.tag not in deleting):
        return (yield from write.delete_all(context, reading))
    total = 0
    while reading is not None:
        pattern = reading.plan.name
        rows, reading = yield from rows_chunk(context, reading)
        going = [(key, item) for key, item in rows if item.get(TAG) in deleting and context.living(item) is not None]
        kept = {key for key, _ in going}
        plain = tuple(req.Delete(key, pattern=pattern) for key, _ in rows if key not in kept)
        if plain:
            yield from send_batch(req.BatchWrite(plain), {})
        targets = [_key(context, context.decode(item, key)) for key, item in going]
        total += len(plain) + sum((yield from concurrent([delete(context, do, one, None) for one in targets])))
    return total


def write_transaction(context: Context, do: Calls, intents: Sequence[WriteIntent]) -> CoreGen[None]:
    """Apply the operations of a transaction and the writes of their companions, or nothing.

    Raises:
        TransactionFailed: nothing was written; its reasons, one an operation, say why.
    """
    if context.transactions or not any(map(concerned, intents)):
        effects: Sequence[Effect[Any] | None] = yield from commit(context, intents, {})
    else:
        effects = [(yield from _single_operation(context, do, *intents))]
    for intent, effect in zip(intents, effects, strict=True):
        yield from _settle(do, intent, effect)


def _single_operation(context: Context, do: Calls, intent: WriteIntent) -> CoreGen[Effect[Any]]:
    """The transaction of the one operation that it has where there are none."""
    try:
        return (yield from _without_transaction(context, do, IntentWithCompanions(intent), UNREAD))
    except SideWriteFailed as failed:
        raise failed.error from failed.error.__cause__
    except REFUSALS as error:
        raise TransactionFailed(f"nothing was written: {intent.name}(): {error}", (error,)) from error


def marked(context: Context, companion: BaseCompanion, key: object) -> CoreGen[tuple[Any, str | None]]:
    """An item with the mark that a companion has put on it; None for either that is not there."""
    target = context.schema.key_target(key)
    item = yield req.Get(target.key, pattern=target.entity.primary.full_name)
    if context.living(item) is None:
        return None, None
    mark = item.get(mark_of(companion))
    return context.decode(item, target.key), None if mark is None else str(mark)


def write_each(context: Context, writes_: CompanionWrites) -> CoreGen[None]:
    """Send what a companion writes with an item, one after another.

    Raises:
        OdmError: one was refused; what comes after it was not written.
    """
    for side_write in writes_.side_writes:
        operation: req.Operation | OdmError | None = side_write.operation(context)
        while operation is not None:
            if isinstance(operation, OdmError):
                raise operation
            if isinstance(operation, req.Check):  # in place of a delete, where another program's item is skipped
                break
            answer = yield operation
            operation = side_write.instead(context, answer) if isinstance(answer, req.Refused) else None


def _write(
    context: Context, do: Calls, intent: WriteIntent, item: Any = UNREAD, *, once: bool = False
) -> CoreGen[Effect[Any]]:
    """Apply one operation with its companions' writes; ``item``: as it was read, if it was."""
    if context.transactions:
        read = {} if item is UNREAD else {intent.target.key: item}
        try:
            (effect,) = yield from commit(context, (intent,), read, once=once, alone=not once)
        except TransactionFailed as failure:
            raise failure.reasons[0] or failure from failure.__cause__
        assert effect is not None
    elif once:
        raise Unsupported(
            f"an update with retry_safe=True of {intent.target}, which has companions, on a backend that writes one "
            "item at a time: odm cannot know whether a write was applied if its response is lost. Leave retry_safe "
            "out, and read the item on an OutcomeUnknown"
        )
    else:
        try:
            effect = yield from _without_transaction(context, do, IntentWithCompanions(intent), item)
        except SideWriteFailed as failed:
            raise failed.error from failed.error.__cause__
    yield from _settle(do, intent, effect)
    return effect


def _settle(do: Calls, intent: WriteIntent, effect: Effect[Any] | None) -> CoreGen[None]:
    """What companions do after a write was applied; None: it had no companions."""
    if effect is not None:
        for companion in concerned(intent):
            yield from companion.settle(do, effect)


def _without_transaction(context: Context, do: Calls, one: IntentWithCompanions, item: Any) -> CoreGen[Effect[Any]]:
    """Do one operation, each companion within the one before; raises why it cannot be done."""
    target = one.intent.target
    if item is UNREAD and one.reads(context, in_transaction=False):
        item = yield req.Get(target.key, pattern=target.entity.primary.full_name)
    for _ in range(ATTEMPTS):
        plan = one.plan(context, item)
        if isinstance(plan, OdmError):
            raise plan
        try:
            yield from _within(context, do, plan, Writing(), 0)
        except StaleRead as stale:
            item = stale.stored
            continue
        assert plan.effect is not None
        return plan.effect
    raise contended(target)


def _within(context: Context, do: Calls, plan: Planned, writing: Writing, at: int) -> CoreGen[None]:
    """The steps of the companions from a place on, the write of the item itself innermost."""
    if at == len(plan.of.companions):
        yield from _itself(context, plan, writing)
        return
    companion = plan.of.companions[at]

    def inner(mark: Any = KEEP, until: float | None = None) -> CoreGen[None]:
        writing.marks[mark_of(companion)] = mark
        if until is not None:
            writing.until = until if writing.until is None else min(until, writing.until)
        return _within(context, do, plan, writing, at + 1)

    try:
        yield from companion.without_transaction(do, plan.seen_by(companion), inner)
    except REFUSALS as error:
        if writing.written:
            raise SideWriteFailed(error) from error
        raise


def _itself(context: Context, plan: Planned, writing: Writing) -> CoreGen[None]:
    """Write the entity's own item."""
    target, operation = plan.of.intent.target, plan.marked(writing.marks)
    if writing.until is not None and context.clock() > writing.until:
        raise StaleRead(target, (yield req.Get(target.key, pattern=target.entity.primary.full_name)))
    if isinstance(operation, req.Put) and operation.condition is not None:
        operation = evolve(operation, once=True)
    if isinstance(operation, req.Check):  # in place of a delete, where another program's item is skipped
        return
    answer = yield operation
    if isinstance(answer, req.Refused):
        again = plan.of.plan(context, answer.item)
        raise again if isinstance(again, OdmError) else StaleRead(target, answer.item)
    writing.written = True
    yield from trim_after(context, (operation,))


def _entity(context: Context, which: object) -> EntitySchema | None:
    """Whose item is written; None where that is for the plain write to say."""
    cls = type(which) if isinstance(which, Entity) else getattr(which, "entity", None)
    return cls if isinstance(cls, EntitySchema) else context.schema.by_class.get(cls) if isinstance(cls, type) else None


def _key(context: Context, item: Entity) -> Target:
    entity = context.schema.entity(type(item))
    return Target(entity, entity.key(vars(item)), vars(item))
