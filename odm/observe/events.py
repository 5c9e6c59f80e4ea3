"""Reports requests to the ``on_request`` hook of a store, its open meters, and the log ``odm``.

An `Observer` is a generator around the native requests, between the core and a connection, so it serves sync and async.
It is only used with a hook, an open meter or debug logging. The log names operations, tables and entities, never values
or cursors.
"""

import logging
from collections.abc import Callable, Iterator
from itertools import repeat
from time import perf_counter
from typing import Any, Final, TypeAlias, TypeVar

from odm._published import public_in
from odm.immutable import Immutable, evolve
from odm.observe.meter import UNANSWERED, Meter, Sent
from odm.protocol.capacity import Units
from odm.protocol.connection import Connection, Later, NativeGen
from odm.protocol.requests import Notice, Request, Sleep

N = TypeVar("N")

LOG: Final = logging.getLogger("odm")


@public_in("odm.results")
class RequestInfo(Immutable):
    """One native request that was sent, as ``Store(on_request=...)`` gets it. A retry is a request of its own.

    Attributes:
        operation: the operation that it belongs to: "Get", "BatchGet", "Put", "Update", "Delete", "Transact",
            "BatchWrite", "Merge", "BatchMerge", "Query", "Split", "Scan", "CreateTables", "DropTables", "ListTables",
            "AlterTables", "IdentifyTable" or "MeasureTable"; one may take several requests.
        table: the table's name on the backend, with the store's prefix.
        native: the native request, a printable value. It contains keys and values.
        seconds: the time until the answer.
        units: the capacity units that it used, of reads and writes together; None if the backend does not report them
            or the request failed.
        error: the exception that the service's client raised; None if the service answered. Some backends report a
            condition that does not hold as an error.
    """

    operation: str
    table: str
    native: Any
    seconds: float
    units: float | None = None
    error: Exception | None = None


Hook: TypeAlias = Callable[[RequestInfo], object]


class Observer(Immutable):
    """Reports every native request to the hook, the meters and the log.

    Attributes:
        table: the table's name on the backend.
        connection: the connection that answers the requests; it reports their units and indexes.
        hook: the hook of the store, or None. What it raises is logged and ignored, because the request was sent.
        meters: the open meters.
        measured: whether to ask the connection for units.
    """

    table: str
    connection: Connection[Any]
    hook: Hook | None = None
    meters: tuple[Meter, ...] = ()
    measured: bool = True

    def __call__(self, request: Request, steps: NativeGen[N, Any], *, later: bool = False) -> NativeGen[N, Any]:
        """Forward native requests and responses, and report each request; a `Sleep` or a `Later` is not a request.

        Args:
            request: the request of the core.
            steps: its steps.
            later: whether they run after its answer, from which its units are computed.
        """
        sent: list[Sent] = []
        answer: Any = UNANSWERED
        try:
            native = next(steps)
            while True:
                started = perf_counter()
                try:
                    response = yield self._observed(request, native)
                except Exception as error:  # noqa: BLE001  # the procedure decides what a failure means
                    sent += self._note(request, native, error, perf_counter() - started)
                    native = steps.throw(error)
                else:
                    sent += self._note(request, native, response, perf_counter() - started)
                    native = steps.send(response)
        except StopIteration as done:
            if not later:
                answer = done.value
            return done.value
        finally:
            for meter in self.meters:
                meter.count(request, sent, answer)

    def _observed(self, request: Request, native: Any) -> Any:
        """The native request; if it is a `Later`, its steps are observed too, when they run. Counts a `Notice`."""
        if type(native) is Notice:
            for meter in self.meters:
                meter.notice(native.kind)
        return evolve(native, steps=self(request, native.steps, later=True)) if type(native) is Later else native

    def _note(self, request: Request, native: Any, response: Any, seconds: float) -> Iterator[Sent]:
        """Report a native request, or each of several that were sent concurrently, with its response or error."""
        connection = self.connection
        for step, brought in _each(connection, native, response):
            # The response of an interrupted stream carries its error.
            failure = brought if isinstance(brought, Exception) else connection.failure_of(brought)
            units = connection.units(step, brought) if self.measured and failure is None else None
            self._tell(type(request).__name__, step, seconds, units, failure)
            yield Sent(units, connection.index_of(request, step))

    def _tell(self, operation: str, native: Any, seconds: float, units: Units | None, error: Exception | None) -> None:
        failed = "" if error is None else f" and failed ({type(error).__name__})"
        LOG.debug("%s on table %s took %.1f ms%s", operation, self.table, seconds * 1000, failed)
        if self.hook is None:
            return
        try:
            self.hook(
                RequestInfo(operation, self.table, native, seconds, None if units is None else units.total, error)
            )
        except Exception:  # the request was sent, and its response must not be lost
            LOG.exception("on_request raised an exception; the %s on table %s goes on", operation, self.table)


def _each(connection: Connection[Any], native: Any, response: Any) -> list[tuple[Any, Any]]:
    """Native requests with their responses: an empty list for a `Sleep`, `Later` or `Notice`."""
    if isinstance(native, Sleep | Later | Notice):
        return []
    calls = connection.calls_of(native)
    if calls is None:
        return [(native, response)]
    return list(zip(calls, repeat(response) if isinstance(response, Exception) else response, strict=False))
