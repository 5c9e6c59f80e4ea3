"""Values of fields and of columns, and how they are compared; see `odm.patterns.sql`."""

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime
from decimal import Decimal
from enum import Enum
from typing import Any
from uuid import UUID

from sqlalchemy import Column
from sqlalchemy.types import DateTime, Uuid


def from_sql(value: Any) -> Any:
    """A value of a column for a field: times without a zone are UTC, which is what `to_sql` writes."""
    return value.replace(tzinfo=UTC) if isinstance(value, datetime) and value.tzinfo is None else value


def to_sql(column: Column[Any], value: Any) -> Any:
    """A value of a field for its column."""
    if isinstance(value, datetime):
        value = value.astimezone(UTC)
        zoned = isinstance(column.type, DateTime) and column.type.timezone
        return value if zoned else value.replace(tzinfo=None)
    if isinstance(value, Enum) and getattr(column.type, "enum_class", None) is None:
        return value.value
    return str(value) if isinstance(value, UUID) and not isinstance(column.type, Uuid) else value


def plain(value: Any) -> Any:
    """A value as JSON, equal for equal values whichever database they come from."""
    match value:
        case Enum():
            return plain(value.value)
        case None | bool() | int() | str():
            return value
        case float():
            return repr(value)
        case Decimal():
            return _digits(value)
        case datetime():
            return value.astimezone(UTC).isoformat()
        case bytes() | bytearray():
            return value.hex()
        case Mapping():
            return {str(name): plain(one) for name, one in value.items()}
        case set() | frozenset():
            return sorted((plain(one) for one in value), key=repr)
        case Iterable():
            return [plain(one) for one in value]
        case _:
            return str(value)


def _digits(value: Decimal) -> str:
    """All digits of a number, without those that do not change it: 1.50 is 1.5, and -0 is 0."""
    text = format(value, "f")
    text = text.rstrip("0").rstrip(".") if "." in text else text
    return "0" if text == "-0" else text
