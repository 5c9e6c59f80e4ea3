"""Distinguishes the cells of odm in a table from those of other programs.

odm reads, writes and deletes only the column families ``d`` and ``c`` of a row. So every read of items uses the filter
`native.ITEM`, and a row is replaced or deleted family by family, never as a whole. A row holds an *item* if its tag,
``d:_t``, exists and is not empty. Otherwise, cells of ``d`` and ``c`` belong to another program, here called a
*stranger*: no call replaces or deletes them, and reads treat the row like an item of an unknown entity.

An empty ``d:_t`` and ``d:~r`` are the *marks* that an increment leaves if there is no item (see `counters`). Marks and
the columns of the models' Counters do not count as a stranger's cells.
"""

from collections.abc import Iterator, Sequence
from typing import Final

from attrs import field, frozen

from odm.backends.bigtable.cells import write
from odm.backends.bigtable.columns import LISTED, REVISION
from odm.backends.bigtable.filters import (
    ColumnRange,
    Filter,
    First,
    Interleave,
    Stripped,
    Unless,
    ValueIs,
    ValueRange,
    chain,
    interleave,
    newest,
)
from odm.backends.bigtable.native import COUNTERS, FAMILY, DeleteFamily, Row
from odm.codec import TAG

REMOVED: Final = (DeleteFamily(FAMILY), DeleteFamily(COUNTERS))
"""The mutations that delete an item, but not the cells of other families."""

PROBE_PREFIX: Final = "~scrub-"
"""The first characters of the columns that a scrub writes to get the server's time."""

_BOOKKEEPING: Final = ((TAG, f"{TAG}\0"), (REVISION, f"{REVISION}\0"), (PROBE_PREFIX, "~scrub."))
"""The columns of family ``d`` that do not show a stranger, as sorted ranges of qualifiers; they have other checks."""

_MARKS: Final = frozenset({TAG.encode(), REVISION.encode()})

_TAGGED: Final = chain(newest(FAMILY, TAG), ValueRange(open=True))


@frozen
class Owned:
    """Filters that distinguish odm's rows in a table from those of other programs.

    Attributes:
        counters: the qualifiers of the models' Counters. In a row without an item, an increment in progress may have
            written them, so they do not show a stranger.
        held: returns the tag of an item; and, if there is no tag, a cell that shows a stranger, without its value.
        bookkeeping: the same, and an item's revision and list of index entries.
        taken: returns a cell if the row holds an item or a stranger's cells, so that no new item may be written to it.
    """

    counters: frozenset[str] = frozenset()
    held: Filter = field(init=False)
    bookkeeping: Filter = field(init=False)
    taken: Filter = field(init=False)
    _columns: frozenset[bytes] = field(init=False, eq=False, repr=False)
    _kept: dict[tuple[str, bool], Filter] = field(init=False, factory=dict, eq=False, repr=False)

    def __attrs_post_init__(self) -> None:
        counters = [(name, f"{name}\0") for name in sorted(self.counters)]
        listed = (LISTED, f"{LISTED}\0")
        others = Interleave((*_outside(FAMILY, _BOOKKEEPING), *_outside(COUNTERS, counters)))
        attributes = Interleave((*_outside(FAMILY, (listed, *_BOOKKEEPING)), *_outside(COUNTERS, counters)))
        revised = chain(newest(FAMILY, REVISION), ValueRange(open=True))
        first = (First(1), Stripped())
        known = interleave(_TAGGED, revised, newest(FAMILY, LISTED))
        object.__setattr__(self, "held", interleave(_TAGGED, revised, chain(others, *first)))
        object.__setattr__(self, "bookkeeping", interleave(known, chain(attributes, *first)))
        object.__setattr__(self, "taken", interleave(_TAGGED, revised, others))
        object.__setattr__(self, "_columns", frozenset(map(str.encode, self.counters)))

    def strange(self, tag: str) -> Filter:
        """Returns a cell if the row holds an item with another tag, or a stranger's cells.

        It contains a Condition filter, which is not atomic (google.bigtable.v2, data.proto: RowFilter.Condition). If
        the row is written at the same time, the filter may also return a cell of an item with this tag, so the caller
        reads the row to check. It never misses a stranger's cells that existed before.
        """
        return self._unless(tag, self.taken)

    def unexpected(self, tag: str) -> Filter:
        """As `strange`, but returns what `held` returns."""
        return self._unless(tag, self.held)

    def _unless(self, tag: str, otherwise: Filter) -> Filter:
        """The filter for rows without a tag: kept, with its message, because there are few entities."""
        known = self._kept.get((tag, otherwise is self.held))
        if known is None:
            known = Unless(chain(newest(FAMILY, TAG), ValueIs(write(tag))), otherwise)
            self._kept[tag, otherwise is self.held] = known
        return known

    def is_strange(self, row: Row) -> bool:
        """Whether a row without a tag holds cells of another program in odm's families."""
        return any(
            (family == FAMILY and not _is_odms(qualifier, value))
            or (family == COUNTERS and qualifier not in self._columns)
            for (family, qualifier), value in zip(row.columns, row.values, strict=True)
        )


def _is_odms(qualifier: bytes, value: bytes) -> bool:
    """Whether odm writes such a cell to family ``d`` of a row without an item."""
    return value == b"" if qualifier in _MARKS else qualifier.startswith(PROBE_PREFIX.encode())


def _outside(family: str, ranges: Sequence[tuple[str, str]]) -> Iterator[Filter]:
    """The cells of a family outside of these sorted ranges of qualifiers."""
    for start, end in zip(("", *(end for _, end in ranges)), (*(start for start, _ in ranges), ""), strict=True):
        yield ColumnRange(family, start, end)


def raw_cells(row: Row) -> dict[str, bytes]:
    """The raw cells of a row, by column."""
    return {f"{cell.family}:{cell.qualifier.decode(errors='backslashreplace')}": cell.value for cell in row.cells}
