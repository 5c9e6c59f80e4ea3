"""DynamoDB's expressions for conditions and actions, with a placeholder for every name and value.

DynamoDB's limits on expressions are portable limits: `check_condition` and `check_update` write the expressions that
its backend will send, on every backend, so that a condition is refused everywhere or nowhere. Sources of the limits:
https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html#limits-expression-parameters.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from decimal import Decimal
from typing import Any, Final, Literal, NamedTuple, TypeAlias, assert_never, cast

from odm.cache import Cache, pattern
from odm.codec import TAG
from odm.errors import BadValue
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
    Missing,
    Not,
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
from odm.protocol.limits import MAP_KEY_BYTES, check_map_keys, item_size
from odm.protocol.predicates import ABSENT

TEXT_BYTES: Final = 4096
"""The maximum bytes of one expression."""

OPERATORS: Final = 300
"""The maximum operators and functions of one expression."""

CHOICES: Final = 100
"""The maximum operands of one IN."""

VALUE_BYTES: Final = 1_000_000
"""The maximum bytes of the values of one expression. AWS documents 2 MB a request; DynamoDB Local refuses an expression
with values of more than 1 MiB, so this is the stricter of both, with a margin for names."""

# Names and values are placeholders, so operators can be counted in the text. The = of a SET does not count.
_CONDITION_OPERATOR = pattern(r"\bBETWEEN \S+ AND\b|\b(?:AND|OR|NOT|IN)\b|[a-z_]+\(|[<>=]+")
_UPDATE_OPERATOR = pattern(r"[a-z_]+\(|\+")

# A condition that never holds; DynamoDB has no literal for "false".
_NEVER = And((Exists(Path((TAG,))), Missing(Path((TAG,)))))

_LEAST = (Decimal("-9.9999999999999999999999999999999999999E+125"), "", b"")
"""The lowest number, string and binary: every value of an ordered type is >= one of them."""

_FEWER: Final = "use fewer or smaller terms and choices, or split the call"
_LESS: Final = "change fewer attributes in one call, or put the whole item"

FEW: Final = 8
"""Each of so many terms or actions may have long paths and more operators than one, and still no limit is reached."""

MANY: Final = FEW + 1
_SHORT_ACTION: Final = len("#999.#999 = :999, ")
_SHORT_MARK: Final = len("#999 = if_not_exists(#999, :999), ")
_KEYWORDS: Final = len("SET REMOVE ADD DELETE ")

SMALL: Final = 10_000
"""The characters of a small text."""

_SHORT: Final = frozenset({int, bool, Decimal, type(None)})
_SHORT_BYTES: Final = 40
_LONGEST_PLACEHOLDER: Final = len(":9999")
"""The types of short values, and the most bytes of one with its placeholder: a number has at most 22."""

READABLE: Final = 20
"""Choices up to this number are written with a space between them, which counts as a byte of the expression."""

_Shape: TypeAlias = Any
"""An expression without its values."""

_Place: TypeAlias = tuple[type, str | None, tuple[str, ...], int, _Shape]
"""The kind of request, its key, the names that it has before an expression, the number of its values, and the shape."""

_TEXTS: Final[Cache[_Place, tuple[str, dict[str, str], tuple[str, ...]]]] = Cache()
"""The texts of expressions, each with all names of its request after it, and the placeholders of its values."""

_Clause: TypeAlias = Literal["SET", "REMOVE", "ADD", "DELETE"]


class ExpressionText:
    """The text of the expressions of one request, which share their placeholders.

    Args:
        key: an attribute of every item's key, whose absence shows that there is no item: another program's items may
            have no tag. None: the absence of the tag shows it.
    """

    def __init__(self, key: str | None = None) -> None:
        self._key = key
        self._names: dict[str, str] = {}
        self._values: dict[str, Value] = {}
        self._most = 0  # at most so many bytes are the values, with their placeholders

    def condition(self, condition: Condition) -> str:
        """A condition expression or filter expression.

        Raises:
            BadValue: the expression exceeds DynamoDB's limits.
        """
        before = len(self._values), self._most
        facts = facts_of(condition)
        place = self._place(facts.shape)
        text = self._known(place, facts.values, facts.size)
        if text is None:
            text = self._condition(condition)
            _check_text("condition", text, _CONDITION_OPERATOR, _FEWER)
            self._keep(place, text)
        if self._most - before[1] > VALUE_BYTES:
            self._check_values("condition", before[0], _FEWER)
        return text

    def update(self, actions: Sequence[Action]) -> str:
        """The update expression for the actions; "" without actions.

        Raises:
            BadValue: the expression exceeds DynamoDB's limits.
        """
        before = len(self._values), self._most
        values: list[Value] = []
        shape = (*[_shape_of_action(action, values) for action in actions],)
        place = self._place(None if None in shape else shape)
        text = self._known(place, values, _size_at_most(values))
        if text is None:
            text = self._update(actions)
            _check_text("update", text, _UPDATE_OPERATOR, _LESS)
            self._keep(place, text)
        if self._most - before[1] > VALUE_BYTES:
            self._check_values("update", before[0], _LESS)
        return text

    def _update(self, actions: Sequence[Action]) -> str:
        clauses: defaultdict[_Clause, list[str]] = defaultdict(list)
        for action in actions:
            clause, text = self._action(action)
            clauses[clause].append(text)
        return " ".join(f"{clause} {', '.join(texts)}" for clause, texts in clauses.items())

    def _place(self, shape: _Shape | None) -> _Place | None:
        """Where the text of a shape is kept: it depends on the placeholders before it."""
        return None if shape is None else (type(self), self._key, (*self._names,), len(self._values), shape)

    def _known(self, place: _Place | None, values: Sequence[Value], size: int | None) -> str | None:
        """The text that is kept at a place, with these values added to those of the request; None: it is new."""
        kept = None if place is None else _TEXTS.get(place)
        if kept is None:
            return None
        text, names, aliases = kept
        self._names = names.copy()
        if size is None:
            for value in values:
                self.value(value)
        else:
            self._values.update(zip(aliases, values, strict=False))
            self._most += size
        return text

    def _check_values(self, clause: str, before: int, fix: str) -> None:
        """Refuse values that are too large together, except for those before them."""
        size = item_size(dict(list(self._values.items())[before:]))
        if size > VALUE_BYTES:
            raise BadValue(
                f"the values in the {clause} have {size} bytes together, but {VALUE_BYTES} are the most: {fix}"
            )

    def _keep(self, place: _Place | None, text: str) -> None:
        if place is not None:
            _TEXTS.keep(place, (text, self._names.copy(), (*self._values,)[place[3] :]))

    def name(self, name: str) -> str:
        """The placeholder of a name."""
        return self._names.setdefault(name, f"#{len(self._names)}")

    def value(self, value: Value) -> str:
        """The placeholder of a value."""
        alias = f":{len(self._values)}"
        self._values[alias] = value
        kind = type(value)
        if kind in _SHORT:
            self._most += _SHORT_BYTES
        elif kind is str and len(value) <= SMALL and value.isascii():
            self._most += len(value) + len(alias)
        else:
            self._most += (size := item_size({alias: value}))
            if size > MAP_KEY_BYTES:
                check_map_keys((value,), "this call")
        return alias

    def path(self, path: Path) -> str:
        """The text of a path."""
        text = self.name(path.root)
        for segment in path.segments[1:]:
            text += f"[{segment}]" if isinstance(segment, int) else f".{self.name(segment)}"
        return text

    def _operand(self, operand: Operand) -> str:
        match operand:
            case Path():
                return self.path(operand)
            case Size(path):
                return f"size({self.path(path)})"
            case Const(value):
                return self.value(value)
            case _:
                assert_never(operand)

    def _condition(self, condition: Condition) -> str:
        node = cast(AnyCondition, _spelt_out(condition))
        match node:
            case Compare(op, left, right):
                return f"{self._operand(left)} {op} {self._operand(right)}"
            case Between(operand, low, high):
                return f"{self._operand(operand)} BETWEEN {self._operand(low)} AND {self._operand(high)}"
            case IsIn(operand, choices):
                between = ", " if len(choices) <= READABLE else ","
                return f"{self._operand(operand)} IN ({between.join(map(self._operand, choices))})"
            case StartsWith(path, prefix):
                return f"begins_with({self.path(path)}, {self._operand(prefix)})"
            case Contains(path, member):
                return f"contains({self.path(path)}, {self._operand(member)})"
            case Exists(path):
                return f"attribute_exists({self.path(path)})"
            case Missing(path):
                missing = path if self._key is None or node != ABSENT else Path((self._key,))
                return f"attribute_not_exists({self.path(missing)})"
            case And(conditions):
                return " AND ".join(map(self._part, conditions))
            case Or(conditions):
                return " OR ".join(map(self._part, conditions))
            case Not(negated):
                return f"NOT {self._part(negated)}"
            case _:
                assert_never(node)

    def _part(self, condition: Condition) -> str:
        condition = _spelt_out(condition)
        text = self._condition(condition)
        # DynamoDB rejects redundant parentheses, so only compound conditions get them.
        return f"({text})" if isinstance(condition, And | Or | Not) else text

    def _action(self, action: Action) -> tuple[_Clause, str]:
        path = self.path(action.path)
        match action:
            case Set(_, value) | AddValue(_, value):  # a backend that writes this text gets a Set, see `adds_values`
                return "SET", f"{path} = {self.value(value)}"
            case SetIfMissing(_, value):
                return "SET", f"{path} = if_not_exists({path}, {self.value(value)})"
            case Remove():
                return "REMOVE", path
            case Increment(_, by, start):
                return "SET", f"{path} = if_not_exists({path}, {self.value(start)}) + {self.value(by)}"
            case Append(_, values, start):
                return "SET", f"{path} = list_append({self._list_at(path, start)}, {self.value(list(values))})"
            case Prepend(_, values, start):
                return "SET", f"{path} = list_append({self.value(list(values))}, {self._list_at(path, start)})"
            case AddTo(_, members):
                return "ADD", f"{path} {self.value(members)}"
            case DiscardFrom(_, members):
                return "DELETE", f"{path} {self.value(members)}"
            case _:
                assert_never(action)

    def _list_at(self, path: str, start: Sequence[Value]) -> str:
        return f"if_not_exists({path}, {self.value(list(start))})"


def check_condition(condition: Condition | None) -> None:
    """Refuse the condition of a write, or the filter of a read, that DynamoDB would refuse.

    Args:
        condition: the condition, lowered, with what the core adds to it, and the guard of a write.

    Raises:
        BadValue: as an expression of DynamoDB it has more than 4 KB, 300 operators and functions, or 1 MB of values.
    """
    text = ExpressionText()
    for name in ("pk", "sk"):  # the placeholders of a key condition come first
        text.name(name)
    for _ in range(3):
        text.value("")
    if condition is not None:
        text.condition(condition)


def check_update(actions: Sequence[Action], condition: Condition | None) -> None:
    """Refuse an update that DynamoDB would refuse.

    Args:
        actions: the lowered actions, and a `Set` for each part of an index key that may change.
        condition: as for `check_condition`.

    Raises:
        BadValue: as `check_condition`, for the update or its condition.
    """
    text = ExpressionText()
    text.update(actions)
    if condition is not None:
        text.condition(condition)


def merge_fits(actions: int, marks: int) -> bool:
    """Whether the actions of a merge certainly exceed no limit of an expression but that of values.

    Args:
        actions: how many, each with a path of at most two segments.
        marks: how many attributes are set if they are missing, in the same expression.
    """
    return _SHORT_ACTION * actions + _SHORT_MARK * marks <= TEXT_BYTES - _KEYWORDS


def are_few(actions: Sequence[Action]) -> bool:
    """Whether the actions certainly exceed no limit of an expression but that of values."""
    return len(actions) <= FEW and all(len(action.path.segments) <= FEW for action in actions)


def surely_fits(condition: Condition | None) -> bool:
    """Whether the condition certainly exceeds no limit: a fast check of its number of terms, and of their values."""
    return condition is None or _terms(condition) <= FEW


def _terms(condition: Condition) -> int:
    """The number of terms, at most; more than `FEW` if one of them may be large."""
    node = cast(AnyCondition, condition)
    match node:
        case Compare():
            return 1 if _is_small(node.left) and _is_small(node.right) else MANY
        case And() | Or():
            return sum([_terms(part) for part in node.conditions])
        case Not():
            return 1 + _terms(node.condition)
        case Exists() | Missing():
            return 1 if _is_small(node.path) else MANY
        case StartsWith():
            return 1 if _is_small(node.path) and _is_small(node.prefix) else MANY
        case Contains():
            return 1 if _is_small(node.path) and _is_small(node.value) else MANY
        case Between() | IsIn():
            return MANY
        case _:
            assert_never(node)


def _is_small(operand: Operand) -> bool:
    match operand:
        case Path():
            return len(operand.segments) <= FEW
        case Const():
            value = operand.value
            return len(value) <= SMALL if type(value) is str else type(value) in _SHORT
        case Size():
            return len(operand.path.segments) <= FEW
        case _:
            assert_never(operand)


class Facts(NamedTuple):
    """What a lowered condition says besides its tree; read from the tree once, and kept by its nodes.

    A node that a compiled call shares with other calls, such as the test of a tag, is read once altogether.

    Attributes:
        shape: what decides the text of the condition; None if its values decide more than placeholders, or a path is
            long.
        values: in the order of their placeholders.
        size: the most bytes of the values with their placeholders; None: one of them must be measured.
    """

    shape: _Shape | None
    values: tuple[Value, ...]
    size: int | None


_SHAPELESS: Final = Facts(None, (), None)


def facts_of(condition: Condition) -> Facts:
    """The facts of a lowered condition."""
    kept = condition.__dict__
    facts: Facts | None = kept.get("facts")
    if facts is None:
        facts = kept["facts"] = _facts(condition)
    return facts


def _facts(condition: Condition) -> Facts:
    node = cast(AnyCondition, condition)
    match node:
        case Compare():
            left, right = node.left, node.right
            if type(left) is Path and type(right) is Const and len(left.segments) == 1:  # the usual test
                values = (right.value,)
                return Facts((node.op, left.segments[0], Const), values, _size_at_most(values))
            if left == right:
                return _SHAPELESS
            values = (*_value_of(left), *_value_of(right))
            return _facts_of(node.op, (left, right), values)
        case And() | Or():
            parts = [facts_of(part) for part in node.conditions]
            shapes = [part.shape for part in parts]
            if None in shapes:
                return _SHAPELESS
            sizes = [part.size for part in parts]
            size = None if None in sizes else sum(cast("list[int]", sizes))
            return Facts((type(node), *shapes), tuple([value for part in parts for value in part.values]), size)
        case Not():
            part = facts_of(node.condition)
            return _SHAPELESS if part.shape is None else Facts((Not, part.shape), part.values, part.size)
        case Between():
            low, high = node.low, node.high
            if type(node.operand) is not Path or type(low) is not Const or type(high) is not Const:
                return _SHAPELESS
            if not _ordered(low.value, high.value):
                return _SHAPELESS
            return _facts_of(Between, (node.operand,), (low.value, high.value))
        case IsIn():
            if type(node.operand) is not Path or not 0 < len(node.choices) <= CHOICES:
                return _SHAPELESS
            return _facts_of(IsIn, (node.operand,), tuple([choice.value for choice in node.choices]), len(node.choices))
        case Exists() | Missing():
            return _facts_of(type(node), (node.path,), ())
        case StartsWith(path, value) | Contains(path, value):
            return _facts_of(type(node), (path,), (value.value,))
        case _:
            assert_never(node)


def _value_of(operand: Operand) -> tuple[Value, ...]:
    return (operand.value,) if type(operand) is Const else ()


def _facts_of(kind: object, operands: tuple[Operand, ...], values: tuple[Value, ...], *others: object) -> Facts:
    """The facts of one test."""
    shape = [kind, *others]
    for operand in operands:
        if type(operand) is Const:
            shape.append(Const)
            continue
        size = type(operand) is Size
        segments = cast(Size, operand).path.segments if size else cast(Path, operand).segments
        root = segments[0]
        if len(segments) > 1:  # it may have keys of dicts, which are as many as the data has
            return _SHAPELESS
        shape.append((Size, root) if size else root)
    return Facts(tuple(shape), values, _size_at_most(values))


def _size_at_most(values: Iterable[Value]) -> int | None:
    size = 0
    for value in values:
        kind = type(value)
        if kind is str and len(value) <= SMALL and value.isascii():
            size += len(value) + _LONGEST_PLACEHOLDER
        elif kind in _SHORT:
            size += _SHORT_BYTES
        else:
            return None
    return size


def _shape_of_action(action: Action, values: list[Value]) -> _Shape | None:
    """What decides the text of an action; None if a path is long. ``values`` receives its values in order."""
    path = action.path.segments
    if len(path) != 1:
        return None
    match action:
        case Set(_, value) | AddValue(_, value) | SetIfMissing(_, value):
            values.append(value)
        case Remove():
            pass
        case Increment(_, by, start):
            values += (start, by)
        case Append(_, added, start):
            values += (list(start), list(added))
        case Prepend(_, added, start):
            values += (list(added), list(start))
        case AddTo(_, members) | DiscardFrom(_, members):
            values.append(members)
        case _:
            assert_never(action)
    return type(action), path[0]


def _spelt_out(condition: Condition) -> Condition:
    """An equivalent of a condition that DynamoDB rejects: no or too many choices, a reversed range, equal operands."""
    match condition:
        case IsIn(_, ()):
            return _NEVER
        case IsIn(operand, choices) if len(choices) > CHOICES:
            starts = range(0, len(choices), CHOICES)
            return Or(tuple(IsIn(operand, choices[start : start + CHOICES]) for start in starts))
        case Between(operand, Const(low), Const(high)) if not _ordered(low, high):
            return And((Compare(">=", operand, Const(low)), Compare("<=", operand, Const(high))))
        case Between(operand, low, high) if operand in (low, high):
            return And((Compare(">=", operand, low), Compare("<=", operand, high)))
        case Compare(op, left, right) if left == right:
            return _with_itself(op, left)
        case _:
            return condition


def _with_itself(op: Comparator, operand: Operand) -> Condition:
    """The equivalent of comparing an operand with itself, which DynamoDB rejects: it exists and has an ordered type."""
    if op in {"<", ">"}:
        return _NEVER
    there: Condition = Exists(operand) if isinstance(operand, Path) else Compare(">=", operand, Const(0))
    if op in {"=", "<>"}:
        return there if op == "=" else Not(there)
    return Or(tuple(Compare(">=", operand, Const(least)) for least in _LEAST)) if isinstance(operand, Path) else there


def _ordered(low: Value, high: Value) -> bool:
    try:
        return bool(low <= high)
    except TypeError:  # different types: no value is between them, and BETWEEN rejects them
        return False


def _check_text(clause: str, text: str, operator: Callable[[], re.Pattern[str]], fix: str) -> None:
    size, operators = len(text), sum(1 for _ in operator().finditer(text))
    if size > TEXT_BYTES:
        raise BadValue(
            f"the {clause} is {size} bytes long as a DynamoDB expression, but {TEXT_BYTES} are allowed: {fix}"
        )
    if operators > OPERATORS:
        raise BadValue(f"the {clause} has {operators} operators and functions, but DynamoDB allows {OPERATORS}: {fix}")
