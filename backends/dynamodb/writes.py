"""Put, Update, Merge and Delete of one item, and their arguments, which transactions use too."""

from collections.abc import Mapping, Sequence
from functools import lru_cache
from random import SystemRandom
from typing import Any, Final, TypeAlias

from odm.backends.dynamodb.client.errors import CONDITION_FAILED, code_of, is_without_parent
from odm.backends.dynamodb.client.native import Call, Steps
from odm.backends.dynamodb.expressions import Expressions
from odm.backends.dynamodb.items.attributes import Attribute
from odm.backends.dynamodb.items.codec import put_values, read_item, write_key, write_put
from odm.backends.dynamodb.items.described import WriteConditions
from odm.backends.dynamodb.items.layout import Layout
from odm.codec import TAG
from odm.errors import BadValue
from odm.expressions.evaluate import holds
from odm.expressions.nodes import (
    Action,
    AddValue,
    Condition,
    Increment,
    Item,
    Not,
    Or,
    Path,
    Remove,
    Set,
    SetIfMissing,
    Value,
    paths,
)
from odm.immutable import evolve
from odm.protocol.apply_update import as_sets, rounds
from odm.protocol.contention import Contention
from odm.protocol.predicates import EXISTS, condition_of, every, guarded, has_tag, over_own
from odm.protocol.requests import Check, Delete, Merge, Put, Refused, Update, Written, repeatable
from odm.schema.entity import Key

Arguments: TypeAlias = dict[str, Any]
"""The arguments of a native request, by name."""

_Part: TypeAlias = tuple[tuple[Action, ...], tuple[Action, ...]]
"""A part of a merge: its actions, and those on aggregates."""

_RANDOM: Final = SystemRandom()

_ALWAYS: Final = Or((EXISTS, Not(EXISTS)))
"""A condition that always holds, because a ConditionCheck must have one."""


def put(layout: Layout, request: Put) -> Steps[Written | Refused]:
    """Write a whole item."""
    if request.known is not None:
        call = Call("update_item", merge_arguments(layout, request), once=not repeatable(request))
    else:
        call = Call("put_item", put_arguments(layout, request), once=not repeatable(request))
    response = yield from _write(layout, call)
    return response if isinstance(response, Refused) else Written()


def update(layout: Layout, request: Update) -> Steps[Written | Refused]:
    """Change attributes of an item."""
    arguments = update_arguments(layout, request)
    if request.returning != "none":
        arguments["ReturnValues"] = f"ALL_{request.returning.upper()}"
    response = yield from _write(layout, Call("update_item", arguments, once=True))
    if isinstance(response, Refused):
        return response
    return Written(read_item(layout, response["Attributes"]) if "Attributes" in response else None)


def delete(layout: Layout, request: Delete) -> Steps[Written | Refused]:
    """Remove an item."""
    arguments = item_arguments(layout, request)
    arguments["ReturnValues"] = "ALL_OLD"  # shows whether the item existed
    response = yield from _write(layout, Call("delete_item", arguments, once=True))
    return response if isinstance(response, Refused) else Written(existed="Attributes" in response)


def merge(layout: Layout, request: Merge) -> Steps[Written | Refused]:
    """Write parts of an item in one request, which is retried if it is idempotent.

    DynamoDB cannot keep the least or the greatest value. So a value is set on the condition that the stored one is
    greater or lesser; otherwise DynamoDB returns the item, and the next request is made for this item.

    Raises:
        Conflict: other writers kept changing the aggregates of the item.
    """
    if not any(isinstance(action, AddValue) for action in request.actions):
        return (yield from _merged(layout, request))
    item: Item | None = None
    contention: Contention | None = None
    known = False
    while True:
        actions, guards = as_sets(request.actions, item)
        answer = yield from _merged(layout, evolve(request, actions=actions), every(*guards))
        if isinstance(answer, Written) or (answer.item is not None and request.tag not in (None, answer.item.get(TAG))):
            return answer
        item = answer.item
        if known:  # another writer was faster; the first request only learns what is stored
            contention = contention or Contention(1)
            contention.tries += 1
            if contention.over:
                raise contention.conflict(f"table {layout.table!r}: the item {request.key}")
            yield contention.pause(_RANDOM)
        known = True


