"""Native requests of the table admin service, and their responses; see `odm.backends.bigtable.native`."""

from collections.abc import Mapping
from datetime import timedelta
from typing import Final, Literal, TypeAlias

from odm.backends.bigtable.filters import quoted
from odm.backends.bigtable.options import NO_SETTINGS, Settings
from odm.expressions.collection import GCRule, MaxVersions
from odm.immutable import Immutable, field

Aggregate: TypeAlias = Literal["sum", "min", "max", "hll", "other"]
"""What the cells of an aggregate family hold: the sum, minimum or maximum of 64-bit numbers, or a HyperLogLog++ sketch
of the distinct values in it. "other": a type that odm does not create."""


NEWEST_ONLY: Final = MaxVersions(1)
"""The rule of odm's own families."""


class ColumnFamily(Immutable):
    """A column family.

    Attributes:
        gc: what garbage collection deletes; None: nothing.
        aggregate: what its cells aggregate; None: plain bytes. It cannot be changed later.
    """

    gc: GCRule | None = NEWEST_ONLY
    aggregate: Aggregate | None = None

    @property
    def rule(self) -> str:
        """The rule as ``cbt`` writes it."""
        return "never" if self.gc is None else str(self.gc)

    def __str__(self) -> str:
        return self.rule if self.aggregate is None else f"{self.rule}:{self.aggregate}"


Families: TypeAlias = Mapping[str, ColumnFamily]
"""The column families of a table, by name."""


class CreateTable(Immutable):
    """Create a table with its column families and settings. Response: None.

    ``splits``: the row keys at which to divide it at first.
    """

    table: str
    families: Families
    settings: Settings = NO_SETTINGS
    splits: tuple[str, ...] = ()

    def __str__(self) -> str:
        families = ",".join(f"{name}:{family}" for name, family in self.families.items())
        splits = f" splits={','.join(map(quoted, self.splits))}" if self.splits else ""
        return f"createtable {self.table} families={families}{splits}"


class UpdateTable(Immutable):
    """Change settings of a table; None leaves one unchanged. Response: None, when the change is complete."""

    table: str
    deletion_protection: bool | None = None
    stream: timedelta | None = None
    backups: timedelta | None = None

    def __str__(self) -> str:
        changed = ("deletion_protection", "stream", "backups")
        given = ((name, getattr(self, name)) for name in changed)
        return f"updatetable {self.table} {' '.join(f'{name}={value}' for name, value in given if value is not None)}"


class ModifyFamilies(Immutable):
    """Change a table's column families, all or none. Response: None.

    Attributes:
        table: the table.
        create: families to add.
        update: families whose garbage collection to change.
    """

    table: str
    create: Families = field(factory=dict)
    update: Families = field(factory=dict)

    def __str__(self) -> str:
        made = [f"createfamily {self.table} {name}:{family}" for name, family in self.create.items()]
        changed = [f"setgcpolicy {self.table} {name} {family.rule}" for name, family in self.update.items()]
        return "\n".join((*made, *changed))


class DeleteTable(Immutable):
    """Delete a table with all its rows. Response: None."""

    table: str

    def __str__(self) -> str:
        return f"deletetable {self.table}"


class DropRows(Immutable):
    """Delete all rows whose keys have a prefix, with all their cells; ``prefix`` None: all rows. Response: None."""

    table: str
    prefix: str | None = None

    def __str__(self) -> str:
        if self.prefix is None:
            return f"deleteallrows {self.table}"
        return f"droprowrange {self.table} prefix={quoted(self.prefix)}"


class GetTable(Immutable):
    """Get the column families and settings of a table. Response: `TableInfo`."""

    table: str

    def __str__(self) -> str:
        return f"ls {self.table}"


class ListTables(Immutable):
    """Get one page of the names of the instance's tables. Response: `Tables`.

    Attributes:
        table: the schema's table, for error messages.
        page: the page token; "" is the first page.
    """

    table: str
    page: str = ""

    def __str__(self) -> str:
        return "ls"


AdminCall: TypeAlias = CreateTable | UpdateTable | ModifyFamilies | DeleteTable | DropRows | GetTable | ListTables
"""The calls of the table admin service; all of them may be retried."""


class TableInfo(Immutable):
    """An existing table: its column families and settings."""

    families: Families
    settings: Settings = NO_SETTINGS


class Tables(Immutable):
    """A page of table names; ``following`` is the token of the next page, "" on the last page."""

    names: tuple[str, ...]
    following: str = ""
