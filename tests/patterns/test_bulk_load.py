"""Bulk load: the order in which items are written, and its costs."""

from collections.abc import Iterable, Iterator
from itertools import groupby, pairwise
from typing import Annotated, Any

import pytest

from odm import AUTO, AsyncStore, BadValue, Entity, Id, PrimaryKey, Store, Table, Throttled
from odm.backends.local import Faults, LocalFile, Memory
from odm.patterns.bulk_load import bulk_load, spread
from odm.protocol import requests as req
from odm.testing.entities import Document, Order, plain
from odm.testing.stores import Stores
from odm.testing.suite.unique import Member, check, members

numbered = Table("numbered")


class Note(Entity, table=numbered):
    note_id: Annotated[str, Id()] = AUTO
    text: str

    primary = PrimaryKey("NOTE#{note_id}")


def orders(customers: int, each: int) -> Iterator[Order]:
    """Sorted by customer, as in a file."""
    for customer in range(customers):
        for number in range(each):
            yield Order(customer_id=f"c{customer}", order_id=f"o{number}")


def longest_run(partitions: Iterable[str]) -> int:
    return max(sum(1 for _ in run) for _, run in groupby(partitions))


def sent(stores: Stores) -> list[str]:
    """The partitions of all operations, in the order in which they were sent."""
    batches = [request for request in stores.requests if isinstance(request, req.BatchWrite)]
    return [operation.key.partition for batch in batches for operation in batch.operations]


class TestBulkLoad:
    def test_writes_one_of_each_partition_in_turn(self) -> None:
        with Stores(Memory(), "sync") as stores:
            db = stores.open(plain)
            with db.batch() as batch:
                for order in orders(20, 30):
                    batch.put(order)
            assert longest_run(sent(stores)) == 30
            stores.forget()
            assert db.run(bulk_load(orders(20, 30))) == 600
            assert longest_run(sent(stores)) == 1
            assert sorted(set(sent(stores)[:20])) == sorted(f"CUSTOMER#c{n}" for n in range(20))
            assert len(list(db.scan(Order))) == 600

    def test_costs_a_write_for_each_item_in_few_requests(self) -> None:
        with Stores(Memory(), "sync") as stores:
            db = stores.open(plain)
            with db.meter() as meter:
                db.run(bulk_load(orders(50, 50)))
            assert len([one for one in stores.requests if isinstance(one, req.BatchWrite)]) == 3
            # before each batch a read of the stored items, at half a unit per item
            assert (meter.calls, meter.read_units, meter.write_units) == (6, 1250, 2500)

    def test_assigns_ids(self) -> None:
        with Store(numbered, Memory()) as db:
            db.create()
            assert db.run(bulk_load([Note(text="a"), Note(text="b")])) == 2
            assert db.run(bulk_load([Note(text="c")], new=True)) == 1
            assert sorted(note.text for note in db.scan(Note) if note.note_id) == ["a", "b", "c"]

    async def test_in_an_async_program(self, tmp_path: Any) -> None:
        async with AsyncStore(plain, LocalFile(tmp_path / "a.db")) as db:
            await db.create()
            assert await db.run(bulk_load(orders(5, 5), window=7)) == 25
            assert len([order async for order in db.scan(Order)]) == 25

    def test_of_two_with_one_key_the_later_wins(self) -> None:
        with Stores(Memory(), "sync") as stores:
            db = stores.open(plain)
            twice = [Order(customer_id="c", order_id="o", note=note) for note in ("first", "second")]
            others = orders(3, 2000)
            db.run(bulk_load([twice[0], *others, twice[1]], window=50))
            assert db.one(Order, customer_id="c", order_id="o").note == "second"

    def test_refuses_what_a_batch_cannot_check(self) -> None:
        with Stores(Memory(), "sync") as stores, pytest.raises(BadValue, match="Revision"):
            stores.open(plain).run(bulk_load([Document(document_id="d")]))

    def test_loads_new_items_that_a_batch_cannot_check_and_costs_what_it_says(self) -> None:
        with Stores(Memory(), "sync") as stores:
            db = stores.open(members)
            new = [Member(member_id=f"m{n}", email=f"{n}@x") for n in range(50)]
            with db.meter() as meter:
                assert db.run(bulk_load(new, new=True)) == 50
            assert (meter.calls, meter.read_units, meter.write_units) == (4, 100, 100)
            check(db)
            stores.open(plain).run(bulk_load([Document(document_id="d")], new=True))
            assert stores.open(plain).one(Document, document_id="d").revision == 1

    def test_of_new_items_writes_one_of_each_partition_in_turn(self) -> None:
        with Stores(Memory(), "sync") as stores:
            stores.open(plain).run(bulk_load(orders(20, 60), new=True))
            assert longest_run(sent(stores)) == 1
            assert len(sent(stores)) == 1200

    async def test_of_new_items_in_an_async_program(self, tmp_path: Any) -> None:
        async with AsyncStore(members, LocalFile(tmp_path / "a.db")) as db:
            await db.create()
            new = [Member(member_id=f"m{n}", email=f"{n}@x") for n in range(5)]
            assert await db.run(bulk_load(new, new=True)) == 5
            assert await db.get(Member.unique_email(email="3@x")) == new[3]

    def test_reports_what_is_left(self) -> None:
        faults = Faults()
        with Store(plain, Memory(faults=faults)) as db:
            db.create()
            faults.throttle("batch", done=4)
            with pytest.raises(Throttled) as caught:
                db.run(bulk_load(orders(5, 2)))
            assert [type(one) for one in caught.value.left] == [Order] * 6
            db.run(bulk_load(orders(5, 2)))
            assert len(list(db.scan(Order))) == 10


class TestSpread:
    def test_holds_no_more_than_its_window(self) -> None:
        taken = 0

        def counted() -> Iterator[int]:
            nonlocal taken
            for number in range(1000):
                taken += 1
                yield number

        given = 0
        for _ in spread(counted(), lambda number: str(number // 100), window=150):
            given += 1
            assert taken - given < 150
        assert given == 1000

    def test_keeps_the_order_within_a_partition_and_every_item(self) -> None:
        items = [(n % 7 if n < 500 else 3, n) for n in range(700)]
        found = list(spread(items, lambda item: str(item[0]), window=64))
        assert sorted(found) == sorted(items)
        for partition in range(7):
            numbers = [n for its, n in found if its == partition]
            assert all(a < b for a, b in pairwise(numbers))

    def test_of_one_partition_changes_nothing(self) -> None:
        assert list(spread(range(10), lambda _: "p", window=3)) == list(range(10))

    @pytest.mark.parametrize("window", [0, -1, True, "9", 1.5])
    def test_refuses_a_window_out_of_range(self, window: Any) -> None:
        with pytest.raises(BadValue, match="window="):
            spread([1], str, window=window)
