"""CreateTables and DropTables: DynamoDB answers at once and works on, so both ask until it is done."""

from odm.backends.dynamodb.errors import TABLE_IN_USE, TABLE_MISSING, code_of
from odm.backends.dynamodb.native import Call, Sleep
from odm.backends.dynamodb.schema import Layout, create_table
from odm.codec import TTL_ATTRIBUTE
from odm.errors import BackendError
from odm.operations.backend import Gen

# Seconds between looks, together about ten minutes: the waiters of AWS wait as long.
_PAUSES = (0.05, 0.1, 0.2, 0.4, 0.8, *(2.0,) * 300)

_READY = ("ACTIVE", "UPDATING")


def create(layout: Layout) -> Gen[None]:
    """Make the table with its indexes unless it is there, wait until it is ready, and see that expiry is on.

    Raises:
        BackendError: it is not ready after ten minutes.
    """
    yield from _unless(Call("create_table", create_table(layout)), TABLE_IN_USE)
    yield from _wait(layout, *_READY)
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
    yield from _wait(layout, None)


def _expire(layout: Layout) -> Gen[None]:
    response = yield Call("describe_time_to_live", {"TableName": layout.table})
    if response["TimeToLiveDescription"]["TimeToLiveStatus"] == "DISABLED":
        setting = {"Enabled": True, "AttributeName": TTL_ATTRIBUTE}
        yield Call("update_time_to_live", {"TableName": layout.table, "TimeToLiveSpecification": setting})


def _wait(layout: Layout, *wanted: str | None) -> Gen[None]:
    """Look at the table until its status is one of those wanted; None is the status of an absent table."""
    status = None
    for pause in _PAUSES:
        status = yield from _status(layout)
        if status in wanted:
            return
        yield Sleep(pause)
    raise BackendError(
        f"table {layout.table!r} is still {status or 'absent'} after {sum(_PAUSES):.0f} seconds: "
        "look in the AWS console for what holds it up"
    )


def _status(layout: Layout) -> Gen[str | None]:
    try:
        response = yield Call("describe_table", {"TableName": layout.table})
    except Exception as error:
        if code_of(error) != TABLE_MISSING:  # also for a moment after the table was made
            raise
        return None
    status: str = response["Table"]["TableStatus"]
    return status


def _unless(call: Call, *codes: str) -> Gen[str | None]:
    """Make a call; the code of an error that is one of those given, which is no failure here."""
    try:
        yield call
    except Exception as error:
        if code_of(error) not in codes:
            raise
        return code_of(error)
    return None
