"""How calls are sent: retried, with pauses; many rows in several requests; several procedures at the same time.

Procedures without I/O, which yield pauses as requests:

- `Retry` and `Pauses` state how often and for how long; `once`, `until_answered`, `all_of` and `answers_of` send calls.
- `read_all` reads what one call asks for; `read_many` and `write_many` divide rows into requests that the server
  accepts, and retry until all are complete.
- `together` runs procedures at the same time: the calls that they make next are sent together.

**Advice.** What a failed call says about the next attempt: how long to wait, and the routing cookies to send back.

The server says when it can take the request again (`RetryInfo`, see https://google.aip.dev/194), also with statuses
that are otherwise final. Its cookies are metadata whose names begin with ``x-goog-cbt-cookie-``. A client that
announces the feature ``routing_cookie`` returns them with the next attempt, so that the service can choose another
route.
"""

import logging
import random
import time
from base64 import urlsafe_b64decode
from binascii import Error
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from itertools import accumulate, takewhile
from math import inf
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from google.protobuf.message import DecodeError
from google.rpc.error_details_pb2 import RetryInfo
from google.rpc.status_pb2 import Status
from grpc import StatusCode

from odm.backends.bigtable.client.errors import (
    NATIVE_FAILURES,
    RETRIED,
    explain,
    is_throttled,
    kind_of,
    passing,
    status,
    status_of,
    text_of,
    translate,
)
from odm.backends.bigtable.client.filters import Filter
from odm.backends.bigtable.client.native import (
    ITEM,
    Call,
    Concurrent,
    Cookies,
    Entry,
    Mutated,
    MutateRows,
    Mutation,
    Native,
    Read,
    ReadRows,
    Row,
    SetCell,
    Steps,
)
from odm.backends.bigtable.client.native_admin import AdminCall
from odm.concurrency import Background
from odm.errors import BackendError, OdmError
from odm.immutable import Immutable, evolve
from odm.protocol.connection import Later, RetryPolicy
from odm.protocol.requests import Sleep

_LOG = logging.getLogger("odm.bigtable")

C = TypeVar("C", bound=Call)
R = TypeVar("R")
T = TypeVar("T")

Refusal: TypeAlias = tuple[Entry, OdmError]
"""An entry that was not written, or is not known to be, and why."""

LEASE_SECONDS = 3600.0
"""How long `odm scrub` does not remove a claim. Assumes that no call is applied later than this after it was sent."""

COMMIT_WITHIN = LEASE_SECONDS / 4
"""The maximum time between the first claim of an attempt and its commit; also the maximum deadline of a commit. Both
together are half of the lease, so that no scrub removes a claim whose commit is still to be applied."""

ATTEMPT_SECONDS = 20.0
"""The deadline of one attempt, including a whole stream; the same as in Google's clients."""

OVERALL_SECONDS = 60.0
"""The seconds for which calls are retried after the first failure. A read that returns rows, or a bulk write that is
answered completely, starts this time again; Google's clients retry a read or bulk write for 600 seconds in total."""

READ_BYTES = 256 * 1024
"""The maximum bytes of row keys in one read of many rows."""

WRITE_BYTES = 4 * 1024 * 1024
"""The maximum bytes in one write of many rows; a larger row is sent alone."""

MUTATION_BYTES = 64
"""The bytes of a mutation without its data. This also keeps a request below Bigtable's limit of 100,000 mutations."""


COOKIE: Final = "x-goog-cbt-cookie-"
DETAILS: Final = "grpc-status-details-bin"

_SOURCES: Final = ("initial_metadata", "trailing_metadata")
"""The methods of gRPC's errors that return metadata."""


class Advice(NamedTuple):
    """What a failure says about the next attempt.

    Attributes:
        seconds: how long to wait; None: it does not say.
        cookies: metadata to send with it.
    """

    seconds: float | None = None
    cookies: Cookies = ()

    def followed_by(self, call: C) -> C:
        """The call of the next attempt."""
        if not self.cookies or isinstance(call, AdminCall):
            return call
        return evolve(call, cookies=tuple((dict(call.cookies) | dict(self.cookies)).items()))


def advice_of(failure: object) -> Advice:
    """The advice in the metadata of a failure."""
    seconds: float | None = None
    cookies: dict[str, str] = {}
    for source in _SOURCES:
        metadata = getattr(failure, source, None)
        for name, value in _pairs(metadata() if callable(metadata) else None):
            if name.startswith(COOKIE) and isinstance(value, str):
                cookies[name] = value
            elif name == DETAILS:
                seconds = _delay(value)
    return Advice(seconds, tuple(cookies.items()))


def _pairs(metadata: Any) -> Iterable[tuple[str, Any]]:
    """The entries of gRPC's metadata, which has several types."""
    return [(str(name).lower(), value) for name, value in metadata or ()]


