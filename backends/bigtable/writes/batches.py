"""Batches: puts, deletes and merges without conditions, each applied independently.

Operations that affect no index entries are written in bulk, without a read. The others go through `commit` in groups:
one read, one claim for each index table, concurrent commits, one cleaning for each index table.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from itertools import chain, compress
from typing import NamedTuple, TypeAlias

from odm.backends.bigtable.client.filters import size
from odm.backends.bigtable.client.native import Entry, Mutation, Steps
from odm.backends.bigtable.client.retry import (
    WRITE_BYTES,
    Refusal,
    Stuck,
    leading,
    weight,
)
from odm.backends.bigtable.rows.locks import RowWrite
from odm.backends.bigtable.rows.wide import FILTER_BYTES
from odm.backends.bigtable.writer import Writer
from odm.backends.bigtable.writes.commit import Work, settle
from odm.codec import VERSION
from odm.errors import OdmError, OutcomeUnknown, Throttled
from odm.protocol.requests import Delete, Failed, Merge, Operation, Put, Written, repeatable

GROUP = 256
"""The maximum number of writes that go through `commit` together."""

Change: TypeAlias = tuple[RowWrite, list[Put | Delete]]
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
    puts = (operation for operation in operations if isinstance(operation, Put))
    yield from writer.places.check_puts(((writer.row_key(put.key), put.item) for put in puts), writer.retry)
    unlisted = [writer.places.unlisted(operation, writer.schema) for operation in operations]
    bulk = list(_entries(writer, [*compress(operations, unlisted)]))
    refused: list[Refusal] = []
    stuck = yield from _write_rows(writer, [write for write, _ in bulk], refused)
    of = {id(write.entry): some for write, some in bulk}
    undone = [entry for entry, _ in refused] + ([] if stuck is None else [*stuck.remaining[writer.table]])
    remaining = [operation for entry in undone for operation in of[id(entry)]]
    others = [operation for operation, alone in zip(operations, unlisted, strict=True) if not alone]
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


def _write_rows(writer: Writer, writes: Sequence[RowWrite], refused: list[Refusal]) -> Steps[Stuck | None]:
    """Write rows without a condition on their items."""
    return writer.places.locks.write_rows(writer.places, writes, writer.retry, writer.now, refused)


def _raise_for(
    writer: Writer,
    operations: Sequence[Put | Delete],
    remaining: Sequence[Operation],
    refused: Sequence[Refusal],
    error: OdmError | None,
    reason: str | None,
) -> None:
    """Raise the error of a batch of which operations are left."""
    # An unknown outcome must not hide behind a refused row: a caller that sends the rest again could add twice.
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
    places = writer.places
    yield from places.locks.write_row(places, _merging(writer, request), writer.retry, writer.now)
    return Written()


def batch_merge(writer: Writer, merges: Sequence[Merge]) -> Steps[tuple[Written | Failed, ...]]:
    """Write parts of items, thousands in one request.

    Returns:
        An answer for each merge: `Failed` if the server refused it with an error that is not retried, or if it adds to
        a sum and the response was lost.

    Raises:
        Throttled: ``left`` has the merges that are not known to be applied, and none was refused.
    """
    by_row = {writer.row_key(merge.key): merge for merge in merges}
    refused: list[Refusal] = []
    stuck = yield from _write_rows(writer, [_merging(writer, merge) for merge in merges], refused)
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


def _merging(writer: Writer, request: Merge) -> RowWrite:
    """The change that a merge makes, each time with a new revision; only items of the first version are merged."""
    row_key, places = writer.row_key(request.key), writer.places

    def entry() -> Entry:
        return Entry(places.row(row_key), places.merged(request, row_key, writer.id_of(None), writer.now()))

    return RowWrite(entry(), (row_key,), not repeatable(request), entry)


def _entries(writer: Writer, operations: Sequence[Put | Delete]) -> Iterator[Change]:
    """The changes of rows, each with its operations; a row with much to write has several."""
    rows: dict[str, list[_Part]] = {}
    for operation in operations:
        id = writer.row_key(operation.key)
        rows.setdefault(writer.places.row(id), []).append(_Part(operation, id, _mutations(writer, id, operation)))
    for row, changes in rows.items():
        remaining = tuple(changes)
        while remaining:
            some = remaining if len(remaining) == 1 else leading(remaining, _weight, WRITE_BYTES)
            some = leading(some, partial(_asked, writer), FILTER_BYTES)
            entry = Entry(row, tuple(chain.from_iterable(part.mutations for part in some)))
            yield RowWrite(entry, tuple([part.id for part in some])), [part.operation for part in some]
            remaining = remaining[len(some) :]


class _Part(NamedTuple):
    """One operation of a change of a row."""

    operation: Put | Delete
    id: str
    mutations: tuple[Mutation, ...]


def _weight(part: _Part) -> int:
    return weight("", part.mutations)


def _asked(writer: Writer, part: _Part) -> int:
    """The bytes of the filter for the lock of an item."""
    return sum(map(size, writer.places.locks.locked(part.id)))


def _mutations(writer: Writer, id: str, operation: Put | Delete) -> tuple[Mutation, ...]:
    if isinstance(operation, Delete):
        return writer.places.removed(id)
    revision = writer.id_of(operation.item.get(VERSION))
    return writer.places.replaced(operation.item, id, revision, (), writer.now())
