"""Merges: plain mutations of single cells, without a read and without a condition.

They need no transaction of a row, so an app profile with multi-cluster routing allows them. Each cell is deleted and
set with an explicit timestamp in one mutation of the row: it is idempotent, and a clock that is behind cannot make the
new value older than the stored one.

What only a new item needs is written with the timestamp 0: its tag, its key fields, and the plain cells that show that
a field in Columns is a dict or a set. Reads take the newest cell, so what is stored already stays. A deleted cell does
not hide a later write with an older timestamp (https://cloud.google.com/bigtable/docs/hbase-differences, "Deletes mask
puts").

The revision is new in each attempt, also in a retry of the same merge: otherwise an attempt whose response was lost
would set it back after another write, and a third writer that had read it before could overwrite that write.
"""

from collections.abc import Iterator

from odm.backends.bigtable.cells import member_qualifier, set_member
from odm.backends.bigtable.codec import attribute_cells, attribute_gone, bookkeeping
from odm.backends.bigtable.form import Form
from odm.backends.bigtable.native import DeleteColumn, Mutation
from odm.errors import BadValue
from odm.expressions.nodes import Action, AddTo, DiscardFrom, Path, Remove, Set, Value
from odm.protocol.requests import Merge

OLDEST = 0
"""The timestamp of cells that do not replace stored ones, in microseconds."""


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
    started: set[str] = set()
    for action in request.actions:
        start = _start(action)
        if start is not None and action.path.root not in started:
            started.add(action.path.root)
            made += attribute_cells(action.path.root, start, form, row_key, OLDEST)
        made += _changed(action, form, row_key, now)
    return (*made, *bookkeeping(revision, None, now))


def _start(action: Action) -> Value:
    """The value without members of the field in Columns that the action changes; None: it needs none."""
    if len(action.path.segments) > 1:
        return {}
    return frozenset[Value]() if isinstance(action, AddTo) else None


def _changed(action: Action, form: Form, row_key: str, now: int) -> Iterator[Mutation]:
    """The mutations of an action, without the start of its field."""
    name = action.path.root
    match action:
        case Set(Path((_,)), value):
            yield from attribute_gone(name, None, form)
            yield from attribute_cells(name, value, form, row_key, now)
        case Remove(Path((_,))):
            yield from attribute_gone(name, None, form)
        case Set(Path((_, str(key))), value):
            (_, cell) = attribute_cells(name, {key: value}, form, row_key, now)
            yield DeleteColumn(cell.qualifier)
            yield cell
        case Remove(Path((_, str(key)))):
            yield DeleteColumn(member_qualifier(name, key))
        case AddTo(_, members):
            yield from attribute_cells(name, members, form, row_key, now)[1:]
        case DiscardFrom(_, members):
            yield from (DeleteColumn(member_qualifier(name, set_member(member))) for member in sorted(members))
        case _:
            raise BadValue(f"{action!r} needs the stored item")
