"""Many writers of one item: each waits for its turn or tries again, and none gets a Conflict."""
# ruff: noqa: D101  # a test's name says what it shows

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor

from odm import AsyncStore, Store, increment
from odm.testing.bridge import blocking_call
from odm.testing.capabilities import needs
from odm.testing.entities import Ticket
from odm.testing.suite.indexes import KEY, TICKET, but, entries, expected

WRITERS = 70
"""Writers that all read the item at once: without turns, some would have to try as often."""


def _in_threads(db: Store) -> None:
    with ThreadPoolExecutor(WRITERS) as pool:
        list(pool.map(lambda _: db.update(KEY, increment(Ticket.level)), range(WRITERS)))


async def _in_tasks(db: AsyncStore) -> None:
    await asyncio.gather(*(db.update(KEY, increment(Ticket.level)) for _ in range(WRITERS)))


all_increment: Callable[[Store], None] = blocking_call(_in_threads, _in_tasks)


@needs("indexes", "updates")
class TestContention:
    def test_writers_that_increment_a_field_of_an_index_key_all_succeed(self, indexed: Store) -> None:
        indexed.put(but(level=0))
        all_increment(indexed)
        assert indexed.one(KEY).level == WRITERS
        assert entries(indexed)["date"] == expected(TICKET)["date"]
        assert [ticket.level for ticket in indexed.query(Ticket.by_level(status="open", level=WRITERS))] == [WRITERS]
