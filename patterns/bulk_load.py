"""Bulk load: write many new items to all partitions in turn, instead of one partition after the other.

It changes only the order in which items are written. A sorted file of messages, and the order in which it is written:

| order in the file | order of writes |
|---|---|
| ``USER#ann``, ``MESSAGE#1`` | ``USER#ann``, ``MESSAGE#1`` |
| ``USER#ann``, ``MESSAGE#2`` | ``USER#bob``, ``MESSAGE#1`` |
| ``USER#ann``, ``MESSAGE#3`` | ``USER#cleo``, ``MESSAGE#1`` |
| ``USER#bob``, ``MESSAGE#1`` | ``USER#ann``, ``MESSAGE#2`` |
| ``USER#cleo``, ``MESSAGE#1`` | ``USER#ann``, ``MESSAGE#3`` |

Use it for thousands of items: an import, the history of another system, test data. In the order of the file, one
partition takes all writes while the rest of the table is idle. In this order each request writes to many partitions,
and the load can use the table's whole capacity. Source: AWS, DynamoDB Developer Guide,
"Distributing write activity efficiently during data upload"; Google's "Bigtable schema design best practices" gives the
same advice for row keys that are written in order (hotspotting).

**New items.** Batches have no conditions, so plain ``bulk_load(items)`` refuses entities that need them: those with a
Revision, and those with an `odm.extend.Companion` such as ``Unique``. With ``new=True`` it loads them too. You promise
that each item is new (its key is free, or has exactly this content from a load that was interrupted), and that nobody
else writes these items, or their unique values, meanwhile. It reads before it writes, a thousand items at a time:

1. It writes claims on unique values and first versions, then the items, then pointers. Revisions begin as in an insert.
2. An item that is stored already stays as it is. So after a crash run the same load again; the end is the same. Until
   then, values of items that are not stored yet may be claimed, versions stored, and pointers behind.
3. An item that is not new raises `odm.ItemExists`, as its insert does: its key holds other content, or an item older
   than the declaration of the companion; or another item, stored or of this load, has the unique value. The thousand
   items that were read with it are written, no later ones.

An item or claim of another writer that is stored when it reads is never overwritten. One that is written between the
read and the write is, and then two items may have one value: insert items one at a time while others write.

What it costs: the write units of an `odm.Store.put` for each item. It also reads the tag under each key (half a unit
on DynamoDB), so that it never replaces an item of another program; it skips this read if the table is ``exclusive``.
With ``new=True`` it reads the items themselves, and the companions' items (a unit for each), and writes these too: the
load of an item with a unique value takes 2 read and 2 write units, its insert 4 write units.

| backend | requests |
|---|---|
| DynamoDB | 100 tags a request (BatchGetItem), then 25 items a request (BatchWriteItem) |
| Bigtable | all tags in one request, then up to 4 MB a request (MutateRows) in key order; more for index entries |
| Memory, LocalFile | 1,000 items a request; LocalFile makes 500 of them durable in one step |
| with ``new=True`` | up to two such reads, then up to three such batches: companions' items, items, pointers |

Limits: it reads ``window`` items ahead and holds them in memory, and spreads only these: more than
``window`` consecutive items of one partition are written one after the other. It is not atomic: after a failure, load
everything again; an item that is put twice is stored once. Items of one partition keep their order, so of two items
with the same key the later one wins; with ``new=True`` it is refused, unless both are the same.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from odm import BadValue, Entity
from odm.extend import Calls, Gen, procedure

T = TypeVar("T")

WINDOW: Final = 10_000
"""Items that are read ahead."""

BATCH: Final = 1000
"""Items that are passed to the backend at once."""


@procedure
def bulk_load(
    do: Calls, items: Iterable[Entity], *, new: bool = False, window: int = WINDOW, parallel: int = 1
) -> Gen[int]:
    """Put entities, one of each partition in turn; replaces stored items: ``db.run(bulk_load(items))``.

    Args:
        do: the operations of the store.
        items: the entities, in any order; a generator is read lazily.
        new: every item is new, and nobody else writes it or its unique values meanwhile; see the module.
        window: how many items to read ahead; they are held in memory.
        parallel: how many requests of up to a thousand items are sent at the same time, 1 to 16; not with ``new``.

    Returns:
        The number of entities.

    Raises:
        BadValue: an entity cannot be stored, or has a Revision or companions and ``new`` is False; earlier items are
            written. Or ``parallel`` is out of range, or more than 1 with ``new``.
        ItemExists: with ``new=True``, an item is not new; earlier items are written.
        Unsupported: with ``new=True``, an entity has a companion of your own that cannot load; see
            `odm.extend.Companion`.
        Throttled: ``left`` has the unprocessed items of the last request; load everything again, more slowly.
    """
    if new and parallel != 1:
        raise BadValue("parallel= is not possible with new=True, whose requests depend on one another: leave it out")
    waiting = spread(map(do.assigned, items), lambda entity: do.key_of(entity)[0], window=window)
    total = 0
    while some := list(islice(waiting, BATCH * parallel)):
        if new:
            yield from do.load_new(some)
        else:
            batch = do.batch(parallel=parallel)
            for entity in some:
                batch.put(entity)
            yield from batch.send()
        total += len(some)
    return total


def spread(items: Iterable[T], partition: Callable[[T], str], *, window: int = WINDOW) -> Iterator[T]:
    """Reorder items: one of each partition in turn; items of one partition keep their order.

    Args:
        items: in any order; read lazily.
        partition: returns the partition of an item.
        window: the maximum number of items held in memory.

    Raises:
        BadValue: the window is not an int of 1 or more.
    """
    if type(window) is not int or window < 1:
        raise BadValue(f"window={window!r}: give the number of items to read ahead, 1 or more")
    return _in_turn(iter(items), partition, window)


def _in_turn(coming: Iterator[T], partition: Callable[[T], str], window: int) -> Iterator[T]:
    lines: dict[str, deque[T]] = {}
    held = 0
    while True:
        for item in islice(coming, window - held):
            lines.setdefault(partition(item), deque()).append(item)
            held += 1
        if not lines:
            return
        for name in [*lines]:  # a round: one of each
            yield lines[name].popleft()
            held -= 1
            if not lines[name]:
                del lines[name]
