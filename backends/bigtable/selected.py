"""Which cells a read with ``only`` takes: those of some attributes, and those that show that a row holds an item.

An attribute is in its plain cell, in the columns of its members if it is in Columns, and in the aggregate family if it
is a Counter. It may have been stored before it had such a marker, so all of these are read. The tag shows an item.

A row without a tag may hold cells of another program, which a read must report. So a read also takes one other cell of
each row, without its value; in rows with a tag, `Selected.narrowed` leaves it out.
"""

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import groupby

from odm.backends.bigtable.cells import member_qualifier, qualifier
from odm.backends.bigtable.columns import LISTED, REVISION
from odm.backends.bigtable.filters import (
    Chain,
    Column,
    ColumnRange,
    Filter,
    First,
    Newest,
    Stripped,
    chain,
    fits,
    interleave,
    one_column,
)
from odm.backends.bigtable.form import Form
from odm.backends.bigtable.native import COUNTERS, Row
from odm.backends.bigtable.native import Column as Place
from odm.backends.bigtable.ownership import PROBE_PREFIX, outside
from odm.codec import TAG, TTL_ATTRIBUTE, VERSION
from odm.expressions.nodes import Path
from odm.protocol.reading import Only

_MARKS = frozenset({TAG, TTL_ATTRIBUTE, VERSION})
_MOST = 512


class Selected(Chain, dict=True):
    """The cells of some attributes, in the families that they have, and one more cell of each row.

    Attributes:
        wanted: their columns.
        tags: the columns of tags.
    """

    wanted: tuple[ColumnRange, ...]
    tags: frozenset[Place]

    @cached_property
    def _kept(self) -> dict[tuple[Place, ...], tuple[tuple[Place, ...], tuple[int, ...]]]:
        return {}

    def narrowed(self, row: Row) -> Row:
        """The row without the cell that was not asked for; a row without a tag as it is."""
        tagged = any(value and place in self.tags for place, value in zip(row.columns, row.values, strict=True))
        return self.cut(row) if tagged else row

    def cut(self, row: Row) -> Row:
        """The row with the cells that were asked for, and no other."""
        known = self._kept.get(row.columns)
        if known is None:
            if len(self._kept) >= _MOST:
                self._kept.clear()
            known = self._kept[row.columns] = self._cut(row.columns)
        columns, kept = known
        if len(kept) == len(row.columns):
            return row
        values, times = row.values, row.timestamps
        return Row.parted(row.key, columns, tuple([values[n] for n in kept]), tuple([times[n] for n in kept]))

    def _cut(self, columns: tuple[Place, ...]) -> tuple[tuple[Place, ...], tuple[int, ...]]:
        kept = tuple(n for n, place in enumerate(columns) if any(span.has(*place) for span in self.wanted))
        return tuple(columns[n] for n in kept), kept


def narrowed(rows: Iterable[Row], wanted: Filter) -> list[Row]:
    """The rows of a read with this filter, with the cells that were asked for."""
    return [wanted.narrowed(row) for row in rows] if isinstance(wanted, Selected) else [*rows]


def selected(form: Form, only: Only, roots: frozenset[str], *, listed: bool) -> Filter | None:
    """The filter for some attributes; None if it is too large for Bigtable.

    Args:
        form: how attributes are stored.
        only: the attributes.
        roots: other attributes that are needed, such as those of a filter.
        listed: the index entries of the items are needed, too.
    """
    homes = form.owned.tag_families
    paths = dict.fromkeys([*(path for path in only.paths if path.root not in roots), *map(_whole, sorted(roots))])
    wanted = [one_column(home, name) for home in homes for name in (TAG, REVISION, *([LISTED] * listed))]
    wanted += dict.fromkeys(one for path in paths if path.root != TAG for one in _columns(form, only.tag, path))
    unique = tuple(dict.fromkeys(wanted))
    others = interleave(*_others(form, unique))
    cells = interleave(*(span.shortest for span in unique), chain(others, First(1), Stripped()))
    made = Selected((cells, Newest()), unique, frozenset(Place(home, TAG.encode()) for home in homes))
    return made if fits(made) else None


def _whole(root: str) -> Path:
    return Path((root,))


def _columns(form: Form, tag: str, path: Path) -> Iterator[ColumnRange]:
    """All columns that hold an attribute or a member of it, or that held it before it had its marker."""
    name, placement = path.root, form.placement(tag)
    column = qualifier(name)
    if name in _MARKS:
        yield one_column(placement.home, column)
        return
    spot = placement.spots.get(name)
    if spot is not None and spot.cell is not None:
        yield one_column(spot.family, spot.cell)
        return
    families = [placement.home] if spot is None else [spot.family]
    if spot is not None and spot.own is not None:
        families.append(placement.home)
    for family in families:
        if len(path.segments) > 1:
            member = member_qualifier(name, str(path.segments[1]))
            yield one_column(family, column)
            yield one_column(family, member)
        else:
            yield ColumnRange(family, column, f"{column}$")  # all members; other names go on above "$"
    if len(path.segments) == 1 and name not in form.texts:
        yield one_column(COUNTERS, column)


def _others(form: Form, wanted: Sequence[ColumnRange]) -> Iterator[Filter]:
    """The cells of odm's families that are not wanted, and that show another program in a row without a tag."""
    owned = form.owned
    known = {COUNTERS: [(name, f"{name}\0") for name in owned.counters]}
    known |= {home: [(PROBE_PREFIX, "~scrub.")] for home in owned.tag_families}
    taken = sorted(wanted, key=lambda one: one.family)
    ranges = {family: [(one.start, one.end) for one in them] for family, them in groupby(taken, lambda one: one.family)}
    for family in dict.fromkeys((*owned.tag_families, COUNTERS, *owned.families)):
        yield from outside(family, _merged([*known.get(family, ()), *ranges.get(family, ())]))
    named = {(one.family, one.start) for one in wanted if one.end == f"{one.start}\0"}
    yield from (Column(*cell) for cell in owned.cells if cell not in named)


def _merged(ranges: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Sorted ranges that do not overlap."""
    found: list[tuple[str, str]] = []
    for start, end in sorted(ranges, key=lambda one: one[0].encode()):
        if found and start.encode() <= found[-1][1].encode():
            last = max(found[-1][1], end, key=str.encode)
            found[-1] = found[-1][0], last
        else:
            found.append((start, end))
    return found
