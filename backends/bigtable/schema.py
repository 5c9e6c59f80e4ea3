"""From the compiled schema to Bigtable: what it can not hold is refused here, before any request."""

import re
from itertools import combinations

from odm.backends.bigtable.native import FAMILY, CreateTable
from odm.errors import SchemaError, Unsupported
from odm.keys import heads_can_equal
from odm.schema.model import EntitySchema, Schema

TABLE_NAME = re.compile(r"[_a-zA-Z0-9][-_.a-zA-Z0-9]{0,49}")
"""google.bigtable.admin.v2, CreateTableRequest.table_id; at most 50 characters."""

UNAMBIGUOUS = "##"
"""No component is empty, so no partition or sort key holds this."""


def check(schema: Schema) -> None:
    """Refuse what Bigtable can not keep.

    Raises:
        SchemaError: the table's name, or row keys that could be read in two ways.
        Unsupported: a secondary index.
    """
    if not TABLE_NAME.fullmatch(schema.name):
        raise SchemaError(
            f"table {schema.name!r}: a Bigtable table has a name of 1 to 50 letters, digits, '_', '-' and '.', which "
            "begins with a letter, digit or '_': choose another name (a store's prefix counts)"
        )
    if index := next(iter(schema.indexes.values()), None):
        patterns = ", ".join(f"{pattern.entity}.{pattern.name}" for pattern in index.patterns) or "no pattern"
        raise Unsupported(
            f"table {schema.name!r}: the Bigtable backend does not serve secondary patterns yet, such as index "
            f"{index.name!r} ({patterns}): make the pattern the primary key of an entity of its own, "
            "or use another backend"
        )
    if not schema.hash_only and schema.row_key_join != UNAMBIGUOUS:
        for one, other in combinations(schema.entities.values(), 2):
            _check_heads(schema, one, other)


def _check_heads(schema: Schema, one: EntitySchema, other: EntitySchema) -> None:
    a, b = one.primary.partition, other.primary.partition
    if not heads_can_equal(a, b):
        return
    raise SchemaError(
        f"table {schema.name!r}: a Bigtable row key is partition {schema.row_key_join} sort, and the partitions "
        f'of {one.name} ("{a.text}") and {other.name} ("{b.text}") have different numbers of components that can begin '
        f"alike, so a partition of one would hold rows of the other: begin one of them with a literal of its own, such "
        f'as "{other.name.upper()}#{b.text}", or declare Table("{schema.name}", row_key_join="##")'
    )


def create_table(schema: Schema) -> CreateTable:
    """The request that makes the table: one family, of whose cells the newest is kept."""
    return CreateTable(schema.name, {FAMILY: 1})
