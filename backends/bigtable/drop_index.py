"""Removes an index from the lists of the items, before its table is deleted.

A write does not claim entries that the item already lists. If an index table were deleted while items list entries in
it, a new table with the same name would never get these entries. By the protocol, every listed entry has its column,
so the rows of the index name all items that list entries in it.

It stops at a cell of another program, because deleting the table would delete that cell, too.
"""

from collections.abc import Sequence

from odm.backends.bigtable.codec import TAG
from odm.backends.bigtable.commit import BOOKKEEPING
from odm.backends.bigtable.entries import is_odms
from odm.backends.bigtable.filters import Newest
from odm.backends.bigtable.native import ITEM, CheckAndMutateRow, ReadRows, Row, RowRange, Steps
from odm.backends.bigtable.retry import Retry, answers_of, read_all
from odm.backends.bigtable.writer import Writer, version_in, versioned
from odm.errors import BackendError, Throttled, brief
from odm.schema.model import Schema

PAGE_ROWS = 200
"""The maximum number of items to change at the same time."""


def drop_index(schema: Schema, index_table: str, retry: Retry) -> Steps[None]:
    """Remove an index from the lists of all items.

    Programs whose models have the index must not write while this runs: they would list entries in it again.

    Args:
        schema: the items' table.
        index_table: the index table.
        retry: how long to retry.

    Raises:
        BackendError: the index table has cells of another program, or another program uses the index.
        Throttled: other writers kept changing an item until the time was up.
    """
    table, writer = schema.name, Writer(schema, retry)
    index = index_table.removeprefix(f"{table}.")
    span = RowRange()
    while True:
        call = ReadRows(index_table, range=span, limit=PAGE_ROWS, filter=Newest())
        rows = yield from read_all(call, retry)
        foreign = next((row.text for row in rows if not is_odms(row, writer.layout)), None)
        if foreign is not None:
            raise BackendError(
                f"table {index_table!r} was not deleted: row {foreign!r} has cells that odm did not write; move them "
                "to another table, delete them here, and try again"
            )
        row_keys = sorted({cell.value.decode() for row in rows for cell in row.cells})
        yield from _drop_index(writer, index, row_keys)
        if len(rows) < PAGE_ROWS:
            return
        span = span.beyond(rows[-1].text, reverse=False)


def _drop_index(writer: Writer, index: str, row_keys: Sequence[str]) -> Steps[None]:
    """Remove an index from the lists of some items, which other programs may write at the same time."""
    pauses = writer.retry.pauses()
    left = tuple(row_keys)
    while left:
        wanted = ITEM if writer.form.aging else BOOKKEEPING  # the other attributes must not be older than the list
        rows = yield from writer.read(left, wanted)
        calls = {id: call for id, row in rows.items() if (call := _call(writer, index, id, row)) is not None}
        answers = yield from answers_of([*calls.values()], writer.retry)
        left = tuple(id for id, done in zip(calls, answers, strict=True) if not done)
        if left:
            if (wait := next(pauses, None)) is None:
                raise Throttled(
                    f"table {writer.table!r}: other writers kept changing {left[0]!r} until the time was up", []
                )
            yield wait


def _call(writer: Writer, index: str, id: str, row: Row) -> CheckAndMutateRow | None:
    """The call that removes the index from one item's list; None if the list does not have it.

    Raises:
        BackendError: no entity has the tag of the item, so another program uses the index.
    """
    places, table = writer.places, writer.table
    held = places.stored(row)
    if held is None or all(entry.index != index for entry in held.entries):
        return None
    if writer.form.is_strange(tag := held.item.get(TAG)):
        raise BackendError(
            f"the table of index {index!r} of {table!r} was not deleted: row {brief(id)} has an entry in it and the "
            f"tag {tag!r}, which no entity of the models has, so another program uses the index. If none does, delete "
            "such items with a model that has their entity, and try again"
        )
    kept = tuple(entry for entry in held.entries if entry.index != index)
    revision = versioned(writer.ids(), version_in(held.revision))
    now = writer.now()
    renewed = places.updated(id, (), held, held.item, now) if writer.form.renewed(held.item) else ()
    noted = places.noted(id, held, revision, kept, now)
    return CheckAndMutateRow(table, places.row(id), places.unchanged(id, held), matched=(*renewed, *noted))
