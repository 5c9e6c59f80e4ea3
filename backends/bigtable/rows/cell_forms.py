r"""The encodings that `odm.Cell` names: stored values, the bytes that other programs have for them, and filters.

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

A form also finds the cells whose value equals another or lies in a range, where the bytes show it. Where they do not,
it returns None, and the condition is evaluated on the item that is read.
"""

import json
import math
import re
import struct
from collections.abc import Callable, Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any, Final, Literal, TypeAlias

from odm.backends.bigtable.client.filters import Filter, ValueIs, ValueMatches, ValueRange, chain
from odm.backends.bigtable.rows.cells import write, write_text
from odm.codec.types.numbers import canonical, canonical_float
from odm.codec.types.stored import BOOLEAN, NUMBER, StoredType, Unfit
from odm.errors import BadValue, brief
from odm.expressions.evaluate import kind_of
from odm.expressions.nodes import Comparator, Number, Value
from odm.immutable import Immutable

Alternatives: TypeAlias = tuple[Filter, ...]
_Cut: TypeAlias = tuple[bytes, bytes, Filter | None]

MOST_DIGITS: Final = 126
"""The maximum digits before the point of a stored number (`odm.codec.types.numbers`)."""

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
        filters: dict[Filter, None] = {}
        for value in values:
            same = self.equal(value)
            if same is None:
                return None
            filters.update(dict.fromkeys(same))
        return tuple(filters)


class Usual(Compares, Immutable):
    """Cells as `odm.backends.bigtable.rows.cells` writes them."""

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


_SINGLE: Final = 4
"""Bytes of a float that holds few of the numbers of Python."""

_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?", re.ASCII)
_TRUE: Final = b"\xff"
_FALSE: Final = b"\0"
_CONSTANTS: Final = {b"true": True, b"false": False}


class CellForm(Compares):
    """One encoding."""

    def write(self, value: Value) -> bytes:
        """The cell of a value; raises BadValue if it has none."""
        raise NotImplementedError

    def read(self, cell: bytes) -> Value:
        """The value of a cell; raises ValueError or another of `codec.UNREADABLE` if it has another form."""
        raise NotImplementedError


class FloatForm(CellForm):
    """A float, big-endian: IEEE 754 binary64 or binary32.

    Args:
        size: bytes of the cell, 8 or 4. A number that a float of this size does not equal has no cell.
    """

    def __init__(self, size: Literal[4, 8] = 8) -> None:
        self._float = struct.Struct({4: ">f", 8: ">d"}[size])

    def write(self, value: Value) -> bytes:
        cell = self._cell(value)
        if cell is None:
            size = self._float.size
            raise BadValue(
                f"{brief(value)} is not equal to a float of {8 * size} bits, and the cell holds {size} bytes of one"
                + ': round it with struct.unpack(">f", struct.pack(">f", x))[0] before' * (size == _SINGLE)
            )
        return cell

    def read(self, cell: bytes) -> Value:
        if len(cell) != self._float.size:
            raise ValueError(f"a float of {8 * self._float.size} bits has {self._float.size} bytes, not {len(cell)}")
        (number,) = self._float.unpack(cell)
        try:
            return canonical_float(number)
        except Unfit as unfit:
            raise ValueError(f"{number} {unfit.reason}") from None

    def equal(self, value: Value) -> Alternatives | None:
        cell = self._cell(value)
        if cell is None:
            return ()
        return (ValueIs(cell),) if value else (ValueIs(cell), ValueIs(self._float.pack(-0.0)))

    def _cell(self, value: Value) -> bytes | None:
        """The cell of a number that a float of this size equals; None for any other value."""
        if kind_of(value) != "number":
            return None
        assert isinstance(value, int | Decimal)
        try:
            cell = self._float.pack(float(value))
            return cell if canonical_float(*self._float.unpack(cell)) == value else None
        except (OverflowError, Unfit):
            return None


