"""Key types of numbers, truth values and UUIDs: fixed width, or prefix-free."""

import math
import struct
from collections.abc import Mapping
from decimal import MAX_EMAX, MAX_PREC, MIN_EMIN, Context, Decimal
from functools import cached_property
from typing import Any, ClassVar
from uuid import UUID

from odm.keys.base import ABOVE, BELOW, FIFTEENS, NINES, KeyType, Place, Refused, wrong_type
from odm.keys.shapes import DIGITS, HEX, Shape, like

_MOST_DIGITS = 26
"""One of 26 letters in front of the digits says how many there are, so that longer numbers sort behind."""

_LARGEST = 10**_MOST_DIGITS - 1
_EXACT = Context(prec=MAX_PREC, Emax=MAX_EMAX, Emin=MIN_EMIN, traps=[])
"""Shifts the point of any Decimal without rounding."""


def _whole(value: Any) -> int:
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type(value, "an int")
    return value


class IntKey(KeyType, dict=True):
    """An int from `lowest` to `highest`, zero-padded; counted from `lowest` where that is negative."""

    complement: ClassVar[Mapping[int, int] | None] = NINES
    lowest: int
    highest: int

    @cached_property
    def _offset(self) -> int:
        return min(self.lowest, 0)

    @cached_property
    def _pattern(self) -> str:
        return f"%0{len(str(self.highest - self._offset))}d"

    def encode(self, value: Any) -> str:
        if not self.lowest <= _whole(value) <= self.highest:
            raise Refused(f"it is outside {self.lowest} to {self.highest}, the bounds of the field; give one inside")
        return self._pattern % (int(value) - self._offset)

    def place(self, value: Any) -> Place:
        return _place_among_whole(self, value)

    def shapes(self) -> tuple[Shape, ...]:
        return (like(self._pattern % 0),)

    @property
    def encoding(self) -> str:
        counted = f" counted from {self._offset}" if self._offset else ""
        return f"int of {len(self._pattern % 0)} digits{counted}"


class BigIntKey(KeyType):
    """An int without bounds: a letter for sign and number of digits, then the digits (nines' complement below 0)."""

    complement: ClassVar[Mapping[int, int] | None] = (
        NINES
        | {ord("a") + i: ord("Z") - i for i in range(_MOST_DIGITS)}
        | {ord("Z") - i: ord("a") + i for i in range(_MOST_DIGITS)}
    )
    lowest: ClassVar[int] = -_LARGEST
    highest: ClassVar[int] = _LARGEST

    def encode(self, value: Any) -> str:
        if not -_LARGEST <= (value if type(value) is int else _whole(value)) <= _LARGEST:
            raise Refused(f"it has more than {_MOST_DIGITS} digits; use a str field for it")
        if value < 0:
            digits = f"{-value:d}"
            return chr(ord("[") - len(digits)) + digits.translate(NINES)
        digits = f"{value:d}"
        return chr(ord("`") + len(digits)) + digits

    def place(self, value: Any) -> Place:
        return _place_among_whole(self, value)

    def mirror(self, text: str) -> str:
        # The text of -v for the text of v. Zero is its own opposite; its complement would be a second zero, Z9.
        return text if text == "a0" else super().mirror(text)

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape(((("A", "Z"), ("a", "z")), DIGITS), DIGITS),)

    @property
    def encoding(self) -> str:
        return "int of any size"


