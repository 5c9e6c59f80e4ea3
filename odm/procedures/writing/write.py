"""The intents of put, insert, delete and check.

A put has every index entry of the new item, so no derived key can be stale.
"""

from collections.abc import Mapping
from inspect import iscoroutine
from typing import Any, NamedTuple, TypeVar

from odm.codec import When
from odm.entities.entity import Entity
from odm.errors import (
    BadValue,
    ConditionFailed,
    Conflict,
    ItemExists,
    ItemInvalid,
    ItemNotFound,
    OdmError,
    Unsupported,
    brief,
)
from odm.expressions.build import checked
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Condition, Item, Not, Or, Path
from odm.immutable import evolve
from odm.procedures.context import Context
from odm.procedures.writing.automatic import assigned
from odm.procedures.writing.judged import judged_fields
from odm.procedures.writing.upgrades import unchanged, up_to_date
from odm.protocol import requests as req
from odm.protocol.expressions import check_condition, surely_fits
from odm.protocol.limits import check_item
from odm.protocol.predicates import ABSENT, every, guarded, has_tag, judged, revision_is, same_at, version_is
from odm.schema.entity import EntitySchema, Key, Target

E = TypeVar("E", bound=Entity)


def put_request(
    context: Context, instance: E, *, batched: bool = False, copied: bool = False, settled: bool = False
) -> tuple[Target, E, req.Put]:
    """The put of an entity without a condition, and the entity as it will be stored, its revision one higher.

    Args:
        context: the context of the store.
        instance: the entity.
        batched: the put is one of a batch.
        copied: its automatic fields are left as they are.
        settled: it is as validation has left it.
    """
    entity = checked_entity(context, instance)
    if entity.automatic is not None and not copied:
        instance = assigned(context, entity, instance)
    values = vars(instance)
    target = Target(entity, entity.key(values), values, instance)
    name = entity.revision
    stored = instance if name is None else instance.model_copy(update={name: entity.revision_of(values) + 1})
    compiled = context.writes(entity)
    item = compiled.encode(entity.codec, stored)
    read = entity.codec.check(item)
    if not settled and compiled.normalises and any(vars(read)[n] != vars(stored)[n] for n in entity.codec.stored):
        # Assigned values were not validated, and validation changes them: store what a read would show.
        read = read if name is None else read.model_copy(update={name: values[name]})
        as_read: tuple[Target, Any, req.Put] = put_request(context, read, batched=batched, copied=True, settled=True)
        return as_read
    entries = entity.entries(vars(stored), item, context.random) if entity.patterns else {}
    check_item(item, target.key, entries, entity, context.limits, entity.local)
    if entity.codec.normal is not None:
        stored = entity.codec.normal(stored)
    guard = None if batched else compiled.guard
    pattern = entity.primary.full_name
    return target, stored, req.Put(target.key, item, entries, pattern=pattern, tag=guard, known=compiled.replaced)


def checked_entity(context: Context, instance: object) -> EntitySchema:
    """The entity of an instance. Raises BadValue for anything but an entity of the table."""
    known = context.schema.by_class.get(type(instance))  # faster than isinstance
    if known is None and not isinstance(instance, Entity):
        raise BadValue(f"{brief(instance)} is not an entity: {_instead(instance)}")
    return known or context.schema.entity(type(instance))


