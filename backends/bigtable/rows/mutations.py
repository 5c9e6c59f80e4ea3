"""Actions and merges as mutations that need no read, and as increments by the server.

Merges need no transaction of a row, so an app profile with multi-cluster routing allows them. Each cell is deleted and
set with an explicit timestamp in one mutation of the row: it is idempotent, and a clock that is behind cannot make the
new value older than the stored one. What is added to a sum is not: such a merge is not sent again.

What only a new item needs is written with the timestamp 0: its tag, its key fields, and the plain cells that show that
a field in Columns is a dict or a set. Reads take the newest cell, so what is stored already stays. A deleted cell does
not hide a later write with an older timestamp (https://cloud.google.com/bigtable/docs/hbase-differences, "Deletes mask
puts"). In a family that deletes cells by their age, such a cell would be deleted: there it has the time of the merge.

The revision is new in each attempt, also in a retry of the same merge: otherwise an attempt whose response was lost
would set it back after another write, and a third writer that had read it before could overwrite that write.

An action on a field in Columns may require that the members are in columns of their own; see `Blind`.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cached_property

from odm.backends.bigtable.client.filters import (
    Filter,
    ValueIs,
    chain,
    newest,
)
from odm.backends.bigtable.client.native import FAMILY, AddToCell, DeleteColumn, Increment, Mutation, SetCell
from odm.backends.bigtable.rows.cells import (
    EMPTY_MAP,
    EMPTY_SET,
    INT64,
    SIDE_COLUMNS,
    member_qualifier,
    qualifier,
    set_member,
    write,
    write_text,
)
from odm.backends.bigtable.rows.codec import (
    MAX_CELL,
    REVISION,
    SURELY_FITS,
    Form,
    attribute_cells,
    attribute_gone,
    bad_attribute,
    bookkeeping,
    check_cell,
)
from odm.backends.bigtable.rows.placement import Entries, Placement, Spot
from odm.backends.bigtable.rows.predicates import Predicate, Unsayable, holds_other, predicate_of_own, without
from odm.codec import TAG, WAS
from odm.errors import BadValue, brief
from odm.expressions import nodes
from odm.expressions.evaluate import apply
from odm.expressions.nodes import (
    Action,
    AddTo,
    AddValue,
    DiscardFrom,
    Item,
    Path,
    Remove,
    Set,
    Value,
)
from odm.immutable import Immutable, field
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
    mutations: list[Mutation] = []
    for name, value in request.marks.items():
        mutations += attribute_cells(name, value, form, row_key, OLDEST)
    parts: dict[str, dict[str, Value] | frozenset[Value]] = {}
    for action in request.actions:
        mutations += _changed(action, form, row_key, now, parts)
    for name, members in parts.items():
        start, *cells = attribute_cells(name, members, form, row_key, now)
        mutations.append(start._replace(timestamp=OLDEST))
        for cell in cells:
            mutations += (DeleteColumn(cell.qualifier, cell.family), cell)
    mutations += bookkeeping(revision, None, now)
    placement = form.placement(request.marks.get(TAG))
    placed = mutations if placement.usual else placement.mutations(mutations)
    return tuple([_lasting(mutation, form, now) for mutation in placed] if form.aged_families else placed)


def _lasting(mutation: Mutation, form: Form, now: int) -> Mutation:
    """The mutation, if need be with a timestamp that its family keeps."""
    if isinstance(mutation, SetCell) and mutation.timestamp == OLDEST and mutation.family in form.aged_families:
        return mutation._replace(timestamp=now)
    return mutation


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
        case nodes.Increment(_, int(by)) | AddValue(_, by):  # the core lets only aggregates through
            return (AddToCell(qualifier(name), by, FAMILY),)
        case _:
            raise BadValue(f"{brief(action)} needs the stored item")


def _members(parts: dict[str, dict[str, Value] | frozenset[Value]], name: str) -> dict[str, Value]:
    """The members of a dict that are written so far."""
    members = parts.setdefault(name, {})
    assert isinstance(members, dict)
    return members


class Blind(Immutable):
    """Actions as mutations that do not depend on the content of the row.

    Attributes:
        mutations: the mutations.
        requires: filters that return at most one cell each. If one returns none, the mutations are not valid: the item
            must be read, and the actions applied to it.
    """

    mutations: tuple[Mutation, ...]
    requires: tuple[Filter, ...] = ()


def settled(actions: Sequence[Action], fixed: Item) -> tuple[Action, ...]:
    """The actions, computed if the value of the attribute is known: ``n + 1`` becomes a set of its result.

    So an update that checks and increments its item's Revision is one call.

    Args:
        actions: the actions.
        fixed: see `odm.protocol.requests.Update`.
    """
    return tuple(_settled(action, fixed) for action in actions)


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
    return compiled(actions, tag, None, form).blind(actions, now, row_key)


class Whole(Immutable):
    """A Set or a Remove of an attribute in one cell of odm's encoding, as mutations with a slot for the value.

    Attributes:
        name: the attribute.
        removed: the mutations that remove it.
        column: the qualifier of its cell.
        family: the family of its cell.
        write: returns the cell of a value.
    """

    name: str
    removed: tuple[Mutation, ...]
    column: str
    family: str
    write: Callable[[Value], bytes]

    def blind(self, action: Action, now: int, row_key: str) -> Blind | None:
        """The action as mutations; the arguments and errors are those of `blind`."""
        if not isinstance(action, Set):
            return Blind(self.removed)
        try:
            cell = self.write(action.value)
        except BadValue as error:
            raise bad_attribute(error, self.name, row_key) from error
        if len(cell) > MAX_CELL:
            check_cell(self.column, cell, self.name, row_key)
        return Blind((*self.removed, SetCell(self.column, cell, now, self.family)))


class Parted(Immutable):
    """Any other action: on a Counter, an aggregate, a member of Columns, or a cell of another encoding.

    Attributes:
        form: the form of the table.
        placement: where the cells of the item stand.
    """

    form: Form
    placement: Placement

    def blind(self, action: Action, now: int, row_key: str) -> Blind | None:
        """The action as mutations; None if it needs a read. The arguments and errors are those of `blind`."""
        try:
            usual = _blind(action, self.form, now, row_key, self.placement)
        except Unsayable:
            return None
        if usual is None:
            return None
        return Blind(self.placement.mutations(usual.mutations), tuple(map(self.placement.filter, usual.requires)))


class CompiledUpdate(Immutable, dict=True):
    """What the entity, its version and the kinds of actions on which attributes decide about an update in one call.

    Attributes:
        parts: how to write each action.
        ages: Bigtable may delete the item by its age, so all of it is written again, and has to be read.
        settles: the result of an action may follow from values that the condition fixes; see `settled`.
        counts: all actions may be increments of Counters.
        version: the version that the item says by a cell; None: the first, which has none, or any.
        own: the predicate that there is an item of the entity and version; None if no filter can express it.
        home: the family of the item's revision.
    """

    parts: tuple[Whole | Parted, ...]
    ages: bool
    settles: bool
    counts: bool
    version: int | None
    own: Predicate | None
    home: str

    @cached_property
    def _unrevised(self) -> DeleteColumn:
        return DeleteColumn(REVISION, self.home)

    def blind(self, actions: Sequence[Action], now: int, row_key: str) -> Blind | None:
        """Actions of these kinds as mutations; see `blind`."""
        if len(actions) == 1:
            return self.parts[0].blind(actions[0], now, row_key)
        mutations: list[Mutation] = []
        requires: dict[Filter, None] = {}
        for part, action in zip(self.parts, actions, strict=True):
            blind = part.blind(action, now, row_key)
            if blind is None:
                return None
            mutations += blind.mutations
            requires.update(dict.fromkeys(blind.requires))
        return Blind(tuple(mutations), tuple(requires))

    def revised(self, revision: str, now: int) -> tuple[Mutation, ...]:
        """The mutations for a new revision of an item whose index entries do not change."""
        return self._unrevised, SetCell(REVISION, revision.encode(), now, self.home)


def compiled(actions: Sequence[Action], tag: Value, version: int | None, form: Form) -> CompiledUpdate:
    """What the kinds of the actions of an update decide; made once for each kind of update.

    Dict keys and members are not part of it, so that an update of an entry is compiled once for all keys.
    """
    shape = (tag, version, *[(type(action), action.path.segments[0], len(action.path.segments)) for action in actions])
    known: CompiledUpdate | None = form.updates.get(shape)
    if known is None:
        known = _compiled(actions, tag, version, form)
        form.updates.keep(shape, known)
    return known


def _compiled(actions: Sequence[Action], tag: Value, version: int | None, form: Form) -> CompiledUpdate:
    placement, parted = form.placement(tag), Parted(form, form.placement(tag))
    whole = (Set, Remove)
    counters = [isinstance(action, nodes.Increment) and form.kind(action.path.root) == "counter" for action in actions]
    return CompiledUpdate(
        tuple((isinstance(action, whole) and _whole(action.path, form, placement)) or parted for action in actions),
        bool(form.aging) and (tag is None or tag in form.aging),
        any(not isinstance(action, whole) and len(action.path.segments) == 1 for action in actions),
        bool(actions) and all(counters),
        None if version == 1 else version,
        predicate_of_own(tag, version, form) if isinstance(tag, str) else None,
        placement.home,
    )


def _whole(path: Path, form: Form, placement: Placement) -> Whole | None:
    """How to write a whole attribute; None if its cells depend on more than its value."""
    name = path.root
    column, spot = qualifier(name), placement.spots.get(name)
    if len(path.segments) > 1 or form.kind(name) is not None or name in form.disputed or name == WAS:
        return None
    if name in SIDE_COLUMNS or len(column) > SURELY_FITS:
        return None  # refused with a message
    if spot is not None and (spot.form is not None or spot.own is not None or isinstance(spot, Entries)):
        return None
    family, place, _ = placement.place(column)
    return Whole(name, (DeleteColumn(place, family),), place, family, write_text if name in form.texts else write)


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
            cells_ = attribute_cells(name, value, form, row_key, now)
            return Blind((*attribute_gone(name, None, form), *cells_))
        case Remove(Path((_,))) if kind != "columns":
            return Blind(attribute_gone(name, None, form))
        case Set(Path((_, str(key))), value) if kind == "columns":
            cells_ = attribute_cells(name, {key: value}, form, row_key, now)
            return Blind(tuple(_rewritten(cells_[1:])), (_is_map(name),))
        case Remove(Path((_, str(key)))) if kind == "columns":
            return Blind((DeleteColumn(member_qualifier(name, key)),), (_is_map(name),))
        case AddTo(Path((_,)), members) if kind == "columns":
            cells_ = attribute_cells(name, members, form, row_key, now)
            return Blind(tuple(_rewritten(cells_)), (_all_in_columns(name, EMPTY_SET, placement),))
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
