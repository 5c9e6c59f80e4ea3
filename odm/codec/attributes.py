"""The attributes that the codec adds to every item, and the timestamp from which an item counts as absent."""

from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Final

from odm.errors import BadValue, brief

TAG: Final = "_t"
"""The stored name of the entity's tag."""

TTL_ATTRIBUTE: Final = "_ttl"
"""The stored name of the expiry timestamp, in epoch seconds."""

VERSION: Final = "_v"
"""The stored name of the version of the model that wrote the item; absent: 1."""

WAS: Final = "_was"
"""The stored name of the former values of fields with `odm.CellVersions`: a map from a field's stored name to a list.

The list begins with ``[time]``, when the current value was written, in milliseconds since 1970. Then it has
``[time, value]`` for each former value, newest first.
"""

OTHERS: Final[Mapping[str, str]] = {name: f"{name} of others" for name in (TAG, TTL_ATTRIBUTE, VERSION)}
"""The names that attributes of other programs have in items of odm, by those of odm's own attributes.

In a table that exists already, a field may be stored in an attribute that another program calls ``_v``.
"""

_OF_OTHERS: Final = {theirs: name for name, theirs in OTHERS.items()}


def attribute_name(stored: str) -> str:
    """The attribute in which what has this stored name is, in a table that exists already."""
    return _OF_OTHERS.get(stored, stored)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_SECOND: Final = timedelta(seconds=1)


def ttl_seconds(expiry: datetime) -> int:
    """The epoch seconds of an expiry timestamp, rounded up so that an item never expires early.

    Raises:
        BadValue: the datetime is naive.
    """
    if expiry.utcoffset() is None:
        raise BadValue(
            f"{brief(expiry)} has no time zone, so it is not a timestamp: give it one, as in datetime.now(UTC)"
        )
    return -((_EPOCH - expiry) // _SECOND)


def is_attribute_name(name: str) -> bool:
    """Whether an attribute can have this name, or a tag this text: not empty, and UTF-8 can encode it."""
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False
