"""How a pattern serves a query: which of its conditions give the partition and the range of sort keys.

The shape of the query decides it: the fields that the call gives, and the fields and operators of its conditions.
"""

from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

from odm.codec import EntityCodec
from odm.errors import BadValue, NoAccessPattern, SchemaError
from odm.expressions.nodes import Condition
from odm.immutable import Immutable, evolve
from odm.keys import Template, compile_template, next_prefix, suffixes_read
from odm.keys.spans import Span
from odm.planner.key_conditions import KeyTest, as_range
from odm.schema.entity import EntitySchema, PatternSchema


class Fit(Immutable):
    """How well a pattern serves a query: the conditions that become its key range, or the condition that is missing.

    Attributes:
        pattern: the pattern.
        known_fields: the fields that give the partition key their value.
        leading: the fields with one value from which the beginning of the sort key is made.
        bucket: the field whose range gives several partition keys, such as days; None: there is one partition key.
        buckets: the conditions that limit it.
        equal: the equalities that give key fields their values.
        ranged: the conditions on the first field of the sort key that has no one value.
        shard: the condition that selects the shard; None: ``shard_by``, or all are read.
        shard_by: the field whose value in the key selects the shard.
        lack: the condition that is missing for the partition key; None: none is.
    """

    pattern: PatternSchema
    known_fields: tuple[str, ...] = ()
    leading: tuple[str, ...] = ()
    bucket: str | None = None
    buckets: tuple[KeyTest, ...] = ()
    equal: tuple[KeyTest, ...] = ()
    ranged: tuple[KeyTest, ...] = ()
    shard: KeyTest | None = None
    shard_by: str | None = None
    lack: str | None = None

    @property
    def rank(self) -> tuple[int, bool, bool, bool, bool]:
        """Prefers more equalities, then a range, one shard, the primary key, and an index with whole items."""
        pattern = self.pattern
        shards = len(suffixes_read(pattern.shards))
        if self.shard_by is not None and pattern.shards is not None:
            shards = 1 if pattern.shards.was is None else 2
        whole = pattern.projection is None
        return len(self.equal), bool(self.ranged), shards == 1, pattern.kind == "primary", whole


def fit_of(pattern: PatternSchema, values: Collection[str], tests: Sequence[KeyTest]) -> Fit:
    """How a pattern serves a query that gives the values of some fields and has these conditions on key fields."""
    known_fields, equal = list(values), list[KeyTest]()
    bucket: str | None = None
    for name in pattern.partition.fields:
        if name in known_fields or bucket == name:
            continue
        if name in pattern.partition.lossy:
            if bucket is not None or not _is_closed(tests, name):
                return Fit(pattern, lack=f"{name} >= ... and {name} < ...")
            bucket = name
        elif test := _equality(tests, name):
            known_fields.append(name)
            equal.append(test)
        else:
            return Fit(pattern, lack=f"{name} = ...")
    buckets = () if bucket is None else tuple([test for test in tests if test.field == bucket])
    leading = tuple([name for name in known_fields if not names_unit_only(pattern, name, values)])
    fit = Fit(pattern, tuple(known_fields), leading, bucket, buckets, tuple(equal))
    return _with_shard(fit if pattern.sort is None else _with_sort(pattern.sort, fit, tests), tests)


def best_fits(entity: EntitySchema, tests: Sequence[KeyTest], conditions: Sequence[Condition]) -> list[Fit]:
    """How patterns serve a query that names none, the best first; up to the first whose index holds all items.

    Raises:
        NoAccessPattern: no pattern serves it, whatever its values are.
    """
    fits = [fit_of(pattern, (), tests) for pattern in (entity.primary, *entity.patterns.values())]
    asked = {test.field for test in tests}  # no condition holds for None
    usable = [fit for fit in fits if fit.lack is None and entity.optional.intersection(fit.pattern.fields) <= asked]
    usable.sort(key=lambda fit: fit.rank, reverse=True)
    whole = next((at for at, fit in enumerate(usable, 1) if fit.pattern.when is None), len(usable))
    if not usable:
        raise no_pattern(entity, tests, conditions)
    return usable[:whole]


def names_unit_only(pattern: PatternSchema, name: str, values: Collection[str]) -> bool:
    """Whether a value only selects the unit, such as the day: ``by_day(at=...)`` asks for the whole day.

    It also does if the sort key has the exact time, unless the call gives a field that follows it in the sort key.
    """
    if name not in pattern.partition.lossy:
        return False
    sort = pattern.sort.fields if pattern.sort is not None else ()
    behind = sort[sort.index(name) + 1 :] if name in sort else ()
    return not any(other in values and other not in pattern.partition.fields for other in behind)


def _with_sort(sort: Template, fit: Fit, tests: Sequence[KeyTest]) -> Fit:
    """Use the leading sort fields with an equality, then one field with a range."""
    leading, equal = list(fit.leading), list(fit.equal)
    ranged: tuple[KeyTest, ...] = ()
    for name in sort.fields:
        if name in leading:
            continue
        test = _equality(tests, name)
        if test is None or name in sort.lossy:
            ranged = tuple([test for test in tests if test.field == name])
            break
        leading.append(name)
        equal.append(test)
    return evolve(fit, leading=tuple(leading), equal=tuple(equal), ranged=ranged)


