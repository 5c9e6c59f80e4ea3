"""The answers of the data service: from the bytes of its messages to the responses of native requests.

A transport, sync or async, passes each message of an answer to a collector, and ends with the collector's result.
"""

from typing import Any, Protocol

from odm.backends.bigtable.messages import RESPONSES
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

_STATUSES = RESPONSES["MutateRows"].FromString
_SAMPLE = RESPONSES["SampleRowKeys"].FromString
_CHECKED = RESPONSES["CheckAndMutateRow"].FromString
_WRITTEN = RESPONSES["ReadModifyWriteRow"].FromString


_DONE = Status(0)
"""The status of nearly all entries."""


class Collector(Protocol):
    """Collects the messages of one answer."""

    def feed(self, message: bytes) -> None:
        """Take the next message."""
        ...

    def finish(self, failure: Exception | None = None) -> Any:
        """The response to the native request, at its end or after the failure that ended it."""
        ...


class Answers:
    """Collects the answers to the entries of a `MutateRows`."""

    def __init__(self) -> None:
        self._answers: dict[int, Status] = {}

    def feed(self, message: bytes) -> None:
        """Take the next message, a ``MutateRowsResponse``."""
        for entry in _STATUSES(message).entries:
            code = entry.status.code
            self._answers[entry.index] = Status(code, entry.status.message) if code else _DONE

    def finish(self, failure: Exception | None = None) -> Mutated:
        """The answers up to the end of the stream, or up to the failure."""
        return Mutated(self._answers, failure)


class Samples:
    """Collects the response of `SampleRowKeys`, which can only be used as a whole."""

    def __init__(self) -> None:
        self._samples: list[Sample] = []

    def feed(self, message: bytes) -> None:
        """Take the next message, a ``SampleRowKeysResponse``."""
        sample = _SAMPLE(message)
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
        self._message = b""

    def feed(self, message: bytes) -> None:
        """Take the message."""
        self._message = message

    def finish(self, failure: Exception | None = None) -> Any:
        """The response; raises the failure if there is one."""
        if failure is not None:
            raise failure
        match self._call:
            case CheckAndMutateRow():
                return bool(_CHECKED(self._message).predicate_matched)
            case ReadModifyWriteRow():
                return _written(_WRITTEN(self._message).row)
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


def _written(row: Any) -> Row:
    cells = (
        Cell(family.name, column.qualifier, cell.value, cell.timestamp_micros)
        for family in row.families
        for column in family.columns
        for cell in column.cells
    )
    return Row(row.key, tuple(cells))
