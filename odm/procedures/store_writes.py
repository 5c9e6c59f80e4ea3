"""The writes of a store: what each call passes to the pipeline, and what it returns; see `companions.commit`.

The first attempt of an item without companions is sent directly. Only if it is refused, the pipeline continues.
"""

from collections.abc import Callable, Sequence
from copy import deepcopy
from typing import TYPE_CHECKING, Any, TypeVar, cast

from odm.codec import TAG, Draft
from odm.entities.companions import BaseCompanion
from odm.entities.entity import Entity, hold_stored
from odm.errors import ItemInvalid, ItemNotFound, OdmError, Unsupported
from odm.expressions.nodes import Condition, Item
from odm.procedures.blobs import check_eager, concerns
from odm.procedures.companions.commit import ALONE, InTransaction, Sender, commit
from odm.procedures.companions.intent import IntentWithCompanions, concerned
from odm.procedures.concurrent import concurrent
from odm.procedures.context import Context
from odm.procedures.keep import trim_after
from odm.procedures.reading.read import Reading, get, keys_chunk, rows_chunk
from odm.procedures.unprocessed import send_batch
from odm.procedures.writing.cell_versions import keeps
from odm.procedures.writing.intent import Planned, WriteIntent, mark_of
from odm.procedures.writing.save import save_update
from odm.procedures.writing.update import ItemUpdate, attempt, check_returning
from odm.procedures.writing.write import Write, checked_entity, delete_write, insert_write, put_write
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.schema.entity import Key, Target

if TYPE_CHECKING:
    from odm.procedures.calls import Calls

E = TypeVar("E", bound=Entity)


def put(context: Context, do: "Calls", instance: E, when: Condition | bool | None) -> CoreGen[E]:
    """Write the entity, with its companions' items; replaces any item under its key. Returns the stored entity."""
    return _stored(context, do, put_write(context, instance, when))


def insert(context: Context, do: "Calls", instance: E) -> CoreGen[E]:
    """Write a new entity, with its companions' items; returns the stored entity."""
    return _stored(context, do, insert_write(context, instance))


def _stored(context: Context, do: "Calls", write: Write) -> CoreGen[Any]:
    entity = write.target.entity
    if not entity.plain:
        yield from _write(context, do, write)
        _hold(write)
        return write.stored
    if write.reads:
        yield from commit(context, (IntentWithCompanions(write),), ALONE)
        _hold(write)
        return write.stored
    operation = write.first(context)
    assert not isinstance(operation, req.Check)  # of transactions only
    answer = yield operation
    if isinstance(answer, req.Refused):
        yield from _refused(context, write, answer)
    elif entity.keep is not None:
        yield from trim_after(context, (operation,))
    _hold(write)
    return write.stored


def _hold(write: Write) -> None:
    """Let the entity of a put hold the item that is stored now, for `save`."""
    item = write.operation.item  # type: ignore[union-attr]  # of a put
    shared = write.target.entity.codec.nests and type(item) is not Draft  # its lists and dicts may be the entity's
    hold_stored(write.stored, deepcopy(item) if shared else item)


def update(context: Context, do: "Calls", change: ItemUpdate, *, retry_safe: bool = False) -> CoreGen[Any]:
    """Change an existing item, with its companions' items; returns the previous or the new item, or None."""
    returning = change.returning
    check_returning(returning, retry_safe=retry_safe)
    if returning != "none":
        check_eager(change.target.entity, f"update(returning={returning!r})")
    plain = change.target.entity.plain and not retry_safe
    if not plain and (retry_safe or concerned(change) or keeps(change) or concerns(change)):
        plan, answer = yield from _write(context, do, change, once=retry_safe)
    elif change.base is None and context.turns.any_at((change.target.key,)):
        (plan,), answer = yield from commit(context, (IntentWithCompanions(change),), ALONE)
    else:
        base = change.base
        if base is None:
            entity = change.target.entity
            former = bool(entity.versioned)
            base = yield req.Get(change.target.key, pattern=entity.primary.full_name, former=former)
            operation = change.next(context, base)
            if isinstance(operation, OdmError):
                raise operation
        else:
            operation = attempt(context, change, base)
        answer = yield operation
        if isinstance(answer, req.Written):
            if isinstance(operation, req.Put):
                return _of_put(context, change, base, operation)
            return _decoded(context, change, answer.item)
        plan, answer = yield from _refused(context, change, answer)
    return _returned(context, change, plan, answer)


