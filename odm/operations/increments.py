"""What a model allows an increment: bounds of the sum, as conditions of the write, and steps, checked beforehand.

An increment is never validated as a value, because only the store knows the sum.
"""

from collections.abc import Iterable, Iterator, Mapping
from decimal import Decimal
from typing import Any

from odm.entities.markers import metadata_of
from odm.errors import BadValue
from odm.expressions.evaluate import holds
from odm.expressions.nodes import Action, Comparator, Compare, Condition, Const, Increment, Missing, Number, Or, Path
from odm.operations.guards import every
from odm.schema.model import EntitySchema

_BOUNDS: Mapping[str, Comparator] = {"ge": ">=", "gt": ">", "le": "<=", "lt": "<"}


def limits_of(entity: EntitySchema, actions: Iterable[Action]) -> Iterator[tuple[Increment, Condition]]:
    """The increments of fields with bounds, each with the condition that keeps it within them."""
    for action in actions:
        if isinstance(action, Increment) and (limit := _within_bounds(entity, action)) is not None:
            yield action, limit


def _within_bounds(entity: EntitySchema, action: Increment) -> Condition | None:
    """The condition on the old value that keeps the sum within the bounds of the field; None if it has none."""
    sides = [
        Compare(op, action.path, Const(_canonical(bound - action.by))) for op, bound in _bounds(entity, action.path)
    ]
    there = every(*sides)
    if there is None or not holds(there, {action.path.root: action.start}):
        return there
    return Or((Missing(action.path), there))


def _bounds(entity: EntitySchema, path: Path) -> Iterator[tuple[Comparator, Number]]:
    """The bounds that the model sets a whole numeric field."""
    for mark in _marks(entity, path):
        for attribute, op in _BOUNDS.items():
            bound = getattr(mark, attribute, None)
            if isinstance(bound, int | float | Decimal):
                yield op, bound if isinstance(bound, int) else Decimal(str(bound))


def check_steps(entity: EntitySchema, actions: Iterable[Action]) -> None:
    """Refuse a step that would take a field off its grid, so that the item could not be read again.

    Raises:
        BadValue: it is no multiple of the field's ``multiple_of``, or has more than its ``decimal_places``.
    """
    for action in actions:
        if isinstance(action, Increment):
            _check_step(entity, action)


def _check_step(entity: EntitySchema, action: Increment) -> None:
    for mark in _marks(entity, action.path):
        grid, places = getattr(mark, "multiple_of", None), getattr(mark, "decimal_places", None)
        if places is not None:
            grid = Decimal(1).scaleb(-places)
        if grid is not None and Decimal(action.by) % Decimal(str(grid)):
            raise BadValue(
                f"{entity.name}.{action.path}: adding {action.by} leaves the multiples of {grid} that it holds"
            )


def _marks(entity: EntitySchema, path: Path) -> Iterator[Any]:
    """The constraints of the field that the path leads to; none inside a field."""
    name = next((f for f, stored in entity.codec.stored.items() if stored == path.root), None)
    if name is not None and len(path.segments) == 1:
        yield from metadata_of(entity.cls.model_fields[name])


def _canonical(value: Number) -> Number:
    return int(value) if value == int(value) else value
