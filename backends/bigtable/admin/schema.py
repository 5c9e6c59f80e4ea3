"""Checks, before any request, that Bigtable can store a compiled schema; and the tables that the schema needs."""

import re
from collections.abc import Collection, Mapping
from itertools import permutations
from typing import ClassVar, Final

from odm.backends.bigtable.client.native import COUNTERS, ENTRIES, FAMILY, RECORD, RECORDS, record_table
from odm.backends.bigtable.client.native_admin import (
    NEWEST_ONLY,
    NO_OPTIONS,
    Aggregate,
    ColumnFamily,
    CreateTable,
    Families,
    Options,
)
from odm.backends.bigtable.rows.cells import LOCK, SIDE_COLUMNS
from odm.backends.bigtable.rows.codec import Form
from odm.backends.bigtable.rows.keys import Layout, check_entries, index_table, layout_of
from odm.backends.bigtable.rows.kinds import check_rows
from odm.backends.bigtable.rows.placement import VERSIONS
from odm.errors import SchemaError
from odm.expressions.collection import MaxVersions
from odm.immutable import Immutable
from odm.keys import can_go_on_low
from odm.schema.entity import EntitySchema
from odm.schema.model import IndexSchema, Schema
from odm.schema.row_keys import find_ambiguity

TABLE_NAME = re.compile(r"[_a-zA-Z0-9][-_.a-zA-Z0-9]{0,49}")
"""google.bigtable.admin.v2, CreateTableRequest.table_id; at most 50 characters."""

END: Final = ".tx"
"""The end of the name of a table with locks."""


def name_of(schema: Schema) -> str:
    """The name of a schema's table on Bigtable, with which those of its indexes and records begin.

    A table with locks has another name than one without. So a program whose models do not say ``transactions=True``
    does not find the table, and can neither overlook a lock nor destroy one. No call is needed to find that out.
    """
    return schema.name if not schema.transactions or schema.name.endswith(END) else schema.name + END


def check(schema: Schema) -> None:
    """Refuse a schema that Bigtable cannot store.

    Raises:
        SchemaError: the name of the table, an index or an attribute is not valid on Bigtable; two keys could have the
            same row key; or the entries of an index would not sort correctly.
    """
    if not TABLE_NAME.fullmatch(schema.name):
        raise SchemaError(
            f"table {schema.name!r}: the name of a Bigtable table has 1 to 50 letters, digits, '_', '-' and '.', and "
            "begins with a letter, digit or '_': choose another name (a store's prefix counts)"
        )
    table = table_of(schema)
    table.check_name()
    for index in schema.indexes.values():
        _check_index(schema, index)
    for entity in schema.entities.values():
        _check_names(entity)
    table.check_models()
    if schema.transactions:
        _check_transactions(schema)
    if schema.has_verbatim_keys:
        return  # each part of a key is one component
    if ambiguity := find_ambiguity(schema):
        raise SchemaError(f"table {schema.name!r}: {ambiguity.fault}: {ambiguity.fix}")


def _check_transactions(schema: Schema) -> None:
    """Refuse a schema whose rows cannot have locks."""
    records = record_table(schema.name)
    if RECORDS in schema.indexes:
        raise SchemaError(
            f"table {schema.name!r}: with transactions=True, the Bigtable table {records!r} has the records of "
            f"transactions, so no index can be called {RECORDS!r}: give the pattern another index with index=..."
        )
    if not TABLE_NAME.fullmatch(records):
        raise SchemaError(
            f"table {schema.name!r}: with transactions=True it needs the Bigtable table {records!r}, whose name has "
            f"{len(records)} characters, and Bigtable allows 50: choose a shorter name (a store's prefix counts)"
        )
    for entity in schema.entities.values():
        for field, stored in entity.codec.stored.items():
            if stored == LOCK:
                raise SchemaError(
                    f"{entity.name}.{field}: the stored name {LOCK!r} is reserved on Bigtable, for the locks of "
                    'transactions; give it another with Annotated[..., Stored("...")]'
                )


def _check_order(schema: Schema) -> None:
    """Refuse sort keys of wide rows whose columns would not sort like them; see `odm.backends.bigtable.rows.wide`."""
    for one, other in permutations((entity.primary for entity in schema.entities.values()), 2):
        if one.sort is None or other.sort is None or not can_go_on_low(one.sort, other.sort):
            continue
        raise SchemaError(
            f'table {schema.name!r}: with layout="row_per_partition", a sort key of {one.full_name} '
            f"({one.sort.text!r}) can be a prefix of one of {other.full_name} ({other.sort.text!r}) that continues "
            "with a space or another character below '#', and the items would not sort correctly in their row: begin "
            "the two with different literals"
        )


def _check_fields(schema: Schema) -> None:
    """Refuse fields of wide rows with a family of their own."""
    for entity in schema.entities.values():
        for field, stored in entity.codec.stored.items():
            if stored in entity.families:
                raise SchemaError(
                    f"{entity.name}.{field} has the family {entity.families[stored]!r}, but in a table with "
                    'layout="row_per_partition" an item is one cell: give the family to the class, '
                    f'class {entity.name}(Entity, table=..., family="{entity.families[stored]}"), or remove it'
                )


def _check_names(entity: EntitySchema) -> None:
    for field, stored in entity.codec.stored.items():
        if stored in SIDE_COLUMNS:
            raise SchemaError(
                f"{entity.name}.{field}: the stored name {stored!r} is reserved on Bigtable; give it another with "
                'Annotated[..., Stored("...")]'
            )


