"""What `Table.compile()` makes: the key schema as frozen values.

Everything that later stages need is decided here once: compiled templates, which index holds which pattern, what each
field is called when stored. Backends read `Schema`; the planner reads `EntitySchema`.
"""

from collections.abc import Collection, Iterable, Mapping
from random import Random
from typing import Any, Literal, NamedTuple, cast

from attrs import Factory, evolve, field, frozen

from odm.codec import TAG, TTL_ATTRIBUTE, VERSION, NativeItem
from odm.codec.entity import EntityCodec
from odm.codec.texts import TextLoader
from odm.entities.companions import BaseCompanion
from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import BadValue, KeyValueError
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Compare, Condition, Item, Path
from odm.keys import Shards, Template, random_suffix, suffix_of
from odm.keys.base import Descending
from odm.schema import faults
from odm.schema.target import FieldValue, Target, Values


class Key(NamedTuple):
    """A full key: partition and sort text; ``sort`` is "" in a table whose items have no sort key."""

    partition: str
    sort: str = ""


@frozen
class PatternSchema:
    """One way to reach the items of an entity: its primary key or an access pattern.

    Attributes:
        name: the attribute name in the class.
        kind: "primary"; "global" for a pattern served by a secondary index, "local" where that index has the
            partitions of the primary key.
        index: the index name; None for the primary key.
        partition, sort: compiled templates; sort is None in a table whose items have no sort key.
        when: an item is in the index only if this holds (field names, not stored names).
        shared: another entity's keys may fall into this pattern's range, so queries filter by tag.
        shards: over how many partitions each one is spread, and by which field; None: it is not.
        hashed: what writes that field.
        projection: the stored names of what its index holds beside keys; None: all.
        fields: the fields of both templates, each once, partition first.
        full_name: with the entity before it, such as "Order.by_date".
    """

    entity: str
    name: str
    kind: Literal["primary", "global", "local"]
    index: str | None
    partition: Template
    sort: Template | None
    when: Condition | None = None
    shared: bool = False
    shards: Shards | None = None
    hashed: Template | None = None
    projection: tuple[str, ...] | None = None
    fields: tuple[str, ...] = field(
        init=False, repr=False, eq=False, default=Factory(lambda self: self._fields(), takes_self=True)
    )
    full_name: str = field(
        init=False, repr=False, eq=False, default=Factory(lambda self: f"{self.entity}.{self.name}", takes_self=True)
    )

    def _fields(self) -> tuple[str, ...]:
        sort = self.sort.fields if self.sort is not None else ()
        return tuple(dict.fromkeys(self.partition.fields + sort))

    @property
    def sources(self) -> tuple[str, ...]:
        """The fields that the key is made of: those of the templates, and the one that tells the shard."""
        return self.fields if self.hashed is None else (*self.fields, *self.hashed.fields)

    @property
    def partitions(self) -> tuple[Template, ...]:
        """The templates of all partitions where entries may be: without shards too, where there were none."""
        without = self.shards is not None and self.shards.was == 1
        return (self.partition, evolve(self.partition, behind=())) if without else (self.partition,)

    @property
    def lossy(self) -> frozenset[str]:
        """The fields of which the key does not keep the whole value in every place."""
        return self.partition.lossy | (frozenset() if self.sort is None else self.sort.lossy)

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """The fields of the partition template."""
        return self.partition.fields

    def key_text(self, field: str, value: FieldValue) -> str:
        """How a value of a field is written where the field first appears in the templates.

        Raises:
            KeyValueError: the value cannot be part of a key, or the field is in neither template.
        """
        for template in (self.partition, self.sort):
            if template is not None and field in template.fields:
                return template.text_of(field, value)
        raise KeyValueError(f"{self.full_name} has no field {field!r}; it has {', '.join(self.fields)}")

    def key(self, values: Values, random: Random | None = None) -> Key | None:
        """The key for these field values; None when a value is None (no entry: that makes an index sparse).

        Args:
            values: of `sources` at least.
            random: draws the shard, where no field tells it.

        Raises:
            KeyValueError: a value can not stand in a key.
        """
        partition = self.partition.encode(values)
        sort = "" if self.sort is None else self.sort.encode(values)
        if partition is None or sort is None:
            return None
        return Key(partition if self.shards is None else partition + self._suffix(self.shards, values, random), sort)

    def _suffix(self, shards: Shards, values: Values, random: Random | None) -> str:
        if self.hashed is not None:
            return suffix_of(shards, self.hashed, values[str(shards.by)])
        assert random is not None
        return random_suffix(shards, random)

    @property
    def text(self) -> str:
        """The pattern as declared, with the tag where that stands for a missing sort; for messages."""
        sort = f', "{self.sort.text}"' if self.sort is not None else ""
        kind = "PrimaryKey" if self.kind == "primary" else "AccessPattern"
        local = self.kind == "local"  # with the shards of the primary key, if any
        options = f", shards={self.shards!r}" * (self.shards is not None and not local) + ", local=True" * local
        if self.projection is not None:
            options += f", projection={self.projection or 'keys'!r}"
        return f'{self.name} = {kind}("{self.partition.text}"{sort}{options})'


