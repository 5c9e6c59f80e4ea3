"""Which texts a key component can hold: the ground for comparing two templates without any value.

Below everything else in the key compiler. A `Shape` describes a set of texts position by position; a component is a
tuple of alternative shapes. The answers are conservative: `can_meet` never says False when a common text exists.
"""

from collections.abc import Iterable
from itertools import product

from odm.immutable import Immutable

Charset = tuple[tuple[str, str], ...]
"""Inclusive ranges of characters, which may overlap."""

DIGITS: Charset = (("0", "9"),)
HEX: Charset = (("0", "9"), ("a", "f"))
ESCAPED: Charset = (("$", "\U0010ffff"),)
"""What escaped text is made of; '#' is not in it."""
LOW: Charset = ((" ", '"'),)
"""What sorts below '#': the spaces of padding, and what the format of a time may hold."""
ANY: Charset = (*LOW, *ESCAPED)
"""Whatever a component can hold: escaped text, spaces of padding, printable literals; all but '#'."""

_MOST_ALTERNATIVES = 256
"""With more, a component counts as any text: comparing templates takes longer with each, and at worst refuses too
many."""


class Shape(Immutable):
    """Texts of `len(head)` characters from those sets, then any number of characters from `tail`."""

    head: tuple[Charset, ...]
    tail: Charset = ()


ANYTHING = (Shape((), ANY),)


def exactly(text: str) -> Shape:
    """The shape of one text."""
    return Shape(tuple(((char, char),) for char in text))


def like(sample: str) -> Shape:
    """The shape of texts that differ from `sample` in their digits only."""
    return Shape(tuple(DIGITS if char.isdigit() else ((char, char),) for char in sample))


def join(pieces: Iterable[tuple[Shape, ...]]) -> tuple[Shape, ...]:
    """The alternatives of pieces written one after the other."""
    joined: tuple[Shape, ...] = (Shape(()),)
    for alternatives in pieces:
        if len(joined) * len(alternatives) > _MOST_ALTERNATIVES:
            return ANYTHING
        joined = tuple(_append(left, right) for left, right in product(joined, alternatives))
    return joined


def size_of(shapes: tuple[Shape, ...]) -> int:
    """The number of characters of all these texts; 0 if it differs."""
    sizes = {0 if shape.tail else len(shape.head) for shape in shapes}
    return sizes.pop() if len(sizes) == 1 else 0


def fits(text: str, shapes: tuple[Shape, ...]) -> bool:
    """Whether a text is one of these."""
    return can_meet((exactly(text),), tuple(shape for shape in shapes if len(shape.head) == len(text) or shape.tail))


def _append(left: Shape, right: Shape) -> Shape:
    if not left.tail:
        return Shape(left.head + right.head, right.tail)
    # Where an open-ended text stops is unknown, so what follows it can stand anywhere behind the head.
    return Shape(left.head, (*left.tail, *(span for chars in right.head for span in chars), *right.tail))


def can_meet(left: tuple[Shape, ...], right: tuple[Shape, ...]) -> bool:
    """Whether some text fits an alternative of both."""
    return any(_share(shape, other) for shape, other in product(left, right))


def _share(left: Shape, right: Shape) -> bool:
    length = max(len(left.head), len(right.head))
    return all(map(meets, _stretch(left, length), _stretch(right, length)))


def _stretch(shape: Shape, length: int) -> tuple[Charset, ...]:
    return shape.head + (shape.tail,) * (length - len(shape.head))


def meets(left: Charset, right: Charset) -> bool:
    """Whether the two have a character in common."""
    # Compiling a table compares all characters of all keys with one another: plain loops take a quarter of the time.
    for low, high in left:
        for start, end in right:
            if low <= end and start <= high:
                return True
    return False
