"""What can be stored, and what is read back."""

from decimal import Decimal
from typing import Any, Final

from odm import BadValue
from tests.facts.fact import Case, fact, shown

NUMBERS, FORMAT, TYPES = "S limits/numberPrecision", "S putItem/numberFormat", "S putItem/dataTypes"
EMPTY, D_TYPES, DUPLICATES = "S limits/emptyValues", "D HowItWorks.NamingRulesDataTypes", "S putItem/validation"
MOST: Final = Decimal("9.9999999999999999999999999999999999999E+125")


def stored(case: Case, x: Any) -> tuple[str, Any]:
    """The kind of what is read back, and the value."""
    case.db.put(case.thing(x))
    found = case.db.one(case.key).x
    [queried] = case.db.query(case.key)
    assert queried.x == found
    return _kind(found), found


def _kind(value: Any) -> str:
    return "set" if isinstance(value, frozenset) else type(value).__name__


def _outcome(x: Any, outcome: Any) -> Any:
    """What `stored` returns, or the error."""
    if outcome is BadValue:
        return outcome
    read = x if outcome is ... else outcome
    return _kind(read), read


# What is put, what is read back (`...`: the same) or the error, the source.
_ROWS: list[tuple[Any, Any, str]] = [
    # numbers
    (0, ..., NUMBERS),
    (-42, ..., TYPES),
    (10**38 - 1, ..., NUMBERS),
    (-(10**38 - 1), ..., NUMBERS),
    (12345678901234567890123456789012345678, ..., NUMBERS),
    (10**38, ..., NUMBERS),
    (10**38 + 1, BadValue, NUMBERS),
    (Decimal("1.2345678901234567890123456789012345678"), ..., NUMBERS),
    (Decimal("1.23456789012345678901234567890123456789"), BadValue, NUMBERS),
    (MOST, int(MOST), TYPES),
    (MOST.copy_negate(), -int(MOST), TYPES),
    (Decimal("1E+126"), BadValue, NUMBERS),
    (Decimal("-1E+126"), BadValue, NUMBERS),
    (Decimal("1E-130"), ..., NUMBERS),
    (Decimal("-1E-130"), ..., NUMBERS),
    (Decimal("1E-131"), BadValue, NUMBERS),
    (Decimal("1E-38"), ..., NUMBERS),
    (Decimal("NaN"), BadValue, FORMAT),
    (Decimal("Infinity"), BadValue, FORMAT),
    (Decimal("1.50"), Decimal("1.5"), NUMBERS),
    (Decimal("1.5E+2"), 150, NUMBERS),
    (Decimal(100), 100, NUMBERS),
    (Decimal("1E+2"), 100, NUMBERS),
    (Decimal("-0"), 0, NUMBERS),
    (Decimal("0.10"), Decimal("0.1"), NUMBERS),
    (Decimal("1.23E+10"), 12300000000, FORMAT),
    # texts and bytes
    ("", ..., EMPTY),
    ("aé€😀", ..., TYPES),
    ("e\u0301", ..., "L"),
    ("\x00\x1f\x7f", ..., "L"),
    ("\r\n\t\u2028", ..., "L"),
    ("\ud800", BadValue, "L"),
    (b"", ..., EMPTY),
    (bytes(range(256)), ..., TYPES),
    # booleans, lists and maps
    (True, ..., TYPES),
    (False, ..., TYPES),
    ([], ..., TYPES),
    ({}, ..., TYPES),
    ([None], ..., TYPES),
    ({"k": None}, ..., TYPES),
    ([""], ..., EMPTY),
    ([1, "a", b"a", True, None, [1], {"k": 1}], ..., TYPES),
    ({"k": {"l": {"m": [1, {"n": 2}]}}}, ..., TYPES),
    ({"a.b": 1, "#c": 2, ":d": 3, "": 4}, BadValue, D_TYPES),
    ({"a.b": 1, "#c": 2, ":d": 3, " ": 4, "select": 5}, ..., D_TYPES),
    # sets
    ({"a", "b"}, ..., TYPES),
    ({1, Decimal("1.5"), -2}, ..., TYPES),
    ({b"a", b"\x00"}, ..., TYPES),
    ({Decimal("1E-130"), 10**38 - 1}, ..., NUMBERS),
    ({10**37 + 1, 10**37 + 2}, ..., NUMBERS),
    ({1, Decimal("1.0")}, {1}, D_TYPES),
    ([{"a"}, {"k": {1}}], ..., TYPES),
    ({""}, ..., EMPTY),
    ({"", "a"}, ..., EMPTY),
    ({b""}, ..., EMPTY),
    ({b"", b"a"}, ..., EMPTY),
    ([set()], BadValue, EMPTY),
    ({"k": set()}, BadValue, EMPTY),
    ({"a", 1}, BadValue, D_TYPES),
    ({True}, BadValue, D_TYPES),
    # not of DynamoDB
    (1.5, Decimal("1.5"), "L"),
    ((1, 2), BadValue, "L"),
]

FACTS = [fact(f"`{shown(x)}`, put and read", _outcome(x, outcome), source, stored, x) for x, outcome, source in _ROWS]