def _check_index(schema: Schema, index: IndexSchema) -> None:
    table = index_table(schema.name, index.name)
    if not TABLE_NAME.fullmatch(table):
        raise SchemaError(
            f"table {schema.name!r}: index {index.name!r} needs the Bigtable table {table!r}, whose name has "
            f"{len(table)} characters; Bigtable allows 50 letters, digits, '_', '-' and '.': give the index a shorter "
            "name with index=..., or the table a shorter name (a store's prefix counts)"
        )
    if not schema.has_verbatim_keys:
        check_entries(schema.name, index)


class ItemTable(Immutable):
    """The table of rows of items, and what it asks of models; the contract of all layouts.

    Attributes:
        schema: the schema of the models.
        counts_items: whether its number of rows is that of its items.
    """

    counts_items: ClassVar[bool] = True

    schema: Schema

    def check_name(self) -> None:
        """Refuse a name that is not one of a table with this layout. Raises SchemaError."""
        name = self.schema.name
        if name.endswith(END) and not self.schema.transactions:
            raise SchemaError(
                f"table {name!r}: a name that ends with {END!r} is that of a table with transactions on Bigtable: "
                f"say Table({name.removesuffix(END)!r}, transactions=True), or choose another name"
            )

    def check_models(self) -> None:
        """Refuse models that rows with this layout cannot store. Raises SchemaError."""

    @property
    def families(self) -> Families:
        """The column families: odm's own, and those that the models declare and name."""
        entities = self.schema.entities.values()
        declared = {name: ColumnFamily(rule or NEWEST_ONLY) for name, rule in self.schema.families.items()}
        named = sorted({cell.family for entity in entities for cell in entity.cells.values()})
        return {**self._own, **declared, **dict.fromkeys(named, ColumnFamily())}

    @property
    def _own(self) -> Families:
        """Those of odm; of fields with CellVersions, Sum, Min and Max, too."""
        entities = self.schema.entities.values()
        counts = [count for entity in entities for count in entity.versioned.values()]
        kinds: set[Aggregate] = {kind for entity in entities for kind in entity.aggregates.values()}
        versions = {VERSIONS: ColumnFamily(MaxVersions(max(counts)))} if counts else {}
        own = {FAMILY: ColumnFamily(), COUNTERS: ColumnFamily(), **versions}
        return {**own, **{kind: ColumnFamily(aggregate=kind) for kind in sorted(kinds)}}

    def stranger(self, table: str, families: Collection[str]) -> tuple[str, str]:
        """Whose a table with other families is, and what to do about it, for messages."""
        other = '; or, if its rows are those of models with row_style="verbatim", declare it'
        return "so it belongs to another program", _OTHER_NAME + other * (table == self.schema.name)


class WideTable(ItemTable):
    """The table of wide rows; see `odm.backends.bigtable.rows.wide`."""

    counts_items: ClassVar[bool] = False

    def check_models(self) -> None:
        _check_order(self.schema)
        _check_fields(self.schema)

    @property
    def _own(self) -> Families:
        return {FAMILY: ColumnFamily(), COUNTERS: ColumnFamily(aggregate="sum")}


class ForeignTable(ItemTable):
    """The table of rows of other programs; see `odm.backends.bigtable.rows.foreign`."""

    def check_name(self) -> None:
        """Any name is possible: the table is another program's."""

    def check_models(self) -> None:
        if self.schema.transactions:
            raise SchemaError(
                f"table {self.schema.name!r}: rows of other programs have no place for the locks of transactions: "
                "leave transactions= out"
            )
        check_rows(self.schema, Form.of(self.schema))

    @property
    def families(self) -> Families:
        placements = Form.of(self.schema).placements.values()
        spots = [spot for placement in placements for spot in placement.spots.values()]
        sums = {spot.family for spot in spots if spot.adds}
        names = sorted({spot.family for spot in spots})
        theirs = {name: ColumnFamily(aggregate="sum" if name in sums else None) for name in names}
        return theirs | {name: ColumnFamily(rule or NEWEST_ONLY) for name, rule in self.schema.families.items()}

    def stranger(self, table: str, families: Collection[str]) -> tuple[str, str]:
        if {FAMILY, COUNTERS} <= {*families}:
            way = f'leave row_style="verbatim" out as before, {_OTHER_NAME}'
            return "so odm made it for rows of its own", way
        return "so it belongs to another program", _OTHER_NAME


_OTHER_NAME: Final = "choose another name, or give the store a prefix"

_TABLES: Final[Mapping[Layout, type[ItemTable]]] = {
    "row_per_item": ItemTable,
    "row_per_partition": WideTable,
    "verbatim": ForeignTable,
}


def table_of(schema: Schema) -> ItemTable:
    """The items' table of a schema."""
    return _TABLES[layout_of(schema)](schema)


def tables(schema: Schema, options: Options = NO_OPTIONS) -> tuple[CreateTable, ...]:
    """The requests that create the table of the items, the tables of the indexes, and that of the records."""
    entries, of_index = {ENTRIES: ColumnFamily()}, options.of_index.new
    indexes = (CreateTable(index_table(schema.name, name), entries, of_index) for name in schema.indexes)
    of_records = CreateTable(record_table(schema.name), {RECORD: ColumnFamily()}, options.of_index.new)
    return (
        CreateTable(schema.name, table_of(schema).families, options.new, options.splits),
        *indexes,
        *([of_records] * schema.transactions),
    )
