"""Conditions as predicates of one CheckAndMutateRow.

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

from collections.abc import Callable, Iterable, Iterator
from decimal import Decimal
from typing import Final, TypeAlias, cast

from attrs import Factory, define

from odm.backends.bigtable.client.filters import (
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
from odm.backends.bigtable.client.native import FAMILY
from odm.backends.bigtable.rows.cell_forms import Alternatives, Bound, Compares, Spelling, Usual
from odm.backends.bigtable.rows.cells import EMPTY_MAP, EMPTY_SET, member_qualifier, qualifier, set_member
from odm.backends.bigtable.rows.codec import LISTED, REVISION, TAG, Form
from odm.backends.bigtable.rows.placement import USUAL, Placement
from odm.codec import WAS
from odm.expressions.evaluate import holds, kind_of
from odm.expressions.nodes import (
    And,
    AnyCondition,
    Between,
    Comparator,
    Compare,
    Condition,
    Const,
    Contains,
    Exists,
    IsIn,
    Missing,
    Not,
    Operand,
    Or,
    Path,
    StartsWith,
    Value,
    paths,
)
from odm.immutable import Immutable
from odm.protocol.expressions import facts_of
from odm.protocol.predicates import every, has_tag, has_version, requires

_HERE: Final = Exists(Path((TAG,)))
_FLIPPED: Final[dict[Comparator, Comparator]] = {"=": "=", "<>": "<>", "<": ">", "<=": ">=", ">": "<", ">=": "<="}

MOST: Final = 64
"""Predicates with longer texts or bytes are made for each call."""

_KEPT: Final = frozenset({bool, int, Decimal, type(None)})

_NEW: Final = object()
"""A predicate that was not made yet."""

_Leaf: TypeAlias = Compare | Between | IsIn | StartsWith | Contains | Exists


class Predicate(Immutable):
    """A condition as a row filter.

    A field in Columns may also have members in its plain cell, from before it was in Columns. Then the predicate cannot
    evaluate the condition and refuses the write. So after a refusal, evaluate the condition on the item that is read.

    Attributes:
        filter: the predicate.
        holds: True: the condition holds if, and only if, the filter returns a cell; False: if it returns none.
    """

    filter: Filter
    holds: bool


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
    shape, values, _ = facts_of(condition)
    if shape is None or not all(map(_is_short, values)):
        return _compiled(condition, form, tag)
    place = (tag, shape, *values, *map(type, values))  # 1, True and Decimal(1) are equal
    known = form.predicates.get(place, _NEW)
    if known is _NEW:
        known = form.predicates.keep(place, _compiled(condition, form, tag))
    asked: Predicate | None = known
    return asked


def _is_short(value: Value) -> bool:
    """Whether a predicate with this value is kept: the same values are asked for again, such as those of a status."""
    return type(value) in _KEPT or (type(value) in (str, bytes) and len(value) <= MOST)


def _compiled(condition: Condition, form: Form, tag: Value) -> Predicate | None:
    of_none = holds(condition, None)
    placement = form.placement(tag)
    filters = _Filters(form, refuses=of_none, placement=placement)
    try:
        said = filters.of(_normal(condition, asked=not of_none))
        if of_none:
            said = interleave(said, *filters.elsewhere)
        elif filters.elsewhere:
            said = chained(said, without(interleave(*filters.elsewhere), placement))
    except Unsayable:
        return None
    said = placement.filter(said)
    return Predicate(said, not of_none) if fits(said) else None


def predicate_of_own(tag: str, version: int | None, form: Form, condition: Condition | None = None) -> Predicate | None:
    """The predicate that there is an item with this tag, and with this version if it is not None, and a condition.

    The tag and the version are not looked for in the condition, and it is made once as `predicate` is.
    """
    shape, values, _ = (None, (), 0) if condition is None else facts_of(condition)
    if condition is not None and (shape is None or not all(map(_is_short, values))):
        return _compiled_of_own(tag, version, condition, form)
    place = (tag, version, shape, *values, *map(type, values))
    known = form.predicates.get(place, _NEW)
    if known is _NEW:
        known = form.predicates.keep(place, _compiled_of_own(tag, version, condition, form))
    asked: Predicate | None = known
    return asked


def _compiled_of_own(tag: str, version: int | None, condition: Condition | None, form: Form) -> Predicate | None:
    there = None if requires(condition, has_tag(tag)) else has_tag(tag)  # an unchanged item has it twice
    whole = every(there, None if version is None else has_version(version), condition)
    assert whole is not None
    return _compiled(whole, form, tag)


class Unsayable(Exception):
    """No filter can express the condition."""


def _normal(condition: Condition, *, asked: bool) -> Condition:
    """The condition, or its negation, with every `Not` at a single test."""
    node = cast("AnyCondition", condition)
    match node:
        case And() | Or():
            kind = And if isinstance(node, And) is asked else Or
            parts = (_normal(part, asked=asked) for part in node.conditions)
            return kind(tuple(one for part in parts for one in (part.conditions if type(part) is kind else (part,))))
        case Not(inner):
            return _normal(inner, asked=not asked)
        case Missing(path):
            return _normal(Exists(path), asked=not asked)
        case Compare("<>", left, right):
            return _normal(Compare("=", left, right), asked=not asked)
        case Between(operand, low, high) if not _constants(low, high):
            return _normal(And((Compare("<=", low, operand), Compare("<=", operand, high))), asked=asked)
        case _:
            return node if asked else Not(node)


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
            parts.append(without(interleave(*lacking), self.placement))
        return chained(*parts) if parts else there()

    def _any(self, conditions: Iterable[Condition]) -> Filter:
        asked = [condition for condition in conditions if condition != Not(_HERE)]
        parts, lacking = self._parts(asked)
        if lacking:
            parts.append(without(chained(*lacking), self.placement))
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
                raise Unsayable

    def _among(self, path: Path, said: Callable[[Compares], Alternatives | None], *, every: bool) -> Filter:
        """Returns a cell if the value passes one of the alternatives."""
        spot = self.placement.spots.get(path.root)
        if spot is None or spot.form is None:
            declared = len(path.segments) == 1 and path.root in self.form.texts
            alternatives = said(Usual(Spelling(declared, every)))
        else:
            alternatives = said(spot.form)
        if alternatives is None:
            raise Unsayable
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
                self.elsewhere[holds_other(qualifier(name), EMPTY_MAP)] = None
                return newest(FAMILY, member_qualifier(name, key))
            case _:
                raise Unsayable

    def _sayable(self, name: str) -> bool:
        spot = self.placement.spots.get(name)
        return name not in self.form.disputed and name not in (REVISION, LISTED, WAS) and (spot is None or not spot.own)

    def _member(self, name: str, value: Value) -> Filter:
        """Returns a cell if a set in Columns contains the value."""
        if kind_of(value) not in {"string", "number", "bytes"}:
            raise Unsayable
        self.elsewhere[holds_other(qualifier(name), EMPTY_SET)] = None
        return newest(FAMILY, member_qualifier(name, set_member(value)))


def without(said: Filter, placement: Placement) -> Filter:
    """Returns a cell if there is an item and the filter returns none: then ``~r`` is the first cell.

    Families have no order, so it must be in the family of all these cells.
    """
    if any(column > REVISION or placement.place(column)[0] != placement.home for column in _columns(said)):
        raise Unsayable
    if any((spot := placement.place(column)[2]) is not None and spot.cell is not None for column in _columns(said)):
        raise Unsayable
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
    return interleave(holds_other(column, EMPTY_SET), chained(empty, members))


def holds_other(column: str, marker: bytes) -> Filter:
    """Returns a cell if the plain cell exists and is not the marker."""
    return chain(newest(FAMILY, column), interleave(ValueRange(b"", marker), ValueRange(marker, open=True)))
