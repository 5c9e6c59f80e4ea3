"""`Plan`: how a query will be answered. `explain` prints it, and the reading operations turn it into requests."""

from typing import Any

from odm.entities.query import Query
from odm.expressions.nodes import Condition
from odm.immutable import Immutable, field
from odm.planner.key_conditions import Bound, flatten, key_tests
from odm.schema.entity import EntitySchema, PatternSchema


class Plan(Immutable):
    """How a query will be answered.

    Attributes:
        entity: the entity whose items the query returns; None: items of any entity.
        partitions: the partition keys to read, in key order and without shards; several if a condition is a range of a
            lossy partition field.
        shards: the suffixes of each partition key; several shards are read concurrently and merged.
        leaving: the old shards among them, from which entries move because the number of shards has changed.
        lo, hi: the range of sort keys ``[lo, hi)``; if hi is None, to the end.
        filter: the condition evaluated on each item after it was read, with stored names; without that for expiry.
        narrowed: the conditions that the key range implies, so that they need no filter.
        needs_tag: the range may hold items of other entities too, so the filter has the tag.
        known_fields: the fields of the pattern that have one value.
        keyed: the conditions in ``narrowed`` with their values as compared: field, operator ("=" too), value.
    """

    query: Query[Any]
    entity: EntitySchema | None
    pattern: PatternSchema
    partitions: tuple[str, ...]
    shards: tuple[str, ...] = ("",)
    leaving: frozenset[str] = frozenset()
    lo: str = ""
    hi: str | None = None
    filter: Condition | None = None
    narrowed: tuple[Condition, ...] = ()
    needs_tag: bool = False
    known_fields: frozenset[str] = frozenset()
    keyed: tuple[tuple[str, str, Any], ...] = field(default=(), repr=False)

    @property
    def order(self) -> tuple[str, bool] | None:
        """See `odm.entities.views.PlanView`."""
        templates = (self.pattern.partition, self.pattern.sort)
        slots = [slot for template in templates if template is not None for slot in template.slots]
        first = next((slot for slot in slots if slot.name not in self.known_fields), None)
        return None if first is None else (first.name, first.type.flips != self.query.descending)

    def bounds(self, field: str) -> tuple[Bound, ...]:
        """See `odm.entities.views.PlanView`."""
        conditions = [*flatten(self.query.conditions)]
        tests = [test for test in key_tests(conditions) if test.field == field]
        bounds = tuple([bound for test in tests for bound in test.range(conditions[test.at])])
        if field in self.query.values:
            value = self.query.values[field]
            return ((">=", value), ("<=", value), *bounds)
        return bounds

    @property
    def empty(self) -> bool:
        """Whether no key can match, so that the query is answered without a request."""
        return not self.partitions or (self.hi is not None and self.lo >= self.hi)

    @property
    def single(self) -> bool:
        """Whether each partition key has at most one item in the range: the range is one key of the table."""
        return self.hi is not None and self.hi == self.lo + "\0" and self.pattern.index is None

    @property
    def name(self) -> str:
        """The name for a `Meter`: that of the pattern, inside "collection(...)" if items of any entity are read."""
        pattern = self.pattern.full_name
        return pattern if self.query.scope == "entity" else f"collection({pattern})"

    @property
    def reading_order(self) -> tuple[str, ...]:
        """The partitions in the order in which they are read."""
        return self.partitions[::-1] if self.query.descending else self.partitions

    @property
    def partition_keys(self) -> tuple[str, ...]:
        """The stored partition keys to read, with their shards."""
        return tuple(partition + shard for partition in self.partitions for shard in self.shards)
