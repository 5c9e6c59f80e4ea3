"""`Store`: the sync interface of odm. Each method runs one operation.

Generated from `odm.stores.asynchronous` by ``python -m tests.sync_shell``: change that file, and run this.
"""

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeAlias, TypeVar, overload

import odm
from odm._published import public
from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.expressions.nodes import Action, Condition
from odm.hints import BATCH, SYNC_IN_ASYNC, Hinted, Sync, refuse_waiting
from odm.procedures.batch import Pending
from odm.procedures.blobs import create
from odm.procedures.calls import DAY, PAGE, Calls, Procedure, started
from odm.procedures.reading import read
from odm.procedures.reading.partial import Partial
from odm.procedures.session import Page
from odm.procedures.writing.cell_versions import CellVersion
from odm.procedures.writing.transaction import Operations
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen, perform, run
from odm.stores.base import BaseStore, text_of_name
from odm.stores.results import Results

E = TypeVar("E", bound=Entity)
R = TypeVar("R")
T = TypeVar("T")
Only: TypeAlias = Sequence[object]


@public
class Batch(Hinted, Sync):
    """Collects puts, deletes and merges; sends them when the ``with`` block ends, or sooner when there are many.

    Not atomic. The last operation on a key wins. If the block raises, operations that were not sent are discarded. The
    ``left`` of an error has the entries that are not known to be applied, for the next batch.
    """

    _odm_hints = BATCH

    def __init__(self, store: BaseStore, parallel: int = 1) -> None:
        self._store = store
        self._pending = Pending(lambda: store._session.context, parallel)

    def __enter__(self) -> Self:
        self._pending.open = True
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                self._flush()
        finally:
            self._pending.close()

    def put(self, entity: E) -> E:
        """Write an entity; replaces any item under its key.

        Returns:
            The entity as it will be stored: the same object, or a copy if it has an automatic field, or a Decimal that
            a read returns with more or fewer decimal places.

        Raises:
            BadValue: it has a Revision or a value that cannot be stored, or the call is outside of the block.
        """
        stored = self._pending.put(entity)
        self._flush_if_full()
        return stored

    @overload
    def delete(self, which: type[Entity], /, **key: Any) -> None: ...
    @overload
    def delete(self, which: Entity | Query[Any], /) -> None: ...
    def delete(self, which: Any, /, *unnamed: Any, **key: Any) -> None:
        """Remove an item; no error if it does not exist.

        Args:
            which: an entity class with its key fields, an entity, or a key.
            unnamed: not allowed; give the key fields by name.
            key: the key fields.

        Raises:
            BadValue: the entity has a Revision, or the call is outside of the block.
        """
        self._pending.delete(which, *unnamed, **key)
        self._flush_if_full()

    def merge(self, which: E | Query[E], /, *actions: Action) -> None:
        """Write parts of an item without reading it; see `odm.Store.merge`.

        Several merges of one item are one write. A merge after a put or delete of the same item is a part of it.

        Args:
            which: the entity or its key.
            actions: as for `odm.Store.merge`.

        Raises:
            BadValue: the entity or an action cannot be merged, or the call is outside of the block.
        """
        self._pending.merge(which, actions)
        self._flush_if_full()

    def _flush_if_full(self) -> None:
        if self._pending.full:
            self._flush()

    def _flush(self) -> None:
        run(self._pending.flush(), self._send)

    def _send(self, request: Any) -> Any:
        # Asked again for each request: if the store was closed, the error gets the entries that are left.
        return self._store._call()[1](request)


@public
class Transaction(Operations, Sync):
    """The transaction of an `odm.Store`: ``with db.transaction() as tx:``; committed when the block ends."""

    def __init__(self, store: BaseStore) -> None:
        super().__init__(lambda: store._session.context, store._current_calls()._commit)
        self._store = store

    def __enter__(self) -> Self:
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if kind is None:
                run(self._commit(), self._store._call()[1])
        finally:
            self._close()


