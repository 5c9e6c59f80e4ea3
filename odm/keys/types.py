"""From a model field and a placeholder's format to the `KeyType` that writes it.

Called once per placeholder while a template is compiled. Reads pydantic's public `FieldInfo` only: the annotation, and
the constraints among its metadata, wherever in `Annotated[X, ...] | None` they stand. Faults are `Refused`.
"""

import math
import re
import sys
from collections.abc import Iterable, Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from enum import Enum, Flag
from fractions import Fraction
from types import NoneType, UnionType
from typing import Annotated, Any, Final, Literal, Union, get_args, get_origin
from uuid import UUID

from annotated_types import Ge, GroupedMetadata, Gt, Le, Lt
from pydantic import AwareDatetime, FutureDate, FutureDatetime, PastDate, PastDatetime
from pydantic.fields import FieldInfo

from odm.errors import brief
from odm.keys.base import Descending, KeyType, Refused
from odm.keys.binary import is_binary_format
from odm.keys.numeric import BigIntKey, BoolKey, DecimalKey, FloatKey, IntKey, UuidKey
from odm.keys.text import BytesKey, ChoiceKey, IntChoiceKey, PaddedKey, StrKey
from odm.keys.times import time_key

_SUPPORTED = "str, int, Literal or Enum of one of them, Decimal, datetime, date, UUID, bool, bytes, float"
_FIXED: dict[Any, KeyType] = {bool: BoolKey(), bytes: BytesKey(), float: FloatKey(), UUID: UuidKey()}
_CHOICES: dict[type, type[ChoiceKey]] = {str: ChoiceKey, int: IntChoiceKey}
# Pydantic's own names for what a model holds as these.
_ALIASES: dict[Any, type] = {
    AwareDatetime: datetime,
    PastDatetime: datetime,
    FutureDatetime: datetime,
    PastDate: date,
    FutureDate: date,
}


def key_type(info: FieldInfo, form: str, descending: bool) -> KeyType:
    """The key type of a field.

    Args:
        info: the field, as in `cls.model_fields`.
        form: the format within the placeholder, "" for none.
        descending: whether the placeholder asks for the opposite order.

    Raises:
        Refused: the type cannot be ordered in a key, or not in this format.
    """
    annotation, metadata = stripped(info.annotation, info.metadata)
    plain = _make(annotation, list(_flatten(metadata)), form)
    if not descending:
        return plain
    if plain.complement is None:
        raise Refused("desc works on fixed-width types and int; text and bytes have no opposite order, so drop desc")
    return Descending(plain)


def stripped(annotation: Any, metadata: Sequence[Any]) -> tuple[Any, list[Any]]:
    """The type within Annotated, `| None` and aliases, with the metadata of all levels."""
    origin, args = get_origin(annotation), get_args(annotation)
    if origin is Annotated:
        return stripped(args[0], [*metadata, *args[1:]])
    if origin in {Union, UnionType}:
        members = [member for member in args if member is not NoneType]
        if len(members) == 1:
            return stripped(members[0], metadata)
    for alias in ("__value__", "__supertype__"):  # `type X = ...`, NewType
        if hasattr(annotation, alias):
            return stripped(getattr(annotation, alias), metadata)
    return str if is_email(annotation) else _ALIASES.get(annotation, annotation), list(metadata)


NETWORKS: Final = "pydantic.networks"


def is_email(annotation: object) -> bool:
    """Whether it is `pydantic.EmailStr`, whose module takes time to import."""
    email = getattr(sys.modules.get(NETWORKS), "EmailStr", None)
    return email is not None and annotation is email


def admits_none(annotation: Any) -> bool:
    """Whether None is one of the type's members, within Annotated and aliases too."""
    if get_origin(annotation) is Annotated:
        return admits_none(get_args(annotation)[0])
    if get_origin(annotation) in {Union, UnionType}:
        return any(map(admits_none, get_args(annotation)))
    for alias in ("__value__", "__supertype__"):
        if hasattr(annotation, alias):
            return admits_none(getattr(annotation, alias))
    return annotation in {None, NoneType}


