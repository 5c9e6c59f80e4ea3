"""Builds rows from the chunks of a ReadRows response, strictly by the published rules.

The server may cut rows into chunks anywhere: it omits fields that did not change, splits long values, and resets a row
that it cannot finish. Every transport passes its messages to this module. A response that breaks a rule of
google.bigtable.v2 (bigtable.proto, CellChunk) is an error.

A scan spends most of its time here. Nearly all rows are *usual* (`odm.backends.bigtable.usual_rows`) and are read
without parsing their chunks. All others are parsed chunk by chunk.
"""

from operator import attrgetter
from typing import Any, Final

from google.protobuf.message import DecodeError

from odm.backends.bigtable.messages import ABSENT, CellChunk, ReadRowsResponse, Received
from odm.backends.bigtable.native import Read, Row
from odm.backends.bigtable.usual_rows import Patterns, columns_of
from odm.errors import BackendError

_FIELDS: Final = attrgetter(
    "row_key", "family_name", "qualifier", "timestamp_micros", "value", "value_size", "reset_row", "commit_row"
)

_NOTHING: Final = (b"", ABSENT, ABSENT, 0, b"", 0)
"""The first fields of a chunk without data."""


class RowMerger:
    """Collects the rows of one response, in the order of reading.

    Attributes:
        rows: the rows committed so far.
    """

    def __init__(self, *, reverse: bool = False) -> None:
        self.rows: list[Row] = []
        self._reverse = reverse
        self._scanned = b""
        self._patterns = Patterns()
        self._columns: list[bytes] = []  # of the current row: qualifiers; before those of a family, ABSENT and its name
        self._values: list[bytes] = []
        self._timestamps: list[int] = []
        self._drop()

    def feed(self, message: Received) -> None:
        """Take the next message of the stream, a ``google.bigtable.v2.ReadRowsResponse``.

        Raises:
            BackendError: the message breaks a rule.
        """
        try:
            response = ReadRowsResponse.FromString(message)
            chunks = response.chunks[:]
            at, count = 0, len(chunks)
            while at < count:
                row = None if self._key else self._patterns.row(chunks, at)
                if row is None:
                    at = self._parse(chunks, at)
                else:
                    if not row.key or not self._follows(row.key):
                        self._begin_row(row.key)  # raises
                    self.rows.append(row)
                    self._scanned = row.key
                    at += len(row.values)
        except DecodeError as fault:
            raise self._broken(f"a message that cannot be parsed ({fault})") from fault
        if response.last_scanned_row_key:
            self._advance(response.last_scanned_row_key)

    def finish(self, failure: Exception | None = None) -> Read:
        """The rows up to the end of the stream, or up to the failure.

        Raises:
            BackendError: the stream ended inside a row, without a failure.
        """
        if failure is None and self._key:
            raise self._broken("the answer ends inside the row")
        scanned = self._scanned.decode("utf-8", "surrogateescape") if self._scanned else None
        return Read(tuple(self.rows), scanned, failure)

    def _parse(self, chunks: list[bytes], at: int) -> int:
        """Take chunks from one on, up to the end of a row; returns the position of the next chunk."""
        columns, values, timestamps = self._columns, self._values, self._timestamps
        absent, parse = ABSENT, CellChunk.FromString
        for place in range(at, len(chunks)):
            fields = key, family, qualifier, timestamp, value, size, reset, commit = _FIELDS(parse(chunks[place]))
            if key or size or reset or family != absent or qualifier == absent or not self._ready:
                self._take(*fields)
            else:  # the usual case: a whole cell of another column in the same family
                columns.append(qualifier)
                values.append(value)
                timestamps.append(timestamp)
            if commit:
                self._commit()
                return place + 1
        return len(chunks)

    def _take(
        self,
        key: bytes,
        family: bytes,
        qualifier: bytes,
        timestamp: int,
        value: bytes,
        size: int,
        reset: bool,
        _: bool,
    ) -> None:
        """Take any chunk: a reset, a cell, or a part of a cell."""
        if reset:
            self._reset((key, family, qualifier, timestamp, value, size))
        else:
            if not self._parts:
                self._begin_cell(key, family, qualifier, timestamp)
            elif key or family != ABSENT or qualifier != ABSENT or timestamp:
                raise self._broken("a cell begins inside another one")
            self._parts.append(value)
            self._ready = not size
            if self._ready:
                self._values.append(b"".join(self._parts))
                self._parts.clear()

    def _begin_cell(self, key: bytes, family: bytes, qualifier: bytes, timestamp: int) -> None:
        """Take the first chunk of a cell; omitted fields have the values of the previous cell."""
        if not self._key:
            self._begin_row(key)
        elif key and key != self._key:
            raise self._broken("the next row begins without a commit")
        if family != ABSENT:
            if qualifier == ABSENT:
                raise self._broken("a column family without a qualifier")
            self._columns += (ABSENT, family)
        elif not self._columns:
            raise self._broken("the first cell of a row has no column")
        self._columns.append(self._columns[-1] if qualifier == ABSENT else qualifier)
        self._timestamps.append(timestamp)

    def _begin_row(self, key: bytes) -> None:
        if not key:
            raise self._broken("a row begins without a row key")
        if not self._follows(key):
            order = "decreasing" if self._reverse else "increasing"
            raise self._broken(f"row {key!r} is out of order: the keys must be {order}")
        self._key = key

    def _commit(self) -> None:
        if not self._ready:
            raise self._broken("the row is committed inside a cell")
        columns = columns_of(tuple(self._columns))
        self.rows.append(Row.parted(self._key, columns, tuple(self._values), tuple(self._timestamps)))
        self._scanned = self._key
        self._drop()

    def _reset(self, data: tuple[Any, ...]) -> None:
        if not self._key:
            raise self._broken("a reset outside of a row")
        if data != _NOTHING:
            raise self._broken("a reset with data")
        self._drop()

    def _drop(self) -> None:
        """Discard the current row."""
        self._key = b""
        self._columns.clear()
        self._values.clear()
        self._timestamps.clear()
        self._parts: list[bytes] = []  # of a cell that is not complete
        self._ready = False  # inside a row, and between two of its cells

    def _advance(self, row_key: bytes) -> None:
        if self._key:
            raise self._broken("last_scanned_row_key inside a row")
        if not self._follows(row_key) and row_key != self._scanned:
            raise self._broken(f"last_scanned_row_key moves back to {row_key!r}")
        self._scanned = row_key

    def _follows(self, row_key: bytes) -> bool:
        if not self._scanned:
            return True
        return row_key < self._scanned if self._reverse else row_key > self._scanned

    def _broken(self, what: str) -> BackendError:
        where = f"row {self._key!r}" if self._key else f"the row after {self._scanned!r}"
        return BackendError(
            f"Bigtable's answer breaks the rules of ReadRows at {where}: {what}. The answer was discarded; if this "
            "happens again, report it with the versions of google-cloud-bigtable and of the server"
        )
