"""The writer lock of a file: one writer at a time among all threads and processes, in turn.

With SQLite alone, writers sleep and retry for its lock, and one of two busy processes may wait for seconds. So writers
lock side files here. The operating system releases these locks when a process dies.

One lock is not fair either: a writer that releases it can take it again before a waiting writer wakes. So a writer
takes two locks in order: ``-turn`` makes it the next writer, ``-lock`` makes it the writer. It releases ``-turn`` when
it has ``-lock``. A writer that has just finished then finds ``-turn`` taken by the next writer. Threads of one process
first take two locks of the process in the same way.
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
    """The position of the locked byte, far behind the process number: Windows forbids reads of a locked byte."""

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
"""The first sleeps of a waiting writer; no system call waits for a file lock with a time limit."""

LONG_SECONDS: Final = 0.002
"""The later sleeps of a writer that has waited for several writes."""

DEFAULT_POLICY: Final = 100
"""The number of short sleeps."""


class WriterLock:
    """A context manager that holds the lock. It creates the side files at its first use and never removes them.

    Args:
        path: the path of the file to write.
        timeout: how long to wait for the lock, in seconds.

    Raises:
        Throttled: on entry, if another writer holds the lock for longer; the message names its process.
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
        """Close the side files; if a thread holds the lock, it closes them on release. Idempotent."""
        self._closed = True
        if self._thread.acquire(blocking=False):
            self._close_files()
            self._thread.release()

    def after_fork(self) -> None:
        """Reset the lock in a child process: the parent's threads do not exist here, and the parent keeps its locks."""
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
        with suppress(OSError):  # a full disk must not prevent a delete
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
            f"file {self._path}: {who} has held the writer lock for more than {self._timeout:g} seconds; check whether "
            "it is stopped, and try again, or wait longer with LocalFile(path, timeout=...)"
        )
