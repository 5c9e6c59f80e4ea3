"""Checks of the paths that odm opens for a database: it follows no link, and uses no file, that another user planted.

Whoever may create files in the folder of a database can put a link, a pipe, or a file of their own in the place of the
database or of a side file before odm creates it. odm would then write into the linked file, wait for the pipe, or
store items in a file that the other user can read. Linux has the same rules for folders in which all users can write,
as ``fs.protected_symlinks`` and ``fs.protected_regular`` (https://docs.kernel.org/admin-guide/sysctl/fs.html).
"""

import os
import stat
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path
from typing import Final

from odm.errors import BackendError

SIDE_FILES: Final = ("-wal", "-shm", "-journal")
"""The suffixes of the files that SQLite creates next to a database."""

PRIVATE: Final = 0o600
"""The mode of a new database; its side files get the mode of the database. Windows uses the rights of the folder."""

# Windows has none of these flags, and does not need O_NONBLOCK: its pipes are not files of a folder.
_SAFELY: Final = getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_NONBLOCK", 0) | getattr(os, "O_CLOEXEC", 0)

LOCK_FLAGS: Final = os.O_RDWR | _SAFELY
"""The flags to open a lock file: they do not follow a symbolic link and do not wait for a pipe."""


def resolved(path: Path) -> Path:
    """The path with symbolic links resolved; SQLite creates its side files next to it.

    Raises:
        BackendError: another user planted one of the links in a folder in which all users can write.
    """
    unseen, seen = [path], set[Path]()
    while unseen:
        place = unseen.pop()
        for part in (place, *place.parents):
            if part not in seen and os.path.islink(part):  # noqa: PTH114  # False for a path that cannot be read
                seen.add(part)
                if _is_foreign(os.lstat(part), part):
                    raise BackendError(
                        f"file {path}: {part} is a symbolic link of another user in a folder in which all users can "
                        "write; choose a path in a folder of your own"
                    )
                unseen.append(part.parent / part.readlink())
    return Path(os.path.realpath(path))


def create_private(path: Path) -> None:
    """Create an empty file that only its owner can read, unless the file exists.

    Raises:
        OSError: the folder is not writable.
    """
    _create(path, PRIVATE)


def check_own(path: Path) -> None:
    """Check that a database to write to is not a file that another user planted.

    Raises:
        BackendError: the file belongs to another user, in a folder in which all users can write.
    """
    with suppress(FileNotFoundError):
        if _is_foreign(os.lstat(path), path):
            raise _foreign(path)


def check_side_files(path: Path, sides: Iterable[str]) -> None:
    """Check that each side file of a database is missing, or a file that nobody planted.

    Raises:
        BackendError: one is a link, a pipe, a folder, has another name too, or belongs to another user.
    """
    for side in sides:
        with suppress(FileNotFoundError):
            _check_side(side, os.lstat(side), path)


def prepare(path: Path, locks: Iterable[str]) -> None:
    """Check the lock files of a database, and create those that are missing, with the mode of the database.

    Raises:
        BackendError: as for `check_side_files`.
        OSError: the folder is not writable.
    """
    mode = PRIVATE
    with suppress(FileNotFoundError):
        mode = stat.S_IMODE(path.stat().st_mode) & 0o666
    for lock in locks:
        check_side_files(path, [lock])
        _create(Path(lock), mode)


def check_lock(lock: str, descriptor: int) -> None:
    """Check an open lock file once more: it may have been replaced after `prepare`.

    Raises:
        BackendError: as for `check_side_files`.
    """
    _check_side(lock, os.fstat(descriptor))
    if sys.platform == "win32" and not os.path.samestat(os.fstat(descriptor), os.lstat(lock)):
        raise _in_place(lock)  # without O_NOFOLLOW, a link was followed


def _create(path: Path, mode: int) -> None:
    try:
        descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | _SAFELY, mode)
    except FileExistsError:  # another program was faster
        return
    try:
        if sys.platform != "win32":  # a umask may have removed rights that the group of a shared database needs
            os.fchmod(descriptor, mode)
    finally:
        os.close(descriptor)


def _check_side(side: str, status: os.stat_result, path: Path | None = None) -> None:
    """Check a side file; with ``path``, also its owner."""
    if not stat.S_ISREG(status.st_mode):
        raise _in_place(side)
    if status.st_nlink > 1:
        raise BackendError(f"file {side} has another name too (a hard link), so odm does not write to it; remove it")
    if path is not None and _is_foreign(status, Path(side), path):
        raise _foreign(Path(side))


def _in_place(side: str) -> BackendError:
    return BackendError(f"{side} is not a file, but a link, a folder or a pipe, so odm does not use it; remove it")


def _foreign(path: Path) -> BackendError:
    return BackendError(
        f"file {path} belongs to another user, in a folder in which all users can write; remove it, or choose a path "
        "in a folder of your own"
    )


def _is_foreign(status: os.stat_result, path: Path, database: Path | None = None) -> bool:
    """Whether another user planted a file: all users can write in its folder, and its owner is not trusted.

    Trusted are this user, root, the owner of the folder, and for a side file the owner of the database.
    """
    if sys.platform == "win32":
        return False
    folder = path.parent.stat()
    if not folder.st_mode & stat.S_IWOTH or status.st_uid in (os.geteuid(), 0, folder.st_uid):
        return False
    if database is not None:
        with suppress(FileNotFoundError):
            return status.st_uid != database.stat().st_uid
    return True
