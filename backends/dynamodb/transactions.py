"""Transact: one TransactWriteItems with one ClientRequestToken, retried until it has a definite outcome.

DynamoDB applies a transaction once per token, however often it is sent. So, unlike other writes with a condition, a
transaction can be retried after a lost response.
"""

import time
from typing import Any, Final, assert_never
from uuid import uuid4

from odm.backends.dynamodb.codec import write_key
from odm.backends.dynamodb.errors import did_nothing, is_lost, misfit, reasons_of
from odm.backends.dynamodb.loading import AttributesItem
from odm.backends.dynamodb.native import Call, Steps, backoff
from odm.backends.dynamodb.schema import Layout
from odm.backends.dynamodb.writes import item_arguments, put_arguments, refused, update_arguments
from odm.errors import BadValue, Throttled
from odm.expressions.nodes import Item
from odm.protocol.requests import BatchGet, Check, Delete, Operation, Put, Refusals, Refused, Transact, Update, Written

TOKEN_SECONDS: Final = 9 * 60
"""How long a transaction is retried: a token is valid for 10 minutes (AWS: TransactWriteItems, ClientRequestToken)."""

_BUSY: Final = frozenset({"TransactionConflict", "ThrottlingError", "ProvisionedThroughputExceeded"})
"""Codes of temporary CancellationReasons."""


def transact(layout: Layout, request: Transact, attempts: int) -> Steps[Written | Refusals]:
    """Apply all operations, or none.

    Raises:
        Throttled: every attempt was throttled or conflicted with other writes; nothing was written.
    """
    call, failures = _call(layout, request), 0
    lost: Exception | None = None
    # Wall-clock time: a process that was suspended for an hour must not send an old token again.
    until = time.time() + TOKEN_SECONDS
    while True:
        try:
            yield call
        except Exception as error:  # noqa: BLE001  # judged below
            failure = error
        else:
            return Written()
        answer = _refusals(layout, request, failure)
        if answer is not None:
            return answer
        failures += 1
        lost = lost or (failure if is_lost(failure) else None)
        may_pass = is_lost(failure) or did_nothing(failure) or _is_busy(failure)
        if not may_pass or failures == attempts or time.time() >= until:
            # A later failure says nothing about the outcome of the attempt whose response was lost.
            raise lost or _given_up(layout, request, failure)
        yield backoff(failures)


def transact_get(layout: Layout, request: BatchGet, attempts: int) -> Steps[tuple[Item | None, ...]]:
    """Read the items as they were at one instant: one TransactGetItems, retried while writers change the items.

    Raises:
        Throttled: every attempt was throttled or conflicted with writers.
    """
    gets = [{"Get": {"TableName": layout.table, "Key": write_key(layout.keys, key)}} for key in request.keys]
    call, failures = Call("transact_get_items", {"TransactItems": gets}), 0
    while True:
        try:
            response = yield call
        except Exception as error:
            failures += 1
            if not _is_busy(error):
                raise
            if failures == attempts:
                raise Throttled(
                    f"BatchGet on table {layout.table!r}: other writers kept changing the items, or DynamoDB throttled "
                    "the read: try again later"
                ) from error
        else:
            found = (one.get("Item") for one in response["Responses"])
            return tuple(one and AttributesItem(one, layout.hidden, layout.loader) for one in found)
        yield backoff(failures)


def _call(layout: Layout, request: Transact) -> Call:
    items = [_native(layout, operation) for operation in request.operations]
    # The client must not retry by itself: it reports only the last failure, which may hide an earlier lost response.
    return Call("transact_write_items", {"TransactItems": items, "ClientRequestToken": str(uuid4())}, once=True)


def _native(layout: Layout, operation: Operation) -> dict[str, Any]:
    match operation:
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


def _is_busy(error: Exception) -> bool:
    codes = {reason.get("Code") for reason in reasons_of(error)} - {"None"}
    return bool(codes) and codes <= _BUSY


def _given_up(layout: Layout, request: Transact, error: Exception) -> Exception:
    if not _is_busy(error):
        return error
    busy = [
        f"{operation.key} ({reason['Code']})"
        for operation, reason in zip(request.operations, reasons_of(error), strict=False)
        if reason.get("Code") in _BUSY
    ]
    throttled = Throttled(
        f"Transact on table {layout.table!r}: nothing was written, because DynamoDB throttled it, or other writers are "
        f"writing the same items: {', '.join(busy)}; try again later"
    )
    throttled.__cause__ = error
    return throttled