def _merged(layout: Layout, request: Merge, condition: Condition | None = None) -> Steps[Written | Refused]:
    """A merge without `AddValue`, in one request if it can be.

    If a dict of which it writes a member does not exist, DynamoDB refuses the path. Then the dict is created first,
    with all whole attributes that the merge writes, so that no reader sees a new item without its required fields.
    Several merges of a batch that exceed the limits of an expression together are divided. The aggregates are in the
    last request, with the condition: if an earlier one fails, nothing was added.
    """
    judged = set(paths(condition))
    added = tuple(action for action in request.actions if isinstance(action, Increment) or action.path in judged)
    others = sorted((action for action in request.actions if action not in added), key=_is_member)
    *first, last = rounds(evolve(request, actions=tuple(others)))
    left: list[_Part] = [*((actions, ()) for actions in first), (last, added)]
    while left:
        part = left.pop(0)
        actions = [*part[0], *part[1]]
        try:
            call = _merge_call(layout, request, actions, condition if part[1] else None)
        except BadValue:
            if not (parts := _divided(*part)):
                raise
            left[:0] = parts
            continue
        answer = yield from _sent(layout, request, call, part)
        if isinstance(answer, Refused):
            return answer
    return Written()


def _is_member(action: Action) -> bool:
    return len(action.path.segments) > 1


def _divided(actions: tuple[Action, ...], added: tuple[Action, ...]) -> list[_Part]:
    """Smaller parts in place of one that is too large; empty if there are none."""
    if added:
        return [(actions, ()), ((), added)] if actions else []
    half = len(actions) // 2
    return [(actions[:half], ()), (actions[half:], ())] if half else []


def _sent(layout: Layout, request: Merge, call: Call, part: _Part) -> Steps[Any]:
    """The response to a part of a merge, or Refused."""
    try:
        return (yield from _write(layout, call))
    except Exception as error:
        if not is_without_parent(error):
            raise
    answer = yield from _write(layout, _merge_call(layout, request, _parents(*part)))
    return answer if isinstance(answer, Refused) else (yield from _write(layout, call))


def _merge_call(layout: Layout, request: Merge, actions: Sequence[Action], condition: Condition | None = None) -> Call:
    """The request for some actions of a merge, with the marks of a new item."""
    # Sent again after a lost response, an increment could count twice.
    once = any(isinstance(action, Increment) for action in actions)
    marks: Mapping[str, Value] = request.marks
    if layout.described is not None:
        marks = layout.described.values(Put(request.key, marks))
        actions = layout.described.actions(Update(request.key, tuple(actions)))
    new = [SetIfMissing(Path((name,)), value) for name, value in marks.items() if name not in layout.keys]
    expressions = _expressions(layout)
    arguments: Arguments = {"TableName": layout.table, "Key": write_key(layout, layout.keys, request.key)}
    if text := expressions.update([*new, *actions]):
        arguments["UpdateExpression"] = text
    if request.tag is not None:
        # A condition on aggregates that hold something needs an item.
        present = condition is not None and not holds(condition, None)
        condition = every(has_tag(request.tag) if present else over_own(request.tag), condition)
    arguments |= _conditioned(layout, expressions, condition, request.key) | expressions.arguments()
    return Call("update_item", arguments, once=once)


def _parents(actions: tuple[Action, ...], added: tuple[Action, ...]) -> list[Action]:
    """The actions on whole attributes, and those that create the dicts of which others write members."""
    whole = [action for action in actions if not _is_member(action)]
    roots = dict.fromkeys(action.path.root for action in actions if _is_member(action))
    sums = (SetIfMissing(action.path, 0) for action in added if isinstance(action, Increment))
    return [*whole, *(SetIfMissing(Path((root,)), {}) for root in roots), *sums]


def put_arguments(layout: Layout, request: Put) -> Arguments:
    """The arguments of a put, alone or in a transaction."""
    arguments: Arguments = {"TableName": layout.table, "Item": write_put(layout, request)}
    if request.condition is None and request.tag is not None and layout.described is None:
        return arguments | _over_own(layout.keys[0], request.tag)
    condition = guarded(request)
    if condition is None:
        return arguments
    expressions = _expressions(layout)
    return arguments | _conditioned(layout, expressions, condition, request.key) | expressions.arguments()


