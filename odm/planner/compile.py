"""Plans compiled by the shape of a query: what a query asks besides its values is decided once.

The shape of a query is its pattern, the fields that the call gives, and the shapes of its conditions. A `Compiled` is
made for each shape of a schema's queries, and binds the values of one query into a `Plan`. A shape that no query can
have is refused when it is compiled, a value when it is bound.
"""

from abc import abstractmethod
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, cast

from odm.codec.conditions import Term, shape_of
from odm.entities.query import Query
from odm.entities.views import PlanView
from odm.errors import BadValue, OdmError, brief
from odm.expressions.nodes import Condition
from odm.immutable import Abstract, Immutable
from odm.keys import suffixes_leaving, suffixes_of, suffixes_read
from odm.planner.collections import collection_shape, compile_collection
from odm.planner.fit import Fit, KeyRange, best_fits, encoded, fit_of, key_range, no_pattern
from odm.planner.key_conditions import KeyTest, as_range, flatten, key_tests
from odm.planner.plan import Plan
from odm.protocol.predicates import every, has_tag
from odm.schema.entity import EntitySchema, PatternSchema
from odm.schema.model import Schema

if TYPE_CHECKING:
    from odm.schema.table import Table


MOST_PARTITIONS: Final = 1000
"""The most partition keys that one query may read."""


class Compiled(Abstract):
    """A query without its values."""

    @abstractmethod
    def plan(self, query: Query[Any], conditions: Sequence[Condition]) -> Plan:
        """The plan of a query of this shape.

        Args:
            query: the query.
            conditions: its conditions, each ``&`` split into its parts.

        Raises:
            NoAccessPattern: no pattern serves a `odm.select` with these values.
            BadValue: a value or condition does not fit the model.
        """


class Partitions(Immutable):
    """The one partition of a query, without the values."""

    pattern: PatternSchema

    def keys(self, values: Mapping[str, Any], conditions: Sequence[Condition], shards: int) -> tuple[str, ...]:
        """The partition keys to read, in key order."""
        return (encoded(self.pattern.partition, values),)


class Buckets(Partitions):
    """The partitions that a range of a time touches, such as its days."""

    entity: EntitySchema
    bucket: str
    tests: tuple[KeyTest, ...]

    def keys(self, values: Mapping[str, Any], conditions: Sequence[Condition], shards: int) -> tuple[str, ...]:
        template, codec = self.pattern.partition, self.entity.codec
        bounds = as_range([bound for test in self.tests for bound in test.bounds(codec, conditions[test.at])])
        keys = template.buckets(values, self.bucket, bounds, most=MOST_PARTITIONS)
        if (number := len(keys) * shards) > MOST_PARTITIONS:
            raise BadValue(
                f"{template.owner}: the range of {self.bucket} touches {len(keys)} partitions of {template.text!r}, "
                f"each of {shards} shards, {number} in all and more than {MOST_PARTITIONS}; narrow the range, or use "
                "a coarser format"
            )
        return keys


class CompiledQuery(Compiled):
    """A query of a pattern.

    Attributes:
        entity, pattern: whose items are read, and how.
        terms: lower the conditions, in order.
        range: the range of keys.
        shards, leaving: as in `odm.planner.plan.Plan`, of a query that selects no shard.
        tag: the condition that the item is the entity's; None: every item in the range is.
        known_fields: the fields that have one value.
    """

    entity: EntitySchema
    pattern: PatternSchema
    terms: tuple[Term, ...]
    range: KeyRange
    shards: tuple[str, ...]
    leaving: frozenset[str]
    tag: Condition | None
    known_fields: frozenset[str]


class KeysOfCall(CompiledQuery):
    """A query whose call gives its keys, so that all its conditions are a filter."""

    def plan(self, query: Query[Any], conditions: Sequence[Condition]) -> Plan:
        values, filter_ = query.values, self.tag
        if conditions:
            lowered = [term.lower(condition) for term, condition in zip(self.terms, conditions, strict=True)]
            filter_ = every(*lowered, self.tag)
        partition = encoded(self.pattern.partition, values)
        lo, hi = self.range.of_call(values)
        return Plan(
            query,
            self.entity,
            self.pattern,
            (partition,),
            self.shards,
            self.leaving,
            lo,
            hi,
            filter_,
            (),
            self.tag is not None,
            self.known_fields,
        )


class KeysOfConditions(CompiledQuery):
    """A query with conditions that select its keys.

    Attributes:
        rest: the positions of the conditions that are a filter.
        partitions: the partition keys.
        shard, shard_by: as in `odm.planner.fit.Fit`.
    """

    rest: tuple[int, ...]
    partitions: Partitions
    shard: KeyTest | None
    shard_by: str | None

    def plan(self, query: Query[Any], conditions: Sequence[Condition]) -> Plan:
        lowered = [term.lower(condition) for term, condition in zip(self.terms, conditions, strict=True)]
        values, pattern, range_ = query.values, self.pattern, self.range
        narrowed, keyed = [], list[tuple[str, str, Any]]()
        if range_.equal:
            equal = range_.equalities(conditions)
            if equal is None:
                return Plan(query, self.entity, pattern, ())
            narrowed = [conditions[test.at] for test in range_.equal]
            keyed = [(name, "=", value) for name, value in equal.items()]
            values = {**values, **equal}
        shards, leaving = self.shards, self.leaving
        if self.shard_by is not None and pattern.shards is not None and pattern.hashed is not None:
            value, refused = values.get(self.shard_by), False
            if self.shard is not None:
                value, refused = self.shard.value(self.entity.codec, conditions[self.shard.at])
            if refused:
                return Plan(query, self.entity, pattern, ())
            shards = suffixes_of(pattern.shards, pattern.hashed, value)
            leaving = frozenset(shards[:-1])
        partitions = self.partitions.keys(values, conditions, len(shards))
        bounds = range_.bounds(conditions) if range_.ranged else []
        span = range_.span(values, bounds)
        rest: Sequence[int] = self.rest
        if span.exact:
            narrowed += [conditions[test.at] for test in range_.ranged]
            keyed += bounds
        elif range_.ranged:
            rest = sorted((*rest, *(test.at for test in range_.ranged)))
        return Plan(
            query,
            self.entity,
            pattern,
            partitions,
            shards,
            leaving,
            span.lo,
            span.hi,
            every(*[lowered[at] for at in rest], self.tag),
            tuple(narrowed),
            self.tag is not None,
            self.known_fields,
            tuple(keyed),
        )


