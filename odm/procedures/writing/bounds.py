"""Enforces a model's bounds on actions whose result only the backend knows: increments, added and removed elements.

The result is never validated as a value. Bounds of a sum or of a length become conditions of the write. Increments are
checked before the write, against ``multiple_of``. A bound that no condition can express is refused.
"""

from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta
from decimal import ROUND_CEILING, ROUND_FLOOR, Context, Decimal
from typing import Any, Final, TypeAlias

from odm.codec.types.constraints import marks_at
from odm.errors import BadValue
from odm.expressions.evaluate import holds
from odm.expressions.nodes import (
    Action,
    AddTo,
    Append,
    Comparator,
    Compare,
    Condition,
    Const,
    Contains,
    DiscardFrom,
    Exists,
    Increment,
    Missing,
    Not,
    Number,
    Or,
    Path,
    Prepend,
    Remove,
    Set,
    SetIfMissing,
    Size,
)
from odm.protocol.predicates import every
from odm.schema.entity import EntitySchema

Sized: TypeAlias = Append | Prepend | AddTo | DiscardFrom
Bound: TypeAlias = tuple[Comparator, Decimal]

_BOUNDS: Final[Mapping[str, Comparator]] = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}
_EXACT: Final = Context(prec=1000)
"""Precise enough for sums and remainders of all numbers that can be stored."""
_DIGITS: Final = 38
_FARTHEST: Final = Decimal("1E126")
_MICROSECOND: Final = timedelta(microseconds=1)


def limits_of(entity: EntitySchema, actions: Iterable[Action]) -> Iterator[tuple[str, Condition]]:
    """The conditions that keep the result of the actions within the bounds of the model.

    Returns:
        Each condition with the reason for an error message, for a write that it refuses.
    """
    for action in actions:
        if type(action) is Set and len(action.path.segments) == 1:  # the usual action: its value was validated
            continue
        if isinstance(action, Increment):
            limit = _within_bounds(entity, action) if marks_at(entity.cls, action.path) else None
            said = "adding {0.by} to {0.path}"
        elif isinstance(action, Sized):
            limit, said = _within_length(entity, action), "changing the elements of {0.path}"
        elif len(action.path.segments) > 1 and isinstance(action, Set | SetIfMissing | Remove):
            limit, said = _within_members(entity, action), "changing the member {0.path}"
        else:
            continue
        if limit is not None:
            yield f"{said.format(action)} would leave the bounds of the field", limit


def check_steps(entity: EntitySchema, actions: Iterable[Action]) -> None:
    """Refuse increments that leave the multiples that a field holds, which no condition can prevent.

    Raises:
        BadValue: an increment is not a multiple of ``multiple_of``, or has too many ``decimal_places``.
    """
    for action in actions:
        if isinstance(action, Increment):
            _check_step(entity, action)


def _check_step(entity: EntitySchema, action: Increment) -> None:
    for mark in marks_at(entity.cls, action.path):
        grid, places = _number(getattr(mark, "multiple_of", None)), getattr(mark, "decimal_places", None)
        if places is not None:
            grid = Decimal(1).scaleb(-places)
        if grid and _EXACT.remainder(Decimal(action.by), grid):
            raise BadValue(
                f"{entity.name}.{action.path}: adding {action.by} leaves the multiples of {grid} that it holds"
            )


def _within_bounds(entity: EntitySchema, action: Increment) -> Condition | None:
    """The condition on the old value that keeps the sum within the bounds of the field; None without bounds."""
    bounds = list(_bounds(entity, action.path))
    there = every(*(_old_value(action, bound) for bound in bounds))
    if there is None or not _allows(bounds, _EXACT.add(Decimal(action.start), Decimal(action.by))):
        return there
    return Or((Missing(action.path), there))


def _allows(bounds: Iterable[Bound], total: Decimal) -> bool:
    path = Path(("total",))
    return all(holds(Compare(op, path, Const(bound)), {"total": total}) for op, bound in bounds)


