"""Lowers conditions: from fields and Python values to stored names and stored values.

A value is checked for its type, and normalised as the model does: a text that the model lower-cases is compared in
lower case. It is never refused for a limit: ``Order.level < 1000`` is valid even if no level can be 1000. An absent
attribute counts as what the entity shows, see `odm.codec.absence`; ``exists`` and ``missing`` ask about the attribute
itself.
"""

from collections.abc import Callable
from datetime import time
from typing import Any, Final, assert_never, cast
from uuid import UUID

from odm.codec.absence import Absence, Test, as_shown, either, forms, grows, same
from odm.codec.blobs import BlobType
from odm.codec.choices import EnumType, LiteralType
from odm.codec.compressed import holds_compressed, parts_of
from odm.codec.containers import DictType, FixedTupleType, SetType
from odm.codec.faults import NOTHING, show
from odm.codec.paths import Resolver
from odm.codec.places import PlaceRules
from odm.codec.plain import AnyType
from odm.codec.records import RecordType
from odm.codec.scalars import INT, TextType
from odm.codec.stored import BINARY, LIST, MAP, ORDERED, SET, TEXT, StoredType, kind_of
from odm.codec.stored_forms import FormType
from odm.codec.stored_moments import FormatType, IsoType
from odm.codec.unions import UnionType, bare, text_of
from odm.errors import BadValue
from odm.expressions.evaluate import equal
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
from odm.immutable import immutable

_SIZED: Final = TEXT | BINARY | LIST | MAP | SET


@immutable
class _Subject:
    """The field that a comparison is about, the type that its constants must have, and how they are normalised."""

    path: Path
    type: StoredType
    normalise: Callable[[Any], Any] | None = None


def lower_condition(resolver: Resolver, condition: Condition) -> Condition:
    """The condition over stored names and values.

    Raises:
        BadValue: a path leads nowhere, or a value is not of the type of what it is compared with.
    """
    node = cast("AnyCondition", condition)
    if not isinstance(node, And | Or | Not | Exists | Missing):
        _check_comparable(resolver, node)
    match node:
        case And():
            return And(tuple(lower_condition(resolver, part) for part in node.conditions))
        case Or():
            return Or(tuple(lower_condition(resolver, part) for part in node.conditions))
        case Not():
            return Not(lower_condition(resolver, node.condition))
        case Compare():
            return _compare(resolver, node)
        case Between():
            return _between(resolver, node)
        case IsIn():
            return _is_in(resolver, node)
        case StartsWith():
            return _starts_with(resolver, node)
        case Contains():
            return _contains(resolver, node)
        case Exists():
            return Exists(resolver.resolve(node.path).path)
        case Missing():
            return Missing(resolver.resolve(node.path).path)
        case _:
            assert_never(node)


def _check_comparable(resolver: Resolver, node: Condition) -> None:
    """Refuse a comparison with what is stored compressed; only whether it is None can be asked."""
    none = isinstance(node, Compare) and node.op in {"=", "<>"} and (_is_none(node.left) or _is_none(node.right))
    for path in () if none else paths(node):
        if holds_compressed(resolver.resolve(path).type):
            why = "is stored compressed or has a part that is, and compressed bytes are not comparable: ask whether it"
            raise resolver.fault(path, f"{why} exists, or compare it in your program, or keep a field to compare with")


def _compare(resolver: Resolver, node: Compare) -> Condition:
    subject = _subject(resolver, node, node.left, node.right)
    if node.op in {"=", "<>"}:
        if _is_none(node.left) or _is_none(node.right):
            equal = _equals_none(resolver, subject.path, _is_size(node.left) or _is_size(node.right))
            return equal if node.op == "=" else Not(equal)
        if _is_empty_set(node.left) or _is_empty_set(node.right):
            return _compare_with_empty_set(resolver, node, subject)
        _check_members(resolver, subject, node.left, node.right)
    else:
        _check_ordered(resolver, subject, node.left, node.right)
    left, right = _operand(resolver, subject, node.left), _operand(resolver, subject, node.right)
    by_parts = _by_parts(resolver, node, left, right)
    return _as_shown(resolver, node, Compare(node.op, left, right)) if by_parts is None else by_parts


def _equals_none(resolver: Resolver, path: Path, size: bool) -> Condition:
    """None may be stored as absence; but an absent field whose default is not None does not show None."""
    place = resolver.resolve(path)
    if size:
        raise resolver.fault(path, "a size is a number: compare it with one")
    found: Condition = Compare("=", place.path, Const(None))
    others = [way for way in resolver.absences(path) if way.value is not None and way.value is not NOTHING]
    if any(way.missing == Missing(place.path) for way in others):
        return found
    found = Or((found, Missing(place.path)))
    return And((*(way.there for way in others), found)) if others else found


