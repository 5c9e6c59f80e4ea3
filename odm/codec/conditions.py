"""Conditions without their values: `shape_of`, and a `Term` for each shape.

The shape of a condition is its operators, its fields and the types of its values. A term lowers every condition of its
shape: from fields and Python values to stored names and stored values. What the shape decides is decided when the term
is made; the term converts the values, and puts them into the form that was chosen for their place.

A value is checked for its type, and normalised as the model does: a text that the model lower-cases is compared in
lower case. It is never refused for a limit: ``Order.level < 1000`` is valid even if no level can be 1000. What a shape
alone makes invalid is refused when the term is made; what a value does, by the term.

An absent attribute counts as what the entity shows, see `odm.codec.absence`; ``exists`` and ``missing`` ask about the
attribute itself.
"""

from abc import abstractmethod
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextlib import suppress
from datetime import time
from decimal import Decimal
from operator import attrgetter
from typing import Any, Final, Literal, NamedTuple, Protocol, TypeAlias, TypeVar, assert_never, cast

from odm.codec.absence import Absence, Gap, Test, absences, as_shown, either, forms, gaps, grows, of_absent_item, same
from odm.codec.attributes import TAG
from odm.codec.paths import Place, Resolver
from odm.codec.places import PlaceRules
from odm.codec.types.blobs import BlobType
from odm.codec.types.compressed import holds_compressed, parts_of
from odm.codec.types.containers import AnyType, DictType, FixedTupleType, SetType
from odm.codec.types.records import RecordType
from odm.codec.types.scalars import INT, EnumType, LiteralType
from odm.codec.types.stored import BINARY, LIST, MAP, NOTHING, ORDERED, SET, TEXT, StoredType, Unfit, show
from odm.codec.types.unions import UnionType, bare, text_of
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
        operand, candidates = self.side.lower(condition.operand, subject), condition.choices
        parts: list[Condition] = []
        if self.field is not None and "empty set" in self.kinds:
            candidates = [choice for choice in candidates if kind_of_choice(choice) != "empty set"]
        choices = tuple([Const(self.values.stored(subject, choice.value)) for choice in candidates])
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


_SIZED: Final = TEXT | BINARY | LIST | MAP | SET


def compile_term(resolver: Resolver, condition: Condition) -> Term:
    """What lowers all conditions of the shape of this one.

    Raises:
        BadValue: no condition of the shape is valid, such as one whose path leads nowhere, or a key in a path is not.
    """
    node = cast("AnyCondition", condition)
    if not isinstance(node, And | Or | Not | Exists | Missing):
        _check_comparable(resolver, node)
    match node:
        case And() | Or():
            return Combination(type(node), tuple([compile_term(resolver, part) for part in node.conditions]))
        case Not():
            return Negation(compile_term(resolver, node.condition))
        case Compare():
            return _comparison(resolver, node)
        case Between():
            return _range(resolver, node)
        case IsIn():
            return _choice(resolver, node)
        case StartsWith():
            return _start(resolver, node)
        case Contains():
            return _containment(resolver, node)
        case Exists() | Missing():
            field = _field(resolver, node.path)
            return _folded(Existence(type(node), field), node, fixed=not field.place.slots)
        case _:
            assert_never(node)


def compile_when(
    resolver: Resolver, term: Term, lower_stored: Callable[[Condition], Condition], condition: Condition
) -> WhenTerm:
    """What lowers all conditions of the shape of this one for items that may be absent.

    Args:
        resolver: resolves the paths.
        term: what lowers them for stored items.
        lower_stored: lowers them for the stored attributes, without defaults.
        condition: one of them.

    Raises:
        BadValue: the condition is not valid.
    """
    if any(_field(resolver, path).gaps for path in paths(condition)):
        return WhenTerm(term, lower_stored, of_absent_item(condition), alike=False)
    # Where no attribute has a default, every test but <>, missing() and those with None fails, whatever its value.
    return WhenTerm(term, lower_stored, holds(term.lower(condition), None), alike=True)


def refuse(resolver: Resolver, condition: Condition) -> None:
    """Raise the error of the first part that is refused of a condition that cannot be lowered.

    Raises:
        BadValue: always: each part is compiled for itself, so that what was compiled before does not choose the error.
    """
    if isinstance(condition, And | Or):
        for part in condition.conditions:
            refuse(resolver, part)
    elif isinstance(condition, Not):
        refuse(resolver, condition.condition)
    else:
        compile_term(resolver, condition).lower(condition)


def _folded(term: Term, condition: Condition, *, fixed: bool) -> Term:
    """The term; if all conditions of its shape are lowered alike, that lowered condition."""
    return Constant(term.lower(condition)) if fixed else term


