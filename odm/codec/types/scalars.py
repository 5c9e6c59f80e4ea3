"""Stored types without parts: bool, text, bytes, numbers, classes that are stored as their text, Enum and Literal."""

from collections.abc import Callable, Iterable, Mapping
from decimal import Context, Decimal, Inexact, InvalidOperation
from enum import Enum, Flag
from functools import cached_property
from typing import Any, ClassVar, Final
from uuid import UUID

from odm.codec.types.numbers import canonical, canonical_decimal, canonical_float, canonical_int
from odm.codec.types.stored import BINARY, BOOLEAN, NUMBER, TEXT, Kind, StoredType, Unfit, kind_of, unfit
from odm.expressions.nodes import Value

_INT64: Final = 2**63
_SAFE_INT: Final = 10**38
_SAFE_FLOAT: Final = 10**126
_PLACES: Final = Context(prec=256, traps=[Inexact, InvalidOperation])
"""Adds zeros to any stored number, which has at most 126 digits before the point and 130 behind it."""


class BoolType(StoredType):
    """A bool."""

    def dump(self, value: Any) -> Value:
        if type(value) is not bool:
            raise unfit("bool", value)
        return value


class StrType(StoredType):
    """Text."""

    @property
    def ordered(self) -> bool:
        return True

    def dump(self, value: Any) -> Value:
        if type(value) is not str:
            if not isinstance(value, str):
                raise unfit("str", value)
            value = str.__str__(value)
        if not value.isascii():
            check_text(value)
        return value


def check_text(value: str) -> None:
    """Raise `Unfit` when the text has no UTF-8 form."""
    try:
        value.encode()
    except UnicodeEncodeError:
        raise Unfit(
            "holds half of a surrogate pair, which is not text: repair the text, or store bytes", value
        ) from None


class BytesType(StoredType):
    """Bytes, from bytes or bytearray."""

    @property
    def ordered(self) -> bool:
        return True

    def dump(self, value: Any) -> Value:
        if not isinstance(value, bytes | bytearray):
            raise unfit("bytes", value)
        return bytes(value)


class NumberType(StoredType):
    """A number: stored canonical, and comparable with every other number."""

    @property
    def ordered(self) -> bool:
        return True

    def loose(self, value: Any) -> Value:
        return canonical(value)


class IntType(NumberType):
    """An int of up to 38 significant digits."""

    def dump(self, value: Any) -> Value:
        if type(value) is int and -_SAFE_INT < value < _SAFE_INT:
            return value
        if not isinstance(value, int) or isinstance(value, bool):
            raise unfit("int", value)
        return canonical_int(int(value))


class CounterType(IntType):
    """An int that `odm.Counter` marks: a signed 64-bit integer."""

    marker: ClassVar[str] = "a Counter"

    def dump(self, value: Any) -> Value:
        number = super().dump(value)
        if not -_INT64 <= number < _INT64:
            why = f"does not fit {self.marker}, which has 64 bits: remove the marker, or use a smaller number"
            raise Unfit(why, value)
        return number


class AggregateType(CounterType):
    """An int that `odm.Sum`, `odm.Min` or `odm.Max` marks: a signed 64-bit integer."""

    marker: ClassVar[str] = "an aggregate"


class DecimalType(NumberType):
    """A Decimal; an int is accepted too, because it reads back equal."""

    def dump(self, value: Any) -> Value:
        if isinstance(value, Decimal):
            return canonical_decimal(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise unfit("Decimal", value)
        return canonical_int(int(value))

    def load(self, value: Value) -> Any:
        return Decimal(value) if type(value) is int else value


class FixedDecimalType(DecimalType, dict=True):
    """A Decimal with ``decimal_places``: stored as any other, and read back with that many places.

    Attributes:
        places: the decimal places.
    """

    places: int

    @cached_property
    def _unit(self) -> Decimal:
        return Decimal((0, (1,), -self.places))

    def load(self, value: Value) -> Any:
        number = Decimal(value) if type(value) is int else value
        if type(number) is not Decimal:
            return number
        try:
            return number.quantize(self._unit, context=_PLACES)
        except ArithmeticError:  # it has more places, which pydantic reports
            return number

    def lax(self) -> bool:
        return False


class FloatType(NumberType):
    """A float; an int is accepted too if it reads back equal."""

    def dump(self, value: Any) -> Value:
        if isinstance(value, float):
            return canonical_float(value)
        if not isinstance(value, int) or isinstance(value, bool):
            raise unfit("float", value)
        number = canonical_int(int(value))
        if float(number) != number:
            raise Unfit("is an int that no float equals: declare the field as int", value)
        return number

    def load(self, value: Value) -> Any:
        return float(value) if type(value) in {int, Decimal} and abs(value) < _SAFE_FLOAT else value


class FloatBesideIntType(FloatType):
    """A float in a union with int: a whole number reads back as an int, so it must equal that int."""

    def dump(self, value: Any) -> Value:
        number = super().dump(value)
        if type(number) is int and number != value:
            raise Unfit(
                f"would come back as the int {number}, which is not equal to it: declare the field as float", value
            )
        return number


class TextType(StoredType):
    """A class whose values read back equal from their text: UUID, IP addresses, paths, URLs.

    Attributes:
        accepts: the class that values must be of.
        parse: text to value; ValueError for bad text.
    """

    accepts: type
    parse: Callable[[str], Any]

    @property
    def ordered(self) -> bool:
        return self.accepts is UUID  # an IP address, a path or a URL sorts differently as text

    def dump(self, value: Any) -> Value:
        if not isinstance(value, self.accepts):
            raise unfit(self.text, value)
        text = str(value)
        if not text.isascii():
            check_text(text)
        return text

    def load(self, value: Value) -> Any:
        return parsed(self.parse, value)


def parsed(parse: Callable[[str], Any], value: Value) -> Any:
    """The parsed text; the value unchanged if it cannot be parsed, which pydantic reports."""
    if type(value) is not str:
        return value
    try:
        return parse(value)
    except ValueError:
        return value


def plain_scalar(value: Any) -> Value:
    """The stored form of None, bool, numbers, str and bytes, which need no declared type. Raises `Unfit`."""
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, int | float | Decimal):
        return canonical(value)
    if isinstance(value, str):
        return STR.dump(value)
    if isinstance(value, bytes | bytearray):
        return bytes(value)
    raise Unfit(f"is of type {type(value).__name__}, whose type would be lost: declare a type for the field", value)


BOOL: Final = BoolType("bool", BOOLEAN)
STR: Final = StrType("str", TEXT)
BYTES: Final = BytesType("bytes", BINARY)
INT: Final = IntType("int", NUMBER)
COUNTER: Final = CounterType("int", NUMBER)
AGGREGATE: Final = AggregateType("int", NUMBER)
DECIMAL: Final = DecimalType("Decimal", NUMBER)
FLOAT: Final = FloatType("float", NUMBER)
FLOAT_BESIDE_INT: Final = FloatBesideIntType("float", NUMBER)


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
