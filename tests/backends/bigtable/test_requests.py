"""Golden native requests next to the call that makes them, and how answers are used; without I/O."""

import re

import pytest

from odm.backends.bigtable.client import retry
from odm.backends.bigtable.client.native import (
    CheckAndMutateRow,
    Entry,
    Mutated,
    MutateRow,
    MutateRows,
    Read,
    ReadRows,
    Status,
)
from odm.backends.bigtable.requests import Procedures
from odm.backends.bigtable.rows.ownership import REMOVED, Owned
from odm.backends.bigtable.rows.predicates import there
from odm.backends.bigtable.writer import new_id
from odm.errors import BackendError, ItemTooLarge, Throttled
from odm.protocol.requests import BatchGet, BatchWrite, Delete, Get, Put, Query, Refused, Request, Sleep, Written
from odm.schema.entity import Key
from tests.backends.bigtable.playing import (
    ABSENT,
    BUSY,
    EXISTS,
    GHOST,
    HAT,
    HAT_CELLS,
    HAT_ROW,
    ITEM,
    ROW_OF_HAT,
    play,
    procedures,
    row,
    rows,
)


class TestOneRow:
    def test_get(self) -> None:
        sent, answer = play(Get(HAT), Read((ROW_OF_HAT,)))
        assert sent == [ReadRows("shop", keys=(HAT_ROW,))]
        assert answer == ITEM

    def test_get_of_nothing(self) -> None:
        assert play(Get(HAT), Read())[1] is None

    def test_a_row_without_a_tag_is_not_an_item(self) -> None:
        assert play(Get(HAT), Read((GHOST,)))[1] is None
        assert play(BatchGet((HAT,)), Read((GHOST,)))[1] == (None,)

    def test_only_tags_that_are_not_expected_are_read(self) -> None:
        asked = BatchGet((HAT, Key("hats", "b")), tags=True, expected="Cap")
        keys = (HAT_ROW, "hats#b")
        sent, answer = play(asked, Read())
        assert sent == [ReadRows("shop", keys=keys, filter=Owned().unexpected("Cap"))]
        assert answer == (None, None)
        sent, answer = play(asked, Read((ROW_OF_HAT,)), Read((row(HAT_ROW),)))
        assert sent[1] == ReadRows("shop", keys=(HAT_ROW,), filter=Owned().held)
        assert answer == ({"_t": "Hat"}, None)
        assert play(asked, Read((ROW_OF_HAT,)), Read())[1] == (None, None)  # it was removed in between

    def test_all_tags_are_read_if_none_is_expected(self) -> None:
        sent, answer = play(BatchGet((HAT,), tags=True), Read((row(HAT_ROW),)))
        assert sent == [ReadRows("shop", keys=(HAT_ROW,), filter=Owned().held)]
        assert answer == ({"_t": "Hat"},)

    def test_each_put_writes_a_new_id(self) -> None:
        ids = iter(["first", "second"])
        on = Procedures(procedures().schema, ids=lambda: next(ids))
        for wanted in (b"first", b"second"):
            sent, _ = play(Put(HAT, ITEM), None, on=on)
            assert [cell.value for cell in sent[0].entry.mutations[2:] if cell.qualifier == "~r"] == [wanted]
        assert new_id() != new_id()
        assert re.fullmatch("[0-9a-f]{20}", new_id())

    def test_put(self) -> None:
        sent, answer = play(Put(HAT, ITEM), None)
        assert sent == [MutateRow("shop", Entry(HAT_ROW, HAT_CELLS))]
        assert answer == Written()

    @pytest.mark.parametrize("exists", [False, True])
    def test_put_if_absent(self, exists: bool) -> None:
        answers = (True, Read((ROW_OF_HAT,))) if exists else (False,)
        sent, answer = play(Put(HAT, ITEM, condition=ABSENT, presence="absent"), *answers)
        assert sent[0] == CheckAndMutateRow("shop", HAT_ROW, Owned().taken, unmatched=HAT_CELLS)
        assert answer == (Refused({"_t": "Hat", "price": 9}) if exists else Written())

    @pytest.mark.parametrize("exists", [False, True])
    def test_put_if_present(self, exists: bool) -> None:
        read = () if exists else (Read(()),)  # says why it is refused
        sent, answer = play(Put(HAT, ITEM, condition=EXISTS, presence="present"), exists, *read)
        assert sent[:1] == [CheckAndMutateRow("shop", HAT_ROW, there(), matched=HAT_CELLS)]
        assert [type(call) for call in sent[1:]] == [ReadRows] * len(read)
        assert answer == (Written() if exists else Refused(None))

    @pytest.mark.parametrize("exists", [False, True])
    def test_delete(self, exists: bool) -> None:
        sent, answer = play(Delete(HAT), exists)
        assert sent == [CheckAndMutateRow("shop", HAT_ROW, there(), matched=REMOVED)]
        assert answer == Written(existed=exists)

    @pytest.mark.parametrize("exists", [False, True])
    def test_delete_if_present(self, exists: bool) -> None:
        read = () if exists else (Read(()),)  # says why it is refused
        sent, answer = play(Delete(HAT, EXISTS, presence="present"), exists, *read)
        assert sent[:1] == [CheckAndMutateRow("shop", HAT_ROW, there(), matched=REMOVED)]
        assert [type(call) for call in sent[1:]] == [ReadRows] * len(read)
        assert answer == (Written(existed=True) if exists else Refused(None))

    @pytest.mark.parametrize("exists", [False, True])
    def test_delete_if_absent_deletes_nothing(self, exists: bool) -> None:
        """The server checks whether the item exists, so the call cannot match."""
        sent, answer = play(Delete(HAT, ABSENT), False, Read((ROW_OF_HAT,) if exists else ()))
        assert [type(one) for one in sent] == [CheckAndMutateRow, ReadRows]
        assert answer == (Refused({"_t": "Hat", "price": 9}) if exists else Written(existed=False))

    @pytest.mark.parametrize(
        "request_",
        [Get(Key("p" * 2000, "é" * 1048)), Query("p", "x" * 4095), Query("p", "a", "x" * 4095)],
        ids=["key", "lo", "hi"],
    )
    def test_a_row_key_has_at_most_4096_bytes(self, request_: Request) -> None:
        with pytest.raises(ItemTooLarge, match="4097 bytes"):
            play(request_)

    def test_the_longest_row_key(self) -> None:
        key = Key("p" * 2000, "é" * 1047 + "x")
        assert len(play(Get(key), Read())[0][0].keys[0].encode()) == 4096


