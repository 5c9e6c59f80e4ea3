"""How writes are sent: in one call, or through a commit; without I/O."""

from typing import Any

import pytest

from odm.backends.bigtable.client.native import (
    AppendValue,
    Cell,
    CheckAndMutateRow,
    DeleteColumn,
    Entry,
    Increment,
    MutateRow,
    Read,
    ReadModifyWriteRow,
    ReadRows,
    Row,
    SetCell,
)
from odm.backends.bigtable.rows.ownership import REMOVED
from odm.backends.bigtable.rows.predicates import predicate
from odm.errors import BadValue, OutcomeUnknown
from odm.expressions.nodes import AddTo, Compare, Const, IsIn, Missing, Or, Path, Set
from odm.expressions.nodes import Increment as Add
from odm.immutable import evolve
from odm.protocol.predicates import ABSENT, EXISTS, every
from odm.protocol.requests import Check, Delete, Put, Refusals, Refused, Sleep, Transact, Update, Written
from tests.backends.bigtable import playing
from tests.backends.bigtable.playing import BUSY, play
from tests.backends.bigtable.writing import (
    HAT,
    NOTHING,
    RED,
    ROW,
    SHELF,
    SHELF_ROW,
    calls,
    commit_of,
    done,
    item,
    procedures,
    stored,
)

SHELF_ITEM = {"_t": "Shelf", "name": "a"}
SHELF_CELLS = (
    *REMOVED,
    SetCell("_t", b"Shelf", 5000),
    SetCell("name", b"a", 5000),
    SetCell("~r", b"id1", 5000),
)
CHEAP = Compare("<", Path(("price",)), Const(5))
COUNT = Update(HAT, (Add(Path(("worn",)), 3),), tag="Hat")
FOUR, SEVEN, EIGHT, ELEVEN = (number.to_bytes(8, "big") for number in (4, 7, 8, 11))
BY_FIRST = Update(HAT, COUNT.actions, tag="Hat", version=1)


def commits_of(sent: list[Any]) -> list[CheckAndMutateRow]:
    return [one for one in sent if isinstance(one, CheckAndMutateRow)]


def price_is(price: int) -> Compare:
    return Compare("=", Path(("price",)), Const(price))


def counted(tag: bytes, revision: bytes = b"r0") -> Row:
    """The answer to an increment."""
    return Row(ROW.encode(), (Cell("c", b"worn", SEVEN), Cell("d", b"_t", tag), Cell("d", b"~r", revision)))


GHOST = Read((counted(b"", b""),))


class TestPut:
    def test_that_depends_on_nothing_is_one_mutation(self) -> None:
        """Also next to entities with access patterns: no item with such a key can have entries."""
        sent, answer = play(Put(SHELF, SHELF_ITEM), None, on=procedures())
        assert sent == [MutateRow("shop", Entry(SHELF_ROW, SHELF_CELLS))]
        assert answer == Written()

    def test_of_an_item_that_may_have_had_entries(self) -> None:
        sent, _ = play(
            Put(HAT, item()), stored("r0", '[["by_colour", "COLOUR#red", "Hat", "q"]]'), True, done(), on=procedures()
        )
        assert calls(sent) == 3

    def test_of_an_unknown_entity_in_a_table_with_indexes(self) -> None:
        sent, _ = play(Put(SHELF, {"_t": "Old", "name": "a"}), NOTHING, False, on=procedures())
        assert isinstance(sent[0], ReadRows)

    @pytest.mark.parametrize("done", [True, False])
    def test_if_the_server_can_evaluate_the_condition(self, done: bool) -> None:
        found = Read((playing.row(SHELF_ROW, _t="Shelf", name="b"),))
        request = Put(SHELF, SHELF_ITEM, condition=every(EXISTS, Compare("=", Path(("name",)), Const("a"))))
        sent, answer = play(request, done, *([] if done else [found]), on=procedures())
        assert sent[0].matched == SHELF_CELLS
        assert answer == (Written() if done else Refused({"_t": "Shelf", "name": "b"}))
        assert calls(sent) == (1 if done else 2)

    def test_if_a_condition_is_true_for_a_missing_item(self) -> None:
        sent, answer = play(Put(SHELF, SHELF_ITEM, condition=Missing(Path(("name",)))), False, on=procedures())
        assert (sent[0].matched, sent[0].unmatched) == ((), SHELF_CELLS)
        assert (calls(sent), answer) == (1, Written())