def _over_own(key: str, tag: str) -> Arguments:
    """The arguments for the condition of a write of any item of its entity; they share nothing."""
    condition, names, values = _over_own_expression(key, tag)
    arguments = {"ConditionExpression": condition, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}
    there = {alias: {**value} for alias, value in values.items()}
    return arguments | {"ExpressionAttributeNames": {**names}, "ExpressionAttributeValues": there}


@lru_cache(maxsize=1024)  # most puts have it, and it depends on nothing else
def _over_own_expression(key: str, tag: str) -> tuple[str, Mapping[str, str], Mapping[str, Attribute]]:
    expressions = Expressions(key)
    text = expressions.condition(over_own(tag))
    arguments = expressions.arguments()
    return text, arguments["ExpressionAttributeNames"], arguments["ExpressionAttributeValues"]


def merge_arguments(layout: Layout, request: Put) -> Arguments:
    """The arguments of the update that replaces the attributes of a put which the models know."""
    values = put_values(layout, request)
    known = request.known or frozenset()
    described = layout.described
    known = known.union(*layout.indexes.values()) if described is None else described.known(request)
    there = sorted(name for name in values if name not in layout.keys)
    gone = sorted(known - values.keys() - {*layout.keys})
    expressions = _expressions(layout)
    arguments: Arguments = {"TableName": layout.table, "Key": write_key(layout, layout.keys, request.key)}
    sets: list[Action] = [Set(Path((name,)), values[name]) for name in there]
    if text := expressions.update([*sets, *(Remove(Path((name,))) for name in gone)]):
        arguments["UpdateExpression"] = text
    return arguments | _conditioned(layout, expressions, guarded(request), request.key) | expressions.arguments()


def update_arguments(layout: Layout, request: Update) -> Arguments:
    """The arguments of an update, alone or in a transaction."""
    expressions = _expressions(layout)
    arguments: Arguments = {"TableName": layout.table, "Key": write_key(layout, layout.keys, request.key)}
    if layout.described is None:
        actions: Sequence[Action] = (*request.actions, *_entry_actions(layout, request))
    else:
        actions = layout.described.actions(request)
    if text := expressions.update(actions):
        arguments["UpdateExpression"] = text
    return arguments | _conditioned(layout, expressions, condition_of(request), request.key) | expressions.arguments()


def item_arguments(layout: Layout, request: Delete | Check) -> Arguments:
    """The arguments of a delete, alone or in a transaction, and of a condition check."""
    arguments: Arguments = {"TableName": layout.table, "Key": write_key(layout, layout.keys, request.key)}
    if request.condition is None and request.tag is not None and layout.described is None:
        return arguments | _over_own(layout.keys[0], request.tag)
    expressions = _expressions(layout)
    condition = guarded(request)
    if condition is None and isinstance(request, Check):
        condition = _ALWAYS
    return arguments | _conditioned(layout, expressions, condition, request.key) | expressions.arguments()


def refused(layout: Layout, reason: Mapping[str, Any]) -> Refused:
    """The refusal of a write whose condition failed, with the item if the response contains it."""
    item = reason.get("Item")
    return Refused(read_item(layout, item) if item else None)


def _expressions(layout: Layout) -> Expressions:
    """The expressions of a write."""
    return Expressions(layout.keys[0] if layout.described is None else None)


def _conditioned(layout: Layout, expressions: Expressions, condition: Condition | None, key: Key) -> Arguments:
    if condition is None:
        return {}
    if layout.described is None:
        text = expressions.condition(condition)
    else:
        text = expressions.condition(WriteConditions(layout.described, key).translated(condition))
    return {"ConditionExpression": text, "ReturnValuesOnConditionCheckFailure": "ALL_OLD"}


def _write(layout: Layout, call: Call) -> Steps[Any]:
    """Perform a write that may have a condition: the native response, or Refused."""
    try:
        return (yield call)
    except Exception as error:
        if code_of(error) != CONDITION_FAILED:
            raise
        return refused(layout, getattr(error, "response", {}))


def _entry_actions(layout: Layout, request: Update) -> list[Action]:
    """The actions on index key attributes; an item leaves an index when both are removed."""
    actions: list[Action] = []
    for index, key in request.entries.items():
        for name, text in zip(layout.indexes[index], key or Key("", ""), strict=True):
            path = Path((name,))
            if name not in layout.keys:  # the partition key of a local index is that of the table
                actions.append(Set(path, text) if key is not None else Remove(path))
    return actions
