"""Copying items: parts and pages of a scan, raw items, and batches in procedures."""
# ruff: noqa: D101  # a test's name says what it shows

from collections.abc import Sequence
from typing import Any

import pytest

from odm import BadCursor, BadValue, ItemInvalid, Query, SchemaError, Store, collection, increment, select
from odm.extend import Calls, Gen, procedure
from odm.protocol import requests as req
from odm.results import RawItem
from odm.testing.entities import (
    Contract,
    Customer,
    Document,
    Order,
    Session,
    Setting,
    Sheet,
    Tally,
    Ticket,
    hashes,
    indexed,
    plain_v2,
)
from odm.testing.evolving import Parcel, ParcelV2, parcels, parcels_v2
from odm.testing.spreading import Job
from odm.testing.stores import Stores
from odm.testing.suite.helpers import FUTURE, PAST, at, fill

ORDERS = [Order(customer_id=f"c{n}", order_id=f"o{m}") for n in range(9) for m in range(3)]
TICKET = Ticket(member_id="m", ticket_id="t", filed_at=at(1), due_at=at(2), assignee="a#b", seen=4)


def all_of(
    db: Store, *, parts: int = 1, size: int = 250, expired: bool = False, where: Query[Any] | None = None
) -> list[RawItem]:
    """Every item of the table, read page by page."""
    items: list[RawItem] = []
    for start in db.parts(parts):
        cursor: str | None = start
        while cursor is not None:
            page = db.scan_page(cursor, size=size, expired=expired, where=where)
            items += page.items
            cursor = page.cursor
    return items


def moved(db: Store) -> list[RawItem]:
    """Delete every item and put it back as a raw item; returns the items read afterwards."""
    items = all_of(db)
    for item in items:
        db.delete(item.entity)
    db.put_raw(items)
    return all_of(db)


