"""The progress of `odm.patterns.copy` and `odm.patterns.derive`, in a file that survives a kill."""

import os
from collections.abc import Callable
from threading import Lock
from typing import Any, Final

from attrs import define, field
from pydantic import BaseModel

from odm import BadValue
from odm.patterns.state_file import StateFile
from odm.patterns.two_stores import Call, Concurrent, Steps

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
    """The progress of work between two stores, in a file that is replaced atomically, or in memory only.

    Args:
        path: of the file; None: nothing is recorded.
        of: what has the state, for messages.
    """

    def __init__(self, path: str | os.PathLike[str] | None, of: str = "a copy") -> None:
        self._file = StateFile(path, _Content, of)
        self._of = of
        self._lock = Lock()
        self._names: list[str] = []
        self.parts: list[Part] = []

    def load(self, names: list[str]) -> None:
        """Load the state of an earlier run, if there is one, and see that the file can be written.

        Raises:
            BadValue: the file is not a state, belongs to work between other stores, or cannot be read or written.
        """
        self._names = names
        content = self._file.load()
        if content is None:
            return
        if content.format != FORMAT or content.stores != tuple(names):
            kept = " to ".join(content.stores)
            raise BadValue(f"{self._file.path} is the state of {self._of} from {kept}: name another file")
        self.parts = [Part(cursor, items) for cursor, items in content.parts]

    def save(self) -> None:
        """Write the state durably."""
        with self._lock:
            parts = [(part.cursor, part.items) for part in self.parts]
            self._file.save(_Content(format=FORMAT, stores=tuple(self._names), parts=parts))  # type: ignore[arg-type]

    def remove(self) -> None:
        """Delete the file: the work is complete."""
        self._file.remove()


@define
class Work:
    """The work on the parts of a source at the same time, recorded after each page.

    Attributes:
        state: the parts.
        tell: called after each page with the items written, the parts, those of them that are complete, and the items
            read to compare both sides; one call at a time, from several threads.
        compared: the items read to compare both sides.
    """

    state: State
    tell: Callable[[int, int, int, int], object]
    compared: int = 0
    _lock: Any = field(factory=Lock, init=False)

    @property
    def items(self) -> int:
        """The items written, including earlier runs."""
        return sum(part.items for part in self.state.parts)

    def begin(self, cursors: list[str]) -> Steps[None]:
        """Begin with the parts at these cursors."""
        self.state.parts = [Part(cursor) for cursor in cursors]
        yield Call(self.state.save)

    def steps(self, page: Callable[[str], Steps[tuple[str | None, int]]]) -> Steps[None]:
        """Continue every part to its end.

        Args:
            page: steps that do the work of the page at a cursor, and return the next cursor and the items written.
        """
        yield Concurrent([self._part(part, page) for part in self.state.parts])

    def _part(self, part: Part, page: Callable[[str], Steps[tuple[str | None, int]]]) -> Steps[None]:
        while part.cursor is not None:
            following, items = yield from page(part.cursor)
            # After the page is written: a run that is stopped in between writes it again, and omits nothing.
            part.cursor, part.items = following, part.items + items
            yield Call(self.state.save)
            self._told()

    def compare(self, items: int) -> None:
        """Count items read to compare both sides."""
        with self._lock:
            self.compared += items
        self._told()

    def _told(self) -> None:
        all_ = self.state.parts
        with self._lock:
            done = sum(part.cursor is None for part in all_)
            self.tell(self.items, len(all_), done, self.compared)
