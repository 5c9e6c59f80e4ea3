"""What the command line asks of a backend for a table in a cloud: what would be done to it, and to do it.

Beside the operations of a store, and blocking: people run this, not programs.
"""

from collections.abc import Callable
from typing import Any, Final, Literal, Protocol

from attrs import frozen

from odm.schema.lockfile import Finding

Kind = Literal["refused", "create", "change", "add", "problem", "extra"]

ADDITIVE: Final[frozenset[Kind]] = frozenset({"create", "add"})
"""What takes nothing away and changes nothing that is there."""


@frozen
class TableChange:
    """One difference between the models and the table.

    Attributes:
        kind: "create" a table, "add" what it lacks, "change" what is otherwise; "extra": the table has what no model
            asks for, which is only removed on demand; "problem": something is wrong, and a change of it, if there is
            one, is only made on demand; "refused": it cannot be made.
        what: the part of the table, such as ``index 'by_email'``.
        text: what it is and will be, or why it cannot be.
        call: the native request that makes it; None where there is none.
    """

    kind: Kind
    what: str
    text: str
    call: Any = None  # a native request of the backend, which alone makes it

    def __str__(self) -> str:
        return f"{self.kind:<8}  {self.what}: {self.text}"


Tell = Callable[[TableChange], None]
"""Is called with each change when it begins."""


@frozen
class Survey:
    """What a look at the table gave.

    Attributes:
        changes: what would be done, in order; what is refused or extra as well.
        findings: what the keys of stored items say about the models.
        read: how many items were looked at; None: none were to be.
    """

    changes: tuple[TableChange, ...]
    findings: tuple[Finding, ...] = ()
    read: int | None = None


class Admin(Protocol):
    """One table of a backend, to look at and to change."""

    def survey(self, sample: int) -> Survey:
        """Compare the models with the table, and with the keys of some of its items.

        Args:
            sample: read at most so many items; 0: none.

        Raises:
            OdmError: the table cannot be described or read.
        """
        ...

    def apply(self, *, drop: bool, tell: Tell) -> None:
        """Make the table what the models and options ask for, and wait for as long as it takes.

        Args:
            drop: make those of changes that are "extra" or a "problem", such as to remove an index that no model has.
            tell: is called with each change when it begins.

        Raises:
            OdmError: a change is refused, or failed.
        """
        ...


def silent(_change: TableChange) -> None:
    """Tell nobody."""