class TestRowKeys:
    """Exactly the published row keys."""

    @pytest.mark.parametrize(
        ("key", "row_key"),
        [
            (HAT, "hats#fedoras#brandA"),
            (Key("NASDAQ#ZXZZT", "1426535612156"), "NASDAQ#ZXZZT#1426535612156"),
            (Key("0000987654", "20170726"), "0000987654#20170726"),
        ],
    )
    def test_partition_and_sort(self, key: Key, row_key: str) -> None:
        assert play(Get(key), Read())[0] == [ReadRows("shop", keys=(row_key,))]

    def test_without_a_sort_key(self) -> None:
        sent, _ = play(Get(Key("server1.bbb.com")), Read(), on=procedures(hash_only=True))
        assert sent == [ReadRows("shop", keys=("server1.bbb.com",))]

    def test_the_unambiguous_join(self) -> None:
        assert play(Get(Key("T#a", "U#b")), Read(), on=procedures(join="##"))[0][0].keys == ("T#a##U#b",)


class TestBatches:
    def test_batch_get_is_one_read_in_the_keys_order(self) -> None:
        keys = (Key("b", "1"), Key("a", "1"), Key("c", "1"))
        sent, answer = play(BatchGet(keys), rows("a#1", "b#1", x="1"))
        assert sent == [ReadRows("shop", keys=("b#1", "a#1", "c#1"))]
        assert answer == ({"_t": "Hat", "x": 1}, {"_t": "Hat", "x": 1}, None)

    def test_batch_get_of_very_many_keys(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retry, "READ_BYTES", 24)
        sent, answer = play(
            BatchGet((Key("a", "1"), Key("b", "1"), Key("c", "1"))), rows("a#1", x=""), rows("c#1", x="")
        )
        assert [one.keys for one in sent] == [("a#1", "b#1"), ("c#1",)]
        assert answer == ({"_t": "Hat", "x": ""}, None, {"_t": "Hat", "x": ""})

    def test_batch_write_in_the_order_of_the_rows(self) -> None:
        sent, answer = play(BatchWrite((Put(HAT, ITEM), Delete(Key("a", "1")))), done(0, 1))
        assert sent == [MutateRows("shop", (Entry("a#1", REMOVED), Entry(HAT_ROW, HAT_CELLS)))]
        assert answer is None

    def test_a_batch_too_large_for_one_request(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retry, "WRITE_BYTES", 2 * (2 * 64 + 4 * 3))
        sent, _ = play(deletes("a", "b", "c"), done(0, 1), done(0))
        assert [[entry.key for entry in call.entries] for call in sent] == [["a#1", "b#1"], ["c#1"]]

    def test_a_row_over_the_budget_goes_alone(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retry, "WRITE_BYTES", 1)
        assert [len(call.entries) for call in play(deletes("a", "b"), done(0), done(0))[0]] == [1, 1]

    def test_only_entries_that_are_not_written_are_sent_again(self) -> None:
        first = Mutated({0: Status(0), 1: Status(14, "busy"), 2: Status(4, "slow")}, BUSY)  # 3: no answer
        sent, _ = play(deletes("a", "b", "c", "d"), first, done(0, 1, 2))
        assert sent[1] == Sleep(0.05)
        assert [entry.key for entry in sent[2].entries] == ["b#1", "c#1", "d#1"]

    def test_an_answer_that_ends_early(self) -> None:
        sent, _ = play(deletes("a", "b"), done(0), done(0))
        assert [entry.key for entry in sent[2].entries] == ["b#1"]

    def test_a_large_batch_is_answered_partly_eight_times_in_a_row(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Each answer has one row of four. No row is lost or sent again; a full answer makes pauses short again."""
        monkeypatch.setattr(retry, "WRITE_BYTES", 4 * (2 * 64 + 4 * 3))
        names = "abcdefghijklmn"
        answers = [*[done(0)] * 8, done(0, 1, 2, 3), done(0), done(0)]
        sent, _ = play(deletes(*names), *answers)
        written = [[entry.key[0] for entry in one.entries] for one in sent if isinstance(one, MutateRows)]
        assert written == [list(names[at : at + 4]) for at in range(9)] + [["m", "n"], ["n"]]
        pauses = [one.seconds for one in sent if isinstance(one, Sleep)]
        assert pauses == pytest.approx([0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2, 5.0, 0.05])

    def test_after_all_retries_the_rest_is_returned(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(retry, "WRITE_BYTES", 2 * (64 + 4 * 3))
        busy = Mutated({0: Status(14, "busy")})
        with pytest.raises(Throttled, match=r"3 of 4 operations .* \(busy\)") as raised:
            play(deletes("a", "b", "c", "d"), done_and_busy(), *[busy] * 50)
        assert raised.value.left == deletes("b", "c", "d").operations

    def test_a_refused_row_is_named(self) -> None:
        with pytest.raises(BackendError, match=r"row 'b#1'.*INVALID_ARGUMENT, bad"):
            play(deletes("a", "b"), Mutated({0: Status(0), 1: Status(3, "bad")}))


def deletes(*partitions: str) -> BatchWrite:
    return BatchWrite(tuple(Delete(Key(partition, "1")) for partition in partitions))


def done(*indexes: int) -> Mutated:
    return Mutated({index: Status(0) for index in indexes})


def done_and_busy() -> Mutated:
    return Mutated({0: Status(0), 1: Status(14, "busy")})
