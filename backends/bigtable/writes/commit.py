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

`evaluate` decides what a write does to the item that was read: it is refused, changes nothing, or changes the row.
"""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Final, TypeAlias, assert_never

from odm.backends.bigtable.client.errors import is_lost, kind_of, translate
from odm.backends.bigtable.client.filters import Filter, ValueIs, chain, chained, interleave, newest
from odm.backends.bigtable.client.native import (
    COUNTERS,
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
from odm.backends.bigtable.client.retry import (
    COMMIT_WITHIN,
    COMMITS,
    all_of,
    pausing_later,
    until_answered,
    write_many,
)
from odm.backends.bigtable.rows.cells import qualifier, write_counter
from odm.backends.bigtable.rows.codec import (
    LISTED,
    REVISION,
    TAG,
    Form,
    Listed,
    Stored,
)
from odm.backends.bigtable.rows.keys import entry_row, index_table, stored_key
from odm.backends.bigtable.rows.loading import RowItem
from odm.backends.bigtable.rows.mutations import MergedPut
from odm.backends.bigtable.writer import Writer, versioned
from odm.codec import VERSION
from odm.errors import BackendError, OdmError, OutcomeUnknown
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Action, Item, Remove, Set, roots_of
from odm.expressions.nodes import Increment as IncrementAction
from odm.immutable import Immutable
from odm.protocol.apply_update import apply_update
from odm.protocol.predicates import condition_of, is_own
from odm.protocol.requests import Check, Delete, Operation, Put, Refused, Update, Written, repeatable
from odm.schema.entity import Key


class Guards(Immutable):
    """The checks of counters on which a write depends.

    Attributes:
        filters: each returns a cell if its counter is unchanged since the read.
        unset: calls that create missing counters before the write, because a predicate cannot check that one cell is
            missing and another exists.
    """

    filters: tuple[Filter, ...] = ()
    unset: tuple[CheckAndMutateRow, ...] = ()


NO_GUARDS: Final = Guards()


def set_up(writer: Writer, guards: Guards) -> Steps[None]:
    """Create the missing counters that a write checks; their values stay the same.

    If the item is deleted in between, a counter remains in a row without an item. It does no harm: the row has no tag,
    so no read takes it for an item; an increment without an item does not change it; and the next item in this row
    replaces it. The row has no marks, so a scrub cannot distinguish the counter from another program's cell, and does
    not remove it.
    """
    for call in guards.unset:
        yield from until_answered(call, writer.retry)


def guards(writer: Writer, request: Operation, row_key: str, before: Stored | None) -> Guards:
    """The checks of counters for a write that was evaluated on the item ``before``."""
    if before is None:
        return NO_GUARDS
    columns = zip(before.row.columns, before.row.values, strict=True)
    counters = {column.decode(): cell for (family, column), cell in columns if family == COUNTERS}
    unset: list[CheckAndMutateRow] = []
    # A returned item shows all its counters, and increments do not change the revision, so each is checked.
    former = dict.fromkeys(counters) if isinstance(request, Update) and request.returning != "none" else {}
    for name, start in _named(request, before).items():
        column = qualifier(name)
        if column not in counters and writer.form.kind(name) == "counter":
            counters[column] = write_counter(start)
            mutation = writer.places.counted(row_key, column, counters[column], writer.now())
            row, held = writer.places.row(row_key), writer.places.counter(row_key, column)
            unset.append(CheckAndMutateRow(writer.table, row, held, unmatched=(mutation,)))
        if column in counters:
            former[column] = None
    unset += writer.places.starts(row_key, before, request)
    if not former and not unset:
        return NO_GUARDS
    same = (chain(writer.places.counter(row_key, column), ValueIs(counters[column])) for column in former)
    return Guards(tuple(same), tuple(unset))


def _named(request: Operation, before: Stored) -> dict[str, int]:
    """The attributes on whose values the write depends, and the value of each while its counter is missing.

    A missing counter may still have a number in a plain cell, from before it was a Counter; the two are added.
    """
    named = {} if request.condition is None else dict.fromkeys(roots_of(request.condition), 0)
    if isinstance(request, Update | MergedPut):
        for action in request.actions:
            if isinstance(action, IncrementAction) and action.path.root not in before.item:
                named[action.path.root] = int(action.start)
            elif not isinstance(action, Set | Remove):
                named.setdefault(action.path.root, 0)
    return named


_WRITTEN: Final = Written()


class RowChange(Immutable):
    """The change of one item's row, without its revision and list of index entries.

    Attributes:
        entries: the item's keys in its indexes after the change, by index.
        item: the new item; None: the item is updated or removed.
        mutations: those of the attributes that an update changes; empty if the item is replaced or removed.
        removed: the item is removed.
        guards: the counters that must be unchanged since the read, in addition to the revision.
        answer: the answer to the request when the change is applied.
    """

    entries: Mapping[str, Key]
    item: Item | None = None
    mutations: tuple[Mutation, ...] = ()
    removed: bool = False
    guards: Guards = NO_GUARDS
    answer: Written = _WRITTEN


def evaluate(writer: Writer, request: Operation, row_key: str, before: Stored | None) -> RowChange | Written | Refused:
    """The change that a request makes to the item that was read, or the answer if nothing changes.

    Args:
        writer: the writer of the table.
        request: the write.
        row_key: the item's row key.
        before: the item that was read; None if there was no item.

    Raises:
        BadValue: an action does not fit the item.
        ItemInvalid: the condition or an action needs a cell that its encoding cannot read.
        ItemTooLarge: the resulting item is too large.
    """
    item = None if before is None else before.item
    if item is not None and request.tag not in (None, item.get(TAG)):
        return Refused(item)
    form = writer.form
    if (
        before is not None
        and form.encodes
        and (misread := form.misread(before.row))
        and misread & _needed(request, form)
    ):
        writer.schema.decode(before.item, stored_key(writer.schema, request.key))  # raises ItemInvalid
    if isinstance(request, Update) and not is_own(request, item):
        return Refused(item)
    if request.condition is not None and not holds(request.condition, item):
        return Refused(item)
    match request:
        case Check():
            return Written()
        case MergedPut() if before is not None:
            return _merged(writer, request, row_key, before)
        case Put():
            whole = type(request) is Put and request.known is None
            after = request.item if whole else request.over(item)
            return RowChange(request.entries, after, guards=guards(writer, request, row_key, before))
        case Delete():
            if before is None:
                return Written(existed=False)
            return RowChange(removed=True, entries={}, guards=guards(writer, request, row_key, before))
        case Update():
            return Refused(None) if before is None else _updated(writer, request, row_key, before)
        case _:
            assert_never(request)


def _needed(request: Operation, form: Form) -> frozenset[str]:
    """The attributes whose values decide what a write does, or of which it changes a part."""
    roots = {*roots_of(condition_of(request))}
    if isinstance(request, Update):
        roots |= {action.path.root for action in request.actions if not _replaces(action, form)}
    return frozenset(roots)


def _replaces(action: Action, form: Form) -> bool:
    """Whether an action writes or removes all of its cell, whatever it holds."""
    whole = 2 if form.kind(action.path.root) == "columns" else 1
    return isinstance(action, Set | Remove) and len(action.path.segments) <= whole


def _listed(before: Stored) -> dict[str, Key]:
    return {entry.index: entry.key for entry in before.entries}


def _merged(writer: Writer, request: MergedPut, row_key: str, before: Stored) -> RowChange:
    changed = [action.path for action in request.actions]
    return RowChange(
        mutations=writer.places.updated(row_key, changed, before, request.over(before.item), writer.now()),
        entries=_listed(before),
        guards=guards(writer, request, row_key, before),
    )


def _updated(writer: Writer, request: Update, row_key: str, before: Stored) -> RowChange:
    after, entries = apply_update(request, before.item, _listed(before), writer.local)
    added = {
        action.path.root: mutation
        for action in request.actions
        if (mutation := writer.places.added(action, before)) is not None
    }
    changed = [action.path for action in request.actions if action.path.root not in added]
    returned = {"none": None, "old": before.item, "new": after}[request.returning]
    return RowChange(
        mutations=(*writer.places.updated(row_key, changed, before, after, writer.now()), *added.values()),
        entries=entries,
        guards=guards(writer, request, row_key, before),
        answer=Written(returned),
    )


_LOG = logging.getLogger("odm.bigtable")

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
        unrevised: a read found the item without a revision.
    """

    def __init__(self, request: Operation, row_key: str, *, refused: bool = False) -> None:
        self.refused = self.unrevised = False
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

    def torn(self, before: Stored | None) -> bool:
        """Whether the item must be read again because it has no revision: the first time that a read finds it so.

        Bigtable reads a row at one instant. Google's emulator does not: a write shifts the list of column
        names that a read is still using, and one read in a thousand of a row that is being written lacks a column.
        """
        torn = before is not None and not before.revision and not self.unrevised
        self.unrevised = self.unrevised or torn
        return torn

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
            # entries that the item already lists keep their qualifier, so that unchanged keys need no claim; a new one
            # has the attempt's id
            listed = tuple(known.get(entry) or Listed(*entry, revision) for entry in change.entries.items())
        return cls(work, revision, before, change, listed)

    def shows_in(self, now: Stored | None) -> bool:
        """Whether the row, as read now, shows that this attempt was applied."""
        if now is None:
            return self.change.removed
        # Later writes replace the revision, but keep the qualifiers of the entries that they do not change.
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
        return () if self.before is None else tuple(entry for entry in self.before.entries if entry not in self.listed)


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
            if work.torn(before):
                continue
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
    claims = columns_of(writer, ((attempt, attempt.claimed) for attempt in attempts), claim=True)
    lease = Lease(writer)
    try:
        # Before the commit: readers pass over an entry that its item does not list, but no query returns an item
        # without its entry.
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
        # A scrub could remove claims that are so old before the commit is applied; the next attempt makes new ones.
        if claims and lease.is_over():
            undone += some
        else:
            yield from (commit or _commit)(writer, some, done, undone, failures)
    gone = [*((attempt, attempt.stale) for attempt in done), *((attempt, attempt.claimed) for attempt in undone)]
    # Columns, never whole rows: another attempt may have claimed the same index row under an id of its own.
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
            # Neither sent again nor cleaned: the commit may still be applied, and then its entries must exist.
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
    return clean(writer, columns_of(writer, ((attempt, attempt.stale) for attempt in attempts)))


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
                # scrubs judge the age by the server's clock
                mutation = SetCell(entry.qualifier, work.row_key.encode(), SERVER_TIME, ENTRIES)
            row = Entry(entry_row(entry.key, work.request.key), (mutation,))
            rows.setdefault(index_table(writer.table, entry.index), []).append(row)
    return rows


def _revision(before: Stored | None) -> str | None:
    return None if before is None else before.revision
