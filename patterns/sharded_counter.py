"""Sharded counter: a count that is spread over several items, for more increments than one item takes.

| partition | sort | attributes |
|---|---|---|
| ``DOWNLOADS#07#s1`` | ``Downloads``, the tag | ``song_id``, ``shard``, ``count`` |

An item is a shard: it counts what fell to it, and the total is their sum::

    class Downloads(Entity, table=songs):
        song_id: str
        shard: Annotated[int, Field(ge=0, lt=100)] = 0
        count: Annotated[int, Counter] = 0

        primary = PrimaryKey("DOWNLOADS#{shard}#{song_id}")


    downloads = ShardedCounter(Downloads, shards=10)

    db.run(downloads.add(song_id="s1"))  # one more; add(5, song_id="s1") is five more
    db.run(downloads.total(song_id="s1"))

**When.** One key is counted up by everybody, more often than a partition takes writes: 1,000 a second on DynamoDB, what
one node does on Bigtable. For less, a `odm.Counter` of an item is simpler, and its total is a get.

**Cost**, of shards below 1 KB, n of them, in DynamoDB's units:

| call | read units | write units | requests |
|---|---|---|---|
| ``add`` | 0 | 1; 2 for the first in a shard, one of which no meter tells | 1; 2 for the first, on Bigtable 4 |
| ``total`` | n, or n/2 with ``consistent=False`` | 0 | 1 |
| ``reset`` | 0 | 2n | 1; 2 where the number needs a new item |

**What holds.** No ``add`` of any number of writers is lost or counted twice. One whose answer is lost raises
`odm.OutcomeUnknown`; calling it again may count twice. ``db.with_options(retry_safe=True).run(downloads.add(...))``
counts once all the same, at 2 write units. Where the message that makes you count may come twice, count in the
transaction that stores it: ``tx.insert(play)`` and
``tx.update(downloads.shard_key(song_id="s1"), increment(Downloads.count), upsert=True)``. A ``total`` reads the shards
in one request, not at one moment: it holds each ``add`` that had ended before, and perhaps some that end meanwhile.

**More shards**: a larger ``shards=`` finds all that was counted before. Programs that run beside ones with a larger
number, or after them, say ``reads=``, the largest number that anybody writes or has written.

**Backends.** DynamoDB: an UpdateItem to add, a BatchGetItem for the total. Bigtable: a ReadModifyWriteRow, a
ReadRows; in front of the id, as above, the shard keeps the rows of a count from lying side by side there.
Bigtable does not do ``retry_safe=True`` and transactions of several rows, so both and ``reset`` raise
`odm.Unsupported`: for a count that starts again, make the period a part of the key, ``...#{song_id}#{month}``.

**Known as** write sharding by random suffixes to AWS, key salting to Bigtable, a distributed counter to Firestore:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/bp-partition-key-sharding.html
https://cloud.google.com/blog/products/databases/cloud-bigtable-schema-optimization-key-salting
https://firebase.google.com/docs/firestore/solutions/counters
"""

import random
from collections.abc import Mapping
from difflib import get_close_matches
from functools import partial
from typing import Annotated, Any, Generic, TypeVar, cast

from pydantic import TypeAdapter, ValidationError

from odm import (
    BadValue,
    Calls,
    Entity,
    Gen,
    PrimaryKey,
    Procedure,
    Query,
    SchemaError,
    Unsupported,
    increment,
    primary_key,
    set_,
)

E = TypeVar("E", bound=Entity)

MOST = 100
"""Items that one request reads, and one transaction writes, on DynamoDB."""


