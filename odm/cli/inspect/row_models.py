"""The source of the models of a table on Bigtable, checked: a store that has them reads every row of the sample."""

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, NamedTuple

from attrs import field, frozen

from odm import BadValue, ItemInvalid, OdmError, Store
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.client.filters import utf8
from odm.backends.bigtable.client.native import (
    CheckAndMutateRow,
    Column,
    DeleteColumn,
    DeleteFamily,
    Entry,
    MutateRow,
    Native,
    Read,
    ReadRows,
    Row,
    SetCell,
)
from odm.backends.bigtable.driver import BigtableConnection
from odm.backends.bigtable.rows.cell_forms import JsonForm
from odm.backends.bigtable.rows.codec import Form
from odm.backends.bigtable.rows.kinds import Kind, kinds_of
from odm.cli.inspect.bigtable import RowFacts, infer_binary_rows, infer_plain_rows, infer_rows
from odm.cli.inspect.check import Fault, load
from odm.cli.inspect.design import Design
from odm.cli.inspect.source import source_of
from odm.schema.model import Schema


@frozen
class _Sample(Bigtable):
    """A table that consists of the rows of a sample. No request is sent.

    Attributes:
        rows: the rows, in the order of their keys.
        written: what a put leaves of a row, by its key: the value of each column.
    """

    rows: tuple[Row, ...] = field(default=(), kw_only=True)
    written: dict[str, dict[tuple[str, str], bytes]] = field(factory=dict, kw_only=True, eq=False)

    def connect(self, schema: Schema) -> "_Connection":
        connection = _Connection(self, schema)
        connection.rows, connection.written = self.rows, self.written
        return connection


class _Connection(BigtableConnection):
    rows: tuple[Row, ...]
    written: dict[str, dict[tuple[str, str], bytes]]

    def call(self, native: Native) -> Any:
        if isinstance(native, MutateRow):
            return self._write(native.entry)
        if isinstance(native, CheckAndMutateRow):  # of a put that has read the row, which is unchanged
            self._write(Entry(native.key, native.matched))
            return True
        assert isinstance(native, ReadRows), native
        if native.keys:
            return Read(tuple(row for row in self.rows if row.text in native.keys))
        span = native.range
        start, end = utf8(span.start), None if span.end is None else utf8(span.end)
        rows = [row for row in self.rows if row.key >= start and (end is None or row.key < end)]
        return Read(tuple(row for row in rows if not (span.open and row.text == span.start))[: native.limit])

    def _write(self, entry: Entry) -> None:
        cells = next((_cells(row) for row in self.rows if row.text == entry.key), {})
        for mutation in entry.mutations:
            if isinstance(mutation, SetCell):
                cells[mutation.family, mutation.qualifier] = mutation.value
            elif isinstance(mutation, DeleteColumn):
                cells.pop((mutation.family, mutation.qualifier), None)
            elif isinstance(mutation, DeleteFamily):
                cells = {column: cell for column, cell in cells.items() if column[0] != mutation.family}
            else:
                raise AssertionError(mutation)
        self.written[entry.key] = cells


def _cells(row: Row) -> dict[tuple[str, str], bytes]:
    return {(family, _text(name)): value for (family, name), value in zip(row.columns, row.values, strict=True)}


def source_of_rows(facts: RowFacts) -> str:
    """The source of the models of a table. They have read each row by its key, and put it as it is.

    A column that they would write otherwise has no field.

    Raises:
        BadValue: no models read every row of the sample.
    """
    problems: list[Fault] = []
    for make in (infer_binary_rows, infer_rows, infer_plain_rows):
        design = make(facts)
        while True:
            source = source_of(design)
            problems = faults_of(source, design, facts.rows)
            if not problems:
                return source
            left_out = [_leave_out(design, column) for column in dict.fromkeys(fault.attribute for fault in problems)]
            if not any(left_out):
                break
            design.entities = [
                entity for entity in design.entities if any(field.cell is not None for field in entity.fields)
            ]
    raise BadValue(f"the rows of table {facts.name!r} cannot be described: {problems[0].text}")


