"""The capacity that DynamoDB's answers report, and the requests that ask for it."""

from collections.abc import Mapping
from typing import Any, Final

from attrs import evolve

from odm.backends.dynamodb.native import Call, Native, Steps
from odm.protocol.capacity import Units, summed
from odm.protocol.connection import ForwardingConnection
from odm.protocol.requests import Request

_READS: Final = frozenset({"get_item", "batch_get_item", "query", "scan"})
_WRITES: Final = frozenset({"put_item", "update_item", "delete_item", "batch_write_item", "transact_write_items"})
_INDEXES: Final = ("GlobalSecondaryIndexes", "LocalSecondaryIndexes")


class MeteredConnection(ForwardingConnection[Native]):
    """A connection whose requests ask what they consume."""

    def steps(self, request: Request) -> Steps[Any]:
        """As those of the connection, each asking."""
        steps = super().steps(request)
        try:
            native = next(steps)
            while True:
                try:
                    response = yield asking(native)
                except Exception as error:  # noqa: BLE001  # the procedure decides what a failure means
                    native = steps.throw(error)
                else:
                    native = steps.send(response)
        except StopIteration as done:
            return done.value

    def units(self, native: Native, response: Any) -> Units | None:
        """What a native request has consumed, or None if its answer does not tell."""
        return units_of(native, response) if isinstance(native, Call) else None


def asking(native: Native) -> Native:
    """The native request with the question for the capacity that it consumes, unless it consumes none."""
    if not isinstance(native, Call) or native.operation not in _READS | _WRITES:
        return native
    return evolve(native, kwargs={**native.kwargs, "ReturnConsumedCapacity": "INDEXES"})


def units_of(call: Call, response: Mapping[str, Any]) -> Units | None:
    """What the answer tells of the capacity that was consumed."""
    reported = response.get("ConsumedCapacity")
    if not reported:
        return None
    read: list[tuple[str | None, float]] = []
    write: list[tuple[str | None, float]] = []
    for table in reported if isinstance(reported, list) else [reported]:
        indexes = [part for kind in _INDEXES for part in table.get(kind, {}).items()]
        for index, consumed in [(None, table.get("Table", table)), *indexes]:
            # A transaction that was sent twice under one token tells what reading its outcome took.
            reads = "ReadCapacityUnits" in consumed or call.operation in _READS
            (read if reads else write).append((index, consumed.get("CapacityUnits", 0.0)))
    return Units(summed(read), summed(write))
