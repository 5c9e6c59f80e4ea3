"""`Memory` and `LocalFile`, and the connection that performs requests on them.

The native requests of this backend are those of the core. The engine performs each in one step.
"""

import os
import time
from collections.abc import Callable
from datetime import timedelta
from functools import partial
from math import inf
from pathlib import Path
from threading import TIMEOUT_MAX
from typing import TYPE_CHECKING, Any, Final

from odm.backends import local  # its names in annotations: they are imported at their first use
from odm.backends.local.codec import decode, write_item
from odm.backends.local.log import seconds_of
from odm.backends.local.memory import MemoryStorage, MemoryTable
from odm.backends.local.requests import PAGE_BYTES, Engine
from odm.backends.local.storage import Storage
from odm.codec import EntityCodec
from odm.errors import BackendError, BadValue, OdmError, brief
from odm.expressions.nodes import Item
from odm.immutable import evolve
from odm.protocol.capacity import Units
from odm.protocol.connection import Backend, Connection, ForwardingConnection, NativeGen, RetryPolicy
from odm.protocol.limits import Limits
from odm.protocol.requests import Request, Split
from odm.protocol.turns import Turns
from odm.schema.evidence import Stored, other_keys
from odm.schema.model import Schema

if TYPE_CHECKING:
    from odm.backends.local.units import Measured

UNLIMITED: Final = Limits(None, None, None, None, None, None, map_key_bytes=None, expressions=False)

ITEM_BYTES: Final = 128 * 1024 * 1024
"""SQLite stores rows of up to 1e9 bytes (https://sqlite.org/limits.html), and JSON may write one byte as six."""


class LocalConnection(Connection[Request]):
    """One table of a `Memory` or a `LocalFile`.

    Args:
        engine: performs the requests.
        path: the path of the file; None for `Memory`, which never blocks.
        turns: those of the table in the file; None for `Memory`.
    """

    def __init__(self, engine: Engine, path: Path | None = None, turns: Turns | None = None) -> None:
        self._engine = engine
        self._path = path
        self._closed = False
        self._turns = turns
        self._errors: tuple[type[Exception], ...] = (OSError, UnicodeDecodeError)
        if path is not None:
            from odm.backends.local.errors import FILE_ERRORS

            self._errors = FILE_ERRORS

    @property
    def turns(self) -> Turns | None:
        """Those of the table in the file, which all stores of this process share."""
        return self._turns

    @property
    def in_process(self) -> bool:
        """True: the engine performs a request in one step."""
        return True

    @property
    def merges_together(self) -> bool:
        """True: the engine makes them in one step."""
        return True

    def metered(self) -> "MeteredConnection":
        """A connection that also measures the consumed capacity of requests."""
        return MeteredConnection(self)

    def steps(self, request: Request) -> NativeGen[Request, Any]:
        if isinstance(request, Split):
            return None  # the engine numbers the segments of a scan
        try:
            return (yield request)
        except self._errors as error:
            raise _translated(error, self._path) from error

    def item_of(self, part: object) -> Item | None:
        """The item of a row's bytes."""
        return decode(part) if type(part) is bytes else None

    def encode(self, codec: EntityCodec, entity: Any) -> Item:
        """The item of an entity, as the bytes that are stored."""
        return write_item(codec, entity)

    def with_retry_policy(self, policy: RetryPolicy) -> "LocalConnection":
        """This connection: without a network, timeouts and retries have no effect."""
        return self

    def answer(self, request: Request) -> Any:
        """The response to a request, in one step."""
        try:
            return self.call(request)
        except self._errors as error:
            raise _translated(error, self._path) from error

    def call(self, native: Request) -> Any:
        if self._closed:
            raise self._was_closed()
        try:
            return self._engine.perform(native)
        except BaseException:
            self._engine.storage.recover()
            raise

    async def acall(self, native: Request) -> Any:
        return await self.without_blocking(self.call, native)

    @property
    def engine(self) -> Engine:
        """The engine that performs the requests.

        Raises:
            BackendError: the connection was closed.
        """
        if self._closed:
            raise self._was_closed()
        return self._engine

    def _was_closed(self) -> BackendError:
        return BackendError(f"the connection to table {self._engine.table!r} was closed: open another store")

    async def without_blocking(self, call: Callable[[Request], Any], native: Request) -> Any:
        """Call a function that performs a request; for a file in a thread, because it may block."""
        if self._path is None:
            return call(native)
        from asyncio import to_thread

        return await to_thread(call, native)

    def close(self) -> None:
        self._closed = True
        try:
            self._engine.storage.close()
        except self._errors as error:
            raise _translated(error, self._path) from error

    async def aclose(self) -> None:
        if self._path is None:
            self.close()
        else:
            from asyncio import to_thread

            await to_thread(self.close)


