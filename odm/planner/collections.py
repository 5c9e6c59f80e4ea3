"""Compiled collections: queries for the items of every entity in a partition, or in a range of its sort keys."""

from abc import abstractmethod
from collections.abc import Sequence
from typing import Any

from odm.codec.conditions import shape_of
from odm.entities.query import Query
from odm.errors import BadValue, brief
from odm.expressions.nodes import And, Condition, Not, Or
from odm.immutable import Abstract, Immutable
from odm.keys import next_prefix, suffixes_leaving, suffixes_read
from odm.keys.spans import Span
from odm.planner.fit import KeyRange, encoded, fit_of, key_range
from odm.planner.key_conditions import flatten, key_tests, owner_of
from odm.planner.plan import Plan
from odm.protocol.predicates import every, has_tag, of_tags
from odm.schema.entity import EntitySchema, PatternSchema
from odm.schema.model import Schema

_ALL = Span("", None)


def collection_shape(schema: Schema, query: Query[Any]) -> Any:
    """What a collection asks besides its values: hashable, and equal for all that one `CompiledCollection` plans."""
    through = query.through
    return (
        query.scope,
        query.kinds,
        _call_shape(schema, query, query.within),
        None if through is None else _call_shape(schema, through, through.conditions),
        *[owner_of(condition) for condition in flatten(query.conditions)],
    )


def _call_shape(schema: Schema, call: Query[Any], within: Sequence[Condition]) -> Any:
    declared = schema.entity(call.entity).codec.declared
    return (call.entity, call.pattern, *call.values, *[shape_of(condition, declared) for condition in flatten(within)])


class Part(Abstract):
    """The part of the partition that a collection reads."""

    @abstractmethod
    def span(self, query: Query[Any], partition: str) -> Span | None:
        """The range of sort keys; None if no item meets the conditions.

        Raises:
            BadValue: a value does not fit, or the conditions give no such range.
        """


class Whole(Part):
    """All of it."""

    def span(self, query: Query[Any], partition: str) -> Span | None:
        return _ALL


class Under(Part):
    """The item with a key, and those whose sort keys begin with it."""

    pattern: PatternSchema

    def span(self, query: Query[Any], partition: str) -> Span | None:
        sort = self.pattern.sort
        if sort is None:
            return _ALL
        text = encoded(sort, query.values)
        if sort.native == "N":
            return Span(text, text + "\0")
        # Keys below text + "$" are the text itself or continue with "#": values escape all lower characters.
        return Span(text, next_prefix(text if sort.verbatim else text + "#"))


class Call(Part):
    """The sort keys of a call with conditions on fields of its sort key.

    Attributes:
        range: of the keys of the call.
        rest: the position of the first condition that is not in the range; None: all are.
    """

    range: KeyRange
    rest: int | None

    def span(self, query: Query[Any], partition: str) -> Span | None:
        return self.of_call(query, query.within)

    def of_call(self, call: Query[Any], within: Sequence[Condition]) -> Span | None:
        """As `span`, for a call with these conditions."""
        conditions, pattern = [*flatten(within)], self.range.pattern
        for condition in conditions:
            self.range.codec.lower(condition)  # raises if it does not fit the model
        equal = self.range.equalities(conditions)
        if equal is None:
            return None
        span = self.range.span({**call.values, **equal}, self.range.bounds(conditions))
        if conditions and (pattern.sort is None or self.rest is not None or not span.exact):
            raise BadValue(
                f"{call}: the range of a collection is one of sort keys, and {conditions[self.rest or 0]} does not "
                f"give one of {pattern.text}: compare the first fields of the sort template, or put where() behind "
                "collection() to filter the items"
            )
        return span


class Through(Part):
    """The sort keys from those of one call to those of another."""

    call: Call
    other: Call

    def span(self, query: Query[Any], partition: str) -> Span | None:
        through, mine, other = query.through, self.call.range.pattern, self.other.range.pattern
        assert through is not None
        key = encoded(other.partition, through.values)
        if (other.index, other.shards, key) != (mine.index, mine.shards, partition):
            raise BadValue(
                f"{query}: through= has another partition than the collection, {key!r} and not {partition!r}, or that "
                "of another index: give both calls the same partition"
            )
        calls = (self.call.of_call(query, query.within), self.other.of_call(through, through.conditions))
        spans = [span for span in calls if span is not None and not span.empty]
        if not spans:
            return None
        ends = [span.hi for span in spans if span.hi is not None]
        return Span(min(span.lo for span in spans), max(ends) if len(ends) == len(spans) else None)


