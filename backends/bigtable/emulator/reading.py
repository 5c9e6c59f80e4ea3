"""ReadRows: which rows, in which order, and their cells as chunks of the response."""

from collections.abc import Iterable, Iterator, Sequence
from functools import lru_cache
from typing import Any, Final, NamedTuple

from attrs import define, field
from msgspec import Struct

from odm.backends.bigtable.client.encoding import field as wire
from odm.backends.bigtable.client.encoding import number_field
from odm.backends.bigtable.emulator import limits
from odm.backends.bigtable.emulator.filters import Filter, Pass, read_filter
from odm.backends.bigtable.emulator.refusals import Refused, invalid
from odm.backends.bigtable.emulator.rows import Cell, Row
from odm.backends.bigtable.emulator.tables import Table

ROWS: Final = 100
"""The most rows of a message."""

BYTES: Final = 2**16
"""The bytes from which a message ends. Google's tests of its client expect several messages for half a megabyte."""

LONG: Final = 2**21
"""The bytes from which a message ends in the middle of a row."""

PART: Final = 2**18
"""The most bytes of a value in a chunk."""


class Interval(NamedTuple):
    """The keys in ``[start, end)``; ``end`` None: to the end of the table."""

    start: bytes
    end: bytes | None


class Found(Struct, frozen=True):
    """The next rows of a read.

    Attributes:
        rows: the keys and chunks of the rows that have cells.
        cells: the number of their cells.
        seen: the number of rows that were read.
        seen_cells: the number of their cells.
        scanned: the key of the last row that was read, if it has no chunks.
    """

    rows: list[tuple[bytes, list[bytes]]]
    cells: int
    seen: int
    seen_cells: int
    scanned: bytes | None


@define
class Reader:
    """Reads the rows of a request.

    Attributes:
        table: the table.
        filter: the filter.
        left: how many rows may still be returned; None: all.
        reverse: the last row comes first.
        intervals: the keys that are left, in the order in which they are read.
    """

    table: Table
    filter: Filter
    left: int | None
    reverse: bool
    intervals: list[Interval] = field(factory=list)
    _failure: Refused | None = field(init=False, default=None)

    @classmethod
    def of(cls, table: Table, request: Any) -> "Reader":
        """The reader of a request. Raises `Refused`."""
        if request.rows_limit < 0:
            raise invalid(f"rows_limit must not be negative, and is {request.rows_limit}")
        if (size := request.ByteSize()) > limits.READ:
            raise invalid(f"A ReadRowsRequest has at most {limits.READ} bytes, and this one has {size}")
        filter_: Filter = Pass()
        if request.HasField("filter"):
            filter_ = read_filter(request.filter, table.families, table.unit)
        intervals = intervals_of(request.rows)
        if request.reversed:
            intervals.reverse()
        return cls(table, filter_, request.rows_limit or None, request.reversed, intervals)

    def __iter__(self) -> Iterator[Found]:
        while self.intervals and self.left != 0:
            with self.table.held():
                row = self._next()
            yield row
            if self._failure is not None:
                raise self._failure

    def _next(self) -> Found:
        """The next rows. No row is seen in the middle of a write."""
        rows: list[tuple[bytes, list[bytes]]] = []
        size = cells = seen = seen_cells = 0
        scanned = None
        for key, row in self._rows():
            before = self.table.cells(row)
            after = self.table.evaluator.cells(self.filter, key, before)
            seen += 1
            seen_cells += len(before)
            if not after:
                scanned = key
                continue
            scanned = None
            long = sum(len(cell.qualifier) + len(cell.value) for cell in after)
            if long > limits.ROW:
                self._failure = limits.row_too_large(key, long)  # after the rows before it
                break
            size += long
            cells += len(after)
            rows.append((key, chunks_of(key, after)))
            if self.left is not None:
                self.left -= 1
                if not self.left:
                    break
            if size > BYTES:
                break
        return Found(rows, cells, seen, seen_cells, scanned)

    def _rows(self) -> Iterator[tuple[bytes, Row]]:
        """At most `ROWS` rows; what is left is what comes behind the last of them."""
        held, left = self.table.rows, ROWS
        while self.intervals and left:
            start, end = self.intervals[0]
            if end == start + b"\0":  # a single key
                del self.intervals[0]
                if (row := held.get(start)) is not None:
                    left -= 1
                    yield start, row
                continue
            for key in held.irange(start, end, (True, False), self.reverse):
                self.intervals[0] = Interval(start, key) if self.reverse else Interval(key + b"\0", end)
                left -= 1
                yield key, held[key]
                if not left:
                    return
            del self.intervals[0]


