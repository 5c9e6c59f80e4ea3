"""From the user's paths to stored paths; every segment is checked against the entity's types."""

from collections.abc import Callable
from typing import Any, Final

from pydantic import ValidationError

from odm.codec.absence import Absence, absences, gaps
from odm.codec.depth import LEVELS, converted
from odm.codec.places import PlaceRules
from odm.codec.types.compressed import parts_of
from odm.codec.types.containers import FixedTupleType
from odm.codec.types.records import RecordType
from odm.codec.types.stored import NOTHING, Part, StoredType, Unfit, show
from odm.codec.types.unions import bare
from odm.codec.types.validation import reasons
from odm.errors import BadValue
from odm.expressions.nodes import Path, Value
from odm.immutable import Immutable, field

LAST_POSITION: Final = 2**31 - 1
"""The largest list position in a path: DynamoDB's expressions take no larger one."""


KEY_BYTES: Final = 65_535
"""The most bytes of a key in a dict, which is DynamoDB's limit on attribute names in a map."""


COMPUTED: Final = (
    "is a computed field, which is not stored: name the fields that it is made of; a pattern that has it in its key "
    "takes its value"
)


def _leads_somewhere(segment: str | int) -> bool:
    if isinstance(segment, int):
        return segment <= LAST_POSITION
    return segment != "" and (4 * len(segment) <= KEY_BYTES or len(segment.encode(errors="replace")) <= KEY_BYTES)


class Slot(Immutable):
    """A segment of a path that no type declares: a position in a list, or a key of a dict.

    Attributes:
        at: its position in the path.
        holder: the type of what it leads into.
        keys: what pydantic validates in the keys; None: any text is a key as it is.
    """

    at: int
    holder: StoredType
    keys: PlaceRules | None


class Place(Immutable):
    """The target of a path.

    Attributes:
        path: by stored names, without an owner.
        type: its type.
        default: the default of the field, or `NOTHING`.
        factory: the default factory, if it needs no other fields; or None.
        required: an item without it could not be read.
        frozen: the field with ``frozen=True`` of a nested record that it is in, or None.
        rules: what pydantic validates there.
        parents: the rules of what holds it, from the field on.
        keeps_null: None is stored as NULL.
        slots: the segments in which other paths to a place of the same type may differ.
    """

    path: Path
    type: StoredType
    rules: PlaceRules
    default: Any = NOTHING
    required: bool = False
    factory: Callable[[], Any] | None = None
    frozen: Path | None = None
    parents: tuple[PlaceRules, ...] = ()
    keeps_null: bool = False
    slots: tuple[Slot, ...] = ()


