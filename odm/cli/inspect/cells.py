"""The values of a column of Bigtable → what they probably are: an encoding of `odm.Cell`, and a type that holds them.

Bytes have no types in Bigtable. A guess is only made if it holds for every value, and if odm would write each value
back as the same bytes; JSON is written back as equal JSON.
"""

import math
import re
import struct
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Final

from msgspec import Struct

from odm.backends.bigtable.rows.cell_forms import JsonForm
from odm.backends.bigtable.rows.cells import write
from odm.cli.inspect.types import FORMATS
from odm.codec.types.numbers import canonical
from odm.codec.types.stored import Unfit
from odm.codec.types.times import format_type


class CellGuess(Struct, frozen=True):
    """What the values of a column are.

    Attributes:
        encoding: of `odm.Cell`.
        type: the annotation.
        options: arguments of ``Stored``.
        why: a comment.
    """

    encoding: str
    type: str
    options: str = ""
    why: str = ""


_TIME: Final = re.compile(r"time|date|_at\b|stamp|created|updated|expires|(^|_)(at|ts|when)$", re.IGNORECASE)
"""Names of columns that hold times."""

MILLIS: Final = range(10**12, 2_500_000_000_000)
SECONDS: Final = range(10**9, 2_500_000_000)
"""Numbers that are plausible times: from 2001 to 2049."""

_WHOLE: Final = re.compile(r"0|-?[1-9][0-9]{0,37}", re.ASCII)
_DECIMAL: Final = re.compile(r"-?[0-9]{1,30}\.[0-9]{1,30}", re.ASCII)
_PLAUSIBLE_INT: Final = 2**53
_PLAUSIBLE_FLOAT: Final = (1e-9, 1e15)
_EIGHT: Final = 8


def guess(name: str, values: Sequence[bytes]) -> CellGuess:
    """What the values of a column are.

    Args:
        name: the qualifier.
        values: one value or more.
    """
    texts = _texts(values)
    if texts is not None:
        return _of_texts(name, texts)
    if all(len(value) == _EIGHT for value in values):
        return _of_eight_bytes(name, values)
    sizes = sorted({len(value) for value in values})
    sizes_text = f"{sizes[0]} bytes each" if len(sizes) == 1 else f"{sizes[0]} to {sizes[-1]} bytes"
    return CellGuess("bytes", "bytes", why=sizes_text)


def _texts(values: Sequence[bytes]) -> list[str] | None:
    """The values as text; None if they are not text that people can read."""
    try:
        texts = [value.decode() for value in values]
    except UnicodeDecodeError:
        return None
    readable = all(character.isprintable() or character in "\t\r\n" for text in texts for character in text)
    return texts if readable else None


def _of_eight_bytes(name: str, values: Sequence[bytes]) -> CellGuess:
    numbers = [int.from_bytes(value, "big", signed=True) for value in values]
    if all(abs(number) < _PLAUSIBLE_INT for number in numbers):
        return _of_numbers(name, numbers, "int64be", "zero in every row; could be a float" * (not any(numbers)))
    floats = [struct.unpack(">d", value)[0] for value in values]
    if all(map(_is_plausible, floats)):
        return CellGuess("float64be", "float")
    return CellGuess("bytes", "bytes", why="8 bytes each, not plausible as a number")


def _is_plausible(number: float) -> bool:
    low, high = _PLAUSIBLE_FLOAT
    return math.isfinite(number) and (low < abs(number) < high or (number == 0 and math.copysign(1, number) > 0))


def _of_numbers(name: str, numbers: Sequence[int], encoding: str, why: str = "") -> CellGuess:
    for unit, span in (("ms", MILLIS), ("s", SECONDS)):
        if all(number in span for number in numbers):
            if _TIME.search(name):
                return CellGuess(encoding, "datetime", f'epoch="{unit}"')
            if unit == "ms":
                why = "could be a time in milliseconds since 1970"
    return CellGuess(encoding, "int", why=why)


def _of_texts(name: str, texts: Sequence[str]) -> CellGuess:
    if not any(texts):
        return CellGuess("text", "str", why="empty in every row")
    if all(text[:1] in ("{", "[") for text in texts) and (held := _json(texts)):
        return CellGuess("json", held)
    if all(_WHOLE.fullmatch(text) for text in texts):
        return _of_numbers(name, [int(text) for text in texts], "text")
    if {*texts} <= {"true", "false"}:
        return CellGuess("text", "bool")
    if all(_WHOLE.fullmatch(text) or _DECIMAL.fullmatch(text) for text in texts):
        return _of_decimals(texts)
    return next((CellGuess("text", *moment) for moment in moments(texts)), CellGuess("text", "str"))


def _json(texts: Sequence[str]) -> str | None:
    form = JsonForm()
    try:
        kinds = {type(form.read(text.encode())).__name__ for text in texts}
    except (ValueError, ArithmeticError, RecursionError):
        return None
    # A field of both would be Any, of which no form is refused.
    return {"dict": "dict[str, Any]", "list": "list[Any]"}.get("".join(kinds))


def _of_decimals(texts: Sequence[str]) -> CellGuess:
    try:
        same = all(write(canonical(Decimal(text))) == text.encode() for text in texts)
    except (Unfit, InvalidOperation):
        same = False
    if same:
        return CellGuess("text", "Decimal")
    return CellGuess("text", "str", why="numbers; as a Decimal, odm would write 1.50 back as 1.5")


def moments(
    texts: Sequence[str], formats: Sequence[str] = FORMATS, days: Sequence[str] = ("%Y-%m-%d",)
) -> list[tuple[str, str]]:
    """The types and the options of ``Stored`` with which all texts are times or days; most often none or one."""
    kinds: tuple[tuple[type, Sequence[str]], ...] = ((date, days), (datetime, formats))
    return [
        (kind.__name__, f'format="{form}"')
        for kind, forms in kinds
        for form in forms
        if all(_is_moment(form, kind, text) for text in texts)
    ]


def _is_moment(form: str, kind: type, text: str) -> bool:
    type_ = format_type(form, kind)
    moment = type_.load(text)
    return type(moment) is kind and type_.dump(moment) == text
