"""Pages of a query of an index: reads a range of index rows, then their items.

An index row is written before the item and removed after it, so its item may not exist or may not list the entry. Each
hit is therefore checked against the item, which lists its entries. Readers never delete unlisted entries; `scrub` does.
"""

from collections.abc import Sequence
from typing import NamedTuple

from odm.backends.bigtable.client.filters import Column, Family, Filter, First, Newest, Stripped, chain, interleave
from odm.backends.bigtable.client.native import ENTRIES, FAMILY, Row, Steps
from odm.backends.bigtable.client.retry import Retry
from odm.backends.bigtable.rows.codec import LISTED, TAG
from odm.backends.bigtable.rows.items import ItemRows
from odm.backends.bigtable.rows.keys import index_table, position
from odm.backends.bigtable.rows.loading import Loader, RowItems
from odm.backends.bigtable.rows.pages import passes_or_misread
from odm.expressions.nodes import Item, roots_of
from odm.immutable import Immutable
from odm.protocol.requests import Position, Query

ROW_ONLY = chain(Family(ENTRIES), First(1), Stripped())
"""One cell of each row, without its value: a row is one hit, even if several attempts have claimed it. Rows of other
programs in other families are not read."""

LIST_ONLY = chain(interleave(Column(FAMILY, TAG), Column(FAMILY, LISTED)), Newest())
"""The tag and the list of index entries of an item."""


class Hit(NamedTuple):
    """The row of an item that has an entry in the range, and the entry's position."""

    row: Row
    position: Position


class Entries(Immutable):
    """Rows of an index.

    Attributes:
        request: the query.
        places: where the items stand.
        index: the name of the index.
        retry: how long to retry.
        loader: reads the items of the table's entities.
    """

    request: Query
    places: ItemRows
    index: str
    retry: Retry
    loader: Loader

    @property
    def table(self) -> str:
        """The table of the index."""
        return index_table(self.places.table, self.index)

    @property
    def cells(self) -> Filter:
        """The filter that shows only whether a row exists."""
        return ROW_ONLY

    def place(self, row_key: str) -> Position:
        """The position of an entry's row."""
        return position(row_key)

    def kept(self, rows: list[Row]) -> Steps[list[Hit]]:
        """The items that list the entries and pass the filter.

        It compares index keys, not qualifiers: another attempt may have claimed the same entry since the row was read.
        """
        request, hits = self.request, [position(row.text) for row in rows]
        row_keys = tuple(dict.fromkeys(self.places.row_keys.row_key(hit.key) for hit in hits))
        cells = LIST_ONLY if request.count and request.filter is None else self.places.current
        if request.only is not None:
            cells = self.places.selection(request.only, roots_of(request.filter), listed=True)
        items = yield from self.places.read(row_keys, self.retry, cells)
        kept: list[Hit] = []
        for hit in hits:
            row = items.get(self.places.row_keys.row_key(hit.key))
            item = self.loader.item(row)
            if row is None or item is None:
                continue
            entries = self.places.entries_of(row, item.get(TAG))
            entered = any((self.index, hit.index_key) == (entry.index, entry.key) for entry in entries)
            if entered and passes_or_misread(request, row, item, self.loader.form):
                kept.append(Hit(row, hit))
        return kept

    def items(self, kept: list[Hit]) -> Sequence[Item]:
        """The items, each read when it is accessed."""
        return RowItems([hit.row for hit in kept], self.loader)

    def positions(self, kept: list[Hit]) -> Sequence[Position]:
        """The positions of the entries."""
        return tuple(hit.position for hit in kept)

    def misread(self, kept: list[Hit]) -> int:
        """How many of the items cannot be read; without a filter, only their lists are read."""
        return sum(bool(self.loader.form.misread(hit.row)) for hit in kept)
