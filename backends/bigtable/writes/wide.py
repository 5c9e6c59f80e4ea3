"""Writes of wide rows that need no read, and transactions within one partition.

A transaction is committed as `odm.backends.bigtable.writes.commit` commits a write: read, claim, one CheckAndMutateRow,
clean. Its items stand in one row. So one read shows all of them as they were at one instant, and one predicate checks
that none has changed: of the items that existed, it counts the revisions, which are unique in the table; of the others,
it finds the documents. So the protocol of the index entries holds for each item as if it were written alone: its list
changes only with its revision, and only if the revision is the one that was read, and every new entry of the list was
claimed before under the id of the attempt.

A predicate can only find cells. To check that some items exist and others do not, it looks for the first cell among the
documents that must not exist and a *sentinel*, which is above them in their family: it must be the sentinel. The
sentinel is written before the first such transaction of a row, and has no other meaning.
"""

import re
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property, partial
from typing import Final, cast

from odm.backends.bigtable.client.filters import (
    Behind,
    Chain,
    Column,
    Filter,
    First,
    Interleave,
    Newest,
    ValueMatches,
    chained,
    fits,
    interleave,
)
from odm.backends.bigtable.client.native import (
    COUNTERS,
    FAMILY,
    AddToCell,
    CheckAndMutateRow,
    Entry,
    MutateRow,
    Mutation,
    Row,
    SetCell,
    Steps,
)
from odm.backends.bigtable.client.retry import all_of, until_answered
from odm.backends.bigtable.rows.codec import Stored
from odm.backends.bigtable.rows.keys import Layout
from odm.backends.bigtable.rows.locks import OneCall
from odm.backends.bigtable.rows.mutations import MergedPut
from odm.backends.bigtable.rows.wide import (
    SENTINEL,
    SIDE,
    WideRows,
    cut,
    has_counter,
    has_first_version,
    has_version,
    is_full,
)
from odm.backends.bigtable.writer import Writer
from odm.backends.bigtable.writes.commit import (
    Attempt,
    Guards,
    RowChange,
    Work,
    evaluate,
    guards,
    perform,
    set_up,
    sort,
    tidy,
)
from odm.backends.bigtable.writes.counters import counts
from odm.backends.bigtable.writes.single import ForeignWrites, ItemWrites, answer_absent, put_whole
from odm.codec import TAG
from odm.errors import BadValue, OdmError, OutcomeUnknown, Throttled, Unsupported
from odm.expressions.nodes import Increment
from odm.immutable import Immutable
from odm.protocol.requests import Delete, Merge, Operation, Put, Refusals, Refused, Transact, Update, Written


class WideWrites(ItemWrites, dict=True):
    """How items are written in wide rows.

    Attributes:
        places: where the items stand.
    """

    @cached_property
    def places(self) -> WideRows:
        return cast("WideRows", self.writer.places)

    def write(self, request: Operation) -> Steps[Written | Refused]:
        writer = self.writer
        row_key = writer.row_keys.row_key(request.key)
        if isinstance(request, Put) and request.condition is None and writer.places.unlisted(request, writer.schema):
            return (yield from put_whole(writer, request, row_key))
        return (yield from self._send(request, row_key, self._one_call(request, row_key)))

    def transact(self, request: Transact) -> Steps[Written | Refusals]:
        if len(request.operations) > 1:
            return write_together(self.writer, self.places, request)
        return super().transact(request)

    def merge(self, request: Merge) -> Steps[Written | Refused]:
        """The item is in one document, so it is read first, unless the merge only adds to sums of an item."""
        if all(isinstance(action, Increment) for action in request.actions):
            tag = str(request.marks[TAG])
            answer = yield from self.write(Update(request.key, request.actions, tag=tag, limits=request.limits))
            if isinstance(answer, Written):
                return answer
        return (yield from self.write(MergedPut.of(request)))

    def _one_call(self, request: Operation, id: str) -> OneCall | None:
        """The write in one call; None if the item must be read.

        If the predicate does not match, the item must be read to find out why.
        """
        writer, places = self.writer, self.places
        row = places.row(id)
        if isinstance(request, Delete) and writer.places.unlisted(request, writer.schema) and request.condition is None:
            asked = chained(places.there(id, request.tag), *places.locks.unlocked(id))
            call = CheckAndMutateRow(writer.table, row, asked, matched=places.removed(id))
            return OneCall(call, matches=True, id=None, refused=answer_absent(request))
        if not isinstance(request, Update) or (rules := counts(request, writer.form)) is None:
            return None
        tag = request.tag
        if tag is None:
            return None
        counted = [has_counter(tag, action.path.root) for action in request.actions]
        if None in counted:
            return None
        version = request.version
        said = None if version is None else has_first_version(tag) if version == 1 else has_version(tag, version)
        named = (places.there(id, tag, filter_) for filter_ in dict.fromkeys(counted))
        asked = chained(places.there(id, tag, said), *named, *places.locks.unlocked(id))
        added = (AddToCell(f"{places.sort(id)}{SIDE}{rule.qualifier}", rule.by, COUNTERS) for rule in rules)
        return OneCall(CheckAndMutateRow(writer.table, row, asked, matched=tuple(added)), matches=True, id=None)