def _by_parts(resolver: Resolver, node: Compare, left: Operand, right: Operand) -> Condition | None:
    """A comparison with a whole record, part by part, if its parts may be absent from a stored record."""
    path, value = (left, right) if isinstance(left, Path) else (right, left)
    if node.op not in {"=", "<>"} or not isinstance(path, Path) or not isinstance(value, Const):
        return None
    written = node.left if isinstance(node.left, Path) else node.right
    assert isinstance(written, Path)
    type_ = resolver.resolve(written).type
    if resolver.more and _hides_models(type_):
        why = "holds models, which may have members of other programs, so no stored form is known to look for"
        raise resolver.fault(written, f"{why}: compare in your program, or compare parts of it")
    if not resolver.defaults or not grows(type_, more=resolver.more):
        return None
    found = same(path, type_, value.value, more=resolver.more)
    for way in resolver.absences(written):
        if way.value is not NOTHING and equal(way.value, value.value):
            found = either(found, way.missing)
    return found if node.op == "=" else Not(found)


def _hides_models(type_: StoredType) -> bool:
    """Whether there are models in a dict, tuple or union inside the type, where no path leads to each."""
    around = (part for part in parts_of(type_) if isinstance(part, DictType | FixedTupleType | UnionType))
    return any(isinstance(inner, RecordType) for part in around for inner in parts_of(part))


def _compare_with_empty_set(resolver: Resolver, node: Compare, subject: _Subject) -> Condition:
    """An empty set is stored as absence."""
    place = resolver.resolve(subject.path)
    if not isinstance(place.type, SetType | AnyType):
        raise resolver.fault(subject.path, f"is of type {place.type.text}, so it never equals a set")
    return Missing(place.path) if node.op == "=" else Exists(place.path)


def _between(resolver: Resolver, node: Between) -> Condition:
    operands = node.operand, node.low, node.high
    subject = _subject(resolver, node, *operands)
    _check_ordered(resolver, subject, *operands)
    return _as_shown(resolver, node, Between(*(_operand(resolver, subject, operand) for operand in operands)))


def _is_in(resolver: Resolver, node: IsIn) -> Condition:
    subject = _subject(resolver, node, node.operand)
    if resolver.more and isinstance(node.operand, Path) and grows(subject.type, more=True):
        each = [_compare(resolver, Compare("=", node.operand, choice)) for choice in node.choices]
        return Or(tuple(each)) if len(each) > 1 else each[0]
    operand = _operand(resolver, subject, node.operand)
    stored = [choice for choice in node.choices if not _is_empty_set(choice)]
    _check_members(resolver, subject, *stored)
    choices = tuple(Const(_constant(resolver, subject, choice)) for choice in stored)
    parts: list[Condition] = []
    if isinstance(operand, Path):  # None and the empty set may be stored as absence
        if any(choice.value is None for choice in stored):
            none = _equals_none(resolver, subject.path, size=False)
            parts.extend([none.conditions[1] if isinstance(none, Or) else none] * (not isinstance(none, Compare)))
        empty = [Compare("=", subject.path, choice) for choice in node.choices if _is_empty_set(choice)]
        parts.extend(_compare_with_empty_set(resolver, node, subject) for node in empty)
    if choices:
        found = _as_shown(resolver, node, IsIn(operand, choices))
        parts.extend(found.conditions if isinstance(found, Or) else (found,))
    parts = [part for at, part in enumerate(parts) if part not in parts[:at]]  # values may have no hash
    return parts[0] if len(parts) == 1 else Or(tuple(parts))


def _starts_with(resolver: Resolver, node: StartsWith) -> Condition:
    place = resolver.resolve(node.path)
    text = text_of(place.type)
    if text is None:
        why = f"is of type {place.type.text}, and only str and bytes have a prefix: compare with >= and < instead"
        raise resolver.fault(node.path, why)
    prefix = resolver.convert(node.path, text.dump, node.prefix.value)
    if isinstance(prefix, str) and place.rules.normalises:
        prefix = place.rules.normalise_start(prefix)
    if kind_of(prefix) not in {"S", "B"}:
        raise resolver.fault(node.path, f"{show(node.prefix.value)} is not a prefix: give str or bytes")
    return _as_shown(resolver, node, StartsWith(place.path, Const(prefix)))


def _contains(resolver: Resolver, node: Contains) -> Condition:
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
    value = _normalised(resolver, node.path, element.loose, node.value.value, normalise)
    found = _as_shown(resolver, node, Contains(place.path, Const(value)))
    for form in forms(element, value)[1:] if resolver.defaults else ():
        found = either(found, Contains(place.path, Const(form)))
    return found


def _subject(resolver: Resolver, node: Condition, *operands: Operand) -> _Subject:
    for operand in operands:
        match operand:
            case Path():
                place = resolver.resolve(operand)
                return _Subject(operand, place.type, normaliser(place.rules, node))
            case Size():
                return _Subject(operand.path, INT)
            case Const():
                continue
            case _:
                assert_never(operand)
    raise BadValue(f"{resolver.entity}: {node} compares no field: write a field on one side")


