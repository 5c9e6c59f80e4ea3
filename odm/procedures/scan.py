"""Scans: reading a whole table in segments, as generators of requests.

`chunk` reads one page of each segment; the store loops over the pages.
"""

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import Any, Final, cast

from odm.errors import BadValue, brief
from odm.expressions.nodes import Condition, Item
from odm.immutable import Immutable, evolve
from odm.procedures.blobs import check_many
from odm.procedures.concurrent import sent_together
from odm.procedures.context import Context
from odm.procedures.partial import Wanted, wanted
from odm.procedures.partitions import partitions_of
from odm.procedures.upgrades import judged, passing_older
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.predicates import every, has_tag
from odm.schema.entity import EntitySchema

MOST_SEGMENTS: Final = 1_000_000
"""The most segments of a scan (AWS: Scan, TotalSegments)."""

MOST_DRAWN: Final = 16
"""The most segments that are drawn for a sample."""

MOST_CONCURRENT: Final = 1000
"""The most segments of a scan that are read concurrently."""


class Segment(Immutable):
    """A part of a scan, by its number ``(number, of)`` or by its limits, and the position before its next page.

    Without number and limits, it is the whole table.
    """

    number: tuple[int, int] | None = None
    part: req.Part | None = None
    after: req.Position | None = None


class Scanning(Immutable):
    """A scan in progress: the entity (None: all), the filter, and the segments that are not finished.

    ``uncut``: the backend has not been asked yet for the limits of the segments. ``wanted``: the fields to read; None:
    whole items. ``partitions``: the partition keys to read; None: all. ``share``: how much of the items to read.
    """

    entity: EntitySchema | None
    filter: Condition | None
    segments: tuple[Segment, ...]
    consistent: bool
    uncut: bool = False
    wanted: Wanted | None = None
    partitions: req.Partitions | None = None
    share: float | None = None

    @property
    def pattern(self) -> str:
        """The name that stands for a pattern, since a scan does not use one."""
        return f"scan({'' if self.entity is None else self.entity.name})"


def begin(  # noqa: PLR0913  # the options of a scan
    context: Context,
    cls: type | None,
    conditions: Sequence[Condition],
    *,
    consistent: bool,
    segments: int | None = None,
    segment: tuple[int, int] | None = None,
    only: object = None,
    sample: float | None = None,
    prefix: object = None,
    start: object = None,
    stop: object = None,
) -> Scanning | None:
    """Plan a scan; the arguments are those of `odm.Store.scan`. None: no item can be found.

    Raises:
        BadValue: conditions without an entity, or an argument is out of range.
        Unsupported: a range of partitions that have no order.
    """
    parts = tuple(map(Segment, _segments(segments, segment)))
    entity = None if cls is None else context.schema.entity(cls)
    asked = wanted(context, cls, only, "scan")
    range_ = partitions_of(entity, prefix, start, stop, context.range_unsupported_reason)
    if sample is not None:
        _check_sample(sample, segments, segment)
        if not context.samples:
            parts, sample = _drawn(context, sample), None
    uncut = segments is not None and len(parts) > 1
    if entity is None:
        if conditions:
            raise BadValue("scan() with conditions needs their entity first: scan(Order, Order.total > 100)")
        return Scanning(None, None, parts, consistent, uncut, share=sample)
    conditions = conditions if range_ is None else (*conditions, *range_.conditions)
    filter_ = every(*map(entity.codec.lower, conditions), has_tag(entity.tag))
    context.check_filter(entity, filter_)
    partitions = None if range_ is None else range_.partitions
    if partitions is not None and partitions.empty:
        return None
    return Scanning(entity, filter_, parts, consistent, uncut, asked, partitions, sample)


def _check_sample(share: object, segments: object, segment: object) -> None:
    number = isinstance(share, int | float) and not isinstance(share, bool)
    if not number or not 0 < cast("float", share) <= 1:
        raise BadValue(f"scan(sample={brief(share)}): give the part of the items to read, more than 0 and at most 1")
    if segments is not None or segment is not None:
        raise BadValue("scan() takes sample=, or segments= or segment=: not both")


