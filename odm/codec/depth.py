"""The limit of nesting: 32 levels on every backend, so that every item fits every backend.

The limit is DynamoDB's: https://docs.aws.amazon.com/amazondynamodb/latest/developerguide/Constraints.html. An attribute
of an item is on level 1, and the elements of a list or dict are one level below it.
"""

from collections.abc import Callable
from typing import Any, Final

from odm.codec.types.stored import Unfit
from odm.expressions.nodes import Value

LEVELS: Final = 32
TOO_DEEP: Final = f"is nested deeper than {LEVELS} levels: flatten it, or store it as text or bytes"


def converted(convert: Callable[[Any], Value], value: Any, level: int = 1) -> Value:
    """The stored form of a value on this level; raises `Unfit` if it nests below level 32."""
    try:
        stored = convert(value)
    except RecursionError:  # nested too deep to traverse, or contains itself
        raise Unfit(TOO_DEEP) from None
    return check_levels(stored, level)


def check_levels(value: Value, level: int = 1) -> Value:
    """The stored value; raises `Unfit` if, on this level, it nests below level 32."""
    kind = type(value)
    if kind is not list and kind is not dict:
        return value
    if level >= LEVELS:
        raise Unfit(TOO_DEEP)
    for part in value if kind is list else value.values():
        check_levels(part, level + 1)
    return value
