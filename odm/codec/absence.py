"""Absent attributes in conditions: a condition judges what the entity shows.

A stored item may lack the attribute of a field: the field was added to the model later, or an update removed it. The
entity then shows the field's default, so the condition counts the attribute as that value. Services evaluate a
comparison with an absent attribute as false, and ``<>`` as true. So where the default gives another result, the
lowered condition asks for absence too: ``status = "open" or missing(status)``.

A default factory is called when the condition is lowered. One that takes the data of other fields is not: without them,
its field counts as absent.
"""

from collections.abc import Sequence
from typing import Any, Final, TypeAlias, assert_never, cast

from odm.codec.types.containers import ListType
from odm.codec.types.records import RecordType
from odm.codec.types.stored import NOTHING, NULL, SET, Part, StoredType, Unfit
from odm.codec.types.unions import bare
from odm.expressions.evaluate import compares, equal, holds, size_of
from odm.expressions.nodes import (
    And,
    Between,
    Compare,
    Condition,
    Const,
    Contains,
    Exists,
    IsIn,
    Missing,
    Not,
    Operand,
    Or,
    Path,
    Size,
    StartsWith,
    Value,
    paths,
)
from odm.immutable import Immutable, evolve

Test: TypeAlias = Compare | Between | IsIn | StartsWith | Contains

MOST_FORMS: Final = 64
"""The most stored forms of one element that a condition asks for: more would not fit into DynamoDB's expressions."""

_EMPTY: Final = frozenset[Any]()
_HERE: Final = Path(("value",))


class Absence(Immutable):
    """One way in which the value at a path can be absent, and what the entity shows there.

    Attributes:
        path: by stored names.
        missing: holds if the value is absent in this way.
        value: the stored form of the value that the entity shows; `NOTHING` if it shows none.
    """

    path: Path
    missing: Condition
    value: Value

    @property
    def there(self) -> Condition:
        """Holds if the value is not absent in this way."""
        return Exists(self.missing.path) if isinstance(self.missing, Missing) else Not(self.missing)


class Gap(Immutable):
    """A field on a path that a stored item may lack while the entity shows it: the `Absence` of all paths of a shape.

    Attributes:
        length: the number of segments of the path up to the field.
        around: the length up to the nearest holder that may be absent, and whether it may be NULL; None: all are there.
        part: the field.
        computed: its default factory is called for each condition.
        value: the stored form of what the entity shows in place of the field; `NOTHING` if that is computed.
        lacking: what the entity shows if only the last part of the path is not there.
    """

    length: int
    around: tuple[int, bool] | None
    part: Part
    computed: bool
    value: Value
    lacking: Value

    def at(self, path: Path) -> Absence | None:
        """The absence for a path by stored names; None if what the factory returns could not be stored."""
        value = _default_of(self.part, defaults=True) if self.computed else self.value
        if value is NOTHING:
            return None
        segments = path.segments
        missing: Condition = Missing(Path(segments[: self.length]))
        if self.around is not None:
            length, nullable = self.around
            holder = Path(segments[:length])
            null = (Compare("<>", holder, Const(None)),) if nullable else ()
            missing = And((Exists(holder), *null, missing))
        return Absence(path, missing, _inside(value, segments[self.length :], self.lacking))


def gaps(record: RecordType, path: Path, type_: StoredType, *, defaults: bool) -> tuple[Gap, ...]:
    """The fields on the way of a path that a stored item may lack while the entity shows them.

    Args:
        record: the type of the entity.
        path: the path by field names, which is known to lead somewhere.
        type_: the type at its end.
        defaults: count an absent attribute as the field's default, not only as None or the empty set.
    """
    nested_gaps: list[Gap] = []
    above: tuple[int, bool] | None = None
    lacking = _EMPTY if type_.kinds == SET else NOTHING  # an empty set inside a default is not stored either
    around: StoredType = record
    for length, segment in enumerate(path.segments, 1):
        part = around.child(segment)
        if isinstance(bare(around), RecordType):
            computed = defaults and part.factory is not None and part.type.kinds != SET
            value = NOTHING if computed else _default_of(part, defaults=defaults)
            if computed or value is not NOTHING:
                nested_gaps.append(Gap(length, above, part, computed, value, lacking))
        if not part.required or part.type.kinds & NULL:
            above = length, bool(part.type.kinds & NULL)
        elif above is not None:
            above = length, False
        around = part.type
    return tuple(nested_gaps)


