"""Batches in a table with indexes: the index protocol in groups, and no operation is dropped; without I/O."""

from typing import Any

import pytest

from odm.backends.bigtable.client.native import (
    CheckAndMutateRow,
    Concurrent,
    Entry,
    Mutated,
    MutateRows,
    Read,
    ReadRows,
    Row,
    SetCell,
    Status,
)
from odm.backends.bigtable.client.retry import COMMIT_WITHIN
from odm.backends.bigtable.rows.ownership import REMOVED
from odm.backends.bigtable.writes import batches
from odm.errors import BackendError, OutcomeUnknown, Throttled
from odm.protocol.requests import BatchWrite, Delete, Put, Sleep
from odm.schema.entity import Key
from tests.backends.bigtable.playing import BUSY, Clock, google, play, row
from tests.backends.bigtable.writing import COLOURS, MAKERS, NOTHING, RED, SHELF, SHELF_ROW, Wall, done, procedures

ALL = ("a", "b", "c")


def put(name: str) -> Put:
    return Put(Key(f"HAT#{name}", "Hat"), {"_t": "Hat", "name": name}, {"by_colour": RED})


def delete(name: str) -> Delete:
    return Delete(Key(f"HAT#{name}", "Hat"))


def red(name: str, id: str, *, gone: bool = False) -> tuple[str, str]:
    """An entry as text."""
    return f"COLOUR#red##Hat##HAT#{name}##Hat", f"{'deletecolumn ' * gone}i:{id}{'' if gone else f'=HAT#{name}#Hat'}"


def entries(call: MutateRows) -> list[tuple[str, str]]:
    return [(one.key, " ".join(str(change).replace("'", "") for change in one.mutations)) for one in call.entries]


def hats(**columns: str) -> Read:
    """Rows of red hats, with the qualifiers of their entries."""
    return Read(tuple(hat(name, id) for name, id in columns.items()))


def hat(name: str, id: str) -> Row:
    return row(f"HAT#{name}#Hat", **{"~r": f"r-{name}", "_ix": f'[["by_colour", "COLOUR#red", "Hat", "{id}"]]'})


def test_one_read_one_claim_a_table_commits_together_one_cleaning_a_table() -> None:
    request = BatchWrite((put("a"), put("b"), delete("c"), delete("d")))
    sent, answer = play(request, hats(b="q", c="p"), done(), (False, True, True), done(), on=procedures())
    read, claim, commit, clean = sent
    assert read.keys == ("HAT#a#Hat", "HAT#b#Hat", "HAT#c#Hat", "HAT#d#Hat")
    assert "d:_ix" in str(read.filter), "only revision and list are read"
    assert claim.table == COLOURS
    assert entries(claim) == [red("a", "id1")]
    assert type(commit) is Concurrent
    commits = [one for one in commit.calls if isinstance(one, CheckAndMutateRow)]
    assert [(one.key, len(one.matched), len(one.unmatched)) for one in commits] == [
        ("HAT#a#Hat", 0, 6),
        ("HAT#b#Hat", 6, 0),
        ("HAT#c#Hat", 2, 0),
    ], "there is nothing to delete under d"
    assert entries(clean) == [red("c", "p", gone=True)]
    assert answer is None


def test_refused_writes_are_tried_again() -> None:
    request = BatchWrite((put("a"), put("b")))
    sent, _ = play(request, NOTHING, done(2), (True, False), done(), hats(a="q"), True, on=procedures())
    assert [type(one) for one in sent] == [
        ReadRows, MutateRows, Concurrent, MutateRows, Sleep, ReadRows, CheckAndMutateRow
    ]  # fmt: skip
    assert entries(sent[3]) == [red("a", "id1", gone=True)]
    assert sent[5].keys == ("HAT#a#Hat",)


def test_lost_answers() -> None:
    request = BatchWrite((put("a"), put("b")))
    answers = (BUSY, google.DeadlineExceeded("slow"))
    landed = Read((hat("a", "id1"),))
    sent, answer = play(request, NOTHING, done(2), answers, landed, done(), False, on=procedures())
    assert [type(one) for one in sent] == [
        ReadRows, MutateRows, Concurrent, Sleep, ReadRows, MutateRows, CheckAndMutateRow
    ]  # fmt: skip
    assert entries(sent[5]) == [red("b", "id3")], "under a new id, and nothing is removed"
    assert answer is None


