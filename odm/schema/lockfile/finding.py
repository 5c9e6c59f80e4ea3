"""What a change of a model does to what is stored: one `Finding` a change, in three levels."""

from typing import Final, Literal

from attrs import frozen

Level = Literal["orphans", "backfill", "safe"]

LEVELS: Final[tuple[Level, ...]] = ("orphans", "backfill", "safe")
"""Worst first. "orphans": stored data is lost to the new model, or read wrongly. "backfill": all is there, but stored
items must be written again before the new model does all that it says. "safe": nothing to do but to review."""

OF_KEYS: Final = frozenset(
    {
        *("key names", "sort key", "primary key", "index", "kind", "template", "when", "shards"),
        *("projection", "new pattern", "removed pattern"),
    }
)
"""The kinds of change that concern under which keys items and their index entries lie on DynamoDB."""


@frozen
class Finding:
    """One change between two descriptions of a table.

    Attributes:
        level: how bad it is, see `LEVELS`.
        where: the table, entity, pattern or field that changed, as in ``Customer.by_email``.
        change: the kind of change, a few words that stay the same from release to release.
        was, now: the two states, as text; empty on a side where there is nothing.
        effect: what the change does to stored data.
        fix: what to do about it.
    """

    level: Level
    where: str
    change: str
    was: str = ""
    now: str = ""
    effect: str = ""
    fix: str = ""

    def __str__(self) -> str:
        states = f" {self.was} → {self.now}"
        if not (self.was and self.now):
            states = f" ({self.was or self.now})" if self.was or self.now else ""
        tail = "; ".join(part for part in (self.effect, self.fix) if part)
        return f"{self.level:<8}  {self.where}: {self.change}{states}{f': {tail}' if tail else ''}"