def _translated(error: Exception, path: Path | None) -> OdmError:
    from odm.backends.local.errors import translated  # it imports sqlite3

    return translated(error, path)


def _with_faults(connection: LocalConnection, faults: "local.Faults | None", schema: Schema) -> Connection[Request]:
    if faults is None:
        return connection
    from odm.backends.local.fault_connection import FaultConnection

    return FaultConnection(connection, faults, schema)


class MeteredConnection(ForwardingConnection[Request]):
    """A connection whose native responses are `Measured`."""

    inner: LocalConnection

    def steps(self, request: Request) -> NativeGen[Request, Any]:
        answer: Measured | None = yield from self.inner.steps(request)
        return None if answer is None else answer.response

    def units(self, native: Request, response: "Measured") -> Units | None:
        """The capacity units that the request would consume on DynamoDB."""
        return response.units

    def call(self, native: Request) -> "Measured":
        from odm.backends.local.units import measured

        engine = self.inner.engine
        try:
            return measured(engine, native)
        except BaseException:
            engine.storage.recover()
            raise

    async def acall(self, native: Request) -> Any:
        return await self.inner.without_blocking(self.call, native)


class Memory(Backend):
    """Tables in this process, for tests and notebooks.

    This object contains the data: stores on the same object share the tables, and the data is lost with the object.

    Args:
        clock: returns the time in seconds since the epoch, for expiry and ``index_lag``. A test can set the time with
            `odm.testing.Clock`.
        index_lag: the seconds by which global indexes lag behind writes, as on DynamoDB. Until then a query on such an
            index finds the previous items. Reads by key and consistent reads never lag.
        faults: the faults to inject.
        page_bytes: a page of a query or scan ends after reading this many bytes; 1 makes pages of one item, or empty
            pages if the filter drops the item.
        changes: keep a log of changes, for `odm.patterns.feed`: True for 24 hours, or a timedelta. `Store.create`
            begins the log of a table.

    Raises:
        BadValue: ``index_lag``, ``page_bytes`` or ``changes`` is out of range.
    """

    name = "memory"
    limits = UNLIMITED

    def __init__(
        self,
        *,
        clock: Callable[[], float] = time.time,
        index_lag: float = 0,
        faults: "local.Faults | None" = None,
        page_bytes: int = PAGE_BYTES,
        changes: bool | timedelta = False,
    ) -> None:
        self._changes = seconds_of(changes)
        if not _is_number(index_lag) or not 0 <= index_lag < inf:
            raise BadValue(f"index_lag={brief(index_lag)}: pass seconds, 0 or more")
        _check_page(page_bytes)
        self.clock = clock
        self._tables: dict[str, MemoryTable] = {}
        self._make: Callable[[], MemoryTable] = MemoryTable
        if index_lag:
            from odm.backends.local.lag import LaggingTable

            self._make = partial(LaggingTable, clock, index_lag)
        self._faults = faults
        self._page_bytes = page_bytes

    def __repr__(self) -> str:
        return "Memory()"

    def connect(self, schema: Schema) -> Connection[Request]:
        storage = MemoryStorage(self._tables, schema.name, self._make, self._changes, self.clock)
        connection = LocalConnection(_engine(schema, storage, self._page_bytes))
        return _with_faults(connection, self._faults, schema)


