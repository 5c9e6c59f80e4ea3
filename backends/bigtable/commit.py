"""Read, claim, commit, clean: writes that depend on the stored row, and that keep index rows consistent with items.

Bigtable is atomic for one row only, and the index entries of an item are rows of other tables. So each *attempt* at a
write takes a new random id and has four steps:

1. **Read** the row: its item, its revision ``~r`` and the list ``_ix`` of its index entries.
2. **Claim**: in the index row of each new entry, set a column whose qualifier is the attempt's id. All claims are
   acknowledged before step 3. Entries that the item already lists keep their column.
3. **Commit**: one CheckAndMutateRow of the item's row. If the revision is unchanged since the read (or the item was
   absent, and still is), it writes the attributes, the id as the new revision, and the new list. An id is sent in one
   commit only.
4. **Clean**: remove the columns of the entries that are in the old list but not in the new one. Rows are never removed.

So every entry that an item lists exists. A column that no item lists is garbage, which readers ignore.

* If the commit is refused, remove the attempt's claims and start over with a new id, after a random pause.
* If the response to the commit is lost, remove nothing and resend nothing. Read the row again. If it has the attempt's
  id, as its revision or in its list (after a delete: if there is no item), the commit was applied: go on with step 4.
  If the revision is unchanged, start over with a new id; both commits check that revision, so only one of the two can
  be applied. If another writer has written since, and the row has no id of this write, the outcome cannot be known: a
  put without a condition starts over, all other writes raise `OutcomeUnknown`. A delete that starts over could remove
  an item that was inserted after the first one was applied.
* If so much time has passed since the first claim that `odm scrub` might take the claims for garbage, start over.

Claims and cleaning are idempotent, so they are retried until they are answered; cleaning after the answer to the write,
which does not depend on it. If cleaning fails, or the writer stops before it, the columns remain until `odm scrub`
removes them. A failure to clean is logged and not raised, because the item itself was written.
"""

import logging
from collections.abc import Callable, Iterable, Sequence
from typing import TypeAlias

from odm.backends.bigtable.codec import (
    LISTED,
    REVISION,
    TAG,
    Listed,
    Stored,
)
from odm.backends.bigtable.entries import entry_row, index_table
from odm.backends.bigtable.errors import is_lost, kind_of, translate
from odm.backends.bigtable.evaluate import RowChange, evaluate, set_up
from odm.backends.bigtable.filters import chained, interleave, newest
from odm.backends.bigtable.loading import RowItem
from odm.backends.bigtable.merges import MergedPut
from odm.backends.bigtable.native import (
    ENTRIES,
    FAMILY,
    ITEM,
    SERVER_TIME,
    CheckAndMutateRow,
    DeleteColumn,
    Entry,
    Mutation,
    SetCell,
    Steps,
)
from odm.backends.bigtable.retry import all_of, pausing_later, write_many
from odm.backends.bigtable.writer import Writer, versioned
from odm.codec import VERSION
from odm.errors import BackendError, OdmError, OutcomeUnknown
from odm.immutable import Immutable
from odm.protocol.requests import Delete, Operation, Put, Refused, Update, Written, repeatable

_LOG = logging.getLogger("odm.bigtable")

LEASE_SECONDS = 3600.0
"""How long `odm scrub` does not remove a claim. Assumes that no call is applied later than this after it was sent."""

COMMIT_WITHIN = LEASE_SECONDS / 4
"""The maximum time between the first claim of an attempt and its commit; also the maximum deadline of a commit."""

COMMITS = 16
"""The maximum number of concurrent commits."""

BOOKKEEPING = interleave(newest(FAMILY, TAG), newest(FAMILY, REVISION), newest(FAMILY, LISTED))
"""The tag, the revision and the list of index entries."""

Rows: TypeAlias = dict[str, list[Entry]]
"""Changes of rows of index tables, by table."""

Commit: TypeAlias = Callable[
    [Writer, Sequence["Attempt"], list["Attempt"], list["Attempt"], list[OdmError]], Steps[None]
]
"""Commits attempts; see `_commit`."""


