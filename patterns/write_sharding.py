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

odm appends the shard's number to the partition key, padded to the width of the largest number:

| item | pk, sk | by_statuspk, by_statussk |
|---|---|---|
| an event | EVENT#e7, Event | STATUS#new#2, 2026-01-05T07:00:00.000000Z#e7 |
| a visit | VISITS#20260105#1, 2026-01-05T03:00:00.000000Z#v3 | |

**When.** Many writes go to few partitions: orders of the day, events of a status, any key that ``odm lint`` calls hot.
A partition supports 1,000 writes a second on DynamoDB. On Bigtable adjacent rows are on one node, so all writes in the
order of time go to one node; n shards are n places to write to. If every read names a user or device, begin the key
with that field instead (field promotion): it spreads writes as well, and a query reads one partition.

**Computed or random.** With ``by=`` the shard is CRC-32 of the field modulo the count, so a query with that field reads
one shard. ``Shards(8)`` draws a shard at every write of an index entry. A primary key needs ``by=``, so that a get can
find the item; for random shards, add a random field: ``salt: int = Field(default_factory=lambda: randrange(200))``.

| operation, with n shards | DynamoDB, bundled engine | Bigtable |
|---|---|---|
| write; get, update, delete by key | as without shards | as without shards |
| query | n requests at a time, each 0.5 read units or more (1 of the table itself) | n calls, of an index up to 2n |
| query with a value of the ``by=`` field | as without shards | as without shards |
| query while entries move from m shards | n + m requests, m of them first | n + m calls, up to 2n + 2m |
| ``db.reshard(query)``, a page of each shard | m requests | m calls if no entry is left, or up to 2m |
| and for each entry that moves | 1 request, 3 write units, and 1 in each other index of whole items | 3 calls |

**More shards over live data**, or the first ones, on an access pattern:

1. Declare ``Shards(16, by="event_id", was=8)``; ``was=1`` if the pattern had no shards. Queries read the old and the
   new shards, writes use the new ones. If programs with the older model keep running for a while, first deploy
   ``Shards(8, ..., was=16)`` to all. Their writes move entries back, which a concurrent query may miss.
2. Run ``db.reshard(Event.by_status(status="new"))`` for each partition, or `move` for all partitions. Both may be
   interrupted and run again, and run while programs read and write.
3. When no program with the older model writes any more and it returns 0, remove ``was=``.

A concurrent query returns a moving entry once, if the new count is a multiple of the old, divides it, or has another
number of digits; otherwise it may miss the entry. Of entries with equal sort keys, a page may repeat one that moved
after the previous page. On DynamoDB indexes lag, and a query during a move may find the entry in neither shard.

**Limits.** 1,000 partitions per query, including the old shards. The count of a primary key cannot change, since an
item could be stored twice: to change it, read all items with the old model and put them into a table with another name.
It cannot be combined with ``keep=``, which needs the newest items in one partition.

Source: AWS, "Using write sharding to distribute workloads evenly in your DynamoDB table" (DynamoDB Developer Guide);
Google Cloud, "Cloud Bigtable schema optimization: key salting".
"""

from collections.abc import Callable
from typing import TypeVar

from odm import Entity, Query
from odm.extend import Calls, Gen, procedure

E = TypeVar("E", bound=Entity)


@procedure
def move(do: Calls, entity: type[E], partition: Callable[[E], Query[E] | None]) -> Gen[int]:
    """Move the entries of a pattern to their new shards, in all partitions that a scan of the table finds.

    ::

        moved = db.run(move(Event, lambda event: Event.by_status(status=event.status)))

    Args:
        do: the operations of the store.
        entity: the entity whose entries to move.
        partition: returns the query of the partition of an item's entry; None: the item has no entry.

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