def intervals_of(rows: Any) -> list[Interval]:
    """The keys of a google.bigtable.v2.RowSet as intervals that do not meet, in order. Raises `Refused`."""
    intervals: list[Interval] = []
    for key in rows.row_keys:
        limits.check_key(key)
        intervals.append(Interval(key, key + b"\0"))
    intervals += [_interval(message, f"Error in element #{number}") for number, message in enumerate(rows.row_ranges)]
    if not rows.row_keys and not rows.row_ranges:
        return [Interval(b"", None)]
    joined: list[Interval] = []
    for one in sorted(
        (interval for interval in intervals if interval.end is None or interval.start < interval.end), key=_start
    ):
        last = joined[-1] if joined else None
        if last is None or (last.end is not None and one.start > last.end) or _are_single(last, one):
            if one != last:
                joined.append(one)
        elif last.end is not None:
            joined[-1] = Interval(last.start, None if one.end is None else max(last.end, one.end))
    return joined


def _start(interval: Interval) -> bytes:
    return interval.start


def _are_single(last: Interval, one: Interval) -> bool:
    """Whether these are two single keys, each of which is looked up by itself."""
    return last.end == last.start + b"\0" and one.end == one.start + b"\0"


def _interval(span: Any, where: str) -> Interval:
    start, end = span.WhichOneof("start_key"), span.WhichOneof("end_key")
    low, high = (b"" if name is None else getattr(span, name) for name in (start, end))
    if max(len(low), len(high)) > limits.ROW_KEY:
        raise invalid(f"{where}: Row keys must not exceed {limits.ROW_KEY} bytes")
    if low and high and low > high:
        raise invalid(f"{where}: {start} must not be behind {end}, and {low[:40]!r} is behind {high[:40]!r}")
    if start == "start_key_open":
        low += b"\0"
    if end == "end_key_closed" and high:
        high += b"\0"
    return Interval(low, high or None)


def chunks_of(key: bytes, cells: Sequence[Cell]) -> list[bytes]:
    """The cells of a row as google.bigtable.v2.ReadRowsResponse.CellChunk messages."""
    chunks: list[bytes] = []
    head, family, qualifier = wire(1, key), "", b""
    for cell in cells:
        if head or cell.family != family or cell.qualifier != qualifier:
            head += _column(cell.family if head or cell.family != family else None, cell.qualifier)
            family, qualifier = cell.family, cell.qualifier
        head += number_field(4, cell.timestamp)
        for label in cell.labels:
            head += wire(5, label.encode())
        size = len(cell.value)
        for at in range(0, size or 1, PART):
            total = number_field(7, size) if at + PART < size else b""
            chunks.append(head + wire(6, cell.value[at : at + PART]) + total)
            head = b""
    chunks[-1] += _COMMIT
    return chunks


def messages_of(rows: Iterable[tuple[bytes, list[bytes]]], *, divided: bool) -> Iterator[bytes]:
    """The google.bigtable.v2.ReadRowsResponse messages with the chunks of rows, given by their keys.

    Args:
        rows: the rows.
        divided: long rows come in several messages, each of which names the row again. Google's client of Python takes
            at most 4 MiB from an emulator, and expects the name. That of Go takes whole rows only.
    """
    parts, size = list[bytes](), 0
    for key, chunks in rows:
        for number, chunk in enumerate(chunks):
            if size > BYTES if not number else divided and size > LONG:
                yield b"".join(parts)
                parts, size = [], 0
            parts.append(wire(1, chunk + wire(1, key) if number and not parts else chunk))
            size += len(chunk)
    if parts:
        yield b"".join(parts)


@lru_cache(maxsize=4096)
def _column(family: str | None, qualifier: bytes) -> bytes:
    name = b"" if family is None else wire(2, wire(1, family.encode()))
    return name + wire(3, wire(1, qualifier))


_COMMIT: Final = number_field(9, True)