class TestUpdate:
    def test_with_a_condition_that_the_server_can_evaluate(self) -> None:
        sent, answer = play(
            Update(HAT, (Set(Path(("price",)), 3),), condition=every(EXISTS, CHEAP)), True, on=procedures()
        )
        assert (calls(sent), answer) == (1, Written())

    def test_of_a_value_that_the_condition_fixes_is_one_call(self) -> None:
        """Like an update that checks a Revision and increments it."""
        sent, answer = play(
            Update(HAT, (Add(Path(("price",)), 1),), condition=every(EXISTS, price_is(4)), fixed={"price": 4}),
            True,
            on=procedures(),
        )
        assert SetCell("price", b"5", 5000) in sent[0].matched
        assert (calls(sent), answer) == (1, Written())

    def test_without_a_condition_checks_that_the_item_exists(self) -> None:
        sent, answer = play(Update(HAT, (Set(Path(("price",)), 3),)), False, NOTHING, on=procedures())
        assert "d:_t" in str(sent[0].predicate)
        assert answer == Refused(None)

    def test_that_was_refused_is_tried_again_if_its_condition_holds_now(self) -> None:
        """Between the refusal and the read, another writer changed the item so that the condition holds."""
        update = Update(HAT, (Set(Path(("price",)), 3),), condition=every(EXISTS, price_is(4)))
        sent, answer = play(update, False, stored("r7", price=b"4"), True, on=procedures())
        assert str(sent[2].predicate) == "(d:~r | cells-per-column=1 | value = 'r7')"
        assert answer == Written()

    def test_that_returns_the_item_reads_it(self) -> None:
        update = Update(HAT, (Set(Path(("price",)), 3),), condition=EXISTS, returning="new")
        sent, answer = play(update, stored(price=b"4"), True, on=procedures())
        assert answer == Written(item(price=3))
        assert [type(one) for one in sent] == [ReadRows, CheckAndMutateRow]

    def test_of_members_in_columns(self) -> None:
        """They need no read if the plain cell holds no members, which the predicate checks, too, if it fits."""
        add = (AddTo(Path(("tags",)), frozenset({"new"})),)
        sent, answer = play(Update(HAT, add, condition=EXISTS), True, on=procedures())
        assert "d:tags" in str(sent[0].predicate)
        assert (calls(sent), answer) == (1, Written())
        form = procedures().writer.form
        names = (every(EXISTS, IsIn(Path(("name",)), (Const("x" * n), Const("y")))) for n in range(10240, 9900, -1))
        longest = next(one for one in names if predicate(one, form) is not None)
        sent, answer = play(Update(HAT, add, condition=longest), stored(), on=procedures())
        assert (type(sent[0]), answer) == (ReadRows, Refused(item()))

    def test_of_members_in_the_plain_cell(self) -> None:
        add = Update(HAT, (AddTo(Path(("tags",)), frozenset({"new"})),), condition=EXISTS)
        sent, answer = play(add, False, stored(tags=b'{"$set": ["old"]}'), True, on=procedures())
        assert [one.qualifier for one in sent[2].matched] == ["tags", "tags", "tags#new", "tags#old", "~r", "~r"]
        assert answer == Written()

    def test_with_large_values_reads_the_item_for_its_size(self) -> None:
        update = Update(HAT, (Set(Path(("note",)), "n" * 7000),), condition=EXISTS)
        assert isinstance(play(update, stored(), True, on=procedures())[0][0], ReadRows)


class TestDelete:
    """In a table without indexes, the answer of one call says whether there was an item."""

    @pytest.mark.parametrize("existed", [True, False])
    def test_is_one_call(self, existed: bool) -> None:
        sent, answer = play(Delete(playing.HAT), existed)
        assert sent[0].matched == REMOVED
        assert (calls(sent), answer) == (1, Written(existed=existed))

    def test_with_a_condition(self) -> None:
        assert calls(play(Delete(playing.HAT, price_is(9)), True)[0]) == 1
        _, answer = play(Delete(playing.HAT, price_is(8)), False, Read((playing.ROW_OF_HAT,)))
        assert answer == Refused({"_t": "Hat", "price": 9})

    def test_with_a_condition_that_is_true_for_a_missing_item(self) -> None:
        """Like the condition of an entity with a TTL: without an item, the delete succeeds and finds nothing."""
        sent, answer = play(Delete(playing.HAT, Missing(Path(("note",)))), False, NOTHING)
        assert "d:~r" in str(sent[0].predicate)
        assert answer == Written(existed=False)


