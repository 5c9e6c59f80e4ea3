"""Rows that other programs write, too: ``Table(row_style="verbatim")``.

A row has no cells of odm: no tag, no revision, no list of index entries. It has those that the models declare, and any
others, which stay on every call. The row key and ``match=`` show of which entity it is, and a field that stands in the
row key, and in no cell, is read from there. An item exists if the row has one of the declared cells.

To the rest of the backend, an item looks like a row of odm's own form (`placement`), without a revision. A write that
depends on the item reads it first. The commit then checks that the cells on which the write depends are unchanged.

A filter can check that one cell is missing and another exists only if the second sorts after the first in its family.
If a write depends on a missing cell, and no cell of the item sorts after it, it is refused with `odm.Unsupported`.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256

from attrs import Factory, evolve, frozen

from odm.backends.bigtable.actions import added_to
from odm.backends.bigtable.cells import qualifier, write
from odm.backends.bigtable.codec import Listed, Stored, decode
from odm.backends.bigtable.filters import (
    Chain,
    Column,
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
)
from odm.backends.bigtable.kinds import Kind, matching
from odm.backends.bigtable.native import FAMILY, ITEM, AddToCell, DeleteColumn, Mutation, Row, SetCell, Steps
from odm.backends.bigtable.native import Column as Place
from odm.backends.bigtable.native_streams import Touched
from odm.backends.bigtable.ownership import REMOVED
from odm.backends.bigtable.placed import Placed
from odm.backends.bigtable.placement import usual_row
from odm.backends.bigtable.places import Places
from odm.backends.bigtable.retry import Retry
from odm.backends.bigtable.selected import Columns, Selected
from odm.codec import TAG, TTL_ATTRIBUTE
from odm.codec.attributes import ttl_seconds
from odm.errors import BadValue, Unsupported
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Action, Item, Remove, Set, Value, paths
from odm.protocol.requests import Merge, Only, Operation, Update
from odm.schema.entity import EntitySchema
from odm.schema.faults import of_several


class DeclaredRow(Row):
    """A row of odm's own form, and the row that it stands for."""

    __slots__ = ("raw",)

    raw: Row


