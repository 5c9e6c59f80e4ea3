"""What a call writes, and its operation for a stored item.

An intent makes the operation. If another writer changed the item, a new `Planned` write is made from the stored item.
"""

from collections.abc import Mapping
from typing import Any, Final, Protocol, TypeAlias

from odm.entities.companions import BaseCompanion, Effect
from odm.errors import OdmError
from odm.expressions.nodes import Item, Path, Remove, Set, Value
from odm.immutable import Immutable, evolve, field
from odm.procedures.context import Context
from odm.procedures.writing.update import ItemUpdate
from odm.procedures.writing.write import Write
from odm.protocol import requests as req
from odm.schema.entity import Target

WriteIntent: TypeAlias = Write | ItemUpdate

UNREAD: Final = object()
"""Stands for an item that was not read."""

KEEP: Final = object()
"""Stands for the mark of the stored item, which is left unchanged."""


class Plannable(Protocol):
    """An intent that can be planned, with the companions that must write with it.

    `plan` is called again if another writer changed the item.
    """

    @property
    def intent(self) -> WriteIntent: ...

    @property
    def companions(self) -> tuple[Any, ...]: ...  # Any: of `odm.procedures.calls`, which imports this module

    def reads(self, context: Context, *, in_transaction: bool) -> bool:
        """Whether the item must be read first."""
        ...

    def plan(self, context: Context, item: Any) -> "Planned | OdmError":
        """The plan for the stored item (`UNREAD`: not known), or the error if nothing can be written.

        Raises:
            BadValue: the new item cannot be stored.
            ItemInvalid: the stored item cannot be read.
        """
        ...


class Planned(Immutable):
    """An operation to send, and its effect on the item.

    Attributes:
        of: the intent.
        base: the stored item from which it was planned; None: it was absent or not read.
        effect: how it changes the item, for the companions; None if there are none.
        marks: the companions' marks on the stored item, by stored name.
        error: why nothing can be written; then the operation is a check that never holds.
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
        """The companions that must write with it; none if nothing is written."""
        return () if self.effect is None or isinstance(self.operation, req.Check) else self.of.companions

    def seen_by(self, companion: BaseCompanion) -> Effect[Any]:
        """The effect, with this companion's mark."""
        assert self.effect is not None
        mark = self.marks.get(mark_of(companion))
        return self.effect if mark is None else evolve(self.effect, mark=str(mark))

    def marked(self, marks: Mapping[str, Any]) -> req.Operation:
        """The operation, which also sets these marks on the item. They are given by stored name and may be `KEEP`."""
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
    """The name of the attribute in which the entity's own item holds the mark of a companion."""
    return f"_c_{companion.name}"
