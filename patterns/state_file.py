"""The progress of a long run, in a file that survives a kill: for copies, and for the backfills of the command line."""

import os
from pathlib import Path
from typing import Generic, TypeVar

from pydantic import BaseModel, ValidationError

from odm import BadValue

M = TypeVar("M", bound=BaseModel)


class StateFile(Generic[M]):
    """A file that is replaced atomically.

    Args:
        path: its path; None: nothing is recorded.
        content: the model of what it holds.
        of: what has the state, for messages: "a copy".
    """

    def __init__(self, path: str | os.PathLike[str] | None, content: type[M], of: str) -> None:
        self.path = None if path is None else Path(path)
        self._content = content
        self._of = of

    def load(self) -> M | None:
        """What an earlier run recorded, if there is anything; also sees that the file can be written.

        Raises:
            BadValue: the file is not such a state, or cannot be read or written.
        """
        if self.path is None:
            return None
        try:
            new = self._new(self.path)
            new.touch()
            new.unlink()
            return self._content.model_validate_json(self.path.read_bytes()) if self.path.exists() else None
        except OSError as error:
            raise BadValue(f"{self.path} cannot be used ({error.strerror}): name another file") from error
        except ValidationError as error:
            raise BadValue(f"{self.path} is not the state of {self._of}: name another file") from error

    def _new(self, path: Path) -> Path:
        """The file that is written before it replaces the state: a unique name, in case a second run has the state."""
        return path.parent / f"{path.name}.{os.getpid()}.{id(self)}.new"

    def save(self, content: M) -> None:
        """Write the state durably."""
        if self.path is None:
            return
        new = self._new(self.path)
        with new.open("w", encoding="utf-8") as file:
            file.write(content.model_dump_json())
            file.flush()
            # Before the rename: otherwise the name may lead to an empty file after a loss of power.
            os.fsync(file.fileno())
        new.replace(self.path)

    def remove(self) -> None:
        """Delete the file: the run is complete."""
        if self.path is not None:
            self.path.unlink(missing_ok=True)
