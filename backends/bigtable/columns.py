"""What each column of a row holds, computed once for all rows that have the same columns.

Most rows of an entity have the same columns, and rows of one response share one tuple of columns (`Row`).
"""

from collections.abc import Callable, Mapping
from typing import Final, NamedTuple, TypeAlias

from odm.backends.bigtable.cells import read_qualifier
from odm.backends.bigtable.native import COUNTERS, FAMILY, Column
from odm.immutable import Immutable

REVISION: Final = "~r"
"""The qualifier of the row's revision: the id of the attempt that wrote the row last.

Every item has it. It sorts after all columns of attributes with ASCII names, so one row filter can test that an
attribute is missing (`odm.backends.bigtable.expressions`).
"""

LISTED: Final = "_ix"
"""The qualifier of the list of the item's index entries."""

LOCK: Final = "~x"
"""The qualifier of the lock of a transaction; see `odm.backends.bigtable.locks`."""

SIDE_COLUMNS: Final = frozenset({REVISION, LISTED})
"""The columns of a row that are not attributes."""

_KEPT: Final = 256
"""The shapes of rows with more columns than this are not cached: few such rows have the same columns."""

_MOST: Final = 1024
"""The maximum shapes in the cache."""


class Count(NamedTuple):
    """A counter's column."""

    name: str


class Member(NamedTuple):
    """The column of one member of an attribute in Columns."""

    name: str
    member: str


class SideColumn(NamedTuple):
    """A column of the backend, not of an attribute."""

    name: str


Slot: TypeAlias = str | Count | Member | SideColumn | None
"""What a column holds: a str names an attribute in a plain cell; None is a column that odm does not read."""


class Shape(Immutable):
    """What the columns of a row hold.

    Attributes:
        slots: what each column holds, in the order of the columns.
        places: the positions of the attributes in plain cells, by name.
        counted: the attributes with a counter's column.
        parted: the attributes with columns of members.
        doubled: whether an attribute has both a counter's column and a plain cell.
    """

    slots: tuple[Slot, ...]
    places: Mapping[str, int]
    counted: frozenset[str]
    parted: frozenset[str]
    doubled: bool


def _shape(columns: tuple[Column, ...]) -> Shape:
    slots = tuple(_slot(*column) for column in columns)
    counted = frozenset(slot.name for slot in slots if isinstance(slot, Count))
    parted = frozenset(slot.name for slot in slots if isinstance(slot, Member))
    places = {slot: place for place, slot in enumerate(slots) if isinstance(slot, str)}
    return Shape(slots, places, counted, parted, doubled=not counted.isdisjoint(places))


class _Shapes(dict[tuple[Column, ...], Shape]):
    """The shapes of columns; emptied when there are many."""

    def __missing__(self, columns: tuple[Column, ...]) -> Shape:
        shape = _shape(columns)
        if len(columns) <= _KEPT:
            if len(self) >= _MOST:
                self.clear()
            self[columns] = shape
        return shape


shape_of: Final[Callable[[tuple[Column, ...]], Shape]] = _Shapes().__getitem__
"""The shape of a row with these columns."""


def _slot(family: str, column: bytes) -> Slot:
    if family not in (FAMILY, COUNTERS):
        return None
    try:
        name, member = read_qualifier(column)
    except ValueError:  # not UTF-8, so odm did not write it
        return None
    if family == COUNTERS:
        return Count(name)
    if member is not None:
        return Member(name, member)
    return SideColumn(name) if name in SIDE_COLUMNS else name
