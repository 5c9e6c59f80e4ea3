"""A pool of this process's connections to one file: opened when needed, lent to one block at a time, then reused.

A child process must not use SQLite connections that its parent opened before the fork. While such a connection is open
in the child, SQLite assumes that the child holds the parent's locks, and takes none
(https://sqlite.org/howtocorrupt.html, 2.6), so the child's writes can be lost **even on a connection of its own**.
Therefore a fork waits until no connection is lent, and the child closes all inherited connections before it opens one.
"""

import os
import sys
import weakref
from contextlib import suppress
from pathlib import Path
from threading import Condition, Lock, RLock, get_ident
from typing import Final

from odm.backends.local.lock import WriterLock
from odm.backends.local.opening import Connection, lay_out, open_file, roll_back
from odm.backends.local.storage import open_blocks, refuse_within
from odm.errors import BackendError
from odm.protocol.turns import Turns

FORK_SECONDS: Final = 10.0
"""How long a fork waits for other threads to return their connections, in seconds."""


class Connections:
    """The connections to one file, and its writer lock.

    Args:
        path: absolute path of the file.
        timeout: how long to wait for other writers, in seconds.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self.path = path
        self.idle: list[Connection] = []
        self.writer: Loan | None = None
        self.lock = WriterLock(path, timeout)
        self._timeout = timeout
        self._lent: dict[Connection, int] = {}
        """Each with its thread. A connection is in ``idle`` or here at any time; in between, in both."""
        self._mutex = RLock()  # a `with` statement on it cannot be interrupted half-way, one on a Condition can
        self._state = Condition(self._mutex)
        self._forking = False
        self._closed = False
        _ALL.add(self)

    def take(self, *, create: bool = False) -> Connection:
        """Borrow a connection; return it with `give`.

        Args:
            create: create the file if it does not exist, and accept an empty one.

        Raises:
            BackendError: the file cannot be opened, is not odm's, or, without ``create``, is missing or empty.
        """
        with self._mutex:
            while self._forking:
                self._state.wait()
            if not self.idle:
                return self._open(create)
            connection = self.idle[-1]
            self._lent[connection] = get_ident()
            self.idle.pop()
            if connection.empty or (connection.frozen and connection.outdated(self.path)):
                self._discard(connection)
                return self._open(create)
            return connection

    def give(self, connection: Connection) -> None:
        """Return a connection to the pool; one with an open transaction is closed instead."""
        with self._mutex:
            if self._closed or connection.in_transaction:
                self._discard(connection)
            else:
                self.idle.append(connection)
                self._lent.pop(connection, None)
            if self._forking:
                self._state.notify_all()

    def take_to_write(self, create: bool) -> Connection:
        """A connection to the file that is now at the path: writes to a removed file would be lost."""
        while (connection := self.take(create=create)).outdated(self.path):
            self._discard(connection)
        return connection

    def close(self) -> None:
        """Close all connections, each as soon as no block uses it. Idempotent."""
        with self._mutex:
            self._closed = True
            while self.idle:
                self.idle.pop().close()
        self.lock.close()

    def free(self) -> None:
        """Release the writer lock that an interrupted block of this thread kept, and what it borrowed.

        Raises:
            BackendError: the block is not at its end: a signal handler or finalizer interrupted it and writes.
        """
        if self.writer is not None:
            refuse_within(self.writer)
            self.writer.close()
        self.lock.release()

    def recover(self) -> None:
        """Release what blocks of this thread kept, except those that are not at their end."""
        if self.lock.owned:
            with suppress(BackendError):  # a block that is not at its end goes on after the interruption
                self.free()
        mine = [connection for connection, thread in list(self._lent.items()) if thread == get_ident()]
        if mine:
            used = [block._connection for block in open_blocks() if isinstance(block, Loan)]
            for connection in mine:
                if connection not in used:
                    self._discard(connection)

    def before_fork(self) -> None:
        """Wait until no connection is lent, and stop lending."""
        with self._mutex:
            self._forking = True
            self._state.wait_for(lambda: not self._lent, FORK_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Resume lending."""
        with self._mutex:
            self._forking = False
            self._state.notify_all()

    def after_fork_in_child(self) -> None:
        """Start with an empty pool: close the inherited connections."""
        self._mutex = RLock()
        self._state = Condition(self._mutex)
        self.writer = None
        self._forking = False
        while self.idle:
            self.idle.pop().close()
        for connection in self._lent:
            _abandon(connection, self.path)
        self._lent = {}
        self.lock.after_fork()

    def _open(self, create: bool) -> Connection:
        if self.path in _STRANDED:
            raise BackendError(
                f"file {self.path}: this process was forked while another thread used the file, so it cannot use it; "
                "fork before there are threads, or start processes with multiprocessing's 'spawn'"
            )
        connection = open_file(self.path, self._timeout, create=create)
        self._lent[connection] = get_ident()
        return connection

    def _discard(self, connection: Connection) -> None:
        """Close a connection that is lent."""
        with self._mutex:
            connection.close()
            if connection in self.idle:
                self.idle.remove(connection)
            self._lent.pop(connection, None)


