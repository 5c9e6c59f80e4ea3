"""`Store`: the blocking face of odm. Each method runs one operation; the async one is `AsyncStore`."""

from collections.abc import Callable, Iterator, Sequence
from types import TracebackType
from typing import Any, Literal, Self, TypeVar, overload

from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.expressions.nodes import Action, Condition
from odm.procedures import read
from odm.procedures.calls import Calls, Procedure, started
from odm.procedures.raw import PAGE, RawItem
from odm.procedures.read import Reading, Scanning
from odm.procedures.session import Page
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen, perform, run
from odm.stores.base import BaseStore
from odm.stores.batches import Batch
from odm.stores.transactions import Transaction

E = TypeVar("E", bound=Entity)
R = TypeVar("R")


class Store(BaseStore):
    """A table on a backend. Thread-safe; as a context manager it closes its connections.

    Args:
        table: the table whose entities are stored.
        backend: where: ``Memory()``, ``LocalFile(...)``, ``DynamoDB(...)`` or ``Bigtable(...)``.
        prefix: comes before the table's name on the backend, as in ``prefix="prod-"``; a cursor of a store with another
            prefix is refused.
        cursor_secret: signs cursors, so that a client cannot forge one.
        limits: "portable": keys and items that every backend can hold, checked on all of them alike; "native": what
            this backend can, which another may not be able to take over.
        on_unknown: what every call does when it meets a stored item that no entity of the table has the tag of: "raise"
            ItemInvalid, or "skip" it, as if it were not there. Either way no call changes or removes it: a put, insert
            or upsert under its key raises ItemInvalid.
        on_request: called after every native request with an `odm.RequestInfo`; of requests that are sent at the
            same time to a network, from several threads. What it raises is logged, and changes nothing.
        clock: seconds since the epoch, by which items expire; default: the backend's clock, or ``time.time``.
        random: draws what is random, safely from several threads; default: ``random.SystemRandom()``.
        timeout: for how many seconds a service on a network may be silent: until there is a connection, and while its
            answer is awaited. After that a request is sent again, or fails; None: as the backend is set.
        retries: how often a request is sent again before its failure is raised, 0 or more; of a batch, how often in a
            row nothing of it is applied. A write that must not happen twice is only sent again if it certainly did
            nothing. None: as the backend is set. The bundled engine has no network and needs neither.

    Raises:
        TypeError: the table is not a `Table`, or the backend not a `Backend`.
        BadValue: an option cannot be used.
    """

    _perform = staticmethod(perform)

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def close(self) -> None:
        """Release connections. The store opens new ones when it is used again."""
        connection = self._disconnect()
        if connection is not None:
            connection.close()

    def _send(self, request: req.Request) -> Any:
        _, send = self._call()
        return send(request)

    def run(self, procedure: Callable[[Calls], CoreGen[R]]) -> R:
        """Run a `odm.procedure`: steps of several calls, written once for both stores.

        Args:
            procedure: what a procedure made, or a function that takes the `odm.Calls` of a store and gives a generator.

        Returns:
            What the procedure returns.

        Raises:
            OdmError: what its calls raise.
        """
        _, send = self._call()
        return run(started(procedure, self._current_calls()), send)

    def create(self) -> None:
        """Create the table with its indexes, families and TTL; what exists is left alone."""
        self._send(req.CreateTables())

    def drop(self) -> None:
        """Remove the table with everything in it; no error when it is not there."""
        self._send(req.DropTables())

    @overload
    def get(self, which: type[E], /, **key: Any) -> E | None: ...
    @overload
    def get(self, which: Query[E], /, *, consistent: bool = True) -> E | None: ...
    @overload
    def get(self, which: Procedure[R], /) -> R: ...
    def get(self, which: Any, /, consistent: bool = True, **key: Any) -> Any:
        """The item under a key, or None.

        Args:
            which: an entity class with its key fields as keywords, a key such as ``Order.primary(...)``, or a procedure
                that finds one item, such as that of a pointer.
            consistent: False: cheaper, may miss the newest writes (only with the key form).
            key: the key fields.

        Raises:
            KeyValueError: a key field is missing, unknown or does not validate.
            ItemInvalid: what is stored does not fit the model.
        """
        calls, send = self._call()
        return run(calls.get(which, consistent=consistent, **key), send)

    @overload
    def one(self, which: type[E], /, **key: Any) -> E: ...
    @overload
    def one(self, which: Query[E], /, *, consistent: bool = True) -> E: ...
    @overload
    def one(self, which: Procedure[E | None], /) -> E: ...
    def one(self, which: Any, /, consistent: bool = True, **key: Any) -> Any:
        """The item under a key.

        Raises:
            ItemNotFound: there is none.
        """
        calls, send = self._call()
        return run(calls.one(which, consistent=consistent, **key), send)

    def get_many(self, keys: Sequence[Query[E]], *, consistent: bool = True) -> list[E | None]:
        """The items under keys, in the keys' order, None where there is none; any number of keys."""
        calls, send = self._call()
        return run(calls.get_many(keys, consistent=consistent), send)

    @overload
    def exists(self, which: type[Entity], /, **key: Any) -> bool: ...
    @overload
    def exists(self, which: Query[Any], /) -> bool: ...
    def exists(self, which: Any, /, **key: Any) -> bool:
        """Whether there is an item under the key."""
        calls, send = self._call()
        return run(calls.exists(which, **key), send)

    def put(self, entity: E, *, when: Condition | bool | None = None) -> E:
        """Write an entity over whatever is under its key.

        Args:
            entity: what to store. With a Revision, only the version that it was read as is overwritten.
            when: a condition on the stored item.

        Returns:
            The entity as stored: the same object, or with a Revision a copy that counts one more.

        Raises:
            ConditionFailed: ``when`` does not hold; nothing was written.
            Conflict: another writer changed the item since it was read (Revision).
            BadValue: a value cannot be stored; nothing was sent.
        """
        calls, send = self._call()
        return run(calls.put(entity, when=when), send)

    def insert(self, entity: E) -> E:
        """Write a new entity.

        Returns:
            The entity as stored.

        Raises:
            ItemExists: its key is taken.
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
    ) -> E | None: ...
    def update(
        self,
        which: Any,
        /,
        *actions: Action,
        when: Condition | bool | None = None,
        returning: Literal["none", "old", "new"] = "none",
        upsert: bool = False,
    ) -> Any:
        """Change attributes of an existing item; every index entry stays right.

        Args:
            which: the entity or its key. An entity with a Revision is changed only if it is still the one you read.
            actions: ``set_``, ``increment``, ``remove``, ``append``, …
            when: a condition on the stored item.
            returning: "new" or "old" to get the item as it is now or was.
            upsert: create the item if it is not there; the actions must set every required field.

        Raises:
            ItemNotFound: there is no such item.
            ConditionFailed: ``when`` does not hold, or an increment would leave the field's bounds.
            Conflict: another writer changed the item (Revision), or concurrent writers kept changing it.
            BadValue: an action does not fit the model; nothing was sent.
            OutcomeUnknown: the answer was lost, and the update may have been done; see `with_options` (``retry_safe``).
        """
        calls, send = self._call()
        return run(calls.update(which, *actions, when=when, returning=returning, upsert=upsert), send)

    @overload
    def delete(self, which: type[Entity], /, **key: Any) -> bool: ...
    @overload
    def delete(self, which: Entity | Query[Any], /, *, when: Condition | bool | None = None) -> bool: ...
    def delete(self, which: Any, /, when: Condition | bool | None = None, **key: Any) -> bool:
        """Remove an item.

        Args:
            which: an entity class with its key fields, an entity, or a key.
            when: a condition on the stored item.
            key: the key fields.

        Returns:
            Whether the item was there. Unlike in a transaction, an absent item is not judged.

        Raises:
            ConditionFailed: the item is there and ``when`` does not hold.
            Conflict: an entity with a Revision was changed since it was read.
        """
        calls, send = self._call()
        return run(calls.delete(which, when, **key), send)

    def delete_all(self, query: Query[Any]) -> int:
        """Remove everything that a query finds, such as a whole partition: ``delete_all(collection(...))``.

        Not atomic, but resumable: after a failure, call it again.

        Returns:
            The number of items removed.
        """
        calls, send = self._call()
        return run(calls.delete_all(query), send)

    def reshard(self, query: Query[Any]) -> int:
        """Move index entries from the shards that were to those that are, while ``Shards(..., was=...)`` says so.

        What reads and writes by this model meanwhile finds every entry once, but for the few cases that
        `odm.patterns.write_sharding` describes. Not atomic, but resumable: after a failure, call it again. When no
        program of the older model writes any more, and this gives 0 for every partition, ``was=`` can go. Each entry
        that moves is one update, which changes nothing else, a Revision neither.

        Args:
            query: a call of the pattern, as for `query`: a partition of it, or what of it is to move.

        Returns:
            The number of entries moved.

        Raises:
            BadValue: the pattern does not say ``was=``.
        """
        calls, send = self._call()
        return run(calls.reshard(query), send)

    def query(self, query: Query[E], *, consistent: bool = True) -> Iterator[E]:
        """The results of a query, read page by page while you iterate.

        Args:
            query: a pattern call, `odm.select` or `odm.collection`.
            consistent: False: cheaper, may miss the newest writes. Secondary indexes may lag anyway.

        Raises:
            NoAccessPattern: no declared pattern serves a ``select``.
            BadValue: a value or condition does not fit the model.
        """
        return self._chunks(self._session.begin(query, consistent=consistent))

    def _chunks(self, reading: Reading | None) -> Iterator[Any]:
        while reading is not None:
            items, reading = run(read.chunk(self._session.context, reading), self._call()[1])
            yield from items

    def page(self, query: Query[E], *, size: int = 25, after: str | None = None, consistent: bool = True) -> Page[E]:
        """One page of a query's results.

        Args:
            query: as for `query`.
            size: number of results, 1 or more.
            after: the cursor of the page before.
            consistent: as for `query`.

        Raises:
            BadCursor: the cursor is damaged or belongs to another query.
        """
        calls, send = self._call()
        return run(calls.page(query, size=size, after=after, consistent=consistent), send)

    def first(self, query: Query[E], *, consistent: bool = True) -> E | None:
        """The first result of a query, or None."""
        calls, send = self._call()
        return run(calls.first(query, consistent=consistent), send)

    def count(self, query: Query[Any], *, consistent: bool = True) -> int:
        """How many results `query` would give: expiry, conditions and limit applied."""
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
    ) -> Iterator[E]: ...
    @overload
    def scan(
        self,
        /,
        *,
        consistent: bool = True,
        segments: int | None = None,
        segment: tuple[int, int] | None = None,
    ) -> Iterator[Entity]: ...
    def scan(
        self,
        entity: type[Entity] | None = None,
        /,
        *conditions: Condition | bool,
        consistent: bool = True,
        segments: int | None = None,
        segment: tuple[int, int] | None = None,
    ) -> Iterator[Any]:
        """Read the whole table, in unspecified order; every item of it is read and paid for.

        Args:
            entity: give only its items; without it, those of every entity.
            conditions: a filter on what was read.
            consistent: False: cheaper, may miss the newest writes.
            segments: read so many parts of the table at the same time, 1 to 1000.
            segment: read one part alone, as ``(number, of)``: ``(0, 4)`` to ``(3, 4)`` for four workers, which together
                read every item once.

        Raises:
            BadValue: a condition does not fit the model, or numbers of segments that cannot be.
            Unsupported: ``segment`` on Bigtable, which cuts a table otherwise each time: use ``segments``.
        """
        chunks = self._session.begin_scan(entity, conditions, consistent=consistent, segments=segments, segment=segment)
        return self._scan_chunks(chunks)

    def _scan_chunks(self, scanning: Scanning | None) -> Iterator[Any]:
        while scanning is not None:
            items, scanning = run(read.scan_chunk(self._session.context, scanning), self._call()[1])
            yield from items

    def parts(self, parts: int) -> list[str]:
        """Cut the table into parts that several workers read side by side, each with `scan_page`.

        Args:
            parts: how many, 1 to 1000; Bigtable may give fewer.

        Returns:
            The cursor at which each begins. A part stays the same whatever is written, for every reader, at any
            time; all items of a partition are in one part.
        """
        calls, send = self._call()
        return run(calls.parts(parts), send)

    def scan_page(
        self, after: str | None = None, *, size: int = PAGE, expired: bool = False, consistent: bool = True
    ) -> Page[RawItem]:
        """A page of the whole table, or of a part of it, with its stored items.

        Args:
            after: the cursor of the page before, or one of `parts`; None: the table from its beginning. It can be kept
                for later: it shows where the scan was and what is stored there, so keep it as you keep the data.
            size: read at most so many items, 1 or more; a page also ends where the backend ends it.
            expired: have those that have expired, too, while they are still stored.
            consistent: False: cheaper, may miss the newest writes.

        Returns:
            What was read. It may be fewer items, or none, and have a cursor all the same; the cursor is None exactly
            when nothing follows. Each ``item.entity`` is what `scan` gives.

        Raises:
            BadCursor: the cursor is damaged, or of another table or backend.
            ItemInvalid: an item does not fit its model.
        """
        calls, send = self._call()
        return run(calls.scan_page(after, size=size, expired=expired, consistent=consistent), send)

    def put_raw(self, items: Sequence[RawItem]) -> None:
        """Write items as they were read, over whatever is under their keys, in few requests; not atomic.

        Nothing is counted up, checked or trimmed (Revision, ``keep=``), and no companions are written; only the index
        entries are made again, by the current models.

        Args:
            items: those of a `scan_page`, of this store or of another one of the same table.

        Raises:
            ItemTooLarge: one is larger than this store allows; nothing was sent.
            Throttled: ``left`` has those that were not written.
        """
        calls, send = self._call()
        run(calls.put_raw(items), send)

    def batch(self) -> Batch:
        """Many unconditional puts and deletes in few requests: ``with db.batch() as batch: batch.put(...)``.

        It is sent when the block ends. An exception in the block discards what has not been sent by then.
        """
        return Batch(self)

    def transaction(self) -> Transaction:
        """Writes and checks of several items, done all or none: ``with db.transaction() as tx: tx.put(...)``.

        Nothing is sent before the block ends. An exception in the block discards everything.

        Raises:
            TransactionFailed: at the end of the block: nothing was written, and its ``reasons`` say why.
            Unsupported: at the operation on a second item, where the backend has no transactions of several (Bigtable).
        """
        return Transaction(self)
