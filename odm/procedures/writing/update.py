"""The intent of an update: changes attributes of an existing item and updates every derived key.

An index key is made of field values. Values that the call does not set come from a read, or from the entity passed in,
which may be stale. So the write has the condition (a guard) that each such value is unchanged. If a guard fails, the
user's condition is evaluated on the stored item, and the write is retried.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from random import Random
from typing import Any, ClassVar, Final, Literal, TypeAlias

from pydantic import ValidationError

from odm.codec import TAG, TTL_ATTRIBUTE, NativeItem
from odm.codec.actions import FROZEN, CompiledActions, shape_of_actions
from odm.codec.types.blobs import Pointer, kept_inline, pointer_of
from odm.codec.types.validation import reasons
from odm.errors import BadValue, ConditionFailed, ItemInvalid, ItemNotFound, OdmError, Unsupported, brief
from odm.expressions.build import checked
from odm.expressions.evaluate import apply, equal, holds
from odm.expressions.nodes import (
    Action,
    And,
    Compare,
    Condition,
    Const,
    Exists,
    Increment,
    Item,
    Missing,
    Not,
    Or,
    Path,
    Remove,
    Set,
    SetIfMissing,
    Value,
    paths,
)
from odm.immutable import Immutable, evolve, field
from odm.procedures.context import Context
from odm.procedures.writing.automatic import check_settable, of_new_item, with_time
from odm.procedures.writing.bounds import check_steps, limits_of
from odm.procedures.writing.judged import judged_fields
from odm.procedures.writing.upgrades import unchanged, unknown, up_to_date
from odm.procedures.writing.write import as_it_was, refusal
from odm.protocol import requests as req
from odm.protocol.apply_update import as_sets
from odm.protocol.expressions import are_few, check_update, surely_fits
from odm.protocol.limits import SHORT_KEY, check_item, check_keys, check_written
from odm.protocol.predicates import (
    ABSENT,
    condition_of,
    equals,
    every,
    has_tag,
    judged,
    revision_is,
    same_at,
    version_is,
)
from odm.schema.entity import EntitySchema, Key, PatternSchema, Target

Returning: TypeAlias = Literal["none", "old", "new"]

_NO_ENTRIES: Final[dict[str, Key | None]] = {}
_NO_VALUES: Final[Mapping[str, Value]] = {}

Validate: TypeAlias = Literal["item", "values"]
"""What an update validates: also the whole item, where the model needs that, or only the values that it writes."""


class ItemUpdate(Immutable):
    """An update: its lowered actions and condition, and the index keys that they may change.

    Attributes:
        known: attributes whose new value the call itself sets (None: the attribute is removed), by stored name.
        touched: the patterns whose key may change.
        from_key: attributes whose value is known from the item's key, by stored name; none without ``touched``.
        needed: attributes that ``touched`` uses and that neither the call nor the key sets, as stored names.
        judged: see `odm.procedures.writing.judged`.
        base: the item from which the first attempt is computed; None: the stored item must be read.
        whole: why the new item must be validated as a whole; None: the values that are written were, which is enough.
        nested: the members of nested models that `odm.set_fields` sets, as the user writes them; their parents are
            created if they are missing.
        limited: its actions may leave bounds of fields, which conditions prevent.
        depends, stages: see `CompiledUpdate`.
    """

    target: Target
    actions: tuple[Action, ...]
    user_condition: Condition | None = None
    returning: Returning = "none"
    upsert: bool = False
    known: Mapping[str, Value] = field(factory=dict)
    touched: tuple[PatternSchema, ...] = ()
    from_key: Mapping[str, Value] = field(factory=dict)
    needed: tuple[str, ...] = ()
    judged: tuple[Path, ...] = ()
    base: Item | None = None
    whole: str | None = None
    nested: tuple[Set, ...] = ()
    limited: bool = True
    depends: frozenset[str] = frozenset()
    stages: tuple[str, ...] = ()

    name: ClassVar[str] = "update"
    stored: ClassVar[None] = None

    @property
    def reads(self) -> bool:
        """Whether it depends on the stored item, which must be read first."""
        return self.base is None

    def first(self, context: Context) -> req.Update | req.Put | None:
        """The operation of the first attempt; None if it depends on the stored item."""
        return None if self.base is None else attempt(context, self, self.base)

    def next(self, context: Context, item: Item | None) -> req.Update | req.Put | OdmError:
        """The operation for the stored item, or the error to raise."""
        if (stranger := self.stranger(context, item)) is not None:
            return stranger
        base = context.living(item)
        try:
            if base is not None and self.judged:
                context.check_fit(base, self.target.key)
            return _fault(context, self, _decoded(base)) or attempt(context, self, base, read=True)
        except (BadValue, ItemInvalid) as error:  # the new item cannot be stored, or the stored item cannot be read
            return error

    def stranger(self, context: Context, item: Item | None) -> ItemInvalid | None:
        """The error for an item that is not one of the entity. An item that the store skips only prevents an upsert."""
        skipped = not self.upsert and context.living(item) is None
        return None if skipped else context.stranger(self.target, item)


def new_entries(target: Target, patterns: Sequence[PatternSchema]) -> ItemUpdate:
    """The update that only writes an item's entries of some patterns, as the current model computes them."""
    from_key = _from_key(target, _known_from_key(target.entity))
    names = dict.fromkeys(name for pattern in patterns for name in _attributes(target.entity, pattern))
    needed = tuple(name for name in names if name not in from_key)
    return ItemUpdate(target, (), touched=tuple(patterns), from_key=from_key, needed=needed)


