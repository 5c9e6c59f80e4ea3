"""`Stores`: opens the stores of a test, records their requests, and writes as a rival just before their writes."""

from collections.abc import Callable, Sequence
from contextlib import suppress
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, TypeVar, cast
from uuid import uuid4

from attrs import define, field
from msgspec.structs import replace as evolve

from odm import Action, AsyncStore, Backend, Entity, Query, Store, Table, Unsupported
from odm.patterns.time_series import SeriesStore, TimeSeries
from odm.procedures.context import Context
from odm.procedures.writing.merge import merge_write
from odm.procedures.writing.write import delete_request, put_request
from odm.protocol import requests as req
from odm.protocol.connection import ForwardingConnection, NativeGen
from odm.schema.model import Schema
from odm.testing.bridge import Runner, blocking

E = TypeVar("E", bound=Entity)

Mode: TypeAlias = Literal["sync", "async"]

WRITES = (req.Put, req.Update, req.Delete, req.Transact, req.BatchWrite, req.Merge, req.BatchMerge)


class Stopped(Exception):
    """The program was stopped before this request: neither this request nor a later one was sent."""


@define
class Watched(Backend):
    """A backend that renames tables and records requests.

    Attributes:
        inner: the backend under test.
        suffix: appended to the name of every table.
        requests: every request, in order.
        rivals: requests of another writer; the next one is performed just before each write.
        remaining: how many more requests are sent before the program is stopped; None: no limit.
    """

    inner: Backend
    suffix: str
    requests: list[req.Request] = field(factory=list, repr=False)
    rivals: list[req.Request] = field(factory=list, repr=False)
    remaining: int | None = field(default=None, repr=False)

    def __attrs_post_init__(self) -> None:
        self.name, self.clock, self.limits = self.inner.name, self.inner.clock, self.inner.limits

    def connect(self, schema: Schema) -> "WatchedConnection":
        return WatchedConnection(self.inner.connect(evolve(schema, name=f"{schema.name}-{self.suffix}")), self)

    def note(self, request: req.Request) -> Sequence[req.Request]:
        """Record a request; returns the rivals to perform before it.

        Raises:
            Stopped: the program is stopped before this request.
        """
        if self.remaining is not None:
            if self.remaining == 0:
                raise Stopped
            self.remaining -= 1
        self.requests.append(request)
        return [self.rivals.pop(0)] if isinstance(request, WRITES) and self.rivals else []


class WatchedConnection(ForwardingConnection[Any]):
    """The connection of `Watched`: it answers sync calls and encodes items as the backend's own connection does."""

    watched: Watched

    def steps(self, request: req.Request) -> NativeGen[Any, Any]:
        for rival in self.watched.note(request):
            yield from self.inner.steps(rival)
        return self._renamed(request, (yield from self.inner.steps(request)))

    def answer(self, request: req.Request) -> Any:
        for rival in self.watched.note(request):
            self.inner.answer(rival)
        return self._renamed(request, self.inner.answer(request))

    def _renamed(self, request: req.Request, answer: Any) -> Any:
        """The answer, in which tables have the names that the test knows."""
        if not isinstance(request, req.ListTables):
            return answer
        end = f"-{self.watched.suffix}"
        return tuple(name.removesuffix(end) for name in answer if name.endswith(end))


class Stores:
    """Opens sync or async stores for one test; drops their tables at the end.

    Args:
        backend: the backend under test.
        mode: with "async", stores are `odm.AsyncStore` in a sync wrapper.
    """

    def __init__(self, backend: Backend, mode: Mode) -> None:
        self._watched = Watched(backend, uuid4().hex[:12])
        self._runner = Runner() if mode == "async" else None
        self._opened: list[tuple[Store, Table, dict[str, Any]]] = []
        self._series: list[SeriesStore[Any]] = []

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._watched.rivals.clear()
        for series in self._series:
            series.close()
        for store, table, options in self._opened:
            fresh = self.offline(table, **options)  # the test may have closed the store
            with suppress(Unsupported):
                fresh.drop()
            fresh.close()
            store.close()
        if self._runner is not None:
            self._runner.close()

    def open(self, table: Table, **options: Any) -> Store:
        """Create the table and return a store. Within a test, tables with the same name are the same table.

        Args:
            table: the table.
            options: the options of `odm.Store`.
        """
        store = self.offline(table, **options)
        self._opened.append((store, table, options))
        # A backend that does not support the table also refuses its first use, which the test expects.
        with suppress(Unsupported):
            store.create()
        return store

    def offline(self, table: Table, **options: Any) -> Store:
        """A store without creating its table, for calls that must fail before a request is sent."""
        if self._runner is None:
            return Store(table, self._watched, **options)
        return blocking(AsyncStore(table, self._watched, **options), self._runner)

    def series(self, series: TimeSeries[E], **options: Any) -> SeriesStore[E]:
        """Open a time series; none of its tables is created."""
        if self._runner is None:
            opened = series.open(self._watched, **options)
        else:
            twin = cast("AsyncStore", series.open_async(self._watched, **options))
            opened = cast("SeriesStore[E]", blocking(twin, self._runner))
        self._series.append(opened)
        return opened

    @property
    def requests(self) -> Sequence[req.Request]:
        """The requests to the backend so far, except for creating tables."""
        return [request for request in self._watched.requests if not isinstance(request, req.CreateTables)]

    def forget(self) -> None:
        """Start a new record of requests."""
        self._watched.requests.clear()

    def stopped(self, work: Callable[[], object], *, after: int) -> bool:
        """Run ``work`` as a program that is stopped after it has sent ``after`` requests.

        To stop it at every possible place, a test increments ``after`` until this returns False.

        Returns:
            True if it was stopped, False if the work was completed.
        """
        self._watched.remaining = after
        try:
            work()
        except Stopped:
            return True
        finally:
            self._watched.remaining = None
        return False

    def rival_puts(self, *entities: Entity) -> None:
        """Another writer puts these entities, one just before each of the next writes."""
        self._watched.rivals += [put_request(_context(entity), entity)[2] for entity in entities]

    def rival_merges(self, key: Query[Any], *actions: Action) -> None:
        """Another writer merges these actions into an item just before the next write."""
        assert key.entity is not None
        self._watched.rivals.append(merge_write(_context_of(key.entity), key, actions).request)

    def rival_deletes(self, entity: Entity) -> None:
        """Another writer deletes this entity just before the next write."""
        target = _context(entity).schema.target(entity)
        self._watched.rivals.append(delete_request(target, target.entity.tag))


def _context(entity: Entity) -> Context:
    return _context_of(type(entity))


def _context_of(entity: type[Entity]) -> Context:
    table = entity.__odm_table__
    assert isinstance(table, Table)
    return Context(table.compile())
