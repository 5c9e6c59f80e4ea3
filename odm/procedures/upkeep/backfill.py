"""`Store.backfill`: bring stored items up to date with the models, while other programs read and write.

A scan reads the items page by page; `odm.procedures.upkeep.fill` decides what to write for an item, and writes it.

It reports its counts, and the items that it could not write.
"""

from collections.abc import Callable, Mapping, Sequence
from inspect import iscoroutinefunction
from typing import TYPE_CHECKING, Any, Final, TypeAlias, cast

from odm._published import public_in
from odm.codec import TAG
from odm.concurrency import RateLimit
from odm.entities.entity import Entity
from odm.entities.patterns import BoundPattern
from odm.errors import BadValue, ItemInvalid, OdmError, brief
from odm.immutable import Immutable, evolve, field
from odm.procedures.concurrent import concurrent
from odm.procedures.context import Context
from odm.procedures.session import Session
from odm.procedures.upkeep.fill import Fill, Row, Scope, apart, due, filled, row_of
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.schema.entity import Key
from odm.schema.model import Schema

if TYPE_CHECKING:
    from odm.procedures.calls import Calls, Companion


MOST_FAILURES: Final = 1000
"""The most items in `Backfilled.failures`."""


@public_in("odm.results")
class Unfilled(Immutable):
    """An item that a backfill could not write.

    Attributes:
        partition: its partition key.
        sort: its sort key; "" in a table without sort keys.
        error: why. `odm.ItemExists`: another item has the unique value; `odm.ItemInvalid`: the item does not fit the
            model; `odm.BadValue`: it cannot be stored; `odm.Conflict`: other writers kept changing it.
    """

    partition: str
    sort: str
    error: OdmError

    def __str__(self) -> str:
        return f"{self.partition}{' | ' * bool(self.sort)}{self.sort}: {self.error}"


@public_in("odm.results")
class Backfilled(Immutable):
    """The progress or the result of a backfill.

    Attributes:
        seen: items of the entity that were read; expired ones are not counted. `odm.Store.rekey` counts an item twice
            if it reads it under its old key, and, on a later page, under its new one.
        written: items that were written, or whose companions' items were.
        failed: items that could not be written.
        failures: the first 1,000 of them, with the errors.
        cursor: the position from which another backfill continues, as ``after=``; None: it is complete.
    """

    seen: int = 0
    written: int = 0
    failed: int = 0
    failures: tuple[Unfilled, ...] = field(default=(), repr=False)
    cursor: str | None = None

    @property
    def skipped(self) -> int:
        """Items that cost no write: they were right already, or were deleted meanwhile.

        Those that `odm.Store.rekey` has moved, and reads again under their new keys, are among them: how many depends
        on the pages, whose sizes the backend decides.
        """
        return self.seen - self.written - self.failed


CONCURRENT: Final = 64
"""The number of items written concurrently."""

Tell: TypeAlias = Callable[[Backfilled], object]


def backfill(
    session: Session,
    do: "Calls",
    target: object,
    *,
    rate: float | None,
    after: str | None,
    size: int,
    on_progress: Tell | None,
) -> CoreGen[Backfilled]:
    """Write the items of a target that are not as the current model would write them; see `odm.Store.backfill`.

    Raises:
        BadValue: the target cannot be backfilled, or a number is out of range.
        BadCursor: the cursor is damaged or belongs to another table.
        Unsupported: the writes of a companion cannot be repeated.
    """
    if on_progress is not None and (not callable(on_progress) or iscoroutinefunction(on_progress)):
        raise BadValue(f"backfill(on_progress={brief(on_progress)}): give a plain function, also to an AsyncStore")
    scopes, segment = wanted_by(session.context.schema, target), session.segment(after)
    pace = paced("backfill", rate, size)
    done = Backfilled(cursor=after)
    while True:
        page: req.Page = yield req.Scan(
            limit=pace.page(size),
            after=segment.after,
            segment=segment.number,
            part=segment.part,
            entries=True,
            pattern="scan()",
        )
        if wait := pace.take(len(page.items)):
            yield req.Sleep(wait)
        done = yield from _page(session.context, do, scopes, page, done)
        segment = evolve(segment, after=page.next)
        done = evolve(done, cursor=None if page.next is None else session.place(segment))
        if on_progress is not None:
            on_progress(done)
        if page.next is None:
            # Only after one run over the whole table: it is not known what an earlier one, which this continues, has
            # left out.
            if after is None and not done.failed:
                _filled(session.context, scopes)
            return done


def _filled(context: Context, scopes: Mapping[str, Scope]) -> None:
    """Note that all entries of these patterns are as the models make them."""
    for scope in scopes.values():
        for pattern in scope.entity.patterns.values() if scope.whole else scope.patterns:
            if context.unfilled:
                context.unfilled.pop(pattern.full_name, None)


