"""Conditions on keys: ranges ``[lo, hi)`` as bounds for BETWEEN, and indexes whose keys have several attributes.

Strings compare by code point, which is also the order of their UTF-8 bytes.

In keys of odm with several attributes, the parts are escaped and separated by '#'; see
`odm.keys.template.compile_several`.
"""

from collections.abc import Mapping
from decimal import Context, Decimal
from typing import Final

from odm.backends.dynamodb.items.codec import several_value
from odm.backends.dynamodb.items.layout import Layout
from odm.expressions.nodes import Value
from odm.keys import next_prefix, number_of
from odm.keys.text import unescape
from odm.protocol.requests import Query

MAX_SORT_KEY = 1024
"""The maximum UTF-8 bytes of a sort key (AWS: Service, account, and table quotas)."""

_LAST = "\U0010ffff"
_LAST_OF_SIZE = ("", "\x7f", "\u07ff", "\uffff")  # by number of UTF-8 bytes, the highest character that fits
_SURROGATES = range(0xD800, 0xE000)


def bounds(lo: str, hi: str | None) -> tuple[str, str | None] | None:
    """The lowest and highest sort key of ``[lo, hi)``, both inclusive; None if the range is empty.

    The highest is None if the range has no upper end. The lowest is "" if it has no lower end.
    """
    low = ceiling(lo)
    if low is None or hi is None:
        return None if low is None else (low, None)
    high = predecessor(hi)
    return (low, high) if high and low <= high else None


def native_bounds(lo: str, hi: str | None, kind: str) -> tuple[Value, Value] | None:
    """As `bounds`, for a sort key of this type, from the texts of `odm.keys.verbatim`; None stands for no bound."""
    if kind == "S":
        return bounds(lo, hi)
    if hi == "":
        return None
    return _numbers(lo, hi) if kind == "N" else _bytes(lo, hi)


_NUMBERS: Final = Context(prec=38, Emin=-130, Emax=125)
_LEAST: Final = Decimal("1E-130")


def _numbers(lo: str, hi: str | None) -> tuple[Decimal | None, Decimal | None] | None:
    low = _number(lo, above=True) if lo else None
    high = None if hi is None else _number(hi, above=False)
    if any(end is not None and end.is_infinite() for end in (low, high)):
        return None
    return None if low is not None and high is not None and low > high else (low, high)


def _number(text: str, *, above: bool) -> Decimal:
    """The first number at or behind a bound, or the last one before it; infinite if there is none."""
    number = Decimal(number_of(text.removesuffix("\0")))
    if text.endswith("\0") is not above:  # the bound stands before the number and excludes it, or behind it
        return number
    if not number:
        return _LEAST if above else -_LEAST
    found = _NUMBERS.next_plus(number) if above else _NUMBERS.next_minus(number)
    return found if found.copy_abs() >= _LEAST else Decimal(0)  # abs() rounds


def _bytes(lo: str, hi: str | None) -> tuple[bytes, bytes | None] | None:
    low = _binary(lo)
    if low is not None and len(low) > MAX_SORT_KEY:
        low = _behind(low[:MAX_SORT_KEY])
    if low is None:
        return None
    end = None if hi is None else _binary(hi)
    high = None if end is None else _below(end)
    return (low, high) if high is None or (high and low <= high) else None


def _binary(text: str) -> bytes | None:
    """The bytes of a bound; None if it lies behind all bytes.

    It has hexadecimal digits, of which the last may be one higher than 9 or f, or a zero byte behind them.
    """
    digits, zeros = text.removesuffix("\0"), text.count("\0")
    last = {":": "9", "g": "f"}.get(digits[-1:])
    return bytes.fromhex(digits) + b"\0" * zeros if last is None else _behind(bytes.fromhex(digits[:-1] + last))


def _behind(prefix: bytes) -> bytes | None:
    """The lowest bytes above all that begin with these; None if there are none."""
    kept = prefix.rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def _below(value: bytes) -> bytes:
    """The highest bytes below these that a sort key can have."""
    if len(value) > MAX_SORT_KEY:
        return value[:MAX_SORT_KEY]
    if value[-1] == 0:
        return value[:-1]
    return value[:-1] + bytes([value[-1] - 1]) + b"\xff" * (MAX_SORT_KEY - len(value))


def predecessor(text: str) -> str:
    """The highest string of at most 1,024 bytes below a non-empty text."""
    prefix = _cut(text)
    if len(prefix) < len(text):
        return _filled(prefix)
    head, last = text[:-1], ord(text[-1])
    if last == 0:
        return head
    below = last - 1 if last - 1 not in _SURROGATES else _SURROGATES.start - 1
    return _filled(head + chr(below))


def ceiling(text: str) -> str | None:
    """The lowest string of at most 1,024 bytes that is not below the text; None if there is no such string."""
    prefix = _cut(text)
    if len(prefix) == len(text):
        return text
    while prefix:
        prefix, last = prefix[:-1], ord(prefix[-1])
        above = last + 1 if last + 1 not in _SURROGATES else _SURROGATES.stop
        if above <= ord(_LAST) and _size(prefix + chr(above)) <= MAX_SORT_KEY:
            return prefix + chr(above)
    return None


def _filled(prefix: str) -> str:
    """The highest string of at most 1,024 bytes with this prefix."""
    whole, rest = divmod(MAX_SORT_KEY - _size(prefix), len(_LAST.encode()))
    return prefix + _LAST * whole + _LAST_OF_SIZE[rest]


def _cut(text: str) -> str:
    """The longest prefix of at most 1,024 bytes."""
    return text.encode()[:MAX_SORT_KEY].decode(errors="ignore")


def _size(text: str) -> int:
    return len(text.encode())


def several_range(layout: Layout, request: Query) -> tuple[Mapping[str, Value], str, str, str | None]:
    """The attributes that a query gives a value, the next one, and its range ``[lo, hi)``."""
    index = str(request.index)
    names, count = layout.indexes[index], layout.several[index]
    fixed = dict(zip(names[:count], request.partition.split("#"), strict=True))
    *leading, lo = request.lo.split("#")
    fixed |= dict(zip(names[count:], leading, strict=False))
    equal = {name: several_value(text, layout.types.get(name, "S")) for name, text in fixed.items()}
    sort = names[len(fixed)] if len(fixed) < len(names) else ""
    head = "".join(f"{part}#" for part in leading)
    hi = None if request.hi in (None, next_prefix(head)) else str(request.hi)[len(head) :]
    kind = layout.types.get(sort, "S")
    return equal, sort, _edge(lo, kind), None if hi is None else _edge(hi, kind)


def _edge(text: str, kind: str) -> str:
    """An edge of a range of parts as one of the attribute: behind a part stands '$' where another part follows."""
    behind = text.endswith(("$", "\0"))
    part = text[:-1] if behind else text
    return (unescape(part) if kind == "S" else part) + "\0" * behind
