"""What an entity is compiled to: its keys, its access patterns, and the fields with a role, as frozen values."""

from collections.abc import Collection, Iterable, Mapping
from difflib import get_close_matches
from random import Random
from typing import Any, Literal, NamedTuple, TypeAlias

from attrs import Factory, evolve, field, frozen

from odm.codec import TAG, TTL_ATTRIBUTE
from odm.codec.entity import EntityCodec
from odm.entities.companions import BaseCompanion
from odm.errors import BadValue, KeyValueError
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Compare, Condition, Item, Path
from odm.keys import Shards, Template, random_suffix, suffix_of
from odm.keys.base import Descending

FieldValue: TypeAlias = Any
"""A value of a field: of whatever type the user's model declares."""

Values: TypeAlias = Mapping[str, FieldValue]
"""Values by field name."""


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
            KeyValueError: a value cannot stand in a key.
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
        companions: declarations whose items are written with its items.
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
            KeyValueError: a value is None or cannot stand in a key.
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
            _check_names(self, pattern, values)
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


def _check_names(entity: EntitySchema, pattern: PatternSchema, values: Values) -> None:
    """Refuse names that are not the leading fields of a pattern.

    Raises:
        KeyValueError: a name is missing, unknown or leaves a gap.
    """
    fields = pattern.fields
    required = frozenset(pattern.partition.fields)
    call = f"{entity.name}.{pattern.name}()"
    unknown = [given for given in values if given not in fields]
    if unknown:
        near = get_close_matches(unknown[0], fields, 1)
        hint = f"did you mean {near[0]!r}? " if near else ""
        raise KeyValueError(f"{call} has no key field {unknown[0]!r}: {hint}{_wanted(pattern)}")
    missing = [field for field in fields if field in required and field not in values]
    if missing:
        raise KeyValueError(f"{call} needs {missing[0]!r}: {_wanted(pattern)}")
    given = [field in values for field in fields]
    if given != sorted(given, reverse=True):
        gap = fields[given.index(False)]
        raise KeyValueError(f"{call} leaves out {gap!r} before a later field: {_wanted(pattern)}")


def _wanted(pattern: PatternSchema) -> str:
    leading = [field for field in pattern.fields if field not in pattern.partition.fields]
    then = f", then any leading ones of {', '.join(leading)}" if leading else ""
    return f"give {', '.join(pattern.partition.fields) or 'nothing'}{then}"


def _local(patterns: Iterable[PatternSchema]) -> dict[str, tuple[str, ...] | None]:
    return {str(pattern.index): held_by(pattern.projection) for pattern in patterns if pattern.kind == "local"}


def held_by(projection: tuple[str, ...] | None) -> tuple[str, ...] | None:
    """What an index of this projection holds beside keys: where it is some fields, tag and expiry too."""
    return (*projection, TAG, TTL_ATTRIBUTE) if projection else projection
