"""Native requests: the procedures yield them and the driver sends them.

They are frozen values of text and bytes, and do not use Google's packages. Their text has the syntax of ``cbt``,
Google's command line. Row keys are `str`: code points sort in the same order as their UTF-8 bytes, which is Bigtable's
order of rows.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar

from odm.backends.bigtable.filters import AnyFamily, Chain, Filter, Newest, quoted
from odm.backends.bigtable.native_admin import AdminCall
from odm.backends.bigtable.native_streams import Begin, Span
from odm.immutable import Immutable, evolve, field
from odm.protocol.connection import Later, NativeGen
from odm.protocol.requests import Notice, Sleep

FAMILY = "d"
"""The column family of an item's attributes."""

COUNTERS = "c"
"""The column family of an item's Counters: 64-bit numbers, which the server increments."""

ENTRIES = "i"
"""The column family of an index table."""

RECORD = "t"
"""The column family of the records of transactions."""

Cookies: TypeAlias = tuple[tuple[str, str], ...]
"""Metadata that the server sent, to be returned to it, see `odm.backends.bigtable.advice`."""

SERVER_TIME = -1
"""The timestamp that the server replaces by its own time."""

ITEM: Final = Chain((AnyFamily((COUNTERS, FAMILY)), Newest()))
"""All of an item: the newest cells of odm's two families, and of no other family."""

_SHOWN = 60

R = TypeVar("R")


class RowRange(Immutable):
    """Row keys from ``start`` up to but not including ``end``; ``end`` None is the end of the table.

    ``open``: ``start`` itself is not included either.
    """

    start: str = ""
    end: str | None = None
    open: bool = False

    @property
    def empty(self) -> bool:
        """Whether the range contains no row key; such a range must not be sent."""
        first = self.start + "\0" if self.open else self.start
        return self.end is not None and self.end <= first

    def beyond(self, row_key: str, *, reverse: bool) -> "RowRange":
        """The rest of the range after a row key, in the direction of reading."""
        if reverse:
            return evolve(self, end=row_key) if self.end is None or row_key < self.end else self
        return evolve(self, start=row_key, open=True) if row_key >= self.start else self

    def __str__(self) -> str:
        start = f"start={quoted(self.start)}" if self.start else ""
        if self.open:
            start = f"after={quoted(self.start)}"
        end = f"end={quoted(self.end)}" if self.end is not None else ""
        return " ".join(part for part in (start, end) if part)


class _DataCall(Immutable, kw_only=True):
    """A call of the data service. ``cookies``: metadata to return that the server sent with an earlier attempt."""

    cookies: Cookies = field(default=(), eq=False, repr=False)


class ReadRows(_DataCall):
    """Read rows by ``keys``, or in ``range``; only the cells that pass ``filter``. Response: `Read`.

    ``limit`` is the maximum number of rows. The response omits rows of which no cell passes. ``streamed``: an attempt
    that fails answers the rows that arrived before; otherwise it may answer none. ``profile``: the app profile, if it
    is not that of the settings.
    """

    table: str
    keys: tuple[str, ...] = ()
    range: RowRange = RowRange()
    limit: int | None = None
    reverse: bool = False
    filter: Filter = ITEM
    streamed: bool = field(default=False, eq=False)
    profile: str | None = None

    def __str__(self) -> str:
        profile = f" app-profile={self.profile}" if self.profile is not None else ""
        if self.keys:
            return f"lookup {self.table} {' '.join(map(quoted, self.keys))} {self.filter}{profile}"
        words = [f"read {self.table}", str(self.range)]
        words += [f"count={self.limit}"] * (self.limit is not None)
        words += ["reversed=true"] * self.reverse
        words += [str(self.filter)]
        return " ".join(word for word in words if word) + profile


class DeleteFamily(Immutable):
    """Delete the cells of one column family."""

    family: str

    def __str__(self) -> str:
        return f"deletefamily {self.family}"


class DeleteColumn(Immutable):
    """Delete the cells of one column; with ``before``, only those with an earlier timestamp, in microseconds."""

    qualifier: str
    family: str = FAMILY
    before: int | None = None

    def __str__(self) -> str:
        until = "" if self.before is None else f" before {self.before}"
        return f"deletecolumn {quoted(f'{self.family}:{self.qualifier}')}{until}"


