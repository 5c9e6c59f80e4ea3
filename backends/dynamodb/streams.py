"""Stream records → changes of entities, for a Lambda function or another consumer of a table's stream.

Read are the records of DynamoDB Streams and those of a Kinesis data stream for DynamoDB: in the JSON event of a Lambda
function (for DynamoDB Streams also of an EventBridge pipe), and in the response of ``get_records`` of boto3's clients
"dynamodbstreams" and "kinesis". This module sends no requests and does not import boto3, which keeps the cold start of
a Lambda function short.

`Change.order` is the sequence number of DynamoDB Streams, padded to 40 digits. A Kinesis record has none, so it is the
time of the write in microseconds, padded to 20 digits. Kinesis may deliver records twice and out of order, so let the
data stream have the precision MICROSECOND. Two changes of an item in the same microsecond (or millisecond) have the
same order, and their order is unknown.
"""

import logging
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias, overload

from odm.backends.dynamodb.items.layout import Layout, layout_of
from odm.backends.dynamodb.stream_records import read_record, sequence_of
from odm.errors import BadValue, ItemInvalid, OdmError, brief
from odm.immutable import Immutable, evolve
from odm.protocol.changes import change_of
from odm.protocol.on_invalid import OnInvalid, skipping
from odm.schema.model import Schema
from odm.schema.table import Table

if TYPE_CHECKING:
    from odm.entities.changes import Change

_LOG: Final = logging.getLogger("odm.dynamodb")

Handler: TypeAlias = Callable[[Mapping[str, Any], object], dict[str, list[dict[str, str]]]]
"""A Lambda function for an event source mapping with ``FunctionResponseTypes=["ReportBatchItemFailures"]``."""


class Feed(Protocol):
    """What `handler` delivers changes to.

    Attributes:
        table: the table that the stream belongs to.
    """

    @property
    def table(self) -> Table: ...

    def deliver(self, changes: "Sequence[Change[Any]]", /) -> int | None:
        """Handle changes in order, up to the first one that fails, whose failure is logged and not raised.

        Returns:
            The index of the first change that was not handled; None: all were.
        """


@overload
def decode(
    record: Mapping[str, Any],
    table: Table,
    *,
    prefix: str = "",
    on_unknown: Literal["raise"] = "raise",
    on_invalid: Literal["raise"] = "raise",
) -> "Change[Any]": ...
@overload
def decode(
    record: Mapping[str, Any],
    table: Table,
    *,
    prefix: str = "",
    on_unknown: Literal["raise", "skip"] = "raise",
    on_invalid: OnInvalid = "raise",
) -> "Change[Any] | None": ...
def decode(
    record: Mapping[str, Any],
    table: Table,
    *,
    prefix: str = "",
    on_unknown: Literal["raise", "skip"] = "raise",
    on_invalid: OnInvalid = "raise",
) -> "Change[Any] | None":
    """Decode one record of a table's stream; entities are upgraded to the current version of their models.

    Expired items are decoded as well, because a change is history.

    Args:
        record: an element of "Records" of a Lambda event or of the ``get_records`` response.
        table: the table that the stream belongs to.
        prefix: the prefix of the store that writes the table.
        on_unknown: "skip" returns None for an item whose tag belongs to no entity of the table.
        on_invalid: for an item that does not fit its model, as for `odm.Store`: "skip", or a function that is called
            with the error. The item counts as absent; a change of which nothing else is known gives None.

    Returns:
        An `Inserted`, `Changed` or `Removed`.

    Raises:
        ItemInvalid: an item does not match its model, or has an unknown tag.
        BadValue: ``record`` is not a stream record, or belongs to another table.
        SchemaError: a model has a fault.
    """
    return _reader("decode(record, table)", table, prefix, on_unknown, on_invalid).read(record)


def decode_all(
    event: Mapping[str, Any],
    table: Table,
    *,
    prefix: str = "",
    on_unknown: Literal["raise", "skip"] = "raise",
    on_invalid: OnInvalid = "raise",
) -> "Iterator[Change[Any]]":
    """Decode all records of a Lambda event or a ``get_records`` response, lazily and in order.

    A record that cannot be decoded raises when the iteration reaches it. `handler` reports such a record to Lambda.

    Args:
        event: the event or response, with the records under "Records".
        table: the table that the stream belongs to.
        prefix: the prefix of the store that writes the table.
        on_unknown: "skip" leaves out items whose tag belongs to no entity of the table.
        on_invalid: as for `decode`; a change of which nothing else is known is left out.

    Raises:
        ItemInvalid, BadValue, SchemaError: as `decode`.
    """
    records, reader = _records(event), _reader("decode_all(event, table)", table, prefix, on_unknown, on_invalid)
    changes = map(reader.read, records)
    return (change for change in changes if change is not None)


