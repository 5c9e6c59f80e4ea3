"""The differences between the models and an existing table: one `TableChange` each, with the request that applies it.

These functions do no I/O. They compare the layout with the responses of DescribeTable and DescribeTimeToLive.
`odm.backends.dynamodb.tables` applies the changes: ``create()`` only those that add something, `odm apply` all.
"""

from collections.abc import Iterator, Mapping
from typing import Any

from odm.backends.dynamodb.native import Call
from odm.backends.dynamodb.options import ON_DEMAND, Provisioned
from odm.backends.dynamodb.schema import (
    Layout,
    add_index,
    capacity_of,
    class_of,
    create_table,
    global_indexes,
    key_schema,
    stream_specification,
)
from odm.protocol.admin import TableChange
from odm.protocol.requests import TableSize


def differences(layout: Layout, table: Mapping[str, Any] | None) -> tuple[TableChange, ...]:
    """What is missing, different or extra in the table, compared with the models; for TTL see `expiry_difference`.

    Args:
        layout: the table that the models and options require.
        table: the Table of the DescribeTable response; None if the table does not exist.

    Returns:
        The changes in the order in which to apply them; those that cannot be made ("refused") come first.
    """
    if table is None:
        return (
            TableChange(
                "create", f"table {layout.table!r}", _outline(layout), Call("create_table", create_table(layout))
            ),
        )
    return (
        *_conflicts(layout, table),
        *settings_differences(layout, table),
        *_lacking(layout, table),
        *_extra(layout, table),
    )


def settings_differences(layout: Layout, table: Mapping[str, Any]) -> Iterator[TableChange]:
    """What differs in the settings that are not part of the models."""
    yield from _billing(layout, table)
    yield from _class(layout, table)
    yield from _stream(layout, table)


def key_conflicts(layout: Layout, table: Mapping[str, Any]) -> Iterator[TableChange]:
    """The keys of the table and of its indexes that differ from those of the models, which no request can change."""
    types = _types(table)
    what, fix = f"table {layout.table!r}", "name its key attributes in Table(..., keys=...), or use another table"
    yield from _key_conflict(what, what, key_schema(layout.keys), table["KeySchema"], types, layout.types, fix)
    for index in _indexes(table):
        if names := layout.indexes.get(index["IndexName"]):
            part = f"index {index['IndexName']!r}"
            fix = "name its attributes in Table(..., index_keys=...), or use another with AccessPattern(..., index=...)"
            needed = key_schema(names, layout.several.get(index["IndexName"], 1))
            yield from _key_conflict(part, f"{part} of {what}", needed, index["KeySchema"], types, layout.types, fix)


def held_by_indexes(table: Mapping[str, Any]) -> dict[str, tuple[str, ...] | None]:
    """The attributes that each index of an existing table holds besides keys; None: all."""
    projections = {index["IndexName"]: index.get("Projection", {}) for index in _indexes(table)}
    return {
        name: None if held.get("ProjectionType", "ALL") == "ALL" else tuple(held.get("NonKeyAttributes", ()))
        for name, held in projections.items()
    }


def expiry_difference(layout: Layout, found: Mapping[str, Any]) -> TableChange | None:
    """The change of the table's TTL setting, or None.

    Args:
        layout: the table that the models require.
        found: the TimeToLiveDescription of the table; empty if the table does not exist yet.
    """
    on = found.get("TimeToLiveStatus", "DISABLED") in ("ENABLED", "ENABLING")
    attribute = found.get("AttributeName", layout.ttl)
    if not layout.has_ttl:
        text = f"enabled on {attribute!r}, but no model has a TTL field: DynamoDB deletes items that have it"
        return TableChange("extra", "expiry", text) if on else None
    if on and attribute != layout.ttl:
        return TableChange(
            "refused",
            "expiry",
            f"the TTL attribute of table {layout.table!r} is {attribute!r}, and that of the models is "
            f"{layout.ttl!r}; a table has one: name it in Table(ttl={attribute!r}), or disable TTL (UpdateTimeToLive), "
            "and an hour later apply this again",
        )
    setting = {"Enabled": True, "AttributeName": layout.ttl}
    call = Call("update_time_to_live", {"TableName": layout.table, "TimeToLiveSpecification": setting})
    return None if on else TableChange("add", "expiry", f"by {layout.ttl!r}", call)


