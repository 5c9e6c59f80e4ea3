"""What an engine cannot be faster than: the least that keeps orders in order and gives models back.

They have no conditions, indexes, transactions or limits, and check nothing.
"""

import os
import sqlite3

from pydantic import TypeAdapter
from sortedcontainers import SortedDict

from benchmarks.contender import Contender
from benchmarks.order import Order

_LIST = TypeAdapter(list[Order])
_to_json = Order.__pydantic_serializer__.to_json
_from_json = Order.__pydantic_validator__.validate_json
_list_from_json = _LIST.validator.validate_json


class Sorted(Contender):
    """A dict of partitions, each a `SortedDict` of JSON bytes; a query is one ``list[Order].validate_json``."""

    def connect(self) -> None:
        self.partitions: dict[str, SortedDict[str, bytes]] = {}

    def get(self, number: int) -> Order:
        customer, order = self.page.keys(number)
        found: Order = _from_json(self.partitions[customer][order])
        return found

    def put(self, order: Order) -> None:
        partition = self.partitions.get(order.customer_id)
        if partition is None:
            partition = self.partitions[order.customer_id] = SortedDict()
        partition[order.order_id] = _to_json(order)

    def query(self, number: int) -> list[Order]:
        found: list[Order] = _list_from_json(b"[%b]" % b",".join(self.partitions[self.page.keys(number)[0]].values()))
        return found

    def batch(self, orders: list[Order]) -> None:
        for order in orders:
            self.put(order)


class Validation(Contender):
    """No store: Pydantic makes and reads the JSON of one partition, which is joined already."""

    def load(self) -> None:
        middle = self.page.size // 2
        self.joined = _LIST.dump_json([self.model(number) for number in self.page.partition_of(middle)])
        self.one = _to_json(self.model(middle))

    def get(self, _number: int) -> Order:
        found: Order = _from_json(self.one)
        return found

    def put(self, order: Order) -> None:
        _to_json(order)

    def query(self, _number: int) -> list[Order]:
        found: list[Order] = _list_from_json(self.joined)
        return found


class Sqlite(Contender):
    """`sqlite3` as the bundled engine sets it up: write-ahead log, ``synchronous=FULL``, no rowid."""

    def connect(self) -> None:
        self.connection = sqlite3.connect(self.service.path, isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        columns = "partition BLOB, sort BLOB, data BLOB, PRIMARY KEY (partition, sort)"
        self.connection.execute(f"CREATE TABLE items ({columns}) WITHOUT ROWID")

    def get(self, number: int) -> Order:
        sql, key = "SELECT data FROM items WHERE partition = ? AND sort = ?", self.page.keys(number)
        row = self.connection.execute(sql, [part.encode() for part in key]).fetchone()
        found: Order = _from_json(row[0])
        return found

    def put(self, order: Order) -> None:
        row = (order.customer_id.encode(), order.order_id.encode(), _to_json(order))
        self.connection.execute("INSERT OR REPLACE INTO items VALUES (?, ?, ?)", row)

    def query(self, number: int) -> list[Order]:
        sql = "SELECT data FROM items WHERE partition = ? ORDER BY sort"
        rows = self.connection.execute(sql, (self.page.keys(number)[0].encode(),))
        found: list[Order] = _list_from_json(b"[%b]" % b",".join(data for (data,) in rows))
        return found

    def batch(self, orders: list[Order]) -> None:
        self.connection.execute("BEGIN")
        for order in orders:
            self.put(order)
        self.connection.execute("COMMIT")

    def close(self) -> None:
        self.connection.close()


class Append(Contender):
    """A file to which JSON is appended, each order synced to the disk by itself: what durability costs at least."""

    def connect(self) -> None:
        self.file = os.open(self.service.path, os.O_CREAT | os.O_APPEND | os.O_WRONLY)
        self.sync = getattr(os, "fdatasync", os.fsync)

    def load(self) -> None:
        """Nothing is read from it."""

    def check(self) -> None:
        """Nothing is read from it."""

    def put(self, order: Order) -> None:
        os.write(self.file, _to_json(order))
        self.sync(self.file)

    def batch(self, orders: list[Order]) -> None:
        """One by one: the price of a durable order, for batches to be compared with."""
        for order in orders:
            self.put(order)

    def close(self) -> None:
        os.close(self.file)
