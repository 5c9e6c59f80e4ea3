"""Followers of a change feed: they read its shards, call the handlers of a feed, and store positions.

`odm.patterns.feed` describes what they guarantee, and what they cost.
"""

import asyncio
from collections.abc import Sequence
from math import inf
from threading import Event
from time import monotonic
from typing import Annotated, Final

from pydantic import Field

from odm import AsyncStore, BadCursor, BadValue, Entity, PrimaryKey, Revision, Store, Table
from odm.changes import Changes, ChangeShard
from odm.extend import Calls, Gen, procedure
from odm.patterns.feed import Feed
from odm.patterns.two_stores import Either, On, Steps, arun, run

positions = Table("odm_positions")
"""The table in which followers store their positions. It is a table of its own: its writes are not in a feed."""

QUIET: Final = 600.0
"""Seconds after which a position that moved without changes is stored."""

END: Final = "end"
"""The stored position of a shard that was read to its end; no feed has such a position."""


class Positions(Entity, table=positions):
    """Where a follower continues.

    Attributes:
        name: the name of the follower.
        shards: for each shard its position; "" is its beginning, and `END` its end.
        revision: prevents two followers of a name.
    """

    name: str
    shards: dict[str, str] = Field(default_factory=dict)
    revision: Annotated[int, Revision] = 0

    primary = PrimaryKey("FEED#{name}")


@procedure
def _shards(do: Calls) -> Gen[Sequence[ChangeShard]]:
    return (yield from do.change_shards())


@procedure
def _page(do: Calls, shard: str, after: str | None, size: int) -> Gen[Changes]:
    return (yield from do.changes(shard, after, size=size))


@procedure
def _load(do: Calls, name: str) -> Gen[Positions]:
    return (yield from do.get(Positions, name=name)) or Positions(name=name)


@procedure
def _save(do: Calls, state: Positions) -> Gen[Positions]:
    return (yield from do.put(state))


def _with_new(known: Positions, listed: Sequence[ChangeShard]) -> Positions:
    """The positions with those of new shards, and without ended ones that are no longer listed.

    At first all shards are new. Later a feed either lists the children of a known shard, or reports them at its end.

    Raises:
        BadCursor: a shard that continues a known one was not read before its first changes were deleted.
    """
    old, ids = known.shards, {shard.id for shard in listed}
    kept = {shard: position for shard, position in old.items() if position != END or shard in ids}
    new = [shard for shard in listed if shard.id not in old and (not old or shard.parent is not None)]
    if old and (not kept or any(shard.parent not in ids for shard in new)):
        raise BadCursor(
            f"follower {known.name!r} did not read the feed for longer than changes are kept, so changes were lost: "
            "build what was made of the feed again from the table, delete its Positions, and read the feed from its "
            "start"
        )
    return known.model_copy(update={"shards": kept | {shard.id: "" for shard in new}})


def _joined(before: str, position: str) -> str:
    """The position of a shard that continues several: one line of each."""
    return "\n".join(dict.fromkeys(filter(None, (*before.split("\n"), position))))


