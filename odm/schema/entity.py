"""A compiled entity: its keys, its access patterns and the fields with a role; and the item of a call."""

from collections.abc import Callable, Collection, Iterable, Mapping
from functools import cached_property
from random import Random
from typing import Any, Literal, NamedTuple, TypeAlias

from odm.cache import Cache
from odm.codec import TAG, TTL_ATTRIBUTE
from odm.codec.entity import EntityCodec
from odm.entities.companions import BaseCompanion
from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.entities.signatures import wrong_names
from odm.errors import BadValue, KeyValueError, brief
from odm.expressions.evaluate import holds
from odm.expressions.nodes import (
    And,
    Compare,
    Condition,
    Exists,
    IsIn,
    Item,
    Missing,
    Not,
    Or,
    Path,
    paths,
    roots_of,
    text_of,
)
from odm.immutable import Immutable, evolve, field, force_setattr
from odm.keys import Shards, Template, pair_encoder, random_suffix, suffix_of
from odm.schema.automatic import Automatic
from odm.schema.computed import Computed

FieldValue: TypeAlias = Any
"""A value of a field, of any type that the user's model declares."""

Values: TypeAlias = Mapping[str, FieldValue]
"""Values by field name."""


class CellAt(NamedTuple):
    """A cell that `odm.Cell` names: family, qualifier, and the encoding of its bytes; None: odm's own."""

    family: str
    qualifier: str
    encoding: str | None


class Key(NamedTuple):
    """A full key: partition and sort text; ``sort`` is "" in a table whose items have no sort key."""

    partition: str
    sort: str = ""


