"""The planner: chooses the pattern, partitions, key range and filter that answer a query.

No I/O. `explain` prints a `Plan`, and the reading operations turn it into requests.
"""

from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from attrs import evolve, field
from pydantic import ValidationError

from odm.codec import EntityCodec
from odm.entities.query import Query
from odm.errors import BadValue, NoAccessPattern, SchemaError, brief
from odm.expressions.nodes import And, Condition, Not, Or
from odm.immutable import immutable
from odm.keys import Template, compile_template, next_prefix, suffixes_leaving, suffixes_of, suffixes_read
from odm.keys.spans import Span
from odm.planner.key_conditions import Bound, KeyCondition, flatten, key_condition_of, owner_of
from odm.protocol.predicates import every, has_tag, of_tags
from odm.schema.entity import EntitySchema, PatternSchema
from odm.schema.model import Schema

if TYPE_CHECKING:
    pass

MOST_PARTITIONS: Final = 1000
"""The most partition keys that one query may read."""


@immutable
class Plan:
    """How a query will be answered.

    Attributes:
        entity: the entity whose items the query returns; None: items of any entity.
        partitions: the partition keys to read, in key order and without shards; several if a condition is a range of a
            lossy partition field.
        shards: the suffixes of each partition key; several shards are read concurrently and merged.
        leaving: the old shards among them, from which entries move because the number of shards has changed.
        lo, hi: the range of sort keys ``[lo, hi)``; if hi is None, to the end.
        filter: the condition evaluated on each item after it was read, with stored names; without that for expiry.
        narrowed: the conditions that the key range implies, so that they need no filter.
        needs_tag: the range may hold items of other entities too, so the filter has the tag.
        given: the fields of the pattern that have one value.
        keyed: the conditions in ``narrowed`` with their values as compared: field, operator ("=" too), value.
    """

    query: Query[Any]
    entity: EntitySchema | None
    pattern: PatternSchema
    partitions: tuple[str, ...]
    shards: tuple[str, ...] = ("",)
    leaving: frozenset[str] = frozenset()
    lo: str = ""
    hi: str | None = None
    filter: Condition | None = None
    narrowed: tuple[Condition, ...] = ()
    needs_tag: bool = False
    given: frozenset[str] = frozenset()
    keyed: tuple[tuple[str, str, Any], ...] = field(default=(), repr=False)

    @property
    def order(self) -> tuple[str, bool] | None:
        """See `odm.entities.views.PlanView`."""
        templates = (self.pattern.partition, self.pattern.sort)
        slots = [slot for template in templates if template is not None for slot in template.slots]
        first = next((slot for slot in slots if slot.name not in self.given), None)
        return None if first is None else (first.name, first.type.flips != self.query.descending)

    def bounds(self, field: str) -> tuple[Bound, ...]:
        """See `odm.entities.views.PlanView`."""
        found = _bounds([one for one in map(key_condition_of, flatten(self.query.conditions)) if one], field)
        if field in self.query.values:
            value = self.query.values[field]
            return ((">=", value), ("<=", value), *found)
        return found

    @property
    def empty(self) -> bool:
        """Whether no key can match, so that the query is answered without a request."""
        return not self.partitions or (self.hi is not None and self.lo >= self.hi)

    @property
    def single(self) -> bool:
        """Whether each partition key has at most one item in the range: the range is one key of the table."""
        return self.hi is not None and self.hi == self.lo + "\0" and self.pattern.index is None

    @property
    def name(self) -> str:
        """The name for `odm.Meter`: that of the pattern, inside "collection(...)" if items of any entity are read."""
        pattern = self.pattern.full_name
        return pattern if self.query.scope == "entity" else f"collection({pattern})"

    @property
    def reading_order(self) -> tuple[str, ...]:
        """The partitions in the order in which they are read."""
        return self.partitions[::-1] if self.query.descending else self.partitions

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The stored partition keys to read, with their shards."""
        return tuple(partition + shard for partition in self.partitions for shard in self.shards)


@immutable
class Fit:
    """How well a pattern serves a query: the conditions that become its key range, or the condition that is missing.

    The partition key is made from ``given``, the first part of the sort key from ``leading``, the rest from ``bounds``.
    """

    pattern: PatternSchema
    given: Mapping[str, Any] = field(factory=dict)
    leading: Mapping[str, Any] = field(factory=dict)
    buckets: tuple[str, tuple[Bound, ...]] | None = None
    bounds: tuple[Bound, ...] = ()
    equal: tuple[KeyCondition, ...] = ()
    ranged: tuple[KeyCondition, ...] = ()
    lack: str | None = None

    @property
    def impossible(self) -> bool:
        """Whether an equality has a value that the model refuses, so that no item matches."""
        return any(one.refused for one in self.equal)

    def rank(self, shards: Sequence[str]) -> tuple[int, bool, bool, bool, bool]:
        """Prefers more equalities, then a range, one shard, the primary key, and an index with whole items."""
        pattern, whole = self.pattern, self.pattern.projection is None
        return len(self.equal), bool(self.ranged), len(shards) == 1, pattern.kind == "primary", whole


def interpreted_plan(schema: Schema, query: Query[Any]) -> Plan:
    """Choose the pattern and the key range, for this query alone; see `odm.planner.compiled.make_plan`.

    Raises:
        NoAccessPattern: no pattern serves a `odm.select`.
        BadValue: a value or condition does not fit the model.
    """
    entity = schema.entity(query.entity)
    if query.scope != "entity":
        return _plan_collection(schema, entity, query)
    conditions = tuple(flatten(query.conditions))
    lowered = [entity.codec.lower(condition) for condition in conditions]  # also checks the conditions for keys
    key_conditions = conditions_on_keys(entity.codec, conditions)
    fit = fit_of(entity, query, conditions, key_conditions)
    shards, leaving = _shards(fit, key_conditions)
    plan = _plan_fit(entity, query, lowered, fit, shards)
    return evolve(plan, leaving=leaving) if leaving else plan


def fit_of(
    entity: EntitySchema, query: Query[Any], conditions: Sequence[Condition], key_conditions: Sequence[KeyCondition]
) -> Fit:
    """The pattern that serves a query of an entity, and the conditions that become its key range.

    Raises:
        NoAccessPattern: no pattern serves a `odm.select`.
        BadValue: the partition is not named.
    """
    if query.pattern is None:
        return _best(entity, key_conditions, [entity.codec.lower_stored(condition) for condition in conditions])
    fit = _fit(entity, entity.pattern(query.pattern), query.values, key_conditions)
    if fit.lack is not None:
        raise BadValue(f"{query} lacks {fit.lack}, which names the partition")
    return fit


def conditions_on_keys(codec: EntityCodec, conditions: Iterable[Condition]) -> list[KeyCondition]:
    """The conditions that can limit a key range, with their values normalised as in a filter."""
    usable = [(at, one) for at, one in enumerate(map(key_condition_of, conditions)) if one is not None]
    return [_as_stored(codec, evolve(one.mapped(partial(codec.comparable, one.field)), at=at)) for at, one in usable]


def _as_stored(codec: EntityCodec, one: KeyCondition) -> KeyCondition:
    """The condition with the value of an equality as the model holds it."""
    if one.equal is None:
        return one
    try:
        return evolve(one, equal=(codec.validate(one.field, one.equal[0]),))
    except BadValue as error:
        # Another validator of the field may need other fields; then the value is used as it is.
        return evolve(one, refused=isinstance(error.__cause__, ValidationError))


def _best(entity: EntitySchema, key_conditions: Sequence[KeyCondition], stored: Sequence[Condition]) -> Fit:
    fits = [_fit(entity, pattern, {}, key_conditions) for pattern in (entity.primary, *entity.patterns.values())]
    usable = [
        fit for fit in fits if fit.lack is None and not _may_leave_out(entity, fit.pattern, key_conditions, stored)
    ]
    if not usable:
        raise NoAccessPattern(_no_pattern(entity, fits, key_conditions))
    return max(usable, key=lambda fit: fit.rank(_shards(fit, key_conditions)[0]))


def _may_leave_out(
    entity: EntitySchema, pattern: PatternSchema, key_conditions: Sequence[KeyCondition], stored: Sequence[Condition]
) -> bool:
    """Whether the pattern's sparse index may lack an item that the conditions match."""
    when = () if pattern.when is None else tuple(flatten([pattern.when]))
    optional = entity.optional.intersection(pattern.fields)
    asked = {one.field for one in key_conditions}  # no condition holds for None
    return bool(optional - asked) or not all(condition in stored for condition in when)


