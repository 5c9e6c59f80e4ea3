"""Bulk load: many new items, written to all partitions in turn, and not to one after the other.

It makes no items of its own; what changes is their order. A file of messages, sorted as files are, and as it is sent:

| as it lies in the file | as it is written |
|---|---|
| ``USER#ann``, ``MESSAGE#1`` | ``USER#ann``, ``MESSAGE#1`` |
| ``USER#ann``, ``MESSAGE#2`` | ``USER#bob``, ``MESSAGE#1`` |
| ``USER#ann``, ``MESSAGE#3`` | ``USER#cleo``, ``MESSAGE#1`` |
| ``USER#bob``, ``MESSAGE#1`` | ``USER#ann``, ``MESSAGE#2`` |
| ``USER#cleo``, ``MESSAGE#1`` | ``USER#ann``, ``MESSAGE#3`` |

Use it for what comes by the thousand: an import, the history of another system, a fill of test data. In the order of
the file, one partition after the other takes all the writes while the rest of the table does nothing; spread, each gets
a few of every request, and the table's whole capacity is there for the load. Source: AWS, DynamoDB Developer Guide,
"Distributing write activity efficiently during data upload"; Google's "Bigtable schema design best practices" says the
same of row keys that are written in order (hotspotting).

What it costs: a write for each item, as `odm.Store.put` of it, and a read of the tag under its key, half a unit on
DynamoDB, so that nothing of another program is replaced; no read where the table is ``exclusive``.

| backend | requests |
|---|---|
| DynamoDB | 100 tags a request (BatchGetItem), then 25 items a request (BatchWriteItem) |
| Bigtable | the tags in one, then up to 4 MB a request (MutateRows); with index entries more, see those of a put |
| Memory, LocalFile | 1,000 items a request; LocalFile makes 500 of them durable in one step |

Limits: it reads ``window`` items ahead and holds them in memory, and spreads no further than that: where more than
``window`` items in a row are of one partition, they are written in a row. An entity with a Revision, which a batch
cannot check, is refused, and one with companions, such as unique values. It is not atomic: after a failure, load again;
an item that is put twice is stored once. Items of one partition keep their order, so of two with one key the later
wins.
"""

from collections import deque
from collections.abc import Callable, Iterable, Iterator
from itertools import islice
from typing import Final, TypeVar

from odm import BadValue, Calls, Entity, Gen, procedure

T = TypeVar("T")

WINDOW: Final = 10_000
"""Items that are read ahead."""

BATCH: Final = 1000
"""Items that are handed over to the backend at once."""


@procedure
def bulk_load(do: Calls, items: Iterable[Entity], *, window: int = WINDOW) -> Gen[int]:
    """Write entities over whatever is under their keys, one of each partition in turn: ``db.run(bulk_load(items))``.

    Args:
        do: the calls of the store.
        items: the entities, in any order; a generator is read as it is needed.
        window: how many are read ahead, to be spread; they are held in memory.

    Returns:
        How many were given.

    Raises:
        BadValue: an entity has a Revision or companions, or cannot be stored; what was sent before it is written.
        Throttled: ``left`` has what the last request did not write; load all again, more slowly.
    """
    waiting = spread(items, lambda entity: do.key_of(entity)[0], window=window)
    total = 0
    while some := list(islice(waiting, BATCH)):
        batch = do.batch()
        for entity in some:
            batch.put(entity)
        yield from batch.send()
        total += len(some)
    return total


def spread(items: Iterable[T], partition: Callable[[T], str], *, window: int = WINDOW) -> Iterator[T]:
    """The items in another order: one of each partition in turn, those of one partition as they came.

    Args:
        items: in any order; read as they are needed.
        partition: tells the partition of an item.
        window: so many are held, at most, from which the next ones are taken.

    Raises:
        BadValue: the window makes no sense.
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