def absences(of: Sequence[Gap], path: Path) -> list[Absence]:
    """The ways in which the value at a path by stored names can be absent while the entity shows one."""
    return [absence for gap in of if (absence := gap.at(path)) is not None]


def as_shown(test: Test, ways: Sequence[Absence]) -> Condition:
    """A test that judges what the entity shows, where values can be absent in these ways."""
    if not ways:
        return test
    first, others = ways[0], ways[1:] if len(ways) > 1 else ()
    rest = as_shown(test, others) if others else test
    filled = _filled(test, first)
    holds_anyway = type(test) is Compare and test.op == "<>"
    if filled is True:
        return rest if holds_anyway else either(rest, first.missing)
    present = And((first.there, rest)) if holds_anyway else rest
    if filled is False:
        return present
    there = as_shown(filled, [way for way in others if way.path != first.path])
    return either(present, And((*parts_of(first.missing), there)))


def of_absent_item(condition: Condition) -> bool | None:
    """The result of a condition, not lowered, for an absent item; None if only the lowered condition shows it.

    None and the empty set may be stored as absence, and so may those inside a size, which therefore must be lowered.
    """
    match condition:
        case Compare(op, Path(), Const(value)) if value is not None and not isinstance(value, set | frozenset):
            return op == "<>"
        case And(conditions):
            results = [of_absent_item(part) for part in conditions]
            return None if None in results else all(results)
        case _:
            return None


def parts_of(condition: Condition) -> tuple[Condition, ...]:
    """The parts of a conjunction."""
    return condition.conditions if isinstance(condition, And) else (condition,)


def same(path: Path, type_: StoredType, value: Value, *, more: bool = False) -> Condition:
    """The stored value at a path is shown as this value.

    Parts that have defaults may be absent from it; and with ``more``, it may have members that its model does not have.
    """
    inner = bare(type_)
    if isinstance(inner, RecordType) and type(value) is dict and grows(inner, more=more):
        parts = _same_fields(path, inner, value, more=more)
        if not any(isinstance(part, Compare | And) for part in parts):  # all hold where there is no record
            parts = [Exists(path), Compare("<>", path, Const(None)), *parts]
        return And(tuple(parts)) if len(parts) > 1 else parts[0]
    if isinstance(inner, ListType) and type(value) is list and grows(inner.item, more=more):
        elements = (same(_below(path, at), inner.item, part, more=more) for at, part in enumerate(value))
        return (
            And((Compare("=", Size(path), Const(len(value))), *elements)) if value else Compare("=", path, Const(value))
        )
    return Compare("=", path, Const(value))


def forms(type_: StoredType, value: Value) -> list[Value]:
    """The stored forms of the values that are shown as this one: parts that are their field's default may be absent.

    Returns:
        The forms, this value first; only this value if there are more than `MOST_FORMS`.
    """
    inner = bare(type_)
    if not isinstance(inner, RecordType) or type(value) is not dict or not grows(inner):
        return [value]
    variants: list[dict[str, Value]] = [{}]
    for field in inner.fields.values():
        if field.stored not in value:
            continue
        options: list[dict[str, Value]] = [{field.stored: form} for form in forms(field.type, value[field.stored])]
        default = _default_of(inner.child(field.name), defaults=True)
        if default is not NOTHING and equal(default, value[field.stored]):
            options.append({})
        variants = [{**form, **option} for form in variants for option in options]
        if len(variants) > MOST_FORMS:
            return [value]
    return list(variants)


