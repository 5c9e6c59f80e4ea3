"""All tables of facts, by area."""

from collections.abc import Mapping, Sequence
from typing import Final

from tests.facts import conditions, indexes, limits, queries, sizes, updates, values, writes
from tests.facts.fact import Fact

TABLES: Final[Mapping[str, Sequence[Fact]]] = {
    "sizes": sizes.FACTS,
    "conditions": conditions.FACTS,
    "updates": updates.FACTS,
    "values": values.FACTS,
    "queries": queries.FACTS,
    "writes": writes.FACTS,
    "indexes": indexes.FACTS,
    "limits": limits.FACTS,
}
