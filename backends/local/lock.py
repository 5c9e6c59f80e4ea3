"""The writer lock of a file: one writer at a time, among all threads and processes.

SQLite alone lets writers race for its lock with sleeps, and one of two busy processes may wait for seconds. Here they
stand in line for an operating system lock on a side file, which a process that dies lets go by itself.
"""

import os
import sys
from pathlib import Path
from threading import Lock

if sys.platform == "win32":
    import msvcrt
    import time

    def _lock(descriptor: int) -> None:
        while True:
            try:
                msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
            except OSError:  # taken: there is no call that waits without end
                time.sleep(0.002)
            else:
                return

    def _unlock(descriptor: int) -> None:
        os.lseek(descriptor, 0, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)

else:
    import fcntl

    def _lock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_EX)

    def _unlock(descriptor: int) -> None:
        fcntl.flock(descriptor, fcntl.LOCK_UN)


class WriterLock:
    """A context manager that holds the lock; the side file is made at its first use and stays.

    Args:
        path: the side file.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._threads = Lock()
        self._descriptor: int | None = None

    def __enter__(self) -> None:
        self._threads.acquire()
        try:
            if self._descriptor is None:
                self._descriptor = os.open(self._path, os.O_RDWR | os.O_CREAT, 0o666)
            _lock(self._descriptor)
        except BaseException:
            self._threads.release()
            raise

    def __exit__(self, *_: object) -> None:
        try:
            if self._descriptor is not None:
                _unlock(self._descriptor)
        finally:
            self._threads.release()

    def close(self) -> None:
        """Close the side file; may be called twice."""
        with self._threads:
            if self._descriptor is not None:
                os.close(self._descriptor)
                self._descriptor = None
