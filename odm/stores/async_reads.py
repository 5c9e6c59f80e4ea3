"""`AsyncReads`: the calls of `odm.AsyncStore` that read items."""

from collections.abc import AsyncGenerator, AsyncIterator, Callable, Mapping, Sequence
from typing import Any, TypeAlias, TypeVar, cast, overload

from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.expressions.nodes import Condition
from odm.hints import RESULTS_AWAITED, refuse_waiting
from odm.procedures import read
from odm.procedures.calls import Procedure
from odm.procedures.partial import Partial
from odm.procedures.session import Page
from odm.protocol.connection import CoreGen, arun
from odm.stores.base import BaseStore
from odm.stores.calls import StoreCalls
from odm.stores.results import AsyncResults

E = TypeVar("E", bound=Entity)
R = TypeVar("R")
Only: TypeAlias = Sequence[object]


class AsyncReads(BaseStore):
    """The calls of `odm.AsyncStore` that read items."""

    @overload
    async def get(self, which: type[E], /, *, only: None = None, **key: Any) -> E | None: ...
    @overload
    async def get(self, which: type[E], /, *, only: Only, **key: Any) -> Partial[E] | None: ...
    @overload
    async def get(self, which: Query[E], /, *, consistent: bool = True, only: None = None) -> E | None: ...
    @overload
    async def get(self, which: Query[E], /, *, consistent: bool = True, only: Only) -> Partial[E] | None: ...
    @overload
    async def get(self, which: Procedure[R], /) -> R: ...
    async def get(self, which: Any, /, *unnamed: Any, consistent: bool = True, only: Any = None, **key: Any) -> Any:
        """The item under a key, or None.

        Args:
            which: an entity class with its key fields as keywords, a key such as ``Order.primary(...)``, or a procedure
                that finds one item, such as that of a pointer.
            unnamed: not allowed; give the key fields by name.
            consistent: False: an eventually consistent read, cheaper; may miss the newest writes (only with a key).
            only: read only these fields, such as ``[Order.total]`` or ``[Day.readings["0015"]]``, as a `Partial`.
            key: the key fields.

        Raises:
            KeyValueError: a key field is missing, unknown or does not validate.
            BadValue: ``only`` has a field of another entity, or is empty.
            ItemInvalid: the stored item does not fit the model.
        """
        calls, send = self._call()
        return await arun(calls.get(which, *unnamed, consistent=consistent, only=only, **key), send)

    @overload
    async def one(self, which: type[E], /, *, only: None = None, **key: Any) -> E: ...
    @overload
    async def one(self, which: type[E], /, *, only: Only, **key: Any) -> Partial[E]: ...
    @overload
    async def one(self, which: Query[E], /, *, consistent: bool = True, only: None = None) -> E: ...
    @overload
    async def one(self, which: Query[E], /, *, consistent: bool = True, only: Only) -> Partial[E]: ...
    @overload
    async def one(self, which: Procedure[E | None], /) -> E: ...
    async def one(self, which: Any, /, *unnamed: Any, consistent: bool = True, only: Any = None, **key: Any) -> Any:
        """The item under a key; otherwise as `get`.

        Raises:
            ItemNotFound: there is no such item.
        """
        calls, send = self._call()
        return await arun(calls.one(which, *unnamed, consistent=consistent, only=only, **key), send)

    @overload
    async def get_many(
        self, keys: Sequence[Query[E]], *, consistent: bool = True, atomic: bool = False, only: None = None
    ) -> list[E | None]: ...
    @overload
    async def get_many(
        self, keys: Sequence[Query[E]], *, consistent: bool = True, atomic: bool = False, only: Only
    ) -> list[Partial[E] | None]: ...
    async def get_many(
        self, keys: Sequence[Query[Any]], *, consistent: bool = True, atomic: bool = False, only: Any = None
    ) -> list[Any]:
        """The items under any number of keys, in the order of the keys; None for each key without an item.

        Args:
            keys: such as ``Order.primary(...)``.
            consistent: False: cheaper, may miss the newest writes.
            atomic: read all items as they were at one instant, at most 100 of 4 MB together. On DynamoDB it is a
                transaction, at twice the read units. On Bigtable it needs ``Table(transactions=True)``, or items
                of one row: of one partition of a table with ``layout="row_per_partition"``; otherwise Unsupported.
            only: as for `get`; all keys are then of one entity.
        """
        calls, send = self._call()
        return await arun(calls.get_many(keys, consistent=consistent, atomic=atomic, only=only), send)

    @overload
    def query(self, query: Query[E], *, consistent: bool = True, only: None = None) -> AsyncIterator[E]: ...
    @overload
    def query(self, query: Query[E], *, consistent: bool = True, only: Only) -> AsyncIterator[Partial[E]]: ...
    def query(self, query: Query[Any], *, consistent: bool = True, only: Any = None) -> AsyncIterator[Any]:
        """The results of a query, read page by page while you iterate.

        Args:
            query: a pattern call, `odm.select` or `odm.collection`.
            consistent: False: cheaper, may miss the newest writes. Secondary indexes may lag in any case.
            only: as for `get`; not for a collection.

        Raises:
            NoAccessPattern: no declared pattern serves a ``select``.
            BadValue: a value, condition or field does not fit the model.
        """
        return self._read(read.chunk, self._session.begin(query, consistent=consistent, only=only))

    def _read(self, chunk: Callable[..., CoreGen[tuple[list[Any], Any]]], going: Any) -> AsyncIterator[Any]:
        refuse_waiting(RESULTS_AWAITED)
        return AsyncResults(self._results(chunk, going))

    async def _results(
        self, chunk: Callable[..., CoreGen[tuple[list[Any], Any]]], going: Any
    ) -> AsyncGenerator[Any, None]:
        while going is not None:
            calls, send = self._call()
            items, going = await arun(chunk(cast("StoreCalls", calls).context, going), send)
            for item in items:
                yield item

    @overload
    async def page(
        self,
        query: Query[E],
        *,
        size: int = 25,
        after: str | None = None,
        consistent: bool = True,
        max_requests: int | None = None,
        only: None = None,
    ) -> Page[E]: ...
    @overload
    async def page(
        self,
        query: Query[E],
        *,
        size: int = 25,
        after: str | None = None,
        consistent: bool = True,
        max_requests: int | None = None,
        only: Only,
    ) -> Page[Partial[E]]: ...
    async def page(
        self,
        query: Query[Any],
        *,
        size: int = 25,
        after: str | None = None,
        consistent: bool = True,
        max_requests: int | None = None,
        only: Any = None,
    ) -> Page[Any]:
        """One page of a query's results.

        Args:
            query: as for `query`.
            size: number of results, 1 or more.
            after: ``page.cursor`` for the next page, ``page.previous`` for the one before.
            consistent: as for `query`.
            max_requests: the most requests to send: the page may then be short, even empty, and its cursor continues
                after what was read. A query of several shards needs at least one for each.
            only: as for `query`; the cursors are those of whole items.

        Raises:
            BadCursor: the cursor is damaged or belongs to another query.
            Unsupported: ``max_requests`` while entries move to other shards (``was=``).
        """
        calls, send = self._call()
        options: dict[str, Any] = {"size": size, "after": after, "max_requests": max_requests, "only": only}
        return await arun(calls.page(query, consistent=consistent, **options), send)

    @overload
    async def first(self, query: Query[E], *, consistent: bool = True, only: None = None) -> E | None: ...
    @overload
    async def first(self, query: Query[E], *, consistent: bool = True, only: Only) -> Partial[E] | None: ...
    async def first(self, query: Query[Any], *, consistent: bool = True, only: Any = None) -> Any:
        """The first result of a query, or None; the arguments are those of `query`."""
        calls, send = self._call()
        return await arun(calls.first(query, consistent=consistent, only=only), send)

    async def count(self, query: Query[Any], *, consistent: bool = True) -> int:
        """The number of results that `query` would return, after expiry, conditions and limit."""
        calls, send = self._call()
        return await arun(calls.count(query, consistent=consistent), send)

    @overload
    def scan(
        self,
        entity: type[E],
        /,
        *conditions: Condition | bool,
        consistent: bool = True,
        segments: int | None = None,
        segment: tuple[int, int] | None = None,
        only: None = None,
        prefix: Mapping[str, object] | None = None,
        start: Mapping[str, object] | None = None,
        stop: Mapping[str, object] | None = None,
        sample: float | None = None,
    ) -> AsyncIterator[E]: ...
    @overload
    def scan(
        self,
        entity: type[E],
        /,
        *conditions: Condition | bool,
        consistent: bool = True,
        segments: int | None = None,
        segment: tuple[int, int] | None = None,
        only: Only,
        prefix: Mapping[str, object] | None = None,
        start: Mapping[str, object] | None = None,
        stop: Mapping[str, object] | None = None,
        sample: float | None = None,
    ) -> AsyncIterator[Partial[E]]: ...
    @overload
    def scan(
        self,
        /,
        *,
        consistent: bool = True,
        segments: int | None = None,
        segment: tuple[int, int] | None = None,
        sample: float | None = None,
    ) -> AsyncIterator[Entity]: ...
    def scan(  # noqa: PLR0913  # the options of a scan
        self,
        entity: type[Entity] | None = None,
        /,
        *conditions: Condition | bool,
        consistent: bool = True,
        segments: int | None = None,
        segment: tuple[int, int] | None = None,
        only: Any = None,
        prefix: Mapping[str, object] | None = None,
        start: Mapping[str, object] | None = None,
        stop: Mapping[str, object] | None = None,
        sample: float | None = None,
    ) -> AsyncIterator[Any]:
        """Read the whole table, or a range of its partitions, in unspecified order. Every item that is read costs.

        Args:
            entity: return only items of this entity; default: those of all entities.
            conditions: a filter, applied after the items are read.
            consistent: False: cheaper, may miss the newest writes.
            segments: the number of segments of the table to read in parallel, 1 to 1000.
            segment: read only one segment, as ``(number, of)``: four workers with ``(0, 4)`` to ``(3, 4)`` together
                read every item once.
            only: as for `get`; needs the entity.
            prefix: read only the partitions that have these values in the leading fields of the partition template; of
                the last field, text may be the beginning of the value: ``scan(Meter, prefix={"meter": "12"})``.
            start: read only the partitions from these values of leading fields on, in the order of keys:
                ``scan(Meter, start={"meter": "100"}, stop={"meter": "200"})``.
            stop: read only the partitions before these values.
            sample: read about this part of the items, chosen at random: ``sample=0.01``, more than 0 and at most 1. On
                DynamoDB, and with ``layout="row_per_partition"`` on Bigtable, whole partitions are chosen.

        Raises:
            BadValue: a condition or field does not fit the model, or an argument is out of range.
            Unsupported: ``segment`` on Bigtable, which divides a table differently each time: use ``segments``;
                ``prefix``, ``start`` and ``stop`` on DynamoDB, and for a primary key with shards: use a condition.
        """
        from odm.procedures import scan

        parts = {"segments": segments, "segment": segment, "sample": sample}
        range_ = {"prefix": prefix, "start": start, "stop": stop}
        going = self._session.begin_scan(entity, conditions, consistent=consistent, only=only, **parts, **range_)
        return self._read(scan.chunk, going)