def check_returning(returning: str, *, retry_safe: bool) -> None:
    """Raise BadValue for a ``returning`` that an update cannot return."""
    if returning not in ("none", "old", "new"):
        raise BadValue(f"returning={brief(returning)}: say 'none', 'old' or 'new'")
    if retry_safe and returning != "none":
        raise BadValue(
            f"returning={brief(returning)} is not possible with retry_safe=True: a transaction returns no item; "
            "get() it "
            "afterwards"
        )


def item_update(  # the arguments of an update
    context: Context,
    which: object,
    actions: Sequence[Action],
    when: Condition | bool | None,
    returning: Returning = "none",
    *,
    upsert: bool = False,
    validate: Validate = "item",
    read: Item | None = None,
) -> ItemUpdate:
    """The intent of an update, checked without a request.

    ``read``: the stored item as it was read, from which the first attempt is computed; None: the entity passed in.

    Raises:
        BadValue: an action or condition does not fit the model, or would change the primary key.
        ItemTooLarge: the key is too long, or the update writes more than an item can hold.
    """
    target = context.schema.target(which)
    if len(target.key.partition) + len(target.key.sort) > SHORT_KEY:
        context.check_key(target)
    entity = target.entity
    codec = entity.codec
    if validate not in ("item", "values"):
        raise BadValue(f"validate={validate!r}: say 'item', or 'values' to validate only the values that are written")
    extended = actions
    if any(type(action) is Set and action.nested for action in actions):
        check_actions(entity, actions)
        extended = codec.expand_actions(actions)
    shape = shape_of_actions(extended, codec.declared), upsert, validate
    kept: CompiledUpdate | None = entity.updates.get(shape)
    if kept is None:
        check_actions(entity, actions)
    if entity.automatic is not None:
        extended = with_time(context, entity, extended)
    compiled = kept
    if compiled is None:
        compiled = _compiled(entity, extended, upsert, validate)
        entity.updates.keep(shape, compiled)
    bound = compiled.actions.bound(extended) if compiled.actions.slotted else compiled.actions
    if bound is None:
        compiled = _compiled(entity, extended, upsert, validate)
        bound = compiled.actions
    lowered = bound.lower(extended)
    if compiled.increments:
        check_steps(entity, lowered)
    known = {lowered[at].path.root: _outcome(lowered[at]) for at in compiled.known} if compiled.known else _NO_VALUES
    if compiled.count is not None:
        lowered = (*lowered, compiled.count)
    user_condition = None if when is None else entity.answerable(codec.lower(checked(when, "when=")))
    check_written(lowered, {}, target, context.limits)
    forms = () if user_condition is None else judged_fields(context, entity, user_condition)
    reads = compiled.needed or compiled.whole or forms
    base: Item | None = None if reads else _NO_VALUES
    nested = (
        tuple([action for action in extended if isinstance(action, Set) and action.nested]) if compiled.nested else ()
    )
    change = ItemUpdate(
        target,
        lowered,
        user_condition,
        returning,
        upsert,
        known,
        compiled.touched,
        _from_key(target, compiled.from_key) if compiled.from_key else _NO_VALUES,
        compiled.needed,
        forms,
        base,
        compiled.why(extended) if compiled.whole else None,
        nested,
        compiled.limited,
        compiled.depends,
        compiled.stages,
    )
    few = compiled.few and (not compiled.actions.slotted or are_few(lowered))
    if context.limits.expressions and not (few and (user_condition is None or surely_fits(user_condition))):
        _check_expressions(context, change)
    if base is not None or target.instance is None or entity.blobs:
        return change
    return _from(context, change, codec.encode(target.instance) if read is None else read)