class Work:
    """One write, over all its attempts.

    Attributes:
        request: the write.
        row_key: the row key of its item.
        answer: the response to the write; None until it is applied or refused.
        lost: the attempts whose commit was not answered.
        unread: the next attempt skips the read: the first attempt of an insert, which expects no item, or of an update
            of an entity whose row was loaded before.
        row: the row that was loaded before.
        refused: the last commit was refused.
    """

    def __init__(self, request: Operation, row_key: str, *, refused: bool = False) -> None:
        self.refused = False
        self.request = request
        self.row_key = row_key
        self.answer: Written | Refused | None = None
        self.lost: list[Attempt] = []
        base = request.base if isinstance(request, Update) else None
        self.row = base.row if isinstance(base, RowItem) else None
        inserts = isinstance(request, Put) and request.presence in ("absent", "expired")
        self.unread = not refused and (inserts or self.row is not None)

    @property
    def plain(self) -> bool:
        """Whether the write may be repeated: it has no condition, and its result does not depend on the stored item."""
        if isinstance(self.request, MergedPut):
            return repeatable(self.request.merge)
        keeps = isinstance(self.request, Put) and self.request.known is not None
        return self.request.condition is None and not isinstance(self.request, Update) and not keeps

    @property
    def once(self) -> bool:
        """Whether the write must not be applied twice, even if the item is deleted in between."""
        return isinstance(self.request, Put) and self.request.once

    def landed(self, before: Stored | None) -> "Attempt | None":
        """The attempt whose response was lost but which was applied, if the row shows one.

        Raises:
            OutcomeUnknown: another writer has written since, so the row no longer shows the outcome. Or both the lost
                commit and a new attempt may be applied: an insert whose item is deleted in between.
        """
        for attempt in self.lost:
            if attempt.shows_in(before):
                return attempt
        moved = bool(self.lost) and _revision(before) != _revision(self.lost[-1].before)
        again = self.plain and not isinstance(self.request, Delete)  # it could delete what was inserted since
        if self.lost and not again and (moved or (before is None and self.once)):
            raise OutcomeUnknown(
                f"the answer to a write of row {self.row_key!r} was lost"
                f"{', and another writer has written to the row since' * moved}: "
                "the write may or may not have been applied; read the item before going on"
            )
        return None


class Attempt(Immutable):
    """One attempt at a write, ready to be committed.

    Attributes:
        work: the write.
        id: the attempt's unique id.
        before: the item that was read; None: it did not exist.
        change: the change of the row.
        listed: the entries that the item lists after the commit.
    """

    work: Work
    id: str
    before: Stored | None
    change: RowChange
    listed: tuple[Listed, ...]

    @classmethod
    def of(cls, writer: Writer, work: Work, before: Stored | None, change: RowChange) -> "Attempt":
        """A new attempt at a change of the item that was read."""
        return cls.with_id(work, writer.ids(), before, change)

    @classmethod
    def with_id(cls, work: Work, id: str, before: Stored | None, change: RowChange) -> "Attempt":
        """The attempt with this id, which becomes the revision together with the version of the item."""
        item = change.item if change.item is not None or before is None else before.item
        version = None if item is None else item.get(VERSION)
        listed: tuple[Listed, ...] = ()
        revision = versioned(id, version) if version else id
        if change.entries:
            had = () if before is None else before.entries
            known = {(entry.index, entry.key): entry for entry in had}
            # entries that the item already lists keep their qualifier; that of a new entry is the attempt's id
            listed = tuple(known.get(entry) or Listed(*entry, revision) for entry in change.entries.items())
        return cls(work, revision, before, change, listed)

    def shows_in(self, now: Stored | None) -> bool:
        """Whether the row, as read now, shows that this attempt was applied."""
        if now is None:
            return self.change.removed
        return now.revision == self.id or any(entry.qualifier == self.id for entry in now.entries)

    def call(self, writer: Writer) -> CheckAndMutateRow:
        """The commit.

        Raises:
            BackendError: the row has no revision for the commit to check.
        """
        id, row = self.work.row_key, writer.places.row(self.work.row_key)
        if self.before is None:
            return CheckAndMutateRow(writer.table, row, writer.places.taken(id), unmatched=self.mutations(writer))
        if not self.before.revision:
            raise writer.places.no_revision(id)
        same = chained(writer.places.unchanged_for(id, self.before, self.work.request), *self.change.guards.filters)
        return CheckAndMutateRow(writer.table, row, same, matched=self.mutations(writer))

    def mutations(self, writer: Writer, now: int | None = None) -> tuple[Mutation, ...]:
        """The mutations of the commit; ``now``: the time of the write, in microseconds, if it is known already."""
        change, id, now = self.change, self.work.row_key, writer.now() if now is None else now
        if change.removed:
            return writer.places.removed(id, self.before)
        if change.item is not None:
            return writer.places.replaced(change.item, id, self.id, self.listed, now, self.before)
        assert self.before is not None  # only an item that was read is updated
        return (*change.mutations, *writer.places.noted(id, self.before, self.id, self.listed, now))

    @property
    def claimed(self) -> tuple[Listed, ...]:
        """The entries that the attempt adds."""
        return tuple(entry for entry in self.listed if entry.qualifier == self.id)

    @property
    def stale(self) -> tuple[Listed, ...]:
        """The entries that the attempt removes."""
        return () if self.before is None else tuple(one for one in self.before.entries if one not in self.listed)


