"""What a backfill reports: its counts, and the items that it could not write."""

from typing import Final

from odm._published import public
from odm.errors import OdmError
from odm.immutable import Immutable, field

MOST_FAILURES: Final = 1000
"""The most items in `Backfilled.failures`."""


@public
class Unfilled(Immutable):
    """An item that a backfill could not write.

    Attributes:
        partition: its partition key.
        sort: its sort key; "" in a table without sort keys.
        error: why. `odm.ItemExists`: another item has the unique value; `odm.ItemInvalid`: the item does not fit the
            model; `odm.BadValue`: it cannot be stored; `odm.Conflict`: other writers kept changing it.
    """

    partition: str
    sort: str
    error: OdmError

    def __str__(self) -> str:
        return f"{self.partition}{' | ' * bool(self.sort)}{self.sort}: {self.error}"


@public
class Backfilled(Immutable):
    """The progress or the result of a backfill.

    Attributes:
        seen: items of the entity that were read; expired ones are not counted. `odm.Store.rekey` counts an item twice
            if it reads it under its old key, and, on a later page, under its new one.
        written: items that were written, or whose companions' items were.
        failed: items that could not be written.
        failures: the first 1,000 of them, with the errors.
        cursor: the position from which another backfill continues, as ``after=``; None: it is complete.
    """

    seen: int = 0
    written: int = 0
    failed: int = 0
    failures: tuple[Unfilled, ...] = field(default=(), repr=False)
    cursor: str | None = None

    @property
    def skipped(self) -> int:
        """Items that cost no write: they were right already, or were deleted meanwhile.

        Those that `odm.Store.rekey` has moved, and reads again under their new keys, are among them: how many depends
        on the pages, whose sizes the backend decides.
        """
        return self.seen - self.written - self.failed
