"""Cursors: the position of a query, or of a part of a scan, as an opaque text.

Only the same query accepts its cursor: table, pattern, partition, direction, limit and filter must be equal. The bounds
of the range may differ, if the position is inside the new range. A cursor holds the position, what is left of the
limit, and how many items matched the filter so far; a cursor that goes back begins with "-". A checksum detects damage;
with a secret it is an HMAC, which also detects forgery.
"""

import base64
import hashlib
import hmac
import json
from typing import Any

from msgspec import Struct
from msgspec.structs import astuple

from odm.errors import BadCursor, BadValue, brief
from odm.immutable import evolve
from odm.procedures.pace import Pace
from odm.procedures.reading.read import Place, Reading
from odm.procedures.reading.scan import MOST_SEGMENTS, Segment
from odm.protocol.requests import Part, Position
from odm.schema.entity import Key
from odm.schema.model import Schema

_MAC_BYTES = 16
_MOST_EXAMINED = 2**31
"""No store examines so many items for a page: a cursor with a larger number is forged."""

_BACK = "-"
_DAMAGED = "the cursor is damaged: pass page.cursor back unchanged"


def encode_cursor(schema: Schema, reading: Reading, secret: bytes | None) -> str:
    """The cursor of a reading's position."""
    place, pace = reading.place, reading.place.pace
    binding = _BACK * reading.back + (reading.binding or _binding(schema, reading))
    body: list[Any] = [binding, place.partition, reading.remaining, place.position]
    if pace.matched < pace.last:
        body.append(astuple(pace))
    return sealed(body, secret)


def sealed(body: Any, secret: bytes | None) -> str:
    """A value that JSON can hold as an opaque text, with a checksum or signed.

    Raises:
        BadValue: JSON cannot hold the value.
    """
    try:
        payload = json.dumps(body, separators=(",", ":")).encode()
    except (TypeError, ValueError, RecursionError) as error:
        raise BadValue(
            f"{brief(body)} cannot be sealed, because JSON cannot hold it: {type(error).__name__}"
        ) from error
    return base64.urlsafe_b64encode(_mac(payload, secret) + payload).rstrip(b"=").decode()


def unsealed(text: object, secret: bytes | None) -> Any:
    """The value of ``sealed(["sealed", value], secret)``.

    Raises:
        BadCursor: the text is damaged or forged, or is a cursor.
    """
    if not isinstance(text, str) or not text:
        raise BadCursor(f"{brief(text)} is not a cursor: pass None for the first page, then page.cursor")
    try:
        kind, value = _parsed(_payload(text, secret))
    except (ValueError, TypeError) as error:
        raise error if isinstance(error, BadCursor) else BadCursor(_DAMAGED) from error
    if kind != "sealed":
        raise BadCursor(_DAMAGED)
    return value


def decode_cursor(schema: Schema, reading: Reading, cursor: str, secret: bytes | None) -> Reading:
    """A reading of the same query that starts at the cursor's position, or goes back from it.

    Raises:
        BadCursor: the cursor is damaged or forged, or belongs to another query.
    """
    binding, place, remaining = _content(_payload(cursor, secret))
    back, bound = binding.startswith(_BACK), _binding(schema, reading)
    if binding.removeprefix(_BACK) != bound:
        raise BadCursor(
            f"the cursor belongs to another query than {reading.plan.query}: table, pattern, values, direction, limit "
            "and conditions must be those of the page that it came from"
        )
    most = reading.plan.query.most
    if (remaining is None) is not (most is None) or (remaining is not None and most is not None and remaining > most):
        raise BadCursor(_DAMAGED)
    if place.partition not in reading.plan.partitions or not _inside(reading, place):
        raise BadCursor(f"the cursor's place lies outside of {reading.plan.query}: start again without a cursor")
    following = evolve(reading, place=place, remaining=remaining, binding=bound)
    return following.turned(place, remaining) if back else following


def encode_segment(schema: Schema, backend: str, segment: Segment, secret: bytes | None) -> str:
    """The cursor of a position in a scan: the part of the table, with the backend's limits, and the position in it."""
    body = [_table(schema, backend), segment.number, segment.part, segment.after and segment.after.key]
    return sealed(body, secret)


def decode_segment(schema: Schema, backend: str, cursor: str, secret: bytes | None) -> Segment:
    """The position in a scan that a cursor encodes.

    Raises:
        BadCursor: the cursor is damaged or forged, or belongs to another table or backend.
    """
    payload = _payload(cursor, secret)
    try:
        table, number, part, after = _parsed(payload)
        segment = Segment(
            None if number is None else _number(number),
            None if part is None else _part(part),
            None if after is None else Position(_key(after)),
        )
        if segment.number is not None and segment.part is not None:
            raise ValueError(number)
    except (ValueError, TypeError) as error:
        raise BadCursor(_DAMAGED) from error
    if table != _table(schema, backend):
        raise BadCursor(
            f"the cursor belongs to a scan of another table than {schema.name!r} on {backend}, or to a query: each "
            "backend cuts a table in its own way"
        )
    return segment


