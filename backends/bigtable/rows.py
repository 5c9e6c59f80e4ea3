"""Rows from the chunks of a ReadRows answer, by the published rules, strictly.

A server cuts rows into chunks where it likes: fields that did not change are left out, a long value is split, and a row
that can not be finished is reset. Both drivers feed their responses here; nothing is guessed, and what breaks a rule
of google.bigtable.v2 (bigtable.proto, CellChunk) is an error.
"""

from typing import Any

from odm.backends.bigtable.native import Cell, Read, Row
from odm.errors import BackendError


class RowMerger:
    """The rows of one answer, in the order of reading.

    Attributes:
        rows: the rows that were committed so far.
    """

    def __init__(self, *, reverse: bool = False) -> None:
        self.rows: list[Row] = []
        self._reverse = reverse
        self._scanned = b""
        self._key = b""
        self._cells: list[Cell] = []
        self._cell: Cell | None = None  # begun, more of its value is to come
        self._parts: list[bytes] = []

    def feed(self, response: Any) -> None:
        """Take the next response of the stream, a protobuf ``ReadRowsResponse``.

        Raises:
            BackendError: it breaks the rules.
        """
        for chunk in response.chunks:
            if chunk.reset_row:
                self._reset(chunk)
            else:
                self._take(chunk)
        if response.last_scanned_row_key:
            self._advance(response.last_scanned_row_key)

    def finish(self, failure: Exception | None = None) -> Read:
        """What the stream brought until it ended, or until the failure.

        Raises:
            BackendError: the stream ended inside a row without a failure.
        """
        if failure is None and self._key:
            raise self._broken("the answer ends inside the row")
        scanned = self._scanned.decode("utf-8", "surrogateescape") if self._scanned else None
        return Read(tuple(self.rows), scanned, failure)

    def _take(self, chunk: Any) -> None:
        if self._cell is None:
            self._cell = self._begin(chunk)
        elif chunk.row_key or chunk.HasField("family_name") or chunk.HasField("qualifier") or chunk.timestamp_micros:
            raise self._broken("a cell begins inside another one")
        self._parts.append(chunk.value)
        if chunk.value_size:
            if chunk.commit_row:
                raise self._broken("the row is committed inside a cell")
            return
        self._cells.append(self._cell._replace(value=b"".join(self._parts)))
        self._cell, self._parts = None, []
        if chunk.commit_row:
            self.rows.append(Row(self._key, tuple(self._cells)))
            self._scanned = self._key
            self._drop()

    def _begin(self, chunk: Any) -> Cell:
        """The first chunk of a cell; what it leaves out is as in the cell before."""
        if not self._key:
            self._begin_row(chunk)
        elif chunk.row_key and chunk.row_key != self._key:
            raise self._broken("the next row begins without a commit")
        family, qualifier = chunk.HasField("family_name"), chunk.HasField("qualifier")
        if family and not qualifier:
            raise self._broken("a column family without a qualifier")
        before = self._cells[-1] if self._cells else None
        if before is None and not family:
            raise self._broken("the first cell of a row without its column")
        return Cell(
            chunk.family_name.value if family or before is None else before.family,
            chunk.qualifier.value if qualifier or before is None else before.qualifier,
            b"",
            chunk.timestamp_micros,
            tuple(chunk.labels),
        )

    def _begin_row(self, chunk: Any) -> None:
        if not chunk.row_key:
            raise self._broken("a row begins without its key")
        if not self._follows(chunk.row_key):
            raise self._broken(f"row {chunk.row_key!r} comes out of order")
        self._key = chunk.row_key

    def _reset(self, chunk: Any) -> None:
        if not self._key:
            raise self._broken("a reset outside of a row")
        fields = {descriptor.name for descriptor, _ in chunk.ListFields()}
        if fields != {"reset_row"}:
            raise self._broken("a reset that carries data")
        self._drop()

    def _drop(self) -> None:
        self._key, self._cells, self._cell, self._parts = b"", [], None, []

    def _advance(self, row_key: bytes) -> None:
        if self._key:
            raise self._broken("the position moves inside a row")
        if not self._follows(row_key) and row_key != self._scanned:
            raise self._broken(f"the position moves back to {row_key!r}")
        self._scanned = row_key

    def _follows(self, row_key: bytes) -> bool:
        if not self._scanned:
            return True
        return row_key < self._scanned if self._reverse else row_key > self._scanned

    def _broken(self, what: str) -> BackendError:
        where = f"row {self._key!r}" if self._key else f"the row after {self._scanned!r}"
        return BackendError(
            f"Bigtable's answer breaks the rules of ReadRows at {where}: {what}. Nothing of this answer was used; "
            "if it repeats, report it with the versions of google-cloud-bigtable and of the server"
        )