def _delay(details: str | bytes) -> float | None:
    """The seconds of the RetryInfo in a status; None if it has none. Binary metadata is text if pyqwest received it."""
    try:
        if isinstance(details, str):
            details = urlsafe_b64decode(details.replace("+", "-").replace("/", "_") + "=" * (-len(details) % 4))
        for detail in Status.FromString(details).details:
            info = RetryInfo()
            if detail.Unpack(info) and info.HasField("retry_delay"):
                return max(0.0, float(info.retry_delay.ToTimedelta().total_seconds()))
    except (DecodeError, Error, ValueError, OverflowError):
        pass
    return None


class Retry(Immutable):
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
    while remaining := [number for number in range(len(calls)) if number not in answers]:
        responses = yield from all_of([calls[number] for number in remaining])
        failed: list[tuple[Exception, Call]] = []
        for number, answer in zip(remaining, responses, strict=True):
            if isinstance(answer, Exception) and not isinstance(answer, expected):
                failed.append((answer, calls[number]))
                calls[number] = advice_of(answer).followed_by(calls[number])
            else:
                answers[number] = answer
        if failed:
            final = (failure_and_call for failure_and_call in failed if not _again(failure_and_call[0]))
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
    remaining: ReadRows | None = call
    while remaining is not None:
        read: Read = yield from once(remaining)
        _check(remaining, read, rows)
        rows += read.rows
        if read.failure is None:
            break
        if read.scanned is not None:
            pauses = retry.pauses()
        remaining = _rest(remaining, read)
        if remaining is not None:
            remaining = yield from pause(pauses, read.failure, remaining)
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


COMMITS = 16
"""The maximum number of concurrent commits."""


class Stuck(Immutable):
    """The result of a bulk write whose time was up before all rows were written.

    Attributes:
        remaining: the entries that may not be written, by table.
        reason: the server's last message.
    """

    remaining: Mapping[str, tuple[Entry, ...]]
    reason: str


def read_many(table: str, row_keys: tuple[str, ...], retry: Retry, needed: Filter = ITEM) -> Steps[dict[str, Row]]:
    """Read rows by key; in one request, unless there are very many keys. Missing rows are omitted.

    Args:
        table: the table's name.
        row_keys: the row keys, without duplicates.
        retry: how long to retry.
        needed: which cells to read.
    """
    rows_by_key: dict[str, Row] = {}
    remaining = row_keys
    while remaining:
        some = remaining if len(remaining) == 1 else leading(remaining, lambda row_key: 4 * len(row_key), READ_BYTES)
        rows = yield from read_all(ReadRows(table, keys=some, filter=needed), retry)
        rows_by_key |= {row.key.decode("utf-8", "surrogateescape"): row for row in rows}
        remaining = remaining[len(some) :]
    return rows_by_key


def write_many(
    work: Mapping[str, Sequence[Entry]],
    retry: Retry,
    renewed: Callable[[Entry], Entry] = lambda entry: entry,
    once: Callable[[Entry], bool] = lambda _: False,
    refused: list[Refusal] | None = None,
) -> Steps[Stuck | None]:
    """Write entries, to several tables at the same time. Returns None when all are written.

    They are sent in the order of the row keys, so that a request writes to few tablets (Google: Bigtable, "Batch
    writes").

    Args:
        work: the entries, by table.
        retry: how long to retry.
        renewed: returns an entry that may have been applied as it is sent again.
        once: whether an entry must not be applied twice: it is refused with OutcomeUnknown if it may have been applied.
        refused: gets the refused entries, which raise nothing then.

    Raises:
        OdmError: the server refused an entry with an error that is not retried. The other entries were written, or
            retried until the time was up.
    """
    remaining = {table: tuple(sorted(entries, key=_row_key)) for table, entries in work.items() if entries}
    refusals: list[Refusal] = [] if refused is None else refused
    advice = dict.fromkeys(remaining, Advice())
    pauses = retry.pauses()
    while remaining:
        calls = [
            MutateRows(table, leading(entries, _weight, WRITE_BYTES), cookies=advice[table].cookies)
            for table, entries in remaining.items()
        ]
        answers = yield from all_of(calls)
        again: dict[Entry, str] = {}
        for call, answer in zip(calls, answers, strict=True):
            undone = _undone(call, answer, refusals, once)
            again |= undone
            told = advice_of(answer if isinstance(answer, Exception) else answer.failure)
            advice[call.table] = Advice(told.seconds, told.followed_by(call).cookies)
            remaining[call.table] = (*map(renewed, undone), *remaining[call.table][len(call.entries) :])
        remaining = {table: entries for table, entries in remaining.items() if entries}
        if not again:
            pauses = retry.pauses()
        elif (wait := pauses.at_least(max(hint.seconds or 0 for hint in advice.values()))) is not None:
            _LOG.warning("Bigtable did not write %d rows: trying again in %.2f s", len(again), wait.seconds)
            yield wait
        elif refused is not None or not refusals:
            return Stuck(remaining, next(iter(again.values())))
        else:
            break
    if refusals and refused is None:
        raise refusals[0][1]
    return None