class Filter(Immutable):
    """A condition of a collection: a default is shown only by the items of the entities that have the field.

    Attributes:
        entities: those that have the field.
    """

    entities: tuple[EntitySchema, ...]

    def lower(self, condition: Condition) -> Condition:
        """The condition over stored names and values. Raises BadValue if it does not fit the model."""
        stored = self.entities[0].codec.lower_stored(condition)
        each = {entity.tag: entity.codec.lower(condition) for entity in self.entities}
        lowerings = {tag: lowered for tag, lowered in each.items() if lowered != stored}
        if not lowerings:
            return stored
        by_tag = [And((has_tag(tag), lowered)) for tag, lowered in lowerings.items()]
        return Or((*by_tag, And((Not(of_tags(lowerings)), stored))))


class CompiledCollection(Immutable):
    """A collection without its values.

    Attributes:
        pattern: of the call that names the partition.
        part: the part of it that is read.
        filters: lower the conditions, in order.
        kinds: the condition that an item is of the entities asked for; None: items of every entity are.
    """

    pattern: PatternSchema
    part: Part
    filters: tuple[Filter, ...]
    kinds: Condition | None

    def plan(self, query: Query[Any], conditions: Sequence[Condition]) -> Plan:
        """The plan of a collection of this shape.

        Raises:
            BadValue: a value or condition does not fit the model, or the call is not one of a collection.
        """
        pattern = self.pattern
        partition = encoded(pattern.partition, query.values)
        filters = [filter_.lower(condition) for filter_, condition in zip(self.filters, conditions, strict=True)]
        span = self.part.span(query, partition)
        partitions, range_ = ((), _ALL) if span is None else ((partition,), span)
        return Plan(
            query,
            None,
            pattern,
            partitions,
            suffixes_read(pattern.shards),
            suffixes_leaving(pattern.shards),
            range_.lo,
            range_.hi,
            every(*filters, self.kinds),
        )


def compile_collection(schema: Schema, query: Query[Any]) -> CompiledCollection:
    """The compiled form of the collections of a shape.

    Raises:
        BadValue: the call is not one of a collection, or a condition does not say whose field it means.
    """
    entity = schema.entity(query.entity)
    pattern = entity.pattern(str(query.pattern))
    filters = tuple([_filter(schema, condition) for condition in flatten(query.conditions)])
    kinds = of_tags({schema.entity(kind).tag for kind in query.kinds}) if query.kinds else None
    return CompiledCollection(pattern, _part(schema, entity, pattern, query), filters, kinds)


def _part(schema: Schema, entity: EntitySchema, pattern: PatternSchema, query: Query[Any]) -> Part:
    if query.through is not None:
        return Through(_call(entity, query, query.within), _through(schema, query.through))
    if query.scope == "partition":
        extra = [name for name in query.values if name not in pattern.partition.fields]
        if extra:
            raise BadValue(
                f"{query}: a collection is a whole partition, so {extra[0]!r} has no meaning; leave it out, or say "
                "prefix=True to read what is stored under that key"
            )
        return _call(entity, query, query.within) if query.within else Whole()
    lacking = [name for name in (() if pattern.sort is None else pattern.sort.fields) if name not in query.values]
    if lacking:
        raise BadValue(f"{query}: prefix=True needs the whole key of an item; {brief(lacking[0])} is missing")
    return Under(pattern)


def _through(schema: Schema, through: Query[Any]) -> Call:
    return _call(schema.entity(through.entity), through, through.conditions)


def _call(entity: EntitySchema, call: Query[Any], within: Sequence[Condition]) -> Call:
    conditions = [*flatten(within)]
    fit = fit_of(entity.pattern(str(call.pattern)), call.values, key_tests(conditions))
    consumed = {test.at for test in (*fit.equal, *fit.ranged)}
    rest = next((at for at in range(len(conditions)) if at not in consumed), None)
    return Call(key_range(entity.codec, fit), rest)


def _filter(schema: Schema, condition: Condition) -> Filter:
    owner = owner_of(condition)
    if owner is None:
        raise BadValue(f"the condition {condition} does not say whose field it means: write it as Entity.field")
    heirs = [entity for entity in schema.entities.values() if issubclass(entity.cls, owner)]
    return Filter(tuple(heirs or [schema.entity(owner)]))
