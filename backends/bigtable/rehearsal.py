"""The requests that a write would send and the rows that it would store, for `explain`, in the syntax of ``cbt``.

The procedure of the write runs without a driver, and gets the responses of empty tables. So the requests are exactly
those of the procedure, and the rows consist of the cells in these requests.
"""

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from typing import Any, Final, TypeAlias

from odm.backends.bigtable.client.filters import shown
from odm.backends.bigtable.client.native import (
    COUNTERS,
    SERVER_TIME,
    AddToCell,
    CheckAndMutateRow,
    Concurrent,
    Entry,
    Mutated,
    MutateRow,
    MutateRows,
    Native,
    Read,
    ReadModifyWriteRow,
    ReadRows,
    SetCell,
    Status,
    Steps,
)
from odm.backends.bigtable.rows.cells import read_counter
from odm.protocol.connection import Later, Rehearsal

_RULE: Final = 40 * "-"
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_ESCAPES: Final = {"\a": r"\a", "\b": r"\b", "\f": r"\f", "\n": r"\n", "\r": r"\r", "\t": r"\t", "\v": r"\v"}

Rows: TypeAlias = dict[str, dict[str, SetCell | AddToCell]]
"""Cells by row key, and by column in the form ``family:qualifier``."""


def rehearse(steps: Steps[Any], table: str, now: int) -> Rehearsal:
    """Run the procedure of a write up to the request that changes the item's own row.

    Args:
        steps: the procedure.
        table: the items' table.
        now: the time to show for cells with the server's time, in microseconds.
    """
    sent: list[Native] = []
    answer: Any = None
    try:
        while not (sent and _writes(sent[-1], table)):
            native = steps.send(answer)
            answer = _nothing(native)
            if not isinstance(native, Later):
                sent.append(native)
    except StopIteration:
        pass
    steps.close()
    return Rehearsal(tuple(sent), _most(sent, table), _stored(sent, table, now))


def _most(sent: list[Native], table: str) -> int | None:
    """The maximum number of requests; None: not limited.

    A refused condition needs one more request. A write that reads first starts over if other writers change the row.
    """
    if isinstance(sent[0], MutateRow):
        return 1
    return 2 if _writes(sent[0], table) else None


def _stored(sent: list[Native], table: str, now: int) -> str:
    """The output of ``cbt read`` for each table after the write."""
    tables: dict[str, Rows] = {table: {}}
    for name, entry in (written for native in sent for written in _entries(native)):
        cells = tables.setdefault(name, {}).setdefault(entry.key, {})
        made = (cell for cell in entry.mutations if isinstance(cell, SetCell | AddToCell))
        cells |= {shown(f"{cell.family}:{cell.qualifier}"): cell for cell in made}
    return "\n".join(_table(name, rows, now) for name, rows in tables.items() if any(rows.values()))


def _writes(native: Native, table: str) -> bool:
    return isinstance(native, MutateRow | CheckAndMutateRow | ReadModifyWriteRow) and native.table == table


def _nothing(native: Native) -> Any:
    """The response of a table without rows."""
    if isinstance(native, ReadRows):
        return Read()
    if isinstance(native, MutateRows):
        return Mutated(dict.fromkeys(range(len(native.entries)), Status(0)))
    return tuple(map(_nothing, native.calls)) if isinstance(native, Concurrent) else None


def _entries(native: Native) -> Iterator[tuple[str, Entry]]:
    """The tables and entries that a request changes."""
    match native:
        case MutateRow():
            yield native.table, native.entry
        case MutateRows():
            yield from ((native.table, entry) for entry in native.entries)
        case CheckAndMutateRow():
            yield native.table, Entry(native.key, native.matched or native.unmatched)
        case Concurrent():
            for call in native.calls:
                yield from _entries(call)
        case _:
            pass


def _table(name: str, rows: Rows, now: int) -> str:
    """The output of ``cbt read`` for one table."""
    lines = [f"$ cbt read {name}"]
    for row_key, cells in sorted(rows.items()):
        lines += [_RULE, row_key]
        for column, cell in sorted(cells.items()):
            at = _EPOCH + timedelta(microseconds=now if cell.timestamp == SERVER_TIME else cell.timestamp)
            lines += [f"  {column:<40} @ {at.astimezone():%Y/%m/%d-%H:%M:%S.%f}", f"    {_value(cell)}"]
        lines.append("")
    return "\n".join(lines)


def _value(cell: SetCell | AddToCell) -> str:
    if isinstance(cell, AddToCell):
        return str(cell.by)
    return str(read_counter(cell.value)) if cell.family == COUNTERS else quoted(cell.value)


def quoted(value: bytes) -> str:
    """Bytes in the syntax of Go's ``%q``: https://pkg.go.dev/strconv#Quote."""
    return f'"{"".join(map(_escaped, value.decode("utf-8", "surrogateescape")))}"'


def _escaped(character: str) -> str:
    code = ord(character)
    if character in '"\\':
        return "\\" + character
    if character.isprintable():
        return character
    if character in _ESCAPES:
        return _ESCAPES[character]
    if code < 0x20 or code == 0x7F:
        return f"\\x{code:02x}"
    if 0xDC80 <= code <= 0xDCFF:  # a byte that is not UTF-8
        return f"\\x{code - 0xDC00:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"
