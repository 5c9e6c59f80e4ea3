"""Evaluates a write on the item that was read: the write is refused, changes nothing, or changes the row. No I/O."""

from collections.abc import Mapping
from typing import Final, assert_never

from odm.backends.bigtable.cells import qualifier, write_counter
from odm.backends.bigtable.codec import Stored
from odm.backends.bigtable.filters import Filter, ValueIs, chain
from odm.backends.bigtable.form import Form
from odm.backends.bigtable.merges import MergedPut
from odm.backends.bigtable.native import COUNTERS, CheckAndMutateRow, Mutation, Steps
from odm.backends.bigtable.retry import until_answered
from odm.backends.bigtable.verbatim import stored_key
from odm.backends.bigtable.writer import Writer
from odm.codec import TAG
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Action, Item, Remove, Set, paths
from odm.expressions.nodes import Increment as IncrementAction
from odm.immutable import Immutable
from odm.protocol.apply_update import apply_update
from odm.protocol.predicates import condition_of, is_own
from odm.protocol.requests import Check, Delete, Operation, Put, Refused, Update, Written
from odm.schema.entity import Key


class Guards(Immutable):
    """The checks of counters on which a write depends.

    Attributes:
        filters: each returns a cell if its counter is unchanged since the read.
        unset: calls that create missing counters before the write, because a predicate cannot check that one cell is
            missing and another exists.
    """

    filters: tuple[Filter, ...] = ()
    unset: tuple[CheckAndMutateRow, ...] = ()


NO_GUARDS: Final = Guards()


def set_up(writer: Writer, guards: Guards) -> Steps[None]:
    """Create the missing counters that a write checks; their values stay the same.

    If the item is deleted in between, a counter remains in a row without an item. It does no harm: the row has no tag,
    so no read takes it for an item; an increment without an item does not change it; and the next item in this row
    replaces it. The row has no marks, so a scrub cannot distinguish the counter from another program's cell, and does
    not remove it.
    """
    for call in guards.unset:
        yield from until_answered(call, writer.retry)


def guards(writer: Writer, request: Operation, row_key: str, before: Stored | None) -> Guards:
    """The checks of counters for a write that was evaluated on the item ``before``."""
    if before is None:
        return NO_GUARDS
    columns = zip(before.row.columns, before.row.values, strict=True)
    found = {column.decode(): cell for (family, column), cell in columns if family == COUNTERS}
    unset: list[CheckAndMutateRow] = []
    wanted = dict.fromkeys(found) if isinstance(request, Update) and request.returning != "none" else {}
    for name, start in _named(request, before).items():
        column = qualifier(name)
        if column not in found and writer.form.kind(name) == "counter":
            found[column] = write_counter(start)
            made = writer.places.counted(row_key, column, found[column], writer.now())
            row, held = writer.places.row(row_key), writer.places.counter(row_key, column)
            unset.append(CheckAndMutateRow(writer.table, row, held, unmatched=(made,)))
        if column in found:
            wanted[column] = None
    if not writer.places.tagged:
        unset += writer.places.starts(row_key, before, request)
    if not wanted and not unset:
        return NO_GUARDS
    same = (chain(writer.places.counter(row_key, column), ValueIs(found[column])) for column in wanted)
    return Guards(tuple(same), tuple(unset))


def _named(request: Operation, before: Stored) -> dict[str, int]:
    """The attributes on whose values the write depends, and the value of each while its counter is missing.

    A missing counter may still have a number in a plain cell, from before it was a Counter; the two are added.
    """
    named = {} if request.condition is None else dict.fromkeys((path.root for path in paths(request.condition)), 0)
    if isinstance(request, Update | MergedPut):
        for action in request.actions:
            if isinstance(action, IncrementAction) and action.path.root not in before.item:
                named[action.path.root] = int(action.start)
            elif not isinstance(action, Set | Remove):
                named.setdefault(action.path.root, 0)
    return named


_WRITTEN: Final = Written()


