"""Actions as mutations that need no read, and as increments by the server.

An action on a field in Columns may require that the members are in columns of their own; see `Blind`.
"""

from collections.abc import Iterable, Iterator, Sequence

from odm.backends.bigtable.cells import EMPTY_MAP, EMPTY_SET, INT64, member_qualifier, qualifier, set_member
from odm.backends.bigtable.codec import attribute_cells, attribute_gone
from odm.backends.bigtable.expressions import Unsayable, holds_other, without
from odm.backends.bigtable.filters import (
    Filter,
    ValueIs,
    chain,
    newest,
)
from odm.backends.bigtable.form import Form
from odm.backends.bigtable.native import FAMILY, AddToCell, DeleteColumn, Increment, Mutation, SetCell
from odm.backends.bigtable.placement import Placement, Spot
from odm.codec import WAS
from odm.errors import BadValue
from odm.expressions import nodes
from odm.expressions.evaluate import apply
from odm.expressions.nodes import (
    Action,
    AddTo,
    AddValue,
    And,
    Compare,
    Condition,
    Const,
    DiscardFrom,
    Item,
    Missing,
    Or,
    Path,
    Remove,
    Set,
    Value,
)
from odm.immutable import frozen


@frozen
class Blind:
    """Actions as mutations that do not depend on the content of the row.

    Attributes:
        mutations: the mutations.
        requires: filters that return at most one cell each. If one returns none, the mutations are not valid: the item
            must be read, and the actions applied to it.
    """

    mutations: tuple[Mutation, ...]
    requires: tuple[Filter, ...] = ()


def settled(actions: Sequence[Action], condition: Condition | None) -> tuple[Action, ...]:
    """The actions, computed if the condition fixes the value of the attribute: ``n + 1`` becomes a set of its result.

    So an update that checks and increments its item's Revision is one call.
    """
    parts = condition.conditions if isinstance(condition, And) else (condition,)
    known: dict[str, Value] = {}
    for part in parts:
        match part:
            case Compare("=", Path((str(name),)), Const(value)):
                known[name] = value
            case Or((Compare("=", Path((str(name),)), Const(value)), Missing(Path((other,))))) if (
                name == other and _starts_from(actions, name) == value
            ):  # absent, the attribute counts as that value for the action too
                known[name] = value
    return tuple(_settled(action, known) for action in actions)


def blind(actions: Sequence[Action], form: Form, now: int, row_key: str = "", tag: Value = None) -> Blind | None:
    """Actions that need no read: on whole attributes, and on single members of Columns. None if one needs a read.

    Args:
        actions: the actions, lowered; the condition must check that the item exists.
        form: the form of the table.
        now: the cells' timestamp, in microseconds.
        row_key: for messages.
        tag: the tag of the item.

    Raises:
        BadValue: a name or value cannot be stored.
        ItemTooLarge: a cell is too large.
    """
    placement = form.placement(tag)
    mutations: list[Mutation] = []
    requires: dict[Filter, None] = {}
    for action in actions:
        try:
            done = _blind(action, form, now, row_key, placement)
        except Unsayable:
            return None
        if done is None:
            return None
        mutations.extend(placement.mutations(done.mutations))
        requires.update(dict.fromkeys(map(placement.filter, done.requires)))
    return Blind(tuple(mutations), tuple(requires))


def increments(actions: Sequence[Action], form: Form) -> tuple[Increment, ...] | None:
    """The actions as increments of counters by the server; None if there are other actions."""
    rules: list[Increment] = []
    for action in actions:
        match action:
            case nodes.Increment(Path((str(name),)), int(by), start=0) if (
                form.kind(name) == "counter" and abs(by) in INT64
            ):
                rules.append(Increment(qualifier(name), by))  # both by and -by fit, because it may be reverted
            case _:
                return None
    return tuple(rules)


def _all_in_columns(name: str, marker: bytes, placement: Placement) -> Filter:
    """Returns a cell if there is an item, and no member of its attribute in Columns is in the plain cell."""
    return without(holds_other(qualifier(name), marker), placement)


def _starts_from(actions: Iterable[Action], name: str) -> Value:
    """The number that an increment of the attribute starts from if it is absent; None if no action increments it."""
    return next((a.start for a in actions if isinstance(a, nodes.Increment) and a.path.segments == (name,)), None)


def _settled(action: Action, known: Item) -> Action:
    name = action.path.root
    if isinstance(action, Set | Remove) or len(action.path.segments) > 1 or name not in known:
        return action
    try:
        after = apply((action,), {name: known[name]})
    except BadValue:  # if the condition holds, evaluating the action on the item raises this error
        return action
    return Set(action.path, after[name]) if name in after else Remove(action.path)


def _blind(action: Action, form: Form, now: int, row_key: str, placement: Placement) -> Blind | None:
    """One action, if it needs no read."""
    name = action.path.root
    if name in form.disputed or name == WAS:
        return None
    kind = form.kind(name)
    if (added := added_to(action, placement.spots.get(name))) is not None:
        return Blind((added,))
    match action:
        case Set(Path((_,)), value) if kind != "columns":
            made = attribute_cells(name, value, form, row_key, now)
            return Blind((*attribute_gone(name, None, form), *made))
        case Remove(Path((_,))) if kind != "columns":
            return Blind(attribute_gone(name, None, form))
        case Set(Path((_, str(key))), value) if kind == "columns":
            made = attribute_cells(name, {key: value}, form, row_key, now)
            return Blind(tuple(_rewritten(made[1:])), (_is_map(name),))
        case Remove(Path((_, str(key)))) if kind == "columns":
            return Blind((DeleteColumn(member_qualifier(name, key)),), (_is_map(name),))
        case AddTo(Path((_,)), members) if kind == "columns":
            made = attribute_cells(name, members, form, row_key, now)
            return Blind(tuple(_rewritten(made)), (_all_in_columns(name, EMPTY_SET, placement),))
        case DiscardFrom(Path((_,)), members) if kind == "columns":
            gone = tuple(DeleteColumn(member_qualifier(name, set_member(member))) for member in sorted(members))
            return Blind(gone, (_all_in_columns(name, EMPTY_SET, placement),))
        case _:
            return None


def added_to(action: Action, spot: Spot | None) -> AddToCell | None:
    """The mutation that adds a value to an aggregate, if the action does that."""
    match action:
        case nodes.Increment(Path((str(name),)), int(by), start=0) if spot is not None and spot.own == "sum":
            return AddToCell(qualifier(name), by, FAMILY) if by in INT64 else None
        case AddValue(Path((str(name),)), value, keeps) if spot is not None and spot.own == keeps:
            return AddToCell(qualifier(name), value, FAMILY)
        case _:
            return None


def _rewritten(cells: Iterable[SetCell]) -> Iterator[Mutation]:
    """Mutations that replace all versions of the cells by a new version."""
    for cell in cells:
        yield DeleteColumn(cell.qualifier)
        yield cell


def _is_map(name: str) -> Filter:
    """Returns a cell if the attribute in Columns is a map, and no member of it is in the plain cell."""
    return chain(newest(FAMILY, qualifier(name)), ValueIs(EMPTY_MAP))
