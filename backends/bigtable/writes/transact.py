"""Transactions of several rows, in a table with ``transactions=True``; Bigtable is atomic for one row only.

Each *attempt* has a new random id and these steps. Calls of one step are sent at the same time.

1. **Read** the rows, resolve locks that are met, and judge all conditions. If one does not hold, nothing is written.
   The first attempt does not read inserts, or updates of items that were read before.
2. **Lock** each row, and claim new index entries. A lock is a CheckAndMutateRow with the condition that the revision
   and the counters are what was read; it holds the whole row as it will be
   (`odm.backends.bigtable.transactions.lock_cells`). Checks lock their rows, too.
3. **Commit**: write the record "committed", if there is no record yet (`odm.backends.bigtable.transactions.records`).
   Now the caller gets the answer.
4. **Carry forward**: write each row as its lock says. 5. **Clean**: remove index columns that are not listed any more.
6. **Remove the record**, if the commit and all calls of step 4 were answered.

If a row cannot be locked, all locks are *given back*, and the transaction starts over with a new id, after a random
pause, without a lock while it waits. Only the locks of younger transactions are broken, so the oldest one goes on. Any
program may abort a transaction that is not committed: by writing the record "aborted".

* If the response to a lock is lost, read the row. If it is not locked, the call may come late: write the record
  "aborted", so that it can block nobody, and give back.
* If the response to the commit is lost, read the record. Without one, write "aborted": so the outcome is always known.

The protocol was checked with a model of it. Do not simplify it: tests/backends/bigtable/test_transaction_variants.py
shows what goes wrong.

**Reads of several rows as they were at one instant.** The rows are read twice. If no item has changed in between, all
of them were as read at every instant between the two reads: a revision is never used twice. An increment of a Counter
does not change the revision, so the cells of the counters must be the same, too, with their timestamps.

A row without an item has no revision: an item may have come and gone between the two reads. So if an item is missing,
or others keep changing, the rows are read by a transaction that only checks them. It locks the rows, which are writes.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from typing import Literal

from attrs import define, field

from odm.backends.bigtable.client.errors import NATIVE_FAILURES, is_lost, kind_of, translate
from odm.backends.bigtable.client.filters import Filter, ValueIs, chain, chained, fits, newest
from odm.backends.bigtable.client.native import COUNTERS, Cell, CheckAndMutateRow, Row, SetCell, Steps
from odm.backends.bigtable.client.retry import Pauses, together, until_answered, write_many
from odm.backends.bigtable.rows.cells import qualifier, write_counter
from odm.backends.bigtable.rows.codec import MAX_CELL, Stored
from odm.backends.bigtable.transactions import records
from odm.backends.bigtable.transactions.lock_cells import Lock, LockCells
from odm.backends.bigtable.transactions.resolve import Locks, Resolver
from odm.backends.bigtable.writer import Writer
from odm.backends.bigtable.writes.commit import Attempt, Lease, RowChange, Work, clean, columns_of, evaluate
from odm.backends.bigtable.writes.commit import Rows as ClaimRows
from odm.backends.bigtable.writes.single import ItemWrites
from odm.codec import TAG
from odm.errors import BackendError, BadValue, ItemTooLarge, OdmError, OutcomeUnknown, Throttled, Unsupported
from odm.expressions.nodes import Value
from odm.immutable import Immutable
from odm.protocol.connection import Later
from odm.protocol.requests import Check, Notice, Put, Refusals, Refused, Transact, Written
from odm.schema.entity import EntitySchema, Key

Held = Literal["no", "yes", "unknown"]
"""Whether a row is locked by an attempt; unknown: the call may be applied later."""


@define(eq=False)
class Part:
    """One operation of an attempt.

    Attributes:
        work: the operation.
        row: all cells of its row, as it was read; None: there was no row.
        before: the item in it.
        change: the change; None: the operation is a check.
        held: whether the row is locked.
        attempt: the attempt at the change.
        lock: the lock.
        call: the call that locks the row.
    """

    work: Work
    row: Row | None
    before: Stored | None
    change: RowChange | None
    held: Held = "no"
    attempt: Attempt | None = None
    lock: Lock | None = None
    call: CheckAndMutateRow | None = None


def judged(writer: Writer, work: Work, row: Row | None) -> Part | Refused | BadValue:
    """The operation on the row that was read, or why it is refused."""
    before = writer.places.stored(None if row is None else writer.places.item_of(row))
    try:
        verdict = evaluate(writer, work.request, work.row_key, before)
    except BadValue as error:
        return error
    if isinstance(verdict, Refused):
        return verdict
    if before is not None and not before.revision and work.unrevised:
        raise writer.places.no_revision(work.row_key)
    return Part(work, row, before, verdict if isinstance(verdict, RowChange) else None)


def prepare(
    writer: Writer, cells: LockCells, part: Part, age: tuple[int, str], now: int
) -> Sequence[CheckAndMutateRow]:
    """Make the lock for an operation. Returns the calls that write the counters that its item lacks.

    Args:
        writer: the writer of the table.
        cells: where its locks stand.
        part: the operation, which gets the lock and the call for it.
        age: when the first attempt began, and the id of this one.
        now: the time of the write, in microseconds.

    Raises:
        Unsupported: the item has too many counters for the condition of one request.
        ItemTooLarge: the item does not fit into its lock.
    """
    places, id, before, tag, written = writer.places, part.work.row_key, part.before, _tag(part), None
    entity = writer.schema.entities.get(str(tag))
    unset = () if entity is None or not entity.counters else tuple(_unset(writer, cells, part, entity, now))
    if part.change is not None:
        part.attempt = Attempt.with_id(part.work, age[1], before, part.change)
        written = places.removed(id, before), () if part.change.removed else part.attempt.mutations(writer, now)
    lock = part.lock = cells.lock(id, part.row, before, tag, written, age, now)
    mutations, row = cells.mutations(lock, now), places.row(id)
    if before is None:
        free = cells.free(id, places.taken(id), checked=part.change is None)
        part.call = CheckAndMutateRow(writer.table, row, free, unmatched=mutations)
    else:
        asked = places.unchanged(id, before)
        if lock.counters:
            # An increment does not change the revision, and one since the read would be lost when the row is written
            # from its lock.
            asked = chained(asked, *_unchanged(lock.counters))
        part.call = CheckAndMutateRow(writer.table, row, asked, matched=mutations)
    if lock.counters and part.call.predicate is not None and not fits(part.call.predicate):
        raise Unsupported(
            f"row {id!r} of table {writer.table!r} has too many counters for the condition of one request, which has "
            "at most 20 KB: write it alone, not in a transaction"
        )
    for mutation in mutations:
        if isinstance(mutation, SetCell) and len(mutation.value) > MAX_CELL:
            raise ItemTooLarge(
                f"row {id!r} of table {writer.table!r} needs {len(mutation.value)} bytes for its lock, and Bigtable "
                f"allows {MAX_CELL} in a cell: write it alone, not in a transaction"
            )
    return unset


def _tag(part: Part) -> Value:
    """The tag of the item that an operation leaves in its row; None if it does not know."""
    if part.before is not None:
        return part.before.item.get(TAG)
    return part.work.request.item.get(TAG) if isinstance(part.work.request, Put) else None


def _unset(writer: Writer, cells: LockCells, part: Part, entity: EntitySchema, now: int) -> Iterator[CheckAndMutateRow]:
    """The calls that write the counters that an item lacks, with the values that it shows; adds them to its row."""
    before = part.before
    if before is None or part.row is None:
        return
    places, id = writer.places, part.work.row_key
    there = {cell.qualifier for cell in cells.counters(part.row, before)}
    for name in entity.counters:
        stored = entity.codec.stored[name]
        if not cells.counts(before, stored) or writer.form.kind(stored) != "counter":
            continue
        default = entity.cls.model_fields[name].default
        shown = default if type(default) is int and stored not in before.item else 0
        column = qualifier(stored)
        made = places.counted(id, column, write_counter(shown), now)
        cell = Cell(COUNTERS, made.qualifier.encode("utf-8", "surrogateescape"), write_counter(shown), made.timestamp)
        if cell.qualifier not in there:
            yield CheckAndMutateRow(writer.table, places.row(id), places.counter(id, column), unmatched=(made,))
            part.row = Row(part.row.key, (*part.row.cells, cell))


def _unchanged(counters: Sequence[Cell]) -> Iterator[Filter]:
    """For each counter, a filter that returns a cell if it is as it was read."""
    for cell in counters:
        yield chain(newest(COUNTERS, cell.qualifier.decode("utf-8", "surrogateescape")), ValueIs(cell.value))


_LOG = logging.getLogger("odm.bigtable")

COSTS = (
    "one to read {1}, unless all are inserts or were read before; then, at the same time, {0} that lock rows and one "
    "for each index with new keys; then the commit. After the answer: {0} that write rows, at the same time; then one "
    "for each index with old keys, and one that removes the record"
)
"""The requests of a transaction without rivals; see docs/bigtable.md, "Transactions"."""


_INSTEAD = (
    "declare Table(..., transactions=True), in all programs that use the table; write them one by one, in an order in "
    "which stopping in between does no harm, or with batch() if the order does not matter; or keep what must change "
    "together in one item"
)

ONCE = (
    "an update with retry_safe=True on Bigtable: if the answer is lost and another writer changes the row, nothing "
    "shows whether the update was applied. Declare Table(..., transactions=True), in all programs that use the table; "
    "remove retry_safe, and read the item on an OutcomeUnknown; or give the item a Revision and update the entity that "
    "you read, which cannot be applied twice"
)
"""Why an `odm.protocol.requests.Transact` with ``once`` is not supported."""


def unsupported_reason(row_keys: Sequence[str]) -> str | None:
    """Why these rows cannot be changed in one transaction, and what to do instead; None if they are one row."""
    rows = tuple(dict.fromkeys(row_keys))
    if len(rows) < 2:
        return None
    return f"Bigtable changes one row at a time, and these are {len(rows)}: {', '.join(map(repr, rows))}: {_INSTEAD}"


class Transactions(Immutable):
    """The transactions of a table without locks: of items that one call can change together.

    Attributes:
        writes: how items are written.
    """

    writes: ItemWrites

    def transact(self, request: Transact) -> Steps[Written | Refusals]:
        """Apply operations, all or none.

        Raises:
            Unsupported: they are on several rows, or must be applied once.
        """
        table = self.writes.writer.table
        if request.once:
            raise Unsupported(f"table {table!r}: {ONCE}")
        if (reason := self.unsupported_reason([operation.key for operation in request.operations])) is not None:
            raise Unsupported(f"table {table!r}: no transaction of several items: {reason}")
        return self.writes.transact(request)

    def costs(self, request: Transact) -> str:
        """Which calls a transaction makes, in words; "" if it is made as a single write."""
        return ""

    def unsupported_reason(self, keys: Sequence[Key]) -> str | None:
        """Why the items with these keys cannot be written in one transaction; None: they are one row."""
        writer = self.writes.writer
        return unsupported_reason([writer.places.row(writer.row_key(key)) for key in keys])

    def read(self, keys: Sequence[Key], needed: Filter) -> Steps[dict[str, Row]]:
        """Read the items of each row as they were at one instant, by row key; missing items are omitted."""
        writer = self.writes.writer
        return writer.places.read_together(tuple(map(writer.row_key, keys)), writer.retry, needed)


class LockTransactions(Transactions):
    """The transactions of a table with locks.

    Attributes:
        locks: the locks.
    """

    locks: Locks

    def transact(self, request: Transact) -> Steps[Written | Refusals]:
        """Apply operations, all or none.

        Raises:
            OutcomeUnknown: the commit was not answered, and neither were the calls that would show its outcome.
            Throttled: other transactions and writers kept changing the items until the time was up; nothing was
                written.
            Unsupported: an item has too many counters for the condition of one request.
            ItemTooLarge: an item does not fit into its lock.
            OdmError: an item cannot be written; nothing was written.
        """
        writer = self.writes.writer
        keys = [operation.key for operation in request.operations]
        if not request.once and writer.places.in_one_call(keys):
            return (yield from self.writes.transact(request))
        outcome = yield from commit(writer, self.locks, request)
        return outcome if isinstance(outcome, Refusals) else Written()

    def costs(self, request: Transact) -> str:
        count = len(request.operations)
        if count < 2 and not request.once:
            return ""
        return COSTS.format(count, "the item" if count == 1 else f"{count} items")

    def unsupported_reason(self, keys: Sequence[Key]) -> str | None:
        return None

    def read(self, keys: Sequence[Key], needed: Filter) -> Steps[dict[str, Row]]:
        if len(keys) < 2:
            return super().read(keys, needed)
        return read_at_once(self.writes.writer, self.locks, keys, needed)


def transactions_of(writes: ItemWrites) -> Transactions:
    """The transactions of a table, with or without locks."""
    locks = writes.writer.places.locks
    return LockTransactions(writes, locks) if isinstance(locks, Locks) else Transactions(writes)


def commit(writer: Writer, locks: Locks, request: Transact) -> "Steps[Refusals | Sequence[Stored | None]]":
    """As `transact`; returns the items before the commit, as they were at one instant."""
    row_keys = [writer.row_keys.row_key(operation.key) for operation in request.operations]
    works = list(map(Work, request.operations, row_keys))
    # Kept over all attempts: a transaction that starts over grows older, and in the end no other one breaks its locks.
    since = writer.now()
    pauses: Pauses | None = None
    resolver = Resolver(locks, writer.retry, writer.now, (since, ""))
    # A new id for each attempt: a late call of a former attempt must not lock or unlock rows of this one.
    while True:
        id = writer.ids()
        resolver.order = since, id
        parts = yield from _judged(writer, resolver, works)
        if isinstance(parts, Refusals):
            return parts
        attempt = Trial(writer, locks, resolver, id, since, parts)
        if (yield from attempt.run()):
            # After the answer: with the record, everybody who meets one of these locks can carry out the transaction.
            yield Later(attempt.finish(), writer.background)
            return [part.before for part in parts]
        _LOG.info("a transaction of table %s starts over, because of another writer", writer.table)
        yield Notice("aborted")
        pauses = pauses or writer.retry.contention()
        if (wait := next(pauses, None)) is None:
            raise Throttled(
                f"a transaction of {len(works)} items of table {writer.table!r}, of which {works[0].row_key!r} is the "
                "first: other writers kept changing or locking its items until the time was up: nothing was written"
            )
        yield wait


def _judged(writer: Writer, resolver: Resolver, works: Sequence[Work]) -> Steps[list[Part] | Refusals]:
    """Read the rows and judge the operations. A refusal is only returned after a read.

    A row that the caller had loaded may be out of date.
    """
    loaded = {work.row_key: resolver.locks.cells.loaded(work.row) for work in works if work.row is not None}
    for work in works:
        work.unread = work.unread and (work.row is None or loaded[work.row_key] is not None)
    rows: dict[str, Row] = {}
    while True:
        reading = [work.row_key for work in works if not work.unread and work.row_key not in rows]
        rows |= yield from resolver.unlocked(reading, resolver.locks.cells.whole)
        parts = []
        verdicts: list[Refused | BadValue | None] = []
        torn = False
        for work in works:
            row = loaded.get(work.row_key) if work.unread else rows.get(work.row_key)
            part = judged(writer, work, row)
            if isinstance(part, Part) and work.torn(part.before):
                rows.pop(work.row_key, None)
                torn = True
            parts.append(part)
            verdicts.append(None if isinstance(part, Part) else part)
        unread = [work for work in works if work.unread]
        for work in works:
            work.unread = False
        if torn:
            continue
        if not any(verdicts):
            found = [part for part in parts if isinstance(part, Part)]
            yield from _check_space(writer, found)
            return found
        if not unread:
            return Refusals(tuple(verdicts))


def _check_space(writer: Writer, parts: Sequence[Part]) -> Steps[None]:
    """Refuse items for which their rows have no space. Raises ItemTooLarge."""
    written = [part for part in parts if part.change is not None and not part.change.removed]
    full = [part for part in written if not writer.places.has_space(part.before, refused=part.work.refused)]
    if full:
        yield from writer.places.check_space({writer.places.row(part.work.row_key): 0 for part in full}, writer.retry)


@define(eq=False)
class Trial:
    """One attempt at a transaction.

    Attributes:
        writer: the writer of the table.
        locks: the locks of the table.
        resolver: resolves the locks of other transactions.
        id: the id of the attempt.
        since: when the first attempt began.
        parts: the operations.
        recorded: there may be a record of this attempt.
        unanswered: the answer to a lock was lost: it may come late, and the record must stay if nothing is written.
        unconfirmed: the answer to the commit was lost: it may come late, and the record must stay.
        failure: why the transaction cannot be committed, in this or another attempt.
    """

    writer: Writer
    locks: Locks
    resolver: Resolver
    id: str
    since: int
    parts: Sequence[Part]
    recorded: bool = field(init=False, default=False)
    unanswered: bool = field(init=False, default=False)
    unconfirmed: bool = field(init=False, default=False)
    failure: OdmError | None = field(init=False, default=None)

    def run(self) -> Steps[bool]:
        """Lock the rows and commit. Returns whether the transaction is committed; if not, everything is given back.

        Raises:
            OdmError: the transaction cannot be committed, and was not; or its outcome is not known.
        """
        try:
            yield from self._set_up()
        except OutcomeUnknown as error:  # of counters, whose values stay the same
            raise BackendError(f"counters could not be set up, so nothing was written: {error}") from error
        lease = Lease(self.writer)
        held = yield from self._lock()
        # When the lease is over, a scrub could remove the claims before the commit is applied.
        if held and not lease.is_over() and (yield from self._commit()):
            return True
        if any(part.held == "unknown" for part in self.parts):  # such a lock may still come, and must block nobody
            yield from self._abort()
        yield from self._give_back()
        if self.failure is not None:
            raise self.failure
        return False

    def _abort(self) -> Steps[None]:
        """Write the record "aborted". No commit was sent, so nothing was written, whether or not this succeeds."""
        self.recorded = True
        try:
            yield from records.abort(self.locks.records, self.id, self.writer.retry)
        except OdmError as error:
            self.failure = BackendError(f"a transaction could not be aborted; nothing was written: {error}")
            self.failure.__cause__ = error

    def _set_up(self) -> Steps[None]:
        """Make the locks, and the counters that items lack: a condition cannot require that a cell is missing."""
        unset: list[CheckAndMutateRow] = []
        now = self.writer.now()
        for part in self.parts:
            unset += prepare(self.writer, self.locks.cells, part, (self.since, self.id), now)
        if unset:
            yield from together([until_answered(call, self.writer.retry) for call in unset])

    def _lock(self) -> Steps[bool]:
        """Lock all rows and claim all entries. Returns whether all of that was done."""
        claims = columns_of(self.writer, [(attempt, attempt.claimed) for attempt in self._attempts], claim=True)
        # All are answered before the commit: a lock that is refused after it would leave a part of the transaction
        # unwritten.
        answers = yield from together([*map(self._send, self.parts), self._claim(claims)])
        looks = [
            self._contend(part) if answer == "refused" else self._look(part)
            for part, answer in zip(self.parts, answers, strict=False)
            if answer in ("refused", "lost")
        ]
        try:
            if looks:
                yield from together(looks)
        except OdmError as error:
            self.failure = error
        return self.failure is None and all(part.held == "yes" for part in self.parts)

    def _send(self, part: Part) -> Steps[str]:
        """Send the call that locks a row, once. Returns "held", "refused", "lost" or "failed".

        A second copy that is applied after the row was unlocked, and its item deleted, would lock the place again.
        """
        call = part.call
        assert call is not None
        try:
            answer = yield call
        except NATIVE_FAILURES as failure:
            answer = failure
        if isinstance(answer, Exception):
            if is_lost(answer):
                part.held = "unknown"
                _LOG.warning("the answer to a lock was lost (%s): reading the row", kind_of(answer))
                return "lost"
            self.failure = translate(answer, call)
            self.failure.__cause__ = answer
            return "failed"
        if answer is not bool(call.matched):
            part.work.refused = True
            return "refused"
        part.held = "yes"
        return "held"

    def _claim(self, claims: ClaimRows) -> Steps[str]:
        """Claim the index entries. Returns "held" or "failed"."""
        try:
            stuck = yield from write_many(claims, self.writer.retry)
        except OdmError as error:
            self.failure = BackendError(f"index entries could not be written, so nothing was written: {error}")
            self.failure.__cause__ = error
            return "failed"
        if stuck is None:
            return "held"
        self.failure = Throttled(f"index entries could not be written, so nothing was written: {stuck.reason}")
        return "failed"

    def _look(self, part: Part) -> Steps[None]:
        """Look at a row whose lock was not answered. If it is not locked, the call may still be applied."""
        self.unanswered = True
        row = yield from self._read(part)
        lock = None if row is None else self.locks.cells.lock_of(row)
        if lock is not None and lock.id == self.id:
            part.held = "yes"

    def _contend(self, part: Part) -> Steps[None]:
        """Look at a row whose lock was refused: break the lock of a younger transaction, and try again.

        If each broke the locks that it meets, two transactions could abort each other forever. For an older one the
        caller waits without any lock: two that wait and hold locks would block each other.
        """
        while True:
            row = yield from self._read(part)
            lock = None if row is None else self.locks.cells.lock_of(row)
            if lock is None or lock.order < (self.since, self.id):  # changed, or locked by an older transaction
                return
            yield from self.resolver.resolve([(part.work.row_key, lock)])
            answer = yield from self._send(part)  # the first call was answered, so it is not under way
            if answer == "lost":
                yield from self._look(part)
            if answer != "refused":
                return

    def _read(self, part: Part) -> Steps[Row | None]:
        id = part.work.row_key
        rows = yield from self.locks.cells.read((id,), self.locks.cells.whole, self.writer.retry)
        return rows.get(id)

    def _commit(self) -> Steps[bool]:
        """Write the record. Returns whether the transaction is committed."""
        rows = [part.work.row_key for part in self.parts]
        call = records.commit(self.locks.records, self.id, rows)
        try:
            answer = yield call
        except NATIVE_FAILURES as failure:
            answer = failure
        if answer is False:
            return True
        if not isinstance(answer, Exception):
            self.recorded = True
            return False
        if not is_lost(answer):
            self.failure = translate(answer, call)
            self.failure.__cause__ = answer
            return False
        _LOG.warning("the answer to a commit was lost (%s): reading its record", kind_of(answer))
        self.unconfirmed = self.recorded = True
        try:
            return (yield from self._outcome())
        except OdmError as error:
            raise OutcomeUnknown(
                f"a transaction of {len(self.parts)} items of table {self.writer.table!r}, of which {rows[0]!r} is the "
                f"first: the answer to the commit was lost, and its record cannot be read ({error}): the transaction "
                "may or may not have been applied; read the items before going on"
            ) from error

    def _outcome(self) -> Steps[bool]:
        """Whether a commit without an answer was applied; if not, it cannot be any more."""
        pauses = self.writer.retry.pauses()
        while True:
            said = yield from records.states(self.locks.records, (self.id,), self.writer.retry)
            if self.id in said:
                return said[self.id] == "committed"
            try:
                # Commit and abort are the same conditional write of the record, so the first one wins and a late commit
                # is refused.
                if (yield from records.abort(self.locks.records, self.id, self.writer.retry)):
                    return False
            except OutcomeUnknown:  # of the abort: the record shows it
                if (wait := next(pauses, None)) is None:
                    raise
                yield wait

    def _give_back(self) -> Steps[None]:
        """Unlock the rows, and remove the claims and the record."""
        held = [part for part in self.parts if part.held != "no"]
        unlocked = yield from self._all(held, self.locks.cells.back)
        yield from clean(
            self.writer, columns_of(self.writer, [(attempt, attempt.claimed) for attempt in self._attempts])
        )
        # Without the record, a lock of this attempt that is applied late would block its row, and a late commit would
        # be valid.
        if unlocked and self.recorded and not (self.unanswered or self.unconfirmed):
            yield from self._forget()

    def finish(self) -> Steps[None]:
        """Carry out a transaction that is committed. A failure is logged: other writers and scrubs go on with it."""
        if not (yield from self._all(self.parts, self.locks.cells.forward)):
            return
        # Only after all rows are written: without the record, rows that are still locked would show their former state.
        stale = clean(self.writer, columns_of(self.writer, [(attempt, attempt.stale) for attempt in self._attempts]))
        yield from together([stale, *([] if self.unconfirmed else [self._forget()])])

    def _all(self, parts: Sequence[Part], how: Callable[..., CheckAndMutateRow]) -> Steps[bool]:
        """Resolve the locks of this attempt. Returns whether all calls were answered."""
        try:
            done = yield from together([self._resolved(part, how) for part in parts])
        except OdmError as error:
            kind = kind_of(error)
            _LOG.warning("locks of table %s stay until another writer needs the rows: %s", self.writer.table, kind)
            return False
        self.recorded = self.recorded or not all(done)  # another writer has resolved a lock, by a record
        return True

    def _resolved(self, part: Part, how: Callable[..., CheckAndMutateRow]) -> Steps[bool]:
        """Resolve a lock. Returns False if another writer has done it, or if the row was not locked."""
        call = how(part.work.row_key, part.lock, self.writer.now())
        done: bool = yield from until_answered(call, self.writer.retry)
        return done

    def _forget(self) -> Steps[None]:
        try:
            yield from records.remove(self.locks.records, (self.id,), self.writer.retry)
        except OdmError as error:
            _LOG.warning("a record of table %s stays until odm scrub removes it: %s", self.writer.table, kind_of(error))

    @property
    def _attempts(self) -> Sequence[Attempt]:
        return [part.attempt for part in self.parts if part.attempt is not None]


READS = 8
"""The number of reads before the rows are locked. Two equal reads cost less than locks, which write each row twice."""


def read_at_once(writer: Writer, locks: Locks, keys: Sequence[Key], wanted: Filter) -> Steps[dict[str, Row]]:
    """Read items as they were at one instant, by row key; missing items are omitted.

    Raises:
        Throttled: other writers kept changing the items until the time was up.
    """
    row_keys, cells = tuple(map(writer.row_key, keys)), writer.places.cells(wanted)
    last: dict[str, Row] = {}
    versions = locks.cells.versions
    for number in range(READS):
        read = yield from locks.cells.read(row_keys, cells, writer.retry)
        if locks.cells.at_one_instant(row_keys) and not locks.cells.held(read.values()):
            return writer.places.named(read, cells)
        rows = yield from locks.committed([*read.values()], cells, writer.retry)
        found = {row.text: row for row in rows}
        if len(found) < len(row_keys) or not locks.cells.shows_changes(row_keys, rows):
            break
        if number and all(versions(last[key]) == versions(row) for key, row in found.items()):
            return writer.places.named(found, cells)
        last = found
    held = yield from commit(writer, locks, Transact(tuple(map(Check, keys))))
    assert not isinstance(held, Refusals)  # the checks have no conditions
    return {key: before.row for key, before in zip(row_keys, held, strict=True) if before is not None}
