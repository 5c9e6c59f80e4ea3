"""Schema → the layout of its DynamoDB table: names of key attributes and indexes, and the request that makes them.

A table has the key attributes of the schema, and for every index the attributes ``<index>pk`` and ``<index>sk``; all
are strings. An item that leaves out both attributes of an index is not in that index. A local index has ``<index>sk``
alone, beside the table's own partition key.
"""

from collections.abc import Mapping
from typing import Any

from attrs import Factory, field, frozen

from odm.errors import BackendError, SchemaError
from odm.schema.checks import NAMES, is_name
from odm.schema.model import Schema

_KEY_TYPES = ("HASH", "RANGE")


@frozen
class Layout:
    """Where things stand in the table.

    Attributes:
        table: the table's name.
        keys: the key attributes: partition and sort, or partition alone.
        indexes: by index name, its two key attributes; the first of a local one is the table's.
        local: the names of the local indexes.
        has_ttl: whether items expire.
        hidden: all key attributes, of the table and of its indexes: what is no part of an item.
    """

    table: str
    keys: tuple[str, ...]
    indexes: Mapping[str, tuple[str, str]]
    has_ttl: bool = False
    local: frozenset[str] = frozenset()
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
    _check_name("table", schema.name, "rename it in Table(...)")
    for index in schema.indexes:
        _check_name("index", index, f"name it with AccessPattern(..., index=...) in table {schema.name!r}")
    return Layout(
        table=schema.name,
        keys=schema.keys[:1] if schema.hash_only else schema.keys,
        indexes={
            name: (schema.keys[0] if index.local else f"{name}pk", f"{name}sk")
            for name, index in schema.indexes.items()
        },
        has_ttl=schema.has_ttl,
        local=frozenset(name for name, index in schema.indexes.items() if index.local),
    )


def create_table(layout: Layout) -> dict[str, Any]:
    """The arguments of CreateTable: on-demand, every index with all attributes."""
    arguments: dict[str, Any] = {
        "TableName": layout.table,
        "AttributeDefinitions": [{"AttributeName": name, "AttributeType": "S"} for name in _key_attributes(layout)],
        "KeySchema": _key_schema(layout.keys),
        "BillingMode": "PAY_PER_REQUEST",
    }
    for kind in ("Global", "Local"):
        if indexes := [index for index in layout.indexes if (index in layout.local) is (kind == "Local")]:
            arguments[f"{kind}SecondaryIndexes"] = [_index(layout, index) for index in indexes]
    return arguments


def add_index(layout: Layout, index: str, table: Mapping[str, Any]) -> dict[str, Any]:
    """The arguments of UpdateTable that give an index to a table, which is described by the answer of DescribeTable."""
    known = table["AttributeDefinitions"]
    defined = {definition["AttributeName"] for definition in known}
    new = [{"AttributeName": name, "AttributeType": "S"} for name in layout.indexes[index] if name not in defined]
    return {
        "TableName": layout.table,
        "AttributeDefinitions": [*known, *new],
        "GlobalSecondaryIndexUpdates": [{"Create": _index(layout, index)}],
    }


def check_keys(layout: Layout, table: Mapping[str, Any]) -> None:
    """See that a table that exists, and those indexes of the layout that it has, have the keys of the layout.

    Args:
        layout: what the models need.
        table: the answer of DescribeTable.

    Raises:
        BackendError: a key differs, the message names both; or a local index is not there, which none can be added.
    """
    types = {definition["AttributeName"]: definition["AttributeType"] for definition in table["AttributeDefinitions"]}
    what, mend = f"table {layout.table!r}", "name its key attributes in Table(..., keys=...), or use another table"
    _check_key(what, layout.keys, table["KeySchema"], types, mend)
    for index in (*table.get("GlobalSecondaryIndexes", ()), *table.get("LocalSecondaryIndexes", ())):
        if names := layout.indexes.get(index["IndexName"]):
            what = f"index {index['IndexName']!r} of table {layout.table!r}"
            mend = "remove it from the table, or name another one with AccessPattern(..., index=...)"
            _check_key(what, names, index["KeySchema"], types, mend)
    found = {index["IndexName"] for index in table.get("LocalSecondaryIndexes", ())}
    if missing := sorted(layout.local - found):
        raise BackendError(
            f"table {layout.table!r} exists without the local index {missing[0]!r}, and DynamoDB makes local indexes "
            "only together with the table: drop local=True, which makes it a global index, or create the table anew "
            "and copy the items"
        )


def _check_key(
    what: str, names: tuple[str, ...], key_schema: list[dict[str, str]], types: Mapping[str, str], mend: str
) -> None:
    needed = [f"{part['AttributeName']} ({part['KeyType']}, S)" for part in _key_schema(names)]
    found = [
        f"{part['AttributeName']} ({part['KeyType']}, {types.get(part['AttributeName'], '?')})" for part in key_schema
    ]
    if sorted(found) != sorted(needed):
        raise BackendError(
            f"{what} exists with the key {', '.join(found)}, but the models need {', '.join(needed)}: {mend}"
        )


def _index(layout: Layout, index: str) -> dict[str, Any]:
    names = layout.indexes[index]
    return {"IndexName": index, "KeySchema": _key_schema(names), "Projection": {"ProjectionType": "ALL"}}


def _key_attributes(layout: Layout) -> list[str]:
    return list(dict.fromkeys([*layout.keys, *(name for names in layout.indexes.values() for name in names)]))


def _key_schema(names: tuple[str, ...]) -> list[dict[str, str]]:
    return [{"AttributeName": name, "KeyType": kind} for name, kind in zip(names, _KEY_TYPES, strict=False)]


def _check_name(what: str, name: str, mend: str) -> None:
    if not is_name(name):
        raise SchemaError(f"DynamoDB does not allow the {what} name {name!r}, only {NAMES}: {mend}")
