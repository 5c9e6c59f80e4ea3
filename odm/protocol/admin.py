"""What the command line needs of a backend for a table in a cloud: list the changes to the table, and apply them.

These calls are blocking and not part of a store, because people run them, not programs.
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
        kind: "create" a table, "add" what is missing, "change" what differs; "extra": the table has something that no
            model asks for, which is removed only on demand; "problem": something is wrong, and its change, if there
            is one, is applied only on demand; "refused": the change is not possible.
        what: the affected part of the table, such as ``index 'by_email'``.
        text: its state before and after the change, or why the change is not possible.
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
    """The result of comparing a table with the models.

    Attributes:
        changes: the changes in order, including those that are refused or extra.
        findings: what the keys of stored items say about the models.
        read: the number of items that were read; None: no sample was requested.
    """

    changes: tuple[TableChange, ...]
    findings: tuple[Finding, ...] = ()
    read: int | None = None


class Admin(Protocol):
    """Inspects and changes one table of a backend."""

    def survey(self, sample: int) -> Survey:
        """Compare the models with the table, and with the keys of some of its items.

        Args:
            sample: the maximum number of items to read; 0: none.

        Raises:
            OdmError: the table cannot be described or read.
        """
        ...

    def apply(self, *, drop: bool, tell: Tell) -> None:
        """Apply the changes to the table, and wait until they are complete.

        Args:
            drop: also apply changes that are "extra" or a "problem", such as removing an index that no model has.
            tell: called with each change when it begins.

        Raises:
            OdmError: a change is refused, or failed.
        """
        ...


def silent(_change: TableChange) -> None:
    """Report nothing."""
