"""The writer lock of a file: one writer at a time, among all threads and processes, in turn.

SQLite alone lets writers race for its lock with sleeps, and one of two busy processes may wait for seconds. Here they
lock side files, which the operating system lets go when a process dies. A lock alone is not fair either: who lets it
go can have it back before a waiting one wakes. So there are two, and a writer passes through both: ``-turn`` makes it
the next, ``-lock`` makes it the writer, and it gives up its turn when it has the lock. Who has just written finds the
turn taken. Threads of one process pass through two locks of their own first.
"""

import os
import sys
from contextlib import suppress
from pathlib import Path
from threading import Lock
from time import monotonic, sleep
from typing import Final

from odm.errors import Throttled

if sys.platform == "win32":
    import msvcrt

    _FAR: Final = 1 << 30
    """Windows lets nobody read a locked byte, so it is one far behind the process number."""

    def _locked(descriptor: int) -> bool:
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        try:
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        except PermissionError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, _FAR, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

    def _note(descriptor: int, text: bytes) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        os.write(descriptor, text)

else:
    import fcntl

    def _locked(descriptor: int) -> bool:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            return False
        return True

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)

    def _note(descriptor: int, text: bytes) -> None:
        os.pwrite(descriptor, text, 0)


SHORT_SECONDS: Final = 0.00005
"""The first sleep of who waits; no system has a call that waits for a file's lock with a time limit."""

LONG_SECONDS: Final = 0.002
"""The longest sleep, for who waits for more than a few writes."""

DEFAULT_POLICY: Final = 100
"""So many short sleeps come first."""


class WriterLock:
    """A context manager that holds the lock. The side files are made at its first use and stay.

    Args:
        path: of the file that is written.
        timeout: how long to wait for the lock, in seconds.

    Raises:
        Throttled: on entering, when somebody keeps the lock for longer; the message says which process.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._turn = Lock()
        self._thread = Lock()
        self._descriptors: tuple[int, int] | None = None
        self._closed = False

    def __enter__(self) -> None:
        end = monotonic() + self._timeout
        if not self._turn.acquire(timeout=self._timeout):
            raise self._kept("another thread of this process")
        try:
            if not self._thread.acquire(timeout=max(0.0, end - monotonic())):
                raise self._kept("another thread of this process")
        finally:
            self._turn.release()
        try:
            self._lock_files(end)
        except BaseException:
            self._thread.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            if self._descriptors is not None:
                _unlock(self._descriptors[1])
        finally:
            self._thread.release()
        if self._closed:
            self.close()

    def close(self) -> None:
        """Close the side files, or let a thread that uses them do it; may be called twice."""
        self._closed = True
        if self._thread.acquire(blocking=False):
            self._close_files()
            self._thread.release()

    def after_fork(self) -> None:
        """Begin anew in a child: its parent's threads are not here, and the parent keeps its locks."""
        self._turn = Lock()
        self._thread = Lock()
        self._close_files()

    def _close_files(self) -> None:
        descriptors, self._descriptors = self._descriptors, None
        for descriptor in descriptors or ():
            os.close(descriptor)

    def _lock_files(self, end: float) -> None:
        if self._descriptors is None:
            self._descriptors = self._open("-turn"), self._open("-lock")
        turn, lock = self._descriptors
        self._wait(turn, end)
        try:
            self._wait(lock, end)
        finally:
            _unlock(turn)
        with suppress(OSError):  # a full disk must not be what stops a delete
            _note(lock, b"%-20d" % os.getpid())

    def _open(self, suffix: str) -> int:
        return os.open(f"{self._path}{suffix}", os.O_RDWR | os.O_CREAT, 0o666)

    def _wait(self, descriptor: int, end: float) -> None:
        sleeps = 0
        while not _locked(descriptor):
            if monotonic() > end:
                raise self._kept(self._holder())
            sleep(SHORT_SECONDS if sleeps < DEFAULT_POLICY else LONG_SECONDS)
            sleeps += 1

    def _holder(self) -> str:
        with suppress(OSError, ValueError):
            return f"process {int(Path(f'{self._path}-lock').read_bytes())}"
        return "another process"

    def _kept(self, who: str) -> Throttled:
        return Throttled(
            f"file {self._path}: {who} has kept the writer lock for more than {self._timeout:g} seconds; see whether "
            "it is stopped, and try again, or wait longer with LocalFile(path, timeout=...)"
        )