def _drawn(context: Context, share: float) -> tuple[Segment, ...]:
    """Random segments that are about this part of the table, for a backend that draws no items itself."""
    about = Fraction(share).limit_denominator(MOST_DRAWN)
    if about.numerator <= 1:
        about = Fraction(1, MOST_SEGMENTS if share * MOST_SEGMENTS <= 1 else round(1 / share))
    if about == 1:
        return (Segment(),)
    numbers = context.random.sample(range(about.denominator), about.numerator)
    return tuple(Segment((number, about.denominator)) for number in sorted(numbers))


def _segments(segments: int | None, segment: tuple[int, int] | None) -> tuple[tuple[int, int] | None, ...]:
    """The segments to scan: all of ``segments``, only ``segment``, or the whole table (None)."""
    if segments is not None and segment is not None:
        raise BadValue("scan() takes segments=4, to read all parts together, or segment=(0, 4), to read one: not both")
    if segment is not None:
        if not isinstance(segment, tuple) or len(segment) != 2 or not all(type(number) is int for number in segment):
            raise BadValue(
                f"scan(segment={brief(segment)}): give the number of the part and how many there are: (0, 4)"
            )
        number, of = segment
        if not 0 <= number < of <= MOST_SEGMENTS:
            raise BadValue(
                f"scan(segment={brief(segment)}): parts are numbered from 0, and there are at most {MOST_SEGMENTS}: "
                "(0, 4) to (3, 4) are the four quarters"
            )
        return (segment if of > 1 else None,)
    if segments is None:
        return (None,)
    if type(segments) is not int or not 1 <= segments <= MOST_CONCURRENT:
        raise BadValue(f"scan(segments={brief(segments)}): give the number of parts to read, 1 to {MOST_CONCURRENT}")
    return tuple((number, segments) for number in range(segments)) if segments > 1 else (None,)


def chunk(context: Context, scanning: Scanning) -> CoreGen[tuple[list[Any], Scanning | None]]:
    """One page of each segment of a scan, and the scan that continues, or None at the end."""
    if scanning.wanted is None:
        check_many(scanning.entity, "scan")
    if scanning.uncut:
        scanning = yield from _cut(scanning)
    filter_ = context.filter(scanning.entity, passing_older(context, scanning.entity, scanning.filter))
    scan = req.Scan(
        filter_,
        consistent=scanning.consistent,
        pattern=scanning.pattern,
        tag=None if scanning.entity is None else scanning.entity.tag,
        only=None if scanning.wanted is None else scanning.wanted.only,
        partitions=scanning.partitions,
        sample=None if scanning.share is None else req.Sample(scanning.share, context.random.getrandbits(32)),
    )
    requests = [evolve(scan, after=s.after, segment=s.number, part=s.part) for s in scanning.segments]
    pages = yield from sent_together(requests)
    found = [judged(context, scanning.entity, scanning.filter, answer.items, answer.positions) for answer in pages]
    items = [entity for page in found for entity in _decoded(context, scanning, *page)]
    left = [evolve(s, after=a.next) for s, a in zip(scanning.segments, pages, strict=True) if a.next is not None]
    return items, evolve(scanning, segments=tuple(left)) if left else None


def _decoded(
    context: Context, scanning: Scanning, items: Sequence[Item], positions: Sequence[req.Position]
) -> Sequence[Any]:
    """The results of a page of stored items."""
    wanted = scanning.wanted
    if context.on_invalid is not None:
        return context.fitting(items, positions, None if wanted is None else partial(wanted.of, context)).entities
    return context.decode_all(items, positions) if wanted is None else wanted.found(context, items, positions)


def _cut(scanning: Scanning) -> CoreGen[Scanning]:
    """The scan, with the limits of its segments from the backend; they stay the same for all pages."""
    parts: tuple[req.Part, ...] | None = yield req.Split(len(scanning.segments), pattern=scanning.pattern)
    if parts is None:
        return evolve(scanning, uncut=False)
    return evolve(scanning, uncut=False, segments=tuple(Segment(part=part) for part in parts))
