"""The calls of a store on its whole table: create and drop it, copy its items, bring them up to date."""

from collections.abc import Callable, Sequence
from typing import Any, TypeVar

import odm
from odm.entities.entity import Entity
from odm.entities.query import Query
from odm.errors import BadValue, brief
from odm.procedures.blobs import create
from odm.procedures.calls import DAY, PAGE
from odm.procedures.session import Page
from odm.protocol import requests as req
from odm.protocol.connection import arun, run
from odm.stores.base import BaseStore

E = TypeVar("E", bound=Entity)


class Maintenance(BaseStore):
    """The calls of `odm.Store` on its whole table."""

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
        return list(self._call()[1](req.ListTables(_text(beginning))))

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
        on_progress: "Callable[[odm.Backfilled], object] | None" = None,
    ) -> "odm.Backfilled":
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
        found = calls.backfill(target, rate=rate, after=after, size=size, on_progress=on_progress)
        return run(found, send)

    def rekey(
        self,
        old: type[Entity],
        new: type[E],
        make: Callable[[Any], E] | None = None,
        *,
        rate: float | None = None,
        after: str | None = None,
        size: int = PAGE,
        on_progress: "Callable[[odm.Backfilled], object] | None" = None,
    ) -> "odm.Backfilled":
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
        found = calls.rekey(old, new, make, rate=rate, after=after, size=size, on_progress=on_progress)
        return run(found, send)

    def sweep(
        self,
        *,
        grace: float = DAY,
        remove: bool = False,
        force: bool = False,
        remove_most: bool = False,
        confirm: "Callable[[odm.Swept], bool] | None" = None,
    ) -> "odm.Swept":
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
        from odm.procedures.sweep import sweep

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
    ) -> "Page[odm.RawItem]":
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

    def put_raw(self, items: "Sequence[odm.RawItem]") -> None:
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


class AsyncMaintenance(BaseStore):
    """The calls of `odm.AsyncStore` on its whole table."""

    async def create(self) -> None:
        """Create the table with its indexes, column families and TTL; as `odm.Store.create`."""
        await arun(create(self._session.context), self._call()[1])

    async def drop(self) -> None:
        """Delete the table with all its items; no error if it does not exist."""
        await self._call()[1](req.DropTables())

    async def measure(self) -> req.TableSize:
        """How much the table holds; as `odm.Store.measure`."""
        size: req.TableSize = await self._call()[1](req.MeasureTable())
        return size

    async def list_tables(self, beginning: str = "") -> list[str]:
        """The names of the backend's tables that begin with a text, in any order: also of tables of other programs.

        On Bigtable, the table of an index is among them.
        """
        return list(await self._call()[1](req.ListTables(_text(beginning))))

    async def alter(self, options: object, *, dry_run: bool = False) -> list[str]:
        """Change settings of the existing table that are not part of the models, such as its capacity mode.

        Args:
            options: a value of the backend, such as `odm.backends.dynamodb.TableOptions`; others change nothing.
            dry_run: only return what would change.

        Returns:
            A line for each change; none if the settings are so already, or the table does not exist.

        Raises:
            BadValue: the backend cannot set these options.
        """
        return list(await self._call()[1](req.AlterTables(options, dry_run)))

    async def reshard(self, query: Query[Any]) -> int:
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
        return await arun(calls.reshard(query), send)

    async def backfill(
        self,
        target: object,
        *,
        rate: float | None = None,
        after: str | None = None,
        size: int = PAGE,
        on_progress: "Callable[[odm.Backfilled], object] | None" = None,
    ) -> "odm.Backfilled":
        """Bring stored items up to date with the models, while other programs read and write; as `odm.Store.backfill`.

        ``on_progress`` is a plain function.
        """
        calls, send = self._call()
        found = calls.backfill(target, rate=rate, after=after, size=size, on_progress=on_progress)
        return await arun(found, send)

    async def rekey(
        self,
        old: type[Entity],
        new: type[E],
        make: Callable[[Any], E] | None = None,
        *,
        rate: float | None = None,
        after: str | None = None,
        size: int = PAGE,
        on_progress: "Callable[[odm.Backfilled], object] | None" = None,
    ) -> "odm.Backfilled":
        """Move the stored items of a class to the primary key of another one; as `odm.Store.rekey`.

        ``make`` and ``on_progress`` are plain functions.
        """
        calls, send = self._call()
        found = calls.rekey(old, new, make, rate=rate, after=after, size=size, on_progress=on_progress)
        return await arun(found, send)

    async def sweep(
        self,
        *,
        grace: float = DAY,
        remove: bool = False,
        force: bool = False,
        remove_most: bool = False,
        confirm: "Callable[[odm.Swept], bool] | None" = None,
    ) -> "odm.Swept":
        """Find, or remove, blobs of the table that no item refers to; as `odm.Store.sweep`.

        ``confirm`` is a plain function.
        """
        from odm.procedures.sweep import sweep

        steps = sweep(
            self._session.context, grace=grace, remove=remove, force=force, remove_most=remove_most, confirm=confirm
        )
        return await arun(steps, self._call()[1])

    async def parts(self, parts: int) -> list[str]:
        """Divide the table into parts that several workers read in parallel; as `odm.Store.parts`."""
        calls, send = self._call()
        return await arun(calls.parts(parts), send)

    async def scan_page(
        self,
        after: str | None = None,
        *,
        size: int = PAGE,
        expired: bool = False,
        consistent: bool = True,
        where: Query[Any] | None = None,
    ) -> "Page[odm.RawItem]":
        """A page of the whole table, or of a part of it, as raw items; as `odm.Store.scan_page`."""
        calls, send = self._call()
        return await arun(calls.scan_page(after, size=size, expired=expired, consistent=consistent, where=where), send)

    async def put_raw(self, items: "Sequence[odm.RawItem]") -> None:
        """Write raw items unchanged; replaces items under their keys; as `odm.Store.put_raw`."""
        calls, send = self._call()
        await arun(calls.put_raw(items), send)


def _text(beginning: object) -> str:
    if not isinstance(beginning, str):
        raise BadValue(f"list_tables({brief(beginning)}): give the text with which the names begin")
    return beginning
