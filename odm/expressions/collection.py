"""Garbage collection of a Bigtable column family: ``gc=MaxAge(days=90) | MaxVersions(5)``.

Rules are frozen values. `any_of` and `all_of` bring combined ones into one order, so rules that say the same in
another order are equal, whether a model declares them or a table has them.
"""

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator
from datetime import timedelta
from typing import Final

from odm._published import public, public_in
from odm.errors import SchemaError
from odm.immutable import Abstract

MAX_AGE: Final = timedelta(days=3_652_500)
"""The largest age: 10,000 years, as google.protobuf.Duration."""

MAX_VERSIONS: Final = 2**31 - 1
"""The largest number of versions (google.bigtable.admin.v2, GcRule.max_num_versions)."""

MAX_PARTS: Final = 20
"""More rules in one might need more than the 500 bytes that a rule may have (same source, ColumnFamily.gc_rule)."""

_MILLISECOND: Final = timedelta(milliseconds=1)

_UNITS: Final = (
    ("d", timedelta(days=1)),
    ("h", timedelta(hours=1)),
    ("m", timedelta(minutes=1)),
    ("s", timedelta(seconds=1)),
)


@public_in("odm.backends.bigtable")
class GCRule(ABC):
    """A rule of garbage collection: which cells of a column family Bigtable deletes, at some time of its choice.

    Write `MaxAge` and `MaxVersions`, and combine them: ``a | b`` deletes what either rule deletes, ``a & b`` only what
    both delete. ``str()`` is the text that ``cbt setgcpolicy`` takes.
    """

    def __or__(self, other: "GCRule") -> "GCRule":
        return any_of((self, other)) if isinstance(other, GCRule) else NotImplemented

    def __and__(self, other: "GCRule") -> "GCRule":
        return all_of((self, other)) if isinstance(other, GCRule) else NotImplemented

    @abstractmethod
    def collects(self, age: timedelta, version: int) -> bool:
        """Whether the rule deletes a cell.

        Args:
            age: the time since the cell's timestamp.
            version: 1 for the newest cell of its column, 2 for the one before, and so on.
        """

    @property
    def parts(self) -> Iterator["MaxAge | MaxVersions"]:
        """The simple rules that it is made of."""
        if isinstance(self, AnyOf | AllOf):
            for rule in self.rules:
                yield from rule.parts
        else:
            assert isinstance(self, MaxAge | MaxVersions)
            yield self

    @property
    def by_age(self) -> bool:
        """Whether it deletes also the newest cell of a column, when that is old enough."""
        return self.collects(timedelta.max, 1)


@public
class MaxAge(GCRule):
    """Delete cells that were written longer ago than this: ``MaxAge(days=90)``, ``MaxAge(timedelta(hours=12))``.

    Args:
        age: the age; or the arguments of `datetime.timedelta`, of which only these are taken:
        days, hours, minutes, seconds: whose sum is the age; at least a millisecond, at most 10,000 years.

    Raises:
        SchemaError: there is no age, or it is not in these bounds.
    """

    __slots__ = ("_age",)
    __match_args__ = ("age",)

    def __init__(  # which a struct cannot have
        self,
        age: timedelta | None = None,
        *,
        days: float = 0,
        hours: float = 0,
        minutes: float = 0,
        seconds: float = 0,
    ) -> None:
        if age is not None and (days or hours or minutes or seconds):
            raise SchemaError("MaxAge takes a timedelta, or days=, hours=, minutes= and seconds=, not both")
        try:
            duration = timedelta(days=days, hours=hours, minutes=minutes, seconds=seconds) if age is None else age
            fits = _MILLISECOND <= duration <= MAX_AGE
        except (TypeError, ValueError, OverflowError) as error:
            raise SchemaError(f"MaxAge: {error}: write MaxAge(days=90), or give a timedelta") from error
        if not fits:
            raise SchemaError(
                f"MaxAge of {duration}: Bigtable takes ages of a millisecond to 10,000 years: write MaxAge(days=90), "
                "or give a timedelta"
            )
        self._age = duration

    @property
    def age(self) -> timedelta:
        """The age."""
        return self._age

    def __eq__(self, other: object) -> bool:
        return self._age == other._age if type(other) is MaxAge else NotImplemented

    def __hash__(self) -> int:
        return hash(self._age)

    def collects(self, age: timedelta, version: int) -> bool:
        """See `GCRule.collects`."""
        return age > self.age

    def __str__(self) -> str:
        for unit, size in _UNITS:
            if not self.age % size:
                return f"maxage={self.age // size}{unit}"
        return f"maxage={self.age / _MILLISECOND:.15g}ms"

    def __repr__(self) -> str:
        parts = {"days": self.age.days, "seconds": self.age.seconds + self.age.microseconds / 1_000_000}
        written = [f"{name}={size:.15g}" for name, size in parts.items() if size]
        return f"MaxAge({', '.join(written)})"


