"""Writes an item and what follows it on a backend that writes one item at a time: companions' items, and blobs.

The write of the item has the condition that the item is unchanged since its companions read it. If another writer
changed it, everything is planned again.

With large values it also has the condition that the item still refers to the blobs that were read. So the blob of an
item exists whenever the item refers to it, and what a stopped program leaves behind is a blob that no item refers to,
which `odm.procedures.upkeep.sweep` finds.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from msgspec import Struct, field

from odm.codec.types.blobs import pointer_of
from odm.errors import (
    BadValue,
    ConditionFailed,
    Conflict,
    ItemExists,
    ItemInvalid,
    ItemNotFound,
    OdmError,
    TransactionFailed,
    Unsupported,
)
from odm.expressions.nodes import Item
from odm.immutable import Immutable, evolve
from odm.observe.events import LOG
from odm.procedures.blobs import before, claim, gathered, names_after, names_in, plain, upload
from odm.procedures.companions.commit import ALONE, Reasons, Sender, commit
from odm.procedures.companions.writes import CompanionWrites
from odm.procedures.context import Context
from odm.procedures.writing.intent import KEEP, Plannable, Planned, mark_of
from odm.protocol import requests as req
from odm.protocol.blobs import BlobFolder, RemoveBlob
from odm.protocol.connection import CoreGen
from odm.schema.entity import Target

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
    # From then on, other writers may take over what a companion has claimed for this write.
    if writing.until is not None and context.clock() > writing.until:
        entity = target.entity
        reading = req.Get(target.key, pattern=entity.primary.full_name, former=bool(entity.versioned))
        raise StaleRead(target, (yield reading))
    if isinstance(operation, req.Put) and operation.condition is not None:
        # A second copy could be applied after another writer has deleted the item, with what its companions wrote.
        operation = evolve(operation, once=True)
    if isinstance(operation, req.Check):  # replaces a delete if the store skips the item of another program
        return
    answer = yield operation
    if isinstance(answer, req.Refused):
        again = plan.of.plan(context, answer.item)
        raise again if isinstance(again, OdmError) else StaleRead(target, answer.item)
    writing.written = True


NOT_APPLIED: Final = (*REFUSALS, TransactionFailed, Unsupported)
"""Errors after which nothing was written."""

CLOSED: Final = (BadValue, Unsupported)
"""Errors of a place of blobs that cannot be opened: nothing was uploaded to it."""


class AfterUpload(Sender, Struct):
    """Uploads the values of the operations, then lets another sender send them.

    Attributes:
        uploaded: the names of the blobs that were uploaded.
        sent: an attempt was sent, so that an item may refer to them.
    """

    folder: BlobFolder
    inner: Sender
    uploaded: set[str] = field(default_factory=set)
    sent: bool = False
    lone: bool = False
    in_transaction: bool = False

    def __post_init__(self) -> None:
        self.lone, self.in_transaction = self.inner.lone, self.inner.in_transaction

    def send(self, plans: Sequence[Planned]) -> CoreGen[req.Written | Reasons]:
        """Send one attempt."""
        if any(_refers(plan.base) for plan in plans):  # the write may remove blobs
            yield from claim(self.folder)
        # Before the item is written: its readers must find the blobs to which it refers.
        yield from upload(self.folder, (plan.operation for plan in plans), self.uploaded)
        self.sent = True
        return (yield from self.inner.send([evolve(plan, operation=plain(plan.operation)) for plan in plans]))


def _refers(item: Item | None) -> bool:
    """Whether a stored item refers to blobs, of any version of its model."""
    return item is not None and any(pointer_of(value) is not None for value in item.values())


def commit_with_blobs(
    context: Context, intents: Sequence[Plannable], sender: Sender
) -> CoreGen[tuple[Sequence[Planned], req.Written]]:
    """As `commit`, with the blobs of the items.

    If nothing was written, what was uploaded is removed. If that is not known, it stays: an item may refer to it.
    """
    entity = next(intent.intent.target.entity for intent in intents if intent.intent.target.entity.blobs)
    uploading = AfterUpload(context.folder(entity), sender)
    try:
        plans, answer = yield from commit(context, intents, uploading)
    except OdmError as error:
        if isinstance(error, NOT_APPLIED) or not uploading.sent:
            yield from _discard(uploading, intents)
        raise
    old, new = uploading.uploaded, set[str]()
    for plan in plans:
        there = before(context, plan.target, plan.base)
        old |= names_in(plan.target.entity, there)
        new |= names_after(plan.target.entity, plan.operation, there)
    # After the item is written: until then, readers of the stored item need them.
    yield from _remove(uploading.folder, old - new)
    return plans, answer


def _discard(uploading: AfterUpload, intents: Sequence[Plannable]) -> CoreGen[None]:
    """Remove what a refused write has uploaded.

    The items are read first: if the answer to a write was lost and its retry refused, the item refers to it.
    """
    if not uploading.uploaded:
        return
    kept: set[str] = set()
    with suppress(OdmError):  # the caller raises the error of the write; odm sweep finds what stays
        for intent in intents:
            target: Any = intent.intent.target
            item = yield req.Get(target.key, pattern=target.entity.primary.full_name)
            kept |= names_in(target.entity, item)
        yield from _remove(uploading.folder, uploading.uploaded - kept)


def _remove(folder: BlobFolder, names: Iterable[str]) -> CoreGen[None]:
    """Remove blobs; one that cannot be removed now is left to `odm sweep`, because the write is complete."""
    ordered = sorted(names)
    answers = yield from gathered([RemoveBlob(folder, name) for name in ordered])
    for name, answer in zip(ordered, answers, strict=True):
        if isinstance(answer, req.Failed) and not isinstance(answer.error, CLOSED):
            LOG.warning("the blob %s could not be removed: odm sweep will find it", name)
