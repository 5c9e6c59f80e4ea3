"""Builds rows from the chunks of a ReadRows response, strictly by the published rules.

The server may cut rows into chunks anywhere: it omits fields that did not change, splits long values, and resets a row
that it cannot finish. The sync and async drivers both pass their responses to this module. A response that breaks a
rule of google.bigtable.v2 (bigtable.proto, CellChunk) is an error.

A scan spends nearly all of its time in this loop, so it reads the fields of a chunk in one step, and decodes the names
of a row's columns only once.
"""

from operator import attrgetter
from typing import Any, Final

from odm.backends.bigtable.messages import ABSENT, ReadRowsResponse, column
from odm.backends.bigtable.native import Column, Read, Row
from odm.errors import BackendError

_FIELDS: Final = attrgetter(
    "row_key", "family_name", "qualifier", "timestamp_micros", "value", "value_size", "reset_row", "commit_row"
)

_NOTHING: Final = (b"", ABSENT, ABSENT, 0, b"", 0)
"""The first fields of a chunk without data."""

_KNOWN: Final[dict[tuple[bytes, ...], tuple[Column, ...]]] = {}
"""The columns of rows by the names of these columns in chunks, shared by all responses, of all threads.

A response has few different sets of columns, and most are those of an entity. Other programs may write any number of
them, so there are limits; the cache is emptied when it is full, and a response keeps the columns that it has in use.
"""

_MOST_KNOWN: Final = 1024
_MOST_BYTES: Final = 4096
"""The maximum sets of columns in the cache, and the maximum bytes of the names of one."""


class RowMerger:
    """Collects the rows of one response, in the order of reading.

    Attributes:
        rows: the rows committed so far.
    """

    def __init__(self, *, reverse: bool = False) -> None:
        self.rows: list[Row] = []
        self._reverse = reverse
        self._scanned = b""
        self._known: dict[tuple[bytes, ...], tuple[Column, ...]] = {}  # as `_KNOWN`, of this response, without limits
        self._columns: list[bytes] = []  # of the current row: qualifiers; before those of a family, ABSENT and its name
        self._values: list[bytes] = []
        self._timestamps: list[int] = []
        self._drop()

    def feed(self, message: bytes) -> None:
        """Take the next message of the stream, a ``google.bigtable.v2.ReadRowsResponse``.

        Raises:
            BackendError: the response breaks a rule.
        """
        response = ReadRowsResponse.FromString(message)
        columns, values, timestamps, absent = self._columns, self._values, self._timestamps, ABSENT
        for chunk in map(_FIELDS, response.chunks):
            key, family, qualifier, timestamp, value, size, reset, commit = chunk
            if key or size or reset or family != absent or qualifier == absent or not self._ready:
                self._take(*chunk)
            else:  # the usual case: a whole cell of another column in the same family
                columns.append(qualifier)
                values.append(value)
                timestamps.append(timestamp)
            if commit:
                self._commit()
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

    def _take(
        self, key: bytes, family: bytes, qualifier: bytes, timestamp: int, value: bytes, size: int, reset: bool, _: bool
    ) -> None:
        """Take any chunk: a reset, a cell, or a part of a cell."""
        if reset:
            self._reset((key, family, qualifier, timestamp, value, size))
            return
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
            raise self._broken(f"row {key!r} is out of order")
        self._key = key

    def _commit(self) -> None:
        if not self._ready:
            raise self._broken("the row is committed inside a cell")
        names = tuple(self._columns)
        columns = self._known.get(names) or self._columns_of(names)
        self.rows.append(Row.parted(self._key, columns, tuple(self._values), tuple(self._timestamps)))
        self._scanned = self._key
        self._drop()

    def _columns_of(self, names: tuple[bytes, ...]) -> tuple[Column, ...]:
        """The columns of a row, cached for further rows of this response."""
        columns = self._known[names] = _KNOWN.get(names) or _decoded(names)
        return columns

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


def _decoded(names: tuple[bytes, ...]) -> tuple[Column, ...]:
    """The columns of a row, cached for further responses if their names are not large."""
    family, found = b"", []
    place = iter(names)
    for name in place:
        if name == ABSENT:
            family = next(place)
        else:
            found.append(column(family, name))
    columns = tuple(found)
    if sum(map(len, names)) <= _MOST_BYTES:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[names] = columns
    return columns