class TestScanPages:
    @pytest.mark.parametrize(("parts", "size"), [(1, 5), (4, 250), (40, 2)])
    def test_hold_every_item_once(self, db: Store, parts: int, size: int) -> None:
        fill(db, ORDERS)
        db.put(Customer(customer_id="c1", name="Ann"))
        items = all_of(db, parts=parts, size=size)
        keys = [(item.partition, item.sort) for item in items]
        assert len(keys) == len(set(keys)) == 28
        assert sorted((e.customer_id, e.order_id) for e in entities(items) if isinstance(e, Order)) == [
            (order.customer_id, order.order_id) for order in ORDERS
        ]
        assert set(keys) == {db.key_of(entity) for entity in entities(items)}

    @pytest.mark.parametrize(("parts", "size"), [(1, 5), (4, 250), (3, 2)])
    def test_hold_what_a_condition_selects(self, db: Store, parts: int, size: int) -> None:
        fill(db, ORDERS)
        fill(db, [Customer(customer_id=f"c{n}", name="Ann") for n in range(9)])
        where = select(Order).where(Order.order_id != "o1", Order.customer_id > "c3")
        items = all_of(db, parts=parts, size=size, where=where)
        assert sorted((e.customer_id, e.order_id) for e in entities(items)) == [
            (f"c{n}", order) for n in range(4, 9) for order in ("o0", "o2")
        ]
        every = {(item.partition, item.sort): item for item in all_of(db)}
        assert all(item == every[item.partition, item.sort] for item in items)
        assert len(all_of(db, parts=parts, size=size, where=select(Order))) == len(ORDERS)

    def test_with_a_condition_read_as_many_items_at_once(self, db: Store, stores: Stores) -> None:
        fill(db, ORDERS)
        stores.forget()
        page = db.scan_page(size=6, where=select(Order).where(Order.order_id == "o1"))
        (request,) = stores.requests
        assert isinstance(request, req.Scan)
        assert (request.limit, request.examine, request.tag) == (None, 6, "Order")
        assert len(page.items) < len(ORDERS) / 3 or page.cursor is None

    def test_with_a_condition_judge_older_and_expired_items(self, db: Store, stores: Stores) -> None:
        fill(db, [Session(user="u", session_id=name, expires_at=when) for name, when in (("a", FUTURE), ("b", PAST))])
        where = select(Session).where(Session.user == "u")
        assert [item.sort for item in all_of(db, where=where)] == ["a"]
        assert sorted(item.sort for item in all_of(db, where=where, expired=True)) == ["a", "b"]
        old = stores.open(parcels)
        for number in range(4):
            old.put(Parcel(parcel_id=f"p{number}", place="Oslo", weight=number))
        new = stores.open(parcels_v2)
        new.put(ParcelV2(parcel_id="p4", city="Oslo", grams=4000))
        heavy = all_of(new, size=2, where=select(ParcelV2).where(ParcelV2.grams >= 2000))
        assert sorted((item.partition, len(item.stale)) for item in heavy) == [
            ("PARCEL#p2", 1),
            ("PARCEL#p3", 1),
            ("PARCEL#p4", 0),
        ]

    def test_refuse_more_than_conditions(self, offline: Store) -> None:
        for where in (
            Order.primary(customer_id="c"),
            select(Order).limit(2),
            collection(Order.primary(customer_id="c")),
        ):
            with pytest.raises(BadValue, match="takes an entity and conditions only"):
                offline.scan_page(where=where)
        with pytest.raises(BadValue, match="is an entity class, not a query"):
            offline.scan_page(where=Order)  # type: ignore[arg-type]

    def test_go_on_in_another_program(self, db: Store, stores: Stores) -> None:
        fill(db, ORDERS)
        # Bigtable's emulator divides at random rows: one part may be empty, and then the other has all items.
        first = next(page for part in db.parts(2) if (page := db.scan_page(part, size=4)).cursor is not None)
        assert first.cursor is not None
        another = stores.open(db.table)
        rest = another.scan_page(first.cursor)
        again = db.scan_page(first.cursor)
        assert [i.partition + i.sort for i in rest.items] == [i.partition + i.sort for i in again.items]
        assert not {i.partition + i.sort for i in first.items} & {i.partition + i.sort for i in rest.items}

    def test_are_one_request_each_and_cost_what_they_hold(self, db: Store, stores: Stores) -> None:
        fill(db, ORDERS)
        stores.forget()
        page = db.scan_page(size=10)
        (request,) = stores.requests
        assert isinstance(request, req.Scan)
        assert (request.limit, request.filter) == (10, None)
        assert len(page.items) == 10
        assert page.cursor is not None

    def test_of_an_empty_table(self, db: Store) -> None:
        page = db.scan_page()
        assert (list(page.items), page.cursor) == ([], None)

    def test_of_a_table_without_sort_key(self, stores: Stores) -> None:
        db = stores.open(hashes)
        fill(db, [Setting(name=name, value=name * 2) for name in "abc"])
        items = all_of(db, parts=2, size=2)
        assert sorted((i.partition, i.sort, i.attributes["value"]) for i in items) == [
            (f"SETTING#{name}", "", name * 2) for name in "abc"
        ]

    def test_leave_out_what_has_expired(self, db: Store) -> None:
        fill(db, [Session(user="u", session_id=name, expires_at=when) for name, when in (("a", FUTURE), ("b", PAST))])
        assert [item.sort for item in all_of(db)] == ["a"]
        old, new = sorted(all_of(db, expired=True), key=lambda item: item.sort, reverse=True)
        assert (old.expires, new.expires) == (int(PAST.timestamp()), int(FUTURE.timestamp()))

    def test_leave_out_what_is_to_be_skipped(self, db: Store, stores: Stores) -> None:
        fill(db, [Customer(customer_id="c", name="n")])
        db.put(Sheet(sheet_id="1"))
        assert [type(e).__name__ for e in entities(all_of(stores.open(plain_v2, on_unknown="skip")))] == ["SheetV2"]
        with pytest.raises(ItemInvalid):
            all_of(stores.open(plain_v2))

    def test_refuse_other_cursors(self, db: Store, stores: Stores) -> None:
        fill(db, ORDERS)
        cursor = db.scan_page(size=2).cursor
        query = db.page(Order.primary(customer_id="c1"), size=1).cursor
        assert cursor is not None
        for wrong in ("x", cursor[:-3], query, "", 3):
            with pytest.raises(BadCursor):
                db.scan_page(wrong)  # type: ignore[arg-type]
        with pytest.raises(BadCursor):
            stores.open(indexed).scan_page(cursor)
        with pytest.raises(BadCursor):
            stores.open(db.table, cursor_secret="s").scan_page(cursor)
        with pytest.raises(BadCursor):
            db.page(Order.primary(customer_id="c1"), after=cursor)

    @pytest.mark.parametrize("number", [0, -1, 1001, True, "2"])
    def test_refuse_numbers_out_of_range(self, offline: Store, number: Any) -> None:
        with pytest.raises(BadValue):
            offline.parts(number)
        if number != 1001:
            with pytest.raises(BadValue):
                offline.scan_page(size=number)


def entities(items: Sequence[RawItem]) -> list[Any]:
    """The entities of these items."""
    return [item.entity for item in items]


