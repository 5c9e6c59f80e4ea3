"""`AsyncStore`: the interface of odm for asyncio: the methods of `Store`, with ``await`` and ``async for``."""

from collections.abc import AsyncIterator, Callable, Sequence
from typing import Any, Literal, Self, TypeVar, overload

from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.expressions.nodes import Action, Condition
from odm.procedures import read, scan
from odm.procedures.calls import Calls, Procedure, started
from odm.procedures.cell_versions import CellVersion
from odm.procedures.session import Page
from odm.protocol.connection import CoreGen, aperform, arun
from odm.stores.batches import AsyncBatch
from odm.stores.maintenance import AsyncMaintenance
from odm.stores.transactions import AsyncTransaction

E = TypeVar("E", bound=Entity)
R = TypeVar("R")
T = TypeVar("T")


class AsyncStore(AsyncMaintenance):
    """A table on a backend, for asyncio. As an async context manager it closes its connections.

    Args:
        table: the table whose entities are stored.
        backend: the service that stores it: ``Memory()``, ``LocalFile(...)``, ``DynamoDB(...)`` or ``Bigtable(...)``.
        prefix: prepended to the table's name on the backend, as in ``prefix="prod-"``; a cursor of a store with another
            prefix is refused.
        cursor_secret: the key that signs cursors, so that a client cannot forge one.
        limits: "portable": the limits that hold on every backend; "native": those of this backend, so that
            its items may not fit on another one.
        on_unknown: what every call does with a stored item whose tag no entity of the table has: "raise" ItemInvalid,
            or "skip" it as if it did not exist. In both cases no call changes or removes the item: a put, insert or
            upsert under its key raises ItemInvalid.
        on_request: called with an `odm.RequestInfo` after every native request; when requests are sent in parallel,
            while others are in progress. What it raises is logged and ignored. A cancelled request is not reported.
        clock: returns the seconds since the epoch, for expiry; default: the backend's clock, or ``time.time``.
        random: the source of random numbers; default: ``random.SystemRandom()``.
        timeout: seconds to wait for a connection to a network service, and for each answer, before the request is
            retried or fails; None: the setting of the backend. The bundled engine has no network and ignores it.
        retries: number of retries of a request before its error is raised, 0 or more. A batch counts only consecutive
            requests of which nothing was applied. A write that must not happen twice is only retried if it was
            certainly not applied. None: the setting of the backend. The bundled engine ignores it.

    Raises:
        TypeError: the table is not a `Table`, or the backend not a `Backend`.
        BadValue: an option cannot be used.
    """

    _perform = staticmethod(aperform)

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *error: object) -> None:
        await self.aclose()

    async def aclose(self) -> None:
        """Release connections. The store opens new ones when it is used again."""
        connection = self._disconnect()
        if connection is not None:
            await connection.aclose()

    async def run(self, procedure: Callable[[Calls], CoreGen[R]]) -> R:
        """Run an `odm.procedure`; as `odm.Store.run`."""
        _, send = self._call()
        return await arun(started(procedure, self._current_calls()), send)

    @overload
    async def get(self, which: type[E], /, **key: Any) -> E | None: ...
    @overload
    async def get(self, which: Query[E], /, *, consistent: bool = True) -> E | None: ...
    @overload
    async def get(self, which: Procedure[R], /) -> R: ...
    async def get(self, which: Any, /, consistent: bool = True, **key: Any) -> Any:
        """The item under a key, or None.

        Args:
            which: an entity class with its key fields as keywords, a key such as ``Order.primary(...)``, or a procedure
                that finds one item, such as that of a pointer.
            consistent: False: an eventually consistent read, cheaper; may miss the newest writes (only with a key).
            key: the key fields.

        Raises:
            KeyValueError: a key field is missing, unknown or does not validate.
            ItemInvalid: the stored item does not fit the model.
        """
        calls, send = self._call()
        return await arun(calls.get(which, consistent=consistent, **key), send)

    @overload
    async def one(self, which: type[E], /, **key: Any) -> E: ...
    @overload
    async def one(self, which: Query[E], /, *, consistent: bool = True) -> E: ...
    @overload
    async def one(self, which: Procedure[E | None], /) -> E: ...
    async def one(self, which: Any, /, consistent: bool = True, **key: Any) -> Any:
        """The item under a key; otherwise as `get`.

        Raises:
            ItemNotFound: there is no such item.
        """
        calls, send = self._call()
        return await arun(calls.one(which, consistent=consistent, **key), send)

    async def get_many(
        self, keys: Sequence[Query[E]], *, consistent: bool = True, atomic: bool = False
    ) -> list[E | None]:
        """The items under any number of keys, in the order of the keys; None for each key without an item.

        Args:
            keys: such as ``Order.primary(...)``.
            consistent: False: cheaper, may miss the newest writes.
            atomic: read all items as they were at one instant, at most 100 of 4 MB together. On DynamoDB it is a
                transaction, at twice the read units. On Bigtable the items must be in one row: items of one partition
                of a table with ``layout="row_per_partition"``; otherwise Unsupported.
        """
        calls, send = self._call()
        return await arun(calls.get_many(keys, consistent=consistent, atomic=atomic), send)

    async def cell_versions(self, which: Entity | Query[Any], field: T, /) -> list[CellVersion[T]]:
        """The values that a field with `odm.CellVersions` has and had, newest first.

        Args:
            which: the entity or its key.
            field: the field, such as ``ClosingPrice.price``.

        Returns:
            The newest value and those before it, each with the time of its write; empty if the item does not exist, or
            does not store the field.

        Raises:
            BadValue: the field has no CellVersions, or is one of another entity.
            ItemInvalid: a stored value does not fit the model.
        """
        calls, send = self._call()
        return await arun(calls.cell_versions(which, field), send)

    @overload
    async def exists(self, which: type[Entity], /, **key: Any) -> bool: ...
    @overload
    async def exists(self, which: Query[Any], /) -> bool: ...
    async def exists(self, which: Any, /, **key: Any) -> bool:
        """Whether there is an item under the key."""
        calls, send = self._call()
        return await arun(calls.exists(which, **key), send)

    async def put(self, entity: E, *, when: Condition | bool | None = None) -> E:
        """Write an entity; replaces any item under its key.

        Args:
            entity: the entity to store. With a Revision, it only replaces the version that was read.
            when: a condition on the stored item.

        Returns:
            The entity as stored: the same object, or with a Revision a copy whose revision is one higher.

        Raises:
            ConditionFailed: ``when`` does not hold; nothing was written.
            Conflict: another writer changed the item since it was read (Revision).
            BadValue: a value cannot be stored; nothing was sent.
        """
        calls, send = self._call()
        return await arun(calls.put(entity, when=when), send)

    async def insert(self, entity: E) -> E:
        """Write a new entity.

        Returns:
            The entity as stored.

        Raises:
            ItemExists: there is an item under its key.
        """
        calls, send = self._call()
        return await arun(calls.insert(entity), send)

    @overload
    async def update(
        self,
        which: E | Query[E],
        /,
        *actions: Action,
        when: Condition | bool | None = None,
        returning: Literal["none"] = "none",
        upsert: bool = False,
    ) -> None: ...
    @overload
    async def update(
        self,
        which: E | Query[E],
        /,
        *actions: Action,
        when: Condition | bool | None = None,
        returning: Literal["new"],
        upsert: bool = False,
    ) -> E: ...
    @overload
    async def update(
        self,
        which: E | Query[E],
        /,
        *actions: Action,
        when: Condition | bool | None = None,
        returning: Literal["old"],
        upsert: bool = False,
    ) -> E | None: ...
    async def update(
        self,
        which: Any,
        /,
        *actions: Action,
        when: Condition | bool | None = None,
        returning: Literal["none", "old", "new"] = "none",
        upsert: bool = False,
    ) -> Any:
        """Change attributes of an existing item, and its index entries with them.

        Args:
            which: the entity or its key. An entity with a Revision is changed only if it is still the one you read.
            actions: ``set_``, ``increment``, ``remove``, ``append``, …
            when: a condition on the stored item.
            returning: "new" or "old": return the item after or before the update.
            upsert: create the item if it does not exist; the actions must set every required field.

        Raises:
            ItemNotFound: there is no such item.
            ConditionFailed: ``when`` does not hold, or an increment would leave the field's bounds.
            Conflict: another writer changed the item (Revision), or concurrent writers kept changing it.
            BadValue: an action does not fit the model; nothing was sent.
            OutcomeUnknown: the answer was lost, and it may have been applied; see `with_options` (``retry_safe``).
        """
        calls, send = self._call()
        return await arun(calls.update(which, *actions, when=when, returning=returning, upsert=upsert), send)

    async def merge(self, which: E | Query[E], /, *actions: Action) -> None:
        """Write parts of an item without reading it; creates the item if it does not exist.

        Unless it adds to a ``Sum``, it can be repeated, so it is retried until it is answered. It is for entities
        without access patterns, ``Revision``, ``TTL``, ``Counter``, ``keep=``, ``version=`` and companions: for these,
        use `update`.

        Args:
            which: the entity or its key.
            actions: ``set_`` and ``remove`` of whole fields; of a field in ``Columns``, those of a member of a dict,
                and ``add_to`` and ``discard_from`` of a set; ``add_value``. They must set every required field.

        Raises:
            BadValue: the entity or an action cannot be merged; nothing was sent.
            Conflict: on DynamoDB, other writers kept changing the ``Min`` or ``Max`` to which it adds.
            OutcomeUnknown: it adds to a ``Sum``, and the answer was lost.
            ItemInvalid: the key holds an item of another program. Bigtable cannot see that: there, the merge is made.
                With ``layout="row_per_partition"`` it reads the item first, and sees it.
            Unsupported: on Bigtable, in a table with ``row_style="verbatim"`` in which a class has ``match=``.
        """
        calls, send = self._call()
        return await arun(calls.merge(which, *actions), send)

    @overload
    async def delete(self, which: type[Entity], /, **key: Any) -> bool: ...
    @overload
    async def delete(self, which: Entity | Query[Any], /, *, when: Condition | bool | None = None) -> bool: ...
    async def delete(self, which: Any, /, when: Condition | bool | None = None, **key: Any) -> bool:
        """Remove an item.

        Args:
            which: an entity class with its key fields, an entity, or a key.
            when: a condition on the stored item.
            key: the key fields.

        Returns:
            Whether the item existed. If not, ``when`` is not evaluated, unlike in a transaction.

        Raises:
            ConditionFailed: the item exists and ``when`` does not hold.
            Conflict: an entity with a Revision was changed since it was read.
        """
        calls, send = self._call()
        return await arun(calls.delete(which, when, **key), send)

    async def delete_all(self, query: Query[Any]) -> int:
        """Delete every item that matches a query, such as a whole partition: ``delete_all(collection(...))``.

        Not atomic, but resumable: after a failure, call it again.

        Returns:
            The number of items removed.
        """
        calls, send = self._call()
        return await arun(calls.delete_all(query), send)

    def query(self, query: Query[E], *, consistent: bool = True) -> AsyncIterator[E]:
        """The results of a query, read page by page while you iterate.

        Args:
            query: a pattern call, `odm.select` or `odm.collection`.
            consistent: False: cheaper, may miss the newest writes. Secondary indexes may lag in any case.

        Raises:
            NoAccessPattern: no declared pattern serves a ``select``.
            BadValue: a value or condition does not fit the model.
        """
        return self._results(read.chunk, self._session.begin(query, consistent=consistent))

    async def _results(self, chunk: Callable[..., CoreGen[tuple[list[Any], Any]]], going: Any) -> AsyncIterator[Any]:
        while going is not None:
            items, going = await arun(chunk(self._session.context, going), self._call()[1])
            for item in items:
                yield item

    async def page(
        self,
        query: Query[E],
        *,
        size: int = 25,
        after: str | None = None,
        consistent: bool = True,
        max_requests: int | None = None,
    ) -> Page[E]:
        """One page of a query's results.

        Args:
            query: as for `query`.
            size: number of results, 1 or more.
            after: the cursor of the previous page.
            consistent: as for `query`.
            max_requests: the most requests to send: the page may then be short, even empty, and its cursor continues
                after what was read. A query of several shards needs at least one for each.

        Raises:
            BadCursor: the cursor is damaged or belongs to another query.
            Unsupported: ``max_requests`` while entries move to other shards (``was=``).
        """
        calls, send = self._call()
        read_page = calls.page(query, size=size, after=after, consistent=consistent, max_requests=max_requests)
        return await arun(read_page, send)

    async def first(self, query: Query[E], *, consistent: bool = True) -> E | None:
        """The first result of a query, or None."""
        calls, send = self._call()
        return await arun(calls.first(query, consistent=consistent), send)

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
    ) -> AsyncIterator[E]: ...
    @overload
    def scan(
        self, /, *, consistent: bool = True, segments: int | None = None, segment: tuple[int, int] | None = None
    ) -> AsyncIterator[Entity]: ...
    def scan(
        self,
        entity: type[Entity] | None = None,
        /,
        *conditions: Condition | bool,
        consistent: bool = True,
        segments: int | None = None,
        segment: tuple[int, int] | None = None,
    ) -> AsyncIterator[Any]:
        """Read the whole table, in unspecified order; the cost is that of reading every item.

        Args:
            entity: return only items of this entity; default: those of all entities.
            conditions: a filter, applied after the items are read.
            consistent: False: cheaper, may miss the newest writes.
            segments: the number of segments of the table to read in parallel, 1 to 1000.
            segment: read only one segment, as ``(number, of)``: four workers with ``(0, 4)`` to ``(3, 4)`` together
                read every item once.

        Raises:
            BadValue: a condition does not fit the model, or the segments are out of range.
            Unsupported: ``segment`` on Bigtable, which divides a table differently each time: use ``segments``.
        """
        chunks = self._session.begin_scan(entity, conditions, consistent=consistent, segments=segments, segment=segment)
        return self._results(scan.chunk, chunks)

    def batch(self, *, parallel: int = 1) -> AsyncBatch:
        """Many unconditional writes in few requests: ``async with db.batch() as batch: await batch.put(...)``.

        It is sent when the block ends, or sooner when it is full. An exception in the block discards what is not sent.

        Args:
            parallel: how many requests are sent at the same time, 1 to 16; the batch then collects as many times more
                operations before it sends them. An error does not keep the other requests from being sent.

        Raises:
            BadValue: ``parallel`` is not an int from 1 to 16.
        """
        return AsyncBatch(self, parallel)

    def transaction(self) -> AsyncTransaction:
        """Writes and checks of several items, all applied or none: ``async with db.transaction() as tx: tx.put(...)``.

        Nothing is sent before the block ends, so its methods have no ``await``. An exception in it discards everything.

        Raises:
            TransactionFailed: at the end of the block: nothing was written; its ``reasons`` say why.
            Unsupported: on Bigtable, at the operation on an item of another row; with ``layout="row_per_partition"``
                the items of a partition are one row.
        """
        return AsyncTransaction(self)
