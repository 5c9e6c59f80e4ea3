"""The request of a merge: writes parts of one item without reading it, on every backend with the same result.

A merge sees nothing of the stored item. So everything that depends on it is refused before a request is sent: what is
derived from several attributes (index keys, a Revision, companions, the count of ``keep=``), what is judged by the
stored item (expiry, upgrades, ``match=``), and actions that start from a stored value, except those that add to an
aggregate: the backend does that without a read.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final, TypeAlias

from msgspec import Struct, field

from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import BadValue, Unsupported
from odm.expressions.evaluate import apply
from odm.expressions.nodes import (
    Action,
    AddTo,
    AddValue,
    DiscardFrom,
    Increment,
    Item,
    Path,
    Remove,
    Set,
    SetIfMissing,
)
from odm.immutable import Immutable, evolve
from odm.procedures.context import Context
from odm.procedures.writing.automatic import with_time
from odm.procedures.writing.bounds import limits_of
from odm.procedures.writing.update import check_actions
from odm.protocol import requests as req
from odm.protocol.apply_update import merged_item
from odm.protocol.connection import CoreGen
from odm.protocol.expressions import check_update, merge_fits
from odm.protocol.limits import check_item, check_written
from odm.protocol.predicates import over_own
from odm.schema.entity import EntitySchema, Target
from odm.schema.model import Schema

_OTHERWISE: Final = "update() it, with upsert=True if it may not exist"


class MergeRules(Immutable):
    """What a merge of one entity may write.

    Attributes:
        entity: the entity.
        fields: the field of each attribute, by stored name.
        columns: the stored names of the fields in Columns.
        aggregates: the stored names of the aggregates.
        barred: why an attribute cannot be merged, by stored name.
        required: the stored names of the required fields that the key does not set.
    """

    entity: EntitySchema
    fields: Mapping[str, str]
    columns: frozenset[str]
    aggregates: frozenset[str]
    barred: Mapping[str, str]
    required: tuple[str, ...]

    @classmethod
    def of(cls, schema: Schema, entity: EntitySchema) -> "MergeRules":
        """The rules of an entity.

        Raises:
            BadValue: a merge of the entity could not keep what odm promises of its items.
        """
        if (reason := _reason(entity)) is not None:
            raise BadValue(f"{entity.name} has {reason}: {_OTHERWISE}")
        stored = entity.codec.stored
        barred = {stored[name]: why for name in entity.columns if (why := _without_start(entity, name)) is not None}
        former = "it keeps its former values (CellVersions), and a merge does not read the value that it replaces"
        barred |= {stored[name]: former for name in entity.versioned}
        barred |= _disputed(schema, entity)
        required = tuple(
            stored[name]
            for name, info in entity.cls.model_fields.items()
            if info.is_required() and name not in entity.primary.fields
        )
        fields = {attribute: name for name, attribute in stored.items()}
        columns, aggregates = (frozenset(stored[name] for name in of) for of in (entity.columns, entity.aggregates))
        return cls(entity, fields, columns, aggregates, barred, required)

    def check(self, actions: Sequence[Action]) -> None:
        """Refuse lowered actions that a merge cannot make.

        Raises:
            BadValue: an action needs the stored item, or a required field is not set.
        """
        for action in actions:
            path, (root, *inner) = action.path, action.path.segments
            member = bool(inner)
            if root in self.barred:
                raise self._fault(path, self.barred[path.root])
            if root in self.aggregates and isinstance(action, Increment | AddValue):
                continue  # it starts at 0 or empty and has no bounds, so no stored value matters
            if root not in self.columns:
                if member or not isinstance(action, Set | Remove):
                    raise self._fault(path, "a merge can only set it or remove it as a whole")
            elif isinstance(action, AddTo | DiscardFrom):
                continue
            elif not member:
                text = self._text(path)
                raise self._fault(
                    path,
                    "a merge does not know the stored members of a field in Columns: merge members, as in "
                    f"set_({text}[key], value) or add_to({text}, member)",
                )
            elif len(inner) > 1 or not isinstance(action, Set | Remove):
                raise self._fault(path, "a merge can only set a member or remove it as a whole")
        if self.required:
            self._check_required({action.path.root for action in actions})

    def _check_required(self, names: set[str]) -> None:
        for name in self.required:
            if name not in names:
                raise BadValue(
                    f"{self.entity.name}: a merge must be able to create the item, and the required field "
                    f"{self.fields[name]!r} is not set: add set_({self.entity.name}.{self.fields[name]}, ...), or "
                    "update() the item"
                )

    def _fault(self, path: Path, why: str) -> BadValue:
        return BadValue(f"{self._text(path)}: {why}. Or {_OTHERWISE}")

    def _text(self, path: Path) -> str:
        """The path as the user writes it."""
        field = self.fields.get(path.root, path.root)
        return f"{self.entity.name}.{Path((field, *path.segments[1:]))}"


def _reason(entity: EntitySchema) -> str | None:
    """What an entity has that a write without a read cannot keep right; None: nothing."""
    if entity.patterns:
        return f"the access pattern {next(iter(entity.patterns))!r}, whose key has fields that a merge cannot see"
    if entity.revision is not None:
        return f"the Revision {entity.revision!r}, which a merge cannot check"
    if entity.blobs:
        return f"the large value {min(entity.blobs)!r} (Blob), whose blob a merge cannot replace"
    fields = entity.automatic
    if fields is not None:
        for name, word in ((fields.created, "CreatedAt"), (fields.id, "Id")):
            if name is not None and name not in entity.primary.fields:
                return f"the {word} {name!r}, and a merge does not know whether it creates the item"
    if entity.companions:
        return f"{entity.companions[0].name!r}, which is written on conditions that a merge does not have"
    if entity.keep is not None:
        return f"keep={entity.keep}, and a merge does not know whether it adds an item"
    if entity.ttl is not None:
        return f"the TTL {entity.ttl!r}, and a merge cannot see whether the stored item has expired"
    if entity.counters:
        return (
            f"the Counter {min(entity.counters)!r}, and a merge cannot see whether an increment that found no item "
            "still has to be reverted"
        )
    if entity.version > 1:
        return f"version={entity.version}, and a merge cannot see whether the stored item must be upgraded first"
    if entity.match is not None:
        return "match=, and a merge cannot see whether the stored item is one of it"
    return None


def _without_start(entity: EntitySchema, name: str) -> str | None:
    """Why the members of a field in Columns cannot be merged; None: the field starts empty."""
    info = entity.cls.model_fields[name]
    takes_data = info.default_factory is not None and info.default_factory_takes_validated_data
    default = None if info.is_required() or takes_data else info.get_default(call_default_factory=True)
    if takes_data or default:
        return "its default is not empty, and a merge cannot see whether it applies"
    if name in entity.optional and (default is not None or info.is_required()):
        return "it may be stored as None, which has no members, and a merge cannot see that"
    return None


def _disputed(schema: Schema, entity: EntitySchema) -> dict[str, str]:
    """Why attributes cannot be merged that another entity of the table stores in another form."""
    reasons = {}
    for other in schema.entities.values():
        for name, stored in other.codec.stored.items():
            own = next((field for field, attribute in entity.codec.stored.items() if attribute == stored), None)
            if own is not None and (own in entity.columns) != (name in other.columns):
                reasons[stored] = f"{other.name}.{name} has the same stored name, and only one of the two is in Columns"
            elif own is not None and name in other.counters:
                reasons[stored] = f"{other.name}.{name} has the same stored name, and is a Counter"
    return reasons


def rules_of(context: Context, entity: EntitySchema) -> MergeRules:
    """The rules of an entity, computed once for each context; raises as `MergeRules.of`."""
    known = context.merge_rules.get(entity.tag)
    if known is None:
        known = context.merge_rules[entity.tag] = MergeRules.of(context.schema, entity)
    return known


class MergeWrite(Immutable):
    """A merge, as `odm.Store.explain` shows it."""

    target: Target
    request: req.Merge

    name = "merge"


def merge_write(context: Context, which: object, actions: Sequence[Action]) -> MergeWrite:
    """The merge of parts of one item, checked without a request.

    Raises:
        BadValue: the entity or an action cannot be merged, or a required field is not set.
        ItemTooLarge: the key is too long, or the merge writes more than an item can hold.
        Unsupported: the backend cannot write parts of the table's items without a read.
    """
    if context.merge_unsupported_reason is not None:
        raise Unsupported(f"table {context.schema.name!r}: {context.merge_unsupported_reason}")
    target = context.schema.target(which)
    context.check_key(target)
    entity = target.entity
    rules = rules_of(context, entity)
    check_actions(entity, actions, "merge")
    codec = entity.codec
    actions = codec.expand_actions(with_time(context, entity, actions))
    lowered, whole = codec.lower_actions(actions)
    rules.check(lowered)
    if whole is not None:
        raise BadValue(f"{entity.name}.{whole}, and a merge does not read the item: {_OTHERWISE}")
    for reason, _ in limits_of(entity, lowered):
        raise BadValue(f"{entity.name}: {reason}, which a merge cannot see: {_OTHERWISE}")
    marks = {codec.stored[name]: codec.value(name, target.values[name]) for name in entity.primary.fields}
    marks |= codec.marks
    check_written(lowered, {}, target, context.limits)
    tag = context.writes(entity).guard
    if context.limits.expressions and not merge_fits(len(lowered), len(marks)):
        starts = [SetIfMissing(Path((name,)), value) for name, value in marks.items()]
        check_update((*starts, *lowered), None if tag is None else over_own(tag))
    name = entity.primary.full_name
    return MergeWrite(target, req.Merge(target.key, lowered, marks, pattern=name, tag=tag, limits=context.limits))


def merge(context: Context, which: object, actions: Sequence[Action]) -> CoreGen[None]:
    """Write parts of one item, without a read.

    Raises:
        ItemInvalid: the key holds an item of another program, and the backend could see that.
    """
    write = merge_write(context, which, actions)
    answer = yield write.request
    if isinstance(answer, req.Refused):
        stranger = context.stranger(write.target, answer.item)
        assert stranger is not None  # it is the only reason to refuse a merge
        raise stranger


Given: TypeAlias = tuple[Entity | Query[Any] | Action, ...]
"""The arguments of a merge."""

_Cell: TypeAlias = tuple[tuple[str | int, ...], bool | None]


class Merging(Struct):
    """The merges of one item in a batch, as one request.

    The last action on a place wins; what is added to an aggregate is added to what the actions before it make of it.

    Attributes:
        first: the first of them.
    """

    first: req.Merge
    _actions: dict[_Cell, Action] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.add(self.first.actions)

    def add(self, actions: Sequence[Action]) -> None:
        """Add the actions of another merge, to be applied after the others."""
        for action in [self._joined(action) for action in actions]:  # it raises before anything is changed
            place = action.path.segments
            if isinstance(action, AddTo | DiscardFrom):
                self._add_members(place, action)
            else:
                self._actions[place, None] = action

    def _joined(self, action: Action) -> Action:
        if not isinstance(action, Increment | AddValue):
            return action
        earlier = self._actions.get((action.path.segments, None))
        return action if earlier is None else _added(earlier, action)

    def _add_members(self, place: tuple[str | int, ...], action: AddTo | DiscardFrom) -> None:
        adds = isinstance(action, AddTo)
        same, other = self._actions.get((place, adds)), self._actions.pop((place, not adds), None)
        if isinstance(same, AddTo | DiscardFrom):
            action = evolve(action, members=same.members | action.members)
        self._actions[place, adds] = action
        if isinstance(other, AddTo | DiscardFrom) and (remaining := other.members - action.members):
            self._actions[place, not adds] = evolve(other, members=remaining)

    @property
    def size(self) -> int:
        """The number of actions."""
        return len(self._actions)

    @property
    def request(self) -> req.Merge:
        """The merge of all actions."""
        return evolve(self.first, actions=tuple(self._actions.values()))


def _added(earlier: Action, action: Increment | AddValue) -> Action:
    """One action on an aggregate that has the effect of two.

    Raises:
        BadValue: the sum has more than 64 bits.
    """
    root = action.path.root
    match earlier:
        case Set(_, value):
            return Set(action.path, _whole(apply((action,), {root: value})[root], action))
        case Remove():
            return Set(action.path, apply((action,), {})[root])
        case Increment(_, by) if isinstance(action, Increment):
            return evolve(action, by=_whole(action.by + by, action))
        case AddValue(_, value) if isinstance(action, AddValue):
            return evolve(action, value=apply((action,), {root: value})[root])
    raise AssertionError(earlier)  # `MergeRules.check` refuses all others


def _whole(number: Any, action: Increment | AddValue) -> Any:
    if not -(2**63) <= number < 2**63:
        raise BadValue(f"{action.path}: the merges of one item add up to {number}, and an aggregate has 64 bits")
    return number


def merged_put(context: Context, target: Target, merge_: req.Merge, before: Item | None) -> req.Put:
    """The put of a batch with a merge applied to it.

    Args:
        context: the context of the store.
        target: the item.
        merge_: the merge.
        before: the item of the put; None: the batch deletes the item first.

    Raises:
        ItemTooLarge: the item is too large with the merge.
    """
    item = merged_item(merge_, before)
    check_item(item, merge_.key, {}, target.entity, context.limits, target.entity.local)
    return req.Put(merge_.key, item, pattern=merge_.pattern)
