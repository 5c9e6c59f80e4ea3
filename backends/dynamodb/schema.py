"""Schema → the layout of its DynamoDB table: names of key attributes and indexes, and the request that makes them.

A table has the key attributes of the schema, and for every index the attributes ``<index>pk`` and ``<index>sk``; all
are strings. An item that leaves out both attributes of an index is not in that index.
"""

import re
from collections.abc import Mapping
from typing import Any

from attrs import Factory, field, frozen

from odm.errors import SchemaError
from odm.schema.model import Schema

_NAME = re.compile(r"[A-Za-z0-9_.-]{3,255}")
_KEY_TYPES = ("HASH", "RANGE")


@frozen
class Layout:
    """Where things stand in the table.

    Attributes:
        table: the table's name.
        keys: the key attributes: partition and sort, or partition alone.
        indexes: by index name, its two key attributes.
        has_ttl: whether items expire.
        hidden: all key attributes, of the table and of its indexes: what is no part of an item.
    """

    table: str
    keys: tuple[str, ...]
    indexes: Mapping[str, tuple[str, str]]
    has_ttl: bool = False
    hidden: frozenset[str] = field(
        init=False,
        repr=False,
        default=Factory(lambda self: frozenset(self.keys).union(*self.indexes.values()), takes_self=True),
    )


def layout_of(schema: Schema) -> Layout:
    """Lay out the table of a schema.

    Raises:
        SchemaError: DynamoDB does not allow the name of the table or of an index.
    """
    _check_name("table", schema.name, "rename it in Table(...), or lengthen the store's prefix")
    for index in schema.indexes:
        _check_name("index", index, f"name it with AccessPattern(..., index=...) in table {schema.name!r}")
    return Layout(
        table=schema.name,
        keys=schema.keys[:1] if schema.hash_only else schema.keys,
        indexes={index: (f"{index}pk", f"{index}sk") for index in schema.indexes},
        has_ttl=schema.has_ttl,
    )


def create_table(layout: Layout) -> dict[str, Any]:
    """The arguments of CreateTable: on-demand, every index with all attributes."""
    arguments: dict[str, Any] = {
        "TableName": layout.table,
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in _key_attributes(layout)],
        "KeySchema": _key_schema(layout.keys),
        "BillingMode": "PAY_PER_REQUEST",
    }
    if layout.indexes:
        arguments["GlobalSecondaryIndexes"] = [
            {"IndexName": index, "KeySchema": _key_schema(names), "Projection": {"ProjectionType": "ALL"}}
            for index, names in layout.indexes.items()
        ]
    return arguments


def _key_attributes(layout: Layout) -> list[str]:
    return [*layout.keys, *(name for names in layout.indexes.values() for name in names)]


def _key_schema(names: tuple[str, ...]) -> list[dict[str, str]]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, _KEY_TYPES, strict=False)]


def _check_name(what: str, name: str, mend: str) -> None:
    if not _NAME.fullmatch(name):
        raise SchemaError(
            f"DynamoDB does not allow the {what} name {name!r}, only 3 to 255 of A-Z a-z 0-9 _ . -: {mend}"
        )
