"""Writes whose answer is lost: nothing is applied twice, and the reported outcome is correct or unknown."""

from typing import Any

import pytest

from odm.backends.bigtable.client.native import CheckAndMutateRow, MutateRow, MutateRows, Read, ReadRows
from odm.errors import BackendError, OutcomeUnknown
from odm.expressions.nodes import Increment, Path, Set
from odm.protocol.predicates import ABSENT, EXISTS
from odm.protocol.requests import BatchWrite, Delete, Put, Request, Sleep, Update, Written
from tests.backends.bigtable.playing import BUSY, Clock, google, play, row
from tests.backends.bigtable.writing import (
    BLUE,
    COLOURS,
    HAT,
    NOTHING,
    RED,
    SHELF,
    calls,
    done,
    entry,
    item,
    listed,
    procedures,
    stored,
)

PUT = Put(HAT, item(), {"by_colour": RED})
INSERT = Put(HAT, item(), {"by_colour": RED}, ABSENT, presence="absent")
RAISE = Update(HAT, (Increment(Path(("price",)), 1),), {"by_colour": RED}, EXISTS)
BEFORE = stored("r0", listed(blue="q"), price=b"4")
GONE = google.NotFound("gone")


def commits(sent: list[Any]) -> list[CheckAndMutateRow]:
    return [one for one in sent if isinstance(one, CheckAndMutateRow)]


@pytest.mark.parametrize(
    "failure",
    [BUSY, google.DeadlineExceeded("slow"), google.Aborted("race"), google.Cancelled("cut"), google.Unknown("?"),
     google.InternalServerError("oh")],
    ids=lambda one: type(one).__name__,
)  # fmt: skip
def test_the_revision_shows_that_the_commit_was_applied(failure: Exception) -> None:
    after = stored("id1", listed(red="id1"), price=b"5")
    sent, answer = play(RAISE, BEFORE, done(), failure, after, done(), on=procedures())
    assert answer == Written()
    assert len(commits(sent)) == 1
    assert sent[-1] == MutateRows(COLOURS, (entry(BLUE, "q", gone=True),)), "stale columns are removed"
    assert isinstance(sent[3], Sleep)


def test_the_revision_shows_a_write_without_entries() -> None:
    update = Update(HAT, (Increment(Path(("price",)), 1),), condition=EXISTS)
    sent, answer = play(update, stored("r0", price=b"4"), BUSY, stored("id1", price=b"5"), on=procedures())
    assert (len(commits(sent)), answer) == (1, Written())


def test_the_list_shows_that_the_commit_was_applied() -> None:
    """Another writer has written since, and kept our entry."""
    after = stored("r9", listed(red="id1"), price=b"50")
    sent, answer = play(RAISE, BEFORE, done(), BUSY, after, done(), on=procedures())
    assert answer == Written()
    assert sent[-1] == MutateRows(COLOURS, (entry(BLUE, "q", gone=True),))


def test_it_starts_over_under_a_new_id_if_nothing_was_applied() -> None:
    sent, answer = play(RAISE, BEFORE, done(), BUSY, BEFORE, done(), True, done(), on=procedures())
    first, second = commits(sent)
    assert first.predicate == second.predicate, "both check the revision, so only one can be applied"
    assert first.matched != second.matched
    written = [one.entries for one in sent if isinstance(one, MutateRows)]
    assert written == [(entry(RED, "id1"),), (entry(RED, "id2"),), (entry(BLUE, "q", gone=True),)], (
        "the column id1 is not removed"
    )
    assert answer == Written()


def test_the_first_commit_is_applied_late() -> None:
    """The first is applied before the second, whose refusal is then not a refusal of the write."""
    after = stored("id1", listed(red="id1"), price=b"5")
    sent, answer = play(RAISE, BEFORE, done(), BUSY, BEFORE, done(), False, done(), after, done(), on=procedures())
    written = [one.entries for one in sent if isinstance(one, MutateRows)]
    assert written == [
        (entry(RED, "id1"),),
        (entry(RED, "id2"),),
        (entry(RED, "id2", gone=True),),
        (entry(BLUE, "q", gone=True),),
    ]
    assert len(commits(sent)) == 2
    assert answer == Written()


@pytest.mark.parametrize(
    "request_",
    [RAISE, Put(HAT, item(), {"by_colour": RED}, EXISTS), Delete(HAT, EXISTS)],
    ids=["arithmetic", "conditional put", "conditional delete"],
)
def test_after_another_write_the_outcome_is_unknown(request_: Request) -> None:
    claimed = () if isinstance(request_, Delete) else (done(),)
    other = stored("r9", listed(blue="q"), price=b"50")
    with pytest.raises(OutcomeUnknown, match="may or may not have been applied"):
        play(request_, BEFORE, *claimed, BUSY, other, on=procedures())


def test_an_insert_after_another_insert() -> None:
    with pytest.raises(OutcomeUnknown):
        play(INSERT, done(), BUSY, stored("r9"), on=procedures())


def test_an_insert_starts_over() -> None:
    sent, answer = play(INSERT, done(), BUSY, NOTHING, done(), False, on=procedures())
    assert [one.entries for one in sent if isinstance(one, MutateRows)] == [(entry(RED, "id1"),), (entry(RED, "id2"),)]
    assert answer == Written()


