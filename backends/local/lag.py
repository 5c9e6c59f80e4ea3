"""Eventually consistent indexes, for ``Memory(index_lag=...)``: they lag like global secondary indexes of DynamoDB.

The table has a delayed copy of itself. Changes wait in a queue until they are due, and are then applied to the copy.
Queries on an index read entries and items from the copy. Reads by key use the table itself.
"""

from collections import deque
from collections.abc import Callable, Collection, Sequence

from odm.backends.local.memory import MemoryTable
from odm.backends.local.storage import Change, Rows
from odm.protocol.requests import Query


class LaggingTable(MemoryTable):
    """A table whose indexes show an earlier state, except in consistent reads.

    Args:
        clock: returns the time in seconds.
        lag: the indexes show a change after this many seconds.
    """

    def __init__(self, clock: Callable[[], float], lag: float) -> None:
        super().__init__()
        self._clock = clock
        self._lag = lag
        self._then = MemoryTable()
        self._waiting: deque[tuple[float, Sequence[Change]]] = deque()
        self._due = 0.0

    def add_indexes(self, names: Collection[str]) -> None:
        super().add_indexes(names)
        self._then.add_indexes(names)

    def apply(self, changes: Sequence[Change]) -> None:
        self._due = self._clock() + self._lag
        super().apply(changes)

    def _finish(self) -> None:
        changes = self._journal
        if not self._waiting or self._waiting[-1][1] is not changes:  # else the queue has them already
            self._waiting.append((self._due, changes))
        super()._finish()

    def rows(self, query: Query) -> Rows:
        if query.index is None or query.consistent:
            return super().rows(query)
        if self._journal:
            self._finish()
        now = self._clock()
        while self._waiting and self._waiting[0][0] <= now:
            self._then.apply(self._waiting[0][1])  # before it leaves the queue: it can be repeated, but not lost
            self._waiting.popleft()
        return self._then.rows(query)
