"""Requests for data, as values: procedures yield them and the driver sends them; and what change streams deliver.

They are frozen values of text and bytes, and do not use Google's packages. Their text has the syntax of ``cbt``,
Google's command line. Row keys are `str`: code points sort in the same order as their UTF-8 bytes, which is Bigtable's
order of rows.

A partition of a change stream, in odm a *shard*, is a range of row keys. Its name and the positions in it are text::

    PRODUCT%235:USER%23                 the row keys from PRODUCT#5 up to but not including USER#
    PRODUCT%235:USER%23=CgR0b2tl        a position: a continuation token of this range
    PRODUCT%235:USER%23@1700000000000   a position: a time, in microseconds, at which to begin

A partition that continues several others has a position from each of them, one a line.
"""

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise
from typing import Any, Final, NamedTuple, TypeAlias, TypeVar
from urllib.parse import quote, unquote_to_bytes

from odm.backends.bigtable.client.filters import AnyFamily, Chain, Filter, Newest, quoted
from odm.backends.bigtable.client.native_admin import AdminCall
from odm.immutable import Immutable, evolve, field
from odm.protocol.connection import Later, NativeGen
from odm.protocol.requests import Notice, Sleep

_SPAN: Final = re.compile(r"([^:@=\n]*):([^:@=\n]*)")
_POSITION: Final = re.compile(rf"({_SPAN.pattern})(?:=([^:@=\n]+)|@([0-9]{{1,18}}))")


class Span(NamedTuple):
    """A range of row keys, from ``start`` up to but not including ``end``; ``end`` b"" is the end of the table."""

    start: bytes
    end: bytes

    @property
    def id(self) -> str:
        """Its name."""
        return f"{quote(self.start, safe='')}:{quote(self.end, safe='')}"

    @classmethod
    def of(cls, id: str) -> "Span | None":
        """The range with this name; None: it is another text."""
        match = _SPAN.fullmatch(id)
        if match is None:
            return None
        span = cls(unquote_to_bytes(match[1]), unquote_to_bytes(match[2]))
        return span if span.id == id and not (span.end and span.end <= span.start) else None

    def ends_before(self, start: bytes) -> bool:
        """Whether it has no row key from ``start`` on."""
        return bool(self.end) and self.end <= start

    def meets(self, other: "Span") -> bool:
        """Whether a row key is in both ranges."""
        return not self.ends_before(other.start) and not other.ends_before(self.start)


class Token(NamedTuple):
    """A position in a partition, from the server."""

    span: Span
    token: str

    def __str__(self) -> str:
        return f"{self.span.id}={quote(self.token, safe='')}"


class Begin(Immutable):
    """Where to begin to read a partition.

    Attributes:
        tokens: tokens of ranges that are together the partition's.
        at: without tokens, the time of the first change, in microseconds.
    """

    tokens: tuple[Token, ...] = ()
    at: int = 0

    def __str__(self) -> str:
        return f"start={self.at}" if not self.tokens else f"tokens={','.join(map(str, self.tokens))}"


def time_position(span: Span, at: int) -> str:
    """The position at a time, in microseconds."""
    return f"{span.id}@{at}"


def begin_of(position: str, span: Span) -> Begin | None:
    """Where a position of a partition is; None: it does not have the tokens of the whole partition yet.

    Raises:
        ValueError: it is not a position of this partition.
    """
    times: list[int] = []
    tokens: dict[Span, Token] = {}
    for line in position.split("\n"):
        match = _POSITION.fullmatch(line)
        part = None if match is None else Span.of(match[1])
        if match is None or part is None:
            raise ValueError(line)
        if match[5] is not None:
            times.append(int(match[5]))
        else:
            tokens[part] = Token(part, unquote_to_bytes(match[4]).decode())
    if times and (tokens or len(times) > 1 or not position.startswith(f"{span.id}@")):
        raise ValueError(position)
    if times:
        return Begin(at=times[0])
    parts = sorted(tokens)
    if any(part.meets(other) for part, other in pairwise(parts)) or not _are_within(parts, span):
        raise ValueError(position)
    return Begin(tuple(map(tokens.__getitem__, parts))) if _are_all_of(parts, span) else None


def _are_within(parts: Iterable[Span], whole: Span) -> bool:
    return all(part.start >= whole.start and (not whole.end or b"" < part.end <= whole.end) for part in parts)


