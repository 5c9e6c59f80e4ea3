"""Column families: their aggregates, and the rules of their garbage collection, from Google's messages."""

from collections.abc import Callable, Mapping
from typing import Any, Final

from msgspec import Struct
from msgspec.structs import force_setattr

from odm.backends.bigtable.emulator.refusals import Refused, invalid
from odm.backends.bigtable.emulator.rows import Join, Rule

NUMBER: Final = 8
"""The bytes of a number: big-endian, two's complement."""

_COMPUTED: Final[Any] = None


class FamilySettings(Struct, frozen=True):
    """A column family.

    Attributes:
        message: its google.bigtable.admin.v2.ColumnFamily.
        aggregate: "sum", "min_", "max_" or "hllpp_unique_count"; None: it holds plain bytes.
        join: makes one value of two numbers; None: it holds none.
        rule: what garbage collection removes; None: nothing.
        ages: what it removes depends on the time.
    """

    message: Any
    aggregate: str | None = _COMPUTED
    join: Join | None = _COMPUTED
    rule: Rule | None = _COMPUTED
    ages: bool = _COMPUTED

    def __post_init__(self) -> None:
        aggregate = None
        if self.message.value_type.WhichOneof("kind") == "aggregate_type":
            aggregate = self.message.value_type.aggregate_type.WhichOneof("aggregator")
        # Computed once, because every write and every collection of garbage needs them.
        force_setattr(self, "aggregate", aggregate)
        force_setattr(self, "join", _JOINS.get(aggregate or ""))
        force_setattr(self, "rule", _rule(self.message.gc_rule))
        force_setattr(self, "ages", _ages(self.message.gc_rule))


def number(value: bytes) -> int:
    """The number in a value."""
    return int.from_bytes(value, "big", signed=True)


def number_bytes(value: int) -> bytes:
    """A number as a value; it wraps around at 64 bits."""
    return (value % 2**64).to_bytes(NUMBER, "big")


def _join(how: Callable[[int, int], int]) -> Join:
    return lambda one, other: number_bytes(how(number(one), number(other)))


_JOINS: Final[Mapping[str, Join]] = {"sum": _join(int.__add__), "min_": _join(min), "max_": _join(max)}


def no_sketches(family: str) -> Refused:
    """The refusal of HyperLogLog++, whose sketches only Google's library makes."""
    return Refused(
        "UNIMPLEMENTED", f"family {family!r} counts distinct values by HyperLogLog++, which the emulator does not do"
    )


def _ages(message: Any) -> bool:
    kind = message.WhichOneof("rule")
    return kind == "max_age" or (kind in ("union", "intersection") and any(map(_ages, getattr(message, kind).rules)))


def _rule(message: Any) -> Rule | None:
    kind = message.WhichOneof("rule")
    if kind == "max_num_versions":
        most = message.max_num_versions
        if most < 1:
            raise invalid(f"max_num_versions must be 1 or more, not {most}")
        return lambda place, timestamp, now: place >= most
    if kind == "max_age":
        age = message.max_age.ToMicroseconds()
        if age < 1000:
            raise invalid("max_age must be at least one millisecond")
        return lambda place, timestamp, now: timestamp < now - age
    if kind is None:
        return None
    rules = [one for part in getattr(message, kind).rules if (one := _rule(part)) is not None]
    every = len(rules) == len(getattr(message, kind).rules)
    if kind == "union":
        return (lambda *arguments: any(rule(*arguments) for rule in rules)) if rules else None
    return (lambda *arguments: all(rule(*arguments) for rule in rules)) if rules and every else None
