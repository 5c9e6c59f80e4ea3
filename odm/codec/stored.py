"""`StoredType`: how the values of one Python type are stored, compared and read back.

`dump` is strict about the Python type, so that no value of a wrong type is written. `load` is tolerant: it returns a
value that it cannot read unchanged, and pydantic reports it with the field's name. Instances are shared and have no
state of a call. A fault in a part of a value carries the path to the part (`Unfit.under`).
"""

from abc import abstractmethod
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

from odm.codec.faults import NOTHING, Unfit
from odm.expressions.nodes import Value
from odm.immutable import Abstract, Immutable

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


def unfit(wanted: str, value: object) -> Unfit:
    """The fault of a value of another type."""
    return WrongType(
        f"(of type {type(value).__name__}) is not of type {wanted}: give a value of the declared type", value
    )
