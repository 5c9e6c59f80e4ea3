"""The answers of the data service: from the bytes of its messages to the responses of native requests.

A transport, sync or async, passes each message of an answer to a collector, and ends with the collector's result.
"""

from collections.abc import Callable, Mapping
from typing import Any, Final, Protocol

from google.cloud.bigtable_v2 import types
from google.protobuf.message import DecodeError

from odm.backends.bigtable.errors import CallFailed, status_of
from odm.backends.bigtable.messages import RESPONSES, WRITES, Received
from odm.backends.bigtable.native import (
    Cell,
    CheckAndMutateRow,
    DataCall,
    GenerateInitialChangeStreamPartitions,
    Mutated,
    MutateRows,
    ReadChangeStream,
    ReadModifyWriteRow,
    ReadRows,
    Row,
    Sample,
    SampleRowKeys,
    Status,
)
from odm.backends.bigtable.native_streams import RowChange, Span, Streamed, Token
from odm.backends.bigtable.rows import RowMerger
from odm.errors import BackendError, OutcomeUnknown

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
        tokens = tuple(Token(_span(one.partition), one.token) for one in close.continuation_tokens)
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
