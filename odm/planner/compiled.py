"""Plans compiled by the shape of a query: what a query asks besides its values is planned once.

The shape of a query is its pattern, the fields that the call gives, and the shapes of its conditions. A `CompiledQuery`
is made for each shape of a schema's queries and binds the values of one query into a `Plan`. `odm.planner.plan` plans
the queries that have no compiled form, and words every refusal: where a value cannot be bound, it plans that query.
"""

from collections.abc import Callable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final, cast

from odm.codec import EntityCodec
from odm.codec.terms import Term, shape_of
from odm.entities.query import Query
from odm.entities.views import PlanView
from odm.errors import BadValue, brief
from odm.expressions.nodes import Between, Compare, Condition, Const
from odm.immutable import frozen
from odm.keys import suffixes_leaving, suffixes_of, suffixes_read
from odm.keys.spans import Span
from odm.planner.key_conditions import MIRRORED, KeyCondition, flatten
from odm.planner.plan import Plan, conditions_on_keys, fit_of, interpreted_plan, leading_values
from odm.protocol.predicates import every, has_tag
from odm.schema.entity import EntitySchema, PatternSchema
from odm.schema.model import Schema

if TYPE_CHECKING:
    from odm.schema.table import Table

_NEW: Final[Any] = object()
"""A shape that was not compiled yet."""


@frozen
class _KeyTest:
    """A condition on a key field, without its values.

    Attributes:
        at: its position among the conditions of the query.
        field: the field that it is on.
        equal: it is an equality.
        parts: the operators, and what reads their values from the condition.
    """

    at: int
    field: str
    equal: bool
    parts: tuple[tuple[Any, Callable[[Any], Any]], ...]

    def value(self, codec: EntityCodec, condition: Condition) -> Any:
        """The value of an equality as the model holds it. Raises BadValue for one that no item has."""
        ((_, value_in),) = self.parts
        return codec.validate(self.field, codec.comparable(self.field, value_in(condition)))

    def bounds(self, codec: EntityCodec, condition: Condition) -> list[tuple[Any, Any]]:
        """The operators with their values."""
        if self.equal:
            return [("=", self.value(codec, condition))]
        return [(op, codec.comparable(self.field, value_in(condition), bound=True)) for op, value_in in self.parts]


@frozen
class CompiledQuery:
    """A query without its values.

    Attributes:
        entity, pattern: whose items are read, and how.
        terms: lower the conditions, in order.
        equal: the equalities that give key fields their values.
        ranged: the conditions on the first field of the sort key that has no one value.
        rest: the positions of the conditions that are a filter.
        partition: makes the partition key.
        lead: makes the beginning of the sort key that has one value; None: the pattern has no sort key.
        known: the slots of the sort key in that beginning.
        exact: their texts determine their values.
        shard: the condition that selects the shard; None: ``shard_by``, or all are read.
        shard_by: the field whose value in the key selects the shard.
        tag: the condition that the item is the entity's; None: every item in the range is.
        given: the fields that have one value.
    """

    entity: EntitySchema
    pattern: PatternSchema
    terms: tuple[Term, ...]
    equal: tuple[_KeyTest, ...]
    ranged: tuple[_KeyTest, ...]
    rest: tuple[int, ...]
    partition: Callable[[Any], str | None]
    lead: Callable[[Any], str | None] | None
    known: int
    exact: bool
    shard: _KeyTest | None
    shard_by: str | None
    tag: Condition | None
    given: frozenset[str]

    def plan(self, query: Query[Any], conditions: Sequence[Condition]) -> Plan | None:
        """The plan of a query of this shape; None if a value is refused.

        Raises:
            BadValue: a condition does not fit the model.
        """
        lowered = [term.lower(condition) for term, condition in zip(self.terms, conditions, strict=True)]
        try:
            return self._plan(query, conditions, lowered)
        except BadValue:  # `interpreted_plan` words it, or knows that nothing matches
            return None

    def _plan(self, query: Query[Any], conditions: Sequence[Condition], lowered: Sequence[Condition]) -> Plan | None:
        values, pattern, codec = query.values, self.pattern, self.entity.codec
        narrowed = [conditions[test.at] for test in self.equal]
        keyed = [(test.field, "=", test.value(codec, conditions[test.at])) for test in self.equal]
        if keyed:
            values = {**values, **{name: value for name, _, value in keyed}}
        shards, leaving = suffixes_read(pattern.shards), suffixes_leaving(pattern.shards)
        if self.shard_by is not None and pattern.shards is not None and pattern.hashed is not None:
            test = self.shard
            value = values[self.shard_by] if test is None else test.value(codec, conditions[test.at])
            shards = suffixes_of(pattern.shards, pattern.hashed, value)
            leaving = frozenset(shards[:-1])
        partition = self.partition(values)
        if partition is None:
            return None
        span = Span("", None)
        bounds = [(test.field, *bound) for test in self.ranged for bound in test.bounds(codec, conditions[test.at])]
        if self.lead is not None and pattern.sort is not None:
            start = self.lead(values)
            if start is None:
                return None
            ranges = [one for _, op, value in bounds for one in _range(op, value)]
            span = pattern.sort.span_behind(start, self.known, ranges, exact=self.exact)
        rest: Sequence[int] = self.rest
        if span.exact:
            narrowed += [conditions[test.at] for test in self.ranged]
            keyed += bounds
        elif self.ranged:
            rest = sorted((*rest, *(test.at for test in self.ranged)))
        return Plan(
            query,
            self.entity,
            pattern,
            (partition,),
            shards,
            leaving,
            span.lo,
            span.hi,
            every(*[lowered[at] for at in rest], self.tag),
            tuple(narrowed),
            self.tag is not None,
            self.given,
            tuple(keyed),
        )


