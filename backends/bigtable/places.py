"""Where items stand in the rows of their table, and which mutations and filters read and change one item.

`Places` is the layout with one row for each item, and the contract of every layout; `odm.backends.bigtable.wide` is
the layout with one row for each partition. Procedures name an item by its *id*, the row key that it has, or would have,
in a row of its own: partition and sort key with the table's separator.
"""

from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from functools import cached_property
from typing import ClassVar, Final

from odm.backends.bigtable.cells import read
from odm.backends.bigtable.codec import (
    LISTED,
    REVISION,
    UNREADABLE,
    Listed,
    Stored,
    attribute_cells,
    attribute_gone,
    bookkeeping,
    listed,
    replacement,
    stored,
)
from odm.backends.bigtable.columns import LOCK
from odm.backends.bigtable.committed import Locks
from odm.backends.bigtable.expressions import revision_is
from odm.backends.bigtable.filters import Filter, Unless, fits, newest
from odm.backends.bigtable.form import Form
from odm.backends.bigtable.layout import Layout
from odm.backends.bigtable.merges import merging
from odm.backends.bigtable.native import (
    COUNTERS,
    FAMILY,
    ITEM,
    AddToCell,
    CheckAndMutateRow,
    Mutation,
    Row,
    SetCell,
    Steps,
)
from odm.backends.bigtable.native_streams import Touched
from odm.backends.bigtable.ownership import PROBE_PREFIX, REMOVED
from odm.backends.bigtable.retry import Retry, read_many
from odm.backends.bigtable.selected import Selected, narrowed, selected
from odm.codec import TAG, TTL_ATTRIBUTE
from odm.errors import BackendError
from odm.expressions.nodes import Action, Item, Path, Value
from odm.immutable import Immutable
from odm.protocol.requests import Merge, Only, Operation
from odm.schema.entity import Key

_MOST_SELECTIONS: Final = 256

_MARKS: Final = frozenset({TAG.encode(), TTL_ATTRIBUTE.encode()})

_SIDE: Final = frozenset({REVISION.encode(), LISTED.encode(), LOCK.encode()})
"""The columns of an item that are not attributes: its revision, the list of its index entries, and its lock."""


class _Locked(Immutable, kw_only=True):
    locks: Locks | None = None


class Places(_Locked, dict=True):
    """Items with a row each.

    Attributes:
        table: the table's name.
        form: how attributes are stored.
        layout: how row keys are built.
        locks: the locks of transactions; None: the table has no transactions of several rows.
        current: the cells of whole items, without the former values that fields keep; see ``former`` of a `Get`.
        tagged: whether items have tags and revisions in cells of their own.
    """

    tagged: ClassVar[bool] = True

    table: str
    form: Form
    layout: Layout

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

    def read(self, ids: tuple[str, ...], retry: Retry, wanted: Filter = ITEM) -> Steps[dict[str, Row]]:
        """Read items by id; missing items are omitted.

        Args:
            ids: the items, without duplicates.
            retry: how long to retry.
            wanted: the cells that are needed; more may be returned.
        """
        if wanted is ITEM and self.locks is None:
            return read_many(self.table, ids, retry)
        return self._read(ids, retry, self.cells(wanted))

    def _read(self, ids: tuple[str, ...], retry: Retry, cells: Filter) -> Steps[dict[str, Row]]:
        """The same for cells that do not stand as they are needed, or may be locked."""
        rows = yield from read_many(self.table, ids, retry, self.shown(cells))
        if self.locks is not None:
            rows = {row.text: row for row in (yield from self.committed([*rows.values()], cells, retry))}
        return self.named(rows, cells)

    def named(self, found: dict[str, Row], cells: Filter) -> dict[str, Row]:
        """The items in rows that were read with a filter, by id."""
        return {row.text: row for row in narrowed(found.values(), cells)} if isinstance(cells, Selected) else found

    def shown(self, cells: Filter) -> Filter:
        """The filter for these cells of rows, and for the locks of transactions."""
        return cells if self.locks is None else self.locks.cells.shown(cells)

    def committed(self, rows: list[Row], cells: Filter, retry: Retry, *, cut: bool = False) -> Steps[list[Row]]:
        """Rows that were read with `shown`, as they are by the committed state; see `Locks.committed`."""
        if self.locks is None:
            return rows
        return (yield from self.locks.committed(rows, cells, retry, cut=cut))

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
        made = Unless(others, cells)
        return made if fits(made) else cells

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

    def read_together(self, ids: tuple[str, ...], retry: Retry, wanted: Filter = ITEM) -> Steps[dict[str, Row]]:
        """The same for items of one row, as they were at one instant."""
        return self.read(ids, retry, wanted)

    def cells(self, wanted: Filter) -> Filter:
        """The cells to read for these cells of items."""
        return wanted

    def items(self, rows: Iterable[Row], *, former: bool = False, wanted: Filter = ITEM) -> list[Row]:
        """The items of some rows, each as a row of its own whose key is the item's id.

        Args:
            rows: the rows.
            former: they were read with the former values of fields.
            wanted: the cells that they were read for.
        """
        return narrowed(rows, wanted) if isinstance(wanted, Selected) else [*rows]

    def item_of(self, row: Row) -> Row | None:
        """The item of a row with all its cells, as transactions read it; see `odm.backends.bigtable.locks`."""
        return row

    def stored(self, row: Row | None) -> Stored | None:
        """The item of such a row, with its revision and index entries; None if there is no row or no item in it."""
        return stored(row, self.form)

    def marks(self, row: Row) -> dict[str, Value]:
        """The tag and the expiry of an item, as far as they can be read."""
        found: dict[str, Value] = {}
        for (family, name), cell in zip(row.columns, row.values, strict=True):
            if family == FAMILY and name in _MARKS:
                with suppress(*UNREADABLE):
                    found[name.decode()] = read(cell)
        return found

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
        """The same, except for an unlocked item with this tag; see `odm.backends.bigtable.ownership.Owned.strange`."""
        strange = self.form.owned.strange(tag)
        return strange if self.locks is None else self.locks.cells.or_locked(id, strange)

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

    def needs_row(self, id: str) -> bool:
        """Whether the row must be read to know which cells a put or a delete of an item deletes."""
        return False

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
        made: list[Mutation] = []
        for name in dict.fromkeys((*(path.root for path in changed), *self.form.renewed(after))):
            made += attribute_gone(name, before.row, self.form)
            if name in after:
                made += attribute_cells(name, after[name], self.form, id, now)
        return tuple(made)

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
