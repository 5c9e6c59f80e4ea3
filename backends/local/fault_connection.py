"""The connection of a `Memory` or `LocalFile` with `Faults`: it wraps the engine's connection and injects faults."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from functools import partial
from inspect import isawaitable, iscoroutine
from typing import Any, Final, TypeAlias, assert_never

from odm.backends.local.call_names import call_name_of
from odm.backends.local.faults import Before, Delay, Fail, Faults, Lose, Throttle
from odm.errors import BackendError, BadValue, OdmError, OutcomeUnknown, Throttled, brief
from odm.immutable import evolve, field
from odm.protocol.connection import ForwardingConnection, NativeGen, arun, run
from odm.protocol.requests import BatchGet, BatchMerge, BatchWrite, Request, repeatable
from odm.schema.model import Schema

_Step: TypeAlias = Request | Delay | Before

_SPARED: Final[ContextVar[bool]] = ContextVar("odm_spared_from_faults", default=False)
"""A function of `Faults.before` is running; no faults are injected into its own requests."""


class FaultConnection(ForwardingConnection[Request]):
    """Injects faults into the requests of a connection of the bundled engine.

    It injects them when a request is performed, not when it is planned, so `Store.explain` is not affected.
    """

    faults: Faults
    schema: Schema = field(repr=False)

    @property
    def in_process(self) -> bool:
        """False: a fault may delay a request."""
        return False

    def call(self, native: Request) -> Any:
        return self.inner.call(native) if _SPARED.get() else run(self._met(native), self._do)

    async def acall(self, native: Request) -> Any:
        return await (self.inner.acall(native) if _SPARED.get() else arun(self._met(native), self._ado))

    def _met(self, request: Request) -> NativeGen[_Step, Any]:
        """The steps of a request with its faults, up to its response or error."""
        if isinstance(request, BatchGet) and request.tags:  # faults of a batch apply to its writes, not to this read
            return (yield request)
        for fault in self.faults.meet(request, self.schema):
            match fault:
                case Delay() | Before():
                    yield fault
                case Throttle(done):
                    yield from self._throttled(request, done)
                case Fail(error):
                    raise self._down(request) if error is None else error
                case Lose(applied):
                    if applied:
                        yield request
                    raise self._lost(request)
                case _:
                    assert_never(fault)
        return (yield request)

    def _throttled(self, request: Request, done: int | None) -> NativeGen[_Step, None]:
        batch = request if isinstance(request, BatchWrite | BatchMerge) else None
        work: Any = () if batch is None else batch.operations
        count = len(work) // 2 if done is None else done
        if batch is not None and count:
            yield evolve(batch, operations=work[:count])
        left = request.keys if isinstance(request, BatchGet) else work[count:]
        rest = f"; the {len(left)} operations left are in .left of this error" if left else ""
        raise Throttled(self._said(request, f"too many requests: try again later{rest}"), left)

    def _down(self, request: Request) -> OdmError:
        return BackendError(self._said(request, "the service failed: try again later"))

    def _lost(self, request: Request) -> OdmError:
        safe = "it can safely be repeated" if repeatable(request) else "read the item before you write again"
        outcome = f"the response was lost, and the write may or may not have been applied: {safe}"
        return OutcomeUnknown(self._said(request, outcome))

    def _said(self, request: Request, what: str) -> str:
        key = getattr(request, "key", None)
        place = f"{call_name_of(request)} on table {self.schema.name!r}" + (f", {key}" if key else "")
        return f"{place}: {what} (an injected fault)"

    def _do(self, step: _Step) -> Any:
        match step:
            case Delay(seconds):
                return _act(self._sleep(seconds) or partial(time.sleep, seconds))
            case Before(act):
                return _act(act)
            case _:
                return self.inner.call(step)

    async def _ado(self, step: _Step) -> Any:
        match step:
            case Delay(seconds):
                from asyncio import sleep

                return await _aact(self._sleep(seconds) or partial(sleep, seconds))
            case Before(act):
                return await _aact(act)
            case _:
                return await self.inner.acall(step)

    def _sleep(self, seconds: float) -> Callable[[], object] | None:
        sleep = self.faults.sleep
        return None if sleep is None else partial(sleep, seconds)


@contextmanager
def _spared() -> Iterator[None]:
    token = _SPARED.set(True)
    try:
        yield
    finally:
        _SPARED.reset(token)


def _act(act: Callable[[], object]) -> None:
    with _spared():
        answer = act()
    if isawaitable(answer):
        if iscoroutine(answer):
            answer.close()
        raise BadValue(
            f"{brief(act)} is an async function, and a Store cannot await it: pass a sync one, or use AsyncStore"
        )


async def _aact(act: Callable[[], object]) -> None:
    with _spared():
        answer = act()
        if isawaitable(answer):
            await answer
