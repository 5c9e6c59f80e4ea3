"""Reads of several rows as they were at one instant, in a table with transactions.

The rows are read twice. If no item has changed in between, all of them were as read at every instant between the two
reads: a revision is never used twice. An increment of a Counter does not change the revision, so the cells of the
counters must be the same, too, with their timestamps.

A row without an item has no revision: an item may have come and gone between the two reads. So if an item is missing,
or others keep changing, the rows are read by a transaction that only checks them. It locks the rows, which are writes.
"""

from collections.abc import Sequence

from odm.backends.bigtable.committed import Locks
from odm.backends.bigtable.filters import Filter
from odm.backends.bigtable.native import Row, Steps
from odm.backends.bigtable.transactions import commit
from odm.backends.bigtable.writer import Writer
from odm.protocol.requests import Check, Refusals, Transact
from odm.schema.entity import Key

READS = 8
"""The number of reads before the rows are locked."""


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