class CompiledUpdate(Immutable):
    """An update without its values: what its fields and kinds of actions decide.

    Attributes:
        actions: lowers the actions.
        known: the positions of the lowered actions that set or remove an attribute, if `ItemUpdate.known` is used.
        touched, needed: see `ItemUpdate`.
        whole: the new item must be validated as a whole, as `why` says.
        of_model: why, if the model alone decides that; None: its actions do, or it need not.
        from_key: the fields whose values the key gives to the keys of ``touched``.
        increments: one of the actions is an increment.
        few: the actions certainly exceed no limit of an expression but that of values, and of keys in their paths.
        nested: one sets a member of a nested model by `odm.set_fields`.
        limited: see `ItemUpdate`.
        count: the action that counts the Revision; None if there is no Revision.
        depends: the attributes that an action computes from their former value.
        stages: what it does, in words.
    """

    actions: CompiledActions
    known: tuple[int, ...]
    touched: tuple[PatternSchema, ...]
    from_key: tuple[str, ...]
    needed: tuple[str, ...]
    whole: bool
    of_model: str | None
    increments: bool
    few: bool
    nested: bool
    limited: bool
    count: Increment | None
    depends: frozenset[str]
    stages: tuple[str, ...]

    def why(self, actions: Sequence[Action]) -> str | None:
        """Why the new item must be validated as a whole."""
        return self.of_model or self.actions.why(actions)


def _compiled(entity: EntitySchema, actions: Sequence[Action], upsert: bool, validate: Validate) -> CompiledUpdate:
    """The compiled form of these actions, which `check_actions` allows.

    Raises:
        BadValue: an action does not fit the model, two do not fit together, or an upsert could not create the item.
    """
    codec = entity.codec
    compiled = codec.compiled_actions(actions)
    of_model = None if validate == "values" else codec.whole
    whole = validate != "values" and (codec.whole is not None or compiled.whole is not None)
    lowered = compiled.lower(actions)
    roots = {action.path.root for action in lowered}
    _check_match(entity, roots)
    touched = () if whole else tuple(p for p in entity.patterns.values() if roots & set(_attributes(entity, p)))
    known = [at for at, a in enumerate(lowered) if isinstance(a, Set | Remove) and len(a.path.segments) == 1]
    names = {lowered[at].path.root for at in known}
    if upsert:
        _check_upsert(entity, names)
    from_key = _known_from_key(entity) if touched else ()
    known_names = names.union(codec.stored[name] for name in from_key)
    needed = dict.fromkeys(name for p in touched for name in _attributes(entity, p) if name not in known_names)
    count = None if entity.revision is None else Increment(Path((codec.stored[entity.revision],)), 1)
    increments = any(isinstance(action, Increment) for action in lowered)
    counted = lowered if count is None else (*lowered, count)
    computed = [action for action in counted if len(action.path.segments) == 1 and not isinstance(action, Set | Remove)]
    positions = tuple(known) if touched or upsert else ()
    stages = _stages(entity, compiled, actions, touched, needed, whole=whole)
    few = are_few(counted)
    nested = any(isinstance(action, Set) and action.nested for action in actions)
    limited = not all(isinstance(action, Set) and len(action.path.segments) == 1 for action in actions)
    return CompiledUpdate(
        compiled,
        positions,
        touched,
        from_key,
        tuple(needed),
        whole,
        of_model,
        increments,
        few,
        nested,
        limited,
        count,
        frozenset([action.path.root for action in computed]),
        stages,
    )


