"""An instance's tables in memory: sorted rows, families and settings, and one lock for each table."""

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from random import Random
from threading import Condition, RLock
from typing import Any, Final, Protocol

from attrs import define, field
from sortedcontainers import SortedDict

from odm.backends.bigtable.emulator.evaluate import Evaluator
from odm.backends.bigtable.emulator.families import FamilySettings
from odm.backends.bigtable.emulator.limits import no_family
from odm.backends.bigtable.emulator.log import Log
from odm.backends.bigtable.emulator.refusals import Refused, not_found
from odm.backends.bigtable.emulator.rows import Cell, Row, Rule

Clock = Callable[[], float]
"""Returns the seconds since the epoch."""

COLLECT_SECONDS: Final = 1.0
"""How often garbage is collected, by the clock, while a table is in use."""


class Keeper(Protocol):
    """Keeps tables in a file."""

    def save(self, table: "Table", keys: Iterable[bytes]) -> None:
        """Keep these rows as they are now."""

    def save_settings(self, table: "Table") -> None:
        """Keep the families and settings of a table, which may be new."""

    def forget(self, name: str) -> None:
        """Remove a table."""

    def close(self) -> None:
        """Close the file."""


class NoKeeper:
    """Keeps nothing."""

    def save(self, table: "Table", keys: Iterable[bytes]) -> None: ...

    def save_settings(self, table: "Table") -> None: ...

    def forget(self, name: str) -> None: ...

    def close(self) -> None: ...


def _no_rows() -> "SortedDict[bytes, Row]":
    return SortedDict()


@define(eq=False)
class Table:
    """A table. Hold its lock to read or change anything of it.

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
        lock: the lock, and what waits for changes.
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
    lock: Condition = field(init=False, factory=lambda: Condition(RLock()))
    _evaluator: Evaluator | None = field(init=False, default=None)
    _collected: float = field(init=False, default=0.0)
    _changed: bool = field(init=False, default=False)

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
        self.families, self._evaluator, self._changed = families, None, True
        for key, row in [*self.rows.items()] if gone else ():
            if gone & row.families.keys():
                row.families = {name: columns for name, columns in row.families.items() if name not in gone}
                self.put(key, row)
        self.keeper.save_settings(self)

    def family(self, name: str) -> FamilySettings:
        """A family. Raises `Refused`."""
        found = self.families.get(name)
        if found is None:
            raise no_family(name)
        return found

    @property
    def unit(self) -> int:
        """The microseconds of which every timestamp is a multiple."""
        return 1 if self.settings.granularity == _MICROS else 1000

    def now(self) -> int:
        """The time for new cells, in microseconds."""
        micros = int(self.clock() * 1_000_000)
        return micros - micros % self.unit

    def cells(self, row: Row) -> list[Cell]:
        """The cells of a row, in order."""
        return row.cells(self.evaluator.order)

    def row(self, key: bytes) -> Row:
        """A row to change, which may be new; `put` it back."""
        return self.rows.get(key) or Row()

    def put(self, key: bytes, row: Row) -> None:
        """Take a row that was changed."""
        self._changed = True
        if row:
            self.rows[key] = row
        else:
            self.rows.pop(key, None)

    def save(self, keys: Sequence[bytes]) -> None:
        """Keep rows that were changed, and wake those who wait for changes."""
        self.keeper.save(self, keys)
        self.lock.notify_all()

    def collect(self, *, now: bool = False) -> None:
        """Collect garbage, if a second has passed since the last time, or now."""
        clock = self.clock()
        if not now and 0 <= clock - self._collected < COLLECT_SECONDS:
            return
        self._collected = clock
        rules = {name: one.rule for name, one in self.families.items() if one.rule is not None}
        ages = any("max_age" in str(one.message.gc_rule) for one in self.families.values())
        if not rules or not (now or ages or self._changed):
            return
        self._changed = False
        changed = [key for key in [*self.rows] if self._collect(key, rules)]
        if changed:
            self.save(changed)

    def _collect(self, key: bytes, rules: Mapping[str, Rule]) -> bool:
        row, removed = self.rows[key], False
        for family, qualifier, gone in row.collect(rules, int(self.clock() * 1_000_000)):
            removed = True
            if self.streams:
                self.log.collected(key, family, qualifier, gone, self.now())
        if removed and not row:
            del self.rows[key]
        return removed

    @property
    def streams(self) -> bool:
        """Whether its change stream is enabled."""
        return bool(self.settings.HasField("change_stream_config"))


_MICROS: Final = 2
"""google.bigtable.admin.v2, Table.TimestampGranularity.MICROS."""


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
        self.lock = RLock()
        self._tables: dict[str, Table] = {}

    def __iter__(self) -> Iterator[Table]:
        with self.lock:
            return iter([*self._tables.values()])

    def get(self, name: str) -> Table:
        """A table by its full name. Raises `Refused`."""
        found = self._tables.get(name)
        if found is None:
            raise not_found(f"table {name!r}")
        return found

    def add(self, table: Table) -> None:
        """Add a new table. Raises `Refused`."""
        with self.lock:
            if table.name in self._tables:
                raise Refused("ALREADY_EXISTS", f"table {table.name!r} already exists")
            self._tables[table.name] = table
            self.keeper.save_settings(table)

    def new(self, name: str, settings: Any, splits: Sequence[bytes]) -> Table:
        """A table that is not added yet."""
        return Table(name, settings, splits, self.clock, self.keeper, self.random)

    def remove(self, name: str) -> None:
        """Remove a table. Raises `Refused`."""
        with self.lock:
            table = self.get(name)
            del self._tables[name]
            self.keeper.forget(name)
        with table.lock:
            table.lock.notify_all()