def _old_value(action: Increment, bound: Bound) -> Condition | None:
    """The condition on the old value for one bound of the sum; in 38 digits, as no stored number has more."""
    op, limit = bound
    exact = _EXACT.subtract(limit, Decimal(action.by))
    if abs(exact) >= _FARTHEST and (exact > 0) == (op in {"<", "<="}):
        return None  # every stored number satisfies it
    rounding = ROUND_FLOOR if op in {"<", "<="} else ROUND_CEILING
    rounded = Context(prec=_DIGITS, rounding=rounding).plus(exact)
    if rounded != exact:
        op = "<=" if op in {"<", "<="} else ">="
    return Compare(op, action.path, Const(_canonical(rounded)))


def _bounds(entity: EntitySchema, path: Path) -> Iterator[Bound]:
    """The bounds of a number, from the model."""
    for mark in marks_at(entity.cls, path):
        for attribute, op in _BOUNDS.items():
            bound = _number(getattr(mark, attribute, None))
            if bound is not None and bound.is_finite():
                yield op, bound
        digits, places = getattr(mark, "max_digits", None), getattr(mark, "decimal_places", None)
        if digits is not None and places is not None:
            yield "<", Decimal(1).scaleb(digits - places)
            yield ">", -Decimal(1).scaleb(digits - places)


def _within_length(entity: EntitySchema, action: Sized) -> Condition | None:
    """The condition on the old list or set that keeps the length of the new one within the bounds of the field."""
    length = _length(entity, action)
    if length is None or (isinstance(action, AddTo | DiscardFrom) and len(action.members) > 1):
        return None  # several members are judged with the whole item
    path = action.path
    if isinstance(action, Append | Prepend):
        fits = Compare("<=", Size(path), Const(length - len(action.values)))
        return Or((Missing(path), fits)) if len(action.start) + len(action.values) <= length else fits
    there = Contains(path, Const(next(iter(action.members))))
    if isinstance(action, DiscardFrom):
        return Or((Not(there), Compare(">", Size(path), Const(length))))
    absent = (Missing(path),) if length else ()
    return Or((*absent, there, Compare("<", Size(path), Const(length))))


def _within_members(entity: EntitySchema, action: Set | SetIfMissing | Remove) -> Condition | None:
    """The condition on the list or dict that keeps its length within its bounds if a member is set or removed."""
    held = Path(action.path.segments[:-1])
    marks = marks_at(entity.cls, held)
    if isinstance(action, Remove):
        least = max((mark.min_length for mark in marks if getattr(mark, "min_length", None)), default=0)
        return Or((Missing(action.path), Compare(">", Size(held), Const(least)))) if least else None
    lengths = [length for mark in marks if (length := getattr(mark, "max_length", None)) is not None]
    return Or((Exists(action.path), Compare("<", Size(held), Const(min(lengths))))) if lengths else None


def _length(entity: EntitySchema, action: Sized) -> int | None:
    """The bound that the action could violate: the smallest max_length, or the largest min_length."""
    marks = marks_at(entity.cls, action.path)
    if isinstance(action, DiscardFrom):
        return max((mark.min_length for mark in marks if getattr(mark, "min_length", None)), default=None)
    lengths = [getattr(mark, "max_length", None) for mark in marks]
    return min((length for length in lengths if length is not None), default=None)


def _number(bound: Any) -> Decimal | None:
    """A bound or a ``multiple_of`` in the unit of the stored number; None for other values."""
    if isinstance(bound, timedelta):
        return Decimal(bound // _MICROSECOND)
    if isinstance(bound, bool) or not isinstance(bound, int | float | Decimal):
        return None
    return Decimal(bound) if isinstance(bound, int) else Decimal(str(bound))


def _canonical(value: Decimal) -> Number:
    return int(value) if value == value.to_integral_value() else value.normalize(_EXACT)
