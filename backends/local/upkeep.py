"""Maintenance of a whole file: compact it, and copy it while it is in use."""

import os
import shutil
import sqlite3
import tempfile
from collections.abc import Iterator
from contextlib import closing, contextmanager, suppress
from pathlib import Path
from typing import Final

from odm.backends.local.clients import Connections, Loan
from odm.backends.local.errors import translating
from odm.backends.local.opening import has_id
from odm.errors import BackendError
from odm.immutable import Immutable

STEP_PAGES: Final = 1024
"""The number of pages that are copied in one step; Ctrl-C takes effect between two steps."""


class Compaction(Immutable):
    """The result of `LocalFile.compact`.

    Attributes:
        before: bytes on disk before, including the write-ahead log.
        after: bytes on disk after, including the write-ahead log.
    """

    before: int
    after: int


def compact(path: Path, timeout: float) -> Compaction:
    """Rewrite the file without the space of deleted items; see `LocalFile.compact`."""
    with (
        translating(path),
        closing(Connections(path, timeout)) as connections,
        Loan(connections, writes=True) as connection,
    ):
        before = _bytes_of(path)
        connection.execute("VACUUM")
        connection.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        return Compaction(before, _bytes_of(path))


def copy(path: Path, to: Path, timeout: float) -> None:
    """Copy a consistent snapshot of the file; see `LocalFile.copy`."""
    for suffix in ("", "-wal", "-journal"):  # SQLite would apply an old file's log to the copy
        if os.path.lexists(f"{to}{suffix}"):
            raise _taken(to.with_name(to.name + suffix))
    if not to.parent.is_dir():
        raise BackendError(f"file {to}: there is no folder {to.parent}; create it first")
    with (
        translating(path),
        closing(Connections(path, timeout)) as connections,
        Loan(connections) as source,
        translating(to),
        _beside(to) as part,
    ):
        _back_up(source, part)
        _sync(part)
        shutil.copymode(path, part)
        _put_in_place(part, to)


def _back_up(source: sqlite3.Connection, part: Path) -> None:
    # One read transaction, which the first SELECT starts. Without it, each commit of a writer restarts the copy.
    source.execute("BEGIN")
    source.execute("SELECT 1 FROM sqlite_schema").fetchone()
    with closing(sqlite3.connect(part, isolation_level=None)) as target:
        source.backup(target, pages=STEP_PAGES)
        if has_id(target):  # the copy is another database, and gets an id of its own when it needs one
            target.execute("DELETE FROM identity")
        target.execute("PRAGMA journal_mode = WAL")


@contextmanager
def _beside(to: Path) -> Iterator[Path]:
    """A new empty file in the same folder, removed at the end if it still exists."""
    descriptor, name = tempfile.mkstemp(dir=to.parent, prefix=f"{to.name}-", suffix=".part")
    os.close(descriptor)
    part = Path(name)
    try:
        yield part
    finally:
        for suffix in ("", "-journal", "-wal", "-shm"):
            part.with_name(part.name + suffix).unlink(missing_ok=True)


def _put_in_place(part: Path, to: Path) -> None:
    """Give a finished file its name, durably, unless the name is taken."""
    try:
        os.link(part, to)  # unlike a rename, it never replaces another file
    except FileExistsError:
        raise _taken(to) from None
    except OSError:  # a file system without links
        if os.path.lexists(to):
            raise _taken(to) from None
        part.rename(to)
    with suppress(OSError):  # Windows cannot open folders, and does not need it
        _sync(to.parent)


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY if path.is_dir() else os.O_RDWR)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _taken(to: Path) -> BackendError:
    return BackendError(f"file {to} already exists; choose another path, or remove it first")


def _bytes_of(path: Path) -> int:
    files = (path, path.with_name(f"{path.name}-wal"))
    return sum(file.stat().st_size for file in files if file.exists())
