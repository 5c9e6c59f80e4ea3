"""Answers of the data service: rows from the chunks of a ReadRows response, and the responses of native requests.

Rows are built strictly by the published rules.

The server may cut rows into chunks anywhere: it omits fields that did not change, splits long values, and resets a row
that it cannot finish. Every transport passes its messages to this module. A response that breaks a rule of
google.bigtable.v2 (bigtable.proto, CellChunk) is an error.

A scan spends most of its time here. Nearly all rows are *usual*, and are read without parsing their chunks: each chunk
is a whole cell with its qualifier, a timestamp and a value, in this order. Usual rows with the same columns differ only
in the row key, the timestamps and the values. So it suffices to compare the other bytes of a chunk with those of an
earlier row, and to check that the value has its length and ends the chunk (`Pattern`). All others are parsed chunk by
chunk (`RowMerger`), which also checks the order of rows.

A transport, sync or async, passes each message of an answer to a collector, and ends with the collector's result.
"""

from collections.abc import Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Final, Protocol

from google.cloud.bigtable_v2 import types
from google.protobuf.message import DecodeError

from odm.backends.bigtable.client.errors import CallFailed, status_of
from odm.backends.bigtable.client.native import (
    Cell,
    CheckAndMutateRow,
    Column,
    DataCall,
    GenerateInitialChangeStreamPartitions,
    Mutated,
    MutateRows,
    Read,
    ReadChangeStream,
    ReadModifyWriteRow,
    ReadRows,
    Row,
    RowChange,
    Sample,
    SampleRowKeys,
    Span,
    Status,
    Streamed,
    Token,
)
from odm.backends.bigtable.client.wire import ABSENT, RESPONSES, WRITES, CellChunk, ReadRowsResponse, Received, column
from odm.errors import BackendError, OutcomeUnknown

_ROW_KEY, _FAMILY, _QUALIFIER, _TIME, _VALUE = b"\x0a\x12\x1a\x20\x32"
"""The tags of a chunk's fields, in order."""

_COMMIT: Final = b"\x48\x01"
"""The field ``commit_row``, which ends the last chunk of a row."""

_LARGE: Final = 0x80
"""The first length that needs a second byte, and the bit that marks all bytes of a number but the last."""

_STAMP: Final = 10
"""The bytes of a timestamp from the year 1987 up to 4253, with its tag, and of the tag of the value."""

_MOST_PATTERNS: Final = 64
"""The patterns that are kept of one response. Rows of other programs may each have columns of their own."""

_MOST_MISSES: Final = 4
"""After this number of rows in a sequence that are not usual, the rest of the response is parsed. Otherwise responses
without usual rows would take longer than by parsing alone."""

_KNOWN: Final[dict[tuple[bytes, ...], tuple[Column, ...]]] = {}
"""The columns of rows by the bytes of their names, shared by all responses, of all threads.

Most rows have the columns of an entity. Other programs may write any number of columns, so there are limits: the cache
is emptied when it is full. Keys are names of a `Pattern`, or those that `columns_of` takes, which begin with ABSENT.
"""

_MOST_KNOWN: Final = 512
_MOST_BYTES: Final = 16 * 1024
"""The maximum sets of columns in the cache, and the maximum bytes of the names of one."""


_NEW: Final = partial(Row.__new__, Row)
"""Makes an empty row."""


