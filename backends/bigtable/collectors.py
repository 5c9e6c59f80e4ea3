"""The answers of the data service: from the bytes of its messages to the responses of native requests.

A transport, sync or async, passes each message of an answer to a collector, and ends with the collector's result.
"""

from typing import Any, Final, Protocol

from google.protobuf.message import DecodeError

from odm.backends.bigtable.messages import RESPONSES, Received
from odm.backends.bigtable.native import (
    Cell,
    CheckAndMutateRow,
    DataCall,
    Mutated,
    MutateRows,
    ReadModifyWriteRow,
    ReadRows,
    Row,
    Sample,
    SampleRowKeys,
    Status,
)
from odm.backends.bigtable.rows import RowMerger
from odm.errors import BackendError, OutcomeUnknown

_DONE: Final = Status(0)
"""The status of nearly all entries."""


class Collector(Protocol):
    """Collects the messages of one answer."""

    def feed(self, message: Received) -> None:
        """Take the next message."""
        ...

    def finish(self, failure: Exception | None = None) -> Any:
        """The response to the native request, at its end or after the failure that ended it."""
        ...


class Answers:
    """Collects the answers to the entries of a `MutateRows`."""

    def __init__(self) -> None:
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

    def __init__(self) -> None:
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
                return None


def collector(call: DataCall) -> Collector:
    """The collector for the answer to a request."""
    match call:
        case ReadRows():
            return RowMerger(reverse=call.reverse)
        case MutateRows():
            return Answers()
        case SampleRowKeys():
            return Samples()
        case _:
            return One(call)


def _parsed(method: str, message: Received) -> Any:
    """A message of a method's answer.

    Raises:
        OutcomeUnknown: it cannot be parsed.
        BackendError: as before, and the method writes nothing.
    """
    try:
        return RESPONSES[method].FromString(message)
    except DecodeError as fault:
        kind = BackendError if method == "SampleRowKeys" else OutcomeUnknown
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
