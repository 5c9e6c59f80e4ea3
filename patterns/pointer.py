"""Pointer: an item that names the newest of many items. Writes of these items move it forward, never back.

| partition | sort | attributes |
|---|---|---|
| ``CUSTOMER#c1`` | ``ORDER#o7`` | the order's own item |
| ``LAST_ORDER#c1`` | ``Order.latest``, the tag | ``customer_id``, ``order_id`` of the highest order so far |

The pointer holds the fields of its key, the tracked value, and the other fields of the item's primary key::

    class Order(Entity, table=shop):
        customer_id: str
        order_id: str

        primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
        latest = Pointer("LAST_ORDER#{customer_id}", tracks="order_id")


    db.put(Order(customer_id="c1", order_id="o7"))  # moves the pointer, if it is absent or smaller
    db.get(Order.latest(customer_id="c1"))  # the order, or None
    db.run(Order.latest.value(customer_id="c1"))  # "o7" alone, or None

**When.** The newest item is read often, or no pattern sorts items so that ``db.first(query.reverse())`` finds it.

**Guarantees.** Every put, insert, update and transaction that gives an item a higher value than the pointer's moves the
pointer to it. A lower value leaves it unchanged: writers may race, be late, and retry. Of two items with one value, it
stays at the first. None in the tracked field or the pointer's key moves nothing. A pointer never moves back: after an
update that lowers the value, ``get`` returns the updated item; after a delete, or an update that moves the item to
another pointer, None. Batches refuse the entity; ``bulk_load(new=True)`` loads new items, a backfill adds earlier ones.

**Cost** in requests, and in DynamoDB's units for items below 1 KB:

| call | DynamoDB | units | Bigtable |
|---|---|---|---|
| put or insert of the newest | 1, a transaction | 4 write | 2 |
| of an older item | 2: the refused transaction, and the item | 4 + 1 write; a meter reports 1 | 3: a read of it |
| update of a field of the pointer | 1 more, to read the item | 1 more read | 1 more |
| get | 2: the pointer, then the item | 2 read | 2; 3 if the newest was deleted |
| value | 1 | 1 read | 2 |

**Backends.** Item and pointer are written in one transaction, but on Bigtable without ``transactions=True``: there the
item is written first. An interrupted write may leave the pointer behind, so reads repair it: they query a pattern for
higher values, which sorts the items by the tracked field and has partitions by fields of the pointer's key. Without
such a pattern a store raises `odm.Unsupported` when it connects. DynamoDB moves a pointer up to 500 times a second.

**Known as** the pointer strategy: https://dev.to/aws-builders/amazon-dynamodb-pointer-strategy-2c4k
"""

from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from typing import Any, Generic, TypeVar

from odm import (
    BackendError,
    BadValue,
    ConditionFailed,
    Entity,
    OutcomeUnknown,
    PrimaryKey,
    Query,
    SchemaError,
    Throttled,
    Unsupported,
    missing,
)
from odm.extend import (
    Calls,
    Companion,
    CompanionWrites,
    Effect,
    Gen,
    PatternView,
    Procedure,
    SchemaView,
    compiled,
    primary_key,
)

E = TypeVar("E", bound=Entity)
R = TypeVar("R")


