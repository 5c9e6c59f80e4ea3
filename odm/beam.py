"""Read, write and derive tables with Apache Beam, so that Dataflow, Flink or Spark run the work on many machines.

::

    import apache_beam as beam
    from odm import select
    from odm.beam import Derive

    with beam.Pipeline() as pipeline:
        found = pipeline | Derive("app.stores:meters", select(MeterDay), into="app.stores:sensors", make=sensor)
        found | beam.Map(print)  # the partitions that differ; none: the target has exactly what is derived

| transform | reads | gives |
|---|---|---|
| ``ReadTable(store, what)`` | a table in parts, or the partition of a query | its entities |
| ``WriteTable(store)`` | entities | the number of items of each write |
| ``Derive(source, what, into=, make=)`` | a table twice: to derive, and to verify | the partitions that differ |

**Stores.** A store is never pickled. Each worker makes its own, from text such as ``"app.stores:meters"``, a module and
in it a `odm.Store` or a function that returns one, or from a function without arguments. Entities and functions must
be in modules that the workers can import: an entity is sent between workers as a pickled Pydantic model. Two equal
entities may have different bytes, as Pydantic also pickles which fields were given: group by fields, not by entities.

**Retries.** A runner may read a part, or write a bundle, more than once. A part is the same for every reader, and an
item replaces the one under its key, so the result is the same. ``make`` must return the same for the same item.

Parts are not split while they are read: give several for each worker. Writes are batches that spread over partitions:
entities with a Revision, companions or CellVersions raise `odm.BadValue`, and items of other programs are never
overwritten. For a bounded pipeline, in the global window. The sources are those of `odm.patterns.derive`, which does
the same in one process, continues after a kill, and removes items that are no longer derived.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib import import_module
from typing import Any, Final, TypeAlias

import apache_beam as beam  # pyright: ignore[reportMissingImports]
from apache_beam.transforms.window import GlobalWindows  # pyright: ignore[reportMissingImports]

from odm import BadValue, Entity, Page, Query, Store
from odm.patterns.bulk_load import BATCH, spread
from odm.patterns.compare import Difference, checksum, name_of, plus
from odm.patterns.derived import Make, Rule, begin, entities, query_of, raw_items, repeated, text_of
from odm.patterns.two_stores import now, page, parts
from odm.results import RawItem

StoreOf: TypeAlias = str | Callable[[], Store]
"""Where a worker gets its store: ``"module:name"`` of a store or of a function, or a function without arguments."""

What: TypeAlias = type[Entity] | Query[Any]

PARTS: Final = 32
"""The default number of parts."""


class ReadTable(beam.PTransform):
    """The entities of a table, or of a query, read in parts.

    Args:
        store: where a worker gets the store.
        what: an entity class, a query of a partition, or ``select(Order).where(...)`` for a filtered scan.
        parts: the number of parts that workers read at the same time, 1 to 1000; a partition is one part.
        size: items per page.

    Raises:
        BadValue: an argument cannot be used.
    """

    def __init__(self, store: StoreOf, what: What, *, parts: int = PARTS, size: int = 250) -> None:
        super().__init__()
        self._read = _Named(store, query_of(what), parts, size)

    def expand(self, pbegin: Any) -> Any:
        """The entities."""
        return pbegin | self._read | "Without names" >> beam.Keys()


class WriteTable(beam.PTransform):
    """Write entities; each replaces the item under its key. Gives the number of items of each write.

    Args:
        store: where a worker gets the store.
        size: the maximum number of items per write.

    Raises:
        BadValue: an argument cannot be used; in a worker, for an entity that a batch cannot write.
    """

    def __init__(self, store: StoreOf, *, size: int = BATCH) -> None:
        super().__init__()
        self._store, self._size = _checked(store), size

    def expand(self, pcoll: Any) -> Any:
        """The number of items of each write."""
        return pcoll | "Items" >> beam.ParDo(_Raw(self._store)) | "Write" >> beam.ParDo(_Write(self._store, self._size))


class Derive(beam.PTransform):
    """Write what a function makes of the items of one table to another, and compare both: `odm.patterns.derive`.

    It gives an `odm.patterns.compare.Difference` for each partition that differs from what is derived once more.

    Args:
        source: where a worker gets the store to read.
        what: as for `ReadTable`.
        into: where a worker gets the store to write.
        make: called with each item; returns an entity of the target, several or None. Default: the item itself.
        makes: what the target has from this derivation: entity classes, or queries with conditions only. Default:
            everything in the target. It is required if source and target are the same.
        parts: the number of parts of the source, and of the target to verify.
        size: items per page.
        check: verify the result; otherwise it gives nothing.

    Raises:
        BadValue: an argument cannot be used; in a worker, two derived items have the same key: it names their sources.
    """

    def __init__(  # the options of a derivation
        self,
        source: StoreOf,
        what: What,
        *,
        into: StoreOf,
        make: Make[Any] | None = None,
        makes: Sequence[What] = (),
        parts: int = PARTS,
        size: int = 250,
        check: bool = True,
    ) -> None:
        super().__init__()
        if source == into and not makes:
            raise BadValue(
                "source and target are the same store: name the entities that are derived, as in makes=[Day]"
            )
        self._read = _Named(source, query_of(what), parts, size)
        self._into = _checked(into)
        self._rule = Rule(make, tuple(map(query_of, makes)))
        self._parts, self._size, self._check = parts, size, check

    def expand(self, pbegin: Any) -> Any:
        """The partitions that differ."""
        derived_items = pbegin | "Read" >> self._read | "Make" >> beam.ParDo(_Make(self._into, self._rule))
        write = "Write" >> beam.ParDo(_Write(self._into, BATCH))
        written = derived_items | write | "Written" >> beam.CombineGlobally(sum)
        keys = (
            derived_items | "Keys" >> beam.Map(_key) | "Group keys" >> beam.GroupByKey() | "Once" >> beam.FlatMap(_once)
        )
        if not self._check:
            return (written, keys) | "Nothing" >> beam.Flatten() | "No differences" >> beam.Filter(_nothing)
        moment = beam.pvalue.AsSingleton(written | "Time" >> beam.ParDo(_Moment(self._into)))
        owned: list[Query[Any] | None] = [*self._rule.makes] or [None]
        again = pbegin | "Read again" >> _Named(*self._read.arguments, after=moment)
        ours = again | "Make again" >> beam.ParDo(_Make(self._into, self._rule)) | "Items again" >> beam.Keys()
        theirs = [
            pbegin | f"Target {number}" >> _Items(self._into, where, self._parts, self._size, moment)
            for number, where in enumerate(owned)
        ]
        sums = (
            ours | "Sums" >> beam.ParDo(_sums, moment, stale=False) | "Add" >> beam.CombinePerKey(_added),
            theirs
            | "Targets" >> beam.Flatten()
            | "Sums of the target" >> beam.ParDo(_sums, moment, stale=True)
            | "Add those of the target" >> beam.CombinePerKey(_added),
        )
        return sums | "Compare" >> beam.CoGroupByKey() | "Differences" >> beam.FlatMap(_difference)


def _nothing(_: Any) -> bool:
    return False


def _checked(store: StoreOf) -> StoreOf:
    if callable(store) or (isinstance(store, str) and store.count(":") == 1):
        return store
    raise BadValue(f'{store!r}: give "module:name" of a store or of a function that returns one, or such a function')


class _OnStore(beam.DoFn):
    """Work on a store, which each worker opens for itself."""

    def __init__(self, store: StoreOf) -> None:
        self._store = _checked(store)

    def setup(self) -> None:
        self._db, self._own = _opened(self._store)

    def teardown(self) -> None:
        if self._own:
            self._db.close()


def _opened(store: StoreOf) -> tuple[Store, bool]:
    """The store, and whether it was made for this caller, who closes it."""
    source: Any = store
    if isinstance(store, str):
        module, _, name = store.partition(":")
        source = getattr(import_module(module), name)
    if isinstance(source, Store):
        return source, False
    db = source()
    if not isinstance(db, Store):
        raise BadValue(f"{store!r} returned {db!r}: return an odm.Store")
    return db, True


class _Named(beam.PTransform):
    """The items of a query, each with its name."""

    def __init__(self, store: StoreOf, query: Query[Any], number: int, size: int, *, after: Any = None) -> None:
        super().__init__()
        self.arguments = _checked(store), query, number, size
        self._after = after

    def expand(self, pbegin: Any) -> Any:
        store, query, number, size = self.arguments

        def starts(db: Store) -> list[str]:
            return db.run(begin(query, number))

        def read(db: Store, cursor: str) -> Page[Any]:
            return db.run(entities(query, cursor, size))

        return pbegin | _Pages(store, starts, read, self._after)


class _Items(beam.PTransform):
    """The raw items of a table that a query selects, also those that have expired."""

    def __init__(self, store: StoreOf, where: Query[Any] | None, number: int, size: int, after: Any) -> None:
        super().__init__()

        def starts(db: Store) -> list[str]:
            return db.run(parts(number))

        def read(db: Store, cursor: str) -> Page[Any]:
            return db.run(page(cursor, size=size, expired=True, where=where))

        self._pages = _Pages(store, starts, read, after)

    def expand(self, pbegin: Any) -> Any:
        return pbegin | self._pages


class _Pages(beam.PTransform):
    """What is on all pages, read in parts; ``after``: a side input to wait for."""

    def __init__(
        self,
        store: StoreOf,
        starts: Callable[[Store], list[str]],
        read: Callable[[Store, str], Page[Any]],
        after: Any,
    ) -> None:
        super().__init__()
        self._store, self._starts, self._read = store, starts, read
        self._after = () if after is None else (after,)

    def expand(self, pbegin: Any) -> Any:
        cursors = pbegin | beam.Create([None]) | "Cut" >> beam.ParDo(_Starts(self._store, self._starts), *self._after)
        return cursors | beam.Reshuffle() | "Pages" >> beam.ParDo(_Read(self._store, self._read))


class _Starts(_OnStore):
    """The cursors at which the parts begin."""

    def __init__(self, store: StoreOf, starts: Callable[[Store], list[str]]) -> None:
        super().__init__(store)
        self._starts = starts

    def process(self, _: Any, _after: Any = None) -> Iterable[Any]:
        return self._starts(self._db)


class _Read(_OnStore):
    """What is in a part."""

    def __init__(self, store: StoreOf, read: Callable[[Store, str], Page[Any]]) -> None:
        super().__init__(store)
        self._read = read

    def process(self, cursor: Any) -> Iterator[Any]:
        while cursor is not None:
            items_page = self._read(self._db, cursor)
            yield from items_page.items
            cursor = items_page.cursor


class _Make(_OnStore):
    """The items that the target would store, each with the name of its source."""

    def __init__(self, store: StoreOf, rule: Rule) -> None:
        super().__init__(store)
        self._rule = rule

    def process(self, named: Any) -> Iterator[Any]:
        item, name = named
        yield from self._db.run(raw_items([(entity, name) for entity in self._rule.of(item, name)]))


class _Raw(_OnStore):
    """The items that the store would store, without the names of sources."""

    def process(self, entity: Any) -> Iterator[Any]:
        yield self._db.raw_item(entity), ""


class _Write(_OnStore):
    """Writes items in batches; an item has the name of its source, or an empty one."""

    def __init__(self, store: StoreOf, size: int) -> None:
        super().__init__(store)
        if type(size) is not int or size < 1:
            raise BadValue(f"size={size!r}: give the number of items of a write, 1 or more")
        self._size = size

    def start_bundle(self) -> None:
        self._items: dict[tuple[str, str], tuple[RawItem, str]] = {}

    def process(self, named: Any) -> Iterator[Any]:
        item, name = named
        there, source = self._items.setdefault((item.partition, item.sort), named)
        if there is not item and name:
            raise repeated(text_of(item), sorted((source, name)))
        if there != item:
            raise BadValue(f"two different items of a bundle have the key {text_of(item)}: write only one of them")
        if len(self._items) >= self._size:
            yield self._written()

    def finish_bundle(self) -> Iterator[Any]:
        if self._items:
            yield GlobalWindows.windowed_value_at_end_of_window(self._written())

    def _written(self) -> int:
        items = list(spread([item for item, _ in self._items.values()], lambda item: item.partition))
        self._db.put_raw(items)
        self._items = {}
        return len(items)


class _Moment(_OnStore):
    """The time when everything is written."""

    def process(self, _written: Any) -> Iterator[Any]:
        yield self._db.run(now())


def _key(named: Any) -> Any:
    item, name = named
    return (item.partition, item.sort), (text_of(item), name)


def _once(grouped: Any) -> Iterator[Any]:
    """Nothing; raises BadValue if a key has several sources."""
    _, named_sources = grouped
    sources = sorted(named_sources)
    if len(sources) > 1:
        raise repeated(sources[0][0], [name for _, name in sources])
    yield from ()


# Beam encodes an int in 64 bits where it can infer the type, so a checksum is sent as bytes.


def _sums(item: Any, moment: Any, *, stale: bool) -> Iterator[Any]:
    if item.expires is None or item.expires > moment:
        yield name_of(item), (1, checksum(item, stale=stale).to_bytes(16))


def _added(sums: Iterable[Any]) -> Any:
    count = total = 0
    for number, text in sums:
        count, total = plus((count, total), (number, int.from_bytes(text)))
    return count, total.to_bytes(16)


def _difference(grouped: Any) -> Iterator[Any]:
    (entity, partition), (ours, theirs) = grouped
    nothing = [(0, b"")]
    (ours,), (theirs,) = ours or nothing, theirs or nothing
    if ours != theirs:
        yield Difference(entity, partition, ours[0], theirs[0])