_WRITES: Final[Mapping[Layout, type[ItemWrites]]] = {
    "row_per_item": ItemWrites,
    "row_per_partition": WideWrites,
    "verbatim": ForeignWrites,
}


def writes_of(writer: Writer) -> ItemWrites:
    """How the items of a table are written, by the layout of its rows."""
    return _WRITES[writer.places.layout](writer)


def write_together(writer: Writer, places: WideRows, request: Transact) -> Steps[Written | Refusals]:
    """Apply operations on items of one partition, all or none.

    Raises:
        OutcomeUnknown: a response was lost, and the row does not show whether the transaction was applied.
        Throttled: other writers kept changing the items until the time was up; nothing was written.
        Unsupported: the keys are too long for the predicate of one request.
        OdmError: the items cannot be written, and were not.
    """
    works = [Work(operation, writer.row_key(operation.key)) for operation in request.operations]
    pauses = writer.retry.contention()
    lost: list[_Asked] = []
    while True:
        befores, rows = yield from _read(writer, places, works)
        if (landed := _landed(lost, befores)) is not None:
            yield from tidy(writer, landed.attempts)
            return Written()
        verdicts = [_verdict(writer, work, before) for work, before in zip(works, befores, strict=True)]
        if any(isinstance(verdict, Refused | BadValue) for verdict in verdicts):
            return Refusals(tuple(verdict if isinstance(verdict, Refused | BadValue) else None for verdict in verdicts))
        if any(work.torn(before) for work, before in zip(works, befores, strict=True)):
            continue
        asked = _Asked.of(writer, places, works, befores, verdicts)
        attempts = asked.attempts
        if not attempts:
            return Written()  # the read shows all items at one instant
        if is_full(rows) and not all(attempt.change.removed for attempt in attempts):
            yield from places.check_space({places.row(works[0].row_key): 0}, writer.retry)
        asked.check(writer)
        yield from asked.set_up(writer, rows)
        reason = yield from perform(writer, attempts, partial(_commit, asked), len(attempts))
        if attempts[0].work.answer is not None:
            return Written()
        if attempts[0] in attempts[0].work.lost:
            lost.append(asked)
        if reason is not None or (wait := next(pauses, None)) is None:
            raise _unfinished(works, lost, reason or "other writers kept changing its items until the time was up")
        yield wait


def _unfinished(works: Sequence[Work], lost: Sequence[object], reason: str) -> OdmError:
    reason_ = f"a transaction of {len(works)} items, of which {works[0].row_key!r} is the first: {reason}"
    if lost:
        return OutcomeUnknown(f"{reason_}: it may or may not have been applied; read the items before going on")
    return Throttled(f"{reason_}: nothing was written")