def _stages(
    entity: EntitySchema,
    compiled: CompiledActions,
    actions: Sequence[Action],
    touched: Sequence[PatternSchema],
    needed: Collection[str],
    *,
    whole: bool,
) -> tuple[str, ...]:
    """What an update of a shape does, in words; the arguments are fields of `CompiledUpdate`."""
    stages = compiled.stages(actions)
    if entity.revision is not None:
        stages.append(f"count {entity.revision}")
    if whole:
        stages.append("read, validate the item as a whole")
    keys = ", ".join(pattern.name for pattern in touched)
    if keys:
        stages.append(f"keys of {keys}" + (f" with {', '.join(needed)} as read" if needed else ""))
    conditions = [f"the item is of {entity.name}"]
    if entity.ttl is not None:
        conditions.append("not expired")
    if needed:
        conditions.append(f"{', '.join(needed)} as read")
    return (*stages, f"if {', '.join(conditions)}")


def check_known(change: ItemUpdate) -> None:
    """Raise BadValue if the item that the update stores cannot be computed from the entity passed in."""
    entity, which = change.target.entity, change.target.instance
    if which is None:
        why = f"{change.target} is a key, so what is stored there is not known: pass the entity as you read it"
    elif entity.revision is None:
        why = f"{entity.name} has no Revision, so the stored item may differ from the entity"
    elif change.upsert:
        why = "with upsert=True the item may be new"
    elif any(isinstance(action, SetIfMissing) for action in change.actions):
        why = "set_if_missing depends on what is stored"
    else:
        return
    raise BadValue(f"returning='new' in a transaction: {why}; or get() the item after the transaction")


def entity_after(change: ItemUpdate) -> Any:
    """The entity after the update of the one passed in; `check_known` allows it.

    Raises:
        BadValue: the item after the actions cannot be stored.
    """
    codec = change.target.entity.codec
    base = codec.encode(change.target.instance)
    change, _ = _with_parents(change, base)
    item = apply(change.actions, base)
    codec.check(item)
    return codec.decode(item, str(change.target.key))


def check_actions(entity: EntitySchema, actions: Sequence[Action], call: str = "update") -> None:
    """Raise BadValue for no actions, something else than an action, or one on a field that no update may change."""
    if not actions:
        raise BadValue(
            f"{call} of {entity.name} without an action: say what to change, as in set_({entity.name}.field, value)"
        )
    for action in actions:
        if not isinstance(action, Action):
            raise BadValue(f"{brief(action)} is not an action: {_instead(entity, action)}")
        root = action.path.root
        if root in entity.primary.fields:
            raise BadValue(
                f"{entity.name}.{root} is part of the primary key and cannot be changed: "
                "insert an item under the new key and delete this one"
            )
        if root == entity.revision:
            raise BadValue(f"{entity.name}.{root} is the Revision, which odm counts by itself: leave it out")
        check_settable(entity, root)
        if root in entity.frozen_fields:
            raise BadValue(f"{entity.name}.{root} {FROZEN}")


def _instead(entity: EntitySchema, argument: object) -> str:
    """What to write instead of something that is not an action."""
    if isinstance(argument, Mapping):
        return f"write *set_fields({entity.name}, changes) for a dict of fields"
    if isinstance(argument, list | tuple) and any(isinstance(entry, Action) for entry in argument):
        return f"put a * in front of the list, as in *set_fields({entity.name}, changes)"
    return f"write set_({entity.name}.field, value), increment(...), ..."


