"""The table's options that are not part of the models: protection, change stream, backups and initial splits."""

from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from odm.errors import BadValue, brief
from odm.immutable import Immutable

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