@frozen
class Declared(Placed):
    """Rows of other programs, of which odm owns the declared cells."""

    kinds: Mapping[str, Kind] = Factory(dict)

    @property
    def tagged(self) -> bool:
        return False

    def cells(self, wanted: Filter) -> Filter:
        return wanted if isinstance(wanted, Selected) else Chain((self._every, Newest()))

    def without_others(self, tag: str, cells: Filter) -> Filter:
        return cells  # there are no tags

    def _selected(self, only: Only, roots: frozenset[str], *, listed: bool) -> Filter | None:
        kind = self.kinds[only.tag]
        names = {*only.roots, *roots}
        if TTL_ATTRIBUTE in names and kind.ttl is not None:
            names.add(kind.ttl)
        wanted = sorted({column for name in names if (column := kind.column(name)) is not None})
        parts: list[Filter] = [Column(family, column.decode()) for family, column in wanted]
        others = dict.fromkeys(tuple(sorted({*one.columns}.difference(wanted))) for one in self.kinds.values())
        # an item exists if it has any of its cells; other kinds of items may have some of these, too
        parts += [chain(_columns_of(columns), First(1), Stripped()) for columns in others if columns]
        ranges = tuple(Columns(family, column.decode(), f"{column.decode()}\0") for family, column in wanted)
        made = Selected((interleave(*parts), Newest()), ranges, frozenset())
        return made if fits(made) else None

    def _holds(self, cell: Touched) -> bool:
        columns = {column for kind in self.kinds.values() for column in kind.columns}
        if cell.family is None or cell.qualifier is None:
            return cell.family is None or any(column.family == cell.family for column in columns)
        return Place(cell.family, cell.qualifier) in columns

    @property
    def _every(self) -> Filter:
        """Every declared cell."""
        return _columns_of(tuple(sorted({column for kind in self.kinds.values() for column in kind.columns})))

    def read(self, ids: tuple[str, ...], retry: Retry, wanted: Filter = ITEM) -> Steps[dict[str, Row]]:
        found = yield from super().read(ids, retry, wanted)
        return {id: row for id, row in found.items() if row.columns}

    def items(self, rows: Iterable[Row], *, former: bool = False, wanted: Filter = ITEM) -> list[Row]:
        cells = wanted if isinstance(wanted, Selected) else None
        return [found for row in rows if (found := self._usual(row, cells)).columns]

    def usual(self, row: Row, *, former: bool = False) -> Row:
        """The row in odm's own form; a row of no entity as it is, and an empty row if its item does not exist."""
        return self._usual(row, None)

    def _usual(self, row: Row, cells: Selected | None) -> Row:
        at = [(kind, values) for kind in self.kinds.values() if (values := kind.read(row.text)) is not None]
        found = [made for kind, values in at if (made := self._made(kind, values, row, cells)) is not None]
        if len(found) == 1:
            return found[0]
        if found:
            fitting = [kind.entity for kind, values in at if self._made(kind, values, row, cells) is not None]
            several = _with(found[0], {TAG: write(of_several(fitting))})
            several.raw = row
            return several
        theirs = {column for kind, _ in at for column in kind.columns}
        return row if not at or theirs.intersection(row.columns) else Row(row.key)

    def _kinds_at(self, id: str) -> list[Kind]:
        """The kinds of items that a row can have."""
        return [kind for kind in self.kinds.values() if kind.read(id) is not None]

    def _cells_at(self, id: str) -> Filter:
        """The declared cells of a row."""
        return _columns_of(tuple(sorted({column for kind in self._kinds_at(id) for column in kind.columns})))

    def _made(self, kind: Kind, values: Mapping[str, Value], row: Row, cells: Selected | None) -> Row | None:
        """The row as an item of this entity; None if it is not one."""
        plan = kind.placement.plan(row.columns)
        if not plan.numbers:
            return None
        if cells is not None:
            row = cells.cut(row)
            plan = kind.placement.plan(row.columns)
        found = usual_row(row, plan)
        more = {TAG: write(kind.entity.tag)}
        more |= {stored: self.form.write(stored, value) for stored, value in values.items()}
        made = _with(found, more)
        if kind.entity.match is not None or kind.ttl is not None:
            item = decode(made, self.form) or {}
            if kind.entity.match is not None and not holds(kind.entity.match, item):
                return None
            if kind.ttl is not None and (expiry := _expiry(kind.entity, item.get(kind.ttl))) is not None:
                made = _with(found, more | {TTL_ATTRIBUTE: write(expiry)})
        made.raw = row
        return made

    def stored(self, row: Row | None) -> Stored | None:
        found = super().stored(row)
        if found is None or row is None:
            return found
        raw = row.raw if isinstance(row, DeclaredRow) else row
        # the text of its cells, in place of a revision: it shows whether another writer has changed them
        return evolve(found, revision=sha256(repr((raw.columns, raw.values)).encode()).hexdigest())

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
        found = matching(kind, self.form)
        assert found is not None
        return found

    def unchanged_for(self, id: str, before: Stored, request: Operation) -> Filter:
        kind = self.kinds[str(before.item[TAG])]
        raw = before.row.raw if isinstance(before.row, DeclaredRow) else before.row
        held = dict(zip(raw.columns, raw.values, strict=True))
        wanted = [column for stored in _depends(kind, request) if (column := kind.column(stored)) is not None]
        same = [chain(_newest(column), ValueIs(held[column])) for column in wanted if column in held]
        absent = [column for column in wanted if column not in held]
        guards = same or [_columns_of(kind.columns)]
        for family in sorted({column.family for column in absent}):
            missing = [column for column in absent if column.family == family]
            last = max(column.qualifier for column in missing)
            present = [column for column in held if column.family == family and column in kind.columns]
            after = [column for column in present if column.qualifier > last]
            if not after:
                raise _unguarded(kind, id, missing[0])
            end = max(after)
            cells = interleave(*map(_newest, (*missing, end)))
            guards.append(Chain((cells, First(1), Column(end.family, end.qualifier.decode()))))
        guard = chained(*guards)
        if not fits(guard):
            raise Unsupported(
                f"{kind.entity.name} {id!r}: the write depends on cells that are too large for a condition of Bigtable "
                "(20 KB): read the item, and put it as a whole; or depend on smaller fields"
            )
        return guard

    def removed(self, id: str, before: Stored | None = None) -> tuple[Mutation, ...]:
        kinds = self._kinds_at(id) if before is None else [self.kinds[str(before.item[TAG])]]
        return tuple(dict.fromkeys(one for kind in kinds for one in kind.gone))

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
        usual = Places.replaced(self, item, id, revision, listed, now)[len(REMOVED) :]
        made = tuple(self._placed(kind, usual))
        if not made:
            raise _no_cell(kind, id)
        return (*kind.gone, *made)

    def updated(self, id: str, names: Iterable[str], before: Stored, after: Item, now: int) -> tuple[Mutation, ...]:
        kind = self.kinds[str(before.item[TAG])]
        if not any(stored in after for stored in kind.placement.spots):
            raise _no_cell(kind, id)
        return tuple(self._placed(kind, Places.updated(self, id, names, before, after, now)))

    def added(self, action: Action, before: Stored) -> AddToCell | None:
        placement = self.kinds[str(before.item[TAG])].placement
        made = added_to(action, placement.spots.get(action.path.root))
        if made is None:
            return None
        family, column, _ = placement.place(made.qualifier)
        return AddToCell(column, made.by, family)

    def merged(self, request: Merge, id: str, revision: str, now: int) -> tuple[Mutation, ...]:
        kind = self.kinds[str(request.marks[TAG])]
        made = super().merged(request, id, revision, now)
        kept = tuple(
            one
            for one in made
            if isinstance(one, SetCell | DeleteColumn | AddToCell)
            and Place(one.family, one.qualifier.encode()) in kind.columns
        )
        if not kept:
            raise _no_cell(kind, id)
        return kept

    def noted(self, id: str, before: Stored, revision: str, listed: Sequence[Listed], now: int) -> tuple[Mutation, ...]:
        return ()

    def _placed(self, kind: Kind, usual: Iterable[Mutation]) -> Iterator[Mutation]:
        """The mutations of the cells that exist."""
        for one in usual:
            name = one.qualifier if isinstance(one, SetCell | DeleteColumn) and one.family == FAMILY else None
            if name is not None and kind.placement.place(name)[2] is not None:
                yield from kind.placement.mutations((one,))