class CompiledSelect(Compiled):
    """A query that names no pattern, where values decide which one serves it: an index with ``when=`` lacks items.

    Attributes:
        entity: whose items are read.
        candidates: the queries of the patterns that can serve it, the best first, each with the conditions that the
            query must have: over stored names, and all that its index has.
        tests: the conditions on key fields.
    """

    entity: EntitySchema
    candidates: tuple[tuple[tuple[Condition, ...], CompiledQuery], ...]
    tests: tuple[KeyTest, ...]

    def plan(self, query: Query[Any], conditions: Sequence[Condition]) -> Plan:
        stored = [self.entity.codec.lower_stored(condition) for condition in conditions]
        for when, compiled in self.candidates:
            if all(condition in stored for condition in when):
                return compiled.plan(query, conditions)
        raise no_pattern(self.entity, self.tests, conditions)


def compile_query(schema: Schema, query: Query[Any], conditions: Sequence[Condition]) -> Compiled:
    """The compiled form of the queries of a shape.

    Raises:
        NoAccessPattern: no pattern serves a `odm.select`, whatever the values are.
        BadValue: the partition is not named, or a condition does not fit the model.
    """
    entity, tests = schema.entity(query.entity), key_tests(conditions)
    if query.pattern is not None:
        fit = fit_of(entity.pattern(query.pattern), query.values, tests)
        if fit.lack is not None:
            raise BadValue(f"{query} lacks {fit.lack}, which names the partition")
        return _compile_fit(entity, fit, conditions)
    candidates = [
        (() if fit.pattern.when is None else tuple(flatten([fit.pattern.when])), _compile_fit(entity, fit, conditions))
        for fit in best_fits(entity, tests, conditions)
    ]
    when, best = candidates[0]
    return CompiledSelect(entity, tuple(candidates), tuple(tests)) if when else best


def _compile_fit(entity: EntitySchema, fit: Fit, conditions: Sequence[Condition]) -> CompiledQuery:
    pattern, bucket = fit.pattern, fit.bucket
    consumed = {test.at for test in (*fit.equal, *fit.ranged)}
    whole = (
        entity,
        pattern,
        tuple([entity.codec.term(condition) for condition in conditions]),
        key_range(entity.codec, fit),
        suffixes_read(pattern.shards),
        suffixes_leaving(pattern.shards),
        has_tag(entity.tag) if pattern.shared else None,
        frozenset((*fit.known_fields, *fit.leading)) - {bucket},
    )
    if not consumed and bucket is None and fit.shard_by is None:
        return KeysOfCall(*whole)
    return KeysOfConditions(
        *whole,
        tuple([at for at in range(len(conditions)) if at not in consumed]),
        Partitions(pattern) if bucket is None else Buckets(pattern, entity, bucket, fit.buckets),
        None if fit.shard in fit.equal else fit.shard,
        fit.shard_by,
    )


def planned(query: Query[Any]) -> PlanView:
    """How a query will be answered: the pattern, the order of its results, and the bounds of a field. For patterns.

    Raises:
        NoAccessPattern: no pattern serves a `odm.select`.
        BadValue: it is not a query, or a value or condition does not fit the model.
        SchemaError: the models do not compile.
    """
    if not isinstance(query, Query):
        raise BadValue(f"{brief(query)} is not a query: call a pattern, such as Order.by_date(...), or select(Order)")
    table = cast("Table", query.entity.__odm_table__)
    return make_plan(table.compile(), query)


def make_plan(schema: Schema, query: Query[Any]) -> Plan:
    """The pattern and the key range that answer a query.

    Raises:
        NoAccessPattern: no pattern serves a `odm.select`.
        BadValue: a value or condition does not fit the model.
    """
    entity = query.entity
    conditions: Sequence[Condition] = query.conditions
    try:
        if query.scope != "entity":
            compiled = schema.compiled.get(shape := collection_shape(schema, query))
            if compiled is None:
                compiled = schema.compiled.keep(shape, compile_collection(schema, query))
            return cast("Plan", compiled.plan(query, [*flatten(conditions)]))
        shape = (entity, query.pattern, *query.values)
        if conditions:
            conditions, declared = [*flatten(conditions)], schema.entity(entity).codec.declared
            shape += (*[shape_of(condition, declared) for condition in conditions],)
        try:
            compiled = schema.compiled.get(shape)
            if compiled is None:
                compiled = schema.compiled.keep(shape, compile_query(schema, query, conditions))
            return cast("Plan", compiled.plan(query, conditions))
        except OdmError:
            _refuse(schema, query, conditions)
            raise
    except RecursionError:
        raise BadValue(f"a condition of {entity.__name__} is nested too deep: combine fewer conditions") from None


def _refuse(schema: Schema, query: Query[Any], conditions: Sequence[Condition]) -> None:
    """Raise the error of the first condition that does not fit the model; none does if the query is refused as a whole.

    Raises:
        BadValue: the condition that is the first in the query, whatever was compiled before.
    """
    for condition in conditions:
        schema.entity(query.entity).codec.lower(condition)
