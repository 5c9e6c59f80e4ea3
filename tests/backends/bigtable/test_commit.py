"""Read, claim, commit, clean: the native requests, their order and number; without I/O."""

import pytest

from odm.backends.bigtable.client.native import (
    Cell,
    CheckAndMutateRow,
    Concurrent,
    DeleteColumn,
    Mutated,
    MutateRows,
    Read,
    ReadRows,
    Row,
    SetCell,
    Status,
)
from odm.backends.bigtable.client.wire import Wire
from odm.backends.bigtable.requests import Procedures
from odm.backends.bigtable.rows.codec import Form
from odm.backends.bigtable.rows.loading import Loader, RowItem
from odm.backends.bigtable.rows.ownership import REMOVED
from odm.backends.bigtable.rows.predicates import revision_is
from odm.errors import BackendError, ItemTooLarge, Throttled
from odm.expressions.nodes import Compare, Const, Increment, Path, Remove, Set
from odm.immutable import evolve
from odm.protocol.predicates import ABSENT, EXISTS
from odm.protocol.requests import Delete, Put, Refused, Sleep, Update, Written
from odm.schema.entity import Key
from tests.backends.bigtable.playing import BUSY, Clock, google, play
from tests.backends.bigtable.writing import (
    ANN,
    BLUE,
    COLOURS,
    HAT,
    MAKERS,
    NOTHING,
    RED,
    Wall,
    calls,
    commit_of,
    done,
    entry,
    item,
    listed,
    procedures,
    stored,
)
from tests.shop import leaves

PUT_RED = Put(HAT, item(colour="red"), {"by_colour": RED})
INSERT_RED = Put(HAT, item(colour="red"), {"by_colour": RED}, ABSENT, presence="absent")
TO_BLUE = Update(HAT, (Set(Path(("colour",)), "blue"),), {"by_colour": BLUE}, EXISTS)


def price_is(price: int) -> Compare:
    return Compare("=", Path(("price",)), Const(price))


