"""Write sharding (Google: key salting): spread one partition over several, for more writes than one supports.

::

    class Event(Entity, table=events):
        event_id: str
        status: Literal["new", "done"] = "new"
        at: datetime

        primary = PrimaryKey("EVENT#{event_id}")
        by_status = AccessPattern("STATUS#{status}", "{at}#{event_id}", shards=Shards(8, by="event_id"))


    class Visit(Entity, table=events):
        at: datetime
        visitor: str

        primary = PrimaryKey("VISITS#{at:%Y%m%d}", "{at}#{visitor}", shards=Shards(4, by="visitor"))

The shard is built into odm: a component after the partition template, as wide as the largest number:

| item | pk, sk | by_statuspk, by_statussk |
|---|---|---|
| an event | EVENT#e7, Event | STATUS#new#2, 2026-01-05T07:00:00.000000Z#e7 |
| a visit | VISITS#20260105#1, 2026-01-05T03:00:00.000000Z#v3 | |

**When.** Many writes go to few partitions: orders of the day, events of a status, whatever ``odm lint`` calls hot. A
partition takes 1,000 writes a second on DynamoDB. On Bigtable rows that follow one another are on one node, so writes
in the order of time are all at its end; n shards are n ends. Where reads ask for one user or device in any case, put
that in front instead (field promotion): it spreads as well, and a query reads one partition.

**Computed or random.** With ``by=`` the shard is CRC-32 of the field modulo the count, so a query with it reads one
shard. ``Shards(8)`` draws one at every write of an index entry. The primary key needs a field, as the item must be
found again; for random shards, add a random field: ``salt: int = Field(default_factory=lambda: randrange(200))``.

| operation, with n shards | DynamoDB, bundled engine | Bigtable |
|---|---|---|
| write; get, update, delete by key | as without shards | as without shards |
| query | n requests at a time, each 0.5 read units or more (1 of the table itself) | n calls, of an index up to 2n |
| query that knows the field | as without shards | as without shards |
| query while entries move from m shards | n + m requests, m of them first | n + m calls, up to 2n + 2m |
| ``db.reshard(query)``, a page of each shard | m requests | m calls where nothing is left, or up to 2m |
| and for each entry that moves | 1 request, 3 write units, and 1 in each other index of whole items | 3 calls |

**More shards over live data**, or the first ones, on an access pattern:

1. ``Shards(16, by="event_id", was=8)``; ``was=1`` where there were none. Queries look in both places, writes use the
   new one. Where programs of the older model go on for a while, give all ``Shards(8, ..., was=16)`` before; their
   writes move entries back, which a query under way may then miss.
2. ``db.reshard(Event.by_status(status="new"))`` for each partition, or `move` for all that a scan finds. It may stop
   anywhere, run again, and run while others read and write.
3. When no program of the older model writes any more and it gives 0, drop ``was=``.

A concurrent query returns a moving entry once, if the new count is a multiple of the old, divides it, or has another
number of digits; else it may miss one. Of entries with equal sort keys, a page may repeat one that moved since the page
before. On DynamoDB indexes lag, and a query during a move may find the entry in neither shard.

**Limits.** 1,000 partitions per query, old and new shards. The count of a primary key cannot change, since an item
could be stored twice: to change it, read everything with the old model and put it into a table of another name.
It cannot be combined with ``keep=``, which needs the newest items in one partition.

Source: AWS, "Using write sharding to distribute workloads evenly in your DynamoDB table" (DynamoDB Developer Guide);
Google Cloud, "Cloud Bigtable schema optimization: key salting".
"""

from collections.abc import Callable
from typing import TypeVar

from odm import Calls, Entity, Gen, Query, procedure

E = TypeVar("E", bound=Entity)


@procedure
def move(do: Calls, entity: type[E], partition: Callable[[E], Query[E] | None]) -> Gen[int]:
    """Move the entries of a pattern to their new shards, in all partitions that a scan of the table finds.

    ::

        moved = db.run(move(Event, lambda event: Event.by_status(status=event.status)))

    Args:
        do: the operations of the store.
        entity: the entity whose entries to move.
        partition: returns the query of the partition of an item's entry; None: it has none.

    Returns:
        The number of moved entries. After a failure, run it again: it continues with the rest.

    Raises:
        BadValue: the pattern has no ``was=``.
    """
    asked: set[str] = set()
    moved, after = 0, None
    while True:
        page = yield from do.scan_page(after)
        for raw in page.items:
            query = partition(raw.entity) if raw.stale and isinstance(raw.entity, entity) else None
            if query is not None and str(query) not in asked:
                asked.add(str(query))
                moved += yield from do.reshard(query)
        if (after := page.cursor) is None:
            return moved