def _check_match(entity: EntitySchema, roots: Collection[str]) -> None:
    """Refuse an update of what distinguishes the entity: the item would become one of another."""
    for path in () if entity.match is None else paths(entity.match):
        if path.root in roots:
            raise BadValue(
                f"{entity.name}: {path.root!r} is part of match= of the class, so an update of it would make the item "
                "one of another entity: delete the item and put the other one"
            )


def _check_expressions(context: Context, change: ItemUpdate) -> None:
    """Refuse an update that DynamoDB would refuse; the guards are written in their longest form."""
    keys = [Set(Path((f"{pattern.index} {part}",)), "") for pattern in change.touched for part in ("pk", "sk")]
    guards = [Missing(path) for path in (*(Path((name,)) for name in change.needed), *change.judged)]
    own = has_tag(change.target.entity.tag), version_is(change.target.entity)
    check_update((*change.actions, *keys), every(*own, _condition(context, change, guards)))


def _check_upsert(entity: EntitySchema, known: Collection[str]) -> None:
    key_fields = {*entity.primary.fields}
    for name, info in entity.cls.model_fields.items():
        stored = entity.codec.stored[name]
        if info.is_required() and name not in key_fields and stored not in known:
            raise BadValue(
                f"{entity.name}: upsert=True must be able to create the item, and the required field {name!r} "
                f"is not set: add set_({entity.name}.{name}, ...)"
            )


def _outcome(action: Action) -> Value:
    """The value that a Set writes; None of a Remove."""
    return action.value if isinstance(action, Set) else None


def _attributes(entity: EntitySchema, pattern: PatternSchema) -> list[str]:
    """Stored names of the attributes from which an item's entry in the index is computed."""
    stored = entity.codec.stored
    names = [stored[name] for name in pattern.sources]
    return names if pattern.when is None else [*names, *(path.root for path in paths(pattern.when))]


def _from(context: Context, change: ItemUpdate, base: Item) -> ItemUpdate:
    """The update computed from an item that may be stale; if its values do not allow that, unchanged."""
    if not change.target.entity.codec.upgrades.current(base):
        return change
    if not all(holds(limit, base) for _, limit in limits_of(change.target.entity, change.actions)):
        return change
    try:
        if change.whole is not None:
            _validated(context, change, base)
        else:
            _entries(change, base, context.random)
    except BadValue:
        return change  # no key can be made from a sum outside of its bounds; the stored item may allow the change
    return evolve(change, base=base)


def attempt(context: Context, change: ItemUpdate, base: Item | None, *, read: bool = False) -> req.Update | req.Put:
    """The write, if the needed attributes are as in ``base``; if ``base`` is of an older version, all attributes.

    If ``base`` was read, say so, and call `_fault` first, which must return None.

    Raises:
        BadValue: the item after the actions cannot be stored.
    """
    parents: Condition | None = None
    if change.nested:
        seen = base if read or change.base else None
        if base is None and change.upsert:
            seen = _start(change)
        elif base and not change.target.entity.codec.upgrades.current(base):
            seen = up_to_date(context, change.target.entity, base, change.target.key)
        change, parents = _with_parents(change, seen)
    if base is None and change.upsert:
        return _creation(context, change)
    if base and not change.target.entity.codec.upgrades.current(base):
        return _upgrading(context, change, base)
    if change.whole is not None:
        return _validated(context, change, {} if base is None else base)
    item = _decoded(base) or {}
    target, entity, actions, entries = change.target, change.target.entity, change.actions, _NO_ENTRIES
    guards = [parents]
    if not context.adds_values:
        actions, unchanged_values = as_sets(change.actions, item if read else None)
        guards += unchanged_values
    if change.needed or change.judged:
        same = dict.fromkeys([*(Path((name,)) for name in change.needed), *change.judged])
        guards += [same_at(path, item) for path in same]
    if change.touched:
        entries = _entries(change, item, context.random)
        changed = {index: key for index, key in entries.items() if key is not None}
        if changed:
            check_keys(target.key, changed, entity, context.limits)
            check_written(change.actions, changed, target, context.limits)
    condition = _condition(context, change, guards)
    return req.Update(
        target.key,
        actions,
        entries,
        condition,
        change.returning,
        context.limits,
        pattern=entity.primary.full_name,
        tag=entity.tag,
        version=entity.version,
        base=base,
        fixed=_fixed(change, condition) if change.depends and condition is not None else _NO_VALUES,
    )


