"""Answers that break the format of Google's messages."""

import pytest

from odm.backends.bigtable.client.native import (
    CheckAndMutateRow,
    DataCall,
    MutateRows,
    ReadModifyWriteRow,
    SampleRowKeys,
)
from odm.backends.bigtable.client.read_rows import COLLECTORS, One
from odm.errors import BackendError, OutcomeUnknown


@pytest.mark.parametrize(
    ("call", "error"),
    [
        (CheckAndMutateRow("t", "k"), OutcomeUnknown),
        (ReadModifyWriteRow("t", "k", ()), OutcomeUnknown),
        (MutateRows("t", ()), OutcomeUnknown),
        (SampleRowKeys("t"), BackendError),
    ],
)
def test_an_answer_that_cannot_be_parsed(call: DataCall, error: type[Exception]) -> None:
    def answered() -> None:
        received = COLLECTORS.get(type(call), One)(call)
        received.feed(b"\xff")
        received.finish()

    with pytest.raises(error, match="cannot be parsed"):
        answered()
