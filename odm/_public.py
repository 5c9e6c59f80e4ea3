"""All public names of `odm`, for type checkers. The package imports the modules of the names that a program uses."""

from odm.entities.blobs import Blob, LazyBytes
from odm.entities.changes import Change, Changed, Inserted, Removed
from odm.entities.collections import Grouped, collection, select
from odm.entities.companions import Effect
from odm.entities.entity import Entity
from odm.entities.markers import (
    AUTO,
    HLL,
    TTL,
    Cell,
    CellVersions,
    Columns,
    Compressed,
    Counter,
    CreatedAt,
    Id,
    Max,
    Min,
    Revision,
    Stored,
    Sum,
    UpdatedAt,
)
from odm.entities.patterns import AccessPattern, PrimaryKey, primary_key
from odm.entities.query import Query
from odm.entities.upgrades import upgrade
from odm.entities.views import EntityView, PatternView, PlanView, SchemaView
from odm.errors import (
    BackendError,
    BadCursor,
    BadValue,
    ConditionFailed,
    Conflict,
    ItemExists,
    ItemInvalid,
    ItemNotFound,
    ItemTooLarge,
    KeyValueError,
    NoAccessPattern,
    OdmError,
    OutcomeUnknown,
    SchemaError,
    TableNotFound,
    Throttled,
    TransactionFailed,
    Unsupported,
)
from odm.expressions.build import (
    add_to,
    add_value,
    append,
    between,
    contains,
    discard_from,
    exists,
    field,
    increment,
    is_in,
    missing,
    not_,
    prepend,
    remove,
    set_,
    set_fields,
    set_if_missing,
    size,
    some,
    starts_with,
)
from odm.expressions.collection import GCRule, MaxAge, MaxVersions
from odm.expressions.nodes import Action, Condition
from odm.keys import Shards
from odm.observe.events import RequestInfo
from odm.observe.meter import Meter, Usage
from odm.planner.compiled import planned
from odm.procedures.calls import Calls, Companion, Procedure, procedure
from odm.procedures.changes import Changes
from odm.procedures.companions.writes import CompanionWrites
from odm.procedures.explain import Explanation
from odm.procedures.raw import RawItem
from odm.procedures.reading.partial import Partial
from odm.procedures.session import Page
from odm.procedures.upkeep.backfill import Backfilled, Unfilled
from odm.procedures.upkeep.sweep import Swept
from odm.procedures.writing.cell_versions import CellVersion
from odm.protocol.changes import ChangeShard
from odm.protocol.connection import Backend
from odm.protocol.connection import CoreGen as Gen
from odm.protocol.limits import Limits
from odm.schema.lint.finding import LintFinding
from odm.schema.table import Table, compiled
from odm.stores.asynchronous import AsyncBatch, AsyncStore, AsyncTransaction
from odm.stores.blobs import Blobs
from odm.stores.sync import Batch, Store, Transaction

__all__ = [
    "AUTO",
    "HLL",
    "TTL",
    "AccessPattern",
    "Action",
    "AsyncBatch",
    "AsyncStore",
    "AsyncTransaction",
    "Backend",
    "BackendError",
    "Backfilled",
    "BadCursor",
    "BadValue",
    "Batch",
    "Blob",
    "Blobs",
    "Calls",
    "Cell",
    "CellVersion",
    "CellVersions",
    "Change",
    "ChangeShard",
    "Changed",
    "Changes",
    "Columns",
    "Companion",
    "CompanionWrites",
    "Compressed",
    "Condition",
    "ConditionFailed",
    "Conflict",
    "Counter",
    "CreatedAt",
    "Effect",
    "Entity",
    "EntityView",
    "Explanation",
    "GCRule",
    "Gen",
    "Grouped",
    "Id",
    "Inserted",
    "ItemExists",
    "ItemInvalid",
    "ItemNotFound",
    "ItemTooLarge",
    "KeyValueError",
    "LazyBytes",
    "Limits",
    "LintFinding",
    "Max",
    "MaxAge",
    "MaxVersions",
    "Meter",
    "Min",
    "NoAccessPattern",
    "OdmError",
    "OutcomeUnknown",
    "Page",
    "Partial",
    "PatternView",
    "PlanView",
    "PrimaryKey",
    "Procedure",
    "Query",
    "RawItem",
    "Removed",
    "RequestInfo",
    "Revision",
    "SchemaError",
    "SchemaView",
    "Shards",
    "Store",
    "Stored",
    "Sum",
    "Swept",
    "Table",
    "TableNotFound",
    "Throttled",
    "Transaction",
    "TransactionFailed",
    "Unfilled",
    "Unsupported",
    "UpdatedAt",
    "Usage",
    "add_to",
    "add_value",
    "append",
    "between",
    "collection",
    "compiled",
    "contains",
    "discard_from",
    "exists",
    "field",
    "increment",
    "is_in",
    "missing",
    "not_",
    "planned",
    "prepend",
    "primary_key",
    "procedure",
    "remove",
    "select",
    "set_",
    "set_fields",
    "set_if_missing",
    "size",
    "some",
    "starts_with",
    "upgrade",
]