class SetCell(NamedTuple):
    """Write one cell; ``timestamp`` is `SERVER_TIME`, or in microseconds since 1970, in whole milliseconds."""

    qualifier: str
    value: bytes
    timestamp: int
    family: str = FAMILY

    def __str__(self) -> str:
        if self.family == COUNTERS:
            return f"{self.family}:{self.qualifier}={int.from_bytes(self.value, 'big', signed=True)}"
        text = _readable(self.value)
        return f"{self.family}:{self.qualifier}={quoted(text if len(text) <= _SHOWN else text[:_SHOWN] + '…')}"


class AddToCell(Immutable):
    """Add a number to a cell of an aggregate family. Not idempotent.

    Cells of a column with different timestamps are aggregated separately, so all writers use the same timestamp.
    """

    qualifier: str
    by: int
    family: str
    timestamp: int = 0

    def __str__(self) -> str:
        return f"addtocell {quoted(f'{self.family}:{self.qualifier}')}={self.by}"


Mutation: TypeAlias = DeleteFamily | DeleteColumn | SetCell | AddToCell


class Entry(Immutable):
    """A row key and the mutations of its row, which are applied all or none."""

    key: str
    mutations: tuple[Mutation, ...]

    def __str__(self) -> str:
        return f"{quoted(self.key)} {_listed(self.mutations)}"


class MutateRow(_DataCall):
    """Change one row without a condition. Response: None."""

    table: str
    entry: Entry

    def __str__(self) -> str:
        return f"mutate {self.table} {self.entry}"


class MutateRows(_DataCall):
    """Change several rows, each independently. Response: `Mutated`."""

    table: str
    entries: tuple[Entry, ...]

    def __str__(self) -> str:
        return "\n".join((f"mutate {self.table}, {len(self.entries)} rows:", *(f"  {entry}" for entry in self.entries)))


class CheckAndMutateRow(_DataCall):
    """Change one row, depending on whether a cell of it passes the predicate. Response: bool, whether a cell passed.

    ``predicate`` None: any cell passes, so the request checks whether the row exists.
    """

    table: str
    key: str
    predicate: Filter | None = None
    matched: tuple[Mutation, ...] = ()
    unmatched: tuple[Mutation, ...] = ()

    def __str__(self) -> str:
        what = "there" if self.predicate is None else str(self.predicate)
        cases = ((f"if {what}:", self.matched), (f"if not {what}:", self.unmatched))
        actions = "; ".join(f"{case} {_listed(mutations)}" for case, mutations in cases if mutations)
        return f"check-and-mutate {self.table} {quoted(self.key)} {actions}"


class Increment(Immutable):
    """Add to the number in a cell (8 bytes, big-endian, signed); a missing cell counts as 0."""

    qualifier: str
    by: int
    family: str = COUNTERS

    def __str__(self) -> str:
        return f"{self.family}:{self.qualifier}+={self.by}"


class AppendValue(Immutable):
    """Append bytes to a cell; a missing cell counts as empty."""

    qualifier: str
    value: bytes
    family: str = FAMILY

    def __str__(self) -> str:
        return f"{self.family}:{self.qualifier}.={quoted(_readable(self.value))}"


class ReadModifyWriteRow(_DataCall):
    """Increment cells or append to them, without a condition. Response: `Row` of the written cells."""

    table: str
    key: str
    rules: tuple[Increment | AppendValue, ...]

    def __str__(self) -> str:
        return f"read-modify-write {self.table} {quoted(self.key)} {_listed(self.rules)}"


class SampleRowKeys(_DataCall):
    """Get row keys that divide the table into parts of similar size. Response: tuple of `Sample`, in order."""

    table: str

    def __str__(self) -> str:
        return f"sample-row-keys {self.table}"


class GenerateInitialChangeStreamPartitions(_DataCall):
    """Get the partitions of a table's change stream. Response: tuple of `Span`."""

    table: str

    def __str__(self) -> str:
        return f"generate-initial-change-stream-partitions {self.table}"


