"""`Store`: the sync interface of odm. Each method runs one operation. `AsyncStore` is the async one."""

from collections.abc import Callable
from typing import Any, Literal, Self, TypeVar, overload

from odm._published import public
from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.expressions.nodes import Action, Condition
from odm.hints import Sync
from odm.procedures.calls import Calls, started
from odm.procedures.cell_versions import CellVersion
from odm.protocol.connection import CoreGen, perform, run
from odm.stores.batches import Batch
from odm.stores.maintenance import Maintenance
from odm.stores.sync_reads import Reads
from odm.stores.transactions import Transaction

E = TypeVar("E", bound=Entity)
R = TypeVar("R")
T = TypeVar("T")


@public
class Store(Reads, Maintenance, Sync):
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
        on_request: called with an `odm.RequestInfo` after every native request; from several threads when requests are
            sent to a network in parallel. What it raises is logged and ignored.
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
        """Run an `odm.procedure`: several calls, written once for sync and async.

        Args:
            procedure: a procedure, or a function that takes the `odm.Calls` of a store and returns a generator.

        Returns:
            What the procedure returns.

        Raises:
            OdmError: any error of its calls.
        """
        _, send = self._call()
        return run(started(procedure, self._current_calls()), send)

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
