"""The bundled engine as a user has it: a `Store` on `Memory` or `LocalFile`, without and with a secondary pattern."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, ClassVar

from benchmarks.candidates import Candidate, Operation
from benchmarks.orders import Order, customer_of, fields, order_of
from odm import AccessPattern, Entity, PrimaryKey, Store, Table, increment, set_
from odm.backends.local import LocalFile, Memory

plain = Table("plain")
indexed = Table("indexed")


class PlainOrder(Entity, Order, table=plain):
    """The order with nothing but its key."""

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")


class IndexedOrder(Entity, Order, table=indexed):
    """The order with an index that follows a field which every put of the benchmark changes."""

    primary = PrimaryKey("CUSTOMER#{customer_id}", "ORDER#{order_id}")
    by_date = AccessPattern("CUSTOMER#{customer_id}", "PLACED#{placed_at}#{order_id}")


class InMemory(Candidate):
    """`Memory`."""

    table: ClassVar = plain
    entity: ClassVar[type[PlainOrder | IndexedOrder]] = PlainOrder

    def __init__(self, size: int, folder: Path) -> None:
        super().__init__(size, folder)
        self.store: Any = Store(self.table, self.backend())
        self.store.create()

    def backend(self) -> Memory | LocalFile:
        """What the store stands on."""
        return Memory()

    def operation(self, name: Operation) -> Callable[[Any], Any] | None:
        if name == "transact" and not hasattr(self.store, "transaction"):
            return None
        return super().operation(name)

    def order(self, number: int, edition: int = 0) -> PlainOrder | IndexedOrder:
        return self.entity(**fields(number, edition))

    def get(self, number: int) -> Order | None:
        found: Order | None = self.store.get(self.entity, customer_id=customer_of(number), order_id=order_of(number))
        return found

    def put(self, order: PlainOrder | IndexedOrder) -> None:
        self.store.put(order)

    def query(self, number: int) -> list[Order]:
        return list(self.store.query(self.entity.primary(customer_id=customer_of(number))))

    def update(self, number: int) -> None:
        key = self.entity.primary(customer_id=customer_of(number), order_id=order_of(number))
        self.store.update(key, set_(self.entity.status, "shipped"), increment(self.entity.points))

    def batch(self, orders: list[PlainOrder | IndexedOrder]) -> None:
        with self.store.batch() as batch:
            for order in orders:
                batch.put(order)

    def transact(self, orders: list[PlainOrder | IndexedOrder]) -> None:
        with self.store.transaction() as tx:
            for order in orders:
                tx.put(order)

    def close(self) -> None:
        self.store.close()


class InMemoryIndexed(InMemory):
    """`Memory` with a secondary pattern."""

    table = indexed
    entity = IndexedOrder

    def query_index(self, number: int) -> list[Order]:
        return list(self.store.query(IndexedOrder.by_date(customer_id=customer_of(number))))


class InFile(InMemory):
    """`LocalFile`."""

    @property
    def path(self) -> Path:
        """The file."""
        return self.folder / f"{self.table.name}-{self.size}.db"

    def backend(self) -> LocalFile:
        return LocalFile(self.path)


class InFileIndexed(InFile):
    """`LocalFile` with a secondary pattern."""

    table = indexed
    entity = IndexedOrder
    query_index = InMemoryIndexed.query_index
