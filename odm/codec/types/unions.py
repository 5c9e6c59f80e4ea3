"""Stored types that stand for others: ``X | None``, unions, root models and recursive aliases."""

from collections.abc import Callable, Iterable
from typing import Any, cast

from odm.codec.types.constraints import is_root
from odm.codec.types.containers import AnyType
from odm.codec.types.records import RecordType, can_tell_apart
from odm.codec.types.scalars import (
    BOOL,
    BYTES,
    DECIMAL,
    FLOAT,
    FLOAT_BESIDE_INT,
    INT,
    STR,
    DecimalType,
    EnumType,
    FixedDecimalType,
    LiteralType,
    NumberType,
)
from odm.codec.types.stored import NULL, ORDERED, TEXT, Part, StoredType, Unfit, WrongType, kind_of, unfit
from odm.expressions.nodes import Value
from odm.immutable import field, force_setattr


class Around(StoredType):
    """A type that stores what an inner type stores, but for what it overrides."""

    inner: StoredType

    def dump(self, value: Any) -> Value:
        return self.inner.dump(value)

    def load(self, value: Value) -> Any:
        return self.inner.load(value)

    def loose(self, value: Any) -> Value:
        return self.inner.loose(value)

    def lax(self) -> bool:
        return self.inner.lax()

    @property
    def ordered(self) -> bool:
        return self.inner.ordered

    def child(self, segment: str | int) -> Part:
        return self.inner.child(segment)

    @property
    def element(self) -> StoredType | None:
        return self.inner.element


class NullableType(Around):
    """The inner type, or None."""

    def dump(self, value: Any) -> Value:
        return None if value is None else self.inner.dump(value)

    def load(self, value: Value) -> Any:
        return None if value is None else self.inner.load(value)

    def loose(self, value: Any) -> Value:
        return None if value is None else self.inner.loose(value)


def nullable(inner: StoredType) -> NullableType:
    """The stored type of ``inner | None``."""
    return NullableType(f"{inner.text} | None", inner.kinds | NULL, inner)


class UnionType(StoredType):
    """One of several types, distinguished by the kind of the stored value, or, among models, by what they always store.

    `can_stand_together` proves that the members are distinguishable when the union is compiled.
    """

    members: tuple[StoredType, ...]

    @property
    def ordered(self) -> bool:
        return all(member.ordered for member in self.members if member.kinds & ORDERED)

    def dump(self, value: Any) -> Value:
        return self._first(lambda member: member.dump(value), value)

    def loose(self, value: Any) -> Value:
        try:
            return self.dump(value)
        except Unfit:
            return self._first(lambda member: member.loose(value), value)

    def _first(self, convert: Callable[[StoredType], Value], value: Any) -> Value:
        """The result of the first member that accepts the value; else raises the fault with the longest path."""
        deepest = unfit(self.text, value)
        for member in self.members:
            try:
                return convert(member)
            except Unfit as fault:
                deepest = max(deepest, fault, key=lambda f: (len(f.path), not isinstance(f, WrongType)))
        raise deepest

    def load(self, value: Value) -> Any:
        kind = kind_of(value)
        members = [member for member in self.members if kind in member.kinds]
        if len(members) == 1:
            return members[0].load(value)
        if kind == "M":
            return next((m.build(value) for m in members if isinstance(m, RecordType) and m.fits(value)), value)
        if kind == "N" and type(value) is not int:  # next to an int
            member = next((member for member in members if member != INT), FLOAT)
            return FLOAT.load(value) if member == FLOAT_BESIDE_INT else member.load(value)
        return value

    def lax(self) -> bool:
        return False  # pydantic might take the stored text of one member for another

    def child(self, segment: str | int) -> Part:
        parts: list[Part] = []
        fault = Unfit(f"is of type {self.text} and has no parts, so [{segment!r}] leads nowhere")
        for member in self.members:
            try:
                parts.append(member.child(segment))
            except Unfit as without:
                fault = without
        if not parts:
            raise fault
        if len({part.segment for part in parts}) > 1:
            raise Unfit(f"is of type {self.text}, whose members store {segment!r} under different names")
        if len(parts) == 1:
            return parts[0]
        required = any(part.required for part in parts)
        fixed = any(part.frozen for part in parts)
        return Part(parts[0].segment, union(part.type for part in parts), required=required, frozen=fixed)

    @property
    def element(self) -> StoredType | None:
        elements = [item_type for member in self.members if (item_type := member.element) is not None]
        return union(elements) if elements else None


