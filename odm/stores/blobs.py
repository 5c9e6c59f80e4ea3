"""`Blobs`: where a store keeps large values, through fsspec: a local folder, S3, Google Cloud Storage, ..."""

import os
from collections.abc import Callable, Iterator, Mapping
from datetime import UTC, datetime
from functools import cached_property, partial
from typing import Any, Final, TypeVar

from attrs import field, frozen

from odm.codec.blobs import is_name
from odm.errors import BackendError, BadValue, OdmError, Unsupported
from odm.protocol.blobs import BlobFolder

R = TypeVar("R")

_TIMES: Final = ("LastModified", "last_modified", "mtime", "updated", "created")
"""The names under which file systems of fsspec report when a file was written, in order of preference."""


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
    def of(cls, given: object) -> "Blobs | None":
        """The argument ``blobs=`` of a store; None: it has no place for them.

        Raises:
            BadValue: it is not a place for blobs.
        """
        if given is None or isinstance(given, Blobs):
            return given
        if not isinstance(given, str | os.PathLike):
            raise BadValue(f"blobs={given!r}: give the path of a folder, a URL, or Blobs(url, **options)")
        return cls(given)

    def __repr__(self) -> str:
        return f"Blobs({self.url!r})"

    def folder(self, table: str) -> BlobFolder:
        """The blobs of one table; connects at the first use."""
        return _Folder(self, table)


@frozen(slots=False)
class _Folder:
    """The blobs of one table: a file each, in a folder with the name of the table."""

    blobs: Blobs
    table: str
    _made: set[str] = field(init=False, factory=set, repr=False, eq=False)

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
        if folder not in self._made:
            for made in _make_folders(folder):
                _sync_folder(os.path.dirname(made))  # noqa: PTH120
            self._made.add(folder)
        with open(path, "xb") as file:  # noqa: PTH123
            file.write(data)
            file.flush()
            os.fsync(file.fileno())
        _sync_folder(folder)

    def read(self, name: str) -> bytes | None:
        """The content of a blob; None if it does not exist."""
        system, folder = self._system
        return self._call("read", name, lambda: _existing(lambda: bytes(system.cat_file(f"{folder}/{name}"))))

    def remove(self, name: str) -> None:
        """Remove a blob; no error if it does not exist."""
        system, folder = self._system
        self._call("removed", name, lambda: _existing(lambda: system.rm_file(f"{folder}/{name}")))

    def names(self) -> Iterator[tuple[str, float]]:
        """The name of every blob, and when it was written, in seconds since the epoch."""
        system, folder = self._system
        self._call("listed", folder, lambda: system.invalidate_cache(folder))
        find = partial(system.find, folder, maxdepth=1, detail=True)
        for path, info in (self._call("listed", folder, lambda: _existing(find)) or {}).items():
            name = str(path).replace(os.sep, "/").rpartition("/")[2]
            if is_name(name):  # other files are not of odm
                yield name, self._call("listed", name, partial(_written, system, path, info))

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
