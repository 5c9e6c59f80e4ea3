"""The progress of `odm.patterns.copy`, in a file that survives a kill."""

import json
import os
from pathlib import Path
from threading import Lock
from typing import Final

from attrs import define

from odm import BadValue

FORMAT: Final = 1
"""The version of the file's format."""


@define
class Part:
    """A part of the source: the position to continue from, None at its end, and the number of items written."""

    cursor: str | None
    items: int = 0


class State:
    """The progress of a copy, in a file that is replaced atomically, or in memory only."""

    def __init__(self, path: str | os.PathLike[str] | None) -> None:
        self._path = None if path is None else Path(path)
        self._lock = Lock()
        self._names: list[str] = []
        self.parts: list[Part] = []

    def load(self, names: list[str]) -> None:
        """Load the state of an earlier run, if there is one.

        Raises:
            BadValue: the file is not a state, or belongs to a copy between other stores.
        """
        self._names = names
        if self._path is None or not self._path.exists():
            return
        try:
            found = json.loads(self._path.read_text(encoding="utf-8"))
            held, kept = found["format"], found["stores"]
            self.parts = [Part(cursor, items) for cursor, items in found["parts"]]
        except (ValueError, LookupError, TypeError) as error:
            raise BadValue(f"{self._path} is not the state of a copy: name another file, or remove it") from error
        if held != FORMAT or kept != names:
            raise BadValue(f"{self._path} is the state of a copy from {kept[0]} to {kept[1]}: name another file")

    def save(self) -> None:
        """Write the state durably."""
        if self._path is None:
            return
        with self._lock:
            content = {"format": FORMAT, "stores": self._names, "parts": [[p.cursor, p.items] for p in self.parts]}
            # A unique name, in case a second copy runs with the same state file.
            new = self._path.with_name(f"{self._path.name}.{os.getpid()}.{id(self)}.new")
            with new.open("w", encoding="utf-8") as file:
                json.dump(content, file)
                file.flush()
                os.fsync(file.fileno())
            new.replace(self._path)

    def remove(self) -> None:
        """Delete the file: the copy is complete."""
        if self._path is not None:
            self._path.unlink(missing_ok=True)
