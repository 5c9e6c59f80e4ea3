"""Stored types with few values: Enum and Literal, stored by value."""

from collections.abc import Iterable, Mapping
from enum import Enum, Flag
from typing import Any

from odm.codec.faults import Unfit
from odm.codec.scalars import plain_scalar
from odm.codec.stored import Kind, StoredType, kind_of, unfit
from odm.expressions.nodes import Value


class EnumType(StoredType, eq=False):
    """An Enum, by value.

    Attributes:
        by_value: the model says ``use_enum_values``, so that its fields hold values instead of members.
        stored: member to stored value.
        loaded: type and stored value to member; the type, because 1 equals True.
    """

    cls: type[Enum]
    by_value: bool
    stored: Mapping[Enum, Value]
    loaded: Mapping[tuple[type, Value], Enum]

    @property
    def ordered(self) -> bool:
        return True

    def dump(self, value: Any) -> Value:
        if isinstance(value, self.cls):
            # A combination of flags is not a member.
            return self.stored[value] if value in self.stored else plain_scalar(value.value)
        # A plain value is accepted only if it reads back equal: "open" of a str Enum.
        if self.by_value or issubclass(self.cls, type(value)):
            stored = plain_scalar(value)
            if (type(stored), stored) in self.loaded:
                return stored
        raise unfit(self.text, value)

    def load(self, value: Value) -> Any:
        if kind_of(value) not in self.kinds:
            return value
        member = self.loaded.get((type(value), value))
        if member is None and issubclass(self.cls, Flag):
            return _combined(self.cls, value)
        return value if member is None else member

    def allows(self, stored: Value) -> bool:
        """Whether a stored value is that of a member or of a combination of flags."""
        return (type(stored), stored) in self.loaded or issubclass(self.cls, Flag)

    @property
    def values(self) -> list[Value]:
        """The stored values, for messages."""
        return list(self.stored.values())

    def loose(self, value: Any) -> Value:
        if isinstance(value, self.cls):
            return self.dump(value)
        stored = plain_scalar(value)
        if (type(stored), stored) not in self.loaded and not issubclass(self.cls, type(value)):
            raise unfit(self.text, value)
        return stored

    def lax(self) -> bool:
        return False  # pydantic looks members up by value, which may be stored as another type: 1.0 as 1


def enum_type(cls: type[Enum], *, by_value: bool) -> EnumType:
    """The stored type of an Enum; raises `Unfit` for a member whose value cannot be stored."""
    stored = {member: plain_scalar(member.value) for member in cls.__members__.values()}
    members = {(type(value), value): member for member, value in stored.items()}
    return EnumType(cls.__name__, _kinds(stored.values()), cls, by_value, stored, members)


def _combined(cls: type[Flag], value: int) -> Any:
    try:
        return cls(value)
    except ValueError:
        return value


class LiteralType(StoredType, eq=False):
    """One of some values; an Enum member among them is stored by its value.

    Attributes:
        stored: type and value to the stored value; the type, because 1 equals True.
        loaded: type and stored value to the value.
    """

    stored: Mapping[tuple[type, Any], Value]
    loaded: Mapping[tuple[type, Value], Any]

    @property
    def ordered(self) -> bool:
        return True

    def dump(self, value: Any) -> Value:
        try:
            return self.stored[type(value), value]
        except (KeyError, TypeError):  # TypeError: it has no hash
            raise Unfit(f"is not allowed by {self.text}: give one of its values", value) from None

    def load(self, value: Value) -> Any:
        return self.loaded.get((type(value), value), value) if kind_of(value) in self.kinds else value

    def allows(self, stored: Value) -> bool:
        """Whether it is the stored form of one of the values."""
        return (type(stored), stored) in self.loaded

    @property
    def values(self) -> list[Value]:
        """The stored values, for messages."""
        return list(self.stored.values())

    def loose(self, value: Any) -> Value:
        stored = plain_scalar(value.value if isinstance(value, Enum) else value)
        if kind_of(stored) not in self.kinds:
            raise unfit(self.text, value)
        return stored

    def lax(self) -> bool:
        return not any(isinstance(value, Enum) for value in self.loaded.values())


def literal_type(values: tuple[Any, ...]) -> LiteralType:
    """The stored type of a Literal; raises `Unfit` for a value that cannot be stored."""
    stored = {(type(v), v): plain_scalar(v.value if isinstance(v, Enum) else v) for v in values}
    loaded = {(type(form), form): value for (_, value), form in stored.items()}
    return LiteralType(f"Literal[{', '.join(map(repr, values))}]", _kinds(stored.values()), stored, loaded)


def _kinds(values: Iterable[Value]) -> frozenset[Kind]:
    return frozenset(kind for value in values if (kind := kind_of(value)) is not None)
