"""The command line's operations on Bigtable; see `odm.protocol.admin`."""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.admin.misfits import MOST_CELLS
from odm.backends.bigtable.admin.tables import apply, measure, plan
from odm.backends.bigtable.client.filters import ColumnRange, First, Newest, chain, shown, utf8
from odm.backends.bigtable.client.native import Column, ReadRows, Row, SetCell, Steps
from odm.backends.bigtable.client.native_admin import DeleteTable, ModifyFamilies
from odm.backends.bigtable.client.retry import Retry, read_all
from odm.backends.bigtable.index.repair import missing
from odm.backends.bigtable.rows.foreign import DeclaredRow, ForeignRows
from odm.backends.bigtable.rows.keys import index_table, is_odms, stored_key, with_row_key_bytes
from odm.backends.bigtable.rows.kinds import Kind
from odm.backends.bigtable.writer import Writer
from odm.codec import TAG
from odm.codec.types.blobs import placeholders
from odm.errors import BackendError, OdmError
from odm.immutable import evolve
from odm.protocol.admin import Survey, TableChange, Tell
from odm.protocol.connection import run
from odm.schema.entity import Key
from odm.schema.evidence import Stored, judge
from odm.schema.model import Schema
from odm.schema.rewrites import Rewrite, rewritten

SECONDS = 10.0
"""The seconds for which a call is retried: few, because a person waits for it."""

FEW_ROWS = 20
"""The number of rows of each index table to read, to check whether odm wrote them."""


_AT_ONCE = 100
"""The number of rows to read by their keys in a request."""

_MOST_NAMED = 20
"""The number of undeclared columns of a family that are listed by name."""


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
        if isinstance(writer.places, ForeignRows):
            others = run(with_row_key_bytes(schema, _others(writer, rows)), self._call)
            findings += rewritten(_rewrites(writer.places, schema, rows, others), keeps_unknown=True)
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


def _others(writer: Writer, rows: Sequence[Row]) -> Steps[dict[str, dict[Column, bytes]]]:
    """The cells of rows of other programs that no model has, by row key.

    The names of very many columns are data: of such a family, each row has one cell, of the column ``*``.
    """
    declared = {row.text: {*row.raw.columns} for row in rows if isinstance(row, DeclaredRow)}
    keys, cells = tuple(declared), chain(Newest(), First(MOST_CELLS))
    read: list[Row] = []
    for start in range(0, len(keys), _AT_ONCE):
        read += yield from read_all(ReadRows(writer.table, keys[start : start + _AT_ONCE], filter=cells), writer.retry)
    found = {
        row.text: {c: v for c, v in zip(row.columns, row.values, strict=True) if c not in declared[row.text]}
        for row in read
    }
    names = Counter(family for family, _ in {column for cells in found.values() for column in cells})
    return {
        key: {Column(c.family, b"*") if names[c.family] > _MOST_NAMED else c: value for c, value in cells.items()}
        for key, cells in found.items()
    }


def _rewrites(
    places: ForeignRows, schema: Schema, rows: Iterable[Row], others: Mapping[str, Mapping[Column, bytes]]
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
            Column(mutation.family, utf8(mutation.qualifier)): mutation.value
            for mutation in mutations
            if isinstance(mutation, SetCell)
        }
        kind = places.kinds[entity.tag]
        was, now = (_by_field(kind, cells, other) for cells, other in ((before, after), (after, before)))
        was |= {_named(column): value for column, value in others.get(row.text, {}).items()}
        known = {*now, *(_entries_named(spot.span) for spot in kind.entries.values())}
        yield Rewrite(entity.name, row.text, was, now, known)


def _named(column: Column) -> str:
    return f"{column.family}:{column.qualifier.decode(errors='backslashreplace')}"


def _entries_named(span: ColumnRange) -> str:
    return f"{span.family}:{shown(span.start)}*"


def _by_field(
    kind: Kind, cells: Mapping[Column, bytes], others: Mapping[Column, bytes]
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
