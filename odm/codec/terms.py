"""Conditions compiled by their shape: what the paths, operators and types of a condition decide is decided once.

The shape of a condition is the condition without its values. A `Term` is made for each shape of an entity's conditions,
and lowers every condition of the shape: it converts the values, and puts them into the form that was chosen for the
place. `odm.codec.conditions` lowers a condition that no term serves, and words every refusal: a term that cannot
convert a value hands the condition over.
"""

from abc import ABC, abstractmethod
from collections.abc import Callable
from contextlib import suppress
from datetime import time
from decimal import Decimal
from operator import attrgetter
from types import NoneType
from typing import Any, Final, TypeAlias, assert_never, cast

from odm.codec.absence import Absence, Test, as_shown, either
from odm.codec.choices import EnumType, LiteralType
from odm.codec.conditions import lower_condition, normaliser
from odm.codec.faults import NOTHING, Unfit
from odm.codec.moments import DateTimeType, DateType, DurationType
from odm.codec.paths import Resolver
from odm.codec.scalars import BoolType, BytesType, NumberType, StrType, TextType
from odm.codec.stored import StoredType
from odm.codec.stored_forms import FormType, JsonTextType
from odm.codec.stored_moments import EpochType, FormatType, IsoType
from odm.codec.unions import bare, text_of
from odm.errors import BadValue
from odm.expressions.evaluate import compares, has_prefix
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
    Or,
    Path,
    StartsWith,
    Value,
)
from odm.immutable import frozen

Shape: TypeAlias = Any
"""A condition without its values: hashable, and equal for all conditions that one `Term` lowers."""

_SCALARS: Final = (
    BoolType,
    BytesType,
    DateTimeType,
    DateType,
    DurationType,
    EnumType,
    EpochType,
    FormType,
    FormatType,
    IsoType,
    LiteralType,
    NumberType,
    StrType,
    TextType,
)
_ORDERED: Final = frozenset({str, int, Decimal, bytes})
_LOOSE: Final = frozenset({set, frozenset, list, tuple, dict, time})
"""The types of values for which the value decides the form: an empty set, an offset, what a container has."""


def shape_of(condition: Condition) -> Shape:
    """The shape of a condition: operators, fields and the types of values."""
    node = cast("AnyCondition", condition)
    match node:  # by class alone, and not by pattern: it runs for each condition of each call
        case Compare():
            left, right = node.left, node.right
            if type(left) is Path and type(right) is Const:
                path, value, mirrored = left, right.value, False
            elif type(left) is Const and type(right) is Path:
                path, value, mirrored = right, left.value, True
            else:
                return Compare
            if len(path.segments) > 1 or type(value) in _LOOSE:
                return Compare
            return (Compare, node.op, path.root, path.owner, type(value), mirrored)
        case And() | Or():
            return (type(node), *[shape_of(part) for part in node.conditions])
        case Not():
            return (Not, shape_of(node.condition))
        case Exists() | Missing():
            path = node.path
            return type(node) if len(path.segments) > 1 else (type(node), path.root, path.owner)
        case StartsWith():
            path = node.path
            return (
                StartsWith if len(path.segments) > 1 else (StartsWith, path.root, path.owner, type(node.prefix.value))
            )
        case Between(Path((str(name),), owner), Const(low), Const(high)):
            types = type(low), type(high)
            return (Between, name, owner, *types) if _LOOSE.isdisjoint(types) else Between
        case IsIn(Path((str(name),), owner), choices):
            several = {type(choice.value) for choice in choices}
            plain = len(several) == 1 and _LOOSE.isdisjoint(several) and NoneType not in several
            return (IsIn, name, owner, *several) if plain else IsIn
        case Between() | IsIn() | Contains():
            return type(node)
        case _:
            assert_never(node)