def _range(op: Any, value: Any) -> tuple[tuple[Any, Any], ...]:
    return ((">=", value), ("<=", value)) if op == "=" else ((op, value),)


def compile_query(schema: Schema, query: Query[Any]) -> CompiledQuery | None:
    """The compiled form of a query that can be planned; None if it has none, as its values decide the pattern."""
    entity = schema.entity(query.entity)
    if query.pattern is None and any(pattern.when is not None for pattern in entity.patterns.values()):
        return None
    conditions = [*flatten(query.conditions)]
    key_conditions = conditions_on_keys(entity.codec, conditions)
    fit = fit_of(entity, query, conditions, key_conditions)
    if fit.buckets is not None:
        return None
    pattern, by = fit.pattern, None if fit.pattern.shards is None else fit.pattern.shards.by
    selecting = next((one for one in key_conditions if one.field == by and one.equal is not None), None)
    in_key = by in fit.leading and (pattern.sort is None or by not in pattern.sort.lossy)
    known, lead = 0, None
    if pattern.sort is not None:
        known = pattern.sort.leading(leading_values(pattern.sort, fit.leading))
        lead = pattern.sort.lead(known)
    consumed = {one.at for one in (*fit.equal, *fit.ranged)}
    return CompiledQuery(
        entity,
        pattern,
        tuple([entity.codec.term(condition) for condition in conditions]),
        tuple([_key_test(one, conditions) for one in fit.equal]),
        tuple([_key_test(one, conditions) for one in fit.ranged]),
        tuple([at for at in range(len(conditions)) if at not in consumed]),
        pattern.partition.encode,
        lead,
        known,
        pattern.sort is None or pattern.sort.determined(known),
        None if selecting is None else _key_test(selecting, conditions),
        by if pattern.hashed is not None and (selecting is not None or in_key) else None,
        has_tag(entity.tag) if pattern.shared else None,
        frozenset((*fit.given, *fit.leading)),
    )


def _key_test(one: KeyCondition, conditions: Sequence[Condition]) -> _KeyTest:
    match conditions[one.at]:
        case Compare(op, _, Const()):
            parts: tuple[tuple[Any, Callable[[Any], Any]], ...] = ((op, attrgetter("right.value")),)
        case Compare(op):
            parts = ((MIRRORED[op], attrgetter("left.value")),)
        case Between():
            parts = ((">=", attrgetter("low.value")), ("<=", attrgetter("high.value")))
        case _:
            parts = (("prefix", attrgetter("prefix.value")),)
    return _KeyTest(one.at, one.field, one.equal is not None, parts)


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
    if query.scope != "entity":
        return interpreted_plan(schema, query)
    try:
        conditions = [*flatten(query.conditions)]
        declared = schema.entity(query.entity).codec.declared
        shape = (query.entity, query.pattern, *query.values, *[shape_of(one, declared) for one in conditions])
    except RecursionError:  # a condition is nested too deep
        return interpreted_plan(schema, query)
    compiled = schema.compiled.get(shape, _NEW)
    plan: Plan | None = None
    if compiled is not None and compiled is not _NEW:
        plan = compiled.plan(query, conditions)
    if plan is None:
        plan = interpreted_plan(schema, query)  # raises for what cannot be planned
        if compiled is _NEW:
            schema.compiled.keep(shape, compile_query(schema, query))
    return plan
