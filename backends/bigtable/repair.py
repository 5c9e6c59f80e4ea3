"""Finds index entries that items list but that are missing, and writes them again: procedures without I/O. See `scrub`.

By the protocol (`odm.backends.bigtable.commit`), every entry that an item lists has its column in the index row. Only
an action outside of odm breaks that: an index table was deleted by hand, or restored from a backup of another time. No
later write repairs it, because an entry that is already listed keeps its qualifier and is not claimed again. So a
repair sends these claims again: the listed qualifier, with the item's row key as value and the server's time.

It reads the items, and writes only missing columns. It may run while other programs write:

* If an item is changed or deleted after its list was read, its writer may already have removed the column. Then the
  repair writes a column that no item lists. This is garbage like any claim of a writer that stopped: readers ignore it,
  and a later scrub removes it when it is older than the lease.
* An item that loses an entry and gets it again lists it under another qualifier, because a qualifier is the id of one
  attempt and no id is used twice. So the garbage above is never taken for a column of the new entry.
* An entry that an item lists under the same qualifier in two reads was listed all the time in between, so its column
  must have existed. The list is read again before an entry is reported as missing or written.

A repair ignores entries in indexes that no model has, and items whose tag no model has.
"""

import logging
from collections.abc import Collection, Iterable, Iterator, Sequence

from odm.backends.bigtable.codec import TAG
from odm.backends.bigtable.entries import claims, entry_row, index_table, place_of
from odm.backends.bigtable.errors import kind_of
from odm.backends.bigtable.filters import Family, Newest, chain
from odm.backends.bigtable.index_pages import LIST_ONLY
from odm.backends.bigtable.layout import key_of
from odm.backends.bigtable.native import ENTRIES, SERVER_TIME, Entry, Row, SetCell, Steps
from odm.backends.bigtable.retry import read_many, write_many
from odm.backends.bigtable.writer import Writer
from odm.errors import OdmError, Throttled
from odm.immutable import Immutable

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
    for one in lost:
        claim = SetCell(one.qualifier, one.item.encode("utf-8", "surrogateescape"), SERVER_TIME, ENTRIES)
        work.setdefault(index_table(writer.table, one.index), []).append(Entry(one.row_key, (claim,)))
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
    items = tuple(dict.fromkeys(one.item for one in lost))
    again = yield from writer.places.read(items, writer.retry, LIST_ONLY)
    still = set(_listed(writer, again.values()))
    return [one for one in lost if one in still]


def _listed(writer: Writer, rows: Iterable[Row]) -> Iterator[Lost]:
    """The entries that items list; only items of the models' entities, and entries in the models' indexes."""
    for row in rows:
        tag = str(writer.places.marks(row).get(TAG))
        key = key_of(writer.schema, row.text, tag) if tag in writer.schema.entities else None
        try:
            entries = () if key is None else writer.places.listed(row)
            rows_of = [entry_row(entry.key, key) for entry in entries if key is not None]
        except OdmError as error:
            _LOG.warning("the index entries of an item cannot be checked: %s", kind_of(error))
            continue
        for entry, row_key in zip(entries, rows_of, strict=True):
            if entry.index in writer.schema.indexes and place_of(row_key, writer.layout) == (key, entry.key):
                yield Lost(entry.index, row_key, entry.qualifier, row.text)


def _not_there(writer: Writer, entries: Sequence[Lost], absent: Collection[str]) -> Steps[list[Lost]]:
    """The entries whose columns are missing."""
    lost: list[Lost] = []
    for index in dict.fromkeys(entry.index for entry in entries):
        of_index = [entry for entry in entries if entry.index == index]
        row_keys = tuple(dict.fromkeys(entry.row_key for entry in of_index)) if index not in absent else ()
        columns = chain(Family(ENTRIES), Newest())
        rows = yield from read_many(index_table(writer.table, index), row_keys, writer.retry, columns)
        there = {key: frozenset(claims(row, writer.layout)) for key, row in rows.items()}
        lost += [entry for entry in of_index if entry.qualifier not in there.get(entry.row_key, ())]
    return lost
