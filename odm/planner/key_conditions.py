"""The conditions of a query that can limit a key range: equalities, ranges and prefixes of single fields."""

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Literal, TypeAlias

from attrs import evolve

from odm.expressions.nodes import And, Between, Compare, Condition, Const, Path, StartsWith, paths
from odm.immutable import immutable

Bound: TypeAlias = tuple[Literal["<", "<=", ">", ">=", "prefix"], Any]

MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


@immutable
class KeyCondition:
    """One condition on one field: ``equal`` has the value of an equality; otherwise ``bounds`` are the range.

    ``refused``: the model refuses the value of an equality, so that no item has it. ``at``: the position of the
    condition among those of the query.
    """

    field: str
    condition: Condition
    equal: tuple[Any] | None = None
    bounds: tuple[Bound, ...] = ()
    refused: bool = False
    at: int = -1

    def mapped(self, change: Callable[..., Any]) -> "KeyCondition":
        """The condition with other values; ``change`` gets each value, and ``bound=True`` for those of a range."""
        if self.equal is not None:
            value = change(self.equal[0])
            return self if value is self.equal[0] else evolve(self, equal=(value,))
        bounds = tuple((op, change(value, bound=True)) for op, value in self.bounds)
        return self if bounds == self.bounds else evolve(self, bounds=bounds)

    @property
    def range(self) -> tuple[Bound, ...]:
        """The condition as bounds; an equality is a range of one value."""
        return self.bounds if self.equal is None else ((">=", self.equal[0]), ("<=", self.equal[0]))


def flatten(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """The conditions, with each ``&`` split into its parts."""
    for condition in conditions:
        if isinstance(condition, And):
            yield from flatten(condition.conditions)
        else:
            yield condition


def key_condition_of(condition: Condition) -> KeyCondition | None:
    """The condition as a `KeyCondition`; None if a key range cannot express it."""
    match condition:
        case Compare(op, Path((str(field),)), Const(value)):
            return _comparison(field, op, value, condition)
        case Compare(op, Const(value), Path((str(field),))):
            return _comparison(field, MIRRORED.get(op, op), value, condition)
        case Between(Path((str(field),)), Const(low), Const(high)):
            return KeyCondition(field, condition, bounds=((">=", low), ("<=", high)))
        case StartsWith(Path((str(field),)), Const(prefix)) if isinstance(prefix, str):
            return KeyCondition(field, condition, bounds=(("prefix", prefix),))
    return None


def owner_of(condition: Condition) -> type | None:
    """The entity of the first field that a condition names, or None."""
    return next((path.owner for path in paths(condition) if path.owner is not None), None)


def _comparison(field: str, op: Any, value: Any, condition: Condition) -> KeyCondition | None:
    if op == "<>" or value is None:
        return None
    return (
        KeyCondition(field, condition, equal=(value,))
        if op == "="
        else KeyCondition(field, condition, bounds=((op, value),))
    )
