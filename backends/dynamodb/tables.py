"""Creates, changes and deletes the table; its differences from the models, each with the request that ends it.

What differs is found without I/O, in the responses of DescribeTable and DescribeTimeToLive. ``create()`` makes only
the changes that add something, `odm apply` all.

DynamoDB responds before the work is finished, so these functions call DescribeTable until it is. Each step follows from
the table's current description, so an interrupted call can be repeated and continues where it stopped.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain, repeat
from typing import Any, Final

from odm.backends.dynamodb.client.errors import FORBIDDEN, INVALID, LIMIT_EXCEEDED, TABLE_IN_USE, TABLE_MISSING, code_of
from odm.backends.dynamodb.client.native import ON_DEMAND, Call, Provisioned, Steps, TableOptions
from odm.backends.dynamodb.items.attributes import Attributes
from odm.backends.dynamodb.items.codec import read_item, read_key
from odm.backends.dynamodb.items.layout import (
    Layout,
    add_index,
    capacity_of,
    check_capacity,
    class_of,
    create_table,
    global_indexes,
    key_schema,
    layout_of,
    stream_specification,
)
from odm.errors import BackendError, BadValue, brief
from odm.immutable import evolve
from odm.protocol.admin import ADDITIVE, Kind, TableChange, Tell, silent
from odm.protocol.requests import Sleep, TableIdentity, TableSize
from odm.schema.evidence import FEW, Stored, other_keys
from odm.schema.model import Schema


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
    subject, fix = f"table {layout.table!r}", "name its key attributes in Table(..., keys=...), or use another table"
    yield from _key_conflict(subject, subject, key_schema(layout.keys), table["KeySchema"], types, layout.types, fix)
    for index in _indexes(table):
        if names := layout.indexes.get(index["IndexName"]):
            part = f"index {index['IndexName']!r}"
            fix = "name its attributes in Table(..., index_keys=...), or use another with AccessPattern(..., index=...)"
            needed = key_schema(names, layout.several.get(index["IndexName"], 1))
            yield from _key_conflict(part, f"{part} of {subject}", needed, index["KeySchema"], types, layout.types, fix)


def held_by_indexes(table: Mapping[str, Any]) -> dict[str, tuple[str, ...] | None]:
    """The attributes that each index of an existing table holds besides keys; None: all."""
    projections = {index["IndexName"]: index.get("Projection", {}) for index in _indexes(table)}
    return {
        name: None if held.get("ProjectionType", "ALL") == "ALL" else tuple(held.get("NonKeyAttributes", ()))
        for name, held in projections.items()
    }


def expiry_difference(layout: Layout, existing: Mapping[str, Any]) -> TableChange | None:
    """The change of the table's TTL setting, or None.

    Args:
        layout: the table that the models require.
        existing: the TimeToLiveDescription of the table; empty if the table does not exist yet.
    """
    on = existing.get("TimeToLiveStatus", "DISABLED") in ("ENABLED", "ENABLING")
    attribute = existing.get("AttributeName", layout.ttl)
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
    types, subject = _types(table), f"table {layout.table!r}"
    yield from key_conflicts(layout, table)
    for name, held in held_by_indexes(table).items():
        if name in layout.indexes:
            yield from _projection_conflict(layout, name, held)
    for name in _absent(layout, table):
        declared = {key: layout.types.get(key, "S") for key in layout.indexes[name]}
        others = [f"{key} is of type {types[key]}" for key, kind in declared.items() if types.get(key, kind) != kind]
        if others:
            needs = ", ".join(f"{key} ({kind})" for key, kind in declared.items())
            text = (
                f"index {name!r} of {subject} needs the key attributes {needs}, and "
                f"{', '.join(others)} in another index: choose other attributes in Table(..., index_keys=...)"
            )
            yield TableChange("refused", f"index {name!r}", text)
    existing = {index["IndexName"] for index in table.get("LocalSecondaryIndexes", ())}
    for name in sorted(layout.local - existing):
        yield TableChange(
            "refused",
            f"index {name!r}",
            f"{subject} exists without the local index {name!r}, and DynamoDB creates local indexes only with the "
            "table: remove local=True, which makes it a global index, or create a new table and copy the items",
        )


def _key_conflict(
    part: str,
    subject: str,
    asked: list[dict[str, str]],
    schema: list[dict[str, str]],
    types: Mapping[str, str],
    declared: Mapping[str, str],
    fix: str,
) -> Iterator[TableChange]:
    needed = [f"{key['AttributeName']} ({key['KeyType']}, {declared.get(key['AttributeName'], 'S')})" for key in asked]
    existing = [f"{key['AttributeName']} ({key['KeyType']}, {types.get(key['AttributeName'], '?')})" for key in schema]
    if sorted(existing) != sorted(needed):
        text = f"{subject} exists with the key {', '.join(existing)}, but the models need {', '.join(needed)}: {fix}"
        yield TableChange("refused", part, text)


def _projection_conflict(layout: Layout, name: str, held: tuple[str, ...] | None) -> Iterator[TableChange]:
    """Report an index whose projection lacks attributes that the models need; additional attributes do no harm."""
    projection = layout.projections.get(name)
    if held is None or (projection is not None and {*projection} <= {*held}):
        return
    has, needs = (", ".join(names) or "keys" for names in (held, projection or ("all",)))
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
    existing = {index["IndexName"] for index in _indexes(table)}
    return [index for index in global_indexes(layout) if index not in existing]


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
    declared, existing = layout.options.stream, table.get("StreamSpecification", {})
    if declared is None:
        return
    if not existing.get("StreamEnabled"):
        yield TableChange(
            "add", "stream", declared, _update(layout, StreamSpecification=stream_specification(declared))
        )
    elif existing.get("StreamViewType") != declared.upper():
        view = existing.get("StreamViewType", "?").lower()
        text = f"{view} → {declared}: the stream is disabled, then a new one is enabled"
        yield TableChange("change", "stream", text, _update(layout, StreamSpecification={"StreamEnabled": False}))


def _billing(layout: Layout, table: Mapping[str, Any]) -> Iterator[TableChange]:
    declared, existing = layout.options.billing, capacity_of(table)
    if declared == ON_DEMAND and existing is not None:
        yield TableChange(
            "change", "billing", f"{_paid(existing)} → {ON_DEMAND}", _update(layout, BillingMode="PAY_PER_REQUEST")
        )
    if not isinstance(declared, Provisioned):
        return
    arguments: dict[str, Any] = {} if existing is not None else {"BillingMode": "PROVISIONED"}
    steps = []
    if existing is None or _differs(existing, declared):
        arguments["ProvisionedThroughput"] = declared.throughput
        steps.append(f"{_paid(existing)} → {_paid(declared)}")
    updates = []
    for index in table.get("GlobalSecondaryIndexes", ()):
        name, has = index["IndexName"], capacity_of(index)
        needs = declared.of(name)
        # An index that no model uses needs a capacity when the table becomes provisioned; later it stays unchanged.
        if existing is None or (name in layout.indexes and _differs(has, needs)):
            updates.append({"Update": {"IndexName": name, "ProvisionedThroughput": needs.throughput}})
            steps.append(f"index {name!r} {_paid(has)} → {_paid(needs)}")
    if updates:
        arguments["GlobalSecondaryIndexUpdates"] = updates
    if steps:
        yield TableChange("change", "billing", ", ".join(steps), _update(layout, **arguments))


def _class(layout: Layout, table: Mapping[str, Any]) -> Iterator[TableChange]:
    declared, existing = layout.options.table_class, class_of(table)
    if declared is not None and declared != existing:
        yield TableChange(
            "change", "table class", f"{existing} → {declared}", _update(layout, TableClass=declared.upper())
        )


def _differs(existing: Provisioned | None, declared: Provisioned) -> bool:
    return existing is None or existing.throughput != declared.throughput


def _update(layout: Layout, **arguments: Any) -> Call:
    return Call("update_table", {"TableName": layout.table, **arguments})


def _paid(paid: Provisioned | None) -> str:
    return ON_DEMAND if paid is None else f"{paid.read} read and {paid.write} write units"


# Seconds between two DescribeTable calls, about ten minutes in total, as long as botocore's waiters.
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, *(2.0,) * 300)
_PATIENT: Final = 5.0
"""Seconds between two DescribeTable calls of `odm apply`: it may take hours to fill an index of a large table."""

_TRIES: Final = 20
"""How often to send an accepted change that has no effect: some services accept requests that they do not implement."""

_REFUSALS: Final = 3
"""How often to send a change that DynamoDB finds invalid. It does so if another program has just made the same change
("the requested throughput value equals the current value"): the next description of the table shows it."""

_LOG: Final = logging.getLogger("odm.dynamodb")

_READY = ("ACTIVE", "UPDATING")


def create(layout: Layout) -> Steps[None]:
    """Create the table, or add what an existing one lacks (indexes, the stream of the options, TTL), and wait.

    It changes nothing else of an existing table. An item is in an index if it has the index key attributes. Items that
    were written before their model had the access pattern lack them, and enter a new index when they are written again.

    Raises:
        BackendError: the table exists with another key, or it is not ready after ten minutes, plus ten per index.
    """
    yield from _exist(layout, silent)
    yield from _settle(layout, ADDITIVE, _PAUSES * (1 + len(layout.indexes)), silent)
    if layout.has_ttl:
        yield from _expire(layout, silent)


def plan(layout: Layout) -> Steps[tuple[TableChange, ...]]:
    """All differences between the models and the current table, in the order in which to apply them."""
    table = yield from _described(layout)
    ttl: dict[str, Any] = {}
    if table is not None:
        response = yield Call("describe_time_to_live", {"TableName": layout.table})
        ttl = response["TimeToLiveDescription"]
    expiry = expiry_difference(layout, ttl)
    return (*differences(layout, table), *([] if expiry is None else [expiry]))


def apply(layout: Layout, *, drop: bool, tell: Tell) -> Steps[None]:
    """Change the table to match the models and options, and wait without a time limit.

    The callback is called with each change when it starts. ``drop`` also deletes global indexes that no model uses.

    Raises:
        BackendError: a change cannot be made.
    """
    yield from _exist(layout, tell)
    kinds: set[Kind] = {"add", "change"}
    if drop:
        kinds.add("extra")
    yield from _settle(layout, kinds, chain(_PAUSES[:5], repeat(_PATIENT)), tell)
    if layout.has_ttl:
        yield from _expire(layout, tell)


def drop(layout: Layout) -> Steps[None]:
    """Delete the table and wait until it no longer exists; a missing table is not an error.

    Raises:
        BackendError: the table still exists after ten minutes.
    """
    call = Call("delete_table", {"TableName": layout.table})
    for pause in _PAUSES:
        # ResourceInUseException: the table is being created, changed or deleted. After the first two it can be deleted.
        if (yield from _unless(call, TABLE_IN_USE, TABLE_MISSING)) != TABLE_IN_USE:
            break
        yield Sleep(pause)
    yield from _gone(layout)


def names(beginning: str) -> Steps[tuple[str, ...]]:
    """The names of the tables of the account and region that begin with a text."""
    existing: list[str] = []
    arguments: dict[str, Any] = {}
    while True:
        response = yield Call("list_tables", arguments)
        existing += [name for name in response["TableNames"] if name.startswith(beginning)]
        last = response.get("LastEvaluatedTableName")
        if last is None:
            return tuple(existing)
        arguments = {"ExclusiveStartTableName": last}


def identify(layout: Layout) -> Steps[TableIdentity]:
    """The account, region and name of the table, from its ARN; without the right to describe it only the name.

    The regions of a global table have one table.

    Raises:
        TableNotFound: the table does not exist.
    """
    parts = {"backend": "dynamodb", "table": layout.table} | ({"endpoint": layout.endpoint} if layout.endpoint else {})
    try:
        response = yield Call("describe_table", {"TableName": layout.table})
    except Exception as error:
        if code_of(error) not in FORBIDDEN:
            raise
        _LOG.warning(
            "the folder of the blobs of table %r is compared by the name of the table only, because these credentials "
            "may not describe the table: allow dynamodb:DescribeTable",
            layout.table,
        )
        return TableIdentity(parts, place=layout.endpoint or "DynamoDB")
    table = response["Table"]
    region, account = (*str(table.get("TableArn", "")).split(":"), *[""] * 5)[3:5]
    if region and account:
        parts |= {"region": region, "account": account}
    replicas = tuple({**parts, "region": str(one["RegionName"])} for one in table.get("Replicas", ()))
    place = f"DynamoDB, {region}, account {account}" + f", at {layout.endpoint}" * bool(layout.endpoint)
    return TableIdentity(parts, replicas, place)


def measure(layout: Layout) -> Steps[TableSize]:
    """The size of the table, which DynamoDB counts about every six hours.

    Raises:
        TableNotFound: the table does not exist.
    """
    table = (yield Call("describe_table", {"TableName": layout.table}))["Table"]
    return TableSize(table.get("ItemCount"), table.get("TableSizeBytes"), exact=False)


def alter(layout: Layout, options: object, *, dry_run: bool) -> Steps[tuple[str, ...]]:
    """Change the settings of the table, one after the other, and wait; a table that does not exist has none.

    Raises:
        BadValue: the options are not `TableOptions`, or set the capacity of an index that does not exist.
        BackendError: the table has another key than the models, or a change is not complete after ten minutes.
    """
    if not isinstance(options, TableOptions):
        raise BadValue(f"table {layout.table!r}: {brief(options)} is not TableOptions(billing=..., table_class=...)")
    check_capacity(layout.table, global_indexes(layout), options)
    declared, tries, refusals = evolve(layout, options=options), 0, 0
    made: dict[str, str] = {}
    for pause in _PAUSES:
        table = yield from _described(layout)
        if table is None:
            return _lines(made)
        _refuse(key_conflicts(layout, table))
        left = {change.what: change for change in settings_differences(declared, table)}
        if dry_run:
            return _lines({subject: change.text for subject, change in left.items()})
        busy = table["TableStatus"] != "ACTIVE" or _unready(layout, table, everything=True)
        if not left and not busy:
            return _lines(made)
        if not busy:  # it accepts one change at a time
            subject, change = next(iter(left.items()))
            tries = tries + 1 if subject in made else 0
            if tries > _TRIES:
                break
            code = yield from _unless(change.call, TABLE_MISSING, *_rivals(refusals))
            refusals += code == INVALID
            if code is None:
                made.setdefault(subject, change.text)
        yield Sleep(pause)
    why = f"changes of its settings have no effect yet ({', '.join(made)}): try again later"
    raise BackendError(f"table {layout.table!r}: {why}")


def _lines(changes: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(f"{subject}: {text}" for subject, text in changes.items())


def check_index(layout: Layout, index: str) -> Steps[None]:
    """Compare an index with that of the existing table, before its first query.

    It may hold fewer attributes than the models say: without them, entities would have defaults in their place. Other
    key attributes would give other items, or none.

    Raises:
        BackendError: the key of the table or of the index is not that of the models.
    """
    try:
        table = yield from _described(layout)
    except Exception as error:
        if code_of(error) not in FORBIDDEN:
            raise
        _LOG.warning(
            "index %r of table %r is taken to be as the models say, because these credentials may not describe the "
            "table: allow dynamodb:DescribeTable",
            index,
            layout.table,
        )
        layout.held[index] = layout.projections.get(index)
        return
    if table is not None:
        parts = (f"table {layout.table!r}", f"index {index!r}")
        wrong = [change for change in key_conflicts(layout, table) if change.what in parts]
        if wrong:
            layout.held.pop(index, None)  # the next query is refused too
        _refuse(wrong)


def _exist(layout: Layout, tell: Tell) -> Steps[None]:
    """Create the table if it does not exist: for one that does, a role needs no right to create it.

    Raises:
        BackendError: the table exists, and the models would not find its items.
    """
    table = yield from _described(layout)
    if table is None:
        (new,) = differences(layout, None)
        tell(new)
        yield from _unless(new.call, TABLE_IN_USE)
        return
    _refuse(key_conflicts(layout, table))
    if layout.schema is not None and table["TableStatus"] in _READY:
        yield from _check_items(layout, layout.schema)


def _check_items(layout: Layout, schema: Schema) -> Steps[None]:
    """Refuse a table whose first items were written with another ``key_style``. A role that may not read sees none."""
    try:
        response = yield Call("scan", {"TableName": layout.table, "Limit": FEW})
    except Exception as error:
        if code_of(error) not in (*FORBIDDEN, TABLE_MISSING):
            raise
        return

    def read(schema: Schema, attributes: Attributes) -> Stored:
        like = layout if schema is layout.schema else layout_of(schema)
        return Stored(read_key(like, like.keys, attributes), read_item(like, attributes), {})

    if text := other_keys(schema, response["Items"], read):
        raise BackendError(text)


def _expire(layout: Layout, tell: Tell) -> Steps[None]:
    for refusals, pause in enumerate(_PAUSES):
        response = yield Call("describe_time_to_live", {"TableName": layout.table})
        change = expiry_difference(layout, response["TimeToLiveDescription"])
        if change is None:
            return
        _refuse([change])
        if refusals == 0:
            tell(change)
        if (yield from _unless(change.call, *_rivals(refusals))) is None:
            return
        yield Sleep(pause)


def _settle(layout: Layout, kinds: Collection[Kind], pauses: Iterable[float], tell: Tell) -> Steps[None]:
    """Apply the changes of these kinds one at a time, as AWS requires, and wait until the table is ready."""
    waited, begun, tries, refusals, state = 0.0, "", 0, 0, f"table {layout.table!r} is still absent"
    for pause in pauses:
        table = yield from _described(layout)
        if table is not None:
            existing = differences(layout, table)
            _refuse(existing)
            left = [change for change in existing if change.kind in kinds and change.call is not None]
            state = _unready(layout, table, "extra" in kinds)
            if not state and not left:
                return
            if not state:
                change = left[0]
                if change.what != begun:
                    tell(change)
                    begun, tries = change.what, 0
                state = f"{change.what} of table {layout.table!r} is still absent"
                code = yield from _unless(change.call, *_rivals(refusals))
                refusals, tries = refusals + (code == INVALID), tries + (code is None)
                if tries > _TRIES:
                    break
        waited += pause
        yield Sleep(pause)
    raise _overdue(state, waited)


def _refuse(existing: Iterable[TableChange]) -> None:
    """Raise an error for the first change that cannot be made."""
    for change in existing:
        if change.kind == "refused":
            raise BackendError(change.text)


def _unready(layout: Layout, table: Mapping[str, Any], everything: bool) -> str:
    """The table or index that is not ready, with its status; "" if all are ready.

    Args:
        layout: the layout, whose indexes are checked.
        table: the description of the table.
        everything: check other indexes too.
    """
    if table["TableStatus"] not in _READY:
        return f"table {layout.table!r} is still {table['TableStatus']}"
    for index in table.get("GlobalSecondaryIndexes", ()):
        name, status = index["IndexName"], index.get("IndexStatus", "ACTIVE")
        if status not in _READY and (everything or name in layout.indexes):
            return f"index {name!r} of table {layout.table!r} is still {status}"
    return ""


def _gone(layout: Layout) -> Steps[None]:
    status = ""
    for pause in _PAUSES:
        table = yield from _described(layout)
        if table is None:
            return
        status = table["TableStatus"]
        yield Sleep(pause)
    raise _overdue(f"table {layout.table!r} is still {status}", sum(_PAUSES))


def _described(layout: Layout) -> Steps[dict[str, Any] | None]:
    try:
        response = yield Call("describe_table", {"TableName": layout.table})
    except Exception as error:
        if code_of(error) != TABLE_MISSING:  # also raised shortly after the table was created
            raise
        return None
    table: dict[str, Any] = response["Table"]
    layout.held.update(held_by_indexes(table))
    return table


def _overdue(subject: str, waited: float) -> BackendError:
    return BackendError(
        f"{subject} after {waited:.0f} seconds: call it again to continue waiting, or look for the cause in the AWS "
        "console"
    )


def _rivals(refusals: int) -> tuple[str, ...]:
    """The errors of a change after which it is sent again, if the table still lacks it.

    While another change is in progress, DynamoDB rejects this one; and it may have been the same.
    """
    return (TABLE_IN_USE, LIMIT_EXCEEDED, *([INVALID] if refusals < _REFUSALS else []))


def _unless(call: Call, *codes: str) -> Steps[str | None]:
    """Make a call. An error with one of these codes is not a failure: its code is returned."""
    try:
        yield call
    except Exception as error:
        if code_of(error) not in codes:
            raise
        return code_of(error)
    return None
