"""Rows from stored items and back, exactly, with values that ``cbt read`` shows as people write them.

A cell an attribute: the qualifier is its name, the value its text; bytes are as they are, lists, dicts and sets are
JSON. A text says nothing of its type, so one more cell, ``_types``, lists in JSON the attributes that are not strings::

    d:_t = Order    d:total = 12.5    d:lines = [{"sku": "a"}]    d:_types = {"number": ["total"], "json": ["lines"]}

In JSON numbers are JSON numbers; a set is ``{"$set": [...]}``, bytes are ``{"$bytes": "<base64>"}``, and a user's own
map key that begins with ``$`` gets one more in front.
"""

import json
from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import lru_cache
from types import NoneType
from typing import Any, Final

from odm.backends.bigtable.native import FAMILY, Row
from odm.errors import BackendError, BadValue, ItemTooLarge
from odm.expressions.nodes import Item, Number, Value

TYPES = "_types"

MAX_QUALIFIER = 16 * 1024
MAX_CELL = 100 * 1024 * 1024
MAX_CELLS = 99_998
"""google.bigtable.v2, data.proto: bytes of a qualifier and a cell; a row is replaced by at most 100,000 mutations."""

_KINDS: Final[Mapping[type, str]] = {
    NoneType: "null",
    bool: "bool",
    int: "number",
    Decimal: "number",
    bytes: "bytes",
    list: "json",
    dict: "json",
    frozenset: "json",
}


def encode(item: Item, row_key: str) -> tuple[tuple[str, bytes], ...]:
    """The cells of an item: qualifiers and values.

    Args:
        item: the stored item.
        row_key: where it goes, for messages.

    Raises:
        BadValue: an attribute's name or type can not be stored.
        ItemTooLarge: it has too many attributes, or one has too many bytes.
    """
    if len(item) > MAX_CELLS:
        raise ItemTooLarge(f"the item {row_key!r} has {len(item)} attributes; a row takes {MAX_CELLS} in one write")
    cells: list[tuple[str, bytes]] = []
    kinds: dict[str, list[str]] = {}
    for name, value in item.items():
        if type(value) is not str:
            kinds.setdefault(_kind(name, value, row_key), []).append(name)
        cells.append((name, _checked(name, _bytes(value), row_key)))
    if kinds or not item:  # a row without cells would not exist
        cells.append((TYPES, _dumps(kinds).encode()))
    return tuple(cells)


def decode(row: Row) -> dict[str, Value]:
    """The item of a row.

    Raises:
        BackendError: the row was written by something else, and is not as `encode` makes rows.
    """
    try:
        types = next((cell.value for cell in row.cells if cell.qualifier == b"_types" and cell.family == FAMILY), b"{}")
        readers = _readers(types)
        return {
            name: readers.get(name, bytes.decode)(cell.value)
            for cell in row.cells
            if cell.family == FAMILY and (name := cell.qualifier.decode()) != TYPES
        }
    except (ValueError, ArithmeticError, LookupError, TypeError, AttributeError) as fault:
        raise BackendError(
            f"the row {row.text!r} is not one that odm wrote ({fault}): its cells do not fit their list of types in "
            f"{FAMILY}:{TYPES}. Keep the table to odm, or delete the row"
        ) from fault


def _kind(name: str, value: Value, row_key: str) -> str:
    try:
        return _KINDS[type(value)]
    except KeyError:
        raise BadValue(
            f"attribute {name!r} of the item {row_key!r} is a {type(value).__name__}, which is not a stored value"
        ) from None


def _checked(name: str, value: bytes, row_key: str) -> bytes:
    if name == TYPES:
        raise BadValue(f"the item {row_key!r} has an attribute {TYPES!r}: that name is reserved")
    if (size := len(name.encode())) > MAX_QUALIFIER:
        raise BadValue(
            f"attribute {name[:40]!r}… of the item {row_key!r} has a name of {size} bytes; the most is {MAX_QUALIFIER}"
        )
    if len(value) > MAX_CELL:
        raise ItemTooLarge(
            f"attribute {name!r} of the item {row_key!r} has {len(value)} bytes; Bigtable allows {MAX_CELL} in a cell"
        )
    return value


def _bytes(value: Value) -> bytes:
    if isinstance(value, bytes):
        return value
    return (value if isinstance(value, str) else _dumps(value)).encode()


def _dumps(value: Value) -> str:
    """JSON text; written here because the standard encoder has no exact decimals."""
    match value:
        case None | bool() | str():
            return _text(value)
        case int() | Decimal():
            return str(value)
        case list():
            return f"[{', '.join(map(_dumps, value))}]"
        case dict():
            return f"{{{', '.join(f'{_text(_escaped(key))}: {_dumps(part)}' for key, part in value.items())}}}"
        case frozenset():
            return f'{{"$set": {_dumps(sorted(value))}}}'
        case bytes():
            return f'{{"$bytes": "{b64encode(value).decode()}"}}'
        case _:
            raise BadValue(f"{value!r} is a {type(value).__name__}, which is not a stored value")


def _text(value: str | bool | None) -> str:
    return json.dumps(value, ensure_ascii=False)


def _escaped(key: str) -> str:
    return "$" + key if key.startswith("$") else key


def _loads(value: bytes) -> Value:
    return json.loads(value, parse_float=Decimal, object_hook=_restore)


def _restore(found: dict[str, Any]) -> Value:
    if len(found) == 1:
        if "$set" in found:
            return frozenset(found["$set"])
        if "$bytes" in found:
            return b64decode(found["$bytes"], validate=True)
    return {key.removeprefix("$"): value for key, value in found.items()}


def _number(value: bytes) -> Number:
    text = value.decode("ascii")
    return int(text) if text.lstrip("-").isdigit() else Decimal(text)


def _constant(value: bytes) -> bool | None:
    return {b"true": True, b"false": False, b"null": None}[value]


_READERS: Final[Mapping[str, Callable[[bytes], Value]]] = {
    "null": _constant,
    "bool": _constant,
    "number": _number,
    "bytes": bytes,
    "json": _loads,
}


@lru_cache(maxsize=1024)  # the items of an entity mostly share one list
def _readers(types: bytes) -> Mapping[str, Callable[[bytes], Value]]:
    kinds: dict[str, list[str]] = json.loads(types)
    return {name: _READERS[kind] for kind, names in kinds.items() for name in names}