class Pattern:
    """What the chunks of usual rows with the same columns have in common; for one response.

    Args:
        names: of each chunk, the bytes of its column, without the row key before it.

    Attributes:
        following: the pattern of the row that followed the last row of this pattern. Rows of two entities often take
        turns.
    """

    def __init__(self, names: tuple[bytes, ...]) -> None:
        self.following = self
        self._names = names
        self._columns = _KNOWN.get(names) or _kept(names, columns_of(_spelled(names)))
        self._ends = [len(name) + _STAMP for name in names]  # of what is before the value and its length
        self._heads: list[bytes] = []  # the names with the timestamp of the last row and the tag of the value
        self._timestamps: tuple[int, ...] = ()

    def row(self, chunks: list[bytes], at: int) -> Row | None:
        """The row that begins at a chunk; None if its chunks differ in more than row key, timestamps and values.

        Raises:
            IndexError: as None.
        """
        row = chunks[at : at + len(self._names)]
        first, last = row[0], row[-1]
        if len(row) < len(self._names) or first[0] != _ROW_KEY or last[-2:] != _COMMIT:
            return None
        start, key_end = _key(first)
        row[-1] = last[:-2]
        if last[0] == _ROW_KEY:  # the emulator repeats the key in each chunk
            key = first[:key_end]
            row = [chunk.removeprefix(key) for chunk in row]
        else:
            row[0] = first[key_end:]
        if not (self._heads and row[0].startswith(self._heads[0])) and not self._restamp(row[0]):
            return None
        values: list[bytes] = []
        times: list[int] | None = None  # if they differ
        for chunk, head, end in zip(row, self._heads, self._ends, strict=True):
            if not chunk.startswith(head):
                if chunk == head[:-1]:  # the field of an empty value is left out
                    values.append(b"")
                    continue
                time = self._timestamp(len(values), chunk)
                if time is None:
                    return None
                times = times or list(self._timestamps)
                times[len(values)] = time
            size = chunk[end]
            if size < _LARGE:
                value = chunk[end + 1 :]
            elif chunk[end + 1] < _LARGE:
                size += (chunk[end + 1] - 1) * _LARGE
                value = chunk[end + 2 :]
            else:  # a size of three bytes
                return None
            if len(value) != size:
                return None
            values.append(value)
        usual = _NEW()  # as `Row.parted`, without its call: a scan makes a row after another
        usual.key, usual.columns = first[start:key_end], self._columns
        usual.values, usual.timestamps = tuple(values), self._timestamps if times is None else tuple(times)
        return usual

    def _restamp(self, first: bytes) -> bool:
        """Expect the timestamp of a row's first chunk in the others; False if the chunk is not usual."""
        timestamp = self._timestamp(0, first)
        if timestamp is not None:
            stamp = first[self._ends[0] - _STAMP : self._ends[0]]
            self._heads = [name + stamp for name in self._names]
            self._timestamps = (timestamp,) * len(self._names)
        return timestamp is not None

    def _timestamp(self, place: int, chunk: bytes) -> int | None:
        """The timestamp of a cell; None if the chunk is not usual."""
        name, end = self._names[place], self._ends[place]
        time = chunk[len(name) : end - 1]
        if not chunk.startswith(name) or chunk[end - 1] != _VALUE or time[0] != _TIME:
            return None
        if min(time[1:-1]) < _LARGE or time[-1] >= _LARGE:
            return None
        return int(CellChunk.FromString(time).timestamp_micros)


class Patterns:
    """The patterns of one response, for rows with different columns."""

    def __init__(self) -> None:
        self._last: Pattern | None = None
        self._known: dict[tuple[bytes, ...], Pattern] = {}
        self._misses = 0

    def row(self, chunks: list[bytes], at: int) -> Row | None:
        """The row that begins at a chunk; None if it is not a usual one, or if many rows before it were not."""
        if self._misses == _MOST_MISSES:
            return None
        try:
            last = self._last
            pattern = None if last is None else last.following
            row = None if pattern is None else pattern.row(chunks, at)
            if row is None:
                pattern = self._of(_names(chunks, at))
                row = pattern.row(chunks, at)
                if last is not None and row is not None:
                    last.following = pattern
            if row is not None:
                self._last = pattern
        except (IndexError, DecodeError):  # a chunk ends too early, or only looks like a usual one
            row = None
        self._misses = 0 if row is not None else self._misses + 1
        return row

    def _of(self, names: tuple[bytes, ...]) -> Pattern:
        pattern = self._known.get(names)
        if pattern is None:
            if len(self._known) == _MOST_PATTERNS:
                self._known.clear()
            pattern = self._known[names] = Pattern(names)
        return pattern


def _key(first: bytes) -> tuple[int, int]:
    """Where the row key in a chunk begins and ends.

    Raises:
        IndexError: it has 16,384 bytes or more.
    """
    if first[1] < _LARGE:
        return 2, 2 + first[1]
    if first[2] < _LARGE:
        return 3, 3 + first[1] + (first[2] - 1) * _LARGE
    raise IndexError


def _names(chunks: list[bytes], at: int) -> tuple[bytes, ...]:
    """The names for the `Pattern` of the row that begins at a chunk.

    Raises:
        IndexError: it is not a usual row.
    """
    names: list[bytes] = []
    first = chunks[at]
    key = first[: _key(first)[1]]
    for place in range(at, len(chunks)):
        chunk = chunks[place]
        if chunk[0] == _ROW_KEY:
            chunk = chunk.removeprefix(key)
        end = 0
        if chunk[0] == _FAMILY and chunk[1] < _LARGE:
            end = 2 + chunk[1]
        if chunk[end] != _QUALIFIER or chunk[end + 1] >= _LARGE or not (end or names):
            raise IndexError
        names.append(chunk[: end + 2 + chunk[end + 1]])
        if chunk[-2:] == _COMMIT:
            return tuple(names)
    raise IndexError  # the row ends in another message