@public
class Store(BaseStore, Sync):
    """A table on a backend. Thread-safe; as a context manager it closes its connections.

    Args:
        table: the table whose entities are stored.
        backend: the service that stores it: ``Memory()``, ``LocalFile(...)``, ``DynamoDB(...)`` or ``Bigtable(...)``.
        prefix: prepended to the table's name on the backend, as in ``prefix="prod-"``; a cursor of a store with another
            prefix is refused.
        name: the table's name on the backend, in place of that of the `Table`; ``prefix`` is prepended to it too.
        cursor_secret: the key that signs cursors, so that a client cannot forge one.
        limits: "portable": the limits that hold on every backend; "native": those of this backend, so that
            its items may not fit on another one.
        on_unknown: what every call does with a stored item whose tag no entity of the table has: "raise" ItemInvalid,
            or "skip" it as if it did not exist. In both cases no call changes or removes the item: a put, insert or
            upsert under its key raises ItemInvalid.
        on_invalid: what reads of many items (queries, pages, scans, counts, change feeds, delete_all) do with a stored
            item that does not fit its model: "raise" ItemInvalid; "skip" it, so that no such call returns, counts or
            deletes it; or a function that is called with the `odm.ItemInvalid` of each item that is skipped: its
            ``key``, the raw ``item``, and the reason as ``__cause__``. The function's result is ignored, what it raises
            ends the read, and an item may be reported more than once. With "skip" or a function, a count reads and
            validates the items. Reads by key, `get_many` among them, raise in any case: None would say that the key is
            free.
        on_request: called with an `odm.results.RequestInfo` after every native request; from several threads when
            requests are sent to a network in parallel. What it raises is logged and ignored.
        clock: returns the seconds since the epoch, for expiry; default: the backend's clock, or ``time.time``.
        random: the source of random numbers, safe to use from several threads; default: ``random.SystemRandom()``.
        timeout: seconds to wait for a connection to a network service, and for each answer, before the request is
            retried or fails; None: the setting of the backend. The bundled engine has no network and ignores it.
        retries: number of retries of a request before its error is raised, 0 or more. A batch counts only consecutive
            requests of which nothing was applied. A write that must not happen twice is only retried if it was
            certainly not applied. None: the setting of the backend. The bundled engine ignores it.
        blobs: where the long values of fields with `odm.Blob` are kept: the path of a folder, a URL of fsspec such as
            ``"s3://bucket/prefix"``, or `odm.Blobs` with options. Each table has a folder in it.
        lock: the path of the file that ``odm lock`` writes. A query of an access pattern that is not backfilled by that
            file logs a warning once a process, under ``odm``, and `explain` says it. The file is read once, without a
            request. None: nothing is known.

    Raises:
        TypeError: the table is not a `Table`, or the backend not a `Backend`.
        BadValue: an option cannot be used.
    """

    _perform = staticmethod(perform)
    _sync = True

    def __enter__(self) -> Self:
        self._check_open()
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for what goes on after answers, and release connections. Idempotent.

        Every later call raises `BackendError`, also that for the next page of an iterator and that at the end of a
        block. Open another store to go on; on the same `odm.backends.local.Memory` it has the same data.
        """
        connection = self._disconnect()
        if connection is not None:
            connection.close()

    def run(self, procedure: Callable[[Calls], CoreGen[R]]) -> R:
        """Run an `odm.extend.procedure`: several calls, written once for sync and async.

        Args:
            procedure: a procedure, or a function that takes the `odm.extend.Calls` of a store and returns a generator.

        Returns:
            What the procedure returns.

        Raises:
            OdmError: any error of its calls.
        """
        _, send = self._call()
        return run(started(procedure, self._current_calls()), send)

    @overload
    def get(self, which: type[E], /, *, only: None = None, **key: Any) -> E | None: ...
    @overload
    def get(self, which: type[E], /, *, only: Only, **key: Any) -> Partial[E] | None: ...
    @overload
    def get(self, which: Query[E], /, *, consistent: bool = True, only: None = None) -> E | None: ...
    @overload
    def get(self, which: Query[E], /, *, consistent: bool = True, only: Only) -> Partial[E] | None: ...
    @overload
    def get(self, which: Procedure[R], /) -> R: ...
    def get(self, which: Any, /, *unnamed: Any, consistent: bool = True, only: Any = None, **key: Any) -> Any:
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
        return run(calls.get(which, *unnamed, consistent=consistent, only=only, **key), send)

    @overload
    def one(self, which: type[E], /, *, only: None = None, **key: Any) -> E: ...
    @overload
    def one(self, which: type[E], /, *, only: Only, **key: Any) -> Partial[E]: ...
    @overload
    def one(self, which: Query[E], /, *, consistent: bool = True, only: None = None) -> E: ...
    @overload
    def one(self, which: Query[E], /, *, consistent: bool = True, only: Only) -> Partial[E]: ...
    @overload
    def one(self, which: Procedure[E | None], /) -> E: ...
    def one(self, which: Any, /, *unnamed: Any, consistent: bool = True, only: Any = None, **key: Any) -> Any:
        """The item under a key; otherwise as `get`.

        Raises:
            ItemNotFound: there is no such item.
        """
        calls, send = self._call()
        return run(calls.one(which, *unnamed, consistent=consistent, only=only, **key), send)

    @overload
    def get_many(
        self, keys: Sequence[Query[E]], *, consistent: bool = True, atomic: bool = False, only: None = None
    ) -> list[E | None]: ...
    @overload
    def get_many(
        self, keys: Sequence[Query[E]], *, consistent: bool = True, atomic: bool = False, only: Only
    ) -> list[Partial[E] | None]: ...
    def get_many(
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
        return run(calls.get_many(keys, consistent=consistent, atomic=atomic, only=only), send)

    @overload
    def query(self, query: Query[E], *, consistent: bool = True, only: None = None) -> Iterator[E]: ...
    @overload
    def query(self, query: Query[E], *, consistent: bool = True, only: Only) -> Iterator[Partial[E]]: ...
    def query(self, query: Query[Any], *, consistent: bool = True, only: Any = None) -> Iterator[Any]:
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

    def _read(self, chunk: Callable[..., CoreGen[tuple[list[Any], Any]]], going: Any) -> Iterator[Any]:
        refuse_waiting(SYNC_IN_ASYNC)
        return Results(self._results(chunk, going))

    def _results(self, chunk: Callable[..., CoreGen[tuple[list[Any], Any]]], going: Any) -> Generator[Any, None, None]:
        while going is not None:
            calls, send = self._call()
            items, going = run(chunk(calls._context, going), send)
            yield from items

    @overload
    def page(
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
    def page(
        self,
        query: Query[E],
        *,
        size: int = 25,
        after: str | None = None,
        consistent: bool = True,
        max_requests: int | None = None,
        only: Only,
    ) -> Page[Partial[E]]: ...
    def page(
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
        return run(calls.page(query, consistent=consistent, **options), send)

    @overload
    def first(self, query: Query[E], *, consistent: bool = True, only: None = None) -> E | None: ...
    @overload
    def first(self, query: Query[E], *, consistent: bool = True, only: Only) -> Partial[E] | None: ...
    def first(self, query: Query[Any], *, consistent: bool = True, only: Any = None) -> Any:
        """The first result of a query, or None; the arguments are those of `query`."""
        calls, send = self._call()
        return run(calls.first(query, consistent=consistent, only=only), send)

    def count(self, query: Query[Any], *, consistent: bool = True) -> int:
        """The number of results that `query` would return, after expiry, conditions and limit."""
        calls, send = self._call()
        return run(calls.count(query, consistent=consistent), send)

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
    ) -> Iterator[E]: ...
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
    ) -> Iterator[Partial[E]]: ...
    @overload
    def scan(
        self,
        /,
        *,
        consistent: bool = True,
        segments: int | None = None,
        segment: tuple[int, int] | None = None,
        sample: float | None = None,
    ) -> Iterator[Entity]: ...
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
    ) -> Iterator[Any]:
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
        from odm.procedures.reading import scan

        parts = {"segments": segments, "segment": segment, "sample": sample}
        range_ = {"prefix": prefix, "start": start, "stop": stop}
        going = self._session.begin_scan(entity, conditions, consistent=consistent, only=only, **parts, **range_)
        return self._read(scan.chunk, going)

    def cell_versions(self, which: Entity | Query[Any], field: T, /) -> list[CellVersion[T]]:
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
        return run(calls.cell_versions(which, field), send)

    @overload
    def exists(self, which: type[Entity], /, **key: Any) -> bool: ...
    @overload
    def exists(self, which: Query[Any], /) -> bool: ...
    def exists(self, which: Any, /, *unnamed: Any, **key: Any) -> bool:
        """Whether there is an item under the key."""
        calls, send = self._call()
        return run(calls.exists(which, *unnamed, **key), send)

    def put(self, entity: E, *, when: Condition | bool | None = None) -> E:
        """Write an entity; replaces any item under its key.

        Args:
            entity: the entity to store. With a Revision, it only replaces the version that was read; at revision 0,
                that of an entity that was never stored, it replaces nothing.
            when: a condition on the stored item.

        Returns:
            The entity as stored: the same object, or a copy if it has a Revision, an automatic field, or a Decimal that
            a read returns with more or fewer decimal places.

        Raises:
            ConditionFailed: ``when`` does not hold; nothing was written.
            Conflict: another writer changed the item since it was read (Revision).
            ItemExists: the entity has revision 0, so the put is an insert, and its key is in use.
            BadValue: a value cannot be stored; nothing was sent.
        """
        calls, send = self._call()
        return run(calls.put(entity, when=when), send)

    def insert(self, entity: E) -> E:
        """Write a new entity.

        Returns:
            The entity as stored.

        Raises:
            ItemExists: there is an item under its key.
        """
        calls, send = self._call()
        return run(calls.insert(entity), send)

    @overload
    def update(
        self,
        which: E | Query[E],
        /,
        *actions: Action,
        when: Condition | bool | None = None,
        returning: Literal["none"] = "none",
        upsert: bool = False,
        validate: Literal["item", "values"] = "item",
    ) -> None: ...
    @overload
    def update(
        self,
        which: E | Query[E],
        /,
        *actions: Action,
        when: Condition | bool | None = None,
        returning: Literal["new"],
        upsert: bool = False,
        validate: Literal["item", "values"] = "item",
    ) -> E: ...
    @overload
    def update(
        self,
        which: E | Query[E],
        /,
        *actions: Action,
        when: Condition | bool | None = None,
        returning: Literal["old"],
        upsert: bool = False,
        validate: Literal["item", "values"] = "item",
    ) -> E | None: ...
    def update(
        self,
        which: Any,
        /,
        *actions: Action,
        when: Condition | bool | None = None,
        returning: Literal["none", "old", "new"] = "none",
        upsert: bool = False,
        validate: Literal["item", "values"] = "item",
        **fields: Any,
    ) -> Any:
        """Change attributes of an existing item, and its index entries with them.

        Args:
            which: the entity or its key. An entity with a Revision is changed only if it is still the one you read.
            actions: ``set_``, ``increment``, ``remove``, ``append``, …
            when: a condition on the stored item.
            returning: "new" or "old": return the item after or before the update.
            upsert: create the item if it does not exist; the actions must set every required field.
            validate: "values": validate only the values that are written, where the model would have the whole item
                validated and so read. Then odm does not promise that the item can be read afterwards.
            fields: not allowed; write actions.

        Raises:
            ItemNotFound: there is no such item.
            ConditionFailed: ``when`` does not hold, or an increment would leave the field's bounds.
            Conflict: another writer changed the item (Revision), or concurrent writers kept changing it.
            BadValue: an action does not fit the model; nothing was sent.
            OutcomeUnknown: the answer was lost, and it may have been applied; see `with_options` (``retry_safe``).
        """
        calls, send = self._call()
        return run(
            calls.update(which, *actions, when=when, returning=returning, upsert=upsert, validate=validate, **fields),
            send,
        )

    def save(self, entity: E) -> E:
        """Write the fields of an entity that have changed since it was read, and its index entries with them.

        odm compares the entity with the stored item of which the read made it, and sends an `update` of the fields that
        differ. Fields that only another writer has changed stay as that writer left them; an entity with a Revision is
        saved only if it is still the one you read. If no field differs, nothing is sent.

        Args:
            entity: what a read, ``put``, ``insert``, ``save`` or an update with ``returning=`` returned; no copy of it.

        Returns:
            The entity as stored; the same object if no field differs. To save again, change what this returns: the
            entity that you passed still stands for what you read.

        Raises:
            ItemNotFound: the item was deleted meanwhile.
            Conflict: another writer changed the item (Revision), or concurrent writers kept changing it.
            BadValue: the entity was not read, a field of its key has changed, or a value does not fit the model;
                nothing was sent.
            OutcomeUnknown: the answer was lost, and it may have been applied; see `with_options` (``retry_safe``).
        """
        calls, send = self._call()
        return run(calls.save(entity), send)

    def merge(self, which: E | Query[E], /, *actions: Action) -> None:
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
        run(calls.merge(which, *actions), send)

    @overload
    def delete(self, which: type[Entity], /, **key: Any) -> bool: ...
    @overload
    def delete(self, which: Entity | Query[Any], /, *, when: Condition | bool | None = None) -> bool: ...
    def delete(self, which: Any, /, *unnamed: Any, when: Condition | bool | None = None, **key: Any) -> bool:
        """Remove an item.

        Args:
            which: an entity class with its key fields, an entity, or a key.
            unnamed: not allowed; give the key fields by name.
            when: a condition on the stored item.
            key: the key fields.

        Returns:
            Whether the item existed. If not, ``when`` is not evaluated, unlike in a transaction.

        Raises:
            ConditionFailed: the item exists and ``when`` does not hold.
            Conflict: an entity with a Revision was changed since it was read.
        """
        calls, send = self._call()
        return run(calls.delete(which, *unnamed, when=when, **key), send)

    def delete_all(self, query: Query[Any]) -> int:
        """Delete every item that matches a query, such as a whole partition: ``delete_all(collection(...))``.

        Returns the number of items removed. Not atomic, but resumable: after a failure, call it again.
        """
        calls, send = self._call()
        return run(calls.delete_all(query), send)

    def batch(self, *, parallel: int = 1) -> Batch:
        """Many unconditional writes in few requests: ``with db.batch() as batch: batch.put(...)``.

        It is sent when the block ends, or sooner when it is full. An exception in the block discards what is not sent.

        Args:
            parallel: how many requests are sent at the same time, 1 to 16; the batch then collects as many times more
                operations before it sends them. An error does not keep the other requests from being sent.

        Raises:
            BadValue: ``parallel`` is not an int from 1 to 16.
        """
        return Batch(self, parallel)

    def transaction(self) -> Transaction:
        """Writes and checks of several items, all applied or none: ``with db.transaction() as tx: tx.put(...)``.

        Nothing is sent before the block ends. An exception in the block discards everything.

        Raises:
            TransactionFailed: at the end of the block: nothing was written; its ``reasons`` say why.
            Unsupported: on Bigtable without ``Table(transactions=True)``, which allows up to 100 items of any rows: at
                the operation on an item of another row; with ``layout="row_per_partition"`` the items of a partition
                are one row.
        """
        return Transaction(self)

    def create(self) -> None:
        """Create the table with its indexes, column families and TTL; does not change what exists.

        In a store with ``blobs=`` whose models have an `odm.Blob`, it also marks the folder of the blobs as that of the
        table.

        Raises:
            BackendError: the table exists with another key, or belongs to another program.
            BadValue: the folder of the blobs belongs to another table.
        """
        run(create(self._session.context), self._call()[1])

    def drop(self) -> None:
        """Delete the table with all its items; no error if it does not exist."""
        self._call()[1](req.DropTables())

    def measure(self) -> req.TableSize:
        """How much the table holds: exact in the bundled engine; on DynamoDB as it counted in the last six hours.

        On Bigtable the number of rows if there are fewer than 1000, else the bytes that the service estimates.

        Raises:
            TableNotFound: the table does not exist.
        """
        size: req.TableSize = self._call()[1](req.MeasureTable())
        return size

    def list_tables(self, beginning: str = "") -> list[str]:
        """The names of the backend's tables that begin with a text, in any order: also of tables of other programs.

        On Bigtable, the table of an index is among them.
        """
        return list(self._call()[1](req.ListTables(text_of_name(beginning))))

    def alter(self, options: object, *, dry_run: bool = False) -> list[str]:
        """Change settings of the existing table that are not part of the models, such as its capacity mode.

        Args:
            options: a value of the backend, such as `odm.backends.dynamodb.TableOptions`; others change nothing.
            dry_run: only return what would change.

        Returns:
            A line for each change; none if the settings are so already, or the table does not exist.

        Raises:
            BadValue: the backend cannot set these options.
        """
        return list(self._call()[1](req.AlterTables(options, dry_run)))

    def reshard(self, query: Query[Any]) -> int:
        """Move index entries from the old shards to the current ones, for a pattern with ``Shards(..., was=...)``.

        Programs with this model can read and write meanwhile and find every entry once, except for the few cases that
        `odm.patterns.write_sharding` describes. Not atomic, but resumable: after a failure, call it again. Remove
        ``was=`` when no program with the older model writes any more and this returns 0 for every partition. Moving an
        entry is one update, which changes nothing else of the item, not even its Revision.

        Args:
            query: a call of the pattern, as for `query`: the partition, or the part of it, to move.

        Returns:
            The number of entries moved.

        Raises:
            BadValue: the pattern has no ``was=``.
        """
        calls, send = self._call()
        return run(calls.reshard(query), send)

    def backfill(
        self,
        target: object,
        *,
        rate: float | None = None,
        after: str | None = None,
        size: int = PAGE,
        on_progress: "Callable[[odm.results.Backfilled], object] | None" = None,
    ) -> "odm.results.Backfilled":
        """Bring stored items up to date with the models, while other programs read and write.

        It reads the whole table and writes the items that are not as the model would write them, each on the condition
        that it is unchanged since it was read: no other write is lost, and an item that was deleted stays deleted. A
        Revision is not incremented. An item that is right costs no write, so it can be called again at any time.

        Args:
            target: what to fill: an access pattern (``Order.by_status``); a declaration with items of its own
                (``Customer.unique_email``, a pointer, ...); or an entity class: whole items, such as those of an older
                version, with the index entries and the items of all declarations.
            rate: items to read per second, each written at most once; None: no limit.
            after: the cursor of an earlier, interrupted backfill, or one of `parts`; None: start of the table.
            size: the most items to read at once, 1 or more.
            on_progress: called with the progress after each page. Its ``cursor`` can be saved.

        Returns:
            The counts, and the items that could not be written, with their errors: another item has the unique value,
            an item does not fit the model, other writers kept changing it.

        Raises:
            BadValue: the target cannot be backfilled, or a number is out of range.
            BadCursor: the cursor is damaged or belongs to another table or backend.
            Unsupported: the writes of a declaration cannot be repeated.
        """
        calls, send = self._call()
        steps = calls.backfill(target, rate=rate, after=after, size=size, on_progress=on_progress)
        return run(steps, send)

    def rekey(
        self,
        old: type[Entity],
        new: type[E],
        make: Callable[[Any], E] | None = None,
        *,
        rate: float | None = None,
        after: str | None = None,
        size: int = PAGE,
        on_progress: "Callable[[odm.results.Backfilled], object] | None" = None,
    ) -> "odm.results.Backfilled":
        """Move the stored items of a class to the primary key of another one, while other programs read and write.

        For a changed primary key: the old class, with the same ``tag=``, is declared on a second `odm.Table` of the
        same name. Each item moves in one transaction, with its index entries and the items of ``Unique``, ``Pointer``
        and ``Versioned``: it is always under one key. The old item is deleted on the condition that it is unchanged
        since it was read, otherwise it is read again, so no other write is lost. The Revision, CreatedAt, UpdatedAt,
        Id, TTL and blobs stay. After a failure, call it again: what has moved costs no write.

        Args:
            old: the class with the key under which items are stored.
            new: the class with the new key.
            make: makes the new entity of an old one, without side effects: it may be called again. Default: from the
                fields of the same names.
            rate: items to read per second; None: no limit.
            after: the cursor of an earlier, interrupted call, or one of `parts`; None: start of the table.
            size: the most items to read at once, 1 or more.
            on_progress: called with the progress after each page. Its ``cursor`` can be saved.

        Returns:
            The counts, ``written`` for those that moved, and the items that could not be moved, with their errors:
            `odm.ItemExists`: the new key has another item, or another item has the unique value; `odm.ItemInvalid`: it
            does not fit a class; `odm.Conflict`: other writers kept changing it. These stay under their old keys.

        Raises:
            BadValue: the classes or another argument cannot be used.
            BadCursor: the cursor is damaged or belongs to another table or backend.
            Unsupported: the table has no transactions, as on Bigtable without ``transactions=True``; items show by
                their keys alone of which entity they are, have former values (CellVersions), or a companion cannot
                follow.
        """
        calls, send = self._call()
        steps = calls.rekey(old, new, make, rate=rate, after=after, size=size, on_progress=on_progress)
        return run(steps, send)

    def sweep(
        self,
        *,
        grace: float = DAY,
        remove: bool = False,
        force: bool = False,
        remove_most: bool = False,
        confirm: "Callable[[odm.results.Swept], bool] | None" = None,
    ) -> "odm.results.Swept":
        """Find, or remove, blobs of the table that no item refers to, while other programs write; see `odm.Blob`.

        They are left by programs that stopped during a write, by items that expired or that other programs deleted, and
        by batches, which do not read what they replace. It lists the blobs, then reads the whole table.

        Args:
            grace: only blobs that were written this many seconds ago, by the time of the blobs' service: an hour or
                more, and longer than any write takes from its upload to its end.
            remove: remove them; by default they are only returned.
            force: also allow a grace below an hour, if nobody writes to the table.
            remove_most: also remove more than half of the blobs of the folder, or blobs of a table without items.
            confirm: called with what was found, before anything is removed: if it returns False, nothing is.

        Returns:
            The names of the blobs, how many were removed, and of how many.

        Raises:
            BadValue: the grace is too short; the folder belongs to another table; or it would remove more than half of
                the blobs, or blobs of a table without items, which looks like the wrong table or the wrong folder.
            Unsupported: the store has no ``blobs=``.
            BackendError: the blobs cannot be listed or removed.
        """
        from odm.procedures.upkeep.sweep import sweep

        steps = sweep(
            self._session.context, grace=grace, remove=remove, force=force, remove_most=remove_most, confirm=confirm
        )
        return run(steps, self._call()[1])

    def parts(self, parts: int) -> list[str]:
        """Divide the table into parts that several workers read in parallel, each with `scan_page`.

        Args:
            parts: how many, 1 to 1000; Bigtable may return fewer.

        Returns:
            The cursor at which each part begins. The limits of a part never change, whatever is written; all items of a
            partition are in one part.
        """
        calls, send = self._call()
        return run(calls.parts(parts), send)

    def scan_page(
        self,
        after: str | None = None,
        *,
        size: int = PAGE,
        expired: bool = False,
        consistent: bool = True,
        where: Query[Any] | None = None,
    ) -> "Page[odm.results.RawItem]":
        """A page of the whole table, or of a part of it, as raw items.

        Args:
            after: the cursor of the previous page, or one of `parts`; None: start of the table. A cursor can be saved.
                It shows the position of the scan and the key stored there, so protect it like the data.
            size: the most items to read, 1 or more; the backend may end a page sooner.
            expired: include expired items that are still stored.
            consistent: False: cheaper, may miss the newest writes.
            where: only the items of ``select(Order).where(...)``: an entity, with any conditions. Also the other items
                are read and count for ``size``.

        Returns:
            The page. It may have fewer items, even none, and still a cursor; the cursor is None only at the end of the
            table or part. Each ``item.entity`` is what `scan` returns.

        Raises:
            BadCursor: the cursor is damaged or belongs to another table or backend.
            ItemInvalid: an item does not fit its model.
        """
        calls, send = self._call()
        return run(calls.scan_page(after, size=size, expired=expired, consistent=consistent, where=where), send)

    def put_raw(self, items: "Sequence[odm.results.RawItem]") -> None:
        """Write raw items unchanged, in few requests; replaces items under their keys. Not atomic.

        It does not check or increment a Revision, trim (``keep=``) or write companions. It computes the index entries
        again, by the current models.

        Args:
            items: from `scan_page`, of this store or of another one of the same table.

        Raises:
            ItemTooLarge: an item is larger than this store allows; nothing was sent.
            Throttled: ``left`` has the items that were not written.
        """
        calls, send = self._call()
        run(calls.put_raw(items), send)
