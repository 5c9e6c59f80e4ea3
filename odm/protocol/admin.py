"""The interface between the command line and a backend: lists the changes to a table in a cloud, and applies them.

These calls are blocking and not part of a store, because people run them, not programs.
"""

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol

from odm.immutable import Immutable

if TYPE_CHECKING:
    from odm.schema.lockfile import Finding


Kind = Literal["refused", "create", "change", "add", "problem", "extra"]

ADDITIVE: Final[frozenset[Kind]] = frozenset({"create", "add"})
"""Kinds of changes that neither remove nor change an existing part of the table."""


class TableChange(Immutable):
    """One difference between the models and the table.

    Attributes:
        kind: "create" a table, "add" a missing part, "change" a part that differs; "extra": a part that no model
            declares, removed only on demand; "problem": its change, if there is one, is applied only on demand;
            "refused": the change is not possible.
        what: the affected part of the table, such as ``index 'by_email'``.
        text: its state before and after the change, or why the change is not possible.
        call: the native request that makes the change; None if there is no change to make.
        held: how much the part holds that the change deletes; "": nothing, or it is not known.
    """

    kind: Kind
    what: str
    text: str
    call: Any = None  # only the backend knows the type of its native requests
    held: str = ""

    def __str__(self) -> str:
        return f"{self.kind:<8}  {self.what}: {self.text}"


Tell = Callable[[TableChange], None]
"""Called with each change when it begins."""


class Survey(Immutable):
    """The result of comparing a table with the models.

    Attributes:
        changes: the changes in order, including those that are refused or extra.
        findings: the differences between the keys of stored items and the models.
        read: the number of items that were read; None: no sample was requested.
    """

    changes: tuple[TableChange, ...]
    findings: "tuple[Finding, ...]" = ()
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