class _Follower:
    """What `Follower` and `AsyncFollower` share."""

    def __init__(self, store: Either, feed: Feed, *, state: Either, name: str, size: int = 100) -> None:
        if store.table is not feed.table:
            raise BadValue(
                f"the feed is of {feed.table!r}, but the store has {store.table!r}: pass the store of its table"
            )
        if state.table is not positions:
            raise BadValue(f"state={state!r}: pass Store(positions, ...), of odm.patterns.follower")
        if type(size) is not int or size < 1:
            raise BadValue(f"size={size!r}: give the number of changes to read at once, an int of 1 or more")
        self._store = store
        self._feed = feed
        self._state = state
        self._name = name
        self._size = size
        self._known: Positions | None = None
        self._saved = -inf

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._store!r}, name={self._name!r})"

    def _round(self) -> Steps[tuple[int, bool]]:
        """A page of each shard; returns the number of changes that were delivered, and whether there may be more.

        A shard is read when its parent was read to its end, which the positions have as long as the parent is listed.
        """
        known = self._known = self._known or (yield On(self._state, _load(self._name)))
        self._known = None  # if a step fails, the next round loads what is stored
        listed: Sequence[ChangeShard] = yield On(self._store, _shards())
        parents = {shard.id: shard.parent for shard in listed}
        known = _with_new(known, listed)
        delivered, more = 0, False
        for shard in list(known.shards):
            position = known.shards[shard]
            if position == END or known.shards.get(parents.get(shard) or "", END) != END:
                continue
            page: Changes = yield On(self._store, _page(shard, position or None, self._size))
            known = yield from self._handle(known, shard, page)
            delivered += len(page.items)
            more = more or page.read > 0 or page.position is None
        self._known = known
        return delivered, more

    def _handle(self, known: Positions, shard: str, page: Changes) -> Steps[Positions]:
        """Deliver a page, and store the position behind what was handled."""
        failed, error = yield from self._feed.steps([change for change, _ in page.items])
        shards: dict[str, str] = {}
        if failed is None:
            shards = {shard: END if page.position is None else page.position}
            for child, position in page.children.items():
                shards[child] = _joined(known.shards.get(child, ""), position)
        elif failed > 0:
            shards = {shard: page.items[failed - 1][1]}
        moved = known.shards | shards != known.shards
        known = known.model_copy(update={"shards": known.shards | shards})
        # A position may move without changes. It is stored now and then, so that it does not become too old.
        if moved and (page.read or page.position is None or monotonic() - self._saved > QUIET):
            # After the handlers: a follower that stops in between gets these changes again, and loses none.
            known = yield On(self._state, _save(known))
            self._saved = monotonic()
        if error is not None:
            raise error
        return known


class Follower(_Follower):
    """Reads a table's change feed and calls the handlers.

    Args:
        store: the store of the table.
        feed: the handlers.
        state: where to store positions: ``Store(positions, ...)``, created once.
        name: the name of the positions; each name follows the feed by itself.
        size: changes to read at once, from each shard.

    Raises:
        BadValue: the feed is of another table, or an argument cannot be used.
    """

    def __init__(self, store: Store, feed: Feed, *, state: Store, name: str, size: int = 100) -> None:
        super().__init__(store, feed, state=state, name=name, size=size)

    def poll(self) -> int:
        """Read a page of each shard and call the handlers; returns the number of changes.

        Raises:
            Exception: of a handler. The position before its change is stored.
            BadCursor: changes were lost, because the feed keeps them for a limited time.
            Conflict: another follower has the same name.
            Unsupported: the table has no change feed; the message says how to enable it.
        """
        return run(self._round())[0]

    def drain(self) -> int:
        """Poll until there is no newer change; returns the number of changes. Errors: see `poll`."""
        total, more = 0, True
        while more:
            delivered, more = run(self._round())
            total += delivered
        return total

    def run(self, stop: Event | None = None, *, idle: float = 1.0) -> None:
        """Poll until ``stop`` is set, with a pause of ``idle`` seconds when there is no change. Errors: see `poll`."""
        stop = stop or Event()
        while not stop.is_set():
            if not self.poll():
                stop.wait(idle)


class AsyncFollower(_Follower):
    """Reads a table's change feed and calls the handlers, which may be async; see `Follower`."""

    def __init__(self, store: AsyncStore, feed: Feed, *, state: AsyncStore, name: str, size: int = 100) -> None:
        super().__init__(store, feed, state=state, name=name, size=size)

    async def poll(self) -> int:
        """See `Follower.poll`."""
        return (await arun(self._round()))[0]

    async def drain(self) -> int:
        """See `Follower.drain`."""
        total, more = 0, True
        while more:
            delivered, more = await arun(self._round())
            total += delivered
        return total

    async def run(self, *, idle: float = 1.0) -> None:
        """Poll until the task is cancelled; see `Follower.run`."""
        while True:
            if not await self.poll():
                await asyncio.sleep(idle)
