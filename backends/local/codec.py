"""Item to bytes and back: how the bundled engine keeps an item, in memory and in a file.

JSON, UTF-8. An item of what JSON has types for is one object. Any other is an array: the object, in which the rest is
written as JSON can, and marks for the attributes that are to be read otherwise: ``[{"price": "1.5"}, {"price": "n"}]``.
Marks are ``n`` Decimal, ``b`` bytes in base64, ``s`` set of strings or integers, and ``t`` a value with any of these
inside. In that, each is an object of one tag, ``{"$n": "1.5"}``, ``{"$b": "AAE="}`` or ``{"$s": [...]}``; a map that
could be taken for one (a single name that begins with ``$``) is written with one more ``$`` before the name.

Bytes do not change, so whatever is read is decoded anew, and nobody's mutation of an object reaches the store.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Collection, Mapping
from decimal import Decimal
from types import NoneType
from typing import Any, Final, cast

from pydantic_core import PydanticSerializationError, from_json, to_json

from odm.errors import BackendError, BadValue
from odm.expressions.nodes import Item, Value

_DAMAGE: Final = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError)
"""What reading raises on bytes of which some have changed: no JSON, or JSON of another shape."""

_PLAIN: Final = frozenset({str, int, bool, NoneType})


def encode(item: Item) -> bytes:
    """The bytes under which an item is kept.

    Raises:
        BadValue: the item holds something that is not a stored value.
    """
    written: dict[str, Any] = {}
    marks: dict[str, str] = {}
    for name, value in item.items():
        if type(value) in _PLAIN:
            written[name] = value
        else:
            written[name], mark = _written(value)
            if mark:
                marks[name] = mark
    try:
        return to_json([written, marks] if marks else written)
    except PydanticSerializationError as error:
        raise BadValue(f"the item can not be stored: {error}; it holds text that is not valid Unicode") from error


def decode(data: bytes) -> dict[str, Value]:
    """The item, made of new objects at every call.

    Raises:
        BackendError: these are not bytes that `encode` made.
    """
    try:
        stored = from_json(data)
        if isinstance(stored, dict):
            return stored
        item, marks = stored
        for name, mark in marks.items():
            item[name] = _READERS[mark](item[name])
    except _DAMAGE as error:
        raise BackendError(f"a stored item is damaged, restore it from a copy: {error!r}") from error
    return cast("dict[str, Value]", item)


def _written(value: Value) -> tuple[Any, str]:
    """What JSON keeps for an attribute, and its mark; "" for none."""
    match value:
        case Decimal():
            return str(value), "n"
        case bytes():
            return b64encode(value).decode(), "b"
        case frozenset() if _all_plain(value):
            return list(value), "s"
        case list() if _all_plain(value):
            return value, ""
        case dict() if _all_plain(value.values()):
            return value, ""
        case _:
            return _tagged(value), "t"


def _all_plain(values: Collection[Value]) -> bool:
    return _PLAIN.issuperset(map(type, values))


def _tagged(value: Value) -> Any:
    match value:
        case Decimal():
            return {"$n": str(value)}
        case bytes():
            return {"$b": b64encode(value).decode()}
        case frozenset():
            return {"$s": [_tagged(member) for member in value]}
        case list():
            return [_tagged(element) for element in value]
        case dict():
            tagged = {name: _tagged(element) for name, element in value.items()}
            return {f"${name}": element for name, element in tagged.items()} if _like_tag(tagged) else tagged
        case None | bool() | int() | str():
            return value
        case _:
            raise BadValue(
                f"{value!r} of type {type(value).__name__} can not be stored; stored values are None, bool, int, "
                "Decimal, str, bytes, list, dict and frozenset"
            )


def _untagged(value: Any) -> Value:
    if isinstance(value, list):
        return [_untagged(element) for element in value]
    if not isinstance(value, dict):
        return value
    if _like_tag(value):
        [(name, content)] = value.items()
        return _TAGS[name](content) if name in _TAGS else {name[1:]: _untagged(content)}
    return {name: _untagged(element) for name, element in value.items()}


def _like_tag(value: dict[str, Any]) -> bool:
    return len(value) == 1 and next(iter(value)).startswith("$")


_TAGS: Final[Mapping[str, Callable[[Any], Value]]] = {
    "$n": Decimal,
    "$b": b64decode,
    "$s": lambda members: frozenset(map(_untagged, members)),
}
_READERS: Final[Mapping[str, Callable[[Any], Value]]] = {"n": Decimal, "b": b64decode, "s": frozenset, "t": _untagged}
