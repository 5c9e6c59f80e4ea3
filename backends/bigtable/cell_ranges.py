r"""Which cells hold a value, or one of a range: filters over the texts that `odm.backends.bigtable.cells` makes.

Each function gives *alternatives*: filters of which exactly the cells with such a value pass one, and no cell two. A
`Spelling` says which cells have a value: those that odm writes, or wrote, or all that are read as the value. A server
compares the values of cells as bytes, so the texts of a range must be kept apart from those of other types among
them:

* **Numbers** of one sign and one count of digits before the point are ordered as their texts are, the negative ones
  backwards. So a range is one expression for all the lengths in the middle, and one with a byte range at each end.
* **Texts** are ordered as their UTF-8 is. Those that would read as something else stand behind an apostrophe, in an
  order of their own; from the others the places of the other types are cut out. Where an attribute is declared as
  text, nothing but null, bytes and what has an apostrophe is cut out, and texts that had one before may still have it.
* **Bytes** stand behind a zero byte.

Expressions are RE2 over bytes: ``\C`` is any byte, and a repeat count is 1000 at most
(https://github.com/google/re2/wiki/Syntax).
"""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Final, TypeAlias

from attrs import frozen

from odm.backends.bigtable.cells import write, write_text
from odm.backends.bigtable.filters import Filter, ValueIs, ValueMatches, ValueRange, chain
from odm.expressions.evaluate import kind_of
from odm.expressions.nodes import Comparator, Number, Value

Alternatives: TypeAlias = tuple[Filter, ...]
_Cut: TypeAlias = tuple[bytes, bytes, Filter | None]

MOST_DIGITS: Final = 126
"""Before the point of a stored number (`odm.codec.numbers`)."""

_FAR: Final = 10**MOST_DIGITS
_FRACTION: Final = r"(\.[0-9]*[1-9])?"
_NOT_NUMBER: Final = ValueMatches(
    rb"-([^0-9]\C*)?"
    rb"|-?(0[^.]\C*|[1-9][0-9]*[^0-9.]\C*|(0|[1-9][0-9]*)\.([0-9]*(0|[^0-9]\C*))?)"
)
"""Among the cells that begin with a digit or a minus: those that hold no number."""

_LIKE_NUMBER: Final = re.compile(rb"-?((0|[1-9][0-9]*)(\.[0-9]*)?)?")
"""What a number may begin with."""

_CUTS: Final[tuple[_Cut, ...]] = (
    (b"\0", b"\1", None),
    (b"'", b"(", None),
    (b"-", b".", _NOT_NUMBER),
    (b"0", b":", _NOT_NUMBER),
    (b"[", b"\\", None),
    (b"false", b"false\0", None),
    (b"null", b"null\0", None),
    (b"true", b"true\0", None),
    (b"{", b"|", None),
)
"""Where cells may hold something else than the text that they are: all do, or those that do not pass the filter."""

_DECLARED_CUTS: Final[tuple[_Cut, ...]] = (
    (b"\0", b"\1", None),
    (b"'", b"(", None),
    (b"null", b"null\0", None),
)
"""The same for an attribute that is declared as text."""

_NEGATIVE_ZERO: Final = b"-0"
"""Is read as 0, and written by other programs only."""


@frozen
class Spelling:
    """Which of the cells that are read as a value count.

    Attributes:
        declared: the attribute is declared as text.
        every: all of them; else those that odm writes, or wrote. Other programs may have written an apostrophe where
            none is needed, or ``-0``.
    """

    declared: bool = False
    every: bool = False


OWN: Final = Spelling()


@frozen
class Bound:
    """An end of a range; ``open``: the value itself lies outside."""

    value: Value
    open: bool = False


def compared(op: Comparator, value: Value, spelling: Spelling = OWN) -> Alternatives | None:
    """The cells with a value that compares so; None where no filters say it."""
    match op:
        case "=":
            return equal(value, spelling)
        case "<" | "<=":
            return between(None, Bound(value, open=op == "<"), spelling)
        case ">" | ">=":
            return between(Bound(value, open=op == ">"), None, spelling)
        case _:
            return None  # <> is the negation of =


def equal_to_one(values: Iterable[Value], spelling: Spelling = OWN) -> Alternatives | None:
    """The cells with one of the values; None as of `equal`."""
    found: dict[Filter, None] = {}
    for value in values:
        same = equal(value, spelling)
        if same is None:
            return None
        found.update(dict.fromkeys(same))
    return tuple(found)


def equal(value: Value, spelling: Spelling = OWN) -> Alternatives | None:
    """The cells with this value; None for a list, map or set, which has more than one text."""
    match kind_of(value):
        case "list" | "map" | "set":
            return None
        case "number" | "boolean" if spelling.declared:
            return ()
        case "number" if value == 0:  # also -0
            cells = [write(0), *([_NEGATIVE_ZERO] if spelling.every else [])]
        case "string":
            cells = [*([write_text(value)] if spelling.declared else []), write(value)]
            cells += [b"'" + _bytes(value)] if spelling.every else []
        case _:
            cells = [write(value)]
    return tuple(map(ValueIs, dict.fromkeys(cells)))


def between(low: Bound | None, high: Bound | None, spelling: Spelling = OWN) -> Alternatives:
    """The cells with a value of the bounds' type from ``low`` to ``high``; None: no bound, at one of the two ends.

    Bounds of different types, or of one that has no order, have nothing between them.
    """
    kinds = {kind_of(bound.value) for bound in (low, high) if bound is not None}
    if kinds == {"number"}:
        return () if spelling.declared else (*_positive(low, high), *_negative(low, high, every=spelling.every))
    if kinds == {"string"}:
        return tuple(_texts(*_byte_range(low, high), spelling))
    if kinds == {"bytes"}:
        start, end = _byte_range(low, high)
        return tuple(_from_to(b"\0" + start, b"\1" if end is None else b"\0" + end))
    return ()