def _fit(
    entity: EntitySchema, pattern: PatternSchema, values: Mapping[str, Any], key_conditions: Sequence[KeyCondition]
) -> Fit:
    given, equal = dict(values), []
    buckets: tuple[str, tuple[Bound, ...]] | None = None
    for name in pattern.partition.fields:
        if name in given or (buckets and buckets[0] == name):
            continue
        if name in pattern.partition.lossy:
            if buckets or not _is_closed(bounds := _bounds(key_conditions, name)):
                return Fit(pattern, lack=f"{name} >= ... and {name} < ...")
            buckets = (name, bounds)
        elif one := _equality(key_conditions, name):
            given[name] = _value(one)
            equal.append(one)
        else:
            return Fit(pattern, lack=f"{name} = ...")
    narrowing = {name: value for name, value in given.items() if not names_unit_only(pattern, name, values)}
    fit = Fit(pattern, given, narrowing, buckets, equal=tuple(equal))
    return fit if pattern.sort is None else _fit_sort(pattern.sort, fit, key_conditions)


def names_unit_only(pattern: PatternSchema, name: str, values: Mapping[str, Any]) -> bool:
    """Whether a value only selects the unit, such as the day: ``by_day(at=...)`` asks for the whole day.

    It also does if the sort key has the exact time, unless the call gives a field that follows it in the sort key.
    """
    if name not in pattern.partition.lossy:
        return False
    sort = pattern.sort.fields if pattern.sort is not None else ()
    behind = sort[sort.index(name) + 1 :] if name in sort else ()
    return not any(other in values and other not in pattern.partition.fields for other in behind)


