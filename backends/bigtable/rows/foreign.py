"""The layout of rows that other programs write, too: ``Table(row_style="verbatim")``.

A row has no cells of odm: no tag, no revision, no list of index entries. It has those that the models declare, and any
others, which stay on every call. The row key and ``match=`` show of which entity it is, and a field that stands in the
row key, and in no cell, is read from there. An item exists if the row has one of the declared cells.

A dict in Columns has a cell for each entry, in columns whose names are data: those of a family, or of a prefix in it.
It is there in every item, and empty if none of its entries is. A put and a set of the whole replace all of these cells;
an update changes those of the entries that it names.

To the rest of the backend, an item looks like a row of odm's own form (`placement`), without a revision. A write that
depends on the item reads it first. The commit then checks that the cells on which the write depends are unchanged.

A filter can check that one cell is missing and another exists only if the second sorts after the first in its family.
If a write depends on a missing cell, and no cell of the item sorts after it, it is refused with `odm.Unsupported`.
Only an increment of such an entry is possible: it is 0 if it is missing, and so it is written as 0 before, with a
timestamp by which the cell that another program writes at the same time stays the newest.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from typing import ClassVar

from odm.backends.bigtable.client.filters import (
    Chain,
    Column,
    ColumnRange,
    Filter,
    First,
    Newest,
    Nothing,
    Stripped,
    Unless,
    ValueIs,
    chain,
    chained,
    fits,
    interleave,
    newest,
    one_column,
    shown,
    utf8,
)
from odm.backends.bigtable.client.native import (
    FAMILY,
    ITEM,
    AddToCell,
    CheckAndMutateRow,
    DeleteColumn,
    Mutation,
    ReadRows,
    Row,
    SetCell,
    Steps,
    Touched,
)
from odm.backends.bigtable.client.native import Column as Place
from odm.backends.bigtable.client.retry import Retry, read_all
from odm.backends.bigtable.rows.cells import EMPTY_MAP, member_qualifier, qualifier, write
from odm.backends.bigtable.rows.codec import Listed, Stored, attribute_cells, decode
from odm.backends.bigtable.rows.items import ItemRows, PlacedRows, Selected
from odm.backends.bigtable.rows.keys import Layout
from odm.backends.bigtable.rows.kinds import Kind, cells_of, matching, ranges_of
from odm.backends.bigtable.rows.mutations import OLDEST, added_to
from odm.backends.bigtable.rows.ownership import REMOVED
from odm.backends.bigtable.rows.pages import MOST_CELLS
from odm.backends.bigtable.rows.placement import Entries, usual_row
from odm.codec import TAG, TTL_ATTRIBUTE
from odm.codec.attributes import ttl_seconds
from odm.codec.types.blobs import placeholders
from odm.errors import BadValue, OdmError, Unsupported
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Action, Increment, Item, Path, Remove, Set, Value, paths
from odm.immutable import Immutable, evolve, field
from odm.protocol.predicates import condition_of
from odm.protocol.requests import Check, Delete, Merge, Only, Operation, Put, Update
from odm.schema.entity import EntitySchema
from odm.schema.faults import of_several
from odm.schema.model import Schema
from odm.schema.rewrites import Rewrite


class DeclaredRow(Row):
    """A row of odm's own form, and the row that it stands for."""

    __slots__ = ("raw",)

    raw: Row