class ShardedCounter(Generic[E]):
    """A count that is spread over the items of an entity, see the module.

    Args:
        entity: each item is a shard. Its primary key has the shard's number in its partition, and its other fields are
            of the key or have defaults.
        shards: how many are written, 1 to 100.
        reads: how many are read, if that is more, up to 100.
        count: the field that counts; of 0 by default, best a `odm.Counter`.
        shard: the field of the shard's number; an int from 0, with bounds that leave room for more shards.

    Raises:
        SchemaError: the entity or a number does not fit.
    """

    def __init__(
        self, entity: type[E], *, shards: int, reads: int | None = None, count: str = "count", shard: str = "shard"
    ) -> None:
        self.entity = entity
        self.shards = shards
        self.reads = shards if reads is None else reads
        self.count = count
        self.shard = shard
        if not all(type(number) is int for number in (shards, self.reads)) or not 1 <= shards <= self.reads <= MOST:
            raise self._fault(f"shards is an int from 1 to {MOST}, and reads no less than it, up to {MOST}")
        self._check_fields()
        self._primary = self._check_primary()

    def __repr__(self) -> str:
        reads = f", reads={self.reads}" if self.reads != self.shards else ""
        return f"ShardedCounter({self.entity.__name__}, shards={self.shards}{reads})"

    def add(self, by: int = 1, /, **key: Any) -> Procedure[None]:
        """Count: one more, or so many more or less.

        Args:
            by: how many.
            key: the key fields but the shard.

        Returns:
            A procedure for ``db.run(...)``.

        Raises:
            OutcomeUnknown: its answer was lost: it was counted or not.
        """
        return Procedure(partial(self._add, by, key), f"{self!r}.add({by}, {_shown(key)})")

    def total(self, *, consistent: bool = True, **key: Any) -> Procedure[int]:
        """The sum of the shards; 0 where nothing was counted.

        Args:
            consistent: False: at half the read units, the newest counts may be missing.
            key: the key fields but the shard.
        """
        return Procedure(partial(self._total, key, consistent), f"{self!r}.total({_shown(key)})")

    def reset(self, to: int = 0, /, **key: Any) -> Procedure[None]:
        """Make the total this number, in one transaction: each racing ``add`` comes before it or after it as a whole.

        Args:
            to: the new total.
            key: the key fields but the shard.

        Raises:
            Unsupported: the backend does not write several items together, as Bigtable.
            TransactionFailed: other writers kept being faster; nothing was changed.
        """
        return Procedure(partial(self._reset, to, key), f"{self!r}.reset({to}, {_shown(key)})")

    def shard_key(self, **key: Any) -> Query[E]:
        """The key of a shard that any one is as likely as another, for an update of your own in a transaction.

        Args:
            key: the key fields but the shard.
        """
        return self._key(key, random.randrange(self.shards))

    def _add(self, by: int, key: Mapping[str, Any], do: Calls) -> Gen[None]:
        shard = self._key(key, do.random.randrange(self.shards))
        yield from do.update(shard, increment(getattr(self.entity, self.count), by), upsert=True)

    def _total(self, key: Mapping[str, Any], consistent: bool, do: Calls) -> Gen[int]:
        keys = [self._key(key, number) for number in range(self.reads)]
        shards = yield from do.get_many(keys, consistent=consistent)
        return sum(getattr(shard, self.count) for shard in shards if shard is not None)

    def _reset(self, to: int, key: Mapping[str, Any], do: Calls) -> Gen[None]:
        if not do.transactions:
            raise Unsupported(
                f"{self!r}.reset(): the shards change together or not at all, and this backend has no transactions: "
                "make a period a part of the key, and count in a new one"
            )
        keys = [self._key(key, number) for number in range(self.reads)]
        tx = do.transaction()
        for shard in keys[1:] if to else keys:
            tx.delete(shard)
        if to:
            tx.update(keys[0], set_(getattr(self.entity, self.count), to), upsert=True)
        yield from tx.commit()

    def _key(self, key: Mapping[str, Any], number: int) -> Query[E]:
        if self.shard in key:
            raise BadValue(f"{self!r}: {self.shard}={key[self.shard]!r}: leave it out, the counter chooses the shard")
        query: Query[E] = getattr(self.entity, self._primary)(**key, **{self.shard: number})
        return query

    def _check_fields(self) -> None:
        fields = self.entity.model_fields
        for name in (self.count, self.shard):
            if name not in fields:
                near = get_close_matches(name, fields, 1)
                raise self._fault(f"there is no field {name!r}" + (f": did you mean {near[0]!r}?" if near else ""))
        count, shard = fields[self.count], fields[self.shard]
        if count.default != 0:
            raise self._fault(f"a shard begins to count at 0: write {self.count}: Annotated[int, Counter] = 0")
        if any(hasattr(mark, bound) for mark in count.metadata for bound in ("ge", "gt", "le", "lt")):
            raise self._fault(f"{self.count} has bounds, which hold for each shard and not for the sum: leave them out")
        try:
            TypeAdapter(cast(Any, Annotated[shard.annotation, shard])).validate_python(self.reads - 1, strict=True)
        except ValidationError as error:
            raise self._fault(
                f"{self.shard} cannot be {self.reads - 1}: write {self.shard}: Annotated[int, Field(ge=0, lt={MOST})]"
            ) from error

    def _check_primary(self) -> str:
        """The name of the primary key."""
        primary = primary_key(self.entity)
        if self.shard not in PrimaryKey(primary.partition).fields:
            raise self._fault(f"its shards are to be partitions of their own: write PrimaryKey('...#{{{self.shard}}}')")
        return primary.name

    def _fault(self, wrong: str) -> SchemaError:
        return SchemaError(f"{self!r}: {wrong}")


def _shown(key: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in key.items())