class Term(ABC):
    """Lowers the conditions of one shape."""

    __slots__ = ()

    @abstractmethod
    def lower(self, condition: Any) -> Condition:
        """The condition over stored names and values.

        Raises:
            BadValue: as `odm.codec.conditions.lower_condition`.
        """


@frozen
class _Interpreted(Term):
    """Lowers each condition by itself: its value, or a longer path, decides the form."""

    resolver: Resolver

    def lower(self, condition: Any) -> Condition:
        return lower_condition(self.resolver, condition)


@frozen
class _Constant(Term):
    """A test without a value, such as ``exists``."""

    lowered: Condition

    def lower(self, condition: Any) -> Condition:
        return self.lowered


@frozen
class _Combination(Term):
    """Several terms with ``&`` or ``|``."""

    kind: type[And] | type[Or]
    terms: tuple[Term, ...]

    def lower(self, condition: Any) -> Condition:
        parts = zip(self.terms, condition.conditions, strict=True)
        return self.kind(tuple([term.lower(part) for term, part in parts]))


@frozen
class _Negation(Term):
    """A term with ``~``."""

    term: Term

    def lower(self, condition: Any) -> Condition:
        return Not(self.term.lower(condition.condition))


@frozen
class _Place:
    """A field that is not a container, in a test with values.

    Attributes:
        resolver: lowers what no term does.
        of: the field, by its name.
        path: by stored names.
        convert: the stored form of a value.
        normalise: changes a value as the model does; None: it does not.
        allows: whether the field can have a stored value; None: every one.
        ordered: the values must have an order.
        absence: how the field can be absent while the entity shows a value; None: it cannot.
        computes: what the entity then shows is computed for each condition, by a default factory.
    """

    resolver: Resolver
    of: Path
    path: Path
    convert: Callable[[Any], Value]
    normalise: Callable[[Any], Any] | None
    allows: Callable[[Value], bool] | None
    ordered: bool
    absence: Absence | None
    computes: bool

    def stored(self, value: Any) -> Value:
        """The stored form of a value to compare with; `NOTHING` for one that is refused."""
        try:
            stored = self.convert(value)
            if self.normalise is not None:
                with suppress(Unfit):  # a validator may make a value of another type
                    stored = self.convert(self.normalise(value))
        except (Unfit, RecursionError):
            return NOTHING
        if (self.allows is not None and not self.allows(stored)) or (self.ordered and type(stored) not in _ORDERED):
            return NOTHING
        return stored

    @property
    def default(self) -> Value:
        """The stored form of what the entity shows where the field is absent; `NOTHING` if it shows nothing."""
        return NOTHING if self.absence is None else self.absence.value

    def judged(self, test: Test, by_default: bool) -> Condition:
        """The test, which judges what the entity shows where the field is absent; by the default it has this result."""
        if self.computes:
            return as_shown(test, self.resolver.absences(self.of))
        if self.absence is None:
            return test
        if type(test) is Compare and test.op == "<>":  # which holds for what is absent
            return test if by_default else And((self.absence.there, test))
        return either(test, self.absence.missing) if by_default else test


@frozen
class _Comparison(Term):
    """``field op value``."""

    place: _Place
    op: Any
    value: Callable[[Any], Any]
    mirrored: bool

    def lower(self, condition: Any) -> Condition:
        place = self.place
        stored = place.stored(self.value(condition))
        if stored is NOTHING:
            return lower_condition(place.resolver, condition)
        const = Const(stored)
        test = Compare(self.op, const, place.path) if self.mirrored else Compare(self.op, place.path, const)
        default = place.default
        if default is None or default is NOTHING:
            return place.judged(test, self.op == "<>")
        sides = (stored, default) if self.mirrored else (default, stored)
        return place.judged(test, compares(self.op, *sides))


