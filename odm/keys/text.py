"""Key types of text: str, padded str, Literal and Enum, and bytes.

Text is escaped so that nothing in a value sorts at or below '#': characters U+0000 to U+0024 become '$' and the
character 0x30 higher. So a component ends where '#' stands, and a shorter text still sorts before a longer one.
"""

import re
from collections.abc import Mapping
from enum import Enum
from functools import cached_property
from typing import Any, ClassVar

from odm.keys.base import BELOW, KeyType, Place, Refused, wrong_type
from odm.keys.numeric import BigIntKey
from odm.keys.shapes import ESCAPED, HEX, Shape, exactly

_TO_ESCAPE = re.compile(r"[\x00-$\ud800-\udfff]")
finds_to_escape = _TO_ESCAPE.search
"""Whether a text has characters to escape: a match, or None."""


def escape(value: str) -> str:
    """The escaped form of a text; `Refused` for a lone surrogate, which UTF-8 cannot hold."""
    if _TO_ESCAPE.search(value) is None:
        return value if type(value) is str else str.__str__(value)
    return _TO_ESCAPE.sub(_escaped, value)


def unescape(text: str) -> str:
    """The text of an escaped form, the opposite of `escape`."""
    return text if "$" not in text else re.sub(r"\$(.)", lambda match: chr(ord(match[1]) - 0x30), text, flags=re.DOTALL)


def _escaped(match: re.Match[str]) -> str:
    char = match[0]
    if char > "$":
        raise Refused(f"it holds the lone surrogate U+{ord(char):04X}; give text that UTF-8 can encode")
    return "$" + chr(ord(char) + 0x30)


class StrKey(KeyType):
    """Any text but the empty one."""

    variable: ClassVar[bool] = True

    def encode(self, value: Any) -> str:
        if type(value) is str and value and finds_to_escape(value) is None:
            return value
        if not isinstance(value, str):
            raise wrong_type(value, "a str")
        if not value:
            raise Refused("it is empty; give a text of one character or more")
        return escape(value)

    def place(self, value: Any) -> Place:
        text = self.head(value)
        return Place(text) if text else BELOW

    def head(self, value: Any) -> str | None:
        if not isinstance(value, str):
            raise wrong_type(value, "a str")
        return escape(value)

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape((ESCAPED,), ESCAPED),)

    @property
    def encoding(self) -> str:
        return "str"


class PaddedKey(KeyType):
    """Text filled up with raw spaces, which sort below all escaped text, to `width` characters after escaping."""

    width: int

    def encode(self, value: Any) -> str:
        text = StrKey().encode(value)
        if value[-1] == " ":
            raise Refused("it ends with a space, which is the padding; strip it, or use the field without a width")
        if len(text) > self.width:
            raise Refused(
                f"it takes {len(text)} characters of {self.width}; widen the placeholder or shorten the value"
            )
        return text.ljust(self.width)

    def place(self, value: Any) -> Place:
        text = StrKey().head(value)
        if not text:
            return BELOW
        if len(text) > self.width:
            return Place(text[: self.width], 1, 1)
        return Place(text.ljust(self.width))

    def head(self, value: Any) -> str | None:
        text = StrKey().head(value)
        return text if text is not None and len(text) <= self.width else None

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape((ESCAPED,) + ((*ESCAPED, (" ", " ")),) * (self.width - 1)),)

    @property
    def encoding(self) -> str:
        return f"str padded to {self.width}"


class ChoiceKey(KeyType, dict=True):
    """One of a few texts: a Literal or an Enum of str values. Bounds compare as text and need not be one of them."""

    variable: ClassVar[bool] = True
    of_values: ClassVar[KeyType] = StrKey()
    """Writes the values. It depends on no other value, so a new choice leaves all keys as they are."""
    choices: tuple[str | int | Enum, ...]

    @cached_property
    def _texts(self) -> dict[Any, str]:
        # Both spellings of an Enum member: `use_enum_values` leaves plain values in the model.
        texts = {_plain(choice): self.of_values.encode(_plain(choice)) for choice in self.choices}
        return texts | {choice: texts[_plain(choice)] for choice in self.choices}

    def encode(self, value: Any) -> str:
        try:
            return self._texts[value]
        except (KeyError, TypeError):
            names = ", ".join(repr(_plain(choice)) for choice in self.choices)
            raise Refused(f"it is not a declared value; give one of {names}") from None

    def place(self, value: Any) -> Place:
        return self.of_values.place(_plain(value))

    def head(self, value: Any) -> str | None:
        return self.of_values.head(_plain(value))

    def shapes(self) -> tuple[Shape, ...]:
        return tuple(exactly(text) for text in dict.fromkeys(self._texts.values()))

    @property
    def encoding(self) -> str:
        return self.of_values.encoding


class IntChoiceKey(ChoiceKey, dict=True):
    """One of a few ints: a Literal or an Enum of int values, in the order of the ints."""

    variable: ClassVar[bool] = False
    complement: ClassVar[Mapping[int, int] | None] = BigIntKey.complement
    of_values: ClassVar[KeyType] = BigIntKey()

    def encode(self, value: Any) -> str:
        if isinstance(value, bool | float):  # True and 1.0 equal 1
            raise wrong_type(value, "an int")
        return super().encode(value)

    def mirror(self, text: str) -> str:
        return self.of_values.mirror(text)

    def shapes(self) -> tuple[Shape, ...]:
        return self.of_values.shapes()  # the same in descending order


def _plain(value: Any) -> Any:
    return value.value if isinstance(value, Enum) else value


class BytesKey(KeyType):
    """Bytes as hexadecimal digits, not empty."""

    variable: ClassVar[bool] = True

    def encode(self, value: Any) -> str:
        text = self.head(value)
        if not text:
            raise Refused("it is empty; give one byte or more")
        return text

    def place(self, value: Any) -> Place:
        text = self.head(value)
        return Place(text) if text else BELOW

    def head(self, value: Any) -> str | None:
        if not isinstance(value, bytes):
            raise wrong_type(value, "bytes")
        return value.hex()

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape((HEX, HEX), HEX),)

    @property
    def encoding(self) -> str:
        return "bytes"
