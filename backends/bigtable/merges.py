"""Merges: plain mutations of single cells, without a read and without a condition.

They need no transaction of a row, so an app profile with multi-cluster routing allows them. Each cell is deleted and
set with an explicit timestamp in one mutation of the row: it is idempotent, and a clock that is behind cannot make the
new value older than the stored one. What is added to a sum is not: such a merge is not sent again.

What only a new item needs is written with the timestamp 0: its tag, its key fields, and the plain cells that show that
a field in Columns is a dict or a set. Reads take the newest cell, so what is stored already stays. A deleted cell does
not hide a later write with an older timestamp (https://cloud.google.com/bigtable/docs/hbase-differences, "Deletes mask
puts"). In a family that deletes cells by their age, such a cell would be deleted: there it has the time of the merge.

The revision is new in each attempt, also in a retry of the same merge: otherwise an attempt whose response was lost
would set it back after another write, and a third writer that had read it before could overwrite that write.
"""

from collections.abc import Iterable

from odm.backends.bigtable.cells import member_qualifier, qualifier, set_member
from odm.backends.bigtable.codec import attribute_cells, attribute_gone, bookkeeping
from odm.backends.bigtable.form import Form
from odm.backends.bigtable.native import FAMILY, AddToCell, DeleteColumn, Mutation, SetCell
from odm.codec import TAG
from odm.errors import BadValue, brief
from odm.expressions.nodes import Action, AddTo, AddValue, DiscardFrom, Increment, Item, Remove, Set, Value
from odm.immutable import field
from odm.protocol.apply_update import merged_item
from odm.protocol.limits import check_item
from odm.protocol.requests import Merge, Put

OLDEST = 0
"""The timestamp of cells that do not replace stored ones, in microseconds."""


class MergedPut(Put, kw_only=True):
    """A merge where an item is one document, which is read and written as a whole; a put if there is no item."""

    merge: Merge = field()

    @classmethod
    def of(cls, request: Merge) -> "MergedPut":
        """A merge as an operation."""
        return cls(request.key, request.marks, tag=request.tag, known=frozenset(), merge=request)

    @property
    def actions(self) -> tuple[Action, ...]:
        """The actions of the merge."""
        return self.merge.actions

    def over(self, item: Item | None) -> Item:
        after = merged_item(self.merge, item)
        check_item(after, self.key, {}, limits=self.merge.limits, local={})
        return after


def merging(request: Merge, form: Form, row_key: str, revision: str, now: int) -> tuple[Mutation, ...]:
    """The mutations of a merge.

    Args:
        request: the merge.
        form: the form of its table.
        row_key: the item's row key, for messages.
        revision: the id of the attempt.
        now: the cells' timestamp, in microseconds.

    Raises:
        BadValue: a name or value cannot be stored.
        ItemTooLarge: a cell is too large.
    """
    made: list[Mutation] = []
    for name, value in request.marks.items():
        made += attribute_cells(name, value, form, row_key, OLDEST)
    parts: dict[str, dict[str, Value] | frozenset[Value]] = {}
    for action in request.actions:
        made += _changed(action, form, row_key, now, parts)
    for name, members in parts.items():
        start, *cells = attribute_cells(name, members, form, row_key, now)
        made.append(start._replace(timestamp=OLDEST))
        for cell in cells:
            made += (DeleteColumn(cell.qualifier, cell.family), cell)
    made += bookkeeping(revision, None, now)
    placement = form.placement(request.marks.get(TAG))
    placed = made if placement.usual else placement.mutations(made)
    return tuple([_lasting(one, form, now) for one in placed] if form.aged_families else placed)


def _lasting(one: Mutation, form: Form, now: int) -> Mutation:
    """The mutation, if need be with a timestamp that its family keeps."""
    if isinstance(one, SetCell) and one.timestamp == OLDEST and one.family in form.aged_families:
        return one._replace(timestamp=now)
    return one


def _changed(
    action: Action, form: Form, row_key: str, now: int, parts: dict[str, dict[str, Value] | frozenset[Value]]
) -> Iterable[Mutation]:
    """The mutations of an action; members to write are added to ``parts``, by field in Columns."""
    name, *inner = action.path.segments
    assert isinstance(name, str)
    match action:
        case Set(_, value) if inner:
            _members(parts, name)[str(inner[0])] = value
            return ()
        case Remove() if inner:
            _members(parts, name)
            return (DeleteColumn(member_qualifier(name, str(inner[0]))),)
        case AddTo(_, members):
            parts[name] = members
            return ()
        case DiscardFrom(_, members):
            return [DeleteColumn(member_qualifier(name, set_member(member))) for member in sorted(members)]
        case Set(_, value):
            return (*attribute_gone(name, None, form), *attribute_cells(name, value, form, row_key, now))
        case Remove():
            return attribute_gone(name, None, form)
        case Increment(_, int(by)) | AddValue(_, by):  # the core lets only aggregates through
            return (AddToCell(qualifier(name), by, FAMILY),)
        case _:
            raise BadValue(f"{brief(action)} needs the stored item")


def _members(parts: dict[str, dict[str, Value] | frozenset[Value]], name: str) -> dict[str, Value]:
    """The members of a dict that are written so far."""
    members = parts.setdefault(name, {})
    assert isinstance(members, dict)
    return members
