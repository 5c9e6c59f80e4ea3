"""What a backend reports of a change feed: shards, and pages of records; `change_of` makes a record a `Change`."""

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from odm._published import public_in
from odm.entities.changes import Change, Changed, Inserted, Removed
from odm.errors import ItemInvalid
from odm.expressions.nodes import Item
from odm.immutable import Immutable, field
from odm.schema.entity import Key
from odm.schema.model import Schema

Kind: TypeAlias = Literal["insert", "modify", "remove"]

_CLASSES: Final[Mapping[Kind, type[Change[Any]]]] = {"insert": Inserted, "modify": Changed, "remove": Removed}


@public_in("odm.changes")
class ChangeShard(Immutable):
    """A part of a change feed, whose changes are in order. All changes of an item are in one shard and its children.

    Attributes:
        id: its name.
        parent: the shard that must have been read to its end before this one; None: it has none. One that is not
            listed is gone, with all its changes.
    """

    id: str
    parent: str | None = None


class ChangeRecord(Immutable):
    """The change of one item.

    Attributes:
        kind: what the write did.
        key: the key of the item.
        old, new: the item before and after; None if there was none, or if the feed does not contain it.
        at: seconds since the epoch; None if unknown.
        order: see `odm.changes.Change`.
        sequence: see `odm.changes.Change`.
        position: where to continue after this change; "" if the record does not come from a shard.
        expired: deleted by TTL.
        native: the record of the service.
    """

    kind: Kind
    key: Key
    old: Item | None
    new: Item | None
    at: float | None
    order: str
    sequence: str
    position: str = ""
    expired: bool = False
    native: Mapping[str, Any] = field(factory=dict, repr=False)


class ChangePage(Immutable):
    """Changes of a shard, in order.

    Attributes:
        records: the changes.
        position: where the next page begins; None: the shard has ended, and all of it was read.
        children: the shards that continue it, each with a position; one that continues several shards gets a
            position from each of them. Empty if `ListShards` reports them.
    """

    records: tuple[ChangeRecord, ...] = ()
    position: str | None = None
    children: Mapping[str, str] = field(factory=dict)


def change_of(
    schema: Schema,
    record: ChangeRecord,
    *,
    skip_unknown: bool,
    on_invalid: Callable[[ItemInvalid], object] | None = None,
) -> Change[Any] | None:
    """The change of a record; None if it has only items that are skipped.

    An item that is skipped counts as absent: a write that makes it one that is read is an `Inserted`, and a write that
    makes it one that is skipped is a `Removed`. So who adds up items has the same sum as a query that skips them.

    Args:
        schema: of the table.
        record: the record.
        skip_unknown: skip items of no entity of the table.
        on_invalid: called with the error of an item that does not fit its model, which is skipped; None: it is raised.

    Raises:
        ItemInvalid: an item does not fit its model, or no entity has its tag.
    """
    images = (record.old, record.new)
    old, new = (_read(schema, image, record.key, skip_unknown, on_invalid) for image in images)
    if old is None and new is None and images != (None, None):
        return None
    kind = record.kind
    if kind == "modify" and record.old is not None and old is None:
        kind = "insert"
    elif kind == "modify" and record.new is not None and new is None:
        kind = "remove"
    return _CLASSES[kind](
        key=record.key,
        old=old,
        new=new,
        at=None if record.at is None else datetime.fromtimestamp(record.at, UTC),
        order=record.order,
        sequence=record.sequence,
        expired=record.expired,
        record=record.native,
    )


def _read(
    schema: Schema,
    image: Item | None,
    key: Key,
    skip_unknown: bool,
    on_invalid: Callable[[ItemInvalid], object] | None,
) -> Any:
    """The entity of an image; None if there is none, or it is skipped."""
    if image is None:
        return None
    try:
        return schema.decode(image, key, skip_unknown=skip_unknown)
    except ItemInvalid as error:
        if on_invalid is None or not schema.knows(image):
            raise
        on_invalid(error)
        return None
