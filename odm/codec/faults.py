"""The fault of a value that does not fit its type, which collects the path to the value.

Types raise `Unfit` without knowing the entity. `EntityCodec` and the lowering convert it to a `BadValue` that names
the entity, the path and the value.
"""

from collections.abc import Iterable
from difflib import get_close_matches
from typing import Any, Final

from odm.errors import BadValue, brief
from odm.expressions.nodes import Path

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
        shown = "" if self.value is NOTHING else f"{show(self.value)} "
        return BadValue(f"{where}: {shown}{self.reason}")


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
