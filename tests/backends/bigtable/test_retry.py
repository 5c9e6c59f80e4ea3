"""Which failures are retried, and the errors if they are not; without I/O."""

from collections.abc import Iterable
from typing import Any

import pytest

from odm.backends.bigtable.client.native import MutateRow, Read, ReadRows, RowRange
from odm.backends.bigtable.client.retry import Retry
from odm.errors import BackendError, OdmError, OutcomeUnknown, Throttled
from odm.protocol.requests import BatchGet, Delete, Get, Put, Query, Request, Scan, Sleep, Written
from odm.schema.entity import Key
from tests.backends.bigtable.playing import (
    BUSY,
    HAT,
    HAT_ROW,
    ITEM,
    ROW_OF_HAT,
    Clock,
    google,
    play,
    rows,
)


@pytest.mark.parametrize(
    "failure", [BUSY, google.DeadlineExceeded("slow"), google.Aborted("race")], ids=lambda one: type(one).__name__
)
def test_a_put_is_retried(failure: Exception) -> None:
    sent, answer = play(Put(HAT, ITEM), failure, failure, None)
    assert [type(one) for one in sent] == [MutateRow, Sleep, MutateRow, Sleep, MutateRow]
    assert sent[0] == sent[4]  # the same timestamps: a retry is the same write
    assert [one.seconds for one in sent if isinstance(one, Sleep)] == [0.05, 0.1]
    assert answer == Written()


def test_until_the_time_is_up() -> None:
    with pytest.raises(OutcomeUnknown, match=r"UNAVAILABLE, busy.*may or may not have been applied") as raised:
        play(Put(HAT, ITEM), *[BUSY] * 100)
    assert raised.value.__cause__ is BUSY


def test_the_time_that_it_takes() -> None:
    clock = Clock()
    pauses = [pause.seconds for pause in forward(Retry(clock=clock, jitter=lambda: 1.0).pauses(), clock)]
    assert pauses[:4] == [0.05, 0.1, 0.2, 0.4]
    assert max(pauses) == 5.0
    assert 55 < sum(pauses) < 60


def test_a_permanent_error_is_not_retried() -> None:
    with pytest.raises(BackendError, match=r"'shop': NOT_FOUND, gone.*store\.create\(\)"):
        play(Put(HAT, ITEM), google.NotFound("gone"))


def test_a_delete_in_one_call_is_never_retried() -> None:
    with pytest.raises(OutcomeUnknown):
        play(Delete(HAT), BUSY)


def test_a_checked_write_that_was_refused_has_a_known_outcome() -> None:
    with pytest.raises(BackendError, match="single_cluster_routing"):
        play(Delete(HAT), google.FailedPrecondition("not allowed"))


def test_an_exhausted_quota() -> None:
    with pytest.raises(Throttled, match="quota"):
        play(Put(HAT, ITEM), google.ResourceExhausted("too fast"))


@pytest.mark.parametrize(
    ("request_", "calls"),
    [
        (Query("hats", limit=5), [("hats#", "hats$", False, 5), ("hats#b", "hats$", True, 3)]),
        (Query("hats", limit=5, reverse=True), [("hats#", "hats$", False, 5), ("hats#", "hats#b", False, 3)]),
        (Scan(limit=5), [("", None, False, 5), ("hats#b", None, True, 3)]),
    ],
    ids=["forwards", "backwards", "scan"],
)
def test_a_read_continues_after_the_last_row(request_: Request, calls: list[Any]) -> None:
    backwards = isinstance(request_, Query) and request_.reverse
    *pair, last = ("hats#c", "hats#b", "hats#a") if backwards else ("hats#a", "hats#b", "hats#z")
    sent, answer = play(request_, rows(*pair, x="1", failure=BUSY), rows(last, x="1"))
    reads = [one for one in sent if isinstance(one, ReadRows)]
    assert [(one.range.start, one.range.end, one.range.open, one.limit) for one in reads] == calls
    assert len(answer.items) == 3


def test_a_read_continues_after_the_scanned_row_key() -> None:
    sent, _ = play(Query("hats"), Read(scanned="hats#k", failure=BUSY), Read())
    assert sent[2].range == RowRange("hats#k", "hats$", open=True)


def test_a_read_of_keys_continues_with_the_remaining_keys() -> None:
    keys = (Key("c", "1"), Key("a", "1"), Key("b", "1"))
    sent, answer = play(BatchGet(keys), rows("a#1", x="1", failure=BUSY), rows("b#1", "c#1", x="1"))
    assert sent[2].keys == ("c#1", "b#1")
    assert answer == ({"_t": "Hat", "x": 1},) * 3


@pytest.mark.parametrize(
    ("request_", "read"),
    [
        (Query("hats", limit=1), rows("hats#a", x="1", failure=BUSY)),
        (Get(HAT), Read((ROW_OF_HAT,), HAT_ROW, BUSY)),
        (Query("hats", "a", reverse=True), rows("hats#a", x="1", failure=BUSY)),
    ],
    ids=["limit", "key", "range"],
)
def test_a_read_that_fails_after_its_last_row_is_complete(request_: Request, read: Read) -> None:
    assert len(play(request_, read)[0]) == 1


def test_a_read_that_always_fails() -> None:
    with pytest.raises(BackendError, match=r"cannot be reached.*BIGTABLE_EMULATOR_HOST") as raised:
        play(Get(HAT), *[Read(failure=BUSY)] * 100)
    assert raised.value.__cause__ is BUSY


def test_a_read_that_is_refused() -> None:
    with pytest.raises(BackendError, match="NOT_FOUND"):
        play(Get(HAT), Read(failure=google.NotFound("gone")))


def test_errors_of_odm_pass() -> None:
    broken = BackendError("broken answer")
    with pytest.raises(OdmError) as raised:
        play(Get(HAT), broken)
    assert raised.value is broken


def forward(pauses: Iterable[Sleep], clock: Clock) -> Iterable[Sleep]:
    for pause in pauses:
        clock.now += pause.seconds
        yield pause


@pytest.mark.parametrize(
    ("request_", "first", "then"),
    [
        (Query("hats", limit=5), ("hats#a", "hats#c"), "hats#b"),
        (Query("hats", limit=5), ("hats#a", "hats#c"), "hats#c"),
        (Query("hats", reverse=True), ("hats#c", "hats#b"), "hats#d"),
        (BatchGet((Key("a", "1"), Key("b", "1"), Key("c", "1"))), ("a#1", "b#1"), "a#1"),
    ],
    ids=["before", "again", "backwards", "keys"],
)
def test_a_continued_read_with_rows_that_were_read_is_refused(
    request_: Request, first: tuple[str, str], then: str
) -> None:
    with pytest.raises(BackendError, match=f"'{then}'.*out of order"):
        play(request_, rows(*first, x="1", failure=BUSY), rows(then, x="1"))


def test_more_rows_than_were_asked_for_are_refused() -> None:
    with pytest.raises(BackendError, match="3 rows, and 2 were asked for"):
        play(Query("hats", limit=2), rows("hats#a", "hats#b", "hats#c", x="1", failure=BUSY))