def starting_with(prefix: Value, spelling: Spelling = OWN) -> Alternatives:
    """The cells with a text or bytes that begin so; none begins with anything else."""
    if isinstance(prefix, str):
        start = prefix.encode()
        return tuple(_texts(start, _behind(start), spelling))
    if isinstance(prefix, bytes):
        start = b"\0" + prefix
        return tuple(_from_to(start, _behind(start)))
    return ()


def _byte_range(low: Bound | None, high: Bound | None) -> tuple[bytes, bytes | None]:
    """The bounds of texts or bytes as ``[start, end)``."""
    start = b"" if low is None else _bytes(low.value) + b"\0" * low.open
    end = None if high is None else _bytes(high.value) + b"\0" * (not high.open)
    return start, end


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def _behind(prefix: bytes) -> bytes | None:
    """The first of the bytes that come after all those with the prefix; None if there are none."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


def _from_to(start: bytes, end: bytes | None) -> Iterator[Filter]:
    """The cells in ``[start, end)``, if any can be; ``end`` None is no end."""
    if end == start + b"\0":
        yield ValueIs(start)
    elif end is None or start < end:
        yield ValueRange(start, end)


def _texts(start: bytes, end: bytes | None, spelling: Spelling) -> Iterator[Filter]:
    """The cells with a text in ``[start, end)``: first those that are the text as it is, piece by piece."""
    at = start
    cuts = tuple(_cuts_within(start, end))
    pieces = [cut for cut in _DECLARED_CUTS if _touches(cut, start, end)] if spelling.declared else cuts
    for begins, ends, kept in pieces:
        yield from _from_to(at, begins)
        if kept is not None:
            stop = ends if end is None else min(end, ends)
            yield from (chain(part, kept) for part in _from_to(max(start, begins), stop))
        at = ends
    yield from _from_to(at, end)
    if cuts or spelling.every:
        yield from _from_to(b"'" + start, b"(" if end is None else b"'" + end)


def _cuts_within(start: bytes, end: bytes | None) -> Iterator[_Cut]:
    """The cuts that ``[start, end)`` touches, but those for numbers where all in it begins as no number does."""
    numbers = end is None or _LIKE_NUMBER.fullmatch(_shared(start, end))
    for cut in _CUTS:
        if _touches(cut, start, end) and (numbers or cut[2] is None):
            yield cut


def _touches(cut: _Cut, start: bytes, end: bytes | None) -> bool:
    begins, ends, _ = cut
    return start < ends and (end is None or begins < end)


def _shared(start: bytes, end: bytes) -> bytes:
    """How both begin."""
    same = next((at for at, (one, other) in enumerate(zip(start, end, strict=False)) if one != other), len(start))
    return start[:same]


def _positive(low: Bound | None, high: Bound | None) -> Iterator[Filter]:
    """The cells with a number from 0 on that lies between the bounds."""
    if high is None or high.value >= 0:
        yield from _magnitudes("", low if low is not None and low.value >= 0 else None, high)


def _negative(low: Bound | None, high: Bound | None, *, every: bool) -> Iterator[Filter]:
    """The cells with a number that has a minus and lies between the bounds; one of them is -0."""
    ends = high is not None and (high.value < 0 or (high.value == 0 and high.open))
    if low is None or low.value < 0:
        yield from _magnitudes("-", high if ends else None, low)
    elif every and low.value == 0 and not (low.open or ends):
        yield ValueIs(_NEGATIVE_ZERO)


def _magnitudes(sign: str, least: Bound | None, most: Bound | None) -> Iterator[Filter]:
    """The cells with a number of this sign, and a magnitude between those of the bounds."""
    first, start = (1, b"") if least is None else _place(sign, least.value, after=least.open)
    last, end = (None, None) if most is None else _place(sign, most.value, after=not most.open)
    if first == last:
        yield from (chain(_number(sign, first, first), part) for part in _from_to(start, end))
    elif last is None or first < last:
        if start:
            yield chain(_number(sign, first, first), ValueRange(start))
            first += 1
        if last is None or first < last:
            yield _number(sign, first, None if last is None else last - 1)
        if last is not None:
            yield chain(_number(sign, last, last), ValueRange(b"", end))


def _place(sign: str, value: Number, *, after: bool) -> tuple[int, bytes]:
    """Where a number of this sign with the magnitude of the value lies: its digits before the point, and its text.

    ``after``: the place right behind it.
    """
    magnitude = value.copy_abs() if isinstance(value, Decimal) else abs(value)
    if magnitude >= _FAR:
        return MOST_DIGITS + 1, sign.encode()
    text = write(magnitude)
    return len(text.partition(b".")[0]), sign.encode() + text + b"\0" * after


def _number(sign: str, first: int, last: int | None) -> Filter:
    """The cells with a number of this sign, with so many digits before the point; None: or more."""
    if first == 1:
        digits = "[0-9]" if last == 1 else f"(0|[1-9][0-9]{'*' if last is None else f'{{0,{last - 1}}}'})"
    elif first == last:
        digits = f"[1-9][0-9]{{{first - 1}}}"
    else:
        digits = f"[1-9][0-9]{{{first - 1},{'' if last is None else last - 1}}}"
    return ValueMatches(f"{sign}{digits}{_FRACTION}".encode())
