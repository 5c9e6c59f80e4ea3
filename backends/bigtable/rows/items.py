"""The layout with a row for each item, and the contract of every layout: how an item is read and changed.

`ItemRows` is both; `odm.backends.bigtable.rows.wide` is the layout with one row for each partition. Procedures name an
item by its *id*, the row key that it has, or would have, in a row of its own: partition and sort key with the table's
separator. `PlacedRows` are for items of which some cells stand in families or columns of their own; to the rest of the
backend, each looks like a row of the usual form.

Reads of some attributes: an attribute is in its plain cell, in the columns of its members if it is in Columns, and in
the aggregate family if it is a Counter. It may have been stored before it had such a marker, so all of these are read.
The tag shows an item. A row without a tag may hold cells of another program, which a read must report. So a read also
takes one other cell of each row, without its value; in rows with a tag, `Selected.narrowed` leaves it out.
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from itertools import groupby
from typing import ClassVar, Final, TypeVar

from attrs import Factory, define

from odm.backends.bigtable.client.filters import (
    Chain,
    Column,
    ColumnRange,
    Filter,
    First,
    Interleave,
    Newest,
    Stripped,
    Unless,
    ValueIs,
    chain,
    fits,
    interleave,
    newest,
    one_column,
)
from odm.backends.bigtable.client.native import (
    COUNTERS,
    FAMILY,
    ITEM,
    AddToCell,
    CheckAndMutateRow,
    Mutation,
    Row,
    SetCell,
    Steps,
    Touched,
)
from odm.backends.bigtable.client.native import Column as Place
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.rows.cells import LISTED, LOCK, REVISION, member_qualifier, qualifier, read, write
from odm.backends.bigtable.rows.codec import (
    UNREADABLE,
    Form,
    Listed,
    Stored,
    attribute_cells,
    attribute_gone,
    bookkeeping,
    listed,
    replacement,
    stored,
)
from odm.backends.bigtable.rows.keys import Layout, RowKeys
from odm.backends.bigtable.rows.loading import Loader, RowItems
from odm.backends.bigtable.rows.locks import NO_LOCKS, NoLocks
from odm.backends.bigtable.rows.mutations import merging
from odm.backends.bigtable.rows.ownership import PROBE_PREFIX, REMOVED, outside
from odm.backends.bigtable.rows.pages import ItemSource, read_page, rows_of, sample_rows
from odm.backends.bigtable.rows.placement import Placement, Plan, usual_row
from odm.backends.bigtable.rows.predicates import revision_is
from odm.codec import TAG, TTL_ATTRIBUTE, VERSION, EntityCodec, Lazy
from odm.errors import BackendError
from odm.expressions.nodes import Action, Item, Path, Value
from odm.immutable import Immutable, evolve
from odm.protocol.reading import Only
from odm.protocol.requests import Delete, Merge, Operation, Page, Position, Put, Query, Scan
from odm.schema.entity import EntitySchema, Key
from odm.schema.model import Schema
from odm.schema.rewrites import Rewrite

_KEPT = frozenset({TAG, TTL_ATTRIBUTE, VERSION})
_MOST = 512
"""The maximum sets of columns whose cut is kept: rows of other programs may have any columns."""


class Selected(Chain, dict=True):
    """The cells of some attributes, in the families that they have, and one more cell of each row.

    Attributes:
        needed: their columns.
        tags: the columns of tags.
    """

    needed: tuple[ColumnRange, ...]
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
        kept = tuple(n for n, place in enumerate(columns) if any(span.has(*place) for span in self.needed))
        return tuple(columns[n] for n in kept), kept


def narrowed(rows: Iterable[Row], needed: Filter) -> list[Row]:
    """The rows of a read with this filter, with the cells that were asked for."""
    return [needed.narrowed(row) for row in rows] if isinstance(needed, Selected) else [*rows]


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
    needed = [one_column(home, name) for home in homes for name in (TAG, REVISION, *([LISTED] * listed))]
    needed += dict.fromkeys(column for path in paths if path.root != TAG for column in _columns(form, only.tag, path))
    unique = tuple(dict.fromkeys(needed))
    others = interleave(*_others(form, unique))
    cells = interleave(*(span.shortest for span in unique), chain(others, First(1), Stripped()))
    selected = Selected((cells, Newest()), unique, frozenset(Place(home, TAG.encode()) for home in homes))
    return selected if fits(selected) else None


def _whole(root: str) -> Path:
    return Path((root,))


def _columns(form: Form, tag: str, path: Path) -> Iterator[ColumnRange]:
    """All columns that hold an attribute or a member of it, or that held it before it had its marker."""
    name, placement = path.root, form.placement(tag)
    column = qualifier(name)
    if name in _KEPT:
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


def _others(form: Form, needed: Sequence[ColumnRange]) -> Iterator[Filter]:
    """The cells of odm's families that are not needed, and that show another program in a row without a tag."""
    owned = form.owned
    known = {COUNTERS: [(name, f"{name}\0") for name in owned.counters]}
    known |= {home: [(PROBE_PREFIX, "~scrub.")] for home in owned.tag_families}
    taken = sorted(needed, key=lambda span: span.family)
    ranges = {family: [(one.start, one.end) for one in them] for family, them in groupby(taken, lambda one: one.family)}
    for family in dict.fromkeys((*owned.tag_families, COUNTERS, *owned.families)):
        yield from outside(family, _merged([*known.get(family, ()), *ranges.get(family, ())]))
    named = {
        (column_range.family, column_range.start)
        for column_range in needed
        if column_range.end == f"{column_range.start}\0"
    }
    yield from (Column(*cell) for cell in owned.cells if cell not in named)


