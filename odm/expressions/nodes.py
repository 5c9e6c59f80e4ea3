"""The expression language as data: paths, conditions and actions.

These nodes only hold values and are frozen. They stand at two levels of the flow, with the same classes:

* as the user writes them: paths begin with a *field* name and know the entity that they came from,
  values are Python objects;
* *lowered* (`odm.codec`), as backends see them: paths begin with the *stored* name and have no owner,
  values are stored values (`Value`).

Code that consumes nodes uses one ``match`` that ends in ``assert_never``.
"""

from collections.abc import Callable, Mapping
from datetime import date
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, NoReturn, TypeAlias

from odm.errors import brief
from odm.immutable import Immutable

Value: TypeAlias = Any
"""A stored value: None, bool, int, Decimal (canonical, never integral: those are int), str, bytes,
list of values, dict of str to value, or a non-empty frozenset of str, numbers or bytes."""

Item: TypeAlias = Mapping[str, Value]
"""A stored item: stored names to values, without the key and index attributes of a backend."""

Number: TypeAlias = int | Decimal

Comparator: TypeAlias = Literal["=", "<>", "<", "<=", ">", ">="]


class Path(Immutable):
    """Where a value stands in an item: a name, then map keys (str) and list positions (int)."""

    segments: tuple[str | int, ...]
    owner: type | None = None

    @property
    def root(self) -> str:
        """The top-level attribute."""
        return str(self.segments[0])

    def __str__(self) -> str:
        text = self.root
        for segment in self.segments[1:]:
            text += f"[{segment}]" if isinstance(segment, int) else f".{segment}"
        return text

    __repr__ = __str__


class Const(Immutable):
    """A value given by the caller."""

    value: Value

    def __str__(self) -> str:
        return text_of(self.value)


class Size(Immutable):
    """The size of an attribute: UTF-16 units of a string, bytes, or number of elements."""

    path: Path

    def __str__(self) -> str:
        return f"size({self.path})"


Operand: TypeAlias = Path | Size | Const


class _Readable:
    """Its repr is its text."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)


class Condition(_Readable):
    """The base of all conditions: combines with ``&``, ``|`` and ``~`` (or `odm.not_`), and is never a truth value."""

    __slots__ = ()

    def __and__(self, other: "Condition | bool") -> "Condition":
        return And((*_parts(self, And), *_parts(other, And))) if isinstance(other, Condition) else NotImplemented

    def __or__(self, other: "Condition | bool") -> "Condition":
        return Or((*_parts(self, Or), *_parts(other, Or))) if isinstance(other, Condition) else NotImplemented

    def __invert__(self) -> "Condition":
        return Not(self)

    if TYPE_CHECKING:
        # To type checkers a comparison of fields is a bool, and may stand on either side.
        def __rand__(self, other: bool) -> "Condition": ...
        def __ror__(self, other: bool) -> "Condition": ...

    def __bool__(self) -> NoReturn:
        raise TypeError(
            f"the condition {self} has no truth value of its own: combine conditions with & and | "
            "(each in parentheses) instead of and/or, negate with not_(...), and write between(field, low, high) "
            "instead of low < field < high, is_in(field, [...]) instead of field in [...], and contains(field, value) "
            "instead of value in field"
        )


class Compare(Condition, Immutable, dict=True):
    """``left op right``; false when a side is absent or of another type, except ``<>``, which is then true."""

    op: Comparator
    left: Operand
    right: Operand

    def __str__(self) -> str:
        return f"{self.left} {self.op} {self.right}"


class Between(Condition, Immutable, dict=True):
    """``low <= operand <= high``, both ends included."""

    operand: Operand
    low: Operand
    high: Operand

    def __str__(self) -> str:
        return f"{self.operand} between {self.low} and {self.high}"


class IsIn(Condition, Immutable, dict=True):
    """The operand equals one of the choices."""

    operand: Operand
    choices: tuple[Const, ...]

    def __str__(self) -> str:
        return f"{self.operand} in ({', '.join(map(str, self.choices))})"


class StartsWith(Condition, Immutable, dict=True):
    """A string (or bytes) attribute begins with the prefix."""

    path: Path
    prefix: Const

    def __str__(self) -> str:
        return f"starts_with({self.path}, {self.prefix})"


class Contains(Condition, Immutable, dict=True):
    """A string holds the substring, or a list or set holds the element."""

    path: Path
    value: Const

    def __str__(self) -> str:
        return f"contains({self.path}, {self.value})"


class Exists(Condition, Immutable, dict=True):
    """The attribute exists (a stored NULL exists)."""

    path: Path

    def __str__(self) -> str:
        return f"exists({self.path})"


class Missing(Condition, Immutable, dict=True):
    """The attribute does not exist."""

    path: Path

    def __str__(self) -> str:
        return f"missing({self.path})"


class And(Condition, Immutable, dict=True):
    """All of the conditions hold (two or more)."""

    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        return " and ".join(_grouped(c) for c in self.conditions)


class Or(Condition, Immutable, dict=True):
    """At least one of the conditions holds (two or more)."""

    conditions: tuple[Condition, ...]

    def __str__(self) -> str:
        return " or ".join(_grouped(c) for c in self.conditions)


class Not(Condition, Immutable, dict=True):
    """The condition does not hold."""

    condition: Condition

    def __str__(self) -> str:
        return f"not {_grouped(self.condition)}"


AnyCondition: TypeAlias = Compare | Between | IsIn | StartsWith | Contains | Exists | Missing | And | Or | Not


class Set(_Readable, Immutable):
    """Give the attribute this value.

    ``nested`` is for `odm.set_fields`: a dict sets the members that it names, and a missing parent is created.
    """

    path: Path
    value: Value
    nested: bool = False

    def __str__(self) -> str:
        return _call("set_", self.path, self.value)


class SetIfMissing(_Readable, Immutable):
    """Give the attribute this value unless it is there."""

    path: Path
    value: Value

    def __str__(self) -> str:
        return _call("set_if_missing", self.path, self.value)


class Remove(_Readable, Immutable):
    """Take the attribute away (no error when it is absent)."""

    path: Path

    def __str__(self) -> str:
        return _call("remove", self.path)


class Increment(_Readable, Immutable):
    """Add to a number; an absent attribute counts as ``start``."""

    path: Path
    by: Number
    start: Number = 0

    def __str__(self) -> str:
        return _call("increment", self.path, self.by)


class Append(_Readable, Immutable):
    """Put elements at the end of a list; an absent list counts as ``start``."""

    path: Path
    values: tuple[Value, ...]
    start: tuple[Value, ...] = ()

    def __str__(self) -> str:
        return _call("append", self.path, *self.values)


class Prepend(_Readable, Immutable):
    """Put elements at the front of a list; an absent list counts as ``start``."""

    path: Path
    values: tuple[Value, ...]
    start: tuple[Value, ...] = ()

    def __str__(self) -> str:
        return _call("prepend", self.path, *self.values)


class AddTo(_Readable, Immutable):
    """Add members to a set; an absent set counts as empty."""

    path: Path
    members: frozenset[Value]

    def __str__(self) -> str:
        return _call("add_to", self.path, *sorted(self.members, key=repr))


class DiscardFrom(_Readable, Immutable):
    """Take members out of a set; the last one out removes the attribute."""

    path: Path
    members: frozenset[Value]

    def __str__(self) -> str:
        return _call("discard_from", self.path, *sorted(self.members, key=repr))


class AddValue(_Readable, Immutable):
    """Add a value to an aggregate; an absent attribute becomes the value.

    ``keeps`` is which of the two values remains. None, as the user writes it: the field's marker decides.
    """

    path: Path
    value: int
    keeps: Literal["min", "max"] | None = None

    def over(self, old: Value) -> Value:
        """The attribute's value afterwards, if it has this number now."""
        return (min if self.keeps == "min" else max)(old, self.value)

    def __str__(self) -> str:
        return _call("add_value", self.path, self.value)


