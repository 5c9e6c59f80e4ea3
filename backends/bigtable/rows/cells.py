"""Stored values and cells, which show their type and are readable in ``cbt read``; what each column of a row holds.

As in a spreadsheet, a cell that looks like a number is a number, and a leading apostrophe makes it text::

    number      12.5   -3   0.000001        without exponents; each number has exactly one text
    constant    true   false   null
    JSON        [1, 2]   {"sku": "a"}   {"$set": ["a", "b"]}
    bytes       a zero byte, then the bytes
    text        unchanged; with an apostrophe if it would be read as another type: '12.5   'true   '[x]   ''tis

An attribute that the models declare as text is stored as the text itself, so that other programs can read it. In such
an attribute ``12.5`` is text, and ``'12.5``, from before the declaration, is the same text. Only a text that begins
with an apostrophe or a zero byte, or that is ``null``, gets a leading apostrophe.

In JSON, bytes are ``{"$bytes": "<base64>"}``, and a map key of the user that begins with ``$`` gets one more ``$``.

A qualifier is the attribute's name, in which ``#`` and ``$`` are escaped as in keys. For a member of an attribute in
Columns, ``#`` and the member follow.

Most rows of an entity have the same columns, and rows of one response share one tuple of columns (`Row`).
"""

import json
import re
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final, NamedTuple, TypeAlias

from odm.backends.bigtable.client.native import COUNTERS, FAMILY, Column
from odm.codec.types.numbers import exact_decimal
from odm.errors import BadValue, brief
from odm.expressions.nodes import Number, Value
from odm.immutable import Immutable

NUMBER: Final = re.compile(rb"-?(0|[1-9][0-9]*)(\.[0-9]*[1-9])?")
"""Matches a whole cell if, and only if, it holds a number."""

EMPTY_MAP: Final = b"{}"
EMPTY_SET: Final = b'{"$set": []}'
"""The plain cell of an attribute in Columns: it shows whether the attribute is a map or a set."""

MARKS: Final = frozenset("-0123456789tfn'[{\0")
"""The first characters of texts that may need an apostrophe; a cell that begins otherwise is the text itself."""

TEXT_MARKS: Final = frozenset("'\0n")
"""The same for attributes that are declared as text."""

INT64: Final = range(-(2**63), 2**63)
"""The range of a Counter."""

_COUNTER_BYTES = 8
_NULL: Final = b"null"
_APOSTROPHE_OR_ZERO: Final = frozenset("'\0")
_APOSTROPHE_OR_ZERO_CELL: Final = frozenset({b"'", b"\0"})
_CONSTANTS: Final[Mapping[bytes, bool | None]] = {b"true": True, b"false": False, b"null": None}
_ESCAPES: Final = str.maketrans({"#": "$S", "$": "$T"})
_NUMERIC: Final = re.compile(NUMBER.pattern.decode(), re.ASCII)


def write(value: Value) -> bytes:
    """The cell of a value.

    Raises:
        BadValue: the value cannot be stored, or is text that UTF-8 cannot encode.
    """
    try:
        writer = _WRITERS.get(type(value))
        return _dumps(value).encode() if writer is None else writer(value)
    except UnicodeEncodeError as error:
        raise BadValue(f"{brief(value)} holds a lone surrogate: give text that UTF-8 can encode") from error


def read(cell: bytes) -> Value:
    """The value of a cell.

    Raises:
        ValueError, TypeError, LookupError or RecursionError: the cell has a form that `write` does not produce.
    """
    reader = _READERS.get(cell[0]) if cell else None
    return cell.decode() if reader is None else reader(cell)


def write_text(value: Value) -> bytes:
    """The cell of an attribute that is declared as text.

    None and bytes, which the attribute may still have from an earlier declaration, are written as `write` does.

    Raises:
        BadValue: the value has another type and would be read back as text, or is text that UTF-8 cannot encode.
    """
    if type(value) is str and value[:1] not in _APOSTROPHE_OR_ZERO and value != "null":
        try:
            return value.encode()
        except UnicodeEncodeError:
            return write(value)  # raises BadValue
    if value is not None and not isinstance(value, str | bytes):
        raise BadValue(
            f"{brief(value)} is a {type(value).__name__}, but the models declare the attribute as text, so it would be "
            "read back as text: store text, or declare the other types of the field"
        )
    return write(value)


