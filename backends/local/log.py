"""The change log of a table: what ``Memory(changes=...)`` and ``LocalFile(..., changes=...)`` keep for change feeds.

A change is logged in the step that makes it, so the log has exactly the changes that were made, in their order. It has
one shard. A position is the feed's name and the number of the last change that was read.
"""

from collections.abc import Sequence
from datetime import timedelta
from typing import Any, Final, NamedTuple

from odm.backends.local.codec import decode
from odm.backends.local.storage import Change, View
from odm.errors import BadCursor, BadValue, Unsupported, brief
from odm.protocol.changes import ChangePage, ChangeRecord, ChangeShard, Kind
from odm.protocol.requests import Key, ListShards, ReadChanges

SHARD: Final = "log"

DEFAULT: Final = timedelta(hours=24)
"""How long changes are kept by default, as in DynamoDB Streams."""

DIGITS: Final = 20
"""The digits of a number in `odm.changes.Change.order`."""


class Logged(NamedTuple):
    """A change in the log: its number, from 1, its time, and the bytes of the item before and after."""

    number: int
    at: float
    key: Key
    old: bytes | None
    new: bytes | None


def seconds_of(changes: bool | timedelta) -> float | None:
    """How long to keep changes; None: no log.

    Raises:
        BadValue: it is neither a bool nor a positive timedelta.
    """
    if isinstance(changes, bool):
        return DEFAULT.total_seconds() if changes else None
    if not isinstance(changes, timedelta) or changes <= timedelta():
        raise BadValue(
            f"changes={brief(changes)}: write changes=True, or how long to keep changes, as a timedelta above 0"
        )
    return changes.total_seconds()


def logged(changes: Sequence[Change], number: int, at: float) -> list[Logged]:
    """The log of changes, numbered from ``number``; a write that changed nothing is not in it."""
    logged: list[Logged] = []
    for key, old, new, *_ in changes:
        before, after = None if old is None else old.data, None if new is None else new.data
        if before != after:
            logged.append(Logged(number + len(logged), at, key, before, after))
    return logged


def answer(view: View, table: str, request: ListShards | ReadChanges) -> tuple[ChangeShard, ...] | ChangePage:
    """The only shard of the log, or a page of it.

    Raises:
        Unsupported: the table has no log.
        BadCursor: the position is not one of this log, or a later change is no longer kept.
    """
    feed = _feed_of(view, table)
    if isinstance(request, ListShards):
        return (ChangeShard(SHARD),)
    after = 0 if request.after is None else _number(request.after, feed, table)
    rows = view.logged(after, request.limit)
    if request.after is not None and rows and rows[0].number > after + 1:
        raise BadCursor(
            f"table {table!r}: the change after position {brief(request.after)} is no longer kept, so changes "
            "were lost: "
            "build what was made of the feed again from the table, and read the feed from its start"
        )
    last = rows[-1].number if rows else after
    return ChangePage(tuple(_record(row, feed) for row in rows), f"{feed}:{last}")


def _feed_of(view: View, table: str) -> str:
    feed = view.feed
    if feed is None:
        raise Unsupported(
            f"table {table!r} keeps no changes: open it with Memory(changes=True) or LocalFile(..., changes=True), and "
            "call store.create() once"
        )
    return feed


def _number(position: str, feed: str, table: str) -> int:
    name, _, number = position.rpartition(":")
    if name != feed or not (number.isascii() and number.isdigit()):
        raise BadCursor(f"{brief(position)} is not a position of the change feed of table {table!r}, {brief(feed)}")
    return int(number)


def _record(row: Logged, feed: str) -> ChangeRecord:
    kind: Kind = "insert" if row.old is None else "remove" if row.new is None else "modify"
    old, new = (None if data is None else decode(data) for data in (row.old, row.new))
    number = str(row.number)
    native: dict[str, Any] = {"number": row.number}
    order = number.zfill(DIGITS)
    return ChangeRecord(kind, row.key, old, new, row.at, order, number, f"{feed}:{number}", native=native)
