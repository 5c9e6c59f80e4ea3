"""Companions: separate items that every write of their entity keeps up to date."""
# ruff: noqa: D101  # a test's name says what it shows

import re
from collections.abc import Callable, Iterable
from functools import partial
from typing import Any

import pytest
from msgspec.structs import replace as evolve

from odm import (
    BadValue,
    ConditionFailed,
    Conflict,
    ItemExists,
    ItemNotFound,
    Store,
    Transaction,
    TransactionFailed,
    collection,
    set_,
)
from odm.protocol import requests as req
from odm.testing.capabilities import Capabilities, needs
from odm.testing.companions import Guest, Pass, Player, Runner, marked, players
from odm.testing.stores import Stores
from odm.testing.suite.helpers import FUTURE, PAST, fill
from odm.testing.suite.ways import Way, each_way

KEY = Player.primary(name="ann")
ANN = Player(name="ann", level=3)


def along(db: Store) -> tuple[int | None, list[tuple[int, str, int]]]:
    """The items of the companions: the highest level, and the list of levels."""
    rest = [item for item in db.scan() if not isinstance(item, Player)]
    highest = [item.level for item in rest if type(item).__name__ == "Player.highest"]  # type: ignore[attr-defined]
    listed = [(item.level, item.name, item.changes) for item in rest if type(item).__name__ == "Player.listed"]  # type: ignore[attr-defined]
    return (highest[0] if highest else None), sorted(listed)


def kinds(requests: Iterable[req.Request]) -> list[str]:
    """What was asked."""
    return [type(request).__name__ for request in requests]


def together(db: Store, *operations: Callable[[Transaction], object]) -> None:
    """A transaction of these operations."""
    with db.transaction() as tx:
        for operation in operations:
            operation(tx)


@pytest.fixture
def table(stores: Stores) -> Store:
    """A store of the players."""
    return stores.open(players)


