"""Sharded counter: a count spread over several items, for more increments than one item supports.

| partition | sort | attributes |
|---|---|---|
| ``DOWNLOADS#07#s1`` | ``Downloads``, the tag | ``song_id``, ``shard``, ``count`` |

Each item is a shard with a part of the count; the total is the sum of the shards::

    class Downloads(Entity, table=songs):
        song_id: str
        shard: Annotated[int, Field(ge=0, lt=100)] = 0
        count: Annotated[int, Counter] = 0

        primary = PrimaryKey("DOWNLOADS#{shard}#{song_id}")


    downloads = ShardedCounter(Downloads, shards=10)

    db.run(downloads.add(song_id="s1"))  # one more; add(5, song_id="s1") is five more
    db.run(downloads.total(song_id="s1"))

**When.** A count gets more increments than a partition supports: 1,000 a second on DynamoDB, the capacity of one node
on Bigtable. For fewer, an `odm.Counter` of one item is simpler, and its total is a get.

**Cost**, of shards below 1 KB, n of them, in DynamoDB's units:

| call | read units | write units | requests |
|---|---|---|---|
| ``add`` | 0 | 1; 2 for the first in a shard (a meter reports 1) | 1; 2 for the first in a shard, on Bigtable 4 |
| ``total`` | n, or n/2 with ``consistent=False`` | 0 | 1 |
| ``reset`` | 0 | 2n | 1; 2 if it needs a new item |

**Guarantees.** No ``add`` of any number of writers is lost or counted twice. An ``add`` whose response is lost raises
`odm.OutcomeUnknown`; calling it again may count twice. ``db.with_options(retry_safe=True).run(downloads.add(...))``
counts exactly once, at 2 write units. If the message to count may be delivered twice, count in the
transaction that stores it: ``tx.insert(play)`` and
``tx.update(downloads.shard_key(song_id="s1"), increment(Downloads.count), upsert=True)``. A ``total`` reads the shards
in one request, but not as a snapshot: it includes every ``add`` that ended before it, and maybe some concurrent ones.

**More shards**: a larger ``shards=`` finds all earlier counts. Programs with a smaller number that run at the same time
or later need ``reads=``, the largest number that any program writes or has written.

**Backends.** DynamoDB: an UpdateItem to add, a BatchGetItem for the total. Bigtable: a ReadModifyWriteRow, a ReadRows.
Put the shard before the id, as above, so that the rows of a count are not adjacent on Bigtable. In a table without
``transactions=True`` Bigtable has neither exact retries nor transactions of several rows: ``retry_safe=True``, such
transactions and ``reset`` raise `odm.Unsupported`. For a count that starts again, make the period a part of the key:
``...#{song_id}#{month}``.

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

from odm import BadValue, Entity, PrimaryKey, Query, SchemaError, Unsupported, increment, set_
from odm.extend import Calls, Gen, Procedure, primary_key

E = TypeVar("E", bound=Entity)

MOST = 100
"""The maximum number of items that one request reads, and one transaction writes, on DynamoDB."""


class ShardedCounter(Generic[E]):
    """A count that is spread over the items of an entity; see the module.

    Args:
        entity: each item is a shard. The partition of its primary key contains the shard's number. Its other fields
            are part of the key or have defaults.
        shards: the number of shards to write, 1 to 100.
        reads: the number of shards to read, if larger, up to 100.
        count: the field that counts; its default is 0, and it should be an `odm.Counter`.
        shard: the field with the shard's number; an int from 0, with bounds that allow more shards.

    Raises:
        SchemaError: the entity or a number is not valid.
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
        """Add to the count.

        Args:
            by: the amount, 1 by default; negative to subtract.
            key: the key fields but the shard.

        Returns:
            A procedure for ``db.run(...)``.

        Raises:
            OutcomeUnknown: the response was lost: the increment may or may not have been applied.
        """
        return Procedure(partial(self._add, by, key), f"{self!r}.add({by}, {_text_of(key)})")

    def total(self, *, consistent: bool = True, **key: Any) -> Procedure[int]:
        """The sum of the shards; 0 if nothing was counted.

        Args:
            consistent: False: an eventually consistent read at half the read units; may miss the newest counts.
            key: the key fields but the shard.
        """
        return Procedure(partial(self._total, key, consistent), f"{self!r}.total({_text_of(key)})")

    def reset(self, to: int = 0, /, **key: Any) -> Procedure[None]:
        """Set the total, in one transaction: each concurrent ``add`` is applied either before or after it.

        Args:
            to: the new total.
            key: the key fields but the shard.

        Raises:
            Unsupported: on Bigtable, in a table without ``transactions=True``.
            TransactionFailed: concurrent writers kept changing the shards; nothing was changed.
        """
        return Procedure(partial(self._reset, to, key), f"{self!r}.reset({to}, {_text_of(key)})")

    def shard_key(self, **key: Any) -> Query[E]:
        """The key of a random shard, for your own update in a transaction.

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
                f"{self!r}.reset(): the shards change together or not at all, but this backend has no transactions: "
                "make a period part of the key, and count in a new one"
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
            raise self._fault(f"{self.count} has bounds, which apply to each shard and not to the sum: remove them")
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
            raise self._fault(f"each shard must be a partition of its own: write PrimaryKey('...#{{{self.shard}}}')")
        return primary.name

    def _fault(self, wrong: str) -> SchemaError:
        return SchemaError(f"{self!r}: {wrong}")


def _text_of(key: Mapping[str, Any]) -> str:
    return ", ".join(f"{name}={value!r}" for name, value in key.items())