def paced(call: str, rate: float | None, size: int) -> RateLimit:
    """The limit of the items that a call reads per second.

    Raises:
        BadValue: a number is out of range.
    """
    number = isinstance(rate, int | float) and not isinstance(rate, bool) and 0 < rate < float("inf")
    if rate is not None and not number:
        raise BadValue(f"{call}(rate={brief(rate)}): give the items to read per second, more than 0")
    if type(size) is not int or size < 1:
        raise BadValue(f"{call}(size={brief(size)}): give the number of items to read at once, an int of 1 or more")
    return RateLimit(rate)


def wanted_by(schema: Schema, target: object) -> dict[str, Scope]:
    """What to write for the items of each tag.

    Raises:
        BadValue: the target is not a pattern, a companion or an entity class.
        SchemaError: the entity is not one of the table.
    """
    scopes = [
        Scope(entity, companions=(companion,))
        for entity in schema.entities.values()
        for companion in cast("tuple[Companion, ...]", entity.companions)  # each derives from it
        if target is companion or _same(target, getattr(entity.cls, companion.name))
    ]
    if scopes:
        return {scope.entity.tag: scope for scope in scopes}
    if isinstance(target, BoundPattern):
        entity = schema.entity(target.entity)
        if target.name == entity.primary.name:
            raise BadValue(
                f"backfill({brief(target)}): the primary key of stored items does not change: give an access "
                "pattern, or "
                f"{entity.name} for whole items"
            )
        return {entity.tag: Scope(entity, patterns=(entity.patterns[target.name],))}
    if isinstance(target, type) and issubclass(target, Entity):
        entity = schema.entity(target)
        companions = cast("tuple[Companion, ...]", entity.companions)
        return {entity.tag: Scope(entity, companions=companions, whole=True)}
    raise BadValue(
        f"backfill({brief(target)}): give an access pattern (Order.by_status, without a call), a declaration "
        "with items of "
        "its own (Customer.unique_email), or an entity class for whole items"
    )


def _same(target: object, value: object) -> bool:
    """Whether the target is what the attribute of a companion is on its class."""
    both = isinstance(target, BoundPattern) and isinstance(value, BoundPattern)
    return target is value or (both and vars(target) == vars(value))


def _page(
    context: Context, do: "Calls", scopes: Mapping[str, Scope], page: req.Page, done: Backfilled
) -> CoreGen[Backfilled]:
    """Write what is due for the items of a page; returns the progress after it."""
    rows: dict[str, list[Row]] = {tag: [] for tag in scopes}
    failures: list[Unfilled] = []
    seen = written = 0
    for item, position, entries in zip(page.items, page.positions, page.entries, strict=True):
        scope = scopes.get(_tag(item))
        if scope is None or context.living(item) is None:
            continue
        seen += 1
        try:
            rows[scope.entity.tag].append(row_of(context, scope, item, position.key, entries))
        except (BadValue, ItemInvalid) as error:
            failures.append(Unfilled(*position.key, error))
    for tag, batch in rows.items():
        outcomes = yield from _rows(context, do, scopes[tag], batch)
        for key, outcome in outcomes:
            if isinstance(outcome, OdmError):
                failures.append(Unfilled(*key, outcome))
            else:
                written += outcome
    remaining = MOST_FAILURES - len(done.failures)
    return Backfilled(
        done.seen + seen,
        done.written + written,
        done.failed + len(failures),
        (*done.failures, *failures[:remaining]) if failures and remaining else done.failures,
    )


def _rows(
    context: Context, do: "Calls", scope: Scope, rows: Sequence[Row]
) -> CoreGen[list[tuple[Key, bool | OdmError]]]:
    """Write what is due for some items; returns the outcome for each of them.

    Items whose companions write the same item are written one after the other, because the second one may then have
    nothing left to write: of all orders of a customer, only the newest moves the pointer to it.
    """
    outcomes: list[tuple[Key, bool | OdmError]] = []
    fills: Sequence[Fill] = yield from due(context, scope, rows)
    while fills:
        now, later = apart(fills)
        for start in range(0, len(now), CONCURRENT):
            some = now[start : start + CONCURRENT]
            answers = yield from concurrent([filled(context, do, fill) for fill in some])
            outcomes += zip([fill.target.key for fill in some], answers, strict=True)
        fills = (yield from due(context, scope, [fill.row for fill in later])) if later else []
    return outcomes


def _tag(item: Any) -> str:
    """The tag of an item; that of another program's item may not be text."""
    tag = item.get(TAG)
    return tag if isinstance(tag, str) else ""
