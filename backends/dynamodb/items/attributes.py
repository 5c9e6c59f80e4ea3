"""DynamoDB's attribute values → stored values.

The input has the format of boto3's client, not of its resource: mappings with one entry, from type to content. Binary
content is bytes, or base64 text where `odm.backends.dynamodb.client.wire` decoded the response.
"""

from binascii import a2b_base64
from collections.abc import Callable, Mapping
from decimal import Context, Decimal
from typing import Any, Final, TypeAlias

from odm.codec.types.numbers import exact_decimal
from odm.codec.types.stored import show
from odm.errors import BackendError
from odm.expressions.nodes import Value

Attribute: TypeAlias = Mapping[str, Any]
"""One attribute value, such as ``{"S": "text"}``."""

Attributes: TypeAlias = Mapping[str, Attribute]

# The default context rounds at 28 digits; a stored number has at most 38.
_EXACT = Context(prec=40)


def from_attribute(attribute: Attribute) -> Value:
    """Read a stored value. A number becomes an int when it is integral, otherwise a canonical Decimal.

    Raises:
        BackendError: the type is unknown.
    """
    for kind, content in attribute.items():
        if kind == "S":
            return content
        if kind == "M":
            return {name: part["S"] if "S" in part else from_attribute(part) for name, part in content.items()}
        if kind == "L":
            return [part["S"] if "S" in part else from_attribute(part) for part in content]
        if kind in _READERS:
            return _READERS[kind](content)
    raise BackendError(f"DynamoDB sent an attribute of an unknown type, {attribute!r}: update odm")


def read_binary(content: str | bytes) -> bytes:
    """The bytes; a text is decoded from base64."""
    return a2b_base64(content) if isinstance(content, str) else content


def read_number(text: str) -> int | Decimal:
    """Parse a number: an int when it is integral, otherwise a canonical Decimal.

    Raises:
        BackendError: the text is not one of a number, or the number is far beyond those that DynamoDB stores.
    """
    if type(text) is not str:
        raise TypeError(f"DynamoDB sent {show(text)} as a number")  # a damaged response: a write may have been applied
    try:
        if text.isdigit() or text.lstrip("-").isdigit():
            return int(text)
        number = exact_decimal(text)
        if number.is_finite():
            return int(number) if number == number.to_integral_value() else number.normalize(_EXACT)
    except (ArithmeticError, ValueError):
        pass
    raise BackendError(f"DynamoDB sent {show(text)} as a number, which it is not: check what answers at this endpoint")


def _as_it_is(content: Any) -> Any:
    return content


_READERS: Final[Mapping[str, Callable[[Any], Value]]] = {
    "BOOL": _as_it_is,
    "N": read_number,
    "B": read_binary,
    "NULL": lambda _: None,
    "SS": frozenset,
    "NS": lambda content: frozenset(map(read_number, content)),
    "BS": lambda content: frozenset(map(read_binary, content)),
}