def _read(writer: Writer, places: WideRows, works: Sequence[Work]) -> Steps[tuple[list[Stored | None], Sequence[Row]]]:
    """The items at one instant, and the row that has them."""
    ids = [work.row_key for work in works]
    sentinels = [Column(family, SENTINEL) for family in (*places.families, COUNTERS)]
    asked = frozenset(ids)

    def cells(rows: Sequence[Row]) -> dict[str, Row]:
        return {item.text: item for item in cut(rows, places.families) if item.text in asked}

    read = partial(places.row_with, ids, writer.retry, *sentinels)
    rows = yield from places.locks.unlocked_rows(read, cells, writer.retry, writer.now)
    items = {item.text: item for item in places.items(rows)}
    return [places.stored(items.get(id)) for id in ids], rows


def _verdict(writer: Writer, work: Work, before: Stored | None) -> RowChange | Written | Refused | BadValue:
    try:
        return evaluate(writer, work.request, work.row_key, before)
    except BadValue as error:
        return error


def _landed(lost: "Sequence[_Asked]", befores: Sequence[Stored | None]) -> "_Asked | None":
    """The commit whose answer was lost, if it was applied; None: there is none, or it was not applied.

    If none of its items has changed, the next commit checks the same revisions, so only one of the two can be applied.

    Raises:
        OutcomeUnknown: the items have changed since, and do not show whether it was applied. Or it contains an insert
            that must not be applied twice, and whose item may be deleted in between.
    """
    if not lost:
        return None
    works, last = lost[-1].works, lost[-1]
    now = {id(work): before for work, before in zip(works, befores, strict=True)}
    for asked in lost:
        written = (attempt for attempt in asked.attempts if not attempt.change.removed)
        if any(attempt.shows_in(now[id(attempt.work)]) for attempt in written):
            return asked
    unchanged = all(_revision(now[id(attempt.work)]) == _revision(attempt.before) for attempt in last.attempts)
    if unchanged and not any(attempt.work.once and attempt.before is None for attempt in last.attempts):
        return None
    if all(
        attempt.change.removed and attempt.work.plain and now[id(attempt.work)] is None for attempt in last.attempts
    ):
        return last
    raise OutcomeUnknown(
        f"the answer to a transaction of {len(works)} items was lost, and {works[0].row_key!r} or another of them has "
        "changed since, or may not be written twice: the transaction may or may not have been applied; read the items "
        "before going on"
    )


def _revision(before: Stored | None) -> str | None:
    return None if before is None else before.revision


def _commit(
    asked: "_Asked",
    writer: Writer,
    attempts: Sequence[Attempt],
    done: list[Attempt],
    undone: list[Attempt],
    failures: list[OdmError],
) -> Steps[None]:
    """Commit the attempts in one call; see `odm.backends.bigtable.writes.commit`."""
    call = asked.call(writer)
    (answer,) = yield from all_of((call,))
    sort(attempts, call, answer, done, undone, failures)