class TestCounters:
    def test_alone_are_one_read_modify_write(self) -> None:
        sent, answer = play(COUNT, counted(b"Hat"), on=procedures())
        told = (AppendValue("_t", b""), AppendValue("~r", b""))
        assert sent == [ReadModifyWriteRow("shop", ROW, (Increment("worn", 3), *told))]
        assert answer == Written()

    def test_learn_the_version_from_the_revision(self) -> None:
        sent, answer = play(BY_FIRST, counted(b"Hat"), on=procedures())
        assert (calls(sent), answer) == (1, Written())

    def test_of_a_later_version_read_the_version_first(self) -> None:
        """Its model may find items that must be upgraded, and must not increment their counters before."""
        update = Update(HAT, COUNT.actions, tag="Hat", version=2)
        sent, answer = play(update, stored("r0.2"), counted(b"Hat", b"r0.2"), on=procedures())
        assert [type(one) for one in sent] == [ReadRows, ReadModifyWriteRow]
        assert answer == Written()
        sent, answer = play(update, stored(), stored(c_worn=FOUR), on=procedures())
        assert [type(one) for one in sent] == [ReadRows, ReadRows]
        assert answer == Refused(item(worn=4))
        assert play(update, NOTHING, NOTHING, on=procedures())[1] == Refused(None)

    def test_of_another_version_are_reverted(self) -> None:
        newer = stored("r0.2", _v=b"2", c_worn=FOUR)
        sent, answer = play(BY_FIRST, counted(b"Hat", b"r0.2"), True, newer, on=procedures())
        asked = str(sent[1].predicate)
        assert "r0.2" in asked
        assert str(SEVEN)[1:] in asked
        assert sent[1].matched == (DeleteColumn("worn", "c"), SetCell("worn", FOUR, 5000, "c"))
        assert answer == Refused(item(_v=2, worn=4))

    def test_of_another_version_are_reverted_with_concurrent_increments(self) -> None:
        newer = stored("r0.2", _v=b"2", c_worn=ELEVEN)
        sent, _ = play(BY_FIRST, counted(b"Hat", b"r0.2"), False, newer, True, newer, on=procedures())
        assert commits_of(sent)[1].matched[1] == SetCell("worn", EIGHT, 5000, "c")

    @pytest.mark.parametrize("found", [stored("r1.2", _v=b"2", c_worn=FOUR), NOTHING], ids=["put", "deleted"])
    def test_of_another_version_are_not_reverted_after_another_write(self, found: Read) -> None:
        """Reverting would subtract an increment that the new item may not have."""
        with pytest.raises(OutcomeUnknown, match="another tag or version"):
            play(BY_FIRST, counted(b"Hat", b"r0.2"), False, found, on=procedures())

    def test_every_write_leaves_the_version_in_the_revision(self) -> None:
        put = Put(SHELF, {**SHELF_ITEM, "_v": 2})
        assert SetCell("~r", b"id1.2", 5000) in play(put, None, on=procedures())[0][0].entry.mutations
        update = Update(HAT, (Set(Path(("price",)), 1),), condition=EXISTS, version=2)
        assert SetCell("~r", b"id1.2", 5000) in play(update, True, on=procedures())[0][0].matched
        sent, _ = play(evolve(update, returning="new"), stored("r0.2", _v=b"2"), True, on=procedures())
        assert SetCell("~r", b"id1.2", 5000) in commit_of(sent).matched

    @pytest.mark.parametrize(
        "answers",
        [
            [True, NOTHING],
            [False, NOTHING, False, NOTHING],
            [False, stored(), NOTHING],
            [BUSY, NOTHING, NOTHING],
            [BUSY, GHOST] * 100,
        ],
        ids=["done", "another undid it", "put", "again", "stays"],
    )
    def test_that_found_no_item_are_undone(self, answers: list[Any]) -> None:
        clock = playing.Clock()
        sent, answer = play(COUNT, counted(b"", b""), *answers, on=procedures(clock), clock=clock, rest=True)
        marks = (DeleteColumn("_t"), DeleteColumn("~r"))
        assert sent[1].matched == (DeleteColumn("worn", "c"), SetCell("worn", FOUR, 5000, "c"), *marks)
        assert "d:_t" in str(sent[1].predicate)
        assert answer == Refused(None)

    @pytest.mark.parametrize(
        "request_",
        [
            Update(HAT, COUNT.actions, condition=EXISTS, returning="new"),
            Update(HAT, COUNT.actions, condition=every(EXISTS, Compare("<", Path(("worn",)), Const(10)))),
            Update(HAT, (*COUNT.actions, Set(Path(("price",)), 1)), condition=EXISTS),
        ],
        ids=["returning", "condition", "other actions"],
    )
    def test_that_must_be_read_are_guarded(self, request_: Update) -> None:
        sent, _ = play(request_, stored(c_worn=FOUR), True, on=procedures())
        commit = commit_of(sent)
        assert f"(c:worn | cells-per-column=1 | value = {str(FOUR)[1:]} | cells-per-row=1)" in str(commit.predicate)
        assert "value = 'r0'" in str(commit.predicate)
        assert SetCell("worn", SEVEN, 5000, "c") in commit.matched
        assert DeleteColumn("worn", "c") in commit.matched

    def test_that_changed_concurrently_are_read_again(self) -> None:
        update = Update(HAT, COUNT.actions, condition=EXISTS, returning="new")
        sent, answer = play(update, stored(c_worn=FOUR), False, stored(c_worn=SEVEN), True, on=procedures())
        assert answer == Written(item(worn=10))
        assert isinstance(sent[2], Sleep)

    def test_that_are_missing_are_created_first(self) -> None:
        """A predicate cannot check that one cell exists and another does not."""
        update = Update(HAT, (Add(Path(("worn",)), 3, 4),), condition=EXISTS)
        sent, answer = play(update, stored(), False, True, on=procedures())
        assert sent[1].unmatched == (SetCell("worn", FOUR, 5000, "c"),)
        assert str(sent[1].predicate) == "(c:worn | cells-per-column=1)"
        assert str(FOUR)[1:] in str(sent[2].predicate)
        assert SetCell("worn", SEVEN, 5000, "c") in sent[2].matched
        assert answer == Written()

    def test_that_were_plain_numbers_become_counters(self) -> None:
        update = Update(HAT, COUNT.actions, condition=EXISTS, returning="new")
        sent, answer = play(update, stored(worn=b"4"), False, True, on=procedures())
        assert sent[1].unmatched == (SetCell("worn", bytes(8), 5000, "c"),)
        assert DeleteColumn("worn") in sent[2].matched
        # the cell that was just made may have a later timestamp, and would be the newest
        gone, made = DeleteColumn("worn", "c"), SetCell("worn", SEVEN, 5000, "c")
        assert sent[2].matched.index(gone) < sent[2].matched.index(made)
        assert answer == Written(item(worn=7))

    def test_that_are_only_set_need_no_guard(self) -> None:
        update = Update(HAT, (Set(Path(("worn",)), 7),), condition=every(EXISTS, CHEAP), returning="none")
        sent, _ = play(update, False, stored(price=b"3", c_worn=FOUR), True, on=procedures())
        assert "c:worn" not in str(sent[2].predicate)

    def test_that_are_returned_are_guarded(self) -> None:
        update = Update(HAT, (Set(Path(("price",)), 7),), condition=EXISTS, returning="old")
        sent, answer = play(update, stored(price=b"3", c_worn=FOUR), True, on=procedures())
        assert "c:worn" in str(commit_of(sent).predicate)
        assert answer == Written(item(price=3, worn=4))

    def test_beyond_64_bits(self) -> None:
        update = Update(HAT, COUNT.actions, condition=EXISTS, returning="new")
        with pytest.raises(BadValue, match="64-bit"):
            play(update, stored(c_worn=(2**63 - 2).to_bytes(8, "big")), on=procedures())


