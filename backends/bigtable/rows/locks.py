"""What the layout of a table asks of its locks, and the answers of a table without transactions: `NoLocks`.

In such a table no item is ever locked, so filters and calls stay as they are. `Locks` of
`odm.backends.bigtable.transactions.resolve` answers for a table with transactions. Nobody else asks whether there are
locks.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, ClassVar, Final, NamedTuple, Protocol

from odm.backends.bigtable.client.errors import NATIVE_FAILURES, is_throttled, status, text_of, translate
from odm.backends.bigtable.client.filters import Filter
from odm.backends.bigtable.client.native import CheckAndMutateRow, Cookies, Entry, MutateRow, Mutation, Row, Steps
from odm.backends.bigtable.client.retry import Pauses, Refusal, Retry, Stuck, advice_of, pause, read_many, write_many
from odm.codec import TAG
from odm.immutable import Immutable
from odm.protocol.requests import Written

if TYPE_CHECKING:
    from odm.backends.bigtable.transactions.lock_cells import Lock


class LockableRows(Protocol):
    """What locks need to know of the layout of the rows, see `odm.backends.bigtable.rows.items.ItemRows`."""

    @property
    def table(self) -> str:
        """The table's name."""
        ...

    def cells(self, needed: Filter) -> Filter:
        """The cells to read for these cells of items."""
        ...

    def named(self, rows: dict[str, Row], cells: Filter) -> dict[str, Row]:
        """The items in rows that were read with a filter, by id."""
        ...

    def item_of(self, row: Row) -> Row | None:
        """The item of a row with all its cells."""
        ...

    def read(self, ids: tuple[str, ...], retry: Retry, needed: Filter = ...) -> Steps[dict[str, Row]]:
        """Read items by id; missing items are omitted."""
        ...


class RowWrite(Immutable):
    """A change of items of one row that depends on nothing that the row holds.

    Attributes:
        entry: the row and its mutations.
        ids: the items.
        once: it must not be applied twice.
        renewed: returns the entry as it is sent again, if it is the only one of its row; None: it stays the same.
    """

    entry: Entry
    ids: tuple[str, ...]
    once: bool = False
    renewed: Callable[[], Entry] | None = None

    @property
    def again(self) -> Entry:
        """The entry for the next time that it is sent."""
        return self.entry if self.renewed is None else self.renewed()


class OneCall(NamedTuple):
    """A write that is sent in one call.

    Attributes:
        call: the call.
        matches: True: the write is applied if the predicate matches; False: if it does not match.
        id: the row's revision after the write; None: the row does not show whether it was applied.
        refused: the answer if the write is refused; None: the item must be read to find the answer.
    """

    call: CheckAndMutateRow
    matches: bool
    id: str | None
    refused: Written | None = None