def _are_all_of(parts: Sequence[Span], whole: Span) -> bool:
    joined = all(part.end == other.start for part, other in pairwise(parts))
    return joined and (parts[0].start, parts[-1].end) == whole


class RowChange(Immutable):
    """A change of one row.

    Attributes:
        key: the row key.
        at: the commit timestamp, in microseconds.
        tiebreaker: orders changes of several clusters with the same timestamp.
        cluster: where it was made.
        token: the position behind it.
        mutations: google.bigtable.v2.Mutation messages as mappings, such as ``{"set_cell": {"family_name": "d"}}``;
            fields with their default value are left out.
    """

    key: bytes
    at: int
    tiebreaker: int
    cluster: str
    token: str
    mutations: Sequence[Mapping[str, Any]]

    @property
    def order(self) -> str:
        """Text that is larger for a later change of the row."""
        return f"{self.at:020}{self.tiebreaker + 2**31:010}"

    @property
    def touched(self) -> "list[Touched]":
        """What its mutations wrote or deleted."""
        return [_touched(*item) for mutation in self.mutations for item in mutation.items()]


class Touched(NamedTuple):
    """Cells that a mutation wrote or deleted.

    Attributes:
        family: the family; None: all cells of the row.
        qualifier: the column; None: all of the family.
        value: the cell that was written.
    """

    family: str | None = None
    qualifier: bytes | None = None
    value: bytes | None = None


def _touched(kind: str, said: Mapping[str, Any]) -> Touched:
    if kind == "delete_from_row":
        return Touched()
    family: str = said.get("family_name", "")
    if kind == "delete_from_family":
        return Touched(family)
    column = said.get("column_qualifier", b"")
    qualifier: bytes = column if isinstance(column, bytes) else column.get("raw_value", b"")  # of an aggregate
    return Touched(family, qualifier, said.get("value", b"") if kind == "set_cell" else None)


class Streamed(Immutable):
    """The answer to one attempt of `ReadChangeStream`.

    Attributes:
        changes: the changes by users, each with all of its mutations.
        token: the last position, also behind other changes; None: the answer has none.
        tokens: the partition was split or merged: where its ranges continue.
        partitions: the partitions that have these ranges from now on.
        failure: what ended the attempt early.
    """

    changes: Sequence[RowChange] = ()
    token: str | None = None
    tokens: tuple[Token, ...] = ()
    partitions: tuple[Span, ...] = ()
    failure: Exception | None = None

    @property
    def children(self) -> dict[str, str]:
        """The shards that continue the partition, each with its position, or its part of one."""
        spans = self.partitions or tuple(token.span for token in self.tokens)
        found = {span.id: [str(token) for token in self.tokens if token.span.meets(span)] for span in spans}
        return {id: "\n".join(tokens) for id, tokens in found.items() if tokens}


FAMILY = "d"
"""The column family of an item's attributes."""

COUNTERS = "c"
"""The column family of an item's Counters: 64-bit numbers, which the server increments."""

ENTRIES = "i"
"""The column family of an index table."""

RECORD = "t"
"""The column family of the records of transactions."""

RECORDS = "transactions"
"""The end of the name of the table with the records of transactions, as if it were an index."""

Cookies: TypeAlias = tuple[tuple[str, str], ...]
"""Metadata that the server sent, to be returned to it, see `odm.backends.bigtable.client.retry`."""

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
        predicate = "there" if self.predicate is None else str(self.predicate)
        cases = ((f"if {predicate}:", self.matched), (f"if not {predicate}:", self.unmatched))
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
    """Read changes of a partition, up to the next heartbeat. Response: `odm.backends.bigtable.client.native.Streamed`.

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
        columns = tuple(cells)
        self.key = key
        self.columns = tuple(Column(cell.family, cell.qualifier) for cell in columns)
        self.values = tuple(cell.value for cell in columns)
        self.timestamps = tuple(cell.timestamp for cell in columns)

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


def record_table(table: str) -> str:
    """The table with the records of a table's transactions."""
    return f"{table}.{RECORDS}"


def _listed(changes: tuple[object, ...]) -> str:
    return " ".join(map(str, changes))


def _readable(value: bytes) -> str:
    """The text of a cell, with escapes for bytes that are not UTF-8 and for characters that are not printable."""
    text = value.decode("utf-8", "backslashreplace")
    return text if text.isprintable() else "".join(char if char.isprintable() else ascii(char)[1:-1] for char in text)