class Pointer(Companion):
    """Points at the newest of the entity's items; see the module.

    Args:
        partition: template of the pointer's partition key, with fields of the entity.
        sort: template of its sort key. Default: its tag.
        tracks: the field whose highest value it points at: str, number, datetime, date, UUID or bytes.

    Raises:
        SchemaError: when the table compiles: the declaration is not valid for the entity.
        Unsupported: when a store connects to a backend without transactions: no pattern finds the newest item.
    """

    loads = "after"

    def __init__(self, partition: str, sort: str | None = None, *, tracks: str) -> None:
        self.key = PrimaryKey(partition, sort)
        self.tracks = tracks
        self._of: dict[type, Pointed[Any]] = {}

    def __repr__(self) -> str:
        return f'Pointer({str(self.key)[len("PrimaryKey(") : -1]}, tracks="{self.tracks}")'

    def __get__(self, instance: object, owner: type[E]) -> "Pointed[E]":
        return self._of.setdefault(owner, Pointed(self, owner))

    def entities(self, entity: type[Entity]) -> Sequence[type[Entity]]:
        of = self.__get__(None, entity)
        of.key = primary_key(entity)
        if unknown := [name for name in (*self.key.fields, self.tracks) if name not in entity.model_fields]:
            raise self.fault(entity, f"there is no field {unknown[0]!r}; it has {', '.join(entity.model_fields)}")
        fields = self.copies(entity, dict.fromkeys((*self.key.fields, self.tracks, *of.key.fields)))
        of.items = self.make(entity, Entity, fields, {"primary": self.key})
        return (of.items,)

    def check(self, entity: type[Entity], schema: SchemaView, *, transactions: bool) -> None:
        of = self._of[entity]
        items = schema.entity(of.items)
        try:
            items.check_ordered(self.tracks)
        except BadValue as error:
            raise self.fault(entity, f"{error}; a pointer needs a field with an order: track another one") from error
        key = items.primary
        if self.tracks in set(key.fields) - key.lossy:
            raise self.fault(entity, f"{self.tracks} is part of its key, so every value would have its own pointer")
        of.pattern = None if key.lossy else schema.entity(entity).ordered_by(self.tracks, key.fields)
        if of.pattern is None and not transactions:
            raise Unsupported(
                f"{entity.__name__}.{self.name}: this backend writes an item and then the pointer; if that is "
                f"interrupted, no pattern finds the newest item: add {self._advice(of, key)}"
            )

    def _advice(self, of: "Pointed[Any]", key: PatternView) -> str:
        if key.lossy:
            return f"a field with the part of {', '.join(key.lossy)} in the key, use it there, and add a pattern by it"
        rest = "".join(f"#{{{name}}}" for name in of.key.fields if name not in (*key.fields, self.tracks))
        partition = "#".join(filter(None, (self.key.partition, self.key.sort)))
        return f'by_{self.tracks} = AccessPattern("{partition}", "{{{self.tracks}}}{rest}")'

    def sources(self, entity: type[Entity]) -> frozenset[str]:
        return frozenset((*self.key.fields, self.tracks))

    def companion_writes(self, tx: CompanionWrites, effect: Effect[Any]) -> None:
        pointer = self._of[type(effect.new)].at(effect.new)
        if pointer is not None:
            value = getattr(pointer, self.tracks)
            rank = getattr(value, "value", value)  # members of an Enum have no order, but their stored values do
            tx.put(pointer, when=self.forward(pointer), lose=True, rank=rank)

    def rekey_writes(
        self, tx: CompanionWrites, freed: CompanionWrites, before: Companion, old: Effect[Any], new: Effect[Any]
    ) -> None:
        """Let the pointer name the new key, unless it has a higher value."""
        if not isinstance(before, Pointer):
            super().rekey_writes(tx, freed, before, old, new)
            return
        pointer, former = self._of[new.key.entity].at(new.new), before._of[old.key.entity].at(old.old)
        if pointer is not None:
            tracked, value = getattr(type(pointer), self.tracks), getattr(pointer, self.tracks)
            tx.put(pointer, when=missing(tracked) | (tracked <= value), lose=True, rank=getattr(value, "value", value))
        if former is not None:
            tracked = getattr(type(former), before.tracks)
            freed.delete(former, when=tracked == getattr(former, before.tracks), lose=True)

    def without_transaction(self, do: Calls, effect: Effect[Any], commit: Callable[..., Gen[None]]) -> Gen[None]:
        writes = do.companion_writes(self, effect)
        yield from commit(mark=writes.marked)
        with suppress(Throttled, OutcomeUnknown, BackendError):  # the item is written; a read will move the pointer
            yield from do.write(writes)

    def forward(self, pointer: Any) -> Any:
        """The condition for replacing the stored pointer."""
        tracked = getattr(type(pointer), self.tracks)
        return missing(tracked) | (tracked < getattr(pointer, self.tracks))

    def fault(self, entity: type, wrong: str) -> SchemaError:
        """The error for a declaration that is not valid."""
        return SchemaError(f"{entity.__name__}.{self.name} = {self!r}: {wrong}")