def _undone(
    call: MutateRows, answer: Mutated | Exception, refusals: list[Refusal], once: Callable[[Entry], bool]
) -> dict[Entry, str]:
    """The entries to send again, with the reason: entries without an answer or with a temporary error.

    Adds entries with other errors to ``refusals``.
    """
    mutated = Mutated(failure=answer) if isinstance(answer, Exception) else answer
    failure = mutated.failure
    if failure is not None and not _may_pass(failure):
        refusal = translate(failure, call)
        refusal.__cause__ = failure
        there = mutated.answers
        refusals += [(entry, refusal) for at, entry in enumerate(call.entries) if at not in there or there[at].code]
        return {}
    silence = StatusCode.UNAVAILABLE, "the answer ended early"
    if failure is not None:
        silence = status(failure), text_of(failure)
    again: dict[Entry, str] = {}
    for index, entry in enumerate(call.entries):
        given = mutated.answers.get(index)
        if given is not None and not given.code:
            continue
        code, message = silence if given is None else (status_of(given), given.message)
        passes = given is None or code in RETRIED or is_throttled(code, message)
        # of an answer that is cut off, the server has applied entries that it has not answered
        unsure = once(entry) and not (is_throttled(code, message) and (given is not None or not mutated.answers))
        if passes and not unsure:
            again[entry] = message
        else:
            where = f", row {entry.key!r} (other rows of the batch may be written)"
            code = StatusCode.UNAVAILABLE if passes and given is None else code
            refusals.append((entry, explain(code, message, call, where)))
    return again


def _may_pass(failure: Exception) -> bool:
    """Whether a failure is temporary. In bulk writes, an exhausted quota is: the unwritten entries are returned."""
    told = advice_of(failure).seconds is not None
    return told or passing(failure) or is_throttled(status(failure), text_of(failure))


def leading(things: tuple[T, ...], size: Callable[[T], int], budget: int) -> tuple[T, ...]:
    """The longest prefix of the things whose total size is within the budget, but at least one thing.

    Args:
        things: row keys or entries.
        size: returns the bytes of a thing.
        budget: the maximum total bytes.
    """
    if sum(map(size, things)) <= budget:  # the usual case
        return things
    totals = accumulate(map(size, things))
    return things[: max(1, sum(1 for _ in takewhile(lambda total: total <= budget, totals)))]


def weight(row_key: str, mutations: Sequence[Mutation]) -> int:
    """The maximum bytes of the mutations of a row in a request."""
    cells = [4 * len(mutation[0]) + len(mutation[1]) for mutation in mutations if type(mutation) is SetCell]
    return 4 * len(row_key) + MUTATION_BYTES * len(mutations) + sum(cells)


def _row_key(entry: Entry) -> str:
    return entry.key


def _weight(entry: Entry) -> int:
    return weight(entry.key, entry.mutations)


def together(procedures: Sequence[Steps[R]]) -> Steps[list[R]]:
    """Run procedures at the same time. Returns their results, in order.

    A failure ends only its own procedure: the others may have claims or locks that they must still remove.

    Raises:
        Exception: the first error of a procedure, when all have ended.
    """
    following: dict[int, Native] = {}
    results: dict[int, R] = {}
    errors: list[Exception] = []
    answers: Iterable[tuple[int, Any]] = [(number, None) for number in range(len(procedures))]
    while True:
        for number, answer in answers:
            procedure = procedures[number]
            try:
                following[number] = procedure.throw(answer) if isinstance(answer, Exception) else procedure.send(answer)
            except StopIteration as done:
                following.pop(number, None)
                results[number] = done.value
            except Exception as error:  # noqa: BLE001  # raised when all procedures have ended
                following.pop(number, None)
                errors.append(error)
        if not following:
            break
        answers = yield from _answers(following)
    if errors:
        raise errors[0]
    return [results[number] for number in range(len(procedures))]


def _answers(following: dict[int, Native]) -> Steps[Iterable[tuple[int, Any]]]:
    """The answers to some native requests of procedures: to all their calls, if they make any, sent together.

    Args:
        following: the native request that each procedure makes next; those that wait go on waiting for the rest.
    """
    natives = {number: native for number, native in following.items() if isinstance(native, Call | Concurrent)}
    if natives:
        calls = [call for native in natives.values() for call in _calls_of(native)]
        responses = iter((yield from all_of(calls)))
        return [
            (
                number,
                tuple(next(responses) for _ in native.calls) if isinstance(native, Concurrent) else next(responses),
            )
            for number, native in natives.items()
        ]
    pauses = {number: native.seconds for number, native in following.items() if isinstance(native, Sleep)}
    for number, native in following.items():
        if number not in pauses:  # passed on; it needs no answer
            return [(number, (yield native))]
    shortest = min(pauses.values())
    yield Sleep(shortest)
    following |= {number: Sleep(seconds - shortest) for number, seconds in pauses.items() if seconds > shortest}
    return [(number, None) for number, seconds in pauses.items() if seconds <= shortest]


def _calls_of(native: Call | Concurrent) -> tuple[Call, ...]:
    return native.calls if isinstance(native, Concurrent) else (native,)
