"""Deletes all rows whose row keys have a prefix, on the server and without reading them: ``odm drop-rows``.

Bigtable deletes whole rows, also the cells of other programs in them, without a condition. So `look` is called first:
it reads some of the rows, and a person decides. Index entries of the rows stay, until a scrub removes them.
"""

from attrs import frozen

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.filters import Newest
from odm.backends.bigtable.native import COUNTERS, FAMILY, ReadRows, Row, RowRange, Steps
from odm.backends.bigtable.native_admin import DropRows
from odm.backends.bigtable.retry import Retry, read_all, until_answered
from odm.backends.bigtable.schema import tables
from odm.backends.bigtable.writer import Writer
from odm.codec import TAG
from odm.errors import BackendError
from odm.keys import next_prefix
from odm.protocol.connection import run
from odm.schema.model import Schema

LOOKED_AT = 100
"""The number of rows that are read to look for cells of other programs."""


@frozen
class Look:
    """Some of the rows with a prefix.

    Attributes:
        rows: the number of rows that were read.
        more: whether there may be more rows.
        first: the row key of the first row; None: there are no rows.
        foreign: the row key of a row with cells of other programs; None: none was found.
    """

    rows: int
    more: bool
    first: str | None = None
    foreign: str | None = None


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
        self._prefix = prefix
        self._retry = Retry(overall=10.0)  # a person waits for it

    def look(self) -> Look:
        """Read the first rows.

        Raises:
            BackendError: the table cannot be read.
        """
        return run(_look(Writer(self._schema, self._retry), self._prefix), self._call)

    def drop(self) -> None:
        """Delete the rows. Rows that are written meanwhile may or may not be deleted.

        Raises:
            BackendError: the table cannot be changed.
        """
        names = [self._schema.name] if self._prefix is not None else [call.table for call in tables(self._schema)]
        for name in names:
            run(until_answered(DropRows(name, self._prefix), self._retry), self._call)


def _look(writer: Writer, prefix: str | None) -> Steps[Look]:
    span = RowRange() if prefix is None else RowRange(prefix, next_prefix(prefix))
    call = ReadRows(writer.table, range=span, limit=LOOKED_AT, filter=Newest())
    rows = yield from read_all(call, writer.retry)
    foreign = (row.text for row in rows if _has_others(writer, row))
    return Look(len(rows), len(rows) == LOOKED_AT, rows[0].text if rows else None, next(foreign, None))


def _has_others(writer: Writer, row: Row) -> bool:
    """Whether a row has cells of other programs."""
    families = set() if writer.schema.verbatim_rows else {FAMILY, COUNTERS, *writer.schema.families}
    cells = writer.form.owned.cells
    for family, name in row.columns:
        if family not in families and (family, name.decode(errors="replace")) not in cells:
            return True
    try:
        found = [writer.places.stored(item) for item in writer.places.items([row])]
    except BackendError:
        return True
    return any(one is not None and not writer.schema.knows({TAG: one.item.get(TAG)}) for one in found)
