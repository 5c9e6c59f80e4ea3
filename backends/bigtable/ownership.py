"""What in a table is odm's, and what another program's.

Of a row odm reads, writes and removes two column families, ``d`` and ``c``, and no other: so `native.ITEM` is the
filter of every read of items, and a row is replaced and removed by its families, never as a whole. The row holds an
*item* if ``d:_t``, the tag, is there and not empty. Where it is not, other cells of ``d`` and ``c`` are a *stranger's*:
no write replaces them, no call removes them, and reads treat the row as any item of no entity.

Empty ``d:_t`` and ``d:~r`` are the *marks* that an increment leaves where no item is (see `counters`). They and the
columns of the models' Counters do not make a row a stranger's.
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
"""What removes an item and leaves the cells of other families."""

PROBE_PREFIX: Final = "~scrub-"
"""How the columns begin in which a scrub asks for the server's time."""

_BOOKKEEPING: Final = ((TAG, f"{TAG}\0"), (REVISION, f"{REVISION}\0"), (PROBE_PREFIX, "~scrub."))
"""What of family ``d`` is no attribute and is judged by itself, as ranges of columns in order."""

_MARKS: Final = frozenset({TAG.encode(), REVISION.encode()})

_TAGGED: Final = chain(newest(FAMILY, TAG), ValueRange(open=True))


@frozen
class Owned:
    """The filters of a table by which odm distinguishes its own rows from those of other programs.

    Attributes:
        counters: the qualifiers of the models' Counters: in a row without an item, an increment that is under way may
            have left them, so they do not make the row a stranger's.
        held: the tag of an item, and a cell, without its value, that shows a stranger where there is no tag.
        bookkeeping: all of that, with an item's revision and the list of its index entries.
        taken: leaves a cell if the row holds an item, or a stranger's cells: a new item must not be written there.
    """

    counters: frozenset[str] = frozenset()
    held: Filter = field(init=False)
    bookkeeping: Filter = field(init=False)
    taken: Filter = field(init=False)
    _columns: frozenset[bytes] = field(init=False, eq=False, repr=False)

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
        """Leaves a cell if the row holds something else than an item of this tag.

        The Condition filter in it is not atomic (google.bigtable.v2, data.proto: RowFilter.Condition). Where the row is
        written to meanwhile, an item of the tag may be taken for a stranger, and the caller reads the row; a stranger's
        cells that were there before are never missed.
        """
        return Unless(chain(newest(FAMILY, TAG), ValueIs(write(tag))), self.taken)

    def is_strange(self, row: Row) -> bool:
        """Whether a row without a tag holds cells that another program wrote to odm's families."""
        return any(
            (family == FAMILY and not _is_odms(qualifier, value))
            or (family == COUNTERS and qualifier not in self._columns)
            for (family, qualifier), value in zip(row.columns, row.values, strict=True)
        )


def _is_odms(qualifier: bytes, value: bytes) -> bool:
    """Whether odm leaves such a cell in family ``d`` of a row without an item."""
    return value == b"" if qualifier in _MARKS else qualifier.startswith(PROBE_PREFIX.encode())


def _outside(family: str, ranges: Sequence[tuple[str, str]]) -> Iterator[Filter]:
    """The cells of a family outside of these ranges of columns, which are in order."""
    for start, end in zip(("", *(end for _, end in ranges)), (*(start for start, _ in ranges), ""), strict=True):
        yield ColumnRange(family, start, end)


def raw_cells(row: Row) -> dict[str, bytes]:
    """The cells of a stranger as they are, by column."""
    return {f"{cell.family}:{cell.qualifier.decode(errors='backslashreplace')}": cell.value for cell in row.cells}
