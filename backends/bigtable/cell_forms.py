r"""The encodings that `odm.Cell` names: stored values ↔ the bytes that other programs read and write.

A form also finds the cells whose value equals another or lies in a range, where the bytes show it. Where they do not,
it returns None, and the condition is evaluated on the item that is read.
"""

import json
import math
import re
import struct
from collections.abc import Callable, Mapping
from decimal import Decimal
from typing import Any, Final, Literal

from odm.backends.bigtable.cell_ranges import Alternatives, Bound, Compares, behind, byte_range, from_to
from odm.backends.bigtable.cells import write
from odm.backends.bigtable.filters import ValueIs, ValueMatches, chain
from odm.codec.faults import Unfit
from odm.codec.numbers import canonical, canonical_float
from odm.codec.stored import BOOLEAN, NUMBER, StoredType
from odm.errors import BadValue, brief
from odm.expressions.evaluate import kind_of
from odm.expressions.nodes import Number, Value

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
        found: list[Any] = []
        for least, most in ((0, most_of_all), (least_of_all, -1)):  # negative numbers sort above the others
            start, end = max(least, first), min(most, last)
            if start <= end:
                found += from_to(self._cell(start), self._cell(end) + b"\0")
        return tuple(one if isinstance(one, ValueIs) else chain(one, self._whole) for one in found)

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
    found: Value = value
    return found


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