@frozen
class _Range(Term):
    """``between(field, low, high)``."""

    place: _Place

    def lower(self, condition: Any) -> Condition:
        place = self.place
        low, high = place.stored(condition.low.value), place.stored(condition.high.value)
        if low is NOTHING or high is NOTHING:
            return lower_condition(place.resolver, condition)
        default = place.default
        inside = default is not NOTHING and compares("<=", low, default) and compares("<=", default, high)
        return place.judged(Between(place.path, Const(low), Const(high)), inside)


@frozen
class _Choice(Term):
    """``is_in(field, choices)``."""

    place: _Place

    def lower(self, condition: Any) -> Condition:
        place = self.place
        choices = [place.stored(choice.value) for choice in condition.choices]
        if any(choice is NOTHING for choice in choices):
            return lower_condition(place.resolver, condition)
        default = place.default
        among = default is not NOTHING and any(compares("=", default, choice) for choice in choices)
        return place.judged(IsIn(place.path, tuple([Const(choice) for choice in choices])), among)


@frozen
class _Start(Term):
    """``starts_with(field, prefix)``; ``normalise`` changes a text as the model does."""

    place: _Place
    text: StoredType
    normalise: Callable[[str], Any] | None

    def lower(self, condition: Any) -> Condition:
        place = self.place
        try:
            prefix = self.text.dump(condition.prefix.value)
        except (Unfit, RecursionError):
            return lower_condition(place.resolver, condition)
        if type(prefix) is str and self.normalise is not None:
            prefix = self.normalise(prefix)
        if type(prefix) is not str and type(prefix) is not bytes:
            return lower_condition(place.resolver, condition)
        default = place.default
        begins = default is not NOTHING and has_prefix(default, prefix)
        return place.judged(StartsWith(place.path, Const(prefix)), begins)


def compile_term(resolver: Resolver, condition: Any) -> Term:
    """The term of a condition's shape. It is compared with `lower_condition` for this condition."""
    if isinstance(condition, And | Or):
        return _Combination(type(condition), tuple(compile_term(resolver, part) for part in condition.conditions))
    if isinstance(condition, Not):
        return _Negation(compile_term(resolver, condition.condition))
    interpreted = _Interpreted(resolver)
    if not isinstance(shape_of(condition), tuple):
        return interpreted
    try:
        lowered = lower_condition(resolver, condition)
        term = _scalar_term(resolver, condition, lowered)
    except BadValue:  # refused: the call that asks for it raises the error
        return interpreted
    return term if term is not None and term.lower(condition) == lowered else interpreted


def _scalar_term(resolver: Resolver, condition: Any, lowered: Condition) -> Term | None:
    mirrored = False
    match condition:
        case Exists() | Missing() | Compare(_, _, Const(None)) | Compare(_, Const(None), _):
            return _Constant(lowered)
        case Compare(_, Path() as path, _) | Between(Path() as path) | IsIn(Path() as path) | StartsWith(path):
            pass
        case Compare(_, _, Path() as path):
            mirrored = True
        case _:
            return None
    place, ways = resolver.resolve(path), resolver.absences(path)
    type_ = bare(place.type)
    if not isinstance(type_, _SCALARS) or isinstance(type_, JsonTextType) or len(ways) > 1:
        return None
    computes = resolver.record.fields[path.root].factory is not None
    equality = isinstance(condition, IsIn) or (isinstance(condition, Compare) and condition.op in ("=", "<>"))
    place_of_test = _Place(
        resolver,
        path,
        place.path,
        place.type.loose,
        normaliser(place.rules, condition),
        type_.allows if equality and isinstance(type_, EnumType | LiteralType) else None,
        not equality,
        ways[0] if ways and not computes else None,
        computes,
    )
    match condition:
        case Compare(op):
            return _Comparison(place_of_test, op, attrgetter("left.value" if mirrored else "right.value"), mirrored)
        case Between():
            return _Range(place_of_test)
        case IsIn():
            return _Choice(place_of_test)
    text = text_of(place.type)
    start = place.rules.normalise_start if place.rules.normalises else None
    return None if text is None else _Start(place_of_test, text, start)
