"""Shards of the primary key: calls by key work as without shards, and queries read all shards in order."""
# ruff: noqa: D101  # a test's name says what it shows; its data is never changed

from datetime import date
from zlib import crc32

import pytest

from odm import BadCursor, ItemExists, Query, Store, collection, select, set_
from odm.protocol import requests as req
from odm.testing.capabilities import needs
from odm.testing.spreading import Bonus, Sale, Ticket, salted
from odm.testing.stores import Stores
from odm.testing.suite.helpers import fill, walk

DAY = date(2014, 7, 9)
SALES = [Sale(day=DAY, sale_id=f"s#{number:02}", total=number * 7 % 20) for number in range(20)]
BY_TOTAL = sorted(SALES, key=lambda sale: (sale.total, sale.sale_id))
OF_DAY: Query[Sale] = Sale.primary(day=DAY)


def partition(sale: Sale) -> str:
    """The partition of a sale, as documented."""
    return f"DAY#2014-07-09#{crc32(sale.sale_id.encode()) % 12:02}"


@needs("indexes")
class TestShardedKeys:
    @pytest.fixture
    def shop(self, stores: Stores) -> Store:
        """A store of the table with sharded keys, with the sales of one day and a sale of the next day."""
        db = stores.open(salted)
        fill(db, [*SALES, Sale(day=date(2014, 7, 10), sale_id="s#00")])
        stores.forget()
        return db

    def test_an_item_is_found_by_its_key_in_one_request(self, shop: Store, stores: Stores) -> None:
        sale = SALES[3]
        assert shop.get(Sale, day=DAY, sale_id=sale.sale_id) == sale
        assert shop.exists(Sale.primary(day=DAY, sale_id=sale.sale_id))
        assert [request.key.partition for request in stores.requests if isinstance(request, req.Get)] == [
            partition(sale)
        ] * 2
        keys = [Sale.primary(day=DAY, sale_id=name) for name in ("s#07", "none", "s#01")]
        assert shop.get_many(keys) == [SALES[7], None, SALES[1]]
        stores.forget()
        assert list(shop.query(Sale.primary(day=DAY, sale_id="s#04"))) == [SALES[4]]
        assert list(shop.query(OF_DAY.where(Sale.sale_id == "s#04", Sale.total == 8))) == [SALES[4]]
        assert [request.partition for request in stores.requests if isinstance(request, req.Query)] == [
            partition(SALES[4])
        ] * 2

    def test_a_partition_is_read_from_all_shards_in_order(self, shop: Store, stores: Stores) -> None:
        assert list(shop.query(OF_DAY)) == SALES
        assert {request.partition for request in stores.requests if isinstance(request, req.Query)} == {
            f"DAY#2014-07-09#{number:02}" for number in range(12)
        }
        assert list(shop.query(OF_DAY.reverse().limit(5))) == SALES[:14:-1]
        assert list(shop.query(OF_DAY.where(Sale.sale_id >= "s#05", Sale.sale_id < "s#09"))) == SALES[5:9]
        assert list(shop.query(select(Sale).where(Sale.day == DAY, Sale.total >= 15))) == [
            sale for sale in SALES if sale.total >= 15
        ]
        assert shop.count(OF_DAY) == 20
        assert shop.first(OF_DAY) == SALES[0]

    def test_pages_go_on_where_they_ended(self, shop: Store) -> None:
        for query, expected in ((OF_DAY, SALES), (OF_DAY.reverse(), SALES[::-1])):
            assert walk(shop, query, 7) == [expected[:7], expected[7:14], expected[14:]]
        cursor = shop.page(OF_DAY, size=3).cursor
        with pytest.raises(BadCursor):
            shop.page(Sale.primary(day=date(2014, 7, 10)), after=cursor)

    def test_a_local_index_has_the_shards_of_its_table(self, shop: Store, stores: Stores) -> None:
        query = Sale.by_total(day=DAY)
        assert list(shop.query(query)) == BY_TOTAL
        assert walk(shop, query.reverse(), 9) == [BY_TOTAL[:10:-1], BY_TOTAL[10:1:-1], BY_TOTAL[1::-1]]
        everywhere = Sale.everywhere().where(Sale.total < 10, Sale.day == DAY)
        assert list(shop.query(everywhere)) == [sale for sale in BY_TOTAL if sale.total < 10]
        stores.forget()
        assert shop.count(Sale.by_total(day=DAY, total=8, sale_id="s#04")) == 1
        [request] = stores.requests
        assert isinstance(request, req.Query)
        assert request.partition == partition(SALES[4])

    def test_a_collection_reads_all_shards(self, shop: Store) -> None:
        bonuses = fill(shop, [Bonus(day=DAY, sale_id="s#02", number=number) for number in range(3)])
        assert list(shop.query(collection(Sale.primary(day=DAY, sale_id="s#02"), prefix=True))) == [SALES[2], *bonuses]
        assert list(shop.query(collection(OF_DAY))) == [*SALES[:3], *bonuses, *SALES[3:]]
        assert list(shop.query(OF_DAY)) == SALES

    def test_delete_all_and_scans(self, shop: Store) -> None:
        assert sorted(shop.scan(Sale, Sale.day == DAY), key=lambda sale: sale.sale_id) == SALES
        assert shop.delete_all(OF_DAY) == 20
        assert [sale.day.day for sale in shop.scan(Sale)] == [10]

    @needs("conditions", "updates")
    def test_writes_find_the_shard_of_a_key(self, shop: Store) -> None:
        key = Sale.primary(day=DAY, sale_id="s#05")
        shop.update(key, set_(Sale.total, 999), when=Sale.total == 15)
        assert shop.update(SALES[5], set_(Sale.note, "n"), returning="new").total == 999
        assert list(shop.query(Sale.by_total(day=DAY).reverse().limit(1))) == [shop.one(key)]
        assert list(shop.query(Sale.everywhere().reverse().limit(1))) == [shop.one(key)]
        with pytest.raises(ItemExists):
            shop.insert(SALES[5])
        shop.update(Sale.primary(day=DAY, sale_id="new"), set_(Sale.total, 1), upsert=True)
        assert shop.count(OF_DAY) == 21
        assert shop.delete(Sale, day=DAY, sale_id="s#05")
        assert not shop.delete(SALES[5])
        assert shop.count(Sale.by_total(day=DAY)) == 20

    @needs("transactions")
    def test_transactions(self, shop: Store) -> None:
        with shop.transaction() as tx:
            tx.insert(Sale(day=DAY, sale_id="new"))
            tx.update(SALES[1], set_(Sale.total, 100))
            tx.delete(SALES[0])
            tx.check(Sale.primary(day=DAY, sale_id="s#02"), when=Sale.total == 14)
        assert [(sale.sale_id, sale.total) for sale in shop.query(Sale.by_total(day=DAY).limit(1))] == [("new", 0)]
        assert shop.one(Sale, day=DAY, sale_id="s#01").total == 100
        assert shop.count(OF_DAY) == 20

    def test_chance_is_a_field_of_the_key(self, stores: Stores) -> None:
        db = stores.open(salted)
        tickets = fill(db, [Ticket(day=DAY, number=number) for number in range(30)])
        assert {ticket.salt for ticket in tickets} == {0, 1, 2}
        assert list(db.query(Ticket.primary(day=DAY))) == tickets
        assert db.get(Ticket, day=DAY, number=7, salt=tickets[7].salt) == tickets[7]
        assert list(db.query(Ticket.primary(day=DAY, number=7))) == [tickets[7]]  # the salt is not known: three shards