class TestCalls:
    """The table of calls in the protocol: a and r are the index tables with an added or a removed key."""

    def test_insert(self) -> None:
        sent, answer = play(INSERT_RED, done(), False, on=procedures())
        assert sent[0] == MutateRows(COLOURS, (entry(RED, "id1"),))
        assert sent[1].unmatched == (
            *REMOVED,
            SetCell("_t", b"Hat", 5000),
            SetCell("name", b"fez", 5000),
            SetCell("colour", b"red", 5000),
            SetCell("~r", b"id1", 5000),
            SetCell("_ix", listed(red="id1").encode(), 5000),
        )
        assert str(sent[1]).startswith(
            "check-and-mutate shop 'HAT#fez#Hat' if not ((d:_t | cells-per-column=1 | value in ("
        )
        assert (calls(sent), answer) == (1 + 1, Written())

    def test_insert_without_entries(self) -> None:
        sent, answer = play(Put(HAT, item(), condition=ABSENT, presence="absent"), False, on=procedures())
        assert (calls(sent), answer) == (1, Written())

    def test_first_put(self) -> None:
        both = Put(HAT, item(), {"by_colour": RED, "by_maker": ANN})
        sent, answer = play(both, NOTHING, (done(), done()), False, on=procedures())
        assert isinstance(sent[0], ReadRows)
        assert sent[1] == Concurrent(
            (MutateRows(COLOURS, (entry(RED, "id1"),)), MutateRows(MAKERS, (entry(ANN, "id1"),)))
        )
        assert commit_of(sent).unmatched[-1] == SetCell("_ix", listed(red="id1", ann="id1").encode(), 5000)
        assert (calls(sent), answer) == (1 + 2 + 1, Written())

    def test_a_put_without_a_condition_reads_the_bookkeeping_only(self) -> None:
        sent, _ = play(PUT_RED, NOTHING, done(), False, on=procedures())
        assert str(sent[0]).endswith(" | cells-per-row=1 | strip-value))")
        assert "(d:_ix | cells-per-column=1)" in str(sent[0])

    def test_put_with_the_same_keys(self) -> None:
        sent, answer = play(PUT_RED, stored("r0", listed(red="q")), True, on=procedures())
        commit = commit_of(sent)
        assert str(commit.predicate) == "(d:~r | cells-per-column=1 | value = 'r0')"
        assert commit.matched[-2:] == (
            SetCell("~r", b"id1", 5000),
            SetCell("_ix", listed(red="q").encode(), 5000),
        )
        assert (calls(sent), answer) == (2, Written())

    def test_put_with_other_keys(self) -> None:
        put = Put(HAT, item(), {"by_colour": BLUE, "by_maker": ANN})
        sent, answer = play(put, stored("r0", listed(red="q", ann="p")), done(), True, done(), on=procedures())
        assert sent[1] == MutateRows(COLOURS, (entry(BLUE, "id1"),))
        assert commit_of(sent).matched[-1] == SetCell("_ix", listed(blue="id1", ann="p").encode(), 5000)
        assert sent[3] == MutateRows(COLOURS, (entry(RED, "q", gone=True),))
        assert (calls(sent), answer) == (2 + 1 + 1, Written())

    def test_delete(self) -> None:
        sent, answer = play(
            Delete(HAT), stored("r0", listed(red="q", ann="p")), True, (done(), done()), on=procedures()
        )
        assert commit_of(sent).matched == REMOVED
        assert sent[2] == Concurrent(
            (
                MutateRows(COLOURS, (entry(RED, "q", gone=True),)),
                MutateRows(MAKERS, (entry(ANN, "p", gone=True),)),
            )
        )
        assert (calls(sent), answer) == (2 + 2, Written(existed=True))

    def test_delete_of_nothing(self) -> None:
        sent, answer = play(Delete(HAT), NOTHING, on=procedures())
        assert (calls(sent), answer) == (1, Written(existed=False))

    def test_update_of_a_key(self) -> None:
        sent, answer = play(
            TO_BLUE, stored("r0", listed(red="q", ann="p"), colour=b"red"), done(), True, done(), on=procedures()
        )
        assert commit_of(sent).matched == (
            DeleteColumn("colour"),
            SetCell("colour", b"blue", 5000),
            DeleteColumn("~r"),
            SetCell("~r", b"id1", 5000),
            DeleteColumn("_ix"),
            SetCell("_ix", listed(blue="id1", ann="p").encode(), 5000),
        )
        assert sent[-1] == MutateRows(COLOURS, (entry(RED, "q", gone=True),))
        assert (calls(sent), answer) == (2 + 1 + 1, Written())

    def test_update_of_a_loaded_entity_does_not_read_its_row_again(self) -> None:
        update = evolve(TO_BLUE, base=read("r0", listed(red="q"), colour=b"red"))
        sent, answer = play(update, done(), True, done(), on=procedures())
        assert commit_of(sent).predicate == revision_is("r0")
        assert (calls(sent), answer) == (1 + 1 + 1, Written())

    def test_update_of_a_loaded_entity_reads_a_row_that_has_changed(self) -> None:
        update = evolve(TO_BLUE, base=read("r0", listed(red="q"), colour=b"red"))
        changed = stored("r1", listed(red="p"), colour=b"red")
        sent, answer = play(update, done(), False, done(), changed, done(), True, done(), on=procedures())
        assert sent[-1] == MutateRows(COLOURS, (entry(RED, "p", gone=True),))
        assert answer == Written()

    def test_update_that_leaves_an_index(self) -> None:
        update = Update(HAT, (Remove(Path(("colour",))),), {"by_colour": None}, EXISTS)
        sent, _ = play(update, stored("r0", listed(red="q"), colour=b"red"), True, done(), on=procedures())
        assert commit_of(sent).matched == (
            DeleteColumn("colour"),
            DeleteColumn("~r"),
            SetCell("~r", b"id1", 5000),
            DeleteColumn("_ix"),
        )
        assert calls(sent) == 2 + 1

    def test_update_to_the_keys_that_are_listed_claims_nothing(self) -> None:
        sent, _ = play(TO_BLUE, stored("r0", listed(blue="q"), colour=b"blue"), True, on=procedures())
        assert str(commit_of(sent)).endswith(": deletecolumn d:colour d:colour=blue deletecolumn 'd:~r' d:~r=id1")
        assert calls(sent) == 2

    def test_update_outside_the_keys(self) -> None:
        update = Update(HAT, (Set(Path(("price",)), 5),), condition=EXISTS)
        sent, answer = play(update, True, on=procedures())
        assert commit_of(sent).matched == (
            DeleteColumn("price"),
            SetCell("price", b"5", 5000),
            DeleteColumn("~r"),
            SetCell("~r", b"id1", 5000),
        )
        assert (calls(sent), answer) == (1, Written())


def read(revision: str, listed: str, **cells: bytes) -> RowItem:
    """The hat as the core gets it from a read."""
    found = Loader(Form({})).item(stored(revision, listed, **cells).rows[0])
    assert found is not None
    return found