class _Subject(Immutable):
    """The field that a comparison is about.

    Attributes:
        of: reads its path from a condition.
        path: in one condition.
        type: that its values must have.
        normalise: changes them as the model does; None: it does not.
    """

    of: Callable[[Any], Path]
    path: Path
    type: StoredType
    normalise: Callable[[Any], Any] | None = None


def _subject(resolver: Resolver, node: Compare | Between | IsIn, *sides: str) -> _Subject:
    """The first of the operands that is a field, or the size of one."""
    for side in sides:
        operand: Operand = getattr(node, side)
        match operand:
            case Path():
                place = resolver.resolve(operand)
                return _Subject(attrgetter(side), operand, place.type, _normaliser(place.rules, node))
            case Size():
                return _Subject(attrgetter(f"{side}.path"), operand.path, INT)
            case Const():
                continue
            case _:
                assert_never(operand)
    raise resolver.refusal(f"{node} compares no field: write a field on one side")


def _normaliser(rules: PlaceRules, node: Condition) -> Callable[[Any], Any] | None:
    """What changes the values of a comparison. Of a range only text: a rounded bound would be another range."""
    if not rules.normalises:
        return None
    equality = isinstance(node, IsIn) or (isinstance(node, Compare) and node.op in ("=", "<>"))
    return rules.normalise if equality else rules.normalise_bound


def _nests(type_: StoredType) -> bool:
    """Whether a stored value of the type can have parts."""
    return bool(type_.kinds & (LIST | MAP))


def _field(resolver: Resolver, path: Path) -> FieldOf:
    place = resolver.resolve(path)
    possible = gaps(resolver.record, path, place.type, defaults=resolver.defaults)
    varying = place.slots or any(gap.computed for gap in possible)
    return FieldOf(resolver, place, possible, None if varying else tuple(absences(possible, place.path)))


def _fields(resolver: Resolver, node: Condition) -> tuple[tuple[FieldOf, ...], Any]:
    """The field of each path, and how they can be absent, as in `Judgement`."""
    each = {path: _field(resolver, path) for path in paths(node)}
    ways = [field.ways for field in each.values()]
    known = None if None in ways else tuple([way for some in ways if some is not None for way in some])
    return tuple([each[path] for path in paths(node)]), known


def _sides(resolver: Resolver, subject: _Subject, node: Condition, *operands: Operand) -> list[Side]:
    equality = isinstance(node, IsIn) or (isinstance(node, Compare) and node.op in ("=", "<>"))
    inner = bare(subject.type)
    members = inner if equality and isinstance(inner, EnumType | LiteralType) else None
    sides: list[Side] = []
    for operand in operands:
        match operand:
            case Path():
                field = _field(resolver, operand)
                _check_inline(resolver, operand, field.place.type)
                sides.append(FieldSide(field) if field.place.slots else FixedSide(field.place.path))
            case Size():
                field = _field(resolver, operand.path)
                _check_inline(resolver, operand.path, field.place.type)
                if not field.place.type.kinds & _SIZED:
                    raise resolver.fault(operand.path, f"is of type {field.place.type.text}, which has no size")
                sides.append(SizeSide(field) if field.place.slots else FixedSide(Size(field.place.path)))
            case Const():
                values = Comparables(
                    resolver, subject.type.loose, subject.normalise, _nests(subject.type), members, not equality
                )
                sides.append(ValueSide(values))
            case _:
                assert_never(operand)
    return sides


def _comparison(resolver: Resolver, node: Compare) -> Term:
    subject = _subject(resolver, node, "left", "right")
    equality = node.op in ("=", "<>")
    op: Any = node.op
    is_size = isinstance(node.left, Size) or isinstance(node.right, Size)
    if equality and (_is_none(node.left) or _is_none(node.right)):
        if is_size:
            raise resolver.fault(subject.path, "a size is a number: compare it with one")
        field = _field(resolver, subject.path)
        return _folded(NoneTest(op, field, subject.of), node, fixed=field.ways is not None)
    if equality and not is_size and (_is_empty_set(node.left) or _is_empty_set(node.right)):
        field = _field(resolver, subject.path)
        _check_set(resolver, subject)
        return _folded(EmptySetTest(op, field, subject.of), node, fixed=not field.place.slots)
    if not equality:
        _check_ordered(resolver, subject)
    left, right = _sides(resolver, subject, node, node.left, node.right)
    (field, *_), ways = fields = _fields(resolver, node)
    values = next((side.values for side in (left, right) if isinstance(side, ValueSide)), None)
    if equality and not is_size and values is not None:
        _check_models(resolver, subject.path, subject.type)
        if resolver.defaults and grows(subject.type, more=resolver.more):
            value = attrgetter("left.value" if isinstance(left, ValueSide) else "right.value")
            return WholeComparison(op, field, values, subject.of, value, resolver.more)
    term = Comparison(*fields, subject.of, op, left, right)
    return _folded(term, node, fixed=ways is not None and values is None)