def settle(writer: Writer, works: Sequence[Work]) -> Steps[str | None]:
    """Make attempts until every write has its answer. Returns None, or the reason if the time is up before that.

    Raises:
        OutcomeUnknown: the outcome of a write that must not be applied twice is not known.
        OdmError: a write cannot be applied.
    """
    pauses = writer.retry.contention()
    while True:
        attempts = yield from _attempts(writer, [work for work in works if work.answer is None])
        reason = (yield from perform(writer, attempts)) if attempts else None
        left = [work for work in works if work.answer is None]
        if not left or reason is not None:
            return reason
        if (wait := next(pauses, None)) is None:
            return f"other writers kept changing {left[0].row_key!r}, or no answer came, until the time was up"
        yield wait


def _attempts(writer: Writer, works: Sequence[Work]) -> Steps[list[Attempt]]:
    """Read the rows of the writes. Answers the writes that the rows decide; returns attempts for the others."""
    reading = tuple(work.row_key for work in works if not work.unread)
    # writes without a condition need only the revision, the list, and whether another program has cells in the row
    few = all(work.plain and not isinstance(work.request, MergedPut) for work in works)
    columns = writer.form.owned.bookkeeping if few else ITEM
    rows = (yield from writer.read(reading, columns)) if reading else {}
    landed: list[Attempt] = []
    attempts: list[Attempt] = []
    for work in works:
        before, work.unread = writer.places.stored(work.row if work.unread else rows.get(work.row_key)), False
        if (done := work.landed(before)) is not None:
            work.answer = done.change.answer
            landed.append(done)
            continue
        verdict = evaluate(writer, work.request, work.row_key, before)
        if isinstance(verdict, RowChange):
            if not verdict.removed and not writer.places.has_space(before, refused=work.refused):
                yield from writer.places.check_space({writer.places.row(work.row_key): 0}, writer.retry)
            attempts.append(Attempt.of(writer, work, before, verdict))
        else:
            work.answer = verdict
    yield from tidy(writer, landed)
    return attempts


def perform(
    writer: Writer, attempts: Sequence[Attempt], commit: "Commit | None" = None, together: int | None = None
) -> Steps[str | None]:
    """Claim, commit and clean. Refused writes stay without an answer. Returns the reason if claims could not be set.

    Args:
        writer: the writer of the table.
        attempts: the attempts.
        commit: commits some attempts, and sorts them by their answers; default: each by itself.
        together: the number of attempts that it commits; default: `COMMITS`.

    Raises:
        OdmError: a write cannot be applied, and was not.
    """
    claims = columns_of(writer, ((one, one.claimed) for one in attempts), claim=True)
    lease = Lease(writer)
    try:
        stuck = yield from write_many(claims, writer.retry)
    except OutcomeUnknown as error:  # of the claims, which have no effect without a commit
        raise BackendError(f"index entries could not be written, so the item was not written: {error}") from error
    if stuck is not None:
        return f"index entries could not be written, so the items were not written: {stuck.reason}"
    for attempt in attempts:
        yield from set_up(writer, attempt.change.guards)
    done: list[Attempt] = []
    undone: list[Attempt] = []
    failures: list[OdmError] = []
    size = together or COMMITS
    for start in range(0, len(attempts), size):
        some = attempts[start : start + size]
        if claims and lease.is_over():
            undone += some
        else:
            yield from (commit or _commit)(writer, some, done, undone, failures)
    gone = [*((one, one.stale) for one in done), *((one, one.claimed) for one in undone)]
    yield from clean(writer, columns_of(writer, gone))
    if failures:
        raise failures[0]
    return None