def _with_shard(fit: Fit, tests: Sequence[KeyTest]) -> Fit:
    """Use an equality, or a value in the key, that selects the shard."""
    pattern = fit.pattern
    if pattern.shards is None or pattern.hashed is None:
        return fit
    by = str(pattern.shards.by)
    test = _equality(tests, by)
    # In a lossy format, a value selects its whole unit, so it does not select one shard.
    in_key = by in fit.leading and (pattern.sort is None or by not in pattern.sort.lossy)
    return evolve(fit, shard=test, shard_by=by) if test is not None or in_key else fit


def _equality(tests: Sequence[KeyTest], name: str) -> KeyTest | None:
    return next((test for test in tests if test.field == name and test.equal), None)


def _is_closed(tests: Sequence[KeyTest], name: str) -> bool:
    """Whether conditions limit a field on both sides, so that it has a finite number of units."""
    ops = {op for test in tests if test.field == name for op in test.ops}
    return bool(ops & {">", ">="} and ops & {"<", "<="})


class KeyRange(Immutable):
    """The range of keys of a query, without its values.

    Attributes:
        codec: of the entity, which validates the values.
        pattern: whose keys they are.
        equal, ranged: as in `Fit`.
        lead: makes the beginning of the sort key that has one value; None: the pattern has no sort key.
        known: the slots of the sort key in that beginning.
        exact: their texts determine their values.
    """

    codec: EntityCodec
    pattern: PatternSchema
    equal: tuple[KeyTest, ...]
    ranged: tuple[KeyTest, ...]
    lead: Callable[[Any], str | None] | None
    known: int
    exact: bool

    def equalities(self, conditions: Sequence[Condition]) -> dict[str, Any] | None:
        """The values of the fields with an equality; None if the model refuses one, so that no item has it."""
        values: dict[str, Any] = {}
        for test in self.equal:
            value, refused = test.value(self.codec, conditions[test.at])
            if refused:
                return None
            values[test.field] = value
        return values

    def bounds(self, conditions: Sequence[Condition]) -> list[tuple[str, Any, Any]]:
        """The bounds of the field that has a range: the field, the operator ("=" too), and the value."""
        return [(test.field, *bound) for test in self.ranged for bound in test.bounds(self.codec, conditions[test.at])]

    def of_call(self, values: Mapping[str, Any]) -> tuple[str, str | None]:
        """The first sort key, and the first one above the range, if the values of the call give both.

        Raises:
            KeyValueError: a value cannot be used in a key.
            BadValue: a value is None.
        """
        sort = self.pattern.sort
        if self.lead is None or sort is None:
            return "", None
        if (start := self.lead(values)) is None:
            raise _without_value(sort, values)
        return start, start + "\0" if self.known == len(sort.slots) else next_prefix(start)

    def span(self, values: Mapping[str, Any], bounds: Sequence[tuple[str, Any, Any]]) -> Span:
        """The range of sort keys.

        Raises:
            KeyValueError: a value cannot be used in a key.
            BadValue: a value is None.
        """
        sort = self.pattern.sort
        if self.lead is None or sort is None:
            return Span("", None)
        if (start := self.lead(values)) is None:
            raise _without_value(sort, values)
        ranges = as_range([(op, value) for _, op, value in bounds]) if bounds else ()
        return sort.span_behind(start, self.known, ranges, exact=self.exact)


def key_range(codec: EntityCodec, fit: Fit) -> KeyRange:
    """The range of keys of a query that a pattern serves."""
    sort = fit.pattern.sort
    if sort is None:
        return KeyRange(codec, fit.pattern, fit.equal, fit.ranged, None, 0, True)
    known = next((at for at, name in enumerate(sort.fields) if name not in fit.leading), len(sort.fields))
    return KeyRange(codec, fit.pattern, fit.equal, fit.ranged, sort.lead(known), known, sort.determined(known))


def encoded(template: Template, values: Mapping[str, Any]) -> str:
    """The text of a key.

    Raises:
        KeyValueError: a value cannot be used in a key.
        BadValue: a value is None.
    """
    text = template.encode(values)
    if text is None:
        raise _without_value(template, values)
    return text


def _without_value(template: Template, values: Mapping[str, Any]) -> BadValue:
    """The error for a key of which a value is None."""
    name = next(name for name in template.fields if values.get(name) is None)
    return BadValue(f"{template.owner}: {name!r} is None, and items with None in a key are not in an index")


def no_pattern(entity: EntitySchema, tests: Sequence[KeyTest], conditions: Sequence[Condition]) -> NoAccessPattern:
    """The error for a query that no pattern serves, with the declaration of one that would."""
    each = dict.fromkeys(str(conditions[test.at]) for test in tests)
    lines = [f"no access pattern of {entity.name} serves: {', '.join(each) or 'no condition on a single field'}"]
    for fit in [fit_of(pattern, (), tests) for pattern in (entity.primary, *entity.patterns.values())]:
        why = f"lacks {fit.lack}" if fit.lack else "is sparse and may leave items out: name it to use it"
        lines.append(f"  {fit.pattern.text}  {why}")
    line = _suggestion(entity, tests)
    if line is not None:
        lines += ["declare one that does, for example", f"  {line}"]
    return NoAccessPattern("\n".join([*lines, "or read all with scan()"]))


def _suggestion(entity: EntitySchema, tests: Sequence[KeyTest]) -> str | None:
    """The declaration of a pattern that would serve the conditions; None if there is no such pattern."""
    usable = [test for test in tests if _can_be_key(entity, test.field)]
    equal = list(dict.fromkeys(test.field for test in usable if test.equal))
    ranged = [test.field for test in usable if not test.equal and test.field not in equal][:1]
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