class DecimalKey(KeyType):
    """A Decimal of at most `places` decimal places, as the int of that many places more."""

    complement: ClassVar[Mapping[int, int] | None] = NINES
    places: int
    scaled: IntKey | BigIntKey

    def encode(self, value: Any) -> str:
        scaled = self._scale(value)
        if not self.scaled.lowest <= scaled <= self.scaled.highest:
            low, high = (_EXACT.scaleb(Decimal(n), -self.places) for n in (self.scaled.lowest, self.scaled.highest))
            raise Refused(f"it is outside {low} to {high}, all that the field can hold; give one inside")
        if scaled != (whole := int(scaled)):
            raise Refused(f"it has more than {self.places} decimal places, those of the field; round it")
        return self.scaled.encode(whole)

    def place(self, value: Any) -> Place:
        scaled = self._scale(Decimal(repr(value)) if isinstance(value, float) else value)
        if scaled < self.scaled.lowest:
            return BELOW
        if scaled > self.scaled.highest:
            return ABOVE
        whole = math.floor(scaled)
        side = int(scaled != whole)
        return Place(self.scaled.encode(whole), side, side)

    def _scale(self, value: Any) -> Decimal:
        if not isinstance(value, Decimal):
            value = _from_int(value)
        if value.is_nan():
            raise Refused("it is not a number; give one")
        return _EXACT.scaleb(value, self.places)

    def mirror(self, text: str) -> str:
        return self.scaled.mirror(text)

    def shapes(self) -> tuple[Shape, ...]:
        return self.scaled.shapes()

    @property
    def encoding(self) -> str:
        return f"Decimal of {self.places} places as {self.scaled.encoding}"


def _from_int(value: Any) -> Decimal:
    if not isinstance(value, int) or isinstance(value, bool):
        raise wrong_type(value, "a Decimal or an int")
    return Decimal(value)


class FloatKey(KeyType):
    """A finite float as the 16 hexadecimal digits of its IEEE 754 bits, made to sort; -0.0 is 0.0."""

    complement: ClassVar[Mapping[int, int] | None] = FIFTEENS

    def encode(self, value: Any) -> str:
        place = self.place(value)
        if not place.text:
            raise Refused("it is not finite; give a finite number")
        if place.first:
            raise Refused("no float is exactly this int; give a float")
        return place.text

    def place(self, value: Any) -> Place:
        if not isinstance(value, float | int) or isinstance(value, bool):
            raise wrong_type(value, "a float")
        if value != value:  # noqa: PLR0124 - the one test for NaN that takes an int of any size
            raise Refused("it is not a number; give one")
        try:
            near = float(value)
        except OverflowError:
            return ABOVE if value > 0 else BELOW
        if math.isinf(near):
            return ABOVE if near > 0 else BELOW
        side = (value > near) - (value < near)
        return Place(_ordered_bits(near), side, side)

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape((HEX,) * 16),)

    @property
    def encoding(self) -> str:
        return "float"


def _place_among_whole(key: IntKey | BigIntKey, value: Any) -> Place:
    """Where a number stands among whole ones: ``level > 1.5`` is ``level >= 2``."""
    if not isinstance(value, Decimal | float):
        value = _whole(value)
    if value != value:  # noqa: PLR0124 - the test for NaN that all numbers have
        raise Refused("it is not a number; give one")
    if value < key.lowest:
        return BELOW
    if value > key.highest:
        return ABOVE
    whole = math.floor(value)
    side = int(value != whole)
    return Place(key.encode(whole), side, side)


def _ordered_bits(value: float) -> str:
    (bits,) = struct.unpack(">Q", struct.pack(">d", value + 0.0))  # + 0.0 makes -0.0 positive
    return f"{bits ^ (0xFFFFFFFFFFFFFFFF if bits >> 63 else 1 << 63):016x}"


class BoolKey(KeyType):
    """0 or 1."""

    complement: ClassVar[Mapping[int, int] | None] = str.maketrans("01", "10")

    def encode(self, value: Any) -> str:
        if not isinstance(value, bool):
            raise wrong_type(value, "a bool")
        return "1" if value else "0"

    def place(self, value: Any) -> Place:
        return Place(self.encode(value))

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape(((("0", "1"),),)),)

    @property
    def encoding(self) -> str:
        return "bool"


class UuidKey(KeyType):
    """A UUID in its canonical text."""

    complement: ClassVar[Mapping[int, int] | None] = FIFTEENS

    def encode(self, value: Any) -> str:
        if not isinstance(value, UUID):
            raise wrong_type(value, "a UUID")
        return str(value)

    def place(self, value: Any) -> Place:
        return Place(self.encode(value))

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape(tuple(HEX if char == "0" else (("-", "-"),) for char in str(UUID(int=0)))),)

    @property
    def encoding(self) -> str:
        return "UUID"