def _fit_sort(sort: Template, fit: Fit, key_conditions: Sequence[KeyCondition]) -> Fit:
    """Use the leading sort fields with an equality, then one field with a range."""
    given, equal = dict(fit.leading), list(fit.equal)
    for name in sort.fields:
        if name in given:
            continue
        one = _equality(key_conditions, name)
        if one is None or name in sort.lossy:
            ranged = tuple(t for t in key_conditions if t.field == name)
            return evolve(fit, leading=given, equal=tuple(equal), bounds=_bounds(key_conditions, name), ranged=ranged)
        given[name] = _value(one)
        equal.append(one)
    return evolve(fit, leading=given, equal=tuple(equal))


def _equality(key_conditions: Sequence[KeyCondition], name: str) -> KeyCondition | None:
    return next(
        (one for one in key_conditions if one.field == name and one.equal is not None),
        None,
    )


def _bounds(key_conditions: Sequence[KeyCondition], name: str) -> tuple[Bound, ...]:
    return tuple(bound for one in key_conditions if one.field == name for bound in one.range)


def _is_closed(bounds: Sequence[Bound]) -> bool:
    """Whether the bounds limit a range on both sides, so that it has a finite number of units."""
    ops = {op for op, _ in bounds}
    return bool(ops & {">", ">="} and ops & {"<", "<="})


def _value(one: KeyCondition) -> Any:
    assert one.equal is not None
    return one.equal[0]


def _shards(fit: Fit, key_conditions: Sequence[KeyCondition]) -> tuple[tuple[str, ...], frozenset[str]]:
    """The shards that can hold the results, and the old shards among them.

    All shards, or the one that an equality selects, after its old shard if the number of shards has changed.
    """
    pattern = fit.pattern
    if fit.impossible:
        return ("",), frozenset()
    shards, hashed = pattern.shards, pattern.hashed
    everywhere = suffixes_read(shards), suffixes_leaving(shards)
    if shards is None or hashed is None:
        return everywhere
    by = str(shards.by)
    if one := _equality(key_conditions, by):
        found = suffixes_of(shards, hashed, _value(one))
    # In a lossy format, a value selects its whole unit, so it does not select one shard.
    elif by in fit.leading and (pattern.sort is None or by not in pattern.sort.lossy):
        found = suffixes_of(shards, hashed, fit.leading[by])
    else:
        return everywhere
    return found, frozenset(found[:-1])


def _plan_fit(
    entity: EntitySchema,
    query: Query[Any],
    conditions: Sequence[Condition],
    fit: Fit,
    shards: tuple[str, ...],
) -> Plan:
    pattern = fit.pattern
    if fit.impossible:
        return Plan(query, entity, pattern, ())
    partitions = _partitions(fit, shards)
    lo, hi, exact = "", None, True
    if pattern.sort is not None:
        span = pattern.sort.span(leading_values(pattern.sort, fit.leading), fit.bounds)
        lo, hi, exact = span.lo, span.hi, span.exact
    consumed = [*fit.equal, *(fit.ranged if exact else ())]
    positions = {one.at for one in consumed}
    rest = [lowered for at, lowered in enumerate(conditions) if at not in positions]
    tag = has_tag(entity.tag) if pattern.shared else None
    filter_ = every(*rest, tag)
    return Plan(
        query,
        entity,
        pattern,
        partitions,
        shards,
        lo=lo,
        hi=hi,
        filter=filter_,
        narrowed=tuple([one.condition for one in consumed]),
        keyed=tuple([(one.field, op, value) for one in consumed for op, value in _as_bounds(one)]),
        needs_tag=tag is not None,
        given=frozenset((*fit.given, *fit.leading)) - ({fit.buckets[0]} if fit.buckets else set()),
    )