class RowChange(Immutable):
    """The change of one item's row, without its revision and list of index entries.

    Attributes:
        entries: the item's keys in its indexes after the change, by index.
        item: the new item; None: the item is updated or removed.
        mutations: those of the attributes that an update changes; empty if the item is replaced or removed.
        removed: the item is removed.
        guards: the counters that must be unchanged since the read, in addition to the revision.
        answer: the answer to the request when the change is applied.
    """

    entries: Mapping[str, Key]
    item: Item | None = None
    mutations: tuple[Mutation, ...] = ()
    removed: bool = False
    guards: Guards = NO_GUARDS
    answer: Written = _WRITTEN


def evaluate(writer: Writer, request: Operation, row_key: str, before: Stored | None) -> RowChange | Written | Refused:
    """The change that a request makes to the item that was read, or the answer if nothing changes.

    Args:
        writer: the writer of the table.
        request: the write.
        row_key: the item's row key.
        before: the item that was read; None if there was no item.

    Raises:
        BadValue: an action does not fit the item.
        ItemInvalid: the condition or an action needs a cell that its encoding cannot read.
        ItemTooLarge: the resulting item is too large.
    """
    item = None if before is None else before.item
    if item is not None and request.tag not in (None, item.get(TAG)):
        return Refused(item)
    form = writer.form
    if (
        before is not None
        and form.encodes
        and (misread := form.misread(before.row))
        and misread & _needed(request, form)
    ):
        writer.schema.decode(before.item, stored_key(writer.schema, request.key))  # raises ItemInvalid
    if isinstance(request, Update) and not is_own(request, item):
        return Refused(item)
    if request.condition is not None and not holds(request.condition, item):
        return Refused(item)
    match request:
        case Check():
            return Written()
        case MergedPut() if before is not None:
            return _merged(writer, request, row_key, before)
        case Put():
            whole = type(request) is Put and request.known is None
            after = request.item if whole else request.over(item)
            return RowChange(request.entries, after, guards=guards(writer, request, row_key, before))
        case Delete():
            if before is None:
                return Written(existed=False)
            return RowChange(removed=True, entries={}, guards=guards(writer, request, row_key, before))
        case Update():
            return Refused(None) if before is None else _updated(writer, request, row_key, before)
        case _:
            assert_never(request)


def _needed(request: Operation, form: Form) -> frozenset[str]:
    """The attributes whose values decide what a write does, or of which it changes a part."""
    roots = {path.root for path in paths(condition_of(request))}
    if isinstance(request, Update):
        roots |= {action.path.root for action in request.actions if not _replaces(action, form)}
    return frozenset(roots)


def _replaces(action: Action, form: Form) -> bool:
    """Whether an action writes or removes all of its cell, whatever it holds."""
    whole = 2 if form.kind(action.path.root) == "columns" else 1
    return isinstance(action, Set | Remove) and len(action.path.segments) <= whole


def _listed(before: Stored) -> dict[str, Key]:
    return {entry.index: entry.key for entry in before.entries}


def _merged(writer: Writer, request: MergedPut, row_key: str, before: Stored) -> RowChange:
    changed = [action.path for action in request.actions]
    return RowChange(
        mutations=writer.places.updated(row_key, changed, before, request.over(before.item), writer.now()),
        entries=_listed(before),
        guards=guards(writer, request, row_key, before),
    )


def _updated(writer: Writer, request: Update, row_key: str, before: Stored) -> RowChange:
    after, entries = apply_update(request, before.item, _listed(before), writer.local)
    added = {one.path.root: made for one in request.actions if (made := writer.places.added(one, before)) is not None}
    changed = [action.path for action in request.actions if action.path.root not in added]
    returned = {"none": None, "old": before.item, "new": after}[request.returning]
    return RowChange(
        mutations=(*writer.places.updated(row_key, changed, before, after, writer.now()), *added.values()),
        entries=entries,
        guards=guards(writer, request, row_key, before),
        answer=Written(returned),
    )
