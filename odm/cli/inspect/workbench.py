"""Data models of NoSQL Workbench: JSON with key attributes, indexes and sample items."""

import json
from base64 import b64encode
from collections.abc import Iterator, Mapping
from itertools import islice
from pathlib import Path
from random import Random
from typing import Any, Final

from odm import BadValue
from odm.backends.dynamodb.items.codec import put_values, to_attribute
from odm.backends.dynamodb.items.layout import Layout, layout_of
from odm.cli.inspect.facts import IndexFacts, TableFacts
from odm.cli.locations import store_at
from odm.cli.target import Target
from odm.cli.usage import BadUsage
from odm.codec import attribute_name
from odm.codec.types.stored import show
from odm.protocol.requests import Put
from odm.schema.model import Schema

_TYPES: Final = frozenset({"S", "N", "B", "BOOL", "NULL", "SS", "NS", "BS", "M", "L"})

MOST_BYTES: Final = 64 * 1024 * 1024
"""The maximum size of a data model. Workbench keeps a few sample items of each table."""


def facts_in(file: Path, table: str | None) -> TableFacts:
    """The facts of a table of a data model.

    Raises:
        BadUsage: the file is not such a model, or has several tables and none was named.
    """
    try:
        tables = {declared["TableName"]: declared for declared in json.loads(_read(file))["DataModel"]}
        if table is None and len(tables) != 1:
            raise BadUsage(f"{file} has the tables {', '.join(map(show, tables)) or 'none'}: name one with --table")
        if table is not None and table not in tables:
            raise BadUsage(f"{file} has no table {table!r}; it has {', '.join(map(show, tables))}")
        return _facts(tables[table] if table is not None else next(iter(tables.values())))
    except BadUsage:
        raise
    except BadValue as error:
        raise BadUsage(f"{file}: {error}") from error
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise BadUsage(
            f"{file} is not a data model of NoSQL Workbench, at {type(error).__name__}: {error}: export one as JSON"
        ) from error


def _read(file: Path) -> str:
    with file.open("rb") as opened:
        data = opened.read(MOST_BYTES + 1)
    if len(data) > MOST_BYTES:
        raise BadUsage(f"{file} has more than {MOST_BYTES >> 20} MiB: remove sample data from the model, and export it")
    return data.decode()


def _facts(model: Mapping[str, Any]) -> TableFacts:
    types: dict[str, str] = {}
    keys = _keys(model["KeyAttributes"], types)
    indexes: dict[str, IndexFacts] = {}
    for local, name in ((False, "GlobalSecondaryIndexes"), (True, "LocalSecondaryIndexes")):
        for index in model.get(name, ()):
            projection = index.get("Projection", {})
            whole = projection.get("ProjectionType", "ALL") == "ALL"
            held = None if whole else tuple(sorted(projection.get("NonKeyAttributes", ())))
            indexes[index["IndexName"]] = IndexFacts(_keys(index["KeyAttributes"], types), local, held)
    rows = [*model.get("TableData", ())]
    for facet in model.get("TableFacets", ()):
        rows += facet.get("TableData", ())
    unique = {json.dumps([row[key] for key in keys], sort_keys=True): row for row in rows}
    items = tuple({name: _attribute(value) for name, value in row.items()} for row in unique.values())
    return TableFacts(model["TableName"], keys, types, dict(sorted(indexes.items())), None, items)


def _keys(parts: Mapping[str, Any], types: dict[str, str]) -> tuple[str, ...]:
    names = []
    for part in ("PartitionKey", "SortKey"):
        if part in parts:
            names.append(parts[part]["AttributeName"])
            types[names[-1]] = parts[part].get("AttributeType", "S")
    return tuple(names)


def _attribute(value: Any) -> dict[str, Any]:
    """An attribute; the content of a map may be written as plain JSON."""
    if isinstance(value, dict) and len(value) == 1 and (kind := next(iter(value))) in _TYPES:
        content = value[kind]
        if kind == "M":
            return {"M": {name: _attribute(part) for name, part in content.items()}}
        if kind == "L":
            return {"L": [_attribute(part) for part in content]}
        return {kind: content}
    match value:
        case dict():
            return {"M": {name: _attribute(part) for name, part in value.items()}}
        case list():
            return {"L": [_attribute(part) for part in value]}
        case bool():
            return {"BOOL": value}
        case int() | float():
            return {"N": str(value)}
        case str():
            return {"S": value}
    return {"NULL": True}


def export_workbench(target: Target, location: str | None, sample: int) -> str:
    """A table as a data model.

    Args:
        target: the models.
        location: a store whose items become the sample data; None: no data.
        sample: how many items at most.
    """
    schema = target.schema
    layout = layout_of(schema)
    model: dict[str, Any] = {
        "TableName": schema.name,
        "KeyAttributes": _described(layout, layout.keys),
        "NonKeyAttributes": list(_attributes(schema, layout)),
    }
    for name, local in (("GlobalSecondaryIndexes", False), ("LocalSecondaryIndexes", True)):
        indexes = [index for index in schema.indexes if (index in layout.local) is local]
        if indexes:
            model[name] = [_index(layout, index) for index in indexes]
    if location is not None:
        with store_at(location, target.table) as db:
            model["TableData"] = [_item(schema, layout, entity) for entity in islice(db.scan(), sample)]
    whole = {"ModelName": schema.name, "ModelMetadata": {"Version": "3.0"}, "DataModel": [model]}
    return json.dumps(whole, indent=2, ensure_ascii=False, default=_binary)


def _index(layout: Layout, index: str) -> dict[str, Any]:
    held = layout.projections.get(index)
    kind = "ALL" if held is None else "INCLUDE" if held else "KEYS_ONLY"
    projection = {"ProjectionType": kind} | ({"NonKeyAttributes": [*held]} if held else {})
    return {"IndexName": index, "KeyAttributes": _described(layout, layout.indexes[index]), "Projection": projection}


def _described(layout: Layout, names: tuple[str, ...]) -> dict[str, dict[str, str]]:
    parts = zip(("PartitionKey", "SortKey"), names, strict=False)
    return {part: {"AttributeName": name, "AttributeType": layout.types.get(name, "S")} for part, name in parts}


def _attributes(schema: Schema, layout: Layout) -> Iterator[dict[str, str]]:
    seen = {*layout.keys}
    for index in layout.indexes.values():
        for name in index:
            if name not in seen:
                seen.add(name)
                yield {"AttributeName": name, "AttributeType": layout.types.get(name, "S")}
    for entity in schema.entities.values():
        for field in entity.codec.record.fields.values():
            name = attribute_name(field.stored)
            if name in seen or field.stored in entity.key_only:
                continue
            seen.add(name)
            kinds = sorted(field.type.kinds - {"NULL"})
            kind = kinds[0] if kinds else "NULL"
            yield {"AttributeName": name, "AttributeType": "SS" if kind == "SET" else kind}


def _item(schema: Schema, layout: Layout, entity: Any) -> dict[str, Any]:
    model = schema.entity(type(entity))
    item = model.codec.encode(entity)
    put = Put(model.key(vars(entity)), item, model.entries(vars(entity), item, Random(0)))
    return {name: to_attribute(value) for name, value in put_values(layout, put).items()}


def _binary(value: object) -> str:
    if isinstance(value, bytes):
        return b64encode(value).decode()
    raise TypeError(f"{value!r} has no JSON form")