@needs("conditions", "updates")
class TestCompanions:
    def test_are_written_with_the_item(self, table: Store) -> None:
        assert table.put(ANN) == ANN
        assert along(table) == (3, [(3, "ann", 1)])
        table.put(Player(name="ann", level=2))
        assert along(table) == (3, [(2, "ann", 2)])
        table.insert(Player(name="bob", level=7))
        assert along(table) == (7, [(2, "ann", 2), (7, "bob", 1)])
        assert table.update(KEY, set_(Player.level, 9), returning="new") == Player(name="ann", level=9)
        assert along(table) == (9, [(7, "bob", 1), (9, "ann", 3)])
        table.update(Player.primary(name="cleo"), set_(Player.level, 1), upsert=True)
        assert along(table) == (9, [(1, "cleo", 1), (7, "bob", 1), (9, "ann", 3)])
        assert table.delete(KEY) is True
        assert table.delete(KEY) is False
        assert along(table) == (9, [(1, "cleo", 1), (7, "bob", 1)])

    def test_say_what_they_need(self, table: Store, stores: Stores, capabilities: Capabilities) -> None:
        table.put(ANN)
        for write, expected in (
            (lambda: table.put(Player(name="ann", level=4)), ["Get", "Transact"]),
            (lambda: table.put(Player(name="ann", level=4, note="n")), ["Get", "Transact", "Put"]),
            (lambda: table.insert(Player(name="bob", level=9)), ["Transact"]),
            (lambda: table.update(KEY, set_(Player.note, "m")), ["Update"]),
            (lambda: table.delete(KEY), ["Get", "Transact"]),
        ):
            stores.forget()
            write()
            if capabilities.transactions is True:
                assert kinds(stores.requests) == expected
            else:
                assert "Transact" not in kinds(stores.requests)

    def test_of_one_that_lost_leave_the_rest_alone(self, table: Store) -> None:
        table.put(Player(name="zoe", level=8))
        table.put(ANN)
        assert along(table) == (8, [(3, "ann", 1), (8, "zoe", 1)])
        assert table.get(KEY) == ANN

    def test_keep_a_mark_that_only_they_change(self, table: Store) -> None:
        table.put(ANN)
        table.put(Player(name="ann", level=3, note="again"))
        table.update(KEY, set_(Player.note, "and again"))
        table.put(Player(name="ann", level=5))
        assert along(table) == (5, [(5, "ann", 2)])

    @each_way
    def test_see_the_item_as_it_is_replaced(self, table: Store, stores: Stores, way: Way) -> None:
        table.put(ANN)
        # A rival writes only the item and does not list its level. The next put must remove the rival's level from the
        # list, not level 3.
        stores.rival_puts(Player(name="ann", level=5))
        way(table).put(Player(name="ann", level=6))
        assert [level for level, _, _ in along(table)[1]] == [3, 6]
        stores.rival_puts(Player(name="ann", level=7))
        way(table).update(ANN, set_(Player.level, 8))
        assert [level for level, _, _ in along(table)[1]] == [3, 6, 8]

    def test_leave_what_an_update_returns_to_the_write(self, table: Store, stores: Stores) -> None:
        """Another writer changes a field that no companion uses, after the update has read the item."""
        key = Runner.primary(name="ann")
        table.put(Runner(name="ann", level=3))
        stores.rival_puts(Runner(name="ann", level=3, note="first"))
        old = table.update(key, set_(Runner.level, 4), returning="old")
        assert old == Runner(name="ann", level=3, note="first")
        stores.rival_puts(Runner(name="ann", level=4, note="second"))
        assert table.update(key, set_(Runner.level, 5), returning="new") == Runner(name="ann", level=5, note="second")

    @each_way
    def test_are_not_written_when_the_item_is_not(self, table: Store, way: Way) -> None:
        with pytest.raises(ConditionFailed):
            way(table).put(ANN, when=Player.level == 1)
        with pytest.raises(ItemNotFound):
            way(table).update(KEY, set_(Player.level, 1))
        assert along(table) == (None, [])
        table.put(ANN)
        with pytest.raises(ItemExists):
            way(table).insert(Player(name="ann", level=9))
        with pytest.raises(ConditionFailed):
            way(table).update(KEY, set_(Player.level, 9), when=Player.note == "n")
        with pytest.raises(ConditionFailed):
            way(table).delete(KEY, when=Player.note == "n")
        assert along(table) == (3, [(3, "ann", 1)])

    def test_go_with_everything_that_a_query_finds(self, table: Store) -> None:
        for level in range(4):
            table.put(Player(name=f"p{level}", level=level))
        assert [table.delete_all(Player.primary(name=f"p{level}")) for level in range(4)] == [1, 1, 1, 1]
        assert along(table) == (3, [])

    def test_leave_others_in_the_table_to_batches(self, table: Store, stores: Stores) -> None:
        passes = [Pass(name="ann", number=number, expires_at=at) for number, at in enumerate((None, PAST, FUTURE))]
        table.put(Guest(name="ann", seat="1"))
        fill(table, passes)
        stores.forget()
        assert table.delete_all(Pass.primary(name="ann")) == 3
        assert set(kinds(stores.requests)) == {"Query", "BatchWrite"}
        fill(table, passes)
        assert table.delete_all(collection(Guest.primary(name="ann"))) == 4
        assert [item for item in table.scan() if isinstance(item, Guest | Pass)] == []
        assert table.put(Guest(name="bob", seat="1")).seat == "1"

    def test_are_right_wherever_a_program_is_stopped_and_goes_on(self, table: Store, stores: Stores) -> None:
        for after in range(12):
            put = partial(table.put, Player(name="ann", level=10 + after))
            stopped = stores.stopped(put, after=after)
            table.put(Player(name="ann", level=100 + after))
            highest, listed = along(table)
            assert highest == 100 + after
            assert (100 + after, "ann") in [(level, name) for level, name, _ in listed]
            if not stopped:
                break
        else:
            pytest.fail("the write takes more requests than this test expects")

    def test_settle_after_the_write_is_applied(self, table: Store) -> None:
        last: Any = Guest.last.classes[Guest]
        bob = Guest(name="bob", seat="1")

        def done() -> str:
            return str(table.one(last, name="bob").done)

        bob = table.insert(bob)
        assert done() == "came"
        with pytest.raises(Conflict):
            table.put(bob.model_copy(update={"revision": 7}))
        assert done() == "came"
        table.update(bob, set_(Guest.seat, "1"))
        assert done() == "changed"
        with table.transaction() as tx:
            tx.delete(Guest, name="bob")
        assert done() == "left"
        assert table.delete(Guest, name="bob") is False
        assert done() == "was not there"

    def test_have_the_versions_of_their_entity(self, table: Store) -> None:
        table.insert(Guest(name="ann", seat="1"))
        pages = [table.scan_page()]
        while pages[-1].cursor is not None:
            pages.append(table.scan_page(pages[-1].cursor))
        stored = [raw for page in pages for raw in page.items if raw.attributes["_t"] == "Guest.last"]
        assert [raw.attributes["_v"] for raw in stored] == [2]
        table.put_raw([evolve(raw, attributes={**raw.attributes, "_v": 1, "done": "came"}) for raw in stored])
        assert table.one(Guest.last.classes[Guest], name="ann").done == "came"

    def test_report_their_marks(self, table: Store) -> None:
        assert table.run(marked(KEY)) == (None, None)
        table.put(ANN)
        assert table.run(marked(KEY)) == (ANN, "1")

    @needs("retry_safe")
    def test_of_an_update_that_may_be_sent_again(self, table: Store) -> None:
        table.put(ANN)
        table.with_options(retry_safe=True).update(KEY, set_(Player.level, 9))
        assert along(table) == (9, [(9, "ann", 2)])

    def test_are_named_by_explain(self, table: Store) -> None:
        assert "companions highest (Highest), listed (Listed): " in str(table.explain(ANN))
        asked = r"requests   (one, a transaction, or two with a read first, a try|several, one after another)\n"
        assert re.search(asked, str(table.explain(ANN)))
        assert not re.search(asked, str(table.explain(KEY, set_(Player.note, "n"))))
        assert table.explain(KEY, set_(Player.level, 1)).companions == ("highest (Highest)", "listed (Listed)")
        assert table.explain(KEY, write="delete").companions == ("listed (Listed)",)
        assert table.explain(KEY, set_(Player.note, "n")).companions == ()

    def test_are_refused_in_batches(self, table: Store) -> None:
        with table.batch() as batch:
            with pytest.raises(BadValue, match=r"Player\.highest and Player\.listed"):
                batch.put(ANN)
            with pytest.raises(BadValue, match=r"Player\.listed"):
                batch.delete(KEY)
        assert along(table) == (None, [])


