r"""Filters for the cells with a value, or with a value in a range, as `odm.backends.bigtable.cells` writes them.

Each function returns *alternatives*: filters such that a cell with a matching value passes exactly one of them, and any
other cell passes none. A `Spelling` selects the forms of cells to match: those that odm writes or wrote, or all that
are read as the value. The server compares cells as bytes, so a range of texts must exclude cells of other types in it:

* **Numbers** with the same sign and the same number of digits before the point sort like their texts, negative numbers
  in reverse. So a range needs one expression for all lengths in the middle, and one with a byte range at each end.
* **Texts** sort like their UTF-8. Texts that would be read as another type begin with an apostrophe, and have a
  separate byte range. From the range of all other texts, the byte ranges of other types are cut out. For an attribute
  that is declared as text, only null, bytes and texts with an apostrophe are cut out; texts from before the declaration
  may still have an apostrophe.
* **Bytes** follow a zero byte.

Expressions are RE2 over bytes: ``\C`` is any byte, and a repeat count is at most 1000
(https://github.com/google/re2/wiki/Syntax).
"""

import re
from collections.abc import Iterable, Iterator
from decimal import Decimal
from typing import Final, TypeAlias

from odm.backends.bigtable.cells import write, write_text
from odm.backends.bigtable.filters import Filter, ValueIs, ValueMatches, ValueRange, chain
from odm.expressions.evaluate import kind_of
from odm.expressions.nodes import Comparator, Number, Value
from odm.immutable import Immutable

Alternatives: TypeAlias = tuple[Filter, ...]
_Cut: TypeAlias = tuple[bytes, bytes, Filter | None]

MOST_DIGITS: Final = 126
"""The maximum digits before the point of a stored number (`odm.codec.numbers`)."""

_FAR: Final = 10**MOST_DIGITS
_FRACTION: Final = r"(\.[0-9]*[1-9])?"
_NOT_NUMBER: Final = ValueMatches(
    rb"-([^0-9]\C*)?"
    rb"|-?(0[^.]\C*|[1-9][0-9]*[^0-9.]\C*|(0|[1-9][0-9]*)\.([0-9]*(0|[^0-9]\C*))?)"
)
"""The cells that begin with a digit or a minus but do not hold a number."""

_LIKE_NUMBER: Final = re.compile(rb"-?((0|[1-9][0-9]*)(\.[0-9]*)?)?")
"""The prefixes of numbers."""

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
"""Byte ranges ``[begin, end)`` of cells that are not texts: all cells in the range, or only the cells that do not pass
the filter."""

_DECLARED_CUTS: Final[tuple[_Cut, ...]] = (
    (b"\0", b"\1", None),
    (b"'", b"(", None),
    (b"null", b"null\0", None),
)
"""The same for an attribute that is declared as text."""

_NEGATIVE_ZERO: Final = b"-0"
"""Read as 0. Only other programs write it."""


class Spelling(Immutable):
    """Which forms of a value must pass the filters.

    Attributes:
        declared: the attribute is declared as text.
        every: all cells that are read as the value; otherwise only those that odm writes or wrote. Other programs may
            have written an unneeded apostrophe, or ``-0``.
    """

    declared: bool = False
    every: bool = False


OWN: Final = Spelling()


class Bound(Immutable):
    """An end of a range; ``open`` excludes the value itself."""

    value: Value
    open: bool = False


class Compares:
    """Finds the cells of one encoding by their values; by default, no filter can compare them."""

    def equal(self, value: Value) -> Alternatives | None:
        """The cells with this value; None if no filter finds exactly these."""
        return None

    def between(self, low: Bound | None, high: Bound | None) -> Alternatives | None:
        """The cells with a value from ``low`` to ``high``; one bound may be None: no limit."""
        return None

    def starting_with(self, prefix: Value) -> Alternatives | None:
        """The cells with a text or bytes that begin with the prefix."""
        return None

    def compared(self, op: Comparator, value: Value) -> Alternatives | None:
        """The cells with a value for which the comparison holds; None if no filter can express it."""
        match op:
            case "=":
                return self.equal(value)
            case "<" | "<=":
                return self.between(None, Bound(value, open=op == "<"))
            case ">" | ">=":
                return self.between(Bound(value, open=op == ">"), None)
            case _:
                return None  # the caller negates "="

    def equal_to_one(self, values: Iterable[Value]) -> Alternatives | None:
        """The cells with one of the values; None if no filter finds those of one of them."""
        found: dict[Filter, None] = {}
        for value in values:
            same = self.equal(value)
            if same is None:
                return None
            found.update(dict.fromkeys(same))
        return tuple(found)


class Usual(Compares, Immutable):
    """Cells as `odm.backends.bigtable.cells` writes them."""

    spelling: Spelling

    def equal(self, value: Value) -> Alternatives | None:
        return equal(value, self.spelling)

    def between(self, low: Bound | None, high: Bound | None) -> Alternatives | None:
        return between(low, high, self.spelling)

    def starting_with(self, prefix: Value) -> Alternatives | None:
        return starting_with(prefix, self.spelling)


def equal(value: Value, spelling: Spelling = OWN) -> Alternatives | None:
    """The cells with this value; None for a list, map or set, whose text is not unique."""
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
    """The cells with a value of the bounds' type from ``low`` to ``high``; one bound may be None: no limit.

    Empty if the bounds have different types, or a type that is not ordered.
    """
    kinds = {kind_of(bound.value) for bound in (low, high) if bound is not None}
    if kinds == {"number"}:
        return () if spelling.declared else (*_positive(low, high), *_negative(low, high, every=spelling.every))
    if kinds == {"string"}:
        return tuple(_texts(*byte_range(low, high), spelling))
    if kinds == {"bytes"}:
        start, end = byte_range(low, high)
        return tuple(from_to(b"\0" + start, b"\1" if end is None else b"\0" + end))
    return ()


