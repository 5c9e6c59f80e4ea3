"""odm: single-table design for DynamoDB and Bigtable.

Declare entities and access patterns as Pydantic models; the same queries run on DynamoDB, on Bigtable and on the
bundled engine. Start with `Table`, `Entity`, `PrimaryKey`, `AccessPattern` and `Store`.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odm._public import *  # noqa: F403  # it has an __all__
    from odm._public import __all__ as __all__
else:
    # Each name is imported at its first use, as pydantic does it: a program starts with the cost of what it uses.
    _NAMES = {
        "entities.blobs": "Blob LazyBytes",
        "entities.changes": "Change Changed Inserted Removed",
        "entities.collections": "Grouped collection select",
        "entities.companions": "Effect",
        "entities.entity": "Entity",
        "entities.markers": (
            "AUTO HLL TTL Cell CellVersions Columns Compressed Counter CreatedAt Id Max Min "
            "Revision Stored Sum UpdatedAt"
        ),
        "entities.patterns": "AccessPattern PrimaryKey primary_key",
        "entities.query": "Query",
        "entities.upgrades": "upgrade",
        "entities.views": "EntityView PatternView PlanView SchemaView",
        "errors": (
            "BackendError BadCursor BadValue ConditionFailed Conflict ItemExists ItemInvalid "
            "ItemNotFound ItemTooLarge KeyValueError NoAccessPattern OdmError OutcomeUnknown "
            "SchemaError TableNotFound Throttled TransactionFailed Unsupported"
        ),
        "expressions.build": (
            "add_to add_value append between contains discard_from exists field increment is_in "
            "missing not_ prepend remove set_ set_fields set_if_missing size some starts_with"
        ),
        "expressions.collection": "GCRule MaxAge MaxVersions",
        "expressions.nodes": "Action Condition",
        "keys": "Shards",
        "observe.events": "RequestInfo",
        "observe.meter": "Meter Usage",
        "planner.compiled": "planned",
        "procedures.upkeep.backfill": "Backfilled Unfilled",
        "procedures.calls": "Calls Companion Procedure procedure",
        "procedures.writing.cell_versions": "CellVersion",
        "procedures.changes": "Changes",
        "procedures.companions.writes": "CompanionWrites",
        "procedures.explain": "Explanation",
        "procedures.reading.partial": "Partial",
        "procedures.raw": "RawItem",
        "procedures.session": "Page",
        "procedures.upkeep.sweep": "Swept",
        "protocol.changes": "ChangeShard",
        "protocol.connection": "Backend",
        "protocol.limits": "Limits",
        "schema.lint.finding": "LintFinding",
        "schema.table": "Table compiled",
        "stores.asynchronous": "AsyncBatch AsyncStore AsyncTransaction",
        "stores.blobs": "Blobs",
        "stores.sync": "Batch Store Transaction",
    }
    _MODULES = {name: f"odm.{module}" for module, names in _NAMES.items() for name in names.split()}
    __all__ = sorted(  # noqa: PLE0605  # as in `odm._public`
        [*_MODULES, "Gen"], key=lambda name: (not name.isupper(), name.islower(), name)
    )

    def __getattr__(name: str) -> object:
        from importlib import import_module
        from types import FunctionType

        if name == "Gen":
            value = import_module("odm.protocol.connection").CoreGen
        elif name in _MODULES:
            value = getattr(import_module(_MODULES[name]), name)
        else:
            raise AttributeError(f"module 'odm' has no attribute {name!r}")
        if isinstance(value, type | FunctionType):
            value.__module__ = "odm"  # of most, `odm._published.public` did it before
        globals()[name] = value
        return value

    def __dir__() -> list[str]:
        return sorted({*globals(), *__all__})
