"""Current: a copy of the newest of many items, whole, under a key that is known.

| partition | sort | attributes |
|---|---|---|
| ``HOST#h1`` | ``AT#2026-11-27T…`` | a metric: the item's own |
| ``CURRENT#h1`` | ``Metric.current``, the tag | all attributes of the newest metric of the host |

::

    class Metric(Entity, table=metrics):
        host: str
        at: datetime
        values: dict[str, float]

        primary = PrimaryKey("HOST#{host}", "AT#{at}")
        current = Current("CURRENT#{host}")


    db.put(Metric(host="h1", at=now, values={"cpu": 0.5}))  # also writes the copy, if it is the newest
    db.get(Metric.current(host="h1"))  # the newest metric of a host, or None

**The newest of all** in one query: ``Current("CURRENT", "{host}", shards=Shards(4, by="host"))`` puts the copies into
one partition, here of four shards, and ``db.query(Metric.current.all())`` reads them.

**When.** The newest state of many things is read often, and all of them together: the last metrics of each host, the
position of each vehicle. For one thing at a time, ``db.first(query.reverse())`` of the history is as good. To find the
newest item itself rather than a copy, use `odm.patterns.pointer`.

**Guarantees.** Every put, insert, update and transaction of an item that is newer than the copy, or is the copied item,
writes the copy in the same step. Late items are stored and leave the copy as it is: writers may race, be late and
retry. Of two items of one time the first stays. A delete leaves the copy, which is the last known state:
``db.run(Metric.current.refresh(host="h1"))`` sets it to the newest item that exists, or deletes it. The copy does not
expire with its item. Batches refuse the entity; ``bulk_load(new=True)`` loads new items, and ``db.backfill`` makes the
copies of earlier ones.

**Cost** in requests, and in DynamoDB's units for items below 1 KB:

| call | DynamoDB | units | Bigtable |
|---|---|---|---|
| put or insert of the newest | 1, a transaction | 4 write | 3 |
| of a late item | 2: the refused transaction, and the item | 4 + 1 write; a meter reports 1 | 3 |
| update | 1 more, to read the item | 1 more read | 1 more |
| get | 1 | 1 read | 2 |
| all, of n copies in s shards | s | n KB / 4 read | s |

**Backends.** Item and copy are written in one transaction, but on Bigtable without ``transactions=True``: there the
item is written first, then the copy. An interrupted write may leave the copy behind: ``get`` repairs it, with a pattern
that sorts the items by time, which may be the primary key. Without one a store raises `odm.Unsupported` when it
connects. ``all`` may lack the newest state of that one thing until it is written or read by ``get``.

**Known as** CURRENT_METRIC in Google's design for time series: https://cloud.google.com/bigtable/docs/schema-design-time-series
"""

from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, TypeVar

from pydantic.fields import FieldInfo

from odm import (
    BackendError,
    BadValue,
    ConditionFailed,
    Entity,
    OutcomeUnknown,
    PrimaryKey,
    SchemaError,
    Shards,
    Throttled,
    Unsupported,
)
from odm.extend import Calls, Companion, CompanionWrites, Effect, Gen, SchemaView, primary_key
from odm.patterns.newest import Newest

E = TypeVar("E", bound=Entity)
R = TypeVar("R")


