"""The effect of a change of a model on stored data: one `Finding` per change, in five levels."""

import re
from typing import Final, Literal

from odm.immutable import Immutable, evolve

Level = Literal["orphans", "rewrites", "backfill", "unknown", "safe"]

LEVELS: Final[tuple[Level, ...]] = ("orphans", "rewrites", "backfill", "unknown", "safe")
"""Worst first. "orphans": the new model does not find stored data, or reads it wrongly. "rewrites": a put changes
what other programs wrote. "backfill": all data is found,
but stored items must be written again before everything in the new model works. "unknown": no entity
reads these stored items. "safe": nothing to do but review."""

OF_KEYS: Final = frozenset(
    {
        *("key names", "sort key", "primary key", "index", "kind", "template", "when", "shards"),
        *("projection", "new pattern", "removed pattern"),
    }
)
"""The kinds of change that affect the keys of items and index entries on DynamoDB."""

TARGET: Final = "MODULE:TABLE"
PLACE: Final = "PLACE"
"""Stand for the table and its location in the command of `backfill_of`; the command line replaces what it knows."""


def backfill_of(declaration: str) -> str:
    """The command that writes stored items again, for the fix of a finding.

    Args:
        declaration: a pattern or another declaration, such as "Order.by_status", or an entity, for whole items.
    """
    return f"odm backfill {TARGET} {declaration} {PLACE}"


class Finding(Immutable):
    """One change between two descriptions of a table.

    Attributes:
        level: see `LEVELS`.
        where: the table, entity, pattern or field that changed, as in ``Customer.by_email``.
        change: the kind of change, in words that do not change between releases.
        was, now: the old and new state, as text; empty if there is none.
        effect: the effect on stored data.
        fix: what to do.
    """

    level: Level
    where: str
    change: str
    was: str = ""
    now: str = ""
    effect: str = ""
    fix: str = ""

    def named(self, target: str, place: str = PLACE) -> "Finding":
        """The finding, whose commands name the table, ``module:table``, and where it is."""
        fix = re.sub(rf"{TARGET} (\S+) {PLACE}", lambda match: f"{target} {match[1]} {place}", self.fix)
        return evolve(self, fix=fix)

    def __str__(self) -> str:
        states = f" {self.was} → {self.now}"
        if not (self.was and self.now):
            states = f" ({self.was or self.now})" if self.was or self.now else ""
        tail = "; ".join(part for part in (self.effect, self.fix) if part)
        return f"{self.level:<8}  {self.where}: {self.change}{states}{f': {tail}' if tail else ''}"
