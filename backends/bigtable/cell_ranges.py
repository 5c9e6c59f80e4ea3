r"""Which cells hold a value, or one of a range: filters over the texts that `odm.backends.bigtable.cells` makes.

Each function gives *alternatives*: filters of which exactly the cells with such a value pass one, and no cell two. A
server compares the values of cells as bytes, so the texts of a range must be told from those of other types that lie
among them:

* **Numbers** of one sign and one count of digits before the point are ordered as their texts are, the negative ones
  backwards. So a range is one expression for all the lengths in the middle, and one with a byte range at each end.
* **Texts** are ordered as their UTF-8 is. Those that would read as something else stand behind an apostrophe, in an
  order of their own; from the others the places of the other types are cut out.
* **Bytes** stand behind a zero byte.

Expressions are RE2 over bytes: ``\C`` is any byte, and a repeat count is 1000 at most
(https://github.com/google/re2/wiki/Syntax).
"""

import re
from collections.abc import Iterator
from decimal import Decimal
from typing import Final, TypeAlias

from attrs import frozen

from odm.backends.bigtable.cells import write
from odm.backends.bigtable.filters import Filter, ValueIs, ValueMatches, ValueRange, chain
from odm.expressions.evaluate import kind_of
from odm.expressions.nodes import Number, Value

Alternatives: TypeAlias = tuple[Filter, ...]

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

_CUTS: Final[tuple[tuple[bytes, bytes, Filter | None], ...]] = (
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


@frozen
class Bound:
    """An end of a range; ``open``: the value itself lies outside."""

    value: Value
    open: bool = False


def equal(value: Value) -> Alternatives | None:
    """The cells with this value; None for a list, map or set, which has more than one text."""
    match kind_of(value):
        case "list" | "map" | "set":
            return None
        case "number" if value == 0:  # also -0
            return (ValueIs(write(0)),)
        case _:
            return (ValueIs(write(value)),)


def between(low: Bound | None, high: Bound | None) -> Alternatives:
    """The cells with a value of the bounds' type from ``low`` to ``high``; None: no bound, at one of the two ends.

    Bounds of different types, or of one that has no order, have nothing between them.
    """
    kinds = {kind_of(bound.value) for bound in (low, high) if bound is not None}
    if kinds == {"number"}:
        return (*_positive(low, high), *_negative(low, high))
    if kinds == {"string"}:
        return tuple(_texts(*_byte_range(low, high)))
    if kinds == {"bytes"}:
        start, end = _byte_range(low, high)
        return tuple(_from_to(b"\0" + start, b"\1" if end is None else b"\0" + end))
    return ()


def starting_with(prefix: Value) -> Alternatives:
    """The cells with a text or bytes that begin so; none begins with anything else."""
    if isinstance(prefix, str):
        start = prefix.encode()
        return tuple(_texts(start, _behind(start)))
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


def _texts(start: bytes, end: bytes | None) -> Iterator[Filter]:
    """The cells with a text in ``[start, end)``: first those that are the text as it is, piece by piece."""
    at = start
    cuts = tuple(_cuts_within(start, end))
    for begins, ends, kept in cuts:
        yield from _from_to(at, begins)
        if kept is not None:
            stop = ends if end is None else min(end, ends)
            yield from (chain(part, kept) for part in _from_to(max(start, begins), stop))
        at = ends
    yield from _from_to(at, end)
    if cuts:
        yield from _from_to(b"'" + start, b"(" if end is None else b"'" + end)


def _cuts_within(start: bytes, end: bytes | None) -> Iterator[tuple[bytes, bytes, Filter | None]]:
    """The cuts that ``[start, end)`` touches, but those for numbers where all in it begins as no number does."""
    numbers = end is None or _LIKE_NUMBER.fullmatch(_shared(start, end))
    for begins, ends, kept in _CUTS:
        if start < ends and (end is None or begins < end) and (numbers or kept is None):
            yield begins, ends, kept


def _shared(start: bytes, end: bytes) -> bytes:
    """How both begin."""
    same = next((at for at, (one, other) in enumerate(zip(start, end, strict=False)) if one != other), len(start))
    return start[:same]


def _positive(low: Bound | None, high: Bound | None) -> Iterator[Filter]:
    """The cells with a number from 0 on that lies between the bounds."""
    if high is None or high.value >= 0:
        yield from _magnitudes("", low if low is not None and low.value >= 0 else None, high)


def _negative(low: Bound | None, high: Bound | None) -> Iterator[Filter]:
    """The cells with a number below 0 that lies between the bounds."""
    if low is None or low.value < 0:
        yield from _magnitudes("-", high if high is not None and high.value < 0 else None, low)


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
