"""Records of a table's stream → what has changed, as entities: for a Lambda function, or whoever reads the stream.

A record comes in two forms, and both are read: from the event of a Lambda function or an EventBridge pipe (JSON), and
from ``get_records`` of boto3's client "dynamodbstreams". Nothing is sent, and boto3 is not imported: a cold start
pays for the models alone.
"""

from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias, overload

from attrs import evolve, field, frozen

from odm.backends.dynamodb.attributes import Attributes
from odm.backends.dynamodb.codec import read_item, read_key
from odm.backends.dynamodb.schema import Layout, layout_of
from odm.errors import BadValue
from odm.schema.entity import Key
from odm.schema.model import Schema
from odm.schema.table import Table

if TYPE_CHECKING:
    from odm.entities.entity import Entity

Kind: TypeAlias = Literal["insert", "modify", "remove"]

_KINDS: Final[Mapping[str, Kind]] = {"INSERT": "insert", "MODIFY": "modify", "REMOVE": "remove"}
_TTL: Final = {"type": "Service", "principalid": "dynamodb.amazonaws.com"}
"""Who removes expired items."""


@frozen
class Change:
    """What a write did to one item.

    Attributes:
        kind: whether the item came, changed or went.
        key: its key, as text.
        old, new: the item before and after; None where there was none, or where the stream does not have it: that
            depends on ``DynamoDB(stream=...)``, the table's StreamViewType.
        at: about when, in UTC, to the second; None where the record does not tell.
        sequence: the record's number, of up to 40 digits. Within one key, later ones are larger. Lambda wants it
            as ``itemIdentifier`` of a failure.
        expired: the item was removed because its TTL was over, and not by a caller.
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
        """The fields in which `old` and `new` differ; none where there is only one of them, or of different entities.

        A write that changes nothing that the model knows makes a "modify" without any.
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
    """What one record of a table's stream says, as entities, upgraded to their models' versions.

    An item that has expired is decoded as any other: a change is history.

    Args:
        record: of a Lambda event's "Records", or of ``get_records``.
        table: the table whose stream it is.
        prefix: of the store that writes the table.
        on_unknown: "skip" gives None for an item whose tag no entity of the table has.

    Raises:
        ItemInvalid: an item does not fit its model, or has an unknown tag.
        BadValue: it is no record of a stream, or of another table's.
        SchemaError: a fault in a model.
    """
    return _reader(table, prefix, on_unknown).change(record)


def decode_all(
    event: Mapping[str, Any],
    table: Table,
    *,
    prefix: str = "",
    on_unknown: Literal["raise", "skip"] = "raise",
) -> Iterator[Change]:
    """The changes of a whole Lambda event, or of an answer of ``get_records``, in order; one by one, as you take them.

    A record that cannot be decoded raises when its turn comes. To report it alone and keep what was done before,
    take the records one by one with `decode` instead.

    Args:
        event: what has the records, under "Records".
        table: the table whose stream it is.
        prefix: of the store that writes the table.
        on_unknown: "skip" leaves out items whose tag no entity of the table has.

    Raises:
        ItemInvalid, BadValue, SchemaError: as `decode`.
    """
    if not isinstance(event, Mapping):
        raise BadValue(
            f"an event of a stream has 'Records', and this is a {type(event).__name__}: pass the event itself"
        )
    if "Records" not in event:
        raise BadValue(f"an event of a stream has 'Records', and this one has {', '.join(event) or 'nothing'}")
    reader = _reader(table, prefix, on_unknown)
    changes = map(reader.change, event["Records"])
    return (change for change in changes if change is not None)


@frozen
class _Reader:
    """Decodes the records of one table."""

    schema: Schema
    layout: Layout
    skip_unknown: bool

    def change(self, record: Mapping[str, Any]) -> Change | None:
        try:
            kind, what = _KINDS[record["eventName"]], record["dynamodb"]
            keys, sequence = what["Keys"], what["SequenceNumber"]
        except (KeyError, TypeError) as error:
            raise BadValue(
                "a record of a DynamoDB stream has eventName and dynamodb with Keys and SequenceNumber, and "
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
            return read_key(self.layout.keys, keys)
        except KeyError as error:
            raise BadValue(
                f"the key of the record is {', '.join(keys)}, and that of table {self.layout.table!r} is "
                f"{', '.join(self.layout.keys)}, strings: is it another table's?"
            ) from error

    def _entity(self, image: Attributes, key: Key) -> Any:
        return self.schema.decode(read_item(self.layout, image), key, skip_unknown=self.skip_unknown)

    def _check_table(self, record: Mapping[str, Any]) -> None:
        # arn:aws:dynamodb:eu-west-1:123456789012:table/shop/stream/2026-01-05T00:00:00.000; only Lambda names it
        source = str(record.get("eventSourceARN", ""))
        _, _, name = source.partition(":table/")
        name = name.split("/")[0]
        if name and name != self.layout.table:
            raise BadValue(
                f"the record is of table {name!r}, not {self.layout.table!r} ({source}): pass the table whose stream "
                "it is, and prefix= where its store has one"
            )


def _reader(table: Table, prefix: str, on_unknown: str) -> _Reader:
    if not isinstance(table, Table):
        raise TypeError(f"decode(record, table): {table!r} is no Table; pass the one that the entities name")
    if on_unknown not in ("raise", "skip"):
        raise BadValue(f"on_unknown={on_unknown!r}: say 'raise' or 'skip'")
    schema = table.compile()
    if prefix:
        schema = evolve(schema, name=prefix + schema.name, prefix=prefix)
    return _Reader(schema, layout_of(schema), on_unknown == "skip")


def _moment(what: Mapping[str, Any]) -> datetime | None:
    at = what.get("ApproximateCreationDateTime")
    if at is None:
        return None
    return at.astimezone(UTC) if isinstance(at, datetime) else datetime.fromtimestamp(at, UTC)
