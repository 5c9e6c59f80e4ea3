"""Retries: which calls, how often, and with which pauses. Procedures without I/O, which yield pauses as requests."""

import logging
import random
import time
from collections.abc import Callable, Iterator, Sequence
from math import inf
from typing import Any, TypeVar

from attrs import evolve

from odm.backends.bigtable.advice import advice_of
from odm.backends.bigtable.errors import NATIVE_FAILURES, kind_of, passing, translate
from odm.backends.bigtable.native import Call, Concurrent, Read, ReadRows, Row, Steps
from odm.concurrency import Background
from odm.errors import BackendError
from odm.immutable import frozen
from odm.protocol.connection import Later, RetryPolicy
from odm.protocol.requests import Sleep

_LOG = logging.getLogger("odm.bigtable")

C = TypeVar("C", bound=Call)

ATTEMPT_SECONDS = 20.0
"""The deadline of one attempt, including a whole stream; the same as in Google's clients."""

OVERALL_SECONDS = 60.0
"""The seconds for which calls are retried after the first failure. A read that returns rows, or a bulk write that is
answered completely, starts this time again; Google's clients retry a read or bulk write for 600 seconds in total."""


@frozen
class Retry:
    """How long and how often to retry.

    Attributes:
        overall: the seconds after which no attempt begins; None: only ``times`` applies.
        times: the maximum number of retries of a call; None: only ``overall`` applies.
        first: the maximum first pause, in seconds; it doubles with each retry.
        most: the maximum pause, in seconds.
        clock: returns seconds of a monotonic clock.
        jitter: returns a number in ``[0, 1)`` by which a pause is multiplied, so that clients retry at different times.
    """

    overall: float | None = OVERALL_SECONDS
    times: int | None = None
    first: float = 0.05
    most: float = 5.0
    clock: Callable[[], float] = time.monotonic
    jitter: Callable[[], float] = random.random

    def pauses(self) -> "Pauses":
        """The pauses between attempts; ends when the time or the number of retries is used up."""
        return Pauses(self)

    def with_retry_policy(self, policy: RetryPolicy) -> "Retry":
        """A copy with a store's ``retries``, which replaces the time limit."""
        return self if policy.retries is None else evolve(self, overall=None, times=policy.retries)

    def contention(self) -> "Pauses":
        """The pauses between attempts if another writer changed the row: shorter, because that write is complete.

        A store's ``retries`` does not limit these attempts, because each of them was answered.
        """
        return evolve(self, overall=OVERALL_SECONDS, times=None, first=self.first / 5, most=self.most / 5).pauses()


class Pauses(Iterator[Sleep]):
    """The pauses of one request, from its first failure on."""

    def __init__(self, retry: Retry) -> None:
        self._retry = retry
        self._end: float | None = inf if retry.overall is None else None  # from the first failure on
        self._left = inf if retry.times is None else retry.times
        self._longest = retry.first

    def __next__(self) -> Sleep:
        pause = self.at_least(0)
        if pause is None:
            raise StopIteration
        return pause

    def at_least(self, seconds: float) -> Sleep | None:
        """The next pause; None if the time or the number of retries is used up before its end."""
        now = self._retry.clock()
        if self._end is None:
            self._end = now + (self._retry.overall or 0)
        pause = max(self._retry.jitter() * self._longest, seconds)
        if self._left < 1 or now + pause >= self._end:
            return None
        self._left -= 1
        self._longest = min(2 * self._longest, self._retry.most)
        return Sleep(pause)


def once(call: Call) -> Steps[Any]:
    """Send a call once, without retries."""
    try:
        return (yield call)
    except NATIVE_FAILURES as failure:
        raise translate(failure, call) from failure


def all_of(calls: Sequence[Call]) -> Steps[tuple[Any, ...]]:
    """Make calls at the same time. Returns, for each call, its response or its native failure."""
    if len(calls) > 1:
        return tuple((yield Concurrent(tuple(calls))))
    try:
        return ((yield calls[0]),)
    except NATIVE_FAILURES as failure:
        return (failure,)


def until_answered(call: Call, retry: Retry) -> Steps[Any]:
    """Send an idempotent call, and retry it until it is answered."""
    pauses = retry.pauses()
    while True:
        try:
            return (yield call)
        except NATIVE_FAILURES as failure:
            call = yield from pause(pauses, failure, call)