def _outline(layout: Layout) -> str:
    """A one-line summary of a new table."""
    options = layout.options
    paid = options.billing if isinstance(options.billing, Provisioned) else None
    parts = [f"key {' and '.join(layout.keys)}", _paid(paid)]
    if options.table_class is not None:
        parts.append(f"class {options.table_class}")
    if layout.indexes:
        parts.append(f"indexes {', '.join(layout.indexes)}")
    if options.stream:
        parts.append(f"stream of {options.stream}")
    return "; ".join(parts)


def _conflicts(layout: Layout, table: Mapping[str, Any]) -> Iterator[TableChange]:
    """Differences that no request can change: the keys of the table and of its indexes, and missing local indexes."""
    types, what = _types(table), f"table {layout.table!r}"
    yield from key_conflicts(layout, table)
    for name, held in held_by_indexes(table).items():
        if name in layout.indexes:
            yield from _projection_conflict(layout, name, held)
    for name in _absent(layout, table):
        wanted = {key: layout.types.get(key, "S") for key in layout.indexes[name]}
        others = [f"{key} is of type {types[key]}" for key, kind in wanted.items() if types.get(key, kind) != kind]
        if others:
            needs = ", ".join(f"{key} ({kind})" for key, kind in wanted.items())
            text = (
                f"index {name!r} of {what} needs the key attributes {needs}, and "
                f"{', '.join(others)} in another index: choose other attributes in Table(..., index_keys=...)"
            )
            yield TableChange("refused", f"index {name!r}", text)
    found = {index["IndexName"] for index in table.get("LocalSecondaryIndexes", ())}
    for name in sorted(layout.local - found):
        yield TableChange(
            "refused",
            f"index {name!r}",
            f"{what} exists without the local index {name!r}, and DynamoDB creates local indexes only with the "
            "table: remove local=True, which makes it a global index, or create a new table and copy the items",
        )


def _key_conflict(
    part: str,
    what: str,
    asked: list[dict[str, str]],
    schema: list[dict[str, str]],
    types: Mapping[str, str],
    wanted: Mapping[str, str],
    fix: str,
) -> Iterator[TableChange]:
    needed = [f"{key['AttributeName']} ({key['KeyType']}, {wanted.get(key['AttributeName'], 'S')})" for key in asked]
    found = [f"{key['AttributeName']} ({key['KeyType']}, {types.get(key['AttributeName'], '?')})" for key in schema]
    if sorted(found) != sorted(needed):
        text = f"{what} exists with the key {', '.join(found)}, but the models need {', '.join(needed)}: {fix}"
        yield TableChange("refused", part, text)


def _projection_conflict(layout: Layout, name: str, held: tuple[str, ...] | None) -> Iterator[TableChange]:
    """Report an index whose projection lacks attributes that the models need; additional attributes do no harm."""
    wanted = layout.projections.get(name)
    if held is None or (wanted is not None and {*wanted} <= {*held}):
        return
    has, needs = (", ".join(names) or "keys" for names in (held, wanted or ("all",)))
    text = (
        f"index {name!r} of table {layout.table!r} exists with the projection {has}, but the models need {needs}, and "
        "DynamoDB cannot change it: give the pattern a new index name with AccessPattern(..., index=...)"
    )
    yield TableChange("refused", f"index {name!r}", text)


def _lacking(layout: Layout, table: Mapping[str, Any]) -> Iterator[TableChange]:
    for index in _absent(layout, table):
        text = f"key {' and '.join(layout.indexes[index])}; stored items enter it when they have these attributes"
        yield TableChange("add", f"index {index!r}", text, Call("update_table", add_index(layout, index, table)))


def _absent(layout: Layout, table: Mapping[str, Any]) -> list[str]:
    """The global indexes of the layout that the table does not have."""
    found = {index["IndexName"] for index in _indexes(table)}
    return [index for index in global_indexes(layout) if index not in found]


