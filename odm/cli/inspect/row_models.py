"""The source of the models of a table on Bigtable, checked: a store that has them reads every row of the sample."""

from collections.abc import Sequence
from typing import Any

from attrs import field, frozen

from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.driver import BigtableConnection
from odm.backends.bigtable.native import Native, Read, ReadRows, Row
from odm.cli.inspect.bigtable import RowFacts, infer_plain_rows, infer_rows
from odm.cli.inspect.check import load
from odm.cli.inspect.design import Design
from odm.cli.inspect.source import source_of
from odm.errors import BadValue, OdmError
from odm.schema.model import Schema
from odm.stores.sync import Store


@frozen
class _Sample(Bigtable):
    """A table that consists of the rows of a sample. No request is sent.

    Attributes:
        rows: the rows, in the order of their keys.
    """

    rows: tuple[Row, ...] = field(default=(), kw_only=True)

    def connect(self, schema: Schema) -> "_Connection":
        made = _Connection(self, schema)
        made.rows = self.rows
        return made


class _Connection(BigtableConnection):
    rows: tuple[Row, ...]

    def call(self, native: Native) -> Any:
        assert isinstance(native, ReadRows), native
        span = native.range
        found = [row for row in self.rows if row.text >= span.start and (span.end is None or row.text < span.end)]
        return Read(tuple(row for row in found if not (span.open and row.text == span.start))[: native.limit])


def source_of_rows(facts: RowFacts) -> str:
    """The source of the models of a table.

    Raises:
        BadValue: no models read every row of the sample.
    """
    fault: OdmError | None = None
    for make in (infer_rows, infer_plain_rows):
        design = make(facts)
        source = source_of(design)
        fault = fault_of(source, design, facts.rows)
        if fault is None:
            return source
    raise BadValue(f"the rows of table {facts.name!r} cannot be described: {fault}") from fault


def fault_of(source: str, design: Design, rows: Sequence[Row]) -> OdmError | None:
    """The first error of a store that reads rows with the models; None if it reads all that have a declared column."""
    ordered = tuple(sorted(rows, key=lambda row: row.key))
    try:
        table = load(source, design)
        named = {(at.family, at.qualifier) for one in table.compile().entities.values() for at in one.cells.values()}
        with Store(table, _Sample("project", "instance", rows=ordered)) as db:
            read = sum(1 for _ in db.scan())
    except OdmError as error:
        return error
    asked = sum(not named.isdisjoint((family, _text(name)) for family, name in row.columns) for row in rows)
    return None if read == asked else BadValue(f"{asked - read} rows belong to no entity")


def _text(qualifier: bytes) -> str:
    return qualifier.decode(errors="surrogateescape")