class Write(NamedTuple):
    """The intent of a put, insert, delete or check: the same operation for every stored item, with a condition.

    Attributes:
        name: the name of the method that was called.
        operation: the operation without a condition.
        user_condition: the user's own condition, lowered.
        needs_item: that condition does not hold for an absent item.
        revision: the revision that the stored item must have; None: not checked.
        present: True: the item must exist; False: it must not; None: not checked.
        absent_ok: no condition is evaluated on an absent item: the delete of a store returns False for it.
        stored: for a put or insert, the entity as it will be stored.
        judged: see `odm.procedures.writing.judged`.
    """

    name: str
    target: Target
    operation: req.Put | req.Delete | req.Check
    user_condition: Condition | None = None
    needs_item: bool = False
    revision: int | None = None
    present: bool | None = None
    absent_ok: bool = False
    stored: Any = None
    judged: tuple[Path, ...] = ()

    @property
    def unconditional(self) -> bool:
        """Whether it is applied to every stored item."""
        return self.user_condition is None and self.revision is None and self.present is None and not self.absent_ok

    @property
    def reads(self) -> bool:
        """Whether it depends on the stored item, which must be read first."""
        return bool(self.judged)

    def first(self, context: Context) -> req.Put | req.Delete | req.Check:
        """The operation of the first attempt, with all of its conditions."""
        if self.unconditional:
            return self.operation
        entity, now = self.target.entity, context.now()
        locked = None if self.revision is None else revision_is(entity, self.revision)
        known: req.Presence | None = "present" if locked is not None or self.needs_item else None
        user_condition = self.user_condition
        if user_condition is not None and entity.version > 1:  # on an item of an older version, after its upgrade
            user_condition = every(user_condition, Or((ABSENT, version_is(entity))))
        if self.absent_ok:
            condition = every(locked, user_condition, now.alive if entity.ttl is not None else None)
        else:
            presence = None if self.present is None else has_tag(entity.tag) if self.present else ABSENT
            condition = judged(entity, every(presence, locked, user_condition), now)
            if self.present:
                known = "own"
            elif self.present is False:
                known = known or ("absent" if entity.ttl is None else "expired")
        operation = self.operation if condition is None else evolve(self.operation, condition=condition, presence=known)
        if context.limits.expressions and not surely_fits(self.user_condition):
            check_condition(guarded(operation))
        return operation

    def next(self, context: Context, item: Item | None) -> req.Operation | OdmError:
        """The operation for the stored item, which was read first or after a refusal, or the error to raise."""
        again = self._again(context, item)
        if again is None and self.reads and self.stranger(context, item) is None:
            there = context.living(item)
            operation = self.first(context)
            try:
                if there is not None:
                    context.check_fit(there, self.target.key)
            except ItemInvalid as unreadable:
                return unreadable
            if operation.condition is None or holds(operation.condition, item):
                condition = every(operation.condition, *(same_at(path, there or {}) for path in self.judged))
                known = operation.presence or (None if condition is None or holds(condition, None) else "present")
                return evolve(operation, condition=condition, presence=known)
        return again or self._refusal(context, item)

    def _again(self, context: Context, item: Item | None) -> req.Operation | None:
        """The operation to send next, if the first one was refused only because the stored item is of an older version.

        The fields of such an item may have other names or values, which its upgrades convert. For a delete or check of
        an absent item, it is a check that there is still no item of the entity.
        """
        entity, there = self.target.entity, context.living(item)
        if there is None and isinstance(self.operation, req.Delete | req.Check):
            absent = not self.present and self.revision is None
            absent = absent and (self.user_condition is None or holds(self.user_condition, None))
            if self.absent_ok or (absent and context.stranger(self.target, item) is not None):
                return req.Check(self.target.key, Not(has_tag(entity.tag)), pattern=self.operation.pattern)
        if (
            there is None
            or (self.revision is None and self.user_condition is None)
            or entity.codec.upgrades.current(there)
        ):
            return None
        if self.stranger(context, item) is not None:
            return None
        try:
            upgraded = up_to_date(context, entity, there, self.target.key)
        except ItemInvalid:
            return None
        locked = None if self.revision is None else revision_is(entity, self.revision)
        asked = every(self.user_condition, locked)
        assert asked is not None
        if not holds(asked, upgraded):
            return None
        return evolve(self.operation, condition=unchanged(entity, there), presence="own")

    def stranger(self, context: Context, item: Item | None) -> ItemInvalid | None:
        """The error for an item that is not one of the entity. An item that the store skips only prevents a put."""
        there = isinstance(self.operation, req.Put) or context.living(item) is not None
        return context.stranger(self.target, item) if there else None

    def _refusal(self, context: Context, item: Item | None) -> OdmError:
        """The error for the refused operation, from the stored item."""
        if (stranger := self.stranger(context, item)) is not None:
            return stranger
        item = context.living(item)
        if self.present and context.now().living(item) is None:
            return ItemNotFound(f"{self.target} does not exist")
        if item is not None and self.user_condition is not None:
            try:
                item = up_to_date(context, self.target.entity, item, self.target.key)
            except ItemInvalid as unreadable:
                return unreadable
        return refusal(
            context, self.target, item, self.user_condition, fresh=self.present is False, put=self.name == "put"
        )