def grows(type_: StoredType, above: tuple[StoredType, ...] = (), *, more: bool = False) -> bool:
    """Whether a stored value of the type may lack parts that have defaults, or with ``more`` have unknown members."""
    inner = bare(type_)
    if isinstance(inner, ListType):
        return grows(inner.item, above, more=more)
    if not isinstance(inner, RecordType) or inner in above:
        return False
    if more:
        return True
    below = (*above, inner)
    return any((field.always and not field.required) or grows(field.type, below) for field in inner.fields.values())


def either(test: Condition, absent: Condition) -> Condition:
    """One of the two holds; the first is judged first, as most items have the attribute."""
    return Or((*test.conditions, absent)) if isinstance(test, Or) else Or((test, absent))


def _same_fields(path: Path, record: RecordType, value: dict[str, Value], *, more: bool) -> list[Condition]:
    conditions: list[Condition] = []
    for field in record.fields.values():
        here = _below(path, field.stored)
        if field.stored in value:
            there = same(here, field.type, value[field.stored], more=more)
            default = _default_of(record.child(field.name), defaults=True)
            is_default = default is not NOTHING and equal(default, value[field.stored])
            conditions.append(either(there, Missing(here)) if is_default else there)
        else:
            conditions.append(Missing(here) if field.is_set else either(Compare("=", here, Const(None)), Missing(here)))
    return conditions


def _below(path: Path, segment: str | int) -> Path:
    return Path((*path.segments, segment))


def _default_of(part: Part, *, defaults: bool) -> Value:
    """The stored form of what an absent field reads as; `NOTHING` if that is not known."""
    if part.type.kinds == SET:
        return _EMPTY
    value = part.factory() if defaults and part.factory is not None else part.default
    if value is None or value is NOTHING or not defaults:
        return None if value is None else NOTHING
    try:
        return part.type.dump(value)
    except Unfit:
        return NOTHING  # no item that shows it could be stored


def _inside(value: Value, segments: Sequence[str | int], lacking: Value) -> Value:
    """The part of a shown value at a path; ``lacking`` if only its last part is not there."""
    for length, segment in enumerate(segments, 1):
        if isinstance(segment, str) and type(value) is dict:
            value = value.get(segment, lacking if length == len(segments) else NOTHING)
        elif isinstance(segment, int) and type(value) is list and segment < len(value):
            value = value[segment]
        else:
            return NOTHING
    return value


def _filled(test: Test, absence: Absence) -> "bool | Test":
    """The test with the value that is shown in place of the path, or its result if no other path is left."""
    filled: Test
    if type(test) is Compare and type(test.left) is Path and type(test.right) is Const:  # the usual test
        substitute, value = absence.value, test.right.value
        if value is not None and (test.left is absence.path or test.left == absence.path):  # the first is faster
            return (
                test.op == "<>" if substitute is None or substitute is NOTHING else compares(test.op, substitute, value)
            )
    match test:
        case Compare(op, left, right):
            operands = [_operand(left, absence), _operand(right, absence)]
            if op not in {"=", "<>"} and Const(None) in operands:
                return False  # None has no order
            if any(operand is None for operand in operands):
                return op == "<>"
            filled = Compare(op, *cast("list[Operand]", operands))
        case Between(operand, low, high):
            operands = [_operand(term, absence) for term in (operand, low, high)]
            if any(operand is None or operand == Const(None) for operand in operands):
                return False
            filled = Between(*cast("list[Operand]", operands))
        case IsIn(operand, choices):
            only = _operand(operand, absence)
            return only is not None and holds(IsIn(only, choices), None)
        case StartsWith() | Contains():
            return absence.value is not NOTHING and holds(evolve(test, path=_HERE), {"value": absence.value})
        case _:
            assert_never(test)
    return filled if any(paths(filled)) else holds(filled, None)


def _operand(operand: Operand, absence: Absence) -> Operand | None:
    """The operand with the value that is shown in place of the path; None if the operand has no value then."""
    match operand:
        case Path() if operand == absence.path:
            return None if absence.value is NOTHING else Const(absence.value)
        case Size(path) if path == absence.path:
            size = None if absence.value is NOTHING else size_of(absence.value)
            return None if size is None else Const(size)
        case _:
            return operand
