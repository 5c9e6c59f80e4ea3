"""``keep=n``: after a write, the oldest items of an entity in a partition are deleted, so that the newest n stay.

The newest item is the last in sort order, or the first if the first field of the sort key is ``:desc``. A count that
stops at the n-th newest item finds its position; the items after it are deleted. An item that is then among the newest
n is never deleted, even with concurrent writers. Each writer trims after its own write, so when all have finished, at
most n items are left.
"""

from collections.abc import Iterable, Sequence

from odm.codec import TAG
from odm.errors import BackendError, OutcomeUnknown, Throttled
from odm.immutable import Immutable, evolve
from odm.observe.events import LOG
from odm.procedures.context import Context
from odm.procedures.pace import START
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.predicates import has_tag
from odm.schema.entity import EntitySchema


class _Heap(Immutable):
    """The items of an entity in a partition, of which the newest ``keep`` are kept."""

    entity: EntitySchema
    keep: int
    partition: str

    def newest_first(self, context: Context) -> req.Query:
        """A count of the items, newest first, which stops after the last item to keep."""
        sort = self.entity.primary.sort
        assert sort is not None  # the schema requires one for ``keep=``
        span = sort.span({}, ())
        tag = has_tag(self.entity.tag) if self.entity.primary.shared else None
        filter_ = context.filter(self.entity, tag)
        own = next(slot for slot in sort.slots if slot.name not in self.entity.primary.partition.fields)
        descending = own.type.flips
        return req.Query(
            self.partition,
            span.lo,
            span.hi,
            filter=filter_,
            reverse=not descending,
            limit=self.keep,
            count=True,
            pattern=self.entity.primary.full_name,
            examine=None if filter_ is None else self.keep,
        )


def trim_after(context: Context, writes: Iterable[req.Operation]) -> CoreGen[None]:
    """Delete the items that are no longer among the newest, after the puts among these applied writes.

    An error is logged and not raised, because the caller's write was applied. The next write trims again.
    """
    heaps = _heaps(context, writes)
    if not heaps:
        return
    try:
        yield from _trim(context, heaps)
    except (Throttled, OutcomeUnknown, BackendError) as error:
        names = ", ".join(sorted({heap.entity.name for heap in heaps}))
        # Without the message of the error, which has keys.
        LOG.warning("%s: not trimmed to keep=; the next write does: %s", names, type(error).__name__)


def _heaps(context: Context, writes: Iterable[req.Operation]) -> Sequence[_Heap]:
    """The partitions to which the puts added items, each once."""
    if all(entity.keep is None for entity in context.schema.entities.values()):
        return ()  # sooner than to read each draft for its tag
    heaps: dict[tuple[str, str], _Heap] = {}
    for write in writes:
        entity = context.schema.entities[write.item[TAG]] if isinstance(write, req.Put) else None
        if entity is not None and entity.keep is not None:
            heaps[entity.tag, write.key.partition] = _Heap(entity, entity.keep, write.key.partition)
    return tuple(heaps.values())


def _trim(context: Context, heaps: Sequence[_Heap]) -> CoreGen[None]:
    counts = [heap.newest_first(context) for heap in heaps]
    pages: Sequence[req.Page] = (yield req.Gather(tuple(counts))) if len(counts) > 1 else ((yield counts[0]),)
    for heap, count, page in zip(heaps, counts, pages, strict=True):
        last = yield from _last_kept(count, page)
        if last is not None:
            yield from _remove(heap, evolve(count, after=last))


def _last_kept(count: req.Query, page: req.Page) -> CoreGen[req.Position | None]:
    """The position of the last item to keep; None if no item follows it."""
    remaining, strangers, pace = (count.limit or 0) - page.count, page.strangers, START.after(page)
    while page.next is not None and remaining > 0:
        examine = None if count.filter is None else pace.items(remaining)
        page = yield evolve(count, after=page.next, limit=remaining, examine=examine)
        remaining, strangers, pace = remaining - page.count, strangers + page.strangers, pace.after(page)
    if strangers:
        LOG.warning("%s: not trimmed to keep=, as another program has items among them", count.pattern)
        return None
    return page.next


def _remove(heap: _Heap, behind: req.Query) -> CoreGen[None]:
    """Delete the entity's items after a position, including expired ones."""
    going: req.Query | None = evolve(behind, filter=has_tag(heap.entity.tag), limit=None, count=False, examine=None)
    while going is not None:
        page: req.Page = yield going
        if page.positions:
            pattern, unindexed = going.pattern, not heap.entity.patterns
            deletes = (req.Delete(position.key, pattern=pattern, unindexed=unindexed) for position in page.positions)
            yield req.BatchWrite(tuple(deletes))
        going = None if page.next is None else evolve(going, after=page.next)
