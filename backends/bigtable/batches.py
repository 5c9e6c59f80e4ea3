"""Batches: puts and deletes without conditions, each applied independently.

Operations that affect no index entries are written in bulk, without a read. The others go through `commit` in groups:
one read, one claim for each index table, concurrent commits, one cleaning for each index table.
"""

from collections.abc import Sequence

from odm.backends.bigtable.bulk import write_many
from odm.backends.bigtable.commit import Work, settle
from odm.backends.bigtable.native import Entry, Steps
from odm.backends.bigtable.writer import Writer
from odm.codec import VERSION
from odm.errors import Throttled
from odm.protocol.requests import Delete, Put

GROUP = 256
"""The maximum number of writes that go through `commit` together."""


def batch_write(writer: Writer, operations: Sequence[Put | Delete]) -> Steps[None]:
    """Write rows, each independently, until all are written.

    Raises:
        Throttled: ``left`` has the operations that are not known to be applied.
        OdmError: the server refused a row with an error that is not retried.
    """
    bulk = {writer.row_key(one.key): one for one in operations if writer.unlisted(one)}
    stuck = yield from write_many({writer.table: [_entry(writer, key, one) for key, one in bulk.items()]}, writer.retry)
    reason = None if stuck is None else stuck.reason
    left = [] if stuck is None else [bulk[entry.key] for entry in stuck.left[writer.table]]
    others = [one for one in operations if not writer.unlisted(one)]
    for start in range(0, len(others), GROUP):
        if reason is not None:
            left += others[start:]
            break
        group = others[start : start + GROUP]
        works = [Work(one, writer.row_key(one.key)) for one in group]
        try:
            reason = yield from settle(writer, works)
        except Throttled as error:  # its `left` has no operations of the batch
            reason = str(error)
        left += [one for one, work in zip(group, works, strict=True) if work.answer is None]
    if reason is not None:
        raise Throttled(
            f"table {writer.table!r}: after all retries, {len(left)} of {len(operations)} operations of the batch are "
            f"not known to be applied ({reason}): send the operations in the error's `left` again",
            left,
        )


def _entry(writer: Writer, row_key: str, operation: Put | Delete) -> Entry:
    if isinstance(operation, Delete):
        return Entry(row_key, writer.places.removed(row_key))
    id = writer.id_of(operation.item.get(VERSION))
    return Entry(row_key, writer.places.replaced(operation.item, row_key, id, (), writer.now()))
