"""`Blobs`: where a store keeps large values, through fsspec: a local folder, S3, Google Cloud Storage, ..."""

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import UTC, datetime
from functools import cached_property, partial
from secrets import token_hex
from typing import Any, Final, Literal, TypeVar

from attrs import define, field
from pydantic import BaseModel, ValidationError

from odm._published import public
from odm.codec.types.blobs import is_name
from odm.errors import BackendError, BadValue, OdmError, Unsupported, brief
from odm.protocol.blobs import BlobFolder, Listed
from odm.protocol.requests import TableIdentity

R = TypeVar("R")

MARKER: Final = "odm-table.json"
"""The file in a folder of blobs that names their table; no blob has such a name."""

FORMAT: Final = 1
"""The version of the marker."""

MOST_BYTES: Final = 4096
"""The most bytes of a marker."""

PLACE: Final = 500
"""The most characters of the place of a table that a marker has."""

_TIMES: Final = ("LastModified", "last_modified", "mtime", "updated", "created")
"""The names under which file systems of fsspec report when a file was written, in order of preference."""


@public
class Blobs:
    """The place of large values, with the options of its file system: ``Blobs("s3://bucket/prefix", anon=False)``.

    Args:
        url: the path of a local folder, or a URL that fsspec knows, such as ``s3://bucket/prefix``. S3 needs the
            package s3fs, Google Cloud Storage gcsfs.
        options: arguments of the file system, such as ``endpoint_url`` or ``profile`` for S3.

    Raises:
        BadValue: the URL is empty or not text.
    """

    def __init__(self, url: str | os.PathLike[str], **options: Any) -> None:
        text = os.fspath(url) if isinstance(url, str | os.PathLike) else ""
        if not isinstance(text, str) or not text.strip("/"):
            raise BadValue(f'blobs={url!r}: give the path of a folder or a URL, as in "s3://bucket/prefix"')
        self.url = text if text.endswith("://") else text.rstrip("/")
        self.options: Mapping[str, Any] = options

    @classmethod
    def of(cls, argument: object) -> "Blobs | None":
        """The argument ``blobs=`` of a store; None: it has no place for them.

        Raises:
            BadValue: it is not a place for blobs.
        """
        if argument is None or isinstance(argument, Blobs):
            return argument
        if not isinstance(argument, str | os.PathLike):
            raise BadValue(f"blobs={brief(argument)}: give the path of a folder, a URL, or Blobs(url, **options)")
        return cls(argument)

    def __repr__(self) -> str:
        return f"Blobs({self.url!r})"

    def folder(self, table: str) -> BlobFolder:
        """The blobs of one table; connects at the first use."""
        return _Folder(self, table)


class _Owner(BaseModel):
    """The content of a marker: the table to which the blobs of a folder belong. Anybody may have written it."""

    format: Literal[1]
    parts: dict[str, str]
    place: str = ""

    def __str__(self) -> str:
        return f"table {self.parts['table'][:80]!r} of {(self.place or self.parts['backend'])[:200]!r}"


def _owner(data: bytes) -> _Owner | None:
    """The content of a marker; None if it is damaged."""
    try:
        owner = _Owner.model_validate_json(data)
    except ValidationError:
        return None
    return owner if owner.parts.keys() >= {"backend", "table"} else None


