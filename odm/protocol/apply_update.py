"""Applies an update or a merge to an item, for the backends that compute the new item or a part of it themselves."""

from collections.abc import Mapping, Sequence

from odm.codec import TAG
from odm.errors import BadValue
from odm.expressions.evaluate import apply
from odm.expressions.nodes import (
    Action,
    AddTo,
    AddValue,
    Comparator,
    Compare,
    Condition,
    Const,
    DiscardFrom,
    Item,
    Missing,
    Or,
    Set,
    Value,
)
from odm.protocol.limits import Local, check_item
from odm.protocol.predicates import equals
from odm.protocol.requests import Merge, Update
from odm.schema.entity import Key


def apply_update(
    request: Update, before: Item | None, entries: Mapping[str, Key], local: Local
) -> tuple[dict[str, Value], Mapping[str, Key]]:
    """The item after the update, and its index keys.

    Args:
        request: the update; its condition was evaluated already.
        before: the stored item; None if it is absent.
        entries: its stored index keys.
        local: the local indexes, see `odm.protocol.limits.check_item`.

    Raises:
        BadValue: an action does not fit the stored item.
        ItemTooLarge: the new item is too large.
    """
    after, kept = new_item(request, before), new_entries(request, entries)
    # The size of the new item is not known before.
    check_item(after, request.key, kept, limits=request.limits, local=local)
    return after, kept


def new_item(request: Update, before: Item | None) -> dict[str, Value]:
    """The item of `apply_update`, of any size.

    Raises:
        BadValue: an action does not fit the stored item.
    """
    try:
        return apply(request.actions, before or {})
    except BadValue as error:
        raise BadValue(f"the {(before or {}).get(TAG, 'item')} under {request.key}: {error}") from error


def new_entries(request: Update, entries: Mapping[str, Key]) -> Mapping[str, Key]:
    """The index keys of `apply_update`."""
    if not request.entries:
        return entries
    keys = {**entries, **request.entries}
    return {index: index_key for index, index_key in keys.items() if index_key is not None}


def merged_item(request: Merge, before: Item | None) -> dict[str, Value]:
    """The item after a merge, of any size.

    Args:
        request: the merge.
        before: the stored item; None if it is absent.

    Raises:
        BadValue: an action does not fit the stored item.
    """
    item: dict[str, Value] = {**request.marks, **(before or {})}
    for action in request.actions:
        if len(action.path.segments) > 1:
            item.setdefault(action.path.root, {})
    try:
        for actions in rounds(request):
            item = apply(actions, item)
    except BadValue as error:
        raise BadValue(f"the {item.get(TAG, 'item')} under {request.key}: {error}") from error
    return item


def rounds(request: Merge) -> tuple[tuple[Action, ...], ...]:
    """The actions of a merge in steps, none of which adds to and discards from the same set."""
    added = {action.path for action in request.actions if isinstance(action, AddTo)}
    last = [isinstance(action, DiscardFrom) and action.path in added for action in request.actions]
    if not any(last):
        return (request.actions,)
    steps = (
        [action for action, is_last in zip(request.actions, last, strict=True) if is_last is late]
        for late in (False, True)
    )
    return tuple(map(tuple, steps))


def as_sets(actions: Sequence[Action], item: Item | None) -> tuple[tuple[Action, ...], list[Condition]]:
    """The actions with a Set for each AddValue, and the conditions under which they have the same effect.

    Args:
        actions: the actions, lowered.
        item: the stored item; None: it was not read, so each value is assumed to remain.
    """
    sets: list[Action] = []
    guards: list[Condition] = []
    for action in actions:
        if not isinstance(action, AddValue):
            sets.append(action)
            continue
        path, name = action.path, action.path.root
        if item is None:
            sets.append(Set(path, action.value))
            op: Comparator = ">" if action.keeps == "min" else "<"
            guards.append(Or((Missing(path), Compare(op, path, Const(action.value)))))
        else:
            sets.append(Set(path, apply([action], item)[name]))
            guards.append(equals(name, item))
    return tuple(sets), guards