class TestEvaluated:
    def test_a_refusal_carries_the_item_that_was_read(self) -> None:
        put = Put(HAT, item(), {"by_colour": RED}, price_is(5))
        sent, answer = play(put, stored(price=b"4"), on=procedures())
        assert answer == Refused({"_t": "Hat", "name": "fez", "price": 4})
        assert calls(sent) == 1

    def test_an_insert_over_an_item_removes_its_claims(self) -> None:
        sent, answer = play(INSERT_RED, done(), True, done(), stored("r0"), on=procedures())
        assert sent[2] == MutateRows(COLOURS, (entry(RED, "id1", gone=True),))
        assert isinstance(sent[3], Sleep)
        assert answer == Refused(item())

    @pytest.mark.parametrize(("returning", "price"), [("old", 4), ("new", 5)])
    def test_returns_the_item(self, returning: str, price: int) -> None:
        update = Update(HAT, (Increment(Path(("price",)), 1),), condition=EXISTS, returning=returning)  # type: ignore[arg-type]
        sent, answer = play(update, stored(price=b"4"), True, on=procedures())
        assert answer == Written(item(price=price))
        assert commit_of(sent).matched[:2] == (DeleteColumn("price"), SetCell("price", b"5", 5000))

    def test_an_update_of_nothing_is_refused(self) -> None:
        assert play(TO_BLUE, NOTHING, on=procedures())[1] == Refused(None)

    def test_a_refused_commit_starts_over_under_a_new_id(self) -> None:
        update = Update(HAT, (Increment(Path(("price",)), 1),), {"by_colour": BLUE}, EXISTS)
        first, second = stored("r0", listed(red="q"), price=b"4"), stored("r1", listed(red="q"), price=b"7")
        sent, answer = play(update, first, done(), False, done(), second, done(), True, done(), on=procedures())
        claims = [one for one in sent if isinstance(one, MutateRows)]
        assert claims == [
            MutateRows(COLOURS, (entry(BLUE, "id1"),)),
            MutateRows(COLOURS, (entry(BLUE, "id1", gone=True),)),
            MutateRows(COLOURS, (entry(BLUE, "id2"),)),
            MutateRows(COLOURS, (entry(RED, "q", gone=True),)),
        ]
        assert [one.seconds for one in sent if isinstance(one, Sleep)] == [0.01]
        again = [one for one in sent if isinstance(one, CheckAndMutateRow)][1]
        assert SetCell("price", b"8", 5000) in again.matched
        assert SetCell("~r", b"id2", 5000) in again.matched
        assert answer == Written()

    def test_a_refused_write_is_evaluated_again(self) -> None:
        put = Put(HAT, item(), {"by_colour": RED}, price_is(4))
        _, answer = play(
            put, stored("r0", price=b"4"), done(), False, done(), stored("r1", price=b"5"), on=procedures()
        )
        assert answer == Refused(item(price=5))

    def test_other_writers_change_the_row_until_the_time_is_up(self) -> None:
        clock = Clock()
        again = [stored("r0", listed(red="q")), False]
        with pytest.raises(Throttled, match=r"HAT#fez#Hat.*nothing was written"):
            play(PUT_RED, *again * 200, on=procedures(clock), clock=clock)
        assert 55 < clock.now <= 60

    def test_a_row_without_a_revision(self) -> None:
        """Read twice, because a read of Google's emulator may miss the cell of a row that is being written."""
        with pytest.raises(BackendError, match="has no cell d:~r"):
            play(PUT_RED, stored(""), stored(""), done(), on=procedures())

    def test_a_row_read_without_the_revision_that_it_has(self) -> None:
        _, answer = play(PUT_RED, stored(""), stored("r0"), done(), True, on=procedures())
        assert answer == Written()

    def test_an_action_that_does_not_fit_the_item(self) -> None:
        update = Update(HAT, (Increment(Path(("name",)), 1),), condition=EXISTS)
        with pytest.raises(ValueError, match=r"the Hat under .* name is stored as a string"):
            play(update, stored(), on=procedures())

    def test_an_item_that_has_become_too_large(self) -> None:
        update = Update(HAT, (Set(Path(("note",)), "n" * 410_000),), condition=EXISTS)
        with pytest.raises(ValueError, match="409600 are the most"):
            play(update, stored(), on=procedures())

    @pytest.mark.parametrize("over", [0, 1])
    def test_the_keys_of_a_local_index_count_once(self, over: int) -> None:
        """A local index has the item's partition key, so only its sort key counts, and the copy of the item's keys."""
        owner, index_key = "o" * 1000, len("by_textsk") + len("N#n")
        size = len("pksk") + len("n") + index_key + len("_tLeaf") + len("owner") + len("name") + len("n") + len("text")
        size += 2 * len(owner)  # in the key and as a field
        size += len("pksk") + len(owner) + len("n") + index_key  # in the index
        text = "x" * (400 * 1024 - size + over)
        update = Update(Key(owner, "n"), (Set(Path(("text",)), text),), {}, EXISTS, returning="new")
        cells = {"_t": "Leaf", "owner": owner, "name": "n", "~r": "r0", "_ix": f'[["by_text", "{owner}", "N#n", "q"]]'}
        row = Row(f"{owner}#n".encode(), (Cell("d", name.encode(), text.encode()) for name, text in cells.items()))
        on = Procedures(leaves.compile())
        if over:
            with pytest.raises(ItemTooLarge, match="409601 bytes"):
                play(update, Read((row,)), on=on)
        else:
            assert play(update, Read((row,)), True, on=on)[1].item["text"] == text


