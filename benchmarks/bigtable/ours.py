"""The Bigtable backend as contender."""

from collections.abc import Sequence
from typing import Any

from benchmarks.bigtable.contender import Call, Contender, Looped
from benchmarks.bigtable.readings import METER, Reading, fields, table
from odm import AsyncStore, Store
from odm.backends.bigtable import Bigtable
from odm.backends.bigtable.native import ReadRows, Row, RowRange


def backend_on(address: str) -> Bigtable:
    """The backend, on a server."""
    return Bigtable("project", "instance", endpoint=address)


class _Ours(Contender):
    def models(self) -> list[Reading]:
        return [Reading(**fields(number)) for number in range(self.size)]

    def plain(self, found: Any) -> dict[str, Any]:
        shown: dict[str, Any] = found.model_dump()
        return shown


class Odm(_Ours):
    """The sync store: entities in and out."""

    def connect(self) -> None:
        self.store = Store(table, backend_on(self.address))
        self.readings = self.models()
        self.query = Reading.primary(meter_id=METER)
        self.at = [reading.at for reading in self.readings]

    def fill(self, *, create: bool) -> None:
        """Put all readings, into a new table unless the server has one already."""
        if create:
            self.store.create()
        self.batch(0)

    def get(self, number: int) -> Any:
        return self.store.get(Reading, meter_id=METER, at=self.at[number % self.size])

    def put(self, number: int) -> None:
        self.store.put(self.readings[number % self.size])

    def batch(self, number: int) -> None:
        with self.store.batch() as batch:
            for reading in self.readings:
                batch.put(reading)

    def scan(self, number: int) -> list[Any]:
        return list(self.store.query(self.query))

    def close(self) -> None:
        self.store.close()


class OdmRows(Contender):
    """The driver below the store: rows as the server has them."""

    def connect(self) -> None:
        self.connection = backend_on(self.address).connect(table.compile())
        self.read = ReadRows("readings", range=RowRange(f"METER#{METER}#", f"METER#{METER}$"))

    def scan(self, number: int) -> tuple[Row, ...]:
        rows: tuple[Row, ...] = self.connection.call(self.read).rows
        return rows

    def plain(self, found: Any) -> dict[str, Any]:
        return {}

    def check(self, expected: Sequence[dict[str, Any]], calls: Sequence[Call]) -> None:
        assert len(self.scan(0)) == len(expected)

    def close(self) -> None:
        self.connection.close()


class AsyncOdm(Looped, _Ours):
    """The async store."""

    def connect(self) -> None:
        self.store = AsyncStore(table, backend_on(self.address))
        self.readings = self.models()
        self.query = Reading.primary(meter_id=METER)
        self.at = [reading.at for reading in self.readings]

    async def get(self, number: int) -> Any:
        return await self.store.get(Reading, meter_id=METER, at=self.at[number % self.size])

    async def put(self, number: int) -> None:
        await self.store.put(self.readings[number % self.size])

    async def batch(self, number: int) -> None:
        async with self.store.batch() as batch:
            for reading in self.readings:
                await batch.put(reading)

    async def scan(self, number: int) -> list[Any]:
        return [reading async for reading in self.store.query(self.query)]

    async def aclose(self) -> None:
        await self.store.aclose()