def _leave_out(design: Design, column: str) -> bool:
    """Remove the fields of a column; False if there is none, or a key needs one."""
    done = False
    for entity in design.entities:
        for column_field in [known for known in entity.fields if known.columns == column]:
            if any(f"{{{column_field.name}" in text for pattern in entity.patterns for text in pattern.templates):
                return False
            entity.fields.remove(column_field)
            entity.notes.append(f"{column} has no field, and stays as it is: a field would write its values otherwise.")
            done = True
    return done


def faults_of(source: str, design: Design, rows: Sequence[Row]) -> list[Fault]:
    """What is wrong with models; nothing, if a store reads and puts each row that has a declared column as it is."""
    if not design.entities:
        return []
    written: dict[str, dict[tuple[str, str], bytes]] = {}
    try:
        table = load(source, design)
        schema = table.compile()
        kinds = kinds_of(schema, Form.of(schema)).values()
        # A read asks for the columns of the models, so Bigtable returns no row that has none of them.
        asked = [row for row in rows if any(kind.has(column) for kind in kinds for column in row.columns)]
        ordered = tuple(sorted(asked, key=lambda row: row.key))
        sample = _Sample("project", "instance", rows=ordered, written=written)
        with Store(table, sample) as db:
            for read in db.scan():
                entity = schema.entity(type(read))
                key = {name: getattr(read, name) for name in entity.primary.fields}
                again = db.get(type(read), **key)
                if again != read:
                    return [Fault(f"{read!r} is not what a get of its key returns")]
                db.put(read)
    except OdmError as error:
        return [Fault(str(error), attribute=_column(error, design))]
    before = {row.text: _cells(row) for row in asked}
    if before.keys() != written.keys():
        return [Fault(f"{len(before.keys() ^ written.keys())} rows belong to no entity, or have another key")]
    return [
        Fault(f"the column {family}:{name} of the row {key!r} would be written otherwise", attribute=at.attribute)
        for key, cells in before.items()
        for family, name in sorted(cells.keys() | written[key].keys())
        for at in _declared(kinds, family, name)
        if not _same(cells.get((family, name)), written[key].get((family, name)), at.encoding)
    ]


class _At(NamedTuple):
    """A field that a column is of: its column or columns, as in `FieldDesign.columns`, and their encoding."""

    attribute: str
    encoding: str | None


def _declared(kinds: Iterable[Kind], family: str, name: str) -> Iterator[_At]:
    """The fields that a column is of, of all entities."""
    column = Column(family, name.encode(errors="surrogateescape"))
    for kind in kinds:
        for stored, at in kind.entity.cells.items():
            entries = kind.entries.get(stored)
            if entries is not None and entries.span.has(*column) and column not in kind.columns:
                yield _At(f"{at.family}:{at.qualifier}*", at.encoding)
            elif entries is None and at[:2] == (family, name):
                yield _At(f"{family}:{name}", at.encoding)


def _column(error: OdmError, design: Design) -> str:
    """The column of the field that another form does not fit, of a row that cannot be read."""
    named = re.search(r"does not fit the model: (\w+)", str(error)) if isinstance(error, ItemInvalid) else None
    fields = [
        field for entity in design.entities for field in entity.fields if named is not None and field.name == named[1]
    ]
    return next((field.columns for field in fields if field.columns), "")


def _same(before: bytes | None, after: bytes | None, encoding: str | None) -> bool:
    """Whether a cell has not changed; JSON may be written in several ways."""
    if before == after or before is None or after is None or encoding != "json":
        return before == after
    return bool(JsonForm().read(before) == JsonForm().read(after))


def _text(qualifier: bytes) -> str:
    return qualifier.decode(errors="surrogateescape")
