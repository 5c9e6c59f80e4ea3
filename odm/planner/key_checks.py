"""Judges the items of an index read against the conditions that its key range stands for.

The range of a query is made with the templates of today's models. Until a backfill, an index also holds entries whose
keys another template made, and such an entry can be in the range although its item does not meet the conditions. So
whatever an index returns is judged once more by the fields of the item. The primary key needs no such check: an item
whose fields give another key is an error (see `Schema.check_values`).
"""

from collections.abc import Callable, Mapping, Sequence
from itertools import repeat, starmap
from operator import attrgetter, eq, ge, gt, le, lt
from typing import Any, Final, Literal, NamedTuple, TypeAlias

from odm.errors import KeyValueError
from odm.expressions.nodes import Compare, Condition, Const, Path
from odm.immutable import Immutable
from odm.keys import Template
from odm.planner.fit import names_unit_only
from odm.planner.key_conditions import key_test_of
from odm.planner.plan import Plan
from odm.protocol.predicates import every, has_tag
from odm.schema.entity import PatternSchema
from odm.schema.model import Schema

_Op: TypeAlias = Literal["=", "<", "<=", ">", ">=", "prefix", "unit"]

_HOLDS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {
    "=": eq,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
    "prefix": lambda value, prefix: value.startswith(prefix),
}


FEW: Final = 4
"""So many entities are judged together; fewer one by one, in less time."""


class _Test(NamedTuple):
    """One condition on a field. ``unit``: its text in this template is that of the value, such as the day of a time."""

    field: str
    op: _Op
    value: Any
    template: Template | None = None


