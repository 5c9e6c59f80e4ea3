"""Transact: one TransactWriteItems with one ClientRequestToken, retried until it has a definite outcome.

DynamoDB applies a transaction once per token, however often it is sent. So, unlike other writes with a condition, a
transaction can be sent again after a lost response; see `retry`.
"""

from typing import Any, assert_never
from uuid import uuid4

from odm.backends.dynamodb.client.errors import BUSY, is_busy, misfit, reasons_of
from odm.backends.dynamodb.client.native import Call, Steps
from odm.backends.dynamodb.expressions import projected
from odm.backends.dynamodb.items.codec import write_key
from odm.backends.dynamodb.items.layout import Layout
from odm.backends.dynamodb.writes import item_arguments, merge_arguments, put_arguments, refused, update_arguments
from odm.errors import BadValue, Throttled
from odm.expressions.nodes import Item
from odm.protocol.requests import BatchGet, Check, Delete, Operation, Put, Refusals, Refused, Transact, Update, Written


def transact(layout: Layout, request: Transact) -> Steps[Written | Refusals]:
    """Apply all operations, or none.

    Raises:
        Throttled: every attempt was throttled or conflicted with other writes; nothing was written.
    """
    try:
        yield _call(layout, request)
    except Exception as error:
        answer = _refusals(layout, request, error)
        if answer is not None:
            return answer
        if not is_busy(error):
            raise
        raise _given_up(layout, request, error) from error
    return Written()


def transact_get(layout: Layout, request: BatchGet) -> Steps[tuple[Item | None, ...]]:
    """Read the items as they were at one instant: one TransactGetItems, retried while writers change the items.

    Raises:
        Throttled: every attempt was throttled or conflicted with writers.
    """
    only = projected(layout, request.only)
    gets = [
        {"Get": {"TableName": layout.table, "Key": write_key(layout, layout.keys, key), **only}} for key in request.keys
    ]
    try:
        response = yield Call("transact_get_items", {"TransactItems": gets})
    except Exception as error:
        if not is_busy(error):
            raise
        raise Throttled(
            f"BatchGet on table {layout.table!r}: other writers kept changing the items, or DynamoDB throttled "
            "the read: try again later"
        ) from error
    found = [one.get("Item") for one in response["Responses"]]
    if len(found) != len(gets):
        raise ValueError(f"{len(found)} items for {len(gets)} keys")
    return tuple(one and layout.item(one) for one in found)


def _call(layout: Layout, request: Transact) -> Call:
    items = [_native(layout, operation) for operation in request.operations]
    return Call("transact_write_items", {"TransactItems": items, "ClientRequestToken": str(uuid4())})


def _native(layout: Layout, operation: Operation) -> dict[str, Any]:
    match operation:
        case Put(known=frozenset()):
            return {"Update": merge_arguments(layout, operation)}
        case Put():
            return {"Put": put_arguments(layout, operation)}
        case Update():
            return {"Update": update_arguments(layout, operation)}
        case Delete():
            return {"Delete": item_arguments(layout, operation)}
        case Check():
            return {"ConditionCheck": item_arguments(layout, operation)}
        case _:
            assert_never(operation)


def _refusals(layout: Layout, request: Transact, error: Exception) -> Refusals | None:
    """The definite refusals in an error, per operation; None if a retry may succeed, or the whole request failed."""
    reasons: list[Refused | BadValue | None] = []
    for operation, reason in zip(request.operations, reasons_of(error), strict=False):
        match reason.get("Code"):
            case "ConditionalCheckFailed":
                reasons.append(refused(layout, reason))
            case "ValidationError":
                reasons.append(misfit(reason.get("Message", ""), operation, layout.table))
            case _:
                reasons.append(None)
    return Refusals(tuple(reasons)) if any(reasons) else None


def _given_up(layout: Layout, request: Transact, error: Exception) -> Throttled:
    busy = [
        f"{operation.key} ({reason['Code']})"
        for operation, reason in zip(request.operations, reasons_of(error), strict=False)
        if reason.get("Code") in BUSY
    ]
    return Throttled(
        f"Transact on table {layout.table!r}: nothing was written, because DynamoDB throttled it, or other writers are "
        f"writing the same items: {', '.join(busy)}; try again later"
    )
