"""The connection: the only I/O of this backend, through the lean transport or Google's clients, sync and async.

Sync and async share everything but the awaits: `wire` builds the messages, and `collectors` read the answers.
Each native request is one attempt with a deadline; `retry` decides about further attempts.
"""

import asyncio
import time
from collections.abc import Callable, Sequence
from copy import copy
from functools import partial
from typing import TYPE_CHECKING, Any

from google.api_core.exceptions import DeadlineExceeded

from odm.backends.bigtable.client import admin_wire
from odm.backends.bigtable.client.clients import Clients
from odm.backends.bigtable.client.errors import NATIVE_FAILURES, Closed, at_deadline
from odm.backends.bigtable.client.native import (
    Call,
    Concurrent,
    Mutated,
    Native,
    Read,
    Row,
    Steps,
    Streamed,
)
from odm.backends.bigtable.client.native_admin import UpdateTable
from odm.backends.bigtable.client.read_rows import COLLECTORS, One
from odm.backends.bigtable.client.retry import ATTEMPT_SECONDS, COMMIT_WITHIN, COMMITS, Retry
from odm.backends.bigtable.client.wire import Message, Wire
from odm.backends.bigtable.rehearsal import rehearse
from odm.backends.bigtable.requests import Procedures, may_lag, reading_from
from odm.backends.bigtable.rows.keys import index_table, steps_of, with_bytes, with_row_keys
from odm.backends.bigtable.rows.loading import write_item
from odm.backends.bigtable.writer import now_micros
from odm.codec import EntityCodec
from odm.concurrency import in_tasks, in_threads
from odm.errors import OdmError
from odm.expressions.nodes import Item
from odm.immutable import evolve
from odm.protocol.connection import DEFAULT_POLICY, Connection, Later, Rehearsal, RetryPolicy
from odm.protocol.requests import Notice, Request, Sleep, Transact
from odm.schema.entity import Key
from odm.schema.model import Schema

if TYPE_CHECKING:
    from odm.backends.bigtable import Bigtable

EMULATOR_SECONDS = 10.0
"""The seconds for which requests to an emulator are retried: it has no failover, and may not be running."""


def usual_retry(emulator: str | None) -> Retry:
    """The default retry limits."""
    return Retry() if emulator is None else Retry(overall=EMULATOR_SECONDS)


