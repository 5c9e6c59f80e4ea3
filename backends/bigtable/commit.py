"""Read, claim, commit, clean: writes that are worked out from the row as it is, and keep index rows right.

Bigtable changes one row in one step, and the entries of an item stand in rows of index tables. So each *attempt*
at a write has a fresh random id, and goes:

1. **read** the row: its item, its revision ``~r`` and the list ``_ix`` of the entries that it has;
2. **claim**: in the row of each entry that is new, set a column of which the attempt's id is the qualifier. All claims
   are acknowledged before the next step. Entries that the item has already keep the column that they have;
3. **commit**: one check-and-mutate of the item's row. If the revision is what was read, or if there was no item and
   is none: the attributes, the id as the new revision, the new list. An id is in one commit only;
4. **clean**: remove exactly the columns that the old list has and the new one lacks. Rows are never removed.

So every entry that an item lists is there; what is there and not listed is garbage, which readers pass over.

* Refused at 3: the attempt's claims are removed, and it starts over, with jitter.
* Answer lost at 3: nothing is removed, nothing is sent again. The row is read: if it has the id of the attempt, as its
  revision or in its list (after a delete: if there is no item), the commit was done, and 4 is next. If it is as it was
  before, the attempt is made anew under another id; by the revision only one of the two can be done. If somebody else
  has written since, and nothing of ours is left, nobody can tell: what has no condition is done again, all
  else raises `OutcomeUnknown`.
* So much later than the first claim that `odm scrub` might take the claims for garbage: it starts over.

Claims and cleaning may be applied twice, so they are sent until they are answered. If cleaning never is, or the
writer stops before it, columns stay for `odm scrub` to remove. The write itself is done all the same, so that is logged
and not an error: one would say that the caller's item was not written.
"""

import logging
from collections.abc import Iterable, Sequence
from typing import TypeAlias

from attrs import Factory, field, frozen

from odm.backends.bigtable.bulk import read_many, write_many
from odm.backends.bigtable.codec import (
    LISTED,
    REVISION,
    TAG,
    Listed,
    Stored,
    bookkeeping,
    replacement,
    stored,
)
from odm.backends.bigtable.counters import set_up
from odm.backends.bigtable.entries import entry_row, index_table
from odm.backends.bigtable.errors import is_lost, translate
from odm.backends.bigtable.evaluate import RowChange, evaluate
from odm.backends.bigtable.expressions import revision_is
from odm.backends.bigtable.filters import chained, interleave, newest
from odm.backends.bigtable.loading import RowItem
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
from odm.backends.bigtable.ownership import REMOVED
from odm.backends.bigtable.retry import all_of
from odm.backends.bigtable.writer import Writer
from odm.codec import VERSION
from odm.errors import BackendError, OdmError, OutcomeUnknown
from odm.expressions.nodes import Condition, Or, Value
from odm.protocol.predicates import ABSENT
from odm.protocol.requests import Operation, Put, Refused, Update, Written

_LOG = logging.getLogger("odm.bigtable")

LEASE_SECONDS = 3600.0
"""So long a claim is left alone by `odm scrub`; no call may be applied later than this after it was sent."""

COMMIT_WITHIN = LEASE_SECONDS / 4
"""So long after its first claim an attempt may still be committed."""

COMMITS = 16
"""So many rows are committed at the same time."""

BOOKKEEPING = interleave(newest(FAMILY, TAG), newest(FAMILY, REVISION), newest(FAMILY, LISTED))
"""What a row holds next to the attributes of an item."""

Rows: TypeAlias = dict[str, list[Entry]]
"""What to do to rows of index tables, by table."""