def normaliser(rules: PlaceRules, node: Condition) -> Callable[[Any], Any] | None:
    """What changes the constants of a comparison. Of a range only text: a rounded bound would be another range."""
    if not rules.normalises:
        return None
    equality = isinstance(node, IsIn) or (isinstance(node, Compare) and node.op in ("=", "<>"))
    return rules.normalise if equality else rules.normalise_bound


def _operand(resolver: Resolver, subject: _Subject, operand: Operand) -> Operand:
    match operand:
        case Path():
            place = resolver.resolve(operand)
            _check_inline(resolver, operand, place.type)
            return place.path
        case Size():
            place = resolver.resolve(operand.path)
            _check_inline(resolver, operand.path, place.type)
            if not place.type.kinds & _SIZED:
                raise resolver.fault(operand.path, f"is of type {place.type.text}, which has no size")
            return Size(place.path)
        case Const():
            return Const(_constant(resolver, subject, operand))
        case _:
            assert_never(operand)


def _check_inline(resolver: Resolver, path: Path, type_: StoredType) -> None:
    """Refuse a field with Blob, of which the backend may only see a pointer."""
    if isinstance(bare(type_), BlobType):
        why = "may be kept in a blob, outside the table: a condition can only compare it with None, or use exists(...)"
        raise resolver.fault(path, why)


def _constant(resolver: Resolver, subject: _Subject, const: Const) -> Value:
    if const.value is None:  # every field can be compared with None
        return None
    return _normalised(resolver, subject.path, subject.type.loose, const.value, subject.normalise)


def _normalised(
    resolver: Resolver, path: Path, loose: Callable[[Any], Value], value: Any, normalise: Callable[[Any], Any] | None
) -> Value:
    """The stored form of a value to compare with, as the model would hold the value."""
    stored = resolver.convert(path, loose, value)  # raises for a value of another type
    if normalise is None:
        return stored
    try:
        return resolver.convert(path, loose, normalise(value))
    except BadValue:
        return stored  # a validator made a value of another type


def _check_ordered(resolver: Resolver, subject: _Subject, *operands: Operand) -> None:
    """Refuse values without an order: only text, numbers and bytes have one."""
    if not subject.type.kinds & ORDERED:
        why = f"is of type {subject.type.text}, which has no order: compare it with == or !="
        raise resolver.fault(subject.path, why)
    if _text_without_order(subject.type):
        why = f"is of type {subject.type.text}, stored as text that sorts differently: compare it with == or !="
        raise resolver.fault(subject.path, why)
    for operand in operands:
        if isinstance(operand, Const) and isinstance(operand.value, time) and operand.value.utcoffset() is not None:
            why = f"{operand.value} has an offset, so that it has no order as text: compare with naive times"
            raise resolver.fault(subject.path, why)
        if isinstance(operand, Const) and kind_of(_constant(resolver, subject, operand)) not in ORDERED:
            why = f"{show(operand.value)} has no order: compare with a number, a timestamp, text or bytes"
            raise resolver.fault(subject.path, why)


def _text_without_order(type_: StoredType) -> bool:
    """Whether the stored text sorts differently than the values: IP addresses, URLs, paths, some forms."""
    inner = bare(type_)
    if isinstance(inner, FormatType | IsoType | FormType):
        return not inner.ordered
    if isinstance(inner, UnionType):
        return any(map(_text_without_order, inner.members))
    return isinstance(inner, TextType) and inner.accepts is not UUID


def _check_members(resolver: Resolver, subject: _Subject, *operands: Operand) -> None:
    """Refuse a constant that an Enum or Literal field can never equal."""
    inner = bare(subject.type)
    if not isinstance(inner, EnumType | LiteralType):
        return
    for operand in operands:
        if isinstance(operand, Const) and operand.value is not None:
            stored = _constant(resolver, subject, operand)
            if not inner.allows(stored):
                why = f"{show(operand.value)} is not one of its values: {', '.join(map(repr, inner.values))}"
                raise resolver.fault(subject.path, why)


def _is_empty_set(operand: Operand) -> bool:
    return isinstance(operand, Const) and isinstance(operand.value, set | frozenset) and not operand.value


def _is_none(operand: Operand) -> bool:
    return isinstance(operand, Const) and operand.value is None


def _is_size(operand: Operand) -> bool:
    return isinstance(operand, Size)


def _as_shown(resolver: Resolver, node: Test, lowered: Test) -> Condition:
    """The lowered test, in which an absent attribute counts as what the entity shows."""
    ways: list[Absence] = []
    for path in dict.fromkeys(paths(node)):
        ways += resolver.absences(path)
    return as_shown(lowered, ways)