def _types(table: Mapping[str, Any]) -> dict[str, str]:
    """The types of the key attributes of a table and its indexes."""
    return {definition["AttributeName"]: definition["AttributeType"] for definition in table["AttributeDefinitions"]}


def _indexes(table: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    yield from table.get("GlobalSecondaryIndexes", ())
    yield from table.get("LocalSecondaryIndexes", ())


def _extra(layout: Layout, table: Mapping[str, Any]) -> Iterator[TableChange]:
    """Indexes that no model uses, with the request that deletes a global one: only `odm apply --drop` sends it."""
    for index in table.get("GlobalSecondaryIndexes", ()):
        name = index["IndexName"]
        if name not in layout.indexes:
            arguments = {"TableName": layout.table, "GlobalSecondaryIndexUpdates": [{"Delete": {"IndexName": name}}]}
            text = "no model uses it; it costs write capacity and storage"
            held = TableSize(index.get("ItemCount"), index.get("IndexSizeBytes"), exact=False)
            yield TableChange("extra", f"index {name!r}", text, Call("update_table", arguments), str(held))
    for index in table.get("LocalSecondaryIndexes", ()):
        if index["IndexName"] not in layout.indexes:
            text = "no model uses it; DynamoDB deletes a local index only with its table"
            yield TableChange("extra", f"index {index['IndexName']!r}", text)


def _stream(layout: Layout, table: Mapping[str, Any]) -> Iterator[TableChange]:
    wanted, found = layout.options.stream, table.get("StreamSpecification", {})
    if wanted is None:
        return
    if not found.get("StreamEnabled"):
        yield TableChange("add", "stream", wanted, _update(layout, StreamSpecification=stream_specification(wanted)))
    elif found.get("StreamViewType") != wanted.upper():
        text = (
            f"{found.get('StreamViewType', '?').lower()} → {wanted}: the stream is disabled, then a new one is enabled"
        )
        yield TableChange("change", "stream", text, _update(layout, StreamSpecification={"StreamEnabled": False}))


def _billing(layout: Layout, table: Mapping[str, Any]) -> Iterator[TableChange]:
    wanted, found = layout.options.billing, capacity_of(table)
    if wanted == ON_DEMAND and found is not None:
        yield TableChange(
            "change", "billing", f"{_paid(found)} → {ON_DEMAND}", _update(layout, BillingMode="PAY_PER_REQUEST")
        )
    if not isinstance(wanted, Provisioned):
        return
    arguments: dict[str, Any] = {} if found is not None else {"BillingMode": "PROVISIONED"}
    steps = []
    if found is None or _differs(found, wanted):
        arguments["ProvisionedThroughput"] = wanted.throughput
        steps.append(f"{_paid(found)} → {_paid(wanted)}")
    updates = []
    for index in table.get("GlobalSecondaryIndexes", ()):
        name, has = index["IndexName"], capacity_of(index)
        needs = wanted.of(name)
        # An index that no model uses needs a capacity when the table becomes provisioned; later it stays unchanged.
        if found is None or (name in layout.indexes and _differs(has, needs)):
            updates.append({"Update": {"IndexName": name, "ProvisionedThroughput": needs.throughput}})
            steps.append(f"index {name!r} {_paid(has)} → {_paid(needs)}")
    if updates:
        arguments["GlobalSecondaryIndexUpdates"] = updates
    if steps:
        yield TableChange("change", "billing", ", ".join(steps), _update(layout, **arguments))


def _class(layout: Layout, table: Mapping[str, Any]) -> Iterator[TableChange]:
    wanted, found = layout.options.table_class, class_of(table)
    if wanted is not None and wanted != found:
        yield TableChange("change", "table class", f"{found} → {wanted}", _update(layout, TableClass=wanted.upper()))


def _differs(found: Provisioned | None, wanted: Provisioned) -> bool:
    return found is None or found.throughput != wanted.throughput


def _update(layout: Layout, **arguments: Any) -> Call:
    return Call("update_table", {"TableName": layout.table, **arguments})


def _paid(paid: Provisioned | None) -> str:
    return ON_DEMAND if paid is None else f"{paid.read} read and {paid.write} write units"