def test_items_without_entries_are_written_in_bulk() -> None:
    shelf = Put(SHELF, {"_t": "Shelf", "name": "a"})
    sent, _ = play(BatchWrite((put("a"), shelf)), done(), NOTHING, done(), False, on=procedures())
    cells = (
        *REMOVED,
        SetCell("_t", b"Shelf", 5000),
        SetCell("name", b"a", 5000),
        SetCell("~r", b"id1", 5000),
    )
    assert sent[0] == MutateRows("shop", (Entry(SHELF_ROW, cells),))


def test_batches_are_written_in_groups(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "GROUP", 2)
    answers = (NOTHING, done(2), (False, False), NOTHING, done(), False)
    sent, _ = play(BatchWrite(tuple(map(put, ALL))), *answers, on=procedures())
    assert [one.keys for one in sent if isinstance(one, ReadRows)] == [("HAT#a#Hat", "HAT#b#Hat"), ("HAT#c#Hat",)]


def test_commits_are_limited_in_number(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("odm.backends.bigtable.writes.commit.COMMITS", 2)
    sent, _ = play(BatchWrite(tuple(map(put, ALL))), NOTHING, done(3), (False, False), False, on=procedures())
    assert [type(one) for one in sent] == [ReadRows, MutateRows, Concurrent, CheckAndMutateRow]


@pytest.mark.parametrize("late", [899, 901])
def test_a_claim_is_not_committed_after_a_quarter_of_the_lease(late: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first commits of a group take so long that the claim of the last one is too old; it is claimed again."""
    monkeypatch.setattr("odm.backends.bigtable.writes.commit.COMMITS", 2)
    wall = Wall()

    def committed() -> tuple[bool, bool]:
        wall.now += late
        return False, False

    again = [done(), NOTHING, done()] if late > COMMIT_WITHIN else []
    request = BatchWrite(tuple(map(put, ALL)))
    sent, _ = play(request, NOTHING, done(3), committed, *again, False, on=procedures(wall=wall), clock=wall)
    assert sent[-1].key == "HAT#c#Hat"
    assert f"d:~r=id{4 if again else 3}" in str(sent[-1])
    claimed = [entries(one) for one in sent if isinstance(one, MutateRows)][1:]
    assert claimed == ([[red("c", "id3", gone=True)], [red("c", "id4")]] if again else [])


@pytest.mark.parametrize("where", ["claims", "commits", "answers"])
def test_operations_that_fail_are_returned(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "GROUP", 2)
    first: list[Any] = [NOTHING, done(2), (False, False)]
    stuck: dict[str, list[Any]] = {
        "claims": [NOTHING, *[Mutated({0: Status(14, "busy")})] * 100],
        "commits": [NOTHING, done(), True, done()] * 200,
        "answers": [NOTHING, done(), BUSY] * 200,
    }
    clock = Clock()
    request = BatchWrite((put("a"), put("b"), put("c"), put("d")))
    alone = BatchWrite((*request.operations[:3], delete("d")))
    with pytest.raises(Throttled, match="operations of the batch are not known to be applied") as raised:
        play(alone, *first, *stuck[where], on=procedures(clock), clock=clock)
    assert raised.value.left[0] == put("c")
    assert put("a") not in raised.value.left


def test_later_groups_are_returned_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "GROUP", 1)
    clock = Clock()
    with pytest.raises(Throttled, match="3 of 3") as raised:
        play(BatchWrite(tuple(map(put, ALL))), NOTHING, *[BUSY] * 100, on=procedures(clock), clock=clock)
    assert raised.value.left == tuple(map(put, ALL))


def test_a_bulk_write_that_fails_returns_all_operations() -> None:
    clock = Clock()
    shelf = Put(SHELF, {"_t": "Shelf", "name": "a"})
    with pytest.raises(Throttled, match="2 of 2") as raised:
        play(BatchWrite((put("a"), shelf)), *[BUSY] * 100, on=procedures(clock), clock=clock)
    assert raised.value.left == (shelf, put("a"))


def test_a_missing_index_table_is_named() -> None:
    both = Put(Key("HAT#a", "Hat"), {"_t": "Hat", "name": "a"}, {"by_colour": RED, "by_maker": Key("MAKER#ann", "Hat")})
    with pytest.raises(BackendError, match=r"shop\.by_maker.*NOT_FOUND") as raised:
        play(BatchWrite((both,)), NOTHING, (done(), google.NotFound("gone")), on=procedures())
    assert isinstance(raised.value.__cause__, google.NotFound)


def test_claims_of_several_tables_go_at_the_same_time() -> None:
    both = Put(Key("HAT#a", "Hat"), {"_t": "Hat", "name": "a"}, {"by_colour": RED, "by_maker": Key("MAKER#ann", "Hat")})
    sent, _ = play(BatchWrite((both, put("b"))), NOTHING, (done(2), done()), (False, False), on=procedures())
    assert [(one.table, len(one.entries)) for one in sent[1].calls] == [(COLOURS, 2), (MAKERS, 1)]


SHELVES = tuple(Put(Key(f"SHELF#{name}", "SHELF"), {"_t": "Shelf", "name": name}) for name in "ab")
QUOTA = google.ResourceExhausted("quota")


@pytest.mark.parametrize(("refused", "left"), [(QUOTA, 2), (Mutated({0: Status(0), 1: Status(8, "quota")}), 1)])
def test_a_quota_that_is_exhausted_for_a_while(refused: Any, left: int) -> None:
    sent, _ = play(BatchWrite(SHELVES), refused, done(left), on=procedures())
    assert [len(one.entries) for one in sent if isinstance(one, MutateRows)] == [2, left]


def test_a_quota_that_stays_exhausted() -> None:
    clock = Clock()
    with pytest.raises(Throttled, match="quota") as raised:
        play(BatchWrite(SHELVES), *[QUOTA] * 100, on=procedures(clock), clock=clock)
    assert raised.value.left == SHELVES


@pytest.mark.parametrize("where", ["read", "commits"])
def test_an_exhausted_quota_returns_the_remaining_operations(where: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(batches, "GROUP", 2)
    answers: list[Any] = [QUOTA] if where == "read" else [NOTHING, done(2), (False, QUOTA), done()]
    with pytest.raises(Throttled, match="quota") as raised:
        play(BatchWrite(tuple(map(put, ALL))), *answers, on=procedures())
    assert raised.value.left == tuple(map(put, ALL if where == "read" else ALL[1:]))


def test_all_rows_that_are_refused_are_returned() -> None:
    shelves = tuple(Put(Key(f"SHELF#{name}", "SHELF"), {"_t": "Shelf", "name": name}) for name in "abc")
    bad = Status(3, "bad")
    answered = Mutated({0: bad, 1: Status(0), 2: bad})
    with pytest.raises(BackendError, match=r"2 of 4 operations.*'SHELF#a#SHELF', 'SHELF#c#SHELF'.*bad") as raised:
        play(BatchWrite((*shelves, put("a"))), answered, NOTHING, done(), False, on=procedures())
    assert raised.value.left == (shelves[0], shelves[2]), "the item with entries is written nevertheless"


def test_claims_that_fail_have_written_no_item() -> None:
    for failure in (google.Unknown("what"), google.InternalServerError("inside")):
        with pytest.raises(BackendError, match="so the item was not written") as raised:
            play(BatchWrite((put("a"),)), NOTHING, failure, on=procedures())
        assert isinstance(raised.value.__cause__, OutcomeUnknown)
        assert raised.value.left == (put("a"),)


def test_a_refused_row_does_not_hide_an_unknown_outcome() -> None:
    shelf = Put(Key("SHELF#a", "SHELF"), {"_t": "Shelf", "name": "a"})
    request = BatchWrite((shelf, put("a")))
    unreadable = OutcomeUnknown("the answer cannot be parsed")
    with pytest.raises(OutcomeUnknown) as raised:
        play(request, Mutated({0: Status(3, "bad")}), NOTHING, done(), unreadable, on=procedures())
    assert raised.value.left == (shelf, put("a"))
