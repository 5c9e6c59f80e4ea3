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
from itertools import repeat
from pathlib import Path
from threading import RLock
from time import monotonic, sleep
from typing import Any, Final

from odm.backends.local.places import LOCK_FLAGS, check_lock, prepare
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

SHORT_SLEEPS: Final = 100
"""The number of short sleeps."""


def _owned(lock: Any) -> bool:
    owned: bool = lock._is_owned()  # `threading.Condition` needs it of a lock too
    return owned


def _release(lock: Any) -> None:
    while _owned(lock):
        lock.release()


class WriterLock:
    """A context manager that holds the lock. It creates the side files at its first use and never removes them.

    An exception out of a signal handler can end any step, so `release` does not depend on which steps were taken: the
    two locks of the process know their thread, and unlocking a file that is not locked does nothing.

    Args:
        path: the path of the file to write.
        timeout: how long to wait for the lock, in seconds.

    Raises:
        Throttled: on entry, if another writer holds the lock for longer; the message names its process.
        BackendError: on entry, if something else is in the place of a side file, such as a symbolic link.
    """

    def __init__(self, path: Path, timeout: float) -> None:
        self._path = path
        self._timeout = timeout
        self._turn = RLock()
        self._thread = RLock()
        self._descriptors: list[int] = []
        self._closed = False

    def __enter__(self) -> None:
        try:
            self._acquire()
        except BaseException:
            self.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            self.release()
        except BaseException:  # of a signal handler
            self.release()
            raise

    @property
    def owned(self) -> bool:
        """Whether this thread holds the lock, or did and was interrupted when it released it."""
        return _owned(self._thread)

    def release(self) -> None:
        """Release what this thread holds. Idempotent; if it is interrupted, it can be called again."""
        if _owned(self._thread):
            for descriptor in self._descriptors:
                with suppress(OSError):  # Windows refuses to unlock what is not locked
                    _unlock(descriptor)
        _release(self._turn)
        _release(self._thread)  # only now: without it, the descriptors would stay locked
        if self._closed:
            self.close()

    def close(self) -> None:
        """Close the side files; if a thread holds the lock, it closes them on release. Idempotent."""
        self._closed = True
        if self._thread.acquire(blocking=False):
            try:
                self._close_files()
            finally:
                self._thread.release()

    def after_fork(self) -> None:
        """Reset the lock in a child process: the parent's threads do not exist here, and the parent keeps its locks."""
        self._turn = RLock()
        self._thread = RLock()
        self._close_files()

    def _acquire(self) -> None:
        end = monotonic() + self._timeout
        if not self._turn.acquire(timeout=self._timeout):
            raise self._kept("another thread of this process")
        if not self._thread.acquire(timeout=max(0.0, end - monotonic())):
            raise self._kept("another thread of this process")
        _release(self._turn)
        self._lock_files(end)

    def _close_files(self) -> None:
        # Each is removed from the list and closed by the same call of C, which no signal handler interrupts.
        with suppress(IndexError):
            any(map(os.close, iter(self._descriptors.pop, None)))

    def _open_files(self) -> None:
        self._close_files()  # an interrupted call may have opened one
        paths = [f"{self._path}-turn", f"{self._path}-lock"]
        prepare(self._path, paths)
        self._descriptors.extend(map(os.open, paths, repeat(LOCK_FLAGS)))
        for path, descriptor in zip(paths, self._descriptors, strict=True):
            check_lock(path, descriptor)

    def _lock_files(self, end: float) -> None:
        if len(self._descriptors) != 2:
            self._open_files()
        turn, lock = self._descriptors
        self._wait(turn, end)
        try:
            self._wait(lock, end)
        finally:
            _unlock(turn)
        with suppress(OSError):  # a full disk must not prevent a delete
            _note(lock, b"%-20d" % os.getpid())

    def _wait(self, descriptor: int, end: float) -> None:
        sleeps = 0
        while not _locked(descriptor):
            if monotonic() > end:
                raise self._kept(self._holder())
            sleep(SHORT_SECONDS if sleeps < SHORT_SLEEPS else LONG_SECONDS)
            sleeps += 1

    def _holder(self) -> str:
        with suppress(OSError, ValueError):
            lock = self._descriptors[1]
            os.lseek(lock, 0, os.SEEK_SET)
            return f"process {int(os.read(lock, 20))}"
        return "another process"

    def _kept(self, who: str) -> Throttled:
        return Throttled(
            f"file {self._path}: {who} has held the writer lock for more than {self._timeout:g} seconds; check whether "
            "it is stopped, and try again, or wait longer with LocalFile(path, timeout=...)"
        )