@frozen
class EntitySchema:
    """One entity: its patterns, codec, and the fields with a role.

    Attributes:
        revision, ttl: the field that carries the marker, or None.
        counters: the fields marked as Counter.
        columns: the fields marked as Columns.
        optional: the fields whose value may be None.
        keep: how many items stay in a partition, the newest; None: all.
        companions: what is written along with its items.
        local: the local indexes, with what each holds of an item on DynamoDB; see `IndexSchema.held`.
    """

    cls: type[Any]
    tag: str
    primary: PatternSchema
    patterns: Mapping[str, PatternSchema]
    codec: EntityCodec = field(repr=False)
    revision: str | None = None
    ttl: str | None = None
    counters: frozenset[str] = frozenset()
    columns: frozenset[str] = frozenset()
    optional: frozenset[str] = frozenset()
    keep: int | None = None
    companions: tuple[BaseCompanion, ...] = ()
    local: Mapping[str, tuple[str, ...] | None] = field(
        init=False, repr=False, default=Factory(lambda self: _local(self.patterns.values()), takes_self=True)
    )

    @property
    def version(self) -> int:
        """The version of the stored form, which items have as ``_v`` from 2 on."""
        return self.codec.upgrades.version

    @property
    def name(self) -> str:
        """The class name, for messages."""
        return self.cls.__name__

    def pattern(self, name: str) -> PatternSchema:
        """The primary key or access pattern of that attribute name."""
        return self.primary if name == self.primary.name else self.patterns[name]

    def ordered_by(self, field: str, among: Collection[str]) -> tuple[PatternSchema, bool] | None:
        """The pattern that has all items with given values in the order of a field.

        Args:
            field: in whose order, from one end or the other.
            among: the fields that are given, and not None, as the one in whose order is not.

        Returns:
            The pattern, and whether the highest is first in it; None: there is none.
        """
        for pattern in (self.primary, *self.patterns.values()):
            partition, first = pattern.partition, pattern.sort.slots[0] if pattern.sort and pattern.sort.slots else None
            known = set(partition.fields) <= set(among) - {field} and not partition.lossy
            all_of_them = pattern.when is None and not self.optional & set(pattern.sources) - {*among, field}
            if known and all_of_them and first is not None and first.name == field and not first.type.lossy:
                return pattern, isinstance(first.type, Descending)
        return None

    def validate(self, field: str, value: FieldValue) -> FieldValue:
        """A value as this field would hold it; see `odm.entities.views.EntityView`."""
        return self.codec.validate(field, value)

    def check_ordered(self, field: str) -> None:
        """Refuse a field whose stored values have no order among them. Raises BadValue."""
        path = Path((field,))
        self.codec.lower(Compare("<", path, path))  # whether it can be compared at all
        if len(self.codec.record.fields[field].type.kinds) != 1:
            raise BadValue(f"{self.name}.{field} is of several types, which have no order among them")

    def key(self, values: Values) -> Key:
        """The primary key for these field values.

        Raises:
            KeyValueError: a value is None or can not stand in a key.
        """
        key = self.primary.key(values)
        if key is None:
            empty = [field for field in self.primary.fields if values.get(field) is None]
            raise KeyValueError(f"{self.name}.{empty[0]} is None, and it is part of the primary key: give it a value")
        return key

    def entries(self, values: Values, item: Item, random: Random) -> dict[str, Key]:
        """The index entries of an item: index name to index key, without those it has not.

        Args:
            values: field values (Python), at least the patterns' `PatternSchema.sources`.
            item: the same item as stored, on which ``when`` is judged.
            random: draws the shards that no field tells.
        """
        found: dict[str, Key] = {}
        for pattern in self.patterns.values():
            key = pattern.key(values, random) if pattern.when is None or holds(pattern.when, item) else None
            if key is not None:
                found[str(pattern.index)] = key
        return found

    def call_values(self, name: str, values: Values) -> dict[str, FieldValue]:
        """The validated values of a pattern call: all partition fields, then leading sort fields.

        Raises:
            KeyValueError: a name is missing, unknown or leaves a gap, or a value does not validate.
        """
        pattern = self.pattern(name)
        if tuple(values) != pattern.fields:  # as they mostly are
            faults.check_names(self, pattern, values)
        as_they_are, found = self.codec.as_they_are, {}
        try:
            for field in pattern.fields:
                if field in values:
                    value = values[field]
                    # Looked up here too, as most key fields are text or numbers, and a call for each would cost more.
                    plain = type(value) is as_they_are.get(field) and (type(value) is not str or value.isascii())
                    found[field] = value if plain else self.codec.validate(field, value)
        except BadValue as error:
            raise KeyValueError(str(error)) from error
        return found

    @property
    def key_call(self) -> str:
        """How the key of an item is written, for messages."""
        return f"{self.name}.{self.primary.name}({', '.join(f'{name}=...' for name in self.primary.fields)})"