class LocalFile(Backend):
    """Tables in one file, shared by the threads and processes of one machine. Writes are durable when a call returns.

    `Store.create` creates the file. Files with the suffixes ``-wal``, ``-shm``, ``-lock`` and ``-turn`` belong to it:
    move and remove them together with it, while no program has the file open, or use `copy`. The ``-wal`` file may
    contain the newest writes. The folder must be on a local disk, because locks do not work on network file systems.

    Reads never wait. Writers queue, and each gets its turn; a writer that has waited for ``timeout`` seconds raises
    `Throttled`, which names the process that holds the lock. Tasks and threads of this process that change the same
    item wait for each other, so that none has to try again and again. After a crash, no repair is needed. A process
    may fork while it has stores open: parent and child use them independently.

    If the file or its folder is read-only, reads work, and writes raise `BackendError`. While no program has such a
    file open, odm assumes that it does not change. If it does change, later reads see the change, and a concurrent
    read may fail.

    Args:
        path: the path of the file, which may not exist yet; its folder must exist.
        timeout: how long to wait for other writers, in seconds.
        clock: as for `Memory`.
        faults: as for `Memory`.
        page_bytes: as for `Memory`.
        changes: as for `Memory`. The log is in the file: every program logs its changes, and every program can read it.

    Raises:
        BadValue: ``timeout``, ``page_bytes`` or ``changes`` is out of range, or ``path`` cannot name a file.
        BackendError: ``path`` is relative, and the current folder was removed.
    """

    name = "file"
    limits = evolve(UNLIMITED, item_bytes=ITEM_BYTES)

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        timeout: float = 60.0,
        clock: Callable[[], float] = time.time,
        faults: "local.Faults | None" = None,
        page_bytes: int = PAGE_BYTES,
        changes: bool | timedelta = False,
    ) -> None:
        self._changes = seconds_of(changes)
        if not _is_number(timeout) or not 0 <= timeout <= TIMEOUT_MAX:
            raise BadValue(f"LocalFile(timeout={brief(timeout)}): pass seconds, from 0 to {TIMEOUT_MAX:.0f}")
        _check_page(page_bytes)
        self.path = _absolute(path)
        self.timeout = timeout
        self.clock = clock
        self._faults = faults
        self._page_bytes = page_bytes

    def __repr__(self) -> str:
        return f"LocalFile({str(self.path)!r})"

    def connect(self, schema: Schema) -> Connection[Request]:
        from odm.backends.local.clients import turns_of
        from odm.backends.local.file import FileStorage

        path = self._real_path()
        storage = FileStorage(path, schema.name, self.timeout, self._changes, self.clock)
        turns = turns_of(path, schema.name)
        connection = LocalConnection(_engine(schema, storage, self._page_bytes), path, turns)
        return _with_faults(connection, self._faults, schema)

    def compact(self) -> "local.Compaction":
        """Return the disk space of deleted items to the file system. Writers wait meanwhile, readers do not.

        It rewrites the file in one atomic step: after a crash, the file is unchanged. Meanwhile it needs additional
        disk space of the size of the file.

        Returns:
            The bytes on disk before and after.

        Raises:
            BackendError: the file does not exist, is not odm's, or the disk is full.
            Throttled: other writers held the writer lock for longer than ``timeout``.
        """
        from odm.backends.local.upkeep import compact

        return compact(self._real_path(), self.timeout)

    def copy(self, to: str | os.PathLike[str]) -> None:
        """Copy a consistent snapshot of the file, while other programs read and write it.

        The copy gets its name when it is complete and durable.

        Args:
            to: the path of the copy, on any disk. It must not exist, nor a ``-wal`` file of an earlier file there.

        Raises:
            BackendError: ``to`` exists or its folder does not, the file does not exist or is not odm's, or the disk is
                full.
        """
        from odm.backends.local.upkeep import copy

        copy(self._real_path(), _absolute(to), self.timeout)

    def _real_path(self) -> Path:
        """The path with symbolic links resolved; SQLite creates its other files next to it."""
        from odm.backends.local.errors import translating
        from odm.backends.local.places import resolved

        with translating(self.path):
            return resolved(self.path)


def _absolute(path: str | os.PathLike[str]) -> Path:
    if not isinstance(path, str | os.PathLike) or not isinstance(os.fspath(path), str):
        raise BadValue(f"LocalFile({brief(path)}): give the path of a file, as str or pathlib.Path")
    if "\0" in str(path):
        raise BadValue(
            f"LocalFile({brief(str(path))}): a path cannot contain the character U+0000; pass the path of a file"
        )
    try:
        os.fsencode(path)
        return Path(path).absolute()
    except UnicodeEncodeError as error:
        raise BadValue(f"LocalFile({brief(str(path))}): no file can have this name; pass the path of a file") from error
    except FileNotFoundError as error:
        reason = "the current folder does not exist any more"
        raise BackendError(
            f"LocalFile({brief(str(path))}): {reason}; change to another one, or pass an absolute path"
        ) from error


def _engine(schema: Schema, storage: Storage, page_bytes: int) -> Engine:
    local = {index.name: index.held for index in schema.indexes.values() if index.local}
    held = {index.name: index.held for index in schema.indexes.values() if index.held is not None}
    tags = frozenset(schema.entities)
    hash_only = None if schema.has_verbatim_keys or not schema.entities else schema.hash_only
    return Engine(
        schema.name,
        tuple(schema.indexes),
        storage,
        schema.texts,
        page_bytes,
        tags,
        local,
        held,
        hash_only,
        partial(other_keys, schema, read=_as_stored),
    )


def _as_stored(_: Schema, item: Stored) -> Stored:
    """Read an item for a schema: this backend stores items as the core has them."""
    return item


def _is_number(value: object) -> bool:
    return isinstance(value, int | float)


def _check_page(page_bytes: int) -> None:
    if not isinstance(page_bytes, int) or page_bytes < 1:
        raise BadValue(f"page_bytes={brief(page_bytes)}: pass the bytes per page, 1 or more")