class Loan:
    """A connection for one block, or for its parts `open` and `close`; to write, with the writer lock.

    An exception out of a signal handler can end any step, so `close` does not depend on which steps were taken.

    Args:
        connections: the connections to the file.
        writes: hold the writer lock; then the connection has no open transaction.
        create: create the file and its tables if it is new.
    """

    def __init__(self, connections: Connections, *, writes: bool = False, create: bool = False) -> None:
        self._connections = connections
        self._writes = writes
        self._create = create
        self._connection: Connection | None = None
        self._locks = False

    def __enter__(self) -> Connection:
        try:
            return self.open()
        except BaseException:
            self.close()
            raise

    def __exit__(self, kind: type[BaseException] | None = None, *rest: object) -> None:
        try:
            self.close()
        except BaseException:  # of a signal handler
            self.close()
            raise

    def open(self) -> Connection:
        """Borrow the connection; if this raises, call `close`.

        Raises:
            BackendError: a signal handler or finalizer writes while it interrupts a write of the same thread.
        """
        connections = self._connections
        if not self._writes:
            self._connection = connections.take()
            return self._connection
        if not connections.idle:  # check the file before the lock creates side files next to a file that is not odm's
            connections.give(connections.take(create=self._create))
        if connections.lock.owned:
            connections.free()
        self._locks = True
        connections.lock.__enter__()
        if connections.writer is not None:
            connections.writer._return()
        connections.writer = self
        self._connection = connections.take_to_write(self._create)
        if self._create:
            lay_out(self._connection)
        return self._connection

    def close(self) -> None:
        """Roll back an open transaction, and return the connection and the lock. Idempotent."""
        try:
            self._return()
        finally:
            if self._locks:
                if self._connections.writer is self:
                    self._connections.writer = None
                self._connections.lock.__exit__()
                self._locks = False

    def _return(self) -> None:
        connection = self._connection
        if connection is not None:
            if connection.in_transaction:
                roll_back(connection)
            self._connection = None  # from here on, another thread may use it
            self._connections.give(connection)


_ALL: Final[weakref.WeakSet[Connections]] = weakref.WeakSet()
"""All pools, for forks; weak, so that a store that was not closed is collected, which closes its connections."""

_TURNS: Final[weakref.WeakValueDictionary[tuple[Path, str], Turns]] = weakref.WeakValueDictionary()
"""The turns that a store uses; without one, nobody waits for them."""

_TURNS_LOCK: Final = Lock()


def turns_of(path: Path, table: str) -> Turns:
    """The turns of all writers of this process that change a table in a file."""
    with _TURNS_LOCK:
        return _TURNS.setdefault((path, table), Turns())


_STRANDED: Final[set[Path]] = set()
"""Files with an inherited connection that a thread of the parent was using; it can be neither used nor closed."""


def _abandon(connection: Connection, path: Path) -> None:
    import ctypes

    ctypes.pythonapi.Py_IncRef(ctypes.py_object(connection))  # prevents closing it when the process ends
    _STRANDED.add(path)


def _before_fork() -> None:
    for connections in list(_ALL):
        connections.before_fork()


def _after_fork_in_parent() -> None:
    for connections in list(_ALL):
        connections.after_fork_in_parent()


def _after_fork_in_child() -> None:
    for connections in list(_ALL):
        connections.after_fork_in_child()


if sys.platform != "win32":  # Windows has no fork
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork_in_parent, after_in_child=_after_fork_in_child)
