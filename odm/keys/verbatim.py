"""Keys as they are: the key types of tables that exist already, whose text is neither escaped nor padded.

A text is that of the stored value. Two laws hold for every template: different values give different keys, and the keys
that share leading components are one range. For this, a value that contains the literal behind it is refused, unless
all values have one number of characters. Keys sort by their text, so a number without padding has no range.
"""

import re
from collections.abc import Callable
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import cached_property
from typing import Any, ClassVar, Final, Literal, TypeAlias
from uuid import UUID

from odm.errors import brief
from odm.immutable import Immutable, field
from odm.keys.base import BELOW, KeyType, Place, Refused
from odm.keys.shapes import DIGITS, ESCAPED, HEX, Charset, Shape, exactly, like, size_of
from odm.keys.spans import Op
from odm.keys.text import escape

Kind: TypeAlias = Literal["S", "N", "B"]
"""The types of key attributes: text, number, binary."""

_SIGNS: Final[Charset] = (("-", "."), ("0", "9"))
_LAST: Final = "\U0010ffff"
_NUMBER: Final = re.compile(r"-?[0-9]+(\.[0-9]+)?", re.ASCII)


class Form(Immutable):
    """How the values of a field are stored.

    Attributes:
        kind: the type of the stored values.
        dump: value to stored value; `Refused` for a value of another type.
        load: stored value to value; other values unchanged.
        text: a description.
        loose: as `dump`, for a value to compare with.
        ordered: stored values sort as the values do.
        choices: the only stored values; empty: any.
    """

    kind: Kind
    dump: Callable[[Any], Any] = field(eq=False, repr=False)
    load: Callable[[Any], Any] = field(eq=False, repr=False)
    text: str
    loose: Callable[[Any], Any] = field(eq=False, repr=False)
    ordered: bool = True
    choices: tuple[str, ...] = ()


class VerbatimKey(KeyType, dict=True):
    """A stored text, or the digits of a stored number.

    Attributes:
        form: how the field is stored.
        follow: the literal behind the placeholder; "" at the end.
        width: digits of a number, filled up with zeros; 0: as many as it has.
        empty: the text may be empty.
        size: the number of characters of every text, which then may contain the literal; 0: it differs.
    """

    form: Form
    follow: str
    width: int = 0
    empty: bool = False
    variable: ClassVar[bool] = True

    @cached_property
    def size(self) -> int:
        return size_of(self.shapes())

    def encode(self, value: Any) -> str:
        text = self.written(self.form.dump(value))
        if not text and not self.empty:
            raise Refused(
                "it is empty; give a text of one character or more, or write {field:empty} in the template if other "
                "programs leave this part of a key empty"
            )
        if not self.size and self.follow and (text + self.follow).find(self.follow) != len(text):
            raise Refused(f"it contains {self.follow!r}, which ends the value in this key; use another value")
        return text

    def written(self, stored: Any) -> str:
        """The text of a stored value."""
        if isinstance(stored, str):
            return stored
        text = str(stored) if isinstance(stored, int) else f"{stored:f}"
        if self.width and (not text.isdecimal() or len(text) > self.width):
            raise Refused(f"it is not a whole number of at most {self.width} digits")
        return text.zfill(self.width)

    def read(self, text: str) -> Any:
        """The stored value of a text; None if no value has it."""
        try:
            stored = self.parsed(text)
            again = None if stored is None else self.written(self.form.dump(self.form.load(stored)))
        except (ValueError, OverflowError):  # Refused is a ValueError
            return None
        return stored if again == text else None

    def parsed(self, text: str) -> Any:
        """As `read`, but values of the field may write it as another text."""
        if self.form.kind != "N":
            return text
        if not _NUMBER.fullmatch(text):
            return None
        return Decimal(text) if "." in text else int(text)

    def place(self, value: Any) -> Place:
        stored = self.form.dump(value)
        text = self.written(stored)
        if not self.sorted:
            raise Refused(
                "the texts of its values do not sort as the values do, so it has no range; compare for equality, or "
                "filter by it in a scan"
            )
        return Place(text) if text or self.empty else BELOW

    @property
    def sorted(self) -> bool:
        """Whether the texts sort as the values do; a time as a number does, with one number of digits until 2286."""
        return self.form.ordered and (self.form.kind == "S" or self.width > 0 or _is_time(self.form))

    def head(self, value: Any) -> str | None:
        if not isinstance(value, str) or self.form.kind != "S":
            return super().head(value)
        cannot = len(value) > self.size if self.size else bool(self.follow) and self.follow in value
        return None if cannot else value

    def sorts(self, op: Op, value: Any) -> bool:
        """Whether the keys that satisfy a bound are one range, although the literal follows."""
        if self.size or not self.follow:
            return True
        ends = (self.follow[:size] for size in range(1, len(self.follow)))
        return op == "prefix" and not value.endswith(tuple(ends))

    def shapes(self) -> tuple[Shape, ...]:
        if self.form.choices:
            return tuple(exactly(choice) for choice in self.form.choices if choice or self.empty)
        if self.width:
            return (Shape((DIGITS,) * self.width),)
        if self.form.kind == "N":
            return (Shape((_SIGNS,), _SIGNS),)
        return (_shape_of(self.form) or self._anything(),)

    def _anything(self) -> Shape:
        chars: Charset = (("\0", _LAST),)
        if len(self.follow) == 1:
            below, above = (chr(min(max(ord(self.follow) + step, 0), ord(_LAST))) for step in (-1, 1))
            chars = (("\0", below), (above, _LAST))
        return Shape(() if self.empty else (chars,), chars)

    @property
    def encoding(self) -> str:
        return f"{self.form.text} as it is" + f", {self.width} digits" * bool(self.width) + ", or empty" * self.empty


