"""Sparse indexes: the write that changes the fields of an item also adds or removes its index entry."""
# ruff: noqa: D101  # a test's name says what it shows

from datetime import datetime
from typing import Annotated, Any, Literal

from odm import TTL, AccessPattern, Entity, PrimaryKey, Store, Table, field, remove, set_
from odm.protocol import requests as req
from odm.testing.capabilities import Capabilities, needs
from odm.testing.stores import Stores
from odm.testing.suite.helpers import FUTURE, PAST, at, fill

desk = Table("desk")


class Errand(Entity, table=desk):
    """In one index while it has a field, in another while a condition holds."""

    errand_id: str
    due_at: datetime | None = None
    status: Literal["open", "done"] = "open"
    urgent: bool = False
    note: str = ""
    ends_at: Annotated[datetime | None, TTL] = None

    primary = PrimaryKey("ERRAND#{errand_id}")
    by_due = AccessPattern("DUE", "{due_at}#{errand_id}")
    urgent_ones = AccessPattern(
        "URGENT",
        "{errand_id}",
        when=(field("status") == "open") & (field("urgent") == True),  # noqa: E712
    )


KEY = Errand.primary(errand_id="e")
BOTH = Errand(errand_id="e", due_at=at(1), urgent=True)
NEITHER = Errand(errand_id="e")


def entries(db: Store) -> tuple[list[str], list[str]]:
    """The items in each index."""
    due, urgent = db.query(Errand.by_due()), db.query(Errand.urgent_ones())
    return [errand.errand_id for errand in due], [errand.errand_id for errand in urgent]


@needs("indexes")
class TestSparseIndexes:
    def test_hold_what_has_the_field_and_meets_the_condition_in_order(self, stores: Stores) -> None:
        db = stores.open(desk)
        fill(db, [Errand(errand_id=f"e{n}", due_at=at(9 - n) if n % 2 else None, urgent=n < 3) for n in range(6)])
        db.put(Errand(errand_id="done", urgent=True, status="done"))
        assert entries(db) == (["e5", "e3", "e1"], ["e0", "e1", "e2"])

    def test_follow_puts_batches_and_deletes(self, stores: Stores) -> None:
        db = stores.open(desk)
        here: tuple[list[str], list[str]] = (["e"], ["e"])
        gone: tuple[list[str], list[str]] = ([], [])
        for _ in range(2):
            db.put(BOTH)
            assert entries(db) == here
            db.put(NEITHER)
            assert entries(db) == gone
            fill(db, [BOTH])
            assert entries(db) == here
            fill(db, [NEITHER])
            assert entries(db) == gone
        db.put(BOTH)
        with db.batch() as batch:
            batch.delete(KEY)
        assert entries(db) == gone

    def test_do_not_give_what_has_expired(self, stores: Stores) -> None:
        db = stores.open(desk)
        db.put(BOTH.model_copy(update={"ends_at": PAST}))
        assert entries(db) == ([], [])
        assert db.count(Errand.by_due()) == 0
        db.put(BOTH.model_copy(update={"ends_at": FUTURE}))
        assert entries(db) == (["e"], ["e"])

    @needs("updates")
    def test_keep_no_entry_of_an_expired_item_that_is_created_again(self, stores: Stores) -> None:
        db = stores.open(desk)
        for make in (
            lambda: db.insert(NEITHER),
            lambda: db.update(KEY, set_(Errand.note, "new"), upsert=True),
            lambda: db.put(NEITHER),
        ):
            db.put(BOTH.model_copy(update={"ends_at": PAST}))
            make()
            assert entries(db) == ([], [])


@needs("indexes", "updates")
class TestSparseIndexUpdates:
    def test_enter_and_leave(self, stores: Stores) -> None:
        db = stores.open(desk)
        db.put(NEITHER)
        steps: list[tuple[list[Any], tuple[list[str], list[str]]]] = [
            ([set_(Errand.due_at, at(3))], (["e"], [])),
            ([set_(Errand.urgent, True)], (["e"], ["e"])),
            ([set_(Errand.status, "done")], (["e"], [])),
            ([set_(Errand.note, "n")], (["e"], [])),
            ([set_(Errand.status, "open"), remove(Errand.due_at)], ([], ["e"])),
            ([remove(Errand.urgent)], ([], [])),
            ([remove(Errand.status), set_(Errand.urgent, True)], ([], ["e"])),
            ([set_(Errand.ends_at, PAST)], ([], [])),
        ]
        for actions, expected in steps:
            db.update(KEY, *actions)
            assert entries(db) == expected, actions

    def test_are_left_in_the_same_write(self, stores: Stores) -> None:
        db = stores.open(desk)
        leave: list[list[Any]] = [
            [remove(Errand.due_at), set_(Errand.urgent, False)],
            [set_(Errand.due_at, None), set_(Errand.status, "done")],
        ]
        for which in (KEY, BOTH):
            for actions in leave:
                db.put(BOTH)
                stores.forget()
                db.update(which, *actions)
                writes = [type(request) for request in stores.requests if not isinstance(request, req.Get)]
                assert writes == [req.Update]
                assert entries(db) == ([], [])

    def test_cost_a_write_where_an_entry_comes_changes_or_goes(
        self, stores: Stores, capabilities: Capabilities
    ) -> None:
        db = stores.open(desk)
        db.put(NEITHER)
        steps: list[tuple[list[Any], int]] = [
            ([set_(Errand.note, "in no index")], 1),
            ([set_(Errand.due_at, at(1))], 2),
            ([set_(Errand.note, "in one index, which holds whole items")], 2),
            ([set_(Errand.due_at, at(2))], 3),  # removes the old entry and adds the new one
            ([remove(Errand.due_at)], 2),
        ]
        for actions, units in steps:
            with db.meter() as meter:
                db.update(KEY, *actions)
            assert (meter.read_units, meter.write_units) == (0, units) or not capabilities.units, actions


@needs("indexes", "transactions")
class TestSparseIndexTransactions:
    def test_enter_and_leave_in_transactions(self, stores: Stores) -> None:
        db = stores.open(desk)
        other = BOTH.model_copy(update={"errand_id": "f"})
        with db.transaction() as tx:
            tx.insert(BOTH)
            tx.put(other)
        assert entries(db) == (["e", "f"], ["e", "f"])
        with db.transaction() as tx:
            tx.update(KEY, remove(Errand.due_at), set_(Errand.status, "done"))
            tx.put(other.model_copy(update={"urgent": False}))
        assert entries(db) == (["f"], [])
        with db.transaction() as tx:
            tx.update(KEY, set_(Errand.status, "open"))
            tx.delete(other)
        assert entries(db) == ([], ["e"])