def starting_with(prefix: Value, spelling: Spelling = OWN) -> Alternatives:
    """The cells with a text or bytes that begin with the prefix; empty for a prefix of another type."""
    if isinstance(prefix, str):
        start = prefix.encode()
        return tuple(_texts(start, behind(start), spelling))
    if isinstance(prefix, bytes):
        start = b"\0" + prefix
        return tuple(from_to(start, behind(start)))
    return ()


def byte_range(low: Bound | None, high: Bound | None) -> tuple[bytes, bytes | None]:
    """Two bounds, of texts or bytes, as a byte range ``[start, end)``."""
    start = b"" if low is None else _bytes(low.value) + b"\0" * low.open
    end = None if high is None else _bytes(high.value) + b"\0" * (not high.open)
    return start, end


def _bytes(value: str | bytes) -> bytes:
    return value if isinstance(value, bytes) else value.encode()


def behind(prefix: bytes) -> bytes | None:
    """The first byte string above all strings with the prefix; None if there is no such string."""
    head = prefix.rstrip(b"\xff")
    return head[:-1] + bytes([head[-1] + 1]) if head else None


def from_to(start: bytes, end: bytes | None) -> Iterator[Filter]:
    """The cells in ``[start, end)``; no filter if the range is empty; ``end`` None: no upper bound."""
    if end == start + b"\0":
        yield ValueIs(start)
    elif end is None or start < end:
        yield ValueRange(start, end)


def _texts(start: bytes, end: bytes | None, spelling: Spelling) -> Iterator[Filter]:
    """The cells with a text in ``[start, end)``: cells without an apostrophe, between the cuts; then cells with one."""
    at = start
    cuts = tuple(_cuts_within(start, end))
    pieces = [cut for cut in _DECLARED_CUTS if _touches(cut, start, end)] if spelling.declared else cuts
    for begins, ends, kept in pieces:
        yield from from_to(at, begins)
        if kept is not None:
            stop = ends if end is None else min(end, ends)
            yield from (chain(part, kept) for part in from_to(max(start, begins), stop))
        at = ends
    yield from from_to(at, end)
    if cuts or spelling.every:
        yield from from_to(b"'" + start, b"(" if end is None else b"'" + end)


def _cuts_within(start: bytes, end: bytes | None) -> Iterator[_Cut]:
    """The cuts that overlap ``[start, end)``, without those for numbers if no number can be in the range."""
    numbers = end is None or _LIKE_NUMBER.fullmatch(_shared(start, end))
    for cut in _CUTS:
        if _touches(cut, start, end) and (numbers or cut[2] is None):
            yield cut


def _touches(cut: _Cut, start: bytes, end: bytes | None) -> bool:
    begins, ends, _ = cut
    return start < ends and (end is None or begins < end)


def _shared(start: bytes, end: bytes) -> bytes:
    """The longest common prefix."""
    same = next((at for at, (one, other) in enumerate(zip(start, end, strict=False)) if one != other), len(start))
    return start[:same]


def _positive(low: Bound | None, high: Bound | None) -> Iterator[Filter]:
    """The cells with a number between the bounds that is 0 or greater."""
    if high is None or high.value >= 0:
        yield from _magnitudes("", low if low is not None and low.value >= 0 else None, high)


def _negative(low: Bound | None, high: Bound | None, *, every: bool) -> Iterator[Filter]:
    """The cells with a number between the bounds that has a minus sign, including ``-0``."""
    ends = high is not None and (high.value < 0 or (high.value == 0 and high.open))
    if low is None or low.value < 0:
        yield from _magnitudes("-", high if ends else None, low)
    elif every and low.value == 0 and not (low.open or ends):
        yield ValueIs(_NEGATIVE_ZERO)


def _magnitudes(sign: str, least: Bound | None, most: Bound | None) -> Iterator[Filter]:
    """The cells with a number of this sign whose magnitude is between the magnitudes of the bounds."""
    first, start = (1, b"") if least is None else _place(sign, least.value, after=least.open)
    last, end = (None, None) if most is None else _place(sign, most.value, after=not most.open)
    if first == last:
        yield from (chain(_number(sign, first, first), part) for part in from_to(start, end))
    elif last is None or first < last:
        if start:
            yield chain(_number(sign, first, first), ValueRange(start))
            first += 1
        if last is None or first < last:
            yield _number(sign, first, None if last is None else last - 1)
        if last is not None:
            yield chain(_number(sign, last, last), ValueRange(b"", end))


def _place(sign: str, value: Number, *, after: bool) -> tuple[int, bytes]:
    """The position of a number with this sign and the value's magnitude: its digits before the point, and its text.

    ``after``: the position directly after the number.
    """
    magnitude = value.copy_abs() if isinstance(value, Decimal) else abs(value)
    if magnitude >= _FAR:
        return MOST_DIGITS + 1, sign.encode()
    text = write(magnitude)
    return len(text.partition(b".")[0]), sign.encode() + text + b"\0" * after


def _number(sign: str, first: int, last: int | None) -> Filter:
    """The cells with a number of this sign and ``first`` to ``last`` digits before the point; None: no upper limit."""
    if first == 1:
        digits = "[0-9]" if last == 1 else f"(0|[1-9][0-9]{'*' if last is None else f'{{0,{last - 1}}}'})"
    elif first == last:
        digits = f"[1-9][0-9]{{{first - 1}}}"
    else:
        digits = f"[1-9][0-9]{{{first - 1},{'' if last is None else last - 1}}}"
    return ValueMatches(f"{sign}{digits}{_FRACTION}".encode())
