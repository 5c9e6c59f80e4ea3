"""Row keys with binary parts: requests of tables whose keys have a character for each byte; see `odm.keys.binary`.

The procedures only see keys that are text, and sort as such. Between them and the driver, `with_row_key_bytes` replaces
the row keys of each native request by the text that the driver sends as these bytes, and those of each response back.
"""

from typing import Any, Final, TypeVar

from odm.backends.bigtable.layout import MAX_ROW_KEY
from odm.backends.bigtable.native import (
    CheckAndMutateRow,
    Concurrent,
    Entry,
    MutateRow,
    MutateRows,
    Native,
    Read,
    ReadModifyWriteRow,
    ReadRows,
    Row,
    RowRange,
    Sample,
    Steps,
)
from odm.backends.bigtable.native_admin import CreateTable, DropRows
from odm.backends.bigtable.native_streams import Streamed
from odm.immutable import evolve
from odm.protocol.connection import Later
from odm.schema.model import Schema

R = TypeVar("R")

_BEHIND_ALL: Final = b"\xff" * MAX_ROW_KEY


def with_row_key_bytes(schema: Schema, steps: Steps[R]) -> Steps[R]:
    """The same steps, whose native requests have the row keys that are sent."""
    return with_bytes(steps) if schema.binary_row_keys else steps


def with_bytes(steps: Steps[R]) -> Steps[R]:
    """The same for a table with binary row keys."""
    try:
        native = next(steps)
        while True:
            try:
                response = yield _sent(native)
            except Exception as failure:  # noqa: BLE001  # the steps decide about it
                native = steps.throw(failure)
            else:
                native = steps.send(_received(response))
    except StopIteration as end:
        result: R = end.value
        return result


def key_text(schema: Schema, row_key: str) -> str:
    """A row key that a person wrote, as the procedures have it."""
    return row_key.encode("utf-8", "surrogateescape").decode("latin-1") if schema.binary_row_keys else row_key


def bytes_of(key: str) -> bytes | None:
    """The first row key that does not sort before a text; None: all do.

    A bound can have a character that is not a byte, such as the one behind all bytes.
    """
    try:
        return key.encode("latin-1")
    except UnicodeEncodeError as error:
        head = key[: error.start].encode("latin-1").rstrip(b"\xff")
        return head[:-1] + bytes([head[-1] + 1]) if head else None


def _text(key: bytes) -> str:
    return key.decode("utf-8", "surrogateescape")


def _key(key: str) -> str:
    return _text(bytes_of(key) or _BEHIND_ALL)


def _range(span: RowRange) -> RowRange:
    end = None if span.end is None else bytes_of(span.end)
    start = bytes_of(span.start)
    # No row key is a start that has other characters than bytes: the one in its place is the first of the range.
    is_open = span.open and start is not None and start.decode("latin-1") == span.start
    start = _BEHIND_ALL if start is None else start
    return RowRange(_text(start), None if end is None else _text(end), is_open)


def _sent(native: Native) -> Native:
    match native:
        case ReadRows():
            return evolve(native, keys=tuple(map(_key, native.keys)), range=_range(native.range))
        case MutateRow():
            return evolve(native, entry=_entry(native.entry))
        case MutateRows():
            return evolve(native, entries=tuple(map(_entry, native.entries)))
        case CheckAndMutateRow() | ReadModifyWriteRow():
            return evolve(native, key=_key(native.key))
        case CreateTable():
            return evolve(native, splits=tuple(map(_key, native.splits)))
        case DropRows():
            return native if native.prefix is None else evolve(native, prefix=_key(native.prefix))
        case Concurrent(calls):
            return Concurrent(tuple(map(_sent, calls)))  # type: ignore[arg-type]  # a call stays one
        case Later():
            return evolve(native, steps=with_bytes(native.steps))
        case _:
            return native


def _entry(entry: Entry) -> Entry:
    return evolve(entry, key=_key(entry.key))


def _received(response: Any) -> Any:
    match response:
        case Read():
            scanned = response.scanned
            if scanned is not None:
                scanned = scanned.encode("utf-8", "surrogateescape").decode("latin-1")
            return evolve(response, rows=tuple(map(_row, response.rows)), scanned=scanned)
        case Row():
            return _row(response)
        case Sample():
            return response._replace(key=_received_key(response.key))
        case Streamed():
            changes = [evolve(change, key=_received_key(change.key)) for change in response.changes]
            return evolve(response, changes=changes)
        case tuple() if type(response) is tuple:  # of samples, or of several calls
            return tuple(map(_received, response))
        case _:
            return response


def _row(row: Row) -> Row:
    return Row.parted(_received_key(row.key), row.columns, row.values, row.timestamps)


def _received_key(key: bytes) -> bytes:
    """The bytes of the text with a character for each byte of a row key."""
    return key.decode("latin-1").encode()