class KeyCheck(Immutable):
    """The conditions that the key range of a plan stands for.

    Attributes:
        schema, plan: what is read.
        tests: the conditions on fields.
        by_key: the items are judged by the key that the models make of them: for items of any entity, and for
            conditions on computed fields, which are not stored.
    """

    schema: Schema
    plan: Plan
    tests: tuple[_Test, ...] = ()
    by_key: bool = False

    @property
    def fields(self) -> tuple[str, ...]:
        """The fields that have a condition, each once."""
        return tuple(dict.fromkeys(test.field for test in self.tests))

    def failing(self, entities: Sequence[Any]) -> list[bool] | None:
        """For each entity, whether it does not meet the conditions; None: all meet them, which is the usual answer."""
        if not self.by_key and self._all_meet(entities):
            return None
        failing = [not self.meets(entity) for entity in entities]
        return failing if any(failing) else None

    def _all_meet(self, entities: Sequence[Any]) -> bool:
        """Whether all meet the conditions. Written without a loop in Python, as each query of an index runs it."""
        assert self.plan.entity is not None
        number = len(entities)
        if number < FEW:
            return all(map(self.meets, entities))
        if list(map(type, entities)).count(self.plan.entity.cls) != number:
            return False
        for field, op, value, _ in self.tests:
            if op == "unit":
                return False
            values = list(map(attrgetter(field), entities))
            try:
                if op == "=":
                    if values.count(value) != number:
                        return False
                elif op == "prefix":
                    if not all(map(_HOLDS[op], values, repeat(value))):
                        return False
                # Timestamps of one time zone are compared with each other much faster than with one of another.
                elif not _HOLDS[op](min(values) if op in (">", ">=") else max(values), value):
                    return False
            except (TypeError, AttributeError):  # None, or a value of an Enum, which has no order of its own
                return False
        return True

    def meets(self, entity: Any) -> bool:
        """Whether an entity meets the conditions."""
        if self.by_key:
            return self._in_range(entity)
        assert self.plan.entity is not None
        if type(entity) is not self.plan.entity.cls:
            return False
        try:
            for test in self.tests:
                if not self._test(test, getattr(entity, test.field)):
                    return False
        except (TypeError, AttributeError):
            return self._in_range(entity)
        return True

    def _test(self, test: _Test, value: Any) -> bool:
        if value is None:
            return False
        if test.template is None:
            return _HOLDS[test.op](value, test.value)
        try:
            return test.template.texts_of(test.field, value) == test.template.texts_of(test.field, test.value)
        except KeyValueError:
            return False

    def _in_range(self, entity: Any) -> bool:
        """Whether the key that the models make of an entity is in the range that was read."""
        plan, values = self.plan, vars(entity)
        pattern = self._pattern_of(type(entity))
        if pattern is None:
            return False
        try:
            key = pattern.of_values(values)
        except KeyValueError:
            return False
        # The partition of an entity without shards may be what is one shard of another.
        read = plan.partitions if pattern.shards is not None else plan.partition_keys
        if key is None or key.partition not in read:
            return False
        return plan.lo <= key.sort and (plan.hi is None or key.sort < plan.hi)

    def _pattern_of(self, cls: type) -> PatternSchema | None:
        """The pattern through which an entity is in the index that is read; None: by its model it is not in it."""
        entity = self.schema.by_class.get(cls)
        if entity is None or (self.plan.entity is not None and entity is not self.plan.entity):
            return None
        return next((pattern for pattern in entity.patterns.values() if pattern.index == self.plan.pattern.index), None)

    @property
    def stored(self) -> Condition | None:
        """The conditions over stored names, with the tag of the entity; None if they cannot be written so."""
        entity = self.plan.entity
        if self.by_key or entity is None:
            return None
        parts: list[Condition] = []
        for test in self.tests:
            path = Path((test.field,))
            if test.op == "unit":
                assert test.template is not None
                unit = test.template.unit_of(test.field, test.value)
                if unit is None:
                    return None
                parts.append(Compare(">=", path, Const(unit[0])))
                if unit[1] is not None:
                    parts.append(Compare("<", path, Const(unit[1])))
            elif test.op == "=":
                parts.append(Compare("=", path, Const(test.value)))
        lowered = [entity.codec.lower(part) for part in parts]
        lowered += [entity.codec.lower(condition) for condition in self._ranged]
        tag = () if self.schema.exclusive else (has_tag(entity.tag),)
        return every(*lowered, *tag)

    @property
    def _ranged(self) -> tuple[Condition, ...]:
        """The conditions of the query that are ranges."""
        tests = ((condition, key_test_of(condition)) for condition in self.plan.narrowed)
        return tuple(condition for condition, test in tests if test is not None and not test.equal)


def key_check(schema: Schema, plan: Plan) -> KeyCheck | None:
    """The conditions to check again on what a plan reads; None if every key in its range meets them."""
    pattern, entity, query = plan.pattern, plan.entity, plan.query
    if entity is None:
        return None if pattern.index is None else KeyCheck(schema, plan, by_key=True)
    tests: list[_Test] = []
    for name, value in query.values.items():
        tests += _tests_of(pattern, name, value, query.values)
    tests += starmap(_Test, plan.keyed)
    if pattern.index is None:  # a check of deletes: of what is in the sort key, as the partition is the item's own
        tests = [test for test in tests if test.field not in pattern.partition.fields]
        return KeyCheck(schema, plan, tuple(tests)) if tests else None
    computed = {field_.name for field_ in pattern.computed}
    return KeyCheck(schema, plan, tuple(tests), bool(computed) and any(test.field in computed for test in tests))


def _tests_of(pattern: PatternSchema, name: str, value: Any, values: Mapping[str, Any]) -> Sequence[_Test]:
    """What a value of a pattern call asks of the field."""
    if not pattern.partition.lossy and (pattern.sort is None or not pattern.sort.lossy):
        return (_Test(name, "=", value),)
    templates = [template for template in (pattern.partition, pattern.sort) if template and name in template.fields]
    if len(templates) == 2 and names_unit_only(pattern, name, values):
        templates.pop()
    return [
        _Test(name, "unit", value, template) if name in template.lossy else _Test(name, "=", value)
        for template in templates
    ]
