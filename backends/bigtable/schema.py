"""From the compiled schema to Bigtable: what it cannot hold is refused here, before any request."""

import re

from odm.backends.bigtable.columns import SIDE_COLUMNS
from odm.backends.bigtable.entries import check_entries, index_table
from odm.backends.bigtable.native import COUNTERS, ENTRIES, FAMILY, CreateTable
from odm.errors import SchemaError
from odm.schema.entity import EntitySchema
from odm.schema.model import IndexSchema, Schema
from odm.schema.row_keys import find_ambiguities

TABLE_NAME = re.compile(r"[_a-zA-Z0-9][-_.a-zA-Z0-9]{0,49}")
"""google.bigtable.admin.v2, CreateTableRequest.table_id; at most 50 characters."""


def check(schema: Schema) -> None:
    """Refuse what Bigtable cannot keep.

    Raises:
        SchemaError: the name of the table, of an index or of an attribute, row keys that could be read in two
            ways, or an index whose entries would not be in order.
    """
    if not TABLE_NAME.fullmatch(schema.name):
        raise SchemaError(
            f"table {schema.name!r}: a Bigtable table has a name of 1 to 50 letters, digits, '_', '-' and '.', which "
            "begins with a letter, digit or '_': choose another name (a store's prefix counts)"
        )
    for index in schema.indexes.values():
        _check_index(schema, index)
    for entity in schema.entities.values():
        _check_names(entity)
    for found in find_ambiguities(schema):
        raise SchemaError(f"table {schema.name!r}: {found.what}: {found.fix}")


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
            f"table {schema.name!r}: index {index.name!r} is the Bigtable table {table!r} of {len(table)} characters, "
            "and 50 letters, digits, '_', '-' and '.' are the most: give the index a shorter name with index=..., or "
            "the table (a store's prefix counts)"
        )
    check_entries(schema.name, index)


def tables(schema: Schema) -> tuple[CreateTable, ...]:
    """The requests that make the table and those of its indexes; of every cell the newest is kept."""
    indexes = (CreateTable(index_table(schema.name, name), {ENTRIES: 1}) for name in schema.indexes)
    return (CreateTable(schema.name, {FAMILY: 1, COUNTERS: 1}), *indexes)
