"""The command line's operations on Bigtable; see `odm.protocol.admin`."""

from collections.abc import Sequence

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.admin.tables import apply, measure, plan
from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import ReadRows, Row, Steps
from odm.backends.bigtable.client.native_admin import DeleteTable, ModifyFamilies
from odm.backends.bigtable.client.retry import Retry, read_all
from odm.backends.bigtable.index.repair import missing
from odm.backends.bigtable.rows.keys import index_table, is_odms, stored_key, with_row_key_bytes
from odm.backends.bigtable.writer import Writer
from odm.codec import TAG
from odm.errors import BackendError
from odm.immutable import evolve
from odm.protocol.admin import Survey, TableChange, Tell
from odm.protocol.connection import run
from odm.schema.entity import Key
from odm.schema.evidence import Stored, judge
from odm.schema.model import Schema
from odm.schema.rewrites import rewritten

SECONDS = 10.0
"""The seconds for which a call is retried: few, because a person waits for it."""

FEW_ROWS = 20
"""The number of rows of each index table to read, to check whether odm wrote them."""


class Admin:
    """Inspects and changes the tables of one schema."""

    def __init__(self, backend: Bigtable, schema: Schema) -> None:
        self._call = backend.connect(schema).call
        self._schema = backend.laid_out(schema)
        self._retry = Retry(overall=SECONDS)
        self._options = backend.options

    def survey(self, sample: int) -> Survey:
        """Compare the models with the tables, and with the keys and index entries of some items.

        Args:
            sample: the maximum number of items to read; 0 reads none.

        Raises:
            BackendError: the tables cannot be described or read.
        """
        schema = self._schema
        changes = tuple(map(self._measured, run(plan(schema, self._retry, self._options), self._call)))
        if not sample or any(map(self._hides_items, changes)):
            return Survey(changes)
        writer = Writer(schema, self._retry)
        rows = run(with_row_key_bytes(schema, writer.places.sample(sample, writer.retry)), self._call)
        items = [item for row in rows if (item := _stored(writer, row)) is not None]
        entries = run(_entries(writer, rows, len(items), changes), self._call)
        findings = judge(schema, items)
        rewrites = run(with_row_key_bytes(schema, writer.places.rewrites(schema, rows, self._retry)), self._call)
        findings += rewritten(rewrites, keeps_unknown=True)
        return Survey((*changes, *entries), findings, len(items))

    def _hides_items(self, change: TableChange) -> bool:
        """Whether the models cannot read items before a change is made, or because it cannot be made.

        The table does not exist, or belongs to another program; its rows are those of other options; or it lacks a
        column family, and Bigtable refuses a filter that names one.
        """
        call, table = change.call, self._schema.name
        lacks = isinstance(call, ModifyFamilies) and call.table == table and bool(call.create)
        return lacks or change.what in (f"table {table!r}", f"rows of table {table!r}")

    def _measured(self, change: TableChange) -> TableChange:
        """The change, with the size of the table that it deletes."""
        if not isinstance(change.call, DeleteTable):
            return change
        size = run(measure(self._schema, self._retry, change.call.table), self._call)
        return evolve(change, held=str(size))

    def apply(self, *, drop: bool, tell: Tell) -> None:
        """Make the changes; see `odm.backends.bigtable.admin.tables.apply`."""
        run(apply(self._schema, self._retry, self._options, drop=drop, tell=tell), self._call)


def _entries(
    writer: Writer, rows: Sequence[Row], items: int, changes: Sequence[TableChange]
) -> Steps[list[TableChange]]:
    """Problems of index tables: entries that sampled items list but that are missing, and rows of other programs."""
    known = {f"index {index!r}": index for index in writer.schema.indexes}
    absent = {known[change.what] for change in changes if change.what in known}  # missing, or another program's
    lost = yield from missing(writer, rows, absent)
    found: list[TableChange] = []
    for subject, index in known.items():
        lacking = len({entry.item for entry in lost if entry.index == index})
        if lacking:
            whose = f"{lacking} of {items} sampled items list entries in {subject} whose rows are missing"
            first = "odm apply, then " if index in absent else ""
            found.append(TableChange("problem", subject, f"{whose}: run {first}odm scrub --repair"))
        if index not in absent:
            found += yield from _foreign(writer, subject, index)
    return found


def _foreign(writer: Writer, subject: str, index: str) -> Steps[list[TableChange]]:
    """The change that reports cells of other programs in the first rows of an index table, if there are any."""
    call = ReadRows(index_table(writer.table, index), limit=FEW_ROWS, filter=Newest())
    rows = yield from read_all(call, writer.retry)
    foreign = [row.text for row in rows if not is_odms(row, writer.row_keys)]
    if not foreign:
        return []
    read = f"{len(foreign)} of {len(rows)} rows that were read"
    text = f"{read} were not written by odm, such as {foreign[0]!r}; they are left alone"
    return [TableChange("extra", subject, text)]


def _stored(writer: Writer, row: Row) -> Stored | None:
    """The item of a row with its key and index keys; None if the row does not hold an item."""
    schema = writer.schema
    try:
        stored = writer.places.stored(row)
    except BackendError:
        return Stored(Key(row.text), {}, {})  # not written by odm; counts as an item without a tag
    if stored is None:
        return None
    key = writer.row_keys.key_of(row.text, str(stored.item.get(TAG, ""))) or Key(row.text)
    entries = {entry.index: stored_key(schema, entry.key) for entry in stored.entries}
    return Stored(stored_key(schema, key), stored.item, entries)