class ForeignRows(PlacedRows):
    """Rows of other programs, of which odm owns the declared cells."""

    layout: ClassVar[Layout] = "verbatim"

    kinds: Mapping[str, Kind] = field(factory=dict)

    def cells(self, needed: Filter) -> Filter:
        return needed if isinstance(needed, Selected) else Chain((self._every, Newest()))

    def without_others(self, tag: str, cells: Filter) -> Filter:
        return cells  # there are no tags

    def _selected(self, only: Only, roots: frozenset[str], *, listed: bool) -> Filter | None:
        kind = self.kinds[only.tag]
        asked = [*(path for path in only.paths if path.root not in roots), *(Path((root,)) for root in sorted(roots))]
        if kind.ttl is not None and any(path.root == TTL_ATTRIBUTE for path in asked):
            asked.append(Path((kind.ttl,)))
        places = (place for path in asked if (place := kind.place(path)) is not None)
        needed = tuple(dict.fromkeys(place.span if isinstance(place, Entries) else _range(place) for place in places))
        parts: list[Filter] = [span.shortest for span in needed]
        others = dict.fromkeys(
            tuple(part for span in ranges_of([other]) for part in span.without(needed)) for other in self.kinds.values()
        )
        # an item exists if it has any of its cells; other kinds of items may have some of these, too
        parts += [chain(cells_of(ranges), First(1), Stripped()) for ranges in others if ranges]
        selection = Selected((interleave(*parts), Newest()), needed, frozenset())
        return selection if fits(selection) else None

    def _holds(self, cell: Touched) -> bool:
        if cell.family is None or cell.qualifier is None:
            families = {span.family for kind in self.kinds.values() for span in kind.ranges}
            return cell.family is None or cell.family in families
        return any(kind.has(Place(cell.family, cell.qualifier)) for kind in self.kinds.values())

    @property
    def _every(self) -> Filter:
        """Every declared cell."""
        return cells_of(ranges_of(self.kinds.values()))

    def read(self, ids: tuple[str, ...], retry: Retry, needed: Filter = ITEM) -> Steps[dict[str, Row]]:
        rows = yield from super().read(ids, retry, needed)
        return {id: row for id, row in rows.items() if row.columns}

    def items(self, rows: Iterable[Row], *, former: bool = False, needed: Filter = ITEM) -> list[Row]:
        cells = needed if isinstance(needed, Selected) else None
        return [item for row in rows if (item := self._usual(row, cells)).columns]

    def usual(self, row: Row, *, former: bool = False) -> Row:
        """The row in odm's own form; a row of no entity as it is, and an empty row if its item does not exist."""
        return self._usual(row, None)

    def _usual(self, row: Row, cells: Selected | None) -> Row:
        at = [(kind, values) for kind in self.kinds.values() if (values := kind.read(row.text)) is not None]
        items = [item for kind, values in at if (item := self._made(kind, values, row, cells)) is not None]
        if len(items) == 1:
            return items[0]
        if items:
            fitting = [kind.entity for kind, values in at if self._made(kind, values, row, cells) is not None]
            several = _with(items[0], {TAG: write(of_several(fitting))})
            several.raw = row
            return several
        return row if not at or any(kind.has(column) for kind, _ in at for column in row.columns) else Row(row.key)

    def _kinds_at(self, id: str) -> list[Kind]:
        """The kinds of items that a row can have."""
        return [kind for kind in self.kinds.values() if kind.read(id) is not None]

    def _cells_at(self, id: str) -> Filter:
        """The declared cells of a row."""
        return cells_of(ranges_of(self._kinds_at(id)))

    def misread(self, items: Iterable[Row], *, counts_all: bool) -> int:
        return super().misread(items, counts_all=False)  # there are no tags to count by

    def tags_unless(self, tag: str) -> Filter | None:
        return None

    def unlisted(self, request: Put | Delete, schema: Schema) -> bool:
        id = self.row_keys.row_key(request.key)
        if any(kind.needs_row for kind in self._kinds_at(id)):
            return False
        return (isinstance(request, Put) or self.surely_own(id)) and super().unlisted(request, schema)

    @property
    def merge_unsupported_reason(self) -> str | None:
        if all(kind.entity.match is None for kind in self.kinds.values()):
            return None
        return (
            "no merge: match= distinguishes the rows of the table, and a merge does not read its row: update() the "
            "item, with upsert=True if it may not exist"
        )

    def whole_families(self, declared: Iterable[str] = ()) -> set[str]:
        return set()

    def unknown_items(self, entities: Iterable[EntitySchema]) -> tuple[Filter, ...]:
        return ()

    def rewrites(self, schema: Schema, rows: Sequence[Row], retry: Retry) -> Steps[list[Rewrite]]:
        return [*_rewrites(self, schema, rows, (yield from _others(self.table, rows, retry)))]

    def _made(self, kind: Kind, values: Mapping[str, Value], row: Row, cells: Selected | None) -> Row | None:
        """The row as an item of this entity; None if it is not one."""
        plan = kind.plan(row.columns)
        if not plan.numbers:
            return None
        if cells is not None:
            row = cells.cut(row)
            plan = kind.plan(row.columns)
        usual = usual_row(row, plan)
        more = dict.fromkeys(kind.entries, EMPTY_MAP)  # such a dict always is
        more[TAG] = write(kind.entity.tag)
        more |= {stored: self.form.write(stored, value) for stored, value in values.items()}
        made = _with(usual, more)
        if kind.entity.match is not None or kind.ttl is not None:
            item = decode(made, self.form) or {}
            if kind.entity.match is not None and not holds(kind.entity.match, item):
                return None
            if kind.ttl is not None and (expiry := _expiry(kind.entity, item.get(kind.ttl))) is not None:
                made = _with(usual, more | {TTL_ATTRIBUTE: write(expiry)})
        made.raw = row
        return made

    def stored(self, row: Row | None) -> Stored | None:
        item = super().stored(row)
        if item is None or row is None:
            return item
        raw = row.raw if isinstance(row, DeclaredRow) else row
        # the text of its cells, in place of a revision: it shows whether another writer has changed them
        return evolve(item, revision=sha256(repr((raw.columns, raw.values)).encode()).hexdigest())

    def listed(self, row: Row) -> tuple[Listed, ...]:
        return ()

    def surely_own(self, id: str) -> bool:
        """Whether the row key alone shows that an item belongs to its entity."""
        kinds = self._kinds_at(id)
        return len(kinds) == 1 and kinds[0].entity.match is None

    def taken(self, id: str) -> Filter:
        return self._cells_at(id)

    def strange(self, id: str, tag: str) -> Filter:
        """Returns a cell if the row is not an item of this entity, but has declared cells.

        If ``match=`` decides, it contains a Condition filter; see `Owned.strange`.
        """
        kind = self.kinds[tag]
        if kind.entity.match is None:
            return Nothing()
        fits, tags = self._matching(kind), {rival.tag for rival in kind.rivals}
        rivals = [self._matching(other) for other in self._kinds_at(id) if other.entity.tag in tags]
        return Unless(Unless(interleave(*rivals), fits) if rivals else fits, self._cells_at(id))

    def _matching(self, kind: Kind) -> Filter:
        filter_ = matching(kind, self.form)
        assert filter_ is not None
        return filter_

    def unchanged_for(self, id: str, before: Stored, request: Operation) -> Filter:
        kind = self.kinds[str(before.item[TAG])]
        held = _held(before)
        dependence = _Dependence.of(kind, held, request)
        starts = {start.column: start.cell for start in dependence.starts}
        values = {**{column: held[column] for column in dependence.held}, **starts}
        guards = [chain(_newest(column), ValueIs(value)) for column, value in values.items()]
        guards = guards or [cells_of(ranges_of([kind]))]
        for family in sorted({span.family for span in dependence.absent}):
            missing = [span for span in dependence.absent if span.family == family]
            end = dependence.after(family)
            if end is None:
                raise _unguarded(kind, id, missing[0])
            cells = interleave(*(chain(span.shortest, Newest()) for span in missing), _newest(end))
            guards.append(Chain((cells, First(1), _range(end).shortest)))
        guard = chained(*guards)
        if not fits(guard):
            raise Unsupported(
                f"{kind.entity.name} {id!r}: the write depends on cells that are too large for a condition of Bigtable "
                "(20 KB): read the item, and put it as a whole; or depend on smaller fields"
            )
        return guard

    def starts(self, id: str, before: Stored, request: Operation) -> tuple[CheckAndMutateRow, ...]:
        kind = self.kinds[str(before.item[TAG])]
        dependence = _Dependence.of(kind, _held(before), request)
        if not dependence.starts:
            return ()
        self.unchanged_for(id, before, request)  # raises Unsupported before anything is written
        there = self.unchanged_for(id, before, Check(request.key))
        cells = tuple(start.mutation for start in dependence.starts)
        return (CheckAndMutateRow(self.table, id, there, matched=cells),)

    def removed(self, id: str, before: Stored | None = None) -> tuple[Mutation, ...]:
        kinds = self._kinds_at(id) if before is None else [self.kinds[str(before.item[TAG])]]
        row = None if before is None else _raw(before)
        return tuple(dict.fromkeys(mutation for kind in kinds for mutation in kind.gone(row)))

    def replaced(
        self,
        item: Item,
        id: str,
        revision: str,
        listed: Sequence[Listed],
        now: int,
        before: Stored | None = None,
    ) -> tuple[Mutation, ...]:
        kind = self.kinds[item[TAG]]
        usual = ItemRows.replaced(self, item, id, revision, listed, now)[len(REMOVED) :]
        mutations = tuple(self._placed(kind, usual))
        if not mutations:
            raise _no_cell(kind, id)
        return (*kind.gone(None if before is None else _raw(before)), *mutations)

    def updated(self, id: str, changed: Iterable[Path], before: Stored, after: Item, now: int) -> tuple[Mutation, ...]:
        kind = self.kinds[str(before.item[TAG])]
        if not any(stored in after and after[stored] != {} for stored in kind.placement.spots):
            raise _no_cell(kind, id)
        paths = [*changed]
        plain = [path for path in paths if path.root not in kind.entries]
        mutations = [*self._placed(kind, ItemRows.updated(self, id, plain, before, after, now))]
        for name in kind.entries:
            some = [path for path in paths if path.root == name]
            mutations += self._entries_changed(id, name, some, before, after, now) if some else ()
        return tuple(mutations)

    def _entries_changed(  # what a write consists of
        self, id: str, name: str, changed: Sequence[Path], before: Stored, after: Item, now: int
    ) -> Iterator[Mutation]:
        """The mutations of the entries of a dict that an update names; those of all others stay."""
        kind = self.kinds[str(before.item[TAG])]
        spot, entries = kind.entries[name], after.get(name, {})
        keys = [str(path.segments[1]) for path in changed if len(path.segments) > 1]
        if len(keys) < len(changed):  # the whole dict is set
            keys = [*entries]
            yield DeleteColumn(str(spot.cell), spot.family)  # a column without a key, so that there is a mutation
            for column in _raw(before).columns:
                if spot.span.has(*column) and column not in kind.columns:
                    yield DeleteColumn(column.qualifier.decode("utf-8", "surrogateescape"), column.family)
        for key in dict.fromkeys(keys):
            usual: list[Mutation] = [DeleteColumn(member_qualifier(name, key))]
            if key in entries:
                usual += attribute_cells(name, {key: entries[key]}, self.form, id, now)
            yield from kind.placement.mutations(usual)

    def added(self, action: Action, before: Stored) -> AddToCell | None:
        placement = self.kinds[str(before.item[TAG])].placement
        mutation = added_to(action, placement.spots.get(action.path.root))
        if mutation is None:
            return None
        family, column, _ = placement.place(mutation.qualifier)
        return AddToCell(column, mutation.by, family)

    def merged(self, request: Merge, id: str, revision: str, now: int) -> tuple[Mutation, ...]:
        kind = self.kinds[str(request.marks[TAG])]
        mutations = super().merged(request, id, revision, now)
        kept = tuple(
            mutation
            for mutation in mutations
            if isinstance(mutation, SetCell | DeleteColumn | AddToCell)
            and kind.has(Place(mutation.family, utf8(mutation.qualifier)))
        )
        if not kept:
            raise _no_cell(kind, id)
        return kept

    def noted(self, id: str, before: Stored, revision: str, listed: Sequence[Listed], now: int) -> tuple[Mutation, ...]:
        return ()

    def _placed(self, kind: Kind, usual: Iterable[Mutation]) -> Iterator[Mutation]:
        """The mutations of the cells that exist."""
        for mutation in usual:
            name = (
                mutation.qualifier
                if isinstance(mutation, SetCell | DeleteColumn) and mutation.family == FAMILY
                else None
            )
            if name is not None and kind.placement.place(name)[2] is not None:
                yield from kind.placement.mutations((mutation,))