def _merged(ranges: Iterable[tuple[str, str]]) -> list[tuple[str, str]]:
    """Sorted ranges that do not overlap."""
    gaps: list[tuple[str, str]] = []
    for start, end in sorted(ranges, key=lambda one: one[0].encode()):
        if gaps and start.encode() <= gaps[-1][1].encode():
            last = max(gaps[-1][1], end, key=str.encode)
            gaps[-1] = gaps[-1][0], last
        else:
            gaps.append((start, end))
    return gaps


_MOST_SELECTIONS: Final = 256
"""The maximum selections that are kept: calls with `only=` make one for each set of fields."""

_MARKS: Final = frozenset({TAG.encode(), TTL_ATTRIBUTE.encode()})

_SIDE: Final = frozenset({REVISION.encode(), LISTED.encode(), LOCK.encode()})
"""The columns of an item that are not attributes: its revision, the list of its index entries, and its lock."""


class _Locked(Immutable, kw_only=True):
    locks: NoLocks = NO_LOCKS


class ItemRows(_Locked, dict=True):
    """Items with a row each.

    Attributes:
        table: the table's name.
        form: how attributes are stored.
        row_keys: how row keys are built.
        locks: the locks of transactions.
        current: the cells of whole items, without the former values that fields keep; see ``former`` of a `Get`.
        layout: the name of the layout.
        reads_backwards: whether a query in reverse reads only the items that it returns.
        merges_together: whether thousands of merges are one request; not so if items must be read.
    """

    layout: ClassVar[Layout] = "row_per_item"
    reads_backwards: ClassVar[bool] = True
    merges_together: ClassVar[bool] = True

    table: str
    form: Form
    row_keys: RowKeys

    @cached_property
    def _selections(self) -> dict[tuple[Only, frozenset[str], bool], Filter]:
        return {}

    @cached_property
    def current(self) -> Filter:
        return ITEM

    def surely_own(self, id: str) -> bool:
        """Whether an item with this id belongs to its entity, whatever its cells are."""
        return False

    def row(self, id: str) -> str:
        """The row key of the row that holds an item."""
        return id

    def in_one_call(self, keys: Sequence[Key]) -> bool:
        """Whether one call can change the items with these keys together."""
        return len(keys) < 2

    def read(self, ids: tuple[str, ...], retry: Retry, needed: Filter = ITEM) -> Steps[dict[str, Row]]:
        """Read items by id; missing items are omitted.

        Args:
            ids: the items, without duplicates.
            retry: how long to retry.
            needed: the cells that are needed; more may be returned.
        """
        if needed is ITEM:
            return self.locks.read(self.table, ids, ITEM, retry)
        return self._read(ids, retry, self.cells(needed))

    def _read(self, ids: tuple[str, ...], retry: Retry, cells: Filter) -> Steps[dict[str, Row]]:
        """The same for cells that do not stand as they are needed."""
        return self.named((yield from self.locks.read(self.table, ids, cells, retry)), cells)

    def named(self, rows: dict[str, Row], cells: Filter) -> dict[str, Row]:
        """The items in rows that were read with a filter, by id."""
        return {row.text: row for row in narrowed(rows.values(), cells)} if isinstance(cells, Selected) else rows

    def shown(self, cells: Filter) -> Filter:
        """The filter for these cells of rows, and for the locks of transactions."""
        return self.locks.shown(cells)

    def selection(self, only: Only, roots: frozenset[str] = frozenset(), *, listed: bool = False) -> Filter:
        """The cells for some attributes of items; those of whole items, if they cannot be selected.

        Args:
            only: the attributes.
            roots: other attributes that are needed, such as those of a filter.
            listed: the index entries of the items are needed, too.
        """
        known = self._selections.get((only, roots, listed))
        if known is None:
            known = self._selected(only, roots, listed=listed) or self.current
            if len(self._selections) >= _MOST_SELECTIONS:
                self._selections.clear()
            self._selections[only, roots, listed] = known
        return known

    def _selected(self, only: Only, roots: frozenset[str], *, listed: bool) -> Filter | None:
        """The filter for these attributes; None: whole items must be read."""
        return selected(self.form, only, roots, listed=listed)

    def without_others(self, tag: str, cells: Filter) -> Filter:
        """The cells, except those of rows with the tag of another entity of the table.

        It contains a Condition filter, which is not atomic (google.bigtable.v2, data.proto: RowFilter.Condition). That
        is right for a scan: a row that changes its entity while it is read may be in the result or not.
        """
        others = self.form.other_tags(tag)
        if others is None:
            return cells
        filter_ = Unless(others, cells)
        return filter_ if fits(filter_) else cells

    def has_space(self, before: Stored | None, *, refused: bool) -> bool:
        """Whether a row surely has space for an item.

        Args:
            before: the item that was read; None: there was none.
            refused: the last attempt to write the item was refused.
        """
        return True

    def check_space(self, rows: Mapping[str, int], retry: Retry) -> Steps[None]:
        """Refuse a write that could make a row too large to be read.

        Args:
            rows: the bytes to be added, by row key.
            retry: how long to retry.

        Raises:
            ItemTooLarge: a row has no space for them.
        """
        yield from ()

    def check_puts(self, puts: Iterable[tuple[str, Item]], retry: Retry) -> Steps[None]:
        """The same for items that are put whole, by their ids."""
        yield from ()

    def read_together(self, ids: tuple[str, ...], retry: Retry, needed: Filter = ITEM) -> Steps[dict[str, Row]]:
        """The same for items of one row, as they were at one instant."""
        return self.read(ids, retry, needed)

    def cells(self, needed: Filter) -> Filter:
        """The cells to read for these cells of items."""
        return needed

    def items(self, rows: Iterable[Row], *, former: bool = False, needed: Filter = ITEM) -> list[Row]:
        """The items of some rows, each as a row of its own whose key is the item's id.

        Args:
            rows: the rows.
            former: they were read with the former values of fields.
            needed: the cells that they were read for.
        """
        return narrowed(rows, needed) if isinstance(needed, Selected) else [*rows]

    def item_of(self, row: Row) -> Row | None:
        """The item of a row with all its cells, as transactions read it."""
        return row

    def loader(self, codecs: Iterable[EntityCodec] = ()) -> Loader:
        """Makes items, and entities of these codecs, of rows."""
        return Loader(self.form, codecs)

    def query(self, request: Query, loader: Loader, retry: Retry) -> Steps[Page]:
        """Read a page of one partition of the table."""
        row_keys = self.row_keys
        span = row_keys.range(request.partition, request.lo, request.hi)
        if request.after is not None:
            span = span.beyond(row_keys.row_key(request.after.key), reverse=request.reverse)
        source = ItemSource.of(request, self, row_keys.positions(request.partition), loader, retry)
        return read_page(request, source, span, retry)

    def scan(self, request: Scan, loader: Loader, retry: Retry) -> Steps[Page]:
        """Read a page of the whole table.

        A row key cannot be split into partition and sort if its entity is not known. To continue a scan, the row key
        suffices, so the positions have the whole row key as their partition, and no sort.
        """
        span = rows_of(request, self.row_keys)
        if request.after is not None:
            span = span.beyond(request.after.key.partition, reverse=False)
        source = ItemSource.of(request, self, lambda row_key: Position(Key(row_key)), loader, retry)
        page = yield from read_page(request, source, span, retry)
        rows = page.items.parts if request.entries and isinstance(page.items, RowItems) else ()
        return evolve(page, entries=Lazy(rows, self.entries))

    def sample(self, most: int, retry: Retry) -> Steps[list[Row]]:
        """Some items: a few of each kind, then items from the start."""
        return self.items((yield from sample_rows(self.table, most, retry, self.cells(ITEM))))

    def misread(self, items: Iterable[Row], *, counts_all: bool) -> int:
        """How many items have cells that their encodings cannot read, if a request reads these cells.

        Args:
            items: the items.
            counts_all: the request only counts items, by their tags.
        """
        return 0 if counts_all else sum(bool(self.form.misread(item)) for item in items)

    def tags_unless(self, tag: str) -> Filter | None:
        """The tags of rows that may not have this one; None: the tags of all items must be read."""
        return self.form.owned.unexpected(tag)

    def stored(self, row: Row | None) -> Stored | None:
        """The item of such a row, with its revision and index entries; None if there is no row or no item in it."""
        return stored(row, self.form)

    def marks(self, row: Row) -> dict[str, Value]:
        """The tag and the expiry of an item, as far as they can be read."""
        marks: dict[str, Value] = {}
        for (family, name), cell in zip(row.columns, row.values, strict=True):
            if family == FAMILY and name in _MARKS:
                with suppress(*UNREADABLE):
                    marks[name.decode()] = read(cell)
        return marks

    def listed(self, row: Row) -> tuple[Listed, ...]:
        """The index entries that an item lists.

        Raises:
            BackendError: the list has a form that odm does not write.
        """
        return listed(row)

    def entries_of(self, row: Row, tag: Value) -> tuple[Listed, ...]:
        """The same; empty if the list of an item of another program cannot be read."""
        try:
            return self.listed(row)
        except BackendError:
            if not self.form.is_strange(tag):
                raise
            return ()

    def entries(self, row: Row) -> dict[str, Key]:
        """The keys of an item in its indexes, by the name of the index; raises the same errors as `listed`."""
        return {entry.index: entry.key for entry in self.listed(row)}

    def taken(self, id: str) -> Filter:
        """Returns a cell if an item, or cells of another program, stand where the item would be written."""
        return self.form.owned.taken

    def strange(self, id: str, tag: str) -> Filter:
        """The same, except for an unlocked item with this tag; see `Owned.strange`."""
        return self.locks.strange_or_locked(id, self.form.owned.strange(tag))

    def unchanged(self, id: str, before: Stored) -> Filter:
        """Returns a cell if no write has changed the item since it was read."""
        return revision_is(before.revision)

    def unchanged_for(self, id: str, before: Stored, request: Operation) -> Filter:
        """The same, as far as a write depends on the item.

        Raises:
            Unsupported: no filter can check it.
        """
        return self.unchanged(id, before)

    def no_revision(self, id: str) -> BackendError:
        """The error for a write of an item that another program wrote without a revision, which a commit checks."""
        return BackendError(
            f"the row {id!r} of table {self.table!r} has no cell {FAMILY}:{REVISION}, so odm did not write it: set "
            f"{FAMILY}:{REVISION} to any text, or delete the row"
        )

    def starts(self, id: str, before: Stored, request: Operation) -> tuple[CheckAndMutateRow, ...]:
        """The calls that write missing cells before a commit that depends on them, see `unchanged_for`.

        Raises:
            Unsupported: no filter can check what the write depends on.
        """
        return ()

    def unlisted(self, request: Put | Delete, schema: Schema) -> bool:
        """Whether neither this item nor any item that may be stored under its key has index entries.

        Then a put or a delete need not read it; not so either, if only a read shows which cells it deletes.
        """
        if isinstance(request, Delete):
            return request.unindexed or not schema.indexes
        if request.known is not None:
            return False
        if request.entries or not schema.indexes:
            return not request.entries
        entity = schema.entities.get(request.item[TAG])
        return entity is not None and not entity.patterns

    @property
    def merge_unsupported_reason(self) -> str | None:
        """Why nothing can be merged; None if it can."""
        return None

    def whole_families(self, declared: Iterable[str] = ()) -> set[str]:
        """The families in which every cell of a row with an item is odm's.

        Args:
            declared: the families that the models declare.
        """
        return {FAMILY, COUNTERS, *declared, *self.form.owned.families}

    def shows(self, entity: EntitySchema, row: Row) -> bool:
        """Whether a row has a tag where an entity has it."""
        return Place(entity.family or FAMILY, TAG.encode()) in row.columns

    def unknown_items(self, entities: Iterable[EntitySchema]) -> tuple[Filter, ...]:
        """The filters for the items of other entities than these."""
        tags = ((entity.family or FAMILY, entity.tag) for entity in entities)
        known = interleave(*(chain(newest(home, TAG), ValueIs(write(tag))) for home, tag in tags))
        return (Unless(known, self.form.owned.taken),)

    def rewrites(self, schema: Schema, rows: Sequence[Row], retry: Retry) -> Steps[list[Rewrite]]:
        """What a put would write into each of these rows, if rows have cells that the models do not have."""
        yield from ()
        return []

    def removed(self, id: str, before: Stored | None = None) -> tuple[Mutation, ...]:
        """The mutations that delete an item; ``before`` is that item, if it was read."""
        return REMOVED

    def replaced(  # what a write consists of
        self,
        item: Item,
        id: str,
        revision: str,
        listed: Sequence[Listed],
        now: int,
        before: Stored | None = None,
    ) -> tuple[Mutation, ...]:
        """The mutations that write a whole item, in place of any other.

        Args:
            item: the stored item.
            id: the item's id.
            revision: the id of the attempt.
            listed: its index entries after the write.
            now: the cells' timestamp, in microseconds.
            before: the item that it replaces, if it was read.
        """
        return replacement(item, self.form, id, revision, listed, now)

    def updated(self, id: str, changed: Iterable[Path], before: Stored, after: Item, now: int) -> tuple[Mutation, ...]:
        """The mutations that change some attributes of an item, and write those again that must not be older.

        Args:
            id: the item's id.
            changed: the attributes that change, or parts of them.
            before: the item that was read.
            after: the item with its new values.
            now: the cells' timestamp, in microseconds.
        """
        mutations: list[Mutation] = []
        for name in dict.fromkeys((*(path.root for path in changed), *self.form.renewed(after))):
            mutations += attribute_gone(name, before.row, self.form)
            if name in after:
                mutations += attribute_cells(name, after[name], self.form, id, now)
        return tuple(mutations)

    def added(self, action: Action, before: Stored) -> AddToCell | None:
        """The mutation of an action by which the server adds to a cell, whatever it holds; None: it needs the value."""
        return None

    def noted(self, id: str, before: Stored, revision: str, listed: Sequence[Listed], now: int) -> tuple[Mutation, ...]:
        """The mutations for the revision and the index entries of an item that is updated."""
        unchanged = tuple(listed) == before.entries and not self.form.renewed(before.item)
        return bookkeeping(revision, None if unchanged else listed, now)

    def merged(self, request: Merge, id: str, revision: str, now: int) -> tuple[Mutation, ...]:
        """The mutations of a merge, which does not know the stored item.

        Args:
            request: the merge.
            id: the item's id.
            revision: the id of the attempt.
            now: the cells' timestamp, in microseconds.
        """
        return merging(request, self.form, id, revision, now)

    def touched(self, row: str, cells: Iterable[Touched]) -> list[str]:
        """The items of a row that mutations may have changed, apart from locks, revisions and lists of index entries.

        Args:
            row: the row key.
            cells: the cells that the mutations wrote or deleted.
        """
        return [row] if any(map(self._holds, cells)) else []

    def _holds(self, cell: Touched) -> bool:
        """Whether a cell that was written or deleted, or one of several, is an item's."""
        owned = self.form.owned
        if cell.family is None:
            return True
        if cell.family not in (FAMILY, COUNTERS, *owned.families):
            name = None if cell.qualifier is None else cell.qualifier.decode("utf-8", "surrogateescape")
            return any(family == cell.family and name in (None, column) for family, column in owned.cells)
        qualifier = cell.qualifier
        return qualifier is None or not (qualifier in _SIDE or qualifier.startswith(PROBE_PREFIX.encode()))

    def counter(self, id: str, column: str) -> Filter:
        """Returns the newest cell of an item's counter, given by its column in a row of its own."""
        return newest(COUNTERS, column)

    def counted(self, id: str, column: str, cell: bytes, now: int) -> SetCell | AddToCell:
        """The mutation that creates a counter that is missing."""
        return SetCell(column, cell, now, COUNTERS)