def _instead(argument: object) -> str:
    """What to give instead of something that is not an entity."""
    if iscoroutine(argument):
        argument.close()  # or Python also warns that it was never awaited
        return "await it, as in entity = await db.get(...)"
    if isinstance(argument, list | tuple):
        return "give one at a time, or several with db.batch() as batch: batch.put(entity)"
    if isinstance(argument, Mapping):
        return "make one of it, as in Order(**values)"
    return "give an instance of a class declared with table=..."


def put_write(context: Context, instance: Entity, when: Condition | bool | None) -> Write:
    """The put of an entity. An entity with revision 0 was never stored, so its put is an insert."""
    target, stored, request = put_request(context, instance)
    user_condition, needs_item = (None, False) if when is None else lower_when(target, when)
    revision = None if target.entity.revision is None else target.revision
    if revision == 0:
        return Write("put", target, request, user_condition, needs_item, present=False, stored=stored)
    forms = () if user_condition is None else judged_fields(context, target.entity, user_condition)
    return Write("put", target, request, user_condition, needs_item, revision, stored=stored, judged=forms)


def insert_write(context: Context, instance: Entity) -> Write:
    """The put of an entity whose key must not hold an item."""
    target, stored, request = put_request(context, instance)
    return Write("insert", target, request, present=False, stored=stored)


def delete_write(context: Context, which: object, when: Condition | bool | None, *, absent_ok: bool = False) -> Write:
    """The delete of an item."""
    target = context.schema.target(which)
    context.check_key(target)
    request = delete_request(target, context.writes(target.entity).guard)
    user_condition, needs_item = lower_when(target, when)
    forms = judged_fields(context, target.entity, user_condition)
    return Write(
        "delete", target, request, user_condition, needs_item, target.revision, absent_ok=absent_ok, judged=forms
    )


def check_write(context: Context, which: object, when: Condition | bool | None) -> Write:
    """A check of a condition; without one, that the item exists."""
    target = context.schema.target(which)
    context.check_key(target)
    guard = context.writes(target.entity).guard
    operation = req.Check(target.key, pattern=target.entity.primary.full_name, tag=guard)
    present = True if when is None else None
    user_condition, needs_item = lower_when(target, when)
    forms = judged_fields(context, target.entity, user_condition)
    return Write("check", target, operation, user_condition, needs_item, target.revision, present, judged=forms)


def delete_request(target: Target, tag: str | None = None) -> req.Delete:
    """The delete of an item, without a condition; ``tag`` is the guard of a table that others share."""
    entity = target.entity
    return req.Delete(target.key, pattern=entity.primary.full_name, tag=tag, unindexed=not entity.patterns)


def refusal(
    context: Context,
    target: Target,
    item: Item | None,
    user_condition: Condition | None,
    *,
    fresh: bool = False,
    put: bool = False,
) -> OdmError:
    """The error that explains why a condition did not hold.

    ``item`` is the stored item on which the condition was evaluated, ``user_condition`` the user's own condition,
    lowered; ``fresh``: the write was to create the item; ``put``: by a put, of an entity with revision 0.
    """
    there = context.now().living(item)
    was = None if there is None else as_it_was(context, there, target.key)
    if fresh and there is not None:
        new, name = "exists already", target.entity.revision
        if put and name is not None:
            new += f", and {name} is 0 in the entity that you put, as in one that was never stored, so put inserts it"
        return ItemExists(f"{target} {new}: get it, and update it or put what you got", was)
    if user_condition is not None and not holds(user_condition, there):
        state = "there is no such item" if there is None else "the error's item is the stored item"
        return ConditionFailed(f"{target}: the condition {user_condition} does not hold; {state}", was)
    return Conflict(
        f"{target} was changed or removed since you read it, by another writer, or by a put() whose result you did not "
        "use: read it again and retry",
        was,
    )


def as_it_was(context: Context, item: Item, key: Key) -> Any:
    """The entity that an error carries; None if the item cannot be read, so that the error is still raised."""
    try:
        return context.decode(item, key)
    except (ItemInvalid, Unsupported):  # Unsupported: it has a large value, which only get() reads
        return None


def lower_when(target: Target, when: Condition | bool | None) -> When | tuple[None, bool]:
    """The user's condition of a write, lowered to stored names, and whether it needs an item."""
    if when is None:
        return None, False
    lowered = target.entity.codec.lower_when(checked(when, "when="))
    target.entity.answerable(lowered.condition)
    return lowered