class Resolver(Immutable):
    """Resolves paths of one entity.

    Attributes:
        record: the type of the entity.
        rules: what pydantic validates in each field.
        defaults: conditions count an absent attribute as the field's default.
        more: a stored model may have members that other programs wrote.
    """

    record: RecordType
    rules: Callable[[str], PlaceRules]
    defaults: bool = True
    more: bool = False
    # The places and absences of whole fields: most conditions are on these.
    _fields: dict[str, Place] = field(factory=dict)
    _of_fields: dict[str, list[Absence]] = field(factory=dict)

    @property
    def entity(self) -> str:
        """The entity's name, for messages."""
        return self.record.text

    def resolve(self, path: Path, *, writes: bool = False) -> Place:
        """The target of a path; keys of dicts are normalised as the model does.

        Raises:
            BadValue: the path is of another entity, names a part that does not exist, has more than 32 segments, or has
                a key or position that is too large; or, if the path ``writes``, the model refuses a key in it.
        """
        if path.owner is not None and not issubclass(self.record.cls, path.owner):
            raise BadValue(
                f"{path.owner.__name__}.{path} is a field of {path.owner.__name__}, not of {self.entity}: "
                f"use a field of {self.entity}"
            )
        root = path.root
        if (known := self._fields.get(root)) is None:
            known = self._fields[root] = self._resolve(Path((root,)))
        return known if len(path.segments) == 1 else self._resolve(path, writes=writes)

    def absences(self, path: Path) -> list[Absence]:
        """The ways in which the value at a path can be absent while the entity shows one."""
        known = self._of_fields.get(path.root) if len(path.segments) == 1 else None
        if known is not None:
            return known
        place = self.resolve(path)
        of_path = absences(gaps(self.record, path, place.type, defaults=self.defaults), place.path)
        if len(path.segments) == 1 and self.record.fields[path.root].factory is None:
            self._of_fields[path.root] = of_path
        return of_path

    def _resolve(self, path: Path, *, writes: bool = False) -> Place:
        if len(path.segments) > LEVELS:
            raise BadValue(
                f"{self.entity}.{path}: a path has at most {LEVELS} segments, as items have {LEVELS} levels at most"
            )
        type_: StoredType = self.record
        default: Any = NOTHING
        required = False
        factory: Callable[[], Any] | None = None
        fixed: Path | None = None
        keeps_null = False
        segments: list[str | int] = []
        slots: list[Slot] = []
        rules: PlaceRules | None = None
        parents: list[PlaceRules] = []
        if (known := self._fields.get(path.root)) is not None:
            type_, segments, rules = known.type, [known.path.root], known.rules
        for position, segment in enumerate(path.segments[len(segments) :], len(segments)):
            keys = None if rules is None else rules.keys
            part = self._part(type_, keys, path, position, writes=writes)
            if position and not isinstance(bare(type_), RecordType | FixedTupleType):
                slots.append(Slot(position, type_, keys))
            segments.append(part.segment)
            if rules is None:
                rules = self.rules(str(segment))
            else:
                parents.append(rules)
                rules = rules.child(segment)
            if part.frozen and position:
                fixed = fixed or Path(path.segments[: position + 1])
            type_, default, required, factory = part.type, part.default, part.required, part.factory
            keeps_null = part.keeps_null
        assert rules is not None  # a path has a segment
        stored, above, those = Path(tuple(segments)), tuple(parents), tuple(slots)
        return Place(stored, type_, rules, default, required, factory, fixed, above, keeps_null, those)

    def stored(self, place: Place, path: Path, *, writes: bool = False) -> Path:
        """The stored path of a path that differs from that of the place in its slots only.

        Raises:
            BadValue: a key or position in it is too large, or the key is not of the type of the keys; or, if the path
                ``writes``, the model refuses a key in it.
        """
        segments = list(place.path.segments)
        for slot in place.slots:
            segments[slot.at] = self._part(slot.holder, slot.keys, path, slot.at, writes=writes).segment
        return Path(tuple(segments))

    def _part(
        self, holder: StoredType, keys: PlaceRules | None, path: Path, position: int, *, writes: bool = False
    ) -> Part:
        """The part of a holder that the segment of a path names."""
        segment = path.segments[position]
        if not _leads_somewhere(segment):
            why = (
                f"[{show(segment)}] leads nowhere: a key has 1 to {KEY_BYTES} bytes, and a position is at most "
                f"{LAST_POSITION}"
            )
            raise self.fault(Path(path.segments[:position]), why)
        if keys is not None:
            segment = self._key(keys, path, position, writes=writes)
        try:
            return holder.child(segment)
        except Unfit as unfit:
            if not position and segment in getattr(self.record.cls, "model_computed_fields", ()):
                raise self.fault(Path((segment,)), COMPUTED) from None
            unfit.path = path.segments[:position]
            raise unfit.bad_value(self.entity) from None

    def _key(self, keys: PlaceRules, path: Path, position: int, *, writes: bool) -> str | int:
        """The key of a dict as the model stores it."""
        key = path.segments[position]
        try:
            normal = keys.validate(key) if writes else keys.normalise(key)
        except ValidationError as error:
            why = f"the key {show(key)} is refused: {reasons(error, 1)}"
            raise self.fault(Path(path.segments[:position]), why) from error
        return normal if isinstance(normal, str) else key  # keys of another type are converted by their stored type

    def convert(self, path: Path, convert: Callable[[Any], Value], value: Any, *, below: int = 0) -> Value:
        """The stored form of a value for the path, or for ``below`` levels under it.

        Raises:
            BadValue: the value does not fit; the message names entity, path and value.
        """
        try:
            return converted(convert, value, len(path.segments) + below)
        except Unfit as unfit:
            unfit.path = (*path.segments, *unfit.path)
            raise unfit.bad_value(self.entity) from None

    def fault(self, path: Path, reason: str) -> BadValue:
        """The error for the value at a path."""
        return BadValue(f"{self.entity}.{path}: {reason}")

    def refusal(self, reason: str) -> BadValue:
        """The error for a condition as a whole."""
        return BadValue(f"{self.entity}: {reason}")


def declared_segments(record: RecordType) -> frozenset[str | int]:
    """The segments of paths, at any depth, that a type declares: names of fields, and positions in fixed tuples.

    They decide of what type the part is; other segments are keys and positions, and all parts that they name in one
    container have one type.
    """
    declared: set[str | int] = set()
    for part in parts_of(record):
        if isinstance(part, RecordType):
            declared.update(part.fields)
        elif isinstance(part, FixedTupleType):
            declared.update(range(len(part.items)))
    return frozenset(declared)