def test_an_insert_that_must_not_be_applied_twice_does_not_start_over() -> None:
    """The first commit may still be applied, after the item of the second was deleted."""
    once = Put(HAT, item(), {"by_colour": RED}, ABSENT, once=True, presence="absent")
    with pytest.raises(OutcomeUnknown, match="may or may not have been applied"):
        play(once, done(), BUSY, NOTHING, on=procedures())
    _, answer = play(once, done(), BUSY, stored("id1", listed(red="id1")), on=procedures())
    assert answer == Written()


def test_an_insert_that_is_applied_late_is_not_a_refusal() -> None:
    after = stored("id1", listed(red="id1"))
    _, answer = play(INSERT, done(), BUSY, NOTHING, done(), True, done(), after, on=procedures())
    assert answer == Written()


def test_a_plain_put_starts_over() -> None:
    other = stored("r9", listed(blue="q9"))
    sent, answer = play(PUT, BEFORE, done(), BUSY, other, done(), True, done(), on=procedures())
    assert sent[-1] == MutateRows(COLOURS, (entry(BLUE, "q9", gone=True),))
    assert answer == Written()


def test_a_delete_does_not_remove_what_was_inserted_since() -> None:
    """The first one may have been applied, and then the insert of another writer, which has its answer."""
    with pytest.raises(OutcomeUnknown, match="another writer has written to the row since"):
        play(Delete(HAT), BEFORE, BUSY, stored("r9"), on=procedures())


@pytest.mark.parametrize("condition", [None, EXISTS])
def test_a_missing_item_shows_that_a_delete_was_applied(condition: Any) -> None:
    sent, answer = play(Delete(HAT, condition), BEFORE, BUSY, NOTHING, done(), on=procedures())
    assert sent[-1] == MutateRows(COLOURS, (entry(BLUE, "q", gone=True),))
    assert answer == Written(existed=True)


def test_a_row_that_cannot_be_read_leaves_the_outcome_unknown() -> None:
    with pytest.raises(OutcomeUnknown, match="may or may not") as raised:
        play(RAISE, BEFORE, done(), BUSY, Read(failure=GONE), on=procedures())
    assert isinstance(raised.value.__cause__, BackendError)


def test_answers_that_stay_lost_until_the_time_is_up() -> None:
    clock = Clock()
    again = [BEFORE, done(), BUSY]
    with pytest.raises(OutcomeUnknown):
        play(RAISE, *again * 200, on=procedures(clock), clock=clock)
    assert 55 < clock.now <= 60


class TestOneCall:
    """Without a read there is no revision that a second commit could check, so it is never sent again."""

    UPDATE = Update(HAT, (Set(Path(("price",)), 5),), condition=EXISTS)

    def test_the_row_shows_that_it_was_applied(self) -> None:
        sent, answer = play(self.UPDATE, BUSY, stored("id1"), on=procedures())
        assert (calls(sent), answer) == (2, Written())

    @pytest.mark.parametrize("after", [stored("r0"), NOTHING, Read(failure=GONE)], ids=["other", "gone", "unread"])
    def test_the_row_does_not_show_the_outcome(self, after: Read) -> None:
        with pytest.raises(OutcomeUnknown) as raised:
            play(self.UPDATE, BUSY, after, on=procedures())
        assert raised.value.__cause__ is BUSY

    def test_an_error_of_the_server_is_not_a_refused_condition(self) -> None:
        with pytest.raises(BackendError, match="single_cluster_routing"):
            play(self.UPDATE, google.FailedPrecondition("no"), on=procedures())

    def test_a_conditional_put(self) -> None:
        put = Put(SHELF, {"_t": "Shelf", "name": "a"}, condition=EXISTS)
        after = Read((row("SHELF#a#SHELF", **{"~r": "id1"}),))
        assert play(put, BUSY, after, on=procedures())[1] == Written()
        with pytest.raises(OutcomeUnknown):
            play(put, BUSY, Read((row("SHELF#a#SHELF", **{"~r": "r0"}),)), on=procedures())

    def test_a_count_is_never_sent_again(self) -> None:
        with pytest.raises(OutcomeUnknown) as raised:
            play(Update(HAT, (Increment(Path(("worn",)), 1),), tag="Hat"), BUSY, on=procedures())
        assert raised.value.__cause__ is BUSY

    def test_a_put_without_a_condition_is_retried_until_it_is_answered(self) -> None:
        sent, answer = play(Put(SHELF, {"_t": "Shelf", "name": "a"}), BUSY, None, on=procedures())
        assert [type(one) for one in sent] == [MutateRow, Sleep, MutateRow]
        assert sent[0] == sent[2]
        assert answer == Written()


def test_a_batch_reads_its_rows_and_continues() -> None:
    sent, answer = play(BatchWrite((PUT,)), NOTHING, done(), BUSY, stored("id1", listed(red="id1")), on=procedures())
    assert [type(one) for one in sent] == [ReadRows, MutateRows, CheckAndMutateRow, Sleep, ReadRows]
    assert answer is None
