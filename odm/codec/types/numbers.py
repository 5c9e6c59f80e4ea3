"""Canonical numbers: one stored form for equal numbers, whatever type they came from.

A stored number is an int, or a Decimal that is not integral and has no trailing zeros; it has at most 38 significant
digits and a magnitude from 1E-130 to 9.99…E+125. These are DynamoDB's bounds (AWS: DynamoDB data types). They
apply to every backend, so that every item fits every backend.
"""

from collections.abc import Callable
from decimal import Context, Decimal, Inexact, InvalidOperation, Overflow, Subnormal, Underflow
from typing import Final

from odm.codec.types.stored import Unfit
from odm.expressions.nodes import Number

DIGITS: Final = 38
_PLAIN_INT: Final = 10**DIGITS
_ABOVE_ALL: Final = 10**126
_FLOAT_INT: Final = 2.0**53
_CANON: Final = Context(
    prec=DIGITS, Emin=-130, Emax=125, traps=[Inexact, Overflow, Underflow, Subnormal, InvalidOperation]
)

exact_decimal: Final[Callable[[str], Decimal]] = Context(
    prec=4300, Emin=-4300, Emax=4300, traps=[Inexact, Overflow, Underflow, InvalidOperation]
).create_decimal
"""The exact Decimal of a text that others wrote; raises ArithmeticError for more than 4300 digits, or such an exponent.

Without a bound, the eleven characters of ``1e999999999`` become an int of a billion digits, which takes hours. The
bound is that of Python for the text of an int (sys.set_int_max_str_digits).
"""

_TOO_LONG: Final = f"has more than {DIGITS} significant digits: round it before it is stored"
_TOO_FAR: Final = "lies outside the range of stored numbers, 1E-130 to 9.99E+125: store it as text instead"
_NOT_FINITE: Final = "is not a finite number: store None instead"


def canonical_int(value: int) -> int:
    """The same int; raises `Unfit` when it has more than 38 significant digits (trailing zeros do not count)."""
    if -_PLAIN_INT < value < _PLAIN_INT:
        return value
    if not -_ABOVE_ALL < value < _ABOVE_ALL:
        raise Unfit(_TOO_FAR, value)
    if len(str(abs(value)).rstrip("0")) > DIGITS:
        raise Unfit(_TOO_LONG, value)
    return value


def canonical_decimal(value: Decimal) -> Number:
    """The canonical form: an int when integral. Raises `Unfit` when it is not finite, too long or out of range."""
    try:
        number = value.normalize(_CANON)
    except (Overflow, Underflow, Subnormal):
        raise Unfit(_TOO_FAR, value) from None
    except Inexact:
        raise Unfit(_TOO_LONG, value) from None
    except InvalidOperation:
        raise Unfit(_NOT_FINITE, value) from None
    if not number.is_finite():
        raise Unfit(_NOT_FINITE, value)
    return int(number) if number == number.to_integral_value() else number


def canonical_float(value: float) -> Number:
    """The number that ``repr`` shows, canonical: 0.1 is Decimal("0.1"), 1.0 is 1, -0.0 is 0."""
    if -_FLOAT_INT < value < _FLOAT_INT and value.is_integer():
        return int(value)
    # The repr of float: a subclass may have another.
    return canonical_decimal(Decimal(float.__repr__(value)))


def canonical(value: object) -> Number:
    """The canonical form of an int, Decimal or float; raises `Unfit` for anything else, bool included."""
    if isinstance(value, bool):
        raise Unfit("is not a number", value)
    if isinstance(value, int):
        return canonical_int(int(value))
    if isinstance(value, Decimal):
        return canonical_decimal(value)
    if isinstance(value, float):
        return canonical_float(value)
    raise Unfit("is not a number", value)
