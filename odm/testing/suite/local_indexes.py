"""Local indexes: the items of a partition in another order, with consistent reads."""
# ruff: noqa: D101  # a test's name says what it shows; its data is never changed

from odm import Store, collection, increment, remove, select, set_, some
from odm.protocol import requests as req
from odm.testing.capabilities import needs
from odm.testing.spreading import Receipt, Voucher
from odm.testing.stores import Stores
from odm.testing.suite.helpers import fill, walk

RECEIPTS = [Receipt(shop="s", number=n, total=(n * 5) % 7, paid_by="ab"[n % 2] if n % 3 else None) for n in range(7)]
BY_TOTAL = sorted(RECEIPTS, key=lambda receipt: -receipt.total)
ALL = Receipt.by_total(shop="s")


@needs("indexes")
class TestLocalIndexes:
    def test_order_a_partition_in_another_way(self, local: Store) -> None:
        fill(local, [*RECEIPTS, Receipt(shop="t", number=1, total=3)])
        assert list(local.query(ALL)) == BY_TOTAL
        assert list(local.query(ALL.reverse().limit(2))) == BY_TOTAL[:-3:-1]
        assert list(local.query(ALL.where(Receipt.total > 4))) == BY_TOTAL[:2]
        assert local.count(ALL.where(Receipt.number > 3)) == 3
        assert local.first(Receipt.by_total(shop="s", total=3)) == next(r for r in RECEIPTS if r.total == 3)

    def test_pages(self, local: Store) -> None:
        fill(local, RECEIPTS)
        for size in (1, 3, 7):
            assert [r for page in walk(local, ALL, size) for r in page] == BY_TOTAL
            assert [r for page in walk(local, ALL.reverse(), size) for r in page] == BY_TOTAL[::-1]

    def test_are_read_consistently_unless_asked_otherwise(self, local: Store, stores: Stores) -> None:
        fill(local, RECEIPTS)
        stores.forget()
        assert list(local.query(ALL)) == BY_TOTAL
        assert list(local.query(ALL, consistent=False)) == BY_TOTAL
        list(local.query(Receipt.by_note(note="n")))
        asked = {(request.index, request.consistent) for request in stores.requests if isinstance(request, req.Query)}
        assert asked == {("by_total", True), ("by_total", False), ("by_note", False)}

    def test_can_be_sparse_and_shared(self, local: Store) -> None:
        fill(local, RECEIPTS)
        voucher = local.put(Voucher(shop="s", code="v"))
        paid = Receipt.by_payer(shop="s")
        assert {receipt.number for receipt in local.query(paid)} == {1, 2, 4, 5}
        assert {receipt.number for receipt in local.query(paid.where(some(Receipt.paid_by) == "a"))} == {2, 4}
        assert list(local.query(Voucher.by_code(shop="s"))) == [voucher]
        assert len(list(local.query(collection(paid)))) == 5

    def test_the_planner_picks_one(self, local: Store) -> None:
        fill(local, RECEIPTS)
        query = select(Receipt).where(Receipt.shop == "s", Receipt.total == 5)
        explained = local.explain(query)
        assert (explained.index, explained.local) == ("by_total", True)
        assert list(local.query(query)) == [receipt for receipt in RECEIPTS if receipt.total == 5]

    def test_delete_all(self, local: Store) -> None:
        fill(local, RECEIPTS)
        assert local.delete_all(Receipt.by_payer(shop="s")) == 4
        assert {receipt.number for receipt in local.scan(Receipt)} == {0, 3, 6}

    def test_are_made_once(self, local: Store) -> None:
        fill(local, RECEIPTS)
        local.create()
        assert list(local.query(ALL)) == BY_TOTAL


@needs("indexes", "updates")
class TestLocalIndexWrites:
    def test_every_write_keeps_them_right(self, local: Store) -> None:
        key = Receipt.primary(shop="s", number=1)
        receipt = local.put(Receipt(shop="s", number=1, total=1))
        assert list(local.query(Receipt.by_payer(shop="s"))) == []
        local.update(key, increment(Receipt.total, 5))
        assert list(local.query(Receipt.by_total(shop="s", total=1))) == []
        assert [r.total for r in local.query(Receipt.by_total(shop="s", total=6))] == [6]
        local.update(receipt, set_(Receipt.paid_by, "ann"))
        assert [r.total for r in local.query(Receipt.by_payer(shop="s", paid_by="ann"))] == [6]
        local.update(key, remove(Receipt.paid_by))
        assert list(local.query(Receipt.by_payer(shop="s"))) == []
        assert local.one(key) == Receipt(shop="s", number=1, total=6)
        local.put(receipt)
        assert list(local.query(ALL)) == [receipt]
        local.delete(key)
        assert list(local.query(ALL)) == []
