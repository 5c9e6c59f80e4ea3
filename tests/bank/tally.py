"""What writers count in shared memory, so that it outlives a writer that is killed."""

from collections.abc import Iterator
from multiprocessing.sharedctypes import RawArray
from typing import Any, Final

COLUMNS: Final = (
    "acked",  # the number of the last transaction of which the writer knows that it was committed
    "begun",  # how often a writer has found out what is committed
    "committed",
    "refused",
    "throttled",
    "unknown",
    "failed",
    "reads",
    "visits begun",
    "visits done",
    "safe visits begun",
    "safe visits done",
    "attempts given up",
    "waits for others",
    "aborts of others",
    "locks resolved",
    "answers of locks lost",
    "answers of commits lost",
)


class Tally:
    """A table of numbers: a row for each writer, to which only it writes, and one for the log of each process."""

    def __init__(self, rows: int) -> None:
        self._numbers: Any = RawArray("q", rows * len(COLUMNS))
        self.stopped: Any = RawArray("b", 1)  # an Event has a lock, which a killed process might keep

    def get(self, row: int, column: str) -> int:
        """One number."""
        return int(self._numbers[row * len(COLUMNS) + COLUMNS.index(column)])

    def set(self, row: int, column: str, number: int) -> None:
        """Change one number."""
        self._numbers[row * len(COLUMNS) + COLUMNS.index(column)] = number

    def add(self, row: int, column: str) -> None:
        """One more."""
        self.set(row, column, self.get(row, column) + 1)

    def sums(self) -> Iterator[tuple[str, int]]:
        """The sum of each column."""
        for number, column in enumerate(COLUMNS):
            yield column, sum(self._numbers[number :: len(COLUMNS)])