class _Start(Immutable):
    """An entry that a write increments, which is written as 0 first.

    Attributes:
        column: its column.
        cell: the cell of 0.
    """

    column: Place
    cell: bytes

    @property
    def mutation(self) -> SetCell:
        """The mutation that writes it, with a timestamp by which the cell of another program stays the newest."""
        family, column = self.column
        return SetCell(column.decode("utf-8", "surrogateescape"), self.cell, OLDEST, family)


class _Dependence(Immutable):
    """The columns on whose cells a write depends.

    Attributes:
        held: those that the row has.
        absent: those that it lacks.
        starts: the entries that it lacks, and that must be written before the commit can check them.
        ends: by family, the last of the item's cells.
    """

    held: tuple[Place, ...]
    absent: tuple[ColumnRange, ...]
    starts: tuple[_Start, ...]
    ends: Mapping[str, Place]

    @classmethod
    def of(cls, kind: Kind, row: Mapping[Place, bytes], request: Operation) -> "_Dependence":
        """The columns on which a write of the item of this row depends."""
        held: list[Place] = []
        absent: list[ColumnRange] = []
        for path in _depends(kind, request):
            place = kind.place(path)
            if isinstance(place, Entries):
                entries = [column for column in row if place.span.has(*column) and column not in kind.columns]
                held += entries
                absent += place.span.without(map(_range, (*entries, *kind.columns)))
            elif place is not None and place in row:
                held.append(place)
            elif place is not None:
                absent.append(_range(place))
        ends = {column.family: column for column in sorted(row) if kind.has(column)}
        for column in _of_rivals(kind):
            last = ends.get(column.family)
            if column in row:
                held.append(column)
            elif last is not None and last.qualifier > column.qualifier:  # elsewhere no filter can check it
                absent.append(_range(column))
        without_starts = cls(tuple(held), tuple(absent), (), ends)
        possible = {_range(start.column): start for start in _starts(kind, row, request)}
        unchecked = (span for span in dict.fromkeys(absent) if without_starts.after(span.family) is None)
        starts = [span for span in unchecked if span in possible]
        checked = tuple(span for span in absent if span not in starts)
        return evolve(without_starts, absent=checked, starts=tuple(possible[span] for span in starts))

    def after(self, family: str) -> Place | None:
        """A cell of the item that sorts after all those of the family that must be missing; None: there is none."""
        last = self.ends.get(family)
        behind = last is not None and all(
            span.end and last.qualifier >= utf8(span.end) for span in self.absent if span.family == family
        )
        return last if behind else None


