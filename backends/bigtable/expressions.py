"""Conditions as predicates of one CheckAndMutateRow, and actions as mutations that need no read.

No filter returns a cell of a missing row. So a condition that is false for a missing item becomes a predicate without
change, and the write goes into the matched mutations. A condition that is true for a missing item is negated, and the
write goes into the unmatched mutations. For a row without an item (``_t`` is missing or empty), every filter made here
returns no cell.

**How filters express conditions.** A condition holds if its filter returns a cell. ``a and b``: take the first cell of
each filter, and check that there are two. ``a or b``: the cells of both. ``not a``: the cells of ``a`` and ``~r``, if
the first is ``~r``. Every item has ``~r``, and it sorts after the attributes (google.bigtable.v2, data.proto: the
results of an interleave are sorted, and columns of a family sort by qualifier). Bigtable's Condition filter could
express ``not`` too, but its documentation says that it is not atomic.

**Cells of other programs** may hold a value in a form that odm does not write: with an unneeded apostrophe, or ``-0``.
Such a cell never causes a write whose condition does not hold: a filter that must not miss a value covers every form.
Other filters cover only odm's forms, and a refused condition is evaluated again on the item that is read.

**In one call**: ``=``, ``<>`` and ``in`` with null, booleans, numbers, text and bytes; ``<``, ``<=``, ``>``, ``>=`` and
``between`` with numbers, text and bytes; ``starts_with``; exists and missing; a key of a map in Columns, and
``contains`` of a set in Columns; and combinations of these with ``and``, ``or`` and ``not``.

**Read first, evaluated here**: comparisons with another attribute, a size, a list, map or set; ``contains`` in text,
lists, and sets that are not in Columns; paths into plain attributes; counters, whose value may be in two cells;
attributes whose kind differs between entities of the table; names that sort after ``~r``, such as names that begin with
a non-ASCII letter; and conditions whose filter is larger than 20 KB.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeAlias, cast

from attrs import Factory, define, frozen

from odm.backends.bigtable.cell_ranges import Alternatives, Bound, Compares, Spelling, Usual
from odm.backends.bigtable.cells import EMPTY_MAP, EMPTY_SET, INT64, member_qualifier, qualifier, set_member
from odm.backends.bigtable.codec import LISTED, REVISION, TAG, attribute_cells, attribute_gone
from odm.backends.bigtable.filters import (
    Chain,
    Column,
    ColumnRange,
    Filter,
    First,
    Interleave,
    Newest,
    Nothing,
    ValueIs,
    ValueRange,
    chain,
    chained,
    fits,
    interleave,
    newest,
)
from odm.backends.bigtable.form import Form
from odm.backends.bigtable.native import FAMILY, AddToCell, DeleteColumn, Increment, Mutation, SetCell
from odm.backends.bigtable.placement import USUAL, Placement, Spot
from odm.codec import WAS
from odm.errors import BadValue
from odm.expressions import nodes
from odm.expressions.evaluate import apply, holds, kind_of
from odm.expressions.nodes import (
    Action,
    AddTo,
    AddValue,
    And,
    AnyCondition,
    Between,
    Comparator,
    Compare,
    Condition,
    Const,
    Contains,
    DiscardFrom,
    Exists,
    IsIn,
    Item,
    Missing,
    Not,
    Operand,
    Or,
    Path,
    Remove,
    Set,
    StartsWith,
    Value,
    paths,
)

_HERE: Final = Exists(Path((TAG,)))
_FLIPPED: Final[dict[Comparator, Comparator]] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

_Leaf: TypeAlias = Compare | Between | IsIn | StartsWith | Contains | Exists


@frozen
class Predicate:
    """A condition as a row filter.

    A field in Columns may also have members in its plain cell, from before it was in Columns. Then the predicate cannot
    evaluate the condition and refuses the write. So after a refusal, evaluate the condition on the item that is read.

    Attributes:
        filter: the predicate.
        holds: True: the condition holds if, and only if, the filter returns a cell; False: if it returns none.
    """

    filter: Filter
    holds: bool


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


def there() -> Filter:
    """Returns a cell if the row holds an item."""
    return chain(newest(FAMILY, TAG), ValueRange(open=True))


def revision_is(attempt: str) -> Filter:
    """Returns a cell if the row has this revision."""
    return chain(newest(FAMILY, REVISION), ValueIs(attempt.encode()))


def predicate(condition: Condition | None, form: Form, tag: Value = None) -> Predicate | None:
    """The predicate of a condition, or None if the item must be read to evaluate it.

    Args:
        condition: the condition, lowered; None always holds.
        form: the form of the table.
        tag: the tag of the item that is written, which decides where its cells stand.
    """
    if condition is None:
        return Predicate(Nothing(), holds=False)
    of_none = holds(condition, None)
    placement = form.placement(tag)
    filters = _Filters(form, refuses=of_none, placement=placement)
    try:
        said = filters.of(_normal(condition, wanted=not of_none))
        if of_none:
            said = interleave(said, *filters.elsewhere)
        elif filters.elsewhere:
            said = chained(said, _without(interleave(*filters.elsewhere), placement))
    except _Unsayable:
        return None
    said = placement.filter(said)
    return Predicate(said, not of_none) if fits(said) else None


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
        except _Unsayable:
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


class _Unsayable(Exception):
    """No filter can express the condition."""


def _normal(condition: Condition, *, wanted: bool) -> Condition:
    """The condition, or its negation, with every `Not` at a single test."""
    node = cast("AnyCondition", condition)
    match node:
        case And() | Or():
            kind = And if isinstance(node, And) is wanted else Or
            parts = (_normal(part, wanted=wanted) for part in node.conditions)
            return kind(tuple(one for part in parts for one in (part.conditions if type(part) is kind else (part,))))
        case Not(inner):
            return _normal(inner, wanted=not wanted)
        case Missing(path):
            return _normal(Exists(path), wanted=not wanted)
        case Compare("<>", left, right):
            return _normal(Compare("=", left, right), wanted=not wanted)
        case Between(operand, low, high) if not _constants(low, high):
            return _normal(And((Compare("<=", low, operand), Compare("<=", operand, high))), wanted=wanted)
        case _:
            return node if wanted else Not(node)


def _constants(*operands: Operand) -> bool:
    return all(isinstance(operand, Const) for operand in operands)


@define
class _Filters:
    """Builds the filters of one condition.

    Attributes:
        form: the form of the table.
        refuses: True: the write is refused if the filter returns a cell.
        placement: where the cells stand; the filters made here are for the usual form.
        elsewhere: each of these returns a cell if an attribute in Columns has members in its plain cell, so that the
            filters cannot evaluate the condition.
    """

    form: Form
    refuses: bool
    placement: Placement = USUAL
    elsewhere: dict[Filter, None] = Factory(dict)

    def of(self, condition: Condition) -> Filter:
        """The filter of a condition in its normal form; it also checks that there is an item."""
        match condition:
            case And(conditions):
                return self._all(conditions)
            case Or(conditions):
                return self._any(conditions)
            case _:
                return self._all((condition,))

    def _all(self, conditions: Iterable[Condition]) -> Filter:
        """All of the conditions. Each filter also checks that there is an item, so that condition is omitted."""
        asked = [condition for condition in conditions if condition != _HERE]
        parts, lacking = self._parts(asked)
        if lacking:
            parts.append(_without(interleave(*lacking), self.placement))
        return chained(*parts) if parts else there()

    def _any(self, conditions: Iterable[Condition]) -> Filter:
        asked = [condition for condition in conditions if condition != Not(_HERE)]
        parts, lacking = self._parts(asked)
        if lacking:
            parts.append(_without(chained(*lacking), self.placement))
        return interleave(*parts) if parts else Nothing()

    def _parts(self, asked: Iterable[Condition]) -> tuple[list[Filter], list[Filter]]:
        """The filters of the conditions; the second list has, for each negated test, the filter of the test itself."""
        parts: list[Filter] = []
        lacking: list[Filter] = []
        for condition in asked:
            if isinstance(condition, Not):
                lacking.append(self._test(cast("_Leaf", condition.condition), every=not self.refuses))
            elif isinstance(condition, And | Or):
                parts.append(self.of(condition))
            else:
                parts.append(self._test(cast("_Leaf", condition), every=self.refuses))
        return parts, lacking

    def _test(self, condition: _Leaf, *, every: bool) -> Filter:
        """The filter of a single test; ``every``: it must return a cell wherever the test holds."""
        if not any(paths(condition)):
            return there() if holds(condition, None) else Nothing()
        match condition:
            case Exists(Path((str(name),))) if self.form.kind(name) == "columns":
                return _exists_in_columns(qualifier(name))
            case Exists(path):
                return self._column(path)
            case Compare(op, Path() as path, Const(value)):
                return self._among(path, lambda form: form.compared(op, value), every=every)
            case Compare(op, Const(value), Path() as path):
                return self._among(path, lambda form: form.compared(_FLIPPED[op], value), every=every)
            case Between(Path() as path, Const(low), Const(high)):
                return self._among(path, lambda form: form.between(Bound(low), Bound(high)), every=every)
            case IsIn(Path() as path, choices):
                values = [choice.value for choice in choices]
                return self._among(path, lambda form: form.equal_to_one(values), every=every)
            case StartsWith(path, Const(prefix)):
                return self._among(path, lambda form: form.starting_with(prefix), every=every)
            case Contains(Path((str(name),)), Const(value)) if self.form.kind(name) == "columns":
                return self._member(name, value)
            case _:
                raise _Unsayable

    def _among(self, path: Path, said: Callable[[Compares], Alternatives | None], *, every: bool) -> Filter:
        """Returns a cell if the value passes one of the alternatives."""
        spot = self.placement.spots.get(path.root)
        if spot is None or spot.form is None:
            declared = len(path.segments) == 1 and path.root in self.form.texts
            alternatives = said(Usual(Spelling(declared, every)))
        else:
            alternatives = said(spot.form)
        if alternatives is None:
            raise _Unsayable
        column = self._column(path)
        return chain(column, interleave(*alternatives)) if alternatives else Nothing()

    def _column(self, path: Path) -> Filter:
        """The cell at the path, if it has a cell of its own."""
        match path.segments:
            case (str(name),) if name == TAG:
                return there()
            case (str(name),) if self.form.kind(name) is None and self._sayable(name):
                return newest(FAMILY, qualifier(name))
            case (str(name), str(key)) if self.form.kind(name) == "columns":
                self.elsewhere[_holds_other(qualifier(name), EMPTY_MAP)] = None
                return newest(FAMILY, member_qualifier(name, key))
            case _:
                raise _Unsayable

    def _sayable(self, name: str) -> bool:
        spot = self.placement.spots.get(name)
        return name not in self.form.disputed and name not in (REVISION, LISTED, WAS) and (spot is None or not spot.own)

    def _member(self, name: str, value: Value) -> Filter:
        """Returns a cell if a set in Columns contains the value."""
        if kind_of(value) not in {"string", "number", "bytes"}:
            raise _Unsayable
        self.elsewhere[_holds_other(qualifier(name), EMPTY_SET)] = None
        return newest(FAMILY, member_qualifier(name, set_member(value)))


def _without(said: Filter, placement: Placement) -> Filter:
    """Returns a cell if there is an item and the filter returns none: then ``~r`` is the first cell.

    Families have no order, so it must be in the family of all these cells.
    """
    if any(column > REVISION or placement.place(column)[0] != placement.home for column in _columns(said)):
        raise _Unsayable
    if any((spot := placement.place(column)[2]) is not None and spot.cell is not None for column in _columns(said)):
        raise _Unsayable
    written = chain(newest(FAMILY, REVISION), ValueRange(open=True))  # the revision of a ghost is empty
    return Chain((interleave(said, written), First(1), Column(FAMILY, REVISION)))


def _columns(said: Filter) -> Iterator[str]:
    """The columns of the cells that a filter may return."""
    match said:
        case Chain(parts) | Interleave(parts):
            for part in parts:
                yield from _columns(part)
        case Column(_, column) | ColumnRange(_, column):
            yield column


def _exists_in_columns(column: str) -> Filter:
    """Returns a cell if the attribute exists: a plain cell, and for a set in Columns at least one member."""
    empty = chain(newest(FAMILY, column), ValueIs(EMPTY_SET))
    members = chain(ColumnRange(FAMILY, f"{column}#", f"{column}$"), Newest())
    return interleave(_holds_other(column, EMPTY_SET), chained(empty, members))


def _holds_other(column: str, marker: bytes) -> Filter:
    """Returns a cell if the plain cell exists and is not the marker."""
    return chain(newest(FAMILY, column), interleave(ValueRange(b"", marker), ValueRange(marker, open=True)))


def _all_in_columns(name: str, marker: bytes, placement: Placement) -> Filter:
    """Returns a cell if there is an item, and no member of its attribute in Columns is in the plain cell."""
    return _without(_holds_other(qualifier(name), marker), placement)


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
    if (added := _added(action, placement.spots.get(name))) is not None:
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


def _added(action: Action, spot: Spot | None) -> AddToCell | None:
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
