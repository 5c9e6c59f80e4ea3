"""Keeps the emulator's tables in a file of the bundled engine, durable before a write is answered.

One engine table, ``bigtable``, lists the tables; each has an engine table of its own, with an item for each row. All
rows are read when the emulator starts. Change streams and IAM policies are not kept. One emulator at a time may have a
file open.
"""

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from google.cloud.bigtable_admin_v2 import types as admin
from google.cloud.bigtable_v2 import types as data
from google.protobuf.message import DecodeError

from odm.backends.bigtable.emulator.families import FamilySettings
from odm.backends.bigtable.emulator.refusals import Refused
from odm.backends.bigtable.emulator.rows import Row
from odm.backends.bigtable.emulator.tables import Table, Tables
from odm.backends.local.errors import translating
from odm.backends.local.file import FileStorage
from odm.backends.local.storage import Change, Record
from odm.errors import BackendError, OdmError
from odm.schema.entity import Key

CATALOG: Final = "bigtable"

TIMEOUT: Final = 10.0
"""How long to wait for another program that writes to the file, in seconds."""


def load(tables: Tables, path: Path) -> None:
    """Read the tables of a file, which is made if it is missing, and keep them in it from now on.

    Raises:
        BackendError: the file cannot be read, or another program wrote it.
    """
    keeper = FileKeeper(path.absolute())
    try:
        with translating(path):
            keeper.create()
            for table in keeper.tables(tables):
                tables.add(table)
    except (DecodeError, ValueError) as error:
        keeper.close()
        raise BackendError(f"{path}: not the data of a Bigtable emulator: {error}") from error
    except BaseException:
        keeper.close()
        raise
    tables.keeper = keeper
    for table in tables:
        table.keeper = keeper


class FileKeeper:
    """Keeps tables in a file."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._storages: dict[str, FileStorage] = {}

    def create(self) -> None:
        """Make the file, unless it exists."""
        self._storage(CATALOG).create(())

    def tables(self, into: Tables) -> Iterable[Table]:
        """The tables of the file."""
        with (view := self._storage(CATALOG).reading()).block:
            listed = [(key, bytes(row)) for row, key, *_ in view.scan(None)]
        for name, text in listed:
            made = admin.CreateTableRequest.pb().FromString(text)
            families = {id: FamilySettings(one) for id, one in made.table.column_families.items()}
            made.table.ClearField("column_families")
            table = into.new(name, made.table, [one.key for one in made.initial_splits])
            table.families = families
            with (view := self._storage(name).reading()).block:
                for row, key, *_ in view.scan(None):
                    table.rows[key.encode("latin-1")] = _row(row)
            yield table

    def save(self, table: Table, keys: Iterable[bytes]) -> None:
        """Keep these rows as they are now."""
        changes = [_change(key.decode("latin-1"), _text(key, table.rows.get(key))) for key in dict.fromkeys(keys)]
        with _storing(self._path), (view := self._storage(table.name).writing()).block:
            view.apply(changes)

    def save_settings(self, table: Table) -> None:
        """Keep the families and settings of a table, and all its rows, as a change of families removes cells."""
        made = admin.CreateTableRequest.pb()(table=table.settings)
        for name, family in table.families.items():
            made.table.column_families[name].CopyFrom(family.message)
        for split in table.splits:
            made.initial_splits.add(key=split)
        self._storage(table.name).create(())
        with (view := self._storage(CATALOG).writing()).block:
            view.apply([_change(table.name, made.SerializeToString())])
        self.save(table, [*table.rows])

    def forget(self, name: str) -> None:
        """Remove a table."""
        self._storage(name).drop()
        with (view := self._storage(CATALOG).writing()).block:
            view.apply([_change(name, None)])

    def close(self) -> None:
        """Close the file."""
        for storage in self._storages.values():
            storage.close()

    def _storage(self, name: str) -> FileStorage:
        if name not in self._storages:
            self._storages[name] = FileStorage(self._path, name, TIMEOUT)
        return self._storages[name]


@contextmanager
def _storing(path: Path) -> Iterator[None]:
    """Refuse a call whose write the file does not take; the emulator has it until it ends."""
    try:
        with translating(path):
            yield
    except OdmError as error:
        raise Refused("INTERNAL", str(error)) from error


def _change(key: str, text: bytes | None) -> Change:
    return Change(Key(key), Record(b"", {}), None if text is None else Record(text, {}))


def _text(key: bytes, row: Row | None) -> bytes | None:
    if row is None:
        return None
    message = data.Row.pb()(key=key)
    for name, columns in row.families.items():
        family = message.families.add(name=name)
        for qualifier, versions in columns.items():
            column = family.columns.add(qualifier=qualifier)
            for timestamp, value in versions:
                column.cells.add(timestamp_micros=timestamp, value=value)
    return bytes(message.SerializeToString())


def _row(text: Any) -> Row:
    row = Row()
    for family in data.Row.pb().FromString(bytes(text)).families:
        columns = row.families[family.name] = {}
        for column in family.columns:
            columns[column.qualifier] = tuple((one.timestamp_micros, one.value) for one in column.cells)
    return row