def _starts(kind: Kind, row: Mapping[Place, bytes], request: Operation) -> Iterator[_Start]:
    """The entries that a write increments and that the row lacks, unless its condition asks for them."""
    asked = {path.segments[:2] for path in paths(request.condition)}
    for action in request.actions if isinstance(request, Update) else ():
        spot = kind.entries.get(action.path.root)
        match action:
            case Increment(Path((name, str(key))), _, start) if (
                spot is not None and spot.column(key) not in row and asked.isdisjoint({(name, key), (name,)})
            ):
                yield _Start(spot.column(key), spot.value(write(start)))


def _depends(kind: Kind, request: Operation) -> list[Path]:
    """The attributes on whose values a write depends, and the entries of dicts with a cell for each."""
    asked = {path for condition in (condition_of(request), kind.entity.match) for path in paths(condition)}
    if isinstance(request, Update):
        if request.returning != "none":
            return [Path((stored,)) for stored in kind.placement.spots]
        asked |= {action.path for action in request.actions if _starts_from_stored(kind, action)}
    if kind.ttl is not None and any(path.root == TTL_ATTRIBUTE for path in asked):
        asked.add(Path((kind.ttl,)))
    return sorted({Path(path.segments[: 2 if path.root in kind.entries else 1]) for path in asked}, key=str)