def _flatten(metadata: Iterable[Any]) -> Iterator[Any]:
    for entry in metadata:
        if isinstance(entry, FieldInfo):
            yield from _flatten(entry.metadata)
        elif isinstance(entry, GroupedMetadata):
            yield from _flatten(entry)
        else:
            yield entry


def _make(annotation: Any, metadata: list[Any], form: str) -> KeyType:
    if annotation is datetime or annotation is date:
        return time_key(annotation, form)
    if annotation is str and form:
        return _padded(form)
    plain = _formless(annotation, metadata)
    if is_binary_format(form):
        raise Refused(
            f"{brief(form)} would be bytes, and keys of odm are text; for rows of other programs on Bigtable, declare "
            'the table with row_style="verbatim"'
        )
    if form:
        raise Refused(f"{brief(form)} is not a format of its type {_name(annotation)}, which takes none; drop it")
    return plain


def _formless(annotation: Any, metadata: list[Any]) -> KeyType:
    if annotation is str:
        return StrKey()
    if annotation is int:
        return _int_key(metadata, 0)
    if annotation is Decimal:
        return _decimal_key(metadata)
    if get_origin(annotation) is Literal:
        return _choices(annotation, [arg for arg in get_args(annotation) if arg is not None])
    if isinstance(annotation, type) and issubclass(annotation, Enum):
        return _choices(annotation, list(annotation))
    try:
        return _FIXED[annotation]
    except (KeyError, TypeError):
        raise Refused(f"its type {_name(annotation)} has no order in keys; use one of {_SUPPORTED}") from None


def _name(annotation: Any) -> str:
    return annotation.__name__ if isinstance(annotation, type) else str(annotation)


def _padded(form: str) -> PaddedKey:
    if not re.fullmatch(r"<[1-9][0-9]*", form, re.ASCII):
        raise Refused(f"{brief(form)} is not a format of a str; use none, or <N to pad to N characters")
    return PaddedKey(int(form[1:]))


def _choices(annotation: Any, choices: list[Any]) -> ChoiceKey:
    plain = [choice.value if isinstance(choice, Enum) else choice for choice in choices]
    if any(isinstance(choice, Flag) for choice in choices):
        raise Refused(f"its type {_name(annotation)} is a Flag, whose combinations are no members; declare an int")
    kinds = {type(value) for value in plain}
    choice_type = _CHOICES.get(kinds.pop()) if len(kinds) == 1 else None
    if choice_type is None:
        raise Refused(f"the values of its type {_name(annotation)} are not all str or all int; use one of {_SUPPORTED}")
    for value in plain:
        try:
            choice_type.of_values.encode(value)
        except Refused as why:
            raise Refused(f"the value {brief(value)} of {_name(annotation)} cannot stand in a key: {why}") from None
    return choice_type(tuple(choices))


def _decimal_key(metadata: list[Any]) -> DecimalKey:
    places = next((p for m in metadata if (p := getattr(m, "decimal_places", None)) is not None), None)
    if places is None:
        raise Refused("a Decimal needs a fixed number of places to sort; declare Field(decimal_places=2) or the like")
    return DecimalKey(places, _int_key(metadata, places))


def _int_key(metadata: list[Any], places: int) -> IntKey | BigIntKey:
    """The key type of ints within the bounds among the metadata, both scaled by `places` decimal places."""
    lows, highs = [], []
    for entry in metadata:
        match entry:
            case Ge(ge=bound) if _finite(bound):
                lows.append(math.ceil(_scaled(bound, places)))
            case Gt(gt=bound) if _finite(bound):
                lows.append(math.floor(_scaled(bound, places)) + 1)
            case Le(le=bound) if _finite(bound):
                highs.append(math.floor(_scaled(bound, places)))
            case Lt(lt=bound) if _finite(bound):
                highs.append(math.ceil(_scaled(bound, places)) - 1)
    if not lows or not highs:
        return BigIntKey()
    if max(lows) > min(highs):
        raise Refused("no value is within the bounds of the field; correct its ge, gt, le, lt")
    return IntKey(max(lows), min(highs))


def _finite(bound: Any) -> bool:
    return bool(abs(bound) != math.inf)


def _scaled(bound: Any, places: int) -> Fraction:
    return Fraction(bound) * Fraction(10**places)