@needs("conditions", "updates")
class TestRefusedCompanions:
    def test_refuse_the_write(self, table: Store, capabilities: Capabilities) -> None:
        table.put(Guest(name="ann", seat="1"))
        with pytest.raises(ItemExists, match="seat 1 is taken") as refused:
            table.put(Guest(name="bob", seat="1"))
        assert refused.value.item.seat == "1"
        if capabilities.transactions is True:
            assert table.get(Guest, name="bob") is None

    def test_respect_the_revision(self, table: Store) -> None:
        ann = table.put(Guest(name="ann", seat="1"))
        table.put(ann.model_copy(update={"seat": "1"}))
        with pytest.raises(Conflict):
            table.put(ann)
        with pytest.raises(Conflict):
            table.delete(ann)
        assert table.delete(table.one(Guest, name="ann"))
        assert table.put(Guest(name="bob", seat="1")).revision == 1


@needs("transactions", "updates")
class TestCompanionsTransactions:
    def test_are_written_with_the_item(self, table: Store) -> None:
        with table.transaction() as tx:
            tx.put(ANN)
            tx.insert(Player(name="bob", level=5))
            tx.put(Player(name="cleo", level=4))
        assert along(table) == (5, [(3, "ann", 1), (4, "cleo", 1), (5, "bob", 1)])
        with table.transaction() as tx:
            tx.update(KEY, set_(Player.level, 1))
            tx.delete(Player.primary(name="bob"))
            tx.update(Player.primary(name="cleo"), set_(Player.note, "n"))
        assert along(table) == (5, [(1, "ann", 2), (4, "cleo", 1)])

    def test_are_written_with_all_or_not_at_all(self, table: Store) -> None:
        with pytest.raises(TransactionFailed) as failed:
            together(table, lambda tx: tx.put(ANN), lambda tx: tx.check(Player.primary(name="bob")))
        assert [type(reason) for reason in failed.value.reasons] == [type(None), ItemNotFound]
        assert along(table) == (None, [])

    def test_report_the_operation_that_they_belong_to(self, table: Store) -> None:
        table.put(Guest(name="ann", seat="2"))
        bob, cleo = Guest(name="bob", seat="1"), Guest(name="cleo", seat="2")
        with pytest.raises(TransactionFailed) as failed:
            together(table, lambda tx: tx.put(bob), lambda tx: tx.put(cleo))
        assert [type(reason) for reason in failed.value.reasons] == [type(None), ItemExists]
        assert table.get(Guest, name="bob") is None

    def test_that_lost_to_what_is_stored_are_no_reason_to_try_again_and_again(
        self, table: Store, stores: Stores
    ) -> None:
        table.put(Player(name="zoe", level=99))
        stores.forget()
        with table.transaction() as tx:
            for level in range(5):
                tx.insert(Player(name=f"p{level}", level=level))
        assert kinds(stores.requests) == ["Transact", "Transact"]
        assert along(table)[0] == 99

    def test_have_one_write_an_item(self, table: Store) -> None:
        ann, bob = Guest(name="ann", seat="1"), Guest(name="bob", seat="1")
        with pytest.raises(BadValue, match="seat='1'"):
            together(table, lambda tx: tx.put(ann), lambda tx: tx.put(bob))
        assert table.get(Guest, name="ann") is None