def save(context: Context, do: "Calls", instance: E, *, retry_safe: bool) -> CoreGen[E]:
    """Write what has changed in an entity since it was read; returns the entity as stored."""
    entity = checked_entity(context, instance)
    # The answer to these updates has no item, or not the large values of the item.
    apart = retry_safe or any(entity.blobs.values())
    change = save_update(context, instance, "none" if apart else "new")
    if change is None:
        return instance
    stored = yield from update(context, do, change, retry_safe=retry_safe)
    if apart:
        stored = yield from get(context, change.target)
        if stored is None:
            raise ItemNotFound(f"{change.target} was saved, and deleted before odm could read it again")
    current: E = stored
    return current


def _returned(context: Context, change: ItemUpdate, plan: Planned, answer: req.Written) -> Any:
    """The item that an update returns."""
    if plan.effect is not None:
        return {"none": None, "old": plan.effect.old, "new": plan.effect.new}[change.returning]
    if isinstance(plan.operation, req.Put):
        return _of_put(context, change, plan.base, plan.operation)
    return _decoded(context, change, answer.item)


def _of_put(context: Context, change: ItemUpdate, base: Item | None, operation: req.Put) -> Any:
    """What an update returns that was sent as a put of the whole item. The answer to a put has no item."""
    return _decoded(context, change, {"none": None, "old": base, "new": operation.item}[change.returning])


def _decoded(context: Context, change: ItemUpdate, item: Item | None) -> Any:
    try:
        return None if item is None else context.decode(item, change.target.key)
    except ItemInvalid as error:
        raise ItemInvalid(f"the update was applied, and {error}", error.key, error.item) from error.__cause__


def delete(context: Context, do: "Calls", which: object, when: Condition | bool | None) -> CoreGen[bool]:
    """Remove an item, with its companions' items; returns whether it existed.

    If it did not exist, neither ``when`` nor a Revision is evaluated.
    """
    write = delete_write(context, which, when, absent_ok=True)
    if concerned(write) or concerns(write):
        plan, _ = yield from _write(context, do, write)
        return plan.base is not None
    if write.reads:
        _, answer = yield from commit(context, (IntentWithCompanions(write),), ALONE)
        return bool(answer.existed)
    operation = write.first(context)
    assert not isinstance(operation, req.Check)  # of transactions only
    answer = yield operation
    if isinstance(answer, req.Refused):
        _, answer = yield from _refused(context, write, answer)
    return bool(answer.existed)


def delete_all(context: Context, do: "Calls", reading: Reading | None) -> CoreGen[int]:
    """Delete every item that matches a query, expired items too, with its companions' items; returns their number.

    Items without companions are deleted in batches. Not atomic: after a failure, the same call deletes the rest.
    """
    entities = context.schema.entities.items()
    deleting = {
        tag for tag, entity in entities if entity.blobs or any(companion.deletes for companion in entity.companions)
    }
    whose = None if reading is None else reading.plan.entity
    plain = not deleting or (whose is not None and whose.tag not in deleting)
    unindexed = whose is not None and not whose.patterns
    total = 0
    while reading is not None:
        pattern = reading.plan.name
        going: list[tuple[Key, Item]] = []
        if plain:
            keys, reading = yield from keys_chunk(context, reading)
        else:
            rows, reading = yield from rows_chunk(context, reading)
            going = [row for row in rows if row[1].get(TAG) in deleting and context.living(row[1]) is not None]
            kept = {key for key, _ in going}
            keys = [key for key, _ in rows if key not in kept]
        if keys:
            deletes = (req.Delete(key, pattern=pattern, unindexed=unindexed) for key in keys)
            yield from send_batch(req.BatchWrite(tuple(deletes)), {})
        targets = [_key(context, item, key) for key, item in going]
        total += len(keys) + sum((yield from concurrent([delete(context, do, target, None) for target in targets])))
    return total


