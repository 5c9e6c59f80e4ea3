"""From errors of SQLite and the operating system to those of odm: one table."""

import sqlite3
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from odm.errors import BackendError, OdmError, Throttled

_PRIMARY: Final = 0xFF
"""The low byte of an extended result code is the primary one: https://sqlite.org/rescode.html."""

_CODES: Final[Mapping[int, tuple[type[OdmError], str]]] = {
    sqlite3.SQLITE_BUSY: (Throttled, "another program has kept the file locked for too long; try again"),
    sqlite3.SQLITE_CANTOPEN: (BackendError, "it can not be opened; check that the folder is there and may be written"),
    sqlite3.SQLITE_CORRUPT: (BackendError, "it is damaged; restore it from a copy"),
    sqlite3.SQLITE_FULL: (BackendError, "the disk is full"),
    sqlite3.SQLITE_IOERR: (BackendError, "the disk failed to read or write"),
    sqlite3.SQLITE_NOTADB: (BackendError, "it is not a file of odm, or damaged; choose another path"),
    sqlite3.SQLITE_PERM: (BackendError, "the permissions of the file do not allow it"),
    sqlite3.SQLITE_READONLY: (BackendError, "the file or its folder may not be written"),
}


def translated(error: sqlite3.Error | OSError, path: Path | None) -> OdmError:
    """The error of odm that says what happened to the file at ``path``."""
    code = getattr(error, "sqlite_errorcode", 0) & _PRIMARY
    kind, what = _CODES.get(code, (BackendError, "the request failed"))
    return kind(f"file {path}: {what} ({error})")
