"""Update: change attributes of an existing item and keep every derived key right.

An index key is made of field values. Each value that the call itself does not set comes from a read, or from the
entity passed in, which may be stale; either way it becomes an equality guard of the write. When a guard fails, the item
as it is now is judged again by the user's condition and the write is tried again.
"""

from collections.abc import Collection, Mapping, Sequence
from random import Random
from typing import Any, Literal, TypeAlias

from attrs import field, frozen

from odm.codec import TAG
from odm.errors import BadValue, ConditionFailed, Conflict, ItemInvalid, ItemNotFound, OdmError
from odm.expressions.evaluate import apply, holds
from odm.expressions.nodes import (
    Action,
    Condition,
    Increment,
    Item,
    Path,
    Remove,
    Set,
    Value,
    paths,
)
from odm.observe.events import LOG
from odm.procedures.context import Context
from odm.procedures.field_bounds import check_steps, limits_of
from odm.procedures.retention import trim_after
from odm.procedures.upgrades import unchanged, unknown, up_to_date, version_is
from odm.procedures.write import as_it_was, lower_when, refusal
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.limits import check_item, check_keys
from odm.protocol.predicates import ABSENT, equals, every, has_tag, judged, revision_is
from odm.schema.entity import EntitySchema, Key, PatternSchema
from odm.schema.target import Target

ATTEMPTS = 64
"""How often an update is tried against other writers before it gives up with Conflict."""

Returning: TypeAlias = Literal["none", "old", "new"]


@frozen
class ItemUpdate:
    """An update, understood once: lowered actions and condition, and what they touch.

    Attributes:
        known: attributes whose new value the call itself gives (None: the attribute goes), by stored name.
        touched: the patterns whose key may change.
        from_key: attributes whose value is known from the item's key, by stored name.
        needed: stored names of attributes that touched patterns use and neither the call nor the key gives.
    """

    target: Target
    actions: tuple[Action, ...]
    wanted: Condition | None
    returning: Returning
    upsert: bool
    known: Mapping[str, Value] = field(factory=dict)
    touched: tuple[PatternSchema, ...] = ()
    from_key: Mapping[str, Value] = field(factory=dict)
    needed: tuple[str, ...] = ()


def update(
    context: Context,
    which: object,
    actions: Sequence[Action],
    when: Condition | bool | None,
    returning: Returning,
    *,
    upsert: bool = False,
    retry_safe: bool = False,
) -> CoreGen[Any]:
    """Change an existing item; returns the previous or the new item, or None, as ``returning`` says."""
    check_returning(returning, retry_safe=retry_safe)
    change = understand(context, which, actions, when, returning, upsert=upsert)
    base = start(context, change)
    if base is None:
        base = yield from _read_base(context, change)
    return (yield from _tried(context, change, base, retry_safe=retry_safe))


def enter_again(context: Context, target: Target, pattern: PatternSchema, base: Item) -> CoreGen[None]:
    """Write the entry of an item in an index as the model makes it now; nothing else changes.

    Args:
        context: of the store.
        target: the item's key, and its values.
        pattern: of the index.
        base: the item as it was read.

    Raises:
        ItemNotFound: it is gone.
    """
    from_key = _from_key(target)
    needed = tuple(name for name in dict.fromkeys(_attributes(target.entity, pattern)) if name not in from_key)
    change = ItemUpdate(target, (), None, "none", upsert=False, touched=(pattern,), from_key=from_key, needed=needed)
    yield from _tried(context, change, base, retry_safe=False)


def _tried(context: Context, change: ItemUpdate, base: Item | None, *, retry_safe: bool) -> CoreGen[Any]:
    """Send the update that is right for ``base``, and for what the item has become, until one is done."""
    for _ in range(ATTEMPTS):
        request = attempt(context, change, base)
        answer = (yield from _as_transaction(request, context)) if retry_safe else (yield request)
        if isinstance(answer, req.Written):
            if base is None and isinstance(request, req.Put):
                yield from trim_after(context, (request,))
            return _returned(context, change, request, base, answer)
        base = _judged_base(context, change, answer.item)
        LOG.debug("update of %s: another writer was faster, so it is tried again", change.target.entity.name)
    raise contended(change.target)


