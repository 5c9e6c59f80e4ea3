"""From the user's paths to stored paths; every segment is checked against the entity's types."""

from collections.abc import Callable
from typing import Any, Final

from attrs import Factory
from pydantic import ValidationError

from odm.codec.absence import Absence, absences
from odm.codec.depth import LEVELS, converted
from odm.codec.faults import NOTHING, Unfit, show
from odm.codec.places import PlaceRules
from odm.codec.records import RecordType
from odm.codec.stored import StoredType
from odm.codec.validation import reasons
from odm.errors import BadValue
from odm.expressions.nodes import Path, Value
from odm.immutable import frozen

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


@frozen
class Place:
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


@frozen
class Resolver:
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
    _fields: dict[str, Place] = Factory(dict)
    _of_fields: dict[str, list[Absence]] = Factory(dict)

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
        found = absences(self.record, path, place.path, place.type, defaults=self.defaults)
        if len(path.segments) == 1 and self.record.fields[path.root].factory is None:
            self._of_fields[path.root] = found
        return found

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
        rules: PlaceRules | None = None
        parents: list[PlaceRules] = []
        if (known := self._fields.get(path.root)) is not None:
            type_, segments, rules = known.type, [known.path.root], known.rules
        for position, segment in enumerate(path.segments[len(segments) :], len(segments)):
            if not _leads_somewhere(segment):
                why = (
                    f"[{show(segment)}] leads nowhere: a key has 1 to {KEY_BYTES} bytes, and a position is at most "
                    f"{LAST_POSITION}"
                )
                raise self.fault(Path(path.segments[:position]), why)
            if rules is not None and rules.keys is not None:
                segment = self._key(rules.keys, path, position, writes=writes)  # noqa: PLW2901  # the normalised one
            try:
                part = type_.child(segment)
            except Unfit as unfit:
                if not position and segment in getattr(self.record.cls, "model_computed_fields", ()):
                    raise self.fault(Path((segment,)), COMPUTED) from None
                unfit.path = path.segments[:position]
                raise unfit.bad_value(self.entity) from None
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
        return Place(Path(tuple(segments)), type_, rules, default, required, factory, fixed, tuple(parents), keeps_null)

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