def columns_of(names: tuple[bytes, ...]) -> tuple[Column, ...]:
    """The columns of a row, cached.

    Args:
        names: the ``qualifier`` of each cell, and before those of a family ABSENT and its ``family_name``.
    """
    found = _KNOWN.get(names)
    return _kept(names, _decoded(names)) if found is None else found


def _kept(names: tuple[bytes, ...], columns: tuple[Column, ...]) -> tuple[Column, ...]:
    """The columns, which are added to the cache."""
    if sum(map(len, names)) <= _MOST_BYTES:
        if len(_KNOWN) >= _MOST_KNOWN:
            _KNOWN.clear()
        _KNOWN[names] = columns
    return columns


def _decoded(names: tuple[bytes, ...]) -> tuple[Column, ...]:
    family, columns = b"", []
    place = iter(names)
    for name in place:
        if name == ABSENT:
            family = next(place)
        else:
            columns.append(column(family, name))
    return tuple(columns)


def _spelled(names: tuple[bytes, ...]) -> tuple[bytes, ...]:
    """The names of a `Pattern` as `columns_of` takes them."""
    found: list[bytes] = []
    for name in names:
        chunk = CellChunk.FromString(name)
        if chunk.family_name != ABSENT:
            found += (ABSENT, chunk.family_name)
        found.append(chunk.qualifier)
    return tuple(found)


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

    def __init__(self, call: ReadRows) -> None:
        self.rows: list[Row] = []
        self._reverse = call.reverse
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


_DONE: Final = Status(0)
"""The status of nearly all entries."""


class Collector(Protocol):
    """Collects the messages of one answer."""

    def feed(self, message: Received) -> bool | None:
        """Take the next message; True: no more are needed."""
        ...

    def finish(self, failure: Exception | None = None) -> Any:
        """The response to the native request, at its end or after the failure that ended it."""
        ...


class Answers:
    """Collects the answers to the entries of a `MutateRows`."""

    def __init__(self, _: DataCall) -> None:
        self._answers: dict[int, Status] = {}

    def feed(self, message: Received) -> None:
        """Take the next message, a ``MutateRowsResponse``."""
        for entry in _parsed("MutateRows", message).entries:
            code = entry.status.code
            self._answers[entry.index] = Status(code, entry.status.message) if code else _DONE

    def finish(self, failure: Exception | None = None) -> Mutated:
        """The answers up to the end of the stream, or up to the failure."""
        return Mutated(self._answers, failure)


class Samples:
    """Collects the response of `SampleRowKeys`, which can only be used as a whole."""

    def __init__(self, _: DataCall) -> None:
        self._samples: list[Sample] = []

    def feed(self, message: Received) -> None:
        """Take the next message, a ``SampleRowKeysResponse``."""
        sample = _parsed("SampleRowKeys", message)
        self._samples.append(Sample(sample.row_key, sample.offset_bytes))

    def finish(self, failure: Exception | None = None) -> tuple[Sample, ...]:
        """The samples; raises the failure if there is one."""
        if failure is not None:
            raise failure
        return tuple(self._samples)


class Spans:
    """Collects the partitions of a change stream, which can only be used as a whole."""

    def __init__(self, _: DataCall) -> None:
        self._spans: list[Span] = []

    def feed(self, message: Received) -> None:
        """Take the next message, a ``GenerateInitialChangeStreamPartitionsResponse``."""
        self._spans.append(_span(_parsed("GenerateInitialChangeStreamPartitions", message).partition))

    def finish(self, failure: Exception | None = None) -> tuple[Span, ...]:
        """The partitions; raises the failure if there is one."""
        if failure is not None:
            raise failure
        return tuple(self._spans)


