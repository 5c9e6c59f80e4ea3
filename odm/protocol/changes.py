"""What a backend reports of a change feed: shards, and pages of records; `change_of` makes a record a `Change`."""

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any, Final, Literal, TypeAlias

from attrs import Factory, field, frozen

from odm.entities.changes import Change, Changed, Inserted, Removed
from odm.expressions.nodes import Item
from odm.schema.entity import Key
from odm.schema.model import Schema

Kind: TypeAlias = Literal["insert", "modify", "remove"]

_CLASSES: Final[Mapping[Kind, type[Change[Any]]]] = {"insert": Inserted, "modify": Changed, "remove": Removed}


@frozen
class ChangeShard:
    """A part of a change feed, whose changes are in order. All changes of an item are in one shard and its children.

    Attributes:
        id: its name.
        parent: the shard that must have been read to its end before this one; None: it has none. One that is not
            listed is gone, with all its changes.
    """

    id: str
    parent: str | None = None


@frozen
class ChangeRecord:
    """The change of one item.

    Attributes:
        kind: what the write did.
        key: the key of the item.
        old, new: the item before and after; None if there was none, or if the feed does not contain it.
        at: seconds since the epoch; None if unknown.
        order: see `odm.Change`.
        sequence: see `odm.Change`.
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


@frozen
class ChangePage:
    """Changes of a shard, in order.

    Attributes:
        records: the changes.
        position: where the next page begins; None: the shard has ended, and all of it was read.
        children: the shards that continue it, each with a position; one that continues several shards gets a
            position from each of them. Empty if `ListShards` reports them.
    """

    records: tuple[ChangeRecord, ...] = ()
    position: str | None = None
    children: Mapping[str, str] = Factory(dict)


def change_of(schema: Schema, record: ChangeRecord, *, skip_unknown: bool) -> Change[Any] | None:
    """The change of a record; None for an item of no entity of the table, with ``skip_unknown``.

    Raises:
        ItemInvalid: an item does not fit its model, or no entity has its tag.
    """
    images = (record.old, record.new)
    old, new = (
        None if image is None else schema.decode(image, record.key, skip_unknown=skip_unknown) for image in images
    )
    if old is None and new is None and images != (None, None):
        return None
    return _CLASSES[record.kind](
        key=record.key,
        old=old,
        new=new,
        at=None if record.at is None else datetime.fromtimestamp(record.at, UTC),
        order=record.order,
        sequence=record.sequence,
        expired=record.expired,
        record=record.native,
    )
