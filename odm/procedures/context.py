"""The context of every operation: the schema, and the settings of the store."""

import time
from collections import deque
from collections.abc import Callable, Sequence
from functools import cached_property
from random import Random, SystemRandom
from typing import Any, NamedTuple

from odm.codec import TAG, TTL_ATTRIBUTE, VERSION, WAS, EntityCodec, NativeItems
from odm.codec.types.blobs import placeholders
from odm.entities.entity import Entity, hold_stored
from odm.errors import ItemInvalid, Unsupported
from odm.expressions.nodes import Condition, Item, Not, Or
from odm.immutable import Immutable, field
from odm.procedures.ids import OF_PROCESS, IdSource
from odm.protocol.blobs import BlobFolder
from odm.protocol.expressions import check_condition, surely_fits
from odm.protocol.limits import PORTABLE, SHORT_KEY, Limits, check_keys
from odm.protocol.predicates import Now, every, has_tag, of_tags, requires
from odm.protocol.requests import Position
from odm.protocol.turns import Turns
from odm.schema.entity import EntitySchema, Key, Target
from odm.schema.faults import several_fit, unknown_item
from odm.schema.model import Schema


def _always_supported(_keys: Sequence[Key]) -> None:
    """None, as the backend supports every transaction."""


def _of_another_backend(_part: object) -> None:
    """None, as for every part of a page of another backend."""


class Fitting(NamedTuple):
    """The items of a page that fit their models, with their positions, and the entities that they make."""

    items: Sequence[Item]
    positions: Sequence[Position]
    entities: list[Any]


class CompiledWrites(Immutable):
    """What the model of an entity and the settings of a store decide about all writes of its items.

    Attributes:
        entity: the entity.
        guard: the tag that a stored item must have to be replaced or removed; None in an ``exclusive`` table.
        replaced: the attributes that a put replaces; None: the whole item.
        encode: makes the item of an entity.
        normalises: validation may change an entity whose fields were assigned.
    """

    entity: EntitySchema
    guard: str | None
    replaced: frozenset[str] | None
    encode: Callable[[EntityCodec, Any], Item]
    normalises: bool

    def stages(self, call: str, *, present: bool | None) -> tuple[str, ...]:
        """What a call does, in words.

        Args:
            call: "put", "insert", "delete" or "check".
            present: True: the item must exist; False: it must not; None: both are right.
        """
        entity = self.entity
        before: list[str] = []
        fields = entity.automatic
        automatic = () if fields is None else (fields.id, fields.created, fields.updated)
        assigned = ", ".join(name for name in automatic if name is not None)
        if call in ("put", "insert"):
            before = [
                *([f"assign {assigned}"] if assigned else []),
                *([f"count {entity.revision}"] if entity.revision is not None else []),
                "validate and encode" if self.normalises or not entity.codec.sure else "encode",
                *([f"upload {', '.join(entity.blobs)}"] if entity.blobs else []),
                *([f"expiry of {entity.ttl}"] if entity.ttl is not None else []),
                *([f"keys of {', '.join(entity.patterns)}"] if entity.patterns else []),
                *(["keep attributes that the model lacks"] if self.replaced is not None else []),
            ]
        own = f"no item, or one of {entity.name}" if self.guard is not None else ""
        condition = own if present is None else f"the item is of {entity.name}" if present else "no item"
        locked = f"{entity.revision} as read" if entity.revision is not None and present is not False else ""
        conditions = [text for text in (condition, locked) if text]
        companions = ", ".join(companion.name for companion in entity.companions)
        after = [f"companions: {companions}"] if companions and call != "check" else []
        after += [f"trim to the newest {entity.keep}"] if entity.keep is not None and call in ("put", "insert") else []
        return (*before, *([f"if {', '.join(conditions)}"] if conditions else []), *after)