def _as_bounds(one: KeyCondition) -> Sequence[tuple[str, Any]]:
    """The condition as operators and values, an equality as such."""
    return one.bounds if one.equal is None else (("=", one.equal[0]),)


def _partitions(fit: Fit, shards: tuple[str, ...]) -> tuple[str, ...]:
    template = fit.pattern.partition
    if fit.buckets is None:
        return (_encoded(template, fit.given),)
    found = template.buckets(fit.given, *fit.buckets, most=MOST_PARTITIONS)
    if (number := len(found) * len(shards)) > MOST_PARTITIONS:
        raise BadValue(
            f"{template.owner}: the range of {fit.buckets[0]} touches {len(found)} partitions of {template.text!r}, "
            f"each of {len(shards)} shards, {number} in all and more than {MOST_PARTITIONS}; narrow the range, or use "
            "a coarser format"
        )
    return found


def _encoded(template: Template, values: Mapping[str, Any]) -> str:
    text = template.encode(values)
    if text is None:
        name = next(f for f in template.fields if values.get(f) is None)
        raise BadValue(f"{template.owner}: {name!r} is None, and items with None in a key are not in an index")
    return text


def leading_values(sort: Template, given: Mapping[str, Any]) -> dict[str, Any]:
    """The values of the sort template's leading fields."""
    leading: dict[str, Any] = {}
    for name in sort.fields:
        if name not in given:
            break
        leading[name] = given[name]
    return leading


def _plan_collection(schema: Schema, entity: EntitySchema, query: Query[Any]) -> Plan:
    pattern = entity.pattern(str(query.pattern))
    partition = _encoded(pattern.partition, query.values)
    filters = [_lower_for_owner(schema, c) for c in flatten(query.conditions)]
    if query.kinds:
        filters.append(of_tags({schema.entity(kind).tag for kind in query.kinds}))
    shards, leaving = suffixes_read(pattern.shards), suffixes_leaving(pattern.shards)
    plan = Plan(query, None, pattern, (partition,), shards, leaving, filter=every(*filters))
    if query.through is not None:
        return _through(schema, plan, query.through)
    if query.scope == "partition":
        extra = [name for name in query.values if name not in pattern.partition.fields]
        if extra:
            raise BadValue(
                f"{query}: a collection is a whole partition, so {extra[0]!r} has no meaning; leave it out, or say "
                "prefix=True to read what is stored under that key"
            )
        return _within(entity, plan) if query.within else plan
    if pattern.sort is None:
        return plan
    text = _encoded(pattern.sort, query.values) if set(pattern.sort.fields) <= set(query.values) else None
    if text is None:
        lacking = next(name for name in pattern.sort.fields if name not in query.values)
        raise BadValue(f"{query}: prefix=True needs the whole key of an item; {brief(lacking)} is missing")
    # Keys below text + "$" are the text itself or continue with "#": values escape all lower characters.
    if pattern.sort.native == "N":
        return evolve(plan, lo=text, hi=text + "\0")
    return evolve(plan, lo=text, hi=next_prefix(text if pattern.sort.verbatim else text + "#"))


def _within(entity: EntitySchema, plan: Plan) -> Plan:
    """The part of a collection whose sort key is in the range that conditions on the pattern's fields give."""
    span = _span(entity, plan.pattern, plan.query, plan.query.within)
    return evolve(plan, partitions=()) if span is None else evolve(plan, lo=span.lo, hi=span.hi)


