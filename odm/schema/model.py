"""The result of `Table.compile()`: the key schema as frozen values.

It has everything that later stages need: compiled templates, the patterns of each index, and the stored name of each
field. Backends read `Schema`; the planner reads `EntitySchema`.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from copy import deepcopy
from functools import cached_property
from typing import Any, TypeAlias, cast

from odm.cache import Cache
from odm.codec import TAG, TTL_ATTRIBUTE, VERSION, NativeItem
from odm.codec.texts import TextLoader
from odm.entities.entity import Entity, hold_stored
from odm.entities.query import Query
from odm.errors import KeyValueError
from odm.expressions.collection import GCRule
from odm.expressions.nodes import Item
from odm.immutable import Immutable, field, force_setattr
from odm.keys import Kind, in_bytes
from odm.schema import faults
from odm.schema.entity import EntitySchema, Key, PatternSchema, Target, Values, held_by

KeyNames: TypeAlias = tuple[str | tuple[str, ...], ...]
"""The key attributes of a table or index, partition and sort; a tuple of names for a key of several attributes."""


def flat(names: KeyNames) -> tuple[str, ...]:
    """All attributes, in order."""
    return tuple(attribute for name in names for attribute in ((name,) if isinstance(name, str) else name))


class IndexSchema(Immutable):
    """One secondary index and the patterns that share it.

    Attributes:
        local: it is a local secondary index; its partitions are those of the primary key.
        projection: the stored names of the attributes that it holds besides keys on DynamoDB; None: all.
        keys: the names of its key attributes on DynamoDB; in a local index the first is the table's instead. One name:
            the index has no sort key.
    """

    name: str
    patterns: tuple[PatternSchema, ...]
    local: bool = False
    projection: tuple[str, ...] | None = None
    keys: KeyNames = ()

    def __post_init__(self) -> None:
        if not self.keys:
            force_setattr(self, "keys", (f"{self.name}pk", f"{self.name}sk"))

    @property
    def held(self) -> tuple[str, ...] | None:
        """The attributes that it holds on DynamoDB besides keys; None: all.

        With some fields it also holds tag and expiry, which most queries need.
        """
        return held_by(self.projection)


class Schema(Immutable, dict=True):
    """A compiled table, as a backend uses it.

    Attributes:
        name: the table's name on the backend.
        keys: the names of the key attributes, partition and sort, or partition only.
        hash_only: the table has no sort key, because no primary key has one.
        indexes: the secondary indexes, by name.
        entities: by tag, the value of the stored attribute ``_t``.
        row_key_join: the separator of partition and sort in Bigtable row keys.
        exclusive: True if no other program writes items under keys that the models make.
        prefix: the store's prefix, with which ``name`` begins.
        verbatim: keys are texts as they are, and fields may stand in keys only.
        tag: the attribute that names the entity of an item on DynamoDB; None: items have none.
        ttl: the attribute with the expiry of items on DynamoDB.
        keep_unknown: a put keeps the attributes of the stored item that the entity does not have.
        verbatim_rows: on Bigtable, rows have the form of other programs.
        binary_row_keys: a row key has binary parts, so keys have a character for each byte; see `odm.keys.binary`.
        wide: on Bigtable, a partition is one row, and each item is one cell of it.
        transactions: on Bigtable, transactions can have items of any rows, so rows may have locks.
        types: the types of the key attributes on DynamoDB.
        families: the column families that the models declare for Bigtable, with the garbage collection rule of each;
            None: no model states one, and Bigtable keeps the newest value.
    """

    name: str
    entities: Mapping[str, EntitySchema]
    indexes: Mapping[str, IndexSchema]
    keys: tuple[str, ...] = ("pk", "sk")
    hash_only: bool = False
    row_key_join: str = "#"
    exclusive: bool = False
    prefix: str = ""
    verbatim: bool = False
    tag: str | None = TAG
    ttl: str = TTL_ATTRIBUTE
    keep_unknown: bool = False
    wide: bool = False
    verbatim_rows: bool = False
    binary_row_keys: bool = False
    transactions: bool = False
    types: Mapping[str, Kind] = field(factory=dict)
    families: Mapping[str, GCRule | None] = field(factory=dict)

    @cached_property
    def by_class(self) -> Mapping[type, EntitySchema]:
        return {entity.cls: entity for entity in self.entities.values()}

    @cached_property
    def compiled(self) -> Cache[Any, Any]:
        """What calls compile of their shapes; see `odm.planner.compile`."""
        return Cache()

    @cached_property
    def texts(self) -> TextLoader:
        return TextLoader(e.codec for e in self.entities.values())

    @property
    def described(self) -> bool:
        """Whether the stored form on DynamoDB is that of other programs, in any respect."""
        natives = any(t.native or t.several for entity in self.entities.values() for t in entity.templates)
        return self.verbatim or self.tag != TAG or self.ttl != TTL_ATTRIBUTE or natives

    @property
    def has_verbatim_keys(self) -> bool:
        """Whether a key of the table is not escaped."""
        return any(template.verbatim for entity in self.entities.values() for template in entity.templates)

    @property
    def escapes_row_keys(self) -> bool:
        """Whether Bigtable escapes the parts of keys as they are, so that row keys are unambiguous."""
        return self.has_verbatim_keys and not self.verbatim_rows

    @property
    def row_key_separator(self) -> str:
        """The separator of partition and sort in row keys, as it stands in them."""
        return in_bytes(self.row_key_join) if self.binary_row_keys else self.row_key_join

    @property
    def has_ttl(self) -> bool:
        """Whether any entity has a TTL, so that the table needs the TTL attribute."""
        return any(entity.ttl for entity in self.entities.values())

    def knows(self, item: Item) -> bool:
        """Whether a stored item belongs to one of the entities, by its tag; another program's tag may not be text."""
        tag = item.get(TAG)
        return isinstance(tag, str) and tag in self.entities

    def entity(self, cls: type) -> EntitySchema:
        """The schema of an entity class.

        Raises:
            SchemaError: the class is not an entity of this table.
        """
        try:
            return self.by_class[cls]
        except KeyError:
            raise faults.not_of_the_table(self.name, self.name.removeprefix(self.prefix), self.by_class, cls) from None

    def key_of(self, which: object, key: Values) -> Target:
        """The target of ``get(Order, order_id=...)`` or ``get(Order.primary(order_id=...))``.

        Raises:
            KeyValueError: a key field is missing, unknown or does not validate.
            BadValue: the argument is not the key of one item.
        """
        named = self.named(which, key)
        return named if type(named) is Target else self.key_target(named)

    def named(self, which: object, key: Values) -> object:
        """The target of ``get(Order, order_id=...)``, or the argument if it is already a key.

        Raises:
            KeyValueError: a key field is missing, unknown or does not validate.
            BadValue: key fields are given without an entity class.
        """
        if isinstance(which, type):
            entity = self.entity(which)
            if not key and entity.primary.fields:
                raise KeyValueError(
                    f"{entity.name} alone is not a key: give every key field by name, or {entity.key_call}"
                )
            values = entity.call_values(entity.primary.name, key)
            whole = len(values) == len(entity.primary.fields)
            return Target(entity, entity.key(values), values) if whole else Query(which, entity.primary.name, values)
        if key:
            raise faults.no_class(which, key)
        return which

    def no_names(self, call: str, which: object, unnamed: Sequence[object]) -> TypeError:
        """The error for key fields or options that are given by position."""
        return faults.no_names(call, self._of(which), which, unnamed)

    def no_actions(self, which: object, fields: Values) -> TypeError:
        """The error for an update with values by name."""
        return faults.no_actions(self._of(which), which, fields)

    def _of(self, which: object) -> EntitySchema | None:
        """The entity of an argument, if it has one."""
        cls = which.entity if isinstance(which, Query) else which if isinstance(which, type) else type(which)
        return self.by_class.get(cls)

    def target(self, which: object) -> Target:
        """The target of a call that takes an entity or a call of the primary key.

        Raises:
            KeyValueError: a key field is missing, or cannot be part of a key.
            BadValue: the argument is neither.
        """
        if isinstance(which, Entity):
            entity = self.entity(type(which))
            return Target(entity, entity.key(vars(which)), vars(which), which)
        return self.key_target(which)

    def key_target(self, which: object) -> Target:
        """The target of a call of the primary key, or the argument if it is already a target.

        Raises:
            KeyValueError: a key field is missing.
            BadValue: the argument is not a call of the primary key.
        """
        if isinstance(which, Target):
            return which
        if not isinstance(which, Query):
            raise faults.no_key(self.by_class, which)
        entity = self.entity(which.entity)
        fields = entity.primary.fields
        missing = [] if tuple(which.values) == fields else [name for name in fields if name not in which.values]
        plain = which.scope == "entity" and not which.conditions and which.most is None
        if which.pattern != entity.primary.name or missing or not plain:
            raise faults.no_single_key(entity, which, missing[0] if missing else None, plain=plain)
        return Target(entity, entity.key(which.values), which.values)

    # Any: an instance of the class that has the item's tag.
    def decode(
        self,
        item: Item,
        key: Key,
        *,
        skip_unknown: bool = False,
        living: Callable[[Item], Item | None] | None = None,
    ) -> Any:
        """The entity of a stored item, by its tag.

        Args:
            item: the stored item.
            key: the key of the stored item.
            skip_unknown: return None for an item whose tag no entity has, instead of raising.
            living: returns whether an item with a TTL has not expired; an expired item gives None. Default: no item
                has expired.

        Raises:
            ItemInvalid: the tag is unknown, the attributes do not validate, or they cannot be upgraded.
        """
        if living is not None and item.get(TTL_ATTRIBUTE) is not None and living(item) is None:
            return None
        native: NativeItem | None = None
        load = getattr(item, "load", None)  # a NativeItem has it; isinstance takes four times as long
        if load is not None:
            loaded = load()
            if loaded is not None:
                if not self.exclusive:
                    self.check_values(self.by_class[type(loaded)], loaded.__dict__, item, key)
                hold_stored(loaded, item)
                return loaded
            native = cast("NativeItem", item)
            item = native.content
        entity = self.entities[item[TAG]] if self.knows(item) else None
        if entity is None:
            if skip_unknown:
                return None
            raise faults.unknown_item(self.name, item, key, self.tag, self.entities.values())
        instance = entity.codec.decode(item, str(key))
        if item.get(VERSION, 1) != entity.codec.upgrades.version and (key.sort or self.hash_only):
            # A scan of Bigtable has row keys without a separate sort, which cannot be split into the two parts.
            upgraded = entity.key(vars(instance))
            if upgraded != key:
                raise faults.moved_by_upgrade(entity, item, key, upgraded)
        if not self.exclusive:
            self.check_values(entity, instance.__dict__, item, key)
        if native is not None:
            hold_stored(instance, native)
            native.forget()
        else:  # the lists and dicts of a decoded item may have become the entity's
            hold_stored(instance, deepcopy(dict(item)) if entity.codec.nests else item)
        return instance

    def check_values(self, entity: EntitySchema, values: Values, item: Item, key: Key) -> None:
        """Check that an entity could be written back to where its item is stored.

        An update of an entity whose fields give another key would not find the item, and a put would make a second one.

        Args:
            entity: the entity of the item.
            values: the values of its fields, or of some, with those of the key.
            item: the stored item, for the error.
            key: the key it is stored under.

        Raises:
            ItemInvalid: the fields give another key, or a datetime has no time zone.
        """
        if not _makes(entity.primary, values, key, self.row_key_separator):
            raise faults.other_key(entity, item, key, values)
        for name in entity.codec.datetimes:
            value = values.get(name)
            if value is not None and value.tzinfo is None:  # pydantic accepts it, but it could not be stored again
                raise faults.naive(entity, item, key, name, value)

    def is_under(self, key: Key, stored: Key) -> bool:
        """Whether the item of a key is stored under this one. A scan of Bigtable has whole row keys, without a sort."""
        if stored.sort or self.hash_only:
            return key == stored
        return key == stored or stored.partition == f"{key.partition}{self.row_key_separator}{key.sort}"

    def check_all(
        self, instances: Sequence[Any], items: Sequence[Item], positions: Iterable[tuple[Key, Key | None]]
    ) -> None:
        """`check_values` for a page of entities, in less time. Nobody else writes items of an exclusive table.

        Raises:
            ItemInvalid: as `check_values`, for the first such item.
        """
        if self.exclusive or not instances:
            return
        entity = self.by_class[type(instances[0])]
        for at, (instance, (key, _)) in enumerate(zip(instances, positions, strict=True)):
            if type(instance) is not entity.cls:
                entity = self.by_class[type(instance)]
            primary, values = entity.primary, instance.__dict__
            try:
                right = primary.of_values(values) == key
            except KeyValueError:
                right = False
            for name in entity.codec.datetimes:
                right = right and (values[name] is None or values[name].tzinfo is not None)
            if not right:
                self.check_values(entity, values, items[at], key)


def _makes(pattern: PatternSchema, values: Values, key: Key, join: str) -> bool:
    """Whether field values give a key, in any shard. A scan of Bigtable has whole row keys, without a separate sort."""
    try:
        pair = pattern.of_values(values)
    except KeyValueError:
        return False
    if pair == key:
        return True
    if pair is None:
        return False
    partition, sort = pair
    end = f"{join}{sort}" if pattern.sort is not None and not key.sort else ""
    if pattern.shards is None:
        return end != "" and key.partition == partition + end
    return (end != "" or sort == key.sort) and key.partition.startswith(partition) and key.partition.endswith(end)
