"""Reads a table's change feed: its shards, and pages of changes."""

from collections.abc import Mapping, Sequence
from typing import Any

from odm._published import public_in
from odm.entities.changes import Change
from odm.errors import BadValue, brief
from odm.immutable import Immutable, field
from odm.procedures.context import Context
from odm.protocol import requests as req
from odm.protocol.changes import ChangePage, ChangeShard, change_of
from odm.protocol.connection import CoreGen


@public_in("odm.changes")
class Changes(Immutable):
    """A page of changes of one shard.

    Attributes:
        items: the changes, each with the position behind it.
        position: where the next page begins; None: the shard has ended, and this is its last page.
        read: the number of changes that were read, including those that were skipped: of items of no entity, or of
            items that do not fit their model.
        children: the shards that continue it, each with the position where it begins. A shard that continues several
            has one from each, joined by a line break in any order. Empty if `Calls.change_shards` returns them.
    """

    items: Sequence[tuple[Change[Any], str]]
    position: str | None
    read: int = 0
    children: Mapping[str, str] = field(factory=dict)


def change_shards(_context: Context) -> CoreGen[Sequence[ChangeShard]]:
    """The shards, parents before their children."""
    shards: tuple[ChangeShard, ...] = yield req.ListShards(pattern="changes()")
    return shards


def changes(context: Context, shard: str, after: str | None, size: int) -> CoreGen[Changes]:
    """A page of changes.

    Raises:
        BadValue: the size is out of range.
        BadCursor: changes after the position were lost, or it is not one of this feed.
        ItemInvalid: an item does not fit its model, unless the store skips such items.
        Unsupported: the table has no change feed.
    """
    if type(size) is not int or size < 1:
        raise BadValue(f"changes(size={brief(size)}): give the number of changes to read, an int of 1 or more")
    page: ChangePage = yield req.ReadChanges(shard, after, size, pattern="changes()")
    items: list[tuple[Change[Any], str]] = []
    for record in page.records:
        change = change_of(context.schema, record, skip_unknown=context.skip_unknown, on_invalid=context.on_invalid)
        if change is not None:
            if context.bind is not None:
                for image in (change.old, change.new):
                    if image is not None:
                        context.bind(image)
            items.append((change, record.position))
    return Changes(items, page.position, len(page.records), page.children)
