"""Conditions without their values: `shape_of`, and a `Term` for each shape.

The shape of a condition is its operators, its fields and the types of its values. A term lowers every condition of its
shape: from fields and Python values to stored names and stored values. `odm.codec.conditions` makes it, and decides
there what the shape decides; a term converts the values, and puts them into the form that was chosen for their place.

An absent attribute counts as what the entity shows, see `odm.codec.absence`; ``exists`` and ``missing`` ask about the
attribute itself.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import time
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, assert_never, cast

from odm.codec.absence import Absence, Gap, Test, absences, as_shown, either, forms, same
from odm.codec.attributes import TAG
from odm.codec.choices import EnumType, LiteralType
from odm.codec.faults import NOTHING, Unfit, show
from odm.codec.paths import Place, Resolver
from odm.codec.stored import StoredType
from odm.errors import BadValue
from odm.expressions.evaluate import equal, holds
from odm.expressions.nodes import (
    And,
    AnyCondition,
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
from odm.immutable import Abstract, Immutable

Shape: TypeAlias = Any
"""A condition without its values: hashable, and equal for all conditions that one `Term` lowers."""

ChoiceKind: TypeAlias = Literal["none", "empty set", "value"]
"""What `odm.is_in` distinguishes: None and the empty set may be stored as absence."""

_ORDERED: Final = frozenset({str, int, Decimal, bytes})
"""The types of stored values that have an order."""

_SETS: Final = (set, frozenset)
_EMPTY: Final = (set, "empty")
_TAG: Final = Path((TAG,))

T_co = TypeVar("T_co", covariant=True)


def shape_of(condition: Condition, declared: AbstractSet[str | int]) -> Shape:
    """The shape of a condition.

    Args:
        condition: as the user writes it.
        declared: the segments of paths that the model declares, see `odm.codec.paths.declared_segments`; all others
            are keys and positions, which belong to the values.
    """
    node = cast("AnyCondition", condition)
    match node:  # by class alone, and not by pattern: it runs for each condition of each call
        case Compare():
            left, right = node.left, node.right
            if type(left) is Path and type(right) is Const and len(left.segments) == 1:  # the usual condition
                value = right.value
                kind = _EMPTY if isinstance(value, _SETS) and not value else type(value)
                return Compare, node.op, left.segments[0], left.owner, kind
            return Compare, node.op, _shape_of_operand(node.left, declared), _shape_of_operand(node.right, declared)
        case And() | Or():
            return (type(node), *[shape_of(part, declared) for part in node.conditions])
        case Not():
            return Not, shape_of(node.condition, declared)
        case Exists() | Missing():
            return type(node), _shape_of_path(node.path, declared)
        case StartsWith():
            return StartsWith, _shape_of_path(node.path, declared), type(node.prefix.value)
        case Contains():
            return Contains, _shape_of_path(node.path, declared), type(node.value.value)
        case Between():
            operands = node.operand, node.low, node.high
            return (Between, *[_shape_of_operand(operand, declared) for operand in operands])
        case IsIn():
            kinds = frozenset([kind_of_choice(choice) for choice in node.choices])
            return IsIn, _shape_of_operand(node.operand, declared), kinds
        case _:
            assert_never(node)


def _shape_of_operand(operand: Operand, declared: AbstractSet[str | int]) -> Shape:
    if type(operand) is Path:
        return _shape_of_path(operand, declared)
    if type(operand) is Size:
        return Size, _shape_of_path(operand.path, declared)
    value = cast("Const", operand).value
    return _EMPTY if isinstance(value, _SETS) and not value else type(value)


def _shape_of_path(path: Path, declared: AbstractSet[str | int]) -> Shape:
    segments = path.segments
    if len(segments) == 1:
        return path.owner, segments[0]
    behind = [segment if segment in declared else type(segment) for segment in segments[1:]]
    return (path.owner, segments[0], *behind)


def kind_of_choice(choice: Const) -> ChoiceKind:
    """What kind of choice of `odm.is_in` it is."""
    value = choice.value
    if value is None:
        return "none"
    return "empty set" if isinstance(value, _SETS) and not value else "value"


class FieldOf(Immutable):
    """A field, or a part of one, in the conditions of a shape.

    Attributes:
        resolver: resolves the keys and positions in its path.
        place: where it is, by the path in one of the conditions.
        gaps: how it can be absent while the entity shows a value.
        ways: the same with its path; None: that is not the same for all conditions.
    """

    resolver: Resolver
    place: Place
    gaps: tuple[Gap, ...]
    ways: tuple[Absence, ...] | None

    def path(self, path: Path) -> Path:
        """The path in a condition, by stored names."""
        return self.resolver.stored(self.place, path) if self.place.slots else self.place.path

    def absences(self, path: Path) -> Sequence[Absence]:
        """How the value at a path in a condition can be absent while the entity shows one."""
        return absences(self.gaps, self.path(path)) if self.ways is None else self.ways


class Values(Immutable):
    """Converts values that conditions search or compare with.

    Attributes:
        resolver: words the refusal of a value.
        convert: the stored form of a value.
        normalise: changes a value as the model does; None: it does not.
        nests: a value can have parts, which must not be too deep.
    """

    resolver: Resolver
    convert: Callable[[Any], Value]
    normalise: Callable[[Any], Any] | None
    nests: bool

    def stored(self, path: Path, value: Any) -> Value:
        """The stored form of a value, as the model would hold it. Raises BadValue for one that does not fit."""
        return self.converted(path, value)

    def converted(self, path: Path, value: Any) -> Value:
        """As `stored`; checks the type alone."""
        if self.normalise is None and not self.nests:
            try:
                return self.convert(value)
            except Unfit:
                pass  # `Resolver.convert` words it
        stored = self.resolver.convert(path, self.convert, value)
        if self.normalise is not None:
            with suppress(BadValue):  # a validator may make a value of another type
                return self.resolver.convert(path, self.convert, self.normalise(value))
        return stored


class Comparables(Values):
    """Converts values to compare with; every field can be compared with None.

    Attributes:
        members: the type that says which values the field can have; None: it can have all.
        ordered: the values must have an order.
    """

    members: EnumType | LiteralType | None
    ordered: bool

    def stored(self, path: Path, value: Any) -> Value:
        if self.ordered and isinstance(value, time) and value.utcoffset() is not None:
            why = f"{value} has an offset, so that it has no order as text: compare with naive times"
            raise self.resolver.fault(path, why)
        stored = None if value is None else self.converted(path, value)
        if self.ordered and type(stored) not in _ORDERED:
            why = f"{show(value)} has no order: compare with a number, a timestamp, text or bytes"
            raise self.resolver.fault(path, why)
        if self.members is not None and value is not None and not self.members.allows(stored):
            why = f"{show(value)} is not one of its values: {', '.join(map(repr, self.members.values))}"
            raise self.resolver.fault(path, why)
        return stored


class Side(Abstract):
    """One operand of the conditions of a shape."""

    @abstractmethod
    def lower(self, operand: Any, subject: Path) -> Operand:
        """The operand over stored names and values; ``subject`` is the path of what a value is compared with."""


class FixedSide(Side):
    """A field or the size of one, at a path without keys and positions."""

    operand: Operand

    def lower(self, operand: Any, subject: Path) -> Operand:
        return self.operand


class FieldSide(Side):
    """A field at a path with keys or positions."""

    field: FieldOf

    def lower(self, operand: Any, subject: Path) -> Operand:
        return self.field.path(operand)


class SizeSide(Side):
    """The size of such a field."""

    field: FieldOf

    def lower(self, operand: Any, subject: Path) -> Operand:
        return Size(self.field.path(operand.path))


class ValueSide(Side):
    """A value."""

    values: Values

    def lower(self, operand: Any, subject: Path) -> Operand:
        return Const(self.values.stored(subject, operand.value))


class Lowers(Protocol[T_co]):
    """What lowers the conditions of one shape."""

    def lower(self, condition: Any, /) -> T_co:
        """The lowered condition."""
        ...


class Term(Abstract):
    """Lowers the conditions of one shape."""

    @abstractmethod
    def lower(self, condition: Any) -> Condition:
        """The condition over stored names and values.

        Raises:
            BadValue: a value is not of the type of what it is compared with, or a key in a path is refused.
        """


class When(NamedTuple):
    """The condition of a write, lowered for an item that may be absent.

    Attributes:
        condition: the condition.
        needs_item: it does not hold for an absent item.
    """

    condition: Condition
    needs_item: bool


class WhenTerm(Immutable):
    """Lowers the conditions of one shape for items that may be absent: such an item has no fields, so no defaults.

    Attributes:
        term: lowers them for stored items.
        lower_stored: lowers them for the stored attributes, without defaults.
        result: their result for an absent item; None: it depends on their values.
        alike: their lowered forms have this result too.
    """

    term: Term
    lower_stored: Callable[[Condition], Condition]
    result: bool | None
    alike: bool

    def lower(self, condition: Condition) -> When:
        """The condition over stored names and values; raises as that of `Term`."""
        lowered, result = self.term.lower(condition), self.result
        if self.alike:
            return When(lowered, not result)
        if result is None:
            result = holds(self.lower_stored(condition), None)
        if holds(lowered, None) != result:
            lowered = Or((Missing(_TAG), lowered)) if result else And((Exists(_TAG), lowered))
        return When(lowered, not result)


class Constant(Term):
    """A condition that its shape decides, such as ``exists``."""

    lowered: Condition

    def lower(self, condition: Any) -> Condition:
        return self.lowered


class Combination(Term):
    """Several terms with ``&`` or ``|``."""

    kind: type[And] | type[Or]
    terms: tuple[Term, ...]

    def lower(self, condition: Any) -> Condition:
        parts = zip(self.terms, condition.conditions, strict=True)
        return self.kind(tuple([term.lower(part) for term, part in parts]))


class Negation(Term):
    """A term with ``~``."""

    term: Term

    def lower(self, condition: Any) -> Condition:
        return Not(self.term.lower(condition.condition))


class Existence(Term):
    """``exists(field)`` or ``missing(field)``."""

    kind: type[Exists] | type[Missing]
    field: FieldOf

    def lower(self, condition: Any) -> Condition:
        return self.kind(self.field.path(condition.path))


class NoneTest(Term):
    """``field == None`` or ``field != None``; ``of`` reads the path of the field from a condition."""

    op: Literal["=", "<>"]
    field: FieldOf
    of: Callable[[Any], Path]

    def lower(self, condition: Any) -> Condition:
        path = self.of(condition)
        equal = equals_none(self.field.path(path), self.field.absences(path))
        return equal if self.op == "=" else Not(equal)


def equals_none(path: Path, ways: Sequence[Absence]) -> Condition:
    """The entity shows None. It may be stored as absence; but an absent field shows a default that is not None."""
    is_null: Condition = Compare("=", path, Const(None))
    others = [way for way in ways if way.value is not None and way.value is not NOTHING]
    if any(way.missing == Missing(path) for way in others):
        return is_null
    either_way = Or((is_null, Missing(path)))
    return And((*(way.there for way in others), either_way)) if others else either_way


class EmptySetTest(Term):
    """``field == set()`` or ``field != set()``: an empty set is stored as absence."""

    op: Literal["=", "<>"]
    field: FieldOf
    of: Callable[[Any], Path]

    def lower(self, condition: Any) -> Condition:
        path = self.field.path(self.of(condition))
        return Missing(path) if self.op == "=" else Exists(path)


class Judgement(Term):
    """A test that judges what the entity shows where attributes are absent.

    Attributes:
        fields: the field of each path in a condition, in their order.
        ways: how their values can be absent; None: that is not the same for all conditions.
        subject: reads the path of what its values are compared with from a condition.
    """

    fields: tuple[FieldOf, ...]
    ways: tuple[Absence, ...] | None
    subject: Callable[[Any], Path]

    def judged(self, test: Test, condition: Condition) -> Condition:
        """The lowered test of a condition, which judges what the entity shows."""
        ways: Sequence[Absence] | None = self.ways
        if ways is None:
            each = dict(zip(paths(condition), self.fields, strict=True))
            ways = [absence for path, field in each.items() for absence in field.absences(path)]
        return as_shown(test, ways) if ways else test


class Comparison(Judgement):
    """``left op right``."""

    op: Any
    left: Side
    right: Side

    def lower(self, condition: Any) -> Condition:
        subject = self.subject(condition)
        left, right = self.left.lower(condition.left, subject), self.right.lower(condition.right, subject)
        return self.judged(Compare(self.op, left, right), condition)


class Range(Judgement):
    """``between(operand, low, high)``."""

    sides: tuple[Side, Side, Side]

    def lower(self, condition: Any) -> Condition:
        subject = self.subject(condition)
        operand, low, high = self.sides
        test = Between(
            operand.lower(condition.operand, subject),
            low.lower(condition.low, subject),
            high.lower(condition.high, subject),
        )
        return self.judged(test, condition)


class WholeComparison(Term):
    """``field == record`` or ``field != record``, part by part, as parts may be absent from a stored record.

    Attributes:
        of: reads the path of the field from a condition.
        value: reads the record.
        more: stored records may have members of other programs.
    """

    op: Literal["=", "<>"]
    field: FieldOf
    values: Values
    of: Callable[[Any], Path]
    value: Callable[[Any], Any]
    more: bool

    def lower(self, condition: Any) -> Condition:
        path = self.of(condition)
        value = self.values.stored(path, self.value(condition))
        test = same(self.field.path(path), self.field.place.type, value, more=self.more)
        for way in self.field.absences(path):
            if way.value is not NOTHING and equal(way.value, value):
                test = either(test, way.missing)
        return test if self.op == "=" else Not(test)


class Choice(Judgement):
    """``is_in(operand, choices)``.

    Attributes:
        side: the operand.
        values: converts the choices.
        field: the field that the operand is; None: it is a size.
        kinds: of what kinds the choices are.
    """

    side: Side
    values: Values
    field: FieldOf | None
    kinds: frozenset[ChoiceKind]

    def lower(self, condition: Any) -> Condition:
        subject = self.subject(condition)
        operand, given = self.side.lower(condition.operand, subject), condition.choices
        parts: list[Condition] = []
        if self.field is not None and "empty set" in self.kinds:
            given = [choice for choice in given if kind_of_choice(choice) != "empty set"]
        choices = tuple([Const(self.values.stored(subject, choice.value)) for choice in given])
        if self.field is not None and "none" in self.kinds:
            none = equals_none(self.field.path(subject), self.field.absences(subject))
            parts.extend([none.conditions[1] if isinstance(none, Or) else none] * (not isinstance(none, Compare)))
        if self.field is not None and "empty set" in self.kinds:
            parts.append(Missing(self.field.path(subject)))
        if choices:
            test = self.judged(IsIn(operand, choices), condition)
            if not parts and not isinstance(test, Or):
                return test
            parts.extend(test.conditions if isinstance(test, Or) else (test,))
        parts = [part for at, part in enumerate(parts) if part not in parts[:at]]  # values may have no hash
        return parts[0] if len(parts) == 1 else Or(tuple(parts))


class EachChoice(Term):
    """``is_in(field, choices)`` of records, each compared for itself.

    Attributes:
        equalities: the term of ``field == choice``, by the kind of the choice.
    """

    equalities: Mapping[ChoiceKind, Term]

    def lower(self, condition: Any) -> Condition:
        each = [
            self.equalities[kind_of_choice(choice)].lower(Compare("=", condition.operand, choice))
            for choice in condition.choices
        ]
        return Or(tuple(each)) if len(each) > 1 else each[0]


class Start(Judgement):
    """``starts_with(field, prefix)``.

    Attributes:
        text: the type of prefixes.
        normalise: changes a text as the model does; None: it does not.
    """

    resolver: Resolver
    text: StoredType
    normalise: Callable[[str], Any] | None

    def lower(self, condition: Any) -> Condition:
        path, value = condition.path, condition.prefix.value
        prefix = self.resolver.convert(path, self.text.dump, value)
        if self.normalise is not None and isinstance(prefix, str):
            prefix = self.normalise(prefix)
        if not isinstance(prefix, str | bytes):
            raise self.resolver.fault(path, f"{show(value)} is not a prefix: give str or bytes")
        return self.judged(StartsWith(self.fields[0].path(path), Const(prefix)), condition)


class Containment(Judgement):
    """``contains(field, value)``.

    Attributes:
        element: the type of what the field holds.
        values: converts what to search for.
        shortened: the stored form of a value may lack parts that are their field's default.
    """

    element: StoredType
    values: Values
    shortened: bool

    def lower(self, condition: Any) -> Condition:
        value = self.values.stored(condition.path, condition.value.value)
        path = self.fields[0].path(condition.path)
        test = self.judged(Contains(path, Const(value)), condition)
        for form in forms(self.element, value)[1:] if self.shortened else ():
            test = either(test, Contains(path, Const(form)))
        return test