class _Asked(Immutable):
    """The commit of a transaction, which checks every item of it.

    Attributes:
        places: where the items stand.
        works: the operations.
        befores: the items that were read.
        attempts: the changes.
        checks: the counters on which operations without a change depend.
    """

    places: WideRows
    works: Sequence[Work]
    befores: Sequence[Stored | None]
    attempts: Sequence[Attempt]
    checks: Sequence[Guards] = ()

    @classmethod
    def of(
        cls,
        writer: Writer,
        places: WideRows,
        works: Sequence[Work],
        befores: Sequence[Stored | None],
        verdicts: Sequence[object],
    ) -> "_Asked":
        """The commit of operations that were judged, none of which is refused."""
        attempts, checks = list[Attempt](), list[Guards]()
        for work, before, verdict in zip(works, befores, verdicts, strict=True):
            if isinstance(verdict, RowChange):
                attempts.append(Attempt.of(writer, work, before, verdict))
            else:
                checks.append(guards(writer, work.request, work.row_key, before))
        return cls(places, works, befores, attempts, checks)

    def call(self, writer: Writer) -> CheckAndMutateRow:
        """The commit."""
        mutations: tuple[Mutation, ...] = tuple(
            mutation for attempt in self.attempts for mutation in attempt.mutations(writer)
        )
        row = self.places.row(self.works[0].row_key)
        if self._present():
            return CheckAndMutateRow(writer.table, row, self._predicate(), matched=mutations)
        return CheckAndMutateRow(writer.table, row, self._predicate(), unmatched=mutations)

    def check(self, writer: Writer) -> None:
        """Refuse a transaction with too many, or too long, keys.

        Raises:
            Unsupported: its predicate is too large.
            BackendError: an item has no revision, as another program wrote it.
        """
        if not fits(self._predicate()):
            raise Unsupported(
                f"table {writer.table!r}: the keys of these {len(self.works)} items are too long for the condition of "
                "one request, which has at most 20 KB: use fewer operations in a transaction, or shorter sort keys"
            )

    def _predicate(self) -> Filter:
        """Returns a cell if the items that existed are unchanged and no other exists; if none did: if one exists."""
        absent, present = self._absent(), self._present()
        if not present:
            return interleave(*_all(absent))
        return chained(*present, *(_lacks(family, columns) for family, columns in absent.items()))

    def set_up(self, writer: Writer, rows: Sequence[Row]) -> Steps[None]:
        """Write the sentinels and counters that the predicate needs and that the row does not have."""
        for check in self.checks:
            yield from set_up(writer, check)
        there = {family for row in rows for family, column in row.columns if column == b"\xff"}
        needed = [family for family in self._absent() if family not in there] if self._present() else []
        if needed:
            cells = tuple(SetCell(SENTINEL, b"", writer.now(), family) for family in needed)
            entry = Entry(self.places.row(self.works[0].row_key), cells)
            yield from until_answered(MutateRow(writer.table, entry), writer.retry)

    def _present(self) -> list[Filter]:
        """Filters that each return a cell if the items that existed, and counters of them, are unchanged."""
        there = [(work, before) for work, before in zip(self.works, self.befores, strict=True) if before is not None]
        if not there:
            return []
        revisions = [self._revision(work, before) for work, before in there]
        pattern = f"({'|'.join(map(re.escape, revisions))})( \\C*)?"
        ranges = self.places.documents([work.row_key for work, _ in there])
        chain = Chain((interleave(*ranges), Newest(), ValueMatches(pattern.encode()), Behind(len(there) - 1)))
        guarded = (*self.checks, *(attempt.change.guards for attempt in self.attempts))
        return [chain, *(guard for guards in guarded for guard in guards.filters)]

    def _revision(self, work: Work, before: Stored) -> str:
        if not before.revision:
            raise self.places.no_revision(work.row_key)
        return before.revision

    def _absent(self) -> dict[str, list[Filter]]:
        """The columns that must not exist, by family."""
        by_family: dict[str, list[Filter]] = {}
        for work, before in zip(self.works, self.befores, strict=True):
            for family in self._families(work.request) if before is None else ():
                by_family.setdefault(family, []).append(Column(family, self.places.sort(work.row_key)))
            for lock in self.places.locks.locked_absent(work.row_key) if before is None else ():
                by_family.setdefault(FAMILY, []).append(lock)
        return by_family

    def _families(self, request: Operation) -> Sequence[str]:
        """The families in which the item of an operation can be."""
        tag = request.item[TAG] if isinstance(request, Put) else getattr(request, "tag", None)
        return self.places.families if tag is None else (self.places.family(tag),)


def _all(columns: dict[str, list[Filter]]) -> Iterator[Filter]:
    for some in columns.values():
        yield from some


def _lacks(family: str, columns: Sequence[Filter]) -> Filter:
    """Returns a cell, the family's sentinel, if none of the columns exists."""
    sentinel = Column(family, SENTINEL)
    return Chain((Interleave((*columns, sentinel)), First(1), sentinel))