class Current(Companion):
    """Keeps a copy of the newest of the entity's items; see the module.

    Args:
        partition: template of the copy's partition key, with fields of the entity's primary key.
        sort: template of its sort key. Default: its tag.
        by: the field whose highest value is the newest, in the entity's primary key. Default: the only field of the
            primary key that is not in the copy's key.
        shards: write sharding of the copies, as of a `odm.PrimaryKey`.

    Raises:
        SchemaError: when the table compiles: the declaration is not valid for the entity.
        Unsupported: when a store connects to a backend without transactions: no pattern finds the newest item.
    """

    loads = "after"

    def __init__(
        self, partition: str, sort: str | None = None, *, by: str | None = None, shards: Shards | None = None
    ) -> None:
        self.key = PrimaryKey(partition, sort, shards=shards)
        self.by = by
        self._of: dict[type, Newest[Any]] = {}

    def __repr__(self) -> str:
        by = "" if self.by is None else f', by="{self.by}"'
        return f"Current({str(self.key)[len('PrimaryKey(') : -1]}{by})"

    def __get__(self, instance: object, owner: type[E]) -> Newest[E]:
        return self._of.setdefault(owner, Newest(self, owner, partial(self._advice, owner)))

    def entities(self, entity: type[Entity]) -> Sequence[type[Entity]]:
        entity.model_rebuild(raise_errors=False)
        of, own = self.__get__(None, entity), primary_key(entity)
        if unknown := [name for name in self.key.fields if name not in own.fields]:
            raise self.fault(
                entity, f"{unknown[0]!r} is not in the primary key {own}: its copies have keys of these fields; add it"
            )
        rest = [name for name in own.fields if name not in self.key.fields]
        if self.by not in rest and (self.by is not None or len(rest) != 1):
            raise self.fault(
                entity,
                f"by= names the field of the primary key whose highest value is the newest: {', '.join(rest) or 'none'}"
                " is left; for a field outside of the primary key use odm.patterns.pointer",
            )
        of.own, of.by = own, self.by or rest[0]
        of.others = tuple(name for name in rest if name != of.by)
        types = self.copies(entity, entity.model_fields, optional=True)
        fields = {name: _field(types[name], info) for name, info in entity.model_fields.items()}
        declared = {"primary": self.key, "model_config": entity.model_config}
        of.entity = self.make(entity, Entity, fields, declared, upgraded=True)
        return (of.entity,)

    def check(self, entity: type[Entity], schema: SchemaView, *, transactions: bool) -> None:
        of = self._of[entity]
        copies = schema.entity(of.entity)
        try:
            copies.check_ordered(of.by)
        except BadValue as error:
            raise self.fault(entity, f"{error}; the newest has the highest value of a field with an order") from error
        of.pattern = None if copies.primary.lossy else schema.entity(entity).ordered_by(of.by, copies.primary.fields)
        if of.pattern is None and not transactions:
            raise Unsupported(
                f"{entity.__name__}.{self.name}: this backend writes an item and then the copy; if that is "
                f"interrupted, no pattern finds the newest item: {self._advice(entity)}"
            )

    def _advice(self, entity: type[Entity]) -> str:
        """The pattern to add."""
        of = self._of[entity]
        partition = "#".join(filter(None, (self.key.partition, self.key.sort)))
        rest = "".join(f"#{{{name}}}" for name in of.others)
        return f'add by_{of.by} = AccessPattern("{partition}", "{{{of.by}}}{rest}")'

    def companion_writes(self, tx: CompanionWrites, effect: Effect[Any]) -> None:
        of = self._of[type(effect.new)]
        value = getattr(effect.new, of.by)
        tx.put(of.copy(effect.new), when=of.forward(effect.new), lose=True, rank=getattr(value, "value", value))

    def without_transaction(self, do: Calls, effect: Effect[Any], commit: Callable[..., Gen[None]]) -> Gen[None]:
        writes = do.companion_writes(self, effect)  # raises for invalid items before anything is sent
        yield from commit(mark=writes.marked)
        with suppress(Throttled, OutcomeUnknown, BackendError, ConditionFailed):  # the item is written; `get` repairs
            yield from self._of[type(effect.new)].follow(do, effect.key, effect.new)

    def fault(self, entity: type, wrong: str) -> SchemaError:
        """The error for a declaration that is not valid."""
        return SchemaError(f"{entity.__name__}.{self.name} = {self!r}: {wrong}")


def _field(kind: Any, info: FieldInfo) -> Any:
    """The type of a copied field, with its default."""
    if info.is_required():
        return kind
    factory = info.default_factory
    return kind, info.default if factory is None else FieldInfo(default_factory=factory)
