"""What every operation is given: the schema, and the settings of the store that judge and limit what it does."""

import time
from collections.abc import Callable, Sequence
from random import Random, SystemRandom
from typing import Any, NamedTuple, cast

from attrs import Factory, field, frozen

from odm.codec import TAG, TTL_ATTRIBUTE, VERSION, EntityCodec, NativeItem, NativeItems
from odm.entities.entity import Entity
from odm.entities.query import Finding, Query
from odm.errors import BadValue, ItemInvalid, KeyValueError
from odm.expressions.nodes import Condition, Item, Not, Or, shown
from odm.protocol.limits import PORTABLE, Limits
from odm.protocol.predicates import Now, every, has_tag, of_tags, reading_filter, requires
from odm.protocol.requests import Position
from odm.schema.model import EntitySchema, Key, Schema


def key_call(entity: EntitySchema) -> str:
    """How the key of an entity is written, for messages."""
    return f"{entity.name}.{entity.primary.name}({', '.join(f'{name}=...' for name in entity.primary.fields)})"


def _always_supported(_keys: Sequence[Key]) -> None:
    """No reason against any transaction."""


class Target(NamedTuple):
    """The item that a call is about.

    Attributes:
        values: the values of its key fields at least.
        instance: the entity passed in, or None where a key was.
    """

    entity: EntitySchema
    key: Key
    values: Any
    instance: Entity | None = None

    def __str__(self) -> str:
        primary = self.entity.primary
        values = ", ".join(f"{name}={shown(self.values[name])}" for name in primary.fields)
        return f"{self.entity.name}.{primary.name}({values})"

    @property
    def query(self) -> Query[Any]:
        """The key, as a user writes it."""
        primary = self.entity.primary
        return Query(self.entity.cls, primary.name, {name: self.values[name] for name in primary.fields})

    @property
    def revision(self) -> int | None:
        """The revision that the caller has read, or None where it is not checked."""
        name = self.entity.revision
        return None if name is None or self.instance is None else vars(self.instance)[name]


