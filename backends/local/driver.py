"""`Memory` and `LocalFile`, and the connection that performs requests on them.

A native request is the request of the core itself: the engine performs it in one step.
"""

import asyncio
import os
import time
from collections.abc import Callable
from functools import partial
from math import isfinite
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import Any, Final

from attrs import evolve, frozen

from odm.backends.local.errors import FILE_ERRORS, translated
from odm.backends.local.fault_connection import FaultConnection
from odm.backends.local.faults import Faults
from odm.backends.local.file import FileStorage
from odm.backends.local.lag import LaggingTable
from odm.backends.local.memory import MemoryStorage, MemoryTable
from odm.backends.local.requests import PAGE_BYTES, Engine
from odm.backends.local.storage import Storage
from odm.backends.local.units import Measured, measured
from odm.backends.local.upkeep import Compaction, compact, copy
from odm.errors import BackendError, BadValue
from odm.protocol.capacity import Units
from odm.protocol.connection import Backend, Connection, ForwardingConnection, NativeGen, RetryPolicy
from odm.protocol.limits import Limits
from odm.protocol.requests import Request, Split
from odm.schema.model import Schema

UNLIMITED: Final = Limits(None, None, None, None, None, None)

ITEM_BYTES: Final = 128 * 1024 * 1024
"""SQLite keeps rows of up to 1e9 bytes (https://sqlite.org/limits.html), and JSON may write one byte in six."""


class LocalConnection(Connection[Request]):
    """One table of a `Memory` or a `LocalFile`.

    Args:
        engine: performs the requests.
        path: of the file; None in memory, where nothing blocks.
    """

    def __init__(self, engine: Engine, path: Path | None = None) -> None:
        self._engine = engine
        self._path = path
        self._closed = False

    @property
    def in_process(self) -> bool:
        """Yes: the engine performs a request in one step."""
        return True

    def metered(self) -> "MeteredConnection":
        """The twin whose requests are measured."""
        return MeteredConnection(self)

    def steps(self, request: Request) -> NativeGen[Request, Any]:
        if isinstance(request, Split):
            return None  # nothing to look up
        try:
            return (yield request)
        except FILE_ERRORS as error:
            raise translated(error, self._path) from error

    def with_retry_policy(self, policy: RetryPolicy) -> "LocalConnection":
        """Itself: there is no network that could be silent or fail."""
        return self

    def answer(self, request: Request) -> Any:
        """The response to a request, in one step."""
        try:
            return self.call(request)
        except FILE_ERRORS as error:
            raise translated(error, self._path) from error

    def call(self, native: Request) -> Any:
        if self._closed:
            raise self._was_closed()
        return self._engine.perform(native)

    async def acall(self, native: Request) -> Any:
        return await self.without_blocking(self.call, native)

    @property
    def engine(self) -> Engine:
        """What performs the requests. Raises BackendError: the connection was closed."""
        if self._closed:
            raise self._was_closed()
        return self._engine

    def _was_closed(self) -> BackendError:
        return BackendError(f"the connection to table {self._engine.table!r} was closed: open another store")

    async def without_blocking(self, call: Callable[[Request], Any], native: Request) -> Any:
        """Call a function that performs a request: in a thread, where a file could block."""
        return call(native) if self._path is None else await asyncio.to_thread(call, native)

    def close(self) -> None:
        self._closed = True
        try:
            self._engine.storage.close()
        except FILE_ERRORS as error:
            raise translated(error, self._path) from error

    async def aclose(self) -> None:
        if self._path is None:
            self.close()
        else:
            await asyncio.to_thread(self.close)


@frozen
class MeteredConnection(ForwardingConnection[Request]):
    """One whose native responses are `Measured`."""

    inner: LocalConnection

    def steps(self, request: Request) -> NativeGen[Request, Any]:
        answer: Measured | None = yield from self.inner.steps(request)
        return None if answer is None else answer.response

    def units(self, native: Request, response: Measured) -> Units | None:
        """What a request would cost on DynamoDB."""
        return response.units

    def call(self, native: Request) -> Measured:
        return measured(self.inner.engine, native)

    async def acall(self, native: Request) -> Any:
        return await self.inner.without_blocking(self.call, native)


class Memory(Backend):
    """Tables in this process, for tests and notebooks.

    The data lives in this object: stores on the same one see the same tables, and it goes with the object.

    Args:
        clock: gives the time in seconds since the epoch; expiry and ``index_lag`` go by it. `odm.testing.Clock` is one
            that a test moves.
        index_lag: global indexes show a write after so many seconds, as on DynamoDB; until then a query of one finds
            the items as they were. Reads of items, and consistent ones, never lag.
        faults: what shall go wrong.
        page_bytes: a page of a query or scan ends when so many bytes were read; 1 makes pages of one item, or of none
            where a filter drops it.

    Raises:
        BadValue: a number makes no sense.
    """

    name = "memory"
    limits = UNLIMITED

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        index_lag: float = 0,
        faults: Faults | None = None,
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        if not isfinite(index_lag) or index_lag < 0:
            raise BadValue(f"index_lag={index_lag!r}: give seconds, 0 or more")
        _check_page(page_bytes)
        self.clock = clock
        self._tables: dict[str, MemoryTable] = {}
        self._make = partial(LaggingTable, clock, index_lag) if index_lag else MemoryTable
        self._faults = faults
        self._page_bytes = page_bytes

    def __repr__(self) -> str:
        return "Memory()"

    def connect(self, schema: Schema) -> Connection[Request]:
        storage = MemoryStorage(self._tables, schema.name, self._make)
        connection = LocalConnection(_engine(schema, storage, self._page_bytes))
        return connection if self._faults is None else FaultConnection(connection, self._faults, schema)


