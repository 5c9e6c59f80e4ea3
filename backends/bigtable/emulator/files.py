"""Keeps the emulator's tables in a file of the bundled engine, durable before a write is answered.

One engine table, ``bigtable/tables``, lists the tables; each has an engine table of its own with an item for each row.
Stores of odm do not have such names, because table names have no slash. All rows are read when the emulator starts.
Change streams and IAM policies are not kept. One emulator at a time has a file open.
"""

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Final

from google.cloud.bigtable_admin_v2 import types as admin
from google.cloud.bigtable_v2 import types as data
from google.protobuf.message import DecodeError

from odm import BackendError, OdmError, Throttled
from odm.backends.bigtable.emulator.families import FamilySettings
from odm.backends.bigtable.emulator.refusals import Refused
from odm.backends.bigtable.emulator.rows import Row, Version
from odm.backends.bigtable.emulator.tables import Table, Tables
from odm.backends.local.errors import translating
from odm.backends.local.file import FileStorage
from odm.backends.local.lock import WriterLock
from odm.backends.local.storage import Change, Record
from odm.schema.entity import Key

CATALOG: Final = "bigtable/tables"

TIMEOUT: Final = 10.0
"""How long to wait for another program that writes to the file, in seconds."""


def load(tables: Tables, path: Path) -> None:
    """Read the tables of a file, which is made if it is missing, and keep them in it from now on.

    Raises:
        BackendError: the file cannot be read, or another emulator has it open.
    """
    keeper = FileKeeper(path.absolute())
    try:
        with translating(path):
            keeper.open()
            tables.load([*keeper.tables(tables)], keeper)
    except Throttled as error:
        keeper.close()
        raise BackendError(f"{path}: another emulator has it open: stop that one first") from error
    except (DecodeError, ValueError) as error:
        keeper.close()
        raise BackendError(f"{path}: not the data of a Bigtable emulator: {error}") from error
    except BaseException:
        keeper.close()
        raise


class FileKeeper:
    """Keeps tables in a file."""

    keeps = True

    def __init__(self, path: Path) -> None:
        self._path = path
        self._alone = WriterLock(Path(f"{path}-emulator"), 0.1)
        self._storages: dict[str, FileStorage] = {}

    def open(self) -> None:
        """Make the file, unless it exists. Raises Throttled if another emulator has it open."""
        self._alone.__enter__()
        self._storage(CATALOG).create(())

    def tables(self, into: Tables) -> Iterator[Table]:
        """The tables of the file."""
        with (view := self._storage(CATALOG).reading()).block:
            listed = [(key, bytes(row)) for row, key, *_ in view.scan(None)]
        for name, text in listed:
            request = admin.CreateTableRequest.pb().FromString(text)
            families = {id: FamilySettings(family) for id, family in request.table.column_families.items()}
            request.table.ClearField("column_families")
            table = into.new(name, request.table, [split.key for split in request.initial_splits], families)
            with (view := self._storage(name).reading()).block:
                for row, key, *_ in view.scan(None):
                    table.rows[key.encode("latin-1")] = _row(bytes(row))
            yield table

    def save(self, table: Table, rows: Mapping[bytes, Row]) -> None:
        """Keep rows; a row without cells is removed."""
        changes = [_change(key.decode("latin-1"), _text(key, row) if row else None) for key, row in rows.items()]
        with self._storing(), (view := self._storage(table.name).writing()).block:
            view.apply(changes)

    def save_settings(self, table: Table, settings: Any, families: Mapping[str, FamilySettings]) -> None:
        """Keep these settings and families of a table, which may be new."""
        request = admin.CreateTableRequest.pb()(table=settings)
        for name, family in families.items():
            request.table.column_families[name].CopyFrom(family.message)
        for split in table.splits:
            request.initial_splits.add(key=split)
        with self._storing():
            self._storage(table.name).create(())
            with (view := self._storage(CATALOG).writing()).block:
                view.apply([_change(table.name, request.SerializeToString())])

    def forget(self, name: str) -> None:
        """Remove a table with its rows."""
        with self._storing():
            with (view := self._storage(CATALOG).writing()).block:
                view.apply([_change(name, None)])
            self._storage(name).drop()

    def close(self) -> None:
        """Close the file."""
        for storage in self._storages.values():
            storage.close()
        self._alone.release()
        self._alone.close()

    @contextmanager
    def _storing(self) -> Iterator[None]:
        """Refuse a call whose change the file does not take."""
        try:
            with translating(self._path):
                yield
        except OdmError as error:
            raise Refused("INTERNAL", str(error)) from error

    def _storage(self, name: str) -> FileStorage:
        if name not in self._storages:
            self._storages[name] = FileStorage(self._path, name, TIMEOUT)
        return self._storages[name]


def _change(key: str, text: bytes | None) -> Change:
    return Change(Key(key), Record(b"", {}), None if text is None else Record(text, {}))


def _text(key: bytes, row: Row) -> bytes:
    message = data.Row.pb()(key=key)
    for name, columns in row.families.items():
        family = message.families.add(name=name)
        for qualifier, versions in columns.items():
            column = family.columns.add(qualifier=qualifier)
            for timestamp, value in versions:
                column.cells.add(timestamp_micros=timestamp, value=value)
    return bytes(message.SerializeToString())


def _row(text: bytes) -> Row:
    row = Row()
    for family in data.Row.pb().FromString(text).families:
        for column in family.columns:
            for cell in reversed(column.cells):
                version: Version = cell.timestamp_micros, cell.value
                row.set(family.name, column.qualifier, version)
    return row
