"""Evaluates lowered conditions and applies lowered actions to stored items.

The bundled engine does every write through this module, and Bigtable its read, evaluate, check-and-mutate round. It
knows nothing of keys, indexes or I/O: stored values in, stored values out. The semantics are those of DynamoDB's
condition and update expressions, so that the same call has the same answer on every backend.
"""

from collections.abc import Callable, Mapping, Sequence
from decimal import Context, Decimal, Inexact
from operator import ge, gt, le, lt
from types import NoneType
from typing import Any, Final, Literal, assert_never, cast

from odm.errors import BadValue, brief
from odm.expressions.nodes import (
    Action,
    AddTo,
    AddValue,
    And,
    AnyCondition,
    Append,
    Between,
    Comparator,
    Compare,
    Condition,
    Const,
    Contains,
    DiscardFrom,
    Exists,
    Increment,
    IsIn,
    Item,
    Missing,
    Not,
    Number,
    Operand,
    Or,
    Path,
    Prepend,
    Remove,
    Set,
    SetIfMissing,
    Size,
    StartsWith,
    Value,
)

_ABSENT: Final = object()
"""What a path yields when nothing is stored there: None is a stored value."""

Kind = Literal["null", "boolean", "number", "string", "bytes", "list", "map", "set", "absent"]

_KINDS: Final[Mapping[type, Kind]] = {
    NoneType: "null",
    bool: "boolean",
    int: "number",
    Decimal: "number",
    str: "string",
    bytes: "bytes",
    list: "list",
    dict: "map",
    frozenset: "set",
    object: "absent",
}
_ORDERED: Final[frozenset[Kind]] = frozenset({"number", "string", "bytes"})
_ORDERINGS: Final[Mapping[str, Callable[[Any, Any], bool]]] = {"<": lt, "<=": le, ">": gt, ">=": ge}

_EXACT: Final = Context(prec=38, traps=[Inexact])
_SAFE: Final = 10**38
"""Smaller whole numbers have at most 38 digits."""
_WHOLE: Final = frozenset({str, int, bool, type(None), Decimal, bytes, frozenset})
"""The types of values that cannot be changed, so that a copy may share them."""
_MOST: Final = 125
_LEAST: Final = -130


def holds(condition: Condition, item: Item | None) -> bool:
    """Whether a lowered condition is true of a stored item.

    Args:
        condition: lowered: stored names, stored values.
        item: the stored item, or None for an absent one, of which every path is missing.
    """
    if item is not None:
        return _holds(cast("AnyCondition", condition), item)
    kept = condition.__dict__  # where an item is absent, the condition alone decides: it keeps the answer
    absent: bool | None = kept.get("absent")
    if absent is None:
        absent = kept["absent"] = _holds(cast("AnyCondition", condition), {})
    return absent


def apply(actions: Sequence[Action], item: Item) -> dict[str, Value]:
    """Apply an update to an item.

    Every right-hand side, and every list position, refers to the previous item. The result shares no list or map with
    the item or with the actions, and the item is not changed.

    Args:
        actions: lowered, and no path is another's or a part of it.
        item: the stored item; empty for an absent one.

    Raises:
        BadValue: the parent of a path is not there or of another type, the attribute has a type that the action
             cannot change, or a number leaves the range of 38 digits and 1E-130 to 9.99E+125.
    """
    new: dict[str, Value] = {name: v if type(v) in _WHOLE else _copied(v) for name, v in item.items()}
    ordered = sorted(actions, key=_place) if len(actions) > 1 else actions
    for action in ordered:
        if type(action) is not Set or len(action.path.segments) > 1:
            break
    else:  # the usual update: values of whole fields
        for action in cast("Sequence[Set]", ordered):
            new[action.path.root] = _copied(action.value)
        return new
    results = [(action.path, _result(action, item)) for action in ordered]
    for path, value in results:
        parent = _parent(path, new)
        if value is not _ABSENT:
            _write(parent, path.segments[-1], _copied(value))
    for path, value in reversed(results):  # from the back, so that a list does not shift under a later removal
        if value is _ABSENT:
            _erase(_parent(path, new), path.segments[-1])
    return new


