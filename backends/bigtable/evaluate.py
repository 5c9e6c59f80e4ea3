"""What a write does to an item as it was read: nothing, because of its condition, or a change of its row. No I/O."""

from collections.abc import Mapping
from typing import assert_never

from attrs import field, frozen

from odm.backends.bigtable.codec import Stored, attribute_cells, attribute_gone
from odm.backends.bigtable.counters import Guards, guards
from odm.backends.bigtable.native import Mutation
from odm.backends.bigtable.writer import Writer
from odm.codec import TAG
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Item
from odm.protocol.apply_update import apply_update
from odm.protocol.requests import Check, Delete, Operation, Put, Refused, Update, Written
from odm.schema.entity import Key


@frozen
class RowChange:
    """The change of one row, without what is kept beside the item.

    Attributes:
        entries: the index keys from now on, by index.
        item: takes the place of what the row holds; None: it does not.
        mutations: those of some attributes; none where the item is replaced or removed.
        removed: the row goes.
        guards: what must still be as it was read, beside the revision.
        answer: the one to the request, when it is done.
    """

    entries: Mapping[str, Key]
    item: Item | None = None
    mutations: tuple[Mutation, ...] = ()
    removed: bool = False
    guards: Guards = field(factory=Guards)
    answer: Written = field(factory=Written)


def evaluate(writer: Writer, request: Operation, row_key: str, before: Stored | None) -> RowChange | Written | Refused:
    """The change that the request makes of the item as it was read, or the answer where nothing changes.

    Args:
        writer: of the table.
        request: the write.
        row_key: of the item.
        before: the item with what its row holds; None if there is none.

    Raises:
        BadValue: an action does not fit the item as it is.
        ItemTooLarge: what comes of it is too large.
    """
    item = None if before is None else before.item
    if item is not None and not isinstance(request, Update) and request.tag not in (None, item.get(TAG)):
        return Refused(item)
    if request.condition is not None and not holds(request.condition, item):
        return Refused(item)
    match request:
        case Check():
            return Written()
        case Put():
            return RowChange(
                item=request.item, entries=request.entries, guards=guards(writer, request, row_key, before)
            )
        case Delete():
            if before is None:
                return Written(existed=False)
            return RowChange(removed=True, entries={}, guards=guards(writer, request, row_key, before))
        case Update():
            return Refused(None) if before is None else _updated(writer, request, row_key, before)
        case _:
            assert_never(request)


def _updated(writer: Writer, request: Update, row_key: str, before: Stored) -> RowChange:
    listed = {entry.index: entry.key for entry in before.entries}
    after, entries = apply_update(request, before.item, listed, writer.local)
    mutations: list[Mutation] = []
    for name in dict.fromkeys(action.path.root for action in request.actions):
        mutations += attribute_gone(name, before.row, writer.form)
        if name in after:
            mutations += attribute_cells(name, after[name], writer.form, row_key, writer.now())
    returned = {"none": None, "old": before.item, "new": after}[request.returning]
    return RowChange(
        mutations=tuple(mutations),
        entries=entries,
        guards=guards(writer, request, row_key, before),
        answer=Written(returned),
    )