def answers_of(calls: Sequence[Call], retry: Retry, *expected: type[Exception]) -> Steps[list[Any]]:
    """Make idempotent calls at the same time, and retry each until it is answered; an expected failure is an answer."""
    answers: dict[int, Any] = {}
    calls = list(calls)
    pauses = retry.pauses()
    while left := [number for number in range(len(calls)) if number not in answers]:
        given = yield from all_of([calls[number] for number in left])
        failed: list[tuple[Exception, Call]] = []
        for number, answer in zip(left, given, strict=True):
            if isinstance(answer, Exception) and not isinstance(answer, expected):
                failed.append((answer, calls[number]))
                calls[number] = advice_of(answer).followed_by(calls[number])
            else:
                answers[number] = answer
        if failed:
            final = (one for one in failed if not _again(one[0]))
            yield from pause(pauses, *next(final, max(failed, key=lambda one: advice_of(one[0]).seconds or 0)))
    return [answers[number] for number in range(len(calls))]


def _again(failure: Exception) -> bool:
    return passing(failure) or advice_of(failure).seconds is not None


def pause(pauses: Pauses, failure: Exception, call: C) -> Steps[C]:
    """Wait before the next attempt, at least as long as the server says. Returns the call for it.

    Raises:
        OdmError: the failure is not temporary, or the time is up, or would be after the wait.
    """
    advice = advice_of(failure)
    wait = pauses.at_least(advice.seconds or 0) if _again(failure) else None
    if wait is None:
        raise translate(failure, call) from failure
    _LOG.warning("Bigtable answered %s: trying again in %.2f s", kind_of(failure), wait.seconds)
    yield wait
    return advice.followed_by(call)


def pausing_later(steps: Steps[None], background: Background) -> Steps[None]:
    """Run steps whose result nobody needs: up to their first pause now, and from it on after the answer."""
    try:
        native = next(steps)
        while not isinstance(native, Sleep):
            try:
                response = yield native
            except Exception as failure:  # noqa: BLE001  # the steps decide about it
                native = steps.throw(failure)
            else:
                native = steps.send(response)
    except StopIteration:
        return
    yield Later(_from(native, steps), background)


def _from(pause: Sleep, steps: Steps[None]) -> Steps[None]:
    yield pause
    yield from steps


def read_all(call: ReadRows, retry: Retry) -> Steps[list[Row]]:
    """All rows of a read; a retry continues after the last row that was scanned.

    Raises:
        BackendError: the server returned more rows than were asked for, or a row that it had returned before.
        OdmError: the read failed, and is not retried.
    """
    rows: list[Row] = []
    pauses = retry.pauses()
    left: ReadRows | None = call
    while left is not None:
        read: Read = yield from once(left)
        _check(left, read, rows)
        rows += read.rows
        if read.failure is None:
            break
        if read.scanned is not None:
            pauses = retry.pauses()
        left = _rest(left, read)
        if left is not None:
            left = yield from pause(pauses, read.failure, left)
    return rows


def _check(call: ReadRows, read: Read, before: Sequence[Row]) -> None:
    """Refuse an answer that does not continue the rows before it; the collector checks the order within an answer."""
    if not read.rows:
        return
    where = f"Bigtable's answer about table {call.table!r} was discarded"
    if call.limit is not None and len(read.rows) > call.limit:
        raise BackendError(f"{where}: it has {len(read.rows)} rows, and {call.limit} were asked for")
    if before and not (read.rows[0].key < before[-1].key if call.reverse else read.rows[0].key > before[-1].key):
        order = f"out of order: the keys must be {'decreasing' if call.reverse else 'increasing'}"
        raise BackendError(f"{where}: row {read.rows[0].text!r} after row {before[-1].text!r} is {order}")


def _rest(call: ReadRows, read: Read) -> ReadRows | None:
    """The part that is not read yet; None if everything was read.

    Several rows are streamed, because an answer that is always cut off would otherwise never make progress.
    """
    limit = None if call.limit is None else call.limit - len(read.rows)
    if limit == 0:
        return None
    call = evolve(call, streamed=len(call.keys) != 1)
    if read.scanned is None:
        return call
    if call.keys:
        keys = tuple(key for key in call.keys if (key < read.scanned if call.reverse else key > read.scanned))
        return evolve(call, keys=keys, limit=limit) if keys else None
    span = call.range.beyond(read.scanned, reverse=call.reverse)
    return None if span.empty else evolve(call, range=span, limit=limit)
