"""A pool of this process's connections to one file: opened when needed, lent to one block at a time, then reused.

A child process must not use SQLite connections that its parent opened before the fork. While such a connection is open
in the child, SQLite assumes that the child holds the parent's locks, and takes none
(https://sqlite.org/howtocorrupt.html, 2.6), so the child's writes can be lost **even on a connection of its own**.
Therefore a fork waits until no connection is lent, and the child closes all inherited connections before it opens one.
"""

import os
import sys
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Condition
from typing import Final

from odm.backends.local.lock import WriterLock
from odm.backends.local.opening import Connection, lay_out, open_file
from odm.errors import BackendError

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
        self._timeout = timeout
        self._lock = WriterLock(path, timeout)
        self._lent: set[Connection] = set()
        self._state = Condition()
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
        with self._state:
            while self._forking:
                self._state.wait()
            connection = self.idle.pop() if self.idle else self._open(create)
            if connection.empty or (connection.frozen and connection.outdated(self.path)):
                connection.close()
                connection = self._open(create)
            self._lent.add(connection)
            return connection

    def give(self, connection: Connection) -> None:
        """Return a connection to the pool; one with an open transaction is closed instead."""
        with self._state:
            self._lent.discard(connection)
            if self._closed or connection.in_transaction:
                connection.close()
            else:
                self.idle.append(connection)
            if self._forking:
                self._state.notify_all()

    @contextmanager
    def writing(self, *, create: bool = False) -> Iterator[Connection]:
        """A block that holds the writer lock, with a connection that has no open transaction.

        Args:
            create: create the tables if the file is new.
        """
        if not self.idle:  # check the file before the lock creates side files next to a file that is not odm's
            self.give(self.take(create=create))
        with self._lock:
            connection = self._taken_to_write(create)
            try:
                if create:
                    lay_out(connection)
                yield connection
            finally:
                self.give(connection)

    def _taken_to_write(self, create: bool) -> Connection:
        """A connection to the file that is now at the path: writes to a removed file would be lost."""
        while (connection := self.take(create=create)).outdated(self.path):
            self._lent.discard(connection)
            connection.close()
        return connection

    def close(self) -> None:
        """Close all connections, each as soon as no block uses it. Idempotent."""
        with self._state:
            self._closed = True
            while self.idle:
                self.idle.pop().close()
        self._lock.close()

    def before_fork(self) -> None:
        """Wait until no connection is lent, and stop lending."""
        with self._state:
            self._forking = True
            self._state.wait_for(lambda: not self._lent, FORK_SECONDS)

    def after_fork_in_parent(self) -> None:
        """Resume lending."""
        with self._state:
            self._forking = False
            self._state.notify_all()

    def after_fork_in_child(self) -> None:
        """Start with an empty pool: close the inherited connections."""
        self._state = Condition()
        self._forking = False
        while self.idle:
            self.idle.pop().close()
        for connection in self._lent:
            _abandon(connection, self.path)
        self._lent = set()
        self._lock.after_fork()

    def _open(self, create: bool) -> Connection:
        if self.path in _STRANDED:
            raise BackendError(
                f"file {self.path}: this process was forked while another thread used the file, so it cannot use it; "
                "fork before there are threads, or start processes with multiprocessing's 'spawn'"
            )
        return open_file(self.path, self._timeout, create=create)


_ALL: Final[weakref.WeakSet[Connections]] = weakref.WeakSet()

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
