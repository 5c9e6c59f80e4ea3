"""The progress of `odm.patterns.copy`, in a file that survives a kill."""

import os
from threading import Lock
from typing import Final

from attrs import define
from pydantic import BaseModel

from odm import BadValue
from odm.patterns.state_file import StateFile

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
        self._file = StateFile(path, _Content, "a copy")
        self._lock = Lock()
        self._names: list[str] = []
        self.parts: list[Part] = []

    def load(self, names: list[str]) -> None:
        """Load the state of an earlier run, if there is one, and see that the file can be written.

        Raises:
            BadValue: the file is not a state, belongs to a copy between other stores, or cannot be read or written.
        """
        self._names = names
        found = self._file.load()
        if found is None:
            return
        if found.format != FORMAT or found.stores != tuple(names):
            kept = " to ".join(found.stores)
            raise BadValue(f"{self._file.path} is the state of a copy from {kept}: name another file")
        self.parts = [Part(cursor, items) for cursor, items in found.parts]

    def save(self) -> None:
        """Write the state durably."""
        with self._lock:
            parts = [(part.cursor, part.items) for part in self.parts]
            self._file.save(_Content(format=FORMAT, stores=tuple(self._names), parts=parts))  # type: ignore[arg-type]

    def remove(self) -> None:
        """Delete the file: the copy is complete."""
        self._file.remove()
