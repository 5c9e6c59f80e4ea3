"""Items ↔ bytes: the format in which the bundled engine stores an item, in memory and in a file.

The format is JSON in UTF-8: an object that begins with the version ``_v``, if any, and the tag ``_t``, so that pydantic
can read most entities directly from it (see `odm.codec.texts`). A Decimal is a JSON number if a float shows exactly the
same digits, which is always true up to 15 digits. Sets of strings or such numbers are arrays, and a last attribute,
``_s``, lists the names of these attributes.

An item with any other value is an array of two elements: the object, and the names of its tagged attributes. In those,
each such value is an object with one tag: ``{"$n": "1.0000000000000000001"}``, ``{"$b": "AAE="}`` (base64) or
``{"$s": [...]}``. A map that looks like a tag (one name, which begins with ``$``) gets another ``$`` before the name.

Bytes are immutable and each read decodes them again, so changing a returned object never changes the stored item.
"""

from base64 import b64decode, b64encode
from collections.abc import Callable, Mapping
from decimal import Decimal
from functools import partial
from types import NoneType
from typing import Any, Final

from pydantic_core import PydanticSerializationError, from_json, to_json

from odm.codec import TAG, VERSION, Draft, EntityCodec
from odm.codec.emitter import Unsupported
from odm.codec.texts import HEAD
from odm.codec.types.numbers import exact_decimal
from odm.codec.writers import Drafts, Spelling, TextWrites, decimal_digits
from odm.errors import BackendError, BadValue, brief
from odm.expressions.nodes import Item, Value

_DAMAGE: Final = (ValueError, ArithmeticError, LookupError, TypeError, AttributeError)
"""The errors of decoding damaged bytes: they are not JSON, or JSON of another structure."""

_PLAIN: Final = frozenset({str, int, bool, NoneType})
_SETS: Final = "_s"
_MOST: Final = 2
"""With quotes and commas, names and values have more than half of the bytes that DynamoDB counts for them."""
_FLOAT_TEXT: Final = 16
"""A Decimal whose text is no longer than this has at most 15 digits, which a float preserves (C: DBL_DIG)."""


def encode(item: Item) -> bytes:
    """Encode an item; one of `write_item` is encoded already.

    Raises:
        BadValue: the item contains a value that cannot be stored.
    """
    if type(item) is Draft:
        data: bytes = item.form
        return data
    written: Any = {**item}
    if VERSION in item or next(iter(item), TAG) != TAG:
        written = {**{name: item[name] for name in HEAD if name in item}, **item}
    try:
        _write_plainly(written, item)
    except _Unwritable:
        odd = [name for name, value in item.items() if type(value) not in _PLAIN]
        written = [written | {name: _tagged(item[name]) for name in odd}, odd]
    try:
        return to_json(written)
    except PydanticSerializationError as error:
        raise BadValue(f"the item cannot be stored: {error}; it contains text that is not valid Unicode") from error


def decode(data: bytes) -> dict[str, Value]:
    """Decode an item; each call returns new objects.

    Raises:
        BackendError: `encode` did not write these bytes.
    """
    try:
        stored = from_json(data)
        if type(stored) is list:
            return _with_tags(*stored)
        sets = stored.pop(_SETS, ())
        for name, value in stored.items():
            kind = type(value)
            if kind not in _PLAIN:
                stored[name] = Decimal(repr(value)) if kind is float else _read(value)
        for name in sets:
            stored[name] = frozenset(stored[name])
    except _DAMAGE as error:
        raise BackendError(f"a stored item is damaged, restore it from a copy: {error!r}") from error
    return stored  # type: ignore[no-any-return]  # from_json returns Any


def _with_tags(item: dict[str, Value], tagged: list[str]) -> dict[str, Value]:
    if type(item) is not dict or type(tagged) is not list:
        raise TypeError("not an item")
    for name in tagged:
        item[name] = _untagged(item[name])
    return item


class _Unwritable(Unsupported):
    """JSON has no type for a value."""


def write_item(codec: EntityCodec, entity: Any) -> Item:
    """The item of an entity: as its bytes in the usual case, otherwise as `EntityCodec.encode` returns it.

    Raises:
        BadValue: as `EntityCodec.encode`.
    """
    return codec.draft(entity, _DRAFTS)


def _digits(number: Decimal) -> str:
    """The JSON number of a Decimal; raises `_Unwritable` if a float does not show the same digits."""
    digits = decimal_digits(number)
    if len(digits) > _FLOAT_TEXT and not digits.lstrip("-").isdigit():
        _float(Decimal(digits))
    return digits


def _other(value: Value) -> str:
    """The JSON text of None, a bool or a Decimal; raises `_Unwritable` for other values."""
    if type(value) is Decimal:
        return _digits(value)
    if value is None or type(value) is bool:
        return _CONSTANTS[value]
    raise _Unwritable


_CONSTANTS: Final = {None: "null", True: "true", False: "false"}
_LIST: Final = ("[", "]")
_SPELLING: Final = Spelling(
    text=("", ""),
    number=("", ""),
    list=_LIST,
    map=("{", "}"),
    texts=_LIST,
    numbers=_LIST,
    other=_other,
    quote="",
    decimal=_digits,
    sets=_SETS,
)
_DRAFTS: Final = Drafts(partial(TextWrites, _SPELLING, f"(form := made.encode()), {_MOST} * len(form)"), decode)


def drafted(item: dict[str, Value]) -> Draft[bytes]:
    """The item with its bytes. Raises as `encode`."""
    data = encode(item)
    return Draft(data, _MOST * len(data), decode, item, item)


def _write_plainly(written: dict[str, Any], item: Item) -> None:
    """Replace values by their JSON form; raises `_Unwritable`."""
    sets = []
    for name, value in item.items():
        kind = type(value)
        if kind in _PLAIN:
            continue
        if kind is frozenset:
            sets.append(name)
            written[name] = _written(list(value))
        else:
            written[name] = _float(value) if kind is Decimal else _written(value)
    if _SETS in item:
        raise _Unwritable
    if sets:
        written[_SETS] = sets


def _written(value: Value) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is Decimal:
        return _float(value)
    if kind is list:
        return value if _PLAIN.issuperset(map(type, value)) else [_written(element) for element in value]
    if kind is dict:
        if _PLAIN.issuperset(map(type, value.values())):
            return value
        return {name: _written(element) for name, element in value.items()}
    raise _Unwritable


def _float(number: Decimal) -> float:
    """The float that shows the same digits; raises `_Unwritable` if no float does."""
    text = str(number)
    found = float(text)
    if len(text) > _FLOAT_TEXT and (Decimal(repr(found)) != number or _lies_between(found, number)):
        raise _Unwritable
    return found


def _lies_between(found: float, number: Decimal) -> bool:
    """Whether the float is equally close to another number of as many digits, which pydantic may show instead."""
    return len(Decimal(found).as_tuple().digits) == len(number.as_tuple().digits) + 1


def _read(value: Any) -> Value:
    kind = type(value)
    if kind is float:
        return Decimal(repr(value))
    if kind is list:
        return value if _PLAIN.issuperset(map(type, value)) else [_read(element) for element in value]
    if kind is dict and not _PLAIN.issuperset(map(type, value.values())):
        return {name: _read(element) for name, element in value.items()}
    return value


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
                f"{brief(value)} of type {type(value).__name__} cannot be stored; stored values are None, bool, int, "
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
    "$n": exact_decimal,
    "$b": b64decode,
    "$s": lambda members: frozenset(map(_untagged, members)),
}
