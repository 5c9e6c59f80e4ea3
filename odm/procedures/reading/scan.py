"""Scans: reading a whole table in segments, or a range of its partition keys, as generators of requests.

Each argument of a range has values of the leading fields of the partition template. The template makes a range of keys
of them. Conditions go with it where that range is wider than what was asked for.

`chunk` reads one page of each segment; the store loops over the pages.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from fractions import Fraction
from functools import partial
from typing import Any, Final, NamedTuple, cast

from odm.errors import BadValue, KeyValueError, Unsupported, brief
from odm.expressions.nodes import And, Compare, Condition, Const, Item, Or, Path, StartsWith
from odm.immutable import Immutable, evolve
from odm.keys import Op, Span, Template
from odm.procedures.blobs import check_many
from odm.procedures.concurrent import sent_together
from odm.procedures.context import Context
from odm.procedures.reading.partial import Selection, selection_of
from odm.procedures.writing.upgrades import judged, passing_older
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.protocol.predicates import every, has_tag
from odm.protocol.reading import Partitions
from odm.schema.entity import EntitySchema

_NONE = Partitions("", "")


class Range(NamedTuple):
    """A range of partition keys, and the conditions that leave the others of the range out."""

    partitions: Partitions
    conditions: tuple[Condition, ...] = ()


def partitions_of(
    entity: EntitySchema | None, prefix: object, start: object, stop: object, unsupported: str | None
) -> Range | None:
    """The partitions that the arguments of a scan name; None if they name none.

    Args:
        entity: the entity of the scan.
        prefix: as for `odm.Store.scan`.
        start: likewise.
        stop: likewise.
        unsupported: why the backend cannot read a range of partitions; None: it can.

    Raises:
        BadValue: they do not fit together, or do not give leading fields of the partition.
        KeyValueError: a value cannot be used in a key.
        Unsupported: the partitions of the entity have no order.
    """
    options = {"prefix": prefix, "start": start, "stop": stop}
    asked = {name: values for name, values in options.items() if values is not None}
    if not asked:
        return None
    if entity is None:
        raise BadValue(f"scan({next(iter(asked))}=...) reads partitions of one entity: scan(Meter, prefix=...)")
    if len(asked) > 1 and "prefix" in asked:
        raise BadValue("scan() takes prefix=, or start= and stop=: not both")
    if entity.primary.shards is not None:
        unsupported = (
            f"the partitions of {entity.primary.full_name} are sharded, so a range of them is not one range of keys: "
            "use a condition, which reads the whole table"
        )
    leading = {name: _leading(entity, name, values) for name, values in asked.items()}
    if prefix is None:
        bounds = _between(entity, leading.get("start"), leading.get("stop"))
    else:
        bounds = _within(entity, leading["prefix"])
    if unsupported is not None:  # wrong values have the same error everywhere
        argument, values = next(iter(leading.items()))
        example = f"scan({entity.name}, {entity.name}.{next(iter(values))} >= ...)"
        raise Unsupported(f"scan({entity.name}, {argument}=...): {unsupported}. Such a condition is {example}")
    return bounds


def _leading(entity: EntitySchema, argument: str, key_fields: object) -> dict[str, Any]:
    """The values of an argument, in the order of the template."""
    fields = tuple(dict.fromkeys(entity.primary.partition.fields))
    call = f"scan({entity.name}, {argument}={brief(key_fields)})"
    example = f'{{"{fields[0]}": ...}}' if fields else ""
    if not fields:
        raise BadValue(f"{call}: all items of {entity.name} are in one partition: query it")
    if not isinstance(key_fields, Mapping) or not key_fields:
        raise BadValue(f"{call}: give values of the leading fields of the partition, such as {example}")
    expected = fields[: len(key_fields)]
    if set(expected) != set(key_fields):
        known = ", ".join(fields)
        raise BadValue(f"{call}: the fields of the partition are {known}: give leading ones, such as {example}")
    lossy = [name for name in expected[:-1] if name in entity.primary.partition.lossy]
    if lossy:
        raise BadValue(f"{call}: {lossy[0]} is not stored whole in the partition, so it must be the last field given")
    return {name: key_fields[name] for name in expected}


def _split(entity: EntitySchema, values: Mapping[str, Any]) -> tuple[dict[str, Any], str, Any]:
    """The validated values of all fields but the last, and the last field with its value."""
    *names, last = values
    try:
        return {name: entity.codec.validate(name, values[name]) for name in names}, last, values[last]
    except KeyValueError:
        raise
    except BadValue as error:
        raise KeyValueError(str(error)) from error


def _within(entity: EntitySchema, values: Mapping[str, Any]) -> Range:
    template, (leading, last, value) = entity.primary.partition, _split(entity, values)
    if isinstance(value, str):
        with suppress(KeyValueError):  # a field of this form has no prefix
            span = template.span(leading, [("prefix", value)])
            return _ranged(entity, span.lo, span.hi, span.exact, StartsWith(Path((last,)), Const(value)), leading)
    known = leading | {last: entity.codec.validate(last, value)}
    span = template.span(known)
    return _ranged(entity, span.lo, span.hi, span.exact, Compare("=", Path((last,)), Const(known[last])), leading)


def _between(entity: EntitySchema, start: Mapping[str, Any] | None, stop: Mapping[str, Any] | None) -> Range:
    template = entity.primary.partition
    lo, hi, exact = template.span({}).lo, template.span({}).hi, True
    conditions: list[Condition] = []
    if start is not None:
        leading, last, value = _split(entity, start)
        span, whole = _bounded(template, leading, last, ">=", value), template.span(leading)
        if span.empty and whole.hi is None:
            return Range(_NONE)
        lo, exact = str(whole.hi) if span.empty else span.lo, span.exact
        conditions.append(_beyond(template, leading, last, ">=", value))
    if stop is not None:
        leading, last, value = _split(entity, stop)
        span = _bounded(template, leading, last, "<", value)
        hi, exact = span.hi, exact and span.exact
        conditions.append(_beyond(template, leading, last, "<", value))
    return _exactly(entity, Partitions(lo, hi), exact, conditions)


def _bounded(template: Template, leading: Mapping[str, Any], last: str, op: Op, value: Any) -> Span:
    """The keys on this side of a value, in the order of the keys."""
    return template.span(leading, [(_turned(template, last, op), value)])


def _turned(template: Template, name: str, op: Any) -> Any:
    """The comparison of a field that means this one of its texts."""
    slot = next(slot for slot in template.slots if slot.name == name)
    flipped = {">=": "<=", "<": ">", ">": "<"}
    return flipped[op] if slot.type.flips else op


def _beyond(template: Template, leading: Mapping[str, Any], last: str, op: Any, value: Any) -> Condition:
    """The condition that the fields, compared one after another, are on this side of the values."""
    condition: Condition = Compare(_turned(template, last, op), Path((last,)), Const(value))
    strict = ">" if op == ">=" else "<"
    for name, at in reversed([*leading.items()]):
        path = Path((name,))
        same = And((Compare("=", path, Const(at)), condition))
        condition = Or((Compare(_turned(template, name, strict), path, Const(at)), same))
    return condition


def _ranged(
    entity: EntitySchema, lo: str, hi: str | None, exact: bool, last: Condition, leading: Mapping[str, Any]
) -> Range:
    equal = [Compare("=", Path((name,)), Const(value)) for name, value in leading.items()]
    return _exactly(entity, Partitions(lo, hi), exact, [*equal, last])


def _exactly(entity: EntitySchema, partitions: Partitions, exact: bool, conditions: Sequence[Condition]) -> Range:
    """The range, with the conditions if it has other keys too: those of keys as they are may begin alike."""
    return Range(partitions, () if exact and not entity.primary.partition.verbatim else tuple(conditions))


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

    ``uncut``: the backend has not been asked yet for the limits of the segments. ``selection``: the fields to read;
    None: whole items. ``partitions``: the partition keys to read; None: all. ``share``: how much of the items to read.
    """

    entity: EntitySchema | None
    filter: Condition | None
    segments: tuple[Segment, ...]
    consistent: bool
    uncut: bool = False
    selection: Selection | None = None
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
    asked = selection_of(context, cls, only, "scan")
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
    if scanning.selection is None:
        check_many(scanning.entity, "scan")
    if scanning.uncut:
        scanning = yield from _with_parts(scanning)
    filter_ = context.filter(scanning.entity, passing_older(context, scanning.entity, scanning.filter))
    scan = req.Scan(
        filter_,
        consistent=scanning.consistent,
        pattern=scanning.pattern,
        tag=None if scanning.entity is None else scanning.entity.tag,
        only=None if scanning.selection is None else scanning.selection.only,
        partitions=scanning.partitions,
        sample=None if scanning.share is None else req.Sample(scanning.share, context.random.getrandbits(32)),
    )
    requests = [evolve(scan, after=s.after, segment=s.number, part=s.part) for s in scanning.segments]
    pages = yield from sent_together(requests)
    kept = [judged(context, scanning.entity, scanning.filter, answer.items, answer.positions) for answer in pages]
    items = [entity for page in kept for entity in _decoded(context, scanning, *page)]
    segments = [evolve(s, after=a.next) for s, a in zip(scanning.segments, pages, strict=True) if a.next is not None]
    return items, evolve(scanning, segments=tuple(segments)) if segments else None


def _decoded(
    context: Context, scanning: Scanning, items: Sequence[Item], positions: Sequence[req.Position]
) -> Sequence[Any]:
    """The results of a page of stored items."""
    selection = scanning.selection
    if context.on_invalid is not None:
        return context.fitting(items, positions, None if selection is None else partial(selection.of, context)).entities
    return context.decode_all(items, positions) if selection is None else selection.parts_of(context, items, positions)


def _with_parts(scanning: Scanning) -> CoreGen[Scanning]:
    """The scan, with the limits of its segments from the backend; they stay the same for all pages."""
    parts: tuple[req.Part, ...] | None = yield req.Split(len(scanning.segments), pattern=scanning.pattern)
    if parts is None:
        return evolve(scanning, uncut=False)
    return evolve(scanning, uncut=False, segments=tuple(Segment(part=part) for part in parts))