class BigtableConnection(Connection[Native]):
    """One table of one Bigtable instance. The first request, also after a `close`, creates the clients."""

    def __init__(
        self,
        settings: "Bigtable",
        schema: Schema,
        retry: Retry | None = None,
        now: Callable[[], int] = now_micros,
    ) -> None:
        self._clients = Clients(settings.emulator, settings.credentials, settings.transport)
        self._retry_policy = DEFAULT_POLICY
        self._retry = retry or usual_retry(settings.emulator)
        self._procedures = Procedures(
            with_row_keys(schema),
            self._retry,
            now,
            options=settings.options,
            abort_after=settings.abort_after,
            instance={"project": settings.project, "instance": settings.instance}
            | ({"endpoint": settings.emulator} if settings.emulator else {}),
        )
        self._verbatim, self._binary = schema.escapes_row_keys, schema.binary_row_keys
        instance = f"projects/{settings.project}/instances/{settings.instance}"
        self._wire = Wire(instance, settings.app_profile or "")
        self._read_profile = settings.read_app_profile
        self._indexes = {index_table(schema.name, name): name for name in schema.indexes}

    @property
    def fetches(self) -> bool:
        """True: an index is a separate table."""
        return True

    @property
    def reads_backwards(self) -> bool:
        """False if a partition is one row."""
        return self._procedures.writer.places.reads_backwards

    @property
    def merges_together(self) -> bool:
        """True: thousands of rows are one request; False if an item is one cell, which must be read."""
        return self._procedures.writer.places.merges_together

    def with_retry_policy(self, policy: RetryPolicy) -> "BigtableConnection":
        """A connection with another policy that shares the clients; closing one closes both.

        A store's ``timeout`` is the deadline of each attempt, including a whole stream, and at most 900 seconds: a
        later write could be applied after a scrub has removed its index entries as garbage.
        """
        if policy == self._retry_policy:
            return self
        twin = copy(self)
        twin._retry_policy = policy
        twin._procedures = evolve(self._procedures, retry=self._retry.with_retry_policy(policy))
        twin._wire = evolve(self._wire, seconds=min(policy.timeout or ATTEMPT_SECONDS, COMMIT_WITHIN))
        return twin

    def item_of(self, part: object) -> Item | None:
        """The item of a row."""
        return self._procedures.loader.item(part) if isinstance(part, Row) else None

    def encode(self, codec: EntityCodec, entity: Any) -> Item:
        """The item of an entity, with its cells already written."""
        return write_item(codec, entity, self._procedures.writer.form)

    def steps(self, request: Request) -> Steps[Any]:
        """The native requests that answer a request."""
        make = self._procedures.steps
        steps = steps_of(make, request) if self._verbatim else make(request)
        if self._binary:
            steps = with_bytes(steps)
        if self._read_profile is not None and may_lag(request):
            return reading_from(self._read_profile, steps)
        return steps

    @property
    def merge_unsupported_reason(self) -> str | None:
        """Why nothing can be merged; None if it can."""
        return self._procedures.writer.places.merge_unsupported_reason

    def transaction_unsupported_reason(self, keys: Sequence[Key]) -> str | None:
        """Why the items with these keys cannot be written in one transaction; None: they are one row."""
        return self._procedures.transactions.unsupported_reason(keys)

    def index_of(self, request: Request, native: Native) -> str | None:
        """The index whose table a native request reads or writes."""
        return None if isinstance(native, Sleep | Concurrent | Later | Notice) else self._indexes.get(native.table)

    def calls_of(self, native: Native) -> Sequence[Native] | None:
        """The calls of a native request that makes several at the same time."""
        return native.calls if isinstance(native, Concurrent) else None

    def failure_of(self, response: Any) -> Exception | None:
        """The failure that ended a stream early."""
        return response.failure if isinstance(response, Read | Mutated | Streamed) else None

    def rehearse(self, request: Request) -> Rehearsal:
        """The requests that a write would send, and the rows that it would store, if its item does not exist."""
        if isinstance(request, Transact) and (costs := self._procedures.transactions.costs(request)):
            return Rehearsal((self.preview(request),), None, costs=costs)
        found = rehearse(self.steps(request), self._procedures.table, self._procedures.now())
        return evolve(found, most=self._procedures.writer.places.locks.at_most(found.most))

    def call(self, native: Native) -> Any:
        """Make one attempt at a native request, blocking."""
        if isinstance(native, Sleep):
            time.sleep(native.seconds)
            return None
        if isinstance(native, Notice):
            return None
        if isinstance(native, Concurrent):
            most = COMMITS  # most concurrent calls are commits
            return tuple(in_threads([partial(self._outcome, call) for call in native.calls], most))
        assert not isinstance(native, Later)  # `run` and `arun` start it
        message = self._wire.message(native)
        client = self._clients.sync(message.service, streamed=message.streamed)
        began = time.monotonic()
        try:
            if message.service == "admin":
                return _administer(client, native, message)
            collects = COLLECTORS.get(type(native), One)(native)
            return collects.finish(client.call(message, collects.feed))
        except Exception as failure:
            if client.closed and not isinstance(failure, OdmError):
                raise Closed from failure
            raise at_deadline(failure, began, message.timeout)  # noqa: B904  # the same one, or it has its cause

    async def acall(self, native: Native) -> Any:
        """Make one attempt at a native request without blocking the event loop."""
        if isinstance(native, Sleep):
            await asyncio.sleep(native.seconds)
            return None
        if isinstance(native, Notice):
            return None
        if isinstance(native, Concurrent):
            return tuple(await in_tasks([self._aoutcome(call) for call in native.calls]))
        assert not isinstance(native, Later)  # `run` and `arun` start it
        message = self._wire.message(native)
        client = self._clients.of_loop(message.service, streamed=message.streamed)
        began = time.monotonic()
        try:
            if message.service == "admin":
                return await _aadminister(client, native, message)
            collects = COLLECTORS.get(type(native), One)(native)
            return collects.finish(await client.call(message, collects.feed))
        except asyncio.CancelledError as cancelled:  # closing the channel cancels its calls
            task = asyncio.current_task()
            if not client.closed or task is None or task.cancelling():
                raise
            raise Closed from cancelled
        except Exception as failure:
            if client.closed and not isinstance(failure, OdmError):
                raise Closed from failure
            raise at_deadline(failure, began, message.timeout)  # noqa: B904  # the same one, or it has its cause

    def _outcome(self, call: Call) -> Any:
        """The response of a call, or its failure."""
        try:
            return self.call(call)
        except NATIVE_FAILURES as failure:
            return failure

    async def _aoutcome(self, call: Call) -> Any:
        try:
            return await self.acall(call)
        except NATIVE_FAILURES as failure:
            return failure

    def close(self) -> None:
        """Wait for the work after the answers of sync calls, and close the sync clients."""
        try:
            self._procedures.background.wait()
        finally:
            self._clients.close()

    async def aclose(self) -> None:
        """The same for the running event loop."""
        try:
            await self._procedures.background.wait_async()
        finally:
            await self._clients.aclose()


def _administer(client: Any, native: Any, message: Message) -> Any:
    answer = getattr(client.vendor, message.method)(**_arguments(message))
    if isinstance(native, UpdateTable):  # an operation
        try:
            answer.result(message.timeout)
        except TimeoutError as late:
            raise _unfinished(message) from late
    return admin_wire.read(native, answer)


async def _aadminister(client: Any, native: Any, message: Message) -> Any:
    answer = await getattr(client.vendor, message.method)(**_arguments(message))
    if isinstance(native, UpdateTable):
        try:
            await answer.result(message.timeout)
        except TimeoutError as late:
            raise _unfinished(message) from late
    return admin_wire.read(native, answer)


def _unfinished(message: Message) -> DeadlineExceeded:
    said = f"the change was not complete after {message.timeout:g} seconds"
    return DeadlineExceeded(said)  # type: ignore[no-untyped-call]


def _arguments(message: Message) -> dict[str, Any]:
    # Without the client's own retries: odm reports each attempt, and knows which requests may be repeated.
    return {"request": message.request, "retry": None, "timeout": message.timeout, "metadata": message.metadata}
