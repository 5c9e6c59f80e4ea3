"""What the linter knows of a placeholder without any value: how many there are, and whether they grow with time."""

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
"""AWS counts dates rounded to the day, hour or minute among the bad partition keys (bp-partition-key-uniform-load)."""

_YEAR: Final = 12
"""Months of a year, which is how formats count it."""

_UNITS: Final = {
    "day": timedelta(days=1),
    "hour": timedelta(hours=1),
    "minute": timedelta(minutes=1),
    "second": timedelta(seconds=1),
    "millisecond": timedelta(milliseconds=1),
}

_SEQUENCE: Final = re.compile(r"(.*_)?(id|no|nr|number|seq|sequence|serial|offset)")
"""Names of whole numbers that are mostly given out one after the other."""

_WIDE: Final = 10**6
"""A whole number of fewer values is a level, a salt or a bucket, and no sequence."""

_TIME_ORDERED: Final = frozenset({6, 7})
"""The versions of UUIDs that begin with the time (RFC 9562)."""


def plain(slot: Slot) -> KeyType:
    """The type of a placeholder, whichever its order."""
    return slot.type.inner if isinstance(slot.type, Descending) else slot.type


def values(slot: Slot) -> int | None:
    """How many values it has, where the type says it: of a bool, Literal, Enum or int with bounds."""
    type_ = plain(slot)
    if isinstance(type_, IntKey):
        return type_.highest - type_.lowest + 1
    return choices(slot)


def choices(slot: Slot) -> int | None:
    """How many values a bool, Literal or Enum has; None: it is none of these."""
    type_ = plain(slot)
    if isinstance(type_, BoolKey):
        return 2
    return len(type_.choices) if isinstance(type_, ChoiceKey) else None


def unit(slot: Slot) -> Unit | None:
    """What a time counts in; None: it is no time."""
    type_ = plain(slot)
    return type_.unit if isinstance(type_, TimeKey) else None


def is_bucket(slot: Slot) -> bool:
    """Whether it is a time of a minute or more, into which much that is written together falls."""
    span = unit(slot)
    return span is not None and (isinstance(span, int) or span >= _BUCKET)


def unit_name(slot: Slot) -> str:
    """What a time counts in, as a word: "day"."""
    span = unit(slot)
    if isinstance(span, int):
        return "year" if span == _YEAR else "month"
    return next((word for word, length in _UNITS.items() if span is not None and length <= span), "moment")


def spreads(slot: Slot) -> bool:
    """Whether items that are written at one time have different values in it."""
    return choices(slot) is None and unit(slot) is None


def identifies(slot: Slot) -> bool:
    """Whether an item can be told by it: not by a moment, a choice or an amount."""
    return spreads(slot) and not isinstance(plain(slot), DecimalKey | FloatKey)


def grows(entity: EntitySchema, slot: Slot) -> str | None:
    """What makes each value larger than the ones before; None: nothing does."""
    if unit(slot) is not None:
        return "a time"
    type_, info = plain(slot), entity.cls.model_fields[slot.name]
    if _uuid_version(info) in _TIME_ORDERED:
        return "a UUID that begins with the time"
    wide = isinstance(type_, BigIntKey) or (isinstance(type_, IntKey) and (values(slot) or 0) >= _WIDE)
    return "a number that is counted up" if wide and _SEQUENCE.fullmatch(slot.name) else None


def _uuid_version(info: FieldInfo) -> Any:
    return next((mark.uuid_version for mark in metadata_of(info) if hasattr(mark, "uuid_version")), None)


def own_ids(entity: EntitySchema) -> tuple[str, ...]:
    """The fields that are named as the identity of the entity: ``order_id`` of an OpenOrder, ``id``."""
    tails = {tail for name in (entity.name, entity.tag) for tail in _tails(name.partition("[")[0])}
    names = {"id", "uid", "uuid", *(f"{tail}_{kind}" for tail in tails for kind in ("id", "uid", "uuid"))}
    return tuple(field for field in entity.cls.model_fields if field.lower() in names)


def _tails(name: str) -> list[str]:
    """The last words of a class name, as fields are written: "open_order" and "order" of OpenOrder."""
    words = re.findall(r"[A-Z]+(?![a-z])|[A-Z]?[a-z0-9]+", name)
    return ["_".join(words[at:]).lower() for at in range(len(words))]
