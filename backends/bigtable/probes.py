"""The time of the server, for a scrub: claims have its timestamps, and the local clock may be wrong."""

import re

from odm.backends.bigtable.commit import LEASE_SECONDS
from odm.backends.bigtable.filters import ColumnRange, Newest, ValueIs, chain
from odm.backends.bigtable.native import (
    FAMILY,
    SERVER_TIME,
    DeleteColumn,
    Entry,
    MutateRow,
    ReadRows,
    SetCell,
    Steps,
)
from odm.backends.bigtable.ownership import PROBE_PREFIX
from odm.backends.bigtable.retry import read_all, until_answered
from odm.backends.bigtable.writer import Writer, new_id
from odm.errors import BackendError

PROBE = "\0scrub"
"""The row in which a scrub writes a cell to get the server's time; each scrub has its own column."""

PROBE_COLUMN = re.compile(rb"~scrub-[0-9a-f]{20}")
"""The qualifier of such a column. If a scrub stops before it deletes its column, a later scrub deletes it."""

MICROS = 1_000_000


def server_time(writer: Writer) -> Steps[int]:
    """The server's time in microseconds, which is also the timestamp of claims; the local clock may be wrong.

    It is the timestamp of a new cell, in a column that only this call uses. So the call neither depends on nor changes
    cells of other scrubs, or of another program's row with the same key.

    Raises:
        BackendError: the table did not keep the cell.
    """
    own = f"{PROBE_PREFIX}{new_id()}"
    yield from until_answered(MutateRow(writer.table, Entry(PROBE, (SetCell(own, b"", SERVER_TIME),))), writer.retry)
    probes = chain(ColumnRange(FAMILY, PROBE_PREFIX, "~scrub."), Newest(), ValueIs(b""))
    rows = yield from read_all(ReadRows(writer.table, keys=(PROBE,), filter=probes), writer.retry)
    found = {
        cell.qualifier.decode(): cell.timestamp
        for row in rows
        for cell in row.cells
        if PROBE_COLUMN.fullmatch(cell.qualifier)
    }
    if own not in found:
        raise BackendError(
            f"table {writer.table!r} did not keep the cell that odm wrote to get the server's time: run odm plan, "
            "which reports whether the garbage collection rule of family 'd' deletes cells by their age"
        )
    stale = found[own] - int(LEASE_SECONDS * MICROS)
    gone = (DeleteColumn(name, FAMILY) for name, written in found.items() if name == own or written < stale)
    yield from until_answered(MutateRow(writer.table, Entry(PROBE, tuple(gone))), writer.retry)
    return found[own]