def _key(context: Context, item: Item, key: Key) -> Target:
    entity = context.schema.entities[item[TAG]]
    if any(entity.blobs.values()):  # the item is not decoded, because its blobs are not read
        values = entity.codec.read(item, entity.primary.sources, str(key))
    else:
        values = vars(context.decode(item, key))
    return Target(entity, entity.key(values), values)


def write_transaction(context: Context, do: "Calls", intents: Sequence[WriteIntent]) -> CoreGen[None]:
    """Apply the operations of a transaction and the writes of their companions, or nothing.

    Raises:
        TransactionFailed: nothing was written; its ``reasons``, one an operation, say why.
    """
    if all(intent.target.entity.plain and not intent.reads for intent in intents):
        operations = tuple([cast("req.Operation", intent.first(context)) for intent in intents])
        answer = yield req.Transact(operations, context.limits)
        if isinstance(answer, req.Written):
            if any(intent.target.entity.keep is not None for intent in intents):
                yield from trim_after(context, operations)
        else:
            plannable = [IntentWithCompanions(intent) for intent in intents]
            yield from commit(context, plannable, InTransaction(context), refused=answer.reasons)
        return
    together = context.transactions or not any(map(concerned, intents))
    sender = InTransaction(context) if together else _in_steps(context, do, lone=False)
    committing = _commit_with_blobs() if any(map(concerns, intents)) else commit
    plans, _ = yield from committing(context, [IntentWithCompanions(intent) for intent in intents], sender)
    for plan in plans:
        yield from _settle(do, plan)


def _in_steps(context: Context, do: "Calls", *, lone: bool = True) -> Sender:
    from odm.procedures.companions.one_by_one import InSteps  # not every store writes companions in steps, or blobs

    return InSteps(context, do, lone=lone)


def _commit_with_blobs() -> Callable[..., CoreGen[tuple[Sequence[Planned], req.Written]]]:
    from odm.procedures.companions.one_by_one import commit_with_blobs

    return commit_with_blobs


def marked(context: Context, companion: BaseCompanion, key: object) -> CoreGen[tuple[Any, str | None]]:
    """The item under a key, and the mark that a companion stored with it; each None if it does not exist."""
    target = context.schema.key_target(key)
    item = yield req.Get(target.key, pattern=target.entity.primary.full_name)
    if context.living(item) is None:
        return None, None
    mark = item.get(mark_of(companion))
    return context.decode(item, target.key), None if mark is None else str(mark)


def _write(
    context: Context, do: "Calls", intent: WriteIntent, *, once: bool = False
) -> CoreGen[tuple[Planned, req.Written]]:
    """Apply one operation with its companions' writes; with ``once``, only once even if it is retried."""
    write = IntentWithCompanions(intent)
    sender: Sender = InTransaction(context, lone=True, once=once)
    if write.companions and not context.transactions:
        if once:
            raise Unsupported(
                f"an update with retry_safe=True of {intent.target}, which has companions, on a backend that writes "
                "one item at a time: odm cannot know whether a write was applied if its response is lost. Say "
                "Table(..., transactions=True); or leave retry_safe out, and read the item on an OutcomeUnknown"
            )
        sender = _in_steps(context, do)
    committing = _commit_with_blobs() if concerns(intent) else commit
    (plan,), answer = yield from committing(context, (write,), sender)
    yield from _settle(do, plan)
    return plan, answer


def _settle(do: "Calls", plan: Planned) -> CoreGen[None]:
    """Let companions do the work that follows an applied write."""
    if plan.effect is not None:
        for companion in plan.of.companions:
            yield from companion.settle(do, plan.effect)


def _refused(context: Context, intent: WriteIntent, answer: req.Refused) -> CoreGen[tuple[Planned, req.Written]]:
    """Continue with an operation whose first attempt was refused."""
    items = {intent.target.key: answer.item}
    (plan,), written = yield from commit(context, (IntentWithCompanions(intent),), ALONE, items, tried=1)
    return plan, written