def _fixed(change: ItemUpdate, condition: Condition) -> dict[str, Value]:
    """The values that the condition fixes, of the attributes that an action computes from their former value."""
    fixed: dict[str, Value] = {}
    for part in condition.conditions if type(condition) is And else (condition,):
        match part:
            case Compare("=", Path((str(name),)), Const(value)) if name in change.depends:
                fixed[name] = value
            case Or((Compare("=", Path((str(name),)), Const(value)), Missing(Path((other,))))) if (
                name == other and name in change.depends and _start_of(change.actions, name) == value
            ):  # absent, the attribute counts as that value for the action too
                fixed[name] = value
    return fixed


def _start_of(actions: Iterable[Action], name: str) -> Value:
    """The number that an increment of the attribute starts from if it is absent; None if no action increments it."""
    return next(
        (action.start for action in actions if isinstance(action, Increment) and action.path.segments == (name,)), None
    )


def _decoded(item: Item | None) -> Item | None:
    """The item as a dict, which is read many times. The request keeps what the backend returned."""
    return item.content if isinstance(item, NativeItem) else item


def _with_parents(change: ItemUpdate, item: Item | None) -> tuple[ItemUpdate, Condition | None]:
    """The update with the parents that are missing created, and the condition that the others are there.

    Args:
        change: an update that sets members of nested models.
        item: the stored item; None: it was not read, so each parent is assumed to be there.
    """
    codec = change.target.entity.codec
    there: dict[Path, Condition] = {}
    missing: dict[Path, list[Set]] = {}
    for action in change.nested:
        for length in range(1, len(action.path.segments)):
            parent = Path(action.path.segments[:length], action.path.owner)
            place = codec.place(parent)
            stored, none = place.path, Compare("=", place.path, Const(None))
            nullable = "NULL" in place.type.kinds
            if item is not None and _value_at(item, stored) is None:
                missing.setdefault(parent, []).append(action)
                there[stored] = (
                    Or((Missing(stored), Compare("=", stored, Const(None)))) if nullable else Missing(stored)
                )
                break
            there[stored] = And((Exists(stored), Not(none))) if nullable else Exists(stored)
    created = {codec.place(parent).path: codec.created(parent, sets) for parent, sets in missing.items()}
    inside = {codec.place(action.path).path for sets in missing.values() for action in sets}
    kept = tuple(evolve(action, nested=False) if isinstance(action, Set) else action for action in change.actions)
    actions = [action for action in kept if action.path not in inside]
    actions += [Set(path, value) for path, value in created.items()]
    return evolve(change, actions=tuple(actions), nested=()), every(*there.values())


def _value_at(item: Item, path: Path) -> Value:
    """The value at a path of an item; None also if there is none."""
    value: Value = item
    for segment in path.segments:
        value = value.get(segment) if isinstance(value, Mapping) else None
    return value