@define(slots=False, unsafe_hash=True)
class _Folder:
    """The blobs of one table: a file each, in a folder with the name of the table.

    Attributes:
        claimed: whether the marker of the table was seen.
    """

    blobs: Blobs
    table: str
    claimed: bool = field(init=False, default=False, repr=False, eq=False)
    _known_folders: set[str] = field(init=False, factory=set, repr=False, eq=False)

    @cached_property
    def _system(self) -> tuple[Any, str]:
        """The file system, and the path of the folder in it."""
        try:
            from fsspec.core import url_to_fs  # type: ignore[import-untyped, unused-ignore]
        except ModuleNotFoundError as missing:
            raise Unsupported(
                f"{self.blobs!r}: a store with blobs= needs fsspec: pip install 'single-table-odm[blobs]'"
            ) from missing
        try:
            system, path = url_to_fs(self.blobs.url, **self.blobs.options)
        except ImportError as missing:
            raise Unsupported(
                f"{self.blobs!r}: the package of its file system is missing: {missing} (pip install s3fs for S3, pip "
                "install gcsfs for Google Cloud Storage)"
            ) from missing
        except (TypeError, ValueError) as error:
            raise BadValue(f"{self.blobs!r} cannot be opened: {error}") from error
        return system, f"{str(path).rstrip('/')}/{self.table}"

    @property
    def _is_local(self) -> bool:
        protocol = self._system[0].protocol
        return "file" in ((protocol,) if isinstance(protocol, str) else protocol)

    def write(self, name: str, data: bytes) -> None:
        """Store a blob; it is durable when this returns."""
        system, folder = self._system
        if self._is_local:
            self._call("written", name, lambda: self._write_file(os.path.join(folder, name), data))  # noqa: PTH118
        else:
            self._call("written", name, lambda: system.pipe_file(f"{folder}/{name}", data))

    def _write_file(self, path: str, data: bytes) -> None:
        """Write a file and wait until it is on disk: the item that refers to it may be as durable."""
        folder = os.path.dirname(path)  # noqa: PTH120  # the path of fsspec
        if folder not in self._known_folders:
            for new_folder in _make_folders(folder):
                _sync_folder(os.path.dirname(new_folder))  # noqa: PTH120
            self._known_folders.add(folder)
        with open(path, "xb") as file:  # noqa: PTH123
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(folder)  # without it, the file may have no name after a loss of power

    def read(self, name: str) -> bytes | None:
        """The content of a blob; None if it does not exist."""
        system, folder = self._system
        return self._call("read", name, lambda: _existing(lambda: bytes(system.cat_file(f"{folder}/{name}"))))

    def remove(self, name: str) -> None:
        """Remove a blob; no error if it does not exist."""
        system, folder = self._system
        self._call("removed", name, lambda: _existing(lambda: system.rm_file(f"{folder}/{name}")))

    def listed(self) -> Iterator[Listed]:
        """Every blob."""
        system, folder = self._system
        # fsspec caches listings, and other programs write to the folder.
        self._call("listed", folder, lambda: system.invalidate_cache(folder))
        find = partial(system.find, folder, maxdepth=1, detail=True)
        for path, info in (self._call("listed", folder, lambda: _existing(find)) or {}).items():
            name = str(path).replace(os.sep, "/").rpartition("/")[2]
            if is_name(name):  # other files are not of odm
                written = self._call("listed", name, partial(_written, system, path, info))
                yield Listed(name, written, int(info.get("size") or 0))

    def check(self, table: TableIdentity) -> None:
        """Check that the folder belongs to a table: its marker names it, or there is no marker.

        Raises:
            BadValue: the marker names another table, or is damaged.
        """
        data = self._marker()
        self.claimed = False
        if data is None:
            return
        if (owner := _owner(data)) is None:
            raise BadValue(
                f"{self._place}: its marker {MARKER} cannot be read, so it is not known to which table the blobs "
                f"belong: if they belong to table {self.table!r} of {table.place}, remove {MARKER} and try again"
            )
        if not table.is_of(owner.parts):
            raise BadValue(
                f"{self._place} belongs to {owner}, not to table {self.table!r} of {table.place}: give each database a "
                f"place of its own with blobs=. If the table was moved here with its blobs, and nothing else uses the "
                f"folder, remove the file {MARKER} in it: the next program that writes a blob marks it again"
            )
        self.claimed = True

    def claim(self, table: TableIdentity) -> None:
        """As `check`, and write the marker if there is none."""
        self.check(table)
        if self.claimed:
            return
        place = table.place[:PLACE].encode("utf-8", "backslashreplace").decode()
        data = _Owner(format=FORMAT, parts=dict(table.parts), place=place).model_dump_json(indent=1).encode()
        self._call("written", MARKER, partial(self._write_marker, data))
        self.check(table)  # the marker may be another than this, if two programs wrote one at once

    def _write_marker(self, data: bytes) -> None:
        """Write the marker, unless there is one."""
        system, folder = self._system
        path = f"{folder}/{MARKER}"
        with suppress(FileExistsError):  # another program was faster
            if not self._is_local:
                try:
                    system.pipe_file(path, data, mode="create")
                except TypeError:  # a file system without this mode
                    system.pipe_file(path, data)
                return
            part = f"{path}-{token_hex(8)}"
            self._write_file(part, data)
            try:
                os.link(part, path)  # a marker is complete when it appears, and replaces no other
            except FileExistsError:
                raise
            except OSError:  # a file system without links
                os.rename(part, path)  # noqa: PTH104
            finally:
                with suppress(FileNotFoundError):
                    os.unlink(part)  # noqa: PTH108
            _sync_folder(folder)

    def _marker(self) -> bytes | None:
        """The marker; None if there is none."""
        system, folder = self._system
        # As in `listed`: another program may have written the marker since.
        self._call("read", MARKER, lambda: system.invalidate_cache(folder))
        return self._call("read", MARKER, partial(_existing, partial(self._read_marker, f"{folder}/{MARKER}")))

    def _read_marker(self, path: str) -> bytes:
        """The marker; nothing if it cannot be one, such as a pipe, which would block, or a very large file."""
        system = self._system[0]
        info = system.info(path)
        if info["type"] != "file" or info.get("islink") or (info.get("size") or 0) > MOST_BYTES:
            return b""
        return bytes(system.cat_file(path))

    @property
    def _place(self) -> str:
        return f"{self.blobs!r}: the folder {self.table!r}"

    def _call(self, done: str, name: str, call: Callable[[], R]) -> R:
        try:
            return call()
        except OdmError:
            raise
        except Exception as error:  # each file system has errors of its own
            raise BackendError(
                f"{self.blobs!r}: the blob {name} of table {self.table!r} could not be {done}: "
                f"{type(error).__name__}: {error}"
            ) from error


def _make_folders(folder: str) -> list[str]:
    """Make a folder and those above it; returns those that were missing."""
    missing: list[str] = []
    while folder and not os.path.isdir(folder):  # noqa: PTH112
        missing.append(folder)
        folder = os.path.dirname(folder)  # noqa: PTH120
    if missing:
        os.makedirs(missing[0], exist_ok=True)  # noqa: PTH103
    return missing


def _sync_folder(folder: str) -> None:
    """Make the names in a folder durable."""
    if os.name != "posix":
        return
    descriptor = os.open(folder or os.curdir, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _existing(call: Callable[[], R]) -> R | None:
    try:
        return call()
    except FileNotFoundError:
        return None


def _written(system: Any, path: str, info: Mapping[str, Any]) -> float:
    """When a file was written, in seconds since the epoch."""
    value = next((info[name] for name in _TIMES if info.get(name) is not None), None)
    value = system.modified(path) if value is None else value
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        value = (value if value.tzinfo is not None else value.replace(tzinfo=UTC)).timestamp()
    return float(value)
