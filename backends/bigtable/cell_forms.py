r"""The encodings that `odm.Cell` names: stored values ↔ the bytes that other programs read and write.

A form also finds the cells whose value equals another or lies in a range, where the bytes show it. Where they do not,
it returns None, and the condition is evaluated on the item that is read.
"""

import json
import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from odm.backends.bigtable.cell_ranges import Alternatives, Bound, Compares, behind, byte_range, from_to
from odm.backends.bigtable.cells import INT64, read_counter, write, write_counter
from odm.backends.bigtable.filters import ValueIs, ValueMatches, chain
from odm.codec.faults import Unfit
from odm.codec.numbers import canonical, canonical_float
from odm.codec.stored import BOOLEAN, NUMBER, StoredType
from odm.errors import BadValue, brief
from odm.expressions.evaluate import kind_of
from odm.expressions.nodes import Number, Value

_FLOAT: Final = struct.Struct(">d")
_EIGHT: Final = ValueMatches(rb"\C{8}")
_NUMBER: Final = re.compile(r"[+-]?[0-9]+(\.[0-9]*)?([eE][+-]?[0-9]{1,3})?", re.ASCII)
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
    """8 bytes, big-endian: IEEE 754 binary64."""

    def write(self, value: Value) -> bytes:
        cell = _float_cell(value)
        if cell is None:
            raise BadValue(f"{brief(value)} is not a float, and the cell holds 8 bytes of one")
        return cell

    def read(self, cell: bytes) -> Value:
        if len(cell) != _FLOAT.size:
            raise ValueError(f"a float has {_FLOAT.size} bytes, not {len(cell)}")
        (number,) = _FLOAT.unpack(cell)
        try:
            return canonical_float(number)
        except Unfit as unfit:
            raise ValueError(f"{number} {unfit.reason}") from None

    def equal(self, value: Value) -> Alternatives | None:
        cell = _float_cell(value)
        if cell is None:
            return ()
        return (ValueIs(cell),) if value else (ValueIs(cell), ValueIs(_FLOAT.pack(-0.0)))


def _float_cell(value: Value) -> bytes | None:
    """The cell of a number that a float equals; None for any other value."""
    if kind_of(value) != "number":
        return None
    assert isinstance(value, int | Decimal)
    try:
        number = float(value)
        return _FLOAT.pack(number) if canonical_float(number) == value else None
    except (OverflowError, Unfit):
        return None


class IntForm(CellForm):
    """8 bytes, big-endian and signed."""

    def write(self, value: Value) -> bytes:
        if type(value) is not int or value not in INT64:
            raise BadValue(
                f"{brief(value)} is not a whole number of 64 bits, and the cell holds one: {INT64[0]} to {INT64[-1]}"
            )
        return write_counter(value)

    def read(self, cell: bytes) -> Value:
        return read_counter(cell)

    def equal(self, value: Value) -> Alternatives | None:
        return (ValueIs(write_counter(value)),) if type(value) is int and value in INT64 else ()

    def between(self, low: Bound | None, high: Bound | None) -> Alternatives | None:
        if {kind_of(bound.value) for bound in (low, high) if bound is not None} != {"number"}:
            return ()
        first = INT64[0] if low is None else max(INT64[0], _above(low))
        last = INT64[-1] if high is None else min(INT64[-1], _below(high))
        found: list[Any] = []
        for least, most in ((0, INT64[-1]), (INT64[0], -1)):  # negative numbers sort above the others
            start, end = max(least, first), min(most, last)
            if start <= end:
                found += from_to(write_counter(start), write_counter(end) + b"\0")
        return tuple(one if isinstance(one, ValueIs) else chain(one, _EIGHT) for one in found)


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
    return {"float64be": FloatForm, "int64be": IntForm, "json": JsonForm, "bytes": BytesForm}[encoding]()
