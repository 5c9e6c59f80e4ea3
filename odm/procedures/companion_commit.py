"""Writes an item and the items of its companions, on a backend that writes one item at a time.

The write of the item has the condition that the item is unchanged since its companions read it. If another writer
changed it, everything is planned again.
"""

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from odm.errors import BadValue, ConditionFailed, Conflict, ItemExists, ItemInvalid, ItemNotFound, OdmError
from odm.immutable import Immutable, evolve
from odm.procedures.commit import ALONE, Reasons, Sender, commit
from odm.procedures.companion_writes import CompanionWrites
from odm.procedures.context import Context
from odm.procedures.write_intent import KEEP, Planned, mark_of
from odm.protocol import requests as req
from odm.protocol.connection import CoreGen
from odm.schema.target import Target

if TYPE_CHECKING:
    from odm.procedures.calls import Calls

REFUSALS: Final = (BadValue, ConditionFailed, ItemExists, ItemInvalid, ItemNotFound)
"""Errors after which a write was certainly not applied."""


class StaleRead(Conflict):
    """The item was changed since its companions read it: the write is planned again from ``stored``."""

    def __init__(self, target: Target, stored: Any) -> None:
        super().__init__(f"{target} was changed by another writer")
        self.stored = stored


class SideWriteFailed(OdmError):
    """A companion's write was refused after the item itself was written, so this is not an error of the item."""

    def __init__(self, error: OdmError) -> None:
        super().__init__(str(error))
        self.error = error


class Writing(Struct):
    """The state of one write of an item, shared by its companions.

    Attributes:
        marks: the companions' marks for the item, by stored name.
        until: the item must be written before this instant, in epoch seconds; None: no limit.
        written: the write of the item was applied.
    """

    marks: dict[str, Any] = field(default_factory=dict)
    until: float | None = None
    written: bool = False


class InSteps(Sender, Immutable):
    """Sends the write of an item between the steps of its companions; each companion runs inside the one before."""

    context: Context
    do: "Calls"
    lone: bool = True

    def send(self, plans: Sequence[Planned]) -> CoreGen[req.Written | Reasons]:
        """Send one attempt.

        Raises:
            OdmError: a companion's write was refused after the item was written.
        """
        (plan,) = plans
        if plan.error is not None:
            return (plan.error,)
        try:
            yield from _within(self.context, self.do, plan, Writing(), 0)
        except StaleRead as stale:
            return (req.Refused(stale.stored),)
        except SideWriteFailed as failed:
            raise failed.error from failed.error.__cause__
        except REFUSALS as error:
            return (error,)
        return req.Written()


def write_each(context: Context, writes_: CompanionWrites) -> CoreGen[None]:
    """Send the writes of a companion, one after another.

    Raises:
        OdmError: a write was refused; the writes after it were not sent.
    """
    for side_write in writes_.side_writes:
        yield from commit(context, (side_write,), ALONE)


def _within(context: Context, do: "Calls", plan: Planned, writing: Writing, at: int) -> CoreGen[None]:
    """Run the steps of the companions from index ``at`` on; the last one runs the write of the item itself."""
    if at == len(plan.companions):
        yield from _itself(context, plan, writing)
        return
    companion = plan.companions[at]

    def inner(mark: Any = KEEP, until: float | None = None) -> CoreGen[None]:
        writing.marks[mark_of(companion)] = mark
        if until is not None:
            writing.until = until if writing.until is None else min(until, writing.until)
        return _within(context, do, plan, writing, at + 1)

    try:
        yield from companion.without_transaction(do, plan.seen_by(companion), inner)
    except REFUSALS as error:
        if writing.written:
            raise SideWriteFailed(error) from error
        raise


def _itself(context: Context, plan: Planned, writing: Writing) -> CoreGen[None]:
    """Write the entity's own item."""
    target, operation = plan.target, plan.marked(writing.marks)
    if writing.until is not None and context.clock() > writing.until:
        entity = target.entity
        reading = req.Get(target.key, pattern=entity.primary.full_name, former=bool(entity.versioned))
        raise StaleRead(target, (yield reading))
    if isinstance(operation, req.Put) and operation.condition is not None:
        operation = evolve(operation, once=True)
    if isinstance(operation, req.Check):  # replaces a delete if the store skips the item of another program
        return
    answer = yield operation
    if isinstance(answer, req.Refused):
        again = plan.of.plan(context, answer.item)
        raise again if isinstance(again, OdmError) else StaleRead(target, answer.item)
    writing.written = True