def check_returning(returning: str, *, retry_safe: bool) -> None:
    """Refuse what an update cannot give back. Raises BadValue."""
    if returning not in ("none", "old", "new"):
        raise BadValue(f"returning={returning!r}: say 'none', 'old' or 'new'")
    if retry_safe and returning != "none":
        raise BadValue(
            f"returning={returning!r} does not go with retry_safe=True: a transaction gives no item back; get() it "
            "afterwards"
        )


def _as_transaction(request: req.Update | req.Put, context: Context) -> CoreGen[req.Written | req.Refused]:
    """Send a write as a transaction of its own: of these, backends know one that they have done already."""
    answer = yield req.Transact((request,), context.limits, once=True)
    if isinstance(answer, req.Written):
        return answer
    (reason,) = answer.reasons
    if isinstance(reason, req.Refused):
        return reason
    raise reason


def _returned(
    context: Context, change: ItemUpdate, request: req.Update | req.Put, base: Item | None, answer: req.Written
) -> Any:
    """What the call asked for; a put gives no item, but what was there and what came of it are known."""
    of_put = {"none": None, "old": base, "new": request.item if isinstance(request, req.Put) else None}
    item = of_put[change.returning] if isinstance(request, req.Put) else answer.item
    try:
        return None if item is None else context.decode(item, change.target.key)
    except ItemInvalid as error:
        raise ItemInvalid(f"the update was applied, and {error}", error.key, error.item) from error.__cause__


def contended(target: Target) -> Conflict:
    """The error for an item that other writers changed between each read and write."""
    return Conflict(f"{target} was changed by other writers {ATTEMPTS} times in a row: retry later")


def understand(
    context: Context,
    which: object,
    actions: Sequence[Action],
    when: Condition | bool | None,
    returning: Returning,
    *,
    upsert: bool = False,
) -> ItemUpdate:
    """Check an update without a request.

    Raises:
        BadValue: an action or condition does not fit the model, or would change the primary key.
    """
    target = context.schema.target(which)
    entity = target.entity
    _check_call(entity, actions)
    codec = entity.codec
    lowered = codec.lower_actions(actions)
    check_steps(entity, lowered)
    roots = {action.path.root for action in lowered}
    known = {a.path.root: _outcome(a) for a in lowered if isinstance(a, Set | Remove) and len(a.path.segments) == 1}
    touched = tuple(p for p in entity.patterns.values() if roots & set(_attributes(entity, p)))
    from_key = _from_key(target)
    given = known.keys() | from_key.keys()
    needed = dict.fromkeys(name for p in touched for name in _attributes(entity, p) if name not in given)
    if upsert:
        _check_upsert(entity, known, target)
    if entity.revision is not None:
        lowered = (*lowered, Increment(Path((codec.stored[entity.revision],)), 1))
    return ItemUpdate(
        target, lowered, lower_when(target, when), returning, upsert, known, touched, from_key, tuple(needed)
    )


def _check_call(entity: EntitySchema, actions: Sequence[Action]) -> None:
    if not actions:
        raise BadValue(
            f"update of {entity.name} without an action: say what to change, as in set_({entity.name}.field, value)"
        )
    for action in actions:
        if not isinstance(action, Action):
            raise BadValue(f"{action!r} is not an action: write set_({entity.name}.field, value), increment(...), ...")
        root = action.path.root
        if root in entity.primary.fields:
            raise BadValue(
                f"{entity.name}.{root} is part of the primary key and cannot be changed: "
                "insert an item under the new key and delete this one"
            )
        if root == entity.revision:
            raise BadValue(f"{entity.name}.{root} is the Revision, which odm counts by itself: leave it out")


def _check_upsert(entity: EntitySchema, known: Mapping[str, Value], target: Target) -> None:
    given = {*target.entity.primary.fields}
    for name, info in entity.cls.model_fields.items():
        stored = entity.codec.stored[name]
        if info.is_required() and name not in given and stored not in known:
            raise BadValue(
                f"{entity.name}: upsert=True must be able to create the item, and the required field {name!r} "
                f"is not set: add set_({entity.name}.{name}, ...)"
            )


