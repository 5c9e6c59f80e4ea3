"""Eventually consistent indexes, for ``Memory(index_lag=...)``: they lag like global secondary indexes of DynamoDB.

The table has a delayed copy of itself. Changes wait in a queue until they are due, and are then applied to the copy.
Queries on an index read entries and items from the copy. Reads by key use the table itself.
"""

from collections import deque
from collections.abc import Callable, Collection
from functools import partial

from odm.backends.local.memory import MemoryTable
from odm.backends.local.storage import Record, Rows
from odm.protocol.requests import Key, Query


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
        self._waiting: deque[tuple[float, Callable[[], None]]] = deque()
        self._due: float | None = None

    def __exit__(self, *_: object) -> None:
        self._due = None
        super().__exit__()

    def add_indexes(self, names: Collection[str]) -> None:
        super().add_indexes(names)
        self._then.add_indexes(names)

    def put(self, key: Key, record: Record) -> None:
        super().put(key, record)
        self._later(partial(self._then.put, key, record))

    def delete(self, key: Key) -> None:
        super().delete(key)
        self._later(partial(self._then.delete, key))

    def link(self, index: str, index_key: Key, key: Key) -> None:
        super().link(index, index_key, key)
        self._later(partial(self._then.link, index, index_key, key))

    def unlink(self, index: str, index_key: Key, key: Key) -> None:
        super().unlink(index, index_key, key)
        self._later(partial(self._then.unlink, index, index_key, key))

    def rows(self, query: Query) -> Rows:
        if query.index is None or query.consistent:
            return super().rows(query)
        now = self._clock()
        while self._waiting and self._waiting[0][0] <= now:
            self._waiting.popleft()[1]()
        return self._then.rows(query)

    def _later(self, change: Callable[[], None]) -> None:
        if self._due is None:  # one time for all changes of a block: the indexes show them together
            self._due = self._clock() + self._lag
        self._waiting.append((self._due, change))