def _validated(context: Context, change: ItemUpdate, item: Item) -> req.Update:
    """The write of what the actions, and the model's own validators, change in an item that was validated as a whole.

    Its condition is that nothing has changed that a validator may have seen.

    Raises:
        BadValue: the model refuses the item after the actions.
        Unsupported: a validator needs a large value, which an update does not read.
    """
    target, entity, codec = change.target, change.target.entity, change.target.entity.codec
    after = apply(change.actions, item)
    unread = [name for name, eager in entity.blobs.items() if eager and pointer_of(after.get(name)) is not None]
    if any(not isinstance(after[name], Pointer) for name in unread):
        raise Unsupported(
            f"{target}: {change.whole}, so the whole item must be validated, and the value of {unread[0]!r} is in a "
            "blob, which an update does not read: put() the entity, or say validate='values'"
        )
    try:
        instance = codec.decode(after, str(target.key))
    except ItemInvalid as error:
        why = reasons(error.__cause__) if isinstance(error.__cause__, ValidationError) else str(error)
        raise BadValue(f"{target}: the model refuses the item after this update: {why}") from error
    new = kept_inline(entity.blobs, after, codec.encode(instance))
    for action in change.actions:
        named = isinstance(action, Set | SetIfMissing) and all(isinstance(name, str) for name in action.path.segments)
        if named and _value_at(after, action.path) is not None and _value_at(new, action.path) is None:
            raise BadValue(f"{target}: {action.path} is not a part of the stored value, which is of another model")
    absent = new.keys() - after.keys()
    defaults = _defaults(entity, absent, after) if absent else {}
    new = {name: value for name, value in new.items() if name not in defaults or not equal(value, defaults[name])}
    codec.check(new)  # it has the defaults of absent members, which pydantic did not validate
    own = (*codec.stored.values(), TTL_ATTRIBUTE)
    written = {action.path.root for action in change.actions}
    changed = [name for name in own if name in written or not _same(item, new, name)]
    actions = tuple(Set(Path((name,)), new[name]) if name in new else Remove(Path((name,))) for name in changed)
    guards: list[Condition | None] = [unchanged(entity, item)]
    if entity.revision is not None:
        stored = codec.stored[entity.revision]
        uncounted = sorted(codec.stored[name] for name in entity.counters)  # their increments leave the revision alone
        guards = [revision_is(entity, item.get(stored, 0)), *(equals(name, item) for name in uncounted)]
    touched = [p for p in entity.patterns.values() if not set(changed).isdisjoint(_attributes(entity, p))]
    entries: dict[str, Key | None] = {str(pattern.index): None for pattern in touched}
    if touched:
        keys = entity.entries(vars(instance), new, context.random)
        entries = {index: keys.get(index) for index in entries}
    index_keys = {index: key for index, key in entries.items() if key is not None}
    check_keys(target.key, index_keys, entity, context.limits)
    check_written(actions, index_keys, target, context.limits)
    alive = context.now().alive if entity.ttl is not None else None
    locked = None if target.revision is None else revision_is(entity, target.revision)
    update = req.Update(
        target.key,
        actions,
        entries,
        every(alive, locked, change.user_condition, *guards),
        change.returning,
        context.limits,
        pattern=entity.primary.full_name,
        tag=entity.tag,
        version=entity.version,
        base=item,
    )
    if context.limits.expressions:
        check_update(actions, condition_of(update))
    return update


def _same(item: Item, other: Item, name: str) -> bool:
    return equal(item[name], other[name]) if name in item and name in other else (name in item) == (name in other)


def _condition(context: Context, change: ItemUpdate, guards: Iterable[Condition | None]) -> Condition | None:
    """The condition of the update, besides tag and version; the guards check that needed attributes are unchanged."""
    entity, revision = change.target.entity, change.target.revision
    limits = [limit for _, limit in limits_of(entity, change.actions)] if change.limited else ()
    locked = None if revision is None else revision_is(entity, revision)
    alive = context.now().alive if entity.ttl is not None else None
    return every(alive, locked, change.user_condition, *limits, *guards)


def _entries(change: ItemUpdate, base: Item, random: Random) -> dict[str, Key | None]:
    """The index keys after the change, for the patterns in ``touched``."""
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
    """The item as the model reads it: absent fields that ``when`` names have their defaults."""
    filled = _defaults(entity, {path.root for path in paths(when)}.difference(item), item)
    return {TAG: entity.tag, **filled, **item}


def _defaults(entity: EntitySchema, names: Collection[str], item: Item) -> dict[str, Value]:
    """The stored defaults of these attributes, given by stored name; they must be absent from the item."""
    absent = [name for name, stored in entity.codec.stored.items() if stored in names]
    defaults = {name: value for name, value in entity.codec.read(item, absent).items() if value not in (None, set())}
    return {entity.codec.stored[name]: entity.codec.value(name, value) for name, value in defaults.items()}


def _from_key(target: Target, names: Iterable[str]) -> dict[str, Value]:
    """The stored attributes of fields that are known from the key."""
    codec = target.entity.codec
    return {codec.stored[name]: codec.value(name, target.values[name]) for name in names}