def _range(resolver: Resolver, node: Between) -> Term:
    subject = _subject(resolver, node, "operand", "low", "high")
    _check_ordered(resolver, subject)
    operand, low, high = _sides(resolver, subject, node, node.operand, node.low, node.high)
    return Range(*_fields(resolver, node), subject.of, (operand, low, high))


def _choice(resolver: Resolver, node: IsIn) -> Term:
    subject = _subject(resolver, node, "operand")
    each: dict[ChoiceKind, Compare] = {
        kind_of_choice(choice): Compare("=", node.operand, choice) for choice in node.choices
    }
    of_path = isinstance(node.operand, Path)
    if of_path and resolver.more and grows(subject.type, more=True):
        return EachChoice({kind: _comparison(resolver, equality) for kind, equality in each.items()})
    (side, value_side) = _sides(resolver, subject, node, node.operand, Const(None))
    assert isinstance(value_side, ValueSide)
    if of_path and "empty set" in each:
        _check_set(resolver, subject)
    (of, *_), ways = _fields(resolver, node)
    return Choice((of,), ways, subject.of, side, value_side.values, of if of_path else None, frozenset(each))


def _start(resolver: Resolver, node: StartsWith) -> Term:
    place = resolver.resolve(node.path)
    text = text_of(place.type)
    if text is None:
        why = f"is of type {place.type.text}, and only str and bytes have a prefix: compare with >= and < instead"
        raise resolver.fault(node.path, why)
    normalise = place.rules.normalise_start if place.rules.normalises else None
    return Start(*_fields(resolver, node), attrgetter("path"), resolver, text, normalise)


def _containment(resolver: Resolver, node: Contains) -> Term:
    place = resolver.resolve(node.path)
    element = place.type.element or text_of(place.type)
    if element is None:
        why = f"is of type {place.type.text}, and only str, bytes, lists and sets contain something"
        raise resolver.fault(node.path, why)
    if resolver.more and grows(element, more=True):
        why = "holds models, which may have members of other programs, so no stored form is known to look for"
        raise resolver.fault(node.path, f"{why}: compare in your program, or declare the elements as dict[str, Any]")
    normalise = None
    if place.rules.normalises:
        normalise = place.rules.normalise_part if place.type.element is None else place.rules.elements.normalise
    values = Values(resolver, element.loose, normalise, _nests(element))
    return Containment(*_fields(resolver, node), attrgetter("path"), element, values, resolver.defaults)


def _check_comparable(resolver: Resolver, node: Condition) -> None:
    """Refuse a comparison with what is stored compressed; only whether it is None can be asked."""
    none = isinstance(node, Compare) and node.op in {"=", "<>"} and (_is_none(node.left) or _is_none(node.right))
    for path in () if none else paths(node):
        if holds_compressed(resolver.resolve(path).type):
            why = "is stored compressed or has a part that is, and compressed bytes are not comparable: ask whether it"
            raise resolver.fault(path, f"{why} exists, or compare it in your program, or keep a field to compare with")


def _check_models(resolver: Resolver, path: Path, type_: StoredType) -> None:
    """Refuse models in a dict, tuple or union, where no path leads to each, if they may have more members."""
    around = (part for part in parts_of(type_) if isinstance(part, DictType | FixedTupleType | UnionType))
    if resolver.more and any(isinstance(inner, RecordType) for part in around for inner in parts_of(part)):
        why = "holds models, which may have members of other programs, so no stored form is known to look for"
        raise resolver.fault(path, f"{why}: compare in your program, or compare parts of it")


def _check_set(resolver: Resolver, subject: _Subject) -> None:
    """Refuse fields that no set equals."""
    if not isinstance(subject.type, SetType | AnyType):
        raise resolver.fault(subject.path, f"is of type {subject.type.text}, so it never equals a set")


def _check_inline(resolver: Resolver, path: Path, type_: StoredType) -> None:
    """Refuse a field with Blob, of which the backend may only see a pointer."""
    if isinstance(bare(type_), BlobType):
        why = "may be kept in a blob, outside the table: a condition can only compare it with None, or use exists(...)"
        raise resolver.fault(path, why)


def _check_ordered(resolver: Resolver, subject: _Subject) -> None:
    """Refuse fields without an order: only text, numbers and bytes have one."""
    if not subject.type.kinds & ORDERED:
        why = f"is of type {subject.type.text}, which has no order: compare it with == or !="
        raise resolver.fault(subject.path, why)
    if not subject.type.ordered:
        why = f"is of type {subject.type.text}, stored as text that sorts differently: compare it with == or !="
        raise resolver.fault(subject.path, why)


def _is_empty_set(operand: Operand) -> bool:
    return isinstance(operand, Const) and kind_of_choice(operand) == "empty set"


def _is_none(operand: Operand) -> bool:
    return isinstance(operand, Const) and operand.value is None