def _table(schema: Schema, backend: str) -> list[str]:
    return ["scan", schema.name, backend]


def _number(parts: Any) -> tuple[int, int]:
    number, of = parts
    if type(number) is not int or type(of) is not int or not 0 <= number < of <= MOST_SEGMENTS:
        raise ValueError(parts)
    return number, of


def _part(parts: Any) -> Part:
    start, end = parts
    if not isinstance(start, str) or not isinstance(end, str | None):
        raise TypeError(parts)
    # Bigtable may divide the table between keys: a limit need not be valid text, and other bytes are escaped.
    (start + (end or "")).encode("utf-8", "surrogateescape")
    return Part(start, end)


def _content(payload: bytes) -> tuple[str, Place, int | None]:
    """The content of a cursor, validated in full: without a secret, any client can make a cursor."""
    try:
        binding, partition, remaining, position, *paces = _parsed(payload)
        place = Place(_text(partition), None if position is None else _position(position), pace=_pace(*paces))
        if remaining is not None and (type(remaining) is not int or remaining < 1):
            raise ValueError(remaining)
        return _text(binding), place, remaining
    except (ValueError, TypeError) as error:
        raise BadCursor(_DAMAGED) from error


def _parsed(payload: bytes) -> Any:
    try:
        return json.loads(payload)
    except RecursionError as error:  # a forged cursor may be nested as deep as it is long
        raise ValueError("too deep") from error


def _payload(cursor: str, secret: bytes | None) -> bytes:
    try:
        raw = base64.urlsafe_b64decode(cursor + "=" * (-len(cursor) % 4))
    except (ValueError, TypeError) as error:
        raise BadCursor(_DAMAGED) from error
    mac, payload = raw[:_MAC_BYTES], raw[_MAC_BYTES:]
    if not hmac.compare_digest(mac, _mac(payload, secret)):
        raise BadCursor(
            "the cursor is damaged, or was made by a store with another cursor_secret: pass page.cursor back unchanged"
        )
    return payload


def _mac(payload: bytes, secret: bytes | None) -> bytes:
    if secret is None:
        return hashlib.sha256(payload).digest()[:_MAC_BYTES]
    return hmac.digest(secret, payload, "sha256")[:_MAC_BYTES]


def _position(parts: Any) -> Position:
    key, index_key = parts
    return Position(_key(key), None if index_key is None else _key(index_key))


def _pace(parts: Any = (0, 0, 0)) -> Pace:
    examined, last, matched = parts
    if any(type(number) is not int or not 0 <= number <= _MOST_EXAMINED for number in (examined, last, matched)):
        raise ValueError(parts)
    return Pace(examined, last, min(matched, last))


def _key(parts: Any) -> Key:
    partition, sort = parts
    return Key(_text(partition), _text(sort))


def _text(value: Any) -> str:
    if not isinstance(value, str):
        raise TypeError(value)
    value.encode()  # raises ValueError for a lone surrogate, which a key cannot contain
    return value


def _inside(reading: Reading, place: Place) -> bool:
    """Whether the position is inside the range of this reading."""
    if place.position is None:
        return True
    key, index_key = place.position
    plan = reading.plan
    if (index_key is None) != (plan.pattern.index is None):
        return False
    read = key if index_key is None else index_key
    partitions = [place.partition + shard for shard in plan.shards]
    return read.partition in partitions and plan.lo <= read.sort and (plan.hi is None or read.sort < plan.hi)


def _binding(schema: Schema, reading: Reading) -> str:
    """A digest of the query or table that the cursor belongs to."""
    plan = reading.plan
    query = plan.query
    pattern = plan.pattern
    parts = [schema.name, schema.entity(query.entity).tag, query.scope, pattern.name, pattern.partition.text]
    descending = query.descending is not reading.back
    text = json.dumps([*parts, repr(pattern.shards), descending, query.most, _canonical(plan.filter)])
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _canonical(value: Any) -> Any:
    """The value as JSON that is the same in every process; the order of a set is not."""
    if isinstance(value, Struct):
        return [type(value).__name__, *map(_canonical, astuple(value))]
    if isinstance(value, tuple | list):
        return [_canonical(part) for part in value]
    if isinstance(value, frozenset):
        return sorted(repr(part) for part in value)
    if isinstance(value, dict):
        return sorted((name, _canonical(part)) for name, part in value.items())
    return repr(value)
