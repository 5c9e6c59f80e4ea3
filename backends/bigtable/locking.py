"""Makes the locks of a transaction's attempt: for each operation, from what was read, the call that locks its row."""

from collections.abc import Iterator, Sequence
from typing import Literal

from attrs import define, evolve

from odm.backends.bigtable.cells import qualifier, write_counter
from odm.backends.bigtable.codec import MAX_CELL, Stored
from odm.backends.bigtable.commit import Attempt, Work, version_after
from odm.backends.bigtable.evaluate import RowChange, evaluate
from odm.backends.bigtable.filters import Filter, ValueIs, chain, chained, fits, newest
from odm.backends.bigtable.lock_cells import LockCells
from odm.backends.bigtable.locks import Lock
from odm.backends.bigtable.native import COUNTERS, Cell, CheckAndMutateRow, Row, SetCell
from odm.backends.bigtable.writer import Writer, versioned
from odm.codec import TAG
from odm.errors import BadValue, ItemTooLarge, Unsupported
from odm.expressions.nodes import Value
from odm.protocol.requests import Put, Refused

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
    if before is not None and not before.revision:
        raise writer.places.no_revision(work.row_key)
    return Part(work, row, before, verdict if isinstance(verdict, RowChange) else None)


def prepare(writer: Writer, cells: LockCells, part: Part, id: str, since: int) -> Sequence[CheckAndMutateRow]:
    """Make the lock for an operation. Returns the calls that write the counters that its item lacks.

    Args:
        writer: the writer of the table.
        cells: where its locks stand.
        part: the operation, which gets the lock and the call for it.
        id: the id of the attempt.
        since: when the first attempt began.

    Raises:
        Unsupported: the item has too many counters for the condition of one request.
        ItemTooLarge: the item does not fit into its lock.
    """
    unset = tuple(_unset(writer, cells, part))
    part.lock = _lock_for(writer, cells, part, id, since)
    part.call = _call_for(writer, cells, part, part.lock)
    _check(writer, part.work.row_key, part.call)
    return unset


def _check(writer: Writer, row_key: str, call: CheckAndMutateRow) -> None:
    """Refuse a lock that does not fit into a request."""
    where = f"row {row_key!r} of table {writer.table!r}"
    if call.predicate is not None and not fits(call.predicate):
        raise Unsupported(
            f"{where} has too many counters for the condition of one request, which has at most 20 KB: write it "
            "alone, not in a transaction"
        )
    size = max(len(one.value) for one in call.matched or call.unmatched if isinstance(one, SetCell))
    if size > MAX_CELL:
        raise ItemTooLarge(
            f"{where} needs {size} bytes for its lock, and Bigtable allows {MAX_CELL} in a cell: write it alone, "
            "not in a transaction"
        )


def _lock_for(writer: Writer, cells: LockCells, part: Part, attempt: str, since: int) -> Lock:
    now, id = writer.now(), part.work.row_key
    row = None if part.before is None else part.row
    counters = () if row is None or part.before is None else tuple(cells.counters(row, part.before))
    after = None
    if part.change is not None:
        revision = versioned(attempt, version_after(part.change, part.before))
        part.attempt = Attempt(part.work, revision, part.before, part.change)
        removed = writer.places.removed(id, part.before)
        mutations = () if part.change.removed else part.attempt.mutations(writer)
        after = cells.staged(id, row, removed, mutations, now)
    former = cells.former(id, row, part.before, _tag(part))
    return evolve(former, id=attempt, since=since, after=after, counters=counters)


def _call_for(writer: Writer, cells: LockCells, part: Part, lock: Lock) -> CheckAndMutateRow:
    """The call that locks the row of an operation, if it is as it was read."""
    places, id = writer.places, part.work.row_key
    mutations = cells.mutations(lock, writer.now())
    if part.before is None:
        free = cells.free(id, places.taken(id), checked=part.change is None)
        return CheckAndMutateRow(writer.table, places.row(id), free, unmatched=mutations)
    asked = chained(places.unchanged(id, part.before), *_unchanged(lock.counters))
    return CheckAndMutateRow(writer.table, places.row(id), asked, matched=mutations)


def _tag(part: Part) -> Value:
    """The tag of the item that an operation leaves in its row; None if it does not know."""
    if part.before is not None:
        return part.before.item.get(TAG)
    return part.work.request.item.get(TAG) if isinstance(part.work.request, Put) else None


def _unset(writer: Writer, cells: LockCells, part: Part) -> Iterator[CheckAndMutateRow]:
    """The calls that write the counters that an item lacks, with the values that it shows; adds them to its row."""
    entity, before = writer.schema.entities.get(str(_tag(part))), part.before
    if entity is None or before is None or part.row is None:
        return
    places, now, id = writer.places, writer.now(), part.work.row_key
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