def read_text(cell: bytes) -> Value:
    """The value of a cell of an attribute that is declared as text: None, bytes or text.

    Raises:
        ValueError: the cell is not UTF-8.
    """
    return read(cell) if cell[:1] in _APOSTROPHE_OR_ZERO_CELL or cell == _NULL else cell.decode()


class Misread(bytes):
    """A cell of the usual form for one that its encoding cannot read: no field of its type accepts the value."""

    __slots__ = ()


def write_counter(value: int) -> bytes:
    """The cell of a counter: 8 bytes, big-endian and signed, as ReadModifyWriteRow increments it.

    Raises:
        BadValue: the number does not fit into 64 bits.
    """
    if value not in INT64:
        raise BadValue(f"{value} is not a 64-bit number: a Counter holds {INT64[0]} to {INT64[-1]}")
    return value.to_bytes(_COUNTER_BYTES, "big", signed=True)


def read_counter(cell: bytes) -> int:
    """The number in a counter's cell.

    Raises:
        ValueError: the cell does not have 8 bytes.
    """
    if len(cell) != _COUNTER_BYTES:
        raise ValueError(f"a counter has {_COUNTER_BYTES} bytes, not {len(cell)}")
    return int.from_bytes(cell, "big", signed=True)


@lru_cache(maxsize=4096)  # every item has the same field names
def qualifier(name: str) -> str:
    """The qualifier of an attribute's column."""
    return name.translate(_ESCAPES)


def member_qualifier(name: str, member: str) -> str:
    """The qualifier of one member of an attribute in Columns: the key of a map, or the result of `set_member`."""
    return f"{qualifier(name)}#{member}"


def set_member(member: Value) -> str:
    """A member of a set in a qualifier: the text of its cell; bytes are written as in JSON."""
    return _plain(member) if type(member) is str else _dumps(member)


def read_member(text: str) -> Value:
    """The member of a set from its qualifier; reverses `set_member`."""
    return read(text.encode())


@lru_cache(maxsize=4096)  # as in `qualifier`; the members of dicts and sets are columns, too
def read_qualifier(column: bytes) -> tuple[str, str | None]:
    """The attribute of a column, and the member, if it is the column of a member.

    Raises:
        ValueError: the qualifier is not UTF-8.
    """
    name, parted, member = column.decode().partition("#")
    if "$" in name:
        name = name.replace("$S", "#").replace("$T", "$")
    return name, member if parted else None


def _plain(text: str) -> str:
    return "'" + text if text and text[0] in MARKS and _reads_as_another(text) else text


def _reads_as_another(text: str) -> bool:
    return text[0] in "'[{\0" or text in ("true", "false", "null") or _NUMERIC.fullmatch(text) is not None


def _dumps(value: Value) -> str:
    """JSON text; the standard encoder cannot write exact decimals."""
    match value:
        case None | bool() | str():
            return json.dumps(value, ensure_ascii=False)
        case int() | Decimal():
            return _number(value)
        case list():
            return f"[{', '.join(map(_dumps, value))}]"
        case dict():
            return f"{{{', '.join(f'{_dumps(_escaped(key))}: {_dumps(part)}' for key, part in value.items())}}}"
        case frozenset():
            return f'{{"$set": {_dumps(sorted(value))}}}'
        case bytes():
            return f'{{"$bytes": "{b64encode(value).decode()}"}}'
        case _:
            raise BadValue(f"{brief(value)} is a {type(value).__name__}, which cannot be stored")


def _number(value: Number) -> str:
    if isinstance(value, int):
        return str(value)
    text = str(value)
    if "." in text and text[-1] != "0" and "E" not in text:  # the usual case
        return text
    if not value.is_finite():
        raise BadValue(f"the number {value} cannot be stored: only finite numbers can")
    text = format(value, "f")
    return text.rstrip("0").rstrip(".") if "." in text else text


def _escaped(key: str) -> str:
    return "$" + key if key.startswith("$") else key


def _read_number(cell: bytes) -> Number | str:
    if NUMBER.fullmatch(cell) is None:
        return cell.decode()
    return Decimal(cell.decode()) if b"." in cell else int(cell)


def _read_constant(cell: bytes) -> bool | str | None:
    return _CONSTANTS[cell] if cell in _CONSTANTS else cell.decode()


def _read_json(cell: bytes) -> Value:
    decoder = _MARKED if b'"$' in cell else _UNMARKED
    return decoder.decode(cell.decode())


def _refuse(constant: str) -> None:
    raise ValueError(f"{constant} is not a stored value")


