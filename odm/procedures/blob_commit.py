"""The order of a write with large values: upload, write the item, remove what it replaced.

The write has the condition that the item still refers to the blobs that were read. So the blob of an item exists
whenever the item refers to it, and what a stopped program leaves behind is a blob that no item refers to, which
`odm.procedures.sweep` finds.
"""

from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Any, Final

from msgspec import Struct, field

from odm.codec.types.blobs import pointer_of
from odm.errors import BadValue, OdmError, TransactionFailed, Unsupported
from odm.expressions.nodes import Item
from odm.immutable import evolve
from odm.observe.events import LOG
from odm.procedures.blobs import before, claim, gathered, names_after, names_in, plain, upload
from odm.procedures.commit import Reasons, Sender, commit
from odm.procedures.companion_commit import REFUSALS
from odm.procedures.context import Context
from odm.procedures.write_intent import Plannable, Planned
from odm.protocol import requests as req
from odm.protocol.blobs import BlobFolder, RemoveBlob
from odm.protocol.connection import CoreGen

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
    entity = next(one.intent.target.entity for one in intents if one.intent.target.entity.blobs)
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
    yield from _remove(uploading.folder, old - new)
    return plans, answer


def _discard(uploading: AfterUpload, intents: Sequence[Plannable]) -> CoreGen[None]:
    """Remove what a refused write has uploaded.

    The items are read first: if the answer to a write was lost and its retry refused, the item refers to it.
    """
    if not uploading.uploaded:
        return
    kept: set[str] = set()
    with suppress(OdmError):
        for one in intents:
            target: Any = one.intent.target
            item = yield req.Get(target.key, pattern=target.entity.primary.full_name)
            kept |= names_in(target.entity, item)
        yield from _remove(uploading.folder, uploading.uploaded - kept)


def _remove(folder: BlobFolder, names: Iterable[str]) -> CoreGen[None]:
    """Remove blobs; one that cannot be removed now is left to `odm sweep`, because the write is complete."""
    wanted = sorted(names)
    answers = yield from gathered([RemoveBlob(folder, name) for name in wanted])
    for name, answer in zip(wanted, answers, strict=True):
        if isinstance(answer, req.Failed) and not isinstance(answer.error, CLOSED):
            LOG.warning("the blob %s could not be removed: odm sweep will find it", name)
