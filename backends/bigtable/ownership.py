"""What in a table is odm's, and what another program's.

Of a row odm reads, writes and removes two column families, ``d`` and ``c``, and no other: so `ITEM` is the filter of
every read of items, and a row is replaced and removed by its families, never as a whole. The row holds an *item* if
``d:_t``, the tag, is there and not empty. Where it is not, other cells of ``d`` are a *stranger's*: no write replaces
them, no call removes them, and reads treat the row as any item of no entity.

Empty ``d:_t`` and ``d:~r`` are the *marks* that an increment leaves where no item is (see `counters`), and are nobody's.
"""

from typing import Final

from odm.backends.bigtable.columns import LISTED, REVISION
from odm.backends.bigtable.filters import (
    Chain,
    ColumnRange,
    Families,
    Filter,
    First,
    Interleave,
    Newest,
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

ITEM: Final = Chain((Families((COUNTERS, FAMILY)), Newest()))
"""All of an item: the newest cells of odm's two families."""

REMOVED: Final = (DeleteFamily(FAMILY), DeleteFamily(COUNTERS))
"""What removes an item and leaves the cells of other families."""

_BOOKKEEPING: Final = (LISTED, TAG, REVISION)  # in the order of their names

_MARKS: Final = frozenset({TAG.encode(), REVISION.encode()})

_ATTRIBUTES: Final = Interleave(
    tuple(
        ColumnRange(FAMILY, f"{before}\0" if before else "", after)
        for before, after in zip(("", *_BOOKKEEPING), (*_BOOKKEEPING, ""), strict=True)
    )
)
"""The cells of attributes, whoever wrote them."""

_TAGGED: Final = chain(newest(FAMILY, TAG), ValueRange(open=True))

HELD: Final = interleave(_TAGGED, chain(_ATTRIBUTES, First(1), Stripped()))
"""The tag of an item, and a cell, without its value, that shows a stranger where there is no tag."""

TAKEN: Final = interleave(_TAGGED, chain(newest(FAMILY, REVISION), ValueRange(open=True)), _ATTRIBUTES)
"""Leaves a cell if the row holds an item, or a stranger's cells: a new item must not be written there."""


def strange(tag: str) -> Filter:
    """Leaves a cell if the row holds something else than an item of this tag.

    The Condition filter in it is not atomic (google.bigtable.v2, data.proto: RowFilter.Condition). Where the row is
    written to meanwhile, an item of the tag may be taken for a stranger, and the caller reads the row; a stranger's
    cells that were there before are never missed.
    """
    return Unless(chain(newest(FAMILY, TAG), ValueIs(tag.encode())), TAKEN)


def is_strange(row: Row) -> bool:
    """Whether a row without a tag holds cells that another program wrote to the family of the attributes."""
    return any(
        family == FAMILY and (qualifier not in _MARKS or value != b"")
        for (family, qualifier), value in zip(row.columns, row.values, strict=True)
    )


def raw_cells(row: Row) -> dict[str, bytes]:
    """The cells of a stranger as they are, by column."""
    return {f"{cell.family}:{cell.qualifier.decode(errors='backslashreplace')}": cell.value for cell in row.cells}
