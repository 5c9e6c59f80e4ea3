"""The normal form of an entity's Decimals: what a read returns after the entity is stored.

Equal numbers are stored alike (`odm.codec.types.numbers`), so 4.90 reads back as 4.9, or as 4.90 if the field has two
``decimal_places``. A put returns the entity with the same Decimals, so that it prints what a read prints. Types without
Decimals have no normal form to make, and cost nothing.
"""

import re
from collections.abc import Callable, Iterable
from copy import copy
from decimal import Decimal
from typing import Any, Final, TypeAlias

from pydantic import BaseModel

from odm.codec.types.containers import AnyType, DictType, FixedTupleType, JsonType, ListType, SetType
from odm.codec.types.numbers import canonical_decimal
from odm.codec.types.records import RecordType
from odm.codec.types.scalars import DecimalType
from odm.codec.types.stored import StoredType, Unfit
from odm.codec.types.unions import AliasType, Around, NullableType, RootType, UnionType

Normal: TypeAlias = Callable[[Any], Any]
"""Returns a storable value in its normal form: the same object if it has that form already."""

_Known: TypeAlias = dict[RecordType | AliasType, Normal]


def normal_form(type_: StoredType) -> Normal | None:
    """The function that makes the normal form of values of a type; None if each value has it."""
    return _normal(type_, {}) if _has_decimals(type_, set()) else None


def _has_decimals(type_: StoredType, seen: set[StoredType]) -> bool:
    if isinstance(type_, DecimalType):
        return True
    if isinstance(type_, AnyType):
        return not isinstance(type_, JsonType)
    if isinstance(type_, RecordType | AliasType):  # which may lead back to themselves
        if type_ in seen:
            return False
        seen.add(type_)
    return any(_has_decimals(part, seen) for part in _parts(type_))


def _parts(type_: StoredType) -> Iterable[StoredType]:
    match type_:
        case Around():
            return (type_.inner,)
        case ListType() | SetType() | DictType():
            return (type_.item,)
        case FixedTupleType():
            return type_.items
        case UnionType():
            return type_.members
        case RecordType():
            return tuple(field.type for field in type_.fields.values())
    return ()


def _normal(type_: StoredType, known: _Known) -> Normal:
    """The function of a type with Decimals; ``known`` has those of the types around it, which may be recursive."""
    if isinstance(type_, RecordType | AliasType) and type_ in known:
        return known[type_]
    match type_:
        case DecimalType():
            is_usual = _usual_text(type_)
            return lambda value: value if type(value) is Decimal and is_usual(str(value)) else _decimal(type_, value)
        case AnyType():
            return _plain
        case NullableType():
            inner = _normal(type_.inner, known)
            return lambda value: None if value is None else inner(value)
        case RootType():
            root = _normal(type_.inner, known)
            return lambda value: _changed(value, {"root": root})
        case UnionType():
            members = [(member, _or_same(member, known)) for member in type_.members]
            return lambda value: _of_union(type_, members, value)
        case ListType():
            item = _normal(type_.item, known)
            return lambda value: _each(value, [item(part) for part in value], type_.of)
        case SetType():
            member = _normal(type_.item, known)
            return lambda value: _each(value, [member(part) for part in value], type_.of)
        case FixedTupleType():
            items = [_or_same(part, known) for part in type_.items]
            of = getattr(type_.of, "_make", type_.of)
            return lambda value: _each(value, [normal(part) for normal, part in zip(items, value, strict=True)], of)
        case DictType():
            of_item = _normal(type_.item, known)
            return lambda value: _each_item(value, of_item)
        case RecordType():
            parts: dict[str, Normal] = {}
            known[type_] = lambda value: _changed(value, parts)
            parts |= {name: _normal(part_type, known) for name, part_type in _decimal_fields(type_)}
            return known[type_]
        case AliasType():
            inside: list[Normal] = []

            def of_alias(value: Any) -> Any:
                return inside[0](value)

            known[type_] = of_alias
            inside.append(_normal(type_.inner, known))
            return of_alias
    raise AssertionError(type_)


def _decimal_fields(record: RecordType) -> Iterable[tuple[str, StoredType]]:
    return ((name, field.type) for name, field in record.fields.items() if _has_decimals(field.type, set()))


def _same(value: Any) -> Any:
    return value


def _or_same(type_: StoredType, known: _Known) -> Normal:
    return _normal(type_, known) if _has_decimals(type_, set()) else _same


def _usual_text(type_: DecimalType) -> Callable[[str], object]:
    """Whether a text is that of a Decimal in normal form; some rare ones are not recognized."""
    places = getattr(type_, "places", None)
    if places is None:
        return re.compile(r"0|-?[1-9][0-9]*|-?[0-9]+\.[0-9]*[1-9]").fullmatch
    fraction = rf"\.[0-9]{{{places}}}" if places else ""
    return re.compile(rf"(?!-[0.]+$)-?[0-9]+{fraction}").fullmatch


def _decimal(type_: StoredType, value: Any) -> Any:
    reread = type_.load(type_.dump(value))
    return value if type(value) is Decimal and not value.compare_total(reread) else reread


def _plain(value: Any) -> Any:
    """The same of a value of undeclared type: a whole number reads back as an int."""
    kind = type(value)
    if kind is Decimal:
        number = canonical_decimal(value)
        return value if type(number) is Decimal and not value.compare_total(number) else number
    if kind is dict:
        return _each_item(value, _plain)
    return _each(value, [_plain(part) for part in value], kind) if kind in _COLLECTIONS else value


_COLLECTIONS: Final = frozenset({list, set, frozenset})


def _of_union(type_: UnionType, members: Iterable[tuple[StoredType, Normal]], value: Any) -> Any:
    if isinstance(value, Decimal):
        return _decimal(type_, value)  # next to an int, a whole number reads back as an int
    for member, normal in members:
        try:
            member.dump(value)
        except Unfit:
            continue
        return normal(value)
    return value


def _each(value: Any, parts: list[Any], of: Callable[[list[Any]], Any]) -> Any:
    """The value with these parts; itself if they are its own."""
    return value if all(map(_is, parts, value)) else of(parts)


def _each_item(value: dict[Any, Any], normal: Normal) -> dict[Any, Any]:
    parts = {key: normal(part) for key, part in value.items()}
    return value if all(map(_is, parts.values(), value.values())) else parts


def _is(value: object, other: object) -> bool:
    return value is other


def _changed(value: Any, parts: dict[str, Normal]) -> Any:
    """A model or dataclass with the normal form of these fields; itself if that changes none."""
    changes: dict[str, Any] = {}
    for name, normal in parts.items():
        part = getattr(value, name)
        normal_part = normal(part)
        if normal_part is not part:
            changes[name] = normal_part
    if not changes:
        return value
    if isinstance(value, BaseModel):
        return value.model_copy(update=changes)
    twin = copy(value)
    for name, part in changes.items():
        object.__setattr__(twin, name, part)  # it may be frozen
    return twin