def _restore(found: dict[str, Any]) -> Value:
    if len(found) == 1:
        if "$set" in found:
            return frozenset(found["$set"])
        if "$bytes" in found:
            return b64decode(found["$bytes"], validate=True)
    return {key.removeprefix("$"): value for key, value in found.items()}


_MARKED: Final = json.JSONDecoder(parse_float=exact_decimal, parse_constant=_refuse, object_hook=_restore)
_UNMARKED: Final = json.JSONDecoder(parse_float=exact_decimal, parse_constant=_refuse)
"""For JSON without sets, bytes and keys that begin with a ``$``: faster, because it calls no hook."""

_WRITERS: Final[Mapping[type, Callable[[Any], bytes]]] = {
    str: lambda text: _plain(text).encode(),
    int: lambda number: b"%d" % number,
    Decimal: lambda number: _number(number).encode(),
    bool: lambda value: b"true" if value else b"false",
    bytes: lambda value: b"\0" + value,
}

_READERS: Final[Mapping[int, Callable[[bytes], Value]]] = {
    **dict.fromkeys(b"-0123456789", _read_number),
    **dict.fromkeys(b"tfn", _read_constant),
    **dict.fromkeys(b"[{", _read_json),
    ord("'"): lambda cell: cell[1:].decode(),
    0: lambda cell: cell[1:],
}


REVISION: Final = "~r"
"""The qualifier of the row's revision: the id of the attempt that wrote the row last.

Every item has it. It sorts after all columns of attributes with ASCII names, so one row filter can test that an
attribute is missing (`odm.backends.bigtable.rows.predicates`).
"""

LISTED: Final = "_ix"
"""The qualifier of the list of the item's index entries."""

LOCK: Final = "~x"
"""The qualifier of the lock of a transaction; see `odm.backends.bigtable.transactions.lock_cells`."""

SIDE_COLUMNS: Final = frozenset({REVISION, LISTED})
"""The columns of a row that are not attributes."""

_KEPT: Final = 256
"""The shapes of rows with more columns than this are not cached: few such rows have the same columns."""

_MOST: Final = 1024
"""The maximum shapes in the cache."""


class Count(NamedTuple):
    """A counter's column."""

    name: str


class Member(NamedTuple):
    """The column of one member of an attribute in Columns."""

    name: str
    member: str


class SideColumn(NamedTuple):
    """A column of the backend, not of an attribute."""

    name: str


Slot: TypeAlias = str | Count | Member | SideColumn | None
"""What a column holds: a str names an attribute in a plain cell; None is a column that odm does not read."""


class Shape(Immutable):
    """What the columns of a row hold.

    Attributes:
        slots: what each column holds, in the order of the columns.
        places: the positions of the attributes in plain cells, by name.
        counted: the attributes with a counter's column.
        parted: the attributes with columns of members.
        doubled: whether an attribute has both a counter's column and a plain cell.
    """

    slots: tuple[Slot, ...]
    places: Mapping[str, int]
    counted: frozenset[str]
    parted: frozenset[str]
    doubled: bool


def _shape(columns: tuple[Column, ...]) -> Shape:
    slots = tuple(_slot(*column) for column in columns)
    counted = frozenset(slot.name for slot in slots if isinstance(slot, Count))
    parted = frozenset(slot.name for slot in slots if isinstance(slot, Member))
    places = {slot: place for place, slot in enumerate(slots) if isinstance(slot, str)}
    return Shape(slots, places, counted, parted, doubled=not counted.isdisjoint(places))


class _Shapes(dict[tuple[Column, ...], Shape]):
    """The shapes of columns; emptied when there are many."""

    def __missing__(self, columns: tuple[Column, ...]) -> Shape:
        shape = _shape(columns)
        if len(columns) <= _KEPT:
            if len(self) >= _MOST:
                self.clear()
            self[columns] = shape
        return shape


shape_of: Final[Callable[[tuple[Column, ...]], Shape]] = _Shapes().__getitem__
"""The shape of a row with these columns."""


def _slot(family: str, column: bytes) -> Slot:
    if family not in (FAMILY, COUNTERS):
        return None
    try:
        name, member = read_qualifier(column)
    except ValueError:  # not UTF-8, so odm did not write it
        return None
    if family == COUNTERS:
        return Count(name)
    if member is not None:
        return Member(name, member)
    return SideColumn(name) if name in SIDE_COLUMNS else name