def union(members: Iterable[StoredType]) -> StoredType:
    """The stored type of a union; its only member, when there is one."""
    different = tuple(dict.fromkeys(members))
    if INT in different:
        different = tuple(FLOAT_BESIDE_INT if member == FLOAT else member for member in different)
    if sum(isinstance(member, DecimalType) for member in different) > 1:  # of different places
        different = tuple(dict.fromkeys(DECIMAL if isinstance(member, DecimalType) else member for member in different))
    if len(different) == 1:
        return different[0]
    text = " | ".join(member.text for member in different)
    return UnionType(text, frozenset().union(*(member.kinds for member in different)), different)


def with_places(type_: StoredType, places: int) -> StoredType:
    """The type, whose Decimals read back with so many decimal places, or fewer if it says so already."""
    match type_:
        case NullableType():
            return nullable(with_places(type_.inner, places))
        case UnionType():
            return union(with_places(member, places) for member in type_.members)
        case DecimalType():
            return FixedDecimalType(type_.text, type_.kinds, min(places, getattr(type_, "places", places)))
    return type_


def can_stand_together(type_: StoredType, other: StoredType) -> bool:
    """Whether a stored value shows which of two types it is of, or reads back equal as either."""
    if not type_.kinds & other.kinds:
        return True
    if isinstance(type_, RecordType) and isinstance(other, RecordType):
        return can_tell_apart(type_, other)
    if isinstance(type_, NumberType) and isinstance(other, NumberType):
        return INT in {type_, other}  # float 0.1 and Decimal("0.1") are stored alike and are not equal
    return _says_its_type(type_) and _says_its_type(other)


def _says_its_type(type_: StoredType) -> bool:
    return type_ in {STR, INT, BYTES, BOOL} or (isinstance(type_, LiteralType) and type_.lax())


class RootType(Around):
    """A `pydantic.RootModel`, stored as its root.

    Attributes:
        opaque: its validators must get Python values.
    """

    cls: type[Any]
    opaque: bool

    def dump(self, value: Any) -> Value:
        if not is_root(type(value)) or type(value) is not self.cls:
            raise unfit(self.text, value)
        return self.inner.dump(value.root)

    loose = dump

    def lax(self) -> bool:
        return self.inner.lax() and not self.opaque


class AliasType(Around, eq=False):
    """A recursive type alias, used inside itself."""

    inner: StoredType = field(default=cast("StoredType", None), repr=False)

    def mean(self, type_: StoredType) -> None:
        """Set the type of the alias, once it is known."""
        force_setattr(self, "inner", type_)

    def lax(self) -> bool:
        return False


def bare(type_: StoredType) -> StoredType:
    """The type without ``| None``; for a root model or alias, the type inside."""
    while isinstance(type_, Around):
        type_ = type_.inner
    return type_


def member_of(type_: StoredType, kind: type[StoredType] | tuple[type[StoredType], ...]) -> StoredType | None:
    """The type, or the member of a union, of that class of stored types."""
    inner = bare(type_)
    members = inner.members if isinstance(inner, UnionType) else (inner,)
    return next((member for member in members if isinstance(member, kind)), None)


def text_of(type_: StoredType) -> StoredType | None:
    """`STR` or `BYTES` if values of the type are text or bytes, in Python and stored; the type itself for Any."""
    inner = bare(type_)
    if isinstance(inner, UnionType):
        return next((text for member in inner.members if (text := text_of(member)) is not None), None)
    if isinstance(inner, EnumType | LiteralType) and inner.kinds == TEXT:
        return STR
    return inner if inner in {STR, BYTES} or isinstance(inner, AnyType) else None