def _depends(kind: Kind, request: Operation) -> frozenset[str]:
    """The attributes on whose values a write depends."""
    roots = {path.root for condition in (request.condition, kind.entity.match) for path in paths(condition)}
    if isinstance(request, Update):
        if request.returning != "none":
            return frozenset(kind.placement.spots)
        roots |= {
            action.path.root
            for action in request.actions
            if (not isinstance(action, Set | Remove) or len(action.path.segments) > 1)
            and added_to(action, kind.placement.spots.get(action.path.root)) is None
        }
    if TTL_ATTRIBUTE in roots and kind.ttl is not None:
        roots.add(kind.ttl)
    return frozenset(roots)


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
    made = DeclaredRow.parted(row.key, columns, values, times)
    assert isinstance(made, DeclaredRow)
    return made


@lru_cache(maxsize=512)
def _merged(columns: tuple[Place, ...], more: tuple[str, ...]) -> tuple[tuple[Place, ...], tuple[int, ...]]:
    added = tuple(Place(FAMILY, qualifier(name).encode()) for name in more)
    kept = tuple(at for at, column in enumerate(columns) if column not in added)
    return (*(columns[at] for at in kept), *added), kept


@lru_cache(maxsize=256)
def _columns_of(columns: tuple[Place, ...]) -> Filter:
    return interleave(*(Column(family, column.decode()) for family, column in columns))


def _newest(column: Place) -> Filter:
    return newest(column.family, column.qualifier.decode())


def _unguarded(kind: Kind, id: str, missing: Place) -> Unsupported:
    name = f"{missing.family}:{missing.qualifier.decode()}"
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