K = TypeVar("K")
V = TypeVar("V")

_MOST_PLANS = 512
"""The maximum plans that are kept: members of dicts, and other programs, make any number of sets of columns."""

_TAG = TAG.encode()


def _text(cell: bytes) -> str | None:
    """The tag in a cell, if it can be read."""
    try:
        tag = read(cell) if cell else None
    except UNREADABLE:
        return None
    return tag if isinstance(tag, str) else None


@define(eq=False)
class _Plans:
    """The plans of rows by their columns, the place of their tag and its cell; and the places of tags by columns."""

    known: dict[tuple[tuple[Place, ...], int, bytes], Plan] = Factory(dict)
    marks: dict[tuple[Place, ...], tuple[int, ...]] = Factory(dict)


class PlacedRows(ItemRows, dict=True):
    """Items with a row each, of which some cells stand elsewhere than usual."""

    @cached_property
    def _plans(self) -> _Plans:
        return _Plans()

    def named(self, rows: dict[str, Row], cells: Filter) -> dict[str, Row]:
        items = self.items(rows.values(), former=cells == self.form.owned.former, needed=cells)
        return {item.text: item for item in items}

    @cached_property
    def current(self) -> Filter:
        return self.form.owned.item

    def read(self, ids: tuple[str, ...], retry: Retry, needed: Filter = ITEM) -> Steps[dict[str, Row]]:
        return self._read(ids, retry, self.cells(needed))

    def items(self, rows: Iterable[Row], *, former: bool = False, needed: Filter = ITEM) -> list[Row]:
        return [self.usual(row, former=former) for row in narrowed(rows, needed)]

    def item_of(self, row: Row) -> Row | None:
        return next(iter(self.items([row], former=True)), None)

    def cells(self, needed: Filter) -> Filter:
        owned = self.form.owned
        if needed == ITEM:
            return owned.former
        if isinstance(needed, Selected) or needed in (owned.item, owned.held, owned.bookkeeping):
            return needed
        return self._everywhere(needed)

    def _everywhere(self, needed: Filter) -> Filter:
        """The filter for some of the marks of an item: its tag, revision, index entries and expiry."""
        homes = self.form.owned.tag_families
        match needed:
            case Column(family, qualifier) if family == FAMILY and len(homes) > 1:
                return Interleave(tuple(Column(home, qualifier) for home in homes))
            case Chain(parts):
                return Chain(tuple(map(self._everywhere, parts)))
            case Interleave(parts):
                return Interleave(tuple(map(self._everywhere, parts)))
            case _:
                return needed

    def usual(self, row: Row, *, former: bool = False) -> Row:
        """The row in the usual form; a row without a tag as it is.

        The cells of an item whose tag stands in another family than its entity's become a stranger's cells: odm would
        write the item elsewhere.
        """
        marks = self._plans.marks.get(row.columns)
        if marks is None:
            homes = self.form.owned.tag_families
            positions = (n for n, (family, name) in enumerate(row.columns) if name == _TAG and family in homes)
            marks = tuple(positions)
            self._keep(self._plans.marks, row.columns, marks)
        if not marks:
            return row
        at = next((n for n in marks if row.values[n]), marks[0])
        cell = row.values[at]
        plan = self._plans.known.get((row.columns, at, cell))
        if plan is None:
            plan = self._plan(row.columns, at, cell)
            self._keep(self._plans.known, (row.columns, at, cell), plan)
        was = self.form.placement(_text(cell)).was if former and plan.versions else None
        return usual_row(row, plan, was)

    def _plan(self, columns: tuple[Place, ...], at: int, cell: bytes) -> Plan:
        home = columns[at].family
        tag = _text(cell)
        known = tag is not None and not self.form.is_strange(tag)
        placement = self.form.placement(tag) if known else Placement(home)
        if placement.home == home:
            return placement.plan(columns)
        plan = Placement(home).plan(columns)
        kept = [n for n, number in enumerate(plan.numbers) if number != at]
        return Plan(
            tuple(plan.numbers[n] for n in kept),
            tuple(plan.columns[n] for n in kept),
            tuple(plan.spots[n] for n in kept),
        )

    @staticmethod
    def _keep(cache: dict[K, V], key: K, value: V) -> None:
        if len(cache) >= _MOST_PLANS:
            cache.clear()
        cache[key] = value

    def unchanged(self, id: str, before: Stored) -> Filter:
        return self._of(before.item).filter(super().unchanged(id, before))

    def removed(self, id: str, before: Stored | None = None) -> tuple[Mutation, ...]:
        return self.form.owned.removed

    def replaced(
        self,
        item: Item,
        id: str,
        revision: str,
        listed: Sequence[Listed],
        now: int,
        before: Stored | None = None,
    ) -> tuple[Mutation, ...]:
        mutations = super().replaced(item, id, revision, listed, now)
        return (*self.removed(id), *self._of(item).mutations(mutations[len(REMOVED) :]))

    def updated(self, id: str, changed: Iterable[Path], before: Stored, after: Item, now: int) -> tuple[Mutation, ...]:
        return self._of(before.item).mutations(super().updated(id, changed, before, after, now))

    def noted(self, id: str, before: Stored, revision: str, listed: Sequence[Listed], now: int) -> tuple[Mutation, ...]:
        return self._of(before.item).mutations(super().noted(id, before, revision, listed, now))

    def _of(self, item: Item) -> Placement:
        return self.form.placement(item.get(TAG))
