"""Names that `odm` once had and that have another home: importing them from `odm` still works, with a warning."""

from typing import TYPE_CHECKING

from odm import changes, extend, results

if TYPE_CHECKING:
    from odm.changes import Change, Changed, Changes, ChangeShard, Inserted, Removed
    from odm.expressions.collection import GCRule
    from odm.extend import (
        Calls,
        Companion,
        CompanionWrites,
        Effect,
        EntityView,
        Gen,
        Limits,
        LintFinding,
        PatternView,
        PlanView,
        Procedure,
        SchemaView,
        compiled,
        planned,
        primary_key,
        procedure,
    )
    from odm.results import (
        Backfilled,
        CellVersion,
        Explanation,
        Meter,
        Partial,
        RawItem,
        RequestInfo,
        Swept,
        Unfilled,
        Usage,
    )

__all__ = [
    "Backfilled",
    "Calls",
    "CellVersion",
    "Change",
    "ChangeShard",
    "Changed",
    "Changes",
    "Companion",
    "CompanionWrites",
    "Effect",
    "EntityView",
    "Explanation",
    "GCRule",
    "Gen",
    "Inserted",
    "Limits",
    "LintFinding",
    "Meter",
    "Partial",
    "PatternView",
    "PlanView",
    "Procedure",
    "RawItem",
    "Removed",
    "RequestInfo",
    "SchemaView",
    "Swept",
    "Unfilled",
    "Usage",
    "compiled",
    "planned",
    "primary_key",
    "procedure",
]


def home_of(name: str) -> str:
    """The module of one of these names."""
    homes = (changes, extend, results)
    return next((home.__name__ for home in homes if name in home.__all__), "odm.backends.bigtable")