def _outcome(action: Set | Remove) -> Value:
    return action.value if isinstance(action, Set) else None


def _attributes(entity: EntitySchema, pattern: PatternSchema) -> list[str]:
    """Stored names of the attributes that decide an item's entry in the index."""
    stored = entity.codec.stored
    names = [stored[name] for name in pattern.sources]
    return names if pattern.when is None else [*names, *(path.root for path in paths(pattern.when))]


def start(context: Context, change: ItemUpdate) -> Item | None:
    """What the first attempt builds on without a read: nothing, where no value is needed, or the entity passed in."""
    if not change.needed:
        return {}
    if change.target.instance is not None:
        base = change.target.entity.codec.encode(change.target.instance)
        if _can_start_from(context, change, base):
            return base
    return None


def _read_base(context: Context, change: ItemUpdate) -> CoreGen[Item | None]:
    get = req.Get(change.target.key, pattern=change.target.entity.primary.full_name)
    return _judged_base(context, change, (yield get))  # a sum outside of its bounds makes no key


def _judged_base(context: Context, change: ItemUpdate, item: Item | None) -> Item | None:
    if (stranger := met(context, change, item)) is not None:
        raise stranger
    base = context.living(item)
    if (error := fault(context, change, base)) is not None:
        raise error
    return base


def met(context: Context, change: ItemUpdate, item: Item | None) -> ItemInvalid | None:
    """The error for an item that is not one of the entity; None where it is, or is skipped as if it were not there."""
    skipped = not change.upsert and context.living(item) is None
    return None if skipped else context.stranger(change.target, item)


def _can_start_from(context: Context, change: ItemUpdate, base: Item) -> bool:
    """Whether the entity passed in, which may be stale, allows the change at all; if not, the stored one decides."""
    if not all(holds(limit, base) for _, limit in limits_of(change.target.entity, change.actions)):
        return False
    try:
        _entries(change, base, context.random)
    except BadValue:
        return False
    return True


def attempt(context: Context, change: ItemUpdate, base: Item | None) -> req.Update | req.Put:
    """The write that is right if the needed attributes are as in ``base``; all of them, if it is an older item.

    `fault` must have found ``base`` good, where it was read.

    Raises:
        BadValue: what the actions make of ``base`` cannot be stored.
    """
    if base is None and change.upsert:
        return _creation(context, change)
    if base and not change.target.entity.codec.upgrades.current(base):
        return _upgrading(context, change, base)
    item = {} if base is None else base
    target, now = change.target, context.now()
    guards = [equals(name, item) for name in change.needed]
    limits = [limit for _, limit in limits_of(change.target.entity, change.actions)]
    revision = target.revision
    locked = None if revision is None else revision_is(target.entity, revision)
    alive = now.alive if target.entity.ttl is not None else None
    condition = every(
        has_tag(target.entity.tag), version_is(target.entity), alive, locked, change.wanted, *limits, *guards
    )
    entries = _entries(change, item, context.random)
    changed = {index: key for index, key in entries.items() if key is not None}
    check_keys(target.key, changed, target.entity, context.limits)
    return req.Update(
        target.key,
        change.actions,
        entries,
        condition,
        change.returning,
        context.limits,
        pattern=target.entity.primary.full_name,
        base=base,
    )


def _entries(change: ItemUpdate, base: Item, random: Random) -> dict[str, Key | None]:
    """The index keys after the change, for the patterns that it touches."""
    if not change.touched:
        return {}
    entity = change.target.entity
    used = {*change.known, *change.needed}
    old = {**change.from_key, **{name: value for name, value in base.items() if name in used}}
    new = apply([action for action in change.actions if action.path.root in used], old)
    fields = [name for pattern in change.touched for name in pattern.sources]
    values = entity.codec.read(new, fields, str(change.target.key))
    entries: dict[str, Key | None] = {}
    for pattern in change.touched:
        there = pattern.when is None or holds(pattern.when, _as_read(entity, pattern.when, new))
        entries[str(pattern.index)] = pattern.key(values, random) if there else None
    return entries