def _local(patterns: Iterable[PatternSchema]) -> dict[str, tuple[str, ...] | None]:
    return {str(pattern.index): _held(pattern.projection) for pattern in patterns if pattern.kind == "local"}


def _held(projection: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """What an index of this projection holds beside keys: where it is some fields, tag and expiry too."""
    return (*projection, TAG, TTL_ATTRIBUTE) if projection else projection


@frozen
class IndexSchema:
    """One secondary index and the patterns that share it.

    Attributes:
        local: its partitions are those of the primary key.
        projection: the stored names of what it holds beside keys on DynamoDB; None: all.
        keys: the names of its key attributes on DynamoDB; the first of a local one is the table's instead.
    """

    name: str
    patterns: tuple[PatternSchema, ...]
    local: bool = False
    projection: tuple[str, ...] | None = None
    keys: tuple[str, str] = field(default=Factory(lambda self: (f"{self.name}pk", f"{self.name}sk"), takes_self=True))

    @property
    def held(self) -> tuple[str, ...] | None:
        """The attributes that it holds on DynamoDB beside keys; None: all.

        Where some fields are held, so are tag and expiry: most queries ask for these.
        """
        return _held(self.projection)


@frozen
class Schema:
    """A table, ready for a backend.

    Attributes:
        name: the table's name on the backend.
        keys: the names of the key attributes, partition and sort.
        hash_only: the table has no sort key, because no primary key has one.
        indexes: the secondary indexes, by name.
        entities: by tag, the value of the stored attribute ``_t``.
        row_key_join: what Bigtable puts between partition and sort.
        exclusive: no other program writes items under keys that the models make.
        prefix: of a store, with which ``name`` begins.
    """

    name: str
    entities: Mapping[str, EntitySchema]
    indexes: Mapping[str, IndexSchema]
    keys: tuple[str, str] = ("pk", "sk")
    hash_only: bool = False
    row_key_join: str = "#"
    exclusive: bool = False
    prefix: str = ""
    by_class: Mapping[type, EntitySchema] = field(
        init=False,
        repr=False,
        default=Factory(lambda self: {entity.cls: entity for entity in self.entities.values()}, takes_self=True),
    )

    texts: TextLoader = field(
        init=False,
        repr=False,
        eq=False,
        default=Factory(lambda self: TextLoader(e.codec for e in self.entities.values()), takes_self=True),
    )

    @property
    def has_ttl(self) -> bool:
        """Whether any entity expires, so that the table needs the TTL attribute."""
        return any(entity.ttl for entity in self.entities.values())

    def knows(self, item: Item) -> bool:
        """Whether a stored item is of one of the entities, by its tag; another program's may be no text."""
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
            raise faults.not_of_the_table(self, cls) from None

    def key_of(self, which: object, key: Values) -> Target:
        """The item of ``get(Order, order_id=...)``, or of ``get(Order.primary(order_id=...))``.

        Raises:
            KeyValueError: a key field is missing, unknown or does not validate.
            BadValue: it is not the key of one item.
        """
        named = self.named(which, key)
        return named if type(named) is Target else self.key_target(named)

    def named(self, which: object, key: Values) -> object:
        """The item of ``get(Order, order_id=...)``, or what was passed, where it is a key already.

        Raises:
            KeyValueError: a key field is missing, unknown or does not validate.
            BadValue: there are fields without the class that they are of.
        """
        if isinstance(which, type):
            entity = self.entity(which)
            values = entity.call_values(entity.primary.name, key)
            whole = len(values) == len(entity.primary.fields)
            return Target(entity, entity.key(values), values) if whole else Query(which, entity.primary.name, values)
        if key:
            raise faults.no_class(which, key)
        return which

    def target(self, which: object) -> Target:
        """The item that an entity is, or that a call of the primary key names.

        Raises:
            KeyValueError: a key field is missing, or cannot be part of a key.
            BadValue: it is neither.
        """
        if isinstance(which, Entity):
            entity = self.entity(type(which))
            return Target(entity, entity.key(vars(which)), vars(which), which)
        return self.key_target(which)

    def key_target(self, which: object) -> Target:
        """The item that a call of the primary key names, or that was found already.

        Raises:
            KeyValueError: a key field is missing.
            BadValue: it is not a call of the primary key.
        """
        if isinstance(which, Target):
            return which
        if not isinstance(which, Query):
            raise faults.no_key(self, which)
        entity = self.entity(which.entity)
        missing = [name for name in entity.primary.fields if name not in which.values]
        plain = which.scope == "entity" and not which.conditions and which.most is None
        if which.pattern != entity.primary.name or missing or not plain:
            raise faults.no_single_key(entity, which, missing[0] if missing else None, plain=plain)
        return Target(entity, entity.key(which.values), which.values)

    def decode(
        self, item: Item, key: Key, *, skip_unknown: bool = False
    ) -> Any:  # an instance of the class that has the tag
        """The entity of a stored item, by its tag.

        Args:
            item: as it is stored.
            key: under which it is stored.
            skip_unknown: an item whose tag no entity has is None, and not an error.

        Raises:
            ItemInvalid: the tag is unknown, the attributes do not validate, or they cannot be upgraded.
        """
        load = getattr(item, "load", None)  # of a NativeItem; to ask for that class takes four times as long
        if load is not None:
            found = load()
            if found is not None:
                return found
            item = cast("NativeItem", item).made
        entity = self.entities[item[TAG]] if self.knows(item) else None
        if entity is None:
            if skip_unknown:
                return None
            raise faults.unknown_item(self, item, key)
        made = entity.codec.decode(item, str(key))
        if item.get(VERSION, 1) != entity.codec.upgrades.version and (key.sort or self.hash_only):
            # Row keys of Bigtable, which a scan has and which have no sort, cannot be split into the two parts.
            upgraded = entity.key(vars(made))
            if upgraded != key:
                raise faults.moved_by_upgrade(entity, item, key, upgraded)
        return made