class Context(Immutable, dict=True):
    """The schema of a store's table, named as on the backend, and the settings of the store.

    Attributes:
        clock: returns the seconds since the epoch.
        limits: the size limits of writes.
        random: draws random shards; safe to use from several threads.
        skip_unknown: reads skip items whose tag no entity has; otherwise such an item is an error.
        on_invalid: reads of many items skip those that do not fit their model, and call this with the error of each;
            None: such an item is an error.
        encode: makes the item of an entity, see `Connection.encode`.
        item_of: returns the item of a part of a page, see `Connection.item_of`.
        transaction_unsupported_reason: why items cannot be written in one transaction; see `Connection`.
        adds_values: whether an update can have an `AddValue`, see `Connection.adds_values`.
        ids: the source of new ids.
        turns: the turns of writers that change the same items, see `Connection.turns`.
        merge_unsupported_reason: why nothing can be merged, see `Connection.merge_unsupported_reason`.
        merges_together: the merges of a batch are one request, see `Connection.merges_together`.
        samples: a `Scan` can have a ``sample``, see `Connection.samples`.
        range_unsupported_reason: why no scan reads a range of partitions, see `Connection.range_unsupported_reason`.
        blobs: the folder of large values; None: the store has none.
        bind: lets the large values of an entity that was read be read later; None: no entity of the table has such.
        unfilled: the access patterns that are not backfilled, such as "Order.by_date", each with the reason; a complete
            backfill removes its pattern. None: nothing is known.
        merge_rules: the rules of merges that were needed so far, see `odm.procedures.writing.merge`.
    """

    schema: Schema
    clock: Callable[[], float] = time.time
    limits: Limits = PORTABLE
    random: Random = field(factory=SystemRandom, repr=False)  # safe in threads and after a fork
    skip_unknown: bool = False
    on_invalid: Callable[[ItemInvalid], object] | None = None
    encode: Callable[[EntityCodec, Any], Item] = EntityCodec.encode
    item_of: Callable[[object], Item | None] = _of_another_backend
    transaction_unsupported_reason: Callable[[Sequence[Key]], str | None] = _always_supported
    adds_values: bool = True
    turns: Turns = field(factory=Turns, repr=False, eq=False)
    ids: IdSource = field(default=OF_PROCESS, repr=False)
    merge_unsupported_reason: str | None = None
    merges_together: bool = False
    samples: bool = True
    range_unsupported_reason: str | None = None
    blobs: BlobFolder | None = field(default=None, repr=False)
    bind: Callable[[Entity], None] | None = field(default=None, repr=False)
    unfilled: dict[str, str] | None = field(default=None, repr=False)

    @cached_property
    def strangers(self) -> Condition:
        """The item's tag is that of no entity."""
        return Not(of_tags(self.schema.entities))

    @cached_property
    def transactions(self) -> bool:
        """The backend has transactions of items in different partitions."""
        return self.transaction_unsupported_reason((Key("0", "0"), Key("1", "1"))) is None

    @cached_property
    def _writes(self) -> dict[str, "CompiledWrites"]:
        """By tag."""
        return {}

    @cached_property
    def merge_rules(self) -> dict[str, Any]:
        """By tag; Any, because `odm.procedures.writing.merge`, which fills it, imports this module."""
        return {}

    def now(self) -> Now:
        """The time of a call."""
        return Now(int(self.clock()))

    def check_key(self, target: Target) -> None:
        """Refuse the key of an item that is longer than this store allows. Raises ItemTooLarge."""
        if len(target.key.partition) + len(target.key.sort) > SHORT_KEY:
            check_keys(target.key, {}, target.entity, self.limits)

    def check_filter(self, entity: EntitySchema | None, condition: Condition | None) -> None:
        """Refuse the filter of a read that is too large for this store's limits; the arguments are as for `filter`.

        Raises:
            BadValue: as `odm.protocol.expressions.check_condition`.
        """
        if self.limits.expressions and not surely_fits(condition):
            check_condition(self.filter(entity, condition))

    def writes(self, entity: EntitySchema) -> "CompiledWrites":
        """What is decided about all writes of items of an entity."""
        compiled = self._writes.get(entity.tag)
        if compiled is None:
            former = (WAS,) if entity.versioned else ()
            known = frozenset({*entity.codec.stored.values(), TAG, VERSION, TTL_ATTRIBUTE, *former})
            compiled = self._writes[entity.tag] = CompiledWrites(
                entity,
                None if self.schema.exclusive else entity.tag,
                known if self.schema.keep_unknown else None,
                # A backend's own form has no place for the bytes of a blob.
                EntityCodec.encode if entity.blobs else self.encode,
                bool(entity.codec.normalises),
            )
        return compiled

    def filter(
        self, entity: EntitySchema | None, condition: Condition | None, *, expired: bool = False
    ) -> Condition | None:
        """The filter of a read: the condition, without items that have expired or that this store skips.

        Unless the store skips them, items whose tag no entity has always pass the filter: they are an error, which must
        not depend on the condition of a read.

        Args:
            entity: return only items of this entity; None: those of any entity.
            condition: a condition, lowered.
            expired: include expired items.
        """
        if self.skip_unknown:
            known = of_tags(self.schema.entities) if entity is None else has_tag(entity.tag)
            condition = condition if requires(condition, known) else every(condition, known)
        if not expired and (self.schema.has_ttl if entity is None else entity.ttl is not None):
            condition = every(condition, self.now().alive)
        if condition is None or self.skip_unknown or self.schema.exclusive:
            return condition
        return Or((condition, self.strangers))

    def living(self, item: Item | None) -> Item | None:
        """The item, or None if it has expired or the store skips it; an item with an unknown tag never expires."""
        if item is not None and self.skip_unknown and not self.schema.knows(item):
            return None
        if item is None or item.get(TTL_ATTRIBUTE) is None:
            return item
        return None if self.now().expired(item) and self.schema.knows(item) else item

    def folder(self, entity: EntitySchema) -> BlobFolder:
        """The folder of the entity's large values. Raises Unsupported if the store has none."""
        if self.blobs is None:
            names = ", ".join(sorted(entity.blobs))
            raise Unsupported(
                f"{entity.name} has large values ({names}, marked by Blob), and this store has no place for them: "
                'give it one, as in Store(..., blobs="s3://bucket/prefix") or the path of a folder'
            )
        return self.blobs

    def check_known(self, item: Item, key: Key) -> None:
        """Raise ItemInvalid for an item whose tag no entity has, unless the store skips such items."""
        if not self.skip_unknown and not self.schema.knows(item):
            raise unknown_item(self.schema.name, item, key, self.schema.tag, self.schema.entities.values())

    def stranger(self, target: Target, item: Item | None) -> ItemInvalid | None:
        """The error for a write to a key that holds an item of another entity or program; None if it does not.

        The error is raised even if reads skip such items: no call replaces or removes them.
        """
        if item is None or (tag := item.get(TAG)) == target.entity.tag:
            return None
        several = several_fit(self.schema.entities.values(), item, self.schema.tag)
        has = f"attributes that fit match= of {several}" if several else "no tag" if tag is None else f"the tag {tag!r}"
        return ItemInvalid(
            f"{target}: the key holds an item of table {self.schema.name!r} that has {has}, so it is not one of "
            f"{target.entity.name} and is neither changed nor removed: choose another key, or remove the item with the "
            "program that wrote it",
            str(target.key),
            item,
        )

    # Any: an instance of the class that has the item's tag, or None.
    def decode(self, item: Item, key: Key) -> Any:
        """The entity of a stored item, or None if the store skips the item; see `Schema.decode`."""
        entity = self.schema.decode(item, key, skip_unknown=self.skip_unknown)
        if self.bind is not None and entity is not None:
            self.bind(entity)
        return entity

    def decode_all(self, items: Sequence[Item], positions: Sequence[Position]) -> list[Any]:
        """The entities of a page of stored items.

        Raises:
            ItemInvalid: as `decode`, for the first invalid item.
        """
        native = items if isinstance(items, NativeItems) else None
        entities = None if native is None else native.load_all()
        if native is not None and entities is not None:
            self.schema.check_all(entities, items, positions)
            deque(map(hold_stored, entities, native.parts), 0)
            if self.bind is not None:
                for entity in entities:
                    self.bind(entity)
            return entities
        return [self.decode(item, position.key) for item, position in zip(items, positions, strict=True)]

    def skip_invalid(self, error: ItemInvalid, item: Item) -> None:
        """Report an item that a read of many items skips, as it does not fit its model.

        Raises:
            ItemInvalid: the store does not skip such items, or the item is of no entity, which is for ``on_unknown``.
        """
        if self.on_invalid is None or not self.schema.knows(item):
            raise error
        self.on_invalid(error)

    def fitting(
        self,
        items: Sequence[Item],
        positions: Sequence[Position],
        decode: Callable[[Item, Key], Any] | None = None,
    ) -> Fitting:
        """The items of a page without those that the store skips because they do not fit their model.

        Args:
            items: the stored items.
            positions: where they are.
            decode: makes the result of an item; None: `decode`.

        Raises:
            ItemInvalid: as `skip_invalid`.
        """
        if decode is None:
            try:
                return Fitting(items, positions, self.decode_all(items, positions))
            except ItemInvalid:  # one of them: the loop finds which
                decode = self.decode
        kept: list[tuple[Item, Position, Any]] = []
        for item, position in zip(items, positions, strict=True):
            try:
                kept.append((item, position, decode(item, position.key)))
            except ItemInvalid as error:
                self.skip_invalid(error, item)
        return Fitting([row[0] for row in kept], [row[1] for row in kept], [row[2] for row in kept])

    def check_fit(self, item: Item, key: Key) -> None:
        """Check that a stored item fits its model, without its large values. Raises ItemInvalid if not."""
        entity = self.schema.entities[item[TAG]] if self.schema.knows(item) else None
        self.schema.decode(
            item if entity is None else placeholders(entity.blobs, item), key, skip_unknown=self.skip_unknown
        )
