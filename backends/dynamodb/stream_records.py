"""The records of DynamoDB Streams, and of a Kinesis data stream for DynamoDB → `ChangeRecord`.

Each comes in two forms: as JSON in the event of a Lambda function, and in the response of boto3's ``get_records``. This
module sends no requests and does not import boto3.
"""

import json
from base64 import b64decode
from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

from odm.backends.dynamodb.items.attributes import Attributes
from odm.backends.dynamodb.items.codec import read_item, read_key
from odm.backends.dynamodb.items.layout import Layout
from odm.errors import BadValue
from odm.protocol.changes import ChangeRecord, Kind
from odm.schema.entity import Key

STREAM_DIGITS: Final = 40
"""The most digits of a sequence number of DynamoDB Streams."""

KINESIS_DIGITS: Final = 20
"""The digits of `ChangeRecord.order` of a Kinesis record: microseconds since the epoch."""

_KINDS: Final[Mapping[str, Kind]] = {"INSERT": "insert", "MODIFY": "modify", "REMOVE": "remove"}
_TTL: Final = {"type": "Service", "principalid": "dynamodb.amazonaws.com"}
"""The userIdentity of a record in which TTL deleted an expired item."""

_UNITS: Final[Mapping[str, int]] = {"MILLISECOND": 1000, "MICROSECOND": 1}
"""Microseconds in the unit of a Kinesis record's time, by its ApproximateCreationDateTimePrecision."""


def sequence_of(record: Mapping[str, Any]) -> str:
    """The sequence number with which a Lambda function reports a failed record."""
    kinesis = _kinesis_of(record)
    return str(record["dynamodb"]["SequenceNumber"] if kinesis is None else kinesis[1])


def read_record(layout: Layout, record: Mapping[str, Any]) -> ChangeRecord:
    """The change in a record, in any of the four forms.

    Raises:
        BadValue: it is not a record of the table.
        LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError: a part has a wrong type or form.
    """
    kinesis = _kinesis_of(record)
    body = record if kinesis is None else json.loads(kinesis[0])
    try:
        kind, what = _KINDS[body["eventName"]], body["dynamodb"]
        keys, sequence = what["Keys"], what["SequenceNumber"] if kinesis is None else kinesis[1]
    except (KeyError, TypeError) as error:
        raise BadValue(
            "a DynamoDB stream record has eventName, and dynamodb with Keys and SequenceNumber, but "
            f"{error} is missing or unknown here: pass an element of the event's 'Records'"
        ) from error
    _check_table(layout, body)
    key = _key(layout, keys)
    old, new = (
        None if image is None else read_item(layout, image) for image in map(what.get, ("OldImage", "NewImage"))
    )
    at, order = (_second(what), sequence.zfill(STREAM_DIGITS)) if kinesis is None else _microsecond(what)
    identity = {name.lower(): value for name, value in (body.get("userIdentity") or {}).items()}
    return ChangeRecord(kind, key, old, new, at, order, sequence, expired=identity == _TTL, native=record)


def _kinesis_of(record: Mapping[str, Any]) -> tuple[bytes, str] | None:
    """The data and sequence number of a Kinesis record; None for a record of DynamoDB Streams."""
    if "kinesis" in record:
        inner = record["kinesis"]
        return b64decode(inner["data"]), inner["sequenceNumber"]
    if "Data" in record:
        return record["Data"], record["SequenceNumber"]
    return None


def _second(what: Mapping[str, Any]) -> float | None:
    at = what.get("ApproximateCreationDateTime")
    return at.timestamp() if isinstance(at, datetime) else at


def _microsecond(what: Mapping[str, Any]) -> tuple[float, str]:
    """The time of a Kinesis record, and its order, which is that time: it has no sequence number of DynamoDB's."""
    unit = what.get("ApproximateCreationDateTimePrecision") or "MILLISECOND"
    count = int(what["ApproximateCreationDateTime"]) * _UNITS[unit]
    return count / 1_000_000, str(count).zfill(KINESIS_DIGITS)


def _key(layout: Layout, keys: Attributes) -> Key:
    if any(name not in keys for name in layout.keys):
        raise BadValue(
            f"the key of the record is {', '.join(keys)}, but that of table {layout.table!r} is "
            f"{', '.join(layout.keys)}, all strings: pass the table that the stream belongs to"
        )
    return read_key(layout, layout.keys, keys)


def _check_table(layout: Layout, body: Mapping[str, Any]) -> None:
    """Compare the name of the table, which Lambda's and Kinesis' records have.

    Lambda's are ``arn:aws:dynamodb:eu-west-1:123456789012:table/shop/stream/2026-01-05T00:00:00.000``.
    """
    source = str(body.get("eventSourceARN", ""))
    name = str(body.get("tableName", "")) or source.partition(":table/")[2].split("/")[0]
    if name and name != layout.table:
        raise BadValue(
            f"the record is of table {name!r}, not {layout.table!r} ({source or 'Kinesis'}): pass the table that the "
            "stream belongs to, and prefix= if its store has one"
        )