Action: TypeAlias = Set | SetIfMissing | Remove | Increment | Append | Prepend | AddTo | DiscardFrom | AddValue


def text_of(value: object) -> str:
    """A value for messages: datetimes and numbers as text, other values as their repr, cut to a readable length."""
    if isinstance(value, set | frozenset):  # in an order that does not change from run to run
        return f"{{{', '.join(sorted(map(text_of, value)))}}}"
    return str(value) if isinstance(value, date | Decimal) else brief(value)


def paths(node: object) -> list[Path]:
    """Every path that a condition names, in order."""
    if isinstance(node, Path):
        return [node]
    if isinstance(node, tuple):
        return [path for part in node for path in paths(part)]
    if isinstance(node, Condition | Size):
        names: tuple[str, ...] = getattr(node, "__struct_fields__")  # noqa: B009  # each node has it
        return [path for name in names for path in paths(getattr(node, name))]
    return []


def roots_of(condition: Condition | None) -> frozenset[str]:
    """The attributes that a condition names. The condition keeps them, because each page and each attempt asks."""
    if condition is None:
        return frozenset()
    kept = condition.__dict__
    roots: frozenset[str] | None = kept.get("roots")
    if roots is None:
        roots = kept["roots"] = frozenset([path.root for path in paths(condition)])
    return roots


def with_paths(node: Any, change: Callable[[Path], Path]) -> Any:
    """A condition or an action with each of its paths changed: the one transformer, which knows no class of nodes.

    Args:
        node: a condition, an action, or a part of one.
        change: returns the new path.
    """
    if isinstance(node, Path):
        return change(node)
    if isinstance(node, tuple):
        return tuple([with_paths(part, change) for part in node])
    if isinstance(node, Condition | Size | Action):
        names: tuple[str, ...] = getattr(node, "__struct_fields__")  # noqa: B009  # each node has it
        return type(node)(*[with_paths(getattr(node, name), change) for name in names])
    return node


def _call(word: str, path: Path, *values: object) -> str:
    return f"{word}({', '.join([str(path), *map(text_of, values)])})"


def _parts(condition: Condition, kind: type[And] | type[Or]) -> tuple[Condition, ...]:
    return condition.conditions if isinstance(condition, kind) else (condition,)


def _grouped(condition: Condition) -> str:
    return f"({condition})" if isinstance(condition, And | Or) else str(condition)
