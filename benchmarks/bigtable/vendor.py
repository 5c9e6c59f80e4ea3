"""Google's data client as contender, alone and with Pydantic."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from google.cloud.bigtable.data import (
    BigtableDataClient,
    BigtableDataClientAsync,
    Mutation,
    ReadRowsQuery,
    RowMutationEntry,
    RowRange,
    SetCell,
)
from google.cloud.bigtable.data.row_filters import CellsColumnLimitFilter

from benchmarks.bigtable.contender import Contender, Looped
from benchmarks.bigtable.readings import METER, Plain

NEWEST = CellsColumnLimitFilter(1)
"""As odm reads: without it, older versions of cells come too."""


@contextmanager
def emulator(address: str) -> Iterator[None]:
    """The client finds an emulator by the environment alone, and warns of it."""
    before = os.environ.get("BIGTABLE_EMULATOR_HOST")
    os.environ["BIGTABLE_EMULATOR_HOST"] = address
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", RuntimeWarning)
            yield
    finally:
        os.environ.pop("BIGTABLE_EMULATOR_HOST")
        if before is not None:
            os.environ["BIGTABLE_EMULATOR_HOST"] = before


class _Vendor(Contender):
    def plain(self, found: Any) -> dict[str, Any]:
        return made(found).model_dump()

    def prepare(self, rows: list[Any]) -> None:
        """Keep what is read and written: the rows that odm has put."""
        self.keys = [row.row_key for row in rows]
        self.cells = [[(cell.family, cell.qualifier, cell.value) for cell in row] for row in rows]

    @property
    def all(self) -> ReadRowsQuery:
        """The scan."""
        span = RowRange(f"METER#{METER}#".encode(), f"METER#{METER}$".encode())
        return ReadRowsQuery(row_ranges=[span], row_filter=NEWEST)

    def changes(self, number: int) -> list[Mutation]:
        """What writes a row."""
        return [SetCell(family, qualifier, value) for family, qualifier, value in self.cells[number]]

    def entries(self) -> list[RowMutationEntry]:
        """What writes all rows."""
        return [RowMutationEntry(key, self.changes(number)) for number, key in enumerate(self.keys)]


def made(row: Any) -> Plain:
    """The model of a row, as one would make it by hand."""
    return Plain.model_validate({cell.qualifier.decode(): cell.value.decode() for cell in row})


class Data(_Vendor):
    """The sync data client: its own rows."""

    def connect(self) -> None:
        with emulator(self.address):
            self.client = BigtableDataClient(project="project")
        self.table = self.client.get_table("instance", "readings")
        self.prepare(self.table.read_rows(self.all))

    def get(self, number: int) -> Any:
        return self.table.read_row(self.keys[number % self.size], row_filter=NEWEST)

    def put(self, number: int) -> None:
        self.table.mutate_row(self.keys[number % self.size], self.changes(number % self.size))

    def batch(self, number: int) -> None:
        self.table.bulk_mutate_rows(self.entries())

    def scan(self, number: int) -> list[Any]:
        return self.table.read_rows(self.all)

    def close(self) -> None:
        self.client.close()


class DataModels(Data):
    """The sync data client, and Pydantic models of what it reads."""

    put = batch = None  # type: ignore[assignment]  # as without models

    def get(self, number: int) -> Any:
        return made(super().get(number))

    def scan(self, number: int) -> list[Any]:
        return [made(row) for row in super().scan(number)]

    def plain(self, found: Any) -> dict[str, Any]:
        shown: dict[str, Any] = found.model_dump()
        return shown


class AsyncData(Looped, _Vendor):
    """The async data client: its own rows."""

    def connect(self) -> None:
        self.loop.run(self._connect())

    async def _connect(self) -> None:
        with emulator(self.address):
            self.client = BigtableDataClientAsync(project="project")
        self.table = self.client.get_table("instance", "readings")
        self.prepare(await self.table.read_rows(self.all))

    async def get(self, number: int) -> Any:
        return await self.table.read_row(self.keys[number % self.size], row_filter=NEWEST)

    async def put(self, number: int) -> None:
        await self.table.mutate_row(self.keys[number % self.size], self.changes(number % self.size))

    async def batch(self, number: int) -> None:
        await self.table.bulk_mutate_rows(self.entries())

    async def scan(self, number: int) -> list[Any]:
        return list(await self.table.read_rows(self.all))

    async def aclose(self) -> None:
        await self.client.close()