class TestClaims:
    def test_are_all_acknowledged_before_the_commit(self) -> None:
        both = Put(HAT, item(), {"by_colour": RED, "by_maker": ANN})
        busy = Mutated({0: Status(14, "busy")})
        sent, _ = play(both, NOTHING, (done(), busy), BUSY, done(), False, on=procedures())
        assert [type(one) for one in sent] == [
            ReadRows,
            Concurrent,
            Sleep,
            MutateRows,
            Sleep,
            MutateRows,
            CheckAndMutateRow,
        ]
        assert sent[5] == MutateRows(MAKERS, (entry(ANN, "id1"),))

    def test_that_fail_leave_the_item_unchanged(self) -> None:
        clock = Clock()
        with pytest.raises(Throttled, match=r"index entries could not be written.*busy.*nothing was written"):
            play(PUT_RED, NOTHING, *[BUSY] * 100, on=procedures(clock), clock=clock)

    def test_in_a_missing_table(self) -> None:
        with pytest.raises(BackendError, match=r"shop.by_colour.*NOT_FOUND.*store.create\(\)"):
            play(PUT_RED, NOTHING, google.NotFound("gone"), on=procedures())

    def test_are_removed_when_the_commit_fails(self) -> None:
        with pytest.raises(BackendError, match="single_cluster_routing") as raised:
            play(PUT_RED, NOTHING, done(), google.FailedPrecondition("no"), done(), on=procedures())
        assert isinstance(raised.value.__cause__, google.FailedPrecondition)

    @pytest.mark.parametrize("late", ["steady", "wall"])
    def test_the_writer_starts_over_when_a_quarter_of_the_lease_has_passed(self, late: str) -> None:
        """By the larger time of two clocks: the monotonic clock and the wall clock."""
        wall = Wall()

        def claimed() -> Mutated:
            if late == "steady":
                wall.now += 901
            else:
                wall.wall += 901
            return done()

        sent, answer = play(
            PUT_RED, NOTHING, claimed, done(), NOTHING, done(), False, on=procedures(wall=wall), clock=wall
        )
        assert [str(one).split()[0] for one in sent] == [
            "lookup", "mutate", "mutate", "sleep", "lookup", "mutate", "check-and-mutate"
        ]  # fmt: skip
        assert sent[2].entries == (entry(RED, "id1", gone=True),)
        assert sent[5].entries == (entry(RED, "id2"),)
        assert answer == Written()

    def test_the_deadline_of_a_commit_is_a_quarter_of_the_lease(self) -> None:
        wire = Wire("projects/p/instances/i", "", 5000.0)
        assert wire.message(CheckAndMutateRow("t", "k")).timeout == 900.0
        assert wire.message(ReadRows("t", ("k",))).timeout == 5000.0

    def test_a_commit_just_in_time(self) -> None:
        wall = Wall()

        def claimed() -> Mutated:
            wall.wall += 899
            return done()

        assert calls(play(PUT_RED, NOTHING, claimed, False, on=procedures(wall=wall), clock=wall)[0]) == 3


class TestCleaning:
    def test_is_sent_until_it_is_answered(self) -> None:
        sent, answer = play(Delete(HAT), stored("r0", listed(red="q")), True, BUSY, done(), on=procedures())
        assert sent[-1] == sent[2] == MutateRows(COLOURS, (entry(RED, "q", gone=True),))
        assert answer == Written()

    @pytest.mark.parametrize("failure", [BUSY, google.NotFound("gone")])
    def test_that_fails_is_left_to_scrub(self, failure: Exception, caplog: pytest.LogCaptureFixture) -> None:
        """The item was written, so the answer must not be an error."""
        clock = Clock()
        answers = [failure] * (100 if failure is BUSY else 1)
        _, answer = play(
            Delete(HAT), stored("r0", listed(red="q")), True, *answers, on=procedures(clock), clock=clock, rest=True
        )
        assert answer == Written()
        assert "odm scrub" in caplog.text
