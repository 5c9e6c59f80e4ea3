"""CreateTables and DropTables: DynamoDB answers at once and works on, so both ask until it is done."""

from collections.abc import Mapping
from typing import Any

from odm.backends.dynamodb.errors import LIMIT_EXCEEDED, TABLE_IN_USE, TABLE_MISSING, code_of
from odm.backends.dynamodb.native import Call
from odm.backends.dynamodb.schema import Layout, add_index, check_keys, create_table
from odm.codec import TTL_ATTRIBUTE
from odm.errors import BackendError
from odm.operations.backend import Gen, Sleep

# Seconds between looks, together about ten minutes: the waiters of AWS wait as long.
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, *(2.0,) * 300)

_READY = ("ACTIVE", "UPDATING")
_TABLE, _ABSENT = "", "absent"  # no index is named ""


def create(layout: Layout) -> Gen[None]:
    """Make the table with its indexes, or add to an existing one the indexes it lacks; wait, and see that expiry is on.

    DynamoDB indexes by the attributes of the index. Items that were written before their model had the pattern have
    none of these, so they enter a new index when they are written again.

    Raises:
        BackendError: the table exists with another key, or it is not ready after ten minutes, and ten more an index.
    """
    yield from _unless(Call("create_table", create_table(layout)), TABLE_IN_USE)
    yield from _complete(layout)
    if layout.has_ttl:
        yield from _expire(layout)


def drop(layout: Layout) -> Gen[None]:
    """Remove the table and wait until it is gone; an absent one is no error.

    Raises:
        BackendError: it is still there after ten minutes.
    """
    call = Call("delete_table", {"TableName": layout.table})
    for pause in _PAUSES:
        # In use: it is being made, changed or removed; the first two end some time, then it can be removed.
        if (yield from _unless(call, TABLE_IN_USE, TABLE_MISSING)) != TABLE_IN_USE:
            break
        yield Sleep(pause)
    yield from _gone(layout)


def _expire(layout: Layout) -> Gen[None]:
    response = yield Call("describe_time_to_live", {"TableName": layout.table})
    if response["TimeToLiveDescription"]["TimeToLiveStatus"] == "DISABLED":
        setting = {"Enabled": True, "AttributeName": TTL_ATTRIBUTE}
        yield Call("update_time_to_live", {"TableName": layout.table, "TimeToLiveSpecification": setting})


def _complete(layout: Layout) -> Gen[None]:
    """Wait until the table is ready with all its indexes; what it lacks is added one by one, as AWS wants it."""
    pauses, unready = _PAUSES * (1 + len(layout.indexes)), {_TABLE: _ABSENT}
    for pause in pauses:
        table = yield from _described(layout)
        if table is not None:
            check_keys(layout, table)
            unready = _unready(layout, table)
            if not unready:
                return
            if _TABLE not in unready and set(unready.values()) == {_ABSENT}:
                call = Call("update_table", add_index(layout, next(iter(unready)), table))
                yield from _unless(call, TABLE_IN_USE, LIMIT_EXCEEDED)  # another change goes on
        yield Sleep(pause)
    name, status = next(iter(unready.items()))
    what = f"index {name!r} of table" if name != _TABLE else "table"
    raise _overdue(f"{what} {layout.table!r} is still {status}", pauses)


def _unready(layout: Layout, table: Mapping[str, Any]) -> dict[str, str]:
    """The status of the table and of each index of the layout that is not ready."""
    found = {
        index["IndexName"]: index.get("IndexStatus", "ACTIVE") for index in table.get("GlobalSecondaryIndexes", ())
    }
    added = [index for index in layout.indexes if index not in layout.local]  # a local one comes with the table
    states = {_TABLE: table["TableStatus"]} | {index: found.get(index, _ABSENT) for index in added}
    return {name: status for name, status in states.items() if status not in _READY}


def _gone(layout: Layout) -> Gen[None]:
    status = ""
    for pause in _PAUSES:
        table = yield from _described(layout)
        if table is None:
            return
        status = table["TableStatus"]
        yield Sleep(pause)
    raise _overdue(f"table {layout.table!r} is still {status}", _PAUSES)


def _described(layout: Layout) -> Gen[dict[str, Any] | None]:
    try:
        response = yield Call("describe_table", {"TableName": layout.table})
    except Exception as error:
        if code_of(error) != TABLE_MISSING:  # also for a moment after the table was made
            raise
        return None
    table: dict[str, Any] = response["Table"]
    return table


def _overdue(what: str, pauses: tuple[float, ...]) -> BackendError:
    return BackendError(
        f"{what} after {sum(pauses):.0f} seconds: call it again to go on waiting, or look in the AWS console for what "
        "holds it up"
    )


def _unless(call: Call, *codes: str) -> Gen[str | None]:
    """Make a call; the code of an error that is one of those given, which is no failure here."""
    try:
        yield call
    except Exception as error:
        if code_of(error) not in codes:
            raise
        return code_of(error)
    return None
