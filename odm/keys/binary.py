"""Binary parts of row keys: numbers and bytes that other programs write as they are, such as 8 bytes of a time.

Keys of odm are text. In a table with a binary part, each character of a key is one byte, ``chr(0)`` to ``chr(255)``:
text in such keys is that of its UTF-8. So keys sort as the bytes do, and a part of a fixed number of bytes has that
number of characters. `odm.backends.bigtable.rows.keys` sends them as bytes.
"""

import math
import re
from functools import cached_property
from typing import Any, Final

from odm.errors import brief
from odm.keys.base import ABOVE, BELOW, Place, Refused
from odm.keys.shapes import Charset, Shape, exactly
from odm.keys.spans import Op
from odm.keys.verbatim import Form, VerbatimKey

_ANY_BYTE: Final[Charset] = (("\0", "\xff"),)
_FORMAT: Final = re.compile(r"(?:(int8|int16be|int32be|int64be|uint8|uint16be|uint32be|uint64be)(:desc)?|bytes(\d*))")
_SIMILAR: Final = re.compile(r"u?(?:int|float)[0-9]+(?:be|le)?(?::desc)?", re.ASCII)
_PLACEHOLDER: Final = re.compile(rf"\{{\w+:{_FORMAT.pattern}\}}", re.ASCII)
_MOST_BYTES: Final = 4096
"""The maximum bytes of a row key."""

FORMATS: Final = "int64be, int32be, int16be, int8, uint64be, uint32be, uint16be, uint8, bytes and such as bytes16"


def has_binary_part(template: str) -> bool:
    """Whether a template has a placeholder whose values are written as bytes."""
    return _PLACEHOLDER.search(template) is not None


def is_binary_format(format_: str) -> bool:
    """Whether the format of a placeholder is one of bytes, or similar to one."""
    return (_FORMAT.fullmatch(format_) or _SIMILAR.fullmatch(format_)) is not None


def in_bytes(text: str) -> str:
    """A text with a character for each byte of its UTF-8."""
    return text if text.isascii() else text.encode().decode("latin-1")


def from_bytes(text: str) -> str | None:
    """The text of which `in_bytes` made this; None: there is none."""
    if text.isascii():
        return text
    try:
        return text.encode("latin-1").decode()
    except UnicodeError:
        return None


class Utf8Key(VerbatimKey):
    """A text, or the digits of a number, in a key that has binary parts elsewhere."""

    def written(self, stored: Any) -> str:
        return in_bytes(super().written(stored))

    def parsed(self, text: str) -> Any:
        plain = from_bytes(text)
        return None if plain is None else super().parsed(plain)

    def head(self, value: Any) -> str | None:
        return super().head(in_bytes(value) if isinstance(value, str) else value)

    def shapes(self) -> tuple[Shape, ...]:
        if self.form.choices:
            return tuple(exactly(in_bytes(choice)) for choice in self.form.choices if choice or self.empty)
        return super().shapes()


def utf8_key(key: VerbatimKey) -> Utf8Key:
    """The same part in a key that has binary parts elsewhere."""
    return Utf8Key(key.form, key.follow, key.width, key.empty)


class BinaryPart(VerbatimKey):
    """A value that is written as bytes."""

    def encode(self, value: Any) -> str:
        return self.written(self.form.dump(value))

    @property
    def sorted(self) -> bool:
        return True

    def sorts(self, op: Op, value: Any) -> bool:
        return True


