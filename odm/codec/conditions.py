"""Lowers conditions: from fields and Python values to stored names and stored values.

Values are checked for the type only: ``Order.level < 1000`` is valid even if no level can be 1000.
"""

from collections.abc import Callable, Mapping
from datetime import time
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final, assert_never, cast
from uuid import UUID

from attrs import frozen

from odm.codec.choices import EnumType, LiteralType
from odm.codec.containers import SetType
from odm.codec.faults import show
from odm.codec.paths import Resolver
from odm.codec.plain import AnyType
from odm.codec.scalars import INT, TextType
from odm.codec.stored import BINARY, LIST, MAP, ORDERED, SET, TEXT, StoredType, kind_of
from odm.codec.unions import UnionType, bare, text_of
from odm.errors import BadValue
from odm.expressions.nodes import (
    And,
    AnyCondition,
    Between,
    Comparator,
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
)

_OPERATORS: Final[Mapping[Comparator, Callable[[Any, Any], Any]]] = {
    "=": eq,
    "<>": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_SIZED: Final = TEXT | BINARY | LIST | MAP | SET


@frozen
class _Subject:
    """The field that a comparison is about, and the type that its constants must have."""

    path: Path
    type: StoredType


def lower_condition(resolver: Resolver, condition: Condition) -> Condition:
    """The condition over stored names and values.

    Raises:
        BadValue: a path leads nowhere, or a value is not of the type of what it is compared with.
    """
    node = cast("AnyCondition", condition)
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


def _compare(resolver: Resolver, node: Compare) -> Condition:
    subject = _subject(resolver, node, node.left, node.right)
    if node.op in {"=", "<>"}:
        if _is_empty_set(node.left) or _is_empty_set(node.right):
            return _compare_with_empty_set(resolver, node, subject)
        _check_members(resolver, subject, node.left, node.right)
    else:
        _check_ordered(resolver, subject, node.left, node.right)
    left, right = _operand(resolver, subject, node.left), _operand(resolver, subject, node.right)
    return _or_absent_set(resolver, node, Compare(node.op, left, right))


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
    return _or_absent_set(resolver, node, Between(*(_operand(resolver, subject, operand) for operand in operands)))


def _is_in(resolver: Resolver, node: IsIn) -> Condition:
    subject = _subject(resolver, node, node.operand)
    operand = _operand(resolver, subject, node.operand)
    stored = [choice for choice in node.choices if not _is_empty_set(choice)]
    _check_members(resolver, subject, *stored)
    choices = tuple(Const(_constant(resolver, subject, choice)) for choice in stored)
    parts: list[Condition] = []
    if isinstance(operand, Path):  # None and the empty set may be stored as absence
        if any(choice.value is None for choice in stored):
            parts.append(Missing(operand))
        empty = [Compare("=", subject.path, choice) for choice in node.choices if _is_empty_set(choice)]
        parts.extend(_compare_with_empty_set(resolver, node, subject) for node in empty)
    if choices:
        parts.append(_or_absent_set(resolver, node, IsIn(operand, choices)))
    return parts[0] if len(parts) == 1 else Or(tuple(dict.fromkeys(parts)))


def _starts_with(resolver: Resolver, node: StartsWith) -> Condition:
    place = resolver.resolve(node.path)
    text = text_of(place.type)
    if text is None:
        why = f"is of type {place.type.text}, and only str and bytes have a prefix: compare with >= and < instead"
        raise resolver.fault(node.path, why)
    prefix = resolver.convert(node.path, text.dump, node.prefix.value)
    if kind_of(prefix) not in {"S", "B"}:
        raise resolver.fault(node.path, f"{show(node.prefix.value)} is not a prefix: give str or bytes")
    return StartsWith(place.path, Const(prefix))


def _contains(resolver: Resolver, node: Contains) -> Condition:
    place = resolver.resolve(node.path)
    element = place.type.element or text_of(place.type)
    if element is None:
        why = f"is of type {place.type.text}, and only str, bytes, lists and sets contain something"
        raise resolver.fault(node.path, why)
    return Contains(place.path, Const(resolver.convert(node.path, element.loose, node.value.value)))


def _subject(resolver: Resolver, node: Condition, *operands: Operand) -> _Subject:
    for operand in operands:
        match operand:
            case Path():
                return _Subject(operand, resolver.resolve(operand).type)
            case Size():
                return _Subject(operand.path, INT)
            case Const():
                continue
            case _:
                assert_never(operand)
    raise BadValue(f"{resolver.entity}: {node} compares no field: write a field on one side")


def _operand(resolver: Resolver, subject: _Subject, operand: Operand) -> Operand:
    match operand:
        case Path():
            return resolver.resolve(operand).path
        case Size():
            place = resolver.resolve(operand.path)
            if not place.type.kinds & _SIZED:
                raise resolver.fault(operand.path, f"is of type {place.type.text}, which has no size")
            return Size(place.path)
        case Const():
            return Const(_constant(resolver, subject, operand))
        case _:
            assert_never(operand)


def _constant(resolver: Resolver, subject: _Subject, const: Const) -> Value:
    if const.value is None:  # every field can be compared with None
        return None
    return resolver.convert(subject.path, subject.type.loose, const.value)


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
    """Whether the stored text sorts differently than the values: IP addresses, URLs, paths."""
    inner = bare(type_)
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


def _or_absent_set(resolver: Resolver, node: Compare | Between | IsIn, lowered: Condition) -> Condition:
    """An absent set has size 0, but backends evaluate a comparison with it as false, and ``<>`` as true."""
    sizes = [operand for operand in _operands(node) if isinstance(operand, Size)]
    if len(sizes) != 1:
        return lowered
    place = resolver.resolve(sizes[0].path)
    if not isinstance(place.type, SetType):
        return lowered
    if _holds_for_zero(node):
        return Or((Missing(place.path), lowered))
    is_unequal = isinstance(node, Compare) and node.op == "<>"
    return And((Exists(place.path), lowered)) if is_unequal else lowered


def _operands(node: Compare | Between | IsIn) -> tuple[Operand, ...]:
    match node:
        case Compare():
            return node.left, node.right
        case Between():
            return node.operand, node.low, node.high
        case IsIn():
            return (node.operand,)
        case _:
            assert_never(node)


def _holds_for_zero(node: Compare | Between | IsIn) -> bool:
    match node:
        case Compare(op, Size(), Const(value)):
            return bool(_OPERATORS[op](0, value))
        case Compare(op, Const(value), Size()):
            return bool(_OPERATORS[op](value, 0))
        case Between(Size(), Const(low), Const(high)):
            return bool(low <= 0 <= high)
        case IsIn():
            return any(choice.value == 0 for choice in node.choices)
        case _:
            return False