class PatternSchema(Immutable, dict=True):
    """One way to query the items of an entity: its primary key or an access pattern.

    Attributes:
        name: the attribute name in the class.
        kind: "primary"; "global" for a global secondary index; "local" for a local secondary index, which has the
            partitions of the primary key.
        index: the index name; None for the primary key.
        partition, sort: compiled templates; sort is None in a table whose items have no sort key.
        when: an item is in the index only if this holds (field names, not stored names).
        shared: keys of another entity may be in this pattern's range, so queries filter by tag.
        shards: the number of shards of each partition, and the field that selects one; None: no shards.
        hashed: the template that writes that field.
        projection: the stored names of the attributes that its index holds besides keys; None: all.
        computed: the fields of the templates that are not stored, but computed from others.
        fields: the fields of both templates, each once, partition first.
        full_name: the name with the entity, such as "Order.by_date".
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
    computed: tuple[Computed, ...] = ()
    fields: tuple[str, ...] = field(default=(), repr=False)

    def __post_init__(self) -> None:
        sort = self.sort.fields if self.sort is not None else ()
        force_setattr(self, "fields", tuple(dict.fromkeys(self.partition.fields + sort)))

    @cached_property
    def full_name(self) -> str:
        return f"{self.entity}.{self.name}"

    @cached_property
    def of_values(self) -> Callable[[Values], Key | None]:
        """As `key`, without a shard."""
        encoder = pair_encoder(self.partition, self.sort, Key, self._of_templates)
        if not self.computed:
            return encoder
        return lambda values: encoder({**values, **{field_.name: field_.of(values) for field_ in self.computed}})

    @property
    def sources(self) -> tuple[str, ...]:
        """The stored fields that the key is made of: those of the templates, and the one that selects the shard.

        In place of a computed field, all that it may read.
        """
        fields = self.fields if self.hashed is None else (*self.fields, *self.hashed.fields)
        if not self.computed:
            return fields
        computed = {field_.name for field_ in self.computed}
        read = (name for field_ in self.computed for name in field_.sources)
        return tuple(dict.fromkeys([*(name for name in fields if name not in computed), *read]))

    @property
    def partitions(self) -> tuple[Template, ...]:
        """The templates of all partitions that may have entries: also without shards, if there were none before."""
        without = self.shards is not None and self.shards.was == 1
        return (self.partition, evolve(self.partition, behind=())) if without else (self.partition,)

    @property
    def lossy(self) -> frozenset[str]:
        """The fields whose whole value is not kept everywhere in the key."""
        return self.partition.lossy | (frozenset() if self.sort is None else self.sort.lossy)

    @property
    def partition_fields(self) -> tuple[str, ...]:
        """The fields of the partition template."""
        return self.partition.fields

    def key_text(self, field: str, value: FieldValue) -> str:
        """The text of a value of a field where the field first appears in the templates.

        Raises:
            KeyValueError: the value cannot be part of a key, or the field is in neither template.
        """
        for template in (self.partition, self.sort):
            if template is not None and field in template.fields:
                return template.text_of(field, value)
        raise KeyValueError(f"{self.full_name} has no field {brief(field)}; it has {', '.join(self.fields)}")

    def key(self, values: Values, random: Random | None = None) -> Key | None:
        """The key for these field values; None if a value is None (no entry: the index is sparse).

        Args:
            values: the values of `sources` at least.
            random: chooses the shard if no field selects it.

        Raises:
            KeyValueError: a value cannot be used in a key.
        """
        key = self.of_values(values)
        if key is None or self.shards is None:
            return key
        return Key(key.partition + self._suffix(self.shards, values, random), key.sort)

    def _of_templates(self, values: Values) -> Key | None:
        partition = self.partition.encode(values)
        sort = "" if self.sort is None else self.sort.encode(values)
        return None if partition is None or sort is None else Key(partition, sort)

    def _suffix(self, shards: Shards, values: Values, random: Random | None) -> str:
        if self.hashed is not None:
            return suffix_of(shards, self.hashed, values[str(shards.by)])
        assert random is not None
        return random_suffix(shards, random)

    @property
    def text(self) -> str:
        """The pattern as declared, with the tag in place of a missing sort template; for messages."""
        sort = f', "{self.sort.text}"' if self.sort is not None else ""
        kind = "PrimaryKey" if self.kind == "primary" else "AccessPattern"
        local = self.kind == "local"  # it has the shards of the primary key
        options = f", shards={self.shards!r}" * (self.shards is not None and not local) + ", local=True" * local
        if self.projection is not None:
            options += f", projection={self.projection or 'keys'!r}"
        return f'{self.name} = {kind}("{self.partition.text}"{sort}{options})'


class KeyPart(Immutable):
    """A field that is not an attribute of its own: a part of a key, from which it is read.

    Attributes:
        field: its name.
        attribute: the key attribute that holds it.
        template: the template of that attribute.
        primary: that attribute is of the primary key; otherwise the field stands alone in the template.
    """

    field: str
    attribute: str
    template: Template
    primary: bool


def _frozen_fields(entity: "EntitySchema") -> frozenset[str]:
    return frozenset(name for name, info in entity.cls.model_fields.items() if info.frozen)


class EntitySchema(Immutable, dict=True):
    """One entity: its patterns, codec, and the fields with a role.

    Attributes:
        revision, ttl: the field that carries the marker, or None.
        counters: the fields marked as Counter.
        columns: the fields marked as Columns.
        aggregates: the fields marked as Sum, Min or Max, each with its kind.
        versioned: the fields marked with CellVersions, and how many values each keeps.
        blobs: by stored name, the fields marked as Blob; True: a read of the item reads the value too (`bytes`).
        automatic: the fields whose value the store assigns; None if there are none.
        optional: the fields whose value may be None.
        keep: how many items to keep in a partition, the newest ones; None: all.
        companions: declarations whose items are written with its items.
        match: an item of the table is of this entity only if this holds (stored names); None: any item with its key.
        family: the column family of its attributes on Bigtable; None: odm's own.
        families: by stored name, the fields with a column family of their own.
        cells: by stored name, the fields with a cell of their own on Bigtable, with its encoding.
        row: the template of a whole Bigtable row key, in a table whose rows are as they are.
        key_only: by stored name, the fields that are no attributes on DynamoDB.
        local: the local indexes, with the attributes that each holds on DynamoDB; see `IndexSchema.held`.
        computed: the computed fields of pydantic that stand in keys of its access patterns.
        frozen_fields: the fields with pydantic's ``frozen=True``, which no update sets. Of a frozen class, the objects
            cannot change, but stored items can.
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
    aggregates: Mapping[str, Literal["sum", "min", "max", "hll"]] = field(factory=dict)
    versioned: Mapping[str, int] = field(factory=dict)
    blobs: Mapping[str, bool] = field(factory=dict)
    automatic: Automatic | None = None
    optional: frozenset[str] = frozenset()
    keep: int | None = None
    companions: tuple[BaseCompanion, ...] = ()
    match: Condition | None = None
    family: str | None = None
    families: Mapping[str, str] = field(factory=dict)
    cells: Mapping[str, CellAt] = field(factory=dict)
    row: Template | None = None
    key_only: Mapping[str, KeyPart] = field(factory=dict)

    @cached_property
    def local(self) -> Mapping[str, tuple[str, ...] | None]:
        return _local(self.patterns.values())

    @cached_property
    def frozen_fields(self) -> frozenset[str]:
        return _frozen_fields(self)

    @cached_property
    def computed(self) -> Mapping[str, Computed]:
        return {c.name: c for p in self.patterns.values() for c in p.computed}

    @cached_property
    def updates(self) -> Cache[Any, Any]:
        """By shape; Any, because `odm.procedures.writing.update`, which fills it, imports this module."""
        return Cache()

    @property
    def plain(self) -> bool:
        """Whether a write of an item is one request, whatever is stored."""
        return not (self.companions or self.versioned or self.blobs)

    @property
    def version(self) -> int:
        """The version of the stored form; items store it as ``_v`` from version 2."""
        return self.codec.upgrades.version

    @property
    def name(self) -> str:
        """The class name, for messages."""
        return self.cls.__name__

    @property
    def templates(self) -> tuple[Template, ...]:
        """The templates of all keys."""
        declared = [t for p in (self.primary, *self.patterns.values()) for t in (p.partition, p.sort)]
        return tuple(template for template in declared if template is not None)

    def pattern(self, name: str) -> PatternSchema:
        """The primary key or access pattern with this attribute name."""
        return self.primary if name == self.primary.name else self.patterns[name]

    def ordered_by(self, field: str, among: Collection[str]) -> tuple[PatternSchema, bool] | None:
        """See `odm.entities.views.EntityView`."""
        for pattern in (self.primary, *self.patterns.values()):
            partition, first = pattern.partition, pattern.sort.slots[0] if pattern.sort and pattern.sort.slots else None
            known = set(partition.fields) <= set(among) - {field} and not partition.lossy
            all_of_them = pattern.when is None and not self.optional & set(pattern.sources) - {*among, field}
            if known and all_of_them and first is not None and first.name == field and not first.type.lossy:
                return pattern, first.type.flips
        return None

    def validate(self, field: str, value: FieldValue) -> FieldValue:
        """A value converted and validated as by the model; see `odm.entities.views.EntityView`."""
        computed = self.computed.get(field)
        return self.codec.validate(field, value) if computed is None else computed.validate(value)

    def answerable(self, condition: Condition) -> Condition:
        """The condition of a write, if key attributes can answer what it asks of fields that stand in keys only.

        Raises:
            BadValue: it asks for more than equality of a part of an index key, or compares such a part with a field.
        """
        if not self.key_only:
            return condition
        if isinstance(condition, And | Or | Not):
            for part in condition.conditions if not isinstance(condition, Not) else (condition.condition,):
                self.answerable(part)
            return condition
        roots = roots_of(condition)
        parts = [part for stored, part in self.key_only.items() if stored in roots]
        plain = isinstance(condition, Exists | Missing | IsIn)
        plain = plain or (isinstance(condition, Compare) and condition.op in ("=", "<>") and len(paths(condition)) == 1)
        if (len(roots) > 1 and parts) or (any(not part.primary for part in parts) and not plain):
            name, attribute = parts[0].field, parts[0].attribute
            raise BadValue(
                f"{self.name}: the condition {condition} is on {name!r}, which is a part of the key attribute "
                f"{attribute!r} and not an attribute itself: compare it with a value for equality, or store it as an "
                f'attribute too, with Annotated[..., Stored("{name}")]'
            )
        return condition

    def check_ordered(self, field: str) -> None:
        """Raise BadValue if the stored values of a field have no order."""
        path = Path((field,))
        self.codec.lower(Compare("<", path, path))  # raises if its type cannot be compared
        if len(self.codec.record.fields[field].type.kinds) != 1:
            raise BadValue(f"{self.name}.{field} has several types, which have no common order")

    def key(self, values: Values) -> Key:
        """The primary key for these field values.

        Raises:
            KeyValueError: a value is missing, is None or cannot stand in a key.
        """
        primary = self.primary
        try:
            key = primary.of_values(values) if primary.shards is None else primary.key(values)
        except KeyError as error:
            absent = [field for field in primary.fields if field not in values]
            if not absent:
                raise
            raise KeyValueError(
                f"{self.name}.{absent[0]} has no value, but it is part of the primary key: give it one, also to "
                "model_construct()"
            ) from error
        if key is None:
            empty = [field for field in self.primary.fields if values.get(field) is None]
            raise KeyValueError(f"{self.name}.{empty[0]} is None, but it is part of the primary key: give it a value")
        return key

    def revision_of(self, values: Values) -> int:
        """The revision in these field values, for an entity that has one.

        Raises:
            BadValue: there is none, as after `model_construct`, or it is not an int.
        """
        revision = values.get(str(self.revision))
        if not isinstance(revision, int):
            raise BadValue(
                f"{self.name}.{self.revision}: {brief(revision)} is not a revision: give an int, 0 for a new item"
            )
        return revision

    def entries(self, values: Values, item: Item, random: Random) -> dict[str, Key]:
        """The index entries of an item: index name to index key, only for indexes that have the item.

        Args:
            values: field values (Python), at least the patterns' `PatternSchema.sources`.
            item: the same item in stored form, for which ``when`` is evaluated.
            random: chooses the shards that no field selects.
        """
        keys: dict[str, Key] = {}
        for pattern in self.patterns.values():
            key = pattern.key(values, random) if pattern.when is None or holds(pattern.when, item) else None
            if key is not None:
                keys[str(pattern.index)] = key
        return keys

    def call_values(self, name: str, values: Values) -> dict[str, FieldValue]:
        """The validated values of a pattern call: all partition fields, then leading sort fields.

        Raises:
            KeyValueError: a name is missing or unknown, a leading field is missing, or a value does not validate.
        """
        pattern = self.pattern(name)
        names, fields = tuple(values), pattern.fields
        # The usual cases need no check: all fields in their order, or all of the partition and the first of the others.
        if names != fields and (names != fields[: len(names)] or len(names) < len(pattern.partition.fields)):
            wrong = wrong_names(fields, pattern.partition.fields, values)
            if wrong is not None:
                raise KeyValueError(f"{self.name}.{pattern.name}() {wrong}")
        as_they_are, key_values = self.codec.as_they_are, {}
        try:
            for field in fields:
                if field in values:
                    value = values[field]
                    # Looked up here too: most key fields are text or numbers, and a call for each costs more.
                    plain = type(value) is as_they_are.get(field) and (type(value) is not str or value.isascii())
                    key_values[field] = value if plain else self.validate(field, value)
        except BadValue as error:
            raise KeyValueError(str(error)) from error
        return key_values

    @property
    def key_call(self) -> str:
        """The call that makes the key of an item, for messages."""
        return f"{self.name}.{self.primary.name}({', '.join(f'{name}=...' for name in self.primary.fields)})"