class Pointed(Generic[E]):
    """The value of ``Order.latest``: call it with the fields of the pointer's key for a procedure that gets the item.

    Attributes:
        items: the class of the pointer's items; set when the table compiles.
        key: the entity's primary key.
        pattern: the pattern that finds the newest item, and whether that item is its first; None: no such pattern.
    """

    items: type[Any]
    key: Any
    pattern: tuple[PatternView, bool] | None = None

    def __init__(self, pointer: Pointer, entity: type[E]) -> None:
        self._pointer = pointer
        self._entity = entity

    def __repr__(self) -> str:
        return f"{self._entity.__name__}.{self._pointer.name}"

    def __call__(self, **key: Any) -> Procedure[E | None]:
        """The newest item, for ``db.get(...)`` or ``db.one(...)``; None: there was none, or it was deleted.

        Args:
            key: the fields of the pointer's key.

        Raises:
            BadValue: a field is missing, unknown or does not validate.
        """
        return self._procedure(self._get, "", key)

    def value(self, **key: Any) -> Procedure[Any]:
        """The highest value so far, for ``db.run(...)``; None: there was no item. Arguments and errors: see a call."""
        return self._procedure(self._value, ".value", key)

    def at(self, item: Any) -> Any:
        """The pointer item that names this item; None if one of its fields is None."""
        values = {name: getattr(item, name) for name in self.items.model_fields}
        return None if None in values.values() else self.items(**values)

    def _procedure(
        self, steps: Callable[[Query[Any], Calls], Gen[R]], of: str, arguments: dict[str, Any]
    ) -> Procedure[R]:
        """A procedure whose steps get the pointer's key; validates the values as the entity does."""
        if self._entity.__odm_table__ is None:
            raise self._pointer.fault(self._entity, "the class has no table=: use a subclass that has")
        entity = compiled(self._entity)
        known = {name: entity.validate(name, arguments[name]) for name in arguments.keys() & self.items.model_fields}
        key: Query[Any] = self.items.primary(**{**arguments, **known})
        return Procedure(partial(steps, key), f"{self!r}{of}({str(key).partition('(')[2]}")

    def _get(self, key: Query[Any], do: Calls) -> Gen[E | None]:
        pointer, item = yield from self._read(key, do)
        if pointer is None or item is not None:
            return item
        own_key = getattr(self._entity, self.key.name)
        item = yield from do.get(own_key(**{name: getattr(pointer, name) for name in self.key.fields}))
        own = None if item is None else self.at(item)  # an update may have moved it to another pointer
        return item if own is not None and do.key_of(own) == do.key_of(pointer) else None

    def _value(self, key: Query[Any], do: Calls) -> Gen[Any]:
        pointer, _ = yield from self._read(key, do)
        return None if pointer is None else getattr(pointer, self._pointer.tracks)

    def _read(self, key: Query[Any], do: Calls) -> Gen[tuple[Any, E | None]]:
        """The pointer, moved forward if it was behind, and its item, or None if the item was not read."""
        pointer = yield from do.get(key)
        newest = None if do.transactions else (yield from do.first(self._newest(key.values, pointer)))
        forward, tracks = None if newest is None else self.at(newest), self._pointer.tracks
        if forward is None or forward == pointer:
            return pointer, newest
        # Of items with the same value, the pointer keeps the first, as in `forward`.
        if pointer is not None and getattr(forward, tracks) == getattr(pointer, tracks):
            return pointer, None
        with suppress(ConditionFailed):  # another writer moved it first
            yield from do.put(forward, when=self._pointer.forward(forward))
        return forward, newest

    def _newest(self, values: Mapping[str, Any], pointer: Any) -> Query[E]:
        """The query that finds the newest of a pointer's items, at or above its current value."""
        assert self.pattern is not None  # checked when the store connected
        (pattern, descending), tracks = self.pattern, self._pointer.tracks
        partition = {name: values[name] for name in pattern.partition_fields}
        rest = [getattr(self._entity, name) == values[name] for name in values if name not in partition]
        if pointer is not None:
            rest.append(getattr(self._entity, tracks) >= getattr(pointer, tracks))
        query: Query[E] = getattr(self._entity, pattern.name)(**partition).where(*rest)
        return query if descending else query.reverse()