def _of_rivals(kind: Kind) -> list[Place]:
    """The cells with which another program would make the row one of two entities, and so of none."""
    asked = [(rival, path.root) for rival in kind.rivals for path in paths(rival.match)]
    cells = (rival.cells[root] for rival, root in asked if root in rival.cells)
    return sorted({Place(cell.family, utf8(cell.qualifier)) for cell in cells})


def _starts_from_stored(kind: Kind, action: Action) -> bool:
    """Whether the result of an action depends on the cell that it changes."""
    name, segments = action.path.root, action.path.segments
    if isinstance(action, Set | Remove):
        return len(segments) > (2 if name in kind.entries else 1)
    return added_to(action, kind.placement.spots.get(name)) is None


def _expiry(entity: EntitySchema, value: Value) -> int | None:
    """The expiry in epoch seconds of a stored value of the TTL field."""
    if value is None or entity.ttl is None:
        return None
    loaded = entity.codec.record.fields[entity.ttl].type.load(value)
    try:
        return ttl_seconds(loaded)
    except (AttributeError, TypeError, BadValue):
        return None


def _with(row: Row, more: Mapping[str, bytes]) -> DeclaredRow:
    """The row with more cells of ``d``, in place of those with the same names."""
    columns, kept = _merged(row.columns, tuple(more))
    values = (*(row.values[at] for at in kept), *more.values())
    times = (*(row.timestamps[at] for at in kept), *([0] * len(more)))
    row_ = DeclaredRow.parted(row.key, columns, values, times)
    assert isinstance(row_, DeclaredRow)
    return row_