def _local(patterns: Iterable[PatternSchema]) -> dict[str, tuple[str, ...] | None]:
    return {str(pattern.index): held_by(pattern.projection) for pattern in patterns if pattern.kind == "local"}


def held_by(projection: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """The attributes that an index of this projection holds besides keys; with some fields, also tag and expiry."""
    return (*projection, TAG, TTL_ATTRIBUTE) if projection else projection


class Target(NamedTuple):
    """The item that a call is about.

    Attributes:
        values: at least the values of its key fields.
        instance: the entity that was passed, or None if a key was.
    """

    entity: EntitySchema
    key: Key
    values: Values
    instance: Entity | None = None

    def __str__(self) -> str:
        primary = self.entity.primary
        values = ", ".join(f"{name}={text_of(self.values[name])}" for name in primary.fields)
        return f"{self.entity.name}.{primary.name}({values})"

    @property
    def query(self) -> Query[Any]:
        """The key in the form that a user writes."""
        primary = self.entity.primary
        return Query(self.entity.cls, primary.name, {name: self.values[name] for name in primary.fields})

    @property
    def revision(self) -> int | None:
        """The revision that the caller read, or None if it is not checked."""
        if self.entity.revision is None or self.instance is None:
            return None
        return self.entity.revision_of(vars(self.instance))