class TestTransactionOfOne:
    def test_is_the_operation(self) -> None:
        put = Put(SHELF, SHELF_ITEM)
        sent, answer = play(Transact((put,)), None, on=procedures())
        assert sent == [MutateRow("shop", Entry(SHELF_ROW, SHELF_CELLS))]
        assert answer == Written()

    def test_is_refused(self) -> None:
        put = Put(HAT, item(), {"by_colour": RED}, EXISTS)
        assert play(Transact((put,)), NOTHING, on=procedures())[1] == Refusals((Refused(None),))

    def test_does_not_fit(self) -> None:
        update = Update(HAT, (Add(Path(("name",)), 1),), condition=EXISTS)
        (reason,) = play(Transact((update,)), stored(), on=procedures())[1].reasons
        assert isinstance(reason, BadValue)

    @pytest.mark.parametrize("there", [True, False])
    def test_checks(self, there: bool) -> None:
        sent, answer = play(Transact((Check(HAT, EXISTS),)), stored() if there else NOTHING, on=procedures())
        assert [type(one) for one in sent] == [ReadRows]
        assert answer == (Written() if there else Refusals((Refused(None),)))

    def test_of_none(self) -> None:
        assert play(Transact(()), on=procedures()) == ([], Written())


def test_an_insert_over_an_expired_item() -> None:
    """Tried as an insert, then with the stored item."""
    gone = Compare("<=", Path(("_ttl",)), Const(100))
    insert = Put(HAT, item(), {"by_colour": RED}, Or((gone, ABSENT)), presence="expired")
    old = stored("r0", _ttl=b"50")
    sent, answer = play(insert, done(), True, done(), old, done(), True, on=procedures())
    assert [type(one).__name__ for one in sent] == [
        "MutateRows", "CheckAndMutateRow", "MutateRows", "Sleep", "ReadRows", "MutateRows", "CheckAndMutateRow"
    ]  # fmt: skip
    assert answer == Written()
