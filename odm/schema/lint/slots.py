"""Properties of a placeholder's values that follow from its type: their number, and whether they grow with time."""

import re
from datetime import timedelta
from typing import Any, Final

from pydantic.fields import FieldInfo

from odm.entities.markers import metadata_of
from odm.keys import Slot
from odm.keys.base import Descending, KeyType
from odm.keys.numeric import BigIntKey, BoolKey, DecimalKey, FloatKey, IntKey
from odm.keys.text import ChoiceKey
from odm.keys.times import TimeKey, Unit
from odm.schema.entity import EntitySchema

_BUCKET: Final = timedelta(minutes=1)
"""AWS lists dates rounded to the day, hour or minute among bad partition keys (bp-partition-key-uniform-load)."""

_YEAR: Final = 12
"""Months per year, the unit of formats."""

_UNITS: Final = {
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
    "millisecond": timedelta(milliseconds=1),
}

_SEQUENCE: Final = re.compile(r"(.*_)?(id|no|nr|number|seq|sequence|serial|offset)")
"""Names of integers that are usually sequential."""

_WIDE: Final = 10**6
"""An integer with fewer values is a level, a salt or a bucket, not a sequence."""

_TIME_ORDERED: Final = frozenset({6, 7})
"""The versions of UUIDs that begin with the time (RFC 9562)."""


def plain(slot: Slot) -> KeyType:
    """The type of a placeholder, without ``desc``."""
    return slot.type.inner if isinstance(slot.type, Descending) else slot.type


def values(slot: Slot) -> int | None:
    """The number of values of a bool, Literal, Enum or bounded int; None for other types."""
    type_ = plain(slot)
    if isinstance(type_, IntKey):
        return type_.highest - type_.lowest + 1
    return choices(slot)


def choices(slot: Slot) -> int | None:
    """The number of values of a bool, Literal or Enum; None for other types."""
    type_ = plain(slot)
    if isinstance(type_, BoolKey):
        return 2
    return len(type_.choices) if isinstance(type_, ChoiceKey) else None


def unit(slot: Slot) -> Unit | None:
    """The unit of a time; None for other types."""
    type_ = plain(slot)
    return type_.unit if isinstance(type_, TimeKey) else None


def is_bucket(slot: Slot) -> bool:
    """Whether it is a time in units of a minute or more, which many items share."""
    span = unit(slot)
    return span is not None and (isinstance(span, int) or span >= _BUCKET)


def unit_name(slot: Slot) -> str:
    """The unit of a time as a word, such as "day"."""
    span = unit(slot)
    if isinstance(span, int):
        return "year" if span == _YEAR else "month"
    return next((word for word, length in _UNITS.items() if span is not None and length <= span), "instant")


def spreads(slot: Slot) -> bool:
    """Whether items that are written at the same time have different values."""
    return choices(slot) is None and unit(slot) is None


def identifies(slot: Slot) -> bool:
    """Whether it can identify an item: a time, a choice or an amount cannot."""
    return spreads(slot) and not isinstance(plain(slot), DecimalKey | FloatKey)


def grows(entity: EntitySchema, slot: Slot) -> str | None:
    """Why each value is larger than those before; None: values do not grow."""
    if unit(slot) is not None:
        return "a time"
    type_, info = plain(slot), entity.cls.model_fields.get(slot.name)
    if info is not None and _uuid_version(info) in _TIME_ORDERED:
        return "a UUID that begins with the time"
    wide = isinstance(type_, BigIntKey) or (isinstance(type_, IntKey) and (values(slot) or 0) >= _WIDE)
    return "a sequential number" if wide and _SEQUENCE.fullmatch(slot.name) else None


def _uuid_version(info: FieldInfo) -> Any:
    return next((mark.uuid_version for mark in metadata_of(info) if hasattr(mark, "uuid_version")), None)


def own_ids(entity: EntitySchema) -> tuple[str, ...]:
    """The fields whose name says that they identify the entity: ``order_id`` of an OpenOrder, ``id``."""
    tails = {tail for name in (entity.name, entity.tag) for tail in _tails(name.partition("[")[0])}
    names = {"id", "uid", "uuid", *(f"{tail}_{kind}" for tail in tails for kind in ("id", "uid", "uuid"))}
    return tuple(field for field in entity.cls.model_fields if field.lower() in names)


def _tails(name: str) -> list[str]:
    """The last words of a class name in snake case: "open_order" and "order" of OpenOrder."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)
    return ["_".join(words[at:]).lower() for at in range(len(words))]