def _as_read(entity: EntitySchema, when: Condition, item: Item) -> dict[str, Value]:
    """The item as the model reads it: where a field that ``when`` names is absent, its default stands."""
    filled = _defaults(entity, {path.root for path in paths(when)}.difference(item), item)
    return {TAG: entity.tag, **filled, **item}


def _defaults(entity: EntitySchema, names: Collection[str], item: Item) -> dict[str, Value]:
    """The attributes of these stored names that are not in the item, as their fields' defaults are stored."""
    absent = [name for name, stored in entity.codec.stored.items() if stored in names]
    defaults = {name: value for name, value in entity.codec.read(item, absent).items() if value not in (None, set())}
    return {entity.codec.stored[name]: entity.codec.value(name, value) for name, value in defaults.items()}


def _from_key(target: Target) -> dict[str, Value]:
    """The stored attributes known from the key: all of its fields except those in lossy formats only."""
    entity = target.entity
    templates = [template for template in (entity.primary.partition, entity.primary.sort) if template is not None]
    names = {slot.name for template in templates for slot in template.slots if not slot.type.lossy}
    return {entity.codec.stored[name]: entity.codec.value(name, target.values[name]) for name in names}


def _key_values(target: Target) -> dict[str, Any]:
    return {name: target.values[name] for name in target.entity.primary.fields}


def _creation(context: Context, change: ItemUpdate) -> req.Put:
    """Upsert of an absent item: insert what the actions make of the model's defaults."""
    target = change.target
    made = {**apply(change.actions, _start(change)), **target.entity.codec.marks}
    return _whole(context, change, made, judged(target.entity, ABSENT, context.now()))


def _start(change: ItemUpdate) -> dict[str, Value]:
    """What an upsert of an absent item begins with: its key, and the defaults of what the actions change."""
    target, codec = change.target, change.target.entity.codec
    start = {codec.stored[name]: codec.value(name, value) for name, value in _key_values(target).items()}
    changed = {action.path.root for action in change.actions}.difference(start, change.known)
    return start | _defaults(target.entity, changed, start)


def _upgrading(context: Context, change: ItemUpdate, base: Item) -> req.Put:
    """Update of an item of an older version: put what the actions make of it when it is upgraded."""
    target = change.target
    upgraded = up_to_date(context, target.entity, base, target.key)
    return _whole(context, change, apply(change.actions, upgraded), unchanged(target.entity, base))


def _whole(context: Context, change: ItemUpdate, made: Item, condition: Condition | None) -> req.Put:
    """The put of an item that the actions have made."""
    target, entity = change.target, change.target.entity
    entity.codec.check(made)
    instance = entity.codec.decode(made)
    item = unknown(entity, made) | entity.codec.encode(instance)
    entries = entity.entries(vars(instance), item, context.random)
    check_item(item, target.key, entries, entity, context.limits, entity.local)
    guard = context.guard(entity)
    return req.Put(target.key, item, entries, condition, pattern=target.entity.primary.full_name, tag=guard)


def fault(context: Context, change: ItemUpdate, item: Item | None) -> OdmError | None:
    """What the user must know of a refused attempt; None if only a guard failed, so that it is tried again.

    ``item`` is the living item as it was judged.

    Raises:
        ItemInvalid: the item is of an older version and cannot be upgraded.
    """
    target = change.target
    if item is None:
        if change.upsert and change.wanted is None and target.revision in (None, 0):
            return _limit_fault(context, change, _start(change))
        return ItemNotFound(f"{target} is not there: insert it first, or say upsert=True")
    item = up_to_date(context, target.entity, item, target.key)
    if change.wanted is not None and not holds(change.wanted, item):
        return refusal(context, target, item, change.wanted)
    revision = target.revision
    if revision is not None and not holds(revision_is(target.entity, revision), item):
        return refusal(context, target, item, None)
    return _limit_fault(context, change, item)


def _limit_fault(context: Context, change: ItemUpdate, item: Item | None) -> ConditionFailed | None:
    for reason, limit in limits_of(change.target.entity, change.actions):
        if not holds(limit, item):
            was = None if item is None else as_it_was(context, item, change.target.key)
            return ConditionFailed(f"{change.target}: {reason}", was)
    return None
