"""The records of transactions: rows of a table of their own, whose keys are the ids of the transactions' attempts.

A record says "committed" or "aborted". *Without a record, a transaction is undecided.* Both are written by the same
kind of call, which only writes if there is no record yet: so the first one counts, and nothing needs to be created
before.
"""

import json
from collections.abc import Collection, Iterable, Sequence
from typing import Final, Literal, TypeAlias

from odm.backends.bigtable.client.filters import Newest
from odm.backends.bigtable.client.native import (
    RECORD,
    SERVER_TIME,
    CheckAndMutateRow,
    DeleteFamily,
    Entry,
    MutateRow,
    Row,
    SetCell,
    Steps,
)
from odm.backends.bigtable.client.retry import Retry, read_many, until_answered

STATE: Final = "state"
ROWS: Final = "rows"

State: TypeAlias = Literal["committed", "aborted"]


def commit(records: str, id: str, row_keys: Sequence[str]) -> CheckAndMutateRow:
    """The call that commits a transaction; the response is False if it did, and True if there was a record.

    The record names the rows, because a scrub must write those that are still locked before it removes the record.
    """
    rows = SetCell(ROWS, json.dumps(row_keys).encode(), SERVER_TIME, RECORD)
    return CheckAndMutateRow(records, id, unmatched=(SetCell(STATE, b"committed", SERVER_TIME, RECORD), rows))


def abort(records: str, id: str, retry: Retry) -> Steps[bool]:
    """Abort a transaction. Returns whether this call wrote the record; if not, or if it was resent, read the record."""
    row = yield from until_answered(
        CheckAndMutateRow(records, id, unmatched=(SetCell(STATE, b"aborted", SERVER_TIME, RECORD),)), retry
    )
    return not row


def states(records: str, ids: Iterable[str], retry: Retry) -> Steps[dict[str, State]]:
    """What the records of transactions say; a transaction without a record is left out."""
    rows = yield from read_many(records, tuple(dict.fromkeys(ids)), retry, Newest())
    return {id: state_of(row) for id, row in rows.items()}


def remove(records: str, ids: Collection[str], retry: Retry) -> Steps[None]:
    """Remove records."""
    for id in ids:
        yield from until_answered(MutateRow(records, Entry(id, (DeleteFamily(RECORD),))), retry)


def state_of(row: Row) -> State:
    """What a record says."""
    said = {cell.qualifier: cell.value for cell in row.cells}
    return "committed" if said.get(STATE.encode()) == b"committed" else "aborted"


def rows_of(row: Row) -> tuple[str, ...]:
    """The row keys of a transaction's items, in its record."""
    said = {cell.qualifier: cell.value for cell in row.cells}
    return tuple(json.loads(said.get(ROWS.encode(), b"[]")))