def handler(
    feed: Feed,
    *,
    prefix: str = "",
    on_unknown: Literal["raise", "skip"] = "raise",
    on_invalid: OnInvalid = "raise",
) -> Handler:
    """A Lambda function that delivers the changes of its events.

    It stops at the first change that the feed did not handle, or whose record cannot be decoded, and reports it. Lambda
    then sends that record again, with those behind it, until it succeeds or the settings of the event source mapping
    (MaximumRetryAttempts, MaximumRecordAgeInSeconds, an on-failure destination) end that. So a change may be delivered
    several times.

    Args:
        feed: receives the changes.
        prefix: the prefix of the store that writes the table.
        on_unknown: "skip" passes over items whose tag belongs to no entity of the table: set it if other programs write
            the table. "raise" reports them as failed, so none is lost.
        on_invalid: as for `decode`; "raise" reports a change with an item that does not fit its model as failed.

    Raises:
        SchemaError: a model has a fault.
    """
    reader = _reader("handler(feed): feed.table", feed.table, prefix, on_unknown, on_invalid)

    def handle(event: Mapping[str, Any], _context: object) -> dict[str, list[dict[str, str]]]:
        changes, failed = _until_failure(reader, _records(event))
        at = feed.deliver(changes) if changes else None
        if at is not None:
            failed = changes[at].sequence
        return {"batchItemFailures": [] if failed is None else [{"itemIdentifier": failed}]}

    return handle


def _until_failure(reader: "_Reader", records: Iterable[Mapping[str, Any]]) -> "tuple[list[Change[Any]], str | None]":
    """The changes before the first record that cannot be decoded, and its sequence number."""
    changes: list[Change[Any]] = []
    for record in records:
        try:
            change = reader.read(record)
        except Exception:  # noqa: BLE001  # logged; a validator or an upgrade of a model may raise anything
            try:
                sequence = sequence_of(record)
            except _MALFORMED:
                sequence = ""  # Lambda then sends the whole batch again
            _LOG.exception("the stream record %s of table %r cannot be decoded", sequence, reader.layout.table)
            return changes, sequence
        if change is not None:
            changes.append(change)
    return changes, None


def _records(event: Mapping[str, Any]) -> Iterable[Mapping[str, Any]]:
    """The records of an event.

    Raises:
        BadValue: it has none.
    """
    if not isinstance(event, Mapping):
        raise BadValue(
            f"a stream event is a mapping with 'Records', but this is a {type(event).__name__}: pass the event itself"
        )
    if "Records" not in event:
        raise BadValue(f"a stream event has 'Records', but this one has {', '.join(map(str, event)) or 'nothing'}")
    records: Iterable[Mapping[str, Any]] = event["Records"]
    if not isinstance(records, Iterable):
        raise BadValue(
            f"the 'Records' of a stream event are a list, but these are {brief(records)}: pass the event itself"
        )
    return records


_MALFORMED: Final = (LookupError, TypeError, ValueError, AttributeError, ArithmeticError, OSError)
"""What reading a value of a wrong type or form raises."""


class _Reader(Immutable):
    """Decodes the records of one table."""

    schema: Schema
    layout: Layout
    skip_unknown: bool
    on_invalid: Callable[[ItemInvalid], object] | None = None

    def read(self, record: Mapping[str, Any]) -> "Change[Any] | None":
        """The change of a record; see `decode`."""
        skipped: list[ItemInvalid] = []
        note = None if self.on_invalid is None else skipped.append
        try:
            change = change_of(
                self.schema, read_record(self.layout, record), skip_unknown=self.skip_unknown, on_invalid=note
            )
        except OdmError:
            raise
        except _MALFORMED as error:
            text = (
                f"this is not a DynamoDB stream record, at {type(error).__name__}: {error}: pass the record unchanged"
            )
            raise BadValue(text) from error
        for item_invalid in skipped:  # out of the try: what the caller's function raises is not a fault of the record
            assert self.on_invalid is not None
            self.on_invalid(item_invalid)
        return change


def _reader(what: str, table: Table, prefix: str, on_unknown: str, on_invalid: OnInvalid) -> _Reader:
    if not isinstance(table, Table):
        raise TypeError(f"{what}: {table!r} is not a Table; pass the Table of the entities")
    if on_unknown not in ("raise", "skip"):
        raise BadValue(f"on_unknown={brief(on_unknown)}: write 'raise' or 'skip'")
    schema = table.compile()
    if prefix:
        schema = evolve(schema, name=prefix + schema.name, prefix=prefix)
    return _Reader(schema, layout_of(schema), on_unknown == "skip", skipping(on_invalid))