class NumberBytes(BinaryPart, kw_only=True):
    """A whole number, big-endian. Of the signed forms, those from 0: the bytes of others sort behind all of these.

    Attributes:
        format: as in `FORMATS`.
        bytes: how many.
        most: the highest number.
        desc: the number is subtracted from the highest one, so that later times sort first.
    """

    format: str
    bytes: int
    most: int
    desc: bool

    @cached_property
    def size(self) -> int:
        return self.bytes

    @property
    def flips(self) -> bool:
        return self.desc

    def written(self, stored: Any) -> str:
        number = _whole(stored)
        if not 0 <= number <= self.most:
            raise Refused(
                f"it is not from 0 to {self.most}, and only such numbers sort in row keys as their bytes do, in the "
                f"form {self.format}: use another form, or a field of type bytes with the format bytes{self.bytes}"
            )
        return self._text(self.most - number if self.desc else number)

    def _text(self, number: int) -> str:
        return number.to_bytes(self.bytes, "big").decode("latin-1")

    def parsed(self, text: str) -> Any:
        number = int.from_bytes(text.encode("latin-1"), "big")
        if number > self.most:
            return None
        return self.most - number if self.desc else number

    def place(self, value: Any) -> Place:
        stored = self.form.loose(value)
        number = math.floor(stored)
        if not 0 <= number <= self.most:
            return BELOW if (number < 0) is not self.desc else ABOVE
        above = 0 if number == stored else -1 if self.desc else 1
        return Place(self.written(number), above, above)

    def head(self, value: Any) -> str | None:
        raise Refused(f"a prefix needs text or bytes, and {brief(value)} is for a number; use a range")

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape((_ANY_BYTE,) * self.bytes),)

    @property
    def encoding(self) -> str:
        return f"{self.form.text} as {self.format}" + ", subtracted from the highest number" * self.desc


def _whole(stored: Any) -> int:
    if stored != int(stored):
        raise Refused("it is not a whole number")
    return int(stored)


class PlainBytes(BinaryPart, kw_only=True):
    """Bytes.

    Attributes:
        bytes: how many; 0: the rest of the key.
    """

    bytes: int

    @cached_property
    def size(self) -> int:
        return self.bytes

    def written(self, stored: Any) -> str:
        if not stored or (self.bytes and len(stored) != self.bytes):
            expected = f"{self.bytes} bytes, as the template says" if self.bytes else "one byte or more"
            raise Refused(f"it has {len(stored)} bytes; give {expected}")
        text: str = stored.decode("latin-1")
        return text

    def parsed(self, text: str) -> Any:
        return text.encode("latin-1")

    def place(self, value: Any) -> Place:
        text = self.form.loose(value).decode("latin-1")
        if not text:
            return BELOW
        if not self.bytes:
            return Place(text)
        above = (len(text) > self.bytes) - (len(text) < self.bytes)
        return Place(text[: self.bytes].ljust(self.bytes, "\0"), above, above)

    def head(self, value: Any) -> str | None:
        stored: bytes = self.form.loose(value)
        return None if self.bytes and len(stored) > self.bytes else stored.decode("latin-1")

    def shapes(self) -> tuple[Shape, ...]:
        if self.bytes:
            return (Shape((_ANY_BYTE,) * self.bytes),)
        return (Shape((_ANY_BYTE,), _ANY_BYTE),)

    @property
    def encoding(self) -> str:
        return f"{self.form.text} as {self.bytes or 'all remaining'} bytes"


def binary_part(form: Form, follow: str, format_: str) -> BinaryPart:
    """The key type of a placeholder with a format of `FORMATS`.

    Raises:
        Refused: values of the field are not stored as such.
    """
    if not _FORMAT.fullmatch(format_):
        raise Refused(f"{brief(format_)} is not a form of bytes in row keys; these are {FORMATS}")
    if format_.startswith("bytes"):
        if form.kind != "B":
            raise Refused(f'{format_} is for a field of type bytes, or a UUID with Stored(format="bytes")')
        size = int(format_.removeprefix("bytes") or 0)
        if not size and follow:
            raise Refused("bytes of any number end where the row key ends: say how many, as in {hash:bytes4}")
        if size > _MOST_BYTES:
            raise Refused(f"a row key has at most {_MOST_BYTES} bytes")
        return PlainBytes(form, follow, bytes=size)
    name, _, desc = format_.partition(":")
    if form.kind != "N" or _takes_fractions(form):
        raise Refused(
            f'{name} is for an int, a datetime with Stored(epoch="s"), "ms", "us" or "ns", or a bool with '
            'Stored(format="number")'
        )
    unsigned, bits = re.findall(r"(u?)int([0-9]+)", name)[0]
    most = 2 ** (int(bits) - (not unsigned)) - 1
    return NumberBytes(form, follow, format=name, bytes=int(bits) // 8, most=most, desc=bool(desc))


def _takes_fractions(form: Form) -> bool:
    try:
        form.dump(1.5)
    except Refused:
        return False
    return True
