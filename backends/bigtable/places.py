"""Where items stand in the rows of their table, and which mutations and filters read and change one item.

`Places` is the layout with one row for each item, and the contract of every layout; `odm.backends.bigtable.wide` is
the layout with one row for each partition. Procedures name an item by its *id*, the row key that it has, or would have,
in a row of its own: partition and sort key with the table's separator.
"""

from collections.abc import Iterable, Sequence

from attrs import frozen

from odm.backends.bigtable.bulk import read_many
from odm.backends.bigtable.codec import (
    Listed,
    Stored,
    attribute_cells,
    attribute_gone,
    bookkeeping,
    entries_listed,
    entries_of,
    replacement,
    stored,
)
from odm.backends.bigtable.expressions import revision_is
from odm.backends.bigtable.filters import Filter, newest
from odm.backends.bigtable.form import Form
from odm.backends.bigtable.layout import Layout
from odm.backends.bigtable.native import COUNTERS, ITEM, Mutation, Row, SetCell, Steps
from odm.backends.bigtable.ownership import REMOVED
from odm.backends.bigtable.retry import Retry
from odm.expressions.nodes import Item, Value
from odm.schema.entity import Key


@frozen
class Places:
    """Items with a row each.

    Attributes:
        table: the table's name.
        form: how attributes are stored.
        layout: how row keys are built.
    """

    table: str
    form: Form
    layout: Layout

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
        return read_many(self.table, ids, retry, wanted)

    def items(self, rows: Iterable[Row]) -> list[Row]:
        """The items of some rows, each as a row of its own whose key is the item's id."""
        return [*rows]

    def stored(self, row: Row | None) -> Stored | None:
        """The item of such a row, with its revision and index entries; None if there is no row or no item in it."""
        return stored(row, self.form)

    def listed(self, row: Row, tag: Value) -> tuple[Listed, ...]:
        """The index entries that an item with this tag lists."""
        return entries_listed(row, self.form.is_strange(tag))

    def entries(self, row: Row) -> dict[str, Key]:
        """The keys of an item in its indexes, by the name of the index."""
        return entries_of(row)

    def taken(self, id: str) -> Filter:
        """Returns a cell if an item, or cells of another program, stand where the item would be written."""
        return self.form.owned.taken

    def strange(self, id: str, tag: str) -> Filter:
        """The same, except for an item with this tag; see `odm.backends.bigtable.ownership.Owned.strange`."""
        return self.form.owned.strange(tag)

    def unchanged(self, id: str, before: Stored) -> Filter:
        """Returns a cell if no write has changed the item since it was read."""
        return revision_is(before.revision)

    def removed(self, id: str) -> tuple[Mutation, ...]:
        """The mutations that delete an item."""
        return REMOVED

    def replaced(self, item: Item, id: str, revision: str, listed: Sequence[Listed], now: int) -> tuple[Mutation, ...]:
        """The mutations that write a whole item, in place of any other.

        Args:
            item: the stored item.
            id: the item's id.
            revision: the id of the attempt.
            listed: its index entries after the write.
            now: the cells' timestamp, in microseconds.
        """
        return replacement(item, self.form, id, revision, listed, now)

    def updated(self, id: str, names: Iterable[str], before: Stored, after: Item, now: int) -> tuple[Mutation, ...]:
        """The mutations that change some attributes of an item.

        Args:
            id: the item's id.
            names: the attributes that change.
            before: the item that was read.
            after: the item with its new values.
            now: the cells' timestamp, in microseconds.
        """
        made: list[Mutation] = []
        for name in names:
            made += attribute_gone(name, before.row, self.form)
            if name in after:
                made += attribute_cells(name, after[name], self.form, id, now)
        return tuple(made)

    def noted(self, id: str, before: Stored, revision: str, listed: Sequence[Listed], now: int) -> tuple[Mutation, ...]:
        """The mutations for the revision and the index entries of an item that is updated."""
        return bookkeeping(revision, None if tuple(listed) == before.entries else listed, now)

    def counter(self, id: str, column: str) -> Filter:
        """Returns the newest cell of an item's counter, given by its column in a row of its own."""
        return newest(COUNTERS, column)

    def counted(self, id: str, column: str, cell: bytes, now: int) -> tuple[Mutation, ...]:
        """The mutations that create a counter that is missing."""
        return (SetCell(column, cell, now, COUNTERS),)