def _through(schema: Schema, plan: Plan, through: Query[Any]) -> Plan:
    """The part of a collection from the sort keys of one call to those of another."""
    query, entity, other = plan.query, schema.entity(plan.query.entity), schema.entity(through.entity)
    pattern = other.pattern(str(through.pattern))
    partition = _encoded(pattern.partition, through.values)
    if (pattern.index, pattern.shards, (partition,)) != (plan.pattern.index, plan.pattern.shards, plan.partitions):
        raise BadValue(
            f"{query}: through= has another partition than the collection, {partition!r} and not "
            f"{plan.partitions[0]!r}, or that of another index: give both calls the same partition"
        )
    calls = ((entity, plan.pattern, query, query.within), (other, pattern, through, through.conditions))
    spans = [span for call in calls if (span := _span(*call)) is not None and not span.empty]
    if not spans:
        return evolve(plan, partitions=())
    ends = [span.hi for span in spans if span.hi is not None]
    return evolve(plan, lo=min(span.lo for span in spans), hi=max(ends) if len(ends) == len(spans) else None)


def _span(entity: EntitySchema, pattern: PatternSchema, query: Query[Any], within: Iterable[Condition]) -> Span | None:
    """The sort keys of a call with conditions on fields of its sort key; None if no item meets the conditions."""
    conditions = tuple(flatten(within))
    for condition in conditions:
        entity.codec.lower(condition)  # raises if it does not fit the model
    fit = _fit(entity, pattern, query.values, conditions_on_keys(entity.codec, conditions))
    if fit.impossible:
        return None
    consumed = {one.at for one in (*fit.equal, *fit.ranged)}
    sort = pattern.sort
    span = None if sort is None else sort.span(leading_values(sort, fit.leading), fit.bounds)
    rest = [condition for at, condition in enumerate(conditions) if at not in consumed]
    if span is None and not conditions:
        return Span("", None)
    if span is None or rest or not span.exact:
        raise BadValue(
            f"{query}: the range of a collection is one of sort keys, and {(rest or conditions)[0]} does not give "
            f"one of {pattern.text}: compare the first fields of the sort template, or put where() behind "
            "collection() to filter the items"
        )
    return span


def _lower_for_owner(schema: Schema, condition: Condition) -> Condition:
    owner = owner_of(condition)
    if owner is None:
        raise BadValue(f"the condition {condition} does not say whose field it means: write it as Entity.field")
    heirs = [entity for entity in schema.entities.values() if issubclass(entity.cls, owner)] or [schema.entity(owner)]
    stored = heirs[0].codec.lower_stored(condition)
    # A default is shown only by the items of the entity that has the field.
    shown = {entity.tag: lowered for entity in heirs if (lowered := entity.codec.lower(condition)) != stored}
    if not shown:
        return stored
    return Or((*(And((has_tag(tag), lowered)) for tag, lowered in shown.items()), And((Not(of_tags(shown)), stored))))


def _no_pattern(entity: EntitySchema, fits: Sequence[Fit], key_conditions: Sequence[KeyCondition]) -> str:
    asked = ", ".join(dict.fromkeys(str(one.condition) for one in key_conditions)) or "no condition on a single field"
    lines = [f"no access pattern of {entity.name} serves: {asked}"]
    for fit in fits:
        why = f"lacks {fit.lack}" if fit.lack else "is sparse and may leave items out: name it to use it"
        lines.append(f"  {fit.pattern.text}  {why}")
    line = _suggestion(entity, key_conditions)
    if line is not None:
        lines += ["declare one that does, for example", f"  {line}"]
    return "\n".join([*lines, "or read all with scan()"])


def _suggestion(entity: EntitySchema, key_conditions: Sequence[KeyCondition]) -> str | None:
    """The declaration of a pattern that would serve the conditions; None if there is no such pattern."""
    usable = [one for one in key_conditions if _can_be_key(entity, one.field)]
    equal = list(dict.fromkeys(one.field for one in usable if one.equal is not None))
    ranged = [one.field for one in usable if one.equal is None and one.field not in equal][:1]
    if not equal and not ranged:
        return None
    name = "by_" + "_and_".join([*equal, *ranged])
    partition = "#".join(_component(field_name) for field_name in equal) or entity.name.upper()
    sort = f', "{{{ranged[0]}}}"' if ranged else ""
    warning = "" if equal else "  # all in one partition: for few items only"
    return f'{name}{"_of_all" * (name in entity.patterns)} = AccessPattern("{partition}"{sort}){warning}'


def _component(name: str) -> str:
    return f"{name.upper()}#{{{name}}}"


def _can_be_key(entity: EntitySchema, name: str) -> bool:
    if name in entity.counters or name == entity.revision:
        return False
    try:
        compile_template(_component(name), entity.cls.model_fields, owner=entity.name)
    except SchemaError:
        return False
    return True