def equal(left: Value, right: Value) -> bool:
    """Whether two stored values are the same: 1 equals Decimal(1), and True equals no number, at any depth."""
    if type(left) is type(right) is str:
        return bool(left == right)
    kind = kind_of(left)
    if kind != kind_of(right):
        return False
    if kind == "list":
        return len(left) == len(right) and all(map(equal, left, right))
    if kind == "map":
        return left.keys() == right.keys() and all(equal(value, right[name]) for name, value in left.items())
    return bool(left == right)


def size_of(value: Value) -> int | None:
    """The size of a stored value: UTF-16 units of text, bytes, or elements; None if it has no size."""
    kind = kind_of(value)
    if kind == "string":
        return len(value.encode("utf-16-le")) // 2  # as DynamoDB counts
    return len(value) if kind in {"bytes", "list", "map", "set"} else None


def kind_of(value: Value) -> Kind:
    """The type of a stored value; int and Decimal are one type.

    Raises:
        BadValue: no value of this Python type is ever stored.
    """
    try:
        return _KINDS[type(value)]
    except KeyError:
        if isinstance(value, dict):  # a pointer that still has the bytes of its blob, see `odm.codec.types.blobs`
            return "map"
        raise BadValue(
            f"{brief(value)} of type {type(value).__name__} is not a stored value; these are None, bool, int, "
            "Decimal, str, "
            "bytes, list, dict and frozenset"
        ) from None


# Evaluated for each item of a filtered read, so: frequent cases first, attributes instead of patterns that unpack.
def _holds(condition: AnyCondition, item: Item) -> bool:
    match condition:
        case Compare():
            return compares(condition.op, _operand(condition.left, item), _operand(condition.right, item))
        case And():
            for part in cast("tuple[AnyCondition, ...]", condition.conditions):  # noqa: SIM110  # a generator is slower
                if not _holds(part, item):
                    return False
            return True
        case Or():
            for part in cast("tuple[AnyCondition, ...]", condition.conditions):  # noqa: SIM110
                if _holds(part, item):
                    return True
            return False
        case Not():
            return not _holds(cast("AnyCondition", condition.condition), item)
        case Missing():
            return _find(condition.path.segments, item) is _ABSENT
        case Exists():
            return _find(condition.path.segments, item) is not _ABSENT
        case Between():
            value = _operand(condition.operand, item)
            low, high = _operand(condition.low, item), _operand(condition.high, item)
            return compares("<=", low, value) and compares("<=", value, high)
        case IsIn():
            value = _operand(condition.operand, item)
            return any(compares("=", value, choice.value) for choice in condition.choices)
        case StartsWith():
            return has_prefix(_find(condition.path.segments, item), condition.prefix.value)
        case Contains():
            return _contains(_find(condition.path.segments, item), condition.value.value)
        case _:
            assert_never(condition)


def _operand(operand: Operand, item: Item) -> Value:
    match operand:
        case Const():
            return operand.value
        case Path():
            return _find(operand.segments, item)
        case Size():
            size = size_of(_find(operand.path.segments, item))
            return _ABSENT if size is None else size
        case _:
            assert_never(operand)


def _find(segments: Sequence[str | int], item: Item) -> Value:
    if len(segments) == 1:
        return item.get(cast("str", segments[0]), _ABSENT)
    value: Value = item
    for depth, segment in enumerate(segments):
        if isinstance(segment, str):
            value = value.get(segment, _ABSENT) if depth == 0 or isinstance(value, dict) else _ABSENT
        else:
            value = value[segment] if isinstance(value, list) and 0 <= segment < len(value) else _ABSENT
        if value is _ABSENT:
            break
    return value


def compares(op: Comparator, left: Value, right: Value) -> bool:
    """Whether a comparison of two stored values holds, as DynamoDB compares."""
    if left is _ABSENT or right is _ABSENT:
        return op == "<>"
    if op == "=":
        return equal(left, right)
    if op == "<>":
        return not equal(left, right)
    kind = kind_of(left)
    return kind == kind_of(right) and kind in _ORDERED and _ORDERINGS[op](left, right)