@lru_cache(maxsize=512)  # most rows of a page have the same columns
def _merged(columns: tuple[Place, ...], more: tuple[str, ...]) -> tuple[tuple[Place, ...], tuple[int, ...]]:
    added = tuple(Place(FAMILY, qualifier(name).encode()) for name in more)
    kept = tuple(at for at, column in enumerate(columns) if column not in added)
    return (*(columns[at] for at in kept), *added), kept


def _raw(item: Stored) -> Row:
    """The stored row of an item, with all cells that were read."""
    return item.row.raw if isinstance(item.row, DeclaredRow) else item.row


def _held(item: Stored) -> dict[Place, bytes]:
    """The cells of the row of an item."""
    raw = _raw(item)
    return dict(zip(raw.columns, raw.values, strict=True))


def _range(column: Place) -> ColumnRange:
    return one_column(column.family, column.qualifier.decode("utf-8", "surrogateescape"))


def _newest(column: Place) -> Filter:
    return newest(column.family, column.qualifier.decode("utf-8", "surrogateescape"))


def _unguarded(kind: Kind, id: str, missing: ColumnRange) -> Unsupported:
    name = f"{missing.family}:{shown(missing.start)}"
    if not isinstance(missing.shortest, Column):
        return Unsupported(
            f"{kind.entity.name} {id!r}: the write depends on all entries of a dict, and Bigtable cannot check that "
            f"none was added to {missing.family}:{shown(missing.start)} and the columns behind it: depend on single "
            "entries, leave out returning= or the condition, or put the whole item"
        )
    return Unsupported(
        f"{kind.entity.name} {id!r}: the write depends on the missing cell {name}, and Bigtable can check that only "
        "together with a cell of the item that sorts after it in its family: give a required field such a cell, leave "
        "out returning= or the condition, or put the whole item"
    )


