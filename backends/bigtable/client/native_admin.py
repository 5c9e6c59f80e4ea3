"""Requests of the table admin service as values, their responses, and what tables have besides their models."""

from collections.abc import Mapping, Sequence
from datetime import timedelta
from typing import Final, Literal, TypeAlias

from odm.backends.bigtable.client.filters import quoted
from odm.errors import BadValue, brief
from odm.expressions.collection import GCRule, MaxVersions
from odm.immutable import Immutable, field

DAY: Final = timedelta(days=1)

STREAM_DAYS: Final = (1, 7)
"""The least and most days that a change stream is retained (google.bigtable.admin.v2, ChangeStreamConfig)."""

BACKUP_DAYS: Final = (3, 90)
"""The least and most days that an automated backup is retained (same source, Table.AutomatedBackupPolicy)."""

ABORT_AFTER: Final = 3.0
"""The default age in seconds from which a transaction without a record counts as one whose program has stopped."""


class Settings(Immutable):
    """Settings of one table.

    Attributes:
        deletion_protection: whether the table and its families cannot be deleted.
        stream: how long changes of its change stream are retained; None: it has no change stream.
        backups: how long its daily backups are retained; None: there are no automated backups.
    """

    deletion_protection: bool = False
    stream: timedelta | None = None
    backups: timedelta | None = None


NO_SETTINGS: Final = Settings()


class Options(Immutable):
    """The options of a table. None leaves a setting unchanged; a new table then has neither of them.

    The protection applies to the tables of the indexes too, the others only to the table of the items. See
    `odm.backends.bigtable.Bigtable`.

    Attributes:
        next_to_other: a new table may be made next to one of the same models that has transactions, or has none.
    """

    deletion_protection: bool | None = None
    stream: timedelta | None = None
    backups: timedelta | None = None
    splits: tuple[str, ...] = ()
    next_to_other: bool = False

    @property
    def new(self) -> Settings:
        """The settings of a new table."""
        return Settings(self.deletion_protection or False, self.stream, self.backups)

    @property
    def of_index(self) -> "Options":
        """The options of the table of an index."""
        return Options(self.deletion_protection)


NO_OPTIONS: Final = Options()


def checked_options(
    deletion_protection: bool | None,
    stream: timedelta | None,
    backups: timedelta | None,
    splits: Sequence[str],
) -> Options:
    """The user's options.

    Raises:
        BadValue: an option is not valid.
    """
    if deletion_protection is not None and not isinstance(deletion_protection, bool):
        raise BadValue(f"deletion_protection={brief(deletion_protection)}: write True or False, or None: unchanged")
    _check_days("stream", stream, *STREAM_DAYS)
    _check_days("automated_backups", backups, *BACKUP_DAYS)
    if (
        not isinstance(splits, Sequence)
        or isinstance(splits, str)
        or not all(isinstance(key, str) and key for key in splits)
    ):
        raise BadValue(
            f"initial_splits={brief(splits)}: give row keys, or beginnings of row keys, as in ('ORDER#5', 'USER#')"
        )
    return Options(deletion_protection, stream, backups, tuple(sorted({*splits})))


def _check_days(name: str, given: timedelta | None, least: int, most: int) -> None:
    if given is not None and not (isinstance(given, timedelta) and least * DAY <= given <= most * DAY):
        raise BadValue(f"{name}={brief(given)}: give a timedelta of {least} to {most} days, or None: unchanged")


def days(age: timedelta | None) -> str:
    """A time in days, for messages."""
    return "off" if age is None else f"{age / DAY:g} day{'s' * (age != DAY)}"


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
