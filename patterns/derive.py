"""Derive the items of one table from those of another: the nightly job as a function.

It reads a table in parts, or one partition, makes the target's items with a function of yours, writes them to another
store on any backend, and verifies the result. For a day of meters, with ``make=`` a function of a ``MeterDay``:

| source | item | target | derived item |
|---|---|---|---|
| ``meters`` | ``0000987654``, ``20170726``: 96 readings | ``SENSOR_20170726`` | ``0000987654``: the readings |
| ``meters`` | ``4000000001``, ``20170726``: 2 readings | ``SENSOR_20170726`` | ``4000000001``: the readings |
| ``meters`` | ``0000987654``, ``20170727`` | | no item: a condition of the query leaves it out |

Use it for a table that a report or another program reads: a day, a month, sums of each item. ``make`` returns an
entity, several or None, and must return the same for the same item: no time, no random number. Sources: AWS, "Parallel
scan" and "Distribute write activity efficiently during data upload"; Google, Bigtable, "Schema design for time series
data" (a table for each period can be dropped at once).

| step | reads of the source | reads of the target | writes |
|---|---|---|---|
| derive from a table | each item once, in requests for ``size`` items | the tag of each derived item | each once |
| derive from a partition | each item of this partition | the same | the same |
| verify | the same once more | each item of ``makes`` once | 0 |
| differences are found | the same once more, to name the partitions | the same | 0 |
| ``replace=True`` removes the others | three times more, for up to a million keys | the same | deletes |

**Stopped and continued.** A derived item replaces the item under its key, so a second run has the same result. With
``state``, the same call continues after a kill: at most one page of each part is written again. If the verification of
such a run finds differences, as after the target was emptied, it derives everything again. The state contains keys:
protect it like the data.

**Verified.** At the end it derives again, and compares counts and checksums of each partition with the target, see
`odm.patterns.compare`: missing, changed and additional items are reported as differences. ``makes`` says what the
target has from this derivation: entities, or queries such as ``select(Reading).where(Reading.day == day)``. All other
items of the target are neither compared nor removed. Without it, everything in the target is compared.
``replace=True`` removes items of ``makes`` that are no longer derived.

**Two items with one key** are an error that names both sources: before they are written, if they are of one page;
otherwise the verification finds them, as one of the two is missing.

It works the same on every backend, and between backends. Items of other programs in the target are never overwritten:
one under the key of a derived item raises `odm.ItemInvalid`. A page is written in batches that spread over partitions.

Limits: it is not a snapshot. What changes in the source meanwhile may appear as a difference: derive again. With
``replace=True``, run one derivation into these items at a time. Batches have no conditions, so derived entities have no
Revision, companions or CellVersions, and ``keep=`` is not applied. What ``make`` returns for a page is held in memory.
"""

import os
from collections.abc import Callable, Sequence
from itertools import islice
from typing import Any, TypeAlias, TypedDict, TypeVar, Unpack

from attrs import define, field, frozen

from odm import AsyncStore, BadValue, Entity, Page, Query, Store
from odm.extend import RateLimit
from odm.patterns.bulk_load import BATCH, spread
from odm.patterns.compare import Comparison, Side, Verified, name_of
from odm.patterns.copy_state import State, Work
from odm.patterns.derived import Make, Rule, begin, entities, once, query_of, raw_items
from odm.patterns.stale import remove_stale
from odm.patterns.two_stores import Call, Either, On, Pause, Steps, arun, name_of_store, now, rate_limit, run, write
from odm.patterns.verify import side_of
from odm.results import RawItem

E = TypeVar("E", bound=Entity)


@frozen
class Progress:
    """The progress of a derivation.

    Attributes:
        written: derived items written, including earlier runs.
        parts: parts of the source; ``done`` of them are complete.
        compared: items of both sides read for the verification.
    """

    written: int
    parts: int
    done: int
    compared: int = 0


Tell: TypeAlias = Callable[[Progress], object]


@frozen
class Derived:
    """The result of a derivation.

    Attributes:
        items: the number of derived items written, including earlier runs.
        removed: the number of items removed because they are no longer derived.
        verified: the comparison of what is derived, as its source, with the target; None: it was not requested.
    """

    items: int
    removed: int = 0
    verified: Verified | None = None