class Work:
    """One write on its way.

    Attributes:
        request: what was asked.
        row_key: of its item.
        answer: None until it is done or refused.
        lost: the attempts whose commit was not answered.
        unread: it was not refused yet, and is tried once without a read: an insert as if there were no item, an update
            by the row that it was worked out from.
        row: that row.
    """

    def __init__(self, request: Operation, row_key: str, *, refused: bool = False) -> None:
        self.request = request
        self.row_key = row_key
        self.answer: Written | Refused | None = None
        self.lost: list[Attempt] = []
        base = request.base if isinstance(request, Update) else None
        self.row = base.row if isinstance(base, RowItem) else None
        inserts = isinstance(request, Put) and _expects_nothing(request.condition)
        self.unread = not refused and (inserts or self.row is not None)

    @property
    def plain(self) -> bool:
        """Whether it may be done again: it asks nothing of the item and takes nothing from it."""
        return self.request.condition is None and not isinstance(self.request, Update)

    @property
    def once(self) -> bool:
        """Whether it must not be done twice, whatever becomes of the item in between."""
        return isinstance(self.request, Put) and self.request.once

    def landed(self, before: Stored | None) -> "Attempt | None":
        """The attempt that was done although its answer was lost, if the row shows one.

        Raises:
            OutcomeUnknown: somebody else has written since, and it cannot be told; or the write could still be done,
                and then again when it is sent again: an insert where the item that it makes is deleted in between.
        """
        for attempt in self.lost:
            if attempt.shows_in(before):
                return attempt
        moved = bool(self.lost) and _revision(before) != _revision(self.lost[-1].before)
        if self.lost and not self.plain and (moved or (before is None and self.once)):
            raise OutcomeUnknown(
                f"the answer to a write of row {self.row_key!r} was lost"
                f"{', and somebody else has written to it since' * moved}: "
                "the write may or may not have been applied; read the item before going on"
            )
        return None


@frozen
class Attempt:
    """A write that is ready to be committed.

    Attributes:
        work: what it is for.
        id: in no other commit.
        before: what was read; None: no item.
        change: what it does.
        listed: the entries that the item has afterwards.
    """

    work: Work
    id: str
    before: Stored | None
    change: RowChange
    listed: tuple[Listed, ...] = field(init=False, default=Factory(lambda self: self._list(), takes_self=True))

    def _list(self) -> tuple[Listed, ...]:
        """Entries that the item has keep their qualifier; those that it gets have the attempt's id."""
        had = () if self.before is None else self.before.entries
        known = {(entry.index, entry.key): entry for entry in had}
        return tuple(known.get(entry) or Listed(*entry, self.id) for entry in self.change.entries.items())

    def shows_in(self, now: Stored | None) -> bool:
        """Whether the row, as it is now, tells that this was done."""
        if now is None:
            return self.change.removed
        return now.revision == self.id or any(entry.qualifier == self.id for entry in now.entries)

    def call(self, writer: Writer) -> CheckAndMutateRow:
        """The commit.

        Raises:
            BackendError: the row has no revision, so that nothing can depend on it.
        """
        if self.before is None:
            return CheckAndMutateRow(
                writer.table, self.work.row_key, writer.form.owned.taken, unmatched=self._mutations(writer)
            )
        if not self.before.revision:
            raise BackendError(
                f"the row {self.work.row_key!r} of table {writer.table!r} has no {FAMILY}:{REVISION}, so it is not one "
                f"that odm wrote: give it a {FAMILY}:{REVISION} with any text, or delete the row"
            )
        same = chained(revision_is(self.before.revision), *self.change.guards.filters)
        return CheckAndMutateRow(writer.table, self.work.row_key, same, matched=self._mutations(writer))

    def _mutations(self, writer: Writer) -> tuple[Mutation, ...]:
        change, now = self.change, writer.now()
        if change.removed:
            return REMOVED
        if change.item is not None:
            return replacement(change.item, writer.form, self.work.row_key, self.id, self.listed, now)
        unlisted = self.before is not None and self.listed == self.before.entries
        return (*change.mutations, *bookkeeping(self.id, None if unlisted else self.listed, now))

    @property
    def claimed(self) -> tuple[Listed, ...]:
        """The entries that it adds."""
        return tuple(entry for entry in self.listed if entry.qualifier == self.id)

    @property
    def stale(self) -> tuple[Listed, ...]:
        """The entries that it takes away."""
        return () if self.before is None else tuple(one for one in self.before.entries if one not in self.listed)


def settle(writer: Writer, works: Sequence[Work]) -> Steps[str | None]:
    """Try until every write is answered; otherwise why not, when the time is up.

    Raises:
        OutcomeUnknown: of a write that must not be done twice.
        OdmError: a write cannot be done.
    """
    pauses = writer.retry.contention()
    while True:
        attempts = yield from _attempts(writer, [work for work in works if work.answer is None])
        reason = (yield from _perform(writer, attempts)) if attempts else None
        left = [work for work in works if work.answer is None]
        if not left or reason is not None:
            return reason
        if (wait := next(pauses, None)) is None:
            return f"other writers of {left[0].row_key!r} were faster, or it was not answered, until the time was up"
        yield wait