@public
class MaxVersions(GCRule, Abstract):
    """Delete the cells of a column except the newest: ``MaxVersions(5)``.

    Args:
        count: the number of cells of each column to keep, at least 1.

    Raises:
        SchemaError: it is not an int of at least 1.
    """

    count: int

    def __post_init__(self) -> None:
        if not _is_number(self.count) or not 1 <= self.count <= MAX_VERSIONS:
            raise SchemaError(f"MaxVersions({self.count!r}): give the number of versions to keep, an int of 1 or more")

    def collects(self, age: timedelta, version: int) -> bool:
        """See `GCRule.collects`."""
        return version > self.count

    def __str__(self) -> str:
        return f"maxversions={self.count}"

    def __repr__(self) -> str:
        return f"MaxVersions({self.count})"


class AnyOf(GCRule, Abstract):
    """Delete what any of these rules deletes; made by `any_of`."""

    rules: tuple[GCRule, ...]

    def collects(self, age: timedelta, version: int) -> bool:
        """See `GCRule.collects`."""
        return any(rule.collects(age, version) for rule in self.rules)

    def __str__(self) -> str:
        return f"({' || '.join(map(str, self.rules))})"

    def __repr__(self) -> str:
        return f"({' | '.join(map(repr, self.rules))})"


class AllOf(GCRule, Abstract):
    """Delete only what all of these rules delete; made by `all_of`."""

    rules: tuple[GCRule, ...]

    def collects(self, age: timedelta, version: int) -> bool:
        """See `GCRule.collects`."""
        return all(rule.collects(age, version) for rule in self.rules)

    def __str__(self) -> str:
        return f"({' && '.join(map(str, self.rules))})"

    def __repr__(self) -> str:
        return f"({' & '.join(map(repr, self.rules))})"


def any_of(rules: Iterable[GCRule]) -> GCRule:
    """The rule that deletes what any of at least one rule deletes."""
    return _joined(AnyOf, rules)


def all_of(rules: Iterable[GCRule]) -> GCRule:
    """The rule that deletes only what all of at least one rule delete."""
    return _joined(AllOf, rules)


def _joined(kind: type[AnyOf] | type[AllOf], rules: Iterable[GCRule]) -> GCRule:
    """The rules of one kind as one, each once, in order: ages, numbers of versions, then combined rules."""
    flat = {inner for rule in rules for inner in (rule.rules if isinstance(rule, kind) else (rule,))}
    ordered = tuple(sorted(flat, key=_order))
    return ordered[0] if len(ordered) == 1 else kind(ordered)


def _is_number(count: object) -> bool:
    return isinstance(count, int) and not isinstance(count, bool)


def _order(rule: GCRule) -> tuple[int, float, str]:
    match rule:
        case MaxAge(age):
            return 0, age / _MILLISECOND, ""
        case MaxVersions(count):
            return 1, count, ""
        case _:
            return 2, 0, str(rule)
