"""The progress of `odm.patterns.copy`, in a file that survives a kill."""

import os
from pathlib import Path
from threading import Lock
from typing import Final

from attrs import define
from pydantic import BaseModel, ValidationError

from odm import BadValue

FORMAT: Final = 1
"""The version of the file's format."""


@define
class Part:
    """A part of the source: the position to continue from, None at its end, and the number of items written."""

    cursor: str | None
    items: int = 0


class _Content(BaseModel):
    """What the file holds."""

    format: int
    stores: tuple[str, str]
    parts: list[tuple[str | None, int]]


class State:
    """The progress of a copy, in a file that is replaced atomically, or in memory only."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = None if path is None else Path(path)
        self._lock = Lock()
        self._names: list[str] = []
        self.parts: list[Part] = []

    def load(self, names: list[str]) -> None:
        """Load the state of an earlier run, if there is one, and see that the file can be written.

        Raises:
            BadValue: the file is not a state, belongs to a copy between other stores, or cannot be read or written.
        """
        self._names = names
        if self._path is None:
            return
        try:
            new = self._new(self._path)
            new.touch()
            new.unlink()
            if not self._path.exists():
                return
            found = _Content.model_validate_json(self._path.read_bytes())
        except OSError as error:
            raise BadValue(f"{self._path} cannot be used ({error.strerror}): name another file") from error
        except ValidationError as error:
            raise BadValue(f"{self._path} is not the state of a copy: name another file") from error
        if found.format != FORMAT or found.stores != tuple(names):
            kept = " to ".join(found.stores)
            raise BadValue(f"{self._path} is the state of a copy from {kept}: name another file")
        self.parts = [Part(cursor, items) for cursor, items in found.parts]

    def _new(self, path: Path) -> Path:
        """The file that is written before it replaces the state: a unique name, in case a second copy runs with it."""
        return path.parent / f"{path.name}.{os.getpid()}.{id(self)}.new"

    def save(self) -> None:
        """Write the state durably."""
        if self._path is None:
            return
        with self._lock:
            parts = [(part.cursor, part.items) for part in self.parts]
            content = _Content(format=FORMAT, stores=tuple(self._names), parts=parts)  # type: ignore[arg-type]
            new = self._new(self._path)
            with new.open("w", encoding="utf-8") as file:
                file.write(content.model_dump_json())
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)

    def remove(self) -> None:
        """Delete the file: the copy is complete."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