class LocalFile(Backend):
    """Tables in one file: durable when a call returns, shared by threads and processes of one machine.

    `Store.create` makes the file. Beside it stand ``-wal``, ``-shm``, ``-lock`` and ``-turn`` files that belong to it:
    move and remove them together, while no program has the file open, or use `copy`. The first may hold the newest
    writes. The folder must be on a local disk: locks of network file systems do not hold.

    Reads wait for nobody. Writers stand in line and each has its turn; who has waited for ``timeout`` seconds gets
    `Throttled`, which names the process to look at. After a crash there is nothing to repair. A process may fork while
    it has stores open: parent and child use them independently.

    Where the file or its folder may not be written, reads work, and writes raise `BackendError`. Such a file, while no
    program has it open, is taken for one that does not change; when it changes after all, later reads see it, and one
    that is under way at that moment may fail.

    Args:
        path: where the file is or will be; its folder must exist.
        timeout: how long to wait for other writers, in seconds.
        clock: as for `Memory`.
        faults: as for `Memory`.
        page_bytes: as for `Memory`.

    Raises:
        BadValue: a number makes no sense, or no path can be as this one.
        BackendError: the path goes from the current folder, which was removed.
    """

    name = "file"
    limits = evolve(UNLIMITED, item_bytes=ITEM_BYTES)

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timeout: float = 60.0,
        clock: Callable[[], float] = time.time,
        faults: Faults | None = None,
        page_bytes: int = PAGE_BYTES,
    ) -> None:
        if not 0 <= timeout <= TIMEOUT_MAX:
            raise BadValue(f"LocalFile(timeout={timeout!r}): give seconds, from 0 to {TIMEOUT_MAX:.0f}")
        _check_page(page_bytes)
        self.path = _absolute(path)
        self.timeout = timeout
        self.clock = clock
        self._faults = faults
        self._page_bytes = page_bytes

    def __repr__(self) -> str:
        return f"LocalFile({str(self.path)!r})"

    def connect(self, schema: Schema) -> Connection[Request]:
        path = self._real_path()
        storage = FileStorage(path, schema.name, self.timeout)
        connection = LocalConnection(_engine(schema, storage, self._page_bytes), path)
        return connection if self._faults is None else FaultConnection(connection, self._faults, schema)

    def compact(self) -> Compaction:
        """Give the room that deleted items have left back to the disk. Writers wait meanwhile, readers do not.

        It rewrites the file, in one step that a crash undoes, and needs as much room again while it works.

        Returns:
            The bytes on disk before and after.

        Raises:
            BackendError: there is no such file, it is not odm's, or the disk is full.
            Throttled: other writers kept the file for longer than ``timeout``.
        """
        return compact(self._real_path(), self.timeout)

    def copy(self, to: str | os.PathLike[str]) -> None:
        """Copy the file as it is at one moment, while others read and write it.

        The copy gets its name when it is complete and on the disk.

        Args:
            to: where the copy will be, on any disk; nothing may be there, nor a ``-wal`` of a file that was.

        Raises:
            BackendError: ``to`` is taken or in no folder, the file is not there or not odm's, or the disk is full.
        """
        copy(self._real_path(), _absolute(to), self.timeout)

    def _real_path(self) -> Path:
        """The path behind links, beside which SQLite has its files."""
        return Path(os.path.realpath(self.path))


def _absolute(path: str | os.PathLike[str]) -> Path:
    if "\0" in str(path):
        raise BadValue(f"LocalFile({str(path)!r}): a path has no character U+0000; give the path of a file")
    try:
        return Path(path).absolute()
    except FileNotFoundError as error:
        what = "the current folder is not there any more"
        raise BackendError(f"LocalFile({str(path)!r}): {what}; change to another one, or give a path from /") from error


def _engine(schema: Schema, storage: Storage, page_bytes: int) -> Engine:
    local = {index.name: index.held for index in schema.indexes.values() if index.local}
    held = {index.name: index.held for index in schema.indexes.values() if index.held is not None}
    tags = frozenset(schema.entities)
    return Engine(schema.name, tuple(schema.indexes), storage, schema.texts, page_bytes, tags, local, held)


def _check_page(page_bytes: int) -> None:
    if page_bytes < 1:
        raise BadValue(f"page_bytes={page_bytes!r}: give the bytes of a page, 1 or more")