class StreamReader:
    """Collects a page of a change stream: up to a number of changes, or a heartbeat.

    A change may be spread over several messages, and the value of a cell over several chunks of them.
    """

    def __init__(self, call: ReadChangeStream) -> None:
        self._limit = call.limit
        self._changes: list[RowChange] = []
        self._token: str | None = None
        self._first: Any = None
        self._mutations: list[Any] = []
        self._more: list[bytes] = []
        self._close: Any = None

    def feed(self, message: Received) -> bool:
        """Take the next message, a ``ReadChangeStreamResponse``."""
        said = _parsed("ReadChangeStream", message)
        match said.WhichOneof("stream_record"):
            case "data_change":
                self._take(said.data_change)
                return len(self._changes) >= self._limit
            case "heartbeat":
                self._token = said.heartbeat.continuation_token.token
                return True
            case "close_stream":
                self._close = said.close_stream
                return True
            case _:
                return False

    def _take(self, data: Any) -> None:
        if data.type_ != _CONTINUATION:
            self._first, self._mutations, self._more = data, [], []
        for chunk in data.chunks:
            if chunk.chunk_info.chunked_value_offset:
                self._more.append(chunk.mutation.set_cell.value)
            else:
                self._join()
                self._mutations.append(chunk.mutation)
        if not data.done:
            return
        self._join()
        self._token, first = data.token, self._first
        if first is None or first.type_ != _USER:
            return  # garbage collection
        at = first.commit_timestamp.ToMicroseconds()
        mutations = tuple(map(_plain, self._mutations))
        cluster = first.source_cluster_id
        self._changes.append(RowChange(first.row_key, at, first.tiebreaker, cluster, data.token, mutations))

    def _join(self) -> None:
        """Add the chunks of a value to it."""
        if self._more and self._mutations:
            cell = self._mutations[-1].set_cell
            cell.value = b"".join((cell.value, *self._more))
        self._more = []

    def finish(self, failure: Exception | None = None) -> Streamed:
        """What was read up to the end, or up to the failure."""
        close = self._close
        if close is None:
            return Streamed(self._changes, self._token, failure=failure)
        tokens = tuple(Token(_span(token.partition), token.token) for token in close.continuation_tokens)
        if not tokens and close.status.code:
            failure = CallFailed(status_of(Status(close.status.code)), close.status.message)
        return Streamed(self._changes, self._token, tokens, tuple(map(_span, close.new_partitions)), failure)


_KINDS: Final = types.ReadChangeStreamResponse.DataChange.Type
_USER: Final = int(_KINDS.USER)
_CONTINUATION: Final = int(_KINDS.CONTINUATION)


def _span(partition: Any) -> Span:
    span = partition.row_range
    start = span.start_key_open + b"\0" if span.start_key_open else span.start_key_closed
    return Span(start, span.end_key_closed + b"\0" if span.end_key_closed else span.end_key_open)


def _plain(message: Any) -> dict[str, Any]:
    """A message as a mapping, without fields with default values."""
    return {field.name: _plain(said) if field.message_type else said for field, said in message.ListFields()}


class One:
    """Takes the one message that answers a request."""

    def __init__(self, call: DataCall) -> None:
        self._call = call
        self._message: Received = b""

    def feed(self, message: Received) -> None:
        """Take the message."""
        self._message = message

    def finish(self, failure: Exception | None = None) -> Any:
        """The response; raises the failure if there is one."""
        if failure is not None:
            raise failure
        match self._call:
            case CheckAndMutateRow():
                return bool(_parsed("CheckAndMutateRow", self._message).predicate_matched)
            case ReadModifyWriteRow():
                return _written(_parsed("ReadModifyWriteRow", self._message).row)
            case _:
                if self._message:  # it is empty
                    _parsed("MutateRow", self._message)
                return None


COLLECTORS: Final[Mapping[type, Callable[[Any], Collector]]] = {
    ReadRows: RowMerger,
    MutateRows: Answers,
    SampleRowKeys: Samples,
    GenerateInitialChangeStreamPartitions: Spans,
    ReadChangeStream: StreamReader,
}
"""The collectors by the class of a request; `One` for all others."""


def _parsed(method: str, message: Received) -> Any:
    """A message of a method's answer.

    Raises:
        OutcomeUnknown: it cannot be parsed.
        BackendError: as before, and the method writes nothing.
    """
    try:
        return RESPONSES[method].FromString(message)
    except DecodeError as fault:
        kind = OutcomeUnknown if method in WRITES else BackendError
        raise kind(
            f"Bigtable's answer to {method} cannot be parsed ({fault}), so whether the request was applied is not "
            "known; if this happens again, report it with the versions of google-cloud-bigtable and of the server"
        ) from fault


def _written(row: Any) -> Row:
    cells = (
        Cell(family.name, column.qualifier, cell.value, cell.timestamp_micros)
        for family in row.families
        for column in family.columns
        for cell in column.cells
    )
    return Row(row.key, tuple(cells))