def _commit(
    writer: Writer,
    attempts: Sequence[Attempt],
    done: list[Attempt],
    undone: list[Attempt],
    failures: list[OdmError],
) -> Steps[None]:
    """Commit the attempts at the same time, and sort them by their answers.

    Adds applied attempts to ``done``, refused and failed attempts to the second list, the errors to ``failures``, and
    attempts without an answer to their work.
    """
    calls = [attempt.call(writer) for attempt in attempts]
    answers = yield from all_of(calls)
    for attempt, call, answer in zip(attempts, calls, answers, strict=True):
        sort((attempt,), call, answer, done, undone, failures)


def sort(  # as `_commit`
    attempts: Sequence[Attempt],
    call: CheckAndMutateRow,
    answer: bool | Exception,
    done: list[Attempt],
    undone: list[Attempt],
    failures: list[OdmError],
) -> None:
    """Sort the attempts that one call commits by its answer; see `_commit`."""
    if isinstance(answer, Exception) and is_lost(answer):
        _LOG.warning("the answer to a write was lost (%s): reading the row", kind_of(answer))
        for attempt in attempts:
            attempt.work.lost.append(attempt)
    elif isinstance(answer, Exception):
        undone += attempts
        error = translate(answer, call)
        error.__cause__ = answer
        failures.append(error)
    elif answer is bool(call.matched):
        for attempt in attempts:
            attempt.work.answer = attempt.change.answer
        done += attempts
    else:
        for attempt in attempts:
            attempt.work.refused = True
        undone += attempts


class Lease:
    """Measures the time since the first claim.

    Uses the larger time of two clocks: the monotonic clock may stop during sleep, and the other one may be set back.
    """

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._began, self._wall = writer.retry.clock(), writer.now()

    def is_over(self) -> bool:
        """Whether it is too late to send a commit."""
        passed = self._writer.retry.clock() - self._began
        return max(passed, (self._writer.now() - self._wall) / 1_000_000) > COMMIT_WITHIN


def tidy(writer: Writer, attempts: Iterable[Attempt]) -> Steps[None]:
    """Clean after attempts that were applied."""
    return clean(writer, columns_of(writer, ((one, one.stale) for one in attempts)))


def clean(writer: Writer, columns: Rows) -> Steps[None]:
    """Remove columns of index rows; after the answer, if that needs another attempt.

    An id is in one commit only, so its columns are garbage from now on, whatever other writers do.
    """
    return pausing_later(_remove(writer, columns), writer.background)


def _remove(writer: Writer, columns: Rows) -> Steps[None]:
    """Remove columns of index rows; log a failure, and leave the columns to `odm scrub`."""
    try:
        stuck = yield from write_many(columns, writer.retry)
    except OdmError as error:
        _LOG.warning("stale index columns of %s stay until odm scrub removes them: %s", writer.table, kind_of(error))
    else:
        if stuck is not None:
            _LOG.warning("stale index columns of %s stay until odm scrub removes them", writer.table)


def columns_of(writer: Writer, of: Iterable[tuple[Attempt, tuple[Listed, ...]]], *, claim: bool = False) -> Rows:
    """The mutations that set the columns of entries, or delete them."""
    rows: Rows = {}
    for attempt, entries in of:
        work = attempt.work
        for entry in entries:
            mutation: Mutation = DeleteColumn(entry.qualifier, ENTRIES)
            if claim:
                mutation = SetCell(entry.qualifier, work.row_key.encode(), SERVER_TIME, ENTRIES)
            row = Entry(entry_row(entry.key, work.request.key), (mutation,))
            rows.setdefault(index_table(writer.table, entry.index), []).append(row)
    return rows


def _revision(before: Stored | None) -> str | None:
    return None if before is None else before.revision
