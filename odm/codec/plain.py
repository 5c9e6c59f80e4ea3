"""Values of undeclared type: only values that read back equal without a declared type can be stored."""

from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from odm.codec.containers import mapped
from odm.codec.faults import EMPTY_KEY, Unfit
from odm.codec.numbers import canonical_float
from odm.codec.scalars import FLOAT, FLOAT_BESIDE_INT, STR, plain_scalar
from odm.codec.stored import BINARY, EVERY, ORDERED, SET, Part, StoredType, kind_of
from odm.expressions.nodes import Value

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
