"""What a call is to write, and the operation that is right for the stored item.

An intent gives the operation. A `Planned` write is made again from the stored item when another writer was faster.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias

from attrs import evolve, field, frozen

from odm.entities.companions import BaseCompanion, Effect
from odm.errors import OdmError
from odm.expressions.nodes import Item, Path, Remove, Set, Value
from odm.procedures.context import Context
from odm.procedures.update import ItemUpdate
from odm.procedures.write import Write
from odm.protocol import requests as req
from odm.schema.target import Target

WriteIntent: TypeAlias = Write | ItemUpdate

UNREAD: Final = object()
"""In place of an item: it was not read."""

KEEP: Final = object()
"""In place of a mark: the one that the item has."""


class Plannable(Protocol):
    """An intent that is planned, with the companions that the write concerns.

    `plan` is called again where another writer was faster.
    """

    @property
    def intent(self) -> WriteIntent: ...

    @property
    def companions(self) -> tuple[Any, ...]: ...  # Any: of `odm.procedures.calls`, which stands on this module

    def reads(self, context: Context, *, in_transaction: bool) -> bool:
        """Whether the item must be read first."""
        ...

    def plan(self, context: Context, item: Any) -> "Planned | OdmError":
        """What is written for the item as it was read or judged (`UNREAD`: neither), or why nothing can be.

        Raises:
            BadValue: what comes of it cannot be stored.
            ItemInvalid: what is stored cannot be read.
        """
        ...


@frozen
class Planned:
    """An operation as it is written, and what it makes of the item.

    Attributes:
        of: what is planned.
        base: the item that it was made from; None: it was absent or not read.
        effect: where it has companions.
        marks: those that the item has, by stored name.
        error: why nothing can be written; the operation is a check that never holds.
    """

    of: Plannable
    operation: req.Operation
    base: Item | None = None
    effect: Effect[Any] | None = None
    marks: Mapping[str, Value] = field(factory=dict)
    error: OdmError | None = None

    @property
    def target(self) -> Target:
        return self.of.intent.target

    @property
    def companions(self) -> tuple[Any, ...]:
        """Those that write with it; none where nothing is written."""
        return () if self.effect is None or isinstance(self.operation, req.Check) else self.of.companions

    def seen_by(self, companion: BaseCompanion) -> Effect[Any]:
        """The effect as this companion sees it."""
        assert self.effect is not None
        mark = self.marks.get(mark_of(companion))
        return self.effect if mark is None else evolve(self.effect, mark=str(mark))

    def marked(self, marks: Mapping[str, Any]) -> req.Operation:
        """The operation with these marks, by stored name, `KEEP` among them, set on the item."""
        if not marks and not self.marks:
            return self.operation
        new = {name: mark for name, mark in marks.items() if mark is not KEEP}
        if isinstance(self.operation, req.Put):
            all_ = {name: mark for name, mark in {**self.marks, **new}.items() if mark is not None}
            return evolve(self.operation, item={**self.operation.item, **all_}) if all_ else self.operation
        if isinstance(self.operation, req.Update) and new:
            actions = [Remove(Path((n,))) if mark is None else Set(Path((n,)), mark) for n, mark in new.items()]
            return evolve(self.operation, actions=(*self.operation.actions, *actions))
        return self.operation


def mark_of(companion: BaseCompanion) -> str:
    """The attribute in which the entity's own item has the mark of a companion."""
    return f"_c_{companion.name}"
