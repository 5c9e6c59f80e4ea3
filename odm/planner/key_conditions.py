"""The conditions of a query that can limit a key range: equalities, ranges and prefixes of single fields."""

from collections.abc import Callable, Iterable, Iterator
from operator import attrgetter
from typing import Any, Literal, TypeAlias

from pydantic import ValidationError

from odm.codec import EntityCodec
from odm.errors import BadValue
from odm.expressions.nodes import And, Between, Compare, Condition, Const, Path, StartsWith, paths
from odm.immutable import Immutable

Bound: TypeAlias = tuple[Literal["<", "<=", ">", ">=", "prefix"], Any]

MIRRORED = {"=": "=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


class KeyTest(Immutable):
    """A condition on one field that a key range can express, without its values.

    Attributes:
        at: its position among the conditions of the query.
        field: the field that it is on.
        equal: it is an equality.
        parts: the operators, and what reads their values from a condition.
    """

    at: int
    field: str
    equal: bool
    parts: tuple[tuple[Any, Callable[[Any], Any]], ...]

    @property
    def ops(self) -> frozenset[str]:
        """Its operators as a range; an equality is a range of one value."""
        return frozenset({">=", "<="} if self.equal else [op for op, _ in self.parts])

    def range(self, condition: Condition) -> tuple[Bound, ...]:
        """The operators with the values of a condition; an equality is a range of one value."""
        return as_range([(op, read(condition)) for op, read in self.parts])

    def value(self, codec: EntityCodec, condition: Condition) -> tuple[Any, bool]:
        """The value of an equality as the model holds it; and whether the model refuses it, so that no item has it."""
        ((_, read),) = self.parts
        value = codec.comparable(self.field, read(condition))
        try:
            return codec.validate(self.field, value), False
        except BadValue as error:
            # Another validator of the field may need other fields; then the value is used as it is.
            return value, isinstance(error.__cause__, ValidationError)

    def bounds(self, codec: EntityCodec, condition: Condition) -> list[tuple[Any, Any]]:
        """The operators with the values of a condition, normalised as in a filter; an equality has the operator "="."""
        if self.equal:
            return [("=", self.value(codec, condition)[0])]
        return [(op, codec.comparable(self.field, read(condition), bound=True)) for op, read in self.parts]


def as_range(bounds: Iterable[tuple[Any, Any]]) -> tuple[Bound, ...]:
    """The bounds with each equality as a range of one value."""
    ranges: list[Bound] = []
    for op, value in bounds:
        if op == "=":
            ranges.append((">=", value))
            ranges.append(("<=", value))
        else:
            ranges.append((op, value))
    return tuple(ranges)


def flatten(conditions: Iterable[Condition]) -> Iterator[Condition]:
    """The conditions, with each ``&`` split into its parts."""
    for condition in conditions:
        if isinstance(condition, And):
            yield from flatten(condition.conditions)
        else:
            yield condition


def key_tests(conditions: Iterable[Condition]) -> list[KeyTest]:
    """Those of the conditions that a key range can express."""
    tests = (key_test_of(condition, at) for at, condition in enumerate(conditions))
    return [test for test in tests if test is not None]


def key_test_of(condition: Condition, at: int = 0) -> KeyTest | None:
    """The condition as a `KeyTest`, which its shape decides; None if a key range cannot express it."""
    match condition:
        case Compare(op, Path((str(field),)), Const(value)) if op != "<>" and value is not None:
            return KeyTest(at, field, op == "=", ((op, attrgetter("right.value")),))
        case Compare(op, Const(value), Path((str(field),))) if op != "<>" and value is not None:
            return KeyTest(at, field, op == "=", ((MIRRORED[op], attrgetter("left.value")),))
        case Between(Path((str(field),)), Const(), Const()):
            return KeyTest(at, field, False, ((">=", attrgetter("low.value")), ("<=", attrgetter("high.value"))))
        case StartsWith(Path((str(field),)), Const(prefix)) if isinstance(prefix, str):
            return KeyTest(at, field, False, (("prefix", attrgetter("prefix.value")),))
    return None


def owner_of(condition: Condition) -> type | None:
    """The entity of the first field that a condition names, or None."""
    return next((path.owner for path in paths(condition) if path.owner is not None), None)
