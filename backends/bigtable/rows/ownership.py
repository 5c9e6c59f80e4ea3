"""Distinguishes the cells of odm in a table from those of other programs.

odm reads, writes and deletes only the column families ``d`` and ``c`` of a row, the families that the models declare
with ``family=``, and the single cells that they declare with `odm.Cell`. So every read of items uses the filter
`Owned.item`, and a row is replaced or deleted family by family, never as a whole. A row holds an *item* if its tag,
``d:_t``, exists and is not empty; the tag of an entity with ``family=`` is in that family. Otherwise, cells of these
families belong to another program, here called a *stranger*: no call replaces or deletes them, and reads treat the row
like an item of an unknown entity.

An empty ``d:_t`` and ``d:~r`` are the *marks* that an increment leaves if there is no item (see `counters`). Marks and
the columns of the models' Counters do not count as a stranger's cells.
"""

from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any, Final

from odm.backends.bigtable.client.filters import (
    AnyFamily,
    Column,
    ColumnRange,
    Family,
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
from odm.backends.bigtable.client.native import COUNTERS, FAMILY, ITEM, DeleteColumn, DeleteFamily, Mutation, Row
from odm.backends.bigtable.rows.cells import LISTED, REVISION, write
from odm.backends.bigtable.rows.placement import VERSIONS, Entries, Placement
from odm.codec import TAG
from odm.immutable import Immutable, field, force_setattr

REMOVED: Final = (DeleteFamily(FAMILY), DeleteFamily(COUNTERS))
"""The mutations that delete an item of the usual form, but not the cells of other families."""

PROBE_PREFIX: Final = "~scrub-"
"""The first characters of the columns that a scrub writes to get the server's time."""

_BOOKKEEPING: Final = ((TAG, f"{TAG}\0"), (REVISION, f"{REVISION}\0"), (PROBE_PREFIX, "~scrub."))
"""The columns of family ``d`` that do not show a stranger, as sorted ranges of qualifiers; they have other checks."""

_MARKS: Final = frozenset({TAG.encode(), REVISION.encode()})

_COMPUTED: Final[Any] = None


class Owned(Immutable, dict=True):
    """Filters that distinguish odm's rows in a table from those of other programs.

    Attributes:
        counters: the qualifiers of the models' Counters. In a row without an item, an increment in progress may have
            written them, so they do not show a stranger.
        homes: the families of entities with ``family=``, by tag.
        families: the families that the models declare, for entities or fields.
        cells: the cells that `odm.Cell` names, as pairs of family and qualifier.
        spans: the columns of dicts whose entries are cells, in rows of other programs.
        item: returns all cells of an item, without former values of its fields.
        former: returns those too.
        removed: the mutations that delete an item, but not the cells of other programs.
        held: returns the tag of an item; and, if there is no tag, a cell that shows a stranger, without its value.
        bookkeeping: the same, and an item's revision and list of index entries.
        taken: returns a cell if the row holds an item or a stranger's cells, so that no new item may be written to it.
    """

    counters: frozenset[str] = frozenset()
    homes: Mapping[str, str] = field(factory=dict)
    families: tuple[str, ...] = ()
    cells: tuple[tuple[str, str], ...] = ()
    spans: tuple[ColumnRange, ...] = ()
    item: Filter = _COMPUTED
    former: Filter = _COMPUTED
    removed: tuple[Mutation, ...] = _COMPUTED
    held: Filter = _COMPUTED
    bookkeeping: Filter = _COMPUTED
    taken: Filter = _COMPUTED
    _columns: frozenset[bytes] = _COMPUTED

    @cached_property
    def _kept(self) -> dict[tuple[str, bool], Filter]:
        return {}

    def __post_init__(self) -> None:
        counters = [(name, f"{name}\0") for name in sorted(self.counters)]
        listed = (LISTED, f"{LISTED}\0")
        homes, plain = self.tag_families, [name for name in self.families if name not in self.tag_families]
        elsewhere = [*outside(COUNTERS, counters), *(part for name in plain for part in outside(name, ()))]
        elsewhere += [Column(*cell) for cell in self.cells]
        others = Interleave((*(part for home in homes for part in outside(home, _BOOKKEEPING)), *elsewhere))
        unlisted = (part for home in homes for part in outside(home, (listed, *_BOOKKEEPING)))
        attributes = Interleave((*unlisted, *elsewhere))
        tagged = interleave(*(chain(newest(home, TAG), ValueRange(open=True)) for home in homes))
        revised = interleave(*(chain(newest(home, REVISION), ValueRange(open=True)) for home in homes))
        first = (First(1), Stripped())
        known = interleave(tagged, revised, *(newest(home, LISTED) for home in homes))
        made = {
            "item": self._item(),
            "former": interleave(self._item(VERSIONS), Family(VERSIONS)) if VERSIONS in self.families else self._item(),
            "removed": (
                *REMOVED,
                *map(DeleteFamily, self.families),
                *(DeleteColumn(qualifier, family) for family, qualifier in self.cells),
            ),
            "held": interleave(tagged, revised, chain(others, *first)),
            "bookkeeping": interleave(known, chain(attributes, *first)),
            "taken": interleave(tagged, revised, others),
            "_columns": frozenset(map(str.encode, self.counters)),
        }
        for name, value in made.items():
            # Made once, because all calls of a table use these filters, and each keeps its encoded message.
            force_setattr(self, name, value)

    @property
    def tag_families(self) -> tuple[str, ...]:
        """The families that may have a tag."""
        return (FAMILY, *sorted({*self.homes.values()}))

    def _item(self, without: str | None = None) -> Filter:
        if not self.families and not self.cells:
            return ITEM
        whole = AnyFamily(tuple(sorted({COUNTERS, FAMILY, *self.families} - {without})))
        return chain(interleave(whole, *(Column(*cell) for cell in self.cells)), Newest())

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
            home = self.homes.get(tag, FAMILY)
            known = Unless(chain(newest(home, TAG), ValueIs(write(tag))), otherwise)
            self._kept[tag, otherwise is self.held] = known
        return known

    def declares(self, family: str, column: bytes) -> bool:
        """Whether `odm.Cell` names a column, or a family or prefix that it has."""
        return (family, column.decode(errors="replace")) in self.cells or any(
            span.has(family, column) for span in self.spans
        )

    def is_strange(self, row: Row) -> bool:
        """Whether a row without a tag holds cells of another program in odm's families."""
        return any(
            (family == FAMILY and not _is_odms(qualifier, value))
            or (family == COUNTERS and qualifier not in self._columns)
            or (family in self.families and not (family in self.tag_families and _is_odms(qualifier, value)))
            or self.declares(family, qualifier)
            for (family, qualifier), value in zip(row.columns, row.values, strict=True)
        )


def owned_by(counters: frozenset[str], placements: Mapping[str, Placement]) -> Owned:
    """What belongs to the entities of a table.

    Args:
        counters: the qualifiers of their Counters.
        placements: where their cells stand, by tag.
    """
    homes = {tag: placement.home for tag, placement in placements.items() if placement.home != FAMILY}
    spots = [spot for placement in placements.values() for spot in placement.spots.values()]
    families = {*homes.values(), *(spot.family for spot in spots if spot.cell is None)}
    cells = {(spot.family, spot.cell) for spot in spots if spot.cell is not None and not isinstance(spot, Entries)}
    spans = dict.fromkeys(spot.span for spot in spots if isinstance(spot, Entries))
    return Owned(counters, homes, tuple(sorted(families)), tuple(sorted(cells)), tuple(spans))


def _is_odms(qualifier: bytes, value: bytes) -> bool:
    """Whether odm writes such a cell to family ``d`` of a row without an item."""
    return value == b"" if qualifier in _MARKS else qualifier.startswith(PROBE_PREFIX.encode())


def outside(family: str, ranges: Sequence[tuple[str, str]]) -> Iterator[Filter]:
    """The cells of a family outside of these sorted ranges of qualifiers."""
    for start, end in zip(("", *(end for _, end in ranges)), (*(start for start, _ in ranges), ""), strict=True):
        yield ColumnRange(family, start, end)


def raw_cells(row: Row) -> dict[str, bytes]:
    """The raw cells of a row, by column."""
    return {f"{cell.family}:{cell.qualifier.decode(errors='backslashreplace')}": cell.value for cell in row.cells}
