"""Compiles conditions: makes the `Term` of a shape, and decides all that its fields, operators and types decide.

A value is checked for its type, and normalised as the model does: a text that the model lower-cases is compared in
lower case. It is never refused for a limit: ``Order.level < 1000`` is valid even if no level can be 1000. What a shape
alone makes invalid is refused here; what a value does, by the term.
"""

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final, assert_never, cast

from odm.codec.absence import absences, gaps, grows, of_absent_item
from odm.codec.blobs import BlobType
from odm.codec.choices import EnumType, LiteralType
from odm.codec.compressed import holds_compressed, parts_of
from odm.codec.containers import DictType, FixedTupleType, SetType
from odm.codec.paths import Resolver
from odm.codec.places import PlaceRules
from odm.codec.plain import AnyType
from odm.codec.records import RecordType
from odm.codec.scalars import INT
from odm.codec.stored import BINARY, LIST, MAP, ORDERED, SET, TEXT, StoredType
from odm.codec.terms import (
    Choice,
    ChoiceKind,
    Combination,
    Comparables,
    Comparison,
    Constant,
    Containment,
    EachChoice,
    EmptySetTest,
    Existence,
    FieldOf,
    FieldSide,
    FixedSide,
    Negation,
    NoneTest,
    Range,
    Side,
    SizeSide,
    Start,
    Term,
    Values,
    ValueSide,
    WhenTerm,
    WholeComparison,
    kind_of_choice,
)
from odm.codec.unions import UnionType, bare, text_of
from odm.expressions.evaluate import holds
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
    paths,
)
from odm.immutable import Immutable

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
