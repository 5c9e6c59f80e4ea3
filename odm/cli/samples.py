"""Example keys: a plausible value for each placeholder of a template, encoded by the key compiler."""

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any, Final
from uuid import UUID

from odm.keys import Literal, Template
from odm.keys.base import Descending, KeyType, Refused
from odm.keys.numeric import BigIntKey, BoolKey, DecimalKey, FloatKey, IntKey, UuidKey
from odm.keys.text import BytesKey, ChoiceKey, PaddedKey
from odm.keys.times import TimeKey
from odm.keys.verbatim import BinaryKey, NumberKey, TextKey, VerbatimKey

_MOMENT: Final = datetime(2026, 1, 31, 12, 30, tzinfo=UTC)
_UUID: Final = UUID("2f9a3c1e-7b4d-4c8a-9e05-6d1f0b8a7c32")


def example_key(template: Template) -> str:
    """A key of the template."""
    return "".join(
        part.text if isinstance(part, Literal) else _example(part.name, part.type) for part in template.parts
    )


def _example(name: str, type_: KeyType) -> str:
    if not isinstance(type_, VerbatimKey | TextKey | NumberKey | BinaryKey):
        return type_.encode(_sample(name, type_))
    if type_.form.choices:
        return type_.form.choices[0]
    # The form of a stored value does not say the type of the field.
    for value in (f"{name[0]}1", 42, _MOMENT, _MOMENT.date(), _UUID, b"\x01\xab"):
        try:
            encoded = type_.encode(value)
        except Refused:
            continue
        return str(type_.form.dump(value)) if isinstance(type_, NumberKey) else encoded
    return f"{{{name}}}"


def _sample(name: str, type_: KeyType) -> Any:
    match type_:
        case Descending():
            return _sample(name, type_.inner)
        case IntKey() | BigIntKey():
            return min(max(42, type_.lowest), type_.highest)
        case DecimalKey():
            return Decimal(min(max(1250, type_.scaled.lowest), type_.scaled.highest)).scaleb(-type_.places)
        case FloatKey():
            return 1.5
        case BoolKey():
            return True
        case UuidKey():
            return _UUID
        case BytesKey():
            return b"\x01\xab"
        case ChoiceKey():
            return type_.choices[0]
        case TimeKey():
            return _MOMENT.date() if type_.kind is date else _MOMENT
        case PaddedKey():
            return f"{name[0]}1"[: type_.width]
        case _:
            return f"{name[0]}1"
