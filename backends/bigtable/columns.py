"""What the columns of a row hold, found out once for all rows with the same columns.

Most rows of an entity have the same ones, and share the tuple of them (`Row`), so that a page takes one look.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final, NamedTuple, TypeAlias

from attrs import frozen

from odm.backends.bigtable.cells import read_qualifier
from odm.backends.bigtable.native import COUNTERS, FAMILY, Column

REVISION: Final = "~r"
"""The qualifier of the id of the attempt that wrote the row last.

Every item has it, and it sorts behind the columns of the attributes (all whose names are ASCII): that lets one row
filter say that an attribute is not there (`odm.backends.bigtable.expressions`).
"""

LISTED: Final = "_ix"
"""The qualifier of the list of the item's index entries."""

SIDE_COLUMNS: Final = frozenset({REVISION, LISTED})
"""The columns of a row that are no attributes."""

_KEPT: Final = 256
"""Columns that are looked up; rows with more of them are mostly single ones."""


class Count(NamedTuple):
    """A counter's column."""

    name: str


class Member(NamedTuple):
    """The column of one member of an attribute."""

    name: str
    member: str


class SideColumn(NamedTuple):
    """A column that is no attribute, but the backend's own."""

    name: str


Slot: TypeAlias = str | Count | Member | SideColumn | None
"""What a column holds: a str is an attribute in a plain cell, None is somebody else's."""


@frozen
class Shape:
    """What the columns of a row hold.

    Attributes:
        slots: in the order of the columns.
        places: of the attributes in plain cells, by name.
        counted: the attributes in counters.
        parted: the attributes of which there are members.
        doubled: a counter has a plain cell, too.
    """

    slots: tuple[Slot, ...]
    places: Mapping[str, int]
    counted: frozenset[str]
    parted: frozenset[str]
    doubled: bool


def shape_of(columns: tuple[Column, ...]) -> Shape:
    """The shape of a row with these columns."""
    return _looked_up(columns) if len(columns) <= _KEPT else _shape(columns)


def _shape(columns: tuple[Column, ...]) -> Shape:
    slots = tuple(_slot(*column) for column in columns)
    counted = frozenset(slot.name for slot in slots if isinstance(slot, Count))
    parted = frozenset(slot.name for slot in slots if isinstance(slot, Member))
    places = {slot: place for place, slot in enumerate(slots) if isinstance(slot, str)}
    return Shape(slots, places, counted, parted, doubled=not counted.isdisjoint(places))


_looked_up = lru_cache(maxsize=1024)(_shape)


def _slot(family: str, column: bytes) -> Slot:
    if family not in (FAMILY, COUNTERS):
        return None
    try:
        name, member = read_qualifier(column)
    except ValueError:  # odm writes text
        return None
    if family == COUNTERS:
        return Count(name)
    if member is not None:
        return Member(name, member)
    return SideColumn(name) if name in SIDE_COLUMNS else name
