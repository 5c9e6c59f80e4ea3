"""odm: single-table design for DynamoDB and Bigtable.

Declare entities and access patterns as Pydantic models; the same queries run on DynamoDB, on Bigtable and on the
bundled engine. Start with `Table`, `Entity`, `PrimaryKey`, `AccessPattern` and `Store`.

`odm` has what applications use daily. `odm.results` has the types of what calls return, `odm.changes` those of the
change feed, and `odm.extend` what patterns, companions, procedures and backends of your own are made of.
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from odm import changes as changes
    from odm import extend as extend
    from odm import results as results
    from odm._moved import *  # noqa: F403  # deprecated, and known to type checkers
    from odm._public import *  # noqa: F403  # it has an __all__
    from odm._public import __all__ as __all__
else:
    from odm._published import lazy_names as _lazy_names

    _NAMES = {
        "odm.entities.blobs": "Blob LazyBytes",
        "odm.entities.collections": "Grouped collection select",
        "odm.entities.entity": "Entity",
        "odm.entities.markers": (
            "AUTO HLL TTL Cell CellVersions Columns Compressed Counter CreatedAt Id Max Min Revision Stored Sum "
            "UpdatedAt"
        ),
        "odm.entities.patterns": "AccessPattern PrimaryKey",
        "odm.entities.query": "Query",
        "odm.entities.upgrades": "upgrade",
        "odm.errors": (
            "BackendError BadCursor BadValue ConditionFailed Conflict ItemExists ItemInvalid ItemNotFound ItemTooLarge "
            "KeyValueError NoAccessPattern OdmError OutcomeUnknown SchemaError TableNotFound Throttled "
            "TransactionFailed Unsupported"
        ),
        "odm.expressions.build": (
            "add_to add_value append between contains discard_from exists field increment is_in missing not_ prepend "
            "remove set_ set_fields set_if_missing size some starts_with"
        ),
        "odm.expressions.collection": "MaxAge MaxVersions",
        "odm.expressions.nodes": "Action Condition",
        "odm.keys": "Shards",
        "odm.procedures.session": "Page",
        "odm.protocol.connection": "Backend",
        "odm.schema.table": "Table",
        "odm.stores.asynchronous": "AsyncBatch AsyncStore AsyncTransaction",
        "odm.stores.blobs": "Blobs",
        "odm.stores.sync": "Batch Store Transaction",
    }
    _load, __dir__ = _lazy_names(__name__, _NAMES)
    __all__ = sorted(  # noqa: PLE0605  # as in `odm._public`
        " ".join(_NAMES.values()).split(), key=lambda name: (not name.isupper(), name.islower(), name)
    )

    def __getattr__(name: str) -> object:
        if name in __all__:
            return _load(name)
        from importlib import import_module

        if name in {"changes", "extend", "results"}:  # annotations name them without an import
            return import_module(f"odm.{name}")
        moved = import_module("odm._moved")
        if name not in moved.__all__:
            raise AttributeError(f"module 'odm' has no attribute {name!r}")
        from warnings import warn

        home = moved.home_of(name)
        warn(f"{name} is in {home} now: write `from {home} import {name}`", DeprecationWarning, stacklevel=2)
        return getattr(import_module(home), name)
