"""Batches: puts, deletes and merges without conditions, each applied independently.

Operations that affect no index entries are written in bulk, without a read. The others go through `commit` in groups:
one read, one claim for each index table, concurrent commits, one cleaning for each index table.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import chain
from typing import TypeAlias

from odm.backends.bigtable.client.errors import NATIVE_FAILURES, is_throttled, passing, status, text_of
from odm.backends.bigtable.client.filters import size
from odm.backends.bigtable.client.native import Cookies, Entry, MutateRow, Mutation, Steps
from odm.backends.bigtable.client.retry import (
    WRITE_BYTES,
    Pauses,
    Refusal,
    Stuck,
    leading,
    once,
    pause,
    together,
    weight,
    write_many,
)
from odm.backends.bigtable.index.commit import COMMITS, Work, settle
from odm.backends.bigtable.rows.mutations import MergedPut
from odm.backends.bigtable.rows.wide import FILTER_BYTES, WideRows
from odm.backends.bigtable.writer import Writer
from odm.backends.bigtable.writes.single import unless_locked, write
from odm.codec import TAG, VERSION
from odm.errors import OdmError, OutcomeUnknown, Throttled
from odm.expressions.nodes import Increment
from odm.protocol.limits import size_at_most
from odm.protocol.requests import Delete, Failed, Merge, Operation, Put, Refused, Update, Written, repeatable

GROUP = 256
"""The maximum number of writes that go through `commit` together."""

Change: TypeAlias = tuple[Entry, list[Put | Delete]]
"""The change of a row, and its operations."""

SHOWN = 10
"""The maximum number of refused rows that an error names."""


def batch_write(writer: Writer, operations: Sequence[Put | Delete]) -> Steps[None]:
    """Write rows, each independently, until all are written.

    Raises:
        Throttled: ``left`` has the operations that are not known to be applied.
        OdmError: the server refused rows with an error that is not retried; the others were written. ``left`` is the
            same.
    """
    yield from writer.places.check_space(_sizes(writer, operations), writer.retry)
    bulk = list(_entries(writer, [operation for operation in operations if writer.unlisted(operation)]))
    refused: list[Refusal] = []
    stuck = yield from _write(writer, bulk, refused)
    of = {id(entry): some for entry, some in bulk}
    undone = [entry for entry, _ in refused] + ([] if stuck is None else [*stuck.remaining[writer.table]])
    remaining = [operation for entry in undone for operation in of[id(entry)]]
    others = [operation for operation in operations if not writer.unlisted(operation)]
    error, reason = None, None if stuck is None else stuck.reason
    for start in range(0, len(others), GROUP):
        if reason is not None or error is not None:
            remaining += others[start:]
            break
        group = others[start : start + GROUP]
        works = [Work(operation, writer.row_key(operation.key)) for operation in group]
        try:
            reason = yield from settle(writer, works)
        except Throttled as throttled:  # its `left` has no operations of the batch
            reason = str(throttled)
        except OdmError as failure:
            error = failure
        remaining += [operation for operation, work in zip(group, works, strict=True) if work.answer is None]
    _raise_for(writer, operations, remaining, refused, error, reason)


def _write(writer: Writer, changes: Sequence[Change], refused: list[Refusal]) -> Steps[Stuck | None]:
    """Write rows without a condition."""
    entries = [entry for entry, _ in changes]
    if writer.places.locks is None:
        return (yield from write_many({writer.table: entries}, writer.retry, refused=refused))
    of = [tuple(writer.row_key(operation.key) for operation in operations) for _, operations in changes]
    return (yield from _write_each(writer, [*zip(entries, of, strict=True)], refused))


def _write_each(
    writer: Writer,
    entries: Sequence[tuple[Entry, tuple[str, ...]]],
    refused: list[Refusal],
    renewed: Callable[[Entry], Entry] = lambda entry: entry,
    once: Callable[[Entry], bool] = lambda _: False,
) -> Steps[Stuck | None]:
    """Write rows of a table with locks, each in a call of its own, when its items are not locked.

    Arguments and result are as for `write_many`, but for the ids of the items of each row.
    """
    stuck: list[Entry] = []
    reason = ""
    for start in range(0, len(entries), COMMITS):
        some = entries[start : start + COMMITS]
        errors = yield from together(
            [_one(writer, operation, ids, renewed, once=once(operation)) for operation, ids in some]
        )
        silent = False
        for (entry, _), error in zip(some, errors, strict=True):
            unanswered = error is not None and _is_unanswered(error) and not once(entry)
            if isinstance(error, Throttled) or unanswered:
                stuck.append(entry)
                reason = str(error)
            elif error is not None:
                refused.append((entry, error))
            silent = silent or unanswered
        if silent:  # the others would not be answered either, and would each wait as long
            stuck += [entry for entry, _ in entries[start + COMMITS :]]
            break
    return Stuck({writer.table: tuple(stuck)}, reason) if stuck else None


def _is_unanswered(error: OdmError) -> bool:
    """Whether a call was retried until the time was up."""
    cause = error.__cause__
    return isinstance(cause, NATIVE_FAILURES) and (passing(cause) or is_throttled(status(cause), text_of(cause)))


def _one(
    writer: Writer, entry: Entry, ids: tuple[str, ...], renewed: Callable[[Entry], Entry], *, once: bool
) -> Steps[OdmError | None]:
    """Write one row. Returns the error if it is not, or may not be, written."""

    def mutations() -> tuple[Mutation, ...]:
        return renewed(entry).mutations

    try:
        yield from unless_locked(writer, ids, mutations, once=once, batch=True)
    except OdmError as error:
        return error
    return None


def _raise_for(
    writer: Writer,
    operations: Sequence[Put | Delete],
    remaining: Sequence[Operation],
    refused: Sequence[Refusal],
    error: OdmError | None,
    reason: str | None,
) -> None:
    """Raise the error of a batch of which operations are left."""
    if refused and not isinstance(error, OutcomeUnknown):
        rows = ", ".join(repr(entry.key) for entry, _ in refused[:SHOWN]) + ", ..." * (len(refused) > SHOWN)
        cause = refused[0][1]
        error = type(cause)(
            f"table {writer.table!r}: {len(remaining)} of {len(operations)} operations of the batch are not known to "
            f"be applied, those in the error's `left`; the server refused row {rows}; the first error: {cause}"
        )
        error.__cause__ = cause
    if error is not None:
        error.left = tuple(remaining)
        raise error
    if reason is not None:
        raise Throttled(
            f"table {writer.table!r}: after all retries, {len(remaining)} of {len(operations)} operations of the batch "
            f"are not known to be applied ({reason}): send the operations in the error's `left` again",
            remaining,
        )


def merge(writer: Writer, request: Merge) -> Steps[Written]:
    """Write parts of an item in one request.

    Raises:
        OutcomeUnknown: it adds to a sum, and the response was lost.
        OdmError: it was not answered, or refused.
    """
    row_key = writer.row_key(request.key)
    if writer.places.locks is not None:
        yield from _merge_unless_locked(writer, request)
        return Written()
    if not repeatable(request):
        yield from once(MutateRow(writer.table, _merging(writer, row_key, request)))
        return Written()
    pauses: Pauses | None = None
    cookies: Cookies = ()
    while True:
        call = MutateRow(writer.table, _merging(writer, row_key, request), cookies=cookies)
        try:
            yield call
        except NATIVE_FAILURES as failure:
            pauses = pauses or writer.retry.pauses()
            cookies = (yield from pause(pauses, failure, call)).cookies
        else:
            return Written()


def merge_document(writer: Writer, request: Merge) -> Steps[Written | Refused]:
    """Make a merge. The item is in one document, so it is read first, unless the merge only adds to sums of an item."""
    if all(isinstance(action, Increment) for action in request.actions):
        tag = str(request.marks[TAG])
        answer = yield from write(writer, Update(request.key, request.actions, tag=tag, limits=request.limits))
        if isinstance(answer, Written):
            return answer
    return (yield from write(writer, MergedPut.of(request)))


def batch_merge(writer: Writer, merges: Sequence[Merge]) -> Steps[tuple[Written | Failed, ...]]:
    """Write parts of items, thousands in one request.

    Returns:
        An answer for each merge: `Failed` if the server refused it with an error that is not retried, or if it adds to
        a sum and the response was lost.

    Raises:
        Throttled: ``left`` has the merges that are not known to be applied, and none was refused.
    """
    by_row = {writer.row_key(merge.key): merge for merge in merges}
    entries = [_merging(writer, row_key, merge) for row_key, merge in by_row.items()]

    def renewed(entry: Entry) -> Entry:
        return _merging(writer, entry.key, by_row[entry.key])

    def added(entry: Entry) -> bool:
        return not repeatable(by_row[entry.key])

    refused: list[Refusal] = []
    if writer.places.locks is None:
        stuck = yield from write_many({writer.table: entries}, writer.retry, renewed, added, refused)
    else:
        of = [(row_key,) for row_key in by_row]
        stuck = yield from _write_each(writer, [*zip(entries, of, strict=True)], refused, renewed, added)
    failed = {by_row[entry.key].key: Failed(error) for entry, error in refused}
    if stuck is not None:
        remaining = [by_row[entry.key] for entry in stuck.remaining[writer.table]]
        throttled = Throttled(
            f"table {writer.table!r}: after all retries, {len(remaining)} of {len(merges)} merges of the batch are not "
            f"known to be applied ({stuck.reason}): send those in the error's `left` again",
            remaining,
        )
        if not failed:
            raise throttled
        failed |= {merge.key: Failed(throttled) for merge in remaining}
    return tuple(failed.get(merge.key) or Written() for merge in merges)


def _merge_unless_locked(writer: Writer, request: Merge) -> Steps[None]:
    row_key = writer.row_key(request.key)

    def mutations() -> tuple[Mutation, ...]:
        return _merging(writer, row_key, request).mutations

    yield from unless_locked(writer, (row_key,), mutations, once=not repeatable(request))


def _merging(writer: Writer, row_key: str, request: Merge) -> Entry:
    """The entry of a merge, with a new revision; only items of the first version are merged."""
    places = writer.places
    return Entry(places.row(row_key), places.merged(request, row_key, writer.id_of(None), writer.now()))


def _sizes(writer: Writer, operations: Sequence[Put | Delete]) -> dict[str, int]:
    """How many bytes the puts may add to each row."""
    sizes: dict[str, int] = {}
    for operation in operations if isinstance(writer.places, WideRows) else ():
        if isinstance(operation, Put):
            row = writer.places.row(writer.row_key(operation.key))
            sizes[row] = sizes.get(row, 0) + size_at_most(operation.item)
    return sizes


def _entries(writer: Writer, operations: Sequence[Put | Delete]) -> Iterator[Change]:
    """The changes of rows, each with its operations; a row with much to write has several."""
    rows: dict[str, list[tuple[Put | Delete, tuple[Mutation, ...]]]] = {}
    for operation in operations:
        id = writer.row_key(operation.key)
        rows.setdefault(writer.places.row(id), []).append((operation, _mutations(writer, id, operation)))
    for row, changes in rows.items():
        remaining = tuple(changes)
        while remaining:
            some = remaining if len(remaining) == 1 else leading(remaining, _weight, WRITE_BYTES)
            some = leading(some, partial(_asked, writer), FILTER_BYTES)
            yield (
                Entry(row, tuple(chain.from_iterable(change for _, change in some))),
                [operation for operation, _ in some],
            )
            remaining = remaining[len(some) :]


def _weight(change: tuple[Put | Delete, tuple[Mutation, ...]]) -> int:
    return weight("", change[1])


def _asked(writer: Writer, change: tuple[Put | Delete, tuple[Mutation, ...]]) -> int:
    """The bytes of the filter for the lock of an item."""
    locks = writer.places.locks
    return 0 if locks is None else size(locks.cells.locked(writer.row_key(change[0].key)))


def _mutations(writer: Writer, id: str, operation: Put | Delete) -> tuple[Mutation, ...]:
    if isinstance(operation, Delete):
        return writer.places.removed(id)
    revision = writer.id_of(operation.item.get(VERSION))
    return writer.places.replaced(operation.item, id, revision, (), writer.now())
