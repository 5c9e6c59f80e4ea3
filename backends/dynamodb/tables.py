"""Making, changing and removing the table: DynamoDB answers at once and works on, so all ask until it is done.

Each step is found by a look at the table as it is, so whatever was interrupted goes on where it stopped.
"""

from collections.abc import Collection, Iterable, Mapping
from itertools import chain, repeat
from typing import Any, Final

from odm.backends.dynamodb.changes import differences, expiry_difference
from odm.backends.dynamodb.errors import LIMIT_EXCEEDED, TABLE_IN_USE, TABLE_MISSING, code_of
from odm.backends.dynamodb.native import Call, Steps
from odm.backends.dynamodb.schema import Layout, create_table
from odm.errors import BackendError
from odm.protocol.admin import ADDITIVE, Kind, TableChange, Tell, silent
from odm.protocol.requests import Sleep

# Seconds between looks, together about ten minutes: the waiters of AWS wait as long.
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, *(2.0,) * 300)
_PATIENT: Final = 5.0
"""Seconds between looks for somebody who watches: to fill an index of a large table takes hours."""

_TRIES: Final = 20
"""So often a change is accepted without showing, before it is given up: some services take what they do not have."""

_READY = ("ACTIVE", "UPDATING")


def create(layout: Layout) -> Steps[None]:
    """Make the table, or add to an existing one what it lacks: indexes, a stream that is asked for, expiry; and wait.

    Nothing else about an existing table is changed. DynamoDB indexes by the attributes of the index. Items that were
    written before their model had the pattern have none of these, so they enter a new index when they are written
    again.

    Raises:
        BackendError: the table exists with another key, or it is not ready after ten minutes, and ten more an index.
    """
    yield from _unless(Call("create_table", create_table(layout)), TABLE_IN_USE)
    yield from _settle(layout, ADDITIVE, _PAUSES * (1 + len(layout.indexes)), silent)
    if layout.has_ttl:
        yield from _expire(layout, silent)


def plan(layout: Layout) -> Steps[tuple[TableChange, ...]]:
    """What would be done to the table as it is now, in order; what is refused or extra as well."""
    table = yield from _described(layout)
    ttl: dict[str, Any] = {}
    if table is not None:
        response = yield Call("describe_time_to_live", {"TableName": layout.table})
        ttl = response["TimeToLiveDescription"]
    expiry = expiry_difference(layout, ttl)
    return (*differences(layout, table), *([] if expiry is None else [expiry]))


def apply(layout: Layout, *, drop: bool, tell: Tell) -> Steps[None]:
    """Make the table what the models and options ask for, and wait for as long as it takes.

    Args:
        layout: what they ask for.
        drop: remove global indexes that no model has.
        tell: is told of each change when it is begun.

    Raises:
        BackendError: a change is refused.
    """
    if (yield from _described(layout)) is None:
        (new,) = differences(layout, None)
        tell(new)
        yield from _unless(new.call, TABLE_IN_USE)
    kinds: set[Kind] = {"add", "change"}
    if drop:
        kinds.add("extra")
    yield from _settle(layout, kinds, chain(_PAUSES[:5], repeat(_PATIENT)), tell)
    if layout.has_ttl:
        yield from _expire(layout, tell)


def drop(layout: Layout) -> Steps[None]:
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


def _expire(layout: Layout, tell: Tell) -> Steps[None]:
    response = yield Call("describe_time_to_live", {"TableName": layout.table})
    change = expiry_difference(layout, response["TimeToLiveDescription"])
    if change is not None:
        _refuse([change])
        tell(change)
        yield change.call


def _settle(layout: Layout, kinds: Collection[Kind], pauses: Iterable[float], tell: Tell) -> Steps[None]:
    """Make the changes of these kinds one by one, as AWS wants it, and wait until the table is ready with all of it."""
    waited, begun, tries, state = 0.0, "", 0, f"table {layout.table!r} is still absent"
    for pause in pauses:
        table = yield from _described(layout)
        if table is not None:
            found = differences(layout, table)
            _refuse(found)
            left = [change for change in found if change.kind in kinds and change.call is not None]
            state = _unready(layout, table, "extra" in kinds)
            if not state and not left:
                return
            if not state:
                change = left[0]
                if change.what != begun:
                    tell(change)
                    begun, tries = change.what, 0
                state = f"{change.what} of table {layout.table!r} is still absent"
                # Another change may be going on; then this one has its turn later.
                tries += (yield from _unless(change.call, TABLE_IN_USE, LIMIT_EXCEEDED)) is None
                if tries > _TRIES:
                    break
        waited += pause
        yield Sleep(pause)
    raise _overdue(state, waited)


def _refuse(found: Iterable[TableChange]) -> None:
    """Raise the first of the changes that cannot be made."""
    for change in found:
        if change.kind == "refused":
            raise BackendError(change.text)


def _unready(layout: Layout, table: Mapping[str, Any], everything: bool) -> str:
    """What is not ready, and its status: the table, or an index of the layout, or any index; "" if all is ready."""
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
        if code_of(error) != TABLE_MISSING:  # also for a moment after the table was made
            raise
        return None
    table: dict[str, Any] = response["Table"]
    return table


def _overdue(what: str, waited: float) -> BackendError:
    return BackendError(
        f"{what} after {waited:.0f} seconds: call it again to go on waiting, or look in the AWS console for what "
        "holds it up"
    )


def _unless(call: Call, *codes: str) -> Steps[str | None]:
    """Make a call; the code of an error that is one of those given, which is no failure here."""
    try:
        yield call
    except Exception as error:
        if code_of(error) not in codes:
            raise
        return code_of(error)
    return None
