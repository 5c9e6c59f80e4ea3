"""Copy a whole table from one store to another, on any backends; resumable, rate-limited and verified.

Every item is copied with its stored attributes. The target's backend makes the keys and index entries:

| what | in the target |
|---|---|
| primary key | the same text; on Bigtable the row key made of it |
| attributes | unchanged: revision and counters are not incremented, an item of an older version is not upgraded |
| unknown attributes | kept, including those of companions |
| index entries | made by the current models; for older versions, from the upgraded item |
| TTL | kept; expired items are not copied |

Use it to move to another cloud, to bring a table to a laptop, or to make a copy under another ``prefix=``. Design: the
segments of a parallel scan (AWS, "Parallel scan"), each with a cursor from which any program can continue; writes
spread over partition keys (AWS, "Distribute write activity efficiently during data upload").

| step | reads | writes |
|---|---|---|
| is the target empty? | a page of one item | 0 |
| copy to DynamoDB | each item of the source once, and tags of the target by key | each item once, 25 a request |
| copy to Bigtable | the same | one bulk write a page, and more if items have index entries |
| verify | each item of both sides once, see `odm.patterns.verify` | 0 |

It is not a snapshot. Each item is copied when its page is read: later writes are not in the target, and items that are
deleted later remain there. Stop writers, or copy again with ``into_existing=True`` until `odm.patterns.verify` finds no
difference. For a `odm.backends.local.LocalFile`, ``LocalFile.copy`` makes a consistent file to copy from.

After a kill at any time, the same call with the same ``state`` continues: the state is written after each acknowledged
page, so at most one page of each part is put a second time, which changes nothing. The state is deleted after the
verification. If the target is empty when a copy resumes, it starts again. The state contains keys: protect it like the
data.

Limits: every item must fit its model (`odm.ItemInvalid` otherwise; a store with ``on_unknown="skip"`` skips items
without a model, one with ``on_invalid="skip"`` those that do not fit) and the target's limits. Items of other programs
in the target are never overwritten: one under a key of the source raises `odm.ItemInvalid`. The tags are not read if
the table is ``exclusive``.
"""

import os
from collections.abc import Callable
from typing import TypeAlias, TypedDict, Unpack

from attrs import define, field, frozen

from odm import AsyncStore, BadValue, Page, Store
from odm.extend import RateLimit
from odm.patterns.bulk_load import spread
from odm.patterns.copy_state import State, Work
from odm.patterns.two_stores import (
    Call,
    Either,
    On,
    Pause,
    Steps,
    arun,
    name_of_store,
    page,
    parts,
    rate_limit,
    run,
    write,
)
from odm.patterns.verify import Verified, check_pair
from odm.patterns.verify import steps as verify_steps
from odm.results import RawItem


@frozen
class Progress:
    """The progress of a copy.

    Attributes:
        copied: items written, including earlier runs.
        parts: parts of the source; ``done`` of them are complete.
        compared: items of both sides read for the verification.
    """

    copied: int
    parts: int
    done: int
    compared: int = 0


Tell: TypeAlias = Callable[[Progress], object]


@frozen
class Copied:
    """The result of a copy.

    Attributes:
        items: the number of items written, including earlier runs.
        verified: the comparison of both sides; None: it was not requested.
    """

    items: int
    verified: Verified | None = None


class Options(TypedDict, total=False):
    """How to copy.

    Attributes:
        parallel: parts of the source to read at the same time (default 4), each in its own thread or task, which also
            writes them.
        size: items per page and per write (default 250); with a ``rate``, at most the items of one second.
        rate: items per second, of all parts together; None: no limit.
        state: the file that records the progress; None: an interrupted copy starts again.
        into_existing: write to a target that already has items; those that the source does not have are kept.
        check: verify the copy at the end (default True).
        tell: called with the progress after each page; one call at a time, from several threads.
    """

    parallel: int
    size: int
    rate: float | None
    state: str | os.PathLike[str] | None
    into_existing: bool
    check: bool
    tell: Tell


def copy(source: Store, target: Store, **options: Unpack[Options]) -> Copied:
    """Copy all items of a store to another store of the same table, which must have been created.

    Args:
        source: the store to read.
        target: the store to write.
        options: see `Options`.

    Raises:
        BadValue: the stores are not of one `odm.Table`, the target is not empty, a number is out of range, or the state
            belongs to another copy.
        ItemInvalid: an item does not fit its model; items copied before remain.
        Throttled: the target throttled the writes; call again with the same ``state`` and a lower ``rate``.
    """
    return run(_Job(source, target, **options).steps())


async def acopy(source: AsyncStore, target: AsyncStore, **options: Unpack[Options]) -> Copied:
    """Copy all items of an async store to another; see `copy`."""
    return await arun(_Job(source, target, **options).steps())


def names_of(*stores: Either) -> list[str]:
    """How the state of a copy names its stores."""
    return [name_of_store(store) for store in stores]


@define
class _Job:
    """One copy."""

    source: Either
    target: Either
    parallel: int = 4
    size: int = 250
    rate: RateLimit = field(default=None, converter=rate_limit)
    state: State = field(default=None, converter=State)
    into_existing: bool = False
    check: bool = True
    tell: Tell = lambda _: None

    def steps(self) -> Steps[Copied]:
        check_pair(self.source, self.target)
        yield Call(lambda: self.state.load(names_of(self.source, self.target)))
        work = Work(self.state, lambda *numbers: self.tell(Progress(*numbers)))
        held = yield from self._held()
        if held is None:  # the target is empty, or was emptied after an earlier run
            self.state.parts = []
        if not self.state.parts:
            if held is not None and not self.into_existing:
                raise self._not_empty(held)
            yield from work.begin((yield On(self.source, parts(self.parallel))))
        yield from work.steps(self._page)
        verified = None
        if self.check:
            verified = yield from verify_steps(self.source, self.target, self.parallel, self.size, work.compare)
        yield Call(self.state.remove)
        return Copied(work.items, verified)

    def _held(self) -> Steps[RawItem | None]:
        """An item of the target; None if the target is empty."""
        cursor: str | None = None
        while True:
            items_page: Page[RawItem] = yield On(self.target, page(cursor, size=1, expired=True))
            if items_page.items or items_page.cursor is None:
                return items_page.items[0] if items_page.items else None
            cursor = items_page.cursor

    def _not_empty(self, held: RawItem) -> BadValue:
        return BadValue(
            f"the target {self.target!r} already has items, such as {held.partition}: items that the source lacks "
            "would remain among the copied ones; empty it, use into_existing=True (--into-existing), or give the "
            "state of the copy to continue; a finished copy has no state"
        )

    def _page(self, cursor: str) -> Steps[tuple[str | None, int]]:
        items_page: Page[RawItem] = yield On(self.source, page(cursor, size=self.rate.page(self.size)))
        if wait := self.rate.take(len(items_page.items)):
            yield Pause(wait)
        items = list(spread(items_page.items, lambda item: item.partition))
        if items:
            yield On(self.target, write(items))
        return items_page.cursor, len(items)