class ReadChangeStream(_DataCall):
    """Read changes of a partition, up to the next heartbeat. Response: `odm.backends.bigtable.native_streams.Streamed`.

    ``limit`` is the maximum number of changes; 0: only find out whether the stream can be read from ``begin`` on.
    """

    table: str
    span: Span
    begin: Begin
    limit: int

    def __str__(self) -> str:
        return f"read-change-stream {self.table} {self.span.id} {self.begin} count={self.limit}"


_Writes: TypeAlias = MutateRow | MutateRows | CheckAndMutateRow | ReadModifyWriteRow
_Streams: TypeAlias = GenerateInitialChangeStreamPartitions | ReadChangeStream
DataCall: TypeAlias = ReadRows | SampleRowKeys | _Writes | _Streams
Call: TypeAlias = DataCall | AdminCall


class Concurrent(Immutable):
    """Make calls at the same time. Response: for each call, in order, its response or its native failure."""

    calls: tuple[Call, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.calls))


Native: TypeAlias = Call | Concurrent | Notice | Sleep | Later[Any]

Steps: TypeAlias = NativeGen[Native, R]
"""A procedure of this backend: a generator that yields native requests, is sent responses, and returns a result."""


class Column(NamedTuple):
    """A column: its family and its qualifier."""

    family: str
    qualifier: bytes


class Cell(NamedTuple):
    """One cell that was read."""

    family: str
    qualifier: bytes
    value: bytes
    timestamp: int = 0


class Row:
    """One row that was read: its columns, and in the same order their values and timestamps.

    Rows of one response that have the same columns share one tuple of columns.
    """

    __slots__ = ("columns", "key", "timestamps", "values")

    columns: tuple[Column, ...]
    values: tuple[bytes, ...]
    timestamps: tuple[int, ...]

    def __init__(self, key: bytes, cells: Iterable[Cell] = ()) -> None:
        found = tuple(cells)
        self.key = key
        self.columns = tuple(Column(cell.family, cell.qualifier) for cell in found)
        self.values = tuple(cell.value for cell in found)
        self.timestamps = tuple(cell.timestamp for cell in found)

    @classmethod
    def parted(
        cls, key: bytes, columns: tuple[Column, ...], values: tuple[bytes, ...], timestamps: tuple[int, ...]
    ) -> "Row":
        """The row with these columns, values and timestamps."""
        row = cls.__new__(cls)
        row.key, row.columns, row.values, row.timestamps = key, columns, values, timestamps
        return row

    @property
    def cells(self) -> tuple[Cell, ...]:
        """The cells, in the server's order."""
        return tuple(
            Cell(column.family, column.qualifier, value, timestamp)
            for column, value, timestamp in zip(self.columns, self.values, self.timestamps, strict=True)
        )

    @property
    def text(self) -> str:
        """The row key as text. Bytes that are not UTF-8, in keys of other programs, become surrogates, without loss."""
        return self.key.decode("utf-8", "surrogateescape")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Row) and (self.key, self.cells) == (other.key, other.cells)

    def __hash__(self) -> int:
        return hash(self.key)

    def __repr__(self) -> str:
        return f"Row({self.key!r}, {self.cells!r})"


class Read(Immutable):
    """The answer to one attempt of `ReadRows`: whole rows, and the failure that ended the attempt, if any.

    ``scanned``: the last row key that the server has scanned, whether or not its row is in ``rows``.
    """

    rows: tuple[Row, ...] = ()
    scanned: str | None = None
    failure: Exception | None = None


class Sample(NamedTuple):
    """A row key, which need not exist, and the approximate number of bytes before it; "" is the table's end."""

    key: bytes
    offset: int


class Status(NamedTuple):
    """The server's answer for one entry: a gRPC status code and a message; code 0 is success."""

    code: int
    message: str = ""


class Mutated(Immutable):
    """The answer to one attempt of `MutateRows`: statuses by the index of the entry, and the failure that ended it."""

    answers: Mapping[int, Status] = field(factory=dict)
    failure: Exception | None = None


def _listed(changes: tuple[object, ...]) -> str:
    return " ".join(map(str, changes))


def _readable(value: bytes) -> str:
    """The text of a cell, with escapes for bytes that are not UTF-8 and for characters that are not printable."""
    text = value.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
