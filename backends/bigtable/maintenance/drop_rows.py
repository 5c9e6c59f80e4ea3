"""Deletes all rows whose row keys have a prefix, on the server and without reading them: ``odm drop-rows``.

Bigtable deletes whole rows, also the cells of other programs in them, without a condition. So `look` is called first:
it reads some of the rows, lets the server search all of them for cells of other programs, and a person decides. Index
entries of the rows stay, until a scrub removes them.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.admin.schema import tables
from odm.backends.bigtable.client.filters import (
    ColumnRange,
    Family,
    Filter,
    First,
    Newest,
    Stripped,
    chain,
    interleave,
    one_column,
)
from odm.backends.bigtable.client.native import ENTRIES, ReadRows, Row, RowRange, Steps
from odm.backends.bigtable.client.native_admin import DropRows, Families, GetTable
from odm.backends.bigtable.client.retry import Retry, read_all, until_answered
from odm.backends.bigtable.rows.keys import index_table, is_odms, key_text, with_row_key_bytes
from odm.backends.bigtable.writer import Writer
from odm.codec import TAG
from odm.errors import BackendError
from odm.immutable import Immutable, evolve
from odm.keys import next_prefix
from odm.protocol.connection import run
from odm.schema.model import Schema

LOOKED_AT = 100
"""The number of rows that are read."""


class Look(Immutable):
    """Some of the rows with a prefix.

    Attributes:
        rows: the number of rows that were read.
        more: whether there may be more rows.
        first: the row key of the first row; None: there are no rows.
        foreign: the row key of a row with cells of other programs; None: none was found.
        table: the table of that row, or of the items.
    """

    rows: int
    more: bool
    first: str | None = None
    foreign: str | None = None
    table: str = ""


class Dropper:
    """Deletes rows of the table of one schema.

    Args:
        backend: the Bigtable instance.
        schema: the schema, with its prefix.
        prefix: the beginning of the row keys, as ``cbt read`` shows them; None: all rows, also those of the indexes.
    """

    def __init__(self, backend: Bigtable, schema: Schema, prefix: str | None) -> None:
        self._call = backend.connect(schema).call
        self._schema = backend.laid_out(schema)
        self._prefix = prefix if prefix is None else key_text(self._schema, prefix)
        self._retry = Retry(overall=10.0)  # a person waits for it

    def look(self) -> Look:
        """Read the first rows.

        Raises:
            BackendError: the table cannot be read.
        """
        indexes = [index_table(self._schema.name, index) for index in self._schema.indexes]
        beside = indexes if self._prefix is None else []
        steps = _look(Writer(self._schema, self._retry), self._prefix, beside)
        return run(with_row_key_bytes(self._schema, steps), self._call)

    @property
    def _tables(self) -> list[str]:
        """The table of the items; with all rows, also those of its indexes, and of the records of transactions."""
        return [self._schema.name] if self._prefix is not None else [call.table for call in tables(self._schema)]

    def drop(self) -> None:
        """Delete the rows. Rows that are written meanwhile may or may not be deleted.

        Raises:
            BackendError: the table cannot be changed.
        """
        for name in self._tables:
            steps = until_answered(DropRows(name, self._prefix), self._retry)
            run(with_row_key_bytes(self._schema, steps), self._call)


def _look(writer: Writer, prefix: str | None, indexes: Sequence[str]) -> Steps[Look]:
    span = RowRange() if prefix is None else RowRange(prefix, next_prefix(prefix))
    rows, foreign = yield from _look_at(
        writer.table, span, writer.retry, partial(_has_others, writer), partial(_others, writer)
    )
    found = Look(len(rows), len(rows) == LOOKED_AT, rows[0].text if rows else None, foreign, writer.table)
    for index in indexes:
        if found.foreign is None:
            _, foreign = yield from _look_at(
                index, span, writer.retry, lambda row: not is_odms(row, writer.row_keys), _beside_entries
            )
            found = evolve(found, foreign=foreign, table=index)
    return found


def _look_at(
    table: str,
    span: RowRange,
    retry: Retry,
    has_others: Callable[[Row], bool],
    others: Callable[[Families], Iterable[Filter]],
) -> Steps[tuple[list[Row], str | None]]:
    """The first rows of a table, and the key of a row with cells of other programs.

    Args:
        table: the table.
        span: its rows.
        retry: how long to retry.
        has_others: whether a row that was read has such cells.
        others: the filters for such cells, by which the server searches the other rows.
    """
    rows = yield from read_all(ReadRows(table, range=span, limit=LOOKED_AT, filter=Newest()), retry)
    found = [row for row in rows if has_others(row)]
    if not found and len(rows) == LOOKED_AT:
        info = yield from until_answered(GetTable(table), retry)
        if filters := [*others(info.families)]:
            cells = chain(interleave(*filters), First(1), Stripped())
            found = yield from read_all(ReadRows(table, range=span, limit=1, filter=cells), retry)
    return rows, found[0].text if found else None


def _beside_entries(families: Families) -> Iterator[Filter]:
    return map(Family, sorted({*families} - {ENTRIES}))


def _others(writer: Writer, families: Families) -> Iterator[Filter]:
    """The filters for cells of other programs in a table with these families.

    A row that has only declared cells, or documents of another entity in a wide row, does not pass them.
    """
    for family in sorted({*families} - writer.places.whole_families(writer.schema.families)):
        owned = writer.form.owned
        ranges = [*(one_column(*cell) for cell in owned.cells), *owned.spans]
        yield from (span.shortest for span in ColumnRange(family, "", "").without(ranges))
    yield from writer.places.unknown_items(writer.schema.entities.values())


def _has_others(writer: Writer, row: Row) -> bool:
    """Whether a row has cells of other programs."""
    families, owned = writer.places.whole_families(writer.schema.families), writer.form.owned
    for family, name in row.columns:
        if family not in families and not owned.declares(family, name):
            return True
    try:
        found = [writer.places.stored(item) for item in writer.places.items([row])]
    except BackendError:
        return True
    return any(one is not None and not writer.schema.knows({TAG: one.item.get(TAG)}) for one in found)
