"""What authors need: of procedures, companions and patterns, of tools that read a compiled table, and of backends.

Applications need only `odm`. Names load at their first use, as those of `odm` do.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odm.concurrency import RateLimit, in_tasks, in_threads
    from odm.entities.companions import Effect
    from odm.entities.patterns import primary_key
    from odm.entities.views import EntityView, PatternView, PlanView, SchemaView
    from odm.planner.compile import planned
    from odm.procedures.calls import Calls, Companion, Procedure, procedure
    from odm.procedures.companions.writes import CompanionWrites
    from odm.protocol.connection import CoreGen as Gen
    from odm.protocol.limits import Limits
    from odm.schema.lint.finding import LintFinding
    from odm.schema.table import compiled
else:
    from odm._published import lazy_names

    __getattr__, __dir__ = lazy_names(
        __name__,
        {
            "odm.concurrency": "RateLimit in_tasks in_threads",
            "odm.entities.companions": "Effect",
            "odm.entities.patterns": "primary_key",
            "odm.entities.views": "EntityView PatternView PlanView SchemaView",
            "odm.planner.compile": "planned",
            "odm.procedures.calls": "Calls Companion Procedure procedure",
            "odm.procedures.companions.writes": "CompanionWrites",
            "odm.protocol.connection": "Gen=CoreGen",
            "odm.protocol.limits": "Limits",
            "odm.schema.lint.finding": "LintFinding",
            "odm.schema.table": "compiled",
        },
    )

__all__ = [
    "Calls",
    "Companion",
    "CompanionWrites",
    "Effect",
    "EntityView",
    "Gen",
    "Limits",
    "LintFinding",
    "PatternView",
    "PlanView",
    "Procedure",
    "RateLimit",
    "SchemaView",
    "compiled",
    "in_tasks",
    "in_threads",
    "planned",
    "primary_key",
    "procedure",
]
