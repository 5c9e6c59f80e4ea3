"""What in a table is odm's, and what another program's.

Of a row odm reads, writes and removes two column families, ``d`` and ``c``, and no other: so `native.ITEM` is the
filter of every read of items, and a row is replaced and removed by its families, never as a whole. The row holds an
*item* if ``d:_t``, the tag, is there and not empty. Where it is not, other cells of ``d`` and ``c`` are a *stranger's*:
no write replaces them, no call removes them, and reads treat the row as any item of no entity.

Empty ``d:_t`` and ``d:~r`` are the *marks* that an increment leaves where no item is (see `counters`). They and the
columns of the models' Counters are nobody's there.
"""

from collections.abc import Iterator, Sequence
from functools import cached_property
from typing import Final

from attrs import field, frozen

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

_BOOKKEEPING: Final = (LISTED, TAG, REVISION)  # in the order of their names

_MARKS: Final = frozenset({TAG.encode(), REVISION.encode()})

_TAGGED: Final = chain(newest(FAMILY, TAG), ValueRange(open=True))


@frozen
class Owned:
    """The filters of a table by which odm tells its own rows from those of other programs.

    Attributes:
        counters: the qualifiers of the models' Counters: in a row without an item, an increment that is under way may
            have left them, so they are nobody's.
        held: the tag of an item, and a cell, without its value, that shows a stranger where there is no tag.
        taken: leaves a cell if the row holds an item, or a stranger's cells: a new item must not be written there.
    """

    counters: frozenset[str] = frozenset()
    held: Filter = field(init=False)
    taken: Filter = field(init=False)

    def __attrs_post_init__(self) -> None:
        others = Interleave((*_between(FAMILY, _BOOKKEEPING), *_between(COUNTERS, sorted(self.counters))))
        revised = chain(newest(FAMILY, REVISION), ValueRange(open=True))
        object.__setattr__(self, "held", interleave(_TAGGED, chain(others, First(1), Stripped())))
        object.__setattr__(self, "taken", interleave(_TAGGED, revised, others))

    def strange(self, tag: str) -> Filter:
        """Leaves a cell if the row holds something else than an item of this tag.

        The Condition filter in it is not atomic (google.bigtable.v2, data.proto: RowFilter.Condition). Where the row is
        written to meanwhile, an item of the tag may be taken for a stranger, and the caller reads the row; a stranger's
        cells that were there before are never missed.
        """
        return Unless(chain(newest(FAMILY, TAG), ValueIs(tag.encode())), self.taken)

    def is_strange(self, row: Row) -> bool:
        """Whether a row without a tag holds cells that another program wrote to odm's families."""
        return any(
            (family == FAMILY and (qualifier not in _MARKS or value != b""))
            or (family == COUNTERS and qualifier not in self._counters)
            for (family, qualifier), value in zip(row.columns, row.values, strict=True)
        )

    @cached_property
    def _counters(self) -> frozenset[bytes]:
        return frozenset(map(str.encode, self.counters))


def _between(family: str, columns: Sequence[str]) -> Iterator[Filter]:
    """The cells of a family but those of these columns, which are in order."""
    for before, after in zip(("", *columns), (*columns, ""), strict=True):
        yield ColumnRange(family, f"{before}\0" if before else "", after)


def raw_cells(row: Row) -> dict[str, bytes]:
    """The cells of a stranger as they are, by column."""
    return {f"{cell.family}:{cell.qualifier.decode(errors='backslashreplace')}": cell.value for cell in row.cells}
