"""The consumed capacity: request it (ReturnConsumedCapacity), and read it from responses (ConsumedCapacity)."""

from collections.abc import Mapping
from typing import Any, Final

from odm.backends.dynamodb.client.native import WRITES, Call, Native, Steps
from odm.immutable import evolve
from odm.protocol.capacity import Units, summed
from odm.protocol.connection import ForwardingConnection
from odm.protocol.requests import Request

_READS: Final = frozenset({"get_item", "batch_get_item", "transact_get_items", "query", "scan"})
_INDEXES: Final = ("GlobalSecondaryIndexes", "LocalSecondaryIndexes")


class MeteredConnection(ForwardingConnection[Native]):
    """A connection whose requests also return their consumed capacity."""

    def steps(self, request: Request) -> Steps[Any]:
        """The native requests of the wrapped connection, each with ReturnConsumedCapacity."""
        steps = super().steps(request)
        try:
            native = next(steps)
            while True:
                try:
                    response = yield asking(native)
                except Exception as error:  # noqa: BLE001  # the wrapped steps handle the failure
                    native = steps.throw(error)
                else:
                    native = steps.send(response)
        except StopIteration as done:
            return done.value

    def units(self, native: Native, response: Any) -> Units | None:
        """The capacity that a native request consumed; None if the response does not report it."""
        return units_of(native, response) if isinstance(native, Call) else None


def asking(native: Native) -> Native:
    """The native request with ReturnConsumedCapacity, if it consumes capacity."""
    if not isinstance(native, Call) or native.operation not in _READS | WRITES:
        return native
    return evolve(native, kwargs={**native.kwargs, "ReturnConsumedCapacity": "INDEXES"})


def units_of(call: Call, response: Mapping[str, Any]) -> Units | None:
    """The consumed capacity in a response; None if it reports none."""
    reported = response.get("ConsumedCapacity")
    if not reported:
        return None
    read: list[tuple[str | None, float]] = []
    write: list[tuple[str | None, float]] = []
    for table in reported if isinstance(reported, list) else [reported]:
        indexes = [part for kind in _INDEXES for part in table.get(kind, {}).items()]
        for index, consumed in [(None, table.get("Table", table)), *indexes]:
            # A transaction that is sent again with its token consumes read capacity units.
            reads = "ReadCapacityUnits" in consumed or call.operation in _READS
            (read if reads else write).append((index, consumed.get("CapacityUnits", 0.0)))
    return Units(summed(read), summed(write))
