"""Stored types with parts but without declared fields: lists, tuples, dicts, sets; and values of undeclared type."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from odm.codec.types.numbers import canonical_float
from odm.codec.types.scalars import FLOAT, FLOAT_BESIDE_INT, STR, plain_scalar
from odm.codec.types.stored import (
    BINARY,
    EMPTY_KEY,
    EVERY,
    LIST,
    MAP,
    ORDERED,
    SET,
    Part,
    StoredType,
    Unfit,
    kind_of,
    unfit,
)
from odm.expressions.nodes import Value


def mapped(convert: Callable[[Any], Any], values: Any) -> list[Any]:
    """All values converted; a fault carries the position of its value."""
    done: list[Any] = []
    try:
        for value in values:
            done.append(convert(value))  # noqa: PERF401  # its length is the position of a fault
    except Unfit as fault:
        raise fault.under(len(done)) from None
    return done


def _position(segment: str | int, text: str) -> int:
    if not isinstance(segment, int) or segment < 0:
        raise Unfit(f"is of type {text}, whose parts have positions from 0, so [{segment!r}] leads nowhere")
    return segment


class ListType(StoredType):
    """A list, or a tuple of any length."""

    item: StoredType
    of: type[Any]

    def dump(self, value: Any) -> Value:
        if not isinstance(value, self.of):
            raise unfit(self.text, value)
        return mapped(self.item.dump, value)

    def load(self, value: Value) -> Any:
        return self.of(map(self.item.load, value)) if type(value) is list else value

    def loose(self, value: Any) -> Value:
        if not isinstance(value, list | tuple):
            raise unfit(self.text, value)
        return mapped(self.item.loose, value)

    def lax(self) -> bool:
        return self.item.lax()

    def child(self, segment: str | int) -> Part:
        return Part(_position(segment, self.text), self.item)

    @property
    def element(self) -> StoredType:
        return self.item


def list_type(item: StoredType) -> ListType:
    """The stored type of ``list[item]``."""
    return ListType(f"list[{item.text}]", LIST, item, list)


def tuple_type(item: StoredType) -> ListType:
    """The stored type of ``tuple[item, ...]``."""
    return ListType(f"tuple[{item.text}, ...]", LIST, item, tuple)


class FixedTupleType(StoredType):
    """A tuple of fixed length, or a NamedTuple, as a list.

    Attributes:
        of: tuple, or the NamedTuple class.
    """

    items: tuple[StoredType, ...]
    of: type[Any]

    def dump(self, value: Any) -> Value:
        if not isinstance(value, self.of) or len(value) != len(self.items):
            raise unfit(self.text, value)
        return mapped(lambda pair: pair[0].dump(pair[1]), zip(self.items, value, strict=True))

    def load(self, value: Value) -> Any:
        if type(value) is not list or len(value) != len(self.items):
            return value
        return tuple(item.load(part) for item, part in zip(self.items, value, strict=True))

    def lax(self) -> bool:
        return all(item.lax() for item in self.items)

    def child(self, segment: str | int) -> Part:
        position = _position(segment, self.text)
        if position >= len(self.items):
            raise Unfit(f"is of type {self.text} and has {len(self.items)} parts, so [{segment}] leads nowhere")
        return Part(position, self.items[position], required=True)


class DictType(StoredType):
    """A dict with text keys."""

    key: StoredType
    item: StoredType

    def dump(self, value: Any) -> Value:
        return self._each(self.item.dump, value)

    def load(self, value: Value) -> Any:
        if type(value) is not dict:
            return value
        return {self.key.load(key): self.item.load(part) for key, part in value.items()}

    def loose(self, value: Any) -> Value:
        return self._each(self.item.loose, value)

    def _each(self, convert: Callable[[Any], Value], value: Any) -> Value:
        if not isinstance(value, dict):
            raise unfit(self.text, value)
        stored: dict[str, Value] = {}
        key: Any = None
        try:
            for key, part in value.items():
                stored[self.key.dump(key)] = convert(part)
        except Unfit as fault:
            raise fault.under(str(key)) from None
        if "" in stored:
            raise Unfit(EMPTY_KEY, value)
        return stored

    def lax(self) -> bool:
        return self.key.lax() and self.item.lax()

    def child(self, segment: str | int) -> Part:
        if not isinstance(segment, str):
            raise Unfit(f"is of type {self.text}, whose keys are text, so [{segment!r}] leads nowhere")
        return Part(self.key.loose(segment), self.item)


def dict_type(key: StoredType, item: StoredType) -> DictType:
    """The stored type of ``dict[key, item]``."""
    return DictType(f"dict[{key.text}, {item.text}]", MAP, key, item)


class SetType(StoredType):
    """A set or frozenset of text, numbers or bytes, stored as a non-empty frozenset: there is no stored empty set."""

    item: StoredType
    of: type[Any]

    def dump(self, value: Any) -> Value:
        return self._each(self.item.dump, value)

    def load(self, value: Value) -> Any:
        return self.of(map(self.item.load, value)) if type(value) is frozenset else value

    def loose(self, value: Any) -> Value:
        return self._each(self.item.loose, value)

    def _each(self, convert: Callable[[Any], Value], value: Any) -> Value:
        if not isinstance(value, set | frozenset):
            raise unfit(self.text, value)
        if not value:
            raise Unfit("is an empty set, which only a whole field can be, because it is stored as absence", value)
        return frozenset(map(convert, value))

    def lax(self) -> bool:
        return self.item.lax()

    @property
    def element(self) -> StoredType:
        return self.item


def set_type(item: StoredType, of: type[Any]) -> SetType:
    """The stored type of a set or frozenset; ``of`` is its class."""
    return SetType(f"{of.__name__}[{item.text}]", SET, item, of)


_SCALARS: Final = frozenset({type(None), bool, int, Decimal, str, bytes, bytearray})


class AnyType(StoredType):
    """A value of undeclared type."""

    @property
    def ordered(self) -> bool:
        return True

    def dump(self, value: Any) -> Value:
        return _plain(value, _equal_number)

    def loose(self, value: Any) -> Value:
        return _plain(value, canonical_float)

    def child(self, segment: str | int) -> Part:
        return Part(segment, self)

    @property
    def element(self) -> StoredType:
        return self


class JsonType(AnyType):
    """`pydantic.JsonValue`: its numbers are int and float, so, unlike with Any, floats read back as floats."""

    def dump(self, value: Any) -> Value:
        stored = _plain(value, FLOAT_BESIDE_INT.dump)
        _check_json(value)
        return stored

    def load(self, value: Value) -> Any:
        if type(value) is list:
            return [self.load(part) for part in value]
        if type(value) is dict:
            return {key: self.load(part) for key, part in value.items()}
        return FLOAT.load(value) if type(value) is Decimal else value

    def lax(self) -> bool:
        return False  # pydantic refuses a Decimal here


def _equal_number(value: float) -> Value:
    number = canonical_float(value)
    if number != value:
        raise Unfit(
            f"would come back as {number!r}, which is not equal to it: declare a type for the field; in place of Any, "
            "pydantic.JsonValue reads numbers with decimals back as floats",
            value,
        )
    return number


def _plain(value: Any, of_float: Callable[[float], Value]) -> Value:
    kind = type(value)
    if kind in _SCALARS:
        return plain_scalar(value)
    if kind is float:
        return of_float(value)
    if kind is list:
        return mapped(lambda part: _plain(part, of_float), value)
    if kind is dict:
        return _plain_dict(value, of_float)
    if kind in {set, frozenset}:
        return _plain_set(value, of_float)
    raise Unfit(f"is of type {kind.__name__}, which would not come back as one: declare a type for the field", value)


def _plain_dict(value: dict[Any, Any], of_float: Callable[[float], Value]) -> Value:
    stored: dict[str, Value] = {}
    for key, part in value.items():
        if type(key) is not str:
            raise Unfit("is a key that is not text: declare a type for the field, such as dict[str, ...]", key)
        try:
            stored[STR.dump(key)] = _plain(part, of_float)
        except Unfit as fault:
            raise fault.under(key) from None
    if "" in stored:
        raise Unfit(EMPTY_KEY, value)
    return stored


def _plain_set(value: Any, of_float: Callable[[float], Value]) -> Value:
    stored = frozenset(_plain(member, of_float) for member in value)
    kinds = {kind_of(member) for member in stored}
    if len(kinds) != 1 or not kinds <= ORDERED:
        why = "is a set that is empty, or is not all text, all numbers or all bytes: declare a type for the field"
        raise Unfit(why, value)
    return stored


def _check_json(value: Any) -> None:
    if isinstance(value, list):
        mapped(_check_json, value)
    elif isinstance(value, dict):
        mapped(_check_json, value.values())
    elif not isinstance(value, str | int | float | None):
        raise Unfit(f"is of type {type(value).__name__}, which is not JSON: declare a type for the field", value)


ANY: Final = AnyType("Any", EVERY)
JSON: Final = JsonType("JsonValue", EVERY - BINARY - SET)
