"""Writes index entries again that items list but that are missing, and removes an index from the lists of items.

By the protocol (`odm.backends.bigtable.writes.commit`), every entry that an item lists has its column in the index row.
Only an action outside of odm breaks that: an index table was deleted by hand, or restored from a backup of another
time. No later write repairs it, because an entry that is already listed keeps its qualifier and is not claimed again.
So a repair sends these claims again: the listed qualifier, with the item's row key as value and the server's time.

It reads the items, and writes only missing columns. It may run while other programs write:

* If an item is changed or deleted after its list was read, its writer may already have removed the column. Then the
  repair writes a column that no item lists. This is garbage like any claim of a writer that stopped: readers ignore it,
  and a later scrub removes it when it is older than the lease.
* An item that loses an entry and gets it again lists it under another qualifier, because a qualifier is the id of one
  attempt and no id is used twice. So the garbage above is never taken for a column of the new entry.
* An entry that an item lists under the same qualifier in two reads was listed all the time in between, so its column
  must have existed. The list is read again before an entry is reported as missing or written.

A repair ignores entries in indexes that no model has, and items whose tag no model has.

**Removing an index.** A write does not claim entries that the item already lists. If an index table were deleted while
items list entries in it, a new table with the same name would never get these entries. By the protocol, every listed
entry has its column, so the rows of the index name all items that list entries in it.

The removal stops at a cell of another program, because deleting the table would delete that cell, too.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence

from odm.backends.bigtable.client.errors import kind_of
from odm.backends.bigtable.client.filters import Family, Newest, chain
from odm.backends.bigtable.client.native import (
    ENTRIES,
    ITEM,
    SERVER_TIME,
    CheckAndMutateRow,
    Entry,
    ReadRows,
    Row,
    RowRange,
    SetCell,
    Steps,
)
from odm.backends.bigtable.client.retry import Retry, answers_of, read_all, read_many, write_many
from odm.backends.bigtable.index.pages import LIST_ONLY
from odm.backends.bigtable.rows.codec import TAG
from odm.backends.bigtable.rows.keys import claims, entry_row, index_table, is_odms, place_of
from odm.backends.bigtable.writer import Writer, version_in, versioned
from odm.backends.bigtable.writes.commit import BOOKKEEPING
from odm.errors import BackendError, OdmError, Throttled, brief
from odm.immutable import Immutable
from odm.schema.model import Schema

_LOG = logging.getLogger("odm.bigtable")


class Lost(Immutable):
    """An index entry that an item lists.

    Attributes:
        index: the name of the index.
        row_key: the row key of the index row.
        qualifier: the qualifier of the entry's column.
        item: the row key of the item.
    """

    index: str
    row_key: str
    qualifier: str
    item: str


def repair(writer: Writer, rows: Sequence[Row]) -> Steps[int]:
    """Write the missing entries that items list. Returns the number of entries.

    Args:
        writer: the writer of the items' table.
        rows: rows of items, with at least their tags and lists.

    Raises:
        Throttled: the server did not answer in time.
        BackendError: the table of an index does not exist.
    """
    lost = yield from missing(writer, rows)
    work: dict[str, list[Entry]] = {}
    for entry in lost:
        claim = SetCell(entry.qualifier, entry.item.encode("utf-8", "surrogateescape"), SERVER_TIME, ENTRIES)
        work.setdefault(index_table(writer.table, entry.index), []).append(Entry(entry.row_key, (claim,)))
    stuck = yield from write_many(work, writer.retry)
    if stuck is not None:
        raise Throttled(f"indexes of {writer.table!r} could not be repaired: {stuck.reason}; try again later", [])
    return len(lost)


def missing(writer: Writer, rows: Sequence[Row], absent: Collection[str] = ()) -> Steps[list[Lost]]:
    """The entries that items list but that are missing in the index tables.

    Args:
        writer: the writer of the items' table.
        rows: rows of items, with at least their tags and lists.
        absent: the indexes that have no table.
    """
    lost = yield from _not_there(writer, list(_listed(writer, rows)), absent)
    if not lost:
        return []
    items = tuple(dict.fromkeys(entry.item for entry in lost))
    # An entry may have been cleaned since its item was read, so only one that the item still lists is missing.
    again = yield from writer.places.read(items, writer.retry, LIST_ONLY)
    still = set(_listed(writer, again.values()))
    return [entry for entry in lost if entry in still]


def _listed(writer: Writer, rows: Iterable[Row]) -> Iterator[Lost]:
    """The entries that items list; only items of the models' entities, and entries in the models' indexes."""
    for row in rows:
        tag = str(writer.places.marks(row).get(TAG))
        key = writer.row_keys.key_of(row.text, tag) if tag in writer.schema.entities else None
        try:
            entries = () if key is None else writer.places.listed(row)
            rows_of = [entry_row(entry.key, key) for entry in entries if key is not None]
        except OdmError as error:
            _LOG.warning("the index entries of an item cannot be checked: %s", kind_of(error))
            continue
        for entry, row_key in zip(entries, rows_of, strict=True):
            if entry.index in writer.schema.indexes and place_of(row_key, writer.row_keys) == (key, entry.key):
                yield Lost(entry.index, row_key, entry.qualifier, row.text)


def _not_there(writer: Writer, entries: Sequence[Lost], absent: Collection[str]) -> Steps[list[Lost]]:
    """The entries whose columns are missing."""
    lost: list[Lost] = []
    for index in dict.fromkeys(entry.index for entry in entries):
        of_index = [entry for entry in entries if entry.index == index]
        row_keys = tuple(dict.fromkeys(entry.row_key for entry in of_index)) if index not in absent else ()
        columns = chain(Family(ENTRIES), Newest())
        rows = yield from read_many(index_table(writer.table, index), row_keys, writer.retry, columns)
        there = {key: frozenset(claims(row, writer.row_keys)) for key, row in rows.items()}
        lost += [entry for entry in of_index if entry.qualifier not in there.get(entry.row_key, ())]
    return lost


PAGE_ROWS = 200
"""The maximum number of items to change at the same time."""


def drop_index(schema: Schema, index_table: str, retry: Retry) -> Steps[None]:
    """Remove an index from the lists of all items, before its table is deleted.

    Writes claim only entries that an item does not list yet, so a later index of this name would lack the listed ones.

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
        foreign = next((row.text for row in rows if not is_odms(row, writer.row_keys)), None)
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
        cells = ITEM if writer.form.aging else BOOKKEEPING  # the other attributes must not be older than the list
        rows = yield from writer.read(left, cells)
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
