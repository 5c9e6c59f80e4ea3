"""An instance's tables in memory: sorted rows, families and settings, and one lock for each table."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from random import Random
from threading import Condition, RLock
from typing import Any, Final, Protocol, TypeAlias

from attrs import define, field
from sortedcontainers import SortedDict

from odm.backends.bigtable.emulator.evaluate import Evaluator
from odm.backends.bigtable.emulator.families import FamilySettings
from odm.backends.bigtable.emulator.limits import no_family
from odm.backends.bigtable.emulator.log import Change, Log, collected
from odm.backends.bigtable.emulator.refusals import Refused, not_found
from odm.backends.bigtable.emulator.rows import Cell, Row

Clock: TypeAlias = Callable[[], float]
"""Returns the seconds since the epoch."""

COLLECT_SECONDS: Final = 1.0
"""How often garbage is collected, by the clock, while a table is in use."""


class Keeper(Protocol):
    """Keeps tables in a file; what it does not keep is refused, before anybody sees it."""

    keeps: bool

    def save(self, table: "Table", rows: Mapping[bytes, Row]) -> None:
        """Keep rows; a row without cells is removed."""

    def save_settings(self, table: "Table", settings: Any, families: Mapping[str, FamilySettings]) -> None:
        """Keep these settings and families of a table, which may be new."""

    def forget(self, name: str) -> None:
        """Remove a table with its rows."""

    def close(self) -> None:
        """Close the file."""


class NoKeeper:
    """Keeps nothing."""

    keeps = False

    def save(self, table: "Table", rows: Mapping[bytes, Row]) -> None: ...

    def save_settings(self, table: "Table", settings: Any, families: Mapping[str, FamilySettings]) -> None: ...

    def forget(self, name: str) -> None: ...

    def close(self) -> None: ...


def _no_rows() -> "SortedDict[bytes, Row]":
    return SortedDict()


@define(eq=False)
class Table:
    """A table. Read or change anything of it in a block of `held` only.

    Attributes:
        name: its full name.
        settings: its google.bigtable.admin.v2.Table, without families.
        splits: the keys at which it was divided when it was made.
        clock: the clock.
        keeper: keeps it in a file.
        random: chooses the rows of samples.
        families: its families, by name.
        rows: its rows with cells, by key.
        log: the changes, if its change stream is enabled.
        changed: notified of changes; its lock is that of the table.
        gone: the table was deleted.
    """

    name: str
    settings: Any
    splits: Sequence[bytes]
    clock: Clock
    keeper: Keeper
    random: Random
    families: Mapping[str, FamilySettings] = field(factory=dict)
    rows: "SortedDict[bytes, Row]" = field(init=False, factory=_no_rows)
    log: Log = field(init=False, factory=Log)
    changed: Condition = field(init=False, factory=lambda: Condition(RLock()))
    gone: bool = field(init=False, default=False)
    _evaluator: Evaluator | None = field(init=False, default=None)
    _collected: float = field(init=False, default=0.0)
    _dirty: bool = field(init=False, default=False)

    @contextmanager
    def held(self) -> Iterator[None]:
        """A block in which no other thread uses the table. Raises `Refused` if it was deleted."""
        with self.changed:
            if self.gone:
                raise not_found(f"table {self.name!r}")
            yield

    @property
    def evaluator(self) -> Evaluator:
        """Applies filters to its rows."""
        if self._evaluator is None:
            order = {name: number for number, name in enumerate(sorted(self.families))}
            self._evaluator = Evaluator(order, self.random)
        return self._evaluator

    def set_families(self, families: Mapping[str, FamilySettings]) -> None:
        """Replace the families; cells of families that are gone are removed."""
        gone = self.families.keys() - families.keys()
        writing = Writing(self)
        for key, row in self.rows.items() if gone else ():
            if gone & row.families.keys():
                for name in gone:
                    writing.row(key).delete_family(name)
        writing.commit()
        self.keeper.save_settings(self, self.settings, families)
        self.families, self._evaluator, self._dirty = families, None, True

    def set_settings(self, settings: Any) -> None:
        """Replace the settings."""
        self.keeper.save_settings(self, settings, self.families)
        self.settings = settings

    def family(self, name: str) -> FamilySettings:
        """A family. Raises `Refused`."""
        family = self.families.get(name)
        if family is None:
            raise no_family(name)
        return family

    @property
    def unit(self) -> int:
        """The microseconds of which every timestamp is a multiple."""
        return 1 if self.settings.granularity == _MICROS else 1000

    def micros(self) -> int:
        """The time by the clock, in microseconds."""
        return int(self.clock() * 1_000_000)

    def now(self) -> int:
        """The time for new cells."""
        micros = self.micros()
        return micros - micros % self.unit

    def cells(self, row: Row | None) -> list[Cell]:
        """The cells of a row, in order."""
        return [] if row is None else row.cells(self.evaluator.order)

    def collect(self, *, now: bool = False) -> None:
        """Collect garbage, if a second has passed since the last time, or now."""
        clock = self.clock()
        if not now and 0 <= clock - self._collected < COLLECT_SECONDS:
            return
        self._collected = clock
        rules = {name: family.rule for name, family in self.families.items() if family.rule is not None}
        if not rules or not (now or self._dirty or any(family.ages for family in self.families.values())):
            return
        writing = Writing(self)
        now_micros = self.micros()
        for key in [key for key, row in self.rows.items() if row.has_garbage(rules, now_micros)]:
            for family, qualifier, versions in writing.row(key).collect(rules, now_micros):
                if self.streams:
                    writing.changes.append(collected(key, family, qualifier, versions, self.now()))
        writing.commit()
        self._dirty = False

    def take(self, rows: Mapping[bytes, Row]) -> None:
        """Take rows that were changed."""
        self._dirty = self._dirty or bool(rows)
        for key, row in rows.items():
            if row:
                self.rows[key] = row
            else:
                self.rows.pop(key, None)

    @property
    def streams(self) -> bool:
        """Whether its change stream is enabled."""
        return bool(self.settings.HasField("change_stream_config"))


_MICROS: Final = 2
"""google.bigtable.admin.v2, Table.TimestampGranularity.MICROS."""


@define
class Writing:
    """Changes of rows of a table, which nobody sees before they are kept.

    Attributes:
        table: the table, which is held.
        rows: the changed rows; a row without cells is removed.
        changes: the changes for the change stream.
    """

    table: Table
    rows: dict[bytes, Row] = field(factory=dict)
    changes: list[Change] = field(factory=list)

    def row(self, key: bytes) -> Row:
        """A row to change, which may be new."""
        row = self.rows.get(key)
        if row is None:
            found = self.table.rows.get(key)
            if found is not None and self.table.keeper.keeps:  # without a file, nothing fails from here on
                found = found.copy()
            row = self.rows[key] = found or Row()
        return row

    def commit(self) -> None:
        """Keep the rows, and show them. Raises `Refused`."""
        if not self.rows:
            return
        self.table.keeper.save(self.table, self.rows)
        self.table.take(self.rows)
        self.table.log.add(self.changes)
        self.table.changed.notify_all()


class Tables:
    """All tables of all instances: any instance exists, as with Google's emulator.

    Args:
        clock: the clock.
        seed: the seed of random samples.
    """

    def __init__(self, clock: Clock = time.time, seed: int = 0) -> None:
        self.clock = clock
        self.random = Random(seed)
        self.keeper: Keeper = NoKeeper()
        self._lock = RLock()
        self._tables: dict[str, Table] = {}

    def __iter__(self) -> Iterator[Table]:
        with self._lock:
            return iter([*self._tables.values()])

    def get(self, name: str) -> Table:
        """A table by its full name. Raises `Refused`."""
        table = self._tables.get(name)
        if table is None:
            raise not_found(f"table {name!r}")
        return table

    def add(self, table: Table) -> None:
        """Add a new table. Raises `Refused`."""
        with self._lock:
            if table.name in self._tables:
                raise Refused("ALREADY_EXISTS", f"table {table.name!r} already exists")
            self.keeper.save_settings(table, table.settings, table.families)
            self._tables[table.name] = table

    def load(self, tables: Iterable[Table], keeper: Keeper) -> None:
        """Take the tables of a file, and keep all of them there from now on."""
        for table in tables:
            self._tables[table.name] = table
            table.keeper = keeper
        self.keeper = keeper

    def new(self, name: str, settings: Any, splits: Sequence[bytes], families: Mapping[str, FamilySettings]) -> Table:
        """A table that is not added yet."""
        return Table(name, settings, splits, self.clock, self.keeper, self.random, families)

    def remove(self, name: str) -> None:
        """Remove a table. Raises `Refused`."""
        with self._lock:
            table = self.get(name)
            with table.held():
                self.keeper.forget(name)
                del self._tables[name]
                table.gone = True
                table.changed.notify_all()
