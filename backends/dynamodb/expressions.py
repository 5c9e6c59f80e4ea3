"""Conditions and actions → DynamoDB's expressions, with a placeholder for every name and value.

One `Expressions` collects the placeholders of one request. All expressions of the request (key condition, filter,
condition, update) share them.
"""

import re
from collections import defaultdict
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Literal, TypeAlias, assert_never, cast

from odm.backends.dynamodb.codec import to_attribute
from odm.codec import TAG
from odm.errors import BadValue
from odm.expressions.nodes import (
    Action,
    AddTo,
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
from odm.protocol.limits import item_size

MAX_BYTES = 4096
"""The maximum bytes of one expression (AWS: Service, account, and table quotas)."""

MAX_OPERATORS = 300
"""The maximum operators and functions of one expression (same source)."""

MAX_CHOICES = 100
"""The maximum operands of one IN (same source)."""

MAX_VALUES = 2 * 1024 * 1024
"""The maximum bytes of all names and values of one request's expressions (same source)."""

# Names and values are placeholders, so operators can be counted in the text. The = of a SET does not count.
_CONDITION_OPERATOR = re.compile(r"\bBETWEEN \S+ AND\b|\b(?:AND|OR|NOT|IN)\b|[a-z_]+\(|[<>=]+")
_UPDATE_OPERATOR = re.compile(r"[a-z_]+\(|\+")

# A condition that never holds; DynamoDB has no literal for "false".
_NEVER = And((Exists(Path((TAG,))), Missing(Path((TAG,)))))

_LEAST = (Decimal("-9.9999999999999999999999999999999999999E+125"), "", b"")
"""The lowest number, string and binary: every value of an ordered type is >= one of them."""

_Clause: TypeAlias = Literal["SET", "REMOVE", "ADD", "DELETE"]


class Expressions:
    """The expressions of one request and their placeholders."""

    def __init__(self) -> None:
        self._names: dict[str, str] = {}
        self._values: dict[str, dict[str, Any]] = {}
        self._size = 0

    def arguments(self) -> dict[str, Any]:
        """ExpressionAttributeNames and ExpressionAttributeValues, unless empty: DynamoDB rejects empty ones.

        Raises:
            BadValue: the names and values exceed 2 MB together.
        """
        if self._size > MAX_VALUES:
            raise BadValue(
                f"the values in the conditions and actions have {self._size} bytes together, but DynamoDB allows "
                f"{MAX_VALUES} per request: compare with smaller or fewer values, or change less in one call"
            )
        names = {alias: name for name, alias in self._names.items()}
        explained = {"ExpressionAttributeNames": names, "ExpressionAttributeValues": self._values}
        return {argument: content for argument, content in explained.items() if content}

    def key_condition(self, names: Sequence[str], partition: str, bounds: tuple[str, str | None]) -> str:
        """The key condition expression for a partition and inclusive bounds of the sort key (see `ranges.bounds`)."""
        text = f"{self.name(names[0])} = {self._value(partition)}"
        low, high = bounds
        if high is None and not low:
            return text
        sort = self.name(names[1])
        if low == high:
            return f"{text} AND {sort} = {self._value(low)}"
        if high is None:
            return f"{text} AND {sort} >= {self._value(low)}"
        if not low:  # DynamoDB rejects empty key values, even in comparisons
            return f"{text} AND {sort} <= {self._value(high)}"
        return f"{text} AND {sort} BETWEEN {self._value(low)} AND {self._value(high)}"

    def condition(self, condition: Condition) -> str:
        """A condition expression or filter expression.

        Raises:
            BadValue: the expression exceeds DynamoDB's limits.
        """
        text = self._condition(condition)
        _check_limits("condition", text, _CONDITION_OPERATOR, "use fewer terms or choices, or split the query")
        return text

    def update(self, actions: Sequence[Action]) -> str:
        """The update expression for the actions; "" without actions.

        Raises:
            BadValue: the expression exceeds DynamoDB's limits.
        """
        clauses: defaultdict[_Clause, list[str]] = defaultdict(list)
        for action in actions:
            clause, text = self._action(action)
            clauses[clause].append(text)
        text = " ".join(f"{clause} {', '.join(texts)}" for clause, texts in clauses.items())
        _check_limits("update", text, _UPDATE_OPERATOR, "change fewer attributes in one call, or put the whole item")
        return text

    def name(self, name: str) -> str:
        """The placeholder of a name."""
        return self._names.setdefault(name, f"#{len(self._names)}")

    def _value(self, value: Value) -> str:
        attribute = to_attribute(value)
        alias = f":{len(self._values)}"
        self._values[alias] = attribute
        self._size += item_size({alias: value})
        return alias

    def _path(self, path: Path) -> str:
        text = self.name(path.root)
        for segment in path.segments[1:]:
            text += f"[{segment}]" if isinstance(segment, int) else f".{self.name(segment)}"
        return text

    def _operand(self, operand: Operand) -> str:
        match operand:
            case Path():
                return self._path(operand)
            case Size(path):
                return f"size({self._path(path)})"
            case Const(value):
                return self._value(value)
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
                return f"{self._operand(operand)} IN ({', '.join(map(self._operand, choices))})"
            case StartsWith(path, prefix):
                return f"begins_with({self._path(path)}, {self._operand(prefix)})"
            case Contains(path, member):
                return f"contains({self._path(path)}, {self._operand(member)})"
            case Exists(path):
                return f"attribute_exists({self._path(path)})"
            case Missing(path):
                return f"attribute_not_exists({self._path(path)})"
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
        path = self._path(action.path)
        match action:
            case Set(_, value):
                return "SET", f"{path} = {self._value(value)}"
            case SetIfMissing(_, value):
                return "SET", f"{path} = if_not_exists({path}, {self._value(value)})"
            case Remove():
                return "REMOVE", path
            case Increment(_, by, start):
                return "SET", f"{path} = if_not_exists({path}, {self._value(start)}) + {self._value(by)}"
            case Append(_, values):
                return "SET", f"{path} = list_append({self._list_at(path)}, {self._value(list(values))})"
            case Prepend(_, values):
                return "SET", f"{path} = list_append({self._value(list(values))}, {self._list_at(path)})"
            case AddTo(_, members):
                return "ADD", f"{path} {self._value(members)}"
            case DiscardFrom(_, members):
                return "DELETE", f"{path} {self._value(members)}"
            case _:
                assert_never(action)

    def _list_at(self, path: str) -> str:
        return f"if_not_exists({path}, {self._value([])})"


def only_tags(*others: str) -> dict[str, Any]:
    """The arguments of a read that returns only the tag of an item and these other attributes."""
    names = {f"#t{number}": name for number, name in enumerate((TAG, *others))}
    return {"ProjectionExpression": ", ".join(names), "ExpressionAttributeNames": names}


def _spelt_out(condition: Condition) -> Condition:
    """An equivalent of a condition that DynamoDB rejects: no or too many choices, a reversed range, equal operands."""
    match condition:
        case IsIn(_, ()):
            return _NEVER
        case IsIn(operand, choices) if len(choices) > MAX_CHOICES:
            starts = range(0, len(choices), MAX_CHOICES)
            return Or(tuple(IsIn(operand, choices[start : start + MAX_CHOICES]) for start in starts))
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


def _check_limits(what: str, text: str, operator: re.Pattern[str], fix: str) -> None:
    size, operators = len(text), sum(1 for _ in operator.finditer(text))
    if size > MAX_BYTES:
        raise BadValue(f"the {what} is {size} bytes long as a DynamoDB expression, but {MAX_BYTES} are allowed: {fix}")
    if operators > MAX_OPERATORS:
        raise BadValue(
            f"the {what} has {operators} operators and functions, but DynamoDB allows {MAX_OPERATORS}: {fix}"
        )
