"""DynamoDB Streams records → changes of entities, for a Lambda function or another consumer of the stream.

Two formats are read: the JSON event of a Lambda function or an EventBridge pipe, and the response of ``get_records`` of
boto3's client "dynamodbstreams". This module sends no requests and does not import boto3, which keeps the cold start of
a Lambda function short.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, overload

from attrs import evolve, field, frozen

from odm.backends.dynamodb.attributes import Attributes
from odm.backends.dynamodb.codec import read_item, read_key
from odm.backends.dynamodb.schema import Layout, layout_of
from odm.errors import BadValue, OdmError
from odm.schema.entity import Key
from odm.schema.model import Schema
from odm.schema.table import Table

if TYPE_CHECKING:
    from odm.entities.entity import Entity

Kind: TypeAlias = Literal["insert", "modify", "remove"]

_KINDS: Final[Mapping[str, Kind]] = {"INSERT": "insert", "MODIFY": "modify", "REMOVE": "remove"}
_TTL: Final = {"type": "Service", "principalid": "dynamodb.amazonaws.com"}
"""The userIdentity of a record in which TTL deleted an expired item."""


@frozen
class Change:
    """The change that a write made to one item.

    Attributes:
        kind: whether the item was inserted, modified or removed.
        key: the item's key, as text.
        old, new: the item before and after the write; None if it did not exist, or if the stream does not contain it,
            which depends on ``DynamoDB(stream=...)``, the table's StreamViewType.
        at: the approximate time in UTC, to the second; None if the record has none.
        sequence: the record's sequence number, of up to 40 digits. Within one key, later ones are larger. A Lambda
            function reports a failed record with it, as ``itemIdentifier``.
        expired: the item was deleted by TTL and not by a caller.
        record: the record itself.
    """

    kind: Kind
    key: Key
    old: "Entity | None"
    new: "Entity | None"
    at: datetime | None
    sequence: str
    expired: bool
    record: Mapping[str, Any] = field(repr=False)

    @property
    def changed(self) -> frozenset[str]:
        """The fields in which `old` and `new` differ; empty if one of them is None or their entities differ.

        A "modify" has no changed fields if the write changed only attributes outside of the model.
        """
        old, new = self.old, self.new
        if old is None or new is None or type(old) is not type(new):
            return frozenset()
        return frozenset(name for name in type(new).model_fields if getattr(old, name) != getattr(new, name))


@overload
def decode(
    record: Mapping[str, Any], table: Table, *, prefix: str = "", on_unknown: Literal["raise"] = "raise"
) -> Change: ...
@overload
def decode(
    record: Mapping[str, Any], table: Table, *, prefix: str = "", on_unknown: Literal["raise", "skip"]
) -> Change | None: ...
def decode(
    record: Mapping[str, Any],
    table: Table,
    *,
    prefix: str = "",
    on_unknown: Literal["raise", "skip"] = "raise",
) -> Change | None:
    """Decode one record of a table's stream; entities are upgraded to the current version of their models.

    Expired items are decoded as well, because a change is history.

    Args:
        record: an element of "Records" of a Lambda event or of the ``get_records`` response.
        table: the table that the stream belongs to.
        prefix: the prefix of the store that writes the table.
        on_unknown: "skip" returns None for an item whose tag belongs to no entity of the table.

    Raises:
        ItemInvalid: an item does not match its model, or has an unknown tag.
        BadValue: ``record`` is not a stream record, or belongs to another table.
        SchemaError: a model has a fault.
    """
    return _reader(table, prefix, on_unknown).read(record)


def decode_all(
    event: Mapping[str, Any],
    table: Table,
    *,
    prefix: str = "",
    on_unknown: Literal["raise", "skip"] = "raise",
) -> Iterator[Change]:
    """Decode all records of a Lambda event or a ``get_records`` response, lazily and in order.

    A record that cannot be decoded raises when the iteration reaches it. To report single failed records to Lambda,
    call `decode` for each record instead.

    Args:
        event: the event or response, with the records under "Records".
        table: the table that the stream belongs to.
        prefix: the prefix of the store that writes the table.
        on_unknown: "skip" leaves out items whose tag belongs to no entity of the table.

    Raises:
        ItemInvalid, BadValue, SchemaError: as `decode`.
    """
    if not isinstance(event, Mapping):
        raise BadValue(
            f"a stream event is a mapping with 'Records', but this is a {type(event).__name__}: pass the event itself"
        )
    if "Records" not in event:
        raise BadValue(f"a stream event has 'Records', but this one has {', '.join(map(str, event)) or 'nothing'}")
    records, reader = event["Records"], _reader(table, prefix, on_unknown)
    if not isinstance(records, Iterable):
        raise BadValue(f"the 'Records' of a stream event are a list, but these are {records!r}: pass the event itself")
    changes = map(reader.read, records)
    return (change for change in changes if change is not None)


_MALFORMED: Final = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError)
"""What reading a value of a wrong type or form raises."""


@frozen
class _Reader:
    """Decodes the records of one table."""

    schema: Schema
    layout: Layout
    skip_unknown: bool

    def read(self, record: Mapping[str, Any]) -> Change | None:
        """The change of a record; see `decode`."""
        try:
            return self._change(record)
        except OdmError:
            raise
        except _MALFORMED as error:
            text = (
                f"this is not a DynamoDB stream record, at {type(error).__name__}: {error}: pass the record unchanged"
            )
            raise BadValue(text) from error

    def _change(self, record: Mapping[str, Any]) -> Change | None:
        try:
            kind, what = _KINDS[record["eventName"]], record["dynamodb"]
            keys, sequence = what["Keys"], what["SequenceNumber"]
        except (KeyError, TypeError) as error:
            raise BadValue(
                "a DynamoDB stream record has eventName, and dynamodb with Keys and SequenceNumber, but "
                f"{error} is missing or unknown here: pass an element of the event's 'Records'"
            ) from error
        self._check_table(record)
        key = self._key(keys)
        images = [what.get("OldImage"), what.get("NewImage")]
        old, new = (None if image is None else self._entity(image, key) for image in images)
        if old is None and new is None and images != [None, None]:
            return None
        identity = {name.lower(): value for name, value in (record.get("userIdentity") or {}).items()}
        return Change(kind, key, old, new, _moment(what), sequence, identity == _TTL, record)

    def _key(self, keys: Attributes) -> Key:
        try:
            return read_key(self.layout, self.layout.keys, keys)
        except KeyError as error:
            raise BadValue(
                f"the key of the record is {', '.join(keys)}, but that of table {self.layout.table!r} is "
                f"{', '.join(self.layout.keys)}, all strings: pass the table that the stream belongs to"
            ) from error

    def _entity(self, image: Attributes, key: Key) -> Any:
        return self.schema.decode(read_item(self.layout, image), key, skip_unknown=self.skip_unknown)

    def _check_table(self, record: Mapping[str, Any]) -> None:
        # Only in Lambda records: arn:aws:dynamodb:eu-west-1:123456789012:table/shop/stream/2026-01-05T00:00:00.000
        source = str(record.get("eventSourceARN", ""))
        _, _, name = source.partition(":table/")
        name = name.split("/")[0]
        if name and name != self.layout.table:
            raise BadValue(
                f"the record is of table {name!r}, not {self.layout.table!r} ({source}): pass the table that the "
                "stream belongs to, and prefix= if its store has one"
            )


def _reader(table: Table, prefix: str, on_unknown: str) -> _Reader:
    if not isinstance(table, Table):
        raise TypeError(f"decode(record, table): {table!r} is not a Table; pass the Table of the entities")
    if on_unknown not in ("raise", "skip"):
        raise BadValue(f"on_unknown={on_unknown!r}: write 'raise' or 'skip'")
    schema = table.compile()
    if prefix:
        schema = evolve(schema, name=prefix + schema.name, prefix=prefix)
    return _Reader(schema, layout_of(schema), on_unknown == "skip")


def _moment(what: Mapping[str, Any]) -> datetime | None:
    at = what.get("ApproximateCreationDateTime")
    if at is None:
        return None
    return at.astimezone(UTC) if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
