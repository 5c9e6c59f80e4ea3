"""What an engine cannot be faster than: the least that keeps orders in order and gives models back.

They have no conditions, indexes, transactions or limits, and check nothing.
"""

import os
import sqlite3
from pathlib import Path

from sortedcontainers import SortedDict

from benchmarks.candidates import Candidate
from benchmarks.orders import ORDERS, PER_CUSTOMER, Order, customer_of, fields, order_of

_to_json = Order.__pydantic_serializer__.to_json
_from_json = Order.__pydantic_validator__.validate_json
_list_from_json = ORDERS.validator.validate_json


class _Floor(Candidate):
    def order(self, number: int, edition: int = 0) -> Order:
        return Order(**fields(number, edition))


class Sorted(_Floor):
    """A dict of partitions, each a `SortedDict` of JSON bytes; a query is one ``list[Order].validate_json``."""

    def __init__(self, size: int, folder: Path) -> None:
        super().__init__(size, folder)
        self.partitions: dict[str, SortedDict[str, bytes]] = {}

    def get(self, number: int) -> Order:
        found: Order = _from_json(self.partitions[customer_of(number)][order_of(number)])
        return found

    def put(self, order: Order) -> None:
        partition = self.partitions.get(order.customer_id)
        if partition is None:
            partition = self.partitions[order.customer_id] = SortedDict()
        partition[order.order_id] = _to_json(order)

    def query(self, number: int) -> list[Order]:
        found: list[Order] = _list_from_json(b"[%b]" % b",".join(self.partitions[customer_of(number)].values()))
        return found

    def batch(self, orders: list[Order]) -> None:
        for order in orders:
            self.put(order)


class Validation(_Floor):
    """No store: pydantic makes and reads the JSON, which lies there joined already."""

    def load(self) -> None:
        first = self.size // 2 // PER_CUSTOMER * PER_CUSTOMER
        orders = [self.order(number) for number in range(first, min(first + PER_CUSTOMER, self.size))]
        self.joined = ORDERS.dump_json(orders)
        self.one = _to_json(self.order(self.size // 2))

    def get(self, _number: int) -> Order:
        found: Order = _from_json(self.one)
        return found

    def put(self, order: Order) -> None:
        _to_json(order)

    def query(self, _number: int) -> list[Order]:
        found: list[Order] = _list_from_json(self.joined)
        return found


class Sqlite(_Floor):
    """`sqlite3` as the bundled engine sets it up: write-ahead log, ``synchronous=FULL``, no rowid."""

    def __init__(self, size: int, folder: Path) -> None:
        super().__init__(size, folder)
        self.connection = sqlite3.connect(folder / f"floor-{size}.db", isolation_level=None)
        self.connection.execute("PRAGMA journal_mode = WAL")
        self.connection.execute("PRAGMA synchronous = FULL")
        self.connection.execute(
            "CREATE TABLE items (partition BLOB, sort BLOB, data BLOB, PRIMARY KEY (partition, sort)) WITHOUT ROWID"
        )

    def get(self, number: int) -> Order:
        key = (customer_of(number).encode(), order_of(number).encode())
        row = self.connection.execute("SELECT data FROM items WHERE partition = ? AND sort = ?", key).fetchone()
        found: Order = _from_json(row[0])
        return found

    def put(self, order: Order) -> None:
        row = (order.customer_id.encode(), order.order_id.encode(), _to_json(order))
        self.connection.execute("INSERT OR REPLACE INTO items VALUES (?, ?, ?)", row)

    def query(self, number: int) -> list[Order]:
        sql = "SELECT data FROM items WHERE partition = ? ORDER BY sort"
        rows = self.connection.execute(sql, (customer_of(number).encode(),))
        found: list[Order] = _list_from_json(b"[%b]" % b",".join(data for (data,) in rows))
        return found

    def batch(self, orders: list[Order]) -> None:
        rows = [(order.customer_id.encode(), order.order_id.encode(), _to_json(order)) for order in orders]
        self.connection.execute("BEGIN")
        self.connection.executemany("INSERT OR REPLACE INTO items VALUES (?, ?, ?)", rows)
        self.connection.execute("COMMIT")

    def close(self) -> None:
        self.connection.close()


class Append(_Floor):
    """A file to which JSON is appended, each order synced to the disk by itself: what durability costs at least."""

    def __init__(self, size: int, folder: Path) -> None:
        super().__init__(size, folder)
        self.file = os.open(folder / f"append-{size}", os.O_CREAT | os.O_APPEND | os.O_WRONLY)
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
