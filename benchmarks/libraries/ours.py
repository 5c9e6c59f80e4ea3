"""odm as a user has it: a store, sync and async; and the driver of Bigtable below it."""

from typing import Any

from benchmarks.contender import Contender, Looped
from odm import AsyncStore, Store, collection, increment, set_
from odm.backends.bigtable.client.native import ReadRows, Row, RowRange


class _Ours(Contender):
    def model(self, number: int, edition: int = 0) -> Any:
        return self.page.entity(number, edition)

    def connect(self) -> None:
        page = self.page
        self.store: Any = self.opened()
        self.entity, *self.others = page.entities.values()
        (self.first, self.second), self.keys = page.names, page.keys

    def opened(self) -> Any:
        """The store."""
        raise NotImplementedError

    def key(self, number: int) -> dict[str, Any]:
        """The key fields of an item."""
        first, second = self.keys(number)
        return {self.first: first, self.second: second}

    def all(self, number: int) -> Any:
        """The query of the items that share a partition with one."""
        query = self.entity.primary(**{self.first: self.keys(number)[0]})
        return collection(query) if self.others else query


class Odm(_Ours):
    """The sync store."""

    def opened(self) -> Any:
        store = Store(self.page.table, self.service.backend())
        if self.service.creates:
            store.create()
        return store

    def get(self, number: int) -> Any:
        return self.store.get(self.entity, **self.key(number))

    def put(self, model: Any) -> None:
        self.store.put(model)

    def query(self, number: int) -> list[Any]:
        return list(self.store.query(self.all(number)))

    def query_index(self, number: int) -> list[Any]:
        return list(self.store.query(self.entity.by_date(customer_id=self.keys(number)[0])))

    def update(self, number: int) -> None:
        entity = self.entity
        self.store.update(entity.primary(**self.key(number)), set_(entity.status, "shipped"), increment(entity.points))

    def batch(self, models: list[Any]) -> None:
        with self.store.batch() as batch:
            for model in models:
                batch.put(model)

    def transact(self, models: list[Any]) -> None:
        with self.store.transaction() as tx:
            for model in models:
                tx.put(model)

    def close(self) -> None:
        self.store.close()
        super().close()


class AsyncOdm(Looped, _Ours):
    """The async store, on a service whose tables are there."""

    def opened(self) -> Any:
        return AsyncStore(self.page.table, self.service.backend())

    async def get(self, number: int) -> Any:
        return await self.store.get(self.entity, **self.key(number))

    async def put(self, model: Any) -> None:
        await self.store.put(model)

    async def query(self, number: int) -> list[Any]:
        return [found async for found in self.store.query(self.all(number))]

    async def batch(self, models: list[Any]) -> None:
        async with self.store.batch() as batch:
            for model in models:
                await batch.put(model)

    async def aclose(self) -> None:
        await self.store.aclose()


class OdmRows(Contender):
    """The driver below the store: the rows of Bigtable that the store put."""

    def connect(self) -> None:
        self.connection = self.service.backend().connect(self.page.table.compile())
        partition = f"METER#{self.page.keys(0)[0]}"
        self.read = ReadRows(self.page.table.name, range=RowRange(f"{partition}#", f"{partition}$"))

    def query(self, _number: int) -> tuple[Row, ...]:
        rows: tuple[Row, ...] = self.connection.call(self.read).rows
        return rows

    def load(self) -> None:
        """The rows are there."""

    def check(self) -> None:
        assert len(self.query(0)) == self.page.size

    def close(self) -> None:
        self.connection.close()
        super().close()
