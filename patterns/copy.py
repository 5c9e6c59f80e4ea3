"""Copy: a whole table from one store to another, on whatever backends, resumable, rate-limited and verified.

Every item arrives as it is stored; the layout is the table's own, made again by the target's backend:

| what | in the target |
|---|---|
| primary key | the same text; on Bigtable the row key made of it |
| attributes | as they are stored: revision and counters are not counted up, an item of an older version stays one |
| what the model does not know | stays, and with it what companions keep in the item |
| index entries | made anew, as the models make them now; of older versions, as of the upgraded item |
| TTL | kept; what has expired is not copied |

Use it to move to another cloud, to bring a table to a laptop, or to make a copy under another ``prefix=``. Design: the
segments of a parallel scan (AWS, "Parallel scan"), here with a cursor that any backend gives and any program can take
up; writes spread over partition keys (AWS, "Distribute write activity efficiently during data upload").

| step | reads | writes |
|---|---|---|
| is the target empty? | a page of one item | none |
| copy to DynamoDB | each item of the source once, and tags of the target by key | each item once, 25 a request |
| copy to Bigtable | the same | one bulk write a page, and more where items have index entries |
| verify | each item of both sides once, see `odm.patterns.verify` | none |

It is no snapshot. Each item is copied as it is when its page is read: what is written after that is not in the target,
and what is removed after that stays there. Let writers rest, or copy again with ``into_existing=True`` until `verify`
finds no difference. A `LocalFile` can be frozen: ``LocalFile.copy`` makes a file as of one moment, to copy from.

After a kill at any moment, the same call with the same ``state`` goes on: the state is written when a page has been
acknowledged, so at most a page of each part is put a second time, which changes nothing. It is removed when all is
verified; and where the target is empty by then, the copy begins again. It holds keys of items: keep it as you keep the
data.

Limits: every item must fit its model (`odm.ItemInvalid` otherwise; a store with ``on_unknown="skip"`` leaves out what
has no model) and the target's limits. Items of other programs in the target are never overwritten: under a key that
is to be written they are an `odm.ItemInvalid`. The tags are not read where the table is ``exclusive``.
"""

import os
from collections.abc import Callable
from threading import Lock
from typing import Any, TypeAlias, TypedDict, Unpack

from attrs import define, field, frozen

from odm import AsyncStore, BadValue, Page, RawItem, Store
from odm.patterns.bulk_load import spread
from odm.patterns.copy_state import Part, State
from odm.patterns.two_stores import Bucket, Call, Concurrent, Either, On, Pause, Steps, arun, page, parts, run, write
from odm.patterns.verify import Verified, check_pair
from odm.patterns.verify import steps as verify_steps


@frozen
class Progress:
    """How far a copy has come.

    Attributes:
        copied: items that were written, in earlier runs too.
        parts: parts of the source; ``done`` are those that were read to their end.
        compared: items of both sides that were read to verify the copy.
    """

    copied: int
    parts: int
    done: int
    compared: int = 0


Tell: TypeAlias = Callable[[Progress], object]


@frozen
class Copied:
    """What a copy did.

    Attributes:
        items: how many were written, in earlier runs too.
        verified: how the two sides compare afterwards; None: it was not asked for.
    """

    items: int
    verified: Verified | None = None


class Options(TypedDict, total=False):
    """How to copy.

    Attributes:
        parallel: so many parts of the source are read at the same time (4), each by a thread or task of its own, and
            written as they come.
        size: items of a page, which is what is written at once (250); with a ``rate`` at most those of a second.
        rate: items a second, of all parts together; None: as fast as it goes.
        state: the file in which to write down how far it is; None: a copy that is stopped begins again.
        into_existing: write to a target that holds items already; those that the source does not have stay.
        check: verify the copy at its end (True).
        tell: is told how far it is, after each page; one call at a time, from several threads.
    """

    parallel: int
    size: int
    rate: float | None
    state: str | os.PathLike[str] | None
    into_existing: bool
    check: bool
    tell: Tell


def copy(source: Store, target: Store, **options: Unpack[Options]) -> Copied:
    """Copy all items of a store to another one of the same table, which has been created.

    Args:
        source: where from; it is only read.
        target: where to.
        options: see `Options`.

    Raises:
        BadValue: the stores are not of one `odm.Table`, the target is not empty, a number makes no sense, or the state
            is of another copy.
        ItemInvalid: an item does not fit its model; what was copied before it stays.
        Throttled: the target takes no more now; call again with the same ``state``, and a lower ``rate``.
    """
    return run(_Job(source, target, **options).steps())


async def acopy(source: AsyncStore, target: AsyncStore, **options: Unpack[Options]) -> Copied:
    """Copy all items of an async store to another one; as `copy`."""
    return await arun(_Job(source, target, **options).steps())


@define
class _Job:
    """One copy."""

    source: Either
    target: Either
    parallel: int = 4
    size: int = 250
    rate: Bucket = field(default=None, converter=Bucket)
    state: State = field(default=None, converter=State)
    into_existing: bool = False
    check: bool = True
    tell: Tell = lambda _: None
    compared: int = 0
    lock: Any = field(factory=Lock)

    def steps(self) -> Steps[Copied]:
        check_pair(self.source, self.target)
        names = [f"{store.prefix}{store.table.name} on {store.backend!r}" for store in (self.source, self.target)]
        yield Call(lambda: self.state.load(names))
        held = yield from self._held()
        if held is None:  # nothing, or nothing any more, of what an earlier run has written
            self.state.parts = []
        if not self.state.parts:
            if held is not None and not self.into_existing:
                raise self._not_empty(held)
            self.state.parts = [Part(cursor) for cursor in (yield On(self.source, parts(self.parallel)))]
            yield Call(self.state.save)
        yield Concurrent([self._part(part) for part in self.state.parts])
        verified = None
        if self.check:
            verified = yield from verify_steps(self.source, self.target, self.parallel, self.size, self._compared)
        yield Call(self.state.remove)
        return Copied(sum(part.items for part in self.state.parts), verified)

    def _held(self) -> Steps[RawItem | None]:
        """An item of the target; None: it is empty."""
        cursor: str | None = None
        while True:
            found: Page[RawItem] = yield On(self.target, page(cursor, size=1, expired=True))
            if found.items or found.cursor is None:
                return found.items[0] if found.items else None
            cursor = found.cursor

    def _not_empty(self, held: RawItem) -> BadValue:
        return BadValue(
            f"the target {self.target!r} holds items already, such as {held.partition}: what the source does not have "
            "would stay among the copied ones; empty it, or say into_existing=True (--into-existing), or give the "
            "state of the copy that is to go on; one that has come to its end has none any more"
        )

    def _part(self, part: Part) -> Steps[None]:
        while part.cursor is not None:
            found: Page[RawItem] = yield On(self.source, page(part.cursor, size=self.rate.page(self.size)))
            if wait := self.rate.take(len(found.items)):
                yield Pause(wait)
            items = list(spread(found.items, lambda item: item.partition))
            if items:
                yield On(self.target, write(items))
            part.cursor, part.items = found.cursor, part.items + len(items)
            yield Call(self.state.save)
            self._told()

    def _compared(self, items: int) -> None:
        with self.lock:
            self.compared += items
        self._told()

    def _told(self) -> None:
        all_ = self.state.parts
        with self.lock:
            done = sum(part.cursor is None for part in all_)
            self.tell(Progress(sum(part.items for part in all_), len(all_), done, self.compared))
