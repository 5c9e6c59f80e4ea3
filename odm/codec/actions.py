"""Lowers actions: checks values, replaces names by stored names, and updates ``_ttl`` with the TTL field.

Each value goes through the validator of its place: a field, a member of a nested model, an element, a value of a dict.
The result of some actions can only be judged with the rest of the item (`ActionLowering.judged_whole`); the update then
reads the item.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from collections.abc import Set as AbstractSet
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias, assert_never

from pydantic import ValidationError

from odm.codec.attributes import TTL_ATTRIBUTE, ttl_seconds
from odm.codec.paths import Place, Resolver
from odm.codec.places import PlaceRules
from odm.codec.types.blobs import BlobType
from odm.codec.types.containers import AnyType, DictType, ListType, SetType
from odm.codec.types.records import RecordType
from odm.codec.types.scalars import IntType, NumberType
from odm.codec.types.stored import NOTHING, StoredType, nearest, show
from odm.codec.types.times import DurationType
from odm.codec.types.unions import UnionType, bare, member_of
from odm.codec.types.validation import reasons
from odm.entities.blobs import LazyBytes
from odm.errors import BadValue
from odm.expressions.nodes import (
    Action,
    AddTo,
    AddValue,
    Append,
    DiscardFrom,
    Increment,
    Number,
    Path,
    Prepend,
    Remove,
    Set,
    SetIfMissing,
    Value,
)
from odm.immutable import Immutable, evolve, field

FROZEN: Final = (
    "is frozen (frozen=True of the field), so it cannot be changed in a stored item: put() the whole entity to replace "
    "the item, or leave frozen=True out"
)


WORDS: Final[Mapping[type[Action], str]] = {
    Set: "set",
    SetIfMissing: "set if missing",
    Remove: "remove",
    Increment: "increment",
    Append: "append to",
    Prepend: "prepend to",
    AddTo: "add to",
    DiscardFrom: "discard from",
    AddValue: "add a value to",
}
"""What each action does, for `Store.explain`."""


class ActionLowering(Immutable):
    """Lowers the actions of one entity.

    Attributes:
        validate: runs a field's own validator.
        ttl: the field marked `odm.TTL`, or None.
        aggregates: the fields that values can be added to, and what becomes of them.
        emptied: the dicts that are always there on Bigtable: to remove one is to empty it.
    """

    resolver: Resolver
    validate: Callable[[str, Any], Any]
    ttl: str | None = None
    aggregates: Mapping[str, Literal["sum", "min", "max", "hll"]] = field(factory=dict)
    emptied: frozenset[str] = frozenset()

    def expand(self, actions: Sequence[Action]) -> tuple[Action, ...]:
        """The actions, with a Set for each member that the dicts of `odm.set_fields` name in a nested model.

        Raises:
            BadValue: a dict names a member that its model does not have.
        """
        return tuple(part for action in actions for part in self._members_named(action))

    def _members_named(self, action: Action) -> Iterator[Action]:
        if not isinstance(action, Set) or not action.nested:
            yield action
            return
        record = _record(self.resolver.resolve(action.path, writes=True).type)
        if record is None or not isinstance(action.value, Mapping):
            yield evolve(action, nested=len(action.path.segments) > 1)
            return
        for name, value in action.value.items():
            if name not in record.fields:
                raise self.resolver.fault(action.path, f"has no field {name!r}: {nearest(str(name), record.fields)}")
            path = Path((*action.path.segments, name), action.path.owner)
            yield from self._members_named(Set(path, value, nested=True))

    def created(self, path: Path, sets: Sequence[Set]) -> Value:
        """The stored form of a nested model that is not stored yet: its default with these members.

        Args:
            path: the model's, as the user writes it.
            sets: the members, of which it is a parent; not lowered.

        Raises:
            BadValue: the model refuses it, such as for a required member that is not among them.
        """
        place = self.resolver.resolve(path, writes=True)
        default = place.default if place.factory is None else place.factory()
        values = _with_members(
            place.type, default, [(action.path.segments[len(path.segments) :], action.value) for action in sets]
        )
        return self.resolver.convert(path, place.type.dump, self._checked(sets[0], place.rules, place.type, values))

    def compiled(self, actions: Sequence[Action]) -> "CompiledActions":
        """What the fields and kinds of actions decide: their places, and whether they can stand in one update.

        Raises:
            BadValue: a path leads nowhere or to a frozen field, or two actions touch the same place.
        """
        places = [self._place(action) for action in actions]
        check_overlap(self.resolver.entity, actions, places)
        expiries = tuple(at for at, action in enumerate(actions) if action.path.root == self.ttl)
        lowers = [self._lower_of(action) for action in actions]
        slotted = any(place.slots for place in places)
        whole = _judged_whole(actions, places)
        return CompiledActions(self, tuple(places), tuple(lowers), expiries, slotted, whole)

    def lower(self, action: Action) -> Action:
        """The action over stored names and values.

        Raises:
            BadValue: the path leads nowhere, the value does not fit, or the field cannot take the action.
        """
        place = self._place(action)
        return self._lower_of(action)(action, place)

    def _place(self, action: Action) -> Place:
        place = self.resolver.resolve(action.path, writes=True)
        if place.frozen is not None:
            raise self.resolver.fault(place.frozen, FROZEN)
        return place

    def _lower_of(self, action: Action) -> "Lower":
        """What lowers actions of this kind."""
        match action:
            case Set():
                return self._set
            case SetIfMissing():
                return self._set_if_missing
            case Remove():
                return self._remove
            case Increment():
                return self._increment
            case Append() | Prepend():
                return self._extend
            case AddTo() | DiscardFrom():
                return self._change_members
            case AddValue():
                return self._add_value
            case _:
                assert_never(action)

    def _set(self, action: Set | SetIfMissing, place: Place) -> Set | Remove:
        if len(action.path.segments) == 1:
            value = self.validate(action.path.root, action.value)
        else:
            value = self._checked(action, place.rules, place.type, action.value)
        if isinstance(value, LazyBytes) and value.pointer is not None:
            why = "the value is in the blob of an item, and a blob is never shared: set the bytes, value.read()"
            raise self.resolver.fault(action.path, why)
        if (value is None and place.default is None and not place.keeps_null) or (
            not value and isinstance(place.type, SetType)
        ):
            return Remove(place.path)
        nested = isinstance(action, Set) and action.nested
        return Set(place.path, self.resolver.convert(action.path, place.type.dump, value), nested)

    def _set_if_missing(self, action: SetIfMissing, place: Place) -> SetIfMissing:
        if isinstance(bare(place.type), BlobType):
            raise self.resolver.fault(action.path, "may be kept in a blob: set_() it, with when=missing(...)")
        done = self._set(action, place)
        if isinstance(done, Remove):
            why = (
                f"set_if_missing with {action.value!r} stores nothing, because that is stored as absence: leave it out"
            )
            raise self.resolver.fault(action.path, why)
        return SetIfMissing(done.path, done.value)

    def _checked(self, action: Action, rules: PlaceRules, type_: StoredType, value: Any) -> Any:
        """The value as the model holds it at a place, or in a list or set there."""
        try:
            return rules.validate(value)
        except ValidationError as error:
            self.resolver.convert(action.path, type_.dump, value)  # it words the fault of a value of another type
            why = f"{show(value)} is refused: {reasons(error, 1)}"
            raise self.resolver.fault(action.path, why) from error
        except KeyError as error:
            why = f"its validator looks up the field {error}, which is not there: use info.data.get(...) in it"
            raise self.resolver.fault(action.path, why) from error

    def _remove(self, action: Remove, place: Place) -> Remove | Set:
        if action.path.segments[1:] == () and action.path.root in self.emptied:
            return self._set(Set(action.path, {}), place)
        if place.required:
            why = "is required, so an item without it could not be read: set it instead, or give the field a default"
            raise self.resolver.fault(action.path, why)
        if not place.rules.missing_fits:
            why = "has a default that the model refuses, so an item without it could not be read: set it instead"
            raise self.resolver.fault(action.path, why)
        return Remove(place.path)

    def _increment(self, action: Increment, place: Place) -> Increment:
        type_ = bare(place.type)
        if not _is_number(type_):
            raise self.resolver.fault(
                action.path, f"is of type {place.type.text}, and only a number can be incremented"
            )
        convert = type_.dump if isinstance(type_, IntType) else type_.loose
        by = self.resolver.convert(action.path, convert, action.by)
        start = self._default(action, place, (int, Decimal))
        return Increment(place.path, _number(self.resolver, action.path, by), start)

    def _add_value(self, action: AddValue, place: Place) -> AddValue | Increment:
        path, kind = action.path, self.aggregates.get(action.path.root)
        if kind is None or len(path.segments) > 1:
            why = "takes no added values: mark the field with Sum, Min or Max, as in Annotated[int, Sum] = 0"
            raise self.resolver.fault(path, why)
        if kind == "sum":
            return self._increment(Increment(path, action.value), place)
        value = self.resolver.convert(path, place.type.dump, self.validate(path.root, action.value))
        if value is None:
            raise self.resolver.fault(path, "None is not a number to add; to empty the field, remove it")
        return AddValue(place.path, value, "min" if kind == "min" else "max")

    def _default(self, action: Action, place: Place, kind: Any) -> Any:
        """The number or list to start from if the field is absent: its default, which reads return; else 0 or []."""
        default = place.default if place.factory is None else place.factory()
        start = None if default is NOTHING else default
        if start is not None:
            start = self.resolver.convert(action.path, place.type.dump, start)
        return start if isinstance(start, kind) and not isinstance(start, bool) else kind() if kind is list else 0

    def _extend(self, action: Append | Prepend, place: Place) -> Append | Prepend:
        return type(action)(place.path, self._elements(action, place), tuple(self._default(action, place, list)))

    def _change_members(self, action: AddTo | DiscardFrom, place: Place) -> AddTo | DiscardFrom:
        return type(action)(place.path, self._members(action, place))

    def _elements(self, action: Append | Prepend, place: Place) -> tuple[Value, ...]:
        member = member_of(place.type, (ListType, AnyType))
        if member is None or member.element is None:
            raise self.resolver.fault(action.path, f"is of type {place.type.text}, and only a list can be appended to")
        if not action.values:
            raise self.resolver.fault(action.path, "there is nothing to append: give at least one value")
        element = member.element
        try:
            rules = place.rules.elements
            values = [self._checked(action, rules, element, value) for value in action.values]
            return tuple(self.resolver.convert(action.path, element.dump, value, below=1) for value in values)
        except BadValue as refused:
            if not any(isinstance(value, list | tuple) for value in action.values):
                raise
            function = type(action).__name__.lower()
            raise BadValue(f"{refused}; elements are given one by one, as in {function}(field, *values)") from None

    def _members(self, action: AddTo | DiscardFrom, place: Place) -> frozenset[Value]:
        member = member_of(place.type, (SetType, AnyType))
        if member is None:
            why = f"is of type {place.type.text}, and only a set has members to add or to discard"
            raise self.resolver.fault(action.path, why)
        if not action.members:
            raise self.resolver.fault(action.path, "there are no members to add or to discard: give at least one")
        rules = place.rules.elements
        element = member.element or member
        values = frozenset(self._checked(action, rules, element, value) for value in action.members)
        members: frozenset[Value] = self.resolver.convert(action.path, member.dump, values)
        return members

    def expiry(self, action: Action, lowered: Action) -> Action:
        """The action on ``_ttl`` that an action on the TTL field needs."""
        path = Path((TTL_ATTRIBUTE,))
        if isinstance(lowered, Remove) or (isinstance(lowered, Set) and lowered.value is None):
            return Remove(path)
        if isinstance(lowered, Set):
            return Set(path, ttl_seconds(self.resolver.resolve(action.path).type.load(lowered.value)))
        raise self.resolver.fault(action.path, "is the TTL field, and can only be set or removed as a whole")


Lower: TypeAlias = Callable[[Any, Place], Action]
"""Lowers an action of one kind at its place. Any: which kind, the shape of the actions says."""


class CompiledActions(Immutable):
    """The actions of one update without their values.

    Attributes:
        of: lowers the actions of the entity.
        places: their places.
        lowers: what lowers each.
        expiries: the positions of those on the TTL field, each of which adds one on ``_ttl``.
        slotted: some of their paths have keys or positions, which belong to the values.
        whole: the action whose result can only be judged with the whole item, and why; None if the values decide,
            together with conditions on lengths and bounds.
    """

    of: ActionLowering
    places: tuple[Place, ...]
    lowers: tuple[Lower, ...]
    expiries: tuple[int, ...]
    slotted: bool
    whole: tuple[int, str] | None

    def bound(self, actions: Sequence[Action]) -> "CompiledActions | None":
        """These actions with the keys and positions in the paths of some; None if they are to be compiled for these.

        Raises:
            BadValue: a key or position leads nowhere, or two actions touch the same place.
        """
        resolver = self.of.resolver
        places = [
            evolve(place, path=resolver.stored(place, action.path, writes=True)) if place.slots else place
            for place, action in zip(self.places, actions, strict=True)
        ]
        if len(places) > 1:
            check_overlap(resolver.entity, actions, places)
            if _judged_whole(actions, places) != self.whole:  # others of them have one holder
                return None
        return CompiledActions(self.of, tuple(places), self.lowers, self.expiries, False, self.whole)

    def why(self, actions: Sequence[Action]) -> str | None:
        """Why the result of these actions can only be judged with the whole item; None: it need not."""
        return None if self.whole is None else f"{actions[self.whole[0]].path}: {self.whole[1]}"

    def stages(self, actions: Sequence[Action]) -> list[str]:
        """What the actions do, in words; "?" stands for keys and positions in their paths."""
        texts = []
        for action, place in zip(actions, self.places, strict=True):
            slots = {slot.at for slot in place.slots}
            behind = enumerate(action.path.segments[1:], 1)
            path = "".join("[?]" if at in slots else f".{segment}" for at, segment in behind)
            texts.append(f"{WORDS[type(action)]} {action.path.root}{path}")
        return texts

    def lower(self, actions: Sequence[Action]) -> tuple[Action, ...]:
        """Actions of this shape over stored names and values.

        Raises:
            BadValue: a value does not fit, or a field cannot take the action.
        """
        if len(actions) == 1 and not self.expiries:
            return (self.lowers[0](actions[0], self.places[0]),)
        lowered = [lower(action, place) for lower, action, place in zip(self.lowers, actions, self.places, strict=True)]
        expiries = [self.of.expiry(actions[at], lowered[at]) for at in self.expiries]
        return (*lowered, *expiries)


def shape_of_actions(actions: Sequence[Action], declared: AbstractSet[str | int]) -> tuple[object, ...] | None:
    """The shape of actions, which is their kinds and fields; None if there is something else than an action.

    Args:
        actions: the actions, expanded.
        declared: the segments of paths that the model declares; others are keys and positions, which belong to the
            values.
    """
    shape: list[object] = []
    for action in actions:
        if not isinstance(action, Action):
            return None
        segments = action.path.segments
        shape += (type(action), segments[0], action.path.owner)
        if len(segments) > 1:
            behind = [segment if segment in declared else type(segment) for segment in segments[1:]]
            shape += (type(action) is Set and action.nested, *behind)
        if type(action) is AddTo or type(action) is DiscardFrom:
            shape.append(len(action.members) > 1)  # several can change the length by more than one
    return tuple(shape)


def check_overlap(entity: str, actions: Sequence[Action], places: Sequence[Place]) -> None:
    """Raise BadValue if two actions touch the same place."""
    taken: dict[tuple[str | int, ...], Path] = {}
    for action, place in zip(actions, places, strict=True):
        segments = place.path.segments
        if segments in taken:
            raise _overlap(entity, taken[segments], action.path)
        taken[segments] = action.path
    for action, place in zip(actions, places, strict=True):
        segments = place.path.segments
        for length in range(1, len(segments)):
            if segments[:length] in taken:
                raise _overlap(entity, taken[segments[:length]], action.path)


def _overlap(entity: str, path: Path, other: Path) -> BadValue:
    return BadValue(
        f"the actions on {entity}.{path} and {entity}.{other} touch the same place, so their order would matter: "
        "make one action of them, or two updates"
    )


def _judged_whole(actions: Sequence[Action], places: Sequence[Place]) -> tuple[int, str] | None:
    """The action whose result can only be judged with the whole item, and why; None: all can be judged without."""
    changed: set[tuple[str | int, ...]] = set()  # the lists and dicts of limited length that lose or get a member
    for at, (action, place) in enumerate(zip(actions, places, strict=True)):
        rules = place.rules
        match action:
            case Set() | SetIfMissing() | Remove():
                reason = rules.whole
                if place.parents and place.parents[-1].limited:
                    held = place.path.segments[:-1]
                    if held in changed:
                        reason = reason or "the length of what holds it is limited, and several actions change it"
                    changed.add(held)
            case Increment() | AddValue():
                reason = rules.sum
            case Append() | Prepend():
                reason = rules.inside
                if not rules.default_fits:
                    reason = reason or "its default, to which elements may be added, does not fit the model"
            case AddTo() | DiscardFrom():
                reason = rules.inside
                if len(action.members) > 1 and rules.limited:
                    reason = reason or "its length is limited, and several members change it"
            case _:
                assert_never(action)
        if reason is not None:
            return at, reason
    return None


def _record(type_: StoredType) -> RecordType | None:
    """The model that values of the type are of; None if they may be dicts, or of several models."""
    inner = bare(type_)
    members = inner.members if isinstance(inner, UnionType) else (inner,)
    records = [member for member in members if isinstance(member, RecordType)]
    others = any(isinstance(member, DictType | AnyType) for member in members)
    return records[0] if len(records) == 1 and not others else None


def _with_members(
    type_: StoredType, start: Any, members: Sequence[tuple[tuple[str | int, ...], Any]]
) -> dict[str, Any]:
    """The values of a model by field name: those of an instance, if there is one, with these members."""
    record = _record(type_)
    assert record is not None  # `ActionLowering.expand` names members of models only
    values = dict(record.values(start)) if type(start) is record.cls else {}
    deeper: dict[str, list[tuple[tuple[str | int, ...], Any]]] = {}
    for (name, *rest), value in members:
        if rest:
            deeper.setdefault(str(name), []).append((tuple(rest), value))
        else:
            values[str(name)] = value
    for name, inner in deeper.items():
        field = record.fields[name]
        default = field.default if field.factory is None else field.factory()
        values[name] = _with_members(field.type, values.get(name, default), inner)
    return values


def _is_number(type_: StoredType) -> bool:
    if isinstance(type_, UnionType):
        return all(_is_number(member) for member in type_.members)
    return isinstance(type_, NumberType | DurationType | AnyType)


def _number(resolver: Resolver, path: Path, value: Value) -> Number:
    """The value as a number; a field of type Any does not check that."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        raise resolver.fault(path, f"{value!r} is not a number to increment by")
    return value
