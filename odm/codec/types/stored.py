"""`StoredType`, the contract of all stored types; faults of values that do not fit; values that cannot be read.

Types raise `Unfit` without knowing the entity. `EntityCodec` and the lowering convert it to a `BadValue` that names
the entity, the path and the value.

`dump` is strict about the Python type, so that no value of a wrong type is written. `load` is tolerant: it returns a
value that it cannot read unchanged, and pydantic reports it with the field's name. Instances are shared and have no
state of a call. A fault in a part of a value carries the path to the part (`Unfit.under`).
"""

import secrets
from abc import abstractmethod
from collections.abc import Callable, Iterable
from decimal import Decimal
from difflib import get_close_matches
from typing import Any, Final, Literal, TypeAlias

from odm.errors import BadValue, brief
from odm.expressions.nodes import Path, Value
from odm.immutable import Abstract, Immutable

NOTHING: Final = object()
"""Stands for "there is no value" where None is a value."""

EMPTY_KEY: Final = "has an empty key, which DynamoDB does not store: give it a name"

_LONGEST = 80


class Unfit(Exception):
    """A value that cannot be stored.

    Attributes:
        reason: follows the value in the message: "is not of type str: ...".
        value: the value at fault, or `NOTHING`.
        path: from the given value to the one at fault.
    """

    def __init__(self, reason: str, value: Any = NOTHING) -> None:
        super().__init__(reason)
        self.reason = reason
        self.value = value
        self.path: tuple[str | int, ...] = ()

    def under(self, segment: str | int) -> "Unfit":
        """The same fault, with its path starting one level higher."""
        self.path = (segment, *self.path)
        return self

    def bad_value(self, owner: str) -> BadValue:
        """The public error; ``owner`` is the entity's name."""
        where = f"{owner}.{Path(self.path)}" if self.path else owner
        prefix = "" if self.value is NOTHING else f"{show(self.value)} "
        return BadValue(f"{where}: {prefix}{self.reason}")


def show(value: object) -> str:
    """The value for a message, cut to a readable length."""
    text = brief(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}…"


def nearest(name: str, names: Iterable[str]) -> str:
    """A hint for an unknown name: "did you mean 'total'?", or all names."""
    known = list(names)
    near = get_close_matches(name, known, 3)
    if near:
        return f"did you mean {' or '.join(map(repr, near))}?"
    return f"there is {', '.join(known) or 'none'}"


_MARK: Final = secrets.token_bytes(16)
"""Only this process makes a value with it, and no request contains one."""


def unreadable_cell(reason: str, cell: bytes) -> Value:
    """Stands for a cell that Bigtable's encoding of a field cannot read, and whose field takes values of any type."""
    return frozenset({_MARK + b"r" + reason.encode(errors="replace"), _MARK + b"c" + cell})


def refusal_of(stored: Value) -> tuple[str, bytes] | None:
    """The reason and the bytes of `unreadable_cell`; None: it is another value."""
    if type(stored) is not frozenset:
        return None
    parts = {part[len(_MARK) :][:1]: part for part in stored if isinstance(part, bytes) and part.startswith(_MARK)}
    if parts.keys() != {b"r", b"c"}:
        return None
    start = len(_MARK) + 1
    return parts[b"r"][start:].decode(), parts[b"c"][start:]


class Unreadable:
    """Stands for a stored value that has another form, so that validation refuses it.

    Args:
        value: the stored value.
        reason: what is wrong with it, for the message; "": the reason that pydantic gives.
    """

    def __init__(self, value: Value, reason: str = "") -> None:
        self.value = value
        self.reason = reason

    def __repr__(self) -> str:
        return repr(self.value)


Kind: TypeAlias = Literal["NULL", "BOOL", "N", "S", "B", "L", "M", "SET"]

NULL: Final[frozenset[Kind]] = frozenset({"NULL"})
BOOLEAN: Final[frozenset[Kind]] = frozenset({"BOOL"})
NUMBER: Final[frozenset[Kind]] = frozenset({"N"})
TEXT: Final[frozenset[Kind]] = frozenset({"S"})
BINARY: Final[frozenset[Kind]] = frozenset({"B"})
LIST: Final[frozenset[Kind]] = frozenset({"L"})
MAP: Final[frozenset[Kind]] = frozenset({"M"})
SET: Final[frozenset[Kind]] = frozenset({"SET"})
ORDERED: Final = NUMBER | TEXT | BINARY
"""Kinds that have an order; the members of a set are of one of them."""
EVERY: Final = NULL | BOOLEAN | ORDERED | LIST | MAP | SET

_KINDS: Final[dict[type, Kind]] = {
    type(None): "NULL",
    bool: "BOOL",
    int: "N",
    Decimal: "N",
    str: "S",
    bytes: "B",
    list: "L",
    dict: "M",
    frozenset: "SET",
}


def kind_of(value: Value) -> Kind | None:
    """The kind of a stored value; None for any other value."""
    return _KINDS.get(type(value))


class StoredType(Abstract):
    """How values of one Python type are stored.

    Attributes:
        text: the type, for messages.
        kinds: the kinds of stored values that it makes.
    """

    text: str
    kinds: frozenset[Kind]

    @abstractmethod
    def dump(self, value: Any) -> Value:
        """The stored form; raises `Unfit` when the value is not of this type."""

    def load(self, value: Value) -> Any:
        """The Python value; a value that is not a stored form of this type is returned unchanged."""
        return value

    def loose(self, value: Any) -> Value:
        """The stored form of a value to compare with, which may be of any comparable type; raises `Unfit`."""
        return self.dump(value)

    def lax(self) -> bool:
        """Whether pydantic's lax validation makes an equal value from the stored form without `load`."""
        return True

    @property
    def ordered(self) -> bool:
        """Whether stored text, numbers and bytes sort as the values do; without it, no condition compares order."""
        return False

    def child(self, segment: str | int) -> "Part":
        """The part that a path segment names; raises `Unfit`."""
        raise Unfit(f"is of type {self.text} and has no parts, so [{segment!r}] leads nowhere")

    @property
    def element(self) -> "StoredType | None":
        """The type of the elements of a list or set, for ``contains``."""
        return None


class Part(Immutable):
    """The part that one segment of a path names.

    Attributes:
        segment: the stored name or the position.
        default: of the field, or `NOTHING`.
        required: the whole could not be read without it.
        factory: the default factory, if it needs no other fields; or None.
        frozen: a field with ``frozen=True``.
        keeps_null: None is stored as NULL.
    """

    segment: str | int
    type: StoredType
    default: Any = NOTHING
    required: bool = False
    factory: Callable[[], Any] | None = None
    frozen: bool = False
    keeps_null: bool = False


class WrongType(Unfit):
    """A value of another type; another member of a union may accept it."""


def unfit(expected: str, value: object) -> Unfit:
    """The fault of a value of another type."""
    return WrongType(
        f"(of type {type(value).__name__}) is not of type {expected}: give a value of the declared type", value
    )