def _is_time(form: Form) -> bool:
    """Whether a number is a time."""
    try:
        form.dump(datetime(2001, 1, 1, tzinfo=UTC))
    except Refused:
        return False
    return True


def _shape_of(form: Form) -> Shape | None:
    """The shape of texts of fixed width: times and UUIDs."""
    for sample in (datetime(2000, 1, 1, tzinfo=UTC), date(2000, 1, 1)):
        try:
            text = form.dump(sample)
        except Refused:
            continue
        return like(text)
    try:
        text = form.dump(UUID(int=0))
    except Refused:
        return None
    return Shape(tuple(HEX if char == "0" else exactly(char).head[0] for char in text))


EMPTY: Final = "empty"
"""The format of a text that may be empty."""


def formatted(form: Form, follow: str, format_: str) -> VerbatimKey:
    """The key type of a text that may be empty, or of a number with a format such as ``08``, eight digits.

    Raises:
        Refused: the format is another, or no value of the field has an empty text.
    """
    if format_ == EMPTY:
        verbatim_key = VerbatimKey(form, follow, empty=True)
        if verbatim_key.read("") is None:
            raise Refused("no value of its type is stored as an empty text; drop :empty")
        return verbatim_key
    if form.kind != "N" or not re.fullmatch(r"0[1-9][0-9]?", format_, re.ASCII):
        raise Refused(
            f"{brief(format_)} is not a format of keys as they are; use none, 08 for a number of 8 digits, or empty "
            "for a text that may be empty"
        )
    return VerbatimKey(form, follow, int(format_))


class TextKey(KeyType):
    """The text in one of several attributes of a key, escaped, so that it ends where '#' follows."""

    form: Form
    variable: ClassVar[bool] = True

    def encode(self, value: Any) -> str:
        text = escape(self.form.dump(value))
        if not text:
            raise Refused("it is empty; give a text of one character or more")
        return text

    def place(self, value: Any) -> Place:
        if not self.form.ordered:
            raise Refused("the texts of its values do not sort as the values do, so it has no range")
        text = escape(self.form.loose(value))
        return Place(text) if text else BELOW

    def head(self, value: Any) -> str | None:
        return escape(value) if isinstance(value, str) else super().head(value)

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape((ESCAPED,), ESCAPED),)

    @property
    def encoding(self) -> str:
        return f"{self.form.text} as text"


class NumberKey(KeyType):
    """The number in a key attribute of type N, alone in its template."""

    form: Form

    def encode(self, value: Any) -> str:
        return number_text(self.form.dump(value))

    def place(self, value: Any) -> Place:
        return Place(number_text(self.form.loose(value)))

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape((_NUMBERS,), _NUMBERS),)

    @property
    def encoding(self) -> str:
        return f"{self.form.text} as a number"


class BinaryKey(KeyType):
    """The bytes in a key attribute of type B, alone in their template, as hexadecimal digits."""

    form: Form

    def encode(self, value: Any) -> str:
        text = self.head(value)
        if not text:
            raise Refused("it is empty; give one byte or more")
        return text

    def place(self, value: Any) -> Place:
        text = self.head(value)
        return Place(text) if text else BELOW

    def head(self, value: Any) -> str | None:
        content: bytes = self.form.dump(value)
        return content.hex()

    def shapes(self) -> tuple[Shape, ...]:
        return (Shape((HEX, HEX), HEX),)

    @property
    def encoding(self) -> str:
        return f"{self.form.text} as bytes"


_NUMBERS: Final[Charset] = (*DIGITS, (".", "."), ("n", "p"), ("~", "~"))
_NINES: Final = str.maketrans("0123456789", "9876543210")
_SCALE: Final = 200


def number_text(number: int | Decimal) -> str:
    """A text of a number of at most 38 digits; texts sort as the numbers do: ``p201.42`` is 42."""
    sign, digits, exponent = Decimal(number).as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return "o"
    scale = _SCALE + int(exponent) + len(text) - 1
    text = text.rstrip("0")
    if not sign:
        return f"p{scale:03}.{text}"
    return f"n{999 - scale:03}.{text.translate(_NINES)}~"


def number_of(text: str) -> int | Decimal:
    """The number of a text of `number_text`.

    Raises:
        ValueError: it is another text.
    """
    if text == "o":
        return 0
    match = re.fullmatch(r"([np])([0-9]{3})\.([0-9]+)(~?)", text, re.ASCII)
    if match is None or (match[1] == "n") is not bool(match[4]):
        raise ValueError(f"{text!r} is not the text of a number")
    scale, digits = int(match[2]), match[3]
    if match[1] == "n":
        scale, digits = 999 - scale, digits.translate(_NINES)
    number = Decimal((match[1] == "n", tuple(map(int, digits)), scale - _SCALE - len(digits) + 1))
    return int(number) if number == number.to_integral_value() else number