class IntForm(CellForm):
    """A whole number, big-endian and signed.

    Args:
        size: bytes of the cell. A number outside of its range has no cell.
    """

    def __init__(self, size: Literal[1, 2, 4, 8] = 8) -> None:
        self._size = size
        self._range = range(-(256**size) // 2, 256**size // 2)
        self._whole = ValueMatches(rb"\C{%d}" % size)

    def write(self, value: Value) -> bytes:
        if type(value) is not int or value not in self._range:
            raise BadValue(
                f"{brief(value)} is not a whole number of {8 * self._size} bits, and the cell holds one: "
                f"{self._range[0]} to {self._range[-1]}"
            )
        return self._cell(value)

    def read(self, cell: bytes) -> Value:
        if len(cell) != self._size:
            size = f"{self._size} bytes" if self._size > 1 else "1 byte"
            raise ValueError(f"a whole number of {8 * self._size} bits has {size}, not {len(cell)}")
        return int.from_bytes(cell, "big", signed=True)

    def equal(self, value: Value) -> Alternatives | None:
        return (ValueIs(self._cell(value)),) if type(value) is int and value in self._range else ()

    def between(self, low: Bound | None, high: Bound | None) -> Alternatives | None:
        if {kind_of(bound.value) for bound in (low, high) if bound is not None} != {"number"}:
            return ()
        least_of_all, most_of_all = self._range[0], self._range[-1]
        first = least_of_all if low is None else max(least_of_all, _above(low))
        last = most_of_all if high is None else min(most_of_all, _below(high))
        alternatives: list[Any] = []
        for least, most in ((0, most_of_all), (least_of_all, -1)):  # negative numbers sort above the others
            start, end = max(least, first), min(most, last)
            if start <= end:
                alternatives += from_to(self._cell(start), self._cell(end) + b"\0")
        return tuple(
            alternative if isinstance(alternative, ValueIs) else chain(alternative, self._whole)
            for alternative in alternatives
        )

    def _cell(self, value: int) -> bytes:
        return value.to_bytes(self._size, "big", signed=True)


def _above(low: Bound) -> int:
    """The least whole number in a range that begins here."""
    number = _whole(low.value, math.ceil)
    return number + 1 if low.open and number == low.value else number


def _below(high: Bound) -> int:
    number = _whole(high.value, math.floor)
    return number - 1 if high.open and number == high.value else number


def _whole(value: Any, rounded: Callable[[Any], int]) -> int:
    number: Number = value
    return number if isinstance(number, int) else rounded(number)


class TextForm(CellForm):
    """Text in UTF-8."""

    def write(self, value: Value) -> bytes:
        if not isinstance(value, str):
            raise BadValue(f"{brief(value)} is a {type(value).__name__}, and the cell holds text")
        try:
            return value.encode()
        except UnicodeEncodeError as error:
            raise BadValue(f"{brief(value)} holds a lone surrogate: give text that UTF-8 can encode") from error

    def read(self, cell: bytes) -> Value:
        return cell.decode()

    def equal(self, value: Value) -> Alternatives | None:
        return (ValueIs(value.encode()),) if isinstance(value, str) else ()

    def between(self, low: Bound | None, high: Bound | None) -> Alternatives | None:
        if {kind_of(bound.value) for bound in (low, high) if bound is not None} != {"string"}:
            return ()
        return tuple(from_to(*byte_range(low, high)))

    def starting_with(self, prefix: Value) -> Alternatives | None:
        if not isinstance(prefix, str):
            return ()
        start = prefix.encode()
        return tuple(from_to(start, behind(start)))


class BytesForm(CellForm):
    """The bytes themselves."""

    def write(self, value: Value) -> bytes:
        if not isinstance(value, bytes):
            raise BadValue(f"{brief(value)} is a {type(value).__name__}, and the cell holds bytes")
        return value

    def read(self, cell: bytes) -> Value:
        return cell

    def equal(self, value: Value) -> Alternatives | None:
        return (ValueIs(value),) if isinstance(value, bytes) else ()

    def between(self, low: Bound | None, high: Bound | None) -> Alternatives | None:
        if {kind_of(bound.value) for bound in (low, high) if bound is not None} != {"bytes"}:
            return ()
        return tuple(from_to(*byte_range(low, high)))

    def starting_with(self, prefix: Value) -> Alternatives | None:
        return tuple(from_to(prefix, behind(prefix))) if isinstance(prefix, bytes) else ()


class NumberTextForm(CellForm):
    """The text of a number, which no filter finds, as other programs may write it differently.

    Args:
        exact: a cell is read only if it would be written alike. Otherwise ``600.60`` reads as 600.6, too.
    """

    def __init__(self, *, exact: bool = False) -> None:
        self.exact = exact

    def write(self, value: Value) -> bytes:
        if kind_of(value) != "number":
            raise BadValue(f"{brief(value)} is a {type(value).__name__}, and the cell holds the text of a number")
        return write(value)

    def read(self, cell: bytes) -> Value:
        text = cell.decode()
        if not _NUMBER.fullmatch(text):
            raise ValueError(f"{brief(text[:40])} is not a number")
        try:
            number = canonical(Decimal(text))
        except Unfit as unfit:
            raise ValueError(f"{text[:40]} {unfit.reason}") from None
        if self.exact and write(number) != cell:
            raise ValueError(f"{brief(text[:40])} would be written as {write(number).decode()[:40]}")
        return number


class BoolTextForm(CellForm):
    """``true`` or ``false``."""

    def write(self, value: Value) -> bytes:
        if type(value) is not bool:
            raise BadValue(f"{brief(value)} is a {type(value).__name__}, and the cell holds true or false")
        return write(value)

    def read(self, cell: bytes) -> Value:
        if cell not in _CONSTANTS:
            raise ValueError("neither true nor false")
        return _CONSTANTS[cell]

    def equal(self, value: Value) -> Alternatives | None:
        return (ValueIs(write(value)),) if type(value) is bool else ()


class BoolByteForm(CellForm):
    """One byte, as HBase's ``Bytes.toBytes(boolean)`` writes it: 0xFF for true, 0 for false."""

    def write(self, value: Value) -> bytes:
        if type(value) is not bool:
            raise BadValue(f"{brief(value)} is a {type(value).__name__}, and the cell holds true or false")
        return _TRUE if value else _FALSE

    def read(self, cell: bytes) -> Value:
        if cell not in (_TRUE, _FALSE):
            raise ValueError("a bool of HBase is the byte 0xFF or 0x00")
        return cell == _TRUE

    def equal(self, value: Value) -> Alternatives | None:
        return (ValueIs(self.write(value)),) if type(value) is bool else ()


class JsonForm(CellForm):
    """JSON text. Equal values may have different texts, so no filter finds it."""

    def write(self, value: Value) -> bytes:
        return _json(value).encode()

    def read(self, cell: bytes) -> Value:
        return _canonical(_DECODER.decode(cell.decode()))


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a number of JSON")


_DECODER: Final = json.JSONDecoder(parse_float=Decimal, parse_constant=_refuse)


def _canonical(value: Any) -> Value:
    """The stored value of decoded JSON, whose numbers may be written in several ways."""
    match value:
        case Decimal():
            try:
                return canonical(value)
            except Unfit as unfit:
                raise ValueError(f"{value} {unfit.reason}") from None
        case list():
            return [_canonical(part) for part in value]
        case dict():
            return {key: _canonical(part) for key, part in value.items()}
    read: Value = value
    return read


def _json(value: Value) -> str:
    """JSON text; the standard encoder cannot write exact decimals."""
    match value:
        case list():
            return f"[{', '.join(map(_json, value))}]"
        case dict():
            return f"{{{', '.join(f'{_json(key)}: {_json(part)}' for key, part in value.items())}}}"
        case int() | Decimal() if not isinstance(value, bool):
            return write(value).decode()
        case None | bool() | str():
            return json.dumps(value, ensure_ascii=False)
    raise BadValue(f"{brief(value)} is a {type(value).__name__}, which JSON does not have: declare text or a list")


def form_of(encoding: str, type_: StoredType, *, exact: bool) -> CellForm:
    """The form of the cells of a field with this encoding; see `odm.schema.cells` for which types it can hold.

    Args:
        encoding: see `odm.Cell`.
        type_: of the field.
        exact: a cell is read only if it would be written alike; but equal JSON may have any text.
    """
    if encoding == "text":
        kinds = type_.kinds
        return NumberTextForm(exact=exact) if kinds & NUMBER else BoolTextForm() if kinds & BOOLEAN else TextForm()
    return _FORMS[encoding]


_FORMS: Final[Mapping[str, CellForm]] = {
    "float64be": FloatForm(),
    "float32be": FloatForm(4),
    "int64be": IntForm(),
    "int32be": IntForm(4),
    "int16be": IntForm(2),
    "int8": IntForm(1),
    "hbase_bool": BoolByteForm(),
    "json": JsonForm(),
    "bytes": BytesForm(),
}
"""By encoding, for those that need no type."""