def _attempts(writer: Writer, works: Sequence[Work]) -> Steps[list[Attempt]]:
    """Read what the writes depend on. What is known by that is answered; all else is to be committed."""
    reading = tuple(work.row_key for work in works if not work.unread)
    # A write without a condition needs to know no more, but whether another program's cells are there.
    columns = writer.form.owned.bookkeeping if all(work.plain for work in works) else ITEM
    rows = (yield from read_many(writer.table, reading, writer.retry, columns)) if reading else {}
    landed: list[Attempt] = []
    attempts: list[Attempt] = []
    for work in works:
        before, work.unread = stored(work.row if work.unread else rows.get(work.row_key), writer.form), False
        if (done := work.landed(before)) is not None:
            work.answer = done.change.answer
            landed.append(done)
            continue
        verdict = evaluate(writer, work.request, work.row_key, before)
        if isinstance(verdict, RowChange):
            attempts.append(Attempt(work, writer.id_of(_version(verdict, before)), before, verdict))
        else:
            work.answer = verdict
    yield from _clean(writer, _columns(writer, ((one, one.stale) for one in landed)))
    return attempts


def _perform(writer: Writer, attempts: Sequence[Attempt]) -> Steps[str | None]:
    """Claim, commit and clean; what was refused is left without an answer. Gives why nothing could be claimed.

    Raises:
        OdmError: a write cannot be done; it was not.
    """
    claims = _columns(writer, ((one, one.claimed) for one in attempts), claim=True)
    lease = _Lease(writer)
    stuck = yield from write_many(claims, writer.retry)
    if stuck is not None:
        return f"index entries could not be written, so their items were not either: {stuck.reason}"
    for attempt in attempts:
        yield from set_up(writer, attempt.change.guards)
    done: list[Attempt] = []
    undone: list[Attempt] = []
    failures: list[OdmError] = []
    for start in range(0, len(attempts), COMMITS):
        some = attempts[start : start + COMMITS]
        if claims and lease.is_over():
            undone += some
        else:
            yield from _commit(writer, some, done, undone, failures)
    gone = [*((one, one.stale) for one in done), *((one, one.claimed) for one in undone)]
    yield from _clean(writer, _columns(writer, gone))
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
    """Commit the attempts at the same time; each goes to where it belongs, and if its answer was lost, to its work."""
    calls = [attempt.call(writer) for attempt in attempts]
    answers = yield from all_of(calls)
    for attempt, call, answer in zip(attempts, calls, answers, strict=True):
        if isinstance(answer, Exception) and is_lost(answer):
            _LOG.warning("row %r: the answer to a write was lost (%s): reading the row", call.key, answer)
            attempt.work.lost.append(attempt)
        elif isinstance(answer, Exception):
            undone.append(attempt)
            error = translate(answer, call)
            error.__cause__ = answer
            failures.append(error)
        elif answer is (attempt.before is not None):
            attempt.work.answer = attempt.change.answer
            done.append(attempt)
        else:
            undone.append(attempt)


class _Lease:
    """Tells when it is too late to rely on claims. Neither of two clocks may say so: one may stand still or be set."""

    def __init__(self, writer: Writer) -> None:
        self._writer = writer
        self._began, self._wall = writer.retry.clock(), writer.now()

    def is_over(self) -> bool:
        """Whether a commit may no more be sent."""
        passed = self._writer.retry.clock() - self._began
        return max(passed, (self._writer.now() - self._wall) / 1_000_000) > COMMIT_WITHIN


def _clean(writer: Writer, columns: Rows) -> Steps[None]:
    """Remove columns of index rows; those that cannot be removed are left to `odm scrub`."""
    try:
        stuck = yield from write_many(columns, writer.retry)
    except OdmError as error:
        _LOG.warning("what is stale in the indexes of %s stays until odm scrub removes it: %s", writer.table, error)
    else:
        if stuck is not None:
            _LOG.warning("what is stale in the indexes of %s stays until odm scrub: %s", writer.table, stuck.reason)


def _columns(writer: Writer, of: Iterable[tuple[Attempt, tuple[Listed, ...]]], *, claim: bool = False) -> Rows:
    """What sets the columns of entries, or removes them."""
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


def _expects_nothing(condition: Condition | None) -> bool:
    """Whether it is the condition of an insert, be it over what has expired."""
    return condition == ABSENT or (isinstance(condition, Or) and ABSENT in condition.conditions)


def _version(change: RowChange, before: Stored | None) -> Value:
    """That of the item when the change is done."""
    item = change.item if change.item is not None or before is None else before.item
    return None if item is None else item.get(VERSION)


def _revision(before: Stored | None) -> str | None:
    return None if before is None else before.revision