class NoLocks(Immutable):
    """The locks of a table without transactions: there are none; and the contract of `Locks`.

    Attributes:
        mentions: how often the predicate of a write may name an item.
        ghost_marks: the marks by which the row of an increment without an item is known, see
            `odm.backends.bigtable.writes.counters`.
    """

    mentions: ClassVar[int] = 1
    ghost_marks: ClassVar[frozenset[str]] = frozenset({TAG})

    def locked(self, id: str) -> tuple[Filter, ...]:
        """The filter that returns a cell if an item is locked; none, if it never is."""
        return ()

    def unlocked(self, id: str) -> tuple[Filter, ...]:
        """The filter that returns a cell if an item has a revision and is not locked; none, if it never is locked."""
        return ()

    def locked_absent(self, id: str) -> tuple[Filter, ...]:
        """The filter that returns a cell of the family ``d`` if there is no item but a lock; as `locked`."""
        return ()

    def strange_or_locked(self, id: str, strange: Filter) -> Filter:
        """Returns a cell if a filter for the cells of other programs does, or if an item is locked."""
        return strange

    def one_call(self, id: str, write: OneCall) -> OneCall | None:
        """The write of an item in one call that checks its lock, too; None: its predicate is too large then."""
        return write

    def shown(self, cells: Filter) -> Filter:
        """The filter for these cells of rows, and for the locks of transactions."""
        return cells

    def any_in(self, rows: Iterable[Row]) -> bool:
        """Whether an item of these rows is locked."""
        return False

    def is_lock(self, revision: bytes) -> bool:
        """Whether the revision of a row shows that it is locked."""
        return False

    def locks_in(self, rows: Sequence[Row]) -> "dict[str, Lock]":
        """The locks of the rows that are locked, by row key."""
        return {}

    @property
    def any_lock(self) -> Filter | None:
        """The filter for the locks of rows; None: no row has one."""
        return None

    def read_locks(self, ids: tuple[str, ...], retry: Retry) -> Steps[dict[str, Row]]:
        """Read the locks of items, by id; items without one may be omitted."""
        yield from ()
        return {}

    def resolve(self, held: "Iterable[tuple[str, Lock]]", retry: Retry, now: Callable[[], int]) -> Steps[int]:
        """Resolve locks, however young they are. Returns their number; another writer may have resolved others.

        Args:
            held: the locks, with the ids of the items.
            retry: how long to retry.
            now: returns the timestamp of written cells, in microseconds.
        """
        yield from ()
        return 0

    def remove_records(self, rows: Sequence[Row], retry: Retry, now: Callable[[], int]) -> Steps[int]:
        """Remove records of transactions. Returns the number of locks that were resolved before.

        Args:
            rows: the records, which are older than two leases.
            retry: how long to retry.
            now: returns the timestamp of written cells, in microseconds.
        """
        yield from ()
        return 0

    def at_most(self, calls: int | None) -> int | None:
        """The most calls of a write that makes so many if it meets no lock; None: not limited."""
        return calls

    def read(self, table: str, ids: tuple[str, ...], cells: Filter, retry: Retry) -> Steps[dict[str, Row]]:
        """Read rows of items as they are by the committed state; missing rows are omitted.

        Args:
            table: the table of the rows.
            ids: the row keys, without duplicates.
            cells: the cells that are needed.
            retry: how long to retry.
        """
        return read_many(table, ids, retry, cells)

    def committed(self, rows: list[Row], cells: Filter, retry: Retry, *, cut: bool = False) -> Steps[list[Row]]:
        """The rows as they are by the committed state; those in which nothing is left are omitted.

        Args:
            rows: rows that were read with `shown`; of a locked row, whole items are returned.
            cells: the cells that were asked for.
            retry: how long to retry.
            cut: of some rows, no other cell than the lock was read.
        """
        yield from ()
        return rows

    def read_unlocked(
        self, layout: LockableRows, ids: tuple[str, ...], needed: Filter, retry: Retry, now: Callable[[], int]
    ) -> Steps[dict[str, Row]]:
        """Read items for a write; locks on them are resolved first, or waited for.

        Args:
            layout: where the items stand.
            ids: the items, without duplicates; missing ones are omitted.
            needed: the cells that are needed.
            retry: how long to retry.
            now: returns the timestamp of written cells, in microseconds.

        Raises:
            Throttled: other programs kept locking the items until the time was up.
        """
        return layout.read(ids, retry, needed)

    def unlocked_rows(
        self,
        read: Callable[[], Steps[list[Row]]],
        items: Callable[[list[Row]], dict[str, Row]],
        retry: Retry,
        now: Callable[[], int],
    ) -> Steps[list[Row]]:
        """Read rows at an instant at which none of their items is locked.

        Args:
            read: reads the rows.
            items: returns the cells of each item of them, by id.
            retry: how long to retry.
            now: returns the timestamp of written cells, in microseconds.
        """
        return read()

    def outcomes(
        self, layout: LockableRows, ids: tuple[str, ...], needed: Filter, retry: Retry
    ) -> Steps[Mapping[str, Sequence[Row]]]:
        """Items as they are by both outcomes of the transaction that locks them, if one does; by id."""
        items = yield from layout.read(ids, retry, needed)
        return {id: (row,) for id, row in items.items()}

    def change(
        self, table: str, row: str, ids: Sequence[str], mutations: tuple[Mutation, ...], cookies: Cookies
    ) -> Any:
        """The call that changes items of a row; its response is True if one was locked, and then nothing changed."""
        return MutateRow(table, Entry(row, mutations), cookies=cookies)

    def write_row(
        self, layout: LockableRows, write: RowWrite, retry: Retry, now: Callable[[], int], *, batch: bool = False
    ) -> Steps[None]:
        """Change items of a row without a condition on them, when none of them is locked.

        Args:
            layout: where the items stand.
            write: the change; its mutations are made again each time that it is sent.
            retry: how long to retry.
            now: returns the timestamp of written cells, in microseconds.
            batch: it is one of many, and so is retried when a quota is exhausted.

        Raises:
            OutcomeUnknown: the response was lost, and the change must not be applied twice; or no response came until
                the time was up.
            Throttled: other programs kept locking the items until the time was up, or a quota is exhausted.
        """
        pauses: Pauses | None = None
        cookies: Cookies = ()
        entry = write.entry
        while True:
            call = self.change(layout.table, entry.key, write.ids, entry.mutations, cookies)
            try:
                locked = yield call
            except NATIVE_FAILURES as failure:
                throttled = batch and is_throttled(status(failure), text_of(failure))
                if write.once and not throttled:
                    raise translate(failure, call) from failure
                pauses = pauses or retry.pauses()
                if throttled and (wait := pauses.at_least(advice_of(failure).seconds or 0)) is not None:
                    yield wait
                else:
                    cookies = (yield from pause(pauses, failure, call)).cookies
            else:
                if not locked:
                    return
                yield from self.wait(layout, write.ids, retry, now)
            entry = write.again

    def wait(self, layout: LockableRows, ids: tuple[str, ...], retry: Retry, now: Callable[[], int]) -> Steps[None]:
        """Resolve the locks of items, or wait for them. Raises the same error as `read_unlocked`."""
        yield from ()

    def write_rows(
        self,
        layout: LockableRows,
        writes: Sequence[RowWrite],
        retry: Retry,
        now: Callable[[], int],
        refused: list[Refusal],
    ) -> Steps[Stuck | None]:
        """Write rows without a condition on their items, when these are not locked. Result as of `write_many`.

        Args:
            layout: where the items stand.
            writes: the changes, one for each row or several.
            retry: how long to retry.
            now: returns the timestamp of written cells, in microseconds.
            refused: gets the entries that the server refused.
        """
        of = {write.entry.key: write for write in writes}

        def renewed(entry: Entry) -> Entry:
            renew = of[entry.key].renewed
            return entry if renew is None else renew()

        def once(entry: Entry) -> bool:
            return of[entry.key].once

        return write_many({layout.table: [write.entry for write in writes]}, retry, renewed, once, refused)


NO_LOCKS: Final = NoLocks()
