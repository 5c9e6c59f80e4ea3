"""Stored types with named fields: models and dataclasses, as a dict by stored field names.

The entity itself is a record too: `EntityCodec` adds what only entities have. Not stored: None if the field's default
is None, and empty sets. An absent set reads as empty.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final

from pydantic import ValidationError
from pydantic_core import SchemaValidator

from odm.codec.types.scalars import LiteralType
from odm.codec.types.stored import NOTHING, SET, Part, StoredType, Unfit, kind_of, nearest, unfit
from odm.codec.types.validation import validated
from odm.expressions.nodes import Value
from odm.immutable import Immutable, field

_NO_SET: Final = frozenset[Any]()
_EMPTY: Final = (set, frozenset)


class RecordField(Immutable):
    """One field of a record.

    Attributes:
        stored: the name it is stored under.
        default: its default, or `NOTHING`.
        required: the class has neither default nor default factory for it.
        factory: its default factory, unless that needs the other fields.
        early: user code runs before pydantic's own validation and must get the Python value.
        frozen: the field has ``frozen=True``.
        keeps_null: None is stored as NULL, and as absence if the field was not set.
    """

    name: str
    stored: str
    type: StoredType
    default: Any = NOTHING
    required: bool = True
    early: bool = True
    factory: Callable[[], Any] | None = None
    frozen: bool = False
    keeps_null: bool = False

    @property
    def omits_none(self) -> bool:
        """None is stored as absence, at least where the field was not set."""
        return self.default is None

    @property
    def is_set(self) -> bool:
        """An empty value is stored as absence."""
        return self.type.kinds == SET

    @property
    def always(self) -> bool:
        """Every stored record has it."""
        return not self.omits_none and not self.is_set

    @property
    def fills_in(self) -> bool:
        """If absent, validation gets the empty set, because the field's default is not known to be the empty set."""
        return self.is_set and self.factory not in _EMPTY and self.default != _NO_SET

    @property
    def load(self) -> Callable[[Value], Any] | None:
        """Makes the input of validation; None: that is the stored form."""
        return None if self.type.lax() and not self.early else self.type.load


class RecordType(StoredType, eq=False, dict=True):
    """A class with named fields. Its fields are filled in after it is made, because they may lead back to it.

    Attributes:
        values: returns the values of an instance by field name.
        validator: pydantic's validator of the class.
        opaque: validation must not get the stored dict itself: user code sees it, or unknown keys matter.
    """

    cls: type[Any]
    values: Callable[[Any], Mapping[str, Any]]
    validator: SchemaValidator
    opaque: bool
    fields: dict[str, RecordField] = field(factory=dict)
    _dumps: list[tuple[str, str, Callable[[Any], Value], bool, bool, bool]] = field(factory=list)
    _loads: list[tuple[str, str, Callable[[Value], Any] | None, bool]] = field(factory=list)

    def fill(self, fields: Mapping[str, RecordField]) -> None:
        """Set the fields, once."""
        self.fields.update(fields)
        self._dumps.extend(
            (f.name, f.stored, f.type.dump, f.omits_none, f.is_set, f.keeps_null) for f in fields.values()
        )
        self._loads.extend([(f.name, f.stored, f.load, f.fills_in) for f in fields.values()])

    def lax(self) -> bool:
        # While not filled, which is inside itself, False is always right.
        return (
            bool(self._loads)
            and not self.opaque
            and all(name == stored and load is None and not fills_in for name, stored, load, fills_in in self._loads)
        )

    def dump(self, value: Any) -> dict[str, Value]:
        if type(value) is not self.cls:
            raise unfit(self.text, value)
        values = self.values(value)
        stored: dict[str, Value] = {}
        name = ""
        try:
            for name, stored_name, dump, omits_none, is_set, keeps_null in self._dumps:
                part = values[name]
                absent = (part is None and omits_none) or (is_set and part == _NO_SET)
                if absent and not (keeps_null and name in value.__pydantic_fields_set__):
                    continue
                stored[stored_name] = dump(part)
        except Unfit as fault:
            raise fault.under(name) from None
        except KeyError:
            raise Unfit("has no value: it was left out when the object was built without validation").under(
                name
            ) from None
        return stored

    def load(self, value: Value) -> Any:
        return self.input(value) if type(value) is dict else value

    def input(self, item: Mapping[str, Value]) -> dict[str, Any]:
        """The input of validation for a stored record: known fields only, by field name."""
        values: dict[str, Any] = {}
        for name, stored, load, fills_in in self._loads:
            if stored in item:
                part = item[stored]
                values[name] = part if load is None else load(part)
            elif fills_in:
                values[name] = set()
        return values

    def build(self, item: Mapping[str, Value]) -> Any:
        """An instance from a stored record; the input of validation if it does not validate."""
        values = self.input(item)
        try:
            return validated(self.validator, values)
        except ValidationError:
            return values

    def child(self, segment: str | int) -> Part:
        record_field = self.fields.get(segment) if isinstance(segment, str) else None
        if record_field is None:
            raise Unfit(f"has no field {segment!r}: {nearest(str(segment), self.fields)}")
        required = record_field.required and not record_field.is_set
        return Part(
            record_field.stored,
            record_field.type,
            record_field.default,
            required,
            record_field.factory,
            record_field.frozen,
            record_field.keeps_null,
        )

    def fits(self, item: Mapping[str, Value]) -> bool:
        """Whether this is a stored record of this class, and not of another class that is distinguishable from it."""
        by_stored = {f.stored: f for f in self.fields.values()}
        return item.keys() <= by_stored.keys() and all(
            name in item and _can_hold(f.type, item[name]) for name, f in by_stored.items() if f.always
        )


def can_tell_apart(record: RecordType, other: RecordType) -> bool:
    """Whether no stored record fits both classes: one always stores a value that the other never stores."""
    return _differs(record, other) or _differs(other, record)


def _differs(record: RecordType, other: RecordType) -> bool:
    theirs = {f.stored: f for f in other.fields.values()}
    for mine in record.fields.values():
        if not mine.always:
            continue
        twin = theirs.get(mine.stored)
        if twin is None or (twin.always and _are_disjoint(mine.type, twin.type)):
            return True
    return False


def _are_disjoint(type_: StoredType, other: StoredType) -> bool:
    if isinstance(type_, LiteralType) and isinstance(other, LiteralType):
        return not type_.loaded.keys() & other.loaded.keys()
    return not type_.kinds & other.kinds


def _can_hold(type_: StoredType, value: Value) -> bool:
    if isinstance(type_, LiteralType):
        return (type(value), value) in type_.loaded
    return kind_of(value) in type_.kinds
