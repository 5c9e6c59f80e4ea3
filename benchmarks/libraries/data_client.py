"""Google's data client for Bigtable, alone and with Pydantic. It reads and writes the rows that odm has put."""

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Final

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
from pydantic import BaseModel

from benchmarks.contender import Contender, Looped

_Row = tuple[bytes, list[tuple[str, bytes, bytes]]]
"""A row key, and its cells."""

NEWEST: Final = CellsColumnLimitFilter(1)
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
    def load(self) -> None:
        """Keep what is read and written: the rows that odm has put."""
        self.rows = {
            number: (row.row_key, [(cell.family, cell.qualifier, cell.value) for cell in row])
            for number, row in enumerate(self.answer("query", 0))
        }

    def model(self, number: int, edition: int = 0) -> _Row:
        return self.rows[number]

    def changes(self, row: _Row) -> list[Mutation]:
        """What writes a row."""
        return [SetCell(family, qualifier, value) for family, qualifier, value in row[1]]

    def entries(self, rows: list[_Row]) -> list[RowMutationEntry]:
        """What writes rows."""
        return [RowMutationEntry(row[0], self.changes(row)) for row in rows]

    def plain(self, found: Any) -> dict[str, Any]:
        return self.made(found).model_dump()

    def made(self, row: Any) -> BaseModel:
        """The model of a row, as one would make it by hand."""
        [reading] = self.page.models.values()
        return reading.model_validate({cell.qualifier.decode(): cell.value.decode() for cell in row})

    @property
    def all(self) -> ReadRowsQuery:
        """The scan."""
        partition = f"METER#{self.page.keys(0)[0]}"
        span = RowRange(f"{partition}#".encode(), f"{partition}$".encode())
        return ReadRowsQuery(row_ranges=[span], row_filter=NEWEST)


class Rows(_Vendor):
    """The sync data client: its own rows."""

    def connect(self) -> None:
        with emulator(self.service.address):
            self.client = BigtableDataClient(project="project")
        self.table = self.client.get_table("instance", self.page.table.name)

    def get(self, number: int) -> Any:
        return self.table.read_row(self.rows[number][0], row_filter=NEWEST)

    def put(self, row: _Row) -> None:
        self.table.mutate_row(row[0], self.changes(row))

    def batch(self, rows: list[_Row]) -> None:
        self.table.bulk_mutate_rows(self.entries(rows))

    def query(self, _number: int) -> list[Any]:
        return self.table.read_rows(self.all)

    def close(self) -> None:
        self.client.close()
        super().close()


class Models(Rows):
    """The sync data client, and Pydantic models of what it reads."""

    put = batch = None  # type: ignore[assignment]  # as without models

    def load(self) -> None:
        self.rows = {number: (row.row_key, []) for number, row in enumerate(super().query(0))}

    def get(self, number: int) -> Any:
        return self.made(super().get(number))

    def query(self, number: int) -> list[Any]:
        return [self.made(row) for row in super().query(number)]

    def plain(self, found: Any) -> dict[str, Any]:
        shown: dict[str, Any] = found.model_dump()
        return shown


class AsyncRows(Looped, _Vendor):
    """The async data client: its own rows."""

    def connect(self) -> None:
        self.loop.run(self._connect())

    async def _connect(self) -> None:
        with emulator(self.service.address):
            self.client = BigtableDataClientAsync(project="project")
        self.table = self.client.get_table("instance", self.page.table.name)

    async def get(self, number: int) -> Any:
        return await self.table.read_row(self.rows[number][0], row_filter=NEWEST)

    async def put(self, row: _Row) -> None:
        await self.table.mutate_row(row[0], self.changes(row))

    async def batch(self, rows: list[_Row]) -> None:
        await self.table.bulk_mutate_rows(self.entries(rows))

    async def query(self, _number: int) -> list[Any]:
        return list(await self.table.read_rows(self.all))

    async def aclose(self) -> None:
        await self.client.close()