@frozen
class Context:
    """The schema of a store's table, named as on the backend, and the settings of the store.

    Attributes:
        clock: seconds since the epoch.
        limits: the sizes that may be written.
        random: draws random shards; safe to use from several threads.
        skip_unknown: items whose tag no entity has are not there to reads; otherwise each that is met is an error.
        encode: makes the item of an entity, see `Connection.encode`.
        transaction_unsupported_reason: why items cannot be written in one transaction; see `Connection`.
    """

    schema: Schema
    clock: Callable[[], float] = time.time
    limits: Limits = PORTABLE
    random: Random = field(default=Factory(SystemRandom), repr=False)  # safe in threads and after a fork
    skip_unknown: bool = False
    encode: Callable[[EntityCodec, Any], Item] = EntityCodec.encode
    transaction_unsupported_reason: Callable[[Sequence[Key]], str | None] = _always_supported

    @property
    def transactions(self) -> bool:
        """Whether items of different partitions can be written together."""
        return self.transaction_unsupported_reason((Key("0", "0"), Key("1", "1"))) is None

    def now(self) -> Now:
        """The moment of a call."""
        return Now(int(self.clock()))

    def guard(self, entity: EntitySchema) -> str | None:
        """The tag that an item must have to be written over or removed; None in a table that nobody else writes to."""
        return None if self.schema.exclusive else entity.tag

    def filter(
        self, entity: EntitySchema | None, condition: Condition | None, *, expired: bool = False
    ) -> Condition | None:
        """The filter of a read: what is asked, on items that are there for this store.

        Unless they are to be skipped, it lets items of no entity through, whatever is asked: they are an error, and one
        that a filter hides would be met only by some reads.

        Args:
            entity: whose items are wanted; None: those of any entity.
            condition: what else must hold, lowered.
            expired: take in items that have expired.
        """
        if self.skip_unknown:
            known = of_tags(self.schema.entities) if entity is None else has_tag(entity.tag)
            condition = condition if requires(condition, known) else every(condition, known)
        if not expired:
            condition = reading_filter(self.schema, entity, condition, self.now())
        if condition is None or self.skip_unknown or self.schema.exclusive:
            return condition
        return Or((condition, Not(of_tags(self.schema.entities))))

    def living(self, item: Item | None) -> Item | None:
        """The item, or None if it has expired, or is to be skipped; an item of no entity never expires."""
        if item is not None and self.skip_unknown and not self.schema.knows(item):
            return None
        if item is None or item.get(TTL_ATTRIBUTE) is None:
            return item
        return None if self.now().expired(item) and self.schema.knows(item) else item

    def check_known(self, item: Item, key: Key) -> None:
        """Refuse an item that no entity has the tag of. Raises ItemInvalid."""
        if not self.skip_unknown and not self.schema.knows(item):
            raise self.unknown(item, key)

    def unknown(self, item: Item, key: Key) -> ItemInvalid:
        """The error for an item that no entity has the tag of."""
        has = (
            f"the tag {item[TAG]!r}, and no entity of the table has: declare one with tag=..."
            if TAG in item
            else f"no tag: did another program write it? Give its attribute {TAG!r} the tag of an entity"
        )
        return ItemInvalid(
            f"the item under {key} of table {self.schema.name!r} has {has}, remove the item, or open the store "
            'with on_unknown="skip"',
            str(key),
            item,
        )

    def stranger(self, target: Target, item: Item | None) -> ItemInvalid | None:
        """The error for a write to the key of an item that another entity, or another program, wrote; None: it is not.

        It holds the key also where such items are skipped: nothing writes over it or removes it.
        """
        if item is None or (tag := item.get(TAG)) == target.entity.tag:
            return None
        has = "no tag" if tag is None else f"the tag {tag!r}"
        return ItemInvalid(
            f"{target}: the key holds an item of table {self.schema.name!r} that has {has}, so it is not one of "
            f"{target.entity.name} and is neither changed nor removed: choose another key, or remove the item with the "
            "program that wrote it",
            str(target.key),
            item,
        )

    def decode(self, item: Item, key: Key) -> Any:
        """The entity of a stored item, by its tag; None for one that is to be skipped.

        Raises:
            ItemInvalid: the tag is unknown, the attributes do not validate, or they can not be upgraded.
        """
        load = getattr(item, "load", None)  # of a NativeItem; to ask for that class takes four times as long
        if load is not None:
            found = load()
            if found is not None:
                return found
            item = cast("NativeItem", item).made
        entity = self.schema.entities[item[TAG]] if self.schema.knows(item) else None
        if entity is None and self.skip_unknown:
            return None
        if entity is None:
            raise self.unknown(item, key)
        made = entity.codec.decode(item, str(key))
        if item.get(VERSION, 1) != entity.codec.upgrades.version:
            self._check_same_key(entity, made, item, key)
        return made

    def _check_same_key(self, entity: EntitySchema, made: Any, item: Item, key: Key) -> None:
        """An upgraded item must stay where it is. Raises ItemInvalid."""
        if not key.sort and not self.schema.hash_only:
            return  # of a scan of Bigtable, whose row keys can not be taken apart
        upgraded = entity.key(vars(made))
        if upgraded != key:
            raise ItemInvalid(
                f"a stored {entity.name} under {key} would be under {upgraded} when it is upgraded to version "
                f"{entity.version}: an upgrade may not change what the primary key is made of",
                str(key),
                item,
            )

    def decode_all(self, items: Sequence[Item], positions: Sequence[Position]) -> list[Any]:
        """The entities of a page of stored items.

        Raises:
            ItemInvalid: as `decode`, for the first item that it refuses.
        """
        found = items.load_all() if isinstance(items, NativeItems) else None
        if found is not None:
            return found
        return [self.decode(item, position.key) for item, position in zip(items, positions, strict=True)]

    def key_of(self, query: object) -> Target:
        """The item that a call of the primary key names, or that was found already.

        Raises:
            KeyValueError: a key field is missing.
            BadValue: it is not a call of the primary key.
        """
        if isinstance(query, Target):
            return query
        if isinstance(query, Finding):
            query.refuse("key")
        if not isinstance(query, Query):
            entity = self.schema.by_class.get(query) if isinstance(query, type) else None
            name, call = (repr(query), "Entity.primary(...)") if entity is None else (entity.name, key_call(entity))
            if callable(query) and not isinstance(query, type):  # Order.primary, Order.latest
                call = f"{name}(...)"
            raise BadValue(f"{name} is not a key: write {call} with every key field")
        entity = self.schema.entity(query.entity)
        lacking = [name for name in entity.primary.fields if name not in query.values]
        plain = query.scope == "entity" and not query.conditions and query.most is None
        if query.pattern != entity.primary.name or lacking or not plain:
            why = f"{lacking[0]!r} is missing" if lacking and plain else "it is a query"
            kind = KeyValueError if lacking else BadValue
            raise kind(f"{query} is not the key of one item, {why}: write {key_call(entity)}")
        return Target(entity, entity.key(query.values), query.values)