class TestPutRaw:
    def test_writes_items_unchanged(self, stores: Stores) -> None:
        db = stores.open(indexed)
        db.put(TICKET)
        contract = db.put(db.put(Contract(contract_id="c", party="p", ends_at=FUTURE)))
        assert contract.revision == 2
        before = all_of(db)
        assert sorted(moved(db), key=lambda item: item.partition) == sorted(before, key=lambda item: item.partition)
        assert db.get(Contract, contract_id="c") == contract
        db.put(contract)  # written only by this test

    def test_keeps_counters_that_go_on_counting(self, db: Store) -> None:
        db.put(Tally(name="t", hits=3))
        db.update(Tally.primary(name="t"), increment(Tally.hits, 2))
        moved(db)
        db.update(Tally.primary(name="t"), increment(Tally.hits))
        assert db.one(Tally, name="t").hits == 6

    def test_keeps_what_the_model_does_not_know(self, db: Store, stores: Stores) -> None:
        db.put(Order(customer_id="c", order_id="o", note="of the first model"))
        moved(stores.open(plain_v2))
        assert db.one(Order, customer_id="c", order_id="o").note == "of the first model"

    def test_keeps_the_version_and_makes_the_entries_of_the_model(self, stores: Stores) -> None:
        old = stores.open(parcels)
        old.put(Parcel(parcel_id="p", place="Oslo", weight=12, note="n"))
        db = stores.open(parcels_v2)
        (before,) = all_of(db)
        assert before.stale == {"by_place", "heavy"}
        (after,) = moved(db)
        assert after.attributes == before.attributes
        assert after.attributes["weight"] == 12
        assert after.stale == frozenset()
        assert [parcel.grams for parcel in db.query(ParcelV2.heavy())] == [12_000]
        assert list(db.query(ParcelV2.by_place(country="NO", city="Oslo"))) == [after.entity]

    def test_makes_every_index_entry(self, stores: Stores) -> None:
        db = stores.open(indexed)
        db.put(TICKET)
        (item,) = all_of(db)
        assert item.stale == frozenset()
        moved(db)
        assert list(db.query(Ticket.by_due())) == [TICKET]
        assert list(db.query(Ticket.by_assignee(assignee="a#b"))) == [TICKET]
        assert list(db.query(Ticket.by_date(member_id="m"))) == [TICKET]

    def test_of_entries_in_random_shards_one_is_as_good_as_another(self, sharded: Store) -> None:
        jobs = fill(sharded, [Job(job_id=f"j{n}", due_at=at(1)) for n in range(5)])
        items = all_of(sharded)
        for _ in range(3):
            sharded.put_raw(items)
        assert [item.stale for item in all_of(sharded)] == [frozenset()] * 5
        assert sorted(job.job_id for job in sharded.query(Job.at_random(queue="q"))) == [job.job_id for job in jobs]

    def test_is_one_request_and_one_for_tags(self, db: Store, stores: Stores) -> None:
        fill(db, ORDERS)
        items = all_of(db)
        stores.forget()
        db.put_raw(items)
        db.put_raw([])
        tags, request = stores.requests
        assert isinstance(tags, req.BatchGet)
        assert tags.tags
        assert isinstance(request, req.BatchWrite)
        assert len(request.operations) == len(ORDERS)

    def test_takes_raw_items_of_its_table_alone(self, db: Store, stores: Stores) -> None:
        db.put(ORDERS[0])
        (item,) = all_of(db)
        with pytest.raises(BadValue, match="put\\(\\) an entity"):
            db.put_raw([ORDERS[0]])  # type: ignore[list-item]
        with pytest.raises(SchemaError):
            stores.open(hashes).put_raw([item])


@procedure
def replace(do: Calls, new: Sequence[Any], old: Sequence[Any]) -> Gen[None]:
    """Puts and deletes in one batch."""
    batch = do.batch()
    for entity in new:
        batch.put(entity)
    for entity in old:
        batch.delete(entity)
    yield from batch.send()


class TestBatchInProcedures:
    def test_is_one_request_and_one_for_tags(self, db: Store, stores: Stores) -> None:
        db.put(ORDERS[0])
        stores.forget()
        db.run(replace(ORDERS[1:4], ORDERS[:1]))
        assert [type(request) for request in stores.requests] == [req.BatchGet, req.BatchWrite]
        assert sorted(order.order_id for order in db.scan(Order)) == ["o0", "o1", "o2"]

    def test_refuses_what_a_batch_refuses(self, db: Store) -> None:
        with pytest.raises(BadValue):
            db.run(replace([Document(document_id="d")], []))

    def test_reads_pages_and_puts_them(self, db: Store) -> None:
        @procedure
        def again(do: Calls) -> Gen[list[tuple[str, str]]]:
            (start,) = yield from do.parts(1)
            page = yield from do.scan_page(start)
            yield from do.put_raw(page.items)
            return [do.key_of(item.entity) for item in page.items]

        db.put(ORDERS[0])
        assert db.run(again()) == [("CUSTOMER#c0", "ORDER#o0")]