class Options(TypedDict, total=False):
    """How to derive.

    Attributes:
        makes: what the target has from this derivation: an entity class, a query with conditions only, or several of
            these. Default: everything in the target. It is required if source and target are the same store.
        replace: remove items of ``makes``, which is required, that are no longer derived (default False).
        parallel: parts of the source to read at the same time (default 4), each in its own thread or task.
        size: items of the source per page (default 250).
        rate: derived items per second, of all parts together; None: no limit.
        state: the file that records the progress; None: an interrupted derivation starts again.
        check: verify the result at the end (default True; ``replace=True`` always does).
        write: False: only compare the target with what would be derived (default True).
        tell: called with the progress after each page; one call at a time, from several threads.
    """

    makes: type[Entity] | Query[Any] | Sequence[type[Entity] | Query[Any]]
    replace: bool
    parallel: int
    size: int
    rate: float | None
    state: str | os.PathLike[str] | None
    check: bool
    write: bool
    tell: Tell


def derive(
    source: Store, what: type[E] | Query[E], *, into: Store, make: Make[E] | None = None, **options: Unpack[Options]
) -> Derived:
    """Write the items that a function makes of a store's items to another store, which must have been created.

    Args:
        source: the store to read.
        what: an entity class, a query of a partition, or ``select(Order).where(...)`` for a filtered scan.
        into: the store to write; the same one only with ``makes=``.
        make: called with each item, from several threads; returns an entity of the target, several or None.
            Default: the item itself, if both stores are of one table.
        options: see `Options`.

    Returns:
        The counts, and the comparison: look at ``verified.same``.

    Raises:
        BadValue: the stores do not fit together, a number is out of range, ``make`` returned something that a batch
            cannot write, two derived items have the same key, or the state belongs to another derivation.
        ItemInvalid: an item does not fit its model, or the key of a derived item holds an item of another program.
        Throttled: the target throttled the writes; call again with the same ``state`` and a lower ``rate``.
    """
    return run(_Job(source, query_of(what), into, make, **options).steps())


async def aderive(
    source: AsyncStore,
    what: type[E] | Query[E],
    *,
    into: AsyncStore,
    make: Make[E] | None = None,
    **options: Unpack[Options],
) -> Derived:
    """Derive from an async store; see `derive`. ``make`` is a plain function, which runs in the event loop."""
    return await arun(_Job(source, query_of(what), into, make, **options).steps())


def _queries(makes: Any) -> list[Query[Any]]:
    return [query_of(source) for source in (makes if isinstance(makes, Sequence) else [makes])]


def _state(path: str | os.PathLike[str] | None) -> State:
    return State(path, "a derivation")