def _no_cell(kind: Kind, id: str) -> BadValue:
    return BadValue(
        f"{kind.entity.name} {id!r}: the item would have no cell, and Bigtable has no rows without cells: give a field "
        "a value, or delete the item"
    )


_AT_ONCE = 100
"""The number of rows to read by their keys in a request."""

_MOST_NAMED = 20
"""The number of undeclared columns of a family that are listed by name."""


def _others(table: str, rows: Sequence[Row], retry: Retry) -> Steps[dict[str, dict[Place, bytes]]]:
    """The cells of rows of other programs that no model has, by row key.

    The names of very many columns are data: of such a family, each row has one cell, of the column ``*``.
    """
    declared = {row.text: {*row.raw.columns} for row in rows if isinstance(row, DeclaredRow)}
    keys, cells = tuple(declared), chain(Newest(), First(MOST_CELLS))
    read: list[Row] = []
    for start in range(0, len(keys), _AT_ONCE):
        read += yield from read_all(ReadRows(table, keys[start : start + _AT_ONCE], filter=cells), retry)
    found = {
        row.text: {c: v for c, v in zip(row.columns, row.values, strict=True) if c not in declared[row.text]}
        for row in read
    }
    names = Counter(family for family, _ in {column for cells in found.values() for column in cells})
    return {
        key: {Place(c.family, b"*") if names[c.family] > _MOST_NAMED else c: value for c, value in cells.items()}
        for key, cells in found.items()
    }


def _rewrites(
    places: ForeignRows, schema: Schema, rows: Iterable[Row], others: Mapping[str, Mapping[Place, bytes]]
) -> Iterator[Rewrite]:
    """What a put would write into each row of other programs that can be read; `judge` reports the others.

    Args:
        places: where the models have their cells.
        schema: their schema.
        rows: the rows, with the cells that models have.
        others: the other cells, by row key.
    """
    for row in rows:
        stored = places.stored(row)
        entity = None if stored is None else schema.entities.get(str(stored.item.get(TAG)))
        if stored is None or entity is None or not isinstance(row, DeclaredRow):
            continue
        try:
            written = entity.codec.encode(entity.codec.decode(placeholders(entity.blobs, stored.item)))
            mutations = places.replaced(written, row.text, "", (), 0)
        except OdmError:
            continue
        before = dict(zip(row.raw.columns, row.raw.values, strict=True))
        after = {
            Place(mutation.family, utf8(mutation.qualifier)): mutation.value
            for mutation in mutations
            if isinstance(mutation, SetCell)
        }
        kind = places.kinds[entity.tag]
        was, now = (_by_field(kind, cells, other) for cells, other in ((before, after), (after, before)))
        was |= {_named(column): value for column, value in others.get(row.text, {}).items()}
        known = {*now, *(_entries_named(spot.span) for spot in kind.entries.values())}
        yield Rewrite(entity.name, row.text, was, now, known)


def _named(column: Place) -> str:
    return f"{column.family}:{column.qualifier.decode(errors='backslashreplace')}"


def _entries_named(span: ColumnRange) -> str:
    return f"{span.family}:{shown(span.start)}*"


def _by_field(
    kind: Kind, cells: Mapping[Place, bytes], others: Mapping[Place, bytes]
) -> dict[str, bytes | dict[str, bytes]]:
    """The cells of a row by column, and those entries of each dict together that others have in another form."""
    by_field: dict[str, bytes | dict[str, bytes]] = {}
    for column, cell in cells.items():
        name = _named(column)
        spans = (spot.span for spot in kind.entries.values() if spot.span.has(*column))
        span = None if column in kind.columns else next(spans, None)
        if span is None:
            by_field[name] = cell
        elif others.get(column) != cell:
            entries = by_field.setdefault(_entries_named(span), {})
            assert isinstance(entries, dict)
            entries[name] = cell
    return by_field