def has_prefix(value: Value, prefix: Value) -> bool:
    """Whether a stored value is text or bytes that begin with a prefix of the same kind."""
    kind = kind_of(value)
    return kind in {"string", "bytes"} and kind == kind_of(prefix) and bool(value.startswith(prefix))


def _contains(value: Value, element: Value) -> bool:
    match kind_of(value):
        case "string" | "bytes" as kind:
            return kind == kind_of(element) and element in value
        case "list" | "set":
            return any(equal(member, element) for member in value)
        case _:
            return False


def _place(action: Action) -> tuple[tuple[bool, str | int], ...]:
    return tuple([(isinstance(segment, int), segment) for segment in action.path.segments])


def _result(action: Action, item: Item) -> Value:
    """The value at the action's path afterwards; ``_ABSENT`` for none."""
    path = action.path
    old = _find(path.segments, item)
    match action:
        case Set(_, value):
            return value
        case SetIfMissing(_, value):
            return value if old is _ABSENT else old
        case Remove():
            return _ABSENT
        case Increment(_, by, start):
            return _sum(start if old is _ABSENT else _expect("number", old, path), by, path)
        case Append(_, values, start):
            return [*_expect("list", list(start) if old is _ABSENT else old, path), *values]
        case Prepend(_, values, start):
            return [*values, *_expect("list", list(start) if old is _ABSENT else old, path)]
        case AddTo(_, members):
            return _members(old, members, path) | members
        case AddValue(_, value):
            return value if old is _ABSENT else action.over(_expect("number", old, path))
        case DiscardFrom(_, members):
            return (_members(old, members, path) - members) or _ABSENT
        case _:
            assert_never(action)


def _expect(kind: Kind, value: Value, path: Path) -> Value:
    if kind_of(value) != kind:
        raise BadValue(
            f"{path} is stored as a {kind_of(value)} ({brief(value)}), and this action works on a {kind} only"
        )
    return value


def _members(old: Value, members: frozenset[Value], path: Path) -> frozenset[Value]:
    if old is _ABSENT:
        return frozenset()
    stored: frozenset[Value] = _expect("set", old, path)
    there, kinds = {kind_of(member) for member in stored}, {kind_of(member) for member in members}
    if not kinds <= there:
        raise BadValue(
            f"{path} is a set of {'/'.join(there)} values, and the members given are {'/'.join(kinds)}: "
            f"{brief(members)}"
        )
    return stored


def _sum(number: Number, by: Number, path: Path) -> Number:
    if type(number) is type(by) is int and -_SAFE < number + by < _SAFE:
        return number + by
    try:
        total = _EXACT.add(Decimal(number), Decimal(by))
    except Inexact:
        raise BadValue(
            f"{path}: {number} + {by} has more than 38 significant digits; round one of the two first"
        ) from None
    if total and not _LEAST <= total.adjusted() <= _MOST:
        raise BadValue(f"{path}: {number} + {by} = {total} is outside the range of 1E-130 to 9.99E+125")
    return int(total) if total == total.to_integral_value() else total.normalize(_EXACT)


def _parent(path: Path, item: Item) -> Any:
    if len(path.segments) == 1:
        return item
    parent = _find(path.segments[:-1], item)
    if isinstance(parent, list if isinstance(path.segments[-1], int) else dict):
        return parent
    above = Path(path.segments[:-1])
    state = "is not there" if parent is _ABSENT else f"is a {kind_of(parent)}"
    raise BadValue(f"{path} cannot be changed: {above} {state}; set {above} as a whole")


def _write(parent: Any, segment: str | int, value: Value) -> None:
    if isinstance(segment, int) and segment >= len(parent):
        parent.append(value)
    else:
        parent[segment] = value


def _erase(parent: Any, segment: str | int) -> None:
    if isinstance(segment, str):
        parent.pop(segment, None)
    elif segment < len(parent):
        del parent[segment]


def _copied(value: Value) -> Value:
    # Most elements need no call.
    if isinstance(value, list):
        return [v if type(v) in _WHOLE else _copied(v) for v in value]
    if type(value) is dict:  # a pointer with the bytes of its blob stays as it is, see `odm.codec.types.blobs`
        return {name: v if type(v) in _WHOLE else _copied(v) for name, v in value.items()}
    return value
