"""From the user's paths to stored paths; every segment is checked against the entity's types."""

from collections.abc import Callable
from typing import Any, Final

from attrs import frozen

from odm.codec.depth import LEVELS, converted
from odm.codec.faults import NOTHING, Unfit
from odm.codec.records import RecordType
from odm.codec.stored import StoredType
from odm.errors import BadValue
from odm.expressions.nodes import Path, Value

LAST_POSITION: Final = 2**31 - 1
"""The largest list position in a path: DynamoDB's expressions take no larger one."""


@frozen
class Place:
    """The target of a path.

    Attributes:
        path: by stored names, without an owner.
        type: its type.
        default: the default of the field, or `NOTHING`.
        factory: the default factory, if it needs no other fields; or None.
        required: an item without it could not be read.
    """

    path: Path
    type: StoredType
    default: Any = NOTHING
    required: bool = False
    factory: Callable[[], Any] | None = None


@frozen
class Resolver:
    """Resolves paths of one entity."""

    record: RecordType

    @property
    def entity(self) -> str:
        """The entity's name, for messages."""
        return self.record.text

    def resolve(self, path: Path) -> Place:
        """The target of a path.

        Raises:
            BadValue: the path is of another entity, names a part that does not exist, has more than 32 segments, or has
                a position that is too large.
        """
        if path.owner is not None and not issubclass(self.record.cls, path.owner):
            raise BadValue(
                f"{path.owner.__name__}.{path} is a field of {path.owner.__name__}, not of {self.entity}: "
                f"use a field of {self.entity}"
            )
        if len(path.segments) > LEVELS:
            raise BadValue(
                f"{self.entity}.{path}: a path has at most {LEVELS} segments, as items have {LEVELS} levels at most"
            )
        type_: StoredType = self.record
        default: Any = NOTHING
        required = False
        factory: Callable[[], Any] | None = None
        segments: list[str | int] = []
        for position, segment in enumerate(path.segments):
            if segment == "" or (isinstance(segment, int) and segment > LAST_POSITION):
                why = f"[{segment!r}] leads nowhere: a key is not empty, and a position is at most {LAST_POSITION}"
                raise self.fault(Path(path.segments[:position]), why)
            try:
                part = type_.child(segment)
            except Unfit as unfit:
                unfit.path = path.segments[:position]
                raise unfit.bad_value(self.entity) from None
            segments.append(part.segment)
            type_, default, required, factory = part.type, part.default, part.required, part.factory
        return Place(Path(tuple(segments)), type_, default, required, factory)

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
