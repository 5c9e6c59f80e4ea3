"""The interface between the key compiler and key types.

A `KeyType` is one placeholder's type and format, made once when a template is compiled. It turns values into texts
whose code-point order is the order of the values, and says where the value of a bound stands among those texts.
Key types know neither entities nor templates: they raise `Refused` with the reason, and the template adds the rest.
"""

from abc import abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

from odm.errors import brief
from odm.immutable import Abstract, Immutable
from odm.keys.shapes import Shape


class Refused(ValueError):
    """The reason why something cannot be used, with the fix; the template turns it into the public error."""


def wrong_type(value: object, expected: str) -> Refused:
    """The refusal of a value of another type."""
    return Refused(f"it is of type {type(value).__name__}; give {expected}")


class Place(Immutable):
    """Where the value of a bound stands among the texts of a key type.

    Attributes:
        text: the text nearest to the value; "" also stands for all texts of the type together, see `outside`.
        first: the sign of the value minus the smallest value written as `text`.
        last: the sign of the value minus the largest value written as `text`.
    """

    text: str
    first: int = 0
    last: int = 0

    @property
    def outside(self) -> bool:
        """Whether the value is below or above all texts of the type."""
        return not self.text and self.first == self.last != 0


BELOW = Place("", -1, -1)
ABOVE = Place("", 1, 1)

NINES = str.maketrans("0123456789", "9876543210")
FIFTEENS = str.maketrans("0123456789abcdef", "fedcba9876543210")


class KeyType(Abstract):
    """The type and format of one placeholder.

    Attributes:
        variable: one text can be the beginning of another, so that only '#' or the end may follow.
        complement: reverses the order of the texts, character by character; None if that is not possible.
    """

    variable: ClassVar[bool] = False
    complement: ClassVar[Mapping[int, int] | None] = None

    @abstractmethod
    def encode(self, value: Any) -> str:
        """The text of a value; `Refused` if it has none."""

    @abstractmethod
    def place(self, value: Any) -> Place:
        """Where the value of a bound stands; it need not be one that can be stored."""

    @abstractmethod
    def shapes(self) -> tuple[Shape, ...]:
        """Which texts `encode` can give."""

    @property
    @abstractmethod
    def encoding(self) -> str:
        """A description of the encoding: two types with the same one write each value alike."""

    @property
    def lossy(self) -> bool:
        """Whether different values have the same text."""
        return False

    def head(self, value: Any) -> str | None:
        """What the texts of all values that start with `value` start with; None if there are no such values."""
        raise Refused(f"a prefix needs a text field, and {brief(value)} is for another; use a range")

    @property
    def flips(self) -> bool:
        """Whether the texts sort in the opposite order of the values."""
        return False

    def mirror(self, text: str) -> str:
        """The text that stands for `text` in descending order."""
        assert self.complement is not None
        return text.translate(self.complement)


class Descending(KeyType):
    """The same values in the opposite order."""

    inner: KeyType

    def encode(self, value: Any) -> str:
        return self.inner.mirror(self.inner.encode(value))

    def place(self, value: Any) -> Place:
        place = self.inner.place(value)
        return Place(self.inner.mirror(place.text), -place.last, -place.first)

    def shapes(self) -> tuple[Shape, ...]:
        return self.inner.shapes()

    @property
    def flips(self) -> bool:
        return True

    @property
    def encoding(self) -> str:
        return f"{self.inner.encoding}, descending"

    @property
    def lossy(self) -> bool:
        return self.inner.lossy