@define
class _Job:
    """One derivation."""

    source: Either
    query: Query[Any]
    target: Either
    make: Make[Any] | None
    makes: Sequence[Query[Any]] = field(default=(), converter=_queries)
    replace: bool = False
    parallel: int = 4
    size: int = 250
    rate: RateLimit = field(default=None, converter=rate_limit)
    state: State = field(default=None, converter=_state)
    check: bool = True
    write: bool = True
    tell: Tell = lambda _: None

    def steps(self) -> Steps[Derived]:
        self._check()
        work = Work(self.state, lambda *numbers: self.tell(Progress(*numbers)))
        if not self.write:
            return Derived(0, 0, (yield from self._verified(work)))
        names = [f"{self.query} in {name_of_store(self.source)}", name_of_store(self.target)]
        yield Call(lambda: self.state.load(names))
        while True:
            continued = bool(self.state.parts)
            if not continued:
                yield from work.begin((yield from self._cursors()))
            yield from work.steps(self._written)
            verified = (yield from self._verified(work)) if self.check or self.replace else None
            if not continued or verified is None or verified.same:
                break
            self.state.parts = []  # as after the target was emptied: derive all of it again
        removed = 0
        if self.replace and verified is not None and not verified.same:
            removed = yield from remove_stale((yield from self._comparison(work)), self.target)
            verified = yield from self._verified(work)
        yield Call(self.state.remove)
        return Derived(work.items, removed, verified)

    def _check(self) -> None:
        same = self.source.table is self.target.table
        if self.make is None and not same:
            raise BadValue(
                f"derive({self.query}, into={self.target!r}): the target is another table, so make= must make its "
                "items: give a function that takes an item and returns an entity, several or None"
            )
        there = same and self.source.backend is self.target.backend and self.source.name == self.target.name
        owned = [query.entity for query in self.makes]
        if (there or self.replace) and not owned:
            why = "replace=True removes items" if self.replace else "source and target are the same store"
            raise BadValue(f"{why}: name the entities that are derived, as in makes=Reading")
        if there and (self.query.scope != "entity" or self.query.entity in owned):
            raise BadValue(f"{self.query} would read what it writes: derive into another entity, table or prefix")
        if self.replace and not self.write:
            raise BadValue("replace=True removes items, and write=False writes nothing: leave one of them out")
        for query in self.makes:
            if query != Query(query.entity, conditions=query.conditions) or owned.count(query.entity) > 1:
                raise BadValue(f"makes={query}: give each entity once, or select(...).where(...) with conditions only")

    def _cursors(self) -> Steps[list[str]]:
        starts: list[str] = yield On(self.source, begin(self.query, self.parallel))
        return starts

    def _derived(self, cursor: str) -> Steps[Page[tuple[RawItem, str]]]:
        """The derived items of a page, each with the name of its source."""
        source_page: Page[tuple[Entity, str]] = yield On(self.source, entities(self.query, cursor, self.size))
        rule = Rule(self.make, self.makes)
        derived_items = [(entity, name) for item, name in source_page.items for entity in rule.of(item, name)]
        raw: list[tuple[RawItem, str]] = yield On(self.target, raw_items(derived_items))
        return Page(raw, source_page.cursor)

    def _written(self, cursor: str) -> Steps[tuple[str | None, int]]:
        """Derive and write a page; returns the next cursor and the number of derived items."""
        derived_page = yield from self._derived(cursor)
        items = spread([item for item, _ in derived_page.items], lambda item: item.partition)
        while some := list(islice(items, self.rate.page(BATCH))):
            if wait := self.rate.take(len(some)):
                yield Pause(wait)
            yield On(self.target, write(some))
        return derived_page.cursor, len(derived_page.items)

    def _comparison(self, work: Work) -> Steps[Comparison]:
        moment: float = yield On(self.target, now())
        return Comparison(Side(self._cursors, self._page), self._owned(), moment, work.compare)

    def _verified(self, work: Work) -> Steps[Verified]:
        """Compare what is derived with the target."""
        verified = yield from (yield from self._comparison(work)).verified()
        lacking = {
            (difference.entity, difference.partition)
            for difference in verified.differences
            if difference.source > difference.target
        }
        if lacking:
            yield from self._check_once(lacking)
        return verified

    def _page(self, cursor: str) -> Steps[Page[RawItem]]:
        derived_page = yield from self._derived(cursor)
        return Page([item for item, _ in derived_page.items], derived_page.cursor)

    def _owned(self) -> Side:
        """What the target has from this derivation."""
        owned: list[Query[Any] | None] = [*self.makes] or [None]
        sides = [side_of(self.target, self.parallel, self.size, where=where, stale=True) for where in owned]

        def cursors() -> Steps[list[str]]:
            starts: list[str] = []
            for number, side in enumerate(sides):
                starts += [f"{number} {cursor}" for cursor in (yield from side.cursors())]
            return starts

        def page(cursor: str) -> Steps[Page[RawItem]]:
            number, _, rest = cursor.partition(" ")
            side_page = yield from sides[int(number)].page(rest)
            return Page(side_page.items, None if side_page.cursor is None else f"{number} {side_page.cursor}")

        return Side(cursors, page, stale=True)

    def _check_once(self, partitions: set[tuple[str, str]]) -> Steps[None]:
        """Raise BadValue if two derived items of these partitions have the same key."""
        seen: dict[tuple[str, str], str] = {}
        for begun in (yield from self._cursors()):
            cursor: str | None = begun
            while cursor is not None:
                derived_page = yield from self._derived(cursor)
                once([(item, name) for item, name in derived_page.items if name_of(item) in partitions], seen)
                cursor = derived_page.cursor
