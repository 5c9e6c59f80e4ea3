"""Errors of SQLite and the operating system → `odm.errors`, in two tables."""

import errno
import sqlite3
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, TypeAlias

from odm.errors import BackendError, OdmError, Throttled

FILE_ERRORS: Final = (sqlite3.Error, OSError, UnicodeDecodeError)
"""The errors of file access; UnicodeDecodeError if texts in the file, or in SQLite's messages, are damaged."""

_What: TypeAlias = tuple[type[OdmError], str]

_PRIMARY: Final = 0xFF
"""The low byte of an extended result code is the primary one: https://sqlite.org/rescode.html."""

_BUSY: Final = "another program has locked the file for too long; try again"
_DAMAGED: Final = "it is damaged; restore it from a copy"
_FULL: Final = "the disk is full, or a limit on file sizes is reached; free some space and try again"
_HANDLES: Final = "this process has too many files open; close stores that are not used, or raise the limit"
_READ_ONLY: Final = "the file or its folder is read-only; items can be read, but not written"
_UNREADABLE: Final = (
    "it cannot be opened; check the read and write permissions of the file, its -wal and -shm files, and the folder"
)

_SQLITE: Final[Mapping[int, _What]] = {
    sqlite3.SQLITE_BUSY: (Throttled, _BUSY),
    sqlite3.SQLITE_CANTOPEN: (BackendError, _UNREADABLE),
    sqlite3.SQLITE_CORRUPT: (BackendError, _DAMAGED),
    sqlite3.SQLITE_ERROR: (BackendError, _DAMAGED),  # odm's statements are valid unless its tables are damaged
    sqlite3.SQLITE_FULL: (BackendError, _FULL),
    sqlite3.SQLITE_IOERR: (BackendError, "the disk failed to read or write, or is full; see the system's log"),
    sqlite3.SQLITE_NOTADB: (BackendError, "it is not odm's, or it is damaged; choose another path"),
    sqlite3.SQLITE_PERM: (BackendError, _READ_ONLY),
    sqlite3.SQLITE_READONLY: (BackendError, _READ_ONLY),
}

_SYSTEM: Final[Mapping[int, _What]] = {
    errno.EACCES: (BackendError, _READ_ONLY),
    errno.EPERM: (BackendError, _READ_ONLY),
    errno.EROFS: (BackendError, _READ_ONLY),
    errno.ENOSPC: (BackendError, _FULL),
    errno.EDQUOT: (BackendError, _FULL),
    errno.EFBIG: (BackendError, _FULL),
    errno.EMFILE: (BackendError, _HANDLES),
    errno.ENFILE: (BackendError, _HANDLES),
}


def translated(error: Exception, path: Path | None) -> OdmError:
    """The error of odm for a failed access to the file.

    Args:
        error: an error of sqlite3, of the operating system, or of decoding damaged bytes.
        path: the path of the file.
    """
    unknown = (BackendError, "the request failed")
    match error:
        case sqlite3.Error():
            code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
            kind, reason = _SQLITE.get(code, unknown)
        case OSError():
            kind, reason = _SYSTEM.get(error.errno or 0, unknown)
        case _:
            kind, reason = BackendError, _DAMAGED
    return kind(f"file {path}: {reason} ({error})")


@contextmanager
def translating(path: Path) -> Iterator[None]:
    """A block that translates errors of SQLite and of the operating system into odm's."""
    try:
        yield
    except FILE_ERRORS as error:
        raise translated(error, path) from error