def _known_from_key(entity: EntitySchema) -> tuple[str, ...]:
    """The fields of the key, except those in lossy formats only."""
    templates = [template for template in (entity.primary.partition, entity.primary.sort) if template is not None]
    return tuple({slot.name: None for template in templates for slot in template.slots if not slot.type.lossy})


def _key_values(target: Target) -> dict[str, Any]:
    return {name: target.values[name] for name in target.entity.primary.fields}


def _creation(context: Context, change: ItemUpdate) -> req.Put:
    """Upsert of an absent item: inserts the item that the actions make from the model's defaults."""
    target = change.target
    attributes = {**apply(change.actions, _start(change)), **target.entity.codec.marks}
    attributes = of_new_item(context, target.entity, attributes)
    fresh: req.Presence = "absent" if target.entity.ttl is None else "expired"
    return whole_put(context, target, attributes, judged(target.entity, ABSENT, context.now()), fresh)


def _start(change: ItemUpdate) -> dict[str, Value]:
    """The item from which an upsert starts: the key fields, and the defaults of the fields that the actions change."""
    target, codec = change.target, change.target.entity.codec
    start = {codec.stored[name]: codec.value(name, value) for name, value in _key_values(target).items()}
    changed = {action.path.root for action in change.actions}.difference(start, change.known)
    return start | _defaults(target.entity, changed, start)


def _upgrading(context: Context, change: ItemUpdate, base: Item) -> req.Put:
    """Update of an item of an older version: puts the upgraded item with the actions applied."""
    target = change.target
    upgraded = up_to_date(context, target.entity, base, target.key)
    return whole_put(context, target, apply(change.actions, upgraded), unchanged(target.entity, base), "own")


def whole_put(
    context: Context, target: Target, attributes: Item, condition: Condition | None, presence: req.Presence
) -> req.Put:
    """The put of a whole item as the current model stores it; attributes that the model does not know are kept.

    Args:
        context: the context of the store.
        target: the item.
        attributes: its attributes, such as the stored item after an upgrade or after actions.
        condition: the condition on the stored item.
        presence: what is known of the condition, see `odm.protocol.requests.Put`.

    Raises:
        BadValue: the item cannot be stored.
    """
    entity = target.entity
    entity.codec.check(attributes)
    instance = entity.codec.decode(attributes)
    item = unknown(entity, attributes) | kept_inline(entity.blobs, attributes, entity.codec.encode(instance))
    entity.codec.check(item)  # it also has the defaults of absent members
    entries = entity.entries(vars(instance), item, context.random)
    check_item(item, target.key, entries, entity, context.limits, entity.local)
    writes = context.writes(entity)
    name = entity.primary.full_name
    return req.Put(
        target.key,
        item,
        entries,
        condition,
        pattern=name,
        tag=writes.guard,
        known=writes.replaced,
        presence=presence,
    )


def _fault(context: Context, change: ItemUpdate, item: Item | None) -> OdmError | None:
    """The error to raise for a refused attempt; None if only a guard failed, so that it can be retried.

    ``item`` is the stored item; None if it is absent or expired.

    Raises:
        ItemInvalid: the item is of an older version and cannot be upgraded.
    """
    target = change.target
    if item is None:
        if change.upsert and change.user_condition is None and target.revision in (None, 0):
            return _limit_fault(context, change, _start(change))
        return ItemNotFound(f"{target} does not exist: insert it first, or say upsert=True")
    item = up_to_date(context, target.entity, item, target.key)
    if change.user_condition is not None and not holds(change.user_condition, item):
        return refusal(context, target, item, change.user_condition)
    revision = target.revision
    if revision is not None and not holds(revision_is(target.entity, revision), item):
        return refusal(context, target, item, None)
    return _limit_fault(context, change, item)


def _limit_fault(context: Context, change: ItemUpdate, item: Item | None) -> ConditionFailed | None:
    for reason, limit in limits_of(change.target.entity, change.actions) if change.limited else ():
        if not holds(limit, item):
            was = None if item is None else as_it_was(context, item, change.target.key)
            return ConditionFailed(f"{change.target}: {reason}", was)
    return None
